"""Scores of all candidates of a fold, higher is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from inspect import signature
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.metrics import get_scorer, roc_auc_score

_SQUARED = "neg_mean_squared_error"
_SCORED_BY = {_SQUARED: "minus MSE", "d2": "D²", "neg_mean_deviance": "minus deviance"}
# What `scoring=None` stands for, where it is neither R² nor accuracy.
_DEFAULTS = {
    "SLTRClassifierCV": "R² of the classes' indicators",
    "TensorLassoCV": "minus MSE",
    "TensorElasticNetCV": "minus MSE",
}


def metric_name(model: Any) -> str:
    """Return what the `best_score_` of a tuned estimator measures.

    Examples
    --------
    >>> from sltr import SLTRRegressorCV
    >>> [metric_name(SLTRRegressorCV(scoring=name)) for name in (None, "max_error")]
    ['R²', 'max_error']
    """
    scoring = getattr(model, "scoring", None)
    if scoring is None and getattr(model, "scored_by_", None) in _SCORED_BY:
        return _SCORED_BY[model.scored_by_]
    of_sltr = type(model).__name__ in ("SLTRRegressorCV", "SLTRClassifierCV")
    if scoring is None and of_sltr and getattr(model, "family", None) is not None:
        return "D²"
    if scoring is None:
        default = "accuracy" if hasattr(model, "classes_") else "R²"
        return _DEFAULTS.get(type(model).__name__, default)
    named = isinstance(scoring, str)
    return scoring if named else getattr(scoring, "__name__", "score")


def default_metric(folds: Iterable[Sized], *, likelihood: bool = False) -> str:
    """Return what regressions are scored by on folds of these held-out rows.

    R², but a single sample has no variance: then the squared error. Of a likelihood
    the same of its deviance.

    Examples
    --------
    >>> default_metric([[0, 1], [2, 3]]), default_metric([[0], [1]])
    ('r2', 'neg_mean_squared_error')
    """
    single = min(map(len, folds)) <= 1
    if likelihood:
        return "neg_mean_deviance" if single else "d2"
    return _SQUARED if single else "r2"


def fold_scores(
    scoring: str | Callable | None,
    y: np.ndarray,
    predictions: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    model: Callable[[int], Any] | None = None,
    X: Any = None,
    default: str = "r2",
) -> np.ndarray:
    """Score all candidates of one fold, higher is better.

    `predictions` (n, G) hold a column per candidate: predictions of the responses y
    (n,), or decision scores about ½ of labels 0 and 1. Common names are computed for
    all candidates at once; for another `scoring`, `model(g)` returns candidate g as a
    fitted estimator and `X` are the fold's samples. `default` is what None stands for.
    """
    name = default if scoring is None else scoring
    if isinstance(name, str) and name in AT_ONCE:
        share = np.ones(len(y)) if weight is None else np.asarray(weight, float)
        return AT_ONCE[name](y, predictions, share / share.sum())
    if model is None:
        msg = f"scoring={scoring!r} was given; expected one of {sorted(AT_ONCE)}."
        raise ValueError(msg)
    scorer = get_scorer(name)
    weighted = weight is not None and _takes_weights(scorer)
    extra = {"sample_weight": weight} if weighted else {}
    candidates = map(model, range(predictions.shape[1]))
    return np.array([_score(scorer, c, X, y, extra) for c in candidates])


def _score(scorer: Callable, model: Any, X: Any, y: Any, extra: dict) -> float:
    """Return a scorer's number; say so if the model has not what the scorer needs."""
    try:
        value = scorer(model, X, y, **extra)
    except (AttributeError, IndexError, TypeError) as error:
        kind = "classifier" if is_classifier(model) else "regressor"
        msg = (
            f"scoring={scorer} was given, which cannot score this {kind}: {error}. "
            f"Expected a scorer of {kind}s, called with a model, X and y; choose one."
        )
        raise ValueError(msg) from error
    if np.ndim(value) or not np.issubdtype(np.asarray(value).dtype, np.number):
        msg = (
            f"scoring={scorer} returned {value!r}; expected one number. Let it return "
            "a float, higher for a better model."
        )
        raise ValueError(msg)
    return float(value)


def _takes_weights(scorer: Callable) -> bool:
    parameters = signature(getattr(scorer, "_score_func", scorer)).parameters
    return "sample_weight" in parameters or any(
        parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _mse(y: np.ndarray, predictions: np.ndarray, share: np.ndarray) -> np.ndarray:
    return share @ (predictions - y[:, None]) ** 2


def _r2(y: np.ndarray, predictions: np.ndarray, share: np.ndarray) -> np.ndarray:
    # About the first one: responses that are all equal leave exact zeros.
    rest = y - y[0]
    variance = share @ (rest - share @ rest) ** 2
    mse = _mse(y, predictions, share)
    if variance == 0.0:  # scikit-learn's convention for a constant response
        return np.where(mse == 0.0, 1.0, 0.0)
    return 1.0 - mse / variance


def _check_labels(y: np.ndarray) -> None:
    other = y[(y != 0.0) & (y != 1.0)]
    if len(other):
        msg = (
            f"A score of labels was asked for responses such as {other[0]:g}; expected "
            "0 and 1. Use a score of numbers, such as 'r2', or a classifier."
        )
        raise ValueError(msg)


def _accuracy(y: np.ndarray, scores: np.ndarray, share: np.ndarray) -> np.ndarray:
    _check_labels(y)
    return share @ ((scores > 0.5) == (y[:, None] > 0.5))


def _roc_auc(y: np.ndarray, scores: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Mann–Whitney's statistic; ties count one half."""
    _check_labels(y)
    positive = y > 0.5
    if positive.all() or not positive.any():
        return np.full(scores.shape[1], np.nan)
    if np.ptp(share) == 0.0:
        n_positive = int(positive.sum())
        ranks = rankdata(scores, axis=0)
        wins = ranks[positive].sum(axis=0) - n_positive * (n_positive + 1) / 2
        return wins / (n_positive * (len(y) - n_positive))
    return np.array(
        [
            roc_auc_score(positive, column, sample_weight=share)
            if np.isfinite(column).all()
            else np.nan
            for column in scores.T
        ]
    )


AT_ONCE: dict[str, Callable] = {
    "r2": _r2,
    "neg_mean_squared_error": lambda y, p, share: -_mse(y, p, share),
    "neg_root_mean_squared_error": lambda y, p, share: -np.sqrt(_mse(y, p, share)),
    "neg_mean_absolute_error": lambda y, p, share: -(share @ np.abs(p - y[:, None])),
    "accuracy": _accuracy,
    "roc_auc": _roc_auc,
}


def label_scores(indicators: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return area under the ROC curve and accuracy of scores (n, K) about ½.

    `indicators` (n, K) are 0 and 1: one column for two classes, else one for each,
    whose areas are averaged. NaN where a class is not among these samples.

    Examples
    --------
    >>> label_scores(np.array([[0.0], [1.0]]), np.array([[0.2], [0.4]]))
    {'roc_auc': 1.0, 'accuracy': 0.5}
    """
    pairs = list(zip(indicators.T, predicted.T, strict=True))
    area = np.mean([fold_scores("roc_auc", y, p[:, None])[0] for y, p in pairs])
    if len(pairs) == 1:
        right = fold_scores("accuracy", indicators[:, 0], predicted)[0]
    else:
        right = np.mean(indicators.argmax(axis=1) == predicted.argmax(axis=1))
    return {"roc_auc": float(area), "accuracy": float(right)}


class FixedRegressor(RegressorMixin, BaseEstimator):
    """A regressor that knows its predictions for one set of samples."""

    def __init__(self, known: Any = None):
        self.known = known

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        """Return the known predictions, shape (n,)."""
        return _for(self.known, X)


class FixedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that knows its least-squares scores for one set of samples."""

    def __init__(self, known: Any = None, classes: Any = None):
        self.known = known
        self.classes = classes

    @property
    def classes_(self) -> np.ndarray:
        """The class labels."""
        return self.classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: about zero for two classes, else (n, n_classes)."""
        known = _for(self.known, X)
        return known[:, 0] - 0.5 if known.shape[1] == 1 else known

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return scores cut to probabilities; only the final model is calibrated."""
        known = np.clip(_for(self.known, X), 1e-3, 1.0 - 1e-3)
        if known.shape[1] == 1:
            return np.column_stack([1.0 - known, known])
        return known / known.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of the largest scores."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]


def _for(known: np.ndarray, X: Any) -> np.ndarray:
    if len(X) != len(known):
        msg = (
            f"A scorer asked for predictions of {len(X)} samples; the fold has "
            f"{len(known)}. Use a scorer that scores the samples it is given."
        )
        raise ValueError(msg)
    return known


def class_numbers(indicators: np.ndarray) -> np.ndarray:
    """Return each sample's place among the classes, from its indicators."""
    single = indicators.shape[1] == 1
    return indicators[:, 0].astype(int) if single else indicators.argmax(axis=1)
