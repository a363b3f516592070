"""Lasso and Elastic Net with their penalty chosen by scikit-learn's path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import ElasticNetCV

from sltr._array import Array, to_numpy
from sltr.models.linear import predict_linear
from sltr.models.linear_sparse import check_share, solve_linear
from sltr.models.selection import cv_table, kept_splits
from sltr.models.unchanged import unchanged_on_failure
from sltr.validation import (
    Samples,
    centre,
    check_count,
    check_nonnegative,
    check_samples,
    check_sequence,
)

__all__ = ["TensorElasticNetCV", "TensorLassoCV"]


class TensorLassoCV(RegressorMixin, BaseEstimator):
    """`TensorLasso` with its weight chosen by cross-validated squared error.

    Parameters
    ----------
    alphas : sequence of float, optional
        Candidate weights. By default `n_alphas` values, on a log scale from the
        smallest that makes the coefficient zero down to a thousandth of it.
    n_alphas : int, default=100
    cv : int, scikit-learn splitter or iterable of splits, default=5
    fit_intercept, feature_shape, tol, max_iter
        As for `TensorLasso`.
    n_jobs : int, optional
        Folds fitted at the same time, as in joblib.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `TensorLasso`, of the best candidate on all samples.
    alpha_ : float
        The weight chosen.
    best_score_ : float
        Its mean score over the folds, minus the mean squared error.
    cv_results_ : dict
        One row for each candidate, with scikit-learn's keys.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0] + 0.1 * rng.normal(size=60)
    >>> TensorLassoCV(n_alphas=20).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        alphas: Sequence[float] | None = None,
        *,
        n_alphas: int = 100,
        cv: Any = 5,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        n_jobs: int | None = None,
    ):
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> TensorLassoCV:
        """Choose the weight, then fit; `groups` are passed to the splitter."""
        _fit_path(self, X, y, sample_weight, groups, 1.0)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return predict_linear(self, X)


class TensorElasticNetCV(RegressorMixin, BaseEstimator):
    """`TensorElasticNet` with its weight chosen by cross-validated squared error.

    As there, X should be scaled beforehand: no candidate predicts much from entries
    far below one.

    Parameters
    ----------
    alphas : sequence of float, optional
        Candidate weights. By default `n_alphas` values, on a log scale from the
        smallest that makes the coefficient zero down to a thousandth of it.
    n_alphas : int, default=100
    l1_ratio : float, default=0.5
        Share of the entrywise norm in the penalty, from 0 to 1.
    cv : int, scikit-learn splitter or iterable of splits, default=5
    fit_intercept, feature_shape, tol, max_iter
        As for `TensorElasticNet`.
    n_jobs : int, optional
        Folds fitted at the same time, as in joblib.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `TensorElasticNet`, of the best candidate on all samples.
    alpha_ : float
        The weight chosen.
    best_score_ : float
        Its mean score over the folds, minus the mean squared error.
    cv_results_ : dict
        One row for each candidate, with scikit-learn's keys.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0] + 0.1 * rng.normal(size=60)
    >>> TensorElasticNetCV(n_alphas=20).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        alphas: Sequence[float] | None = None,
        *,
        n_alphas: int = 100,
        l1_ratio: float = 0.5,
        cv: Any = 5,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        n_jobs: int | None = None,
    ):
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.l1_ratio = l1_ratio
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> TensorElasticNetCV:
        """Choose the weight, then fit; `groups` are passed to the splitter."""
        _fit_path(self, X, y, sample_weight, groups, check_share(self.l1_ratio))
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return predict_linear(self, X)


def _fit_path(
    model: Any, X: Any, y: Any, sample_weight: Any, groups: Any, l1_ratio: float
) -> None:
    """Choose the weight by scikit-learn's path, and remember it and the fit."""
    samples = check_samples(model, X, y, sample_weight)
    solver = ElasticNetCV(
        alphas=_alphas(model, samples, l1_ratio),
        l1_ratio=l1_ratio,
        cv=kept_splits(model.cv, y, sample_weight, groups=groups),
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
        n_jobs=model.n_jobs,
    )
    solve_linear(model, solver, samples)
    _store_path(model, solver)


def _alphas(model: Any, samples: Samples, l1_ratio: float) -> np.ndarray:
    """Return the candidates given, or scikit-learn's default grid."""
    if model.alphas is not None:
        given = check_sequence(model.alphas, "alphas")
        return np.array([check_nonnegative(alpha, "alphas") for alpha in given])
    check_count(model.n_alphas, "n_alphas")
    if not 0.0 < l1_ratio <= 1.0:
        msg = (
            f"l1_ratio={l1_ratio!r} was given; expected a number above 0 and at most "
            "1, or explicit alphas: without the entrywise norm there is no largest one."
        )
        raise ValueError(msg)
    data = centre(samples, model.fit_intercept)
    pull = np.abs(to_numpy(data.y @ data.A)).max() / to_numpy(samples.weight).sum()
    largest = float(pull) / l1_ratio or 1.0  # of a constant response any will do
    return np.geomspace(largest, 1e-3 * largest, model.n_alphas)


def _store_path(model: Any, solver: ElasticNetCV) -> None:
    alphas = solver.alphas_
    # scikit-learn drops the axis of a single candidate, or of a single fold.
    scores = -solver.mse_path_.reshape(len(alphas), -1).T
    model.alpha_ = float(solver.alpha_)
    model.cv_results_ = cv_table({"alpha": alphas.tolist()}, scores)
    chosen = int(np.flatnonzero(alphas == solver.alpha_)[0])
    model.best_score_ = float(scores[:, chosen].mean())
