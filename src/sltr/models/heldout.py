"""Stand-ins for candidates whose predictions on a fold are already known.

Scorers want an estimator; these answer with the predictions that were made for
all candidates at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

__all__ = ["KnownClassifier", "KnownRegressor"]


class KnownRegressor(RegressorMixin, BaseEstimator):
    """A regressor that knows its predictions for one set of samples."""

    def __init__(self, known: Any = None):
        self.known = known

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        """Return the known predictions, shape (n,)."""
        return _for(self.known, X)


class KnownClassifier(ClassifierMixin, BaseEstimator):
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
