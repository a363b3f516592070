"""Block relaxation for a CP model that finds its rank by a group penalty."""

from __future__ import annotations

from sltr._array import Array, array_namespace
from sltr.solvers.block_relaxation import Relaxed, null_gamma, settled, sweep
from sltr.solvers.decompositions import CP, Blocks
from sltr.solvers.glm import Problem

__all__ = ["group_relaxation"]


def group_relaxation(
    problem: Problem,
    start: Blocks,
    *,
    strength: float,
    tol: float = 1e-6,
    max_iter: int = 200,
    drop: float = 1e-8,
) -> Relaxed:
    """Fit a CP model whose rank is found: components that shrink away are dropped.

    Solves, with v_r the stacked factors of component r,

        min  dev(y, ⟨B, X⟩ + Z·γ) + strength·(Σ_r ‖v_r‖₂)²

    through (Σ_r ‖v_r‖)² = min Σ_r ‖v_r‖²/g_r over g ≥ 0, Σ g_r = 1: ridge sweeps with
    weights strength/g_r alternate with g_r = ‖v_r‖/Σ_s ‖v_s‖.

    Parameters
    ----------
    problem : Problem
    start : list of arrays of shape (p_m, R)
    strength : float
    tol, max_iter
        As in `block_relaxation`.
    drop : float
        A component with g_r below this leaves.
    """
    shape = tuple(factor.shape[0] for factor in start)
    blocks = CP(shape, start[0].shape[1]).balance(start)
    gamma, deviance, converged = null_gamma(problem), float("nan"), False
    path: list[float] = []
    share, _ = _shares(blocks)
    while len(path) < max_iter and not converged:
        structure = CP(shape, blocks[0].shape[1])
        blocks, gamma, deviance = sweep(
            problem, structure, blocks, gamma, strength / share
        )
        blocks = structure.balance(blocks)
        share, total = _shares(blocks)
        path.append(deviance + strength * total**2)
        converged = settled(path, tol)
        blocks, share = _prune(blocks, share, drop)
    return Relaxed(blocks, gamma, deviance, tuple(path), converged)


def _shares(blocks: Blocks) -> tuple[Array, float]:
    xp = array_namespace(*blocks)
    squares = xp.stack([xp.sum(b * b, axis=0) for b in blocks])
    norms = xp.sqrt(xp.sum(squares, axis=0))
    total = float(xp.sum(norms))
    return norms / (total if total > 0.0 else 1.0) + 1e-12, total


def _prune(blocks: Blocks, share: Array, drop: float) -> tuple[Blocks, Array]:
    """Drop components with a vanishing share; the largest always stays."""
    xp = array_namespace(share)
    kept = (share >= drop) | (share == xp.max(share))
    rows = xp.nonzero(kept)[0]
    if rows.shape[0] == share.shape[0]:
        return blocks, share
    return [xp.take(b, rows, axis=1) for b in blocks], xp.take(share, rows, axis=0)
