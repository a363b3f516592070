"""Low-rank refits of a batch, rank after rank.

`Sweeps` solves batches of ridge problems for the blocks of CP or Tucker tensors in
turn: a few sweeps from several starts, the best of which goes on, then lower ridges. A
`RankStep` is one rank of them and knows the next: CP ranks rise by one, Tucker ranks
mode by mode, where the loss falls most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod, sqrt
from typing import Any, Self

from sltr.arrays import (
    Array,
    array_namespace,
    clip,
    device,
    eigh,
    repeated,
    singular_values,
    solves_at_once,
    to_python,
)
from sltr.arrays.resources import row_ranges
from sltr.core.tensor import flatten, own_mode_product, unfold
from sltr.refine.factors import (
    CP,
    Structure,
    Tucker,
    sweep,
)
from sltr.refine.subsets import Subsets


@dataclass(frozen=True, eq=False)
class Swept:
    """What sweeps under one ridge found, for a batch of B items."""

    ridge: float
    structure: Structure
    # (B, n) of all samples, centred: without the intercept. (B, K, n) of K responses
    # that share a tensor.
    fitted: Array
    # What was swept under the first ridge.
    starts: tuple[Structure, ...] = ()

    def coef(self) -> Array:
        """Return the coefficients, (B, p1, …, pM)."""
        return self.structure.coef()


@dataclass(frozen=True, eq=False)
class Sweeps:
    """The problem that sweeps lower, one mode after another, for a batch.

    With A the weighted, centred samples it is

        ‖y − A·vec(W)‖² + ridge · variance · Σweight · ‖W‖²,

    W of Tucker rank (at most) r in every mode, or a sum of r outer products.
    Samples of weight zero take no part, but get fitted values.
    """

    samples: Any  # Unfoldings, sliced ones, or a design that stays where it is
    subsets: Subsets
    variance: Array  # (B,), `feature_variance` of the subsets
    # Descending, relative to the features' mean energy: a strong one, whose objective
    # has few minima, and down to nearly none, all from the first one's structure.
    ridges: Sequence[float]
    n_sweeps: int  # under each ridge
    n_starting_sweeps: int  # from all starts, before the best of them goes on alone

    def visits(self, n_modes: int) -> tuple[int, ...]:
        """Return the order of the modes: of samples, then of shared responses."""
        order = self.samples.order
        return (*order, *range(len(order), n_modes))

    def descent(self, fitted: Array) -> Array:
        """Return Aᵀ(y − fitted), (B, P), the direction in which the loss falls."""
        # Centred and weighted, a residual sums to zero: samples need no centring.
        residual = self.subsets.weight * (self.subsets.target - fitted)
        return self.samples.spread(residual)

    def first_ridge(self, starts: Sequence[Structure]) -> Swept:
        """Sweep under the first ridge, from all starts of every item.

        After a few sweeps the start of the least objective goes on alone.
        """
        ridge, structure, n_sweeps = self.ridges[0], joined(starts), self.n_sweeps
        if len(starts) > 1:
            ridges = [ridge] * len(starts)
            swept = self._swept(structure, ridges, self.n_starting_sweeps)
            structure = take(swept[0], self._best_starts(*swept))
            n_sweeps -= self.n_starting_sweeps
        return Swept(ridge, *self._swept(structure, [ridge], n_sweeps), tuple(starts))

    def lower_ridges(self, first: Swept) -> list[Swept]:
        """Sweep on under each lower ridge, from the structure of the first one."""
        lower = self.ridges[1:]
        if not lower:
            return []
        together = joined([first.structure] * len(lower))
        structure, fitted = self._swept(together, lower, self.n_sweeps)
        runs = [k * self.variance.shape[0] + self._items for k in range(len(lower))]
        xp = array_namespace(self.variance)
        return [
            Swept(ridge, take(structure, run), xp.take(fitted, run, axis=0))
            for ridge, run in zip(lower, runs, strict=True)
        ]

    @cached_property
    def _items(self) -> Array:
        xp = array_namespace(self.variance)
        place = device(self.variance)
        return xp.arange(self.variance.shape[0], dtype=xp.int64, device=place)

    @cached_property
    def _penalty(self) -> Array:
        """The penalty of each item under a ridge of one, (B,)."""
        xp = array_namespace(self.variance)
        return self.variance * xp.sum(self.subsets.weight, axis=1)

    @cached_property
    def _known_batches(self) -> dict[tuple[float, ...], tuple[Subsets, Array]]:
        return {}

    def _batch(self, ridges: tuple[float, ...]) -> tuple[Subsets, Array]:
        """Return a run of all items for each of the ridges, and their penalties."""
        if ridges not in self._known_batches:
            items = list(range(self.subsets.y.shape[0])) * len(ridges)
            subsets = self.subsets if len(ridges) == 1 else self.subsets.take(items)
            penalty = [ridge * self._penalty for ridge in ridges]
            penalty = array_namespace(self.variance).concat(penalty, axis=0)
            self._known_batches[ridges] = subsets, penalty
        return self._known_batches[ridges]

    def _swept(
        self, structure: Structure, ridges: Sequence[float], n_sweeps: int
    ) -> tuple[Structure, Array]:
        """Return a structure after some sweeps, and its fitted values.

        It is a run of all items for each of the `ridges`.
        """
        subsets, penalty = self._batch(tuple(ridges))
        if self.samples.batch_entries is None:
            return self._batch_swept(structure, subsets, penalty, n_sweeps)
        xp, parts = array_namespace(self.variance), []
        # Memory is bounded: so many items at a time.
        size = self.samples.batch_entries // (structure.n_seen * subsets.y.shape[1])
        for rows in row_ranges(penalty.shape[0], size):
            items = list(range(rows.start, rows.stop))
            some = take(structure, xp.asarray(items))
            part = (subsets.take(items), penalty[rows])
            parts.append(self._batch_swept(some, *part, n_sweeps))
        fitted = xp.concat([values for _, values in parts], axis=0)
        return joined([one for one, _ in parts]), fitted

    def _batch_swept(
        self, structure: Structure, subsets: Subsets, penalty: Array, n_sweeps: int
    ) -> tuple[Structure, Array]:
        """Do so for all items of some subsets at once."""
        n_samples, order = subsets.y.shape[1], self.samples.order
        solve = partial(solve_ridge_block, subsets, penalty)
        start = Point.at_start(structure, order[-1], n_samples)

        def swept(*state: Array) -> tuple[Array, ...]:
            point = start.of_arrays(list(state))
            return tuple(sweep(self.samples, n_samples, point, solve).arrays())

        largest = max(prod(block.shape[1:]) for block in structure.blocks)
        record = n_sweeps >= WORTH_RECORDING and solves_at_once(penalty, largest)
        found = repeated(swept, tuple(start.arrays()), record=record)(n_sweeps)
        end = start.of_arrays(list(found))
        return end.structure, subsets.fitted(end.design, end.vector)

    def _best_starts(self, structure: Structure, fitted: Array) -> Array:
        """Return the index of each item's start of the least objective, (B,)."""
        xp = array_namespace(fitted)
        n_items, (n_all, n_samples) = self.variance.shape[0], self.subsets.y.shape
        residual = self.subsets.target - xp.reshape(fitted, (-1, n_all, n_samples))
        loss = xp.linalg.vecdot(self.subsets.weight * residual, residual)
        # Responses that share a tensor are one item.
        loss = xp.sum(xp.reshape(loss, (loss.shape[0], n_items, -1)), axis=2)
        coef = flatten(structure.coef())
        squares = xp.reshape(xp.linalg.vecdot(coef, coef), (-1, n_items))
        objective = loss + self.ridges[0] * self._penalty * squares
        best = xp.astype(xp.argmin(objective, axis=0), xp.int64)
        return self._items + n_items * best


@dataclass(frozen=True, eq=False)
class Point:
    """Structures during a sweep, with the last block's design and values."""

    structure: Structure
    design: Array | None = None  # (B, d, n)
    vector: Array | None = None  # (B, d)

    @staticmethod
    def at_start(structure: Structure, last: int, n_samples: int) -> Point:
        """Return the structures before a sweep, of zeros elsewhere.

        The last block is the factor of this mode, or the core.
        """
        is_cp = isinstance(structure, CP)
        block = structure.blocks[last] if is_cp else structure.blocks[-1]
        xp, size = array_namespace(block), prod(block.shape[1:])
        like = {"dtype": block.dtype, "device": device(block)}
        design = xp.zeros((block.shape[0], size, n_samples), **like)
        return Point(structure, design, xp.zeros((block.shape[0], size), **like))

    def arrays(self) -> list[Array]:
        """Return all arrays, in the order of `of_arrays`."""
        return [*self.structure.arrays(), self.design, self.vector]

    def of_arrays(self, arrays: list[Array]) -> Point:
        """Return a point of the same form with other arrays."""
        *parts, design, vector = arrays
        return Point(self.structure.of_arrays(parts), design, vector)


def joined(parts: Sequence[Structure]) -> Structure:
    """Return several batches of one form as one."""
    if len(parts) == 1:
        return parts[0]
    lists = zip(*(part.arrays() for part in parts), strict=True)
    xp = array_namespace(parts[0].factors[0])
    return parts[0].of_arrays([xp.concat(arrays, axis=0) for arrays in lists])


def parted(structure: Structure, n_parts: int) -> list[Any]:
    """Return a batch as several of equal size, one after another: undoes `joined`."""
    arrays = structure.arrays()
    size = arrays[0].shape[0] // n_parts
    runs = [slice(k * size, (k + 1) * size) for k in range(n_parts)]
    return [structure.of_arrays([a[run, ...] for a in arrays]) for run in runs]


def take(structure: Structure, items: Array) -> Structure:
    """Return the items of these indices."""
    xp = array_namespace(items)
    return structure.of_arrays([xp.take(a, items, axis=0) for a in structure.arrays()])


def solve_ridge_block(
    subsets: Subsets, penalty: Array, point: Point, index: int, design: Array
) -> Point:
    """Solve for one block on its design (B, d, n), under penalties (B,)."""
    structure = point.structure
    vector = subsets.ridge(design, penalty, structure.prior(index))
    vector = structure.pruned(vector)
    return Point(structure.with_block(index, vector), design, vector)


# To record a sweep takes a device about as long as two sweeps.
WORTH_RECORDING = 4
# The ridge (its place among those that were swept) from which the next rank grows.
GROW_FROM = 1
# In single precision, less than this share of a seed is rounding, not a term.
ROUNDING = 1e-4


@dataclass(frozen=True, eq=False)
class RankStep:
    """Refits of a batch at one rank: under the first ridge, then under lower ones.

    Whoever searches asks for lower ridges and for the next rank; a step decides
    nothing by itself. Seeds are what the refits start from, (B, p1, …, pM) each.
    """

    problem: Sweeps
    seeds: Sequence[Array]
    largest_rank: int
    rank: Any
    swept: tuple[Swept, ...]

    def with_lower_ridges(self) -> Self:
        """Return the step with refits under all ridges."""
        first = self.swept[0]
        return replace(self, swept=(first, *self.problem.lower_ridges(first)))

    def _growth(self) -> tuple[Any, Array]:
        """Return the structure to grow from, and the direction of steepest descent."""
        base = self.swept[min(GROW_FROM, len(self.swept) - 1)]
        gradient = self.problem.descent(base.fitted)
        xp = array_namespace(gradient)
        return base.structure, xp.reshape(gradient, self.seeds[0].shape)


@dataclass(frozen=True, eq=False)
class CPStep(RankStep):
    """Sums of `rank` outer products.

    Each rank starts from the leading terms of each seed, and from the last structure
    with the leading term of the loss's gradient.
    """

    leading: Sequence[CP]  # the leading terms of each seed

    @staticmethod
    def first(problem: Sweeps, seeds: Sequence[Array], largest_rank: int) -> CPStep:
        """Refit by one outer product."""
        xp = array_namespace(seeds[0])
        gradient = problem.descent(0.0 * problem.subsets.y)
        tensors = [xp.reshape(gradient, seeds[0].shape), *seeds]
        # One batch for all: power iterations are many small products.
        order = problem.visits(len(seeds[0].shape) - 1)
        terms = parted(CP.start(xp.concat(tensors, axis=0), order), len(tensors))
        swept = problem.first_ridge(terms)
        return CPStep(problem, seeds, largest_rank, 1, (swept,), terms[1:])

    def next_rank(self) -> CPStep | None:
        """Refit by one more outer product; None after the largest rank."""
        if self.rank == self.largest_rank:
            return None
        structure, gradient = self._growth()
        starts = [structure, *self.leading]
        rests = [
            _rest(terms, seed, gradient)
            for terms, seed in zip(self.leading, self.seeds, strict=True)
        ]
        tensors = [gradient, *(tensor for tensor, _ in rests)]
        xp = array_namespace(gradient)
        order = self.problem.visits(gradient.ndim - 1)
        terms = parted(CP.start(xp.concat(tensors, axis=0), order), len(tensors))
        # What is not of the seed has a direction, but no size: the rest stays the rest.
        for k, (_, some) in enumerate(rests, start=1):
            size = xp.where(some[:, None], terms[k].sizes, 0.0)
            terms[k] = replace(terms[k], sizes=size)
        grown = [
            start.with_terms(new) for start, new in zip(starts, terms, strict=True)
        ]
        swept = self.problem.first_ridge(grown)
        return replace(self, rank=self.rank + 1, swept=(swept,), leading=grown[1:])


@dataclass(frozen=True, eq=False)
class TuckerStep(RankStep):
    """Tucker tensors that start from truncated seeds.

    From all one upwards, a rank rises in the mode in which the loss falls most.
    """

    energies: Sequence[Sequence[float]]  # `spectra` of the last seed
    n_asked: int  # the first items, which say in which mode the rank rises

    @staticmethod
    def of_rank(
        problem: Sweeps,
        seeds: Sequence[Array],
        largest_rank: int,
        rank: tuple[int, ...],
        energies: Sequence[Sequence[float]] | None = None,
        n_asked: int | None = None,
    ) -> TuckerStep:
        """Refit by tensors of one rank."""
        together = array_namespace(seeds[0]).concat(list(seeds), axis=0)
        truncated = Tucker.truncated(together, rank)
        swept = (problem.first_ridge(parted(truncated, len(seeds))),)
        n_asked = seeds[-1].shape[0] if n_asked is None else n_asked
        energies = spectra(seeds[-1][:n_asked, ...]) if energies is None else energies
        return TuckerStep(problem, seeds, largest_rank, rank, swept, energies, n_asked)

    @staticmethod
    def first(
        problem: Sweeps,
        seeds: Sequence[Array],
        largest_rank: int,
        n_asked: int | None = None,
    ) -> TuckerStep:
        """Refit by tensors of rank one in every mode."""
        rank = (1,) * (seeds[0].ndim - 1)
        return TuckerStep.of_rank(problem, seeds, largest_rank, rank, None, n_asked)

    def next_rank(self) -> TuckerStep | None:
        """Refit by tensors of the next rank; None if there is none."""
        structure, gradient = self._growth()
        most = [min(size, self.largest_rank) for size in gradient.shape[1:]]
        structure, gradient = self._asked(structure), gradient[: self.n_asked, ...]
        rank = next_rank(self.rank, most, slopes(structure, gradient), self.energies)
        if rank is None:
            return None
        same = (self.problem, self.seeds, self.largest_rank)
        return TuckerStep.of_rank(*same, rank, self.energies, self.n_asked)

    def _asked(self, structure: Tucker) -> Tucker:
        arrays = [array[: self.n_asked, ...] for array in structure.arrays()]
        return structure.of_arrays(arrays)


def _rest(terms: CP, seed: Array, gradient: Array) -> tuple[Array, Array]:
    """Return what a seed's leading terms leave of it, and whether that is something.

    Where nothing is left the gradient serves; else rounding, which no two array
    libraries share, would choose the start.
    """
    xp = array_namespace(seed)
    rest = seed - terms.coef()
    some = _norms(rest) > ROUNDING * _norms(seed)
    return xp.where(some[(..., *([None] * (seed.ndim - 1)))], rest, gradient), some


def _norms(tensors: Array) -> Array:
    return array_namespace(tensors).linalg.vector_norm(flatten(tensors), axis=-1)


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

    `most` is the largest rank of each mode; `slopes` and `spectra` are those of the
    functions of these names below.

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


def slopes(structure: Tucker, gradient: Array) -> list[float]:
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
        size, others = rows.shape[1:]
        if size > others:  # a long mode is decomposed along the others
            rows = xp.matrix_transpose(rows)
        energies = clip(eigh(rows @ xp.matrix_transpose(rows))[0], 0.0, None)
        total = xp.sum(energies, axis=1, keepdims=True)
        shares = energies / xp.where(total > 0, total, 1.0)
        known = to_python(xp.flip(xp.mean(shares, axis=0), axis=0))
        found.append(known + [0.0] * max(0, size - others))
    return found
