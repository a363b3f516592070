"""Generalised linear models with a coefficient of low rank, block by block.

With the canonical link, response y, weights w and linear predictor η = D·b + Z·γ,
a block is the solution of

    min_{b,γ}  dev(y, η; w) + Σ_j ρ_j·b_j² + κ·‖b‖₁,

the covariates' coefficients γ being free of any penalty. Newton's method with step
halving never raises the objective; for the normal family one step is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sltr.arrays import Array, array_namespace, device, spectral_norm
from sltr.core.families import Family
from sltr.core.prox import soft_threshold
from sltr.refine.factors import CP, Form, Structure, Unfoldings, sweep

# Newton's first step for counts of a billion is a billion times too long.
_MOST_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class TensorGLM:
    """The data of a tensor GLM: g(E y_i) = ⟨B, X_i⟩ + ⟨γ, z_i⟩."""

    samples: Unfoldings
    y: Array  # (n,)
    weight: Array  # (n,)
    covariates: Array  # (n, c), with a column of ones for an intercept; c may be 0
    family: Family

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sample, (p1, …, pM)."""
        n_samples = self.y.shape[0]
        return tuple(matrix.shape[1] // n_samples for matrix in self.samples.matrices)


def solve_block(
    problem: TensorGLM,
    design: Array,
    coef: Array,
    gamma: Array,
    ridge: Array,
    *,
    l1: float = 0.0,
    max_iter: int = 3,
) -> tuple[Array, Array, float]:
    """Improve one block and the covariates' coefficients; never raise the objective.

    The design is Dᵀ, (d, n): samples come last. `coef` (d,) and `gamma` (c,) are where
    to start, `ridge` (d,) and `l1` are ρ and κ of the module's formula, `max_iter` the
    Newton steps of a family other than the normal one. Returns the new `coef` and
    `gamma`, and their deviance without penalties.
    """
    size, n_samples = design.shape
    if l1 == 0.0 and n_samples < size:
        return _solve_in_row_space(problem, design, coef, gamma, ridge, max_iter)
    xp = array_namespace(design)
    rows = xp.concat([design, xp.matrix_transpose(problem.covariates)], axis=0)
    theta = xp.concat([coef, gamma])
    free = xp.zeros_like(gamma)
    penalty = xp.concat([ridge, free])
    threshold = xp.concat([xp.ones_like(coef) * l1, free])
    # In double precision: where the objective is flat, a step is accepted only while
    # its gain can be seen, and single precision would end far from the minimum.
    rows, theta, penalty, threshold = (
        xp.astype(a, xp.float64) for a in (rows, theta, penalty, threshold)
    )
    theta, deviance = _newton(problem, rows, theta, penalty, threshold, max_iter)
    theta = xp.astype(theta, design.dtype)
    return theta[:size], theta[size:], deviance


def _solve_in_row_space(problem, design, coef, gamma, ridge, max_iter):
    """Solve a wide block in n unknowns: a ridge solution is a combination of rows.

    With b = c/√ρ and (D/√ρ)ᵀ = V·T, c = V·a: the design becomes Tᵀ (n × n) and
    ‖c‖ = ‖a‖, so that problem and penalty keep their form.
    """
    xp = array_namespace(design)
    root = xp.sqrt(xp.where(ridge > 0.0, ridge, xp.ones_like(ridge)))
    basis, triangle = xp.linalg.qr(design / root[:, None])
    inside, gamma, deviance = solve_block(
        problem,
        triangle,
        xp.matrix_transpose(basis) @ (root * coef),
        gamma,
        xp.ones_like(triangle[:, 0]) * float(xp.max(ridge) > 0.0),
        max_iter=max_iter,
    )
    return (basis @ inside) / root, gamma, deviance


def _newton(problem, rows, theta, penalty, threshold, max_iter):
    """Take Newton steps from `theta` (d,), for a design (d, n) of all unknowns."""
    xp = array_namespace(rows)
    family = problem.family
    y, weight = (xp.astype(a, rows.dtype) for a in (problem.y, problem.weight))
    sparse = bool(xp.any(threshold > 0.0))

    def evaluate(theta, eta):
        deviance = float(xp.sum(weight * family.deviance(y, eta)))
        cost = float(xp.sum(penalty * theta**2 + threshold * xp.abs(theta)))
        return deviance, deviance + cost

    eta = theta @ rows
    deviance, value = evaluate(theta, eta)
    for _ in range(1 if family.name == "normal" else max_iter):
        # One array times itself: BLAS computes half of a symmetric product.
        half = xp.sqrt(weight * family.variance(eta)) * rows
        hessian = half @ xp.matrix_transpose(half)
        hessian = hessian + _diagonal(penalty + _jitter(hessian))
        residual = weight * (y - family.mean(eta))
        slope = rows @ residual - penalty * theta
        if sparse:
            step = _sparse_point(hessian, slope, theta, threshold / 2.0) - theta
        else:
            step = xp.linalg.solve(hessian, slope[:, None])[:, 0]
        rounding = float(xp.finfo(rows.dtype).eps) * (abs(value) + 1.0)
        if not sparse and float(xp.sum(step * slope)) <= rounding:
            break
        move, length, before = step @ rows, 1.0, value
        for _ in range(_MOST_HALVINGS):
            trial = theta + length * step
            trial_deviance, trial_value = evaluate(trial, eta + length * move)
            if trial_value < value:
                theta, eta = trial, eta + length * move
                deviance, value = trial_deviance, trial_value
                break
            length *= 0.5
        if before - value <= 1e-6 * (abs(value) + 1.0):
            break
    return theta, deviance


def _diagonal(entries: Array) -> Array:
    xp = array_namespace(entries)
    size = entries.shape[0]
    return xp.eye(size, dtype=entries.dtype, device=device(entries)) * entries


def _jitter(hessian: Array) -> float:
    """Return what keeps a singular system solvable, at the level of rounding."""
    xp = array_namespace(hessian)
    largest = float(xp.max(xp.abs(hessian))) if hessian.shape[0] else 0.0
    return 4.0 * float(xp.finfo(hessian.dtype).eps) * largest + 1e-30


def _sparse_point(hessian, slope, theta, threshold, *, n_steps=200):
    """Minimise Newton's model plus Σ_j t_j·|θ_j| by accelerated proximal gradient."""
    xp = array_namespace(hessian)
    step = 1.0 / float(spectral_norm(hessian))
    start, point, ahead, momentum = theta, theta, theta, 1.0
    for _ in range(n_steps):
        descent = slope - hessian @ (ahead - start)
        new = soft_threshold(ahead + step * descent, step * threshold)
        change = new - point
        if float(xp.sum((ahead - new) * change)) > 0.0:  # overshot: restart
            momentum = 1.0
        following = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        ahead = new + ((momentum - 1.0) / following) * change
        small = float(xp.max(xp.abs(change))) <= 1e-8 * float(xp.max(xp.abs(new)))
        point, momentum = new, following
        if small:
            break
    return point


@dataclass(frozen=True, eq=False)
class GLMFit:
    """A generalised linear model with a coefficient of low rank, a batch of one."""

    structure: Structure
    gamma: Array  # (c,), the covariates' coefficients
    deviance: float = float("nan")  # without penalties
    path: tuple[float, ...] = ()  # the objective after every sweep; it never rises
    converged: bool = False  # whether the last sweep lowered it by less than `tol`

    @property
    def blocks(self) -> list[Array]:
        """The factors (p_m, r_m), and for Tucker the core (r_1, …, r_M)."""
        return [block[0, ...] for block in self.structure.blocks]


# Sweeps of a start before it grows, or is compared with others.
N_STARTING_SWEEPS = 5


def covariates_alone(problem: TensorGLM) -> Array:
    """Return the covariates' coefficients (c,) of the model without the tensor."""
    xp = array_namespace(problem.y)
    nothing = xp.zeros_like(problem.y[:0])
    empty = xp.reshape(nothing, (0, 1)) * problem.y
    zero = xp.zeros_like(problem.covariates[0, :])
    return solve_block(problem, empty, nothing, zero, nothing, max_iter=50)[1]


def glm_starts(
    problem: TensorGLM,
    form: Form,
    n_starts: int,
    rng: Any,
    *,
    ridge: float,
    l1: float = 0.0,
) -> list[Any]:
    """Return a grown start, the spectral one, and random ones beyond these two.

    The spectral start decomposes the score tensor at B = 0. The grown one goes from
    rank to rank: a few sweeps, then the direction the score at that point asks for.
    It seldom ends in a poor local minimum, where the spectral start often does.
    """
    kind, gamma = form.kind, covariates_alone(problem)
    score = _gradient_step(problem, None, gamma)
    order = problem.samples.order
    # A truncated tensor does not depend on the order of its modes.
    spectral = partial(CP.spectral, order=order) if kind is CP else kind.spectral
    starts: list[Any] = [spectral(score, form.rank)]
    first, *larger = kind.rising(form.rank)
    if larger:
        grown = spectral(score, first)
        for one in larger:
            fit = GLMFit(grown, gamma)
            how = {"ridge": ridge, "l1": l1, "tol": 0.0}
            fit = _continued(problem, fit, max_iter=N_STARTING_SWEEPS, **how)
            step = _gradient_step(problem, fit.structure, fit.gamma)
            grown = fit.structure.grown(step, one, order)
        starts.insert(0, grown)
    starts += [
        kind.random(form.shape, form.rank, rng, score) for _ in range(2, n_starts)
    ]
    return starts[:n_starts]


def _gradient_step(
    problem: TensorGLM, structure: Structure | None, gamma: Array
) -> Array:
    """Return a gradient step (1, p1, …, pM) over the mean of the Hessian's diagonal."""
    xp = array_namespace(problem.y)
    family, shape = problem.family, problem.shape
    columns = xp.reshape(problem.samples.matrices[-1], (-1, problem.y.shape[0]))
    eta = problem.covariates @ gamma
    if structure is not None:
        eta = eta + xp.reshape(structure.coef(), (-1,)) @ columns
    squares = xp.linalg.vecdot(columns, columns, axis=0) / columns.shape[0]
    information = float(xp.sum(problem.weight * family.variance(eta) * squares))
    residual = problem.weight * (problem.y - family.mean(eta))
    step = columns @ (residual / (information if information > 0.0 else 1.0))
    return xp.reshape(step, (1, *shape))


def glm_sweep(
    problem: TensorGLM, fit: GLMFit, ridge: Array | float, l1: float = 0.0
) -> GLMFit:
    """Solve for every block once; `ridge` is one weight or one for each column."""

    def solve(fit: GLMFit, index: int, design: Array) -> GLMFit:
        structure = fit.structure
        block = structure.blocks[index]
        weights = array_namespace(block).ones_like(block) * ridge
        vector, gamma, deviance = solve_block(
            problem,
            design[0, ...],
            structure.vector(index, block)[0, :],
            fit.gamma,
            structure.vector(index, weights)[0, :],
            l1=l1,
        )
        structure = structure.with_block(index, vector[None, :])
        return replace(fit, structure=structure, gamma=gamma, deviance=deviance)

    return sweep(problem.samples, problem.y.shape[0], fit, solve)


def fit_blocks(
    problem: TensorGLM,
    starts: Sequence[Structure],
    *,
    ridge: float = 0.0,
    l1: float = 0.0,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> GLMFit:
    """Minimise deviance + ridge·Σ‖block‖² + l1·Σ‖block‖₁ over a structure's blocks.

    All starts run for a few sweeps; the lowest objective goes on alone, until a sweep
    lowers the objective f by less than tol·(|f| + 1), for at most `max_iter` sweeps.
    """
    gamma = covariates_alone(problem)
    how = {"ridge": ridge, "l1": l1, "tol": tol}
    first = min(N_STARTING_SWEEPS, max_iter) if len(starts) > 1 else max_iter
    fits = [
        _continued(problem, GLMFit(start, gamma), max_iter=first, **how)
        for start in starts
    ]
    lowest = min(fit.path[-1] for fit in fits)
    # Ties up to the tolerance go to the first: rounding must not decide.
    close = lowest + tol * (abs(lowest) + 1.0)
    best = next(fit for fit in fits if fit.path[-1] <= close)
    return _continued(problem, best, max_iter=max_iter, **how)


def _continued(
    problem: TensorGLM,
    fit: GLMFit,
    *,
    ridge: float,
    l1: float,
    tol: float,
    max_iter: int,
) -> GLMFit:
    """Sweep on until the tolerance or sweep number `max_iter`."""
    while len(fit.path) < max_iter and not fit.converged:
        fit = glm_sweep(problem, fit, ridge, l1)
        structure, penalty = _balanced(problem, fit.structure, ridge, l1)
        fit = after_sweep(replace(fit, structure=structure), penalty, tol)
    return fit


def after_sweep(fit: GLMFit, penalty: float, tol: float) -> GLMFit:
    """Add the objective after a sweep, and whether it has settled."""
    path = (*fit.path, fit.deviance + penalty)
    gain = abs(path[-2] - path[-1]) if len(path) > 1 else float("inf")
    return replace(fit, path=path, converged=gain < tol * (abs(path[-1]) + 1.0))


def _balanced(
    problem: TensorGLM, structure: Structure, ridge: float, l1: float
) -> tuple[Structure, float]:
    """Balance, unless with both penalties it would raise their sum."""
    balanced: Structure
    if isinstance(structure, CP):
        balanced = structure.balanced(l1=bool(l1))
    else:
        balanced = structure.balanced(problem.samples.order)
    before, after = (_penalty(s, ridge, l1) for s in (structure, balanced))
    return (balanced, after) if after <= before else (structure, before)


def _penalty(structure: Structure, ridge: float, l1: float) -> float:
    xp = array_namespace(structure.factors[0])
    return sum(
        ridge * float(xp.sum(b * b)) + (l1 * float(xp.sum(xp.abs(b))) if l1 else 0.0)
        for b in structure.blocks
    )
