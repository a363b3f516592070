"""Which candidates are tried on the folds, in which order, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from sltr.arrays import Array, array_namespace, free_entries, is_numpy, to_numpy
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import (
    SHARED_REFINEMENTS,
    Candidate,
    Grid,
    check_refinements,
    given_refit,
    grid_about,
)
from sltr.tuning.choose import Member, Scoring, choose
from sltr.tuning.fits import (
    lasso_fits,
    low_rank_start,
    plain_fits,
    reweighted_fits,
    start_estimates,
    structure_coefs,
)
from sltr.tuning.folds import Folds, Split
from sltr.tuning.held_out import (
    HeldOut,
    Part,
    Row,
    all_free,
    coef_rows,
    dense_coefs,
    distinct_fits,
    low_rank_rows,
    predicted,
    scale_factors,
    shares_nonzero,
    smaller_is_worth_it,
)
from sltr.tuning.task import Pilots, Task, fits_single, ridge_pilots

Progress = Callable[[int, int], None]
# What a job on the folds returns: predictions, and coefficients that are kept, in
# batches (s, K, …) of the folds in order.
Rows = tuple[list[Row], dict[Candidate, list[Array]]]


def search(
    task: Task,
    folds: Folds,
    grid: Grid,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    compared: bool = True,
) -> HeldOut:
    """Fit candidates on the folds and predict the rows left out.

    Factors of scaled candidates are only needed where these are `compared`.

    The paper's grid and the Lasso come first, side by side; then refits of the
    grid's estimates; then smaller Lasso thresholds, while the smallest is best. All
    that for responses with tensors of their own, then for those that share one.
    """
    task = task.with_loose_gap()
    scaled = compared and "scale" in grid.refinements
    factors = fold_factors(task, folds, grid, n_jobs) if scaled else []
    if task.family is not None and set(grid.refinements) - {None, "scale"}:
        from sltr.tuning.likelihood import working_responses

        subsets = array_namespace(task.Y).concat([task.everyone, folds.training])
        working = working_responses(task, subsets, grid.start.epsilon)
        task = replace(task, working=working)
    held = HeldOut(folds, {}, {}, working=task.working)
    if is_lazy(task.samples.X):
        from sltr.tuning.stored import with_stored_candidates

        held = with_stored_candidates(held, task, grid, n_jobs, progress)
    else:
        pilots = ridge_pilots(task, folds.training, grid.epsilons)
        held = replace(held, pilots=pilots)
        for shared in grid.sharing:
            variant, part = task.sharing(shared), grid.of_sharing(shared)
            held = _searched(held, variant, pilots, part, n_jobs, progress)
    if not held.predictions:
        msg = (
            f"refine={tuple(grid.refinements)} was given for samples of shape "
            f"{task.samples.shape}; 'reweight' expects at least two modes. Add another "
            "refinement, such as None."
        )
        raise ValueError(msg)
    return held.refined(grid.refinements, factors)


def _searched(
    held: HeldOut,
    task: Task,
    pilots: Pilots,
    grid: Grid,
    n_jobs: int | None,
    progress: Progress | None,
) -> HeldOut:
    """Return the table with all candidates of a grid, for samples in memory."""
    folds, kinds, policy = held.folds, set(grid.refinements), task.policy
    started = bool(kinds & {"reweight", "tucker", "cp"})
    refitted = bool(kinds - {None, "scale"})
    # In single precision: errors differ by far more than it rounds, at twice the
    # speed. The ridge system stays as it is.
    own = task.for_refits(policy.precision) if refitted else task
    removed, dtype = pilots.removed_for(own), own.Y.dtype
    keep = refitted and _room_to_keep(task, folds, grid)
    wanted = bool(kinds & {None, "scale"} and grid.pairs)
    parts = memory_parts(task, pilots) if wanted else []
    low_rank = [kind for kind in ("tucker", "cp") if kind in kinds]
    batches = list(grid.thresholds) if "sparse" in kinds else []
    n_stages = len(parts) + len(batches) + len(low_rank)
    stages = _Stages(n_jobs if is_numpy(task.samples.X) else None, n_stages, progress)

    kept = set(grid.plain if keep else [grid.start] if started else [])
    jobs: list[tuple] = [
        (memory_rows, task, folds, part, grid, kept, dtype) for part in parts
    ]
    lasso: tuple = (lasso_rows, own, folds, removed, grid.start.epsilon, keep)
    results = stages.run([*jobs, *((*lasso, batch) for batch in batches[:1])])
    plain, sparse = results[: len(parts)], results[len(parts) :]
    held = _joined(held, task, plain, grid if parts else None, keep)
    held = _joined(held, task, sparse)
    if started:
        known = [
            coef[s, ...]
            for _, coefs in plain
            for coef in coefs.get(grid.start, ())
            for s in range(coef.shape[0])
        ]
        about = pilots.coef[:, pilots.epsilons.index(grid.start.epsilon), ...]
        estimates = start_estimates(task, about, grid.start, dict(enumerate(known)))
        held = _with_refits(held, own, removed, grid, low_rank, estimates, stages, keep)
    while len(batches) > 1 and smaller_is_worth_it(held, batches[0]):
        del batches[0]
        held = _joined(held, task, stages.run([(*lasso, batches[0])]))
    stages.finish()
    return held


def memory_parts(task: Task, pilots: Pilots) -> list[Part]:
    """Cut the grid for samples in memory: large ones on a CPU fold by fold.

    One large tensor of all responses is solved for in the precision of refits.
    """
    n_folds = pilots.coef.shape[0]
    entries = prod((*task.samples.shape, *task.shared))
    large = is_numpy(task.samples.X) and entries > task.settings.together
    size = 1 if large else n_folds
    if large and task.shared and fits_single(float(np.abs(pilots.coef).max())):
        coef = pilots.coef.astype(task.policy.precision, copy=False)
        pilots = replace(pilots, coef=coef)
    starts = range(0, n_folds, size)
    return [Part(range(f, f + size), pilots.some(slice(f, f + size))) for f in starts]


def memory_rows(
    task: Task,
    folds: Folds,
    part: Part,
    grid: Grid,
    kept: Collection[Candidate],
    dtype: Any,
) -> Rows:
    """Return a part's predictions, and coefficients of those that are `kept`."""
    rows: list[Row] = []
    coefs: dict[Candidate, list[Array]] = {}
    xp, shared = array_namespace(part.pilots.coef), bool(task.shared)
    for fits in plain_fits(task, part.pilots.coef, grid.pairs):
        rows += predicted(task, folds, [(part, fits)], grid.needs_complexity)
        for (e, epsilon), pair in product(enumerate(part.pilots.epsilons), fits.pairs):
            candidate = Candidate(epsilon, *pair, shared=shared)
            if candidate in kept:
                # A copy: a view would keep the whole chunk.
                coef = xp.astype(fits.of_pair(pair)[:, e, ...], dtype, copy=True)
                coefs[candidate] = [coef]
    return rows, coefs


# Arrays of all coefficients that a step of the Lasso holds at once.
LASSO_ARRAYS = 16


def lasso_rows(
    task: Task,
    folds: Folds,
    removed: Array,
    epsilon: float,
    keep: bool,
    thresholds: Sequence[float],
) -> Rows:
    """Return predictions of the Lasso on all folds, in batches that fit memory.

    `removed` as in `coef_rows`. With them come the coefficients, if they are to be
    kept.
    """
    policy, n_folds = task.policy, len(folds.rows)
    n_fits = len(thresholds) * task.Y.shape[1]
    # A device reads the samples once for the whole batch, and has room for more.
    room = max(policy.batch_entries, free_entries(task.Y) // LASSO_ARRAYS)
    size = room // (n_fits * sum(task.samples.flat.shape))
    size = max(1, min(n_folds, size))
    rows: list[Row] = []
    kept: dict[Candidate, list[Array]] = {}
    distinct: set[Candidate] = set()
    for first in range(0, n_folds, size):
        indices = range(n_folds)[first : first + size]
        training = folds.training[first : first + size, ...]
        ridges = policy.support_ridges
        fits = dict(lasso_fits(task, training, epsilon, thresholds, ridges))
        distinct |= distinct_fits(fits)
        coefs = list(fits.items())
        rows += coef_rows(task, folds, removed, coefs, shares_nonzero, indices)
        for candidate, coef in coefs if keep else ():
            kept.setdefault(candidate, []).append(coef)
    rows = [row for row in rows if row.candidate in distinct]
    return rows, {c: coefs for c, coefs in kept.items() if c in distinct}


def _room_to_keep(task: Task, folds: Folds, grid: Grid) -> bool:
    """Say whether all coefficients of the folds may be kept for the last step."""
    n_coefs = len(grid.epsilons) * len(grid.pairs) + len(task.policy.steps)
    n_coefs += len(task.policy.support_ridges) * sum(map(len, grid.thresholds))
    n_tensors = len(folds.rows) * task.Y.shape[1] * n_coefs
    return n_tensors * prod(task.samples.shape) <= task.policy.kept_entries


def _joined(
    held: HeldOut,
    task: Task,
    results: Sequence[Rows],
    grid: Grid | None = None,
    keep: bool = True,
) -> HeldOut:
    """Return the table with predictions of jobs, and coefficients that are kept."""
    batches: dict[Candidate, list[Array]] = {}
    for _, coefs in results if keep else ():
        for candidate, parts in coefs.items():
            batches[candidate] = batches.get(candidate, []) + parts
    known = {c: dense_coefs(task, parts) for c, parts in batches.items()}
    return held.with_rows(chain.from_iterable(r for r, _ in results), known, grid)


def fold_factors(
    task: Task, folds: Folds, grid: Grid, n_jobs: int | None
) -> list[dict[Candidate, np.ndarray]]:
    """Return each fold's factors of the grid's estimates, by candidate.

    They are fitted inside the training samples of a fold, as a fit to these alone would
    do it: to predictions of the other folds, whose models know the fold's own rows, the
    fold's score would be too good.
    """
    splits = [_inner_splits(task, np.flatnonzero(f)) for f in to_numpy(folds.training)]
    # All at once: samples that stay in their file are read no more often for it.
    inner = Folds.of(task, list(chain(*splits)))
    plain = replace(grid, refinements=[None])
    held = search(task, inner, plain, n_jobs=n_jobs)
    found, first = [], 0
    for parts in splits:
        some = slice(first, first + len(parts))
        first += len(parts)
        targets, weights = inner.targets[some], inner.weights[some]
        found.append(
            {
                candidate: scale_factors(values[some], targets, weights)
                for candidate, values in held.predictions.items()
            }
        )
    return found


def _inner_splits(task: Task, rows: np.ndarray) -> list[Split]:
    """Return folds of some rows: every fifth, say, is left out together."""
    n_folds = min(task.policy.inner_folds, len(rows))
    held = [rows[f::n_folds] for f in range(n_folds)]
    return [(np.setdiff1d(rows, some), some) for some in held]


def inner_folds(task: Task) -> Folds:
    """Return the folds that choose what a single fit was not given."""
    everyone = np.arange(task.samples.weight.shape[0])
    return Folds.of(task, _inner_splits(task, everyone))


def choose_refit(
    task: Task, base: Candidate, refine: Any, folds: Folds | None = None
) -> tuple[Member, HeldOut | None]:
    """Return the refined candidate, with its factors if it is scaled.

    What is not given is chosen by folds: by default every fifth sample is left out.
    The table of what was tried on them comes along, if something was.
    """
    if refine is None:
        return Member(base), None
    kind = refine[0] if isinstance(refine, tuple | list) and refine else refine
    # Refits of samples that stay in their file take each response by itself.
    there = (None, "scale") if is_lazy(task.samples.X) else SHARED_REFINEMENTS
    base = replace(base, shared=base.shared and kind in there)
    if isinstance(refine, tuple | list):
        shape = (*task.samples.shape, *task.sharing(base.shared).shared)
        return Member(given_refit(base, refine, shape)), None
    [kind] = check_refinements(refine)
    folds = inner_folds(task) if folds is None else folds
    held = search(task, folds, grid_about(base, kind), compared=False)
    return choose(task, held, Scoring()).members[0], held


@dataclass(eq=False)
class _Stages:
    """Jobs that run one batch after another, those of a batch side by side."""

    n_jobs: int | None
    total: int
    progress: Progress | None
    done: int = 0

    def run(self, jobs: Sequence[tuple]) -> list:
        """Return the results of jobs, each a function with its arguments."""
        results = []
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for result in parallel(delayed(job)(*args) for job, *args in jobs):
            results.append(result)
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)
        return results

    def finish(self) -> None:
        """Report the stages that were not needed as done."""
        if self.done < self.total and self.progress is not None:
            self.progress(self.total, self.total)


def _with_refits(
    held: HeldOut,
    task: Task,
    removed: Array,
    grid: Grid,
    low_rank: Sequence[str],
    estimates: Array,
    stages: _Stages,
    keep: bool,
) -> HeldOut:
    """Return the table with reweighted and low-rank refits of estimates."""
    folds = held.folds
    estimates = array_namespace(estimates).astype(estimates, task.Y.dtype)
    steps = reweighted_fits(task, folds.training, estimates)
    if "reweight" in grid.refinements and steps:
        coefs = [
            (replace(grid.start, refine="reweight", steps=step), coef)
            for step, coef in steps.items()
        ]
        rows = coef_rows(task, folds, removed, coefs, all_free)
        known = {c: dense_coefs(task, [coef]) for c, coef in coefs if keep}
        held = held.with_rows(rows, known)
    if low_rank:
        start = low_rank_start(task, folds.training, estimates, steps)
        baseline = min(held.losses.values(), key=folds.total, default=None)
        jobs = [
            (low_rank_rows, task, folds, start.first_step, kind, grid.start, baseline)
            for kind in low_rank
        ]
        for ranks in stages.run(jobs):
            known = {c: structure_coefs(task, s) for c, s in ranks.structures.items()}
            held = held.with_rows(ranks.rows, known)
    return held
