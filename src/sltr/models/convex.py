"""What the convex tensor regressions share: fitting, and storing the fit.

They differ in their low-rank norms only, which arrive here as arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array, array_namespace, to_python
from sltr.models.linear import set_linear
from sltr.models.linear_cv import LinearFits
from sltr.solvers.least_squares import rotate
from sltr.solvers.low_rank import TensorNorm
from sltr.solvers.penalised_admm import penalised_path
from sltr.solvers.units import in_original_units, of_unit_size
from sltr.validation import (
    Samples,
    centre,
    check_count,
    check_nonnegative,
    check_sequence,
)

__all__ = [
    "CentredTargets",
    "Fits",
    "Weights",
    "centred_targets",
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
    def single(cls, low: Any, sparse: Any, ridge: Any) -> Weights:
        """Return the only candidate, or say which of the numbers cannot be used."""
        return cls(
            (check_nonnegative(low, "alpha_low"),),
            (check_nonnegative(sparse, "alpha_sparse"),),
            check_nonnegative(ridge, "alpha_ridge"),
        )

    @classmethod
    def checked(cls, low: Any, sparse: Any, ridge: Any) -> Weights:
        """Return clean candidates, or say which of the values cannot be used."""
        return cls(
            _checked(low, "alphas_low"),
            _checked(sparse, "alphas_sparse"),
            check_nonnegative(ridge, "alpha_ridge"),
        )

    def of_units(self, X_unit: float, y_unit: float, most: float) -> Weights:
        """Return the weights that mean the same once X and y are divided.

        Any above `most`, which must be enough to make a coefficient zero, is `most`.
        """

        def divided(weight: float) -> float:
            return min(weight / X_unit / y_unit, most)

        return Weights(
            tuple(map(divided, self.low)),
            tuple(map(divided, self.sparse)),
            min(self.ridge / X_unit / X_unit, most),
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
    return tuple(check_nonnegative(v, name) for v in check_sequence(values, name))


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
    data = centred_targets(samples, targets, fit_intercept)
    xp = array_namespace(targets)
    most = float(xp.finfo(targets.dtype).max) ** 0.5
    scaled = weights.of_units(data.X_unit, data.y_unit, most)
    path = penalised_path(
        rotate(data.A, data.targets),
        norms,
        samples.shape,
        scaled.low,
        scaled.sparse,
        scaled.ridge,
        tol=tol,
        max_iter=check_count(max_iter, "max_iter"),
    )
    pairs = (-1, targets.shape[0])
    coef = in_original_units(path.x, data.y_unit / data.X_unit)
    coef = xp.reshape(coef, (*pairs, *samples.shape))
    flat = xp.reshape(coef, (*pairs, data.X_mean.shape[0]))
    return Fits(
        coef=coef,
        intercept=data.target_mean - xp.sum(flat * data.X_mean, axis=-1),
        n_iter=xp.reshape(path.n_iter, pairs),
        gap=xp.reshape(path.residual, pairs),
        converged=bool(xp.all(path.converged)),
    )


@dataclass(frozen=True, eq=False)
class CentredTargets:
    """Weighted, centred samples and K responses, both divided by their units.

    The means, of shapes (P,) and (K,), are those of the samples as they were given.
    """

    A: Array  # (n, P)
    targets: Array  # (K, n)
    X_unit: float
    y_unit: float
    X_mean: Array
    target_mean: Array


def centred_targets(
    samples: Samples, targets: Array, fit_intercept: bool
) -> CentredTargets:
    """Return what least squares needs; samples that are all equal leave zeros."""
    xp = array_namespace(targets)
    weight = samples.weight
    data = centre(Samples(samples.X, targets[0, :], weight), fit_intercept)
    target_mean = (targets @ weight) / xp.sum(weight) * float(bool(fit_intercept))
    A, centred = data.A, xp.sqrt(weight) * (targets - target_mean[:, None])
    # The rounding that a constant leaves would be taken for a signal.
    if fit_intercept and bool(xp.all(samples.X[:1, ...] == samples.X)):
        A = xp.zeros_like(A)
    A, X_unit = of_unit_size(A)
    centred, y_unit = of_unit_size(centred)
    return CentredTargets(A, centred, X_unit, y_unit, data.X_mean, target_mean)


def store_fit(model: Any, fits: Fits, *, stacklevel: int = 5) -> None:
    """Set the fitted attributes of `model` from the only candidate of `fits`.

    The default `stacklevel` of a warning is for a `fit` that calls this itself.
    """
    coef, intercept = fits.coef[0, ...], fits.intercept[0, ...]
    set_linear(model, coef, intercept)
    model.n_iter_ = max(to_python(fits.n_iter[0, ...]))
    model.dual_gap_ = max(to_python(fits.gap[0, ...]))
    if not fits.converged:
        reached = f"The fit, at a gap of {model.dual_gap_:.1e},"
        warn_unconverged(reached, model.tol, model.max_iter, stacklevel=stacklevel)


def warn_unconverged(
    what: str, tol: float, max_iter: int, *, stacklevel: int = 5
) -> None:
    """Warn that the budget ran out before the duality gap reached `tol`."""
    msg = (
        f"{what} did not reach a duality gap of tol={tol} (relative to ½‖y‖²) in "
        f"max_iter={max_iter} iterations. Increase max_iter or tol, or penalise more."
    )
    warnings.warn(msg, ConvergenceWarning, stacklevel=stacklevel)
