"""Blocks of problems solved over a grid, chunk by chunk of candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from sltr._array import (
    Array,
    array_namespace,
    free_entries,
    is_numpy,
    to_python,
)
from sltr.estimate.blocks import Block
from sltr.estimate.settings import Settings
from sltr.solvers.batch import batch
from sltr.solvers.chain import chains, runs_of_close_pilots
from sltr.solvers.ppxa import solve_by_ppxa
from sltr.solvers.problem import Problem
from sltr.solvers.result import Result, exact, joined

__all__ = ["grid_chunks", "streams"]

# Entries of all coefficients held at a time, for each pilot: 32 MB of doubles.
CHUNK_ENTRIES = 4_000_000
# Arrays of a coefficient's size that the solver holds for each candidate.
ARRAYS_HELD = 60
# On a CPU, problems up to this size gain more from sharing calls than warm starts.
SMALL_ENTRIES = 4_096


def grid_chunks(
    pilots: Array, sparse_radius: Array, low_radius: Array, entries: int | None
) -> list[list[int]]:
    """Order a grid for warm starts and cut it to bounded memory."""
    sparse = to_python(sparse_radius[0, :])
    low = to_python(low_radius[0, :, 0])
    entries = CHUNK_ENTRIES if entries is None else entries
    order = sorted(range(len(sparse)), key=lambda g: (low[g], -sparse[g]))
    if not is_numpy(pilots):  # an accelerator wants the largest batch it can hold
        entries = max(entries, free_entries(pilots) // (ARRAYS_HELD * pilots.shape[0]))
    length = max(1, entries // prod(pilots.shape[1:]))
    return [order[i : i + length] for i in range(0, len(order), length)]


def streams(
    block: Block, chunks: list[list[int]], settings: Settings, run_terms: Callable
) -> list[Iterator[Result]]:
    """Return iterators over the chunks' results: one per run of pilots, or for all."""
    xp = array_namespace(block.pilots)
    alpha, beta = _weights(block.sparse_radius, block.low_radius, settings.weights)
    # Wider than any pilot of this scale can need; also, the quotient stays finite.
    scale = block.scale[:, None]
    widest = 4.0 * prod(block.pilots.shape[1:]) * scale
    sparse = xp.minimum(block.sparse_radius, widest) / scale
    low = xp.minimum(block.low_radius, widest[:, :, None]) / scale[:, :, None]
    n_modes = len(block.modes)

    def posed(q: slice) -> Problem:
        return Problem(
            block.pilots[q, ...],
            xp.reshape(sparse[q, ...], (-1,)),
            xp.reshape(low[q, ...], (-1, n_modes)),
            xp.reshape(alpha[q, ...], (-1,)),
            xp.reshape(beta[q, ...], (-1, n_modes)),
            block.modes,
        )

    each = [slice(q, q + 1) for q in range(block.pilots.shape[0])]
    if settings.solver == "ppxa":
        return [_one_by_one(posed(q), chunks, settings, run_terms) for q in each]
    tol, max_iter = settings.tol, settings.max_iter
    small = prod(block.pilots.shape[1:]) <= SMALL_ENTRIES
    if is_numpy(block.pilots) and not small:
        runs = runs_of_close_pilots(block.pilots)
        problems = [[posed(each[q]) for q in run] for run in runs]
        return [chains(run, chunks, tol=tol, max_iter=max_iter) for run in problems]
    return [batch(posed(slice(None)), chunks, tol=tol, max_iter=max_iter)]


def _one_by_one(
    candidates: Problem,
    chunks: list[list[int]],
    settings: Settings,
    run_terms: Callable,
) -> Iterator[Result]:
    """Solve every candidate by itself, without the grid's structure."""
    for chunk in chunks:
        found = []
        for g in chunk:
            problem = candidates.candidate(g).with_effective_box()
            if float(problem.sparse_radius[0]) == 0.0:  # no room: the pilot itself
                found.append(exact(problem.pilot, problem.sparse_radius))
            else:
                result = solve_by_ppxa(
                    problem, tol=settings.tol, max_iter=settings.max_iter, run=run_terms
                )
                found.append(result)
        yield joined(found)


def _weights(
    sparse_radius: Array, low_radius: Array, weights: str | tuple[float, float]
) -> tuple[Array, Array]:
    """Return α of shape (Q, G) and β of shape (Q, G, K); β is shared by K modes."""
    xp = array_namespace(sparse_radius)
    n_modes = low_radius.shape[2]
    if isinstance(weights, str) and weights == "radius":
        total = sparse_radius + xp.mean(low_radius, axis=2)
        total = xp.where(total > 0, total, 1.0)
        alpha = xp.where(sparse_radius > 0, 2.0 * sparse_radius / total, 1.0)
        beta = xp.where(low_radius > 0, 2.0 * low_radius / total[:, :, None], 1.0)
        return alpha, beta / n_modes
    sparse_weight, low_weight = (1.0, 1.0) if isinstance(weights, str) else weights
    ones = xp.ones_like(low_radius)
    alpha = float(sparse_weight) * xp.ones_like(sparse_radius)
    return alpha, float(low_weight) / n_modes * ones
