"""The pilot by itself, and the pilot thresholded: SLTR's two elementary parts."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin

from sltr._array import Array, array_namespace, as_array
from sltr.models.answer import all_of, intercepts
from sltr.models.fitting import choose_epsilon
from sltr.models.linear import predict_linear
from sltr.models.unchanged import unchanged_on_failure
from sltr.prox import soft_threshold
from sltr.ridge import ridge_system
from sltr.solvers.units import check_squares
from sltr.tensor import numerical_ranks
from sltr.validation import Samples, check_nonnegative, check_samples

__all__ = ["ElemRidge", "TensorRidge"]


class TensorRidge(RegressorMixin, BaseEstimator):
    """Ridge regression on tensors: SLTR's pilot as a model of its own.

    Solves min_W ‖y − A·vec(W)‖² + ε‖W‖², the intercept unpenalised.

    Parameters
    ----------
    epsilon : float or "loo"
        The penalty; "loo" takes the one of least leave-one-out error.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    epsilon_ : float
    shape_in_, n_features_in_

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4).reshape(4, 2, 2); y = np.arange(4.0)
    >>> TensorRidge(epsilon=1.0, fit_intercept=False).fit(X, y).coef_
    array([[0. , 0.5],
           [1. , 1.5]])
    """

    def __init__(
        self,
        epsilon: float | str = "loo",
        *,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ):
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TensorRidge:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        self.coef_ = _pilot(self, samples)
        _set_intercept(self, samples)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,) for samples of the fitted shape."""
        return predict_linear(self, X)


class ElemRidge(RegressorMixin, BaseEstimator):
    """The elementary estimator: the ridge pilot, soft-thresholded.

    Solves min_W ‖W‖₁ s.t. ‖W − W̃‖_∞ ≤ λ, with W̃ the ridge estimate: SLTR
    without its low-rank half, in closed form S_λ(W̃).

    Parameters
    ----------
    epsilon : float or "loo"
        Penalty of the pilot.
    lambda_sparse : float
        The radius λ.
    radius : {"relative", "absolute"}
        "relative": a fraction of the pilot's largest entry.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into.

    Attributes
    ----------
    coef_, pilot_ : arrays of shape (p1, …, pM)
    intercept_ : float
    epsilon_ : float
    ranks_ : tuple of int
    shape_in_, n_features_in_

    References
    ----------
    Yang, Lozano, Ravikumar. Elementary estimators for high-dimensional linear
    regression. ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4).reshape(4, 2, 2); y = np.arange(4.0)
    >>> ElemRidge(1.0, 0.5, radius="absolute", fit_intercept=False).fit(X, y).coef_
    array([[0. , 0. ],
           [0.5, 1. ]])
    """

    def __init__(
        self,
        epsilon: float | str = "loo",
        lambda_sparse: float = 0.1,
        *,
        radius: str = "relative",
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ):
        self.epsilon = epsilon
        self.lambda_sparse = lambda_sparse
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ElemRidge:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        threshold = check_nonnegative(self.lambda_sparse, "lambda_sparse")
        self.pilot_ = _pilot(self, samples)
        if self.radius == "relative":
            xp = array_namespace(samples.X)
            threshold = threshold * float(xp.max(xp.abs(self.pilot_)))
        elif self.radius != "absolute":
            msg = (
                f"radius={self.radius!r} was given; expected 'relative' or 'absolute'."
            )
            raise ValueError(msg)
        self.coef_ = soft_threshold(self.pilot_, threshold)
        self.ranks_ = numerical_ranks(self.coef_)
        _set_intercept(self, samples)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,) for samples of the fitted shape."""
        return predict_linear(self, X)


def _pilot(model: Any, samples: Samples) -> Array:
    xp = array_namespace(samples.X)
    Y = samples.y[:, None]
    check_squares(samples.y)
    system = ridge_system(
        samples.flat, Y, samples.weight, fit_intercept=model.fit_intercept
    )
    model.epsilon_ = choose_epsilon(system, model.epsilon, samples.X)
    penalty = as_array([model.epsilon_], samples.X)
    return xp.reshape(system.coefs(all_of(samples), penalty), samples.shape)


def _set_intercept(model: Any, samples: Samples) -> None:
    found = intercepts(
        model.coef_[None, None, ...],
        samples,
        samples.y[:, None],
        all_of(samples),
        model.fit_intercept,
    )
    model.intercept_ = float(found[0, 0])
