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
)
from sltr.core.estimate import Settings
from sltr.estimators.base import warn_of_pilot, warn_unless_converged
from sltr.estimators.sltr import SLTRRegressor
from sltr.parameters import check_choice
from sltr.samples.check import check_samples
from sltr.samples.front import Front
from sltr.samples.labelled import Labels
from sltr.tuning.candidates import LAMBDAS, grid_epsilons, grid_pairs
from sltr.tuning.final import basis_coefs
from sltr.tuning.fits import plain_fits
from sltr.tuning.task import prepare, ridge_pilots

# Enough points along one radius for a line.
PATH = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


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
    labels : Labels or None
        What the samples know of their modes, for pictures.
    """

    epsilon: Array
    lambda_sparse: Array
    lambda_low: Array
    coef: Array
    intercept: Array
    gap: Array
    n_iter: Array
    converged: Array
    labels: Labels | None = None


def sltr_path(
    X: Any,
    y: Any,
    *,
    epsilons: str | Sequence[float] = "loo",
    lambdas_sparse: str | Sequence[float] = PATH,
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
        The grid, given as to `SLTRRegressorCV`; by default with more values of
        `lambdas_sparse`, enough for `plot_path`.
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
    check_choice("radius", radius, ("relative", "absolute"))
    settings = Settings(coupling, weights, solver, tol, max_iter, n_jobs)
    pairs = grid_pairs(lambdas_sparse, lambdas_low)
    model = SLTRRegressor(memory_limit=memory_limit)
    samples = check_samples(model, X, y, sample_weight)
    with explained_memory(), fitting_threads(samples.X):
        task = prepare(
            samples,
            samples.Y,
            settings,
            Front(samples.shape),
            fit_intercept=fit_intercept,
            radius=radius,
            epsilon=epsilons,
            memory_limit=memory_limit,
            unconverged=warn_of_pilot,
        )
        penalties = grid_epsilons(task, epsilons)
        pilots = ridge_pilots(task, task.everyone, penalties)
        fits = list(plain_fits(task, pilots.coef, pairs))
    order = [pair for part in fits for pair in part.pairs]
    xp = array_namespace(pilots.coef)
    indices = [order.index(pair) for pair in pairs]
    back = as_array(indices, pilots.coef, dtype=xp.int64)

    def in_order(name: str) -> Array:
        """Return a field for all penalties and pairs, (C, …), in the grid's order."""
        parts = [getattr(part, name)[0, :, 0, ...] for part in fits]
        values = xp.take(xp.concat(parts, axis=1), back, axis=1)
        return xp.reshape(values, (-1, *values.shape[2:]))

    converged, gap = in_order("converged"), in_order("gap")
    warn_unless_converged(converged, gap, tol)
    coef = xp.reshape(in_order("coef"), (-1, *samples.shape))
    # One subset, and candidates as if they were responses.
    offset = basis_coefs(coef[None, ...], task, task.everyone, pilots)
    offset = xp.sum(offset[0, ...], axis=0)  # the intercept's, if there is one
    grid = [(epsilon, *pair) for epsilon in penalties for pair in pairs]
    epsilon, sparse, low = (
        as_array(column, samples.weight) for column in zip(*grid, strict=True)
    )
    return SLTRPath(
        epsilon=epsilon,
        lambda_sparse=sparse,
        lambda_low=low,
        coef=coef,
        intercept=offset + task.y_shift,
        gap=gap,
        n_iter=in_order("n_iter"),
        converged=converged,
        labels=samples.labels,
    )
