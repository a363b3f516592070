"""Choosing among candidates by cross-validation: folds, the winner, the table.

Every CV estimator uses these functions, so that all methods are compared by
the same folds, the same scores and the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import get_scorer

from sltr.arrays import to_numpy
from sltr.parameters import check_choice
from sltr.samples.samples import is_lazy
from sltr.tuning.final import Member
from sltr.tuning.held_out import HeldOut, scale_factors
from sltr.tuning.scores import (
    AT_ONCE,
    KnownClassifier,
    KnownRegressor,
    class_numbers,
    default_metric,
    fold_scores,
)
from sltr.tuning.task import Fold, Task


def check_rule(rule: Any) -> None:
    """Refuse an unknown rule, before anything is fitted."""
    check_choice("rule", rule, ("best", "1se"))


def best_index(
    scores: np.ndarray,
    *,
    rule: str = "best",
    complexity: np.ndarray | None = None,
) -> int:
    """Return the winner's index: the first best, or the simplest close to it.

    Parameters
    ----------
    scores : array of shape (F, G)
        One row per fold.
    rule : {"best", "1se"}
        "1se": the simplest candidate whose mean is within one standard error of
        the best mean; ties go to the better score.
    complexity : array of shape (G,)
        Needed for "1se"; smaller is simpler.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.5, 0.6, 0.1], [0.7, 0.62, 0.2]])
    >>> best_index(scores)
    1
    >>> best_index(scores, rule="1se", complexity=np.array([1, 2, 0]))
    0
    """
    mean = scores.mean(axis=0)
    if not np.isfinite(mean).any():
        msg = (
            "No candidate has a finite score on every fold; expected at least one. "
            "Use folds in which the score is defined (more samples, stratified)."
        )
        raise ValueError(msg)
    best = int(np.nanargmax(mean))
    if rule == "best":
        return best
    check_rule(rule)
    if complexity is None:
        msg = "rule='1se' was given without complexities; expected one for each."
        raise ValueError(msg)
    n_folds = scores.shape[0]
    spread = scores[:, best].std(ddof=1) / np.sqrt(n_folds) if n_folds > 1 else 0.0
    close = np.flatnonzero(mean >= mean[best] - spread)
    return int(min(close, key=lambda g: (complexity[g], -mean[g])))


def record_choice(
    model: Any,
    params: Mapping[str, Sequence],
    scores: np.ndarray,
    *,
    rule: str = "best",
    complexity: np.ndarray | None = None,
) -> int:
    """Set `best_score_` and `cv_results_` of a CV estimator; return the winner.

    Parameters
    ----------
    model : estimator
    params, scores
        As for `cv_table`.
    rule, complexity
        As for `best_index`.
    """
    winner = best_index(scores, rule=rule, complexity=complexity)
    model.best_score_ = float(scores[:, winner].mean())
    model.cv_results_ = cv_table(params, scores)
    return winner


def cv_table(params: Mapping[str, Sequence], scores: np.ndarray) -> dict[str, Any]:
    """Return scores as scikit-learn's `cv_results_`, one row per candidate.

    Parameters
    ----------
    params : mapping from name to G values
    scores : array of shape (F, G)
    """
    names = list(params)
    rows = zip(*params.values(), strict=True)
    table: dict[str, Any] = {f"param_{name}": _column(params[name]) for name in names}
    table["params"] = [dict(zip(names, row, strict=True)) for row in rows]
    for fold, row in enumerate(scores):
        table[f"split{fold}_test_score"] = row
    mean = scores.mean(axis=0)
    table["mean_test_score"] = mean
    table["std_test_score"] = scores.std(axis=0)
    ranked = np.where(np.isnan(mean), -np.inf, mean)
    table["rank_test_score"] = rankdata(-ranked, method="min").astype(np.int32)
    return table


def _column(values: Sequence) -> np.ma.MaskedArray:
    """Return one entry per candidate, also where a value is itself a tuple."""
    if not any(isinstance(value, tuple) for value in values):
        # Of a list, np.ma would look at each entry for a mask of its own.
        return np.ma.array(np.array(list(values)))
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return np.ma.array(column)


# Lesser ones would cost a refit and change little.
SMALLEST_VOTE = 0.1


def close_to(
    best: int, losses: np.ndarray, weight: np.ndarray, *, errors: float = 1.0
) -> np.ndarray:
    """Say which candidates held-out losses cannot tell from the best, shape (G,).

    Those whose losses exceed its own, sample by sample, by no more in the mean than
    one standard error of that mean, or `errors` of them.

    Parameters
    ----------
    best : int
    losses : array of shape (n, G)
    weight : array of shape (n,)
        A whole number counts as that many equal samples.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([[1.0, 3.0, 0.0], [1.0, 3.1, 2.1], [1.0, 3.2, 1.0]])
    >>> close_to(0, losses, np.ones(3)).tolist()
    [True, False, True]
    """
    mean, error = _excess(best, losses, weight)
    return mean <= errors * error


def votes(
    best: int, losses: np.ndarray, weight: np.ndarray, overlap: float
) -> np.ndarray:
    """Return how well held-out losses agree with being as good as the best, (G,).

    exp(−z²/2), z the mean excess over the best one's losses in standard errors, less
    `SMALLEST_VOTE`, and in units of what that leaves of one; at least zero.

    Parameters
    ----------
    best, losses, weight
        As for `close_to`.
    overlap : float
        The sum over folds of held-out samples per training sample. Folds that train
        on the same samples err alike: their mean's variance is 1 + overlap times that
        of as many independent errors (Nadeau & Bengio 2003).

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([[1.0, 2.0, 0.0], [1.0, 1.8, 2.1], [1.0, 0.7, 1.0]])
    >>> votes(0, losses, np.ones(3), overlap=1.25).round(2).tolist()
    [1.0, 0.56, 1.0]
    """
    mean, error = _excess(best, losses, weight)
    error = error * np.sqrt(1.0 + overlap)
    steps = np.divide(mean, error, out=np.full_like(mean, np.inf), where=error > 0)
    found = np.where(mean <= 0, 1.0, np.exp(-0.5 * steps**2))
    # Continuous, so that rounding decides nothing; what is not finite has none.
    left = (found - SMALLEST_VOTE) / (1.0 - SMALLEST_VOTE)
    return np.where(left > 0, left, 0.0)


def _excess(
    best: int, losses: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean excess of losses over the best one's, and its standard error."""
    share = weight / weight.sum()
    excess = losses - losses[:, [best]]
    mean = share @ excess
    count = np.maximum(weight, 1.0).sum()
    return mean, np.sqrt(share @ (excess - mean) ** 2 / count)


def shares_by_kind(kinds: Sequence, votes: np.ndarray) -> np.ndarray:
    """Return shares that sum to one: kinds by their best vote, within a kind by votes.

    Examples
    --------
    >>> import numpy as np
    >>> shares_by_kind(["a", "a", "b", "b"], np.array([True, True, True, False]))
    array([0.25, 0.25, 0.5 , 0.  ])
    >>> shares_by_kind(["a", "a", "b", "b"], np.array([1.0, 0.5, 0.0, 0.5]))
    array([0.44444444, 0.22222222, 0.        , 0.33333333])
    """
    votes = np.asarray(votes, dtype=float)
    shares = np.zeros(len(kinds))
    for kind in dict.fromkeys(kinds):
        own = np.array([other == kind for other in kinds])
        if votes[own].any():
            shares[own] = votes[own].max() * votes[own] / votes[own].sum()
    return shares / shares.sum()


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
