"""Sparse Tucker regression by projected gradient steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array
from sltr.models.linear import predict_linear
from sltr.models.tpgd_parameters import (
    check_budget,
    column_cardinalities,
    tucker_ranks,
)
from sltr.models.unchanged import unchanged_on_failure
from sltr.solvers.tpgd import SparseTucker, tpgd
from sltr.solvers.units import in_original_units, of_unit_size
from sltr.validation import Centred, centre, check_samples

__all__ = ["TPGDRegressor", "set_tucker"]


class TPGDRegressor(RegressorMixin, BaseEstimator):
    r"""Regression with a low-rank, sparse Tucker coefficient (TPGD).

    Solves, by projected gradient steps,

    .. math::

       \min_{W,b} \tfrac12\sum_i (y_i - \langle X_i, W\rangle - b)^2
       \quad\text{s.t.}\quad W = G\times_1 U_1\cdots\times_M U_M,\;
       \|U_m e_r\|_0 \le s_m .

    The projection takes sparse principal components of every unfolding, found by
    truncated power iteration. The problem is not convex: the result is a good
    point, not a certified optimum; the objective never rises on the way.

    Parameters
    ----------
    ranks : int or sequence of int, default=2
        Tucker rank of each mode. One number serves all modes and is cut to what
        a mode allows; a sequence must be possible as it stands.
    sparsity : int, float or sequence of these, default=0.5
        How many entries of a factor's column may differ from zero: an int is
        their number, a float in (0, 1] a fraction of the mode's size, rounded
        up. One int serves all modes and is cut to their sizes.
    tol : float, default=1e-5
        Stop once a step raises the explained share of y (the training R²) by less
        than this.
    max_iter : int, default=1000
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    core_ : array of shape (r1, …, rM)
    factors_ : list of arrays of shape (p_m, r_m)
    objective_path_ : array of shape (n_iter + 1,)
    residual_ : float
        Gain of the last step, in the units of `tol`.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    .. [1] Ahmed, Raja, Bajwa. Tensor regression using low-rank and sparse Tucker
       decompositions. SIAM J. Math. Data Sci. 2(4), 2020.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> model = TPGDRegressor(1, sparsity=2).fit(X, X[:, 2, 3] + X[:, 2, 4])
    >>> np.round(model.coef_[2], 2)
    array([0., 0., 0., 1., 1.])
    """

    def __init__(
        self,
        ranks: int | Sequence[int] = 2,
        *,
        sparsity: float | Sequence[float] = 0.5,
        tol: float = 1e-5,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.ranks = ranks
        self.sparsity = sparsity
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TPGDRegressor:
        """Fit the coefficient.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM), or (n, P) with `feature_shape`
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 is the same as giving the sample twice.
        """
        samples = check_samples(self, X, y, sample_weight)
        ranks = tucker_ranks(self.ranks, samples.shape)
        sparsity = column_cardinalities(self.sparsity, samples.shape)
        tol, max_iter = check_budget(self.tol, self.max_iter)
        centred = centre(samples, self.fit_intercept)
        (A, X_unit), (y, y_unit) = of_unit_size(centred.A), of_unit_size(centred.y)
        result = tpgd(
            A,
            y,
            samples.shape,
            ranks,
            sparsity,
            tol=tol,
            max_iter=max_iter,
        )
        set_tucker(self, result, centred, X_unit, y_unit)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,)."""
        return predict_linear(self, X)


def set_tucker(
    model: Any, result: SparseTucker, centred: Centred, X_unit: float, y_unit: float
) -> None:
    """Set the fitted attributes that belong to `result`; warn if unfinished.

    The units are what the centred samples and responses were divided by.
    """
    unit = y_unit / X_unit
    model.coef_ = in_original_units(result.coef, unit)
    model.core_, model.factors_ = result.core * unit, result.factors
    model.intercept_ = centred.intercept(model.coef_)
    path = [value * y_unit * y_unit for value in result.objective_path]
    model.objective_path_ = np.array(path)
    model.residual_, model.n_iter_ = result.residual, result.n_iter
    if not result.converged:
        msg = (
            f"After {result.n_iter} steps the explained share of y still rose by "
            f"{result.residual:.2g} in one step (tol={model.tol:.2g}). "
            "Increase max_iter or tol, or lower ranks."
        )
        warnings.warn(msg, ConvergenceWarning, stacklevel=4)
