"""What a fitted model is judged by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from sltr.estimate import estimate
from sltr.experiments.trials import Trial
from sltr.metrics import error_bound, estimation_error, rank_error, support_f1
from sltr.tensor import numerical_ranks, unfold

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
    """‖ŷ − y‖₂ / n: what the code released with the paper reports as its MSE.

    Over the samples the model names in `scored_rows_`, else over all.
    """
    rows = getattr(model, "scored_rows_", slice(None))
    return float(np.linalg.norm(model.predict(X[rows]) - y[rows])) / len(y[rows])


def _r2(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    return r2_score(y, model.predict(X))


def _accuracy(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Share of right labels; a regression of the labels 0, 1 is cut at one half."""
    found = model.predict(X)
    return accuracy_score(y, found > 0.5 if is_regressor(model) else found)


def _auroc(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Area under the curve of the decision, or of a regression of the labels 0, 1."""
    if hasattr(model, "decision_function"):
        return roc_auc_score(y, model.decision_function(X))
    if hasattr(model, "predict_proba"):
        return roc_auc_score(y, model.predict_proba(X)[:, 1])
    return roc_auc_score(y, model.predict(X))


def _of_truth(
    measure: Callable[[np.ndarray, np.ndarray], float],
) -> Callable[[Any, np.ndarray, np.ndarray, Trial], float]:
    """Return a metric of Ŵ and W; not a number where W or Ŵ is not known."""

    def metric(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
        coef = fitted_coef(model)
        if trial.coef is None or coef is None:
            return float("nan")
        return measure(np.reshape(coef, trial.coef.shape), trial.coef)

    return metric


def _theorem_error(pilot: np.ndarray, truth: np.ndarray) -> float:
    """‖Ŵ − W‖_F / ‖W‖_F for SLTR from this pilot, with the least radii admitting W."""
    if not pilot.any():
        return float("nan")
    found = estimate(pilot, *_theorem_radii(pilot, truth))
    return estimation_error(found.coef, truth)


def _theorem_bound(pilot: np.ndarray, truth: np.ndarray) -> float:
    """Return the corollary's bound on `_theorem_error`."""
    if not pilot.any():
        return float("nan")
    ranks = [int(rank) for rank in numerical_ranks(truth)]
    bound = error_bound(truth.shape, *_theorem_radii(pilot, truth), ranks)
    return bound / float(np.linalg.norm(truth))


def _theorem_radii(pilot: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return ‖W̃ − W‖_∞ and the largest ‖(W̃ − W)_(m)‖₂: the theorem needs these."""
    away = (pilot - truth)[None]
    norms = [np.linalg.norm(unfold(away, m)[0], 2) for m in range(truth.ndim)]
    return float(np.abs(away).max()), float(max(norms))


METRICS: dict[str, Callable[[Any, np.ndarray, np.ndarray, Trial], float]] = {
    "mse": _mse,
    "relative_mse": _relative_mse,
    "released_mse": _released_mse,
    "r2": _r2,
    "accuracy": _accuracy,
    "auroc": _auroc,
    "estimation_error": _of_truth(estimation_error),
    "support_f1": _of_truth(support_f1),
    "rank_error": _of_truth(rank_error),
    "theorem_error": _of_truth(_theorem_error),
    "theorem_bound": _of_truth(_theorem_bound),
}
