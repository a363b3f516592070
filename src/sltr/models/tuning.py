"""Tune SLTR: every candidate's held-out predictions from one Gram matrix.

Plain candidates, their refits and their scale factors are fitted on all folds
from the same preparation, and scored in one product. The stages are those of a
single fit; only their batches are larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
from joblib import Parallel, delayed

from sltr._array import (
    Array,
    array_namespace,
    as_array,
    is_numpy,
    singular_values,
    to_numpy,
)
from sltr.estimate import absolute_radii, estimate_path
from sltr.models.candidates import Candidate, refined
from sltr.models.folds import Fold, Task
from sltr.models.refits import (
    low_rank_fits,
    reweighted_fits,
    sparse_fits,
    start_estimates,
)
from sltr.tensor import flatten, unfold

__all__ = ["HeldOut", "held_out_predictions", "scale_factors"]

# Where low-rank refits start: fractions that denoise the pilot but keep its terms.
START_SPARSE, START_LOW = 0.3, 0.5
# Thresholds of the iterated pilot, fractions of its largest entry: it is cheap to
# iterate many at once, and the best one varies more than the radii do.
THRESHOLDS = (0.7, 0.5, 0.36, 0.26, 0.18, 0.13)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions, centred, of a fold's rows: (n_rows, K) for each candidate."""

    candidates: list[Candidate]
    values: list[list[np.ndarray]]  # by candidate, then by fold
    complexity: list[float]  # mean number of free parameters, relative to P


Row = tuple[Candidate, int, np.ndarray, float]


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
    xp = array_namespace(task.Y)
    subsets = xp.stack([fold.subset for fold in folds], axis=0)
    penalties = as_array(list(epsilons), task.Y)
    pilots = task.system.coefs(subsets, penalties)  # (F, E, K, P)
    start_given = start is not None
    start = start or refit_start(epsilons, pairs, task.radius)

    # A CPU takes one fold after another, an accelerator all of them as one batch.
    each = list(range(len(folds)))
    fold_groups = [[f] for f in each] if is_numpy(task.samples.X) else [each]
    jobs: list[Callable[[], list[Row]]] = []
    if None in refinements or "scale" in refinements:
        grid = (list(epsilons), list(pairs))
        for part in fold_groups:
            own = pilots[part[0] : part[-1] + 1, ...]
            some = [folds[f] for f in part]
            jobs.append(_Plain(task, part, some, own, *grid, measure))
    if "sparse" in refinements:
        thresholds = list(THRESHOLDS)
        if start_given or task.radius == "absolute":
            thresholds = sorted({sparse for sparse, _ in pairs})
        for f, fold in enumerate(folds):
            jobs.append(_Sparse(task, f, fold, list(epsilons), thresholds))
    low_rank = [kind for kind in ("tucker", "cp") if kind in refinements]
    n_jobs = n_jobs if is_numpy(task.samples.X) else None
    rows: list[Row] = []
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
class _Plain:
    """The paper's estimates on some folds, the whole grid for all their pilots."""

    task: Task
    places: list[int]
    folds: list[Fold]
    pilots: Array  # (F, E, K, P)
    epsilons: list[float]
    pairs: list[tuple[float, float]]
    measure: bool

    def __call__(self) -> list[Row]:
        xp = array_namespace(self.pilots)
        shape = tuple(self.pilots.shape[:3])
        flat = xp.reshape(self.pilots, (-1, *self.task.samples.shape))
        columns = zip(*self.pairs, strict=True)
        sparse, low = (as_array(column, flat) for column in columns)
        radii = absolute_radii(flat, sparse, low, self.task.radius)
        rows: list[Row] = []
        for places, found in estimate_path(flat, *radii, self.task.settings):
            coef = xp.reshape(found.coef, (*shape, len(places), -1))
            free = _free_parameters(found.coef) if self.measure else 0.0 * found.gap
            free = to_numpy(free).reshape(*shape, len(places)).mean(axis=2)
            for f, fold in enumerate(self.folds):
                rows += self._rows(f, fold, coef[f, ...], free[f], places)
        # In the grid's order, whatever the chunks: ties go to the first.
        grid = product(self.epsilons, self.pairs)
        order = {Candidate(e, *pair): i for i, (e, pair) in enumerate(grid)}
        return sorted(rows, key=lambda row: order[row[0]])

    def _rows(
        self, f: int, fold: Fold, coef: Array, free: np.ndarray, places: list[int]
    ) -> Iterator[Row]:
        xp = array_namespace(coef)
        flat = xp.reshape(coef, (-1, coef.shape[3]))
        values = fold.centred_predictions(self.task, flat)
        values = values.reshape(-1, *coef.shape[:3])
        for e, epsilon in enumerate(self.epsilons):
            for i, g in enumerate(places):
                candidate = Candidate(epsilon, *self.pairs[g])
                yield candidate, self.places[f], values[:, e, :, i], float(free[e, i])


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


def _free_parameters(coef: Array) -> Array:
    """Count a coefficient's free parameters relative to P, (Q, g).

    The fewer of its non-zero entries and of the rows its ranks need.
    """
    xp = array_namespace(coef)
    shape = tuple(coef.shape[2:])
    batch = xp.reshape(coef, (-1, *shape))
    free = xp.mean(xp.astype(flatten(batch) != 0, coef.dtype), axis=1)
    rows = 0.0 * free
    for mode, size in enumerate(shape):
        values = singular_values(unfold(batch, mode))
        largest = xp.max(values, axis=1, keepdims=True)
        kept = (values > 1e-3 * largest) & (values > 0)
        rows = rows + size * xp.sum(xp.astype(kept, coef.dtype), axis=1)
    return xp.reshape(xp.minimum(free, rows / prod(shape)), coef.shape[:2])
