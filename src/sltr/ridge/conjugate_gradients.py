"""Conjugate gradients for a batch of systems; ridge by products with X alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, clip, eigh
from sltr.ridge.penalty import mean_eigenvalue
from sltr.samples.front import Centring
from sltr.samples.samples import Design

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
    start_image: Array | None = None,
    tol: float,
    max_iter: int,
    verify: bool = True,
) -> tuple[Array, Array, float, int]:
    """Solve a batch of positive definite systems along axis −2, from zero or a start.

    Returns the solutions and their images, the largest true residual relative to the
    right-hand side, and the number of iterations. Unless to `verify`, few iterations
    are made, and their recursive residual is believed. The image of the start is found
    unless given.
    """
    xp = array_namespace(rhs)
    target = reachable(tol, rhs)
    norm = xp.sqrt(xp.sum(rhs**2, axis=-2, keepdims=True))
    norm = xp.where(norm > 0, norm, 1.0)

    def relative(residual: Array) -> Array:
        return xp.sqrt(xp.sum(residual**2, axis=-2, keepdims=True)) / norm

    x, residual, n_iter = 0.0 * rhs, rhs, 0
    if start is not None:
        start_image = apply(start) if start_image is None else start_image
        x, residual = start, rhs - start_image
    reached = relative(residual)
    for _ in range(RESTARTS):
        direction, last = 0.0 * rhs, 1.0 + 0.0 * norm
        recursive = reached
        while float(xp.max(recursive)) > 0.5 * target and n_iter < max_iter:
            steered = residual if precondition is None else precondition(residual)
            size = xp.sum(residual * steered, axis=-2, keepdims=True)
            direction = steered + _ratio(size, last) * direction
            image = apply(direction)
            curvature = xp.sum(direction * image, axis=-2, keepdims=True)
            # A system that is solved waits: no answer depends on its company.
            step = xp.where(recursive > 0.5 * target, _ratio(size, curvature), 0.0)
            x, residual = x + step * direction, residual - step * image
            last, recursive = size, relative(residual)
            n_iter += 1
        if n_iter == 0 or not verify:
            reached = recursive
            break
        # Rounding lets the recursive residual drift: stop on the true one.
        before, residual = reached, rhs - apply(x)
        reached = relative(residual)
        worst, last_worst = float(xp.max(reached)), float(xp.max(before))
        if worst <= target or n_iter >= max_iter or worst > 0.5 * last_worst:
            break
    return x, rhs - residual, float(xp.max(reached)), n_iter


def _ratio(a: Array, b: Array) -> Array:
    xp = array_namespace(b)
    some = b > 0
    return xp.where(some, a / xp.where(some, b, 1.0), 0.0)


Unconverged = Callable[[float, int], None]


@dataclass(frozen=True, eq=False)
class CGRidge:
    """Ridge by conjugate gradients: products with X only, all systems at once.

    `sketch` (n, r) has Aᵀ's Gram matrix close to sketch·sketchᵀ, all samples taken;
    without one there is no preconditioner. `unconverged` is called with the
    relative residual reached and the iterations made if the budget runs out.
    """

    method: ClassVar[str] = "cg"

    X: Design
    Y: Array
    weight: Array
    fit_intercept: bool
    covariates: Array | None = None
    sketch: Array | None = None
    tol: float = 1e-10
    max_iter: int = 2000
    unconverged: Unconverged | None = None

    def with_responses(self, Y: Array) -> CGRidge:
        """Return the system with other responses; the sketch is kept."""
        return replace(self, Y=Y)

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and what was removed, (S, b, P); two reads per iteration."""
        xp = array_namespace(self.Y)
        everywhere = subsets[:, None, :]  # for all penalties
        centring = Centring.of_subsets(
            everywhere, self.weight, self.fit_intercept, self.covariates
        )
        # (S, E, n, K): one system for each subset and penalty
        rhs = centring.gather(self.Y) + 0.0 * epsilons[None, :, None, None]
        penalty = epsilons[None, :, None, None]

        def apply(v):
            rows = xp.matrix_transpose(centring.spread(v))
            pilots = self.X.combine(xp.reshape(rows, (-1, self.X.shape[0])))
            products = xp.matrix_transpose(self.X.inner(pilots))
            products = xp.reshape(products, rows.shape)
            return centring.gather(xp.matrix_transpose(products)) + penalty * v

        precondition = self._preconditioner(centring, penalty)
        solution, _, residual, n_iter = conjugate_gradients(
            apply, rhs, precondition, tol=self.tol, max_iter=self.max_iter
        )
        if residual > reachable(self.tol, rhs) and self.unconverged is not None:
            self.unconverged(residual, n_iter)
        rows = xp.matrix_transpose(centring.spread(solution))  # (S, E, K, n)
        flat = xp.reshape(rows, (-1, self.X.shape[0]))
        shares = centring.share[:, 0, ...]  # (S, b, n)
        shapes = [(*part.shape[:-1], self.X.shape[1]) for part in (rows, shares)]
        both = [flat, xp.reshape(shares, (-1, self.X.shape[0]))]
        products = self.X.combine(xp.concat(both, axis=0))
        parts = products[: flat.shape[0], :], products[flat.shape[0] :, :]
        pilots, means = map(xp.reshape, parts, shapes)
        return pilots, means

    def _preconditioner(
        self, centring: Centring, penalty: Array
    ) -> Callable[[Array], Array]:
        """Return M⁻¹ for residuals (S, E, n, K), from the sketch of all samples."""
        if self.sketch is None:
            return lambda residual: residual
        xp = array_namespace(self.sketch)
        # A subset's rows are those of all samples, weighted and centred anew.
        rows = self.sketch / xp.sqrt(self.weight)[:, None]
        kernels = []
        for s in range(centring.weight.shape[0]):
            weight = centring.weight[s, 0, :]
            subset = Centring(weight, self.fit_intercept, self.covariates)
            part = subset.gather(rows)
            kernels.append(xp.matrix_transpose(part) @ part)
        kernel = xp.stack(kernels, axis=0)
        values, vectors = eigh(kernel)  # (S, r), (S, r, r)
        floor = 1e-12 * xp.max(values, axis=1, keepdims=True)
        seen = values > floor
        values = xp.where(seen, values, 1.0)[:, None, :]
        smallest = xp.min(xp.where(seen[:, None, :], values, xp.max(values)), axis=2)
        penalty = penalty[..., 0]  # (1, E, 1)
        damping = (smallest[..., None] + penalty) / (values + penalty)
        change = xp.where(seen[:, None, :], (damping - 1.0) / values, 0.0)

        def precondition(residual: Array) -> Array:
            turned = xp.matrix_transpose(rows) @ centring.spread(residual)
            turned = xp.matrix_transpose(vectors)[:, None, ...] @ turned
            turned = vectors[:, None, ...] @ (change[..., None] * turned)
            return residual + centring.gather(rows @ turned)

        return precondition

    def loo_losses(self, epsilons: Array) -> Array:
        """Refuse: leave-one-out needs a factorisation."""
        msg = (
            "epsilon 'loo', the default, is not there for conjugate gradients; "
            "it needs a factorisation. Give epsilon (or epsilons) as numbers, or raise "
            "memory_limit so that a factorisation fits."
        )
        raise ValueError(msg)

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        xp = array_namespace(self.weight)
        centring = Centring(self.weight, self.fit_intercept, self.covariates)
        centre = self.X.combine(centring.share)
        parts = self.X.map_rows(_squares, [centring.basis], [centre])
        squares = xp.concat(list(parts))
        trace = xp.sum(self.weight * squares)
        return mean_eigenvalue(trace, self.weight, self.X.shape[1])


def _squares(X: Array, basis: Array, centre: Array) -> Array:
    part = X - basis @ centre
    return array_namespace(part).linalg.vecdot(part, part, axis=-1)


def cg_ridge(
    X: Design,
    Y: Array,
    weight: Array,
    fit_intercept: bool,
    covariates: Array | None = None,
    *,
    rank: int,
    max_iter: int,
    unconverged: Unconverged | None = None,
) -> CGRidge:
    """Make a sketch of this rank, which reads X twice."""
    sketch = _nystrom_factor(X, Centring(weight, fit_intercept, covariates), rank)
    return CGRidge(
        X,
        Y,
        weight,
        fit_intercept,
        covariates,
        sketch,
        max_iter=max_iter,
        unconverged=unconverged,
    )


def _nystrom_factor(X: Design, centring: Centring, rank: int) -> Array:
    """Return F of shape (n, r) with F·Fᵀ close to AAᵀ, from one random sketch."""
    weight = centring.weight
    xp = array_namespace(weight)
    n_samples, n_features = X.shape
    rank = min(rank, n_samples, n_features)
    test = np.random.default_rng(0).standard_normal((n_samples, rank))
    test = xp.linalg.qr(as_array(test, weight)).Q
    pilots = X.combine(xp.matrix_transpose(centring.spread(test)))
    image = centring.gather(X.inner(pilots))  # AAᵀ·test
    # A shift of rounding size keeps the small kernel positive definite.
    shift = float(xp.finfo(weight.dtype).eps) * float(xp.linalg.matrix_norm(image))
    image = image + shift * test
    kernel = xp.matrix_transpose(test) @ image
    values, vectors = eigh((kernel + xp.matrix_transpose(kernel)) / 2.0)
    floor = 1e-10 * xp.max(clip(values, 0.0, None))
    root = xp.where(values > floor, 1.0 / xp.sqrt(clip(values, 1e-300, None)), 0.0)
    return (image @ vectors) * root
