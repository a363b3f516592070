"""Choosing among candidates by cross-validation: folds, the winner, the table.

Every CV estimator uses these functions, so that all methods are compared by
the same folds, the same scores and the same rules.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import check_cv

from sltr._array import to_numpy
from sltr.estimate.checks import check_choice

__all__ = [
    "Split",
    "best_index",
    "check_rule",
    "cv_table",
    "keeps_whole",
    "kept_splits",
    "record_choice",
    "splits",
]

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
    splitter = check_cv(
        _possible(cv, y) if classifier else cv, y, classifier=classifier
    )
    # Splitters look at X only for its length; y stands in for it.
    found = splitter.split(np.zeros((len(y), 1)), y, groups)
    folds = [(_rows(train), _rows(test)) for train, test in found]
    if not folds:
        msg = f"cv={cv!r} was given, which has no folds; expected at least one."
        raise ValueError(msg)
    for train, test in folds:
        if len(train) < 2 or len(test) < 1:
            msg = (
                f"A fold with {len(train)} training and {len(test)} test samples was "
                "given; expected at least 2 and 1. Use fewer folds or more samples."
            )
            raise ValueError(msg)
    return folds


def _rows(given: Any) -> np.ndarray:
    """Return row numbers; masks are others' way to give them."""
    rows = np.asarray(given)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _possible(cv: Any, y: np.ndarray) -> Any:
    """Return a number of folds that stratified ones can have, or `cv` as it is."""
    wanted = 5 if cv is None else cv
    if not isinstance(wanted, Integral):
        return cv
    largest = int(np.unique(y, return_counts=True)[1].max())
    if not 2 <= largest < int(wanted):
        return cv
    warnings.warn(
        f"{wanted} folds were asked for, and no class has more than {largest} samples: "
        f"there are {largest} folds.",
        UserWarning,
        stacklevel=6,  # the caller of SLTR's fit
    )
    return largest


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


def keeps_whole(folds: Sequence[Split], groups: Any, sample_weight: Any = None) -> bool:
    """Say whether folds of `kept_splits` have each group on one side.

    Examples
    --------
    >>> import numpy as np
    >>> folds = kept_splits(2, np.zeros(4))
    >>> [keeps_whole(folds, groups) for groups in ([0, 0, 1, 1], [0, 1, 1, 2], None)]
    [True, False, False]
    """
    if groups is None:
        return False
    kept = to_numpy(1.0 if sample_weight is None else sample_weight) > 0
    names = np.asarray(groups)[kept] if kept.ndim else np.asarray(groups)
    return not any(np.isin(names[test], names[train]).any() for train, test in folds)


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
