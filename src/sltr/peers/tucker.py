"""Tucker tensor GLM: a coefficient of low multilinear rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from math import prod
from typing import Any

from sltr.estimators.fitted import RegressorBeside, unchanged_on_failure
from sltr.parameters import check_count, check_sequence
from sltr.peers.glm import ALPHAS_RIDGE, _TensorGLMBase, _TensorGLMSearch, choose_by_bic
from sltr.refine.factors import Form, Tucker


@dataclass(eq=False, repr=False)
class TuckerRegressor(RegressorBeside, _TensorGLMBase):
    r"""Generalised linear model whose coefficient tensor has low multilinear ranks.

    With :math:`B = G \times_1 B_1 \dots \times_M B_M` and the family's canonical link
    g, :math:`g(E y_i) = \langle B, X_i \rangle + \gamma^T z_i` is fitted by block
    relaxation, factor by factor and then the core, of

    .. math:: \min \; \mathrm{dev} + n \alpha_{ridge} \left(\|G\|_F^2
              + \sum_m \|B_m\|_F^2 \right),

    where n is the sum of the weights and X (and a normal y) has unit mean square once
    centred: the penalty does not depend on units.

    Parameters
    ----------
    ranks : int, tuple of int or "bic"
        One rank for all modes, or one for each; "bic" takes the lowest BIC among
        `candidates`. For cross-validation see `TuckerRegressorCV`.
    candidates : sequence of int or tuples of int, optional
        For "bic". By default equal ranks up to 3, and those less one in one mode.
    family : {"normal", "binomial", "poisson"}
    alpha_ridge : float
        Without it a fit needs n ≥ max(p_m·r_m, ∏ r_m) samples.
    n_restarts, fit_intercept, feature_shape, tol, max_iter, random_state
        As in `CPRegressor`.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    factors_ : list of arrays of shape (p_m, r_m)
    core_ : array of shape (r_1, …, r_M)
        Multiplied by the factors it is `coef_`, in the units of X and y.
    ranks_ : tuple of int
    intercept_, covariate_coef_, bic_, deviance_, deviance_path_, n_iter_
        As in `CPRegressor`.

    References
    ----------
    Li, Xu, Zhou, Li (2018). Tucker tensor regression and neuroimaging analysis.
    Statistics in Biosciences 10, 520-545.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4, 3))
    >>> y = X[:, 0, 0] + X[:, 1, 1]
    >>> model = TuckerRegressor(ranks=(2, 2)).fit(X, y)
    >>> model.core_.shape, bool(model.score(X, y) > 0.99)
    ((2, 2), True)
    """

    ranks: int | tuple[int, ...] | str = "bic"
    _: KW_ONLY
    candidates: Sequence[int | tuple[int, ...]] | None = None
    family: str = "normal"
    alpha_ridge: float = 1e-3
    n_restarts: int = 2
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    random_state: Any = 0

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None
    ) -> TuckerRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
        covariates : array of shape (n,) or (n, q), optional
            Scalar covariates z, not penalised.
        """
        prepared = self._prepare(X, y, sample_weight, covariates, self.family)
        forms = _tucker_forms(self.ranks, self.candidates, self.shape_in_)
        fit = choose_by_bic(prepared, forms, self, ridge=self.alpha_ridge)
        return self._finish(prepared, fit)


@dataclass(eq=False, repr=False)
class TuckerRegressorCV(_TensorGLMSearch):
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

    candidates: Sequence[int | tuple[int, ...]] | None = None
    _: KW_ONLY
    alphas_ridge: Sequence[float] = ALPHAS_RIDGE
    family: str = "normal"
    cv: Any = 5
    scoring: str | Callable | None = None
    rule: str = "best"
    n_restarts: int = 2
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    random_state: Any = 0
    n_jobs: int | None = None

    _plain = TuckerRegressor
    _rank_name = "ranks"

    def _forms(self, shape: tuple[int, ...]) -> list[Form]:
        return _tucker_forms("bic", self.candidates, shape)


def candidate_ranks(
    shape: tuple[int, ...], *, largest: int = 3
) -> list[tuple[int, ...]]:
    """Return equal ranks up to `largest`, and those less one in one mode.

    Only ranks a tensor can have are kept: r_m ≤ p_m and r_m ≤ ∏_{k≠m} r_k.

    Examples
    --------
    >>> candidate_ranks((4, 4, 4), largest=2)
    [(1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1), (2, 2, 2)]
    """
    possible = set()
    for rank, lowered in product(range(1, largest + 1), range(-1, len(shape))):
        ranks = tuple(min(p, rank - (m == lowered)) for m, p in enumerate(shape))
        if all(r >= 1 and r * r <= prod(ranks) for r in ranks):
            possible.add(ranks)
    return sorted(possible, key=lambda ranks: (sum(ranks), ranks))


def _tucker_forms(
    ranks: Any,
    candidates: Sequence[int | tuple[int, ...]] | None,
    shape: tuple[int, ...],
) -> list[Form]:
    """Return the forms to choose from: one for given ranks, many for "bic"."""
    if isinstance(ranks, str):
        if ranks != "bic":
            msg = (
                f"ranks={ranks!r} was given; expected an int, a tuple or 'bic'. For "
                "cross-validation use TuckerRegressorCV."
            )
            raise ValueError(msg)
        offered = (
            candidate_ranks(shape)
            if candidates is None
            else check_sequence(candidates, "candidates")
        )
    else:
        offered = [ranks]
    return [Form(Tucker, shape, _check_ranks(shape, one)) for one in offered]


def _check_ranks(shape: tuple[int, ...], ranks: Any) -> tuple[int, ...]:
    every = tuple(ranks) if hasattr(ranks, "__len__") else (ranks,) * len(shape)
    if len(every) != len(shape):
        msg = (
            f"ranks={ranks!r} was given for samples of shape {shape}; expected one "
            "rank for each mode."
        )
        raise ValueError(msg)
    return tuple(
        check_count(rank, f"the rank of mode {mode}", largest=size)
        for mode, (rank, size) in enumerate(zip(every, shape, strict=True))
    )
