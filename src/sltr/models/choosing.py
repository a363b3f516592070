"""Score SLTR's candidates on held-out predictions and choose among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer

from sltr._array import to_numpy
from sltr.design import is_lazy
from sltr.estimate.checks import check_choice
from sltr.models.answer import Member
from sltr.models.folds import Fold, Task
from sltr.models.heldout import KnownClassifier, KnownRegressor
from sltr.models.labels import class_numbers
from sltr.models.predicted import HeldOut, scale_factors
from sltr.models.scoring import AT_ONCE, default_metric, fold_scores
from sltr.models.selection import best_index
from sltr.models.weighing import close_to, shares_by_kind, votes

__all__ = ["Choice", "check_choosing", "choose"]

RULES = ("average", "vote", "best", "1se")


@dataclass(frozen=True, eq=False)
class Choice:
    """The best candidate, the answer's members, and everyone's scores."""

    index: int
    members: list[Member]  # the best one first
    weights: np.ndarray  # (C,), shares in the answer
    scores: np.ndarray  # (F, C)
    held_out: list[np.ndarray]  # the answer's predictions, by fold, (n_rows, K)


def check_choosing(scoring: Any, rule: Any) -> None:
    """Refuse unknown names before anything is fitted."""
    check_choice("rule", rule, RULES)
    if isinstance(scoring, str):
        get_scorer(scoring)
    elif scoring is not None and not callable(scoring):
        msg = f"scoring={scoring!r} was given; expected a name, a callable or None."
        raise ValueError(msg)


def choose(
    task: Task,
    folds: Sequence[Fold],
    held: HeldOut,
    *,
    scoring: str | Callable | None,
    classes: np.ndarray | None = None,
    rule: str = "best",
    weighted: bool = False,
) -> Choice:
    """Return the candidate of the best mean score, or a mean of those near it.

    Parameters
    ----------
    scoring : str, callable or None
        None: R², of class indicators for a classifier, finer than accuracy; the
        negative squared error if a fold is a single sample.
    classes : array, optional
        The labels, for a classifier.
    rule : {"average", "vote", "best", "1se"}
    weighted : bool
        Whether scores take the samples' weights.
    """
    Y, weight = to_numpy(task.Y), to_numpy(task.samples.weight)
    targets = [Y[fold.rows] - fold.y_mean for fold in folds]
    weights = [weight[fold.rows] for fold in folds]
    default = default_metric(fold.rows for fold in folds)
    scores, losses = [], []
    for f, fold in enumerate(folds):
        others = [g for g in range(len(folds)) if g != f] or [f]
        columns = []
        for candidate, values in zip(held.candidates, held.values, strict=True):
            factor: np.ndarray | float = 1.0
            if candidate.refine == "scale":
                factor = scale_factors(
                    *([part[g] for g in others] for part in (values, targets, weights))
                )
            columns.append(factor * values[f] + fold.y_mean)
        predictions = np.stack(columns, axis=2)
        own = weights[f] if weighted else None
        scores.append(_scores(task, fold, predictions, scoring, default, classes, own))
        losses.append(((predictions - Y[fold.rows][:, :, None]) ** 2).sum(axis=1))
    table = np.array(scores)
    index = best_index(
        table,
        rule="1se" if rule == "1se" else "best",
        complexity=np.array(held.complexity),
    )
    shares = np.zeros(len(held.candidates))
    shares[index] = 1.0
    if rule in ("average", "vote"):
        all_losses = (np.concatenate(losses), np.concatenate(weights))
        if rule == "average":
            chosen = close_to(index, *all_losses)
        else:
            chosen = votes(index, *all_losses, _overlap(weight, folds))
        if chosen.any():  # else no errors are finite
            shares = shares_by_kind([c.refine for c in held.candidates], chosen)
    order = [index, *(g for g in np.flatnonzero(shares).tolist() if g != index)]
    members = []
    found = [
        np.zeros_like(target) + fold.y_mean
        for target, fold in zip(targets, folds, strict=True)
    ]
    for g in order:
        scale = None
        if held.candidates[g].refine == "scale":
            scale = scale_factors(held.values[g], targets, weights)
        members.append(Member(held.candidates[g], float(shares[g]), scale))
        share = shares[g] * (1.0 if scale is None else scale)
        found = [
            mean + share * values
            for mean, values in zip(found, held.values[g], strict=True)
        ]
    return Choice(index, members, shares, table, found)


def _overlap(weight: np.ndarray, folds: Sequence[Fold]) -> float:
    """Return the sum over folds of held-out samples per training sample."""
    return sum(
        weight[fold.rows].sum() / weight[to_numpy(fold.subset)].sum() for fold in folds
    )


def _scores(
    task: Task,
    fold: Fold,
    predictions: np.ndarray,
    scoring: str | Callable | None,
    default: str,
    classes: np.ndarray | None,
    weight: np.ndarray | None,
) -> np.ndarray:
    """Score one fold: predictions of shape (n_rows, K, C)."""
    Y = to_numpy(task.Y)[fold.rows]
    n_responses = Y.shape[1]
    at_once = isinstance(scoring, str) and scoring in AT_ONCE
    if scoring is None or (n_responses == 1 and at_once):
        each = [
            fold_scores(
                scoring, Y[:, k], predictions[:, k, :], weight=weight, default=default
            )
            for k in range(n_responses)
        ]
        return np.mean(each, axis=0)

    def model(g: int) -> Any:
        known = predictions[:, :, g]
        if classes is None:
            return KnownRegressor(known[:, 0])
        return KnownClassifier(known, classes)

    # A name would score the first indicator; its scorer sees labels of all classes.
    return fold_scores(
        get_scorer(scoring),
        Y[:, 0] if classes is None else classes[class_numbers(Y)],
        predictions[:, 0, :],
        weight=weight,
        model=model,
        X=_shown_to_scorers(task, fold),
    )


def _shown_to_scorers(task: Task, fold: Fold) -> np.ndarray:
    """Return the fold's samples; of lazy ones only that many empty rows."""
    if is_lazy(task.samples.X):
        return np.empty((len(fold.rows), 0))
    return to_numpy(task.samples.X[fold.rows, ...])
