"""Ridge problems on subsets of the samples, a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sltr.arrays import ROUNDINGS, Array, array_namespace, as_array, clip, ridge_solve
from sltr.samples.centring import Centring


@dataclass(frozen=True, eq=False)
class Subsets:
    """Responses and weights of B items; a weight of zero leaves a sample out."""

    y: Array  # (B, n)
    weight: Array  # (B, n)
    fit_intercept: bool
    covariates: Array | None = None  # (n, q), not penalised
    # How many equal samples each stands for, (B, n), where weights do not say it.
    repeats: Array | None = None

    @cached_property
    def target(self) -> Array:
        """The responses, centred."""
        return self.centred(self.y)

    @cached_property
    def centring(self) -> Centring:
        """What removes each item's weighted mean, and what covariates explain."""
        return Centring(self.weight, self.fit_intercept, self.covariates)

    @cached_property
    def count(self) -> Array:
        """How many samples take part, (B,): a whole weight is that many equal ones."""
        xp = array_namespace(self.weight)
        repeats = self.weight if self.repeats is None else self.repeats
        each = xp.where(self.weight > 0, clip(repeats, 1.0, None), 0.0)
        return xp.sum(each, axis=1)

    def centred(self, values: Array) -> Array:
        """Return (B, n) less each item's regression on an intercept and covariates."""
        return self.centring.residual(values)

    def take(self, items: Sequence[int]) -> Subsets:
        """Return some items, or the same one several times."""
        xp = array_namespace(self.weight)
        index = as_array(items, self.weight, dtype=xp.int64)
        y, weight, repeats = (
            None if values is None else xp.take(values, index, axis=0)
            for values in (self.y, self.weight, self.repeats)
        )
        return replace(self, y=y, weight=weight, repeats=repeats)

    def cross(self, X: Array) -> Array:
        """Return Aᵀy of each item, (B, P), for samples (n, P)."""
        # Weighted and centred, responses are orthogonal to what centring removes.
        return (self.weight * self.target) @ X

    def ridge(self, design: Array, penalty: Array, scale: Array | None = None) -> Array:
        """Solve the items' ridge problems on designs that need no centring: (B, d).

        Parameters
        ----------
        design : array of shape (B, d, n)
            Samples come last, so that an item's sums over them run along memory.
        penalty : array of shape (B,)
        scale : array of shape (B, d), optional
            Prior standard deviations of the coefficients.
        """
        xp = array_namespace(design)
        n_columns, n_samples = design.shape[1:]
        if n_columns > n_samples:
            return self._dual_ridge(design, penalty, scale)
        # Centring changes the normal equations by few ranks: no centred copy is made.
        normal = (design * self.weight[:, None, :]) @ xp.matrix_transpose(design)
        return ridge_solve(normal, design @ self._beside, penalty, scale)

    @cached_property
    def _beside(self) -> Array:
        """What normal equations need beside themselves, (B, n, 1 + 2b).

        A design times it gives Aᵀy, its regression on the basis of centring, and its
        weighted products with that.
        """
        xp, weight = array_namespace(self.weight), self.weight
        share, basis = self.centring.share, xp.matrix_transpose(self.centring.basis)
        rows = [(weight * self.target)[:, None, :], share, weight[:, None, :] * basis]
        return xp.matrix_transpose(xp.concat(rows, axis=1))

    def ridge_of_moments(
        self, normal: Array, cross: Array, removed: Array, penalty: Array, scale: Any
    ) -> Array:
        """Do what `ridge` does, given a design's weighted products.

        With itself, (B, d, d), with the responses, (B, d, 1); and its regression on
        the basis of centring, (B, d, b).
        """
        parts = [cross, removed, removed @ self.centring.moments]
        beside = array_namespace(normal).concat(parts, axis=2)
        return ridge_solve(normal, beside, penalty, scale)

    def _dual_ridge(self, design: Array, penalty: Array, scale: Array | None) -> Array:
        xp = array_namespace(design)
        root = xp.sqrt(self.weight)
        basis, share = self.centring.basis, self.centring.share
        if basis.shape[1]:
            coef = design @ xp.matrix_transpose(share)
            design = design - coef @ xp.matrix_transpose(basis)
        column = 1.0 if scale is None else scale[:, :, None]
        scaled = root[:, None, :] * design * column
        kernel = xp.matrix_transpose(scaled) @ scaled
        dual = ridge_solve(kernel, (root * self.target)[:, :, None], penalty)
        return (column * (scaled @ dual[:, :, None]))[:, :, 0]

    def fitted(self, design: Array, coef: Array) -> Array:
        """Return centred fitted values (B, n) of coefficients (B, d)."""
        return self.centred((coef[:, None, :] @ design)[:, 0, :])


def feature_variance(X: Array, subsets: Subsets) -> Array:
    """Return the mean variance of features (n, P) in each subset, shape (B,)."""
    xp = array_namespace(X)
    squares = xp.linalg.vecdot(X, X, axis=-1)
    return mean_variance(squares, subsets.centring.share @ X, subsets)


def mean_variance(squares: Array, removed: Array, subsets: Subsets) -> Array:
    """Return `feature_variance` from the samples' squared lengths (n,).

    `removed` (B, b, P) is the regression of each item's samples on the basis.
    """
    xp = array_namespace(squares)
    weight, centring, n_features = subsets.weight, subsets.centring, removed.shape[2]
    total = xp.sum(weight, axis=1)
    squares = weight @ squares / total
    if centring.basis.shape[1] == 0:
        return squares / n_features
    explained = xp.sum(removed * (centring.moments @ removed), axis=(1, 2))
    # A penalty in proportion to it then outweighs rounding.
    least = ROUNDINGS * xp.finfo(weight.dtype).eps * squares
    return xp.maximum(squares - explained / total, least) / n_features
