"""Block relaxation for GLMs whose coefficient tensor has a low-rank structure.

    min_{B,γ}  dev(y, ⟨B, X⟩ + Z·γ) + Σ_blocks (ρ·‖block‖²_F + κ·‖block‖₁)

One sweep solves for each block in turn, the others held, and then balances the
blocks' sizes. Neither raises the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sltr._array import Array, array_namespace
from sltr.design import combine, inner
from sltr.solvers.decompositions import CP, Blocks, Tucker
from sltr.solvers.glm import Problem, solve_block
from sltr.tensor import flatten

__all__ = ["Relaxed", "block_relaxation", "null_gamma", "settled", "starts", "sweep"]

Structure = CP | Tucker

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
    structure: Structure,
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
    problem: Problem, structure: Structure, slope: Array, ridge: float, l1: float
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
    structure: Structure,
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
    structure: Structure,
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
