"""Class labels as least-squares responses, and scores as probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.multiclass import check_classification_targets

from sltr.arrays import Array, as_array, to_numpy
from sltr.tuning.folds import Split
from sltr.tuning.scores import class_numbers

SMALLEST_SLOPE = 1e-3  # of log-odds per standard deviation of the scores


def label_indicators(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and 0/1 responses: (n, 1) for two classes, else (n, K).

    Examples
    --------
    >>> classes, indicators = label_indicators(["b", "a", "b"])
    >>> classes.tolist(), indicators[:, 0].tolist()
    (['a', 'b'], [1.0, 0.0, 1.0])
    """
    labels = to_numpy(y)
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        msg = (
            f"y holds labels of one class only, {classes.tolist()}, among samples of "
            "positive weight; expected at least two. Add samples of another class."
        )
        raise ValueError(msg)
    return classes, indicators_among(classes, labels)


def indicators_among(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return 0/1 responses (n, 1) or (n, K) of labels that are among the classes."""
    one_hot = (labels[:, None] == classes).astype(float)
    return one_hot[:, 1:] if len(classes) == 2 else one_hot


def label_shift(n_responses: int, fit_intercept: bool) -> float:
    """Return what to subtract from the classes' indicators before a regression.

    Without an intercept, 0 and 1 would treat two classes differently; ±½ do not.
    """
    return 0.0 if fit_intercept or n_responses > 1 else 0.5


def winning_labels(classes: np.ndarray, decision: Array) -> np.ndarray:
    """Return labels from decision values: (n,) about zero, or (n, K).

    Examples
    --------
    >>> import numpy as np
    >>> winning_labels(np.array(["a", "b"]), np.array([-0.2, 0.4])).tolist()
    ['a', 'b']
    """
    decision = to_numpy(decision)
    codes = decision > 0 if decision.ndim == 1 else decision.argmax(axis=1)
    return classes[codes.astype(int)]


def calibration_folds(indicators: np.ndarray, n_splits: int = 5) -> list[Split]:
    """Return stratified folds; none if a class is too small."""
    codes = class_numbers(indicators)
    smallest = int(np.unique(codes, return_counts=True)[1].min())
    n_splits = min(n_splits, smallest)
    if n_splits < 2:
        return []
    return list(StratifiedKFold(n_splits).split(codes, codes))


def calibrated_scores(scores: Array, sigmoids: np.ndarray) -> Array:
    """Return calibrated log-odds of scores (n,) or (n, K)."""
    lines = as_array(sigmoids, scores)
    if scores.ndim == 1:
        return scores * lines[0, 0] + lines[0, 1]
    return scores * lines[:, 0] + lines[:, 1]


def fit_sigmoids(
    scores: np.ndarray, indicators: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Fit Platt's sigmoids to out-of-fold scores; rows (slope, offset), shape (K, 2).

    Each class is fitted with targets pulled slightly towards one half, as Platt
    proposed, so that separable scores keep a finite slope.
    """
    fitted = []
    share_of = weight / weight.sum()
    for k in range(indicators.shape[1]):
        target = indicators[:, k] > 0.5
        n_positive, n_negative = weight[target].sum(), weight[~target].sum()
        high = (n_positive + 1.0) / (n_positive + 2.0)
        low = 1.0 / (n_negative + 2.0)
        share = np.where(target, high, low)
        # Scores of unit size about zero: the offset stays right if the slope is cut.
        middle, spread = _location(scores[:, k], weight)
        column = (scores[:, k] - middle) / spread
        # A fractional target is two samples, one of each label.
        model = LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-8).fit(
            np.concatenate([column, column])[:, None],
            np.repeat([1, 0], len(target)),
            sample_weight=np.concatenate([weight * share, weight * (1.0 - share)]),
        )
        slope, offset = float(model.coef_[0, 0]), float(model.intercept_[0])
        if slope < SMALLEST_SLOPE:
            # A score may not speak against its own class, whatever a few samples say.
            slope, offset = SMALLEST_SLOPE, float(logit(share_of @ share))
        fitted.append((slope / spread, offset - slope * middle / spread))
    return np.array(fitted)


def _location(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return weighted mean and deviation; that of equal values counts as one."""
    mean = float(np.average(values, weights=weight))
    spread = float(np.average((values - mean) ** 2, weights=weight)) ** 0.5
    return mean, spread if spread > 1e-10 * abs(mean) else 1.0


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return class probabilities, shape (n, K), from log-odds (n,) or (n, K).

    Examples
    --------
    >>> import numpy as np
    >>> probabilities(np.array([0.0, 800.0]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    each = expit(logits)
    if each.ndim == 1:
        return np.column_stack([1.0 - each, each])
    total = each.sum(axis=1, keepdims=True)
    return np.where(
        total > 0, each / np.where(total > 0, total, 1.0), 1 / each.shape[1]
    )
