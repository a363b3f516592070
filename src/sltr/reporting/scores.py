"""Scores of a fitted model with their uncertainty, beside the null model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from sltr.arrays import to_numpy
from sltr.coefficients import target_labels
from sltr.tuning.scores import fold_scores


@dataclass(frozen=True)
class Score:
    """One score, its bootstrap uncertainty, and what the null model reaches."""

    name: str
    value: float
    error: float
    low: float
    high: float
    null: float
    higher_is_better: bool
    beats_null: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """Scores, and the n responses and predictions they come from."""

    scores: list[Score]  # the headline score first
    y: np.ndarray
    predicted: np.ndarray
    decision: np.ndarray | None  # of two classes: higher for the second
    null: Any  # what the null model predicts: the training mean or commonest class
    classes: np.ndarray | None
    n_samples: int
    # Of several responses R² and RMSE of each; `y` and `predicted` are then those of
    # all, less their training means and in units of their standard deviations.
    each: dict[str, list[Score]] = field(default_factory=dict)


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    y_train: Any,
    *,
    covariates: Any = None,
    n_bootstrap: int = 1000,
) -> Outcome:
    """Score a fitted model on samples, with bootstrap errors and the null model.

    Samples are drawn again with replacement; the model stays as it is. The
    errors tell how much the score depends on these samples, not on the training.

    The null model learns from `y_train`.
    """
    check_lengths(X, y)
    beside = {} if covariates is None else {"covariates": covariates}
    guess = to_numpy(model.predict(X, **beside))
    for given in (y, y_train):
        shape = np.shape(to_numpy(given) if hasattr(given, "shape") else given)
        if prod(shape[1:]) != prod(guess.shape[1:]):
            msg = (
                f"y has shape {shape}; expected {(shape[0], *guess.shape[1:])}, as the "
                "model predicts. Give the responses that it was fitted to."
            )
            raise ValueError(msg)
    if prod(guess.shape[1:]) > 1:
        return _of_responses(model, y, guess, y_train, n_bootstrap)
    y, y_train, predicted = _labels(y), _labels(y_train), _labels(guess)
    if is_classifier(model):
        classes = _labels(getattr(model, "classes_", np.unique(y_train)))
        for labels in (y, y_train):
            _check_known(labels, classes)
        counts = [np.count_nonzero(y_train == label) for label in classes]
        null, decision = classes[np.argmax(counts)], _decision(model, X, beside)
        right = np.column_stack([predicted == y, null == y]).astype(float)
        columns = [("accuracy", "accuracy", True, np.ones(len(y)), right)]
        if decision is not None:
            truth = (y == classes[1]).astype(float)
            pair = np.column_stack([decision, np.zeros(len(y))])
            columns.insert(0, ("ROC AUC", "roc_auc", True, truth, pair))
    else:
        y, y_train = _numbers(y), _numbers(y_train)
        classes, decision, null = None, None, float(np.mean(y_train))
        predicted = predicted.astype(float)
        pair = np.column_stack([predicted, np.full(len(y), null)])
        columns = [
            ("R²", "r2", True, y, pair),
            ("RMSE", "neg_root_mean_squared_error", False, y, pair),
            ("MAE", "neg_mean_absolute_error", False, y, pair),
        ]
    draws = _draws(n_bootstrap, len(y))
    scores = [_score(*column, draws) for column in columns]
    return Outcome(scores, y, predicted, decision, null, classes, len(y))


def _of_responses(
    model: Any, y: Any, guess: Any, y_train: Any, n_bootstrap: int
) -> Outcome:
    """Score several responses: R² of all in the mean, and of each.

    A response that is NaN is not scored.
    """
    truth, guess, train = (_columns(values) for values in (y, guess, y_train))
    null = np.nanmean(train, axis=0)
    scale = np.nanstd(train, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    draws = _draws(n_bootstrap, len(truth))
    pair = np.stack([guess, np.broadcast_to(null, guess.shape)])  # (2, n, K)
    errors = (pair - truth) ** 2
    found: dict[str, list[np.ndarray]] = {"r2": [], "rmse": []}
    for rows in [np.arange(len(truth)), *draws]:
        with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a response with no value in a draw
            mse = np.nanmean(errors[:, rows], axis=1)  # (2, K)
            found["r2"].append(1.0 - mse / np.nanvar(truth[rows], axis=0))
            found["rmse"].append(np.sqrt(mse))
    r2, rmse = (np.array(found[name]) for name in ("r2", "rmse"))  # (1 + draws, 2, K)
    r2[~np.isfinite(r2)] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean = np.nanmean(r2, axis=2)
    n_responses = truth.shape[1]
    overall = _summarised(f"R², mean of {n_responses} responses", mean, True)
    names = [str(label) for label in target_labels(model)]
    if len(names) != n_responses:
        names = [str(k) for k in range(n_responses)]
    each = {
        name: [
            _summarised("R²", r2[:, :, k], True),
            _summarised("RMSE", rmse[:, :, k], False),
        ]
        for k, name in enumerate(names)
    }
    known = ~np.isnan(truth)
    shown, predicted = (((v - null) / scale)[known] for v in (truth, guess))
    return Outcome([overall], shown, predicted, None, 0.0, None, len(truth), each)


def _draws(n_bootstrap: int, n: int) -> np.ndarray:
    """Return the rows of samples drawn with replacement; the page states the seed."""
    return np.random.default_rng(0).integers(n, size=(n_bootstrap, n))


def _columns(y: Any) -> np.ndarray:
    values = to_numpy(y) if hasattr(y, "shape") else np.asarray(y)
    return np.asarray(values, float).reshape(len(values), -1)


def _summarised(name: str, values: np.ndarray, higher: bool) -> Score:
    """Return a score: of all samples, then of draws, (1 + draws, model and null)."""
    value, null = values[0].round(12) + 0.0  # adding zero makes −0 zero
    # A draw of one class alone has no ROC.
    again = values[1:][np.isfinite(values[1:]).all(axis=1)]
    if len(again) < 2:
        again = np.full((2, 2), np.nan)
    better = again[:, 0] > again[:, 1] if higher else again[:, 0] < again[:, 1]
    low, high = np.percentile(again[:, 0], (2.5, 97.5)) + 0.0
    return Score(
        name=name,
        value=float(value),
        error=_spread(again[:, 0]),
        low=float(low),
        high=float(high),
        null=float(null),
        higher_is_better=higher,
        beats_null=float(np.mean(better)),
    )


def _score(
    name: str,
    scoring: str,
    higher: bool,
    truth: np.ndarray,
    pair: np.ndarray,
    draws: np.ndarray,
) -> Score:
    sign = 1.0 if higher else -1.0
    rows = [np.arange(len(truth)), *draws]
    values = np.array([fold_scores(scoring, truth[r], pair[r]) for r in rows])
    return _summarised(name, sign * values, higher)


def _spread(values: np.ndarray) -> float:
    """Return the standard deviation; that of equal values is zero, not rounding."""
    error = float(values.std(ddof=1))
    return 0.0 if error < 1e-12 * float(np.abs(values).max()) else error


def check_lengths(X: Any, y: Any) -> None:
    """Refuse samples and responses of different number, and none at all."""
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    n_responses = len(y)
    if n_samples != n_responses or not n_samples:
        msg = (
            f"{n_samples} samples and {n_responses} responses were given; expected the "
            "same number, at least one."
        )
        raise ValueError(msg)


def _check_known(y: np.ndarray, classes: np.ndarray) -> None:
    unknown = sorted(set(y.tolist()) - set(classes.tolist()), key=repr)
    if unknown:
        msg = (
            f"Labels {', '.join(map(repr, unknown[:5]))} were given; expected those "
            f"the model knows, {', '.join(map(repr, classes.tolist()[:5]))}. Write "
            "them as in fit, and leave out samples of other classes."
        )
        raise ValueError(msg)


def _numbers(y: np.ndarray) -> np.ndarray:
    try:
        return y.astype(float)
    except ValueError:
        msg = f"Responses as {y[0]!r} were given; expected numbers, as in fit."
        raise ValueError(msg) from None


def _labels(y: Any) -> np.ndarray:
    return np.ravel(to_numpy(y) if hasattr(y, "shape") else np.asarray(y))


def _decision(model: Any, X: Any, beside: dict[str, Any]) -> np.ndarray | None:
    if len(getattr(model, "classes_", ())) != 2:
        return None
    if hasattr(model, "decision_function"):
        return np.ravel(to_numpy(model.decision_function(X, **beside))).astype(float)
    if hasattr(model, "predict_proba"):
        return to_numpy(model.predict_proba(X, **beside))[:, 1].astype(float)
    return None
