"""Training data, covariates and new samples of any kind, checked."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    detached,
    device,
    explained_memory,
    is_array_api,
    is_numpy,
    real_dtype,
    to_numpy,
)
from sltr.parameters import check_shape
from sltr.samples.budget import Budget, memory_bytes
from sltr.samples.front import check_squares, largest_entry
from sltr.samples.samples import Samples, is_left_in_place, lazy_samples


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
    check_squares(largest_entry(X), X, "X", prod(X.shape))
    if not labels:
        check_squares(largest_entry(y), y, "y", 64)  # errors may be larger than y
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
    return Samples(X, y, weight).take(to_numpy(xp.nonzero(kept)[0]))


def check_foreign(
    X: Array, y: Any, *, labels: bool, min_samples: int
) -> tuple[Array, Array]:
    """Return clean samples, and responses beside them (or labels in NumPy)."""
    X = check_foreign_tensor(X)
    if y is None:
        msg = "y=None was given; expected one response for each sample."
        raise ValueError(msg)
    n_responses = len(y) if not is_array_api(y) else y.shape[0]
    if n_responses != X.shape[0] or X.shape[0] < min_samples:
        msg = (
            f"X has {X.shape[0]} samples and y {n_responses}; expected equal numbers "
            f"of at least {min_samples}."
        )
        raise ValueError(msg)
    xp = array_namespace(X)
    if labels:
        y = np.asarray(to_numpy(y) if is_array_api(y) else y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            msg = "y contains NaN or infinity; expected one label for each sample."
            raise ValueError(msg)
        return X, y
    if is_array_api(y) and not is_numpy(y):
        y = detached(y)
    else:
        check_numbers(y)
    y = xp.reshape(as_array(y, X), (-1,))
    if y.shape[0] != X.shape[0] or not bool(xp.all(xp.isfinite(y))):
        msg = "y must hold one finite number for each sample; drop or impute the rest."
        raise ValueError(msg)
    return X, y


def check_foreign_tensor(X: Array) -> Array:
    """Return samples in floating point, or say what is wrong with them."""
    X = detached(X)
    xp = array_namespace(X)
    if X.ndim < 2:
        msg = (
            f"X has shape {tuple(X.shape)}; expected (n_samples, p1, …, pM). "
            "Reshape X so that its first axis counts samples."
        )
        raise ValueError(msg)
    if xp.isdtype(X.dtype, "complex floating"):
        msg = f"Complex data not supported: X has dtype {X.dtype}. Pass real numbers."
        raise ValueError(msg)
    if prod(X.shape) == 0:
        msg = (
            f"Found array with shape {tuple(X.shape)}; expected at least one sample "
            "and one feature."
        )
        raise ValueError(msg)
    X = xp.astype(X, real_dtype(X), copy=False)
    if not bool(xp.all(xp.isfinite(X))):
        msg = (
            "X contains NaN or infinity; expected finite numbers. Impute or drop them."
        )
        raise ValueError(msg)
    return X


def check_foreign_weight(sample_weight: Any, X: Array) -> Array:
    """Return weights (n,) like X; ones where none are given."""
    xp = array_namespace(X)
    if sample_weight is None:
        return xp.ones_like(X[(slice(None), *([0] * (X.ndim - 1)))])
    if is_array_api(sample_weight):
        sample_weight = detached(sample_weight)
    weight = as_array(sample_weight, X)
    if tuple(weight.shape) != (X.shape[0],) or not bool(
        xp.all(xp.isfinite(weight) & (weight >= 0))
    ):
        msg = (
            f"sample_weight has shape {tuple(weight.shape)}; expected {(X.shape[0],)} "
            "finite numbers of at least 0."
        )
        raise ValueError(msg)
    return weight


def check_numbers(y: Any) -> None:
    """Refuse words as responses, and several for each sample; say what is for them."""
    values = np.asarray(y)
    words = []
    if values.dtype.kind in "USO":
        words = [one for one in values.ravel().tolist() if _is_word(one)]
    if words:
        msg = (
            f"y holds words, such as {str(words[0])!r}; expected numbers. For labels "
            "use a classifier, for example SLTRClassifierCV."
        )
        raise ValueError(msg)
    if values.ndim > 1 and values.shape[1:] != (1,):
        msg = (
            f"y has shape {values.shape}; expected one number for each sample. Fit a "
            "model for each response, for example by MultiOutputRegressor on flat rows."
        )
        raise ValueError(msg)


def _is_word(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def stays(estimator: Any, X: Any) -> bool:
    """Say whether samples stay where they are, for an estimator that can read them."""
    return hasattr(estimator, "memory_limit") and is_left_in_place(
        X, estimator.memory_limit
    )


def check_stored(estimator: Any, X: Any) -> Any:
    """Return samples that stay where they are; their values are checked when read."""
    if len(X.shape) < 2 or 0 in X.shape or any(np.isnan(size) for size in X.shape):
        msg = (
            f"X has shape {tuple(X.shape)}; expected (n_samples, p1, …, pM) of known "
            "sizes, at least one sample and one feature. Reshape X so that its first "
            "axis counts samples."
        )
        raise ValueError(msg)
    if np.dtype(X.dtype).kind not in "biuf":
        msg = f"X has dtype {X.dtype}; expected real numbers."
        raise ValueError(msg)
    shape = tuple(int(size) for size in X.shape[1:])
    asked = getattr(estimator, "feature_shape", None)
    if asked is not None:
        shape = check_shape(shape, asked)
    progress = getattr(estimator, "progress", None)
    budget = Budget(memory_bytes(estimator.memory_limit))
    return lazy_samples(X, shape, budget, progress)


def check_stored_responses(
    X: Any, y: Any, sample_weight: Any, labels: bool, min_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Check responses and weights of lazy samples: NumPy arrays of their dtype."""
    if y is None:
        msg = "y=None was given; expected one response for each sample."
        raise ValueError(msg)
    y = to_numpy(y)
    if not labels:
        check_numbers(y)
    y = column_or_1d(y, warn=True)
    n_samples = X.shape[0]
    if len(y) != n_samples or n_samples < min_samples:
        msg = (
            f"X has {n_samples} samples and y {len(y)}; expected equal numbers of at "
            f"least {min_samples}."
        )
        raise ValueError(msg)
    y = y if labels else y.astype(X.dtype)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        msg = "y contains NaN or infinity; expected one finite value for each sample."
        raise ValueError(msg)
    given = None if sample_weight is None else to_numpy(sample_weight)
    like = np.broadcast_to(np.zeros((), X.dtype), (n_samples, 1))
    weight = _check_sample_weight(given, like, dtype=X.dtype, ensure_non_negative=True)
    return y, weight
