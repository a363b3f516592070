"""What all methods' models share: safe fits, predictions and their scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any, Literal, TypeVar, overload

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score
from sklearn.utils.validation import check_is_fitted

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.tensor import flatten
from sltr.parameters import check_choice
from sltr.samples.check import (
    check_new_samples,
    check_plain,
    explained_overflow,
    responses_in_order,
)
from sltr.samples.covariates import encoding_of
from sltr.samples.labelled import unlabelled
from sltr.samples.samples import as_design

Fit = TypeVar("Fit", bound=Callable[..., Any])


def unchanged_on_failure(fit: Fit) -> Fit:
    """Make a `fit` that fails or is interrupted leave its estimator as it was."""

    @wraps(fit)
    def guarded(model, *args, **kwargs):
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException:
            vars(model).clear()
            vars(model).update(before)
            raise

    return guarded  # type: ignore[return-value]


def linear_scores(model: Any, X: Any) -> Array:
    """Return ⟨coef, x⟩ + intercept, shape (n,), or (n, K) for K coefficients."""
    check_is_fitted(model, "coef_")
    design = as_design(check_new_samples(model, X))
    coef, shape_out = model.coef_, getattr(model, "shape_out_", ())
    if shape_out:
        xp = array_namespace(coef)
        columns = xp.reshape(coef, (-1, prod(shape_out)))
        scores = design.inner(xp.matrix_transpose(columns))
        return scores + as_array(xp.reshape(model.intercept_, (-1,)), scores)
    single = coef.ndim == len(model.shape_in_)
    scores = design.inner(flatten(coef[None, ...] if single else coef))
    if single:
        xp = array_namespace(scores)
        return xp.reshape(scores, (-1,)) + float(model.intercept_)
    return scores + as_array(model.intercept_, scores)


def scores_with_covariates(model: Any, X: Any, covariates: Any = None) -> Array:
    """Return ⟨coef, x⟩ + ⟨γ, z⟩ + intercept, shape (n,), or (n, K)."""
    scores = linear_scores(model, X)
    Z = encoding_of(model).encode(covariates, scores.shape[0])
    if Z.shape[1] == 0:
        return scores
    slopes = as_array(model.covariate_coef_, scores)
    xp = array_namespace(slopes)
    if slopes.ndim > 1:
        slopes = xp.matrix_transpose(xp.reshape(slopes, (-1, slopes.shape[-1])))
    return scores + as_array(Z, scores) @ slopes


def tensor_predictions(model: Any, X: Any, covariates: Any = None) -> Array:
    """Return predictions (n, q1, …, qQ), or (n,) of numbers and of expected counts."""
    scores = scores_with_covariates(model, X, covariates)
    if getattr(model, "family", None) is not None:
        from sltr.core.families import FAMILIES

        return FAMILIES[model.family].mean(scores)
    # A model of an earlier version has no shape of responses.
    shape_out = getattr(model, "shape_out_", ())
    return array_namespace(scores).reshape(scores, (scores.shape[0], *shape_out))


def _truth(y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return responses or labels to score by, and weights, as NumPy arrays."""
    truth = to_numpy(check_plain(unlabelled(y)[0], "y"))
    weight = check_plain(sample_weight, "sample_weight")
    return truth, None if weight is None else to_numpy(weight)


def _score(
    metric: Callable, model: Any, X: Any, y: Any, weight: Any, covariates: Any = None
) -> float:
    """Return a metric of a model's predictions; arrays may be on a device."""
    predicted = _predicted(model, X, covariates)
    truth, weight = _truth(y, weight)
    with explained_overflow():
        return float(metric(truth, predicted, sample_weight=weight))


def _predicted(model: Any, X: Any, covariates: Any) -> np.ndarray:
    """Return predictions; not every `predict` has an argument for covariates."""
    beside = {} if covariates is None else {"covariates": covariates}
    return to_numpy(model.predict(X, **beside))


class PlainRegressor(RegressorMixin):
    """A regressor that predicts from the samples alone."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions; arrays may be on a device."""
        return _score(r2_score, self, X, y, sample_weight)


class PlainClassifier(ClassifierMixin):
    """A classifier that predicts from the samples alone."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of labels predicted right; arrays may be on a device."""
        return _score(accuracy_score, self, X, y, sample_weight)


class RegressorBeside(RegressorMixin):
    """A regressor that may predict from covariates beside the samples."""

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None
    ) -> float:
        """Return R² of the predictions; arrays may be on a device."""
        return _score(r2_score, self, X, y, sample_weight, covariates)


class TensorResponses(RegressorMixin):
    """A regressor of responses of any shape, perhaps beside covariates."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        family = getattr(self, "family", None)
        counts = isinstance(family, str) and family == "poisson"
        tags.target_tags.positive_only = counts
        tags.target_tags.multi_output = not counts
        return tags

    @overload
    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        *,
        multioutput: Literal["raw_values"],
    ) -> np.ndarray: ...

    @overload
    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        *,
        multioutput: Any = "uniform_average",
    ) -> float: ...

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        *,
        multioutput: Any = "uniform_average",
    ) -> float | np.ndarray:
        """Return R² of the predictions; of counts D², the deviance explained.

        `multioutput` is scikit-learn's: "uniform_average", the mean over all
        responses; "variance_weighted"; "raw_values", one for each response in their
        shape; or weights of the responses, in that shape or flat. Columns of a table
        are put in the order of the fit.
        """
        shape_out = getattr(self, "shape_out_", ())
        predicted = _predicted(self, X, covariates)
        truth, weight = _truth(responses_in_order(self, y), sample_weight)
        if truth.ndim == 0 or (shape_out and truth.shape[1:] != shape_out):
            msg = (
                f"y has shape {truth.shape}; expected responses of the fitted shape "
                f"{shape_out} for each sample."
            )
            raise ValueError(msg)
        rows = len(truth), prod(shape_out)
        if shape_out:
            truth, predicted = truth.reshape(rows), predicted.reshape(rows)
        if not isinstance(multioutput, str):
            multioutput = np.ravel(multioutput)
        if getattr(self, "missing_y", "error") != "error" and np.isnan(truth).any():
            # Each response on the samples in which it was measured.
            flat = truth.reshape(len(truth), -1), predicted.reshape(len(truth), -1)
            pairs = zip(flat[0].T, flat[1].T, strict=True)
            parts = np.array([_r2_part(one, other, weight) for one, other in pairs])
            found = _averaged(parts[:, 0], parts[:, 1], multioutput)
            return np.reshape(found, shape_out) if np.ndim(found) else float(found)
        if getattr(self, "family", None) is not None:
            return float(
                d2_tweedie_score(truth, predicted, sample_weight=weight, power=1)
            )
        with explained_overflow():
            found = r2_score(
                truth, predicted, sample_weight=weight, multioutput=multioutput
            )
        raw = isinstance(multioutput, str) and multioutput == "raw_values"
        return np.reshape(found, shape_out) if raw else float(found)


def _r2_part(
    truth: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None
) -> tuple[float, float]:
    """Return R² and the variance of one response where it was measured."""
    known = ~np.isnan(truth)
    share = np.ones(len(truth)) if weight is None else weight
    score = r2_score(truth[known], predicted[known], sample_weight=share[known])
    mean = np.average(truth[known], weights=share[known])
    return score, float(share[known] @ (truth[known] - mean) ** 2)


def _averaged(scores: np.ndarray, variances: np.ndarray, how: Any) -> Any:
    """Return the average of scores that scikit-learn's `multioutput` asks for."""
    if not isinstance(how, str):
        return np.average(scores, weights=how)
    if how == "raw_values":
        return scores
    check_choice("multioutput", how, ("uniform_average", "variance_weighted"))
    return np.average(scores, weights=variances if how == "variance_weighted" else None)


class ClassifierBeside(ClassifierMixin):
    """A classifier that may predict from covariates beside the samples."""

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None
    ) -> float:
        """Return the share of labels predicted right; arrays may be on a device."""
        return _score(accuracy_score, self, X, y, sample_weight, covariates)
