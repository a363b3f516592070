"""What a fitted model is judged by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from sltr.experiments.trials import Trial

__all__ = ["METRICS", "fitted_coef", "score_model"]


def score_model(
    model: Any, trial: Trial, metrics: tuple[str, ...], scored_on: str
) -> dict[str, float]:
    """Return the metrics of a fitted model on the test or the training samples."""
    if scored_on not in ("test", "train"):
        msg = f"scored_on={scored_on!r} was given; expected 'test' or 'train'."
        raise ValueError(msg)
    test = scored_on == "test"
    X, y = (trial.X_test, trial.y_test) if test else (trial.X, trial.y)
    return {name: float(METRICS[name](model, X, y, trial)) for name in metrics}


def fitted_coef(model: Any) -> np.ndarray | None:
    """Return the coefficient of a model, or of the best one a search found."""
    return getattr(getattr(model, "best_estimator_", model), "coef_", None)


def _mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


def _relative_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Mean squared error over that of the training mean: the null model has 1."""
    return _mse(model, X, y, trial) / float(np.mean((y - np.mean(trial.y)) ** 2))


def _released_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """‖ŷ − y‖₂ / n: what the code released with the paper reports as its MSE."""
    return float(np.linalg.norm(model.predict(X) - y)) / len(y)


def _r2(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    return r2_score(y, model.predict(X))


def _accuracy(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    return accuracy_score(y, model.predict(X))


def _auroc(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Area under the curve of the decision, or of a regression of the labels 0, 1."""
    if hasattr(model, "decision_function"):
        return roc_auc_score(y, model.decision_function(X))
    if hasattr(model, "predict_proba"):
        return roc_auc_score(y, model.predict_proba(X)[:, 1])
    return roc_auc_score(y, model.predict(X))


def _estimation_error(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """‖Ŵ − W‖_F / ‖W‖_F; not a number where W is not known or nothing is fitted."""
    coef = fitted_coef(model)
    if trial.coef is None or coef is None:
        return float("nan")
    error = np.reshape(coef, trial.coef.shape) - trial.coef
    return float(np.linalg.norm(error) / np.linalg.norm(trial.coef))


METRICS: dict[str, Callable[[Any, np.ndarray, np.ndarray, Trial], float]] = {
    "mse": _mse,
    "relative_mse": _relative_mse,
    "released_mse": _released_mse,
    "r2": _r2,
    "accuracy": _accuracy,
    "auroc": _auroc,
    "estimation_error": _estimation_error,
}
