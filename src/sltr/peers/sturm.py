"""Sturm: regression with a sparse coefficient of low tubal rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import prod
from numbers import Integral
from typing import Any

from sltr.arrays import Array, array_namespace, device, singular_values
from sltr.core.prox import threshold_singular_values
from sltr.peers.convex import _ConvexRegressor, _ConvexRegressorCV


@dataclass(frozen=True)
class Tubal:
    """The tubal nuclear norm, the mean nuclear norm of slices after an FFT.

    With Ŵ the discrete Fourier transform of W along every mode but the two that
    span the slices (the first two other than `tube_mode`),

        ‖W‖_TNN = (1/q) Σ_k ‖Ŵ(:, :, k)‖_*,      q the number of slices.

    A matrix has one slice, itself; a vector is a matrix of one column. The
    transform of a real tensor is conjugate symmetric, so half of it is enough.
    """

    tube_mode: int = -1

    def value(self, x: Array) -> Array:
        """Return the mean nuclear norm of the transformed slices."""
        xp = array_namespace(x)
        sums = xp.sum(singular_values(self._slices(x)), axis=-1)
        tubes = self._tubes(x)
        if not tubes:
            return sums
        # Slices whose conjugate the half transform leaves out count twice.
        k = xp.arange(sums.shape[-1], device=device(x))
        twice = (k > 0) & (2 * k != tubes[-1])
        sums = sums + xp.where(twice, sums, xp.zeros_like(sums))
        return xp.sum(xp.reshape(sums, (x.shape[0], -1)), axis=-1) / prod(tubes)

    def prox(self, v: Array, step: Array) -> Array:
        """Soft-threshold the transformed slices' singular values at `step`."""
        xp = array_namespace(v)
        slices = self._slices(v)
        steps = xp.reshape(step, (-1, *([1] * (slices.ndim - 3))))
        slices = threshold_singular_values(slices, steps)
        tubes = self._tubes(v)
        if not tubes:
            return xp.reshape(slices, v.shape)
        modes = xp.moveaxis(slices, (-2, -1), (1, 2))
        axes = tuple(range(3, modes.ndim))
        tensor = xp.fft.irfftn(modes, s=tubes, axes=axes)
        return xp.moveaxis(
            xp.astype(tensor, v.dtype, copy=False), -1, self._tube_axis(v)
        )

    def dual(self, z: Array) -> Array:
        """Return the largest singular value of all transformed slices."""
        xp = array_namespace(z)
        largest = xp.max(singular_values(self._slices(z)), axis=-1)
        return xp.max(xp.reshape(largest, (z.shape[0], -1)), axis=-1)

    def _tube_axis(self, x: Array) -> int:
        return self.tube_mode % (x.ndim - 1) + 1

    def _tubes(self, x: Array) -> tuple[int, ...]:
        """Return the sizes of the transformed modes, the tube mode last."""
        if x.ndim < 4:
            return ()
        xp = array_namespace(x)
        return tuple(xp.moveaxis(x, self._tube_axis(x), -1).shape[3:])

    def _slices(self, x: Array) -> Array:
        """Return the half transform, slices on the last two axes."""
        xp = array_namespace(x)
        if x.ndim < 4:
            return xp.reshape(x, (x.shape[0], x.shape[1], -1))
        x = xp.moveaxis(x, self._tube_axis(x), -1)
        transformed = xp.fft.rfftn(x, axes=tuple(range(3, x.ndim)))
        return xp.moveaxis(transformed, (1, 2), (-2, -1))


@dataclass(eq=False, repr=False)
class SturmRegressor(_ConvexRegressor):
    """Sparse tubal-regularised multilinear regression.

    Solves, over coefficients W of the samples' shape and the intercept b,

        min ½ Σ_i (y_i − ⟨X_i, W⟩ − b)² + α_low ‖W‖_TNN + α_sparse ‖W‖₁
            + (α_ridge/2) ‖W‖²,      ‖W‖_TNN = (1/q) Σ_k ‖Ŵ(:, :, k)‖_*,

    with Ŵ the Fourier transform of W along the tube mode (for order above 3:
    along all modes but the first two others) and q the number of its slices. For
    a matrix the norm is the nuclear norm, for a vector the Euclidean norm.

    Parameters
    ----------
    alpha_sparse : float, default=1.0
        Weight of the entrywise norm.
    alpha_low : float, default=1.0
        Weight of the tubal nuclear norm.
    alpha_ridge : float, default=0.0
        Weight of the squared norm.
    tube_mode : int, default=-1
        Mode of the tubes, counted from 0; not used for vectors and matrices.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, optional
        Shape (p1, …, pM) into which flat rows of X are folded.
    tol : float, default=1e-4
        Duality gap to reach, relative to ½‖y‖² of the centred responses.
    max_iter : int, default=5000

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    dual_gap_ : float
        Relative duality gap reached: the objective is within this of its minimum.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    W. Li, J. Lou, S. Zhou, H. Lu, "Sturm: Sparse tubal-regularized multilinear
    regression for fMRI", MLMI 2019.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0]
    >>> model = SturmRegressor(alpha_sparse=1.0, alpha_low=1.0).fit(X, y)
    >>> model.coef_.shape, model.score(X, y) > 0.9
    ((5, 4, 3), True)
    """

    alpha_sparse: float = 1.0
    alpha_low: float = 1.0
    alpha_ridge: float = 0.0
    _: KW_ONLY
    tube_mode: int = -1
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 5000

    def _norms(self, order: int) -> tuple[Tubal]:
        return _tubal(self.tube_mode, order)


@dataclass(eq=False, repr=False)
class SturmRegressorCV(_ConvexRegressorCV):
    """`SturmRegressor` with both weights chosen by cross-validation.

    Parameters
    ----------
    alphas_sparse, alphas_low, alpha_ridge, n_alphas, cv, scoring, n_jobs
        As for `RemursRegressorCV`.
    tube_mode, fit_intercept, feature_shape, tol, max_iter
        As for `SturmRegressor`.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_
        As for `SturmRegressor`, of the best candidate on all samples.
    alpha_sparse_, alpha_low_, best_score_, cv_results_
        As for `RemursRegressorCV`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4, 3))
    >>> y = X[:, 0, 0, 0] - X[:, 1, 0, 0] + 0.1 * rng.normal(size=60)
    >>> SturmRegressorCV(n_alphas=3).fit(X, y).best_score_ > 0.9
    True
    """

    alphas_sparse: Sequence[float] | None = None
    alphas_low: Sequence[float] | None = None
    alpha_ridge: float = 0.0
    _: KW_ONLY
    n_alphas: int = 7
    cv: Any = 5
    scoring: str | Callable | None = None
    tube_mode: int = -1
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 5000
    n_jobs: int | None = None

    def _norms(self, order: int) -> tuple[Tubal]:
        return _tubal(self.tube_mode, order)


def _tubal(tube_mode: int, order: int) -> tuple[Tubal]:
    modes = range(-order, order)
    if order > 2 and (not isinstance(tube_mode, Integral) or tube_mode not in modes):
        msg = (
            f"tube_mode={tube_mode!r} was given for samples of order {order}; "
            f"expected an integer from {-order} to {order - 1}."
        )
        raise ValueError(msg)
    return (Tubal(int(tube_mode) if order > 2 else -1),)
