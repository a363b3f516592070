"""Lasso and Elastic Net on the flattened tensor, solved by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import ElasticNet, enet_path

from sltr.arrays import Array, as_array, to_numpy
from sltr.estimators.fitted import PlainRegressor, linear_scores, unchanged_on_failure
from sltr.parameters import check_count, check_nonnegative, check_sequence
from sltr.peers.search import LinearTrials, search
from sltr.peers.units import centre
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.folds import weighted_splits

LARGEST = 1e300  # scikit-learn multiplies weights by the number of samples
LEAST_SHARE = 1e-12  # of the entrywise norm, by which the largest weight is divided


class _Lasso(PlainRegressor, BaseEstimator):
    """What Lasso and Elastic Net share: how one weight is fitted, and predictions."""

    l1_ratio: float = 1.0  # that of the Lasso; Elastic Net has it as a parameter
    fit_intercept: bool
    tol: float
    max_iter: int

    def _fit_one(self, samples: Samples, alpha: float, l1_ratio: float) -> Self:
        """Fit one weight, and remember the coefficient in the tensor's shape."""
        solver = ElasticNet(
            alpha=alpha,
            l1_ratio=l1_ratio,
            fit_intercept=self.fit_intercept,
            tol=check_nonnegative(self.tol, "tol"),
            max_iter=check_count(self.max_iter, "max_iter"),
        )
        weight = to_numpy(samples.weight)
        # scikit-learn casts y to the samples' precision; a large mean would suffer.
        y_mean = float(to_numpy(samples.y).mean()) if self.fit_intercept else 0.0
        solver.fit(
            to_numpy(samples.flat),
            to_numpy(samples.y) - y_mean,
            sample_weight=None if np.all(weight == 1.0) else weight,
        )
        self.coef_ = as_array(solver.coef_.reshape(samples.shape), samples.X)
        self.intercept_ = float(solver.intercept_) + y_mean
        self.n_iter_ = int(solver.n_iter_)
        self.dual_gap_ = float(solver.dual_gap_)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return linear_scores(self, X)


class _Plain(_Lasso):
    """What `TensorLasso` and `TensorElasticNet` share: the fit of a given weight."""

    alpha: float

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        alpha = check_nonnegative(self.alpha, "alpha")
        return self._fit_one(samples, alpha, check_share(self.l1_ratio))


class _Tuned(_Lasso):
    """What their tuned versions share: the choice of the weight."""

    alphas: Any
    n_alphas: int
    cv: Any
    n_jobs: int | None

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose the weight, then fit; `groups` are passed to the splitter."""
        samples = check_samples(self, X, y, sample_weight)
        l1_ratio = check_share(self.l1_ratio)
        alphas = self._alphas(samples, l1_ratio)
        folds = weighted_splits(self.cv, y, sample_weight, groups=groups)
        searched = search(
            self,
            samples,
            folds,
            {"alpha": alphas.tolist()},
            lambda rows: self._fit_all(samples.take(rows), alphas, l1_ratio),
            scoring="neg_mean_squared_error",
            weighted=True,
            n_jobs=self.n_jobs,
        )
        self.best_score_, self.cv_results_ = searched.best_score, searched.table
        self.alpha_ = searched.params["alpha"]
        return self._fit_one(samples, self.alpha_, l1_ratio)

    def _fit_all(
        self, samples: Samples, alphas: np.ndarray, l1_ratio: float
    ) -> LinearTrials:
        """Fit all weights by scikit-learn's path, the largest first."""
        data = centre(samples, self.fit_intercept)
        # The path divides the squared error by the number of rows, not by weights.
        scale = (len(samples.y) / float(to_numpy(samples.weight).sum())) ** 0.5
        _, coefs, _ = enet_path(
            to_numpy(data.A) * (scale * data.X_unit),
            to_numpy(data.y) * (scale * data.y_unit),
            l1_ratio=l1_ratio,
            alphas=alphas,
            tol=check_nonnegative(self.tol, "tol"),
            max_iter=check_count(self.max_iter, "max_iter"),
        )
        coef = as_array(coefs.T.reshape(-1, *samples.shape), samples.X)
        return LinearTrials.of_one_response(coef, data)

    def _alphas(self, samples: Samples, l1_ratio: float) -> np.ndarray:
        """Return the candidates given, or scikit-learn's default grid, falling."""
        if self.alphas is not None:
            given = check_sequence(self.alphas, "alphas")
            clean = [check_nonnegative(a, "alphas", largest=LARGEST) for a in given]
            return np.sort(clean)[::-1]
        check_count(self.n_alphas, "n_alphas", largest=10_000)
        if not LEAST_SHARE <= l1_ratio <= 1.0:
            msg = (
                f"l1_ratio={l1_ratio!r} was given; expected a number of at least "
                f"{LEAST_SHARE} and at most 1, or explicit alphas: without the "
                "entrywise norm there is no largest one."
            )
            raise ValueError(msg)
        data = centre(samples, self.fit_intercept)
        correlation = float(np.abs(to_numpy(data.y @ data.A)).max())
        total = float(to_numpy(samples.weight).sum())
        # For a constant response any weight will do.
        largest = correlation * data.X_unit * data.y_unit / total / l1_ratio or 1.0
        return np.geomspace(largest, 1e-3 * largest, self.n_alphas)


@dataclass(eq=False, repr=False)
class TensorLasso(_Plain):
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

    alpha: float = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 10_000


@dataclass(eq=False, repr=False)
class TensorElasticNet(_Plain):
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
    fit_intercept, feature_shape, tol, max_iter
        As for `TensorLasso`.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `TensorLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 5, 4, 3))
    >>> model = TensorElasticNet(alpha=0.1).fit(X, X[:, 0, 0, 0] - X[:, 1, 0, 0])
    >>> model.coef_.shape, np.flatnonzero(np.abs(model.coef_) > 0.2).tolist()
    ((5, 4, 3), [0, 12])
    """

    alpha: float = 1.0
    _: KW_ONLY
    l1_ratio: float = 0.5
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 10_000


def check_share(l1_ratio: Any) -> float:
    """Return the one share of the entrywise norm, or say what is wrong with it."""
    try:
        share = float(l1_ratio) if isinstance(l1_ratio, Real) else -1.0
    except OverflowError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        msg = (
            f"l1_ratio={l1_ratio!r} was given; expected one number from 0 to 1. To "
            "choose among several, fit a model for each and compare best_score_."
        )
        raise ValueError(msg)
    return share


@dataclass(eq=False, repr=False)
class TensorLassoCV(_Tuned):
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

    alphas: Sequence[float] | None = None
    _: KW_ONLY
    n_alphas: int = 100
    cv: Any = 5
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 10_000
    n_jobs: int | None = None


@dataclass(eq=False, repr=False)
class TensorElasticNetCV(_Tuned):
    """`TensorElasticNet` with its weight chosen by cross-validated squared error.

    As there, X should be scaled beforehand: no candidate predicts much from entries
    far below one.

    Parameters
    ----------
    alphas, n_alphas, cv, n_jobs
        As for `TensorLassoCV`.
    l1_ratio : float, default=0.5
        Share of the entrywise norm in the penalty, from 0 to 1.
    fit_intercept, feature_shape, tol, max_iter
        As for `TensorElasticNet`.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `TensorElasticNet`, of the best candidate on all samples.
    alpha_, best_score_, cv_results_
        As for `TensorLassoCV`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0] + 0.1 * rng.normal(size=60)
    >>> TensorElasticNetCV(n_alphas=20).fit(X, y).score(X, y) > 0.9
    True
    """

    alphas: Sequence[float] | None = None
    _: KW_ONLY
    n_alphas: int = 100
    l1_ratio: float = 0.5
    cv: Any = 5
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 10_000
    n_jobs: int | None = None
