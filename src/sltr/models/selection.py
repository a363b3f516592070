"""Choosing among candidates by cross-validation: folds, the winner, the table.

Every CV estimator uses these functions, so that all methods are compared by
the same folds, the same scores and the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import check_cv

from sltr._array import to_numpy
from sltr.estimate import check_choice

__all__ = [
    "Split",
    "best_index",
    "check_rule",
    "close_to",
    "cv_table",
    "kept_splits",
    "record_choice",
    "shares_by_kind",
    "splits",
    "votes",
]

# Lesser ones would cost a refit and change little.
SMALLEST_VOTE = 0.1

Split = tuple[np.ndarray, np.ndarray]


def splits(
    cv: Any, y: np.ndarray, *, groups: Any = None, classifier: bool = False
) -> list[Split]:
    """Return the folds as pairs (train rows, test rows).

    Parameters
    ----------
    cv : int, scikit-learn splitter or iterable of pairs
    y : array of shape (n,)
    groups : array of shape (n,), optional
    classifier : bool
        Whether an integer `cv` means stratified folds.
    """
    splitter = check_cv(cv, y, classifier=classifier)
    # Splitters look at X only for its length; y stands in for it.
    folds = list(splitter.split(np.zeros((len(y), 1)), y, groups))
    for train, test in folds:
        if len(train) < 2 or len(test) < 1:
            msg = (
                f"A fold with {len(train)} training and {len(test)} test samples was "
                "given; expected at least 2 and 1. Use fewer folds or more samples."
            )
            raise ValueError(msg)
    return folds


def kept_splits(
    cv: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    classifier: bool = False,
) -> list[Split]:
    """Return folds in terms of the samples of positive weight.

    `cv` (and `groups`) speak of all samples that were given, `check_samples`
    keeps those of positive weight: rows are renumbered accordingly.

    Examples
    --------
    >>> import numpy as np
    >>> [test.tolist() for _, test in kept_splits(2, np.zeros(5), [1, 0, 1, 1, 1])]
    [[0, 1], [2, 3]]
    """
    y = to_numpy(y).reshape(-1)
    folds = splits(cv, y, groups=groups, classifier=classifier)
    kept = to_numpy(1.0 if sample_weight is None else sample_weight) > 0
    if kept.all():
        return folds
    number = np.cumsum(kept) - 1
    renumbered = [(number[a[kept[a]]], number[b[kept[b]]]) for a, b in folds]
    return splits(renumbered, y[kept])


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


def close_to(best: int, losses: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Say which candidates held-out losses cannot tell from the best, shape (G,).

    Those whose losses exceed its own, sample by sample, by no more in the mean than
    one standard error of that mean.

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
    return mean <= error


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
