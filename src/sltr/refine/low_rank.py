"""Low-rank refits of a batch of coefficients, rank after rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sltr._array import Array, array_namespace
from sltr.refine.ranks import next_rank, slopes, spectra
from sltr.refine.sweeps import Structure, Sweeps
from sltr.solvers.components import CPComponents, TuckerComponents
from sltr.tensor import flatten

__all__ = ["Refit", "always", "cp_refits", "tucker_refits", "tucker_refits_of_rank"]

# The ridge (its place among the sweeps') whose answer the next rank grows from.
GROW_FROM = 1
# Of a seed, in single precision: what its terms leave of it is no term any more.
ROUNDING = 1e-4


@dataclass(frozen=True, eq=False)
class Refit:
    """One setting's refit of a batch: fitted values of all samples, and tensors."""

    rank: int | tuple[int, ...]
    ridge: float
    fitted: Array  # (B, n), centred: without the intercept
    structure: Structure

    def coef(self) -> Array:
        """Return the refitted coefficients, shape (B, p1, …, pM)."""
        return self.structure.coef()


def always(fitted: Array) -> bool:
    """Go on in any case."""
    return True


def cp_refits(
    problem: Sweeps,
    seeds: Sequence[Array],
    largest_rank: int,
    goes_on: Callable[[Array], bool] = always,
) -> Iterator[list[Refit]]:
    """Refit a batch by sums of outer products, rank after rank.

    Each rank starts from the leading terms of each of the `seeds`, and from the last
    answer with the leading term of the loss's gradient, as does a seed that has no
    more terms.

    Parameters
    ----------
    problem : Sweeps
    seeds : sequence of arrays of shape (B, p1, …, pM)
    largest_rank : int
    goes_on : callable, optional
        Given a rank's fitted values (B, n) under the first ridge, says whether lower
        ones are worth trying.

    Yields
    ------
    list of Refit
        One for each ridge, of a rank. To stop after a rank costs nothing for those
        that follow.
    """
    xp = array_namespace(seeds[0])
    chains = [CPComponents.start(seed) for seed in seeds]
    gradient = problem.descent(0.0 * problem.subsets.y)
    grown = CPComponents.start(xp.reshape(gradient, seeds[0].shape))
    for rank in range(1, largest_rank + 1):
        found = problem.along_ridges([grown, *chains], goes_on)
        yield _refits(rank, found)
        if rank < largest_rank:
            _, stem, fitted = found[min(GROW_FROM, len(found) - 1)]
            extra = xp.reshape(problem.descent(fitted), seeds[0].shape)
            grown = stem.grown(extra)
            pairs = zip(chains, seeds, strict=True)
            chains = [_continued(chain, seed, extra) for chain, seed in pairs]


def tucker_refits(
    problem: Sweeps,
    seeds: Sequence[Array],
    largest_rank: int,
    goes_on: Callable[[Array], bool] = always,
) -> Iterator[list[Refit]]:
    """Refit a batch by Tucker tensors, from truncated seeds, rank after rank.

    From all one upwards: a rank rises in the mode in which the loss falls most.
    Parameters and what is yielded are those of `cp_refits`.
    """
    shape = tuple(seeds[0].shape[1:])
    most = [min(size, largest_rank) for size in shape]
    known = spectra(seeds[-1])
    rank: tuple[int, ...] | None = (1,) * len(shape)
    while rank is not None:
        found = problem.along_ridges(_truncated(seeds, rank), goes_on)
        yield _refits(rank, found)
        _, stem, fitted = found[min(GROW_FROM, len(found) - 1)]
        gradient = problem.descent(fitted)
        gradient = array_namespace(gradient).reshape(gradient, seeds[0].shape)
        rank = next_rank(rank, most, slopes(stem, gradient), known)


def tucker_refits_of_rank(
    problem: Sweeps, seeds: Sequence[Array], rank: tuple[int, ...]
) -> list[Refit]:
    """Refit a batch by Tucker tensors of one rank, for each ridge."""
    return _refits(rank, problem.along_ridges(_truncated(seeds, rank), always))


def _refits(
    rank: int | tuple[int, ...], found: Sequence[tuple[float, Structure, Array]]
) -> list[Refit]:
    return [Refit(rank, ridge, fitted, structure) for ridge, structure, fitted in found]


def _truncated(seeds: Sequence[Array], rank: tuple[int, ...]) -> list[TuckerComponents]:
    return [TuckerComponents.truncated(seed, rank) for seed in seeds]


def _continued(chain: CPComponents, seed: Array, other: Array) -> CPComponents:
    """Return a seed's terms and the next one; that of `other` where none is left.

    Else rounding, which no two array libraries share, would choose the start.
    """
    xp = array_namespace(seed)
    rest = seed - chain.coef()
    left = _norms(rest) > ROUNDING * _norms(seed)
    extra = xp.where(left[(..., *([None] * (seed.ndim - 1)))], rest, other)
    longer = chain.grown(extra)
    # What is not of the seed has a direction, but no size: the rest stays the rest.
    size = xp.where(left, longer.sizes[:, -1], 0.0)
    return replace(longer, sizes=xp.concat([chain.sizes, size[:, None]], axis=1))


def _norms(tensors: Array) -> Array:
    return array_namespace(tensors).linalg.vector_norm(flatten(tensors), axis=-1)
