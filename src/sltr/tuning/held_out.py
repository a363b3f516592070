"""Held-out predictions of all candidates, and factors that scale them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from sltr.arrays import Array
from sltr.core.estimate import independent_pilots
from sltr.tuning.candidates import Candidate, refined
from sltr.tuning.fits import Chunk, PlainEstimates, Row, in_grid_order, rows_of
from sltr.tuning.task import Fold, Task, with_pilots


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions, centred, of a fold's rows: (n_rows, K) for each candidate."""

    candidates: list[Candidate]
    values: list[list[np.ndarray]]  # by candidate, then by fold
    complexity: list[float]  # mean number of free parameters, relative to P


def collected(
    found: Sequence[Row],
    n_folds: int,
    refinements: Sequence[str | None],
) -> HeldOut:
    """Return the rows of all candidates and folds as a table, scaled ones included."""
    table: dict[Candidate, list] = {}
    parameters: dict[Candidate, float] = {}
    for candidate, f, values, n_free in found:
        table.setdefault(candidate, [None] * n_folds)[f] = values
        parameters[candidate] = parameters.get(candidate, 0.0) + n_free / n_folds
    candidates = list(table)
    if "scale" in refinements:
        candidates += [
            refined("scale", c, ())[0] for c in candidates if c.refine is None
        ]
    if None not in refinements:
        candidates = [c for c in candidates if c.refine is not None]
    # A scale factor is applied to the plain candidate's own predictions.
    sources = [
        replace(c, refine=None) if c.refine == "scale" else c for c in candidates
    ]
    return HeldOut(
        candidates,
        [table[source] for source in sources],
        [parameters[source] for source in sources],
    )


def scale_factors(
    predictions: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
) -> np.ndarray:
    """Return least-squares factors on held-out predictions, one per response (K,).

    Predictions and targets are centred by their folds' training means, each of
    shape (n_rows, K); a factor below zero says that nothing was found.
    """
    parts = list(zip(predictions, targets, weights, strict=True))
    cross = np.sum([w @ (p * t) for p, t, w in parts], axis=0)
    size = np.sum([w @ (p * p) for p, _, w in parts], axis=0)
    target = np.sum([w @ (t * t) for _, t, w in parts], axis=0)
    # Predictions of the size of rounding are none.
    rounding = 10.0 * max(float(np.finfo(p.dtype).eps) for p, _, _ in parts)
    some = size > rounding**2 * target
    factors = np.divide(cross, size, out=np.ones_like(size), where=some)
    return np.clip(factors, 0.0, None)


# Shares of the memory limit: pilots, coefficients that wait for a pass, the answers
# of a chunk, and what the solvers hold between chunks; measured in coefficients.
PILOT_SHARE = 4
WAITING_SHARE = 4
CHUNK_SHARE = 8
STATE_SHARE = 2
ARRAYS_OF_A_CHUNK = 12
ARRAYS_OF_A_MODE = 15


@dataclass(frozen=True, eq=False)
class _Job:
    """Estimates about one fold's pilots for some penalties."""

    place: int
    epsilons: list[float]
    estimates: PlainEstimates


def lazy_rows(
    task: Task,
    folds: Sequence[Fold],
    epsilons: list[float],
    pairs: list[tuple[float, float]],
    *,
    measure: bool = False,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Return held-out predictions of all candidates for lazy samples.

    As many folds at a time as have room for their pilots, which take one pass.
    """
    samples = task.samples
    size = samples.X.dtype.itemsize * prod(samples.shape) * task.Y.shape[1]
    at_once = max(1, samples.X.limit // (PILOT_SHARE * size * len(epsilons)))
    found: list[Row] = []
    for first in range(0, len(folds), at_once):
        known, pilots = with_pilots(task, folds[first : first + at_once], epsilons)
        rows = _some_rows(
            task,
            known,
            pilots,
            epsilons,
            pairs,
            measure=measure,
            n_jobs=n_jobs,
            progress=progress,
        )
        found += [(c, first + place, values, free) for c, place, values, free in rows]
    return found


def _some_rows(
    task: Task,
    folds: Sequence[Fold],
    pilots: Array,
    epsilons: list[float],
    pairs: list[tuple[float, float]],
    *,
    measure: bool,
    n_jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> list[Row]:
    """Return the predictions of folds whose pilots are there.

    One job is estimated after the other, or several in processes; whenever the
    coefficients fill their share of memory, one pass over X predicts for them all.
    """
    jobs = _jobs(task, folds, pilots, epsilons, pairs, measure)
    limit = task.samples.X.limit
    rows: list[Row] = []
    waiting: list[tuple[_Job, Chunk]] = []
    held, done, total = 0, 0, len(jobs) * len(pairs)
    for job, chunk in _estimated(jobs, n_jobs):
        size = chunk[1].nbytes
        if waiting and held + size > limit // WAITING_SHARE:
            rows += _pass(task, folds, waiting)
            waiting, held = [], 0
        waiting.append((job, chunk))
        held, done = held + size, done + len(chunk[0])
        if progress is not None:
            progress(done, total)
    rows += _pass(task, folds, waiting)
    return in_grid_order(rows, epsilons, pairs)


def _jobs(
    task: Task,
    folds: Sequence[Fold],
    pilots: Array,
    epsilons: list[float],
    pairs: list[tuple[float, float]],
    measure: bool,
) -> list[_Job]:
    """Return jobs for each fold and each group of penalties with close pilots.

    Close ones start each other's problems, and stay together if memory allows.
    """
    limit, shape = task.samples.X.limit, task.samples.shape
    n_responses, item = pilots.shape[2], pilots.itemsize
    state = ARRAYS_OF_A_MODE * len(shape) * item * prod(pilots.shape[2:])
    most = max(1, limit // (STATE_SHARE * state))
    entries = limit // (CHUNK_SHARE * ARRAYS_OF_A_CHUNK * item * n_responses)
    found = []
    for f in range(len(folds)):
        for e in _groups(pilots[f, ...], most):
            together = e.stop - e.start
            settings = replace(task.settings, chunk_entries=max(1, entries // together))
            own = pilots[f : f + 1, e, ...]
            estimates = PlainEstimates(
                shape, task.radius, settings, own, pairs, measure
            )
            found.append(_Job(f, epsilons[e], estimates))
    return found


def _groups(pilots: Array, most: int) -> list[slice]:
    """Cut penalties (E, K, P) where pilots are independent, and to at most `most`."""
    n_penalties, n_responses = pilots.shape[:2]
    flat = pilots.reshape(n_penalties * n_responses, -1)
    free = set(independent_pilots(flat))
    groups: list[slice] = []
    for e in range(n_penalties):
        joins = groups and e * n_responses not in free
        if joins and e - groups[-1].start < most:
            groups[-1] = slice(groups[-1].start, e + 1)
        else:
            groups.append(slice(e, e + 1))
    return groups


def _estimated(jobs: list[_Job], n_jobs: int | None) -> Iterator[tuple[_Job, Chunk]]:
    if effective_n_jobs(n_jobs) == 1:
        for job in jobs:
            for chunk in job.estimates.chunks():
                yield job, chunk
        return
    work = (delayed(job.estimates)() for job in jobs)
    results = Parallel(n_jobs=n_jobs, return_as="generator")(work)
    for job, chunks in zip(jobs, results, strict=True):
        for chunk in chunks:
            yield job, chunk


def _pass(
    task: Task, folds: Sequence[Fold], waiting: list[tuple[_Job, Chunk]]
) -> Iterator[Row]:
    """Predict each waiting coefficient for the rows of its fold, in one pass."""
    flat = [coef.reshape(-1, coef.shape[4]) for _, (_, coef, _) in waiting]
    wanted = [
        (folds[job.place].rows, own)
        for (job, _), own in zip(waiting, flat, strict=True)
    ]
    found = task.samples.design.inner_groups(wanted)
    for (job, (places, coef, free)), own, values in zip(
        waiting, flat, found, strict=True
    ):
        centred = values - own @ folds[job.place].x_mean
        centred = centred.reshape(-1, *coef.shape[1:4])
        pairs = [job.estimates.pairs[g] for g in places]
        yield from rows_of(job.epsilons, pairs, job.place, centred, free[0])
