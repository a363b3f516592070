"""The search for samples that stay in a file or on a cluster.

It tries what `search` tries on samples in memory, in as few passes over them as memory
allows. Coefficients wait until they fill their share of it; then one pass predicts for
all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from sltr.arrays import Array, array_namespace
from sltr.core.estimate import independent_pilots
from sltr.refine.low_rank import Swept
from sltr.tuning.candidates import Candidate, Grid
from sltr.tuning.fits import PlainFits, as_tensors, grid_fits
from sltr.tuning.folds import Folds, fold_batches
from sltr.tuning.held_out import (
    HeldOut,
    Part,
    Row,
    coef_rows,
    low_rank_rows,
    predicted,
    shares_nonzero,
    smaller_is_worth_it,
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
from sltr.tuning.task import Task, ridge_pilots

# Arrays of a coefficient's size that the solvers hold for each mode between chunks.
ARRAYS_OF_A_MODE = 15


def with_stored_candidates(
    held: HeldOut,
    task: Task,
    grid: Grid,
    n_jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> HeldOut:
    """Return the table with all candidates of a grid.

    Refits of responses that share a tensor are made in memory alone.
    """
    for shared in grid.sharing:
        part = grid.of_sharing(shared)
        some = set(part.refinements) - {None, "scale"}
        refit = shared is grid.sharing[0] and bool(some)
        starts: dict[int, Array] = {}
        own = starts if refit and not shared else None
        rows = stored_rows(
            task.sharing(shared), held.folds, part, n_jobs, progress, own
        )
        held = held.with_rows(rows, part)
        if refit:
            held = _with_refits(held, task.sharing(False), part, starts)
    return held


def stored_rows(
    task: Task,
    folds: Folds,
    grid: Grid,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    starts: dict[int, Array] | None = None,
) -> Iterator[Row]:
    """Yield the predictions for samples that are left in place, in few passes.

    Estimates (K, P) that refits start from are put into `starts`, by fold.
    """
    room = task.samples.X.budget.limit // task.policy.waiting_share
    for parts in stored_parts(task, folds, grid):
        waiting: list[tuple[Part, PlainFits]] = []
        held, done, total = 0, 0, len(parts) * len(grid.pairs)
        for part, fits in _solved(task, parts, grid, n_jobs):
            if waiting and held + fits.coef.nbytes > room:
                yield from predicted(task, folds, waiting, grid.measured)
                waiting, held = [], 0
            start, epsilons = grid.start, part.pilots.epsilons
            known = start.radii in fits.pairs and start.epsilon in epsilons
            if starts is not None and known:
                e = epsilons.index(start.epsilon)
                for s, f in enumerate(part.folds):
                    # A copy: a view would keep the whole chunk.
                    starts[f] = fits.of_pair(start.radii)[s, e, ...] + 0.0
            waiting.append((part, fits))
            held, done = held + fits.coef.nbytes, done + len(fits.pairs)
            if progress is not None:
                progress(done, total)
        yield from predicted(task, folds, waiting, grid.measured)


def stored_parts(task: Task, folds: Folds, grid: Grid) -> Iterator[list[Part]]:
    """Cut the grid for samples left in place, as memory allows.

    Yields lists of parts: as many folds at a time as have room for their pilots,
    which take one pass. Penalties with close pilots start each other's problems and
    stay together.
    """
    limit = task.samples.X.budget.limit
    most = max(1, limit // (task.policy.state_share * _state_bytes(task)))
    for batch in fold_batches(task, folds, len(grid.epsilons)):
        pilots = ridge_pilots(task, folds.training[batch, ...], grid.epsilons)
        tensors = as_tensors(pilots.coef, task.samples.shape, task.shared)
        yield [
            Part(range(f, f + 1), pilots.some(slice(s, s + 1), e))
            for s, f in enumerate(range(batch.start, batch.stop))
            for e in _close_penalties(tensors[s, ...], most)
        ]


def _coef_bytes(task: Task) -> int:
    """Return the size of one setting's coefficients, of all responses."""
    samples = task.samples
    return samples.X.dtype.itemsize * prod(samples.shape) * task.Y.shape[1]


def _state_bytes(task: Task) -> int:
    """Return what the solvers hold between chunks for one penalty."""
    n_modes = len(task.samples.shape) + len(task.shared)
    return ARRAYS_OF_A_MODE * n_modes * _coef_bytes(task)


def _close_penalties(pilots: Array, most: int) -> list[slice]:
    """Cut penalties (E, K, …) where pilots are independent, and to at most `most`."""
    n_penalties, n_tensors = pilots.shape[:2]
    flat = pilots.reshape(n_penalties * n_tensors, -1)
    independent = set(independent_pilots(flat))
    groups: list[slice] = []
    for e in range(n_penalties):
        joins = groups and e * n_tensors not in independent
        if joins and e - groups[-1].start < most:
            groups[-1] = slice(groups[-1].start, e + 1)
        else:
            groups.append(slice(e, e + 1))
    return groups


def _solved(
    task: Task, parts: Sequence[Part], grid: Grid, n_jobs: int | None
) -> Iterator[tuple[Part, PlainFits]]:
    """Solve one part after another, or several in processes; samples stay here.

    A process hands over all chunks of a part at once: there are as many at a time as
    have room for these.
    """
    jobs = []
    for part in parts:
        entries = (task.settings.chunk_entries or 1) // len(part.pilots.epsilons)
        settings = replace(task.settings, chunk_entries=max(1, entries))
        shape, pilots = (task.samples.shape, task.shared), part.pilots.coef
        jobs.append((*shape, task.radius, settings, pilots, grid.pairs))
    size = _workers(task, parts, grid, effective_n_jobs(n_jobs))
    for first in range(0, len(parts), size):
        batch = jobs[first : first + size]
        if size == 1:
            results: Iterable = (grid_fits(*job) for job in batch)
        else:
            work = (delayed(solve_all_chunks)(*job) for job in batch)
            results = Parallel(n_jobs=size)(work)
        for part, chunks in zip(parts[first:], results, strict=False):
            for fits in chunks:
                yield part, fits


def _workers(task: Task, parts: Sequence[Part], grid: Grid, n_jobs: int) -> int:
    """Return how many parts may be solved at a time: at most `n_jobs`, at least one.

    Each takes the state of its solvers and, here and in its process, all its solutions.
    """
    if n_jobs == 1:
        return 1
    most = max(len(part.pilots.epsilons) for part in parts)
    solutions = 2 * len(grid.pairs) * _coef_bytes(task)
    room = task.samples.X.budget.limit // task.policy.state_share
    return max(1, min(n_jobs, room // (most * (_state_bytes(task) + solutions))))


def solve_all_chunks(*job: Any) -> list[PlainFits]:
    """Return all chunks of `grid_fits` at once."""
    return list(grid_fits(*job))


def _with_refits(
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
        held, columns = _with_lasso(held, refits, base, batches[0], None)
    low_rank = [kind for kind in ("tucker", "cp") if kind in kinds]
    if low_rank or "reweight" in kinds:
        steps = {} if len(task.samples.shape) == 1 else refits.reweighted(folds=folds)
        if "reweight" in kinds and steps:
            held = _with_steps(held, refits, base, steps)
        with_ranks = _with_held_ranks if refits.held else _with_ranks
        if low_rank:
            seeds = seeds_of(refits, steps)
            held = with_ranks(held, refits, base, low_rank, seeds)
    while (
        len(batches) > 1
        and (refits.held or refits.passes_left(folds) >= 2 * (LASSO_ROUNDS - 1))
        and smaller_is_worth_it(held, batches[0])
    ):
        del batches[0]
        held, columns = _with_lasso(held, refits, base, batches[0], columns)
    return held


def _with_lasso(
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
    rows = coef_rows(own, folds, removed, list(distinct.items()), shares_nonzero)
    answers = {c: refits.sparse_answer(v, columns) for c, v in distinct.items()}
    return held.with_rows(rows).with_answers(answers), columns


def _with_steps(
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
        found = low_rank_rows(task, folds, start.first_step, kind, base, baseline)
        ranks = HeldRanks(found[1], everyone, task.Y.shape[1])
        answers = {candidate: ranks.answer(candidate) for candidate in found[1]}
        held = held.with_rows(found[0]).with_answers(answers)
    return held


def _with_ranks(
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
        return folds.losses(folds.of_fitted(one.swept[0].fitted[:n_items]))

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
                if not folds.is_better(best, own, errors=task.policy.worse_by):
                    kept += [one] if one in found else []
        kept.sort(key=lambda one: folds.total(loss(one)))
        sizes = [seen_bytes(refits, (one.kind, one.rank)) for one in kept]
        n_kept = sum(total <= room for total in accumulate(sizes))
        return kept[: max(1, n_kept)]

    baseline = min(held.losses.values(), key=folds.total, default=None)
    waiting = all_forms(refits, kinds, seeds)
    n_passes = passes_of_ranks(refits)
    while waiting and (not ranked or refits.passes_left(folds) >= n_passes):
        forms = forms_with_room(refits, waiting)
        ranked += refits.low_rank(forms, seeds, keep=promising)
        rising = [kind for kind in kinds if visited(kind, ranked)[1]]
        waiting = [form for form in waiting if form not in forms and form[0] in rising]
    for kind in kinds:
        known = visited(kind, ranked)[0]
        first = partial(_first_known, known, n_items)
        # Which ranks to visit was decided before: all of these.
        settings = kind, base, baseline, len(known)
        held = held.with_rows(low_rank_rows(task, folds, first, *settings)[0])
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
    null = folds.null_losses
    best, n_idle = null, 0
    for place, loss in enumerate(losses):
        not_worse_than_null = best is null and not folds.is_better(null, loss)
        gains = not_worse_than_null or folds.is_better(loss, best)
        best, n_idle = (loss, 0) if gains else (best, n_idle + 1)
        later = losses[place + 1 :]
        if n_idle >= patience and not any(folds.is_better(x, best) for x in later):
            return place + 1
    return len(losses)


@dataclass(frozen=True, eq=False)
class _KnownStep:
    """One of the ranks that were refitted at once, as if rank after rank.

    Lower ridges are there, or were not worth it.
    """

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


def _first_known(
    ranked: Sequence[Ranked], n_items: int, kind: str, largest: int
) -> _KnownStep | None:
    """Return the refit of the lowest rank; items of the folds come first."""
    return _KnownStep(ranked, n_items, 0, largest) if ranked else None
