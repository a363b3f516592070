"""What the low-rank GLM estimators share: from prepared samples to a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import log
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sltr._array import Array, as_array
from sltr.models.linear import linear_scores
from sltr.models.prepared import Prepared
from sltr.solvers.block_relaxation import Relaxed, block_relaxation, starts
from sltr.solvers.decompositions import CP, Tucker
from sltr.solvers.glm import FAMILIES, Problem
from sltr.validation import (
    check_count,
    check_covariates,
    check_nonnegative,
)

__all__ = [
    "bic",
    "choose_by_bic",
    "fit_path",
    "predict_mean",
    "remember",
    "scores_with_covariates",
    "warn_unless_converged",
]

Structure = CP | Tucker
S = TypeVar("S", CP, Tucker)


def fit_path(
    prepared: Prepared,
    structure: Structure,
    model: Any,
    alphas: Sequence[float],
    *,
    l1: float = 0.0,
) -> list[Relaxed]:
    """Fit one structure for each relative ridge, from the largest to the smallest.

    From the second on, the solution before races against the first of the starts
    alone: a component that a large ridge took to zero could not come back.
    """
    problem, total = prepared.problem, prepared.total
    ridges = [total * check_nonnegative(a, "alpha_ridge") for a in alphas]
    l1 = total * check_nonnegative(l1, "alpha_l1")
    _check_enough_samples(problem, structure, ridges[-1], l1)
    candidates = starts(
        problem,
        structure,
        check_count(model.n_restarts, "n_restarts"),
        check_random_state(model.random_state),
        ridge=ridges[-1],
        l1=l1,
    )
    fits: list[Relaxed] = []
    for ridge in ridges:
        found = block_relaxation(
            problem,
            structure,
            [fits[-1].blocks, candidates[0]] if fits else candidates,
            ridge=ridge,
            l1=l1,
            tol=check_nonnegative(model.tol, "tol"),
            max_iter=check_count(model.max_iter, "max_iter"),
        )
        fits.append(found)
    return fits


def _check_enough_samples(
    problem: Problem, structure: Structure, ridge: float, l1: float
) -> None:
    n_unknowns = max(structure.block_sizes()) + problem.covariates.shape[1]
    n_samples = problem.X.shape[0]
    if ridge == l1 == 0.0 and n_samples < n_unknowns:
        msg = (
            f"{n_samples} samples were given for a block of {n_unknowns} unknowns "
            "without a penalty; expected at least as many. Lower the rank, add "
            "samples, or set alpha_ridge > 0."
        )
        raise ValueError(msg)


def bic(prepared: Prepared, structure: Structure, found: Relaxed) -> float:
    """Return −2·log-likelihood + log n·(free parameters), constants left out.

    For the normal family the variance is estimated: n·log(RSS/n) stands for the
    deviance. With no fewer parameters than samples the fit says nothing: infinity.
    """
    n = prepared.total
    n_parameters = _n_parameters(prepared, structure)
    if n_parameters >= n:
        return float("inf")
    lack = found.deviance / n  # of one sample
    if prepared.problem.family.name == "normal":
        lack = log(max(lack, 1e-300)) + 2.0 * log(prepared.response_unit)
    return n * lack + log(n) * n_parameters


def choose_by_bic(
    prepared: Prepared,
    structures: Sequence[S],
    model: Any,
    *,
    ridge: float,
    l1: float = 0.0,
) -> tuple[S, Relaxed]:
    """Return the first structure with the lowest BIC, and its fit."""
    # Structures that cannot have a finite BIC are left out, unless there is no other.
    possible = [s for s in structures if _n_parameters(prepared, s) < prepared.total]
    tried = possible or structures[:1]
    fits = [fit_path(prepared, s, model, [ridge], l1=l1)[0] for s in tried]
    values = [bic(prepared, s, f) for s, f in zip(tried, fits, strict=True)]
    best = values.index(min(values))
    return tried[best], fits[best]


def _n_parameters(prepared: Prepared, structure: Structure) -> int:
    return structure.n_parameters() + prepared.n_covariates


def remember(
    model: Any, prepared: Prepared, structure: Structure, found: Relaxed
) -> Any:
    """Set the fitted attributes that all these estimators have."""
    coef = structure.tensor(found.blocks)
    parts = prepared.original(coef, found.gamma)
    model.coef_, model.intercept_, model.covariate_coef_ = parts
    model.deviance_path_ = found.path
    unit = prepared.response_unit
    # A product, since a power that overflows is an error.
    model.deviance_ = found.deviance * prepared.weight_unit * unit * unit
    model.n_iter_ = len(found.path)
    model.bic_ = bic(prepared, structure, found)
    return model


def warn_unless_converged(model: Any, found: Relaxed, *, stacklevel: int = 5) -> None:
    """Warn when the budget ran out, saying how much the last sweep still gained.

    The default `stacklevel` points at the caller of a `fit` that leaves its end,
    and with it this call, to a function.
    """
    if found.converged:
        return
    name, path = type(model).__name__, found.path
    if len(path) < 2:
        msg = (
            f"{name} stopped after one sweep, too few to tell how far it had come. "
            "Raise max_iter."
        )
    else:
        gain = (path[-2] - path[-1]) / (abs(path[-1]) + 1.0)
        msg = (
            f"{name} stopped after {len(path)} sweeps; the last one lowered the "
            f"objective by {gain:.1e} (tol={model.tol}). Raise max_iter, tol or the "
            "penalty."
        )
    warnings.warn(msg, ConvergenceWarning, stacklevel=stacklevel)


def scores_with_covariates(model: Any, X: Any, covariates: Any) -> Array:
    """Return η = ⟨coef, x⟩ + ⟨γ, z⟩ + intercept, shape (n,)."""
    eta = linear_scores(model, X)
    Z = check_covariates(
        covariates, eta.shape[0], eta, n_columns=model.n_covariates_in_
    )
    return eta + Z @ as_array(model.covariate_coef_, Z) if Z.shape[1] else eta


def predict_mean(model: Any, X: Any, covariates: Any, family: str) -> Array:
    """Return the expected response, shape (n,)."""
    return FAMILIES[family].mean(scores_with_covariates(model, X, covariates))
