"""The design matrix and its products: the only place that reads the samples.

X is a matrix with one row for each sample; its columns are the tensor's entries
in C order. It is an array in memory, of any library, or stays where it is: in a
file (`Stored`) or a Dask array (`Chunked`). Every product reads X in blocks, makes
no second copy of it, and is eager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    is_array_api,
    is_numpy,
    to_numpy,
)
from sltr.arrays.libraries import is_dask
from sltr.samples.budget import memory_bytes, row_ranges, working_bytes
from sltr.samples.dask import Chunked
from sltr.samples.stored import Stored

BLOCK_ENTRIES = 4_000_000


def stays_where_it_is(X: Any, memory_limit: Any = None) -> bool:
    """Say whether samples are left in their file, or on their cluster.

    Dask arrays and what can be sliced but is no array (zarr, HDF5) do, memmaps
    only if they are larger than the limit: joblib hands small ones to its workers.
    """
    if isinstance(X, np.memmap):
        return working_bytes(X) > memory_bytes(memory_limit)
    if is_dask(X):
        return True
    if is_array_api(X) or not hasattr(X, "__getitem__"):
        return False
    # Tables and sparse matrices are sliced in other ways.
    if any(hasattr(X, name) for name in ("iloc", "tocsr", "__array_namespace__")):
        return False
    try:
        np.dtype(X.dtype)
        return len(X.shape) >= 1
    except (AttributeError, TypeError):
        return False


def lazy_samples(
    X: Any,
    sample_shape: tuple[int, ...],
    memory_limit: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Stored | Chunked:
    """Return samples (n, …) that stay where they are, ready for products."""
    limit = memory_bytes(memory_limit)
    narrow = np.dtype(X.dtype) in (np.dtype("float32"), np.dtype("float16"))
    dtype = np.dtype("float32" if narrow else "float64")
    if is_dask(X):
        return Chunked(X, sample_shape, dtype, limit, progress=progress)
    return Stored(X, sample_shape, dtype, limit, progress=progress)


def is_lazy(X: Any) -> bool:
    """Say whether these samples stay where they are."""
    return isinstance(X, Stored | Chunked)


def as_matrix(X: Any) -> Any:
    """Return samples as a matrix, one row each; lazy ones are one already."""
    if is_lazy(X):
        return X
    return array_namespace(X).reshape(X, (X.shape[0], prod(X.shape[1:])))


def sample_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of one sample."""
    return X.sample_shape if is_lazy(X) else tuple(X.shape[1:])


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return the samples of these rows, which ascend; lazy ones are not read."""
    if is_lazy(X):
        return X.take(rows)
    xp = array_namespace(X)
    return xp.take(X, as_array(rows, X, dtype=xp.int64), axis=0)


def column_blocks(X: Array) -> Iterator[slice]:
    """Yield slices of columns that hold at most `BLOCK_ENTRIES` entries each."""
    width = max(1, BLOCK_ENTRIES // max(1, X.shape[0]))
    yield from row_ranges(X.shape[1], width)


def column_means(X: Any, weight: Array) -> Array:
    """Return the weighted mean of every column, shape (P,)."""
    xp = array_namespace(weight)
    return combine((weight / xp.sum(weight))[None, :], X)[0, ...]


def gram(X: Any, *, centred: bool = False) -> Array:
    """Return X·Xᵀ, shape (n, n); `centred`: of X less a row close to its mean.

    Which row is no matter to those who centre afterwards; without it, they would
    lose the digits that the mean takes.
    """
    if is_lazy(X):
        return X.gram(centred=centred)
    total = None
    for block in column_blocks(X):
        part = X[:, block]
        xp = array_namespace(part)
        if centred:
            part = part - xp.mean(part, axis=0, keepdims=True)
        product = part @ xp.matrix_transpose(part)
        total = product if total is None else total + product
    return total


def combine(coefficients: Array, X: Any) -> Array:
    """Return C·X, shape (k, P): combinations of the samples."""
    if is_lazy(X):
        return X.combine(coefficients)
    xp = array_namespace(coefficients)
    blocks = [coefficients @ X[:, block] for block in column_blocks(X)]
    return xp.concat(blocks, axis=1)


def inner(X: Any, coef: Array) -> Array:
    """Return X·Wᵀ, shape (n, k): every sample's product with every coefficient."""
    if is_lazy(X):
        return X.inner(to_numpy(coef))
    return X @ array_namespace(coef).matrix_transpose(coef)


def inner_groups(X: Any, groups: Sequence[tuple[np.ndarray, Array]]) -> list[Array]:
    """Return X[rows]·Wᵀ for each pair (rows, W); lazy samples are read once."""
    if is_lazy(X):
        return X.inner_groups([(rows, to_numpy(coef)) for rows, coef in groups])
    return [inner(take_rows(X, rows), coef) for rows, coef in groups]


def squares(X: Any, centre: Array) -> Array:
    """Return Σ_j (x_ij − centre_j)² for every sample, shape (n,)."""
    if is_lazy(X):
        return X.squares(centre)
    xp = array_namespace(centre)
    total = 0.0 * X[:, 0]
    for block in column_blocks(X):
        part = X[:, block] - centre[block]
        total = total + xp.linalg.vecdot(part, part, axis=-1)
    return total


def map_rows(
    X: Any, function: Callable, rowwise: Sequence[Array], constants: Sequence = ()
) -> Iterator[Any]:
    """Yield function(block of samples, *their rowwise, *constants), in order.

    The function runs where the samples are: it must be importable.
    """
    if is_lazy(X):
        yield from X.map_rows(function, rowwise, constants)
        return
    height = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for rows in row_ranges(X.shape[0], height):
        own = [values[rows, ...] for values in rowwise]
        yield function(X[rows, :], *own, *constants)


def reduce_rows(
    X: Any, function: Callable, merge: Callable, rowwise: Sequence[Array]
) -> Any:
    """Return function(block of samples, *their rowwise), merged over all blocks."""
    if is_lazy(X):
        return X.reduce_rows(function, merge, rowwise)
    total = None
    for part in map_rows(X, function, rowwise):
        total = part if total is None else merge(total, part)
    return total


@dataclass(frozen=True, eq=False)
class Samples:
    """Clean training data: tensors, responses (or labels), positive weights.

    Lazy samples are read by products only.
    """

    X: Any
    y: Array
    weight: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return sample_shape(self.X)

    @property
    def flat(self) -> Any:
        """The samples as a matrix, one row each."""
        return as_matrix(self.X)

    def take(self, rows: Any) -> Samples:
        """Return the samples in these rows."""
        xp = array_namespace(self.X)
        index = as_array(rows, self.X, dtype=xp.int64)
        X, weight = (xp.take(x, index, axis=0) for x in (self.X, self.weight))
        # Labels may be of any type that NumPy has.
        y = self.y[rows] if is_numpy(self.y) else xp.take(self.y, index, axis=0)
        return Samples(X, y, weight)
