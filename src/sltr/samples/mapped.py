"""Samples that stay where they are, as a fit sees them: checked, shifted, mapped.

It is apart from `front.py` because it is about files: a block of mapped samples is made
of the entries it needs when it is read, so that products, passes and budgets know
nothing of the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from sltr.arrays import Array, to_numpy
from sltr.arrays.libraries import is_dask
from sltr.arrays.resources import memory_bytes, share_freed_memory
from sltr.core.tensor import mode_product
from sltr.parameters import progress_of
from sltr.samples.check import (
    as_float,
    as_weight,
    check_counts,
    check_mask,
    check_numbers,
    check_shape,
)
from sltr.samples.dask import Chunked, as_declared, mapped_chunks, sources
from sltr.samples.labelled import Labels
from sltr.samples.samples import InPlace
from sltr.samples.stored import Budget, Stored, check_chunks

if TYPE_CHECKING:
    from sltr.samples.front import Front


def opened(estimator: Any, X: Any) -> Stored | Chunked:
    """Return samples that stay where they are; their values are checked when read."""
    if len(X.shape) < 2 or 0 in X.shape or any(np.isnan(size) for size in X.shape):
        msg = (
            f"X has shape {tuple(X.shape)}; expected (n_samples, p1, …, pM) of known "
            "sizes, at least one sample and one feature. Reshape X so that its first "
            "axis counts samples."
        )
        raise ValueError(msg)
    if np.dtype(X.dtype).kind not in "biuf":
        msg = f"X has dtype {X.dtype}; expected real numbers."
        raise ValueError(msg)
    share_freed_memory()
    for source in sources(X) if is_dask(X) else [X]:
        check_chunks(source)
    shape = tuple(int(size) for size in X.shape[1:])
    asked = getattr(estimator, "feature_shape", None)
    if asked is not None:
        shape = check_shape(shape, asked)
    progress = progress_of(estimator)
    budget = Budget(memory_bytes(estimator.memory_limit))
    return lazy_samples(X, shape, budget, progress)


def lazy_samples(
    X: Any,
    sample_shape: tuple[int, ...],
    budget: Budget,
    progress: Callable[[int, int], None] | None = None,
) -> Stored | Chunked:
    """Return samples (n, …) that stay where they are, ready for products."""
    narrow = np.dtype(X.dtype) in (np.dtype("float32"), np.dtype("float16"))
    dtype = np.dtype("float32" if narrow else "float64")
    if is_dask(X):
        return Chunked(as_declared(X), sample_shape, dtype, budget, progress=progress)
    return Stored(X, sample_shape, dtype, budget, progress=progress)


def loaded(stored: Stored | Chunked, *, gaps: bool) -> np.ndarray:
    """Return stored samples as an array.

    What cannot be read, or is no number, is named, unless there may be `gaps`.
    """
    if gaps:
        try:
            return np.asarray(stored.source)
        except Exception:
            stored.name_bad_chunk()
            raise
    rows = np.concatenate(list(stored.map_rows(np.array, ())))
    return rows.reshape(-1, *stored.source.shape[1:])


def check_beside(
    X: Any, y: Any, sample_weight: Any, labels: bool, tensors: bool, min_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return responses and weights of stored samples: NumPy arrays of their dtype."""
    if y is not None:
        y = to_numpy(y)
        if not labels:
            check_numbers(y, tensors)
        y = y if tensors and y.ndim == 2 else column_or_1d(y, warn=True)
    n_samples = X.shape[0]
    check_counts(n_samples, None if y is None else len(y), min_samples)
    y = y if labels else as_float(y, X.dtype)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        msg = "y contains NaN or infinity; expected one finite value for each sample."
        raise ValueError(msg)
    given = None if sample_weight is None else to_numpy(sample_weight)
    like = np.broadcast_to(np.zeros((), X.dtype), (n_samples, 1))
    return y, as_weight(given, like)


def mask_in_place(
    estimator: Any, shape: tuple[int, ...], known: Labels | None
) -> np.ndarray | None:
    """Return the mask of samples that stay in a file or on a cluster; refuse fills."""
    if estimator.missing != "error":
        msg = (
            f"missing={estimator.missing!r} was given for samples that stay in a file "
            "or on a cluster; expected 'error'. Load X into memory, or fill the file."
        )
        raise ValueError(msg)
    own = None if known is None else known.mask
    return check_mask(own if estimator.mask is None else estimator.mask, shape)


@dataclass(frozen=True, eq=False)
class Shifted(InPlace):
    """Samples that stay where they are, less one row: what refits see of them.

    Blocks are cast to `dtype` after the row is subtracted. Nothing is read until a
    product is asked for, and each product is one pass over the samples.
    """

    design: Stored | Chunked
    row: np.ndarray  # (P,)
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """The shape as a matrix."""
        return self.design.shape

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.design.sample_shape

    @property
    def budget(self) -> Budget:
        """How much memory a pass may take."""
        return self.design.budget

    def take(self, rows: np.ndarray) -> Shifted:
        """Return the samples of these rows."""
        return replace(self, design=self.design.take(rows))

    def gram(self, *, centred: bool = False) -> np.ndarray:
        """Return the Gram matrix of the samples about the row."""
        gram = self.design.gram(centred=centred)
        if centred:
            return gram
        products = self.design.inner(self.row[None, :])
        return gram - products - products.T + self.row @ self.row

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        """Return C·(X − row), shape (k, P)."""
        return self.reduce_rows(_combined, np.add, [coefficients.T])

    def inner(self, coef: Array) -> np.ndarray:
        """Return (X − row)·Wᵀ, shape (n, k)."""
        return self.design.inner(coef) - to_numpy(coef) @ self.row

    def inner_groups(
        self, groups: Sequence[tuple[np.ndarray, Array]]
    ) -> list[np.ndarray]:
        """Return (X − row)[rows]·Wᵀ for each pair, in one pass."""
        products = self.design.inner_groups(groups)
        return [
            values - to_numpy(coef) @ self.row
            for values, (_, coef) in zip(products, groups, strict=True)
        ]

    def map_rows(
        self, function: Callable, rowwise: Sequence[Array], constants: Sequence = ()
    ) -> Iterator[Any]:
        """Yield function(block less the row, *rowwise, *constants)."""
        if isinstance(self.design, Stored):
            cast: dict[str, Any] = {"less": self.row, "dtype": self.dtype}
            return self.design.map_rows(function, rowwise, constants, **cast)
        shifted = partial(_on_shifted, function, self.dtype, len(rowwise))
        return self.design.map_rows(shifted, rowwise, [self.row, *constants])

    def reduce_rows(
        self,
        function: Callable,
        merge: Callable,
        rowwise: Sequence[Array],
        constants: Sequence = (),
    ) -> Any:
        """Return what `map_rows` yields, merged over all blocks."""
        if isinstance(self.design, Stored):
            return super().reduce_rows(function, merge, rowwise, constants)
        shifted = partial(_on_shifted, function, self.dtype, len(rowwise))
        return self.design.reduce_rows(shifted, merge, rowwise, [self.row, *constants])


def _on_shifted(
    function: Callable, dtype: Any, n_rowwise: int, X: np.ndarray, *given: Any
) -> Any:
    """Call a function on a block less a row, which comes after what is rowwise."""
    rowwise, row, constants = (
        given[:n_rowwise],
        given[n_rowwise],
        given[n_rowwise + 1 :],
    )
    return function((X - row).astype(dtype, copy=False), *rowwise, *constants)


def _combined(X: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    return coefficients.T.astype(X.dtype, copy=False) @ X


@dataclass(frozen=True, eq=False)
class MappedFile:
    """A file of samples, mapped; it is sliced as the file is, by rows and boxes."""

    raw: Stored  # all samples of the file, with zeros outside the mask
    front: Front

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is read, (n, p1, …, pM)."""
        return (int(self.raw.source.shape[0]), *self.front.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of what is read."""
        return self.raw.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """What is read at once: a smooth mode, and flat rows, are needed whole."""
        rows, *sides = self.raw.chunks
        if self._is_flat:
            sides = list(self.front.shape)
        for mode in self.front.roots:
            sides[mode] = self.front.shape[mode]
        return rows, *sides

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        rows, *box = key
        front = self.front
        wide = tuple(
            slice(0, size) if mode in front.roots else side
            for mode, (side, size) in enumerate(zip(box, front.shape, strict=True))
        )
        if self._is_flat:
            block = self.raw.block(rows, (slice(0, prod(front.shape)),))
            block = block.reshape(-1, *front.shape)[(slice(None), *wide)]
        else:
            sizes = [side.stop - side.start for side in wide]
            block = self.raw.block(rows, wide).reshape(-1, *sizes)
        if front.scale is not None:
            block = block / to_numpy(front.scale)[wide]
        for mode, root in front.roots.items():
            block = mode_product(block, root[box[mode]].astype(block.dtype), mode)
        return block

    @property
    def _is_flat(self) -> bool:
        """Whether samples are still flat rows in the file."""
        return len(self.raw.source.shape) - 1 != len(self.front.shape)


def in_place(X: Stored | Chunked, front: Front) -> Stored | Chunked:
    """Return samples that stay in a file or on a cluster, mapped when they are read.

    The map must not cut slices out.
    """
    if isinstance(X, Chunked):
        return replace(X, source=mapped_chunks(X.source, front, X.dtype))
    kept = None if front.kept is None else front.kept.reshape(X.source.shape[1:])
    if front.scale is None and not front.roots:
        return replace(X, kept=kept)
    # What the map reads is counted once, by those who read the map.
    budget = replace(X.budget, read=[0.0])
    raw = replace(X, budget=budget, kept=kept, rows=None, progress=None)
    return replace(X, source=MappedFile(raw, front))
