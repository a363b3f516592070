"""Refits of all folds, predicted for the rows left out: one job for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from sltr._array import Array, array_namespace, to_numpy
from sltr.models.candidates import (
    SUPPORT_RIDGES,
    Candidate,
    largest_rank,
    n_parameters,
    refined,
)
from sltr.models.folds import Fold, Task, held_out_losses, training_subsets
from sltr.models.plain import Row
from sltr.models.refits import low_rank_fits, sparse_fits
from sltr.models.weighing import close_to
from sltr.refine import Sweeps
from sltr.tensor import flatten

__all__ = ["LowRank", "Sparse", "reweighted_rows", "row_losses"]

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
