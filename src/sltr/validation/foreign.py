"""Checks for arrays of other libraries than NumPy: scikit-learn would convert them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sltr._array import (
    Array,
    array_namespace,
    as_array,
    detached,
    is_array_api,
    is_numpy,
    real_dtype,
    to_numpy,
)
from sltr.validation.responses import check_numbers

__all__ = ["check_foreign", "check_foreign_tensor", "check_foreign_weight"]


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
