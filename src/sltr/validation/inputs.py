"""Training data, covariates and new samples of any kind, checked."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from sltr._array import (
    Array,
    array_namespace,
    as_array,
    device,
    explained_memory,
    is_array_api,
    is_numpy,
    to_numpy,
)
from sltr.design import take_rows
from sltr.validation.foreign import (
    check_foreign,
    check_foreign_tensor,
    check_foreign_weight,
)
from sltr.validation.parameters import check_shape
from sltr.validation.responses import check_numbers
from sltr.validation.samples import Samples
from sltr.validation.stored import check_stored, check_stored_responses, stays

__all__ = ["check_covariates", "check_new_samples", "check_samples"]


def check_samples(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    labels: bool = False,
    min_samples: int = 2,
    reset: bool = True,
) -> Samples:
    """Check training data, remember its shape on the estimator, return it clean.

    Sets `n_features_in_` and `shape_in_`. NumPy input (and whatever converts to
    it) is checked by scikit-learn; arrays of other libraries stay where they
    are. What is larger than memory stays in its file or on its cluster, for
    estimators that have a `memory_limit`. Samples of weight zero are dropped.
    Without `reset` the samples must be like those the estimator has seen.
    """
    seen = None if reset else estimator.shape_in_
    samples = _checked(estimator, X, y, sample_weight, labels, min_samples, reset)
    if seen is not None:
        estimator.shape_in_ = seen
        _check_fitted_shape(estimator, samples.shape)
    return samples


def _checked(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    labels: bool,
    min_samples: int,
    reset: bool,
) -> Samples:
    if stays(estimator, X):
        X = check_stored(estimator, X)
        y, weight = check_stored_responses(X, y, sample_weight, labels, min_samples)
        estimator.n_features_in_ = X.source.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.shape_in_ = X.sample_shape
        return _drop_weightless(X, y, weight, min_samples)
    if is_array_api(X) and not is_numpy(X):
        with explained_memory():
            X, y = check_foreign(X, y, labels=labels, min_samples=min_samples)
        estimator.n_features_in_ = X.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        weight = check_foreign_weight(sample_weight, X)
    else:
        if not reset:
            _check_tensor_shape(estimator, X)
        if not labels:
            check_numbers(y)
        X, y = validate_data(
            estimator,
            X,
            y,
            dtype=(np.float64, np.float32),
            allow_nd=True,
            y_numeric=not labels,
            multi_output=False,
            ensure_min_samples=min_samples,
            reset=reset,
        )
        y = column_or_1d(y, warn=True) if labels else y.astype(X.dtype, copy=False)
        weight = _check_sample_weight(
            sample_weight, X, dtype=X.dtype, ensure_non_negative=True
        )
    if prod(X.shape) == 0:
        msg = f"Found array with shape {tuple(X.shape)}; expected at least one feature."
        raise ValueError(msg)
    X = _fold_rows(X, getattr(estimator, "feature_shape", None))
    estimator.shape_in_ = tuple(X.shape[1:])
    return _drop_weightless(X, y, weight, min_samples)


def check_covariates(
    covariates: Any,
    n_samples: int,
    like: Array,
    *,
    sample_weight: Any = None,
    n_columns: int = -1,
) -> Array:
    """Return scalar covariates as a clean array (n, q) of the library of `like`.

    Parameters
    ----------
    covariates : array of shape (n,) or (n, q), or None for q = 0
    n_samples : int
        The samples `check_samples` kept.
    like : array
    sample_weight : array of shape (n,), optional
        Rows of weight zero are dropped, as `check_samples` does.
    n_columns : int
        The number of columns a fitted model expects; -1 for any.
    """
    xp = array_namespace(like)
    given = np.zeros((n_samples, 0)) if covariates is None else to_numpy(covariates)
    clean = np.asarray(given, dtype=np.float64)
    clean = clean[:, None] if clean.ndim == 1 else clean
    if covariates is not None and np.ndim(sample_weight) == 1:
        kept = np.asarray(to_numpy(sample_weight)) > 0
        clean = clean[kept] if len(kept) == len(clean) else clean
    expected = n_columns if n_columns >= 0 else clean.shape[-1]
    if clean.shape != (n_samples, expected) or not np.isfinite(clean).all():
        msg = (
            f"covariates of shape {clean.shape} were given for {n_samples} samples; "
            f"expected finite numbers, one row for each sample and {expected} columns."
        )
        raise ValueError(msg)
    if expected == 0:  # an empty list would lose its number of columns
        return xp.zeros((n_samples, 0), dtype=like.dtype, device=device(like))
    return as_array(clean, like)


def check_new_samples(estimator: Any, X: Any) -> Array:
    """Check samples to predict for against the shape the estimator was fitted on."""
    if stays(estimator, X):
        lazy = check_stored(estimator, X)
        _check_fitted_shape(estimator, lazy.sample_shape)
        return lazy
    if is_array_api(X) and not is_numpy(X):
        X = check_foreign_tensor(X)
    else:
        _check_tensor_shape(estimator, X)
        X = validate_data(
            estimator,
            X,
            dtype=(np.float64, np.float32),
            allow_nd=True,
            reset=False,
        )
    X = _fold_rows(X, getattr(estimator, "feature_shape", None))
    _check_fitted_shape(estimator, tuple(X.shape[1:]))
    return X


def _check_fitted_shape(estimator: Any, shape: tuple[int, ...]) -> None:
    if shape != tuple(estimator.shape_in_):
        msg = (
            f"X has shape {shape} per sample; the model was fitted on "
            f"{tuple(estimator.shape_in_)}. Reshape X or refit."
        )
        if len(shape) == 1:
            msg += " For flat rows of tensors there is feature_shape."
        raise ValueError(msg)


def _check_tensor_shape(estimator: Any, X: Any) -> None:
    """Refuse other shapes where either is a tensor's.

    scikit-learn would speak of the first mode.
    """
    shape = tuple(getattr(X, "shape", ()))[1:]
    folded = getattr(estimator, "feature_shape", None) is not None
    if not folded and shape and max(len(shape), len(estimator.shape_in_)) > 1:
        _check_fitted_shape(estimator, shape)


def _fold_rows(X: Array, feature_shape: tuple[int, ...] | None) -> Array:
    if feature_shape is None:
        return X
    shape = check_shape(tuple(X.shape[1:]), feature_shape)
    return array_namespace(X).reshape(X, (X.shape[0], *shape))


def _drop_weightless(X: Any, y: Array, weight: Array, min_samples: int) -> Samples:
    xp = array_namespace(weight)
    kept = weight > 0
    n_kept = int(xp.sum(xp.astype(kept, xp.int64)))
    if n_kept < min_samples:
        msg = (
            f"{n_kept} sample(s) with a positive weight were given; "
            f"expected at least {min_samples}. Add samples or change sample_weight."
        )
        raise ValueError(msg)
    if n_kept == X.shape[0]:
        return Samples(X, y, weight)
    rows = xp.nonzero(kept)[0]
    y = y[to_numpy(kept)] if is_numpy(y) else xp.take(y, rows, axis=0)
    weight = xp.take(weight, rows, axis=0)
    return Samples(take_rows(X, to_numpy(rows)), y, weight)
