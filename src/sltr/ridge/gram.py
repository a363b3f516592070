"""Ridge through the Gram matrix of the samples, for n ≤ P."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sltr.arrays import Array, array_namespace, clip, eigh, positive_solver, to_python
from sltr.ridge.penalty import leave_one_out, mean_eigenvalue, penalised_solves
from sltr.samples.front import Centring
from sltr.samples.samples import Design

# Of a pilot found through the eigendecomposition, relative to its size.
LARGEST_ERROR = 1e-7


@dataclass(frozen=True, eq=False)
class GramRidge:
    """Ridge through the n × n Gram matrix: the expensive product is made once.

    So is its eigendecomposition, if leave-one-out errors ask for it; subsets that
    leave few samples out are then solved for from it.
    """

    method: ClassVar[str] = "dual"

    X: Design
    Y: Array
    weight: Array
    fit_intercept: bool
    gram: Array

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P); reads X once for all of them."""
        return self.coefs_and_means(subsets, epsilons)[0]

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and the subsets' means (S, P); reads X once for all."""
        duals = self.duals(subsets, epsilons)
        xp = array_namespace(duals)
        rows = xp.reshape(duals, (-1, self.X.shape[0]))
        shares = Centring.of_subsets(subsets, self.weight, True).share
        found = self.X.combine(xp.concat([rows, shares], axis=0))
        n_pilots = rows.shape[0]
        shape = (*duals.shape[:3], self.X.shape[1])
        return xp.reshape(found[:n_pilots, :], shape), found[n_pilots:, :]

    def duals(self, subsets: Array, epsilons: Array) -> Array:
        """Return c of shape (S, E, K, n) with pilot = c·X."""
        xp = array_namespace(self.gram)
        n, known = subsets.shape[1], self._spectrum_serves(epsilons)
        found = []
        counts = xp.sum(xp.astype(subsets, xp.int64), axis=1)
        for s, count in enumerate(to_python(counts)):
            # Multiplications of either way, but for what they have in common.
            cheaper = 6 * (n - count) ** 2 * n <= count**3
            solve = self._duals_by_omission if known and cheaper else self._subset_duals
            found.append(solve(subsets[s, :], epsilons))
        return xp.stack(found, axis=0)

    def _spectrum_serves(self, epsilons: Array) -> bool:
        """Say whether the decomposition is known, and exact enough for penalties."""
        if "_spectrum" not in vars(self):
            return False
        xp = array_namespace(self.gram)
        rounding = xp.finfo(self.gram.dtype).eps * float(xp.max(self._spectrum[0]))
        return rounding < LARGEST_ERROR * float(xp.min(epsilons))

    def _duals_by_omission(self, subset: Array, epsilons: Array) -> Array:
        """Return c of shape (E, K, n) from the decomposition for all samples.

        With H = (K + εI)⁻¹ for all of them, responses of those left out are chosen
        such that these get no share in H·y; the intercept makes shares sum to zero.
        """
        values, vectors = self._spectrum
        xp = array_namespace(values)
        back = xp.matrix_transpose(vectors)
        out = xp.nonzero(~subset)[0]
        rows = xp.take(vectors, out, axis=0)
        inside = xp.astype(subset, values.dtype)[:, None]
        root = xp.sqrt(self.weight)[:, None] * inside
        centring = Centring.of_subsets(subset, self.weight, self.fit_intercept)
        rhs = back @ xp.concat([centring.gather(self.Y), root], axis=1)
        found = []
        for e in range(epsilons.shape[0]):
            inverse = (1.0 / (clip(values, 0.0, None) + epsilons[e]))[:, None]
            shares = vectors @ (inverse * rhs)
            if out.shape[0]:
                block = rows @ (inverse * xp.matrix_transpose(rows))
                excess = positive_solver(block)(xp.take(shares, out, axis=0))
                lift = inverse * (xp.matrix_transpose(rows) @ excess)
                shares = inside * (shares - vectors @ lift)
            own, level = shares[:, :-1], shares[:, -1:]
            if self.fit_intercept:
                size = xp.sum(root * level)
                own = own - level * (xp.sum(root * own, axis=0) / size)
            found.append(xp.matrix_transpose(root * own))
        return xp.stack(found, axis=0)

    def _subset_duals(self, subset: Array, epsilons: Array) -> Array:
        rows, centring, kernel = self._restricted(subset)
        xp = array_namespace(kernel)
        rhs = centring.gather(xp.take(self.Y, rows, axis=0))
        found = centring.spread(penalised_solves(kernel, rhs, epsilons))  # (E, m, K)
        return xp.matrix_transpose(_placed(found, subset))

    def _restricted(self, subset: Array) -> tuple[Array, Centring, Array]:
        xp = array_namespace(self.gram)
        rows = xp.nonzero(subset)[0]
        centring = Centring(xp.take(self.weight, rows, axis=0), self.fit_intercept)
        kernel = xp.take(xp.take(self.gram, rows, axis=0), rows, axis=1)
        return rows, centring, centring.both(kernel)

    def loo(self, epsilons: Array) -> Array:
        """Return the mean squared leave-one-out error for each penalty, (E,)."""
        xp = array_namespace(self.gram)
        centring = Centring(self.weight, self.fit_intercept)
        values, vectors = self._spectrum
        rhs = xp.matrix_transpose(vectors) @ centring.gather(self.Y)
        # I − H = ε(K + εI)⁻¹, of which the intercept takes its own direction.
        shrink = epsilons[:, None] / (clip(values, 0.0, None) + epsilons[:, None])
        residuals = vectors @ (shrink[:, :, None] * rhs)
        leverage = 1.0 - shrink @ xp.matrix_transpose(vectors**2)
        return leave_one_out(residuals, leverage, self.weight, self.fit_intercept)

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of all samples' AAᵀ."""
        return eigh(Centring(self.weight, self.fit_intercept).both(self.gram))

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        xp = array_namespace(self.gram)
        kernel = Centring(self.weight, self.fit_intercept).both(self.gram)
        return mean_eigenvalue(xp.linalg.trace(kernel), self.weight, self.X.shape[1])


def gram_ridge(X: Design, Y: Array, weight: Array, fit_intercept: bool) -> GramRidge:
    """Make the Gram matrix: the one product that is quadratic in n."""
    return GramRidge(X, Y, weight, fit_intercept, X.gram(centred=fit_intercept))


def _placed(found: Array, subset: Array) -> Array:
    """Put rows (E, m, K) of a subset at their places among all n; others are zero."""
    xp = array_namespace(found)
    padded = xp.concat([found, 0.0 * found[:, :1, :]], axis=1)
    count = xp.cumulative_sum(xp.astype(subset, xp.int64))
    return xp.take(padded, xp.where(subset, count - 1, found.shape[1]), axis=1)
