"""The one place that knows Dask: task graphs, and the cluster that runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from sltr.arrays import Array, to_numpy
from sltr.core.tensor import mode_product
from sltr.parameters import unmasked
from sltr.samples.samples import InPlace
from sltr.samples.stored import (
    Box,
    Budget,
    NotFiniteError,
    check_chunks,
    clean_block,
    unreadable,
)

if TYPE_CHECKING:
    from sltr.samples.front import Front

# What is smaller travels inside the graph, what is larger is scattered once.
SCATTER_BYTES = 100_000
# How many partial results one task merges.
FAN_IN = 8
# Row chunks are merged up to this size for the Gram matrix, whose number of
# tasks grows with the square of theirs.
PANEL_BYTES = 128_000_000
# How often a pass is tried, if a worker takes scattered data along.
ATTEMPTS = 4


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
    # Merging may change it, and Dask may need it again.
    first = deepcopy(first) if others else first
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


def _address(client: Any) -> str | None:
    """Return where the scheduler of a client is."""
    return getattr(getattr(client, "scheduler", None), "address", None)


def sources(array: Any) -> Iterator[Any]:
    """Yield the arrays, of zarr or HDF5, that a Dask array reads from."""
    for layer in getattr(array.__dask_graph__(), "layers", {}).values():
        # Dask keeps what it reads as a layer of one key.
        if len(layer) == 1 and hasattr(layer, "mapping"):
            yield from layer.mapping.values()


def as_declared(array: Any) -> Any:
    """Return a Dask array whose chunks have the shapes it says, or cannot be computed.

    Slices and merged chunks would hide samples that are too many or too few.
    """
    return array.map_blocks(_check_block, dtype=array.dtype, meta=array._meta)


def _check_block(block: Any, block_info: Any = None) -> Any:
    expected = tuple(stop - start for start, stop in block_info[0]["array-location"])
    if tuple(np.shape(block)) != expected:
        msg = f"shape {np.shape(block)}, expected {expected}"
        raise ValueError(msg)
    return unmasked(block, "X")


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """The chunks of an array: blocks[i, b] holds rows[i] and boxes[b].

    If rows were taken from a larger array, sources[i] is their range there and
    numbers[i], where samples between them were left out, says which they are.
    """

    blocks: np.ndarray
    rows: list[slice]
    boxes: list[Box]
    sources: list[slice]
    numbers: list[Any]

    @staticmethod
    def of(array: Any, taken: np.ndarray | None = None) -> ChunkGrid:
        """Return the grid of an array's chunks; empty ones are left out.

        `taken` (ascending) are the rows' numbers in the array they come from.
        """
        sides, blocks = [], array.to_delayed()
        for axis, sizes in enumerate(array.chunks):
            ends = np.cumsum(sizes).tolist()
            sides.append(
                [slice(e - s, e) for s, e in zip(sizes, ends, strict=True) if s > 0]
            )
            blocks = np.compress(np.array(sizes) > 0, blocks, axis=axis)
        rows, boxes = sides[0], list(product(*sides[1:]))
        sources, numbers = rows, [None] * len(rows)
        if taken is not None:
            parts = [taken[part] for part in rows]
            sources = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
            gaps = [
                source.stop - source.start > len(part)
                for source, part in zip(sources, parts, strict=True)
            ]
            # One task for a row of chunks, so that the graph holds them once.
            numbers = [
                task(np.asarray, part) if gap else None
                for part, gap in zip(parts, gaps, strict=True)
            ]
        blocks = blocks.reshape(len(rows), -1)
        return ChunkGrid(blocks, rows, boxes, sources, numbers)


def merged_rows(array: Any) -> Any:
    """Merge small row chunks, so that pairs of them are few."""
    width = prod(max(sizes) for sizes in array.chunks[1:])
    rows = max(1, PANEL_BYTES // (8 * width))
    if rows <= max(array.chunks[0]) or len(array.chunks[0]) == 1:
        return array
    return array.rechunk({0: min(rows, array.shape[0])})


def mapped_chunks(array: Any, front: Front, dtype: np.dtype) -> Any:
    """Return samples (n, …) as the map in front of a fit makes them."""
    import dask.array

    if array.ndim - 1 != len(front.shape):  # flat rows
        array = array.reshape((array.shape[0], *front.shape))
    array = array.astype(dtype)
    if front.kept is not None:
        array = dask.array.where(front.kept, array, dtype.type(0))
    if front.scale is not None:
        array = array / to_numpy(front.scale).astype(dtype)
    for mode, root in front.roots.items():
        whole = array.rechunk({mode + 1: -1})
        array = whole.map_blocks(mode_product, root.astype(dtype), mode, dtype=dtype)
    return array


def whole_rows(array: Any) -> Any:
    """Return the array with chunks of whole samples, not larger than a panel."""
    rows = max(1, PANEL_BYTES // (8 * prod(array.shape[1:])))
    rows = min(rows, max(array.chunks[0]))
    return array.rechunk({0: rows, **dict.fromkeys(range(1, array.ndim), -1)})


@dataclass(frozen=True, eq=False)
class Chunked(InPlace):
    """Samples that stay a Dask array, chunked along any of its axes.

    Each pass is one graph: X is read where the scheduler puts its chunks, and
    what comes back is as small as the result. Taken samples know the array they
    come `of` and their `rows` (ascending) there.
    """

    source: Any
    sample_shape: tuple[int, ...]
    dtype: np.dtype
    budget: Budget
    of: Any = None
    rows: np.ndarray | None = None
    progress: Callable[[int, int], None] | None = None  # told when a pass is done
    client: Any = field(default_factory=_client)  # of the cluster that computes
    # Kept, since a client that is closed does not know it.
    address: str | None = field(default_factory=lambda: _address(_client()))

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
                if centred:
                    mean = task(np.mean, parts[0], 0)
                    parts = [task(np.subtract, part, mean) for part in parts]
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
            columns = constants([coefficients[:, rows] for rows in grid.rows])
            return [
                merged(
                    [
                        task(np.matmul, columns[i], self._clean(grid, i, b))
                        for i in range(len(grid.rows))
                    ],
                    add,
                )
                for b in range(len(grid.boxes))
            ]

        total = np.empty((n_rows, *self.source.shape[1:]), self.dtype)
        for box, part in zip(grid.boxes, self._computed(tasks), strict=True):
            inside = total[(slice(None), *box)]
            inside[...] = part.reshape(inside.shape)
        return total.reshape(n_rows, -1)

    def inner(self, coef: Array) -> np.ndarray:
        """Return X·Wᵀ, shape (n, k)."""
        return self._products([(self, coef)])[0]

    def inner_groups(
        self, groups: Sequence[tuple[np.ndarray, Array]]
    ) -> list[np.ndarray]:
        """Return X[rows]·Wᵀ for each pair (rows, W) in one pass."""
        return self._products([(self.take(rows), coef) for rows, coef in groups])

    def _products(self, pairs: Sequence[tuple[Chunked, Array]]) -> list[np.ndarray]:
        """Return X·Wᵀ for each pair (X, W), all in one graph."""
        grids = [part._grid(part.source) for part, _ in pairs]

        def tasks() -> list:
            return [
                one
                for (part, coef), grid in zip(pairs, grids, strict=True)
                for one in part._inner_tasks(grid, coef)
            ]

        n_rows = sum(part.shape[0] for part, _ in pairs)
        results = iter(self._computed(tasks, n_rows))
        return [
            np.concatenate([next(results) for _ in grid.rows], axis=0) for grid in grids
        ]

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
        self,
        function: Callable,
        merge: Callable,
        rowwise: Sequence[np.ndarray],
        values: Sequence = (),
    ) -> Any:
        """Return function(block, *rowwise, *values), merged as a tree."""
        grid = self._grid(whole_rows(self.source))

        def tasks() -> list:
            return [merged(self._row_tasks(grid, function, rowwise, values), merge)]

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
                *(values_of[rows] for values_of in rowwise),
                *shared,
            )
            for i, rows in enumerate(grid.rows)
        ]

    def _inner_tasks(self, grid: ChunkGrid, coef: Array) -> list:
        tensors = to_numpy(coef).reshape(-1, *self.source.shape[1:])
        parts = constants(
            [tensors[(slice(None), *box)].reshape(len(coef), -1) for box in grid.boxes]
        )
        return self._sums_over_boxes(grid, _product, parts)

    def _sums_over_boxes(
        self, grid: ChunkGrid, function: Callable, parts: Sequence
    ) -> list:
        """Return Σ_b function(block, parts[b]) for every row of chunks."""
        return [
            merged(
                [
                    task(function, self._clean(grid, i, b), parts[b])
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
            grid.sources[i],
            grid.boxes[b],
            self.dtype,
            grid.numbers[i],
        )

    def _computed(self, tasks: Callable[[], list], n_rows: int | None = None) -> list:
        """Compute a pass; begin again if a worker took scattered data along.

        It reads so many samples, by default all that there are.
        """
        whole = self.source if self.of is None else self.of
        n_read = self.shape[0] if n_rows is None else n_rows
        self.budget.read[0] += n_read / int(whole.shape[0])
        results = self._tried(tasks)
        for source in sources(whole):
            # A chunk that was lost since the fit began has been read as fill values.
            check_chunks(source)
        if self.progress is not None:
            n_blocks = self.source.npartitions
            self.progress(n_blocks, n_blocks)
        return results

    def _tried(self, tasks: Callable[[], list]) -> list:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._check_connection()
                return computed(tasks())
            except NotFiniteError:
                raise
            except Exception as error:
                self._check_connection(error)
                if lost_data(error) and attempt < ATTEMPTS:
                    continue
                if not type(error).__module__.startswith("distributed"):
                    self.name_bad_chunk()
                raise
        raise AssertionError  # pragma: no cover

    def _check_connection(self, error: BaseException | None = None) -> None:
        """Refuse to go on without the cluster: Dask would compute in this process."""
        if self.client is None or self.client.status not in ("closing", "closed"):
            return
        msg = (
            f"The connection to the Dask scheduler at {self.address!r} was lost; "
            "nothing was fitted. Start the scheduler, connect a new "
            "distributed.Client, and fit again."
        )
        raise ConnectionError(msg) from error

    def name_bad_chunk(self) -> None:
        """Read chunk after chunk of the array given, and say which one cannot be."""
        grid = ChunkGrid.of(self.source if self.of is None else self.of)
        for (i, rows), (b, box) in product(enumerate(grid.rows), enumerate(grid.boxes)):
            try:
                computed([task(np.shape, grid.blocks[i, b])])
            except Exception as error:
                raise unreadable(rows, box, error) from error


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left @ right.T
