"""How problems are posed and solved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from numbers import Integral, Real
from typing import Any

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    free_entries,
    has_real_numbers,
    is_array_api,
    is_numpy,
    one_blas_thread,
    real_dtype,
    spectral_norm,
    to_python,
)
from sltr.arrays.resources import job_counts, thread_map
from sltr.core.grid import batch, chains, runs_of_close_pilots
from sltr.core.ppxa import solve_by_ppxa
from sltr.core.problem import Problem, Result, exact, joined, spread_over
from sltr.core.tensor import fold, unfold
from sltr.parameters import check_choice, refuse

SOLVERS = ("admm", "ppxa")


@dataclass(frozen=True)
class Settings:
    """How the problems are posed and solved; checked when made."""

    coupling: str = "average"
    weights: str | tuple[float, float] = "unit"
    solver: str = "admm"
    tol: float = 1e-4
    max_iter: int = 5000
    n_jobs: int | tuple[int, int] | None = None
    chunk_entries: int | None = None  # coefficients held at a time; None: the usual

    def __post_init__(self):
        check_choice("coupling", self.coupling, COUPLINGS)
        check_choice("solver", self.solver, SOLVERS)
        if isinstance(self.weights, str):
            check_choice("weights", self.weights, ("unit", "radius"))
        else:
            _check_pair(self.weights)
        if not isinstance(self.tol, Real) or not 0 < self.tol < 1:
            refuse("tol", self.tol, "a number between 0 and 1")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            refuse("max_iter", self.max_iter, "a whole number of at least 1")


def _check_pair(weights: Any) -> None:
    try:
        alpha, beta = (float(w) for w in weights)
    except (TypeError, ValueError):
        alpha = beta = -1.0
    if not (
        0 <= alpha < float("inf") and 0 <= beta < float("inf") and alpha + beta > 0
    ):
        expected = "'unit', 'radius' or two finite numbers of at least 0, not both 0"
        refuse("weights", weights, expected)


def absolute_radii(
    pilots: Array, lambda_sparse: Array, lambda_low: Array, radius: str
) -> tuple[Array, Array]:
    """Return radii of shape (Q, G) and (Q, G, M) for a grid given to all pilots.

    Parameters
    ----------
    pilots : array of shape (Q, p1, …, pM)
    lambda_sparse, lambda_low : arrays of shape (G,)
    radius : {"relative", "absolute"}
        "relative": fractions of each pilot's largest entry and of each of its
        unfoldings' largest singular value.
    """
    xp = array_namespace(pilots)
    check_choice("radius", radius, ("relative", "absolute"))
    n_modes = pilots.ndim - 1
    sparse = (
        lambda_sparse[None, :] + 0.0 * pilots[(slice(None), *([0] * n_modes))][:, None]
    )
    low = xp.stack([sparse - lambda_sparse + lambda_low] * n_modes, axis=2)
    if radius == "absolute":
        return sparse, low
    largest = xp.max(xp.abs(pilots), axis=tuple(range(1, pilots.ndim)))
    norms = [spectral_norm(unfold(pilots, mode)) for mode in range(n_modes)]
    # A whisker more, so that the fraction 1 really reaches the zero tensor.
    slack = 1.0 + 8.0 * float(xp.finfo(pilots.dtype).eps)
    largest = largest * slack
    return sparse * largest[:, None], low * (slack * xp.stack(norms, axis=1))[
        :, None, :
    ]


@dataclass(frozen=True, eq=False)
class Block:
    """Problems of equal shape that are posed together.

    `members` are the modes whose unfoldings are stacked along the first axis, of
    which a joint problem has none; `modes` are those of the posed problem.
    """

    members: tuple[int, ...]
    modes: tuple[int, ...]
    pilots: Array  # divided by `scale`, which the radii are not
    scale: Array
    sparse_radius: Array
    low_radius: Array

    def tensors(self, x: Array, shape: tuple[int, ...]) -> list[Array]:
        """Return the answers as batches of tensors, one for each member."""
        if not self.members:
            return [x]
        length = x.shape[0] // len(self.members)
        return [
            fold(x[i * length : (i + 1) * length, ...], mode, shape)
            for i, mode in enumerate(self.members)
        ]


def _mode_blocks(
    pilots: Array, scale: Array, sparse_radius: Array, low_radius: Array
) -> list[Block]:
    """Pose one matrix problem for each mode, those of equal shape in one block."""
    xp = array_namespace(pilots)
    shape = pilots.shape[1:]
    # The two unfoldings of a matrix pose the same problem, transposed.
    modes = range(len(shape)) if len(shape) != 2 else range(1)
    groups: dict[int, list[int]] = {}
    for mode in modes:
        groups.setdefault(shape[mode], []).append(mode)
    return [
        Block(
            tuple(members),
            (0,),
            xp.concat([unfold(pilots, mode) for mode in members], axis=0),
            xp.concat([scale] * len(members), axis=0),
            xp.concat([sparse_radius] * len(members), axis=0),
            xp.concat([low_radius[:, :, m : m + 1] for m in members], axis=0),
        )
        for members in groups.values()
    ]


def _joint_block(
    pilots: Array, scale: Array, sparse_radius: Array, low_radius: Array
) -> list[Block]:
    modes = tuple(range(pilots.ndim - 1))
    return [Block((), modes, pilots, scale, sparse_radius, low_radius)]


COUPLINGS = {"average": _mode_blocks, "joint": _joint_block}


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


def checked_pilot(pilot: Array) -> Array:
    """Return the pilot in floating point, or say what is wrong with it."""
    expected = "an array of real numbers with at least one mode and one entry"
    if not is_array_api(pilot) or pilot.ndim < 1 or prod(pilot.shape) == 0:
        shape = tuple(getattr(pilot, "shape", ()))
        refuse("pilot", f"{type(pilot).__name__} of shape {shape}", expected)
    xp = array_namespace(pilot)
    if not has_real_numbers(pilot):
        refuse("pilot", f"array of dtype {pilot.dtype}", expected)
    pilot = xp.astype(pilot, real_dtype(pilot), copy=False)
    if not bool(xp.all(xp.isfinite(pilot))):
        refuse("pilot", "array with NaN or infinity", "finite numbers")
    return pilot


def equal_lengths(sparse: Any, low: Any, pilot: Array) -> tuple[Array, Array]:
    """Return both radii as arrays of one length, of the library of the pilot."""
    xp = array_namespace(pilot)
    columns = []
    for name, values in (("lambda_sparse", sparse), ("lambda_low", low)):
        column = xp.reshape(as_array(values, pilot), (-1,))
        if not bool(xp.all(xp.isfinite(column) & (column >= 0.0))):
            refuse(name, values, "finite radii of at least 0")
        columns.append(column)
    length = max(column.shape[0] for column in columns)
    if any(column.shape[0] not in (1, length) for column in columns):
        refuse(
            "lambda_sparse and lambda_low",
            tuple(column.shape[0] for column in columns),
            "equal numbers of radii, or one of them a single number",
        )
    zeros = as_array([0.0] * length, pilot)
    return columns[0] + zeros, columns[1] + zeros


def is_scalar(value: Any) -> bool:
    """Say whether a radius is one number."""
    return not isinstance(value, list | tuple) and getattr(value, "ndim", 0) == 0


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
