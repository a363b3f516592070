"""Methods as the code released with the paper fits, tunes and scores them.

For reproduction only. Whatever is scored was seen in tuning: tensor methods are
judged on the samples they were fitted to, linear ones on the last fifth of the
samples, on which their penalty was chosen too. None fits an intercept but the
linear ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import enet_path
from sklearn.model_selection import KFold

from sltr.models.candidates import PAPER_EPSILONS, PAPER_LAMBDAS
from sltr.solvers.literal import literal_estimate, literal_pilot

__all__ = ["AllSamples", "ReleasedLinear", "ReleasedNull", "ReleasedSLTR"]


class AllSamples:
    """A splitter with one fold that trains and validates on all samples.

    It makes a tuned estimator fit each candidate once, which is what the published
    tuning times count.
    """

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return 1."""
        return 1

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all rows, twice."""
        rows = np.arange(len(X))
        yield rows, rows


class ReleasedNull(RegressorMixin, BaseEstimator):
    """W = 0: every prediction is zero.

    Parameters
    ----------
    last_fifth : bool
        Be scored on the last fifth of the samples, as the linear methods are.
    """

    def __init__(self, last_fifth: bool = False):
        self.last_fifth = last_fifth

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReleasedNull:
        """Remember the shape; nothing is estimated."""
        self.coef_ = np.zeros(X.shape[1:])
        self.scored_rows_ = _last_fifth(len(y)) if self.last_fifth else slice(None)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return zeros of shape (n,)."""
        return np.zeros(len(X))


class ReleasedSLTR(RegressorMixin, BaseEstimator):
    """The published algorithm, faults included, over the paper's absolute radii.

    Parameters
    ----------
    lambdas : sequence of float
        Candidates of both radii; all pairs are tried.
    epsilons : sequence of float
        Penalties of the pilot. The released code takes 1 whatever they are.
    n_folds : int or None
        Folds over the samples by which a pair is chosen; None: by the error on
        the samples fitted.
    """

    def __init__(
        self,
        lambdas: Sequence[float] = PAPER_LAMBDAS,
        epsilons: Sequence[float] = PAPER_EPSILONS[:1],
        *,
        n_folds: int | None = 5,
    ):
        self.lambdas = lambdas
        self.epsilons = epsilons
        self.n_folds = n_folds

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReleasedSLTR:
        """Choose a pair of radii by ‖ŷ − y‖₂ and fit it to all samples."""
        X, y = np.asarray(X, float), np.asarray(y, float)
        candidates = list(product(self.epsilons, self.lambdas, self.lambdas))
        folds = AllSamples() if self.n_folds is None else KFold(self.n_folds)
        errors = np.zeros(len(candidates))
        for train, test in folds.split(X) if len(candidates) > 1 else ():
            for k, coef in enumerate(_literal_fits(X[train], y[train], candidates)):
                errors[k] += np.linalg.norm(_predict(X[test], coef) - y[test])
        best = candidates[int(np.argmin(errors))]
        self.epsilon_, self.lambda_sparse_, self.lambda_low_ = best
        self.coef_ = next(_literal_fits(X, y, [best]))
        self.cv_results_ = {"params": candidates, "mean_test_score": -errors}
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return ⟨W, X_i⟩, shape (n,)."""
        return _predict(X, self.coef_)


class ReleasedLinear(RegressorMixin, BaseEstimator):
    """Lasso or elastic net on the first 80 %, its penalty chosen on the last 20 %.

    Parameters
    ----------
    l1_ratio : float
        1 is the Lasso; the paper's elastic net has 0.5.
    n_alphas : int
        Length of the path of penalties, which falls to a hundredth of the largest.
    """

    def __init__(self, l1_ratio: float = 1.0, *, n_alphas: int = 30):
        self.l1_ratio = l1_ratio
        self.n_alphas = n_alphas

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReleasedLinear:
        """Follow the path and keep the penalty that does best on the last fifth."""
        A = np.asarray(X, float).reshape(len(X), -1)
        tail = _last_fifth(len(y))
        A_train, y_train = A[: tail.start], y[: tail.start]
        mean, level = A_train.mean(axis=0), y_train.mean()
        A_train, y_train = A_train - mean, y_train - level
        largest = np.abs(A_train.T @ y_train).max() / (len(A_train) * self.l1_ratio)
        alphas = np.geomspace(largest, 0.01 * largest, self.n_alphas)
        _, coefs, _ = enet_path(
            A_train, y_train, l1_ratio=self.l1_ratio, alphas=alphas, tol=1e-3
        )
        misses = (A[tail] - mean) @ coefs + level - y[tail, None]
        best = coefs[:, int(np.argmin(np.linalg.norm(misses, axis=0)))]
        self.coef_ = best.reshape(X.shape[1:])
        self.intercept_ = float(level - mean @ best)
        self.scored_rows_ = tail
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return ⟨W, X_i⟩ + b, shape (n,)."""
        return _predict(X, self.coef_) + self.intercept_


def _literal_fits(
    X: np.ndarray, y: np.ndarray, candidates: Sequence[tuple[float, float, float]]
) -> Iterator[np.ndarray]:
    """Yield the coefficient of each candidate; candidates of one ε share a pilot."""
    last = None
    for epsilon, sparse, low in candidates:
        if epsilon != last:
            pilot = literal_pilot(X, y, epsilon, variant="released")
            last = epsilon
        yield literal_estimate(pilot, sparse, low, variant="released").x


def _predict(X: np.ndarray, coef: np.ndarray) -> np.ndarray:
    return np.asarray(X, float).reshape(len(X), -1) @ coef.ravel()


def _last_fifth(n: int) -> slice:
    return slice(n - max(1, round(n / 5)), n)
