"""Held-out predictions of all candidates, and their losses.

In memory each chunk of coefficients is predicted as soon as it is solved. For samples
in a file or on a cluster, coefficients wait until they fill their share of memory; then
one pass over X predicts for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from sltr.arrays import Array, array_namespace, is_numpy, to_numpy
from sltr.core.estimate import independent_pilots
from sltr.refine.factors import Structure
from sltr.tuning.candidates import Candidate, Grid
from sltr.tuning.fits import PlainFits, as_rows, as_tensors, grid_fits, plain_fits
from sltr.tuning.folds import Folds, fold_batches
from sltr.tuning.task import Pilots, Task, Working, fits_single, ridge_pilots

# Takes the numbers of some subsets, returns coefficients (s, K, p1, …, pM) on them.
Answer = Callable[[Sequence[int]], Array]
# Arrays of a coefficient's size that the solvers hold for each mode between chunks.
ARRAYS_OF_A_MODE = 15


class Row(NamedTuple):
    """One candidate's predictions of the rows that one fold leaves out."""

    candidate: Candidate
    fold: int
    predictions: np.ndarray  # (n_rows, K), less the fold's baseline
    complexity: float  # free parameters, relative to P


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The predictions of all candidates, by candidate and then by fold."""

    folds: Folds
    predictions: dict[Candidate, list[np.ndarray]]
    complexity: dict[Candidate, float]  # the mean over folds
    # Of scaled candidates, for each fold, (K,); fitted without the rows it holds out.
    factors: dict[Candidate, list[np.ndarray]] = field(default_factory=dict)
    # What gives the coefficients (s, K, p1, …, pM) of candidates on some subsets: the
    # folds; and all samples, which come last, where these are left in place.
    answers: dict[Candidate, Answer] = field(default_factory=dict)
    working: Working | None = None  # of a likelihood, what refits saw

    def factor(self, candidate: Candidate, f: int) -> np.ndarray | float:
        """Return what to multiply a candidate's predictions of fold f by."""
        return self.factors[candidate][f] if candidate in self.factors else 1.0

    def with_rows(self, rows: Iterable[Row], grid: Grid | None = None) -> HeldOut:
        """Return the table with more candidates, those of a `grid` in its order.

        The order matters because ties go to the first.
        """
        n_folds = len(self.folds.rows)
        predictions, complexity = dict(self.predictions), dict(self.complexity)
        for candidate in grid.plain if grid else ():
            predictions[candidate] = [np.empty(0)] * n_folds
        for row in rows:
            by_fold = predictions.setdefault(row.candidate, [np.empty(0)] * n_folds)
            by_fold[row.fold] = row.predictions
            before = complexity.get(row.candidate, 0.0)
            complexity[row.candidate] = before + row.complexity / n_folds
        return replace(self, predictions=predictions, complexity=complexity)

    def with_answers(self, answers: Mapping[Candidate, Answer]) -> HeldOut:
        """Return the table with candidates whose coefficients are known."""
        return replace(self, answers={**self.answers, **answers})

    @cached_property
    def losses(self) -> dict[Candidate, np.ndarray]:
        """Squared errors of all held-out samples, of candidates that are finite."""
        losses = {c: self.folds.losses(p) for c, p in self.predictions.items()}
        return {c: values for c, values in losses.items() if np.isfinite(values).all()}

    def refined(
        self,
        refinements: Sequence[str | None],
        factors: Sequence[Mapping[Candidate, np.ndarray]] = (),
    ) -> HeldOut:
        """Return the table of what was asked for: scaled estimates join at the end.

        They have the plain estimates' predictions, which are multiplied by each fold's
        `factors` when compared.
        """
        plain = [c for c in self.predictions if c.refine is None]
        scaled = {replace(c, refine="scale"): c for c in plain}
        sources = {c: c for c in self.predictions}
        if "scale" in refinements:
            sources |= scaled
        if None not in refinements:
            sources = {c: source for c, source in sources.items() if c.refine}
        return HeldOut(
            self.folds,
            {c: self.predictions[source] for c, source in sources.items()},
            {c: self.complexity[source] for c, source in sources.items()},
            {
                c: [by_candidate[source] for by_candidate in factors]
                for c, source in scaled.items()
                if c in sources and factors
            },
            self.answers,
            self.working,
        )


def scale_factors(
    predictions: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
) -> np.ndarray:
    """Return least-squares factors on held-out predictions, one per response (K,).

    Predictions and targets (n_rows, K) are about their folds' training means. A
    factor below zero says that nothing was found; it counts as zero.
    """
    known = [~np.isnan(t) for t in targets]
    predictions = [np.where(k, p, 0.0) for p, k in zip(predictions, known, strict=True)]
    targets = [np.where(k, t, 0.0) for t, k in zip(targets, known, strict=True)]
    parts = list(zip(predictions, targets, weights, strict=True))
    cross = np.sum([w @ (p * t) for p, t, w in parts], axis=0)
    size = np.sum([w @ (p * p) for p, _, w in parts], axis=0)
    target = np.sum([w @ (t * t) for _, t, w in parts], axis=0)
    # Predictions of the size of rounding are none.
    rounding = 10.0 * max(float(np.finfo(p.dtype).eps) for p, _, _ in parts)
    some = size > rounding**2 * target
    factors = np.divide(cross, size, out=np.ones_like(size), where=some)
    return np.clip(factors, 0.0, None)


@dataclass(frozen=True, eq=False)
class Part:
    """Folds and penalties whose grid is solved together."""

    folds: range
    pilots: Pilots


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


def memory_rows(
    task: Task,
    folds: Folds,
    part: Part,
    grid: Grid,
    start: Candidate | None,
    keep_as: Any = None,
) -> tuple[list[Row], Array | None, dict[Candidate, Array]]:
    """Return a part's predictions, and its estimates (S, K, P) that refits start from.

    These are None unless `start` is one of the grid's candidates. Estimates of all
    candidates come last, if they are to be kept as some dtype.
    """
    rows: list[Row] = []
    xp, estimates = array_namespace(part.pilots.coef), None
    kept: dict[Candidate, Array] = {}
    for fits in plain_fits(task, part.pilots.coef, grid.pairs):
        if start is not None and start.radii in fits.pairs:
            e = part.pilots.epsilons.index(start.epsilon)
            # A copy: a view would keep the whole chunk.
            estimates = fits.of_pair(start.radii)[:, e, ...] + 0.0
        rows += _predicted(task, folds, [(part, fits)], grid.measured)
        for (e, epsilon), pair in product(enumerate(part.pilots.epsilons), fits.pairs):
            if keep_as is not None:
                candidate = Candidate(epsilon, *pair, shared=bool(task.shared))
                kept[candidate] = xp.astype(fits.of_pair(pair)[:, e, ...], keep_as)
    return rows, estimates, kept


def known_coefs(task: Task, coefs: Sequence[Array]) -> Answer:
    """Return what gives coefficients of the folds, given as batches (s, K, …)."""
    return partial(_some_coefs, task.samples.shape, coefs)


def _some_coefs(
    shape: tuple[int, ...], coefs: Sequence[Array], subsets: Sequence[int]
) -> Array:
    xp = array_namespace(*coefs)
    whole = xp.concat([xp.reshape(c, (*c.shape[:2], *shape)) for c in coefs], axis=0)
    return xp.stack([whole[s, ...] for s in subsets], axis=0)


def known_structure(task: Task, structure: Structure, n_folds: int) -> Answer:
    """Return what gives coefficients of the folds, given as CP or Tucker tensors."""
    return partial(_structure_coefs, task, structure, n_folds)


def _structure_coefs(
    task: Task, structure: Structure, n_folds: int, subsets: Sequence[int]
) -> Array:
    xp, shape, shared = array_namespace(task.Y), task.samples.shape, task.shared
    tensors = xp.reshape(structure.coef(), (n_folds, -1, *shape, *shared))
    return known_coefs(task, [as_rows(tensors, shape, shared)])(subsets)


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
                yield from _predicted(task, folds, waiting, grid.measured)
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
        yield from _predicted(task, folds, waiting, grid.measured)


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


def _predicted(
    task: Task,
    folds: Folds,
    waiting: Sequence[tuple[Part, PlainFits]],
    measured: bool,
) -> Iterator[Row]:
    """Predict the held-out rows of all coefficients that wait, in one pass."""
    xp = array_namespace(waiting[0][1].coef)
    shape = task.samples.shape
    groups = [
        (part, fits, s, f, xp.reshape(fits.coef[s, ...], (-1, prod(shape))))
        for part, fits in waiting
        for s, f in enumerate(part.folds)
    ]
    products = task.samples.design.inner_groups(
        [(folds.seen(f), coef) for *_, f, coef in groups]
    )
    sizes = {
        id(fits): to_numpy(fits.complexity(shape, task.shared)) if measured else None
        for _, fits in waiting
    }
    for (part, fits, s, f, coef), values in zip(groups, products, strict=True):
        centred = folds.centred(task, f, values, coef, part.pilots.removed[s, ...])
        centred = centred.reshape(-1, *fits.coef.shape[1:4])
        centred = folds.held_out(f, centred, axis=2)
        size = sizes[id(fits)]
        for e, epsilon in enumerate(part.pilots.epsilons):
            for g, pair in enumerate(fits.pairs):
                complexity = 0.0 if size is None else float(size[s, e, g])
                candidate = Candidate(epsilon, *pair, shared=bool(task.shared))
                yield Row(candidate, f, centred[:, e, :, g], complexity)


def coef_rows(
    task: Task,
    folds: Folds,
    pilots: Pilots,
    coefs: Sequence[tuple[Candidate, Array]],
    complexity: Callable[[Array], float],
    indices: Sequence[int] | None = None,
) -> list[Row]:
    """Return the predictions of refitted coefficients (S, K, …), candidates in order.

    `indices` are the folds that the S subsets belong to; by default all of them.
    """
    removed = pilots.removed_for(task)
    return removed_rows(task, folds, removed, coefs, complexity, indices)


def removed_rows(
    task: Task,
    folds: Folds,
    removed: Array,
    coefs: Sequence[tuple[Candidate, Array]],
    complexity: Callable[[Array], float],
    indices: Sequence[int] | None = None,
) -> list[Row]:
    """Do what `coef_rows` does, given what was removed from the samples, (S, b, P)."""
    xp, n_responses = array_namespace(task.Y), task.Y.shape[1]
    rows: list[Row] = []
    for s, f in enumerate(range(len(folds.rows)) if indices is None else indices):
        stack = [xp.reshape(coef[s, ...], (n_responses, -1)) for _, coef in coefs]
        flat = xp.concat(stack, axis=0)
        values = folds.predictions(task, f, flat, removed[f, ...])
        values = values.reshape(-1, len(stack), n_responses)
        values = folds.held_out(f, values, axis=2)
        rows += [
            Row(candidate, f, values[:, g, :], complexity(stack[g]))
            for g, (candidate, _) in enumerate(coefs)
        ]
    return rows
