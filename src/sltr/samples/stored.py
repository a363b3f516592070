"""Samples that stay in their file and are read block by block."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from sltr.arrays import Array, to_numpy
from sltr.arrays.resources import return_freed_memory, row_ranges
from sltr.samples.samples import InPlace

Box = tuple[slice, ...]

# From this memory limit on, what is freed is returned after every block.
LARGE_LIMIT = 100_000_000


@dataclass(frozen=True)
class Budget:
    """A memory limit in bytes, and how a pass over stored samples uses it."""

    limit: int
    # A block takes one part in so many; its clean copy takes as much again.
    block_share: int = 8
    # Rows of a Gram matrix that are computed before they are added.
    strip_rows: int = 1024
    # Rows of a block for products with few vectors: enough for BLAS to be busy.
    product_rows: int = 512
    # Counts what was read, in passes over all samples.
    read: list[float] = field(default_factory=lambda: [0.0], compare=False)

    def block_entries(self, dtype: np.dtype) -> int:
        """Return how many numbers a block may hold."""
        return max(1, self.limit // (self.block_share * dtype.itemsize))


def box_shape(
    shape: tuple[int, ...], chunks: tuple[int, ...], most: int
) -> tuple[int, ...]:
    """Return the shape of boxes of whole chunks that hold at most `most` entries.

    Boxes grow along the last axis first, which is contiguous in most files. A
    chunk that is larger by itself is the box: to read a part of it costs as much.

    Examples
    --------
    >>> box_shape((6, 5, 4), (1, 1, 1), 40)
    (2, 5, 4)
    >>> box_shape((6, 5, 4), (3, 5, 2), 40)
    (3, 5, 2)
    """
    box = [min(c, p) for c, p in zip(chunks, shape, strict=True)]
    for axis in reversed(range(len(shape))):
        others = prod(box) // box[axis]
        times = max(1, most // (others * box[axis]))
        box[axis] = min(shape[axis], times * box[axis])
        if box[axis] < shape[axis]:
            break
    return tuple(box)


def boxes(shape: tuple[int, ...], box: tuple[int, ...]) -> list[Box]:
    """Return the boxes that cover an array of a shape, in C order."""
    sides = [row_ranges(size, step) for size, step in zip(shape, box, strict=True)]
    return list(product(*sides))


class NotFiniteError(ValueError):
    """Stored samples hold NaN or infinity."""


def clean_block(
    block: Any, rows: slice, box: Box, dtype: Any, numbers: np.ndarray | None = None
) -> np.ndarray:
    """Return a block (R, …) as a matrix (R, w) of finite numbers.

    It holds the samples of `rows`, or those of them with these numbers.
    """
    block = np.asarray(block)
    part = block.astype(dtype, copy=False).reshape(block.shape[0], -1)
    # A sum is finite if all are, up to overflow: the entries decide only then.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(part.sum())
    if suspect and not np.isfinite(part).all():
        first = int(np.flatnonzero(~np.isfinite(part).all(axis=1))[0])
        row = rows.start + first if numbers is None else int(numbers[first])
        msg = (
            f"X contains NaN or infinity in {_where(rows, box)}, first in sample "
            f"{row}; expected finite numbers. Impute or drop them."
        )
        raise NotFiniteError(msg)
    return part


def _where(rows: slice, box: Box) -> str:
    """Say which samples and entries a block holds."""
    sides = ", ".join(f"{side.start}:{side.stop}" for side in box)
    return f"the chunk of samples {rows.start}:{rows.stop} and entries [{sides}]"


def unreadable(rows: slice, box: Box, error: BaseException) -> OSError:
    """Return the error that names a chunk that cannot be read."""
    msg = (
        f"X cannot be read in {_where(rows, box)}: {type(error).__name__}: {error}. "
        "Restore this part of the file; nothing was fitted."
    )
    return OSError(msg)


def check_chunks(array: Any) -> None:
    """Refuse a zarr or HDF5 array that lacks a chunk: its fill value would be read.

    The environment variable SLTR_MISSING_CHUNKS=fill says that this is meant.
    """
    if os.environ.get("SLTR_MISSING_CHUNKS") == "fill":
        return
    library = type(array).__module__.partition(".")[0]
    if library == "zarr":
        missing, place = _missing_in_zarr(array), array.store_path
    elif library == "h5py":
        missing, place = _missing_in_hdf5(array), array.name
    else:
        return
    if missing is not None:
        msg = (
            f"{missing}, is missing in {place}. Restore it; or, if its fill value is "
            "meant, set the environment variable SLTR_MISSING_CHUNKS=fill."
        )
        raise OSError(msg)


def _from(what: str, starts: Sequence[int]) -> str:
    return f"{what}, which begins at {list(starts)}"


def _missing_in_zarr(array: Any) -> str | None:
    """Return the name and the first entry of a chunk that is not in the store."""
    from zarr.core.sync import sync

    async def keys() -> set[str]:
        return {key async for key in path.store.list_prefix(path.path)}

    path, sides = array.store_path, array.shards or array.chunks
    there, folder = sync(keys()), f"{path.path}/".lstrip("/")
    for place in np.ndindex(*_grid(array.shape, sides)):
        key = array.metadata.encode_chunk_key(place)
        starts = [k * side for k, side in zip(place, sides, strict=True)]
        if folder + key not in there:
            return _from(f"The chunk {key!r}", starts)
        inner = _missing_in_shard(array, folder + key, starts)
        if inner is not None:
            return _from(f"A chunk of the shard {key!r}", inner)
    return None


def _missing_in_shard(array: Any, key: str, starts: list[int]) -> list[int] | None:
    """Return the first entry of a chunk that a shard lacks, by the shard's index.

    An index of other codecs than zarr's own, bytes and a checksum, is not read.
    """
    if array.shards is None:
        return None
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    codec = array.metadata.codecs[0]
    codecs = [type(one).__name__ for one in codec.index_codecs]
    if codecs not in (["BytesCodec"], ["BytesCodec", "Crc32cCodec"]):
        return None
    grid = _grid(array.shards, array.chunks)
    # An offset and a length for each chunk, of 8 bytes each.
    n_bytes, order = 16 * prod(grid), codec.index_codecs[0].endian.value
    part: Any = RangeByteRequest(0, n_bytes)
    if codec.index_location.value == "end":
        part = SuffixByteRequest(n_bytes + 4 * (len(codecs) - 1))
    store, prototype = array.store_path.store, default_buffer_prototype()
    content = sync(store.get(key, prototype, part)).to_bytes()[:n_bytes]
    index = np.frombuffer(content, "<u8" if order == "little" else ">u8")
    absent = (index.reshape(*grid, 2) == np.iinfo(np.uint64).max).all(axis=-1)
    for place in np.argwhere(absent).tolist():
        begins = [
            start + k * side
            for start, k, side in zip(starts, place, array.chunks, strict=True)
        ]
        # Those of a last shard may be beyond the array.
        if all(b < size for b, size in zip(begins, array.shape, strict=True)):
            return begins
    return None


def _missing_in_hdf5(dataset: Any) -> str | None:
    """Return what an HDF5 file does not hold: a chunk by its first entry, a source."""
    if dataset.is_virtual:
        return _missing_source(dataset)
    if dataset.external:
        return _missing_outside(dataset)
    if dataset.chunks is None:
        never = prod(dataset.shape) > 0 and dataset.id.get_storage_size() == 0
        return "The array, which nothing was written to" if never else None
    grid = _grid(dataset.shape, dataset.chunks)
    count = dataset.id.get_num_chunks()
    if count == prod(grid):
        return None
    there = {dataset.id.get_chunk_info(i).chunk_offset for i in range(count)}
    for place in np.ndindex(*grid):
        starts = [k * side for k, side in zip(place, dataset.chunks, strict=True)]
        if tuple(starts) not in there:
            return _from("A chunk", starts)
    return None


def _missing_source(dataset: Any) -> str | None:
    """Return a part of a virtual array whose source is not there."""
    import h5py

    n_mapped = 0
    for source in dataset.virtual_sources():
        starts = source.vspace.get_select_bounds()[0]
        part = _from(f"{source.dset_name!r} of {source.file_name!r}", starts)
        n_mapped += source.vspace.get_select_npoints()
        if source.file_name == ".":
            found = source.dset_name in dataset.file
            inner = _missing_in_hdf5(dataset.file[source.dset_name]) if found else part
        elif "%" in source.file_name + source.dset_name:  # names to be counted up
            return None
        else:
            beside = Path(dataset.file.filename).parent / source.file_name
            file = beside if beside.is_file() else Path(source.file_name)
            if not file.is_file():
                return part
            with h5py.File(file, "r") as opened:
                found = source.dset_name in opened
                inner = _missing_in_hdf5(opened[source.dset_name]) if found else part
        if inner is not None:
            return inner
    whole = n_mapped >= prod(dataset.shape)
    return None if whole else "A part of a virtual array, which has no source"


def _missing_outside(dataset: Any) -> str | None:
    """Return a file outside HDF5's that does not hold its part of an array."""
    left = prod(dataset.shape) * dataset.dtype.itemsize
    for name, offset, size in dataset.external:
        file = Path(os.fsdecode(name))
        taken = min(left, size)
        if not file.is_file() or file.stat().st_size < offset + taken:
            return f"{str(file)!r}, or a part of it, which holds values"
        left -= taken
    return None


def _grid(shape: Sequence[int], sides: Sequence[int]) -> list[int]:
    """Return how many chunks there are along each axis."""
    return [-(-n // side) for n, side in zip(shape, sides, strict=True)]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a block: where they are in the file and among the samples that count."""

    source: slice
    kept: slice
    local: np.ndarray | None  # within `source`; None for all


@dataclass(frozen=True, eq=False)
class Stored(InPlace):
    """Samples that stay in their file; every product reads them block by block.

    `rows` (ascending) are those that count, None for all. Entries that are not `kept`,
    which has the shape of a sample in the file, are zeros, and boxes of them not read.
    """

    source: Any
    sample_shape: tuple[int, ...]
    dtype: np.dtype
    budget: Budget
    rows: np.ndarray | None = None
    progress: Callable[[int, int], None] | None = None
    kept: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape as a matrix: samples, entries of a sample."""
        n_rows = self.source.shape[0] if self.rows is None else len(self.rows)
        return n_rows, prod(self.sample_shape)

    def take(self, rows: np.ndarray) -> Stored:
        """Return the samples of these rows, which must ascend; reads nothing."""
        kept = rows if self.rows is None else self.rows[rows]
        return replace(self, rows=np.asarray(kept))

    def gram(self, *, centred: bool = False) -> np.ndarray:
        """Return the Gram matrix; `centred`: of X less about its mean row.

        Boxes of columns that hold all samples are read once. Where a chunk is too
        wide for that, a panel of samples stays and the later ones pass by.
        """
        n_samples = self.shape[0]
        total = np.zeros((n_samples, n_samples), self.dtype)
        # Columns are worth sharing among all samples even where these are few.
        box = self._box(self._entries // max(1, n_samples))
        height = self._entries // prod(box)
        panels = self._row_blocks(height)
        steps = [(b, i) for b in boxes(self._axes, box) for i in range(len(panels))]
        shift: np.ndarray | float = 0.0
        for columns, i in self._tracked(steps):
            held = self._read(panels[i], columns)
            if i == 0:
                shift = held.mean(axis=0) if centred else 0.0
            held = held - shift if centred else held
            _add_square(total, panels[i].kept, held, self.budget.strip_rows)
            strip = min(self.budget.strip_rows, height // 4)
            for piece in self._row_blocks(strip, panels[i].source.stop):
                part = self._read(piece, columns)
                part = part - shift if centred else part
                total[piece.kept, panels[i].kept] += part @ held.T
                del part
            del held  # else they would be there while the next ones are read
        _mirror(total, self.budget.strip_rows)
        return total

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Return C·X, shape (k, P)."""
        n_rows = coefficients.shape[0]
        total = np.zeros((n_rows, *self._axes), self.dtype)
        for rows, box in self._blocks():
            part = coefficients[:, rows.kept] @ self._read(rows, box)
            inside = total[(slice(None), *box)]
            inside += part.reshape(inside.shape)
        return total.reshape(n_rows, -1)

    def inner(self, coef: Array) -> np.ndarray:
        """Return X·Wᵀ, shape (n, k)."""
        everyone = np.arange(self.shape[0])
        return self.inner_groups([(everyone, coef)])[0]

    def inner_groups(
        self, groups: Sequence[tuple[np.ndarray, Array]]
    ) -> list[np.ndarray]:
        """Return X[rows]·Wᵀ for each pair (rows, W) in one pass."""
        sums = [np.zeros((len(rows), len(coef)), self.dtype) for rows, coef in groups]
        tensors = [to_numpy(coef).reshape(-1, *self._axes) for _, coef in groups]
        for rows, box in self._blocks(np.concatenate([rows for rows, _ in groups])):
            part = self._read(rows, box)
            for (wanted, _), coef, out in zip(groups, tensors, sums, strict=True):
                inside = (wanted >= rows.kept.start) & (wanted < rows.kept.stop)
                if inside.any():
                    loads = coef[(slice(None), *box)].reshape(len(coef), -1)
                    local = wanted[inside] - rows.kept.start
                    out[inside] += _rows_of(part, local) @ loads.T
            del part  # else it would be there while the next one is read
        return sums

    def map_rows(
        self,
        function: Callable,
        rowwise: Sequence[np.ndarray],
        constants: Sequence = (),
        *,
        less: np.ndarray | float = 0.0,
        dtype: np.dtype | None = None,
    ) -> Iterator[Any]:
        """Yield function(block of whole samples, *their rowwise, *constants).

        The samples are `less` a row (P,), as another dtype.
        """
        dtype = self.dtype if dtype is None else dtype
        height = self._height(dtype)
        # An eighth of a block at a time, which is there up to three times.
        parts = boxes(self._axes, self._box(self._entries // (8 * height)))
        blocks = self._row_blocks(height)
        for rows in self._tracked(blocks):
            own = [values[rows.kept] for values in rowwise]
            # Without a name, so that no block is kept while the next one is read.
            yield function(self._whole(rows, parts, less, dtype), *own, *constants)

    def _height(self, dtype: np.dtype) -> int:
        """Return how many whole samples a block has: those of a chunk, if they fit."""
        most = 2 * self.budget.block_entries(dtype) // prod(self._axes)
        own = self._entries // prod(self._axes)
        return max(1, self.chunks[0] if own < self.chunks[0] <= most else own)

    def _whole(
        self, rows: _Rows, parts: Sequence[Box], less: Any, dtype: np.dtype
    ) -> np.ndarray:
        """Return whole samples, read box by box."""
        shift = np.broadcast_to(less, (prod(self._axes),)).reshape(self._axes)
        n_rows = rows.kept.stop - rows.kept.start
        block = np.empty((n_rows, *self._axes), dtype)
        for box in parts:
            inside = block[(slice(None), *box)]
            part = self._read(rows, box).reshape(inside.shape)
            np.subtract(part, shift[box], out=inside, casting="same_kind")
        return block.reshape(n_rows, -1)

    def block(self, rows: slice, box: Box) -> np.ndarray:
        """Return a box of the entries of some samples, as a matrix."""
        return self._read(_Rows(rows, rows, None), box)

    @property
    def _axes(self) -> tuple[int, ...]:
        # Rows that are to be folded are still flat in the file.
        return tuple(int(size) for size in self.source.shape[1:])

    @property
    def _entries(self) -> int:
        return self.budget.block_entries(self.dtype)

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """What a file reads at once, rows first; ones if it has no chunks."""
        chunks = getattr(self.source, "shards", None) or getattr(
            self.source, "chunks", None
        )
        if chunks is None:
            return (1,) * len(self.source.shape)
        return tuple(int(size) for size in chunks)

    def _box(self, most: int) -> tuple[int, ...]:
        return box_shape(self._axes, self.chunks[1:], most)

    def _blocks(self, wanted: np.ndarray | None = None) -> Iterator[tuple[_Rows, Box]]:
        """Yield all blocks, or those that hold wanted rows, and report progress."""
        # Half a block, which is there up to three times, beside what waits for it.
        most = self._entries // 2
        box = self._box(most // max(self.budget.product_rows, self.chunks[0]))
        steps = [
            (rows, columns)
            for rows in self._row_blocks(most // prod(box))
            for columns in boxes(self._axes, box)
            if wanted is None or _overlap(rows.kept, wanted)
        ]
        return self._tracked(steps)

    def _row_blocks(self, n_rows: int, first: int = 0) -> list[_Rows]:
        """Return blocks of about `n_rows` rows, of whole chunks where these fit.

        They begin at row `first` of the file.
        """
        chunk = self.chunks[0]
        step = n_rows // chunk * chunk if n_rows >= chunk else n_rows
        blocks = []
        for part in row_ranges(int(self.source.shape[0]) - first, step):
            source = slice(first + part.start, first + part.stop)
            if self.rows is None:
                blocks.append(_Rows(source, source, None))
                continue
            low, high = np.searchsorted(self.rows, [source.start, source.stop])
            if low < high:
                kept = self.rows[low:high]
                tight = slice(int(kept[0]), int(kept[-1]) + 1)
                dense = len(kept) == tight.stop - tight.start
                local = None if dense else kept - kept[0]
                blocks.append(_Rows(tight, slice(int(low), int(high)), local))
        return blocks

    def _read(self, rows: _Rows, box: Box) -> np.ndarray:
        if self.kept is not None and not self.kept[box].any():
            n_rows = rows.kept.stop - rows.kept.start
            return np.zeros((n_rows, self.kept[box].size), self.dtype)
        if isinstance(self.source, np.memmap):
            _release_pages(self.source)
        try:
            block = self.source[(rows.source, *box)]
        except Exception as error:
            if hasattr(self.source, "raw"):  # a map: what it reads has named itself
                raise
            self.name_bad_chunk((rows.source, *box))
            raise unreadable(rows.source, box, error) from error
        self.budget.read[0] += prod(np.shape(block)) / prod(self.source.shape)
        expected = (rows.source.stop - rows.source.start,)
        expected += tuple(side.stop - side.start for side in box)
        if tuple(np.shape(block)) != expected:
            wrong = ValueError(f"shape {np.shape(block)}, expected {expected}")
            raise unreadable(rows.source, box, wrong)
        if self.kept is not None:
            block = np.where(self.kept[box], block, 0)
        if rows.local is None:
            return clean_block(block, rows.source, box, self.dtype)
        numbers = rows.source.start + rows.local
        return clean_block(block[rows.local], rows.source, box, self.dtype, numbers)

    def name_bad_chunk(self, block: Box | None = None) -> None:
        """Read chunk after chunk, of a block or of all, and say which cannot be."""
        if max(self.chunks) == 1:  # it has none
            return
        shape = self.source.shape
        sides = tuple(slice(0, n) for n in shape) if block is None else block
        parts = [
            [p for p in row_ranges(n, c) if p.start < side.stop and p.stop > side.start]
            for n, c, side in zip(shape, self.chunks, sides, strict=True)
        ]
        for rows, *box in product(*parts):
            try:
                self.source[(rows, *box)]
            except Exception as error:
                raise unreadable(rows, tuple(box), error) from error

    def _tracked(self, steps: Sequence) -> Iterator:
        return_freed_memory()
        for done, step in enumerate(steps, start=1):
            yield step
            if self.budget.limit >= LARGE_LIMIT:
                return_freed_memory()
            if self.progress is not None:
                self.progress(done, len(steps))
        # A chunk that was lost since the fit began has been read as fill values.
        check_chunks(getattr(self.source, "raw", self).source)
        return_freed_memory()


def _add_square(
    total: np.ndarray, rows: slice, held: np.ndarray, strip_rows: int
) -> None:
    """Add held·heldᵀ to the lower half of a diagonal block."""
    if len(held) == len(total):
        # In place, and half the work: the transpose has the order BLAS wants.
        syrk = get_blas_funcs("syrk", (total,))
        syrk(1.0, held.T, beta=1.0, c=total.T, trans=1, overwrite_c=1)
        return
    for strip in row_ranges(len(held), strip_rows):
        place = total[rows.start + strip.start : rows.start + strip.stop]
        place = place[:, rows.start : rows.start + strip.stop]
        place += held[strip] @ held[: strip.stop].T


def _mirror(matrix: np.ndarray, strip_rows: int) -> None:
    """Make a matrix symmetric whose lower half is known, without a copy of it."""
    for rows in row_ranges(len(matrix), strip_rows):
        matrix[: rows.start, rows] = matrix[rows, : rows.start].T
        lower = np.tril(matrix[rows, rows])
        matrix[rows, rows] = lower + np.tril(lower, -1).T


def _overlap(rows: slice, wanted: np.ndarray) -> bool:
    return bool(((wanted >= rows.start) & (wanted < rows.stop)).any())


def _rows_of(part: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows of a block, without a copy where they follow each other."""
    if len(rows) == rows[-1] - rows[0] + 1 and (np.diff(rows) == 1).all():
        return part[rows[0] : rows[-1] + 1]
    return part[rows]


def _release_pages(array: np.memmap) -> None:
    """Let go of pages that were read: mapped, they count as the process's memory."""
    mapped = getattr(array, "_mmap", None)
    # A private mapping would lose what was written to it.
    shared = getattr(array, "mode", "c") != "c"
    if mapped is not None and shared and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
