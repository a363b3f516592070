"""Convex terms and their proximal operators.

There are two kernels, clipping entries and clipping singular values.
Thresholding is "identity minus clip" (Moreau's identity), and a ball about a
centre is the same clip, shifted. Matrix terms act on the last two axes; every
other axis is a batch. The terms of the sparse half, which need no matrix, are in
`ppxa`, which sums them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sltr.arrays import Array, adjoint, array_namespace, clip, eigh, singular_values


def clip_entries(x: Array, radius: float | Array) -> Array:
    """Return the entries of `x` clipped to [-radius, radius]."""
    return clip(x, -radius, radius)


def soft_threshold(x: Array, threshold: float | Array) -> Array:
    """Return S_t(x): every entry moved by `threshold` towards zero.

    Examples
    --------
    >>> import numpy as np
    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return x - clip_entries(x, threshold)


def scale_singular_values(x: Array, scale_of) -> Array:
    """Multiply every singular value s of `x` by ``scale_of(s)``.

    Only the Gram matrix of the short side is decomposed: with x = U·S·Vᵀ and
    x·xᵀ = U·S²·Uᵀ, the result is U·scale·Uᵀ·x.
    """
    xp = array_namespace(x)
    if x.shape[-2] > x.shape[-1]:
        return adjoint(scale_singular_values(adjoint(x), scale_of))
    squares, vectors = eigh(x @ adjoint(x))
    values = xp.sqrt(clip(squares, 0.0, None))
    scaled = vectors * scale_of(values)[..., None, :]
    return (scaled @ adjoint(vectors)) @ x


def clip_singular_values(x: Array, radius: float | Array) -> Array:
    """Return `x` (…, n, q) with its singular values clipped at `radius` (…,)."""
    # Small enough not to matter, large enough not to overflow the quotient.
    tiny = float(array_namespace(x).finfo(x.dtype).smallest_normal) ** 0.5
    radius = trailing(radius, 1)
    return scale_singular_values(
        x, lambda values: clip(radius / clip(values, tiny, None), None, 1.0)
    )


def threshold_singular_values(
    x: Array, threshold: float | Array, *, relative: bool = False
) -> Array:
    """Return SVT_t(x): every singular value moved by `threshold` towards zero.

    It equals ``x - clip_singular_values(x, threshold)``, but its rank is exactly the
    number of singular values above the threshold. If `relative`, the threshold is a
    share of the largest singular value.
    """
    xp = array_namespace(x)
    threshold = trailing(threshold, 1)

    def scale(values):
        least = threshold
        if relative:
            least = threshold * xp.max(values, axis=-1, keepdims=True)
        kept = values > least
        return xp.where(kept, 1.0 - least / xp.where(kept, values, 1.0), 0.0)

    return scale_singular_values(x, scale)


def polar(x: Array) -> Array:
    """Return U·Vᵀ of x = U·S·Vᵀ, leaving out directions of (nearly) zero size."""
    xp = array_namespace(x)

    def scale(values):
        floor = 1e-6 * xp.max(values, axis=-1, keepdims=True)
        kept = values > floor
        return xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)

    return scale_singular_values(x, scale)


def trailing(value: float | Array, n_axes: int) -> float | Array:
    """Append axes of length one to an array, so that it broadcasts over a batch."""
    if isinstance(value, float | int):
        return value
    return value[(..., *([None] * n_axes))]


class Term(Protocol):
    """A convex function in a sum: its value and its proximal operator."""

    def value(self, x: Array) -> Array:
        """Return the function's value for each matrix of the batch."""

    def prox(self, v: Array, step: float | Array) -> Array:
        """Return argmin_x value(x) + ‖x − v‖² / (2 step)."""


@dataclass(frozen=True, eq=False)
class Nuclear:
    """The nuclear norm, weight · ‖x‖_*."""

    weight: float | Array = 1.0

    def value(self, x: Array) -> Array:
        """Return weight · ‖x‖_* over the last two axes."""
        xp = array_namespace(x)
        return self.weight * xp.sum(singular_values(x), axis=-1)

    def prox(self, v: Array, step: float | Array) -> Array:
        """Soft-threshold the singular values at step · weight."""
        return threshold_singular_values(v, step * self.weight)


@dataclass(frozen=True, eq=False)
class SpectralBall:
    """The indicator of ‖x − centre‖₂ ≤ radius. Its prox ignores the step."""

    centre: Array
    radius: float | Array

    def value(self, x: Array) -> Array:
        """Return 0 inside the ball (to rounding), infinity outside."""
        xp = array_namespace(x)
        largest = xp.max(singular_values(x - self.centre), axis=-1)
        return indicator(largest, self.radius, x)

    def prox(self, v: Array, step: float | Array) -> Array:
        """Project onto the ball, whatever the step."""
        return self.centre + clip_singular_values(v - self.centre, self.radius)


def indicator(size: Array, radius: float | Array, x: Array, n_modes: int = 2) -> Array:
    """Return 0 where `size` is at most `radius`, to the rounding of entries of x."""
    xp, axes = array_namespace(x), tuple(range(-n_modes, 0))
    rounding = 16 * max(x.shape[-n_modes:]) * xp.finfo(x.dtype).eps
    slack = rounding * (radius + xp.max(xp.abs(x), axis=axes))
    return xp.where(size <= radius + slack, 0.0, xp.inf)
