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

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sltr.arrays import Array, array_namespace, clip, eigh, to_float64, to_numpy
from sltr.ridge import leave_one_out, mean_eigenvalue, penalised_solves, squared_errors
from sltr.samples.centring import Centring, least_squares
from sltr.samples.samples import Design


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

    def regressed(self, fit_intercept: bool, n_covariates: int) -> Regressed:
        """Return the normal equations less what an intercept and covariates explain.

        The last responses are the covariates.
        """
        xp = array_namespace(self.second)
        normal, cross = self.normal(fit_intercept)
        n_responses = self.y_mean.shape[0] - n_covariates
        y_mean, z_mean = self.y_mean[:n_responses], self.y_mean[n_responses:]
        means, y_means = self.x_mean[None, :], y_mean[None, :]
        if not fit_intercept:
            means, y_means = means[:0, :], y_means[:0, :]
        if n_covariates == 0:
            return Regressed(normal, cross, means, y_means)
        products = self.y_second
        if not fit_intercept:
            scaled = (self.weight * self.y_mean)[:, None]
            products = products + scaled * self.y_mean[None, :]
        x_cross, cross = cross[:, n_responses:], cross[:, :n_responses]
        moments = products[n_responses:, n_responses:]
        slopes = least_squares(moments, xp.matrix_transpose(x_cross))  # (q, P)
        y_slopes = least_squares(moments, products[n_responses:, :n_responses])
        if fit_intercept:
            means = means - z_mean[None, :] @ slopes
            y_means = y_means - z_mean[None, :] @ y_slopes
        return Regressed(
            normal - x_cross @ slopes,
            cross - x_cross @ y_slopes,
            xp.concat([means, slopes], axis=0),
            xp.concat([y_means, y_slopes], axis=0),
        )


@dataclass(frozen=True, eq=False)
class Regressed:
    """Normal equations, and the regressions of samples and responses on a basis."""

    normal: Array  # (P, P)
    cross: Array  # (P, K)
    x_coef: Array  # (b, P)
    y_coef: Array  # (b, K)


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
    # Responses may be more precise than samples; the mean is removed before the cast.
    y_mean = (xp.astype(share, Y.dtype, copy=False) @ Y)[0, ...]
    Y = xp.astype(Y - y_mean, X.dtype, copy=False)
    # About the first sample: samples that are all equal leave exact zeros.
    origin = X[0, :]
    X = X - origin
    step = (share @ X)[0, ...]
    X = X - step
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


@dataclass(frozen=True, eq=False)
class MomentRidge:
    """Ridge through the P × P moments; a fold's are the total less its own."""

    method: ClassVar[str] = "primal"

    X: Design
    Y: Array
    centring: Centring  # of all samples
    total: Moments  # of the responses, and then of the covariates

    def with_responses(self, Y: Array) -> MomentRidge:
        """Return the system with other responses: one pass, for their products."""
        xp, kept, given = array_namespace(self.centring.weight), self.total, Y
        Y = _beside(Y, self.centring.covariates)
        share = to_float64(self.centring.weight / xp.sum(self.centring.weight))[None, :]
        y_mean = (share @ to_float64(Y))[0, ...]
        rest = xp.astype(to_float64(Y) - y_mean, kept.dtype)
        weighted = rest * xp.astype(self.centring.weight, kept.dtype)[:, None]
        shift = xp.astype(kept.x_mean, kept.dtype)
        parts = self.X.map_rows(_row_products, [weighted], [shift])
        total = replace(
            kept,
            y_mean=y_mean,
            cross=sum(to_float64(part) for part in parts),
            y_second=to_float64(xp.matrix_transpose(weighted) @ rest),
        )
        return replace(self, Y=given, total=total)

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and what was removed, (S, b, P); reads what is left out."""
        xp = array_namespace(self.centring.weight)
        solved, means = [], []
        for s in range(subsets.shape[0]):
            part = self._regressed(self._moments_of(subsets[s, :]))
            solved.append(penalised_solves(part.normal, part.cross, epsilons))
            means.append(part.x_coef)
        pilots, dtype = xp.matrix_transpose(xp.stack(solved, axis=0)), self.total.dtype
        return xp.astype(pilots, dtype), xp.astype(xp.stack(means, axis=0), dtype)

    def _moments_of(self, subset: Array) -> Moments:
        """Return the moments of a subset: the total less what is left out."""
        xp = array_namespace(self.centring.weight)
        out = xp.nonzero(~subset)[0]
        if out.shape[0] == 0:
            return self.total
        responses = _beside(self.Y, self.centring.covariates)
        given = responses, self.centring.weight
        rowwise = [xp.take(values, out, axis=0) for values in given]
        left_out = self.X.take(to_numpy(out)).reduce_rows(moments, merge, rowwise)
        return without(self.total, left_out)

    def loo_losses(self, epsilons: Array) -> Array:
        """Return squared leave-one-out errors for each penalty, (E, n)."""
        return squared_errors(self.loo_residuals(epsilons), self.centring.weight)

    def loo_residuals(self, epsilons: Array) -> Array:
        """Return what pilots without a sample miss it by, (E, n, K), root-weighted."""
        xp = array_namespace(self.centring.weight)
        part = self._regressed(self.total)
        centring = self.centring
        values, vectors = eigh(part.normal)
        inverse = 1.0 / (clip(values, 0.0, None) + epsilons[:, None])  # (E, P)
        coef = inverse[:, :, None] * (xp.matrix_transpose(vectors) @ part.cross)
        # The pass over the samples is in their own precision.
        constants = [
            xp.astype(values, self.total.dtype)
            for values in (part.x_coef, vectors, inverse, coef)
        ]
        parts = list(self.X.map_rows(_row_fits, [centring.basis], constants))
        fitted = xp.concat([part[0] for part in parts], axis=1)  # (E, n, K)
        leverage = xp.concat([part[1] for part in parts], axis=1) * centring.weight
        expected = centring.basis @ xp.astype(part.y_coef, centring.basis.dtype)
        residuals = (self.Y - expected - fitted) * centring.root
        free = (1.0 - centring.leverage) - leverage
        return leave_one_out(residuals, free, centring)

    def _regressed(self, part: Moments) -> Regressed:
        fit_intercept, Z = self.centring.fit_intercept, self.centring.covariates
        return part.regressed(fit_intercept, 0 if Z is None else Z.shape[1])

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        normal = self._regressed(self.total).normal
        trace = array_namespace(normal).linalg.trace(normal)
        return mean_eigenvalue(trace, self.centring.weight, self.X.shape[1])


def moment_ridge(X: Design, Y: Array, centring: Centring) -> MomentRidge:
    """Make the moments: the one product that is quadratic in P."""
    rowwise = [_beside(Y, centring.covariates), centring.weight]
    return MomentRidge(X, Y, centring, X.reduce_rows(moments, merge, rowwise))


def _beside(Y: Array, covariates: Array | None) -> Array:
    """Return responses and covariates as columns of one array."""
    if covariates is None:
        return Y
    xp = array_namespace(Y)
    return xp.concat([Y, xp.astype(covariates, Y.dtype, copy=False)], axis=1)


def _row_fits(
    X: Array, basis: Array, removed: Array, vectors: Array, inverse: Array, coef: Array
) -> tuple[Array, Array]:
    """Return fitted values (E, R, K) and leverages (E, R) of a block of samples."""
    scores = (X - basis @ removed) @ vectors
    xp = array_namespace(scores)
    return scores @ coef, inverse @ xp.matrix_transpose(scores**2)


def _row_products(X: Array, Y: Array, shift: Array) -> Array:
    """Return the products (P, K) of a block of samples with weighted responses."""
    return array_namespace(Y).matrix_transpose(X - shift) @ Y


@dataclass(frozen=True, eq=False)
class StreamedRidge:
    """Ridge of samples of which only the moments were kept: one subset, all of them.

    Leave-one-out errors need every sample's residual. In their place `loo_losses` gives
    generalised cross-validation, which needs only the residuals' sum of squares:

        GCV(ε) = n·RSS(ε) / (n − df(ε))²,   df(ε) = Σ λ_i/(λ_i + ε),

    n the number of samples (one of weight 2 counts as two), λ_i the eigenvalues of
    AᵀA; the intercept counts one.

    References
    ----------
    Golub, Heath, Wahba (1979). Generalized cross-validation as a method for choosing
    a good ridge parameter.
    """

    method: ClassVar[str] = "primal"

    moments: Moments
    fit_intercept: bool

    def with_responses(self, Y: Array) -> StreamedRidge:
        """Refuse: the samples that other responses would belong to are gone."""
        msg = "Only moments of the samples were kept; expected samples. Use fit."
        raise ValueError(msg)

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots (1, E, K, P) and the mean sample, (1, 1, P), if it counts."""
        xp, dtype = array_namespace(self.moments.second), self.moments.dtype
        part = self.moments.regressed(self.fit_intercept, 0)
        solved = penalised_solves(part.normal, part.cross, epsilons)
        pilots = xp.astype(xp.matrix_transpose(solved), dtype)
        return pilots[None, ...], xp.astype(part.x_coef, dtype)[None, ...]

    def loo_losses(self, epsilons: Array) -> Array:
        """Return generalised cross-validation's error for each penalty, (E, 1)."""
        xp = array_namespace(self.moments.second)
        kept, total = self.moments, self.moments.weight
        normal, cross = kept.normal(self.fit_intercept)
        y_size = xp.linalg.trace(kept.y_second)
        if not self.fit_intercept:
            y_size = y_size + total * xp.sum(kept.y_mean**2)
        values, vectors = eigh(normal)
        values = clip(values, 0.0, None)
        energy = xp.sum((xp.matrix_transpose(vectors) @ cross) ** 2, axis=1)  # (P,)
        shifted = values + epsilons[:, None]  # (E, P)
        explained = xp.sum(energy * (2.0 * shifted - values) / shifted**2, axis=1)
        freedom = xp.sum(values / shifted, axis=1) + float(self.fit_intercept)
        floor = float(xp.finfo(values.dtype).eps)
        residual = clip(y_size - explained, floor * float(y_size), None)
        rest = clip(kept.count - freedom, 1e-6 * float(kept.count), None)
        return (kept.count * residual / rest**2)[:, None]

    def mean_eigenvalue(self) -> float:
        """Return trace(AᵀA) over the smaller of the total weight and P."""
        xp = array_namespace(self.moments.second)
        normal, _ = self.moments.normal(self.fit_intercept)
        weight = xp.reshape(self.moments.weight, (1,))
        return mean_eigenvalue(xp.linalg.trace(normal), weight, normal.shape[0])
