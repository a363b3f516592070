"""Sparse Tucker regression by projected gradient steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, log2, prod
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array, array_namespace
from sltr.models.linear import predict_linear
from sltr.models.unchanged import unchanged_on_failure
from sltr.solvers.tpgd import SparseTucker, tpgd
from sltr.validation import (
    Centred,
    Samples,
    centre,
    check_count,
    check_nonnegative,
    check_samples,
)

__all__ = [
    "TPGDRegressor",
    "check_budget",
    "column_cardinalities",
    "of_unit_size",
    "set_tucker",
    "tucker_ranks",
]


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
        samples, unit = of_unit_size(check_samples(self, X, y, sample_weight))
        ranks = tucker_ranks(self.ranks, samples.shape)
        sparsity = column_cardinalities(self.sparsity, samples.shape)
        tol, max_iter = check_budget(self.tol, self.max_iter)
        centred = centre(samples, self.fit_intercept)
        result = tpgd(
            centred.A,
            centred.y,
            samples.shape,
            ranks,
            sparsity,
            tol=tol,
            max_iter=max_iter,
        )
        set_tucker(self, result, centred, unit)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,)."""
        return predict_linear(self, X)


def of_unit_size(samples: Samples) -> tuple[Samples, float]:
    """Return samples divided by their size, a power of two, and that size.

    The steps square what they see, which must neither vanish nor overflow.
    """
    xp = array_namespace(samples.X)
    size = float(xp.max(xp.abs(samples.X)))
    unit = 2.0 ** floor(log2(size)) if size > 0.0 else 1.0
    return replace(samples, X=samples.X / unit), unit


def set_tucker(model: Any, result: SparseTucker, centred: Centred, unit: float) -> None:
    """Set the fitted attributes that belong to `result`; warn if unfinished.

    `unit` is what the samples were divided by.
    """
    model.coef_, model.core_ = result.coef / unit, result.core / unit
    model.intercept_, model.factors_ = centred.intercept(result.coef), result.factors
    model.objective_path_ = np.array(result.objective_path)
    model.residual_, model.n_iter_ = result.residual, result.n_iter
    if not result.converged:
        msg = (
            f"After {result.n_iter} steps the explained share of y still rose by "
            f"{result.residual:.2g} in one step (tol={model.tol:.2g}). "
            "Increase max_iter or tol, or lower ranks."
        )
        warnings.warn(msg, ConvergenceWarning, stacklevel=4)


def tucker_ranks(ranks: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return one possible Tucker rank for each mode, or say what is wrong.

    r_m cannot exceed the mode's size or the product of the other ranks.

    Examples
    --------
    >>> tucker_ranks(4, (9, 8, 3)), tucker_ranks(4, (9,))
    ((4, 4, 3), (1,))
    """
    given = [ranks] if _is_scalar(ranks) else list(ranks)
    whole = all(_is_whole(rank) and rank >= 1 for rank in given)
    if whole and _is_scalar(ranks):
        cut = [min(int(ranks), size) for size in shape]
        for _ in shape:  # a cut in one mode may ask for one in the next
            for mode in range(len(shape)):
                cut[mode] = min(cut[mode], _product_of_others(cut, mode))
        return tuple(cut)
    clean = [int(rank) for rank in given] if whole else []
    if len(clean) != len(shape) or any(
        rank > min(size, _product_of_others(clean, mode))
        for mode, (rank, size) in enumerate(zip(clean, shape, strict=True))
    ):
        msg = (
            f"ranks={ranks!r} was given for samples of shape {shape}; expected a whole "
            "number of at least 1, or one for each mode that exceeds neither the "
            "mode's size nor the product of the other ranks."
        )
        raise ValueError(msg)
    return tuple(clean)


def column_cardinalities(sparsity: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many entries of a column may differ from zero, for each mode.

    Examples
    --------
    >>> column_cardinalities(0.25, (9, 8)), column_cardinalities((3, 1.0), (9, 8))
    ((3, 2), (3, 8))
    """
    scalar = _is_scalar(sparsity)
    given = [sparsity] * len(shape) if scalar else list(sparsity)
    largest = max(shape)
    counts = [
        _cardinality(value, size, largest if scalar else size)
        for value, size in zip(given, shape, strict=False)
    ]
    if len(given) != len(shape) or 0 in counts:
        msg = (
            f"sparsity={sparsity!r} was given for samples of shape {shape}; expected a "
            "number of entries from 1 to a mode's size or a fraction in (0, 1], or "
            "one of them for each mode."
        )
        raise ValueError(msg)
    return tuple(counts)


def check_budget(tol: Any, max_iter: Any) -> tuple[float, int]:
    """Return a clean tolerance and number of steps, or say what is wrong."""
    return check_nonnegative(tol, "tol"), check_count(max_iter, "max_iter")


def _cardinality(value: Any, size: int, most: int) -> int:
    """Return a number of entries from 1 to `size`, or 0 if `value` is none."""
    if _is_whole(value):
        return min(int(value), size) if 1 <= value <= most else 0
    fraction = float(value) if isinstance(value, Real) else 0.0
    if isinstance(value, bool) or not 0.0 < fraction <= 1.0:
        return 0
    return max(1, ceil(fraction * size - 1e-9))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Sequence | np.ndarray) or isinstance(value, str)


def _product_of_others(ranks: list[int], mode: int) -> int:
    return prod(ranks[:mode] + ranks[mode + 1 :])
