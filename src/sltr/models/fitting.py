"""The data flow of SLTR: samples → pilot → estimate → intercept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from sltr._array import Array, array_namespace, as_array, to_python
from sltr.estimate import Settings
from sltr.models.answer import Member
from sltr.models.candidates import (
    STARTS,
    SUPPORT_RIDGES,
    Candidate,
    check_refinements,
    largest_rank,
    refined,
)
from sltr.models.choosing import choose
from sltr.models.folds import Fold, Task
from sltr.models.tuning import held_out_predictions
from sltr.refine import RIDGES, STEPS
from sltr.ridge import RidgeSystem, ridge_system
from sltr.validation import Samples, check_nonnegative

__all__ = [
    "choose_epsilon",
    "choose_refit",
    "fitting_task",
    "solver_settings",
    "unchanged_on_failure",
    "warn_unless_converged",
]


INNER_FOLDS = 5

Fit = TypeVar("Fit", bound=Callable[..., Any])


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
    settings = solver_settings(model)
    system = ridge_system(
        samples.flat, Y, samples.weight, fit_intercept=model.fit_intercept
    )
    return Task(samples, Y, system, bool(model.fit_intercept), model.radius, settings)


def choose_epsilon(system: RidgeSystem, epsilon: float | str, like: Array) -> float:
    """Return a given penalty, or the one of least leave-one-out error."""
    if isinstance(epsilon, str) and epsilon != "loo":
        msg = f"epsilon={epsilon!r} was given; expected a number or 'loo'."
        raise ValueError(msg)
    if not isinstance(epsilon, str):
        return check_nonnegative(epsilon, "epsilon")
    scale = system.mean_eigenvalue()
    if not scale > 0:  # all samples are equal: every penalty gives zero
        return 1.0
    # In single precision smaller penalties, or a tenth of them, drown in rounding.
    floor = 1e4 * float(array_namespace(like).finfo(like.dtype).eps)
    factors = [10.0 ** (k / 6) for k in range(-36, 31)]
    candidates = [scale * factor for factor in factors if factor > floor]
    errors = to_python(system.loo(as_array(candidates, like)))
    # Below the noise the error is flat: the largest penalty that is as good.
    good = min(errors) * (1.0 + 1e-3)
    best = max(e for e, error in enumerate(errors) if error <= good)
    return candidates[best]


def choose_refit(task: Task, base: Candidate, refine: Any) -> Member:
    """Return the refined candidate, with its factors if it is scaled.

    What is not given is chosen by five folds of the task's samples.
    """
    if refine is None:
        return Member(base)
    if isinstance(refine, tuple | list):
        return Member(_given_refit(base, refine, task.samples.shape))
    [kind] = check_refinements(refine)
    n_samples = task.samples.weight.shape[0]
    splitter = KFold(min(INNER_FOLDS, n_samples))
    folds = [
        Fold.of(task, train, test) for train, test in splitter.split(range(n_samples))
    ]
    held = held_out_predictions(
        task,
        folds,
        [base.epsilon],
        [(base.lambda_sparse, base.lambda_low)],
        [kind],
        start=base,
    )
    return choose(task, folds, held, scoring=None).members[0]


def _given_refit(base: Candidate, refine: Any, shape: tuple[int, ...]) -> Candidate:
    """Return the candidate a tuple asks for, which must be one that is tuned over."""
    kind, *rest = tuple(refine) or (None,)
    if kind in ("tucker", "cp") and len(rest) == 2:
        rest = [*rest, STARTS[0]]
    if kind in ("reweight", "tucker", "cp", "sparse"):
        for known in refined(kind, base, shape):
            if known.settings == tuple(rest):
                return known
    ranks = {k: largest_rank(k, shape) for k in ("tucker", "cp")}
    msg = (
        f"refine={refine!r} was given; expected ('tucker', rank up to "
        f"{ranks['tucker']}, ridge), ('cp', rank up to {ranks['cp']}, ridge) with a "
        f"ridge of {RIDGES} and perhaps a start of {STARTS}, ('reweight', steps) with "
        f"one of {STEPS}, or ('sparse', ridge) with one of {SUPPORT_RIDGES}."
    )
    raise ValueError(msg)


def unchanged_on_failure(fit: Fit) -> Fit:
    """Make a `fit` that fails or is interrupted leave its estimator as it was."""

    @wraps(fit)
    def guarded(model, *args, **kwargs):
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException:
            vars(model).clear()
            vars(model).update(before)
            raise

    return guarded  # type: ignore[return-value]


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
