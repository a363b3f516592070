"""Low-rank refits of a batch of coefficients, rank after rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sltr._array import Array, array_namespace
from sltr.refine.ranks import next_rank, slopes, spectra
from sltr.refine.sweeps import Structure, Sweeps
from sltr.solvers.components import CPComponents, TuckerComponents
from sltr.tensor import flatten

__all__ = ["Refit", "cp_refits", "tucker_refits", "tucker_refits_of_rank"]

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


def cp_refits(
    problem: Sweeps, seeds: Sequence[Array], largest_rank: int
) -> Iterator[Refit]:
    """Refit a batch by sums of outer products, rank after rank.

    Each rank starts from the leading terms of each of the `seeds`, and from the last
    answer with the leading term of the loss's gradient, as does a seed that has no
    more terms.

    Parameters
    ----------
    problem : Sweeps
    seeds : sequence of arrays of shape (B, p1, …, pM)
    largest_rank : int

    Yields
    ------
    Refit
        For each rank and, within it, each ridge. To stop after a rank costs nothing
        for those that follow.
    """
    xp = array_namespace(seeds[0])
    chains = [CPComponents.start(seed) for seed in seeds]
    gradient = problem.descent(0.0 * problem.subsets.y)
    grown = CPComponents.start(xp.reshape(gradient, seeds[0].shape))
    for rank in range(1, largest_rank + 1):
        for level, found in enumerate(problem.along_ridges([grown, *chains])):
            ridge, structure, fitted = found
            if level == min(GROW_FROM, len(problem.ridges) - 1):
                stem, gradient = structure, problem.descent(fitted)
            yield Refit(rank, ridge, fitted, structure)
        if rank < largest_rank:
            extra = xp.reshape(gradient, seeds[0].shape)
            grown = stem.grown(extra)
            pairs = zip(chains, seeds, strict=True)
            chains = [_continued(chain, seed, extra) for chain, seed in pairs]


def tucker_refits(
    problem: Sweeps, seeds: Sequence[Array], largest_rank: int
) -> Iterator[Refit]:
    """Refit a batch by Tucker tensors, from truncated seeds, rank after rank.

    From all one upwards: a rank rises in the mode in which the loss falls most.

    Yields
    ------
    Refit
        For each rank and, within it, each ridge.
    """
    shape = tuple(seeds[0].shape[1:])
    most = [min(size, largest_rank) for size in shape]
    known = spectra(seeds[-1])
    rank: tuple[int, ...] | None = (1,) * len(shape)
    while rank is not None:
        found = problem.along_ridges(_truncated(seeds, rank))
        for level, (ridge, structure, fitted) in enumerate(found):
            if level == min(GROW_FROM, len(problem.ridges) - 1):
                stem, gradient = structure, problem.descent(fitted)
            yield Refit(rank, ridge, fitted, structure)
        gradient = array_namespace(gradient).reshape(gradient, seeds[0].shape)
        rank = next_rank(rank, most, slopes(stem, gradient), known)


def tucker_refits_of_rank(
    problem: Sweeps, seeds: Sequence[Array], rank: tuple[int, ...]
) -> Iterator[Refit]:
    """Refit a batch by Tucker tensors of one rank; yields refits for each ridge."""
    for ridge, structure, fitted in problem.along_ridges(_truncated(seeds, rank)):
        yield Refit(rank, ridge, fitted, structure)


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
