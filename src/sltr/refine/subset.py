"""Ridge problems on subsets of the samples, a batch of them."""

from __future__ import annotations

from dataclasses import dataclass

from sltr._array import Array, array_namespace, device
from sltr.design import combine

__all__ = ["Subsets", "feature_variance", "weighted_ridge"]


@dataclass(frozen=True, eq=False)
class Subsets:
    """Responses and weights of B items; a weight of zero leaves a sample out."""

    y: Array  # (B, n)
    weight: Array  # (B, n)
    fit_intercept: bool

    def centred(self, values: Array) -> Array:
        """Centre (B, n, …) by each item's weighted mean over the samples."""
        if not self.fit_intercept:
            return values
        xp = array_namespace(values)
        weight = self.weight[(..., *([None] * (values.ndim - 2)))]
        total = xp.sum(weight, axis=1, keepdims=True)
        return values - xp.sum(weight * values, axis=1, keepdims=True) / total


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
    """Solve a batch of ridge problems, (B, d), on the shorter side of each."""
    xp = array_namespace(design)
    weighted = design * weight[:, :, None]
    n_samples, n_columns = design.shape[1:]
    size = min(n_samples, n_columns)
    identity = xp.eye(size, dtype=design.dtype, device=device(design))
    # Samples that are all equal have neither variance nor a penalty.
    shift = xp.where(penalty > 0, penalty, 1.0)[:, None, None] * identity
    if n_columns <= n_samples:
        normal = xp.matrix_transpose(weighted) @ design
        rhs = xp.matrix_transpose(weighted) @ y[:, :, None]
        return xp.linalg.solve(normal + shift, rhs)[:, :, 0]
    root = xp.sqrt(weight)[:, :, None]
    scaled = root * design
    kernel = scaled @ xp.matrix_transpose(scaled)
    dual = xp.linalg.solve(kernel + shift, root * y[:, :, None])
    return (xp.matrix_transpose(scaled) @ dual)[:, :, 0]
