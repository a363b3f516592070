"""Preconditioned conjugate gradients for a batch of systems."""

from __future__ import annotations

from collections.abc import Callable

from sltr._array import Array, array_namespace

__all__ = ["conjugate_gradients", "reachable"]

# Times the recursive residual is replaced by the true one.
RESTARTS = 5


def reachable(tol: float, rhs: Array) -> float:
    """Return the tolerance, or what rounding leaves of it."""
    return max(tol, 10.0 * float(array_namespace(rhs).finfo(rhs.dtype).eps))


def conjugate_gradients(
    apply: Callable[[Array], Array],
    rhs: Array,
    precondition: Callable[[Array], Array] | None = None,
    *,
    start: Array | None = None,
    tol: float,
    max_iter: int,
) -> tuple[Array, float, int]:
    """Solve a batch of positive definite systems along axis −2, from zero or a start.

    Returns the solutions, the largest true residual relative to the right-hand
    side, and the number of iterations.
    """
    xp = array_namespace(rhs)
    target = reachable(tol, rhs)
    norm = xp.sqrt(xp.sum(rhs**2, axis=-2, keepdims=True))
    norm = xp.where(norm > 0, norm, 1.0)

    def relative(residual: Array) -> float:
        size = xp.sqrt(xp.sum(residual**2, axis=-2, keepdims=True))
        return float(xp.max(size / norm))

    x, residual, n_iter = 0.0 * rhs, rhs, 0
    if start is not None:
        x, residual = start, rhs - apply(start)
    reached = relative(residual)
    for _ in range(RESTARTS):
        direction, last = 0.0 * rhs, 1.0 + 0.0 * norm
        recursive = reached
        while recursive > 0.5 * target and n_iter < max_iter:
            steered = residual if precondition is None else precondition(residual)
            size = xp.sum(residual * steered, axis=-2, keepdims=True)
            direction = steered + _ratio(size, last) * direction
            image = apply(direction)
            curvature = xp.sum(direction * image, axis=-2, keepdims=True)
            step = _ratio(size, curvature)
            x, residual = x + step * direction, residual - step * image
            last, recursive = size, relative(residual)
            n_iter += 1
        if n_iter == 0:
            break
        # Rounding lets the recursive residual drift: stop on the true one.
        before, residual = reached, rhs - apply(x)
        reached = relative(residual)
        if reached <= target or n_iter >= max_iter or reached > 0.5 * before:
            break
    return x, reached, n_iter


def _ratio(a: Array, b: Array) -> Array:
    xp = array_namespace(b)
    some = b > 0
    return xp.where(some, a / xp.where(some, b, 1.0), 0.0)
