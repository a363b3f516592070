"""Ridge through the Gram matrix of the samples (n ≤ P), a derivation of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sltr.arrays import Array, array_namespace, clip, eigh, positive_solver, to_python
from sltr.ridge.penalty import (
    leave_one_out,
    mean_eigenvalue,
    penalised_solves,
    squared_errors,
)
from sltr.samples.front import Centring, least_squares
from sltr.samples.samples import Design

# Of a pilot found through the eigendecomposition, relative to its size.
LARGEST_ERROR = 1e-7


@dataclass(frozen=True, eq=False)
class GramRidge:
    """Ridge through the n × n Gram matrix: the expensive product is made once.

    With the `spectrum` of AAᵀ, eigenvalues (n,) and eigenvectors (n, n) for all
    samples, subsets that leave few samples out are solved for from it.
    """

    method: ClassVar[str] = "dual"

    X: Design
    Y: Array
    weight: Array
    fit_intercept: bool
    gram: Array
    covariates: Array | None = None
    spectrum: Any = None

    def with_spectrum(self) -> GramRidge:
        """Return the system with its eigendecomposition, which leave-one-out needs."""
        return replace(self, spectrum=eigh(self._kernel()))

    def with_responses(self, Y: Array) -> GramRidge:
        """Return the system with other responses; all that was made is kept."""
        return replace(self, Y=Y)

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and what was removed, (S, b, P); reads X once for all."""
        duals = self._duals(subsets, epsilons)
        xp = array_namespace(duals)
        rows = xp.reshape(duals, (-1, self.X.shape[0]))
        shares = self._centring(subsets).share
        shapes = [(*part.shape[:-1], self.X.shape[1]) for part in (duals, shares)]
        both = [rows, xp.reshape(shares, (-1, self.X.shape[0]))]
        products = self.X.combine(xp.concat(both, axis=0))
        parts = products[: rows.shape[0], :], products[rows.shape[0] :, :]
        pilots, means = map(xp.reshape, parts, shapes)
        return pilots, means

    def fitted(self, subsets: Array, epsilons: Array) -> Array:
        """Return what pilots predict for all samples, less the baseline, (S, E, K, n).

        The baseline is what intercept and covariates predict. The Gram matrix knows
        all that is needed: the samples are not read.
        """
        xp, centring = array_namespace(self.gram), self._centring(subsets)
        values = self._duals(subsets, epsilons) @ self.gram
        share = xp.matrix_transpose(centring.share)[:, None, ...]
        return values - (values @ share) @ xp.matrix_transpose(centring.basis)

    def _centring(self, subsets: Array) -> Centring:
        return Centring.of_subsets(
            subsets, self.weight, self.fit_intercept, self.covariates
        )

    def _duals(self, subsets: Array, epsilons: Array) -> Array:
        """Return c of shape (S, E, K, n) with pilot = c·X."""
        xp = array_namespace(self.gram)
        n, exact = subsets.shape[1], self._spectrum_is_exact_enough(epsilons)
        duals = []
        counts = xp.sum(xp.astype(subsets, xp.int64), axis=1)
        for s, count in enumerate(to_python(counts)):
            # Multiplications of either way, but for what they have in common.
            cheaper = 6 * (n - count) ** 2 * n <= count**3
            solve = self._duals_by_omission if exact and cheaper else self._subset_duals
            duals.append(solve(subsets[s, :], epsilons))
        return xp.stack(duals, axis=0)

    def _spectrum_is_exact_enough(self, epsilons: Array) -> bool:
        if self.spectrum is None:
            return False
        xp = array_namespace(self.gram)
        rounding = xp.finfo(self.gram.dtype).eps * float(xp.max(self.spectrum[0]))
        return rounding < LARGEST_ERROR * float(xp.min(epsilons))

    def _duals_by_omission(self, subset: Array, epsilons: Array) -> Array:
        """Return c of shape (E, K, n) from the decomposition for all samples.

        With H = (K + εI)⁻¹ for all of them, responses of those left out are chosen
        such that these get no share in H·y; the intercept makes shares sum to zero,
        and covariates make them orthogonal to these.
        """
        values, vectors = self.spectrum
        xp = array_namespace(values)
        back = xp.matrix_transpose(vectors)
        out = xp.nonzero(~subset)[0]
        rows = xp.take(vectors, out, axis=0)
        inside = xp.astype(subset, values.dtype)[:, None]
        root = xp.sqrt(self.weight)[:, None] * inside
        centring, n_responses = self._centring(subset), self.Y.shape[1]
        basis = root * centring.basis
        rhs = back @ xp.concat([centring.gather(self.Y), basis], axis=1)
        duals = []
        for e in range(epsilons.shape[0]):
            inverse = (1.0 / (clip(values, 0.0, None) + epsilons[e]))[:, None]
            shares = vectors @ (inverse * rhs)
            if out.shape[0]:
                block = rows @ (inverse * xp.matrix_transpose(rows))
                excess = positive_solver(block)(xp.take(shares, out, axis=0))
                lift = inverse * (xp.matrix_transpose(rows) @ excess)
                shares = inside * (shares - vectors @ lift)
            responses, level = shares[:, :n_responses], shares[:, n_responses:]
            if basis.shape[1]:
                across = xp.matrix_transpose(basis)
                excess = least_squares(across @ level, across @ responses)
                responses = responses - level @ excess
            duals.append(xp.matrix_transpose(root * responses))
        return xp.stack(duals, axis=0)

    def _subset_duals(self, subset: Array, epsilons: Array) -> Array:
        """Return c of shape (E, K, n) by solving for the subset alone."""
        xp = array_namespace(self.gram)
        rows = xp.nonzero(subset)[0]
        Z = self.covariates
        Z = None if Z is None else xp.take(Z, rows, axis=0)
        weight = xp.take(self.weight, rows, axis=0)
        centring = Centring(weight, self.fit_intercept, Z)
        kernel = xp.take(xp.take(self.gram, rows, axis=0), rows, axis=1)
        rhs = centring.gather(xp.take(self.Y, rows, axis=0))
        solved = penalised_solves(centring.both(kernel), rhs, epsilons)  # (E, m, K)
        duals = centring.spread(solved)
        # Samples that are left out take the row of zeros at the end.
        padded = xp.concat([duals, 0.0 * duals[:, :1, :]], axis=1)
        count = xp.cumulative_sum(xp.astype(subset, xp.int64))
        index = xp.where(subset, count - 1, duals.shape[1])
        return xp.matrix_transpose(xp.take(padded, index, axis=1))

    def loo_losses(self, epsilons: Array) -> Array:
        """Return squared leave-one-out errors for each penalty, (E, n)."""
        return squared_errors(self.loo_residuals(epsilons), self.weight)

    def loo_residuals(self, epsilons: Array) -> Array:
        """Return what pilots without a sample miss it by, (E, n, K), root-weighted."""
        xp = array_namespace(self.gram)
        centring = self._everyone
        values, vectors = self.spectrum or self.with_spectrum().spectrum
        # What centring removed is zero but for rounding, which the least penalties
        # would count as leverage.
        floor = values.shape[0] * xp.finfo(values.dtype).eps * xp.max(values)
        values = xp.where(values > floor, values, 0.0)
        # I − H = ε(K + εI)⁻¹ without the directions of the basis. These are taken out
        # of the eigenvectors: a sum of squares keeps the digits that a difference to
        # one would lose where a sample determines its own fit.
        vectors = centring.gather(vectors / centring.root)
        shrink = epsilons[:, None] / (values + epsilons[:, None])
        rhs = xp.matrix_transpose(vectors) @ centring.gather(self.Y)
        residuals = vectors @ (shrink[:, :, None] * rhs)
        free = shrink @ xp.matrix_transpose(vectors**2)
        return leave_one_out(residuals, free, centring)

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        trace = array_namespace(self.gram).linalg.trace(self._kernel())
        return mean_eigenvalue(trace, self.weight, self.X.shape[1])

    def _kernel(self) -> Array:
        return self._everyone.both(self.gram)

    @property
    def _everyone(self) -> Centring:
        return Centring(self.weight, self.fit_intercept, self.covariates)


def gram_ridge(
    X: Design,
    Y: Array,
    weight: Array,
    fit_intercept: bool,
    covariates: Array | None = None,
) -> GramRidge:
    """Make the Gram matrix: the one product that is quadratic in n."""
    gram = X.gram(centred=fit_intercept)
    return GramRidge(X, Y, weight, fit_intercept, gram, covariates)
