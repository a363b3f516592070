"""Block relaxation for a CP model that finds its rank by a group penalty."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from sltr.arrays import Array, array_namespace
from sltr.estimators.fitted import PlainRegressor, unchanged_on_failure
from sltr.parameters import check_count, check_nonnegative, random_generator
from sltr.peers.glm import _TensorGLMBase, fit_path, predict_mean
from sltr.refine.factors import CP, Form
from sltr.refine.glm import (
    GLMFit,
    TensorGLM,
    after_sweep,
    covariates_alone,
    glm_starts,
    glm_sweep,
)

# A term leaves when its share of the norms is below this.
DROP = 1e-8


def fit_with_groups(
    problem: TensorGLM,
    start: CP,
    *,
    strength: float,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> GLMFit:
    """Fit a CP model whose rank is found: terms that shrink away are dropped.

    Solves, with v_r the stacked factors of term r,

        min  dev(y, ⟨B, X⟩ + Z·γ) + strength·(Σ_r ‖v_r‖₂)²

    through (Σ_r ‖v_r‖)² = min Σ_r ‖v_r‖²/g_r over g ≥ 0, Σ g_r = 1: ridge sweeps with
    weights strength/g_r alternate with g_r = ‖v_r‖/Σ_s ‖v_s‖. A term with g_r below
    DROP leaves; `tol` and `max_iter` are as in `fit_blocks`.
    """
    fit = GLMFit(start.balanced(), covariates_alone(problem))
    share, _ = _shares(fit.structure)
    while len(fit.path) < max_iter and not fit.converged:
        fit = glm_sweep(problem, fit, strength / share)
        structure = fit.structure.balanced()
        share, total = _shares(structure)
        kept = _kept(share)
        share = array_namespace(share).take(share, kept, axis=0)
        structure = _with_terms(structure, kept)
        fit = after_sweep(replace(fit, structure=structure), strength * total**2, tol)
    return fit


def _shares(structure: Any) -> tuple[Array, float]:
    """Return every term's share g_r (R,) of the norms, and the sum of the norms."""
    xp = array_namespace(structure.sizes)
    squares = xp.stack([xp.sum(b * b, axis=1) for b in structure.factors])
    norms = xp.sqrt(xp.sum(squares, axis=0))[0, :]
    total = float(xp.sum(norms))
    return norms / (total if total > 0.0 else 1.0) + 1e-12, total


def _kept(share: Array) -> Array:
    """Return the terms whose share does not vanish; the largest always stays."""
    xp = array_namespace(share)
    return xp.nonzero((share >= DROP) | (share == xp.max(share)))[0]


def _with_terms(structure: Any, terms: Array) -> CP:
    xp = array_namespace(terms)
    return CP.of_factors([xp.take(b, terms, axis=2) for b in structure.factors])


class _TRR(PlainRegressor, _TensorGLMBase):
    def predict(self, X: Any) -> Array:  # type: ignore[override]
        """Return the predictions, shape (n,)."""
        return predict_mean(self, X, None, "normal")


@dataclass(eq=False, repr=False)
class HRTRRRegressor(_TRR):
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

    rank: int = 1
    _: KW_ONLY
    alpha_ridge: float = 1e-2
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    n_restarts: int = 1
    random_state: Any = 0

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HRTRRRegressor:
        """Fit the model to X (n, p1, …, pM) and y (n,)."""
        prepared = self._prepare(X, y, sample_weight, None, "normal")
        most = CP.largest_rank(self.shape_in_)
        rank = check_count(self.rank, "rank", largest=most)
        form = Form(CP, self.shape_in_, rank)
        fit = fit_path(prepared, form, self, [self.alpha_ridge])[0]
        return self._finish(prepared, fit)


@dataclass(eq=False, repr=False)
class ORTRRRegressor(_TRR):
    r"""Optimal-rank tensor ridge regression (orTRR): least squares, rank found.

    .. math:: \min_{B_1, \dots, B_M, b} \sum_i \left(y_i - \langle [[B_1, \dots, B_M]],
              X_i \rangle - b \right)^2
              + \frac{n}{\beta} \left(\sum_r \|v_r\|_2 \right)^2,

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

    max_rank: int = 6
    _: KW_ONLY
    beta: float = 100.0
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    n_restarts: int = 1
    random_state: Any = 0

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ORTRRRegressor:
        """Fit the model to X (n, p1, …, pM) and y (n,)."""
        prepared = self._prepare(X, y, sample_weight, None, "normal")
        shape = self.shape_in_
        most = min(check_count(self.max_rank, "max_rank"), CP.largest_rank(shape))
        strength = prepared.total / _check_beta(self.beta)
        starts = glm_starts(
            prepared.problem,
            Form(CP, shape, most),
            check_count(self.n_restarts, "n_restarts", largest=10_000),
            random_generator(self.random_state),
            ridge=strength,
        )
        fits = [
            fit_with_groups(
                prepared.problem,
                start,
                strength=strength,
                tol=check_nonnegative(self.tol, "tol"),
                max_iter=check_count(self.max_iter, "max_iter"),
            )
            for start in starts
        ]
        best = min(fits, key=lambda fit: fit.path[-1])
        return self._finish(prepared, best)


def _check_beta(beta: Any) -> float:
    number = check_nonnegative(beta, "beta")
    if number == 0.0:
        msg = "beta=0 was given; expected a positive number (large: weak penalty)."
        raise ValueError(msg)
    return number
