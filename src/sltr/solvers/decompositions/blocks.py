"""What both structures share: blocks, two halves of the modes, leading vectors."""

from __future__ import annotations

from math import prod

from sltr._array import Array, array_namespace, device, eigh

__all__ = ["Blocks", "Shape", "halves", "leading_vectors"]

Blocks = list[Array]
Shape = tuple[int, ...]


def halves(shape: Shape) -> tuple[range, range]:
    """Split the modes in two runs whose sizes have the smallest sum."""
    order = len(shape)
    cut = min(
        range(1, order),
        key=lambda h: prod(shape[:h]) + prod(shape[h:]),
        default=1,
    )
    return range(cut), range(cut, order)


def leading_vectors(matrix: Array, n_vectors: int) -> Array:
    """Return orthonormal leading left singular vectors, shape (rows, n_vectors)."""
    xp = array_namespace(matrix)
    rows, columns = matrix.shape
    if rows <= columns:
        return xp.flip(eigh(matrix @ xp.matrix_transpose(matrix))[1], axis=1)[
            :, :n_vectors
        ]
    vectors = xp.flip(eigh(xp.matrix_transpose(matrix) @ matrix)[1], axis=1)
    leading = matrix @ vectors[:, :n_vectors]
    # More vectors than columns: unit vectors fill up; QR makes all orthonormal.
    filling = xp.eye(rows, n_vectors, dtype=matrix.dtype, device=device(matrix))
    basis = xp.linalg.qr(xp.concat([leading, filling], axis=1))[0]
    return basis[:, :n_vectors]
