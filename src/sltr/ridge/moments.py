"""Weighted means and second moments of samples, exact when merged in any order.

Each block's moments are taken about its own mean, and those of two blocks merge by
the update of Chan, Golub and LeVeque: with means a and b, weights u and v,

    Σ(x − m)(x − m)ᵀ = S_a + S_b + uv/(u + v) · (b − a)(b − a)ᵀ.

Sums over blocks are kept in double precision: in single precision a stream of 2²⁴
samples would take no more of them, and folds would be differences of rounded totals.

References
----------
Chan, Golub, LeVeque (1983). Algorithms for computing the sample variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sltr._array import Array, array_namespace, clip, to_float64

__all__ = ["Moments", "merge", "moments", "without"]


@dataclass(frozen=True, eq=False)
class Moments:
    """What ridge regression needs to know of samples and K responses.

    All numbers are float64, `dtype` is that of the samples.
    """

    weight: Array  # (), their sum
    count: Array  # (), how many there are; a whole weight counts as equal samples
    x_mean: Array  # (P,)
    y_mean: Array  # (K,)
    second: Array  # (P, P), Σ w x xᵀ about the means
    cross: Array  # (P, K), Σ w x yᵀ
    y_second: Array  # (K, K), Σ w y yᵀ
    dtype: Any

    def normal(self, fit_intercept: bool) -> tuple[Array, Array]:
        """Return AᵀA and AᵀY: about the means, or about zero."""
        if fit_intercept:
            return self.second, self.cross
        scaled = (self.weight * self.x_mean)[:, None]
        return (
            self.second + scaled * self.x_mean[None, :],
            self.cross + scaled * self.y_mean[None, :],
        )


def moments(X: Array, Y: Array, weight: Array) -> Moments:
    """Return the moments of samples (n, P), responses (n, K) and weights (n,).

    Examples
    --------
    >>> import numpy as np
    >>> found = moments(np.array([[1.0], [3.0]]), np.array([[0.0], [2.0]]), np.ones(2))
    >>> float(found.second[0, 0]), float(found.cross[0, 0])
    (2.0, 2.0)
    """
    xp = array_namespace(weight)
    total, count = xp.sum(weight), xp.sum(clip(weight, 1.0, None))
    share = (weight / total)[None, :]
    # About the first sample: samples that are all equal leave exact zeros.
    origin = X[0, :]
    X = X - origin
    step, y_mean = (share @ X)[0, ...], (share @ Y)[0, ...]
    X, Y = X - step, Y - y_mean
    weighted = xp.matrix_transpose(X * weight[:, None])
    y_weighted = xp.matrix_transpose(Y * weight[:, None])
    second, cross, y_second = weighted @ X, weighted @ Y, y_weighted @ Y
    return Moments(
        to_float64(total),
        to_float64(count),
        to_float64(origin) + to_float64(step),
        to_float64(y_mean),
        to_float64(second),
        to_float64(cross),
        to_float64(y_second),
        X.dtype,
    )


def merge(a: Moments, b: Moments) -> Moments:
    """Return the moments of both sets of samples together."""
    return _joined(a, b, 1.0)


def without(total: Moments, part: Moments) -> Moments:
    """Return the moments of the samples that are not in `part`."""
    return _joined(total, part, -1.0)


def _joined(a: Moments, b: Moments, sign: float) -> Moments:
    weight = a.weight + sign * b.weight
    x_step, y_step = b.x_mean - a.x_mean, b.y_mean - a.y_mean
    share = sign * b.weight / weight
    factor = share * a.weight
    return Moments(
        weight,
        a.count + sign * b.count,
        a.x_mean + share * x_step,
        a.y_mean + share * y_step,
        a.second + sign * b.second + factor * (x_step[:, None] * x_step[None, :]),
        a.cross + sign * b.cross + factor * (x_step[:, None] * y_step[None, :]),
        a.y_second + sign * b.y_second + factor * (y_step[:, None] * y_step[None, :]),
        array_namespace(a.second).result_type(a.dtype, b.dtype),
    )
