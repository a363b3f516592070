"""From pilot tensors to sparse and low-rank coefficients, for whole grids of radii.

In the order of the paper: radii, one problem for each mode's unfolding of the pilot,
their solutions, the average of the solutions, and the worst of their certificates.
That is `coupling="average"`; with "joint" a single problem has the terms of all modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral, Real
from typing import Any

import numpy as np

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    eigh,
    free_entries,
    has_real_numbers,
    is_array_api,
    is_numpy,
    one_blas_thread,
    real_dtype,
    spectral_norm,
    to_numpy,
    to_python,
)
from sltr.arrays.resources import thread_map
from sltr.core.grid import Schedule, independent_parts, runs_of_close_pilots, solve_grid
from sltr.core.problem import Problem, Result, Sparsity, joined
from sltr.core.tensor import fold, own_mode_product, spread_over, unfold
from sltr.parameters import check_choice, check_count, refuse, unmasked

# Entries of all coefficients held at a time, for each pilot: 32 MB of doubles.
CHUNK_ENTRIES = 4_000_000
# Arrays of a coefficient's size that the solver holds for each candidate.
ARRAYS_HELD = 60
# On a CPU, problems up to this size gain more by sharing calls than by warm starts.
SMALL_ENTRIES = 4_096
# Of an entry, if not 0: single precision has its square, and that of its inverse.
SMALLEST_WEIGHT = 1e-15


@dataclass(frozen=True)
class Settings:
    """How the problems are built and solved; checked when made."""

    coupling: str = "average"
    weights: str | tuple[float, float] = "unit"
    solver: str = "admm"
    tol: float = 1e-4
    max_iter: int = 5000
    n_jobs: int | None = None  # threads over the modes
    chunk_entries: int | None = None  # coefficients held at a time; None: the usual
    small_problem: int | None = None  # entries solved together; None: the usual
    sparsity: Sparsity | None = None  # None: the paper's

    @property
    def together(self) -> int:
        """Entries up to which a CPU solves problems, and folds of them, together."""
        return SMALL_ENTRIES if self.small_problem is None else self.small_problem

    def __post_init__(self):
        check_choice("coupling", self.coupling, ("average", "joint"))
        check_choice("solver", self.solver, ("admm", "ppxa"))
        if isinstance(self.weights, str):
            check_choice("weights", self.weights, ("unit", "radius"))
        else:
            _check_pair(self.weights)
        if not isinstance(self.tol, Real) or not 0 < self.tol < 1:
            refuse("tol", self.tol, "a number between 0 and 1")
        check_count(self.max_iter, "max_iter")
        if self.n_jobs is not None and not isinstance(self.n_jobs, Integral):
            refuse("n_jobs", self.n_jobs, "one whole number, of threads, or None")


def _check_pair(weights: Any) -> None:
    try:
        alpha, beta = (float(w) for w in weights)
    except (TypeError, ValueError, OverflowError):
        alpha = beta = -1.0
    if not (
        0 <= alpha < float("inf") and 0 <= beta < float("inf") and alpha + beta > 0
    ):
        expected = "'unit', 'radius' or two finite numbers of at least 0, not both 0"
        refuse("weights", weights, expected)


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
    n_jobs: int | None = None,
    slices: int | Sequence[int] | None = None,
    entry_weights: Any = None,
    positive: bool = False,
) -> Estimate:
    """Find the sparsest and lowest-rank tensors within two balls about a pilot.

    For every mode m, with Z the pilot's unfolding along it, solves

        min_V  α‖V‖₁ + β‖V‖_*   s.t.  ‖V − Z‖_∞ ≤ λ_sparse,  ‖V − Z‖₂ ≤ λ_low

    and averages the folded solutions (`coupling="average"`, the paper's
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
    n_jobs : int, optional
        Threads over the modes.
    slices : int or sequence of int, optional
        Modes whose slices are switched on and off as a whole: with 0 all entries at
        one place along the first mode, with (0, 1) all at one pair of places. ‖V‖₁
        becomes Σ_g √|g|·‖V_g‖₂, the sum over slices g, and ‖V − Z‖_∞ ≤ λ_sparse
        becomes ‖V_g − Z_g‖₂ ≤ √|g|·λ_sparse.
    entry_weights : array of shape (p1, …, pM), optional
        Weights ω ≥ 0 of the entries in ‖V‖₁, and of their radii: ``|V − Z|`` is at most
        ω·λ_sparse. Zero leaves an entry as the pilot has it. With `slices` equal in
        each slice.
    positive : bool
        Whether no entry may be negative. Negative ones of the pilot count as zero.

    Returns
    -------
    Estimate

    Examples
    --------
    With a diagonal pilot the solution is soft-thresholding at the smaller radius:

    >>> import numpy as np
    >>> estimate(np.diag([3.0, 2.0, 0.5]), 1.0, 2.0).coef.round(3)
    array([[2., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]])
    """
    pilot = _checked_pilot(pilot)
    shape = tuple(pilot.shape)
    sparsity = make_sparsity(shape, slices, entry_weights, positive)
    settings = Settings(
        coupling, weights, solver, tol, max_iter, n_jobs, sparsity=sparsity
    )
    return estimate_with(settings, pilot, lambda_sparse, lambda_low)


def make_sparsity(
    shape: tuple[int, ...],
    slices: Any = None,
    entry_weights: Any = None,
    positive: Any = False,
    kept: np.ndarray | None = None,
) -> Sparsity | None:
    """Check what a user says of tensors of a shape; None if that is nothing.

    Entries that are not `kept` do not count.
    """
    if not isinstance(positive, bool | np.bool_):
        refuse("positive", positive, "True or False")
    if slices is None and entry_weights is None and not positive:
        return None
    modes = None if slices is None else _checked_modes(slices, len(shape))
    weight = None
    if entry_weights is not None:
        weight = _checked_weights(entry_weights, shape, kept)
        if modes is not None and not _constant_in_slices(weight, modes, kept):
            refuse(
                "entry_weights",
                "array that varies within a slice",
                "one weight for all entries of a slice, since they go together",
            )
    return Sparsity.of(shape, modes, weight, positive=bool(positive), kept=kept)


def _checked_modes(slices: Any, n_modes: int) -> tuple[int, ...]:
    given = [slices] if isinstance(slices, Integral) else slices
    expected = f"modes from 0 to {n_modes - 1}, each once"
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        refuse("slices", slices, expected)
    for mode in given:
        whole = isinstance(mode, Integral) and not isinstance(mode, bool)
        if not whole or not -n_modes <= int(mode) < n_modes:
            refuse("slices", slices, expected)
    modes = tuple(sorted({int(mode) % n_modes for mode in given}))
    if len(modes) != len(given):
        refuse("slices", slices, expected)
    return modes


def _checked_weights(
    weights: Any, shape: tuple[int, ...], kept: np.ndarray | None
) -> np.ndarray:
    """Return weights as an array of the shape; one outside of what is kept."""
    expected = f"finite numbers of at least 0 in the shape of a sample, {shape}"
    weights = unmasked(weights, "entry_weights")
    try:
        given = np.asarray(to_numpy(weights))
        known = given.dtype.kind in "biufO"
        found = given.astype(float) if known else np.full(given.shape, np.nan)
    except (TypeError, ValueError, OverflowError):
        refuse("entry_weights", type(weights).__name__, expected)
    if found.shape != shape:
        refuse("entry_weights", f"array of shape {found.shape}", expected)
    found = found if kept is None else np.where(kept, found, 1.0)
    if not (np.isfinite(found) & (found >= 0)).all():
        refuse(
            "entry_weights", "array with negative numbers, NaN or infinity", expected
        )
    if not found[... if kept is None else kept].any():
        refuse("entry_weights", "array of zeros", "a weight above 0: none is penalised")
    least, most = found[found > 0].min(), found.max()
    if not (least >= SMALLEST_WEIGHT and most <= 1.0 / SMALLEST_WEIGHT):
        refuse(
            "entry_weights",
            f"array of weights from {least:.0e} to {most:.0e}",
            f"0, or {SMALLEST_WEIGHT:g} to {1.0 / SMALLEST_WEIGHT:g}",
        )
    return found


def _constant_in_slices(
    weight: np.ndarray, slices: tuple[int, ...], kept: np.ndarray | None
) -> bool:
    axes = tuple(m for m in range(weight.ndim) if m not in slices)
    inside = np.ones(weight.shape, bool) if kept is None else kept
    most = np.max(weight, axis=axes, keepdims=True, initial=0.0, where=inside)
    least = np.min(weight, axis=axes, keepdims=True, initial=np.inf, where=inside)
    return bool((most <= least).all())


def estimate_with(
    settings: Settings,
    pilot: Array,
    lambda_sparse: float | Array,
    lambda_low: float | Array,
) -> Estimate:
    """Do what `estimate` does, with all the settings there are."""
    pilot = _checked_pilot(pilot)
    xp = array_namespace(pilot)
    single = _is_scalar(lambda_sparse) and _is_scalar(lambda_low)
    sparse, low = _equal_lengths(lambda_sparse, lambda_low, pilot)
    low = xp.stack([low] * pilot.ndim, axis=1)
    chunks = list(
        estimate_path(pilot[None, ...], sparse[None, :], low[None, ...], settings)
    )
    order = [g for indices, _ in chunks for g in indices]
    back = as_array([order.index(g) for g in range(len(order))], pilot, dtype=xp.int64)

    def in_order(name):
        values = xp.concat([getattr(part, name)[0, ...] for _, part in chunks], axis=0)
        return xp.take(values, back, axis=0)

    fields = [in_order(name) for name in ("coef", "gap", "n_iter", "converged")]
    if single:
        coef, gap, n_iter, converged = (value[0, ...] for value in fields)
        return Estimate(coef, float(gap), int(n_iter), bool(converged))
    return Estimate(*fields)


def estimate_path(
    pilots: Array, sparse_radius: Array, low_radius: Array, settings: Settings
) -> Iterator[tuple[list[int], Estimate]]:
    """Estimate a whole grid for several pilots, chunk by chunk of candidates.

    Pilots have shape (Q, p1, …, pM), radii (Q, G) and (Q, G, M). Yields the indices
    of the candidates of a chunk and their estimates: `coef` of shape
    (Q, len(indices), p1, …, pM), the rest (Q, len(indices)). All chunks together
    hold each candidate once. Neither the size of chunks nor `n_jobs` changes results.
    """
    if settings.sparsity is not None:
        pilots = settings.sparsity.admissible(pilots)
    chunks = _grid_chunks(pilots, sparse_radius, low_radius, settings.chunk_entries)
    scale = _power_of_two(pilots)
    scaled = pilots / spread_over(scale, pilots)
    blocks = _build_blocks(scaled, scale, sparse_radius, low_radius, settings)
    with thread_map(settings.n_jobs) as run:
        grid_results = [_grid_results(block.grid, chunks, settings) for block in blocks]
        every = [results for parts in grid_results for results in parts]
        for chunk in chunks:
            with one_blas_thread():
                solved = iter(list(run(next, every)))
            results = [joined([next(solved) for _ in parts]) for parts in grid_results]
            yield chunk, _average(results, blocks, pilots, scale, len(chunk))


def absolute_radii(
    pilots: Array,
    lambda_sparse: Array,
    lambda_low: Array,
    radius: str,
    sparsity: Sparsity | None = None,
) -> tuple[Array, Array]:
    """Return radii of shape (Q, G) and (Q, G, M) for a grid given to all pilots.

    Pilots have shape (Q, p1, …, pM), both lambdas (G,). With `radius="relative"` they
    are fractions of each pilot's largest entry, or of what stands for it in another
    `sparsity`, and of the largest singular value of each of its unfoldings; with
    "absolute" they are the radii.
    """
    xp = array_namespace(pilots)
    n_modes = pilots.ndim - 1
    zeros = 0.0 * pilots[(slice(None), *([0] * n_modes))][:, None]
    sparse = lambda_sparse[None, :] + zeros
    low = xp.stack([lambda_low[None, :] + zeros] * n_modes, axis=2)
    if radius == "absolute":
        return sparse, low
    sparsity = sparsity or Sparsity(tuple(pilots.shape[1:]))
    pilots = sparsity.admissible(pilots)
    largest = sparsity.dual_norm(pilots)
    norms = [spectral_norm(unfold(pilots, mode)) for mode in range(n_modes)]
    # The rounding allowance lets the fraction 1 really reach the zero tensor.
    slack = 1.0 + 8.0 * float(xp.finfo(pilots.dtype).eps)
    sparse = sparse * (slack * largest)[:, None]
    return sparse, low * (slack * xp.stack(norms, axis=1))[:, None, :]


def adaptive_estimate(pilots: Array, fractions: Array) -> Array:
    """Return the sparsest tensors in boxes that are narrow where pilots are large.

    For pilots Z (Q, p1, …, pM) and fractions t (G,), with a = t·max|Z|, solves

        min_W  α‖W‖₁ + Σ_k β_k‖W_(k)‖_*   s.t.  |W_i − Z_i| ≤ a_i,
        a_i = a²/|Z_i| where |Z_i| > a, else |Z_i|,

    for all weights with α ≥ Σβ_k, and for all spectral balls about Z that hold the
    solution: the closed form of `Problem.is_closed_form`, whose proof goes entry by
    entry and so allows a radius for each. The solution is S_{a_i}(Z_i), that is
    Z_i·(1 − a²/Z_i²) or zero. A box of one radius for all entries would move large
    entries as far as small ones; this one trusts the pilot where it is large. With
    t = 0 the pilot stays as it is, with t = 1 nothing is left. Returns (Q, G, …).

    Examples
    --------
    >>> import numpy as np
    >>> adaptive_estimate(np.array([[4.0, 2.0, -0.5]]), np.array([0.0, 0.25, 1.0]))
    array([[[ 4.  ,  2.  , -0.5 ],
            [ 3.75,  1.5 , -0.  ],
            [ 0.  ,  0.  , -0.  ]]])
    """
    xp = array_namespace(pilots)
    Z, size = pilots[:, None, ...], xp.abs(pilots)[:, None, ...]
    largest = xp.max(size, axis=tuple(range(1, size.ndim)))
    trailing = (None,) * (pilots.ndim - 1)
    a = (largest[:, None] * fractions)[(..., *trailing)]
    stays = size > a  # squares of the other ratios may be too large for the precision
    ratio = xp.where(stays, a / xp.where(stays, size, 1.0), 1.0)
    return Z * (1.0 - ratio * ratio)


def lowest_ranks(pilots: Array, fractions: Array) -> Array:
    """Return tensors of the lowest ranks that spectral balls about pilots allow.

    For pilots Z (Q, p1, …, pM) and fractions t (G,), along every mode at once, the
    projection on the left singular vectors of Z_(m) whose singular values exceed
    a_m = t·‖Z_(m)‖₂. By Weyl's inequality no W with ‖W_(m) − Z_(m)‖₂ ≤ a_m has a lower
    rank along a mode. Zeros stay zero, which may cost some of it, and with t = 0 all
    stays as it is. A mode longer than all others together is left: its rank cannot
    exceed theirs. Returns (Q, G, …).

    Examples
    --------
    >>> import numpy as np
    >>> pilots = np.diag([4.0, 2.0, 0.5])[None]
    >>> np.diagonal(lowest_ranks(pilots, np.array([0.0, 0.3]))[0], axis1=1, axis2=2)
    array([[4. , 2. , 0.5],
           [4. , 2. , 0. ]])
    """
    xp, shape = array_namespace(pilots), tuple(pilots.shape[1:])
    scale = spread_over(_power_of_two(pilots), pilots)  # squares stay finite
    batch = pilots.shape[0], fractions.shape[0]
    each = xp.broadcast_to(pilots[:, None, ...], (*batch, *shape))
    found = xp.reshape(each, (-1, *shape))
    for mode, size in enumerate(shape):
        if size * size > prod(shape):
            continue
        matrix = unfold(pilots / scale, mode)
        values, vectors = eigh(matrix @ xp.matrix_transpose(matrix))
        bound = fractions[None, :, None] ** 2 * values[:, None, -1:]
        kept = xp.astype(values[:, None, :] > bound, vectors.dtype)  # (Q, G, p)
        vectors = vectors[:, None, ...]
        projector = (vectors * kept[:, :, None, :]) @ xp.matrix_transpose(vectors)
        found = own_mode_product(found, xp.reshape(projector, (-1, size, size)), mode)
    found = xp.reshape(found, (*batch, *shape))
    lowered = xp.reshape(fractions, (1, -1, *[1] * len(shape))) > 0
    return xp.where(lowered & (each != 0.0), found, each)


def independent_pilots(pilots: Array) -> list[int]:
    """Return the indices of pilots (Q, …) that take no start from the one before.

    Cut there, a batch of pilots may be solved part by part with the same results.
    """
    scaled = pilots / spread_over(_power_of_two(pilots), pilots)
    return [run[0] for run in runs_of_close_pilots(scaled)]


@dataclass(frozen=True, eq=False)
class _Block:
    """Grids of equal shape that are solved together.

    `modes_stacked` are the modes whose unfoldings are the pilots of the grid, one
    mode after the other; a joint problem has none, its pilots are whole tensors.
    """

    modes_stacked: tuple[int, ...]
    grid: Problem

    def tensors(self, x: Array, shape: tuple[int, ...]) -> list[Array]:
        """Return the solutions as batches of tensors, one for each stacked mode."""
        if not self.modes_stacked:
            return [x]
        length = x.shape[0] // len(self.modes_stacked)
        return [
            fold(x[i * length : (i + 1) * length, ...], mode, shape)
            for i, mode in enumerate(self.modes_stacked)
        ]


def _build_blocks(
    pilots: Array,
    scale: Array,
    sparse_radius: Array,
    low_radius: Array,
    settings: Settings,
) -> list[_Block]:
    """Build one grid of matrix problems for each mode, or a grid of joint problems.

    Modes of equal size give matrices of equal shape, which share a block. Pilots are
    divided by `scale`, radii are not.
    """
    xp = array_namespace(pilots)
    shape = pilots.shape[1:]
    if settings.coupling == "joint":
        every = tuple(range(len(shape)))
        radii = sparse_radius, low_radius
        return [_Block((), _build_grid(pilots, scale, *radii, every, settings))]
    # The two unfoldings of a matrix give the same problem, transposed.
    modes = range(len(shape)) if len(shape) != 2 else range(1)
    if settings.sparsity is not None:  # which knows tensors, not unfoldings
        return [
            _Block((), _build_grid(pilots, scale, *radii, (mode,), settings))
            for mode in modes
            for radii in [(sparse_radius, low_radius[:, :, mode : mode + 1])]
        ]
    by_size: dict[int, list[int]] = {}
    for mode in modes:
        by_size.setdefault(shape[mode], []).append(mode)
    blocks = []
    for stacked in by_size.values():
        grid = _build_grid(
            xp.concat([unfold(pilots, mode) for mode in stacked], axis=0),
            xp.concat([scale] * len(stacked), axis=0),
            xp.concat([sparse_radius] * len(stacked), axis=0),
            xp.concat([low_radius[:, :, m : m + 1] for m in stacked], axis=0),
            (0,),
            settings,
        )
        blocks.append(_Block(tuple(stacked), grid))
    return blocks


def _build_grid(
    pilots: Array,
    scale: Array,
    sparse_radius: Array,
    low_radius: Array,
    modes: tuple[int, ...],
    settings: Settings,
) -> Problem:
    """Return all candidates of all pilots, in the units of the scaled pilots."""
    xp = array_namespace(pilots)
    alpha, beta = _weights(sparse_radius, low_radius, settings.weights)
    scale = scale[:, None]
    least = 1.0 if settings.sparsity is None else settings.sparsity.least
    # Wider than any pilot of this scale can need; the quotient stays finite.
    widest = 4.0 * prod(pilots.shape[1:]) * scale
    sparse = xp.minimum(sparse_radius, widest / least) / scale
    low = xp.minimum(low_radius, widest[:, :, None]) / scale[:, :, None]
    return Problem(
        pilots,
        xp.reshape(sparse, (-1,)),
        xp.reshape(low, (-1, len(modes))),
        xp.reshape(alpha, (-1,)),
        xp.reshape(beta, (-1, len(modes))),
        modes,
        settings.sparsity,
    )


def _weights(
    sparse_radius: Array, low_radius: Array, weights: str | tuple[float, float]
) -> tuple[Array, Array]:
    """Return α of shape (Q, G) and β of shape (Q, G, K); K modes share β."""
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


def _grid_chunks(
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


def _grid_results(
    grid: Problem, chunks: list[list[int]], settings: Settings
) -> list[Iterator[Result]]:
    """Return iterators over the chunks' results, one for each independent part."""
    schedule = Schedule.TOGETHER
    if settings.solver == "ppxa":
        schedule = Schedule.PPXA
    elif is_numpy(grid.pilot) and prod(grid.pilot.shape[1:]) > settings.together:
        schedule = Schedule.ONE_BY_ONE
    tol, max_iter = settings.tol, settings.max_iter
    return [
        solve_grid(part, chunks, schedule=schedule, tol=tol, max_iter=max_iter)
        for part in independent_parts(grid, schedule)
    ]


def _average(
    results: list[Result],
    blocks: list[_Block],
    pilots: Array,
    scale: Array,
    n_candidates: int,
) -> Estimate:
    """Fold the solutions of all blocks and average them; certificates: the worst."""
    xp = array_namespace(pilots)
    shape, n_pilots = tuple(pilots.shape[1:]), pilots.shape[0]
    tensors = [
        tensor
        for block, result in zip(blocks, results, strict=True)
        for tensor in block.tensors(result.x, shape)
    ]
    coef = sum(tensors[1:], start=tensors[0]) / len(tensors)

    def of_modes(name: str) -> Array:
        values = xp.concat([getattr(result, name) for result in results], axis=0)
        return xp.reshape(values, (-1, n_pilots, n_candidates))

    coef = xp.reshape(coef, (n_pilots, n_candidates, *shape))
    return Estimate(
        coef * spread_over(scale, coef),
        xp.max(of_modes("residual"), axis=0),
        xp.max(of_modes("n_iter"), axis=0),
        xp.all(of_modes("converged"), axis=0),
    )


def _power_of_two(pilots: Array) -> Array:
    """Return each pilot's size as a power of two, (Q,): to divide by it is exact.

    The solvers square their numbers, which must neither vanish nor overflow.
    """
    xp = array_namespace(pilots)
    largest = xp.max(xp.abs(pilots), axis=tuple(range(1, pilots.ndim)))
    largest = xp.where(largest > 0, largest, 1.0)
    return 2.0 ** xp.floor(xp.log2(largest))


def _checked_pilot(pilot: Array) -> Array:
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


def _equal_lengths(sparse: Any, low: Any, pilot: Array) -> tuple[Array, Array]:
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


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | tuple) and getattr(value, "ndim", 0) == 0
