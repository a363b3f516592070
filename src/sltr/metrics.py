"""How close an estimated coefficient is to the true one, and how close it must be."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod, sqrt
from typing import Any

from sltr.arrays import Array, array_namespace, to_numpy
from sltr.core.tensor import numerical_ranks
from sltr.parameters import refuse

__all__ = ["error_bound", "estimation_error", "rank_error", "support_f1"]


def estimation_error(coef: Array, truth: Array) -> float:
    """Return ‖coef − truth‖_F / ‖truth‖_F; without the ratio if the truth is zero.

    Parameters
    ----------
    coef, truth : array of shape (p1, …, pM)

    Examples
    --------
    >>> import numpy as np
    >>> estimation_error(np.array([3.0, 0.0]), np.array([3.0, 4.0]))
    0.8
    """
    _check_shapes(coef, truth)
    xp = array_namespace(coef, truth)
    distance = float(xp.sqrt(xp.sum((coef - truth) ** 2)))
    size = float(xp.sqrt(xp.sum(truth**2)))
    return distance / size if size > 0.0 else distance


def support_f1(coef: Array, truth: Array, rtol: float = 1e-6) -> float:
    """Return the F1 score of the estimated support; 1 if both supports are empty.

    Parameters
    ----------
    coef, truth : array of shape (p1, …, pM)
    rtol : float
        An entry counts if it exceeds `rtol` × the largest of its tensor.

    Examples
    --------
    >>> import numpy as np
    >>> support_f1(np.array([1.0, 2.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 3.0]))
    0.5
    """
    _check_shapes(coef, truth)
    estimated, true = _support(coef, rtol), _support(truth, rtol)
    total = int(estimated.sum()) + int(true.sum())
    return 2.0 * int((estimated & true).sum()) / total if total else 1.0


def rank_error(coef: Array, truth: Array, rtol: float = 1e-3) -> float:
    """Return the mean distance of the unfoldings' numerical ranks, over the modes.

    Parameters
    ----------
    coef, truth : array of shape (p1, …, pM)
    rtol : float
        Singular values above `rtol` × the largest count.

    Examples
    --------
    >>> import numpy as np
    >>> rank_error(np.eye(3), np.ones((3, 3)))
    2.0
    """
    _check_shapes(coef, truth)
    ranks, true_ranks = (numerical_ranks(x, rtol=rtol) for x in (coef, truth))
    pairs = zip(ranks, true_ranks, strict=True)
    return sum(abs(rank - true_rank) for rank, true_rank in pairs) / coef.ndim


def error_bound(
    shape: Sequence[int],
    lambda_sparse: float,
    lambda_low: float,
    ranks: int | Sequence[int],
) -> float:
    r"""Bound the Frobenius error of the SLTR estimate.

    .. math::

       \|\hat W - W^*\|_F \le 4\sqrt2\,
       (\lambda_{sparse}\sqrt P + \lambda_{low}\sqrt R),

    provided the radii hold the pilot's error: ‖W̃ − W*‖_∞ ≤ λ_sparse and, for
    every unfolding, ‖(W̃ − W*)_(m)‖₂ ≤ λ_low. For a tensor of order 3 with
    unfoldings of rank r₁, r₂, r₃, √R is max_k R'_k with R'₁ = √(r₁·min(r₂, r₃))
    and cyclically.

    Parameters
    ----------
    shape : sequence of int
        (p1, …, pM), product P.
    lambda_sparse, lambda_low : float
        The radii, absolute.
    ranks : int or three ints
        R, or the ranks of the three unfoldings of an order-3 truth.

    References
    ----------
    .. [1] Sparse and low-rank tensor regression (SLTR), Theorem 1 and Corollary.

    Examples
    --------
    >>> round(error_bound((4, 4), 0.1, 0.2, 1), 4)
    3.3941
    >>> round(error_bound((4, 4, 4), 0.0, 1.0, (2, 1, 3)), 4)
    9.798
    """
    sizes = [int(size) for size in shape]
    if not sizes or min(sizes) < 1 or sizes != list(shape):
        refuse("shape", shape, "one positive size for each mode")
    for name, value in (("lambda_sparse", lambda_sparse), ("lambda_low", lambda_low)):
        if not isfinite(value) or value < 0:
            refuse(name, value, "a finite number, at least 0")
    root = _root_rank(ranks, sizes)
    return 4.0 * sqrt(2.0) * (lambda_sparse * sqrt(prod(sizes)) + lambda_low * root)


def _root_rank(ranks: Any, sizes: list[int]) -> float:
    """Return √R, or what the corollary puts in its place."""
    if not hasattr(ranks, "__len__"):
        if not ranks >= 0:
            refuse("ranks", ranks, "a number of at least 0")
        return sqrt(ranks)
    ranks = tuple(ranks)
    are_three = len(ranks) == 3 and len(sizes) == 3
    if not are_three or any(
        rank < 0 or rank > size for rank, size in zip(ranks, sizes, strict=True)
    ):
        msg = (
            f"ranks={ranks!r} was given for shape {tuple(sizes)}; expected three "
            "ranks, each at most its mode's size, for a tensor of order 3. For "
            "another order give one number R."
        )
        raise ValueError(msg)
    cyclic = [(ranks[k], ranks[k - 1], ranks[k - 2]) for k in range(3)]
    return sqrt(max(first * min(others) for first, *others in cyclic))


def _support(tensor: Array, rtol: float) -> Array:
    magnitude = abs(to_numpy(tensor))
    return magnitude > rtol * magnitude.max(initial=0.0)


def _check_shapes(coef: Array, truth: Array) -> None:
    if tuple(coef.shape) != tuple(truth.shape):
        msg = (
            f"coef has shape {tuple(coef.shape)} and truth {tuple(truth.shape)}; "
            "expected equal shapes. Reshape one of them."
        )
        raise ValueError(msg)
