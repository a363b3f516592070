"""Which candidates are tried on the folds, in which order, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from math import prod
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from sltr.arrays import Array, array_namespace, free_entries, is_numpy, to_numpy
from sltr.refine.factors import Structure
from sltr.refine.low_rank import CPStep, Swept, TuckerStep
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import (
    SHARED_REFINEMENTS,
    Candidate,
    Grid,
    check_refinements,
    given_refit,
    grid_about,
)
from sltr.tuning.choose import Member, choose, close_to
from sltr.tuning.fits import (
    LowRankStart,
    lasso_fits,
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
    memory_parts,
    memory_rows,
    removed_rows,
    scale_factors,
    stored_rows,
)
from sltr.tuning.passes import (
    LASSO_ROUNDS,
    Columns,
    HeldRanks,
    Ranked,
    StoredRefits,
    all_forms,
    dense_answer,
    forms_with_room,
    passes_of_ranks,
    seeds_of,
    seen_bytes,
    sweep_room,
)
from sltr.tuning.policy import Policy
from sltr.tuning.task import Pilots, Task, ridge_pilots, working_responses

Result = TypeVar("Result")
Progress = Callable[[int, int], None]

# Arrays of all coefficients that a step of the Lasso holds at once.
LASSO_ARRAYS = 16


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
    held, lazy = HeldOut(folds, {}, {}, working=task.working), is_lazy(task.samples.X)
    pilots = None if lazy else ridge_pilots(task, folds.training, grid.epsilons)
    for shared in grid.sharing:
        variant, part = task.sharing(shared), grid.of_sharing(shared)
        if pilots is None:
            # Those of responses that share a tensor are made in memory alone.
            some = set(part.refinements) - {None, "scale"}
            refit = shared is grid.sharing[0] and bool(some)
            starts: dict[int, Array] = {}
            own = starts if refit and not shared else None
            rows = stored_rows(variant, folds, part, n_jobs, progress, own)
            held = held.with_rows(rows, part)
            if refit:
                held = _with_stored_refits(held, task.sharing(False), part, starts)
        else:
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
        refits = _Refits(task.for_refits(task.policy.precision), folds, pilots)
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
    lasso_job = (_lasso_rows, refits, grid.start.epsilon, keep)
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
    while len(batches) > 1 and _smaller_is_worth_it(held, batches[0]):
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
    pilots: Pilots


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
        held = held.with_rows(
            coef_rows(task, folds, refits.pilots, coefs, lambda coef: 1.0)
        )
        if keep:
            held = held.with_answers({c: known_coefs(task, [v]) for c, v in coefs})
    if low_rank:
        start = low_rank_start(task, folds.training, estimates, steps)
        baseline = min(held.losses.values(), key=folds.total, default=None)
        jobs = [
            (_low_rank_rows, task, folds, start, kind, grid.start, baseline)
            for kind in low_rank
        ]
        for rows, structures in stages.run(jobs):
            answers = {
                candidate: known_structure(task, structure, len(folds.rows))
                for candidate, structure in structures.items()
            }
            held = held.with_rows(rows).with_answers(answers)
    return held


def _with_stored_refits(
    held: HeldOut, task: Task, grid: Grid, starts: Mapping[int, Array]
) -> HeldOut:
    """Return the table with all refits of samples that stay where they are.

    `starts` are estimates (K, P) of folds that the grid knows.

    They are made on all samples as well, in the same passes: `HeldOut.answers`.
    """
    folds, kinds, base = held.folds, grid.refinements, replace(grid.start, shared=False)
    xp = array_namespace(folds.training)
    training = xp.concat([folds.training, task.everyone], axis=0)
    refits = StoredRefits.of(task, training, base, starts)
    batches = list(grid.thresholds) if "sparse" in kinds else []
    columns: Columns | None = None
    if batches:
        held, columns = _with_stored_lasso(held, refits, base, batches[0], None)
    low_rank = [kind for kind in ("tucker", "cp") if kind in kinds]
    if low_rank or "reweight" in kinds:
        steps = {} if len(task.samples.shape) == 1 else refits.reweighted(folds=folds)
        if "reweight" in kinds and steps:
            held = _with_stored_steps(held, refits, base, steps)
        with_ranks = _with_held_ranks if refits.held else _with_stored_ranks
        if low_rank:
            seeds = seeds_of(refits, steps)
            held = with_ranks(held, refits, base, low_rank, seeds)
    while (
        len(batches) > 1
        and (refits.held or refits.passes_left(folds) >= 2 * (LASSO_ROUNDS - 1))
        and _smaller_is_worth_it(held, batches[0])
    ):
        del batches[0]
        held, columns = _with_stored_lasso(held, refits, base, batches[0], columns)
    return held


def _with_stored_lasso(
    held: HeldOut,
    refits: StoredRefits,
    base: Candidate,
    thresholds: Sequence[float],
    columns: Columns | None,
) -> tuple[HeldOut, Columns]:
    """Return the table with the Lasso, and the columns that were read for it."""
    fits, columns = refits.lasso(thresholds, base.epsilon, columns)
    own, folds = columns.task(refits.task), held.folds
    each = slice(0, len(folds.rows))  # on all samples, which come last, they may differ
    distinct = {
        candidate: coefs
        for candidate, coefs in fits.items()
        if candidate.ridge is None
        or bool((coefs[each] != fits[replace(candidate, ridge=None)][each]).any())
    }
    removed = refits.removed[:, :, columns.chosen]
    rows = removed_rows(own, folds, removed, list(distinct.items()), _share_nonzero)
    answers = {c: refits.sparse_answer(v, columns) for c, v in distinct.items()}
    return held.with_rows(rows).with_answers(answers), columns


def _with_stored_steps(
    held: HeldOut, refits: StoredRefits, base: Candidate, steps: Mapping[int, Array]
) -> HeldOut:
    """Return the table with reweighted estimates; all are predicted in one pass."""
    coefs = [
        (replace(base, refine="reweight", steps=step), coef)
        for step, coef in steps.items()
    ]
    task, folds = refits.task, held.folds
    n_responses = task.Y.shape[1]
    groups = [
        (rows, np.concatenate([c[f].reshape(n_responses, -1) for _, c in coefs]))
        for f, rows in enumerate(folds.rows)
    ]
    found = []
    for f, values in enumerate(task.samples.design.inner_groups(groups)):
        removed = refits.removed[f, ...]
        centred = folds.centred(task, f, values, groups[f][1], removed)
        centred = centred.reshape(-1, len(coefs), n_responses)
        found += [Row(c, f, centred[:, g, :], 1.0) for g, (c, _) in enumerate(coefs)]
    answers = {c: dense_answer(coef) for c, coef in coefs}
    return held.with_rows(found).with_answers(answers)


def _with_held_ranks(
    held: HeldOut,
    refits: StoredRefits,
    base: Candidate,
    kinds: Sequence[str],
    seeds: Sequence[Array],
) -> HeldOut:
    """Return the table with low-rank refits of samples that were read into memory."""
    folds, task = held.folds, refits.task
    n_folds = len(folds.rows)
    baseline = min(held.losses.values(), key=folds.total, default=None)
    start = refits.low_rank_start(seeds, slice(0, n_folds))
    everyone = refits.low_rank_start(seeds, slice(n_folds, n_folds + 1))
    for kind in kinds:
        found = _low_rank_rows(task, folds, start, kind, base, baseline)
        ranks = HeldRanks(found[1], everyone, task.Y.shape[1])
        answers = {candidate: ranks.answer(candidate) for candidate in found[1]}
        held = held.with_rows(found[0]).with_answers(answers)
    return held


def _with_stored_ranks(
    held: HeldOut,
    refits: StoredRefits,
    base: Candidate,
    kinds: Sequence[str],
    seeds: Sequence[Array],
) -> HeldOut:
    """Return the table with low-rank refits, all ranks of all kinds at once.

    Where memory does not hold them all, higher ranks follow in passes of their own, as
    long as they are worth it and passes are left.
    """
    folds, task = held.folds, refits.task
    n_items = len(folds.rows) * task.Y.shape[1]
    ranked: list[Ranked] = []

    def loss(one: Ranked) -> np.ndarray:
        return folds.losses(_fold_predictions(folds, one.swept[0].fitted[:n_items]))

    def visited(kind: str, known: Sequence[Ranked]) -> tuple[list[Ranked], bool]:
        some = [one for one in known if one.kind == kind]
        patience = task.policy.patience(kind, task.samples.shape)
        n_visited = _n_visited(folds, [loss(one) for one in some], patience)
        return some[:n_visited], n_visited == len(some)

    def promising(found: list[Ranked]) -> list[Ranked]:
        """Return those that are not clearly worse than lower ranks, as in memory."""
        room = sweep_room(refits) // max(1, len(task.policy.ridges) - 1)
        kept: list[Ranked] = []
        for kind in kinds:
            best: np.ndarray | None = None
            for one in visited(kind, [*ranked, *found])[0]:
                own = loss(one)
                best = own if best is None else min(best, own, key=folds.total)
                if not _is_better(folds, best, own, errors=task.policy.worse_by):
                    kept += [one] if one in found else []
        kept.sort(key=lambda one: folds.total(loss(one)))
        sizes = [seen_bytes(refits, (one.kind, one.rank)) for one in kept]
        n_kept = sum(total <= room for total in accumulate(sizes))
        return kept[: max(1, n_kept)]

    def tried(kind: str) -> _Tried:
        start = _KnownStart(visited(kind, ranked)[0], n_items)
        return _ranks_tried(task, folds, start, kind, base, baseline)

    baseline = min(held.losses.values(), key=folds.total, default=None)
    waiting = all_forms(refits, kinds, seeds)
    n_passes = passes_of_ranks(refits)
    while waiting and (not ranked or refits.passes_left(folds) >= n_passes):
        forms = forms_with_room(refits, waiting)
        ranked += refits.low_rank(forms, seeds, keep=promising)
        rising = [kind for kind in kinds if visited(kind, ranked)[1]]
        waiting = [form for form in waiting if form not in forms and form[0] in rising]
    for kind in kinds:
        held = held.with_rows(tried(kind).rows)
    answers = {
        replace(base, refine=one.kind, rank=one.rank, ridge=swept.ridge): refits.answer(
            swept.structure
        )
        for one in ranked
        for swept in one.swept
    }
    return held.with_answers(answers)


def _n_visited(folds: Folds, losses: Sequence[np.ndarray], patience: int) -> int:
    """Return how many ranks a search would visit, one after another.

    `losses` are those of all ranks under the first ridge. Unlike a search that goes
    from rank to rank, this one knows whether a later rank gains, and goes on to it.
    """
    null = folds.losses([0.0] * len(folds.rows))
    best, n_idle = null, 0
    for place, loss in enumerate(losses):
        not_worse_than_null = best is null and not _is_better(folds, null, loss)
        gains = not_worse_than_null or _is_better(folds, loss, best)
        best, n_idle = (loss, 0) if gains else (best, n_idle + 1)
        later = losses[place + 1 :]
        if n_idle >= patience and not any(_is_better(folds, x, best) for x in later):
            return place + 1
    return len(losses)


@dataclass(frozen=True, eq=False)
class _KnownStart:
    """Low-rank refits of one kind that were made at once, as if rank after rank."""

    ranked: Sequence[Ranked]
    n_items: int  # those of the folds come first

    def first_step(self, kind: str, largest: int) -> _KnownStep | None:
        """Return the refit of the lowest rank."""
        if not self.ranked:
            return None
        return _KnownStep(self.ranked, self.n_items, 0, largest)

    def patience(self, kind: str, policy: Policy, shape: tuple[int, ...]) -> int:
        """Return more than there are ranks: which to visit was decided before."""
        return len(self.ranked)


@dataclass(frozen=True, eq=False)
class _KnownStep:
    """One rank of them; lower ridges are there, or were not worth it."""

    ranked: Sequence[Ranked]
    n_items: int
    place: int
    largest_rank: int
    shown: int = 1

    @property
    def rank(self) -> Any:
        return self.ranked[self.place].rank

    @property
    def swept(self) -> tuple[Swept, ...]:
        swept = self.ranked[self.place].swept[: self.shown]
        return tuple(replace(one, fitted=one.fitted[: self.n_items]) for one in swept)

    def with_lower_ridges(self) -> _KnownStep:
        return replace(self, shown=len(self.ranked[self.place].swept))

    def next_rank(self) -> _KnownStep | None:
        if self.place + 1 == len(self.ranked):
            return None
        return replace(self, place=self.place + 1, shown=1)


def _low_rank_rows(
    task: Task,
    folds: Folds,
    start: LowRankStart,
    kind: str,
    base: Candidate,
    baseline: np.ndarray | None,
) -> tuple[list[Row], dict[Candidate, Structure]]:
    """Return predictions of one kind of low-rank refit, rank after rank.

    With them come the CP or Tucker tensors that were found on the folds.
    """
    tried = _ranks_tried(task, folds, start, kind, base, baseline)
    return tried.rows, tried.structures


@dataclass(frozen=True, eq=False)
class _Tried:
    """What low-rank refits of one kind predict, and the tensors found on the folds."""

    rows: list[Row]
    structures: dict[Candidate, Structure]


def _ranks_tried(
    task: Task,
    folds: Folds,
    start: LowRankStart | _KnownStart,
    kind: str,
    base: Candidate,
    baseline: np.ndarray | None,
) -> _Tried:
    """Return what one kind of low-rank refit predicts, rank after rank.

    It ends after `Policy.patience` ranks in a row that gain no more than one standard
    error. The first rank counts as a gain unless it is clearly worse than the mean of
    the responses. It also ends when the same gain at each remaining rank would not
    reach the baseline, the best candidate of another kind.
    """
    shape, policy = (*task.samples.shape, *task.shared), task.policy
    null = folds.losses([0.0] * len(folds.rows))
    baseline = null if baseline is None else baseline
    best, best_first, n_idle = null, null, 0
    rows: list[Row] = []
    structures: dict[Candidate, Structure] = {}
    largest = policy.largest_rank(kind, shape)
    step: CPStep | TuckerStep | _KnownStep | None = start.first_step(kind, largest)
    while step is not None:
        first = folds.losses(_fold_predictions(folds, step.swept[0].fitted))
        if not _is_better(folds, best_first, first, errors=policy.worse_by):
            step = step.with_lower_ridges()
        structure: Any = step.swept[0].structure  # CP or Tucker
        complexity = structure.n_parameters(shape, step.rank) / prod(shape)
        losses = []
        for swept in step.swept:
            candidate = replace(base, refine=kind, rank=step.rank, ridge=swept.ridge)
            predictions = _fold_predictions(folds, swept.fitted)
            structures[candidate] = swept.structure
            rows += [
                Row(candidate, f, part, complexity)
                for f, part in enumerate(predictions)
            ]
            losses.append(folds.losses(predictions))
        least = min(losses, key=folds.total)
        best_first = min(best_first, first, key=folds.total)
        not_worse_than_null = best is null and not _is_better(folds, null, least)
        if not_worse_than_null or _is_better(folds, least, best):
            remaining = _ranks_remaining(step.rank, step.largest_rank, shape)
            missing, gain = folds.total(least - baseline), folds.total(best - least)
            if missing > remaining * gain and _is_better(folds, baseline, least):
                break
            best, n_idle = least, 0
        else:
            n_idle += 1
            if n_idle == start.patience(kind, policy, shape):
                break
        step = step.next_rank()
    return _Tried(rows, structures)


def _fold_predictions(folds: Folds, fitted: Array) -> list[np.ndarray]:
    """Return each fold's predictions (n_rows, K) from fitted values of all F · K."""
    values = to_numpy(fitted)
    values = values.reshape(len(folds.rows), -1, values.shape[-1])
    return [
        folds.held_out(f, values[f][:, folds.seen(f)].T, axis=1)
        for f in range(len(folds.rows))
    ]


def _ranks_remaining(
    rank: int | tuple[int, ...], largest: int, shape: tuple[int, ...]
) -> int:
    """Return how many times a rank may still rise, in one mode if it has several.

    Examples
    --------
    >>> _ranks_remaining(2, 6, (16, 16, 8)), _ranks_remaining((2, 1, 1), 4, (16, 16, 2))
    (4, 6)
    """
    if isinstance(rank, int):
        return largest - rank
    most = (min(size, largest) for size in shape)
    return sum(end - now for end, now in zip(most, rank, strict=True))


def _is_better(
    folds: Folds, losses: np.ndarray, others: np.ndarray, *, errors: float = 1.0
) -> bool:
    """Say whether losses are lower in the mean by more than some standard errors."""
    pair = np.stack([losses, others], axis=1)
    return not close_to(0, pair, np.concatenate(folds.weights), errors=errors)[1]


def _lasso_rows(
    refits: _Refits, epsilon: float, keep: bool, thresholds: Sequence[float]
) -> tuple[list[Row], dict[Candidate, list[Array]]]:
    """Return predictions of the Lasso on all folds, in batches that fit memory.

    With them come the coefficients, if they are to be kept. A refit on supports that
    are all too large is the Lasso itself: it is left out, for it would tie.
    """
    task, folds = refits.task, refits.folds
    xp, policy, n_folds = array_namespace(task.Y), task.policy, len(folds.rows)
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
        distinct |= {
            candidate
            for candidate, coefs in fits.items()
            if candidate.ridge is None
            or bool(xp.any(coefs != fits[replace(candidate, ridge=None)]))
        }
        coefs = list(fits.items())
        rows += coef_rows(task, folds, refits.pilots, coefs, _share_nonzero, indices)
        for candidate, coef in coefs if keep else ():
            kept.setdefault(candidate, []).append(coef)
    rows = [row for row in rows if row.candidate in distinct]
    return rows, {c: coefs for c, coefs in kept.items() if c in distinct}


def _share_nonzero(coef: Array) -> float:
    xp = array_namespace(coef)
    return float(xp.mean(xp.astype(coef != 0, coef.dtype)))


def _smaller_is_worth_it(held: HeldOut, thresholds: Sequence[float]) -> bool:
    """Say whether thresholds below these are worth trying.

    They are if the smallest predicts best, before a refit on the support, which
    favours larger ones, and no other kind is clearly better.
    """
    losses = held.losses
    lasso = [c for c in losses if c.refine == "sparse"]
    bare = [c for c in lasso if c.ridge is None]
    if not bare:  # no finite errors
        return False
    best, best_lasso, best_bare = (
        min(some, key=lambda c: held.folds.total(losses[c]))
        for some in (losses, lasso, bare)
    )
    if _is_better(held.folds, losses[best], losses[best_lasso]):
        return False
    return best_bare.lambda_sparse <= thresholds[-1]
