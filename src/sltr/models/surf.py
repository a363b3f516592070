"""SURF regression: a sum of sparse unit-rank terms found by stage-wise steps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array, array_namespace, as_array
from sltr.models.linear import predict_linear
from sltr.models.unchanged import unchanged_on_failure
from sltr.solvers.surf import UnitRank, cumulative_tensors, surf
from sltr.solvers.units import in_original_units, of_unit_size
from sltr.validation import (
    Centred,
    Samples,
    centre,
    check_count,
    check_nonnegative,
    check_samples,
)

__all__ = [
    "SURFRegressor",
    "check_step",
    "check_stop",
    "fit_terms",
    "set_terms",
]


class SURFRegressor(RegressorMixin, BaseEstimator):
    r"""Boosted sparse and low-rank tensor regression (SURF).

    The coefficient is a sum of unit-rank terms σ·w¹∘…∘w^M with ‖w^m‖₁ = 1, each
    fitted to the residual of those before it by a stage-wise path of

    .. math::

       \min_{\sigma, w}\; \tfrac1n \|y - \sigma\langle X, w^1\circ\dots\circ
       w^M\rangle\|^2 + \alpha\sigma^2\prod_m\|w^m\|_2^2 + \lambda\sigma,

    from the largest λ downwards, in steps of `epsilon`. All settings are
    relative: the problem is posed as if y had unit variance and the entries of
    X unit mean square, so the defaults serve data of any scale.

    Parameters
    ----------
    n_components : int, default=3
        Unit-rank terms at most; a term that does not pay ends the fit.
    epsilon : float, default=0.05
        Step of a coordinate. Smaller is finer, slower, and follows the path
        further down, since no step may gain less than `xi`.
    xi : float, default=None
        Least gain of a step; None stands for ε²/2.
    alpha : float, default=0.1
        Ridge weight.
    stop : float, default=0.0
        Each path ends where λ falls below this fraction of its largest value.
        0 follows it to its end.
    max_steps : int, default=10000
        Steps for each term.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    scales_ : array of shape (R,)
        σ of each term, R ≤ `n_components`.
    factors_ : list of arrays of shape (p_m, R)
        Columns of unit l1 norm.
    penalties_ : array of shape (R,)
        The last λ of each term's path, relative to its first.
    n_iter_ : int
        Steps taken, over all terms.
    n_features_in_ : int

    References
    ----------
    .. [1] He, Chen, Xu, Zhou, Wang. Boosted sparse and low-rank tensor
       regression. NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> model = SURFRegressor(n_components=1).fit(X, X[:, 2, 3] + X[:, 2, 4])
    >>> [np.flatnonzero(f[:, 0]).tolist() for f in model.factors_]
    [[2], [3, 4]]
    """

    def __init__(
        self,
        n_components: int = 3,
        *,
        epsilon: float = 0.05,
        xi: float | None = None,
        alpha: float = 0.1,
        stop: float = 0.0,
        max_steps: int = 10_000,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.xi = xi
        self.alpha = alpha
        self.stop = stop
        self.max_steps = max_steps
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SURFRegressor:
        """Fit the terms one after another.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM), or (n, P) with `feature_shape`
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 is the same as giving the sample twice.
        """
        samples = check_samples(self, X, y, sample_weight)
        centred = centre(samples, self.fit_intercept)
        terms, unit = fit_terms(
            samples,
            centred,
            n_components=check_count(self.n_components, "n_components"),
            epsilon=check_step(self.epsilon),
            xi=None if self.xi is None else check_nonnegative(self.xi, "xi"),
            alpha=check_nonnegative(self.alpha, "alpha"),
            stop=check_stop(self.stop),
            max_steps=check_count(self.max_steps, "max_steps"),
        )
        set_terms(self, terms, unit, samples, centred)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,)."""
        return predict_linear(self, X)


def fit_terms(
    samples: Samples,
    centred: Centred,
    *,
    n_components: int,
    epsilon: float,
    xi: float | None,
    alpha: float,
    stop: float,
    max_steps: int,
) -> tuple[list[UnitRank], float]:
    """Run the solver with settings relative to the scales of X and y.

    Returns the terms, and the unit of their scales.
    """
    (A, X_unit), (y, y_unit) = of_unit_size(centred.A), of_unit_size(centred.y)
    xp = array_namespace(A)
    n_total = float(xp.sum(samples.weight))
    y_scale = (float(xp.sum(y**2)) / n_total) ** 0.5
    X_scale = (float(xp.mean(A**2)) * A.shape[0] / n_total) ** 0.5
    if y_scale == 0.0 or X_scale == 0.0:
        return [], 1.0
    xi = 0.5 * epsilon**2 if xi is None else xi
    terms = surf(
        A,
        y,
        samples.shape,
        n_components=n_components,
        epsilon=epsilon * y_scale / X_scale,
        xi=xi * y_scale**2,
        alpha=alpha * X_scale**2,
        stop=stop,
        max_iter=max_steps,
        n_total=n_total,
    )
    return terms, y_unit / X_unit


def set_terms(
    model: Any,
    terms: list[UnitRank],
    unit: float,
    samples: Samples,
    centred: Centred,
) -> None:
    """Set the fitted attributes that belong to `terms`; warn if one is unfinished."""
    coef = as_array(cumulative_tensors(terms, samples.shape)[-1], samples.X)
    model.coef_ = in_original_units(coef, unit)
    model.intercept_ = centred.intercept(model.coef_)
    model.scales_ = np.array([term.scale * unit for term in terms])
    model.factors_ = [
        np.array([term.factors[mode] for term in terms]).reshape(-1, size).T
        for mode, size in enumerate(samples.shape)
    ]
    model.penalties_ = np.array(
        [term.penalty / term.penalty_max if term.penalty else 0.0 for term in terms]
    )
    model.n_iter_ = sum(term.n_iter for term in terms)
    unfinished = [k for k, term in enumerate(terms) if not term.converged]
    if unfinished:
        reached = float(np.max(model.penalties_[unfinished]))
        msg = (
            f"{len(unfinished)} of {len(terms)} paths ran out of steps; the penalty "
            f"had fallen to {reached:.2g} of its largest value. Increase max_steps, "
            "epsilon or stop."
        )
        warnings.warn(msg, ConvergenceWarning, stacklevel=4)


def check_step(epsilon: Any) -> float:
    """Return a positive step, or say what is wrong with it."""
    if check_nonnegative(epsilon, "epsilon") == 0.0:
        msg = "epsilon=0 was given; expected a positive step, such as 0.05."
        raise ValueError(msg)
    return float(epsilon)


def check_stop(stop: Any) -> float:
    """Return a fraction in [0, 1], or say what is wrong with it."""
    if check_nonnegative(stop, "stop") > 1.0:
        msg = f"stop={stop!r} was given; expected a fraction from 0 to 1."
        raise ValueError(msg)
    return float(stop)
