"""Remurs with its weights chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from sltr._array import Array, as_array, to_numpy
from sltr.models.convex_cv import select_weights
from sltr.models.labels import class_numbers, label_indicators, winning_labels
from sltr.models.linear import linear_scores, predict_linear
from sltr.models.selection import kept_splits
from sltr.models.unchanged import unchanged_on_failure
from sltr.solvers.low_rank import mode_norms
from sltr.validation import check_samples

__all__ = ["RemursClassifierCV", "RemursRegressorCV"]


class RemursRegressorCV(RegressorMixin, BaseEstimator):
    """`RemursRegressor` with both weights chosen by cross-validation.

    Every fold factorises its samples once and walks through all candidates with
    warm starts; the best candidate is fitted to all samples.

    Parameters
    ----------
    alphas_sparse, alphas_low : sequences of float, optional
        Candidate weights; all pairs are tried. By default fractions, from 0.5 down
        to 0.001 on a log scale, of the weights at which either penalty alone makes
        the coefficient zero, and 0.
    alpha_ridge : float, default=0.0
    n_alphas : int, default=7
        Length of the default grids.
    cv : int, scikit-learn splitter or iterable of splits, default=5
    scoring : str or callable, optional
        By default R².
    fit_intercept, feature_shape, tol, max_iter
        As for `RemursRegressor`.
    n_jobs : int, optional
        Folds fitted at the same time, as in joblib.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `RemursRegressor`, of the best candidate on all samples.
    alpha_sparse_, alpha_low_ : float
        The weights chosen.
    best_score_ : float
        Their mean score over the folds.
    cv_results_ : dict
        One row for each candidate, with scikit-learn's keys.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0] + 0.1 * rng.normal(size=60)
    >>> model = RemursRegressorCV(n_alphas=3).fit(X, y)
    >>> len(model.cv_results_["params"]), model.best_score_ > 0.9
    (9, True)
    """

    def __init__(
        self,
        alphas_sparse: Sequence[float] | None = None,
        alphas_low: Sequence[float] | None = None,
        alpha_ridge: float = 0.0,
        *,
        n_alphas: int = 7,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 5000,
        n_jobs: int | None = None,
    ):
        self.alphas_sparse = alphas_sparse
        self.alphas_low = alphas_low
        self.alpha_ridge = alpha_ridge
        self.n_alphas = n_alphas
        self.cv = cv
        self.scoring = scoring
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> RemursRegressorCV:
        """Choose the weights, then fit; `groups` are passed to the splitter."""
        samples = check_samples(self, X, y, sample_weight)
        folds = kept_splits(self.cv, y, sample_weight, groups=groups)
        select_weights(
            self,
            samples,
            samples.y[None, :],
            to_numpy(samples.y),
            folds,
            mode_norms(len(samples.shape)),
            weighted=sample_weight is not None,
        )
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return predict_linear(self, X)


class RemursClassifierCV(ClassifierMixin, BaseEstimator):
    """`RemursClassifier` with both weights chosen by cross-validation.

    Parameters
    ----------
    alphas_sparse, alphas_low, alpha_ridge, n_alphas
        As for `RemursRegressorCV`.
    cv : int, scikit-learn splitter or iterable of splits, default=5
        A number means stratified folds.
    scoring : str or callable, optional
        By default accuracy. A name sees classes as 0, 1, …; a callable sees labels.
    fit_intercept, feature_shape, tol, max_iter, n_jobs
        As for `RemursRegressorCV`.

    Attributes
    ----------
    classes_, coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `RemursClassifier`, of the best candidate on all samples.
    alpha_sparse_, alpha_low_, best_score_, cv_results_
        As for `RemursRegressorCV`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = np.where(X[:, 0, 0, 0] > X[:, 1, 0, 0], "up", "down")
    >>> RemursClassifierCV(n_alphas=4).fit(X, y).best_score_ > 0.8
    True
    """

    def __init__(
        self,
        alphas_sparse: Sequence[float] | None = None,
        alphas_low: Sequence[float] | None = None,
        alpha_ridge: float = 0.0,
        *,
        n_alphas: int = 7,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 5000,
        n_jobs: int | None = None,
    ):
        self.alphas_sparse = alphas_sparse
        self.alphas_low = alphas_low
        self.alpha_ridge = alpha_ridge
        self.n_alphas = n_alphas
        self.cv = cv
        self.scoring = scoring
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> RemursClassifierCV:
        """Choose the weights, then fit; `groups` are passed to the splitter."""
        samples = check_samples(self, X, y, sample_weight, labels=True)
        self.classes_, indicators = label_indicators(samples.y)
        numbers = class_numbers(indicators)
        folds = kept_splits(self.cv, y, sample_weight, groups=groups, classifier=True)
        select_weights(
            self,
            samples,
            as_array(indicators.T, samples.X),
            self.classes_[numbers] if callable(self.scoring) else numbers,
            folds,
            mode_norms(len(samples.shape)),
            weighted=sample_weight is not None,
        )
        return self

    def decision_function(self, X: Any) -> Array:
        """Return scores, positive for the second class; (n, K) for K > 2 classes."""
        return linear_scores(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """Return labels of shape (n,)."""
        scores = self.decision_function(X)
        return winning_labels(self.classes_, scores)
