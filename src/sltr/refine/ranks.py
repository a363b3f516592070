"""Tucker ranks that rise mode by mode, as coefficient and loss ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt

from sltr.arrays import Array, array_namespace, clip, eigh, singular_values, to_python
from sltr.core.tensor import flatten, own_mode_product, unfold
from sltr.refine.factors import CPComponents, TuckerComponents
from sltr.refine.sweeps import Structure, Sweeps


def next_rank(
    rank: tuple[int, ...],
    most: Sequence[int],
    slopes: Sequence[float],
    spectra: Sequence[Sequence[float]],
) -> tuple[int, ...] | None:
    """Return the Tucker rank to try after another, or None if there is none.

    One more direction joins in the mode of the largest slope, where a tensor of that
    rank exists: no rank exceeds the product of the others. Else two modes rise
    together, those whose next singular values are the largest.

    Parameters
    ----------
    rank : tuple of int
    most : sequence of int
        The largest rank of each mode.
    slopes : sequence of float
        What one more direction in a mode promises, given the others (`slopes`).
    spectra : sequence of sequences of float
        Squared singular values of each mode (`spectra`).

    Examples
    --------
    >>> spectra = [[0.9, 0.1, 0.0]] * 2 + [[1.0, 0.0, 0.0]]
    >>> next_rank((1, 1, 1), (3, 3, 3), [0.1, 0.2, 0.3], spectra)
    (2, 2, 1)
    >>> next_rank((2, 2, 1), (3, 3, 3), [0.1, 0.2, 0.3], spectra)
    (2, 2, 2)
    """
    found, modes = list(rank), range(len(rank))
    room = [m for m in modes if rank[m] < most[m]]
    alone = [m for m in room if (rank[m] + 1) * rank[m] <= prod(rank)]
    if alone:
        found[max(alone, key=lambda m: slopes[m])] += 1
        return tuple(found)
    for mode in sorted(room, key=lambda m: -spectra[m][rank[m]])[:2]:
        found[mode] += 1
    exists = all(own**2 <= prod(found) for own in found)
    return tuple(found) if exists and len(room) > 1 else None


def slopes(structure: TuckerComponents, gradient: Array) -> list[float]:
    """Return how steeply the loss falls along one more direction in each mode.

    The largest singular value of the gradient (B, p1, …, pM) between what the mode
    does not use yet and what the others use, squared, in units of that of noise.
    """
    xp = array_namespace(gradient)
    found = []
    for mode, own in enumerate(structure.factors):
        inner = gradient
        for other, factor in enumerate(structure.factors):
            if other != mode:
                inner = own_mode_product(inner, xp.matrix_transpose(factor), other)
        matrix = unfold(inner, mode)
        matrix = matrix - own @ (xp.matrix_transpose(own) @ matrix)
        largest = xp.max(singular_values(matrix), axis=1)
        noise = sqrt(matrix.shape[1] - own.shape[2]) + sqrt(matrix.shape[2])
        found.append(float(xp.mean(largest**2)) / noise**2)
    return found


def spectra(seeds: Array) -> list[list[float]]:
    """Return each mode's squared singular values, descending, as shares.

    The mean over a batch of coefficients (B, p1, …, pM).
    """
    xp = array_namespace(seeds)
    found = []
    for mode in range(seeds.ndim - 1):
        rows = unfold(seeds, mode)
        energies = clip(eigh(rows @ xp.matrix_transpose(rows))[0], 0.0, None)
        total = xp.sum(energies, axis=1, keepdims=True)
        shares = energies / xp.where(total > 0, total, 1.0)
        found.append(to_python(xp.flip(xp.mean(shares, axis=0), axis=0)))
    return found


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
