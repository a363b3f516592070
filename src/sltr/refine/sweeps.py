"""Alternating solves for the blocks of a low-rank tensor.

One sweep solves for every block in turn, the others being held. How a block is solved
enters as a function: `Sweeps` solves batches of ridge problems for refits, a fixed
number of sweeps each; `fit_blocks` fits one generalised linear model for the CP and
Tucker models, with Newton's method, until the objective settles. Both let several
starts run for a few sweeps and go on with the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

from sltr.arrays import Array, array_namespace, device
from sltr.core.tensor import flatten
from sltr.refine.factors import CP, Form, Structure, joined, take
from sltr.refine.glm import TensorGLM, solve_block
from sltr.refine.subsets import Subsets


def unfoldings(X: Array) -> list[Array]:
    """Return the samples' unfoldings, each (P / p_m, p_m · n): samples come last."""
    xp = array_namespace(X)
    n_samples, *shape = X.shape
    # With samples last already, what is copied lies together in memory.
    columns = xp.reshape(xp.moveaxis(X, 0, -1), (-1, n_samples))
    tensor = xp.reshape(columns, (*shape, n_samples))
    return [
        xp.reshape(xp.moveaxis(tensor, mode, -2), (-1, size * n_samples))
        for mode, size in enumerate(shape)
    ]


class _HasStructure(Protocol):
    @property
    def structure(self) -> Structure: ...


State = TypeVar("State", bound=_HasStructure)


def sweep(
    matrices: Sequence[Array],
    n_samples: int,
    state: State,
    solve: Callable[[State, int, Array], State],
) -> State:
    """Solve for every block once: the factors, and for Tucker the core.

    `matrices` are the samples' unfoldings; `solve(state, index, design)` returns the
    state with another block `index`. A design is (B, d, n) for a block of d unknowns.
    """
    xp = array_namespace(matrices[0])

    def projected(loadings: Array, mode: int) -> Array:
        """Return Lᵀ·X_(m)ᵀ for every item in one product: (B, r, p·n)."""
        n_items, rest, rank = loadings.shape
        rows = xp.reshape(xp.matrix_transpose(loadings), (n_items * rank, rest))
        return xp.reshape(rows @ matrices[mode], (n_items, rank, -1))

    def step(state: State, index: int, design: Array) -> State:
        return solve(state, index, xp.reshape(design, (design.shape[0], -1, n_samples)))

    *modes, last = range(len(matrices))
    for mode in modes:
        state = step(state, mode, projected(state.structure.loadings(mode), mode))
    structure = state.structure
    if isinstance(structure, CP):
        return step(state, last, projected(structure.loadings(last), last))
    # The last factor and the core see the samples through the same other factors:
    # one projection serves both.
    seen = projected(structure.other_factors(last), last)
    state = step(state, last, xp.matrix_transpose(structure.rows(last)) @ seen)
    factor = xp.matrix_transpose(state.structure.factors[last])[:, None, :, :]
    seen = xp.reshape(seen, (*seen.shape[:2], factor.shape[3], n_samples))
    return step(state, last + 1, factor @ seen)


@dataclass(frozen=True, eq=False)
class Swept:
    """What sweeps under one ridge found, for a batch of B items."""

    ridge: float
    structure: Structure
    fitted: Array  # (B, n), of all samples, centred: without the intercept

    def coef(self) -> Array:
        """Return the coefficients, (B, p1, …, pM)."""
        return self.structure.coef()


@dataclass(frozen=True, eq=False)
class Sweeps:
    """The problem that sweeps lower, one mode after another, for a batch.

    With A the weighted, centred samples it is

        ‖y − A·vec(W)‖² + ridge · variance · Σweight · ‖W‖²,

    W of Tucker rank (at most) r in every mode, or a sum of r outer products.
    Samples of weight zero take no part, but get fitted values.
    """

    matrices: list[Array]  # `unfoldings` of the samples
    subsets: Subsets
    variance: Array  # (B,), `feature_variance` of the subsets
    # Descending, relative to the features' mean energy: a strong one, whose objective
    # has few minima, and down to nearly none, all from the first one's structure.
    ridges: Sequence[float]
    n_sweeps: int  # under each ridge
    n_starting_sweeps: int  # from all starts, before the best of them goes on alone

    def descent(self, fitted: Array) -> Array:
        """Return Aᵀ(y − fitted), (B, P), the direction in which the loss falls."""
        xp = array_namespace(fitted)
        # Centred and weighted, a residual sums to zero: samples need no centring.
        residual = self.subsets.weight * (self.subsets.target - fitted)
        columns = xp.reshape(self.matrices[-1], (-1, fitted.shape[1]))
        return xp.matrix_transpose(columns @ xp.matrix_transpose(residual))

    def first_ridge(self, starts: Sequence[Structure]) -> Swept:
        """Sweep under the first ridge, from all starts of every item.

        After a few sweeps the start of the least objective goes on alone.
        """
        ridge, structure, n_sweeps = self.ridges[0], joined(starts), self.n_sweeps
        if len(starts) > 1:
            ridges = [ridge] * len(starts)
            swept = self._swept(structure, ridges, self.n_starting_sweeps)
            structure = take(swept[0], self._best_starts(*swept))
            n_sweeps -= self.n_starting_sweeps
        return Swept(ridge, *self._swept(structure, [ridge], n_sweeps))

    def lower_ridges(self, first: Swept) -> list[Swept]:
        """Sweep on under each lower ridge, from the structure of the first one."""
        lower = self.ridges[1:]
        if not lower:
            return []
        together = joined([first.structure] * len(lower))
        together, fitted = self._swept(together, lower, self.n_sweeps)
        xp = array_namespace(fitted)
        runs = [k * self.variance.shape[0] + self._items for k in range(len(lower))]
        return [
            Swept(ridge, take(together, run), xp.take(fitted, run, axis=0))
            for ridge, run in zip(lower, runs, strict=True)
        ]

    @cached_property
    def _items(self) -> Array:
        xp = array_namespace(self.variance)
        place = device(self.variance)
        return xp.arange(self.variance.shape[0], dtype=xp.int64, device=place)

    @cached_property
    def _penalty(self) -> Array:
        """The penalty of each item under a ridge of one, (B,)."""
        xp = array_namespace(self.variance)
        return self.variance * xp.sum(self.subsets.weight, axis=1)

    def _swept(
        self, structure: Structure, ridges: Sequence[float], n_sweeps: int
    ) -> tuple[Structure, Array]:
        """Return structures after some sweeps, and their fitted values.

        The structure is a run of all items for each of the `ridges`.
        """
        n_items, n_samples = self.subsets.y.shape
        subsets = self.subsets
        if len(ridges) > 1:
            subsets = subsets.take(list(range(n_items)) * len(ridges))
        xp = array_namespace(self.variance)
        penalty = xp.concat([ridge * self._penalty for ridge in ridges], axis=0)
        solve = partial(solve_ridge_block, subsets, penalty)
        point = Point(structure)
        for _ in range(n_sweeps):
            point = sweep(self.matrices, n_samples, point, solve)
        return point.structure, subsets.fitted(point.design, point.vector)

    def _best_starts(self, structure: Structure, fitted: Array) -> Array:
        """Return the index of each item's start of the least objective, (B,)."""
        xp = array_namespace(fitted)
        n_items, n_samples = self.subsets.y.shape
        residual = self.subsets.target - xp.reshape(fitted, (-1, n_items, n_samples))
        loss = xp.linalg.vecdot(self.subsets.weight * residual, residual)
        coef = flatten(structure.coef())
        squares = xp.reshape(xp.linalg.vecdot(coef, coef), (-1, n_items))
        objective = loss + self.ridges[0] * self._penalty * squares
        best = xp.astype(xp.argmin(objective, axis=0), xp.int64)
        return self._items + n_items * best


@dataclass(frozen=True, eq=False)
class Point:
    """Structures during a sweep, with the last block's design and values."""

    structure: Structure
    design: Array | None = None  # (B, d, n)
    vector: Array | None = None  # (B, d)


def solve_ridge_block(
    subsets: Subsets, penalty: Array, point: Point, index: int, design: Array
) -> Point:
    """Solve for one block on its design (B, d, n), under penalties (B,)."""
    structure = point.structure
    vector = subsets.ridge(design, penalty, structure.prior(index))
    vector = structure.pruned(vector)
    return Point(structure.with_block(index, vector), design, vector)


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
    """Return a grown start, the spectral one, and random ones, up to `n_starts`.

    The spectral start decomposes the score tensor at B = 0. The grown one goes from
    rank to rank: a few sweeps, then the direction the score at that point asks for.
    It seldom ends in a poor local minimum, where the spectral start often does.
    """
    kind, gamma = form.kind, covariates_alone(problem)
    score = _gradient_step(problem, None, gamma)
    starts = [kind.spectral(score, form.rank)]
    first, *larger = kind.rising(form.rank)
    if larger:
        grown = kind.spectral(score, first)
        for one in larger:
            fit = GLMFit(grown, gamma)
            how = {"ridge": ridge, "l1": l1, "tol": 0.0}
            fit = _continued(problem, fit, max_iter=N_STARTING_SWEEPS, **how)
            step = _gradient_step(problem, fit.structure, fit.gamma)
            grown = fit.structure.grown(step, one)
        starts.insert(0, grown)
    while len(starts) < n_starts:
        starts.append(kind.random(form.shape, form.rank, rng, score))
    return starts[:n_starts]


def _gradient_step(
    problem: TensorGLM, structure: Structure | None, gamma: Array
) -> Array:
    """Return a gradient step (1, p1, …, pM) over the mean of the Hessian's diagonal."""
    xp = array_namespace(problem.y)
    family, shape = problem.family, problem.shape
    columns = xp.reshape(problem.matrices[-1], (-1, problem.y.shape[0]))
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

    return sweep(problem.matrices, problem.y.shape[0], fit, solve)


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
        structure, penalty = _balanced(fit.structure, ridge, l1)
        fit = after_sweep(replace(fit, structure=structure), penalty, tol)
    return fit


def after_sweep(fit: GLMFit, penalty: float, tol: float) -> GLMFit:
    """Add the objective after a sweep, and whether it has settled."""
    path = (*fit.path, fit.deviance + penalty)
    gain = abs(path[-2] - path[-1]) if len(path) > 1 else float("inf")
    return replace(fit, path=path, converged=gain < tol * (abs(path[-1]) + 1.0))


def _balanced(structure: Structure, ridge: float, l1: float) -> tuple[Structure, float]:
    """Balance, unless with both penalties it would raise their sum."""
    balanced = structure.balanced(l1=bool(l1))
    before, after = (_penalty(s, ridge, l1) for s in (structure, balanced))
    return (balanced, after) if after <= before else (structure, before)


def _penalty(structure: Structure, ridge: float, l1: float) -> float:
    xp = array_namespace(structure.factors[0])
    return sum(
        ridge * float(xp.sum(b * b)) + (l1 * float(xp.sum(xp.abs(b))) if l1 else 0.0)
        for b in structure.blocks
    )
