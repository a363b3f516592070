"""The leading outer product of a tensor, for a batch of them."""

from __future__ import annotations

from sltr._array import Array, array_namespace, device, eigh
from sltr.tensor import unfold

__all__ = ["leading_term"]


def _outer(vectors: list[Array]) -> Array:
    """Return the outer products of a batch of vectors, (B, p1, …, pM)."""
    tensor = vectors[0]
    for vector in vectors[1:]:
        places = (slice(None), *([None] * (tensor.ndim - 1)), slice(None))
        tensor = tensor[..., None] * vector[places]
    return tensor


def leading_term(tensor: Array, n_iter: int = 10) -> tuple[list[Array], Array]:
    """Return unit vectors (B, p_m) and size (B,) of a best rank-one term.

    Higher-order power iterations from the leading singular vectors.
    """
    xp = array_namespace(tensor)
    n_modes = tensor.ndim - 1
    matrices = [unfold(tensor, mode) for mode in range(n_modes)]
    vectors = [_leading_vector(matrix) for matrix in matrices]
    for _ in range(n_iter):
        for mode, matrix in enumerate(matrices):
            others = [vectors[k] for k in range(n_modes) if k != mode]
            if others:
                weights = xp.reshape(_outer(others), (tensor.shape[0], -1))
            else:
                weights = xp.ones_like(matrix[:, 0, :])
            vector = (matrix @ weights[:, :, None])[:, :, 0]
            size = xp.sqrt(xp.sum(vector**2, axis=1))
            some = (size > 0)[:, None]
            unit = vector / xp.where(some, size[:, None], 1.0)
            vectors[mode] = xp.where(some, unit, vectors[mode])
    return vectors, size


def _leading_vector(matrix: Array) -> Array:
    """Return the leading left singular vectors of a batch (B, p, q): (B, p)."""
    xp = array_namespace(matrix)
    transposed = xp.matrix_transpose(matrix)
    if matrix.shape[1] <= matrix.shape[2]:
        return eigh(matrix @ transposed)[1][:, :, -1]
    # From the short side, which one long mode would make the expensive one.
    vector = (matrix @ eigh(transposed @ matrix)[1][:, :, -1:])[:, :, 0]
    size = xp.linalg.vector_norm(vector, axis=1, keepdims=True)
    first = xp.eye(1, matrix.shape[1], dtype=matrix.dtype, device=device(matrix))
    return xp.where(size > 0, vector / xp.where(size > 0, size, 1.0), first)
