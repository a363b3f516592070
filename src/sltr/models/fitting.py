"""The data flow of SLTR: samples → pilot → estimate → intercept."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sltr._array import Array, array_namespace, as_array, to_python
from sltr.design import is_lazy, memory_bytes
from sltr.estimate import Settings
from sltr.models.candidates import (
    Candidate,
)
from sltr.models.folds import Task
from sltr.ridge import RidgeSystem, ridge_system
from sltr.solvers.units import check_squares
from sltr.validation import Samples, check_nonnegative

__all__ = [
    "choose_epsilon",
    "fitting_task",
    "lazy_refinements",
    "own_candidate",
    "solver_settings",
    "warn_unless_converged",
]


# Of the memory limit, for each entry of a chunk's answers: 12 doubles in an eighth.
CHUNK_BYTES = 8 * 12 * 8


def solver_settings(model: Any) -> Settings:
    """Return the solver's settings from an estimator's parameters.

    `n_jobs` means threads over modes here; where it means processes over folds,
    these work without further threads.
    """
    return Settings(
        coupling=model.coupling,
        weights=model.weights,
        solver=model.solver,
        tol=model.tol,
        max_iter=model.max_iter,
        n_jobs=None if hasattr(model, "cv") else model.n_jobs,
    )


def fitting_task(model: Any, samples: Samples, Y: Array) -> Task:
    """Prepare an estimator's samples: the expensive part, done once."""
    check_squares(Y)
    settings = solver_settings(model)
    lazy = is_lazy(samples.X)
    limit = memory_bytes(model.memory_limit)  # checked for all, used by lazy ones
    if lazy:
        entries = limit // (CHUNK_BYTES * Y.shape[1])
        settings = replace(settings, chunk_entries=max(1, entries))
    system = ridge_system(
        samples.flat,
        Y,
        samples.weight,
        fit_intercept=model.fit_intercept,
        limit=limit if lazy else None,
        unconverged=_warn_of_pilot,
    )
    model.pilot_method_ = system.method
    return Task(samples, Y, system, bool(model.fit_intercept), model.radius, settings)


def choose_epsilon(system: RidgeSystem, epsilon: float | str, like: Array) -> float:
    """Return a given penalty, or the one of least leave-one-out error."""
    if isinstance(epsilon, str) and epsilon != "loo":
        msg = f"epsilon={epsilon!r} was given; expected a number or 'loo'."
        raise ValueError(msg)
    if not isinstance(epsilon, str):
        return check_nonnegative(epsilon, "epsilon")
    scale = system.mean_eigenvalue()
    limits = array_namespace(like).finfo(like.dtype)
    if not (scale == 0 or limits.smallest_normal <= scale <= limits.max):
        msg = (
            f"Samples with squares of {scale:.1e} were given, which {like.dtype} does "
            "not have. Divide X by its largest entry."
        )
        raise ValueError(msg)
    if not scale > 0:  # all samples are equal: every penalty gives zero
        return 1.0
    # In single precision smaller penalties, or a tenth of them, drown in rounding.
    floor = 1e4 * float(limits.eps)
    factors = [10.0 ** (k / 6) for k in range(-36, 31)]
    candidates = [scale * factor for factor in factors if factor > floor]
    errors = to_python(system.loo(as_array(candidates, like)))
    # Below the noise the error is flat: the largest penalty that is as good.
    good = min(errors) * (1.0 + 1e-3)
    best = max(e for e, error in enumerate(errors) if error <= good)
    return candidates[best]


def own_candidate(model: Any) -> Candidate:
    """Return the one candidate of an estimator whose `epsilon_` is known."""
    return Candidate(
        model.epsilon_,
        check_nonnegative(model.lambda_sparse, "lambda_sparse"),
        check_nonnegative(model.lambda_low, "lambda_low"),
    )


def lazy_refinements(X: Any, refine: Any, default: Any) -> Any:
    """Return what of `refine` can be done for these samples.

    Refits read X dozens of times: for lazy samples the default leaves them out,
    with a warning, and to ask for them is an error.
    """
    if not is_lazy(X):
        return refine
    if refine == default and default is None:
        return None
    if refine == default:
        warnings.warn(
            "X stays where it is: refine is (None, 'scale'), without the refits, which "
            "predict better. If X fits into memory, give X[:]. Or give refine.",
            UserWarning,
            stacklevel=5,
        )
        return None, "scale"
    asked = [refine] if isinstance(refine, str) or refine is None else list(refine)
    if not set(asked) <= {None, "scale"}:
        msg = (
            f"refine={refine!r} was given for samples that stay in a file or on a "
            "cluster; expected None or 'scale', since refits read the samples dozens "
            "of times. Load X into memory, or shrink it first."
        )
        raise ValueError(msg)
    return refine


def _warn_of_pilot(residual: float, n_iter: int) -> None:
    warnings.warn(
        f"The pilot's conjugate gradients stopped after {n_iter} iterations at a "
        f"relative residual of {residual:.1e}. Increase epsilon, or memory_limit so "
        "that a factorisation fits.",
        ConvergenceWarning,
        stacklevel=2,
    )


def warn_unless_converged(
    converged: Any, gap: Any, tol: float, *, stacklevel: int = 5
) -> None:
    """Warn, with the gap reached, when the budget of iterations ran out.

    The default `stacklevel` points at the caller of an estimator's `fit`.
    """
    if not converged:
        warnings.warn(
            f"SLTR stopped at a relative duality gap of {float(gap):.1e}; tol={tol:g} "
            "was asked for. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
