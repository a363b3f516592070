"""Cross-validation of linear tensor models that fit all candidates of a fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from sltr._array import Array, array_namespace, as_array, is_array_api, to_numpy
from sltr.design import inner
from sltr.models.selection import Split, fold_scores, splits
from sltr.tensor import flatten
from sltr.validation import Samples

__all__ = ["candidate_scores", "kept_splits"]

Fits = tuple[Array, list[float]]


def kept_splits(cv: Any, y: Any, sample_weight: Any = None) -> list[Split]:
    """Return the folds of all samples, as rows of those with a positive weight.

    A sample of weight zero is dropped before fitting, yet the folds are meant
    for the samples as given.
    """
    y = to_numpy(y) if is_array_api(y) else np.asarray(y)
    folds = splits(cv, y.ravel())
    if sample_weight is None:
        return folds
    weight = to_numpy(sample_weight) if is_array_api(sample_weight) else sample_weight
    kept = np.broadcast_to(np.asarray(weight), len(y.ravel())) > 0
    new_row = np.cumsum(kept) - 1
    return [
        (new_row[train][kept[train]], new_row[test][kept[test]])
        for train, test in folds
        if kept[train].any() and kept[test].any()
    ]


def candidate_scores(
    estimator: Any,
    samples: Samples,
    folds: list[Split],
    fit: Callable[[Samples], Fits],
) -> np.ndarray:
    """Fit every fold and score its candidates, shape (F, G).

    Parameters
    ----------
    estimator : estimator
        Its `scoring` and `n_jobs` are used; a clone carries a candidate where the
        score needs an estimator.
    samples : Samples
    folds : list of pairs of row numbers
    fit : callable
        From training samples to coefficients (G, p1, …, pM) and G intercepts.
    """
    run = delayed(_score_fold)
    jobs = (run(estimator, samples, train, test, fit) for train, test in folds)
    return np.stack(Parallel(n_jobs=estimator.n_jobs)(jobs))


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
