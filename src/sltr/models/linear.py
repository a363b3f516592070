"""What all fitted linear tensor models share: ŷ = ⟨coef, x⟩ + intercept."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from sltr._array import Array, array_namespace, as_array, is_numpy
from sltr.design import as_matrix, inner, is_lazy, sample_shape
from sltr.tensor import flatten
from sltr.validation import check_new_samples

__all__ = ["linear_scores", "predict_linear", "set_linear"]


def linear_scores(model: Any, X: Any) -> Array:
    """Return ⟨coef, x⟩ + intercept, shape (n,), or (n, K) for K coefficients."""
    check_is_fitted(model, "coef_")
    X = check_new_samples(model, X)
    coef = model.coef_
    if not is_lazy(X) and not (is_numpy(coef) and is_numpy(X)):
        # The samples' library, device and precision; NumPy mixes its own.
        coef = as_array(coef, X)
    single = coef.ndim == len(sample_shape(X))
    scores = inner(as_matrix(X), flatten(coef[None, ...] if single else coef))
    if single:
        xp = array_namespace(scores)
        return xp.reshape(scores, (-1,)) + float(model.intercept_)
    return scores + as_array(model.intercept_, scores)


def predict_linear(model: Any, X: Any) -> Array:
    """Return the predictions of a fitted linear regressor, shape (n,)."""
    return linear_scores(model, X)


def set_linear(model: Any, coef: Array, intercept: Array) -> None:
    """Set coefficient and intercept; those of a single response lose their axis.

    A classifier's scores, fitted to 0 and 1, are moved to change sign at ½.
    """
    if is_classifier(model):
        intercept = intercept - 0.5
    single = coef.shape[0] == 1
    model.coef_ = coef[0, ...] if single else coef
    model.intercept_ = float(intercept[0]) if single else intercept
