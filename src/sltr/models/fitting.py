"""The data flow of SLTR: samples → pilot → estimate → intercept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from sltr._array import Array, array_namespace, as_array, to_python
from sltr.design import combine
from sltr.estimate import Settings, absolute_radii, estimate_path
from sltr.models.candidates import (
    SUPPORT_RIDGES,
    Candidate,
    check_refinements,
    largest_rank,
    refined,
)
from sltr.models.choosing import choose
from sltr.models.folds import Fold, Task
from sltr.models.refits import low_rank_fits, sparse_fits
from sltr.models.tuning import held_out_predictions
from sltr.refine import RIDGES
from sltr.ridge import RidgeSystem, ridge_system
from sltr.validation import Samples, check_nonnegative

__all__ = [
    "SubsetFit",
    "all_of",
    "choose_epsilon",
    "choose_refit",
    "fit_subsets",
    "fitting_task",
    "intercepts",
    "left_out",
    "solver_settings",
    "unchanged_on_failure",
    "warn_unless_converged",
]


INNER_FOLDS = 5

Fit = TypeVar("Fit", bound=Callable[..., Any])


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


def choose_refit(task: Task, base: Candidate, refine: Any) -> tuple[Candidate, Any]:
    """Return the refined candidate and its scale factors (or None).

    What is not given is chosen by five folds of the task's samples.
    """
    if refine is None:
        return base, None
    if isinstance(refine, tuple | list):
        return _given_refit(base, refine, task.samples.shape), None
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
    choice = choose(task, folds, held, scoring=None)
    return choice.candidate, choice.scale


def _given_refit(base: Candidate, refine: Any, shape: tuple[int, ...]) -> Candidate:
    """Return the candidate a tuple asks for, which must be one that is tuned over."""
    kind, *rest = tuple(refine) or (None,)
    if kind in ("tucker", "cp", "sparse"):
        known = refined(kind, base, shape)
        settings = [
            (c.ridge,) if kind == "sparse" else (c.rank, c.ridge) for c in known
        ]
        if tuple(rest) in settings:
            return known[settings.index(tuple(rest))]
    ranks = {k: largest_rank(k, shape) for k in ("tucker", "cp")}
    msg = (
        f"refine={refine!r} was given; expected ('tucker', rank up to "
        f"{ranks['tucker']}, ridge), ('cp', rank up to {ranks['cp']}, ridge) with a "
        f"ridge of {RIDGES}, or ('sparse', ridge) with one of {SUPPORT_RIDGES}."
    )
    raise ValueError(msg)


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
    task: Task, subsets: Array, candidate: Candidate, scale: Any = None
) -> SubsetFit:
    """Fit one candidate on several subsets, whose pilots share one preparation.

    `scale` (K,) holds the factors of `refine="scale"`.
    """
    samples = task.samples
    xp = array_namespace(samples.X)
    penalty = as_array([candidate.epsilon], samples.X)
    pilots = task.system.coefs(subsets, penalty)[:, 0, ...]
    flat = xp.reshape(pilots, (-1, *samples.shape))
    sparse = as_array([candidate.lambda_sparse], flat)
    low = as_array([candidate.lambda_low], flat)
    radii = absolute_radii(flat, sparse, low, task.radius)
    [(_, found)] = estimate_path(flat, *radii, task.settings)
    shape = (subsets.shape[0], task.Y.shape[1])
    coef = xp.reshape(found.coef, (*shape, *samples.shape))
    coef = _refined(task, subsets, candidate, coef, scale)
    return SubsetFit(
        coef,
        intercepts(coef, samples, task.Y, subsets, task.fit_intercept),
        xp.reshape(flat, coef.shape),
        *(xp.reshape(v, shape) for v in (found.gap, found.n_iter, found.converged)),
    )


def _refined(
    task: Task, subsets: Array, candidate: Candidate, coef: Array, scale: Any
) -> Array:
    xp = array_namespace(coef)
    if candidate.refine is None:
        return coef
    if candidate.refine == "scale":
        factors = as_array(scale, coef)
        return coef * factors[(slice(None), *([None] * (coef.ndim - 2)))]
    if candidate.refine == "sparse":
        rows = [
            sparse_fits(task, subsets[s, :], [[candidate]])[0][0]
            for s in range(subsets.shape[0])
        ]
        return xp.reshape(xp.stack(rows, axis=0), coef.shape)
    fits = low_rank_fits(task, subsets, candidate, candidate.refine)
    wanted = (candidate.rank, candidate.ridge)
    refit = next(refit for refit in fits if (refit.rank, refit.ridge) == wanted)
    return xp.reshape(refit.coef(), coef.shape)


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
