"""Checks for samples that stay in their file or on their cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from sltr._array import to_numpy
from sltr.design import lazy_samples, stays_where_it_is
from sltr.validation.parameters import check_shape
from sltr.validation.responses import check_numbers

__all__ = ["check_stored", "check_stored_responses", "stays"]


def stays(estimator: Any, X: Any) -> bool:
    """Say whether samples stay where they are, for an estimator that can read them."""
    return hasattr(estimator, "memory_limit") and stays_where_it_is(
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
    return lazy_samples(X, shape, estimator.memory_limit, progress)


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
