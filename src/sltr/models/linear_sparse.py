"""Lasso and Elastic Net on the flattened tensor, solved by scikit-learn."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import ElasticNet, ElasticNetCV

from sltr._array import Array, as_array, to_numpy
from sltr.models.linear import predict_linear
from sltr.models.unchanged import unchanged_on_failure
from sltr.validation import Samples, check_nonnegative, check_samples

__all__ = ["TensorElasticNet", "TensorLasso", "check_share", "solve_linear"]


class TensorLasso(RegressorMixin, BaseEstimator):
    """Lasso on the tensor's entries.

    Solves, over coefficients W of the samples' shape and the intercept b,

        min (1/2n) Σ_i (y_i − ⟨X_i, W⟩ − b)² + α ‖W‖₁

    with scikit-learn's coordinate descent. The tensor's structure is not used.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the penalty.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, optional
        Shape (p1, …, pM) into which flat rows of X are folded.
    tol : float, default=1e-4
        Duality gap to reach, relative to the squared norm of the responses.
    max_iter : int, default=10000

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    dual_gap_ : float
        Duality gap reached, as scikit-learn reports it.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 5, 4, 3))
    >>> model = TensorLasso(alpha=0.1).fit(X, X[:, 0, 0, 0] - X[:, 1, 0, 0])
    >>> model.coef_.shape, np.flatnonzero(np.abs(model.coef_) > 0.2).tolist()
    ((5, 4, 3), [0, 12])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 10_000,
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TensorLasso:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        solver = ElasticNet(
            alpha=check_nonnegative(self.alpha, "alpha"),
            l1_ratio=1.0,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        solve_linear(self, solver, samples)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return predict_linear(self, X)


class TensorElasticNet(RegressorMixin, BaseEstimator):
    """Elastic Net on the tensor's entries.

    Solves, over coefficients W of the samples' shape and the intercept b,

        min (1/2n) Σ_i (y_i − ⟨X_i, W⟩ − b)² + α ρ ‖W‖₁ + ½ α (1 − ρ) ‖W‖²,

    ρ = `l1_ratio`,

    with scikit-learn's coordinate descent. The tensor's structure is not used. The
    squared part of the penalty depends on the units of X: scale it beforehand.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the penalty.
    l1_ratio : float, default=0.5
        Share of the entrywise norm in the penalty, from 0 to 1.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, optional
        Shape (p1, …, pM) into which flat rows of X are folded.
    tol : float, default=1e-4
        Duality gap to reach, relative to the squared norm of the responses.
    max_iter : int, default=10000

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    dual_gap_ : float
        Duality gap reached, as scikit-learn reports it.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 5, 4, 3))
    >>> model = TensorElasticNet(alpha=0.1).fit(X, X[:, 0, 0, 0] - X[:, 1, 0, 0])
    >>> model.coef_.shape, np.flatnonzero(np.abs(model.coef_) > 0.2).tolist()
    ((5, 4, 3), [0, 12])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 10_000,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TensorElasticNet:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        solver = ElasticNet(
            alpha=check_nonnegative(self.alpha, "alpha"),
            l1_ratio=check_share(self.l1_ratio),
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        solve_linear(self, solver, samples)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return predict_linear(self, X)


def check_share(l1_ratio: Any) -> float:
    """Return the one share of the entrywise norm, or say what is wrong with it."""
    share = float(l1_ratio) if isinstance(l1_ratio, Real) else -1.0
    if not 0.0 <= share <= 1.0:
        msg = (
            f"l1_ratio={l1_ratio!r} was given; expected one number from 0 to 1. To "
            "choose among several, fit a model for each and compare best_score_."
        )
        raise ValueError(msg)
    return share


def solve_linear(
    model: Any, solver: ElasticNet | ElasticNetCV, samples: Samples
) -> None:
    """Fit scikit-learn's solver, and keep what it found in the tensor's shape."""
    X, y, weight = to_numpy(samples.flat), to_numpy(samples.y), to_numpy(samples.weight)
    solver.fit(X, y, sample_weight=None if np.all(weight == 1.0) else weight)
    model.coef_ = as_array(solver.coef_.reshape(samples.shape), samples.X)
    model.intercept_ = float(solver.intercept_)
    model.n_iter_ = int(solver.n_iter_)
    model.dual_gap_ = float(solver.dual_gap_)
