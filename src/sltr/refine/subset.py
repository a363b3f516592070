"""Ridge problems on subsets of the samples, a batch of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sltr._array import Array, array_namespace, device
from sltr.design import combine

__all__ = ["Subsets", "feature_variance", "weighted_ridge"]


@dataclass(frozen=True, eq=False)
class Subsets:
    """Responses and weights of B items; a weight of zero leaves a sample out."""

    y: Array  # (B, n)
    weight: Array  # (B, n)
    fit_intercept: bool

    @cached_property
    def target(self) -> Array:
        """The responses, centred."""
        return self.centred(self.y)

    @cached_property
    def _share(self) -> Array:
        xp = array_namespace(self.weight)
        return self.weight / xp.sum(self.weight, axis=1, keepdims=True)

    def centred(self, values: Array) -> Array:
        """Centre (B, n) or (B, d, n) by each item's weighted mean over the samples."""
        if not self.fit_intercept:
            return values
        if values.ndim == 2:
            xp = array_namespace(values)
            return values - xp.linalg.vecdot(values, self._share, axis=-1)[:, None]
        return values - values @ self._share[:, :, None]


def feature_variance(X: Array, weight: Array, fit_intercept: bool) -> Array:
    """Return the features' mean variance in each subset, shape (B,).

    Parameters
    ----------
    X : array of shape (n, P)
    weight : array of shape (B, n)
    """
    xp = array_namespace(X)
    total = xp.sum(weight, axis=1)
    squares = weight @ xp.linalg.vecdot(X, X, axis=-1) / total
    if fit_intercept:
        means = combine(weight / total[:, None], X)
        squares = squares - xp.linalg.vecdot(means, means, axis=-1)
    return squares / X.shape[1]


def weighted_ridge(design: Array, y: Array, weight: Array, penalty: Array) -> Array:
    """Solve a batch of ridge problems, (B, d), on the shorter side of each.

    Parameters
    ----------
    design : array of shape (B, d, n)
        Samples come last, so that an item's sums over them run along memory.
    y, weight : arrays of shape (B, n)
    penalty : array of shape (B,)
    """
    xp = array_namespace(design)
    n_columns, n_samples = design.shape[1:]
    size = min(n_samples, n_columns)
    identity = xp.eye(size, dtype=design.dtype, device=device(design))
    # Samples that are all equal have neither variance nor a penalty.
    shift = xp.where(penalty > 0, penalty, 1.0)[:, None, None] * identity
    if n_columns <= n_samples:
        weighted = design * weight[:, None, :]
        normal = weighted @ xp.matrix_transpose(design)
        rhs = weighted @ y[:, :, None]
        return xp.linalg.solve(normal + shift, rhs)[:, :, 0]
    root = xp.sqrt(weight)
    scaled = root[:, None, :] * design
    kernel = xp.matrix_transpose(scaled) @ scaled
    dual = xp.linalg.solve(kernel + shift, (root * y)[:, :, None])
    return (scaled @ dual)[:, :, 0]
