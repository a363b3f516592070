"""CP and Tucker GLMs with rank and ridge chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin

from sltr._array import Array
from sltr.models.cp import CPRegressor, cp_structures, remember_factors
from sltr.models.decomposed import (
    predict_mean,
)
from sltr.models.rank_search import Search, checked_samples, choose_rank
from sltr.models.tucker import TuckerRegressor, remember_blocks, tucker_structures
from sltr.models.unchanged import unchanged_on_failure

__all__ = ["CPRegressorCV", "TuckerRegressorCV"]

ALPHAS_RIDGE = (1e-3, 1e-2, 1e-1)


class CPRegressorCV(RegressorMixin, BaseEstimator):
    """`CPRegressor` with rank and ridge chosen by cross-validation.

    For each rank the ridge falls from its largest value, every fit starting from its
    predecessor as well as afresh. The best pair is fitted again on all samples in the
    same way.

    Parameters
    ----------
    ranks : sequence of int
        Those no tensor of X's shape needs are cut.
    alphas_ridge : sequence of float
    family : {"normal", "binomial", "poisson"}
    cv : int, splitter or iterable
        Folds, as in scikit-learn.
    scoring : str or callable, optional
        As in scikit-learn; R² by default.
    rule : {"best", "1se"}
        "1se": the simplest within one standard error of the best, lower ranks and
        then larger ridges being simpler.
    alpha_l1, n_restarts, fit_intercept, feature_shape, tol, max_iter, random_state
        As in `CPRegressor`.
    n_jobs : int, optional
        Folds fitted at the same time.

    Attributes
    ----------
    rank_ : int
    alpha_ridge_ : float
    best_score_ : float
    cv_results_ : dict
        scikit-learn's keys, one row for each candidate.
    coef_, intercept_, factors_, covariate_coef_, deviance_path_, n_iter_, …
        As in `CPRegressor`, of the final fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 4, 3))
    >>> y = X[:, 0, 0] + X[:, 1, 1] + 0.1 * rng.standard_normal(90)
    >>> CPRegressorCV(ranks=(1, 2)).fit(X, y).rank_
    2
    """

    def __init__(
        self,
        ranks: Sequence[int] = (1, 2, 3),
        *,
        alphas_ridge: Sequence[float] = ALPHAS_RIDGE,
        family: str = "normal",
        cv: Any = 5,
        scoring: str | Callable | None = None,
        rule: str = "best",
        alpha_l1: float = 0.0,
        n_restarts: int = 3,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ):
        self.ranks = ranks
        self.alphas_ridge = alphas_ridge
        self.family = family
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.alpha_l1 = alpha_l1
        self.n_restarts = n_restarts
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    @unchanged_on_failure
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        groups: Any = None,
    ) -> CPRegressorCV:
        """Choose and fit; see `CPRegressor.fit`. `groups` go to the splitter."""
        samples, Z, folds = checked_samples(
            self, X, y, sample_weight, covariates, groups
        )
        structures = cp_structures(self.shape_in_, "bic", self.ranks)
        names = [s.rank for s in structures]
        search = Search(structures, names, CPRegressor, "rank", self.alpha_l1)
        weighted = sample_weight is not None
        best, prepared, found = choose_rank(self, samples, Z, folds, search, weighted)
        return remember_factors(self, prepared, structures[best], found.blocks)

    def predict(self, X: Any, covariates: Any = None) -> Array:
        """Return the expected responses, shape (n,)."""
        return predict_mean(self, X, covariates, self.family)


class TuckerRegressorCV(RegressorMixin, BaseEstimator):
    """`TuckerRegressor` with ranks and ridge chosen by cross-validation.

    Parameters
    ----------
    candidates : sequence of int or tuples of int, optional
        Ranks to try. By default equal ranks up to 3, and those less one in one mode.
    alphas_ridge, family, cv, scoring, rule, n_jobs
        As in `CPRegressorCV`.
    n_restarts, fit_intercept, feature_shape, tol, max_iter, random_state
        As in `TuckerRegressor`.

    Attributes
    ----------
    ranks_ : tuple of int
    alpha_ridge_, best_score_, cv_results_
        As in `CPRegressorCV`.
    coef_, intercept_, factors_, core_, …
        As in `TuckerRegressor`, of the final fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 4, 3))
    >>> y = X[:, 0, 0] + X[:, 1, 1] + 0.1 * rng.standard_normal(90)
    >>> TuckerRegressorCV(candidates=(1, 2)).fit(X, y).ranks_
    (2, 2)
    """

    def __init__(
        self,
        candidates: Sequence[int | tuple[int, ...]] | None = None,
        *,
        alphas_ridge: Sequence[float] = ALPHAS_RIDGE,
        family: str = "normal",
        cv: Any = 5,
        scoring: str | Callable | None = None,
        rule: str = "best",
        n_restarts: int = 3,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ):
        self.candidates = candidates
        self.alphas_ridge = alphas_ridge
        self.family = family
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.n_restarts = n_restarts
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    @unchanged_on_failure
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        groups: Any = None,
    ) -> TuckerRegressorCV:
        """Choose and fit; see `TuckerRegressor.fit`. `groups` go to the splitter."""
        samples, Z, folds = checked_samples(
            self, X, y, sample_weight, covariates, groups
        )
        structures = tucker_structures(self.shape_in_, "bic", self.candidates)
        names = [s.ranks for s in structures]
        search = Search(structures, names, TuckerRegressor, "ranks")
        weighted = sample_weight is not None
        best, prepared, found = choose_rank(self, samples, Z, folds, search, weighted)
        return remember_blocks(self, prepared, structures[best], found.blocks)

    def predict(self, X: Any, covariates: Any = None) -> Array:
        """Return the expected responses, shape (n,)."""
        return predict_mean(self, X, covariates, self.family)
