"""Tensor operations on batches: a leading axis counts tensors, modes follow.

Modes count from 0 and leave the leading axis out, so that mode 0 of a batch of
shape ``(G, p1, …, pM)`` is its axis 1.
"""

from __future__ import annotations

from math import prod

from sltr.arrays import Array, array_namespace, singular_values


def unfold(tensor: Array, mode: int) -> Array:
    """Return the mode unfolding (G, p_mode, P / p_mode) of a batch (G, p1, …, pM).

    Examples
    --------
    >>> import numpy as np
    >>> unfold(np.arange(8.0).reshape(1, 2, 2, 2), 1)
    array([[[0., 1., 4., 5.],
            [2., 3., 6., 7.]]])
    """
    xp = array_namespace(tensor)
    n_tensors, size = tensor.shape[0], tensor.shape[mode + 1]
    rest = prod(tensor.shape[1:]) // max(size, 1)
    if mode > 0:
        tensor = xp.moveaxis(tensor, mode + 1, 1)
    return xp.reshape(tensor, (n_tensors, size, rest))


def fold(matrix: Array, mode: int, shape: tuple[int, ...]) -> Array:
    """Return the batch of tensors of `shape` whose mode unfolding is `matrix`."""
    xp = array_namespace(matrix)
    rest = shape[:mode] + shape[mode + 1 :]
    tensor = xp.reshape(matrix, (matrix.shape[0], shape[mode], *rest))
    return xp.moveaxis(tensor, 1, mode + 1) if mode > 0 else tensor


def spread_over(values: Array, like: Array) -> Array:
    """Give values of shape (G,) trailing axes, so that they broadcast over a batch."""
    return values[(slice(None), *([None] * (like.ndim - 1)))]


def flatten(tensor: Array) -> Array:
    """Return a batch of tensors as a matrix with one row for each of them."""
    xp = array_namespace(tensor)
    return xp.reshape(tensor, (tensor.shape[0], prod(tensor.shape[1:])))


def mode_product(tensor: Array, matrix: Array, mode: int) -> Array:
    """Multiply every tensor of a batch by `matrix` (J × p_mode) along `mode`."""
    xp = array_namespace(tensor)
    size = tensor.shape[mode + 1]
    before, after = tensor.shape[: mode + 1], tensor.shape[mode + 2 :]
    # Slices are multiplied in place: an unfolding would copy the whole batch.
    if prod(after) == 1:
        rows = xp.reshape(tensor, (prod(before), size))
        product = rows @ xp.matrix_transpose(matrix)
    else:
        slices = xp.reshape(tensor, (prod(before), size, prod(after)))
        product = xp.matmul(matrix, slices)
    return xp.reshape(product, (*before, matrix.shape[0], *after))


def own_mode_product(tensor: Array, matrices: Array, mode: int) -> Array:
    """Multiply each tensor of a batch by its own matrix (G, J, p_mode) along `mode`."""
    xp = array_namespace(tensor)
    n_tensors, size = tensor.shape[0], tensor.shape[mode + 1]
    before, after = tensor.shape[1 : mode + 1], tensor.shape[mode + 2 :]
    if prod(after) == 1:  # one product for each tensor, not one for each fibre
        rows = xp.reshape(tensor, (n_tensors, prod(before), size))
        product = rows @ xp.matrix_transpose(matrices)
    else:
        slices = xp.reshape(tensor, (n_tensors, prod(before), size, prod(after)))
        product = matrices[:, None, :, :] @ slices
    return xp.reshape(product, (n_tensors, *before, matrices.shape[1], *after))


def contract(samples: Array, coef: Array) -> Array:
    """Return ⟨coef, sample⟩ for every sample (rows) and coefficient (columns)."""
    xp = array_namespace(samples, coef)
    return flatten(samples) @ xp.matrix_transpose(flatten(coef))


def cp_to_tensor(factors: list[Array]) -> Array:
    """Return the tensor ∑_r u_r¹ ∘ … ∘ u_r^M of factors of shape (p_m, R)."""
    xp = array_namespace(*factors)
    shape = tuple(factor.shape[0] for factor in factors)
    tensor = factors[0]
    for factor in factors[1:]:
        tensor = tensor[:, None, :] * factor[None, :, :]
        tensor = xp.reshape(tensor, (-1, factor.shape[1]))
    return xp.reshape(xp.sum(tensor, axis=1), shape)


def numerical_ranks(coef: Array, *, rtol: float = 1e-3) -> tuple[int, ...]:
    """Return the rank of each unfolding: singular values above rtol × the largest.

    Examples
    --------
    >>> import numpy as np
    >>> numerical_ranks(np.eye(3)), numerical_ranks(np.zeros((2, 2)))
    ((3, 3), (0, 0))
    """
    xp = array_namespace(coef)
    ranks = []
    for mode in range(coef.ndim):
        values = singular_values(unfold(coef[None, ...], mode))[0, ...]
        largest = xp.max(values)
        above = (values > rtol * largest) & (values > 0.0)
        ranks.append(int(xp.sum(xp.astype(above, xp.int64))))
    return tuple(ranks)
