"""Sweeps over samples that stay where they are: a block of every structure is one pass.

Ranks and kinds, starts, ridges and items share the pass. It makes the normal equations
of their blocks, d × d for d unknowns, which take the same memory however many samples
there are. Apart from `low_rank.py`, whose sweeps hold the designs of all samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from sltr.arrays.resources import row_ranges
from sltr.core.tensor import flatten, unfold
from sltr.refine.factors import CP, Shape, Structure, Tucker, joined, take
from sltr.refine.low_rank import Sweeps, Swept
from sltr.refine.subsets import Subsets
from sltr.samples.samples import BLOCK_ENTRIES


@dataclass(frozen=True, eq=False)
class StoredSweeps(Sweeps):
    """What `Sweeps` lowers; `samples` are a `Design` that stays where it is."""

    shape: Shape
    order: tuple[int, ...]  # in which modes are visited

    def first_ridges(self, many: Sequence[Sequence[Structure]]) -> list[Swept]:
        """Do what `Sweeps` does; losses of starts are known without a pass."""
        ridge, structures = self.ridges[0], [joined(starts) for starts in many]
        n_sweeps, n_starts = self.n_sweeps, len(many[0])
        if n_starts > 1:
            runs, n_sweeps = [ridge] * n_starts, n_sweeps - self.n_starting_sweeps
            structures = [
                take(structure, self._least(structure, loss))
                for structure, loss in self._losses(
                    structures, runs, self.n_starting_sweeps
                )
            ]
        return [
            Swept(ridge, *one) for one in self._swept(structures, [ridge], n_sweeps)
        ]

    def _least(self, structure: Structure, loss: np.ndarray) -> np.ndarray:
        """Return the index of each item's start of the least objective, (B,)."""
        coef = flatten(structure.coef())
        squares = np.einsum("bp,bp->b", coef, coef).reshape(-1, len(self.variance))
        objective = (
            loss.reshape(squares.shape) + self.ridges[0] * self._penalty * squares
        )
        return self._items + len(self.variance) * np.argmin(objective, axis=0)

    def _swept(
        self, structures: Sequence[Structure], ridges: Sequence[float], n_sweeps: int
    ) -> list[tuple[Structure, np.ndarray]]:
        now = [one for one, _ in self._losses(structures, ridges, n_sweeps)]
        subsets = self._runs(len(ridges))
        return [
            (structure, subsets.centred(values))
            for structure, values in zip(now, self._fitted(now), strict=True)
        ]

    def _runs(self, n_runs: int) -> Subsets:
        return self.subsets.take(list(range(len(self.variance))) * n_runs)

    def _losses(
        self, structures: Sequence[Structure], ridges: Sequence[float], n_sweeps: int
    ) -> list[tuple[Structure, np.ndarray]]:
        """Return structures after some sweeps, and their squared errors (B,)."""
        subsets = self._runs(len(ridges))
        penalty = np.concatenate([ridge * self._penalty for ridge in ridges])
        found = [(one, penalty) for one in structures]
        for _ in range(n_sweeps):
            found = self._swept_once([one for one, _ in found], subsets, penalty)
        return found

    def _swept_once(
        self, structures: Sequence[Structure], subsets: Subsets, penalty: np.ndarray
    ) -> list[tuple[Structure, np.ndarray]]:
        """Solve for every block of all structures once: a pass for each mode."""
        now, losses = list(structures), []
        *modes, last = self.order
        for mode in modes:
            loadings = [one.loadings(mode) for one in now]
            for k, seen in enumerate(self._moments(loadings, mode)):
                now[k], _ = _solved(now[k], mode, seen, subsets, penalty)
        loadings = [
            one.loadings(last) if isinstance(one, CP) else one.other_factors(last)
            for one in now
        ]
        for k, seen in enumerate(self._moments(loadings, last)):
            one, index = now[k], last
            if isinstance(one, Tucker):
                # The last factor and the core see the samples through the same others.
                rows = seen.in_rows(one.rows(last))
                one, _ = _solved(one, last, rows, subsets, penalty)
                seen = seen.in_columns(one.factors[last]).with_last(last, one.rank)
                index = len(self.shape)
            now[k], loss = _solved(one, index, seen, subsets, penalty)
            losses.append(loss)
        return list(zip(now, losses, strict=True))

    def _moments(self, loadings: Sequence[np.ndarray], mode: int) -> Iterator[_Moments]:
        """Yield what the blocks of a mode have to know of the samples: one pass."""
        weight, share = self.subsets.weight, self.subsets.centring.share
        rowwise = [weight.T, self.subsets.target.T, np.moveaxis(share, 2, 0)]
        sizes = [(len(one), one.shape[2]) for one in loadings]
        rows = [np.swapaxes(one, 1, 2).reshape(-1, one.shape[1]) for one in loadings]
        constants = [np.concatenate(rows), self.shape, mode, sizes]
        found = self.samples.reduce_rows(moments_of_block, _added, rowwise, constants)
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
    items and columns of each structure, whose items are runs of the B.
    """
    seen = _projected(X, rows, shape, mode)  # (k, p, R)
    ends, found = accumulate(items * columns for items, columns in sizes), []
    for end, (n_items, n_columns) in zip(ends, sizes, strict=True):
        design = seen[end - n_items * n_columns : end].reshape(n_items, -1, len(X))
        runs = np.arange(n_items) % weight.shape[1]
        weighted = design * weight.T[runs, None, :]
        found += [
            weighted @ np.swapaxes(design, 1, 2),
            (weighted @ target.T[runs, :, None])[:, :, 0],
            design @ share.transpose(1, 0, 2)[runs],
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


def _added(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> list[np.ndarray]:
    # New arrays: a cluster may need the old ones again.
    return [a + b for a, b in zip(one, other, strict=True)]
