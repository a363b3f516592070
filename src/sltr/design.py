"""The design matrix and its three products: X·Xᵀ, C·X and X·Wᵀ.

The pilots and predictions meet the samples here and nowhere else. X·Xᵀ and C·X
read X in blocks and make no second copy of it; every product is eager.
X is a matrix with one row for each sample; its columns are the tensor's
entries in C order.
"""

from __future__ import annotations

from collections.abc import Iterator

from sltr._array import Array, array_namespace, materialise

__all__ = ["column_blocks", "column_means", "combine", "gram", "inner"]

BLOCK_ENTRIES = 4_000_000


def column_blocks(X: Array) -> Iterator[slice]:
    """Yield slices of columns that hold at most `BLOCK_ENTRIES` entries each."""
    width = max(1, BLOCK_ENTRIES // max(1, X.shape[0]))
    for start in range(0, X.shape[1], width):
        yield slice(start, min(start + width, X.shape[1]))


def column_means(X: Array, weight: Array) -> Array:
    """Return the weighted mean of every column, shape (P,)."""
    xp = array_namespace(weight)
    return combine((weight / xp.sum(weight))[None, :], X)[0, ...]


def gram(X: Array, shift: Array | None = None) -> Array:
    """Return (X − shift)·(X − shift)ᵀ, shape (n, n).

    A shift by the mean costs nothing and keeps the digits that centring
    afterwards would cancel.
    """
    total = None
    for block in column_blocks(X):
        part = materialise(X[:, block])
        if shift is not None:
            part = part - shift[block]
        xp = array_namespace(part)
        product = part @ xp.matrix_transpose(part)
        total = product if total is None else total + product
    return total


def combine(coefficients: Array, X: Array) -> Array:
    """Return C·X, shape (k, P): combinations of the samples."""
    xp = array_namespace(coefficients)
    blocks = [coefficients @ materialise(X[:, block]) for block in column_blocks(X)]
    return xp.concat(blocks, axis=1)


def inner(X: Array, coef: Array) -> Array:
    """Return X·Wᵀ, shape (n, k): every sample's product with every coefficient."""
    xp = array_namespace(coef)
    return materialise(X @ xp.matrix_transpose(coef))
