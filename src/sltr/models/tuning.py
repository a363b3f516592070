"""Tune SLTR: every candidate's held-out predictions from one Gram matrix.

Plain candidates, their refits and their scale factors are fitted on all folds
from the same preparation, and scored in one product. The stages are those of a
single fit; only their batches are larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

import numpy as np

from sltr._array import Array, array_namespace, is_numpy
from sltr.design import is_lazy
from sltr.models.candidates import Candidate
from sltr.models.folds import (
    Fold,
    Task,
    for_comparison,
    training_subsets,
    with_pilots,
)
from sltr.models.passes import lazy_rows
from sltr.models.plain import Plain, PlainEstimates, Row
from sltr.models.predicted import HeldOut, collected
from sltr.models.refit_jobs import LowRank, Sparse, reweighted_rows, row_losses
from sltr.models.refits import (
    low_rank_seeds,
    reweighted_fits,
    start_estimates,
    sweeps,
)
from sltr.models.stages import Stages

__all__ = ["held_out_predictions"]

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
