"""Cross-validation of linear tensor models that fit all candidates of a fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from sltr._array import Array, array_namespace, as_array, is_array_api, to_numpy
from sltr.design import inner
from sltr.models.selection import fold_scores, kept_splits
from sltr.tensor import flatten
from sltr.validation import Samples

__all__ = ["candidate_scores"]

Fits = tuple[Array, list[float]]


def candidate_scores(
    estimator: Any,
    samples: Samples,
    y: Any,
    sample_weight: Any,
    fit: Callable[[Samples], Fits],
) -> np.ndarray:
    """Fit every fold and score its candidates, shape (F, G).

    Parameters
    ----------
    estimator : estimator
        Its `cv`, `scoring` and `n_jobs` are used; a clone carries a candidate
        where the score needs an estimator.
    samples : Samples
    y, sample_weight : array of shape (n,)
        As given, with samples of weight zero: the folds are meant for all.
    fit : callable
        From training samples to coefficients (G, p1, …, pM) and G intercepts.
    """
    folds = kept_splits(estimator.cv, _on_host(y), _on_host(sample_weight))
    run = delayed(_score_fold)
    jobs = (run(estimator, samples, train, test, fit) for train, test in folds)
    return np.stack(Parallel(n_jobs=estimator.n_jobs)(jobs))


def _on_host(values: Any) -> Any:
    if values is None or is_array_api(values):
        return None if values is None else to_numpy(values)
    return np.asarray(values)


def _score_fold(
    estimator: Any,
    samples: Samples,
    train: np.ndarray,
    test: np.ndarray,
    fit: Callable[[Samples], Fits],
) -> np.ndarray:
    coefs, intercepts = fit(_take(samples, train))
    held_out = _take(samples, test)

    def candidate(g: int) -> Any:
        model = clone(estimator)
        model.n_features_in_ = held_out.X.shape[1]
        model.shape_in_ = held_out.shape
        model.coef_, model.intercept_ = coefs[g, ...], intercepts[g]
        return model

    predictions = to_numpy(inner(held_out.flat, flatten(coefs))) + np.array(intercepts)
    return fold_scores(
        estimator.scoring,
        to_numpy(held_out.y),
        predictions,
        weight=to_numpy(held_out.weight),
        model=candidate,
        X=held_out.X,
    )


def _take(samples: Samples, rows: np.ndarray) -> Samples:
    xp = array_namespace(samples.X)
    index = as_array(rows, samples.X, dtype=xp.int64)
    parts = (samples.X, samples.y, samples.weight)
    return Samples(*(xp.take(part, index, axis=0) for part in parts))
