"""What the convex tensor regressions share: fitting, and storing the fit.

They differ in their low-rank norms only, which arrive here as arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array, array_namespace, to_python
from sltr.models.linear import set_linear
from sltr.models.linear_cv import LinearFits
from sltr.solvers.least_squares import LeastSquares, rotate
from sltr.solvers.low_rank import TensorNorm
from sltr.solvers.penalised_admm import penalised_path
from sltr.validation import Samples, centre, check_count, check_nonnegative

__all__ = [
    "Fits",
    "Weights",
    "convex_fits",
    "store_fit",
    "warn_unconverged",
]


@dataclass(frozen=True)
class Weights:
    """Candidate weights: every pair of `low` and `sparse`, one `ridge`."""

    low: tuple[float, ...]
    sparse: tuple[float, ...]
    ridge: float = 0.0

    @classmethod
    def checked(cls, low: Any, sparse: Any, ridge: Any) -> Weights:
        """Return clean candidates, or say which of the values cannot be used."""
        return cls(
            _checked(low, "alpha_low"),
            _checked(sparse, "alpha_sparse"),
            check_nonnegative(ridge, "alpha_ridge"),
        )

    @property
    def params(self) -> dict[str, list[float]]:
        """The candidates as columns, in the order in which they are solved."""
        pairs = [(low, sparse) for low in self.low for sparse in self.sparse]
        return {
            "alpha_low": [low for low, _ in pairs],
            "alpha_sparse": [sparse for _, sparse in pairs],
        }


def _checked(values: Any, name: str) -> tuple[float, ...]:
    values = [values] if isinstance(values, str) or np.ndim(values) == 0 else values
    clean = tuple(check_nonnegative(value, name) for value in values)
    if not clean:
        msg = f"No values of {name} were given; expected at least one."
        raise ValueError(msg)
    return clean


@dataclass(frozen=True, eq=False, kw_only=True)
class Fits(LinearFits):
    """Candidates, C pairs of weights, with `n_iter` and `gap` of shape (C, K)."""

    n_iter: Array
    gap: Array


def convex_fits(
    samples: Samples,
    targets: Array,
    norms: Sequence[TensorNorm],
    weights: Weights,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Fits:
    """Fit every candidate to every response, with one factorisation.

    Parameters
    ----------
    samples : Samples
    targets : array of shape (K, n)
    norms : sequence of TensorNorm
    weights : Weights
    """
    check_nonnegative(tol, "tol")
    problem, X_mean, target_mean = _prepare(samples, targets, fit_intercept)
    path = penalised_path(
        problem,
        norms,
        samples.shape,
        weights.low,
        weights.sparse,
        weights.ridge,
        tol=tol,
        max_iter=check_count(max_iter, "max_iter"),
    )
    xp = array_namespace(path.x)
    pairs = (-1, targets.shape[0])
    coef = xp.reshape(path.x, (*pairs, *samples.shape))
    shifts = xp.sum(xp.reshape(coef, (*pairs, X_mean.shape[0])) * X_mean, axis=-1)
    return Fits(
        coef=coef,
        intercept=target_mean - shifts,
        n_iter=xp.reshape(path.n_iter, pairs),
        gap=xp.reshape(path.residual, pairs),
        converged=bool(xp.all(path.converged)),
    )


def _prepare(
    samples: Samples, targets: Array, fit_intercept: bool
) -> tuple[LeastSquares, Array, Array]:
    """Return the factorised problem, the mean sample and the mean responses."""
    xp = array_namespace(targets)
    weight = samples.weight
    data = centre(Samples(samples.X, targets[0, :], weight), fit_intercept)
    target_mean = (targets @ weight) / xp.sum(weight) * float(bool(fit_intercept))
    centred = xp.sqrt(weight) * (targets - target_mean[:, None])
    return rotate(data.A, centred), data.X_mean, target_mean


def store_fit(model: Any, fits: Fits) -> None:
    """Set the fitted attributes of `model` from the only candidate of `fits`."""
    coef, intercept = fits.coef[0, ...], fits.intercept[0, ...]
    set_linear(model, coef, intercept)
    model.n_iter_ = max(to_python(fits.n_iter[0, ...]))
    model.dual_gap_ = max(to_python(fits.gap[0, ...]))
    if not fits.converged:
        reached = f"The fit, at a gap of {model.dual_gap_:.1e},"
        warn_unconverged(reached, model.tol, model.max_iter)


def warn_unconverged(what: str, tol: float, max_iter: int) -> None:
    """Warn that the budget ran out before the duality gap reached `tol`."""
    msg = (
        f"{what} did not reach a duality gap of tol={tol} (relative to ½‖y‖²) in "
        f"max_iter={max_iter} iterations. Increase max_iter or tol, or penalise more."
    )
    warnings.warn(msg, ConvergenceWarning, stacklevel=5)
