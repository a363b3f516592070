"""What all fits of a tuning share, and its folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sltr._array import Array, array_namespace, as_array, to_numpy
from sltr.design import combine, inner
from sltr.estimate import Settings
from sltr.ridge import RidgeSystem
from sltr.validation import Samples

__all__ = ["Fold", "Task"]


@dataclass(frozen=True, eq=False)
class Task:
    """What all fits share: samples, responses, the prepared ridge system."""

    samples: Samples
    Y: Array  # (n, K)
    system: RidgeSystem
    fit_intercept: bool
    radius: str
    settings: Settings


@dataclass(frozen=True, eq=False)
class Fold:
    """A subset to train on and rows to predict; means of the training part."""

    subset: Array  # (n,) bool
    rows: np.ndarray
    x_mean: Array  # (P,)
    y_mean: np.ndarray  # (K,)

    @staticmethod
    def of(task: Task, train: np.ndarray, test: np.ndarray) -> Fold:
        """Prepare a fold from its rows."""
        samples = task.samples
        xp = array_namespace(samples.X)
        inside = np.zeros(samples.weight.shape[0], dtype=bool)
        inside[train] = True
        subset = as_array(inside, samples.X, dtype=xp.bool)
        weight = xp.where(subset, samples.weight, 0.0)
        share = (weight / xp.sum(weight))[None, :]
        if not task.fit_intercept:
            share = 0.0 * share
        x_mean = combine(share, samples.flat)[0, ...]
        return Fold(subset, np.asarray(test), x_mean, to_numpy(share @ task.Y)[0])

    def centred_predictions(self, task: Task, coef: Array) -> np.ndarray:
        """Return ⟨coef, x − mean⟩ for the fold's rows: (n_rows, k), coef (k, P)."""
        xp = array_namespace(coef)
        rows = as_array(self.rows, coef, dtype=xp.int64)
        X = xp.take(task.samples.flat, rows, axis=0)
        return to_numpy(inner(X, coef) - inner(self.x_mean[None, :], coef))
