"""The data flow of SLTR: samples → pilot → estimate → intercept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array, array_namespace, as_array, to_python
from sltr.design import combine
from sltr.estimate import Settings, absolute_radii, estimate_path
from sltr.ridge import RidgeSystem
from sltr.validation import Samples, check_nonnegative

__all__ = [
    "SubsetFit",
    "all_of",
    "choose_epsilon",
    "fit_subsets",
    "intercepts",
    "left_out",
    "solver_settings",
    "warn_unless_converged",
]


@dataclass(frozen=True, eq=False)
class SubsetFit:
    """SLTR fitted on S subsets of the samples, for K responses each.

    `coef` and `pilot` have shape (S, K, p1, …, pM), the rest (S, K).
    """

    coef: Array
    intercept: Array
    pilot: Array
    gap: Array
    n_iter: Array
    converged: Array


def solver_settings(model: Any) -> Settings:
    """Return the solver's settings from an estimator's parameters."""
    return Settings(
        coupling=model.coupling,
        weights=model.weights,
        solver=model.solver,
        tol=model.tol,
        max_iter=model.max_iter,
        n_jobs=model.n_jobs,
    )


def choose_epsilon(system: RidgeSystem, epsilon: float | str, like: Array) -> float:
    """Return a given penalty, or the one of least leave-one-out error."""
    if epsilon != "loo":
        return check_nonnegative(epsilon, "epsilon")
    scale = system.mean_eigenvalue()
    if not scale > 0:  # all samples are equal: every penalty gives zero
        return 1.0
    candidates = [scale * 10.0 ** (k / 6) for k in range(-36, 31)]
    errors = to_python(system.loo(as_array(candidates, like)))
    # Ties (a pilot that fits nothing) go to the larger penalty.
    best = min(range(len(errors)), key=lambda e: (errors[e], -candidates[e]))
    return candidates[best]


def all_of(samples: Samples) -> Array:
    """Return the subset of all samples, shape (1, n)."""
    return (samples.weight > 0)[None, :]


def left_out(samples: Samples, folds: list) -> Array:
    """Return subsets that leave one fold's rows out each, shape (F, n)."""
    xp = array_namespace(samples.weight)
    rows = []
    for test in folds:
        held = set(int(i) for i in test)
        rows.append([i not in held for i in range(samples.weight.shape[0])])
    return as_array(rows, samples.weight, dtype=xp.bool)


def fit_subsets(
    system: RidgeSystem,
    samples: Samples,
    Y: Array,
    subsets: Array,
    *,
    epsilon: float,
    lambda_sparse: float,
    lambda_low: float,
    radius: str,
    fit_intercept: bool,
    settings: Settings,
) -> SubsetFit:
    """Fit one setting on several subsets, whose pilots share one preparation."""
    xp = array_namespace(samples.X)
    sparse = as_array([check_nonnegative(lambda_sparse, "lambda_sparse")], samples.X)
    low = as_array([check_nonnegative(lambda_low, "lambda_low")], samples.X)
    pilots = system.coefs(subsets, as_array([epsilon], samples.X))[:, 0, ...]
    flat = xp.reshape(pilots, (-1, *samples.shape))
    sparse_radius, low_radius = absolute_radii(flat, sparse, low, radius)
    [(_, found)] = estimate_path(flat, sparse_radius, low_radius, settings)
    shape = (subsets.shape[0], Y.shape[1])
    coef = xp.reshape(found.coef, (*shape, *samples.shape))
    return SubsetFit(
        coef,
        intercepts(coef, samples, Y, subsets, fit_intercept),
        xp.reshape(flat, coef.shape),
        *(xp.reshape(v, shape) for v in (found.gap, found.n_iter, found.converged)),
    )


def intercepts(
    coef: Array, samples: Samples, Y: Array, subsets: Array, fit_intercept: bool
) -> Array:
    """Return weighted means of y − ⟨coef, x⟩ over each subset: (S, K).

    `coef` has shape (S, K, p1, …, pM).
    """
    xp = array_namespace(coef)
    if not fit_intercept:
        return 0.0 * coef[(slice(None), slice(None), *([0] * (coef.ndim - 2)))]
    weight = xp.where(subsets, samples.weight, 0.0)
    share = weight / xp.sum(weight, axis=1, keepdims=True)
    means = combine(share, samples.flat)  # (S, P)
    rows = xp.reshape(coef, (*coef.shape[:2], -1))
    return share @ Y - xp.sum(rows * means[:, None, :], axis=2)


def warn_unless_converged(converged: Any, gap: Any, tol: float) -> None:
    """Warn, with the gap reached, when the budget of iterations ran out."""
    if not converged:
        warnings.warn(
            f"SLTR stopped at a relative duality gap of {float(gap):.1e}; tol={tol:g} "
            "was asked for. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
