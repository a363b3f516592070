"""Sparse principal components by truncated power iteration, on the host."""

from __future__ import annotations

import numpy as np

__all__ = ["sparse_components"]


def sparse_components(matrix: np.ndarray, rank: int, cardinality: int) -> np.ndarray:
    """Return `rank` sparse principal directions of the columns, shape (p, rank).

    Each maximises ‖Bᵀv‖ over unit vectors v with at most `cardinality` entries,
    by truncated power iteration; B is then deflated by the part of v that is
    new. Deterministic: the iteration starts from the leading singular vector and
    from the largest row, and the better result is kept. Where nothing is left,
    the remaining columns are zero.

    Parameters
    ----------
    matrix : array of shape (p, q)
    rank, cardinality : int
        From 1 to p.

    References
    ----------
    .. [1] Yuan, Zhang. Truncated power method for sparse eigenvalue problems.
       JMLR 14, 2013.

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
            break
        v = _direction(left, cardinality)
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


def _direction(left: np.ndarray, cardinality: int) -> np.ndarray:
    """Return the best sparse direction found, its largest entry positive."""
    leading, _ = _leading(left)
    largest = left @ left[int(np.argmax(np.einsum("ij,ij->i", left, left)))]
    starts = [leading] if cardinality == len(left) else [leading, largest]
    found = [_truncated_power(left, start, cardinality) for start in starts]
    v = max(found, key=lambda pair: pair[1])[0]
    return v if v[int(np.argmax(np.abs(v)))] > 0 else -v


def _leading(left: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the leading left singular vector and its squared singular value."""
    n_rows, n_columns = left.shape
    if n_rows <= n_columns:
        values, vectors = np.linalg.eigh(left @ left.T)
        return vectors[:, -1], float(values[-1])
    values, vectors = np.linalg.eigh(left.T @ left)
    image = left @ vectors[:, -1]
    norm = np.linalg.norm(image)
    return image / (norm if norm > 0.0 else 1.0), float(values[-1])


def _truncated_power(
    left: np.ndarray, v: np.ndarray, cardinality: int, n_powers: int = 50
) -> tuple[np.ndarray, float]:
    """Move to the support of the largest entries of B·Bᵀv while that pays.

    On each support v is the best direction there is, not one power step: the
    support settles in a few rounds.
    """
    support = _largest(v, cardinality)
    within, value = _leading(left[support])
    for _ in range(n_powers):
        new_support = _largest(left @ (left[support].T @ within), cardinality)
        if np.array_equal(new_support, support):
            break
        new_within, new_value = _leading(left[new_support])
        if new_value <= value:
            break
        support, within, value = new_support, new_within, new_value
    result = np.zeros(len(left))
    result[support] = within
    return result, value


def _largest(vector: np.ndarray, count: int) -> np.ndarray:
    """Return the rows of the largest entries, ascending; ties to the first."""
    order = np.argsort(-np.abs(vector), kind="stable")
    return np.sort(order[:count])
