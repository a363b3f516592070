"""Sparse principal components by truncated power iteration, on the host."""

from __future__ import annotations

import numpy as np

__all__ = ["sparse_components"]


def sparse_components(matrix: np.ndarray, rank: int, cardinality: int) -> np.ndarray:
    """Return `rank` sparse principal directions of the rows' space, (p, rank).

    Each maximises vᵀB·Bᵀv over unit vectors with at most `cardinality` entries,
    by truncated power iteration; B is then deflated by the part of v that is
    new. Deterministic: it starts from the leading eigenvector and from the
    largest row, and keeps the better.

    Examples
    --------
    >>> import numpy as np
    >>> sparse_components(np.diag([1.0, 3.0, 2.0]), 2, 1)
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    """
    left = _short(matrix.astype(np.float64))
    directions = np.zeros((left.shape[0], rank))
    basis = np.zeros((left.shape[0], rank))
    # Square roots of a Gram matrix's eigenvalues carry half the digits.
    smallest = 1e-7 * np.linalg.norm(left)
    for number in range(rank):
        if np.linalg.norm(left) <= smallest:
            break  # nothing is left: the remaining columns stay zero
        starts = _starts(left, cardinality)
        found = [_truncated_power(left, start, cardinality) for start in starts]
        v = max(found, key=lambda pair: pair[1])[0]
        v = v if v[np.argmax(np.abs(v))] > 0 else -v
        new = v - basis @ (basis.T @ v)
        new /= np.linalg.norm(new)
        left = left - np.outer(new, new @ left)
        directions[:, number], basis[:, number] = v, new
    return directions


def _short(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix with the same M·Mᵀ and no more columns than rows."""
    if matrix.shape[1] <= matrix.shape[0]:
        return matrix
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    return vectors * np.sqrt(np.clip(values, 0.0, None))


def _starts(left: np.ndarray, cardinality: int) -> list[np.ndarray]:
    _, vectors = np.linalg.eigh(left.T @ left)
    leading = left @ vectors[:, -1]
    largest = left @ left[int(np.argmax(np.einsum("ij,ij->i", left, left)))]
    return [_truncate(leading, cardinality), _truncate(largest, cardinality)]


def _truncate(vector: np.ndarray, cardinality: int) -> np.ndarray:
    """Keep the largest entries, ties to the first, at unit length."""
    kept = np.argsort(-np.abs(vector), kind="stable")[:cardinality]
    result = np.zeros_like(vector)
    result[kept] = vector[kept]
    return result / np.linalg.norm(result)


def _truncated_power(
    left: np.ndarray, v: np.ndarray, cardinality: int, n_powers: int = 100
) -> tuple[np.ndarray, float]:
    """Return the direction and its variance, which no iteration lowers."""
    image = left.T @ v
    value = float(image @ image)
    for _ in range(n_powers):
        new = _truncate(left @ image, cardinality)
        new_image = left.T @ new
        new_value = float(new_image @ new_image)
        if new_value <= value * (1.0 + 1e-10):
            break
        v, image, value = new, new_image, new_value
    return v, value
