"""The pilot: ridge regression for any penalty and any subset of the samples.

With A the weighted, centred samples of a subset as rows, the pilot is

    w = (AᵀA + εI)⁻¹Aᵀy = Aᵀ(AAᵀ + εI)⁻¹y.

Three systems compute it. They differ in what is made once and then serves every
penalty, subset and response: the Gram matrix of the samples (n ≤ P, the usual case and
in this file), the moments of the features (P < n), or a sketch (conjugate gradients,
when neither fits). Centring a subset needs no second pass: with C the map that scales
by root weights and removes the weighted mean, and what covariates explain,
A = Cᵀ(X − shift) for any shift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from sltr.arrays import (
    ROUNDINGS,
    Array,
    array_namespace,
    as_array,
    clip,
    device,
    eigh,
    is_numpy,
    positive_solver,
    to_python,
)
from sltr.parameters import check_nonnegative, refuse
from sltr.samples.centring import Centring, least_squares
from sltr.samples.check import check_squares
from sltr.samples.samples import Design, as_design

if TYPE_CHECKING:
    from sltr.ridge.conjugate_gradients import Unconverged


@dataclass(frozen=True)
class RidgeLimits:
    """When a factorisation is too large, and what conjugate gradients may take."""

    # Above this short side a factorisation takes hours, and 3 GB for each matrix.
    largest_side: int = 20_000
    # Matrices of the short side's size that a factorisation holds at its peak.
    matrices_held: int = 8
    # Columns of the sketch: n of their numbers each are held, P for a while.
    sketch_rank: int = 100
    # The sketch may take one part in so many of the memory limit.
    sketch_share: int = 4
    max_iter: int = 2000


DEFAULT_LIMITS = RidgeLimits()


class RidgeSystem(Protocol):
    """Ridge estimates for many subsets and penalties from one preparation."""

    @property
    def method(self) -> str:
        """Which one: "dual", "primal" or "cg"."""

    def with_responses(self, Y: Array) -> RidgeSystem:
        """Return the system of the same samples with other responses (n, K)."""

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots (S, E, K, P) and what was removed from the samples, (S, b, P).

        That is the regression of the subsets' samples on the basis of `Centring`: the
        weighted mean first, then the slopes of covariates. `subsets` (S, n) is true
        where a sample takes part; `epsilons` is (E,).
        """

    def loo_losses(self, epsilons: Array) -> Array:
        """Return squared leave-one-out errors for each penalty, (E, n)."""

    def mean_eigenvalue(self) -> float:
        """Return the mean non-trivial eigenvalue of AAᵀ, all samples taken."""


def cheapest_method(
    n_samples: int,
    n_features: int,
    *,
    itemsize: int = 8,
    memory: int | None = None,
    limits: RidgeLimits = DEFAULT_LIMITS,
) -> str:
    """Return the system of least cost among those that fit into some bytes of memory.

    A factorisation costs n·P·m for the products and m³ for each solve, m the
    shorter side. Moments are in double precision, whatever the samples' `itemsize`.

    Examples
    --------
    >>> cheapest_method(100, 5000), cheapest_method(10**5, 500)
    ('dual', 'primal')
    >>> cheapest_method(5000, 6000, memory=10**9)
    'cg'
    """
    short = min(n_samples, n_features)
    method = "dual" if n_samples <= n_features else "primal"
    held = limits.matrices_held * (itemsize if method == "dual" else 8) * short**2
    too_large = short > limits.largest_side or (memory is not None and held > memory)
    return "cg" if too_large else method


def ridge_system(
    X: Any,
    Y: Array,
    weight: Array,
    *,
    fit_intercept: bool,
    covariates: Array | None = None,
    method: str = "auto",
    loo: bool = False,
    memory: int | None = None,
    limits: RidgeLimits = DEFAULT_LIMITS,
    unconverged: Unconverged | None = None,
) -> RidgeSystem:
    """Prepare the cheapest of the three systems for these samples.

    X is a design or an array (n, P), Y is (n, K) and the weights (n,) are positive.
    Covariates (n, q) are not penalised.
    `loo` says that leave-one-out errors will be asked for, and `memory` how many
    bytes to keep to. `unconverged` is called with the relative residual reached and
    the number of iterations, if conjugate gradients run out of theirs.
    """
    X, centring = as_design(X), Centring(weight, fit_intercept, covariates)
    if method == "auto":
        itemsize = 4 if "32" in str(weight.dtype) else 8
        # What covariates explain of the samples is not fitted by the others.
        n_samples = X.shape[0] - (0 if covariates is None else covariates.shape[1])
        method = cheapest_method(
            n_samples, X.shape[1], itemsize=itemsize, memory=memory, limits=limits
        )
    if method == "primal":
        from sltr.ridge.moments import moment_ridge

        return moment_ridge(X, Y, centring)
    if method == "dual":
        system = gram_ridge(X, Y, centring)
        return system.with_spectrum() if loo else system
    from sltr.ridge.conjugate_gradients import cg_ridge

    rank = limits.sketch_rank
    if memory is not None:
        room = memory // limits.sketch_share
        rank = max(1, min(rank, room // (8 * sum(X.shape))))
    limit = limits.max_iter
    return cg_ridge(X, Y, centring, rank, max_iter=limit, unconverged=unconverged)


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
    centring: Centring  # of all samples
    gram: Array
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
        shares = self.centring.on(subsets).share
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
        xp, centring = array_namespace(self.gram), self.centring.on(subsets)
        values = self._duals(subsets, epsilons) @ self.gram
        share = xp.matrix_transpose(centring.share)[:, None, ...]
        return values - (values @ share) @ xp.matrix_transpose(centring.basis)

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
        root = xp.sqrt(self.centring.weight)[:, None] * inside
        centring, n_responses = self.centring.on(subset), self.Y.shape[1]
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
        centring = self.centring.take(rows)
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
        return squared_errors(self.loo_residuals(epsilons), self.centring.weight)

    def loo_residuals(self, epsilons: Array) -> Array:
        """Return what pilots without a sample miss it by, (E, n, K), root-weighted."""
        xp = array_namespace(self.gram)
        centring = self.centring
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
        return mean_eigenvalue(trace, self.centring.weight, self.X.shape[1])

    def _kernel(self) -> Array:
        return self.centring.both(self.gram)


def gram_ridge(X: Design, Y: Array, centring: Centring) -> GramRidge:
    """Make the Gram matrix: the one product that is quadratic in n."""
    with np.errstate(over="ignore", invalid="ignore"):
        gram = X.gram(centred=centring.fit_intercept)
        if is_numpy(gram):  # samples that stay in a file have not been read before
            check_squares(float(np.trace(gram)) ** 0.5, centring.weight, "X")
    return GramRidge(X, Y, centring, gram)


# An eigendecomposition costs about as much as this many Cholesky factorisations.
CHOLESKY_PER_EIGH = 25


def penalised_solves(matrix: Array, rhs: Array, epsilons: Array) -> Array:
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


def leave_one_out(residuals: Array, free: Array, centring: Centring) -> Array:
    """Return residuals (…, n, K) when one unit of a sample's weight is left out.

    `free` (…, n) is one less the leverages: what of its own response a sample's
    residual keeps. A sample of integer weight counts as that many equal samples of
    which one is left out; one of weight below 1 is left out as a whole. All residuals
    are times the roots of the weights. Where the basis of the centring has a column
    for one sample alone, others say nothing about it, and it nothing about them: its
    residual is zero.
    """
    xp, weight = array_namespace(residuals), centring.weight
    unit = clip(weight, None, 1.0) / weight
    rest = clip((1.0 - unit) + unit * free, 1e-12, None)
    some = 1.0 - unit * centring.leverage > ROUNDINGS * xp.finfo(weight.dtype).eps
    return xp.where(some[:, None], residuals / rest[..., None], 0.0)


def squared_errors(residuals: Array, weight: Array) -> Array:
    """Return squared errors (E, n) of samples of weight one, over all responses."""
    return array_namespace(residuals).sum(residuals**2, axis=2) / weight


def mean_eigenvalue(trace: Array, weight: Array, n_features: int) -> float:
    """Return trace(AAᵀ) over the smaller of the total weight and P."""
    xp = array_namespace(weight)
    return float(trace) / min(float(xp.sum(weight)), float(n_features))


def choose_epsilon(system: RidgeSystem, epsilon: float | str, weight: Array) -> float:
    """Return a given penalty, or the one of least leave-one-out error."""
    if isinstance(epsilon, str) and epsilon != "loo":
        msg = f"epsilon={epsilon!r} was given; expected a number or 'loo'."
        raise ValueError(msg)
    if not isinstance(epsilon, str):
        penalty = check_nonnegative(epsilon, "epsilon")
        if penalty > float(array_namespace(weight).finfo(weight.dtype).max):
            refuse("epsilon", epsilon, f"a number that {weight.dtype} has")
        return penalty
    scale = system.mean_eigenvalue()
    # Moments of samples that stay in a file are the first that is seen of them.
    check_squares(max(scale, 0.0) ** 0.5, weight, "X")
    if not scale > 0:  # all samples are equal: every penalty gives zero
        return 1.0
    penalties = penalty_ladder(scale, weight)
    losses = system.loo_losses(as_array(penalties, weight))
    errors = to_python(mean_loss(losses, weight))
    # Below the noise the error is flat: the largest penalty that is as good.
    good = min(errors) * (1.0 + 1e-3)
    best = max(e for e, error in enumerate(errors) if error <= good)
    return penalties[best]


def penalty_ladder(scale: float, like: Array, n_steps: int = 6) -> list[float]:
    """Return penalties from 1e-6 to 1e5 times a scale, `n_steps` for each decade."""
    # In single precision smaller penalties, or a tenth of them, drown in rounding.
    floor = 1e4 * float(array_namespace(like).finfo(like.dtype).eps)
    factors = [10.0 ** (k / n_steps) for k in range(-6 * n_steps, 5 * n_steps + 1)]
    return [scale * factor for factor in factors if factor > floor]


def mean_loss(losses: Array, weight: Array) -> Array:
    """Return the weighted mean over samples of losses (E, n)."""
    xp = array_namespace(losses)
    share = weight / xp.sum(weight)
    return losses @ xp.astype(share, losses.dtype, copy=False)
