"""The one place that knows Dask: task graphs, and the cluster that runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from operator import add
from typing import Any

import numpy as np

from sltr.arrays import Array, to_numpy
from sltr.samples.budget import Box, Budget
from sltr.samples.stored import NotFiniteError, clean_block, unreadable

# What is smaller travels inside the graph, what is larger is scattered once.
SCATTER_BYTES = 100_000
FAN_IN = 8


def task(function: Callable, *arguments: Any) -> Any:
    """Return the call of a function on blocks, tasks and values, not yet made."""
    import dask

    return dask.delayed(function, pure=False, traverse=False)(*arguments)


def constants(values: Sequence[Any]) -> list[Any]:
    """Return values that tasks share: each is sent to the workers once.

    On a cluster large ones are scattered, each to one worker, from where others
    fetch what they need; they are lost with their worker (`lost_data`).
    """
    import dask

    client = _client()
    size = sum(getattr(value, "nbytes", 0) for value in values)
    if client is None or size < SCATTER_BYTES:
        return [dask.delayed(value, pure=False, traverse=False) for value in values]
    return client.scatter(list(values), hash=False)


def merged(parts: Sequence[Any], merge: Callable) -> Any:
    """Return tasks merged as a tree, a few at a time."""
    parts = list(parts)
    while len(parts) > 1:
        parts = [
            task(_merge_all, merge, *parts[i : i + FAN_IN])
            if i + 1 < len(parts)
            else parts[i]
            for i in range(0, len(parts), FAN_IN)
        ]
    return parts[0]


def _merge_all(merge: Callable, first: Any, *others: Any) -> Any:
    for other in others:
        first = merge(first, other)
    return first


def computed(tasks: Sequence[Any]) -> list[Any]:
    """Return the tasks' results from whichever scheduler is active."""
    import dask

    return list(dask.compute(*tasks, optimize_graph=True))


def lost_data(error: BaseException) -> bool:
    """Say whether an error means that scattered data went down with its worker."""
    return type(error).__name__ in ("CancelledError", "FutureCancelledError")


def _client() -> Any:
    """Return the distributed client that computes for this thread, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


# Row chunks are merged up to this size for the Gram matrix, whose number of
# tasks grows with the square of theirs.
PANEL_BYTES = 128_000_000


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """The chunks of an array: blocks[i, b] holds rows[i] and boxes[b].

    If rows were taken from a larger array, places[i] says from where, and
    numbers[i], where samples between them were left out, which they are.
    """

    blocks: np.ndarray
    rows: list[slice]
    boxes: list[Box]
    places: list[slice]
    numbers: list[Any]

    @staticmethod
    def of(array: Any, taken: np.ndarray | None = None) -> ChunkGrid:
        """Return the grid of an array's chunks; empty ones are left out.

        `taken` (ascending) are the rows' numbers in the array they come from.
        """
        sides = []
        for sizes in array.chunks:
            ends = np.cumsum(sizes).tolist()
            sides.append(
                [slice(e - s, e) for s, e in zip(sizes, ends, strict=True) if s > 0]
            )
        shape = (len(sides[0]), -1)
        blocks = array.to_delayed()
        for axis, sizes in enumerate(array.chunks):
            blocks = np.compress(np.array(sizes) > 0, blocks, axis=axis)
        rows, boxes = sides[0], list(product(*sides[1:]))
        places, numbers = rows, [None] * len(rows)
        if taken is not None:
            own = [taken[part] for part in rows]
            places = [slice(int(n[0]), int(n[-1]) + 1) for n in own]
            # One task for a row of chunks, so that the graph holds them once.
            numbers = [task(np.asarray, n) if _has_gaps(n) else None for n in own]
        return ChunkGrid(blocks.reshape(shape), rows, boxes, places, numbers)


def _has_gaps(numbers: np.ndarray) -> bool:
    return bool(numbers[-1] - numbers[0] + 1 > len(numbers))


def merged_rows(array: Any) -> Any:
    """Merge small row chunks, so that pairs of them are few."""
    width = prod(max(sizes) for sizes in array.chunks[1:])
    rows = max(1, PANEL_BYTES // (8 * width))
    if rows <= max(array.chunks[0]) or len(array.chunks[0]) == 1:
        return array
    return array.rechunk({0: min(rows, array.shape[0])})


def whole_rows(array: Any) -> Any:
    """Return the array with chunks of whole samples, not larger than a panel."""
    rows = max(1, PANEL_BYTES // (8 * prod(array.shape[1:])))
    rows = min(rows, max(array.chunks[0]))
    return array.rechunk({0: rows, **dict.fromkeys(range(1, array.ndim), -1)})


# Times a pass begins again after a worker took scattered data along.
ATTEMPTS = 4


@dataclass(frozen=True, eq=False)
class Chunked:
    """Samples that stay a Dask array, chunked along any of its axes.

    Each pass is one graph: X is read where the scheduler puts its chunks, and
    what comes back is as small as the answer. Taken samples know the array they
    come `of` and their `rows` (ascending) there.
    """

    source: Any
    sample_shape: tuple[int, ...]
    dtype: np.dtype
    budget: Budget
    of: Any = None
    rows: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape as a matrix: samples, entries of a sample."""
        return int(self.source.shape[0]), prod(self.sample_shape)

    def take(self, rows: np.ndarray) -> Chunked:
        """Return the samples of these rows; computes nothing."""
        source, kept = self.source[rows], np.asarray(rows)
        if self.rows is not None:
            return replace(self, source=source, rows=self.rows[kept])
        return replace(self, source=source, of=self.source, rows=kept)

    def gram(self, *, centred: bool = False) -> np.ndarray:
        """Return the Gram matrix; `centred`: of X less about its mean row."""
        array = merged_rows(self.source)
        total = np.empty((self.shape[0], self.shape[0]), self.dtype)
        grid = self._grid(array)
        pairs = [(i, j) for i in range(len(grid.rows)) for j in range(i + 1)]

        def tasks() -> list:
            sums: dict[tuple[int, int], list] = {pair: [] for pair in pairs}
            for b in range(len(grid.boxes)):
                parts = [self._clean(grid, i, b) for i in range(len(grid.rows))]
                shift = task(_mean_row if centred else _no_shift, parts[0])
                parts = [task(np.subtract, part, shift) for part in parts]
                for i, j in pairs:
                    sums[i, j].append(task(_product, parts[i], parts[j]))
            return [merged(sums[pair], add) for pair in pairs]

        for (i, j), block in zip(pairs, self._computed(tasks), strict=True):
            total[grid.rows[i], grid.rows[j]] = block
            total[grid.rows[j], grid.rows[i]] = block.T
        return total

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Return C·X, shape (k, P)."""
        grid = self._grid(self.source)
        n_rows = len(coefficients)

        def tasks() -> list:
            own = constants([coefficients[:, rows] for rows in grid.rows])
            return [
                merged(
                    [
                        task(np.matmul, own[i], self._clean(grid, i, b))
                        for i in range(len(grid.rows))
                    ],
                    add,
                )
                for b in range(len(grid.boxes))
            ]

        found = np.empty((n_rows, *self.source.shape[1:]), self.dtype)
        for box, part in zip(grid.boxes, self._computed(tasks), strict=True):
            place = found[(slice(None), *box)]
            place[...] = part.reshape(place.shape)
        return found.reshape(n_rows, -1)

    def inner(self, coef: Array) -> np.ndarray:
        """Return X·Wᵀ, shape (n, k)."""
        grid = self._grid(self.source)
        return np.concatenate(
            self._computed(lambda: self._inner_tasks(grid, coef)), axis=0
        )

    def inner_groups(
        self, groups: Sequence[tuple[np.ndarray, Array]]
    ) -> list[np.ndarray]:
        """Return X[rows]·Wᵀ for each pair (rows, W) in one pass."""
        parts = [self.take(rows) for rows, _ in groups]
        grids = [part._grid(part.source) for part in parts]

        def tasks() -> list:
            return [
                one
                for part, grid, (_, coef) in zip(parts, grids, groups, strict=True)
                for one in part._inner_tasks(grid, coef)
            ]

        results = iter(self._computed(tasks))
        return [
            np.concatenate([next(results) for _ in grid.rows], axis=0) for grid in grids
        ]

    def squares(self, centre: np.ndarray) -> np.ndarray:
        """Return Σ_j (x_ij − centre_j)² for every sample, shape (n,)."""
        grid = self._grid(self.source)
        tensor = centre.reshape(self.source.shape[1:])

        def tasks() -> list:
            own = constants([tensor[box].reshape(-1) for box in grid.boxes])
            return self._sums_over_boxes(grid, _squares, own)

        return np.concatenate(self._computed(tasks))

    def map_rows(
        self,
        function: Callable,
        rowwise: Sequence[np.ndarray],
        values: Sequence = (),
    ) -> Iterator[Any]:
        """Yield function(block of whole samples, *their rowwise, *values)."""
        grid = self._grid(whole_rows(self.source))
        yield from self._computed(
            lambda: self._row_tasks(grid, function, rowwise, values)
        )

    def reduce_rows(
        self, function: Callable, merge: Callable, rowwise: Sequence[np.ndarray]
    ) -> Any:
        """Return function(block, *rowwise) of all blocks, merged as a tree."""
        grid = self._grid(whole_rows(self.source))

        def tasks() -> list:
            return [merged(self._row_tasks(grid, function, rowwise, ()), merge)]

        return self._computed(tasks)[0]

    def _grid(self, array: Any) -> ChunkGrid:
        return ChunkGrid.of(array, self.rows)

    def _row_tasks(
        self, grid: ChunkGrid, function: Callable, rowwise: Sequence, values: Sequence
    ) -> list:
        shared = constants(values)
        return [
            task(
                function,
                self._clean(grid, i, 0),
                *(own[rows] for own in rowwise),
                *shared,
            )
            for i, rows in enumerate(grid.rows)
        ]

    def _inner_tasks(self, grid: ChunkGrid, coef: Array) -> list:
        tensors = to_numpy(coef).reshape(-1, *self.source.shape[1:])
        own = constants(
            [tensors[(slice(None), *box)].reshape(len(coef), -1) for box in grid.boxes]
        )
        return self._sums_over_boxes(grid, _product, own)

    def _sums_over_boxes(
        self, grid: ChunkGrid, function: Callable, own: Sequence
    ) -> list:
        """Return Σ_b function(block, own[b]) for every row of chunks."""
        return [
            merged(
                [
                    task(function, self._clean(grid, i, b), own[b])
                    for b in range(len(grid.boxes))
                ],
                add,
            )
            for i in range(len(grid.rows))
        ]

    def _clean(self, grid: ChunkGrid, i: int, b: int) -> Any:
        return task(
            clean_block,
            grid.blocks[i, b],
            grid.places[i],
            grid.boxes[b],
            self.dtype,
            grid.numbers[i],
        )

    def _computed(self, tasks: Callable[[], list]) -> list:
        """Compute a pass; begin again if a worker took scattered data along."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return computed(tasks())
            except NotFiniteError:
                raise
            except Exception as error:
                if lost_data(error) and attempt < ATTEMPTS:
                    continue
                if not type(error).__module__.startswith("distributed"):
                    self._name_bad_chunk()
                raise
        raise AssertionError  # pragma: no cover

    def _name_bad_chunk(self) -> None:
        """Read chunk after chunk of the array given, and say which one cannot be."""
        grid = ChunkGrid.of(self.source if self.of is None else self.of)
        for (i, rows), (b, box) in product(enumerate(grid.rows), enumerate(grid.boxes)):
            try:
                computed([task(np.shape, grid.blocks[i, b])])
            except Exception as error:
                raise unreadable(rows, box, error) from error


def _mean_row(part: np.ndarray) -> np.ndarray:
    return part.mean(axis=0)


def _no_shift(part: np.ndarray) -> np.ndarray:
    return np.zeros((1,), part.dtype)


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left @ right.T


def _squares(part: np.ndarray, centre: np.ndarray) -> np.ndarray:
    part = part - centre
    return np.einsum("ij,ij->i", part, part)
