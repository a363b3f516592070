"""Alternating ridge sweeps over the modes of a low-rank coefficient.

In mode m the coefficient is B·Lᵀ with loadings L made of the other modes, and B is
a ridge estimate on the n × (r·p) matrix X_(m)·L. "cp" also reweights its entries,
and those that become small are zero. Every routine works on a batch of subsets and
responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sltr.arrays import Array, array_namespace, as_array, device
from sltr.core.tensor import flatten
from sltr.refine.factors import CP, Blocks, CPComponents, Tucker, TuckerComponents
from sltr.refine.glm import Problem, solve_block
from sltr.refine.subsets import Subsets
from sltr.samples.samples import combine, inner

Structure = TuckerComponents | CPComponents
Fit = tuple[Array, Array]  # designs (B, d, n) and their coefficients (B, d)
Some = TypeVar("Some", TuckerComponents, CPComponents)


def unfoldings(X: Array) -> list[Array]:
    """Return the samples' unfoldings, each (P / p_m, p_m · n): samples come last."""
    xp = array_namespace(X)
    n_samples = X.shape[0]
    found = []
    for mode, size in enumerate(X.shape[1:]):
        order = [*(k for k in range(1, X.ndim) if k != mode + 1), mode + 1, 0]
        matrix = xp.permute_dims(X, order)
        found.append(xp.reshape(matrix, (-1, size * n_samples)))
    return found


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

    def first_ridge(self, starts: Sequence[Some]) -> Swept:
        """Sweep under the first ridge, from all starts of every item.

        After a few sweeps the start of the least objective goes on alone.
        """
        first = self.ridges[:1]
        structure, n_left = _joined(starts), self.n_sweeps
        if len(starts) > 1:
            wide = self._repeated(len(starts))
            structure, fitted = wide._swept(structure, first, self.n_starting_sweeps)
            best = wide._best_of(structure, fitted, len(starts))
            structure, n_left = (
                structure.take(best),
                self.n_sweeps - self.n_starting_sweeps,
            )
        return Swept(first[0], *self._swept(structure, first, n_left))

    def lower_ridges(self, first: Swept) -> list[Swept]:
        """Sweep on under each lower ridge, from the structure of the first one."""
        lower = self.ridges[1:]
        if not lower:
            return []
        together = _joined([first.structure] * len(lower))
        together, fitted = self._repeated(len(lower))._swept(
            together, lower, self.n_sweeps
        )
        xp = array_namespace(fitted)
        n_items = self.variance.shape[0]
        found = []
        for place, ridge in enumerate(lower):
            items = place * n_items + xp.arange(
                n_items, dtype=xp.int64, device=device(fitted)
            )
            rows = xp.take(fitted, items, axis=0)
            found.append(Swept(ridge, together.take(items), rows))
        return found

    def _penalty(self, ridges: Sequence[float]) -> Array:
        """Return the penalties of a batch that is a run of items for each ridge."""
        xp = array_namespace(self.variance)
        penalty = self.variance * xp.sum(self.subsets.weight, axis=1)
        each = [
            ridge for ridge in ridges for _ in range(penalty.shape[0] // len(ridges))
        ]
        return as_array(each, penalty) * penalty

    def _swept(
        self, structure: Some, ridges: Sequence[float], n_sweeps: int
    ) -> tuple[Some, Array]:
        """Return structures after some sweeps, and their fitted values."""
        penalty = self._penalty(ridges)
        *modes, last = range(len(self.matrices))
        for _ in range(n_sweeps):
            for mode in modes:
                structure, fit = _mode_step(self, structure, mode, penalty)
            if isinstance(structure, TuckerComponents):
                structure, fit = _last_steps(self, structure, penalty)
            else:
                structure, fit = _mode_step(self, structure, last, penalty)
        return structure, self.subsets.fitted(*fit)

    def _repeated(self, times: int) -> Sweeps:
        """Return the same problems for a batch that is `times` as long."""
        if times == 1:
            return self
        xp = array_namespace(self.variance)
        items = list(range(self.variance.shape[0])) * times
        variance = xp.concat([self.variance] * times, axis=0)
        return replace(self, subsets=self.subsets.take(items), variance=variance)

    def _best_of(self, structure: Structure, fitted: Array, n_starts: int) -> Array:
        """Return the place of each item's start of the least objective, (B,)."""
        xp = array_namespace(fitted)
        coef = flatten(structure.coef())
        residual = self.subsets.target - fitted
        loss = xp.linalg.vecdot(self.subsets.weight * residual, residual)
        size = self._penalty(self.ridges[:1]) * xp.linalg.vecdot(coef, coef)
        objective = xp.reshape(loss + size, (n_starts, -1))
        n_items = objective.shape[1]
        items = xp.arange(n_items, dtype=xp.int64, device=device(fitted))
        return items + n_items * xp.astype(xp.argmin(objective, axis=0), xp.int64)


def _joined(parts: Sequence[Some]) -> Some:
    return parts[0] if len(parts) == 1 else type(parts[0]).joined(parts)


def _mode_step(
    data: Sweeps, structure: Some, mode: int, penalty: Array
) -> tuple[Some, Fit]:
    """Solve for one mode's block given all others; return the structure and the fit."""
    design = _projected(data, structure.loadings(mode), mode)
    return _block_step(data, structure, mode, design, penalty)


def _block_step(
    data: Sweeps, structure: Some, mode: int, design: Array, penalty: Array
) -> tuple[Some, Fit]:
    """Solve for one mode's block on its design, (B, r, p, n)."""
    xp = array_namespace(design)
    scales = structure.scales
    n_items, rank, size, n_samples = design.shape
    design = xp.reshape(design, (n_items, rank * size, n_samples))
    scale = None
    if scales is not None:
        scale = xp.sqrt(xp.matrix_transpose(scales[mode]))
        scale = xp.reshape(scale, (n_items, rank * size))
    rows = data.subsets.ridge(design, penalty, scale)
    rows = xp.reshape(rows, (n_items, rank, size))
    block = structure.pruned(xp.matrix_transpose(rows))
    rows = xp.reshape(xp.matrix_transpose(block), (n_items, rank * size))
    return structure.replaced(mode, block), (design, rows)


def _last_steps(
    data: Sweeps, structure: TuckerComponents, penalty: Array
) -> tuple[TuckerComponents, Fit]:
    """Solve for the last mode's block, then for the core.

    Both see the samples through the other modes' factors: one projection serves both.
    """
    last = len(structure.factors) - 1
    inner = _projected(data, structure.other_factors(last), last)  # (B, Π r, p, n)
    n_items, n_columns, size, n_samples = inner.shape
    xp = array_namespace(inner)
    columns = xp.reshape(inner, (n_items, n_columns, -1))
    design = xp.matrix_transpose(structure.row_space(last)) @ columns
    design = xp.reshape(design, (n_items, -1, size, n_samples))
    structure, _ = _block_step(data, structure, last, design, penalty)
    factor = xp.matrix_transpose(structure.factors[last])[:, None, :, :]
    # (B, r_1 ⋯ r_M, n)
    design = xp.reshape(factor @ inner, (n_items, -1, n_samples))
    core = data.subsets.ridge(design, penalty)
    new = replace(structure, core=xp.reshape(core, structure.core.shape))
    return new, (design, core)


def _projected(data: Sweeps, loadings: Array, mode: int) -> Array:
    """Return Lᵀ·X_(m)ᵀ for every item of a batch in one product: (B, r, p, n)."""
    xp = array_namespace(data.subsets.y)
    n_items, rest, rank = loadings.shape
    rows = xp.reshape(xp.matrix_transpose(loadings), (n_items * rank, rest))
    product = rows @ data.matrices[mode]
    return xp.reshape(product, (n_items, rank, -1, data.subsets.y.shape[1]))


Decomposition = CP | Tucker

# Sweeps of a start before it is enlarged, or compared with others.
N_SWEEPS = 5


@dataclass(frozen=True, eq=False)
class Relaxed:
    """What block relaxation found.

    Attributes
    ----------
    blocks : list of arrays
        Factors, and for Tucker the core.
    gamma : array of shape (q,)
        The covariates' coefficients.
    deviance : float
        Without penalties.
    path : tuple of float
        The objective after every sweep; it never rises.
    converged : bool
        Whether the last sweep lowered the objective by less than the tolerance.
    """

    blocks: Blocks
    gamma: Array
    deviance: float
    path: tuple[float, ...]
    converged: bool


def null_gamma(problem: Problem) -> Array:
    """Return the covariates' coefficients of the model without the tensor."""
    xp = array_namespace(problem.X)
    nothing = xp.zeros_like(problem.y[:0])
    empty = xp.zeros_like(problem.covariates[:, :0])
    zero = xp.zeros_like(problem.covariates[0, :])
    return solve_block(problem, empty, nothing, zero, nothing, max_iter=50)[1]


def starts(
    problem: Problem,
    structure: Decomposition,
    n_starts: int,
    rng: Any,
    *,
    ridge: float,
    l1: float = 0.0,
) -> list[Blocks]:
    """Return a grown start, the spectral one, and random ones, up to `n_starts`.

    The spectral start decomposes the score tensor at B = 0. The grown one goes from
    rank to rank: a few sweeps, then the direction the score at that point asks for.
    It seldom ends in a poor local minimum, where the spectral start often does.
    """
    slope = _score(problem, None, null_gamma(problem))
    blocks = [structure.spectral_start(slope)]
    if structure.largest_rank > 1:
        blocks.insert(0, _grow(problem, structure, slope, ridge, l1))
    while len(blocks) < n_starts:
        blocks.append(structure.random_start(rng, slope))
    return blocks[:n_starts]


def _grow(
    problem: Problem, structure: Decomposition, slope: Array, ridge: float, l1: float
) -> Blocks:
    gamma = null_gamma(problem)
    blocks = structure.smaller(1).spectral_start(slope)
    for rank in range(2, structure.largest_rank + 1):
        smaller, larger = structure.smaller(rank - 1), structure.smaller(rank)
        point = Relaxed(blocks, gamma, float("nan"), (), False)
        found = _relax(
            problem, smaller, point, ridge=ridge, l1=l1, tol=0.0, max_iter=N_SWEEPS
        )
        coef = smaller.tensor(found.blocks)
        slope = _score(problem, coef, found.gamma)
        blocks = larger.enlarge(found.blocks, coef, slope)
    return blocks


def _score(problem: Problem, coef: Array | None, gamma: Array) -> Array:
    """Return a gradient step, as long as the mean of the Hessian's diagonal asks."""
    xp = array_namespace(problem.X)
    flat, family = flatten(problem.X), problem.family
    eta = problem.covariates @ gamma
    if coef is not None:
        eta = eta + inner(flat, flatten(coef[None, ...]))[:, 0]
    squares = xp.sum(flat * flat, axis=1) / flat.shape[1]
    information = xp.sum(problem.weight * family.variance(eta) * squares)
    information = information if float(information) > 0.0 else 1.0
    residual = problem.weight * (problem.y - family.mean(eta)) / information
    return xp.reshape(combine(residual[None, :], flat), problem.X.shape[1:])


def sweep(
    problem: Problem,
    structure: Decomposition,
    blocks: Blocks,
    gamma: Array,
    ridge: Array | float,
    l1: float = 0.0,
) -> tuple[Blocks, Array, float]:
    """Solve for every block once; `ridge` is one weight or one for each column."""
    blocks = list(blocks)
    xp = array_namespace(*blocks)
    deviance = float("nan")
    for index, design in structure.designs(problem.X, blocks):
        block = blocks[index]
        weights = xp.reshape(xp.ones_like(block) * ridge, (-1,))
        flat, gamma, deviance = solve_block(
            problem, design, xp.reshape(block, (-1,)), gamma, weights, l1=l1
        )
        blocks[index] = xp.reshape(flat, block.shape)
    return blocks, gamma, deviance


def _penalty(blocks: Blocks, ridge: float, l1: float) -> float:
    xp = array_namespace(*blocks)
    return sum(
        ridge * float(xp.sum(b * b)) + (l1 * float(xp.sum(xp.abs(b))) if l1 else 0.0)
        for b in blocks
    )


def block_relaxation(
    problem: Problem,
    structure: Decomposition,
    candidates: Sequence[Blocks],
    *,
    ridge: float = 0.0,
    l1: float = 0.0,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> Relaxed:
    """Minimise the penalised deviance over a structure by block relaxation.

    All candidates run for a few sweeps; the lowest objective goes on alone.

    Parameters
    ----------
    problem : Problem
    structure : CP or Tucker
    candidates : sequence of blocks
        Where to start.
    ridge, l1 : float
        ρ and κ of the module's formula.
    tol : float
        Stops when a sweep lowers the objective f by less than tol·(|f| + 1).
    max_iter : int
        Sweeps of the winner.
    """
    gamma = null_gamma(problem)
    how = {"ridge": ridge, "l1": l1, "tol": tol}
    first = min(N_SWEEPS, max_iter) if len(candidates) > 1 else max_iter
    racers = [
        _relax(
            problem,
            structure,
            Relaxed(blocks, gamma, float("nan"), (), False),
            max_iter=first,
            **how,
        )
        for blocks in candidates
    ]
    best = min(found.path[-1] for found in racers)
    # Ties up to the tolerance go to the first: rounding must not decide.
    close = best + tol * (abs(best) + 1.0)
    winner = next(found for found in racers if found.path[-1] <= close)
    if winner.converged:
        return winner
    return _relax(problem, structure, winner, max_iter=max_iter, **how)


def _relax(problem, structure, found, *, ridge, l1, tol, max_iter):
    """Go on from `found` until the tolerance or sweep number `max_iter`."""
    blocks, gamma, path = found.blocks, found.gamma, list(found.path)
    deviance, converged = found.deviance, False
    while len(path) < max_iter and not converged:
        blocks, gamma, deviance = sweep(problem, structure, blocks, gamma, ridge, l1)
        blocks, penalty = _balanced(structure, blocks, ridge, l1)
        path.append(deviance + penalty)
        converged = settled(path, tol)
    return Relaxed(blocks, gamma, deviance, tuple(path), converged)


def _balanced(structure, blocks, ridge, l1):
    """Balance, unless with both penalties it would raise their sum."""
    before = _penalty(blocks, ridge, l1)
    balanced = structure.balance(blocks, l1=True) if l1 else structure.balance(blocks)
    after = _penalty(balanced, ridge, l1)
    return (balanced, after) if after <= before else (blocks, before)


def settled(path: list[float], tol: float) -> bool:
    """Say whether the last sweep lowered the objective by less than the tolerance."""
    if len(path) < 2:
        return False
    return abs(path[-2] - path[-1]) < tol * (abs(path[-1]) + 1.0)
