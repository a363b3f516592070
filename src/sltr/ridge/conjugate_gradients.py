"""Ridge by conjugate gradients: products with X alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, clip, eigh
from sltr.arrays.linalg import conjugate_gradients, reachable
from sltr.ridge import mean_eigenvalue
from sltr.samples.centring import Centring
from sltr.samples.samples import Design

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
    centring: Centring  # of all samples
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
        centring = self.centring.on(subsets[:, None, :])  # for all penalties
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
        rows = self.sketch / xp.sqrt(self.centring.weight)[:, None]
        kernels = []
        for s in range(centring.weight.shape[0]):
            subset = replace(centring, weight=centring.weight[s, 0, :])
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
        centring = self.centring
        xp, weight = array_namespace(centring.weight), centring.weight
        centre = self.X.combine(centring.share)
        parts = self.X.map_rows(_squares, [centring.basis], [centre])
        squares = xp.concat(list(parts))
        trace = xp.sum(weight * squares)
        return mean_eigenvalue(trace, weight, self.X.shape[1])


def _squares(X: Array, basis: Array, centre: Array) -> Array:
    part = X - basis @ centre
    return array_namespace(part).linalg.vecdot(part, part, axis=-1)


def cg_ridge(
    X: Design,
    Y: Array,
    centring: Centring,
    rank: int,
    *,
    max_iter: int,
    unconverged: Unconverged | None,
) -> CGRidge:
    """Make a sketch of this rank, which reads X twice."""
    sketch = _nystrom_factor(X, centring, rank)
    return CGRidge(X, Y, centring, sketch, max_iter=max_iter, unconverged=unconverged)


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
