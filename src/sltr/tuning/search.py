"""Which candidates are tried on the folds, in which order, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from sltr.arrays import Array, array_namespace, is_numpy, to_numpy
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import (
    SHARED_REFINEMENTS,
    Candidate,
    Grid,
    check_refinements,
    given_refit,
    grid_about,
)
from sltr.tuning.choose import Member, choose
from sltr.tuning.fits import (
    low_rank_start,
    pilot_where_zero,
    reweighted_fits,
    start_estimates,
)
from sltr.tuning.folds import Folds, Split
from sltr.tuning.held_out import (
    HeldOut,
    Row,
    coef_rows,
    known_coefs,
    known_structure,
    lasso_rows,
    low_rank_rows,
    memory_parts,
    memory_rows,
    scale_factors,
    smaller_is_worth_it,
)
from sltr.tuning.task import Pilots, Task, ridge_pilots, working_responses

Result = TypeVar("Result")
Progress = Callable[[int, int], None]


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
    folds = held.folds
    kinds = set(grid.refinements)
    started = bool(kinds & {"reweight", "tucker", "cp"})
    refits = None
    if kinds - {None, "scale"}:
        # In single precision: errors differ by far more than it rounds, at twice the
        # speed. The ridge system stays as it is.
        own = task.for_refits(task.policy.precision)
        refits = _Refits(own, folds, pilots.removed_for(own))
    parts = memory_parts(task, pilots) if kinds & {None, "scale"} else []
    parts = parts if grid.pairs else []
    low_rank = [kind for kind in ("tucker", "cp") if kind in kinds]
    batches = list(grid.thresholds) if "sparse" in kinds and refits else []
    n_stages = len(parts) + len(batches) + len(low_rank)
    stages = _Stages(n_jobs if is_numpy(task.samples.X) else None, n_stages, progress)

    start = grid.start if started else None
    keep = refits is not None and _room_to_keep(task, folds, grid)
    # In the precision of refits, which has the range that they need.
    keep_as = refits.task.Y.dtype if keep and refits else None
    jobs: list[tuple] = [
        (memory_rows, task, folds, p, grid, start, keep_as) for p in parts
    ]
    lasso_job: tuple = ()
    if refits is not None:
        known = refits.task, folds, refits.removed
        lasso_job = (lasso_rows, *known, grid.start.epsilon, keep)
    jobs += [(*lasso_job, batch) for batch in batches[:1]]
    results = stages.run(jobs)
    plain, lasso = results[: len(parts)], results[len(parts) :]
    rows = chain.from_iterable(rows for rows, _, _ in plain)
    held = held.with_rows(rows, grid if parts else None)
    for candidate in plain[0][2] if plain else ():
        coefs = [kept[candidate] for _, _, kept in plain]
        held = held.with_answers({candidate: known_coefs(task, coefs)})
    held = _with_lasso(held, task, lasso)
    if started and refits is not None:
        estimates = _start(task, pilots, grid.start, [part for _, part, _ in plain])
        held = _with_refits(held, refits, grid, low_rank, estimates, stages, keep)
    while len(batches) > 1 and smaller_is_worth_it(held, batches[0]):
        del batches[0]
        held = _with_lasso(held, task, stages.run([(*lasso_job, batches[0])]))
    stages.finish()
    return held


def _room_to_keep(task: Task, folds: Folds, grid: Grid) -> bool:
    """Say whether all coefficients of the folds may be kept for the last step."""
    n_coefs = len(grid.epsilons) * len(grid.pairs) + len(task.policy.steps)
    n_coefs += len(task.policy.support_ridges) * sum(map(len, grid.thresholds))
    n_tensors = len(folds.rows) * task.Y.shape[1] * n_coefs
    return n_tensors * prod(task.samples.shape) <= task.policy.kept_entries


def _with_lasso(
    held: HeldOut,
    task: Task,
    results: Sequence[tuple[list[Row], dict[Candidate, list[Array]]]],
) -> HeldOut:
    """Return the table with the Lasso's predictions, and coefficients that are kept."""
    for rows, kept in results:
        answers = {c: known_coefs(task, coefs) for c, coefs in kept.items()}
        held = held.with_rows(rows).with_answers(answers)
    return held


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
    if isinstance(refine, tuple | list) and len(refine) == 1:
        return choose_refit(task, base, refine[0], folds)
    if isinstance(refine, tuple | list):
        shape = (*task.samples.shape, *task.sharing(base.shared).shared)
        return Member(given_refit(base, refine, shape)), None
    [kind] = check_refinements(refine)
    folds = inner_folds(task) if folds is None else folds
    held = search(task, folds, grid_about(base, kind), compared=False)
    return choose(task, held, scoring=None).members[0], held


class _Stages:
    """Jobs that run one batch after another, those of a batch side by side."""

    def __init__(self, n_jobs: int | None, total: int, progress: Progress | None):
        self.n_jobs, self.total, self.done = n_jobs, total, 0
        self.report = progress or (lambda done, total: None)

    def run(self, jobs: Sequence[tuple]) -> list:
        """Return the results of jobs, each a function with its arguments."""
        results = []
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for result in parallel(delayed(job)(*args) for job, *args in jobs):
            results.append(result)
            self.done += 1
            self.report(self.done, self.total)
        return results

    def finish(self) -> None:
        """Report the stages that were not needed as done."""
        if self.done < self.total:
            self.report(self.total, self.total)


@dataclass(frozen=True, eq=False)
class _Refits:
    """What the refits on the folds share."""

    task: Task
    folds: Folds
    removed: Array  # from the samples of each fold, (F, b, P)


def _start(
    task: Task, pilots: Pilots, start: Candidate, known: Sequence[Array | None]
) -> Array:
    """Return the folds' estimates that refits start from, (F, K, p1, …, pM).

    They are solved for unless the grid's parts know them all.
    """
    first = pilots.coef[:, pilots.epsilons.index(start.epsilon), ...]
    parts = [part for part in known if part is not None]
    if not parts or len(parts) < len(known):
        return start_estimates(task, first, start)
    estimates = array_namespace(first).concat(parts, axis=0)
    return pilot_where_zero(estimates, first, task)


def _all_free(coefs: Array) -> list[float]:
    return [1.0] * coefs.shape[0]


def _with_refits(
    held: HeldOut,
    refits: _Refits,
    grid: Grid,
    low_rank: Sequence[str],
    estimates: Array,
    stages: _Stages,
    keep: bool,
) -> HeldOut:
    """Return the table with reweighted and low-rank refits of estimates."""
    task, folds = refits.task, refits.folds
    estimates = array_namespace(estimates).astype(estimates, task.Y.dtype)
    steps = reweighted_fits(task, folds.training, estimates)
    if "reweight" in grid.refinements and steps:
        coefs = [
            (replace(grid.start, refine="reweight", steps=step), coef)
            for step, coef in steps.items()
        ]
        held = held.with_rows(coef_rows(task, folds, refits.removed, coefs, _all_free))
        if keep:
            held = held.with_answers({c: known_coefs(task, [v]) for c, v in coefs})
    if low_rank:
        start = low_rank_start(task, folds.training, estimates, steps)
        baseline = min(held.losses.values(), key=folds.total, default=None)
        jobs = [
            (low_rank_rows, task, folds, start.first_step, kind, grid.start, baseline)
            for kind in low_rank
        ]
        for ranks in stages.run(jobs):
            answers = {
                candidate: known_structure(task, structure, len(folds.rows))
                for candidate, structure in ranks.structures.items()
            }
            held = held.with_rows(ranks.rows).with_answers(answers)
    return held
