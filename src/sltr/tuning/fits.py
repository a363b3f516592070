"""The paper's own estimates for whole grids, and their held-out predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    singular_values,
    to_numpy,
    to_python,
)
from sltr.core.estimate import Settings, absolute_radii, estimate_path
from sltr.core.tensor import flatten, unfold
from sltr.refine.lasso import lasso, refit_on_support
from sltr.refine.ranks import STEPS_BY_KIND, TuckerStep
from sltr.refine.reweight import reweighted
from sltr.refine.subsets import Subsets, feature_variance
from sltr.refine.sweeps import Sweeps, Swept, unfoldings
from sltr.tuning.candidates import Candidate
from sltr.tuning.policy import DEFAULT
from sltr.tuning.task import Fold, Task, about_means, in_range

Row = tuple[Candidate, int, np.ndarray, float]
Chunk = tuple[list[int], Array, np.ndarray]


@dataclass(frozen=True, eq=False)
class PlainEstimates:
    """The whole grid for some folds' pilots; needs no samples, so it travels well."""

    shape: tuple[int, ...]
    radius: str
    settings: Settings
    pilots: Array  # (F, E, K, P)
    pairs: list[tuple[float, float]]
    measure: bool

    def chunks(self) -> Iterator[Chunk]:
        """Yield places in the grid, coefficients (F, E, K, g, P), sizes (F, E, g)."""
        xp = array_namespace(self.pilots)
        batch = tuple(self.pilots.shape[:3])
        flat = xp.reshape(self.pilots, (-1, *self.shape))
        columns = zip(*self.pairs, strict=True)
        sparse, low = (as_array(column, flat) for column in columns)
        radii = absolute_radii(flat, sparse, low, self.radius)
        for places, found in estimate_path(flat, *radii, self.settings):
            coef = xp.reshape(found.coef, (*batch, len(places), -1))
            free = _free_parameters(found.coef) if self.measure else 0.0 * found.gap
            free = to_numpy(free).reshape(*batch, len(places)).mean(axis=2)
            yield places, coef, free

    def __call__(self) -> list[Chunk]:
        """Return all chunks at once: a job for another process."""
        return list(self.chunks())


@dataclass(frozen=True, eq=False)
class Plain:
    """The paper's estimates on some folds, predicted for samples in memory."""

    task: Task
    places: list[int]
    folds: list[Fold]
    epsilons: list[float]
    estimates: PlainEstimates
    start: Candidate | None = None  # whose coefficients refits start from

    def __call__(self) -> tuple[list[Row], Array | None]:
        """Return the rows of all candidates and folds, and the start's (F, K, P)."""
        rows: list[Row] = []
        kept: Array | None = None
        for places, coef, free in self.estimates.chunks():
            xp = array_namespace(coef)
            pairs = [self.estimates.pairs[g] for g in places]
            if self.start is not None and self.start.radii in pairs:
                e = self.epsilons.index(self.start.epsilon)
                # A copy: a view would keep the whole chunk.
                kept = coef[:, e, :, pairs.index(self.start.radii), :] + 0.0
            for f, fold in enumerate(self.folds):
                flat = xp.reshape(coef[f, ...], (-1, coef.shape[4]))
                values = fold.centred_predictions(self.task, flat)
                values = values.reshape(-1, *coef.shape[1:4])
                rows += rows_of(self.epsilons, pairs, self.places[f], values, free[f])
        return in_grid_order(rows, self.epsilons, self.estimates.pairs), kept


def rows_of(
    epsilons: list[float],
    pairs: list[tuple[float, float]],
    place: int,
    values: np.ndarray,
    free: np.ndarray,
) -> Iterator[Row]:
    """Yield rows from values (n_rows, E, K, g) and sizes (E, g) of one fold."""
    for e, epsilon in enumerate(epsilons):
        for i, pair in enumerate(pairs):
            candidate = Candidate(epsilon, *pair)
            yield candidate, place, values[:, e, :, i], float(free[e, i])


def in_grid_order(
    rows: list[Row], epsilons: list[float], pairs: list[tuple[float, float]]
) -> list[Row]:
    """Sort by the grid, whatever the chunks: ties go to the first."""
    grid = product(epsilons, pairs)
    order = {Candidate(e, *pair): i for i, (e, pair) in enumerate(grid)}
    return sorted(rows, key=lambda row: order[row[0]])


def _free_parameters(coef: Array) -> Array:
    """Count a coefficient's free parameters relative to P, (Q, g).

    The fewer of its non-zero entries and of the rows its ranks need.
    """
    xp = array_namespace(coef)
    shape = tuple(coef.shape[2:])
    batch = xp.reshape(coef, (-1, *shape))
    free = xp.mean(xp.astype(flatten(batch) != 0, coef.dtype), axis=1)
    rows = 0.0 * free
    for mode, size in enumerate(shape):
        values = singular_values(unfold(batch, mode))
        largest = xp.max(values, axis=1, keepdims=True)
        kept = (values > 1e-3 * largest) & (values > 0)
        rows = rows + size * xp.sum(xp.astype(kept, coef.dtype), axis=1)
    return xp.reshape(xp.minimum(free, rows / prod(shape)), coef.shape[:2])


# The reweighting steps whose coefficients seed low-rank refits.
SEED_STEPS = (4, 10)


def start_estimates(
    task: Task,
    pilots: Array,
    start: Candidate,
    known: Sequence[Array | None] = (),
) -> Array:
    """Return the estimates refits start from, (S, K, p1, …, pM).

    `pilots` has shape (S, K, P), and so have those that are `known`, end to end; if
    any is not, they are solved for.
    """
    shape = task.samples.shape
    xp = array_namespace(pilots)
    parts = [part for part in known if part is not None]
    if not parts or len(parts) < len(known):
        flat = xp.reshape(pilots, (-1, *shape))
        sparse, low = (as_array([radius], flat) for radius in start.radii)
        radii = absolute_radii(flat, sparse, low, task.radius)
        [(_, found)] = estimate_path(flat, *radii, task.settings)
        parts = [found.coef[:, 0, ...]]
    first = xp.reshape(xp.concat(parts, axis=0), (*pilots.shape[:2], *shape))
    return or_pilots(first, pilots)


def or_pilots(estimates: Array, pilots: Array) -> Array:
    """Return estimates (S, K, p1, …, pM), or the pilots of those that vanished.

    A start that vanished has no components.
    """
    xp = array_namespace(estimates)
    modes = tuple(range(2, estimates.ndim))
    size = xp.max(xp.abs(estimates), axis=modes, keepdims=True)
    return xp.where(size > 0, estimates, xp.reshape(pilots, estimates.shape))


def reweighted_fits(task: Task, subsets: Array, starts: Array) -> dict[int, Array]:
    """Return coefficients (S, K, p1, …, pM) by the number of reweighting steps."""
    xp = array_namespace(task.Y)
    first = xp.reshape(starts, (-1, *task.samples.shape))
    how = {"steps": DEFAULT.steps, "tol": DEFAULT.reweight_tol}
    steps = reweighted(task.samples.flat, _items(task, subsets), first, **how)
    return {step: xp.reshape(coef, starts.shape) for step, coef in steps}


def sweeps(task: Task, subsets: Array) -> Sweeps:
    """Prepare low-rank refits; items of a batch are subsets × responses."""
    items = _items(task, subsets)
    flat = task.samples.flat
    variance = feature_variance(flat, items.weight, task.fit_intercept)
    how = (DEFAULT.ridges, DEFAULT.sweeps, DEFAULT.starting_sweeps)
    return Sweeps(unfoldings(task.samples.X), items, variance, *how)


def low_rank_seeds(estimates: Array, steps: Mapping[int, Array] | None) -> list[Array]:
    """Return what low-rank refits start from, (S, K, p1, …, pM) each.

    SLTR's estimates, and these reweighted, where they have modes to weigh; once, if
    steps have not changed them any more. Of matrices, which have fewer local minima,
    the last alone.
    """
    seeds = [estimates]
    for seed in [steps[step] for step in SEED_STEPS] if steps is not None else []:
        if bool(array_namespace(seed).any(seed != seeds[-1])):
            seeds.append(seed)
    return seeds[-1:] if estimates.ndim == 4 else seeds


def low_rank_fits(
    task: Task,
    problem: Sweeps,
    start: Candidate,
    kind: str,
    seeds: Sequence[Array],
    *,
    ranks: Iterable[tuple[int, ...]] | None = None,
    goes_on: Callable[[Array], bool] = lambda fitted: True,
) -> Iterator[dict[Candidate, Swept]]:
    """Refit a problem's subsets, rank after rank; yields a rank's settings and refits.

    Ranks of "tucker" are found on the way unless they are given. `goes_on` says from
    the fitted values of a rank whether ridges below the first are worth trying.
    """
    xp = array_namespace(task.Y)
    shape = task.samples.shape
    flat = [xp.reshape(seed, (-1, *shape)) for seed in seeds]
    largest = DEFAULT.largest_rank(kind, shape)
    base = (start.epsilon, start.lambda_sparse, start.lambda_low)
    if ranks is not None and kind == "tucker":
        for rank in ranks:
            step = TuckerStep.of_rank(problem, flat, largest, rank).with_lower_ridges()
            yield {Candidate(*base, kind, rank, s.ridge): s for s in step.swept}
        return
    step = STEPS_BY_KIND[kind].first(problem, flat, largest)
    while step is not None:
        if goes_on(step.swept[0].fitted):
            step = step.with_lower_ridges()
        yield {Candidate(*base, kind, step.rank, s.ridge): s for s in step.swept}
        step = step.next_rank()


def sparse_fits(
    task: Task,
    subsets: Array,
    epsilon: float,
    radii: Sequence[float],
    ridges: Sequence[float | None],
) -> Iterator[tuple[Candidate, Array]]:
    """Fit the Lasso on all subsets for all radii; yields coefficients (S, K, P).

    Each also refitted by ridge on its support. A radius is relative to the largest
    threshold that leaves an entry, or in the coefficients' units, as if features were
    uncorrelated. `epsilon` names the candidates, no more.
    """
    xp = array_namespace(task.Y)
    samples, n_responses = task.samples, task.Y.shape[1]
    items = _items(task, subsets)
    variance = feature_variance(samples.flat, items.weight, task.fit_intercept)
    if task.radius == "relative":
        unit = xp.max(xp.abs(items.cross(samples.flat)), axis=1)
    else:
        unit = variance * xp.sum(items.weight, axis=1)
    fractions = as_array(list(radii), samples.X)
    found = lasso(samples.flat, items, unit[:, None] * fractions)
    scales = to_python(variance)
    for i, radius in enumerate(radii):
        for ridge in ridges:
            coefs = [found[b, i, :] for b in range(len(scales))]
            if ridge is not None:
                coefs = [
                    refit_on_support(
                        samples.flat, items.take([b]), coef, ridge * scales[b]
                    )
                    for b, coef in enumerate(coefs)
                ]
            candidate = Candidate(epsilon, radius, 0.0, "sparse", ridge=ridge)
            shape = (subsets.shape[0], n_responses, -1)
            yield candidate, xp.reshape(xp.stack(coefs, axis=0), shape)


def _items(task: Task, subsets: Array) -> Subsets:
    """Return a batch of subsets × responses."""
    xp = array_namespace(task.Y)
    n_subsets, n_responses = subsets.shape[0], task.Y.shape[1]
    weight = xp.where(subsets, task.samples.weight, 0.0)
    each = [s for s in range(n_subsets) for _ in range(n_responses)]
    return Subsets(
        xp.concat([xp.matrix_transpose(task.Y)] * n_subsets, axis=0),
        xp.take(weight, as_array(each, task.Y, dtype=xp.int64), axis=0),
        task.fit_intercept,
    )


def has_start(candidate: Candidate) -> bool:
    """Say whether a refit starts from an estimate, the same for all that do."""
    return candidate.refine in ("reweight", "tucker", "cp")


def refit_coefs(
    task: Task,
    subsets: Array,
    candidates: Sequence[Candidate],
    estimates: Array | None = None,
) -> dict[Candidate, Array]:
    """Return the refitted candidates' coefficients, (S, K, p1, …, pM).

    `estimates` are those that refits start from, if they are known.
    """
    if not candidates:
        return {}
    xp, dtype = array_namespace(task.Y), task.Y.dtype
    refits = [c for c in candidates if has_start(c)]
    if refits and estimates is None:
        base = _start(refits)
        pilots = task.system.coefs(subsets, as_array([base.epsilon], task.Y))
        estimates = start_estimates(task, pilots[:, 0, ...], base)
    task = in_range(about_means(task)[0])
    sparse = [c for c in candidates if c.refine == "sparse"]
    found = _sparse_refits(task, subsets, sparse)
    if refits and estimates is not None:
        estimates = xp.astype(estimates, task.Y.dtype)
        found |= _refits_from(task, subsets, refits, estimates)
    return {c: xp.astype(coef, dtype) for c, coef in found.items()}


def _start(refits: Sequence[Candidate]) -> Candidate:
    """Return the setting all refits start from: the same for all of them."""
    return replace(refits[0], refine=None, rank=0, ridge=None, steps=0)


def _refits_from(
    task: Task, subsets: Array, refits: Sequence[Candidate], estimates: Array
) -> dict[Candidate, Array]:
    """Return reweighted and low-rank refits of estimates, (S, K, p1, …, pM)."""
    xp = array_namespace(estimates)
    found: dict[Candidate, Array] = {}
    base = _start(refits)
    steps = None
    if len(task.samples.shape) > 1:
        steps = reweighted_fits(task, subsets, estimates)
        found |= {c: steps[c.steps] for c in refits if c.refine == "reweight"}
    low_rank = [c for c in refits if c.refine != "reweight"]
    if not low_rank:
        return found
    problem, seeds = sweeps(task, subsets), low_rank_seeds(estimates, steps)
    for kind in dict.fromkeys(str(c.refine) for c in low_rank):
        wanted = {c for c in low_rank if c.refine == kind}
        ranks = [c.rank for c in wanted if isinstance(c.rank, tuple)]
        for one_rank in low_rank_fits(
            task, problem, base, kind, seeds, ranks=dict.fromkeys(ranks)
        ):
            for candidate in [c for c in one_rank if c in wanted]:
                coef = one_rank[candidate].coef()
                found[candidate] = xp.reshape(coef, estimates.shape)
                wanted.remove(candidate)
            if not wanted:
                break
    return found


def _sparse_refits(
    task: Task, subsets: Array, candidates: Sequence[Candidate]
) -> dict[Candidate, Array]:
    """Return sparse refits, (S, K, p1, …, pM); all thresholds are one batch."""
    if not candidates:
        return {}
    radii = sorted({c.lambda_sparse for c in candidates})
    ridges = list(dict.fromkeys(c.ridge for c in candidates))
    shape = (subsets.shape[0], task.Y.shape[1], *task.samples.shape)
    # They all have the same penalty, which the Lasso does not need.
    return {
        candidate: array_namespace(coef).reshape(coef, shape)
        for candidate, coef in sparse_fits(
            task, subsets, candidates[0].epsilon, radii, ridges
        )
        if candidate in candidates
    }
