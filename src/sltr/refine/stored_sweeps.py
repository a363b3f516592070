"""Sweeps over samples that stay where they are: a block of every structure is one pass.

Ranks and kinds, starts, ridges and items share the pass. It makes the normal equations
of their blocks, d × d for d unknowns, which take the same memory however many samples
there are. Apart from `low_rank.py`, whose sweeps hold the designs of all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from sltr.arrays import Array
from sltr.arrays.resources import return_freed_memory, row_ranges
from sltr.core.tensor import flatten, unfold
from sltr.refine.factors import CP, Shape, Structure, Tucker
from sltr.refine.low_rank import Sweeps, Swept, joined, take
from sltr.refine.reweight import added
from sltr.refine.subsets import Subsets
from sltr.samples.samples import BLOCK_ENTRIES

# How many entries are unpacked at a time: a cache holds them.
UNPACKED_ENTRIES = 250_000
# From this size on, what is freed is returned before every product.
LARGE_BYTES = 50_000_000
# Of normal numbers these steps, in standard deviations, keep most (J. Max, 1960).
BEST_STEPS = {8: 0.031, 4: 0.335}


@dataclass(frozen=True, eq=False)
class StoredSweeps(Sweeps):
    """What `Sweeps` lowers; `samples` are a `Design` that stays where it is."""

    shape: Shape
    order: tuple[int, ...]  # in which modes are visited

    def first_ridges(self, many: Sequence[Sequence[Structure]]) -> list[Swept]:
        """Do what `first_ridge` does for several ranks at once, each with its starts.

        Losses of starts are known without a pass.
        """
        ridge, n_sweeps = self.ridges[0], self.n_sweeps
        best = [starts[0] for starts in many]
        if max(map(len, many)) > 1:
            starts = [(one, ridge) for some in many for one in some]
            found = iter(self._losses(starts, self.n_starting_sweeps))
            best = [self._least([next(found) for _ in some]) for some in many]
            n_sweeps -= self.n_starting_sweeps
        return self.swept_on([(one, ridge) for one in best], n_sweeps)

    def swept_on(
        self, pairs: Sequence[tuple[Structure, float]], n_sweeps: int | None = None
    ) -> list[Swept]:
        """Sweep structures, each under its ridge, and find what they predict."""
        if not pairs:
            return []
        now = self._losses(pairs, self.n_sweeps if n_sweeps is None else n_sweeps)
        structures, ridges = [one for one, _ in now], [ridge for _, ridge in pairs]
        found = zip(ridges, structures, self._fitted(structures), strict=True)
        return [Swept(r, one, self.subsets.centred(values)) for r, one, values in found]

    def _least(self, starts: Sequence[tuple[Structure, np.ndarray]]) -> Structure:
        """Return each item's start of the least objective, given their losses (B,)."""
        objectives = []
        for structure, loss in starts:
            coef = flatten(structure.coef())
            squares = np.einsum("bp,bp->b", coef, coef)
            objectives.append(loss + self.ridges[0] * self._penalty * squares)
        best = np.argmin(objectives, axis=0)
        together = joined([structure for structure, _ in starts])
        return take(together, self._items + len(self.variance) * best)

    def _losses(
        self, pairs: Sequence[tuple[Structure, float]], n_sweeps: int
    ) -> list[tuple[Structure, np.ndarray]]:
        """Return structures after some sweeps, and their squared errors (B,)."""
        penalties = [ridge * self._penalty for _, ridge in pairs]
        found = [(structure, self._penalty) for structure, _ in pairs]
        for _ in range(n_sweeps):
            found = self._swept_once([one for one, _ in found], penalties)
        return found

    def _swept_once(
        self, structures: Sequence[Structure], penalties: Sequence[np.ndarray]
    ) -> list[tuple[Structure, np.ndarray]]:
        """Solve for every block of all structures once: a pass for each mode."""
        now, losses, subsets = list(structures), [], self.subsets
        *modes, last = self.order
        for mode in modes:
            loadings = [one.loadings(mode) for one in now]
            for k, seen in enumerate(self._moments(loadings, mode)):
                now[k], _ = _solved(now[k], mode, seen, subsets, penalties[k])
        loadings = [
            one.loadings(last) if isinstance(one, CP) else one.other_factors(last)
            for one in now
        ]
        for k, seen in enumerate(self._moments(loadings, last)):
            one, index = now[k], last
            if isinstance(one, Tucker):
                # The last factor and the core see the samples through the same others.
                rows = seen.in_rows(one.rows(last))
                one, _ = _solved(one, last, rows, subsets, penalties[k])
                seen = seen.in_columns(one.factors[last]).with_last(last, one.rank)
                index = len(self.shape)
            now[k], loss = _solved(one, index, seen, subsets, penalties[k])
            losses.append(loss)
        return list(zip(now, losses, strict=True))

    def _moments(self, loadings: Sequence[np.ndarray], mode: int) -> Iterator[_Moments]:
        """Yield what the blocks of a mode have to know of the samples: one pass."""
        weight, share = self.subsets.weight, self.subsets.centring.share
        rowwise = [weight.T, self.subsets.target.T, np.moveaxis(share, 2, 0)]
        sizes = [(len(one), one.shape[2]) for one in loadings]
        rows = [np.swapaxes(one, 1, 2).reshape(-1, one.shape[1]) for one in loadings]
        constants = [np.concatenate(rows), self.shape, mode, sizes]
        found = self.samples.reduce_rows(moments_of_block, added, rowwise, constants)
        for k, (_, n_columns) in enumerate(sizes):
            yield _Moments(n_columns, *found[3 * k : 3 * k + 3])

    def _fitted(self, structures: Sequence[Structure]) -> list[np.ndarray]:
        """Return fitted values (B, n) of structures, not centred: one pass."""
        rows = [
            np.swapaxes(one.loadings(0), 1, 2).reshape(-1, one.loadings(0).shape[1])
            for one in structures
        ]
        blocks = [_first_block(one) for one in structures]
        constants = [np.concatenate(rows), self.shape, blocks]
        parts = list(self.samples.map_rows(fitted_of_block, [], constants))
        return [np.concatenate(same, axis=1) for same in zip(*parts, strict=True)]


@dataclass(frozen=True, eq=False)
class _Moments:
    """A design's moments, of c columns of an unfolding and the p entries of a mode."""

    n_columns: int  # c
    normal: np.ndarray  # (B, c·p, c·p)
    cross: np.ndarray  # (B, c·p), with the responses
    removed: np.ndarray  # (B, c·p, b), its regression on the basis of centring

    def in_rows(self, rows: np.ndarray) -> _Moments:
        """Return those of combinations (B, c, r) of the columns."""
        n_items, d = self.cross.shape
        c, r = rows.shape[1:]
        normal = self.normal.reshape(n_items, c, -1, c, d // c)
        normal = np.einsum("bcr,bcpeq,bes->brpsq", rows, normal, rows, optimize=True)
        cross = np.einsum("bcr,bcp->brp", rows, self.cross.reshape(n_items, c, -1))
        removed = self.removed.reshape(n_items, c, d // c, -1)
        removed = np.einsum("bcr,bcpk->brpk", rows, removed)
        return _Moments(r, *_flat(normal, cross, removed))

    def in_columns(self, factor: np.ndarray) -> _Moments:
        """Return those of combinations (B, p, r) of the entries."""
        n_items, c, p = len(factor), self.n_columns, factor.shape[1]
        normal = self.normal.reshape(n_items, c, p, c, p)
        normal = np.einsum(
            "bpr,bcpeq,bqs->bcres", factor, normal, factor, optimize=True
        )
        cross = np.einsum("bpr,bcp->bcr", factor, self.cross.reshape(n_items, c, p))
        removed = self.removed.reshape(n_items, c, p, -1)
        removed = np.einsum("bpr,bcpk->bcrk", factor, removed)
        return _Moments(c, *_flat(normal, cross, removed))

    def with_last(self, mode: int, ranks: Shape) -> _Moments:
        """Return a core's with its ranks in order; that of a mode was the last."""
        others = [r for m, r in enumerate(ranks) if m != mode]
        index = np.arange(prod(ranks)).reshape(*others, ranks[mode])
        index = np.moveaxis(index, -1, mode).reshape(-1)
        return _Moments(
            self.n_columns,
            self.normal[:, index][:, :, index],
            self.cross[:, index],
            self.removed[:, index],
        )


def _flat(
    normal: np.ndarray, cross: np.ndarray, removed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_items, d = len(cross), cross.shape[1] * cross.shape[2]
    return (
        normal.reshape(n_items, d, d),
        cross.reshape(n_items, d),
        removed.reshape(n_items, d, -1),
    )


def _solved(
    structure: Structure,
    index: int,
    seen: _Moments,
    subsets: Subsets,
    penalty: np.ndarray,
) -> tuple[Any, np.ndarray]:
    """Return a structure with another block, and its squared errors (B,)."""
    prior, cross = structure.prior(index), seen.cross[:, :, None]
    vector = subsets.ridge_of_moments(seen.normal, cross, seen.removed, penalty, prior)
    vector = structure.pruned(vector)
    removed = (vector[:, None, :] @ seen.removed)[:, 0, :]
    loss = np.einsum("bn,bn,bn->b", subsets.weight, subsets.target, subsets.target)
    loss = loss - 2.0 * np.einsum("bd,bd->b", vector, seen.cross)
    loss = loss + np.einsum("bd,bde,be->b", vector, seen.normal, vector, optimize=True)
    moments = subsets.centring.moments
    loss = loss - np.einsum("bk,bkl,bl->b", removed, moments, removed)
    return structure.with_block(index, vector), loss


def _first_block(structure: Structure) -> np.ndarray:
    """Return B (B, p_1, c) of the first unfolding B·Lᵀ, L the loadings."""
    if isinstance(structure, Tucker):
        return structure.factors[0] @ unfold(structure.core, 0) @ structure.rows(0)
    return structure.factors[0] * structure.sizes[:, None, :]


def moments_of_block(
    X: np.ndarray,
    weight: np.ndarray,
    target: np.ndarray,
    share: np.ndarray,
    rows: np.ndarray,
    shape: Shape,
    mode: int,
    sizes: Sequence[tuple[int, int]],
) -> list[np.ndarray]:
    """Return moments of all structures, of a block of samples (R, P).

    Weights and targets are (R, B), shares (R, B, b); rows are (k, P / p_m), so many
    columns of the items of each structure.
    """
    seen = _projected(X, rows, shape, mode)  # (k, p, R)
    ends, found = accumulate(items * columns for items, columns in sizes), []
    for end, (n_items, n_columns) in zip(ends, sizes, strict=True):
        design = seen[end - n_items * n_columns : end].reshape(n_items, -1, len(X))
        weighted = design * weight.T[:, None, :]
        found += [
            weighted @ np.swapaxes(design, 1, 2),
            (weighted @ target.T[:, :, None])[:, :, 0],
            design @ share.transpose(1, 0, 2),
        ]
    return found


def fitted_of_block(
    X: np.ndarray, rows: np.ndarray, shape: Shape, blocks: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return fitted values (B, R) of structures with first blocks (B, p_1, c)."""
    seen = _projected(X, rows, shape, 0)
    ends = accumulate(len(block) * block.shape[2] for block in blocks)
    found = []
    for end, block in zip(ends, blocks, strict=True):
        n_items, size, n_columns = block.shape
        part = seen[end - n_items * n_columns : end]
        values = np.swapaxes(block, 1, 2).reshape(n_items, 1, -1)
        found.append((values @ part.reshape(n_items, size * n_columns, -1))[:, 0, :])
    return found


def _projected(X: np.ndarray, rows: np.ndarray, shape: Shape, mode: int) -> np.ndarray:
    """Return rows (k, P / p_m) times an unfolding of a block, (k, p_m, R)."""
    found = np.empty((len(rows), shape[mode], len(X)), rows.dtype)
    # A few samples at a time, since unfolding copies them.
    for part in row_ranges(len(X), max(1, BLOCK_ENTRIES // X.shape[1])):
        tensors = X[part].reshape(-1, *shape)
        columns = np.moveaxis(tensors, mode + 1, 0).reshape(-1, rows.shape[1])
        found[:, :, part] = (rows @ columns.T).reshape(*found.shape[:2], -1)
    return found


@dataclass(frozen=True, eq=False)
class Packed:
    """Samples in memory, with few bits for an entry: what rough refits see.

    An entry is its column's mean and a whole number of steps. So many bits may be lost
    that fits to them are only starts of fits to the samples.
    """

    codes: np.ndarray  # (n, P·bits / 8) bytes, each of several entries
    bits: int
    mean: np.ndarray  # (P,)
    step: np.ndarray  # (P,)
    sample_shape: Shape
    order: tuple[int, ...]  # in which modes are visited
    batch_entries: int | None  # how many numbers designs may have

    @staticmethod
    def of(
        X: Any,
        shape: Shape,
        bits: int,
        columns: np.ndarray,
        order: tuple[int, ...],
        batch_entries: int | None,
    ) -> Packed:
        """Pack samples that stay where they are: a pass.

        `columns` are the means and the deviations of their entries, (2, P).
        """
        mean, deviation = columns
        step = BEST_STEPS[bits] * np.where(deviation > 0, deviation, 1.0)
        step = step.astype(X.dtype)
        width = -(-X.shape[1] * bits // 8)
        codes = X.collected(packed_block, [mean, step, bits], width, np.uint8)
        return Packed(codes, bits, mean, step, shape, order, batch_entries)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape as a matrix."""
        return len(self.codes), len(self.mean)

    def reduce_rows(
        self,
        function: Callable,
        merge: Callable,
        rowwise: Sequence[Array],
        constants: Sequence = (),
    ) -> Any:
        """Return function(block, *rowwise, *constants), merged over all blocks."""
        found = (
            function(X, *(values[part] for values in rowwise), *constants)
            for part, X in self._blocks()
        )
        return reduce(merge, found)

    def project(self, rows: np.ndarray, mode: int) -> np.ndarray:
        """Return rows (k, P / p_m) times an unfolding, (k, p_m · n)."""
        n_samples = len(self.codes)
        found = np.empty((len(rows), self.sample_shape[mode], n_samples), rows.dtype)
        for part, X in self._blocks():
            found[:, :, part] = _projected(X, rows, self.sample_shape, mode)
        return found.reshape(len(rows), -1)

    def spread(self, residual: np.ndarray) -> np.ndarray:
        """Return combinations (B, P) of the samples, with shares (B, n)."""
        total = np.zeros((len(residual), len(self.mean)), residual.dtype)
        for part, X in self._blocks():
            total += residual[:, part] @ X
        return total

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield a few samples at a time, unpacked."""
        if self.codes.nbytes >= LARGE_BYTES:
            return_freed_memory()
        n_entries, per_byte = len(self.mean), 8 // self.bits
        # What each byte stands for: its entries, in steps.
        shifts = self.bits * np.arange(per_byte)
        numbers = (np.arange(256)[:, None] >> shifts) & (2**self.bits - 1)
        values = (numbers - (2**self.bits - 1) / 2).astype(self.step.dtype)
        for part in row_ranges(len(self.codes), UNPACKED_ENTRIES // n_entries):
            # An index would take four bits eight times as long.
            X = np.take(values, self.codes[part], axis=0)
            X = X.reshape(part.stop - part.start, -1)
            X = X[:, :n_entries]
            X *= self.step
            X += self.mean
            yield part, X


def packed_block(
    X: np.ndarray, mean: np.ndarray, step: np.ndarray, bits: int
) -> np.ndarray:
    """Return a block of samples (R, P) with so few bits for an entry."""
    most, per_byte = 2**bits - 1, 8 // bits
    packed = np.zeros((len(X), -(-X.shape[1] // per_byte)), np.uint8)
    for k, row in enumerate(X):
        numbers = np.clip(np.rint((row - mean) / step + most / 2), 0, most)
        numbers = numbers.astype(np.uint8)
        for place in range(per_byte):
            some = numbers[place::per_byte]
            packed[k, : len(some)] |= some << (bits * place)
    return packed
