"""Remurs: regression with a sparse coefficient of low multilinear rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from sltr.arrays import Array, as_array
from sltr.estimators.fitted import PlainClassifier, linear_scores, unchanged_on_failure
from sltr.estimators.labels import label_indicators, winning_labels
from sltr.peers.convex import _Convex, _ConvexRegressor, _ConvexRegressorCV
from sltr.samples.check import check_samples
from sltr.tuning.folds import weighted_splits
from sltr.tuning.scores import class_numbers


@dataclass(eq=False, repr=False)
class _Remurs(_Convex):
    """The parameters of regressor and classifier; `RemursRegressor` explains them."""

    alpha_sparse: float = 1.0
    alpha_low: float = 1.0
    alpha_ridge: float = 0.0
    _: KW_ONLY
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 5000


@dataclass(eq=False, repr=False)
class _RemursCV(_Convex):
    """The parameters of both tuned ones; `RemursRegressorCV` explains them."""

    alphas_sparse: Sequence[float] | None = None
    alphas_low: Sequence[float] | None = None
    alpha_ridge: float = 0.0
    _: KW_ONLY
    n_alphas: int = 7
    cv: Any = 5
    scoring: str | Callable | None = None
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 5000
    n_jobs: int | None = None


class _Classifier(PlainClassifier):
    """How both classifiers decide."""

    classes_: np.ndarray

    def decision_function(self, X: Any) -> Array:
        """Return scores, positive for the second class; (n, K) for K > 2 classes."""
        return linear_scores(self, X)

    def predict(self, X: Any) -> np.ndarray:
        """Return labels of shape (n,)."""
        scores = self.decision_function(X)  # says first if the model is not fitted
        return winning_labels(self.classes_, scores)


class RemursRegressor(_ConvexRegressor, _Remurs):
    """Sparse multilinear regression with nuclear norms of all unfoldings.

    Solves, over coefficients W of the samples' shape and the intercept b,

        min ½ Σ_i (y_i − ⟨X_i, W⟩ − b)² + (α_low/M) Σ_m ‖W_(m)‖_*
            + α_sparse ‖W‖₁ + (α_ridge/2) ‖W‖²

    by the alternating direction method, up to a certified duality gap.

    Parameters
    ----------
    alpha_sparse : float, default=1.0
        Weight of the entrywise norm.
    alpha_low : float, default=1.0
        Weight of the mean nuclear norm of the unfoldings.
    alpha_ridge : float, default=0.0
        Weight of the squared norm (the elastic variant).
    fit_intercept : bool, default=True
    feature_shape : tuple of int, optional
        Shape (p1, …, pM) into which flat rows of X are folded.
    tol : float, default=1e-4
        Duality gap to reach, relative to ½‖y‖² of the centred responses.
    max_iter : int, default=5000

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    dual_gap_ : float
        Relative duality gap reached: the objective is within this of its minimum.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    X. Song, H. Lu, "Multilinear regression for embedded feature selection with
    application to fMRI analysis", AAAI 2017.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0]
    >>> model = RemursRegressor(alpha_sparse=1.0, alpha_low=1.0).fit(X, y)
    >>> model.coef_.shape, model.score(X, y) > 0.9
    ((5, 4, 3), True)
    """


class RemursClassifier(_Classifier, _Remurs):
    """Classification by `RemursRegressor` on 0/1 responses.

    Two classes take one regression, in which the second class counts as 1;
    more take one regression for each class against the rest.

    Parameters
    ----------
    alpha_sparse, alpha_low, alpha_ridge, fit_intercept, feature_shape, tol, max_iter
        As for `RemursRegressor`.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (p1, …, pM), or (K, p1, …, pM) for more than two classes
    intercept_ : float, or array of shape (K,)
    dual_gap_ : float
        The largest over the regressions.
    n_iter_ : int
        The largest over the regressions.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = np.where(X[:, 0, 0, 0] > X[:, 1, 0, 0], "up", "down")
    >>> model = RemursClassifier().fit(X, y)
    >>> model.classes_.tolist(), model.score(X, y) > 0.9
    (['down', 'up'], True)
    """

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RemursClassifier:
        """Fit to samples of shape (n, p1, …, pM) and labels of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight, labels=True)
        self.classes_, indicators = label_indicators(samples.y)
        return self._fit_given(samples, as_array(indicators.T, samples.X))


class RemursRegressorCV(_ConvexRegressorCV, _RemursCV):
    """`RemursRegressor` with both weights chosen by cross-validation.

    Every fold factorises its samples once and fits all candidates with warm starts;
    the best candidate is fitted to all samples.

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


class RemursClassifierCV(_Classifier, _RemursCV):
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
    held_out_scores_ : dict of arrays of shape (n_folds,)
        "roc_auc" and "accuracy" of the chosen weights on each fold. A little
        optimistic, since the same folds chose them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = np.where(X[:, 0, 0, 0] > X[:, 1, 0, 0], "up", "down")
    >>> RemursClassifierCV(n_alphas=4).fit(X, y).best_score_ > 0.8
    True
    """

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> RemursClassifierCV:
        """Choose the weights, then fit; `groups` are passed to the splitter."""
        samples = check_samples(self, X, y, sample_weight, labels=True)
        self.classes_, indicators = label_indicators(samples.y)
        numbers = class_numbers(indicators)
        folds = weighted_splits(
            self.cv, y, sample_weight, groups=groups, classifier=True
        )
        return self._fit_best(
            samples,
            as_array(indicators.T, samples.X),
            folds,
            truth=self.classes_[numbers] if callable(self.scoring) else numbers,
            indicators=indicators,
            weighted=sample_weight is not None,
        )
