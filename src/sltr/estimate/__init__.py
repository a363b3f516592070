"""From pilot tensors to sparse and low-rank coefficients, for whole grids.

The two couplings pose blocks of problems: "average" one for each mode's
unfolding, whose answers are averaged, as in the paper; "joint" a single one
that carries the terms of all modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sltr._array import (
    Array,
    array_namespace,
    as_array,
    one_blas_thread,
)
from sltr.estimate.blocks import COUPLINGS, Block
from sltr.estimate.checks import checked_pilot, equal_lengths, is_scalar
from sltr.estimate.radii import absolute_radii
from sltr.estimate.settings import Settings
from sltr.estimate.solving import grid_chunks, streams
from sltr.solvers.chain import runs_of_close_pilots
from sltr.solvers.problem import spread_over
from sltr.solvers.result import Result, joined
from sltr.solvers.threads import job_counts, thread_map

__all__ = [
    "Estimate",
    "Settings",
    "absolute_radii",
    "estimate",
    "estimate_path",
    "independent_pilots",
]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients with their certificates.

    Attributes
    ----------
    coef : array of shape (p1, …, pM), or (G, p1, …, pM) for G candidates
    gap : float or array of shape (G,)
        Largest relative duality gap over the problems behind a coefficient.
    n_iter : int or array of shape (G,)
        Largest number of iterations over these problems.
    converged : bool or array of shape (G,)
        Whether every gap reached the tolerance.
    """

    coef: Array
    gap: float | Array
    n_iter: int | Array
    converged: bool | Array


def estimate(
    pilot: Array,
    lambda_sparse: float | Array,
    lambda_low: float | Array,
    *,
    coupling: str = "average",
    weights: str | tuple[float, float] = "unit",
    solver: str = "admm",
    tol: float = 1e-4,
    max_iter: int = 5000,
    n_jobs: int | tuple[int, int] | None = None,
) -> Estimate:
    """Find the sparsest and lowest-rank tensors within two balls about a pilot.

    For every mode m, with Z the pilot's unfolding along it, solves

        min_V  α‖V‖₁ + β‖V‖_*   s.t.  ‖V − Z‖_∞ ≤ λ_sparse,  ‖V − Z‖₂ ≤ λ_low

    and averages the folded answers (`coupling="average"`, the paper's
    equations 8 and 9), or solves for one tensor under the terms of all modes at
    once (`coupling="joint"`, its equation 6).

    Parameters
    ----------
    pilot : array of shape (p1, …, pM)
    lambda_sparse, lambda_low : float or arrays of shape (G,)
        Absolute radii of the entrywise and the spectral ball.
    coupling : {"average", "joint"}
    weights : {"unit", "radius"} or pair of floats
        (α, β): (1, 1) as in the paper; proportional to the radii; or given.
    solver : {"admm", "ppxa"}
        The default is the fastest; "ppxa" is the paper's algorithm, corrected.
    tol : float
        Bound on the relative duality gap.
    max_iter : int
    n_jobs : int or pair of ints, optional
        Threads over the modes; with a pair, the second number counts threads over
        the proximal steps inside a mode ("ppxa" only): the paper's two layers.

    Returns
    -------
    Estimate

    Examples
    --------
    With a diagonal pilot the answer is soft-thresholding at the smaller radius:

    >>> import numpy as np
    >>> estimate(np.diag([3.0, 2.0, 0.5]), 1.0, 2.0).coef.round(3)
    array([[2., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]])
    """
    settings = Settings(coupling, weights, solver, tol, max_iter, n_jobs)
    pilot = checked_pilot(pilot)
    xp = array_namespace(pilot)
    single = is_scalar(lambda_sparse) and is_scalar(lambda_low)
    sparse, low = equal_lengths(lambda_sparse, lambda_low, pilot)
    low = xp.stack([low] * pilot.ndim, axis=1)
    found = list(
        estimate_path(pilot[None, ...], sparse[None, :], low[None, ...], settings)
    )
    order = [g for chunk, _ in found for g in chunk]
    back = as_array([order.index(g) for g in range(len(order))], pilot, dtype=xp.int64)

    def collected(name):
        values = xp.concat([getattr(part, name)[0, ...] for _, part in found], axis=0)
        return xp.take(values, back, axis=0)

    fields = [collected(name) for name in ("coef", "gap", "n_iter", "converged")]
    if single:
        coef, gap, n_iter, converged = (value[0, ...] for value in fields)
        return Estimate(coef, float(gap), int(n_iter), bool(converged))
    return Estimate(*fields)


def estimate_path(
    pilots: Array, sparse_radius: Array, low_radius: Array, settings: Settings
) -> Iterator[tuple[list[int], Estimate]]:
    """Estimate a whole grid for several pilots, chunk by chunk of candidates.

    Parameters
    ----------
    pilots : array of shape (Q, p1, …, pM)
    sparse_radius : array of shape (Q, G)
    low_radius : array of shape (Q, G, M)
    settings : Settings

    Yields
    ------
    places : list of int
        The candidates of this chunk; all chunks together hold each one once.
    found : Estimate
        `coef` of shape (Q, len(places), p1, …, pM), the rest (Q, len(places)).
        Answers do not depend on the size of chunks or the number of jobs.
    """
    chunks = grid_chunks(pilots, sparse_radius, low_radius, settings.chunk_entries)
    mode_jobs, term_jobs = job_counts(settings.n_jobs)
    scale = _power_of_two(pilots)
    scaled = pilots / spread_over(scale, pilots)
    blocks = COUPLINGS[settings.coupling](scaled, scale, sparse_radius, low_radius)
    with thread_map(mode_jobs) as run, thread_map(term_jobs) as run_terms:
        groups = [streams(block, chunks, settings, run_terms) for block in blocks]
        every = [stream for group in groups for stream in group]
        for chunk in chunks:
            with one_blas_thread():
                results = iter(list(run(next, every)))
            found = [joined([next(results) for _ in group]) for group in groups]
            yield chunk, _average(found, blocks, pilots, scale, len(chunk))


def independent_pilots(pilots: Array) -> list[int]:
    """Return the places of pilots (Q, …) that take no start from the one before.

    Cut there, a batch of pilots may be solved part by part with the same answers.
    """
    scaled = pilots / spread_over(_power_of_two(pilots), pilots)
    return [run[0] for run in runs_of_close_pilots(scaled)]


def _power_of_two(pilots: Array) -> Array:
    """Return each pilot's size as a power of two, (Q,): to divide by it is exact.

    The solvers square their numbers, which must neither vanish nor overflow.
    """
    xp = array_namespace(pilots)
    largest = xp.max(xp.abs(pilots), axis=tuple(range(1, pilots.ndim)))
    largest = xp.where(largest > 0, largest, 1.0)
    return 2.0 ** xp.floor(xp.log2(largest))


def _average(
    results: list[Result],
    blocks: list[Block],
    pilots: Array,
    scale: Array,
    n_places: int,
) -> Estimate:
    """Fold the answers of all blocks and average them; certificates: the worst."""
    xp = array_namespace(pilots)
    shape, n_pilots = tuple(pilots.shape[1:]), pilots.shape[0]
    tensors = [
        tensor
        for block, result in zip(blocks, results, strict=True)
        for tensor in block.tensors(result.x, shape)
    ]
    coef = sum(tensors[1:], start=tensors[0]) / len(tensors)

    def rows(name: str) -> Array:
        values = xp.concat([getattr(result, name) for result in results], axis=0)
        return xp.reshape(values, (-1, n_pilots, n_places))

    coef = xp.reshape(coef, (n_pilots, n_places, *shape))
    return Estimate(
        coef * spread_over(scale, coef),
        xp.max(rows("residual"), axis=0),
        xp.max(rows("n_iter"), axis=0),
        xp.all(rows("converged"), axis=0),
    )
