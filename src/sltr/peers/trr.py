"""Block relaxation for a CP model that finds its rank by a group penalty."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from sltr.arrays import Array, array_namespace
from sltr.estimators.base import unchanged_on_failure
from sltr.parameters import check_count, check_nonnegative
from sltr.peers.cp import remember_factors
from sltr.peers.glm import (
    Prepared,
    fit_path,
    predict_mean,
    prepare_samples,
    remember,
    warn_unless_converged,
)
from sltr.refine.factors import CP, Blocks
from sltr.refine.glm import Problem
from sltr.refine.sweeps import Relaxed, null_gamma, settled, starts, sweep


def group_relaxation(
    problem: Problem,
    start: Blocks,
    *,
    strength: float,
    tol: float = 1e-6,
    max_iter: int = 200,
    drop: float = 1e-8,
) -> Relaxed:
    """Fit a CP model whose rank is found: components that shrink away are dropped.

    Solves, with v_r the stacked factors of component r,

        min  dev(y, ⟨B, X⟩ + Z·γ) + strength·(Σ_r ‖v_r‖₂)²

    through (Σ_r ‖v_r‖)² = min Σ_r ‖v_r‖²/g_r over g ≥ 0, Σ g_r = 1: ridge sweeps with
    weights strength/g_r alternate with g_r = ‖v_r‖/Σ_s ‖v_s‖.

    Parameters
    ----------
    problem : Problem
    start : list of arrays of shape (p_m, R)
    strength : float
    tol, max_iter
        As in `block_relaxation`.
    drop : float
        A component with g_r below this leaves.
    """
    shape = tuple(factor.shape[0] for factor in start)
    blocks = CP(shape, start[0].shape[1]).balance(start)
    gamma, deviance, converged = null_gamma(problem), float("nan"), False
    path: list[float] = []
    share, _ = _shares(blocks)
    while len(path) < max_iter and not converged:
        structure = CP(shape, blocks[0].shape[1])
        blocks, gamma, deviance = sweep(
            problem, structure, blocks, gamma, strength / share
        )
        blocks = structure.balance(blocks)
        share, total = _shares(blocks)
        path.append(deviance + strength * total**2)
        converged = settled(path, tol)
        blocks, share = _prune(blocks, share, drop)
    return Relaxed(blocks, gamma, deviance, tuple(path), converged)


def _shares(blocks: Blocks) -> tuple[Array, float]:
    xp = array_namespace(*blocks)
    squares = xp.stack([xp.sum(b * b, axis=0) for b in blocks])
    norms = xp.sqrt(xp.sum(squares, axis=0))
    total = float(xp.sum(norms))
    return norms / (total if total > 0.0 else 1.0) + 1e-12, total


def _prune(blocks: Blocks, share: Array, drop: float) -> tuple[Blocks, Array]:
    """Drop components with a vanishing share; the largest always stays."""
    xp = array_namespace(share)
    kept = (share >= drop) | (share == xp.max(share))
    rows = xp.nonzero(kept)[0]
    if rows.shape[0] == share.shape[0]:
        return blocks, share
    return [xp.take(b, rows, axis=1) for b in blocks], xp.take(share, rows, axis=0)


class HRTRRRegressor(RegressorMixin, BaseEstimator):
    r"""Higher-rank tensor ridge regression (hrTRR): least squares with CP factors.

    .. math:: \min_{B_1, \dots, B_M, b} \sum_i \left(y_i - \langle [[B_1, \dots, B_M]],
              X_i \rangle - b \right)^2 + n \alpha_{ridge} \sum_m \|B_m\|_F^2

    by alternating ridge regressions, with a bias that is not penalised. X and y are
    scaled to unit mean square first, so that `alpha_ridge` does not depend on units.
    It is the normal case of `CPRegressor` with one start and a given rank.

    Parameters
    ----------
    rank : int
    alpha_ridge : float
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Folds flat rows of X into tensors.
    tol : float
        Stops when a sweep lowers the objective f by less than tol·(\|f\| + 1).
    max_iter : int
        Sweeps.
    n_restarts : int
        Starts in all; see `CPRegressor`.
    random_state : int, RandomState or None

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    factors_ : list of arrays of shape (p_m, rank)
    rank_ : int
    deviance_path_ : tuple of float
        The objective of the scaled problem after every sweep; it never rises.
    n_iter_ : int

    References
    ----------
    Guo, Kotsia, Patras (2012). Tensor learning for regression. IEEE Transactions on
    Image Processing 21(2), 816-827.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4, 3))
    >>> model = HRTRRRegressor(rank=2).fit(X, X[:, 0, 0] + X[:, 1, 1])
    >>> model.coef_.shape, model.rank_
    ((4, 3), 2)
    """

    def __init__(
        self,
        rank: int = 1,
        *,
        alpha_ridge: float = 1e-2,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        n_restarts: int = 1,
        random_state: Any = 0,
    ):
        self.rank = rank
        self.alpha_ridge = alpha_ridge
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HRTRRRegressor:
        """Fit the model to X (n, p1, …, pM) and y (n,)."""
        prepared = prepare_samples(self, X, y, sample_weight, None, "normal")
        most = CP.largest_possible(self.shape_in_)
        rank = check_count(self.rank, "rank", largest=most)
        structure = CP(self.shape_in_, rank)
        found = fit_path(prepared, structure, self, [self.alpha_ridge])[0]
        return _finish(self, prepared, structure, found)

    def predict(self, X: Any) -> Array:
        """Return the predictions, shape (n,)."""
        return predict_mean(self, X, None, "normal")


class ORTRRRegressor(RegressorMixin, BaseEstimator):
    r"""Optimal-rank tensor ridge regression (orTRR): least squares, rank found.

    .. math:: \min_{B_1, \dots, B_M, b} \sum_i \left(y_i - \langle [[B_1, \dots, B_M]],
              X_i \rangle - b \right)^2 + \frac{n}{\beta} \Big(\sum_r \|v_r\|_2 \Big)^2,

    where :math:`v_r` stacks the r-th columns of all factors. The group penalty shrinks
    whole components to nothing, and those are dropped: starting from `max_rank`, the
    rank falls to what the data need. X and y are scaled to unit mean square first, so
    that `beta` does not depend on units.

    Parameters
    ----------
    max_rank : int
        Where to start; more than a tensor of X's shape can need is cut.
    beta : float
        The larger, the weaker the penalty and the higher the rank.
    fit_intercept, feature_shape, tol, max_iter, n_restarts, random_state
        As in `HRTRRRegressor`; all starts run to the end and the best is kept.

    Attributes
    ----------
    rank_ : int
        Components left.
    coef_, intercept_, factors_, deviance_path_, n_iter_
        As in `HRTRRRegressor`.

    References
    ----------
    Guo, Kotsia, Patras (2012). Tensor learning for regression. IEEE Transactions on
    Image Processing 21(2), 816-827.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 6, 5))
    >>> model = ORTRRRegressor(max_rank=4).fit(X, X[:, 0, 0] + X[:, 1, 1])
    >>> model.rank_
    2
    """

    def __init__(
        self,
        max_rank: int = 6,
        *,
        beta: float = 100.0,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        n_restarts: int = 1,
        random_state: Any = 0,
    ):
        self.max_rank = max_rank
        self.beta = beta
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ORTRRRegressor:
        """Fit the model to X (n, p1, …, pM) and y (n,)."""
        prepared = prepare_samples(self, X, y, sample_weight, None, "normal")
        shape = self.shape_in_
        most = min(check_count(self.max_rank, "max_rank"), CP.largest_possible(shape))
        strength = prepared.total / _check_beta(self.beta)
        candidates = starts(
            prepared.problem,
            CP(shape, most),
            check_count(self.n_restarts, "n_restarts"),
            check_random_state(self.random_state),
            ridge=strength,
        )
        fits = [
            group_relaxation(
                prepared.problem,
                start,
                strength=strength,
                tol=check_nonnegative(self.tol, "tol"),
                max_iter=check_count(self.max_iter, "max_iter"),
            )
            for start in candidates
        ]
        found = min(fits, key=lambda fit: fit.path[-1])
        structure = CP(shape, found.blocks[0].shape[1])
        return _finish(self, prepared, structure, found)

    def predict(self, X: Any) -> Array:
        """Return the predictions, shape (n,)."""
        return predict_mean(self, X, None, "normal")


def _check_beta(beta: Any) -> float:
    number = check_nonnegative(beta, "beta")
    if number == 0.0:
        msg = "beta=0 was given; expected a positive number (large: weak penalty)."
        raise ValueError(msg)
    return number


def _finish(model: Any, prepared: Prepared, structure: CP, found: Any) -> Any:
    warn_unless_converged(model, found)
    remember(model, prepared, structure, found)
    return remember_factors(model, prepared, structure, found.blocks)
