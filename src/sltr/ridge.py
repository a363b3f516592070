"""The pilot: ridge regression for any penalty and any subset of the samples.

With A the weighted, centred samples of a subset as rows, the pilot is

    w = (AᵀA + εI)⁻¹Aᵀy = Aᵀ(AAᵀ + εI)⁻¹y.

Three systems compute it. They differ in what is made once and then serves
every penalty, subset and response: the Gram matrix of the samples (n ≤ P), the
moments of the features (P < n), or nothing (conjugate gradients, when neither
fits). Centring a subset needs no second pass: with C the map that scales by
root weights and removes the weighted mean, A = Cᵀ(X − shift) for any shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from sltr._array import Array, array_namespace, clip, device, eigh, positive_solver
from sltr.design import column_means, combine, gram, inner

__all__ = [
    "CGRidge",
    "GramRidge",
    "MomentRidge",
    "RidgeSystem",
    "ridge_system",
]

# An eigendecomposition costs about as much as this many Cholesky factorisations.
CHOLESKY_PER_EIGH = 25
# Above this short side a Gram matrix no longer fits: 20,000² doubles are 3 GB.
LARGEST_DIRECT = 20_000


class RidgeSystem(Protocol):
    """Ridge estimates for many subsets and penalties from one preparation."""

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P): subsets, penalties, responses.

        `subsets` (S, n) is true where a sample takes part; `epsilons` is (E,).
        """

    def resolvent(self, subset: Array, epsilon: float) -> Callable[[Array], Array]:
        """Return the map from responses (n, k) to pilots (k, P), factorised once."""

    def loo(self, epsilons: Array) -> Array:
        """Return the mean squared leave-one-out error for each penalty, (E,)."""

    def mean_eigenvalue(self) -> float:
        """Return the mean non-trivial eigenvalue of AAᵀ, all samples taken."""


def ridge_system(
    X: Array, Y: Array, weight: Array, *, fit_intercept: bool, method: str = "auto"
) -> RidgeSystem:
    """Prepare the cheapest of the three systems for these samples.

    Parameters
    ----------
    X : array of shape (n, P)
    Y : array of shape (n, K)
    weight : array of shape (n,), positive
    fit_intercept : bool
    method : {"auto", "dual", "primal", "cg"}
    """
    n_samples, n_features = X.shape
    if method == "auto":
        method = "dual" if n_samples <= n_features else "primal"
        if min(n_samples, n_features) > LARGEST_DIRECT:
            method = "cg"
    systems: dict[str, Callable[..., RidgeSystem]] = {
        "dual": _gram_ridge,
        "primal": _moment_ridge,
        "cg": CGRidge,
    }
    return systems[method](X, Y, weight, fit_intercept)


@dataclass(frozen=True, eq=False)
class _Centring:
    """The map C of a subset: A = Cᵀ·X, its columns orthogonal to √weight.

    `weight` has shape (…, n), zero for samples that are left out; vectors are
    columns of arrays of shape (…, n, k).
    """

    weight: Array
    fit_intercept: bool

    def spread(self, v: Array) -> Array:
        """Return C·v: sample coefficients of the combination Aᵀv."""
        xp = array_namespace(v)
        weight = self.weight[..., None]
        scaled = xp.sqrt(weight) * v
        if not self.fit_intercept:
            return scaled
        total = xp.sum(weight, axis=-2, keepdims=True)
        return scaled - weight * (xp.sum(scaled, axis=-2, keepdims=True) / total)

    def gather(self, t: Array) -> Array:
        """Return Cᵀ·t: centred by the weighted mean, scaled by root weights."""
        xp = array_namespace(t)
        weight = self.weight[..., None]
        if self.fit_intercept:
            total = xp.sum(weight, axis=-2, keepdims=True)
            t = t - xp.sum(weight * t, axis=-2, keepdims=True) / total
        return xp.sqrt(weight) * t

    def both(self, matrix: Array) -> Array:
        """Return Cᵀ·matrix·C for a symmetric (n, n) matrix."""
        xp = array_namespace(matrix)
        return self.gather(xp.matrix_transpose(self.gather(matrix)))


@dataclass(frozen=True, eq=False)
class GramRidge:
    """Ridge through the n × n Gram matrix: the expensive product is made once."""

    X: Array
    Y: Array
    weight: Array
    fit_intercept: bool
    gram: Array

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P); reads X once for all of them."""
        duals = self.duals(subsets, epsilons)
        xp = array_namespace(duals)
        rows = xp.reshape(duals, (-1, self.X.shape[0]))
        return xp.reshape(combine(rows, self.X), (*duals.shape[:3], self.X.shape[1]))

    def duals(self, subsets: Array, epsilons: Array) -> Array:
        """Return c of shape (S, E, K, n) with pilot = c·X."""
        xp = array_namespace(self.gram)
        found = [
            self._subset_duals(subsets[s, :], epsilons) for s in range(subsets.shape[0])
        ]
        return xp.stack(found, axis=0)

    def _subset_duals(self, subset: Array, epsilons: Array) -> Array:
        rows, centring, kernel = self._restricted(subset)
        xp = array_namespace(kernel)
        rhs = centring.gather(xp.take(self.Y, rows, axis=0))
        found = centring.spread(_penalised_solves(kernel, rhs, epsilons))  # (E, m, K)
        return xp.matrix_transpose(_placed(found, subset))

    def _restricted(self, subset: Array) -> tuple[Array, _Centring, Array]:
        xp = array_namespace(self.gram)
        rows = xp.nonzero(subset)[0]
        centring = _Centring(xp.take(self.weight, rows, axis=0), self.fit_intercept)
        kernel = xp.take(xp.take(self.gram, rows, axis=0), rows, axis=1)
        return rows, centring, centring.both(kernel)

    def resolvent(self, subset: Array, epsilon: float) -> Callable[[Array], Array]:
        """Return the map from responses (n, k) to pilots (k, P), factorised once."""
        rows, centring, kernel = self._restricted(subset)
        xp = array_namespace(kernel)
        identity = xp.eye(kernel.shape[0], dtype=kernel.dtype, device=device(kernel))
        solve = positive_solver(kernel + epsilon * identity)

        def pilots(responses: Array) -> Array:
            found = solve(centring.gather(xp.take(responses, rows, axis=0)))
            placed = _placed(centring.spread(found)[None, ...], subset)[0, ...]
            return combine(xp.matrix_transpose(placed), self.X)

        return pilots

    def loo(self, epsilons: Array) -> Array:
        """Return the mean squared leave-one-out error for each penalty, (E,)."""
        xp = array_namespace(self.gram)
        centring = _Centring(self.weight, self.fit_intercept)
        values, vectors = eigh(centring.both(self.gram))
        rhs = xp.matrix_transpose(vectors) @ centring.gather(self.Y)
        # I − H = ε(K + εI)⁻¹, of which the intercept takes its own direction.
        shrink = epsilons[:, None] / (clip(values, 0.0, None) + epsilons[:, None])
        residuals = vectors @ (shrink[:, :, None] * rhs)
        leverage = 1.0 - shrink @ xp.matrix_transpose(vectors**2)
        return _leave_one_out(residuals, leverage, self.weight, self.fit_intercept)

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        xp = array_namespace(self.gram)
        kernel = _Centring(self.weight, self.fit_intercept).both(self.gram)
        return _mean_eigenvalue(xp.linalg.trace(kernel), self.weight, self.X.shape[1])


@dataclass(frozen=True, eq=False)
class MomentRidge:
    """Ridge through the P × P moments; a fold's are the total less its own."""

    X: Array
    Y: Array
    weight: Array
    fit_intercept: bool
    shift: Array  # (P,), close to the mean: keeps digits
    second: Array  # (P, P), Σ w x xᵀ of the shifted samples
    cross: Array  # (P, K), Σ w x yᵀ
    first: Array  # (P,), Σ w x

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P)."""
        xp = array_namespace(self.second)
        found = []
        for s in range(subsets.shape[0]):
            normal, cross = self._centred(subsets[s, :])
            found.append(_penalised_solves(normal, cross, epsilons))
        return xp.matrix_transpose(xp.stack(found, axis=0))

    def resolvent(self, subset: Array, epsilon: float) -> Callable[[Array], Array]:
        """Return the map from responses (n, k) to pilots (k, P), factorised once."""
        normal, _ = self._centred(subset)
        xp = array_namespace(normal)
        identity = xp.eye(normal.shape[0], dtype=normal.dtype, device=device(normal))
        solve = positive_solver(normal + epsilon * identity)
        weight = xp.where(subset, self.weight, 0.0)
        centring = _Centring(weight, self.fit_intercept)

        def pilots(responses: Array) -> Array:
            spread = centring.spread(centring.gather(responses))
            return xp.matrix_transpose(solve(xp.matrix_transpose(self.X) @ spread))

        return pilots

    def _centred(self, subset: Array) -> tuple[Array, Array]:
        """Return AᵀA and Aᵀy of a subset, from the total less what is left out."""
        xp = array_namespace(self.second)
        out = xp.nonzero(~subset)[0]
        second, cross, first = self.second, self.cross, self.first
        weight = xp.where(subset, self.weight, 0.0)
        if out.shape[0] > 0:
            less = _moments(
                xp.take(self.X, out, axis=0) - self.shift,
                xp.take(self.Y, out, axis=0),
                xp.take(self.weight, out, axis=0),
            )
            second, cross, first = (
                total - part
                for total, part in zip((second, cross, first), less, strict=True)
            )
        if not self.fit_intercept:
            return second, cross
        total = xp.sum(weight)
        y_mean = (weight @ self.Y) / total
        normal = second - first[:, None] * first[None, :] / total
        return normal, cross - first[:, None] * y_mean[None, :]

    def loo(self, epsilons: Array) -> Array:
        """Return the mean squared leave-one-out error for each penalty, (E,)."""
        xp = array_namespace(self.second)
        everyone = self.weight > 0
        normal, cross = self._centred(everyone)
        values, vectors = eigh(normal)
        inverse = 1.0 / (clip(values, 0.0, None) + epsilons[:, None])  # (E, P)
        centring = _Centring(self.weight, self.fit_intercept)
        scores = centring.gather((self.X - self.shift) @ vectors)  # A·V
        coef = inverse[:, :, None] * (xp.matrix_transpose(vectors) @ cross)
        residuals = centring.gather(self.Y) - scores @ coef  # (E, n, K)
        leverage = inverse @ xp.matrix_transpose(scores**2)
        return _leave_one_out(residuals, leverage, self.weight, self.fit_intercept)

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        xp = array_namespace(self.second)
        normal, _ = self._centred(self.weight > 0)
        return _mean_eigenvalue(xp.linalg.trace(normal), self.weight, self.X.shape[1])


@dataclass(frozen=True, eq=False)
class CGRidge:
    """Ridge by conjugate gradients: products with X only, all systems at once."""

    X: Array
    Y: Array
    weight: Array
    fit_intercept: bool
    tol: float = 1e-10
    max_iter: int = 2000

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P); two reads of X per iteration."""
        xp = array_namespace(self.Y)
        n_responses = self.Y.shape[1]
        weight = xp.where(subsets, self.weight, 0.0)[:, None, :]
        centring = _Centring(weight, self.fit_intercept)
        # (S, E, n, K): one system for each subset and penalty
        rhs = centring.gather(self.Y) + 0.0 * epsilons[None, :, None, None]

        def combined(v):
            rows = xp.matrix_transpose(centring.spread(v))
            return combine(xp.reshape(rows, (-1, self.X.shape[0])), self.X)

        def apply(v):
            products = xp.matrix_transpose(inner(self.X, combined(v)))
            products = xp.reshape(products, xp.matrix_transpose(v).shape)
            gathered = centring.gather(xp.matrix_transpose(products))
            return gathered + epsilons[None, :, None, None] * v

        solution = _conjugate_gradients(
            apply, rhs, tol=self.tol, max_iter=self.max_iter
        )
        shape = (subsets.shape[0], epsilons.shape[0], n_responses, self.X.shape[1])
        return xp.reshape(combined(solution), shape)

    def resolvent(self, subset: Array, epsilon: float) -> Callable[[Array], Array]:
        """Return the map from responses (n, k) to pilots (k, P): a solve each."""
        xp = array_namespace(self.Y)
        penalty = epsilon * xp.ones_like(self.weight[:1])

        def pilots(responses: Array) -> Array:
            system = replace(self, Y=responses)
            return system.coefs(subset[None, :], penalty)[0, 0, ...]

        return pilots

    def loo(self, epsilons: Array) -> Array:
        """Refuse: leave-one-out needs a factorisation."""
        msg = (
            "'loo' was given for the penalty of a pilot found by conjugate gradients; "
            "it needs a factorisation. Give epsilon (or epsilons) as numbers."
        )
        raise ValueError(msg)

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        xp = array_namespace(self.weight)
        share = self.weight / xp.sum(self.weight)
        squares = share @ (self.X**2)
        if self.fit_intercept:
            squares = squares - column_means(self.X, self.weight) ** 2
        trace = xp.sum(squares) * xp.sum(self.weight)
        return _mean_eigenvalue(trace, self.weight, self.X.shape[1])


def _placed(found: Array, subset: Array) -> Array:
    """Put rows (E, m, K) of a subset at their places among all n; others are zero."""
    xp = array_namespace(found)
    padded = xp.concat([found, 0.0 * found[:, :1, :]], axis=1)
    count = xp.cumulative_sum(xp.astype(subset, xp.int64))
    return xp.take(padded, xp.where(subset, count - 1, found.shape[1]), axis=1)


def _gram_ridge(X: Array, Y: Array, weight: Array, fit_intercept: bool) -> GramRidge:
    shift = column_means(X, weight) if fit_intercept else None
    return GramRidge(X, Y, weight, fit_intercept, gram(X, shift))


def _moment_ridge(
    X: Array, Y: Array, weight: Array, fit_intercept: bool
) -> MomentRidge:
    shift = column_means(X, weight)
    if not fit_intercept:
        shift = 0.0 * shift
    second, cross, first = _moments(X - shift, Y, weight)
    return MomentRidge(X, Y, weight, fit_intercept, shift, second, cross, first)


def _moments(X: Array, Y: Array, weight: Array) -> tuple[Array, Array, Array]:
    xp = array_namespace(X)
    weighted = xp.matrix_transpose(X * weight[:, None])
    return weighted @ X, weighted @ Y, xp.sum(weighted, axis=1)


def _penalised_solves(matrix: Array, rhs: Array, epsilons: Array) -> Array:
    """Solve (matrix + εI)·c = rhs for each ε: shape (E, m, K).

    Few penalties take a Cholesky factorisation each, many share one
    eigendecomposition. ε = 0 gives the solution of least norm.
    """
    xp = array_namespace(matrix)
    smallest = float(xp.min(epsilons))
    if epsilons.shape[0] <= CHOLESKY_PER_EIGH and smallest > 0:
        identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
        return xp.stack(
            [
                positive_solver(matrix + epsilons[e] * identity)(rhs)
                for e in range(epsilons.shape[0])
            ]
        )
    values, vectors = eigh(matrix)
    floor = matrix.shape[0] * xp.finfo(matrix.dtype).eps * xp.max(values)
    shifted = xp.where(values > floor, values, 0.0) + epsilons[:, None]
    inverse = xp.where(shifted > 0, 1.0 / xp.where(shifted > 0, shifted, 1.0), 0.0)
    return vectors @ (inverse[:, :, None] * (xp.matrix_transpose(vectors) @ rhs))


def _leave_one_out(
    residuals: Array, leverage: Array, weight: Array, fit_intercept: bool
) -> Array:
    """Return mean squared errors, (E,), when one unit of weight is left out.

    A sample of integer weight counts as that many equal samples of which one
    is left out; one of weight below 1 is left out as a whole.
    """
    xp = array_namespace(residuals)
    total = xp.sum(weight)
    if fit_intercept:
        leverage = leverage + weight / total
    unit = clip(weight, None, 1.0) / weight
    rest = clip(1.0 - unit * leverage, 1e-12, None)
    errors = xp.sum((residuals / rest[:, :, None]) ** 2, axis=(1, 2))
    return errors / total


def _conjugate_gradients(apply, rhs: Array, *, tol: float, max_iter: int) -> Array:
    """Solve a batch of positive definite systems along axis −2 to residual tol."""
    xp = array_namespace(rhs)
    tol = max(tol, 10.0 * float(xp.finfo(rhs.dtype).eps))
    x, residual = 0.0 * rhs, rhs
    direction = residual
    size = xp.sum(residual**2, axis=-2, keepdims=True)
    target = tol**2 * size
    for _ in range(max_iter):
        if not bool(xp.any(size > target)):
            break
        image = apply(direction)
        curvature = xp.sum(direction * image, axis=-2, keepdims=True)
        step = xp.where(
            curvature > 0, size / xp.where(curvature > 0, curvature, 1.0), 0.0
        )
        x = x + step * direction
        residual = residual - step * image
        new_size = xp.sum(residual**2, axis=-2, keepdims=True)
        turn = xp.where(size > 0, new_size / xp.where(size > 0, size, 1.0), 0.0)
        direction = residual + turn * direction
        size = new_size
    return x


def _mean_eigenvalue(trace: Array, weight: Array, n_features: int) -> float:
    xp = array_namespace(weight)
    return float(trace) / min(float(xp.sum(weight)), float(n_features))
