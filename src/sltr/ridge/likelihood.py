"""The pilot of a likelihood: ridge solves, reweighted until the gradient vanishes.

With linear predictor η = A·w + B·γ, B the intercept and covariates, the pilot is

    min_{w,γ}  −log L(y; η) + (ε/2)·‖w‖²,

for the canonical link ½ of the deviance plus the penalty. Newton's step is the ridge
problem of the least-squares pilot with working responses and weights,

    z = η + (y − μ)/V(η),    v = weight · V(η),

so it is solved from what that pilot has: for n ≤ P the Gram matrix of the samples,
whose weighted version is as cheap to factorise as the plain one; for P < n the
weighted moments, made anew. Steps that would raise the objective are halved. With
several classes (multinomial) each has its step in turn, the others held fixed, and
the mean over classes is removed: it changes no probability and costs penalty.

Started from the null model, the first step is least squares on the labels. The steps
after it are what a likelihood adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sltr.arrays import Array, array_namespace, device, positive_solver
from sltr.core.families import Family
from sltr.samples.centring import Centring, least_squares

# Newton's steps of a pilot at most, and the relative gradient that ends them.
MAX_STEPS, TOLERANCE = 100, 1e-6
# Halvings of one step, and the roundings that may hide what it gains.
MOST_HALVINGS, ROUNDINGS = 30, 4.0
# Working weights are at least this part of a sample's own weight.
LEAST_VARIANCE = 1e-6
# Of a sample in what intercepts are found by.
LEAST_INFORMATION = 1e-12
# A step for intercepts changes no linear predictor by more than this.
LONGEST_STEP = 4.0
# They end at this gradient, relative to the sum of the responses.
FREE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class LikelihoodPilot:
    """A pilot on one subset under one penalty, for K responses or classes."""

    shares: Array  # (n, K) with w = sharesᵀ·X for n ≤ P, else w itself, (P, K)
    eta: Array  # (n, K), of all samples, those left out too
    residual: float  # the gradient of the penalised likelihood, relative
    n_iter: int
    point: Point  # where another penalty may start


@dataclass(frozen=True, eq=False)
class Point:
    """Where Newton's method is: on the m samples of one subset."""

    shares: Array  # (m, K) or (P, K)
    gamma: Array  # (b, K)
    eta: Array  # (m, K)


@dataclass(frozen=True, eq=False)
class _Problem:
    """One subset's samples, as a Gram matrix (m, m) or as rows (m, P)."""

    gram: Array | None
    rows: Array | None
    y: Array  # (m, K)
    centring: Centring  # of the m samples
    family: Family

    @property
    def basis(self) -> Array:
        return self.centring.basis

    @property
    def weight(self) -> Array:
        return self.centring.weight

    def inner(self, shares: Array) -> Array:
        """Return ⟨w, x⟩ of the samples, (m, …)."""
        return (self.rows if self.gram is None else self.gram) @ shares

    def product(self, a: Array, b: Array) -> float:
        """Return the inner product of two coefficients."""
        xp = array_namespace(a)
        return float(xp.sum(a * (b if self.gram is None else self.gram @ b)))

    def ridge(self, weight: Array, z: Array, epsilon: float) -> tuple[Array, Array]:
        """Return the shares and γ of weighted ridge regression on z, (m, 1)."""
        xp = array_namespace(weight)
        centring = replace(self.centring, weight=weight)
        if self.gram is not None:
            matrix, rhs = centring.both(self.gram), centring.gather(z)
        else:
            A = centring.gather(self.rows)
            matrix = xp.matrix_transpose(A) @ A
            rhs = xp.matrix_transpose(A) @ centring.gather(z)
        identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
        shares = positive_solver(matrix + epsilon * identity)(rhs)
        shares = shares if self.gram is None else centring.spread(shares)
        return shares, centring.regression(z - self.inner(shares))

    def objective(self, eta: Array, square: float, epsilon: float) -> float:
        """Return ½ deviance + (ε/2)‖w‖²."""
        xp = array_namespace(eta)
        deviance = xp.sum(self.family.deviance(self.y, eta), axis=1)
        return 0.5 * float(xp.sum(self.weight * deviance)) + 0.5 * epsilon * square

    def gradient(self, point: Point, epsilon: float) -> tuple[float, float]:
        """Return the lengths of the gradient by w, and by γ for unit columns.

        They have units of their own: that of X, and that of the responses.
        """
        xp = array_namespace(point.eta)
        excess = self.weight[:, None] * (self.y - self.family.mean(point.eta))
        if self.gram is not None:
            rest = epsilon * point.shares - excess
            square = float(xp.sum(rest * (self.gram @ rest)))
        else:
            rest = epsilon * point.shares - xp.matrix_transpose(self.rows) @ excess
            square = float(xp.sum(rest * rest))
        free = xp.matrix_transpose(self.basis) @ excess
        sizes = xp.matrix_transpose(self.basis**2) @ self.weight[:, None]
        sizes = xp.where(sizes > 0.0, sizes, 1.0)
        return max(square, 0.0) ** 0.5, float(xp.sum(free * free / sizes)) ** 0.5

    def scale(self, null: Point) -> tuple[float, float]:
        """Return what lengths of a gradient are relative to: the null model's.

        It has none by γ, whose length is at most that of its residuals.
        """
        xp = array_namespace(null.eta)
        excess = self.y - self.family.mean(null.eta)
        most = float(xp.sum(self.weight[:, None] * excess * excess)) ** 0.5
        return self.gradient(null, 0.0)[0] or 1.0, most or 1.0

    def residual(
        self, point: Point, epsilon: float, scale: tuple[float, float]
    ) -> float:
        """Return the length of the gradient, relative to a scale."""
        return math.hypot(
            *(a / s for a, s in zip(self.gradient(point, epsilon), scale, strict=True))
        )

    def step(self, point: Point, k: int, epsilon: float) -> Point:
        """Take Newton's step of response k, halved until the objective falls."""
        xp = array_namespace(point.eta)
        here = point.eta[:, k : k + 1]
        excess = self.y[:, k : k + 1] - self.family.mean(point.eta)[:, k : k + 1]
        variance = self.family.variance(point.eta)[:, k : k + 1]
        variance = xp.where(variance > LEAST_VARIANCE, variance, LEAST_VARIANCE)
        weight = self.weight * variance[:, 0]
        shares, gamma = self.ridge(weight, here + excess / variance, epsilon)
        before = point.shares[:, k : k + 1], point.gamma[:, k : k + 1]
        move, turn = shares - before[0], gamma - before[1]
        change = self.inner(move) + self.basis @ turn
        squares = [
            self.product(before[0], before[0]),
            2.0 * self.product(before[0], move),
            self.product(move, move),
        ]
        value, length = self.objective(point.eta, squares[0], epsilon), 1.0
        most = value + ROUNDINGS * float(xp.finfo(here.dtype).eps) * abs(value)
        for _ in range(MOST_HALVINGS):
            eta = _with_column(point.eta, k, here + length * change)
            square = squares[0] + length * squares[1] + length**2 * squares[2]
            if self.objective(eta, square, epsilon) <= most:
                return Point(
                    _with_column(point.shares, k, before[0] + length * move),
                    _with_column(point.gamma, k, before[1] + length * turn),
                    eta,
                )
            length *= 0.5
        return point

    def solved(
        self,
        point: Point,
        scale: tuple[float, float],
        epsilon: float,
        tol: float,
        max_steps: int,
    ) -> tuple[Point, float, int]:
        """Return the pilot, its residual, and the steps taken."""
        residual, n_iter = self.residual(point, epsilon, scale), 0
        while residual > tol and n_iter < max_steps:
            for k in range(self.y.shape[1]):
                point = self.step(point, k, epsilon)
            if self.family.name == "multinomial":
                point = Point(*map(_less_mean, vars(point).values()))
            residual, n_iter = self.residual(point, epsilon, scale), n_iter + 1
        return point, residual, n_iter

    def null(self) -> Point:
        """Return the model of intercept and covariates alone."""
        xp = array_namespace(self.y)
        nothing = xp.zeros_like(self.y)
        gamma = free_coefs(
            self.family, self.y, self.weight, self.basis, nothing[None, ...]
        )[0, ...]
        size = self.y.shape[0] if self.rows is None else self.rows.shape[1]
        zeros = xp.zeros(
            (size, self.y.shape[1]), dtype=self.y.dtype, device=device(self.y)
        )
        return Point(zeros, gamma, self.basis @ gamma)


def _with_column(values: Array, k: int, column: Array) -> Array:
    """Return columns (m, K) of which the k-th is another one."""
    xp = array_namespace(values)
    if values.shape[1] == 1:
        return column
    return xp.concat([values[:, :k], column, values[:, k + 1 :]], axis=1)


def _less_mean(values: Array) -> Array:
    return values - array_namespace(values).mean(values, axis=1, keepdims=True)


def likelihood_pilots(
    system: Any,
    family: Family,
    subsets: Array,
    epsilons: Sequence[float],
    *,
    tol: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    starts: Sequence[Point] = (),
) -> list[list[LikelihoodPilot]]:
    """Return the pilots of each subset (S, n), for each penalty.

    `system` is a least-squares system of the same samples: it has the Gram matrix,
    unless P < n. Penalties are solved for from the largest down, each from the one
    before, and the first from the `starts`, by default the null model; all are
    positive. Everything is in double precision.
    """
    xp = array_namespace(subsets)
    double = xp.float64
    given, Y = system.centring, xp.astype(system.Y, double)
    Z = given.covariates
    Z = None if Z is None else xp.astype(Z, double)
    every = replace(given, weight=xp.astype(given.weight, double), covariates=Z)
    if system.method == "dual":
        gram, rows = xp.astype(system.gram, double), None
    else:
        gram, rows = None, xp.astype(system.X.array, double)
        rows = rows - xp.mean(rows, axis=0) if given.fit_intercept else rows
    order = sorted(range(len(epsilons)), key=lambda e: -epsilons[e])
    found = []
    for s in range(subsets.shape[0]):
        index = xp.nonzero(subsets[s, :])[0]
        across, own = (
            None if a is None else xp.take(a, index, axis=0) for a in (gram, rows)
        )
        inside = None if across is None else xp.take(across, index, axis=1)
        y = xp.take(Y, index, axis=0)
        problem = _Problem(inside, own, y, every.take(index), family)
        pilots: dict[int, LikelihoodPilot] = {}
        null = problem.null()
        scale = problem.scale(null)
        point = starts[s] if starts else null
        for e in order:
            epsilon = float(epsilons[e])
            point, residual, n_iter = problem.solved(
                point, scale, epsilon, tol, max_steps
            )
            shares, eta = point.shares, every.basis @ point.gamma
            if across is None:
                eta = eta + rows @ shares
            else:
                eta = eta + xp.matrix_transpose(across) @ shares
                shares = _placed(shares, subsets[s, :])
            pilots[e] = LikelihoodPilot(shares, eta, residual, n_iter, point)
        found.append([pilots[e] for e in range(len(epsilons))])
    return found


def _placed(values: Array, subset: Array) -> Array:
    """Return values (m, K) of a subset among zeros, (n, K)."""
    xp = array_namespace(values)
    padded = xp.concat([values, 0.0 * values[:1, :]], axis=0)
    count = xp.cumulative_sum(xp.astype(subset, xp.int64))
    return xp.take(padded, xp.where(subset, count - 1, values.shape[0]), axis=0)


def free_coefs(
    family: Family,
    y: Array,
    weight: Array,
    basis: Array,
    offset: Array,
    *,
    max_steps: int = 100,
) -> Array:
    """Return the most likely intercepts and covariates' slopes γ, (G, b, K).

    η = offset + basis·γ, for G offsets (G, n, K); y is (n, K), the basis (n, b). Where
    the likelihood has no maximum, γ stops where all but rounding is gained.
    """
    xp = array_namespace(offset)
    n_offsets, _, n_responses = offset.shape
    width = basis.shape[1]
    gamma = xp.zeros_like(offset[:, :1, :]) * xp.zeros_like(basis[0, :])[:, None]
    if width == 0:
        return gamma
    back = xp.matrix_transpose(basis)
    reach = xp.max(xp.abs(basis), axis=0)[:, None]
    reach = xp.where(reach > 0, reach, 1.0)
    scale = float(xp.sum(weight * xp.max(xp.abs(y), axis=1))) or 1.0
    for _ in range(max_steps):
        eta = offset + basis @ gamma
        mean = family.mean(eta)
        slope = back @ (weight[:, None] * (y - mean))  # (G, b, K)
        if float(xp.max(xp.abs(slope / reach))) <= FREE_TOLERANCE * scale:
            break
        information = _free_information(family, eta, mean, weight, basis)
        size = xp.linalg.trace(information)[:, None, None]
        columns = xp.reshape(xp.matrix_transpose(slope), (n_offsets, -1, 1))
        step = least_squares(information / size, columns / size)
        shape = (n_offsets, n_responses, width)
        step = xp.matrix_transpose(xp.reshape(step, shape))  # (G, b, K)
        change = basis @ step
        longest = xp.max(xp.abs(change), axis=(1, 2), keepdims=True)
        safe = LONGEST_STEP / xp.where(longest > LONGEST_STEP, longest, LONGEST_STEP)
        length = _lowering(family, y, weight, eta, safe * change)[:, None, None]
        gamma = gamma + length * safe * step
    return gamma


def _free_information(
    family: Family, eta: Array, mean: Array, weight: Array, basis: Array
) -> Array:
    """Return the negative Hessian by γ, (G, K·b, K·b)."""
    xp = array_namespace(eta)
    n_offsets, n_samples, n_responses = eta.shape
    joint = family.name == "multinomial"
    own = mean if joint else family.variance(eta)  # (G, n, K)
    # Where all means are certain there would be no information at all.
    own = weight[:, None] * xp.where(own > LEAST_INFORMATION, own, LEAST_INFORMATION)
    own = xp.matrix_transpose(own)[:, :, None, :]  # (G, K, 1, n)
    blocks = (own * xp.matrix_transpose(basis)) @ basis  # (G, K, b, b)
    width, size = basis.shape[1], n_responses * basis.shape[1]
    identity = xp.eye(n_responses, dtype=eta.dtype, device=device(eta))
    spread = blocks[:, :, :, None, :] * identity[:, None, :, None]
    found = xp.reshape(spread, (n_offsets, size, size))
    if joint:  # classes exclude each other
        rows = mean[:, :, :, None] * basis[:, None, :]
        rows = xp.reshape(rows, (n_offsets, n_samples, n_responses * width))
        found = found - xp.matrix_transpose(weight[:, None] * rows) @ rows
    return found


def _lowering(
    family: Family, y: Array, weight: Array, eta: Array, change: Array
) -> Array:
    """Return the lengths (G,), halved from one, of steps that lower the deviance.

    Zero where none does; `change` (G, n, K) is what a whole step adds to η.
    """
    xp = array_namespace(eta)

    def deviance(eta: Array) -> Array:
        return xp.sum(family.deviance(y, eta), axis=2) @ weight

    before = deviance(eta)
    # Next to the minimum rounding hides what a step gains.
    most = before + ROUNDINGS * xp.finfo(eta.dtype).eps * xp.abs(before)
    found = xp.zeros_like(before)
    length = found + 1.0
    for _ in range(MOST_HALVINGS):
        lower = deviance(eta + length[:, None, None] * change) <= most
        found = xp.where(lower & (found == 0.0), length, found)
        if bool(xp.all(found > 0.0)):
            break
        length = 0.5 * length
    return found


def working_weights(family: Family, eta: Array) -> Array:
    """Return the variances at η that working responses of refits are weighted by.

    For several classes the mean itself: with it each class can take its step alone,
    and all steps together still do not overshoot (the variance is smaller).
    """
    xp = array_namespace(eta)
    part = family.mean if family.name == "multinomial" else family.variance
    found = part(eta)
    return xp.where(found > LEAST_VARIANCE, found, LEAST_VARIANCE)
