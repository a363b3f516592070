"""Centring: weights, and what intercept and covariates explain, on subsets of samples.

Apart from `front.py`, which maps each sample by itself; this looks at all of a subset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sltr.arrays import Array, array_namespace, device, unless_rounding

# Of a covariate beside its square: so many roundings are no variance.
LEAST_VARIANCE = 1e3


@dataclass(frozen=True, eq=False)
class Centring:
    """The map C that weighs samples and removes what a basis explains: A = Cᵀ·X.

    `weight` has shape (…, n), zero for samples that are left out. The basis is a column
    of ones, for an intercept, and covariates (n, q), if there are any: removed is the
    weighted regression on them, for an intercept alone the weighted mean. Vectors are
    columns of arrays of shape (…, n, k).
    """

    weight: Array
    fit_intercept: bool
    covariates: Array | None = None

    def on(self, subsets: Array) -> Centring:
        """Return the centring of each subset (…, n); the others weigh nothing there."""
        xp = array_namespace(self.weight)
        return replace(self, weight=xp.where(subsets, self.weight, 0.0))

    def take(self, rows: Array) -> Centring:
        """Return the centring of these samples alone."""
        xp, Z = array_namespace(self.weight), self.covariates
        Z = None if Z is None else xp.take(Z, rows, axis=0)
        return replace(self, weight=xp.take(self.weight, rows, axis=0), covariates=Z)

    @cached_property
    def root(self) -> Array:
        """The root weights, (…, n, 1)."""
        return array_namespace(self.weight).sqrt(self.weight)[..., None]

    @cached_property
    def basis(self) -> Array:
        """What is removed, (n, b): ones first, then covariates; b may be 0."""
        xp, weight = array_namespace(self.weight), self.weight
        ones = xp.ones_like(weight[(*[0] * (weight.ndim - 1), ...)])[:, None]
        parts = [ones] if self.fit_intercept else [ones[:, :0]]
        if self.covariates is not None:
            parts.append(xp.astype(self.covariates, weight.dtype, copy=False))
        return xp.concat(parts, axis=1) if len(parts) > 1 else parts[0]

    @cached_property
    def moments(self) -> Array:
        """The weighted products of the basis, (…, b, b): the total weight first."""
        xp = array_namespace(self.weight)
        if self.basis.shape[1] == 1 and self.fit_intercept:
            return xp.sum(self.weight, axis=-1, keepdims=True)[..., None]
        back = xp.matrix_transpose(self.basis)
        return (self.weight[..., None, :] * back) @ self.basis

    @cached_property
    def share(self) -> Array:
        """The regression on the basis, (…, b, n): its coefficients are share·X."""
        xp = array_namespace(self.weight)
        weighted = self.weight[..., None, :] * xp.matrix_transpose(self.basis)
        return self._solved(weighted)

    def _solved(self, sums: Array) -> Array:
        """Return the regression whose products with the basis are these, (…, b, k).

        The intercept first: a category that a subset lacks has no slope then, and what
        it has in common with all samples belongs to the intercept.
        """
        moments = self.moments
        if not self.fit_intercept or moments.shape[-1] == 1:
            return least_squares(moments, sums)
        xp = array_namespace(moments)
        total, middle = moments[..., :1, :1], moments[..., :1, 1:]
        middle = middle / total  # (…, 1, q), the mean of the covariates
        across = xp.matrix_transpose(middle)
        given = moments[..., 1:, 1:]
        inner = given - total * (across * middle)
        eye = xp.eye(inner.shape[-1], dtype=inner.dtype, device=device(inner))
        own, size = (xp.sum(eye * a, axis=-1) for a in (inner, given))
        some = own > LEAST_VARIANCE * xp.finfo(inner.dtype).eps * size
        inner = xp.where(some[..., :, None] & some[..., None, :], inner, 0.0)
        level = sums[..., :1, :]
        slopes = least_squares(inner, sums[..., 1:, :] - across * level)
        slopes = xp.where(some[..., :, None], slopes, 0.0)
        return xp.concat([level / total - middle @ slopes, slopes], axis=-2)

    @cached_property
    def leverage(self) -> Array:
        """What each sample's own value adds to what the basis fits to it, (…, n)."""
        xp = array_namespace(self.weight)
        return xp.sum(self.share * xp.matrix_transpose(self.basis), axis=-2)

    def regression(self, t: Array) -> Array:
        """Return the coefficients (…, b, k) of columns (…, n, k) on the basis."""
        xp = array_namespace(t)
        # A sum is divided at the end: the mean of a constant is then exact.
        weighted = self.weight[..., None] * t
        if self.basis.shape[1] == 1 and self.fit_intercept:
            sums = xp.sum(weighted, axis=-2, keepdims=True)
        else:
            sums = xp.matrix_transpose(self.basis) @ weighted
        return self._solved(sums)

    def spread(self, v: Array) -> Array:
        """Return C·v: sample coefficients of the combination Aᵀv."""
        xp = array_namespace(v)
        scaled = self.root * v
        if self.basis.shape[1] == 0:
            return scaled
        if self.basis.shape[1] == 1 and self.fit_intercept:
            sums = xp.sum(scaled, axis=-2, keepdims=True)
        else:
            sums = xp.matrix_transpose(self.basis) @ scaled
        fitted = self.basis @ self._solved(sums)
        return scaled - self.weight[..., None] * fitted

    def gather(self, t: Array) -> Array:
        """Return Cᵀ·t: less what the basis explains, scaled by root weights."""
        if self.basis.shape[1]:
            rest = t - self.basis @ self.regression(t)
            if self.basis.shape[1] > 1:  # twice: columns that are alike lose digits
                rest = rest - self.basis @ self.regression(rest)
            t = unless_rounding(rest, t, self.weight[..., None], axis=-2)
        return self.root * t

    def both(self, matrix: Array) -> Array:
        """Return Cᵀ·matrix·C for a symmetric (n, n) matrix."""
        xp = array_namespace(matrix)
        return self.gather(xp.matrix_transpose(self.gather(matrix)))

    def residual(self, rows: Array) -> Array:
        """Return rows (…, n) less what the basis explains of them."""
        if self.basis.shape[1] == 0:
            return rows
        rest = rows - self._explained(rows)
        if self.basis.shape[1] > 1:
            rest = rest - self._explained(rest)
        return unless_rounding(rest, rows, self.weight, axis=-1)

    def _explained(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        coef = xp.linalg.vecdot(rows[..., None, :], self.share, axis=-1)
        return coef @ xp.matrix_transpose(self.basis)


def least_squares(moments: Array, sums: Array) -> Array:
    """Return moments⁺·sums for small matrices (…, b, b) and (…, b, k).

    The pseudo-inverse: a category that a subset lacks has no column there.
    """
    xp = array_namespace(moments)
    if moments.shape[-1] == 0:
        return sums
    if moments.shape[-1] == 1:
        return sums / xp.where(moments != 0, moments, 1.0)
    rtol = LEAST_VARIANCE * xp.finfo(moments.dtype).eps
    inverse = xp.linalg.pinv(moments, rtol=rtol)
    return inverse @ sums
