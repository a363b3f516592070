"""CP and Tucker GLMs with rank and ridge chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, RegressorMixin

from sltr._array import Array, array_namespace, as_array, to_numpy
from sltr.models.cp import CPRegressor, cp_structures, remember_factors
from sltr.models.decomposed import (
    Prepared,
    check_family,
    check_response,
    fit_path,
    predict_mean,
    prepare,
    remember,
    warn_unless_converged,
)
from sltr.models.scoring import fold_scores
from sltr.models.selection import Split, kept_splits, record_choice
from sltr.models.tucker import TuckerRegressor, remember_blocks, tucker_structures
from sltr.solvers.block_relaxation import Relaxed
from sltr.validation import (
    Samples,
    check_covariates,
    check_nonnegative,
    check_samples,
)

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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        groups: Any = None,
    ) -> CPRegressorCV:
        """Choose and fit; see `CPRegressor.fit`. `groups` go to the splitter."""
        samples, Z, folds = _check(self, X, y, sample_weight, covariates, groups)
        structures = cp_structures(self.shape_in_, "bic", self.ranks)
        names = [s.rank for s in structures]
        search = _Search(structures, names, CPRegressor, "rank", self.alpha_l1)
        weighted = sample_weight is not None
        best, prepared, found = _choose(self, samples, Z, folds, search, weighted)
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        groups: Any = None,
    ) -> TuckerRegressorCV:
        """Choose and fit; see `TuckerRegressor.fit`. `groups` go to the splitter."""
        samples, Z, folds = _check(self, X, y, sample_weight, covariates, groups)
        structures = tucker_structures(self.shape_in_, "bic", self.candidates)
        names = [s.ranks for s in structures]
        search = _Search(structures, names, TuckerRegressor, "ranks")
        weighted = sample_weight is not None
        best, prepared, found = _choose(self, samples, Z, folds, search, weighted)
        return remember_blocks(self, prepared, structures[best], found.blocks)

    def predict(self, X: Any, covariates: Any = None) -> Array:
        """Return the expected responses, shape (n,)."""
        return predict_mean(self, X, covariates, self.family)


@dataclass(frozen=True)
class _Search:
    """Structures to try, and the plain estimator that carries one as a parameter."""

    structures: Sequence[Any]
    names: Sequence[Any]
    plain: type
    rank_name: str
    l1: float = 0.0


def _check(
    model, X, y, sample_weight, covariates, groups
) -> tuple[Samples, Array, list[Split]]:
    samples = check_samples(model, X, y, sample_weight)
    check_response(samples.y, check_family(model.family))
    n_kept = samples.X.shape[0]
    Z = check_covariates(covariates, n_kept, samples.X, sample_weight=sample_weight)
    model.n_covariates_in_ = Z.shape[1]
    binomial = model.family == "binomial"
    folds = kept_splits(model.cv, y, sample_weight, groups=groups, classifier=binomial)
    return samples, Z, folds


def _choose(
    model: Any,
    samples: Samples,
    Z: Array,
    folds: list[Split],
    search: _Search,
    weighted: bool,
) -> tuple[int, Prepared, Relaxed]:
    """Score all pairs of structure and ridge, keep the best, fit it on everything."""
    alphas = _falling(model.alphas_ridge)
    run = delayed(_score_fold)
    jobs = (run(model, samples, Z, fold, search, alphas, weighted) for fold in folds)
    rows = Parallel(n_jobs=model.n_jobs)(jobs)
    structures = search.structures
    scores = np.array(rows)
    pairs = [(s, a) for s in range(len(structures)) for a in alphas]
    complexity = [(structures[s].n_parameters(), -a) for s, a in pairs]
    order = {c: place for place, c in enumerate(sorted(set(complexity)))}
    table = {
        search.rank_name: [search.names[s] for s, _ in pairs],
        "alpha_ridge": [a for _, a in pairs],
    }
    best = record_choice(
        model,
        table,
        scores,
        rule=model.rule,
        complexity=np.array([order[c] for c in complexity]),
    )
    chosen, model.alpha_ridge_ = pairs[best]
    prepared = prepare(samples, Z, model.family, model.fit_intercept)
    larger = alphas[: alphas.index(model.alpha_ridge_) + 1]
    found = fit_path(prepared, structures[chosen], model, larger, l1=search.l1)[-1]
    warn_unless_converged(model, found)
    remember(model, prepared, structures[chosen], found)
    return chosen, prepared, found


def _falling(alphas: Sequence[float]) -> list[float]:
    clean = sorted({check_nonnegative(a, "an entry of alphas_ridge") for a in alphas})
    if not clean:
        msg = "alphas_ridge is empty; expected at least one number of at least 0."
        raise ValueError(msg)
    return clean[::-1]


def _score_fold(model, samples, Z, fold, search, alphas, weighted) -> np.ndarray:
    """Fit all candidates on a fold's training rows and score them on the others."""
    train, (held_out, Z_test) = (_rows(samples, Z, rows) for rows in fold)
    prepared = prepare(*train, model.family, model.fit_intercept)
    candidates = []
    for structure, name in zip(search.structures, search.names, strict=True):
        fits = fit_path(prepared, structure, model, alphas, l1=search.l1)
        for alpha, found in zip(alphas, fits, strict=True):
            named = {search.rank_name: name}
            candidate = search.plain(**named, family=model.family, alpha_ridge=alpha)
            candidate.shape_in_ = model.shape_in_
            candidate.n_features_in_ = model.shape_in_[0]
            candidate.n_covariates_in_ = Z.shape[1]
            remember(candidate, prepared, structure, found)
            # Scorers pass X alone.
            candidate.predict = partial(candidate.predict, covariates=Z_test)
            candidates.append(candidate)
    return fold_scores(
        model.scoring,
        to_numpy(held_out.y),
        np.stack([to_numpy(c.predict(held_out.X)) for c in candidates], axis=1),
        weight=to_numpy(held_out.weight) if weighted else None,
        model=candidates.__getitem__,
        X=held_out.X,
    )


def _rows(samples: Samples, Z: Array, rows: np.ndarray) -> tuple[Samples, Array]:
    xp = array_namespace(samples.X)
    index = as_array(rows, samples.X, dtype=xp.int64)
    return samples.take(rows), xp.take(Z, index, axis=0)
