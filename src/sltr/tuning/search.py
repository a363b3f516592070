"""Jobs of a tuning: in lots, one after another, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed

from sltr.arrays import Array, array_namespace, is_numpy, to_numpy
from sltr.core.tensor import flatten
from sltr.refine.sweeps import Sweeps
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import (
    SUPPORT_RIDGES,
    Candidate,
    _given_refit,
    check_refinements,
    largest_rank,
    n_parameters,
    refined,
)
from sltr.tuning.choose import choose, close_to
from sltr.tuning.final import Member
from sltr.tuning.fits import (
    Plain,
    PlainEstimates,
    Row,
    low_rank_fits,
    low_rank_seeds,
    reweighted_fits,
    sparse_fits,
    start_estimates,
    sweeps,
)
from sltr.tuning.held_out import HeldOut, collected, lazy_rows
from sltr.tuning.task import (
    Fold,
    Task,
    for_comparison,
    held_out_losses,
    training_subsets,
    with_pilots,
)

Result = TypeVar("Result")


class Stages:
    """Jobs that run one lot after another, those of a lot side by side."""

    def __init__(
        self,
        n_jobs: int | None,
        total: int,
        progress: Callable[[int, int], None] | None,
    ):
        self.n_jobs, self.total, self.done = n_jobs, total, 0
        self.report = progress or (lambda done, total: None)

    def run(self, jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """Return what each job returns."""
        results: list[Result] = []
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for result in parallel(delayed(job)() for job in jobs):
            results.append(result)
            self.done += 1
            self.report(self.done, self.total)
        return results

    def finish(self) -> None:
        """Report those that were not needed."""
        if self.done < self.total:
            self.report(self.total, self.total)


# Ranks in a row that may gain nothing before the search ends: a Tucker rank of one
# mode may need that of another.
PATIENCE = {"tucker": 2, "cp": 1}
# Standard errors by which a rank under the first ridge may be worse than another rank
# under it, before lower ridges are not tried.
HOPELESS = 2.0
# Entries of coefficients and fitted values that a batch of sparse refits holds.
BATCH_ENTRIES = 4_000_000


@dataclass(frozen=True, eq=False)
class Sparse:
    """The Lasso on all folds, for many thresholds at once."""

    task: Task
    folds: list[Fold]
    epsilon: float
    lots: Sequence[Sequence[float]]  # of thresholds, descending; the first is tried

    def __call__(self) -> list[Row]:
        """Return the rows of all folds, in batches that keep to the limit above."""
        n_fits = len(self.lots[0]) * self.task.Y.shape[1]
        held = n_fits * sum(self.task.samples.flat.shape)
        size = max(1, BATCH_ENTRIES // held)
        rows: list[Row] = []
        own: set[Candidate] = set()
        for first in range(0, len(self.folds), size):
            part, found = self._batch(range(len(self.folds))[first : first + size])
            rows, own = rows + part, own | found
        return [row for row in rows if row[0] in own]

    def following(self, rows: Sequence[Row]) -> Sparse | None:
        """Return the job for the next lot if all rows so far make it worth trying.

        That is if the smallest threshold predicts best, before a refit on the
        support, which favours larger ones, and no other kind is clearly better.
        """
        if len(self.lots) == 1:
            return None
        losses = row_losses(self.task, self.folds, rows)
        mine = [c for c in losses if c.refine == "sparse"]
        bare = [c for c in mine if c.ridge is None]
        if not bare:  # no finite errors
            return None
        best, own_best, smallest = (
            min(some, key=lambda c: losses[c].sum()) for some in (losses, mine, bare)
        )
        clearly = _is_better(losses[best], losses[own_best])
        if clearly or smallest.lambda_sparse > self.lots[0][-1]:
            return None
        return replace(self, lots=self.lots[1:])

    def _batch(self, places: Sequence[int]) -> tuple[list[Row], set[Candidate]]:
        """Return the rows of some folds, and which candidates differ from all others.

        A refit on supports that are all too large is the Lasso itself: a tie.
        """
        task = self.task
        xp = array_namespace(task.Y)
        subsets = training_subsets([self.folds[place] for place in places])
        fits = dict(
            sparse_fits(task, subsets, self.epsilon, self.lots[0], SUPPORT_RIDGES)
        )
        own = {
            candidate
            for candidate, coefs in fits.items()
            if candidate.ridge is None
            or bool(xp.any(coefs != fits[replace(candidate, ridge=None)]))
        }
        rows: list[Row] = []
        for i, place in enumerate(places):
            # (C, K, P)
            coefs = xp.stack([found[i, ...] for found in fits.values()], axis=0)
            free = to_numpy(xp.mean(xp.astype(coefs != 0, coefs.dtype), axis=(1, 2)))
            predicted = _predictions(task, self.folds[place], coefs)
            for candidate, values, n_free in zip(
                fits, predicted, free.tolist(), strict=True
            ):
                rows.append((candidate, place, values, n_free))
        return rows, own


def reweighted_rows(
    task: Task, folds: Sequence[Fold], start: Candidate, steps: dict[int, Array]
) -> list[Row]:
    """Return rows of reweighted coefficients, (F, K, p1, …, pM) for each step."""
    xp = array_namespace(task.Y)
    wanted = refined("reweight", start, task.samples.shape)
    rows: list[Row] = []
    for f, fold in enumerate(folds):
        coefs = [flatten(steps[candidate.steps][f, ...]) for candidate in wanted]
        predicted = _predictions(task, fold, xp.stack(coefs, axis=0))
        rows += [
            (candidate, f, values, 1.0)
            for candidate, values in zip(wanted, predicted, strict=True)
        ]
    return rows


def row_losses(
    task: Task, folds: Sequence[Fold], rows: Sequence[Row]
) -> dict[Candidate, np.ndarray]:
    """Return each candidate's squared errors of held-out samples, fold after fold.

    Only of candidates whose errors are finite.
    """
    values: dict[Candidate, list] = {}
    for candidate, f, own, _ in rows:
        values.setdefault(candidate, [None] * len(folds))[f] = own
    losses = {
        candidate: held_out_losses(task, folds, parts)
        for candidate, parts in values.items()
    }
    return {c: own for c, own in losses.items() if np.isfinite(own).all()}


@dataclass(frozen=True, eq=False)
class LowRank:
    """One kind of low-rank refit on all folds at once, rank after rank.

    It ends when `PATIENCE` ranks in a row, of matrices a single one, predict no better
    than the best before them by more than a standard error, the first ones if they
    are worse than the mean of the responses; and when the ranks left, each with the
    gain of the last, would not do as well as a rival does.
    """

    task: Task
    folds: list[Fold]
    problem: Sweeps
    kind: str
    start: Candidate
    seeds: list[Array]  # (F, K, p1, …, pM) each
    rival: np.ndarray | None  # losses of the best candidate of another kind

    def __call__(self) -> list[Row]:
        """Return the rows of all ranks that were tried.

        Under ridges below the first only where that one predicts not clearly worse
        than it did for a rank before.
        """
        task, shape = self.task, self.task.samples.shape
        shapes = [(len(fold.rows), task.Y.shape[1]) for fold in self.folds]
        null = held_out_losses(task, self.folds, [np.zeros(size) for size in shapes])
        best, idle = null, 0
        first = null  # the least under the first ridge
        rival = null if self.rival is None else self.rival
        patience = PATIENCE[self.kind] if len(shape) > 2 else 1
        rows: list[Row] = []

        def goes_on(fitted: Array) -> bool:
            losses = held_out_losses(task, self.folds, self._held_out(fitted))
            return not _is_better(first, losses, errors=HOPELESS)

        settings = (task, self.problem, self.start, self.kind, self.seeds)
        for one_rank in low_rank_fits(*settings, goes_on=goes_on):
            losses = []
            for candidate, refit in one_rank.items():
                n_free = n_parameters(candidate.rank, shape) / prod(shape)
                parts = self._held_out(refit.fitted)
                rows += [(candidate, f, part, n_free) for f, part in enumerate(parts)]
                losses.append(held_out_losses(task, self.folds, parts))
            least = min(losses, key=np.sum)
            first = min(first, losses[0], key=np.sum)
            fair = best is null and not _is_better(null, least)
            if not fair and not _is_better(least, best):
                idle += 1
                if idle == patience:
                    break
                continue
            left = _ranks_left(candidate.rank, largest_rank(self.kind, shape), shape)
            within_reach = np.sum(least - rival) <= left * np.sum(best - least)
            if not within_reach and _is_better(rival, least):
                break
            best, idle = least, 0
        return rows

    def _held_out(self, fitted: Array) -> list[np.ndarray]:
        """Return each fold's predictions (n_rows, K) from fitted values (F · K, n)."""
        values = to_numpy(fitted)
        values = values.reshape(len(self.folds), -1, values.shape[1])
        return [values[f][:, fold.rows].T for f, fold in enumerate(self.folds)]


def _ranks_left(
    rank: int | tuple[int, ...], largest: int, shape: tuple[int, ...]
) -> int:
    """Return how many times a rank may still be raised, in one mode if it has several.

    Examples
    --------
    >>> _ranks_left(2, 6, (16, 16, 8)), _ranks_left((2, 1, 1), 4, (16, 16, 2))
    (4, 6)
    """
    if isinstance(rank, int):
        return largest - rank
    most = (min(size, largest) for size in shape)
    return sum(end - own for end, own in zip(most, rank, strict=True))


def _is_better(losses: np.ndarray, others: np.ndarray, *, errors: float = 1.0) -> bool:
    """Say whether losses are lower in the mean by more than some standard errors."""
    pair = np.stack([losses, others], axis=1)
    return not close_to(0, pair, np.ones(len(pair)), errors=errors)[1]


def _predictions(task: Task, fold: Fold, coefs: Array) -> np.ndarray:
    """Return centred predictions (C, n_rows, K) of coefficients (C, K, P)."""
    xp = array_namespace(coefs)
    n_candidates, n_responses, n_features = coefs.shape
    flat = xp.reshape(coefs, (-1, n_features))
    found = fold.centred_predictions(task, flat)
    found = found.reshape(-1, n_candidates, n_responses)
    return np.moveaxis(found, 1, 0)


# Where refits start: fractions that denoise the pilot but keep its terms.
START_RADII = (0.3, 0.3)
# Thresholds of the Lasso, fractions of the largest that leaves an entry: many are
# cheap at once, and the best one varies more than the radii do. Lower ones take
# longer; each lot follows if the lowest of the last is the best.
THRESHOLDS = ((0.6, 0.4, 0.27, 0.18, 0.1), (0.05, 0.02), (0.003,))
# Held-out estimates, to be compared and scaled, may have a gap that many times as
# large, up to a limit.
LOOSER, LARGEST_GAP = 10.0, 0.1
# On a CPU, samples up to this size are estimated for all folds at once.
SMALL_SAMPLE = 4096


def held_out_predictions(
    task: Task,
    folds: Sequence[Fold],
    epsilons: Sequence[float],
    pairs: Sequence[tuple[float, float]],
    refinements: Sequence[str | None],
    *,
    start: Candidate | None = None,
    measure: bool = False,
    weigh: bool = False,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> HeldOut:
    """Fit all candidates on all folds and predict the rows left out.

    Parameters
    ----------
    task : Task
    folds : sequence of Fold
    epsilons : sequence of float
    pairs : sequence of (lambda_sparse, lambda_low)
    refinements : sequence
        Which of `REFINEMENTS` to try.
    start : Candidate, optional
        Where refits start; by default the middle penalty and radii that denoise for
        low-rank ones, and their own thresholds for sparse ones.
    measure : bool
        Whether to count the candidates' free parameters, for a rule that asks.
    weigh : bool
        Whether the rule weighs candidates by their errors, which are then found to
        the answer's own tolerance; to choose by, a larger one will do.
    n_jobs : int, optional
        Processes over folds and kinds of refits.
    progress : callable, optional
        Called with the number of stages done and their total.
    """
    task = task if weigh else _with_looser_gap(task)
    if is_lazy(task.samples.X):
        rows: list[Row] = lazy_rows(
            task,
            folds,
            list(epsilons),
            list(pairs),
            measure=measure,
            n_jobs=n_jobs,
            progress=progress,
        )
        return collected(rows, len(folds), refinements)
    folds, pilots = with_pilots(task, folds, epsilons)
    begin = start or refit_start(epsilons, pairs, task.radius)
    kinds = [kind for kind in ("tucker", "cp") if kind in refinements]
    starting = bool(kinds) or "reweight" in refinements
    grid: list[Plain] = []
    if None in refinements or "scale" in refinements:
        kept = begin if starting else None
        grid += _plain_jobs(task, folds, epsilons, pairs, pilots, kept, measure)
    jobs: list[Callable] = [*grid]
    single, own = task, folds
    if set(refinements) - {None, "scale"}:
        single, own = for_comparison(task, folds)
    sparse = None
    if "sparse" in refinements:
        lots: Sequence[Sequence[float]] = THRESHOLDS
        if start is not None or task.radius == "absolute":
            lots = [sorted({radius for radius, _ in pairs}, reverse=True)]
        sparse = Sparse(single, own, begin.epsilon, lots)
        jobs.append(sparse)
    stages = Stages(
        n_jobs if is_numpy(task.samples.X) else None,
        len(jobs) + len(kinds) + (len(sparse.lots) - 1 if sparse else 0),
        progress,
    )
    results = stages.run(jobs)
    plain, others = results[: len(grid)], results[len(grid) :]
    rows = list(chain(*(part for part, _ in plain), *others))
    if starting:
        first = pilots[:, list(epsilons).index(begin.epsilon), ...]
        estimates = start_estimates(task, first, begin, [found for _, found in plain])
        estimates = array_namespace(first).astype(estimates, single.Y.dtype)
        steps = _reweighted(single, own, estimates)
        if "reweight" in refinements and steps is not None:
            rows += reweighted_rows(single, own, begin, steps)
        if kinds:
            job = _low_rank_jobs(single, own, begin, estimates, steps, rows)
            rows += chain(*stages.run([job(kind) for kind in kinds]))
    while sparse := sparse and sparse.following(rows):
        rows += chain(*stages.run([sparse]))
    stages.finish()
    if not rows:
        msg = (
            f"refine={tuple(refinements)} was given for samples of shape "
            f"{task.samples.shape}; 'reweight' expects at least two modes. Add another."
        )
        raise ValueError(msg)
    return collected(rows, len(folds), refinements)


def _plain_jobs(
    task: Task,
    folds: list[Fold],
    epsilons: Sequence[float],
    pairs: Sequence[tuple[float, float]],
    pilots: Array,
    start: Candidate | None,
    measure: bool,
) -> Iterator[Plain]:
    """Yield the paper's estimates: of all folds at once, or on a CPU of each fold."""
    each = list(range(len(folds)))
    apart = is_numpy(task.samples.X) and prod(task.samples.shape) > SMALL_SAMPLE
    for part in [[f] for f in each] if apart else [each]:
        own = pilots[part[0] : part[-1] + 1, ...]
        estimates = PlainEstimates(
            task.samples.shape, task.radius, task.settings, own, list(pairs), measure
        )
        some = [folds[f] for f in part]
        yield Plain(task, part, some, list(epsilons), estimates, start)


def _with_looser_gap(task: Task) -> Task:
    tol = task.settings.tol
    looser = max(tol, min(LOOSER * tol, LARGEST_GAP))
    return replace(task, settings=replace(task.settings, tol=looser))


def _reweighted(
    task: Task, folds: Sequence[Fold], estimates: Array
) -> dict[int, Array] | None:
    """Return all folds' reweighted estimates by steps; None if there are no modes."""
    if len(task.samples.shape) == 1:
        return None
    return reweighted_fits(task, training_subsets(folds), estimates)


def _low_rank_jobs(
    task: Task,
    folds: list[Fold],
    begin: Candidate,
    estimates: Array,
    steps: dict[int, Array] | None,
    rows: Sequence[Row],
) -> Callable[[str], LowRank]:
    """Return what makes a kind's job; all share one problem and one rival."""
    problem = sweeps(task, training_subsets(folds))
    seeds = low_rank_seeds(estimates, steps)
    others = row_losses(task, folds, rows).values()
    rival = min(others, key=np.sum, default=None)
    return lambda kind: LowRank(task, folds, problem, kind, begin, seeds, rival)


def refit_start(
    epsilons: Sequence[float], pairs: Sequence[tuple[float, float]], radius: str
) -> Candidate:
    """Return the setting refits start from: the grid's middle penalty."""
    middle = sorted(epsilons)[len(epsilons) // 2]
    # Of absolute radii nothing is known beforehand but the grid's own middle.
    radii = START_RADII
    if radius == "absolute":
        radii = pairs[len(pairs) // 2]
    return Candidate(middle, *radii)


INNER_FOLDS = 5


def choose_refit(
    task: Task, base: Candidate, refine: Any, held_out: Sequence[np.ndarray] = ()
) -> Member:
    """Return the refined candidate, with its factors if it is scaled.

    What is not given is chosen by folds, whose rows are `held_out`: by default five
    runs of the task's samples.
    """
    if refine is None:
        return Member(base)
    if isinstance(refine, tuple | list):
        return Member(_given_refit(base, refine, task.samples.shape))
    [kind] = check_refinements(refine)
    n_samples = task.samples.weight.shape[0]
    everyone = np.arange(n_samples)
    held_out = held_out or np.array_split(everyone, min(INNER_FOLDS, n_samples))
    folds = [Fold.of(task, np.setdiff1d(everyone, rows), rows) for rows in held_out]
    held = held_out_predictions(
        task,
        folds,
        [base.epsilon],
        [(base.lambda_sparse, base.lambda_low)],
        [kind],
        start=base,
    )
    return choose(task, folds, held, scoring=None).members[0]
