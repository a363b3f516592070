"""SLTR's coefficients over a whole grid, without folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    explained_memory,
    fitting_threads,
    to_numpy,
)
from sltr.core.estimate import Estimate, absolute_radii, estimate_path
from sltr.estimators.base import warn_unless_converged
from sltr.estimators.sltr_cv import SLTRRegressorCV
from sltr.samples.check import check_samples
from sltr.tuning.candidates import LAMBDAS, grid_epsilons, grid_pairs
from sltr.tuning.final import all_of, intercepts
from sltr.tuning.task import Task, fitting_task


@dataclass(frozen=True, eq=False)
class SLTRPath:
    """The coefficients of C candidates, with their certificates.

    Attributes
    ----------
    epsilon, lambda_sparse, lambda_low : arrays of shape (C,)
        The candidates; all pairs of radii for the first penalty come first.
    coef : array of shape (C, p1, …, pM)
    intercept : array of shape (C,)
    gap : array of shape (C,)
        Largest relative duality gap over the problems behind a coefficient.
    n_iter : array of shape (C,)
    converged : array of shape (C,)
    """

    epsilon: Array
    lambda_sparse: Array
    lambda_low: Array
    coef: Array
    intercept: Array
    gap: Array
    n_iter: Array
    converged: Array


def sltr_path(
    X: Any,
    y: Any,
    *,
    epsilons: str | Sequence[float] = "loo",
    lambdas_sparse: str | Sequence[float] = LAMBDAS,
    lambdas_low: str | Sequence[float] = LAMBDAS,
    radius: str = "relative",
    coupling: str = "average",
    weights: str | tuple[float, float] = "unit",
    solver: str = "admm",
    fit_intercept: bool = True,
    sample_weight: Any = None,
    tol: float = 1e-4,
    max_iter: int = 5000,
    n_jobs: int | None = None,
    memory_limit: str | int | None = None,
) -> SLTRPath:
    """Fit every candidate of a grid to all samples.

    The answers are those of `SLTRRegressor` for each triple (ε, λ_sparse, λ_low),
    without refinement. All penalties share one Gram matrix, all radii of a penalty
    its pilot and warm starts.

    Parameters
    ----------
    X : array of shape (n, p1, …, pM)
    y : array of shape (n,)
    epsilons, lambdas_sparse, lambdas_low
        The grid, given as to `SLTRRegressorCV`.
    radius, coupling, weights, solver, fit_intercept, tol, max_iter
        As for `SLTRRegressor`.
    sample_weight : array of shape (n,), optional
    n_jobs : int, optional
        Threads over modes.
    memory_limit : str or int, optional
        As for `SLTRRegressor`. All coefficients are returned, whatever it is.

    Returns
    -------
    SLTRPath

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4))
    >>> y = X[:, 0, 0] - X[:, 1, 0]
    >>> path = sltr_path(X, y, epsilons=[1.0], lambdas_sparse=[0.0, 0.5, 1.0],
    ...                  lambdas_low=[1.0])
    >>> path.coef.shape, np.count_nonzero(path.coef, axis=(1, 2)).tolist()
    ((3, 5, 4), [20, 2, 0])
    """
    model = SLTRRegressorCV(
        epsilons,
        lambdas_sparse,
        lambdas_low,
        radius=radius,
        coupling=coupling,
        weights=weights,
        solver=solver,
        fit_intercept=fit_intercept,
        tol=tol,
        max_iter=max_iter,
        n_jobs=n_jobs,
        memory_limit=memory_limit,
    )
    pairs = grid_pairs(model)
    samples = check_samples(model, X, y, sample_weight)
    with explained_memory(), fitting_threads(samples.X):
        task = fitting_task(model, samples, samples.y[:, None])
        penalties = grid_epsilons(model, task)
        found = _estimates(task, penalties, pairs)
    converged, gap = to_numpy(found.converged), to_numpy(found.gap)
    warn_unless_converged(converged.all(), gap.max(), tol, stacklevel=3)
    coef = found.coef[None, ...]  # one subset, candidates as if they were responses
    everyone = all_of(samples)
    offset = intercepts(coef, samples, task.Y, everyone, task.fit_intercept)
    grid = [(epsilon, *pair) for epsilon in penalties for pair in pairs]
    epsilon, sparse, low = (
        as_array(column, samples.weight) for column in zip(*grid, strict=True)
    )
    return SLTRPath(
        epsilon=epsilon,
        lambda_sparse=sparse,
        lambda_low=low,
        coef=found.coef,
        intercept=offset[0, ...],
        gap=found.gap,
        n_iter=found.n_iter,
        converged=found.converged,
    )


def _estimates(
    task: Task, penalties: Sequence[float], pairs: Sequence[tuple[float, float]]
) -> Estimate:
    """Estimate all pairs of radii about each penalty's pilot: fields (E·G, …)."""
    samples = task.samples
    like = samples.weight
    xp = array_namespace(like)
    pilots = task.system.coefs(all_of(samples), as_array(list(penalties), like))
    pilots = xp.reshape(pilots, (-1, *samples.shape))
    sparse, low = (as_array(column, pilots) for column in zip(*pairs, strict=True))
    radii = absolute_radii(pilots, sparse, low, task.radius)
    chunks = list(estimate_path(pilots, *radii, task.settings))
    order = [g for places, _ in chunks for g in places]
    back = as_array([order.index(g) for g in range(len(order))], pilots, dtype=xp.int64)

    def collected(name: str) -> Array:
        values = xp.concat([getattr(part, name) for _, part in chunks], axis=1)
        values = xp.take(values, back, axis=1)
        return xp.reshape(values, (-1, *values.shape[2:]))

    return Estimate(*map(collected, ("coef", "gap", "n_iter", "converged")))
