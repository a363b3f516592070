"""Candidates on subsets of the samples: the one room that makes coefficients.

Folds and the final fit take the same route. A subset is a row of booleans (S, n);
K responses are fitted on each of S subsets at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from sltr.arrays import Array, array_namespace, as_array, singular_values
from sltr.core.estimate import (
    CHUNK_ENTRIES,
    Settings,
    absolute_radii,
    estimate_path,
)
from sltr.core.tensor import flatten, unfold
from sltr.refine.factors import Structure, Unfoldings
from sltr.refine.lasso import LARGE, lasso, refit_on_support
from sltr.refine.low_rank import CPStep, Sweeps, Swept, TuckerStep, take
from sltr.refine.reweight import Facts, reweighted
from sltr.refine.subsets import Subsets, feature_variance
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import Candidate
from sltr.tuning.task import Task

# Takes the numbers of some subsets, returns coefficients (s, K, p1, …, pM) on them.
CoefsOf = Callable[[Sequence[int]], Array]


@dataclass(frozen=True, eq=False)
class PlainFits:
    """The paper's estimates about S × E × K pilots, for g pairs of radii."""

    pairs: list[tuple[float, float]]
    coef: Array  # (S, E, K, g, P)
    gap: Array  # (S, E, K, g), and so have the next two
    n_iter: Array
    converged: Array

    def of_pair(self, pair: tuple[float, float]) -> Array:
        """Return the coefficients of one pair, (S, E, K, P)."""
        return self.coef[:, :, :, self.pairs.index(pair), :]

    def complexity(self, shape: tuple[int, ...], shared: tuple[int, ...] = ()) -> Array:
        """Return free parameters relative to P, (S, E, g), the mean over responses.

        The smaller of two counts: non-zero entries, and the free parameters of a
        Tucker tensor of these ranks, Σ r_m(p_m − r_m) + ∏ r_m.
        """
        xp = array_namespace(self.coef)
        by_pair = xp.moveaxis(self.coef, 3, 2)  # (S, E, g, K, P)
        tensors = as_tensors(by_pair, shape, shared)
        shape = (*shape, *shared)
        batch = xp.reshape(tensors, (-1, *shape))
        nonzero = xp.mean(xp.astype(flatten(batch) != 0, batch.dtype), axis=1)
        factors, core = 0.0 * nonzero, 0.0 * nonzero + 1.0
        for mode, size in enumerate(shape):
            values = singular_values(unfold(batch, mode))
            largest = xp.max(values, axis=1, keepdims=True)
            kept = (values > 1e-3 * largest) & (values > 0)
            rank = xp.sum(xp.astype(kept, batch.dtype), axis=1)
            factors, core = factors + rank * (size - rank), core * rank
        free = xp.minimum(nonzero, (factors + core) / prod(shape))
        return xp.mean(xp.reshape(free, (*by_pair.shape[:3], -1)), axis=3)


def as_tensors(
    coef: Array, shape: tuple[int, ...], shared: tuple[int, ...] = ()
) -> Array:
    """Return rows (…, K, P) as tensors: (…, K, p1, …, pM), or one of all responses.

    Responses that share a tensor make it (…, 1, p1, …, pM, q1, …, qQ).
    """
    xp = array_namespace(coef)
    if not shared:
        return xp.reshape(coef, (*coef.shape[:-1], *shape))
    return xp.reshape(xp.matrix_transpose(coef), (*coef.shape[:-2], 1, *shape, *shared))


def as_rows(
    tensors: Array, shape: tuple[int, ...], shared: tuple[int, ...] = ()
) -> Array:
    """Return the rows (…, K, P) of what `as_tensors` returns."""
    xp = array_namespace(tensors)
    batch = tensors.shape[: tensors.ndim - len(shape) - len(shared)]
    if not shared:
        return xp.reshape(tensors, (*batch, prod(shape)))
    entries = xp.reshape(tensors, (*batch[:-1], prod(shape), prod(shared)))
    return xp.matrix_transpose(entries)


def structure_coefs(task: Task, structure: Structure) -> CoefsOf:
    """Return what gives the coefficients of CP or Tucker tensors, one of each item."""
    xp, shape, shared = array_namespace(task.Y), task.samples.shape, task.shared
    k = 1 if shared else task.Y.shape[1]

    def coefs(subsets: Sequence[int]) -> Array:
        items = [s * k + response for s in subsets for response in range(k)]
        some = take(structure, as_array(items, task.Y, dtype=xp.int64))
        tensors = xp.reshape(some.coef(), (len(subsets), k, *shape, *shared))
        rows = as_rows(tensors, shape, shared)
        return xp.reshape(rows, (*rows.shape[:2], *shape))

    return coefs


def plain_fits(
    task: Task, pilots: Array, pairs: Sequence[tuple[float, float]]
) -> Iterator[PlainFits]:
    """Solve the paper's problem about pilots (S, E, K, P), for all pairs of radii.

    Yields chunks of the pairs, so that no more coefficients are held than fit. For
    samples left in place subset by subset: the solvers' state of all would exceed the
    memory limit.
    """
    known = task.samples.shape, task.shared, task.radius, task.settings
    if not is_lazy(task.samples.X) or pilots.shape[0] == 1:
        yield from grid_fits(*known, pilots, pairs)
        return
    xp = array_namespace(pilots)
    parts = [
        list(grid_fits(*known, pilots[s : s + 1, ...], pairs))
        for s in range(pilots.shape[0])
    ]
    for same in zip(*parts, strict=True):
        yield PlainFits(
            same[0].pairs,
            *(
                xp.concat([getattr(fits, name) for fits in same], axis=0)
                for name in ("coef", "gap", "n_iter", "converged")
            ),
        )


def grid_fits(
    shape: tuple[int, ...],
    shared: tuple[int, ...],
    radius: str,
    settings: Settings,
    pilots: Array,
    pairs: Sequence[tuple[float, float]],
) -> Iterator[PlainFits]:
    """Do what `plain_fits` does, without the samples: a job for another process."""
    xp, n_responses = array_namespace(pilots), pilots.shape[2]
    tensors = xp.reshape(as_tensors(pilots, shape, shared), (-1, *shape, *shared))
    # The solver bounds the entries of each pilot: of K, or of a single one.
    entries = settings.chunk_entries or max(1, CHUNK_ENTRIES // n_responses)
    entries *= n_responses if shared else 1
    sparsity = settings.sparsity and settings.sparsity.with_modes(shared)
    settings = replace(settings, chunk_entries=entries, sparsity=sparsity)
    # Wider than any pilot needs, and still a number once multiplied by its norms.
    largest = float(xp.finfo(tensors.dtype).max)
    most = largest**0.5 if radius == "relative" else 0.25 * largest
    columns = ([min(r, most) for r in column] for column in zip(*pairs, strict=True))
    sparse, low = (as_array(column, tensors) for column in columns)
    radii = absolute_radii(tensors, sparse, low, radius, settings.sparsity)
    for indices, estimates in estimate_path(tensors, *radii, settings):
        first, n_pairs = pilots.shape[:2], len(indices)
        coef = xp.reshape(estimates.coef, (*first, -1, n_pairs, *shape, *shared))
        # The pairs go to the front, so that responses and entries come last.
        coef = as_rows(xp.moveaxis(coef, 3, 2), shape, shared)
        batch, every = (*first, -1, n_pairs), (*first, n_responses, n_pairs)
        yield PlainFits(
            [pairs[g] for g in indices],
            xp.moveaxis(coef, 2, 3),
            *(
                xp.broadcast_to(xp.reshape(values, batch), every)
                for values in (estimates.gap, estimates.n_iter, estimates.converged)
            ),
        )


def start_estimates(
    task: Task,
    pilots: Array,
    start: Candidate,
    known: Mapping[int, Array] | None = None,
) -> Array:
    """Return the estimates about pilots (S, K, P) that refits start from.

    As tensors, (S, K, p1, …, pM), or one for all responses. Of subsets whose estimates
    (K, P) are `known` they are taken.
    """
    xp, known = array_namespace(pilots), known or {}
    missing = [s for s in range(pilots.shape[0]) if s not in known]
    found = dict(known)
    if missing:
        about = xp.stack([pilots[s, ...] for s in missing])
        [fits] = plain_fits(task, about[:, None, ...], [start.radii])
        solved = fits.of_pair(start.radii)[:, 0, ...]
        found |= {s: solved[i, ...] for i, s in enumerate(missing)}
    estimates = xp.stack([found[s] for s in range(pilots.shape[0])])
    return pilot_where_zero(estimates, pilots, task)


def pilot_where_zero(estimates: Array, pilots: Array, task: Task) -> Array:
    """Return estimates as tensors, or the pilots of those that vanished.

    A start that vanished has no components. Both arguments are (S, K, P).
    """
    xp = array_namespace(estimates)
    axes = (1, 2) if task.shared else (2,)
    size = xp.max(xp.abs(estimates), axis=axes, keepdims=True)
    chosen = xp.where(size > 0, estimates, pilots)
    return as_tensors(chosen, task.samples.shape, task.shared)


def lasso_fits(
    task: Task,
    training: Array,
    epsilon: float,
    thresholds: Sequence[float],
    ridges: Sequence[float | None],
    unconverged: Callable[[float], object] | None = None,
    *,
    variance: Array | None = None,
    length: Array | None = None,
    large: int = LARGE,
) -> Iterator[tuple[Candidate, Array]]:
    """Fit the Lasso for all thresholds; yields coefficients (S, K, P).

    Each also refitted by ridge on its support. A threshold is relative to the largest
    that leaves an entry, or in the coefficients' units, as if features were
    uncorrelated. `epsilon` only names the candidates. `unconverged` as in `lasso`. The
    entries' mean `variance` is given where the samples are only some of their columns,
    and so are `length` and `large`, those of `lasso`.
    """
    xp = array_namespace(task.Y)
    samples = task.samples
    items = items_of(task, training)
    if variance is None:
        variance = feature_variance(samples.flat, items)
    if task.radius == "relative":
        unit = xp.max(xp.abs(items.cross(samples.flat)), axis=1)
    else:
        unit = variance * xp.sum(items.weight, axis=1)
    fractions = as_array(list(thresholds), samples.X)
    solutions = lasso(
        samples.flat,
        items,
        unit[:, None] * fractions,
        large=large,
        length=length,
        unconverged=unconverged,
    )
    n_items, k = unit.shape[0], len(thresholds)
    each = items.take([b for b in range(n_items) for _ in range(k)])
    own = xp.reshape(xp.stack([variance] * k, axis=1), (-1,))
    flat = xp.reshape(solutions, (n_items * k, -1))
    by_ridge = {
        ridge: flat
        if ridge is None
        else refit_on_support(samples.flat, each, flat, ridge * own)
        for ridge in ridges
    }
    for i, threshold in enumerate(thresholds):
        for ridge in ridges:
            candidate = Candidate(epsilon, threshold, 0.0, "sparse", ridge=ridge)
            shape = (training.shape[0], task.Y.shape[1], k, -1)
            yield candidate, xp.reshape(by_ridge[ridge], shape)[:, :, i, :]


def reweighted_fits(
    task: Task,
    training: Array,
    estimates: Array,
    more: Sequence[int] = (),
    *,
    facts: Facts | None = None,
    go_on: Callable[[], bool] | None = None,
    rough: Any = None,
) -> dict[int, Array]:
    """Return coefficients (S, K, p1, …, pM) by the number of reweighting steps.

    The steps are those that are tuned over, and `more`. `estimates` are tensors as
    the responses have them: each its own, or one for all. `go_on` and `rough`
    as in `reweighted`.

    Vectors have no modes to weigh against each other, so there are none for them.
    """
    shape, shared = task.samples.shape, task.shared
    if len(shape) + len(shared) == 1:
        return {}
    xp, policy = array_namespace(task.Y), task.policy
    steps = reweighted(
        task.samples.flat,
        items_of(task, training),
        xp.reshape(estimates, (-1, *shape, *shared)),
        steps=sorted({*policy.steps, *more}),
        tol=policy.reweight_tol,
        shape_out=shared,
        facts=facts,
        go_on=go_on,
        rough=rough,
    )
    found = {}
    for step, coef in steps:
        rows = as_rows(xp.reshape(coef, estimates.shape), shape, shared)
        found[step] = xp.reshape(rows, (*rows.shape[:2], *shape))
    return found


@dataclass(frozen=True, eq=False)
class LowRankStart:
    """Where low-rank refits of S × K items start: what both kinds share."""

    problem: Sweeps
    seeds: list[Array]  # (S·K, p1, …, pM) each
    n_asked: int | None = None  # `TuckerStep.n_asked`; by default all items

    def first_step(self, kind: str, largest: int) -> CPStep | TuckerStep:
        """Return the refit of rank one; ranks rise to the `largest`."""
        if kind == "cp":
            return CPStep.first(self.problem, self.seeds, largest)
        return TuckerStep.first(self.problem, self.seeds, largest, self.n_asked)

    def cp_steps(self, largest: int) -> Iterator[CPStep]:
        """Yield the refits of all CP ranks up to the largest, under all ridges."""
        step = CPStep.first(self.problem, self.seeds, largest) if largest else None
        while step is not None:
            step = step.with_lower_ridges()
            yield step
            step = step.next_rank()

    def tucker_step(self, rank: tuple[int, ...]) -> TuckerStep:
        """Return the refit of one Tucker rank under the first ridge."""
        return TuckerStep.of_rank(self.problem, self.seeds, max(rank), rank)


def low_rank_start(
    task: Task,
    training: Array,
    estimates: Array,
    steps: Mapping[int, Array],
    more_ridges: Sequence[float] = (),
) -> LowRankStart:
    """Prepare low-rank refits from estimates (S, K, p1, …, pM), and these reweighted.

    Estimates are tensors as the responses have them: each its own, or one for all. A
    seed that reweighting did not change is used once. Matrices, which have fewer
    local minima, start from the last seed alone.
    """
    xp, policy = array_namespace(task.Y), task.policy
    shape = (*task.samples.shape, *task.shared)
    seeds = [estimates]
    for coef in [steps[step] for step in policy.seed_steps] if steps else []:
        rows = xp.reshape(coef, (*coef.shape[:2], -1))
        seed = as_tensors(rows, task.samples.shape, task.shared)
        if bool(xp.any(seed != seeds[-1])):
            seeds.append(seed)
    seeds = seeds[-1:] if len(shape) == 2 else seeds
    items = items_of(task, training)
    first = items
    if task.shared:  # each item has the samples of its first response
        first = items.take(list(range(0, items.y.shape[0], prod(task.shared))))
    kind: Callable[..., Sweeps] = Sweeps
    if task.shared:
        from sltr.refine.shared import SharedSweeps

        kind = partial(SharedSweeps, shape_out=task.shared)
    problem = kind(
        Unfoldings.of(task.samples.X, task.samples.weight),
        items,
        feature_variance(task.samples.flat, first),
        tuple(dict.fromkeys([*policy.ridges, *more_ridges])),
        policy.sweeps,
        policy.starting_sweeps,
    )
    return LowRankStart(problem, [xp.reshape(seed, (-1, *shape)) for seed in seeds])


def refit_coefs(
    task: Task,
    training: Array,
    candidates: Sequence[Candidate],
    estimates: Array | None,
    unconverged: Callable[[float], object] | None = None,
    *,
    precision: str | None = None,
) -> dict[Candidate, Array]:
    """Return the coefficients of given refits, (S, K, p1, …, pM).

    `estimates` are those that refits start from; the Lasso needs none. It calls
    `unconverged` with its gap if it runs out of steps.
    """
    if not candidates:
        return {}
    xp, dtype = array_namespace(task.Y), task.Y.dtype
    task = task.for_refits(precision)
    sparse = [c for c in candidates if not c.has_start]
    coefs = _given_lasso(task, training, sparse, unconverged)
    started = [c for c in candidates if c.has_start]
    if started and estimates is not None:
        estimates = xp.astype(estimates, task.Y.dtype)
        more = [c.steps for c in started if c.steps]
        steps = reweighted_fits(task, training, estimates, more)
        coefs |= {c: steps[c.steps] for c in started if c.refine == "reweight"}
        low_rank = [c for c in started if c.refine != "reweight"]
        if low_rank:
            ridges = [c.ridge for c in low_rank if c.ridge is not None]
            start = low_rank_start(task, training, estimates, steps, ridges)
            for candidate, swept in given_low_rank(start, low_rank):
                coefs_of = structure_coefs(task, swept.structure)
                coefs[candidate] = coefs_of(range(training.shape[0]))
    return {c: xp.astype(coef, dtype) for c, coef in coefs.items()}


def _given_lasso(
    task: Task,
    training: Array,
    candidates: Sequence[Candidate],
    unconverged: Callable[[float], object] | None,
) -> dict[Candidate, Array]:
    """Return given Lasso fits; all thresholds are one batch."""
    if not candidates:
        return {}
    thresholds = sorted({c.lambda_sparse for c in candidates})
    ridges = list(dict.fromkeys(c.ridge for c in candidates))
    shape = (training.shape[0], task.Y.shape[1], *task.samples.shape)
    fits = lasso_fits(
        task, training, candidates[0].epsilon, thresholds, ridges, unconverged
    )
    return {
        candidate: array_namespace(coef).reshape(coef, shape)
        for candidate, coef in fits
        if candidate in candidates
    }


def given_low_rank(
    start: LowRankStart, candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, Swept]]:
    """Yield given low-rank refits of S·K items.

    CP ranks are passed through as in a search; Tucker goes to its ranks directly.
    """
    cp = {(c.rank, c.ridge): c for c in candidates if c.refine == "cp"}
    tucker = {(c.rank, c.ridge): c for c in candidates if c.refine == "tucker"}
    ranks = dict.fromkeys(rank for rank, _ in tucker if isinstance(rank, tuple))
    steps: Iterable = (start.tucker_step(rank) for rank in ranks)
    for step in map(TuckerStep.with_lower_ridges, steps):
        for swept in step.swept:
            if (step.rank, swept.ridge) in tucker:
                yield tucker[step.rank, swept.ridge], swept
    largest = max((int(rank) for rank, _ in cp if isinstance(rank, int)), default=0)
    for step in start.cp_steps(largest):
        for swept in step.swept:
            if (step.rank, swept.ridge) in cp:
                yield cp[step.rank, swept.ridge], swept


def items_of(task: Task, training: Array) -> Subsets:
    """Return a batch of subsets × responses."""
    xp = array_namespace(task.Y)
    n_subsets, n_responses = training.shape[0], task.Y.shape[1]
    weight = xp.where(training, task.samples.weight, 0.0)
    each = [s for s in range(n_subsets) for _ in range(n_responses)]
    weight = xp.take(weight, as_array(each, task.Y, dtype=xp.int64), axis=0)
    beside = (task.fit_intercept, task.samples.covariates)
    if task.working is None:
        Y = xp.concat([xp.matrix_transpose(task.Y)] * n_subsets, axis=0)
        return Subsets(Y, weight, *beside)
    y, working = (
        xp.reshape(xp.matrix_transpose(a), (-1, a.shape[1]))
        for a in task.working.of(training)  # (S, n, K) each
    )
    return Subsets(y, working, *beside, repeats=weight)
