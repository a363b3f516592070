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
from sltr.refine.factors import Structure
from sltr.refine.low_rank import Swept
from sltr.refine.stored_sweeps import Packed
from sltr.samples.samples import passes_made
from sltr.tuning.candidates import Candidate, Grid
from sltr.tuning.fits import PlainFits, as_tensors, grid_fits, structure_coefs
from sltr.tuning.folds import Folds, fold_batches
from sltr.tuning.held_out import (
    HeldOut,
    Part,
    Ranks,
    Row,
    all_free,
    coef_rows,
    dense_coefs,
    distinct_fits,
    low_rank_rows,
    predicted,
    shares_nonzero,
    smaller_is_worth_it,
)
from sltr.tuning.passes import (
    LASSO_ROUNDS,
    Columns,
    Form,
    HeldRanks,
    Ranked,
    StoredRefits,
    all_forms,
    passes_of_ranks,
    seeds_of,
    seen_bytes,
    starts_with_room,
    sweep_room,
)
from sltr.tuning.task import Task, ridge_pilots

# Searches that see samples in few bits go on so many times where others end.
GOES_ON = 1
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
        before = passes_made(task.samples.X)
        rows = stored_rows(
            task.sharing(shared), held.folds, part, n_jobs, progress, own
        )
        held = held.with_rows(rows, grid=part)
        if refit:
            # The grid of responses that share a tensor takes as many, later.
            others = len(grid.sharing) - 1
            later = others * (passes_made(task.samples.X) - before)
            held = _with_refits(held, task.sharing(False), part, starts, later)
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
                yield from predicted(task, folds, waiting, grid.needs_complexity)
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
        yield from predicted(task, folds, waiting, grid.needs_complexity)


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
    held: HeldOut,
    task: Task,
    grid: Grid,
    starts: Mapping[int, Array],
    later: float,
) -> HeldOut:
    """Return the table with all refits of samples that stay where they are.

    `starts` are estimates (K, P) of folds that the grid knows; so many passes follow
    `later`.

    They are made on all samples as well, in the same passes: `HeldOut.coefs`.
    """
    folds, kinds, base = held.folds, grid.refinements, replace(grid.start, shared=False)
    xp = array_namespace(folds.training)
    training = xp.concat([folds.training, task.everyone], axis=0)
    refits = StoredRefits.of(task, training, base, starts)
    refits = replace(refits, later=later)
    batches = list(grid.thresholds) if "sparse" in kinds else []
    columns: Columns | None = None
    if batches:
        held, columns = _with_lasso(held, refits, base, batches[0], None)
    low_rank = [kind for kind in ("tucker", "cp") if kind in kinds]
    if low_rank or "reweight" in kinds:
        if columns is not None and refits.has_bits:
            columns = replace(columns, values=None)  # samples in few bits need the room
        packed = refits.packed()
        steps = refits.reweighted(folds=folds, packed=packed)
        if "reweight" in kinds and steps:
            held = _with_steps(held, refits, base, steps)
        seeds = seeds_of(refits, steps)
        if low_rank and refits.held:
            held = _with_held_ranks(held, refits, base, low_rank, seeds)
        elif low_rank:
            rough = _rough_ranks(held, refits, base, low_rank, seeds, packed)
            del packed  # sweeps over the samples need the room
            held = _with_ranks(held, refits, base, low_rank, seeds, rough)
    while (
        len(batches) > 1
        and (rounds := refits.lasso_rounds_left(folds, columns)) > 1
        and smaller_is_worth_it(held, batches[0])
    ):
        del batches[0]
        held, columns = _with_lasso(held, refits, base, batches[0], columns, rounds)
    return held


def _with_lasso(
    held: HeldOut,
    refits: StoredRefits,
    base: Candidate,
    thresholds: Sequence[float],
    columns: Columns | None,
    rounds: int = LASSO_ROUNDS,
) -> tuple[HeldOut, Columns]:
    """Return the table with the Lasso, and the columns that were read for it."""
    fits, columns = refits.lasso(thresholds, base.epsilon, columns, rounds=rounds)
    own, folds = columns.task(refits.task), held.folds
    # On all samples, which come last, refits that are none on the folds may differ.
    on_folds = {c: coefs[: len(folds.rows)] for c, coefs in fits.items()}
    distinct = {c: coefs for c, coefs in fits.items() if c in distinct_fits(on_folds)}
    removed = refits.removed[:, :, columns.chosen]
    rows = coef_rows(own, folds, removed, list(distinct.items()), shares_nonzero)
    coefs = {c: refits.sparse_coefs(v, columns) for c, v in distinct.items()}
    return held.with_rows(rows, coefs), columns


def _with_steps(
    held: HeldOut, refits: StoredRefits, base: Candidate, steps: Mapping[int, Array]
) -> HeldOut:
    """Return the table with reweighted estimates; all are predicted in one pass."""
    coefs = [
        (replace(base, refine="reweight", steps=step), coef)
        for step, coef in steps.items()
    ]
    rows = coef_rows(refits.task, held.folds, refits.removed, coefs, all_free)
    return held.with_rows(rows, {c: dense_coefs(refits.task, [v]) for c, v in coefs})


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
        ranks = HeldRanks(task, found.structures, everyone, n_folds)
        held = held.with_rows(found.rows, {c: ranks.coefs(c) for c in ranks.folds})
    return held


def _with_ranks(
    held: HeldOut,
    refits: StoredRefits,
    base: Candidate,
    kinds: Sequence[str],
    seeds: Sequence[Array],
    rough: _Rough,
) -> HeldOut:
    """Return the table with low-rank refits, all ranks of all kinds at once.

    Where memory does not hold them all, others follow in passes of their own, as long
    as they are worth it and passes are left; or they stay as they were found on samples
    in few bits.
    """
    folds, task = held.folds, refits.task
    ranked: list[Ranked] = []

    def loss(one: Ranked) -> np.ndarray:
        return folds.losses(folds.of_fitted(one.swept[0].fitted))

    def lower(found: list[Ranked]) -> list[tuple[Ranked, float]]:
        """Return what goes on under lower ridges, as much as memory holds.

        As in memory, none that is clearly worse than lower ranks. The best come first,
        by rough refits or under the first ridge.
        """
        order: dict[tuple[str, Any, float], float] = {}
        for kind in kinds:
            best: np.ndarray | None = None
            for one in [one for one in (*ranked, *found) if one.kind == kind]:
                own = loss(one)
                best = own if best is None else min(best, own, key=folds.total)
                if folds.is_better(best, own, errors=task.policy.worse_by):
                    continue
                for ridge in task.policy.ridges[1:]:
                    key = (kind, one.rank, ridge)
                    order[key] = rough.losses.get(key, folds.total(own))
        by_form = {(one.kind, one.rank): one for one in found}
        some = sorted(
            (key for key in order if key[:2] in by_form), key=order.__getitem__
        )
        sizes = accumulate(seen_bytes(refits, key[:2]) for key in some)
        n_kept = sum(total <= sweep_room(refits) for total in sizes)
        return [(by_form[key[:2]], key[2]) for key in some[: max(1, n_kept)]]

    def tried(kind: str) -> Ranks:
        known = {(one.kind, one.rank): one for one in ranked}
        some = [known[f] for f in rough.starts if f in known and f[0] == kind]
        swept = [swept for one in some for swept in one.swept]
        totals = [folds.total(folds.losses(folds.of_fitted(s.fitted))) for s in swept]
        # What higher ranks may still gain is known where one of them is better.
        best = min(totals, default=np.inf)
        reached = baseline is None or best < folds.total(baseline)
        about = None if reached else baseline
        return low_rank_rows(
            task, folds, partial(_first_known, some), kind, base, about
        )

    baseline = min(held.losses.values(), key=folds.total, default=None)
    waiting = dict(rough.starts)
    n_passes = passes_of_ranks(refits)
    while waiting and (not ranked or refits.passes_left(folds) >= n_passes):
        order = sorted(waiting, key=rough.place)
        some = starts_with_room(refits, {f: waiting[f] for f in order})
        ranked += refits.low_rank(some, seeds, lower)
        waiting = {f: starts for f, starts in waiting.items() if f not in some}
        n_known = {kind: sum(one.kind == kind for one in ranked) for kind in kinds}
        rising = [kind for kind in kinds if len(tried(kind).starts) == n_known[kind]]
        waiting = {form: one for form, one in waiting.items() if form[0] in rising}
    ranked = rough.joined(refits, ranked)
    for kind in kinds:
        held = held.with_rows(tried(kind).rows)
    coefs = {
        replace(base, refine=one.kind, rank=one.rank, ridge=swept.ridge): (
            structure_coefs(refits.task, swept.structure)
        )
        for one in ranked
        for swept in one.swept
    }
    return held.with_rows([], coefs)


@dataclass(frozen=True, eq=False)
class _Rough:
    """What refits of samples in few bits say: where others start, and what they are."""

    starts: dict[Form, Sequence[Structure]]  # none where nothing is known
    # By kind, rank and ridge.
    losses: dict[tuple[str, Any, float], float]
    structures: dict[tuple[str, Any, float], Structure]

    def place(self, form: Form) -> float:
        """Return what forms are sorted by: how they did, or how large they are."""
        known = [loss for key, loss in self.losses.items() if key[:2] == form]
        return min(known, default=float(np.max(form[1])))

    def joined(self, refits: StoredRefits, ranked: Sequence[Ranked]) -> list[Ranked]:
        """Return refits by passes, and those for which there was no room: a pass."""
        found = {
            (one.kind, one.rank): {s.ridge: s for s in one.swept} for one in ranked
        }
        missing = [k for k in self.structures if k[2] not in found.get(k[:2], {})]
        pairs = [(self.structures[key], key[2]) for key in missing]
        known = refits.sweeps().swept_on(pairs, 0)
        for (kind, rank, ridge), swept in zip(missing, known, strict=True):
            found.setdefault((kind, rank), {})[ridge] = swept
        return [
            Ranked(*form, tuple(swept[r] for r in sorted(swept, reverse=True)))
            for form, swept in found.items()
        ]


def _rough_ranks(
    held: HeldOut,
    refits: StoredRefits,
    base: Candidate,
    kinds: Sequence[str],
    seeds: Sequence[Array],
    packed: Packed | None,
) -> _Rough:
    """Return the ranks to try: those that a search as in memory tries, and one more.

    It sees samples in few bits, which may say a little too early that nothing is
    gained. Where memory does not hold these, it is all ranks.
    """
    if packed is None:
        return _Rough(all_forms(refits, kinds, seeds), {}, {})
    folds = held.folds
    baseline = min(held.losses.values(), key=folds.total, default=None)
    start = refits.rough_start(seeds, packed)
    starts: dict[Form, Sequence[Structure]] = {}
    losses: dict[tuple[str, Any, float], float] = {}
    structures: dict[tuple[str, Any, float], Structure] = {}
    for kind in kinds:
        known = kind, base, baseline, GOES_ON
        tried = low_rank_rows(refits.task, folds, start.first_step, *known)
        starts |= {(kind, rank): some for rank, some in tried.starts.items()}
        found = HeldOut(folds, {}, {}).with_rows(tried.rows).losses
        for c, each in found.items():
            key = kind, c.rank, float(c.ridge or 0.0)
            losses[key], structures[key] = folds.total(each), tried.structures[c]
    return _Rough(starts, losses, structures)


@dataclass(frozen=True, eq=False)
class _KnownStep:
    """One of the ranks that were refitted at once, as if rank after rank.

    Lower ridges are there, or were not worth it.
    """

    ranked: Sequence[Ranked]
    place: int
    largest_rank: int
    shown: int = 1

    @property
    def rank(self) -> Any:
        return self.ranked[self.place].rank

    @property
    def swept(self) -> tuple[Swept, ...]:
        return self.ranked[self.place].swept[: self.shown]

    def with_lower_ridges(self) -> _KnownStep:
        return replace(self, shown=len(self.ranked[self.place].swept))

    def next_rank(self) -> _KnownStep | None:
        if self.place + 1 == len(self.ranked):
            return None
        return replace(self, place=self.place + 1, shown=1)


def _first_known(
    ranked: Sequence[Ranked], kind: str, largest: int
) -> _KnownStep | None:
    """Return the refit of the lowest rank."""
    return _KnownStep(ranked, 0, largest) if ranked else None
