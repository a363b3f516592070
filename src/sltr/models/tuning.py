"""Tune SLTR: every candidate's held-out predictions from one Gram matrix.

Plain candidates, their refits and their scale factors are fitted on all folds
from the same preparation, and scored in one product. The stages are those of a
single fit; only their batches are larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from joblib import Parallel, delayed

from sltr._array import (
    Array,
    array_namespace,
    is_numpy,
    to_numpy,
)
from sltr.design import is_lazy
from sltr.models.candidates import Candidate, refined
from sltr.models.folds import Fold, Task, with_pilots
from sltr.models.passes import lazy_rows
from sltr.models.plain import Plain, PlainEstimates, Row
from sltr.models.refits import (
    low_rank_fits,
    reweighted_fits,
    sparse_fits,
    start_estimates,
)
from sltr.tensor import flatten

__all__ = ["HeldOut", "held_out_predictions", "scale_factors"]

# Where low-rank refits start: fractions that denoise the pilot but keep its terms.
START_SPARSE, START_LOW = 0.3, 0.5
# Thresholds of the iterated pilot, fractions of its largest entry: it is cheap to
# iterate many at once, and the best one varies more than the radii do.
THRESHOLDS = (0.6, 0.4, 0.27, 0.18, 0.1, 0.05, 0.02)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions, centred, of a fold's rows: (n_rows, K) for each candidate."""

    candidates: list[Candidate]
    values: list[list[np.ndarray]]  # by candidate, then by fold
    complexity: list[float]  # mean number of free parameters, relative to P


def held_out_predictions(
    task: Task,
    folds: Sequence[Fold],
    epsilons: Sequence[float],
    pairs: Sequence[tuple[float, float]],
    refinements: Sequence[str | None],
    *,
    start: Candidate | None = None,
    measure: bool = False,
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
    n_jobs : int, optional
        Processes over folds and kinds of refits.
    progress : callable, optional
        Called with the number of stages done and their total.
    """
    if is_lazy(task.samples.X):
        grid = (list(epsilons), list(pairs))
        rows: list[Row] = lazy_rows(
            task, folds, *grid, measure=measure, n_jobs=n_jobs, progress=progress
        )
        return _collected(rows, len(folds), refinements)
    xp = array_namespace(task.Y)
    subsets = xp.stack([fold.subset for fold in folds], axis=0)
    folds, pilots = with_pilots(task, folds, epsilons)
    start_given = start is not None
    start = start or refit_start(epsilons, pairs, task.radius)

    # A CPU takes one fold after another, an accelerator all of them as one batch.
    each = list(range(len(folds)))
    fold_groups = [[f] for f in each] if is_numpy(task.samples.X) else [each]
    jobs: list[Callable[[], list[Row]]] = []
    if None in refinements or "scale" in refinements:
        for part in fold_groups:
            own = pilots[part[0] : part[-1] + 1, ...]
            some = [folds[f] for f in part]
            estimates = PlainEstimates(
                task.samples.shape,
                task.radius,
                task.settings,
                own,
                list(pairs),
                measure,
            )
            jobs.append(Plain(task, part, some, list(epsilons), estimates))
    if "sparse" in refinements:
        thresholds = list(THRESHOLDS)
        if start_given or task.radius == "absolute":
            thresholds = sorted({sparse for sparse, _ in pairs})
        for f, fold in enumerate(folds):
            jobs.append(_Sparse(task, f, fold, list(epsilons), thresholds))
    low_rank = [kind for kind in ("tucker", "cp") if kind in refinements]
    n_jobs = n_jobs if is_numpy(task.samples.X) else None
    rows = []
    if low_rank or "reweight" in refinements:
        estimates = start_estimates(task, subsets, start)
        starts = {"estimate": estimates}
        if len(task.samples.shape) > 1:
            steps = [
                _Reweight(task, f, fold, start, estimates[f, ...])
                for f, fold in enumerate(folds)
            ]
            found = list(_run(steps, n_jobs))
            starts["reweight"] = xp.stack([last for _, last in found], axis=0)
            if "reweight" in refinements:
                rows = [row for part, _ in found for row in part]
        for kind in low_rank:
            jobs.append(_LowRank(task, list(folds), kind, start, starts))
    for done, part in enumerate(_run(jobs, n_jobs), start=1):
        rows += part
        if progress is not None:
            progress(done, len(jobs))
    if not rows:
        msg = (
            f"refine={tuple(refinements)} was given for samples of shape "
            f"{task.samples.shape}; 'reweight' expects at least two modes. Add another."
        )
        raise ValueError(msg)
    return _collected(rows, len(folds), refinements)


def refit_start(
    epsilons: Sequence[float], pairs: Sequence[tuple[float, float]], radius: str
) -> Candidate:
    """Return the setting refits start from: the grid's middle penalty."""
    middle = sorted(epsilons)[len(epsilons) // 2]
    # Of absolute radii nothing is known beforehand but the grid's own middle.
    radii = (START_SPARSE, START_LOW)
    if radius == "absolute":
        radii = pairs[len(pairs) // 2]
    return Candidate(middle, *radii)


def _run(jobs: list, n_jobs: int | None) -> Iterator:
    return Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(job)() for job in jobs
    )


def _collected(
    found: Sequence[Row],
    n_folds: int,
    refinements: Sequence[str | None],
) -> HeldOut:
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
    factors = np.divide(cross, size, out=np.ones_like(size), where=size > 0)
    return np.clip(factors, 0.0, None)


@dataclass(frozen=True, eq=False)
class _Sparse:
    """The pilot iterated on one fold's residual, for all penalties and thresholds."""

    task: Task
    place: int
    fold: Fold
    epsilons: list[float]
    radii: list[float]

    def __call__(self) -> list[Row]:
        rows = []
        for epsilon in self.epsilons:
            bases = [Candidate(epsilon, sparse, 0.0) for sparse in self.radii]
            wanted = [refined("sparse", base, ()) for base in bases]
            found = sparse_fits(self.task, self.fold.subset, wanted)
            for candidates, coefs in zip(wanted, found, strict=True):
                for candidate, coef in zip(candidates, coefs, strict=True):
                    values = self.fold.centred_predictions(self.task, coef)
                    n_free = float((to_numpy(coef) != 0).mean())
                    rows.append((candidate, self.place, values, n_free))
        return rows


@dataclass(frozen=True, eq=False)
class _Reweight:
    """The pilot in its own metric on one fold; also the coefficients it ends with."""

    task: Task
    place: int
    fold: Fold
    start: Candidate
    estimates: Array  # (K, p1, …, pM)

    def __call__(self) -> tuple[list[Row], Array]:
        task = self.task
        wanted = refined("reweight", self.start, task.samples.shape)
        found = reweighted_fits(task, self.fold.subset, self.estimates)
        rows: list[Row] = []
        for candidate in wanted:
            coef = flatten(found[candidate.steps])
            values = self.fold.centred_predictions(task, coef)
            rows.append((candidate, self.place, values, 1.0))
        return rows, found[wanted[-1].steps]


@dataclass(frozen=True, eq=False)
class _LowRank:
    """One kind of low-rank refit on all folds at once."""

    task: Task
    folds: list[Fold]
    kind: str
    start: Candidate
    starts: dict[str, Array]  # (F, K, p1, …, pM)

    def __call__(self) -> list[Row]:
        task = self.task
        xp = array_namespace(task.Y)
        subsets = xp.stack([fold.subset for fold in self.folds], axis=0)
        rows = []
        shape = task.samples.shape
        wanted = refined(self.kind, self.start, shape)
        fits = low_rank_fits(task, subsets, self.start, self.kind, self.starts)
        for candidate, refit in zip(wanted, fits, strict=True):
            fitted = to_numpy(refit.fitted)
            n_samples = fitted.shape[1]
            fitted = fitted.reshape(len(self.folds), -1, n_samples)
            n_free = candidate.rank * sum(shape) / prod(shape)
            for f, fold in enumerate(self.folds):
                rows.append((candidate, f, fitted[f][:, fold.rows].T, n_free))
        return rows
