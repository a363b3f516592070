"""The pilot iterated on its own residual, and a refit on the support found.

The iteration soft-thresholds, which makes it a Lasso in the pilot's metric; the
refit is a ridge estimate on the entries that survive.
"""

from __future__ import annotations

from collections.abc import Callable

from sltr._array import Array, array_namespace
from sltr.design import inner
from sltr.prox import soft_threshold
from sltr.refine.subset import Subsets, weighted_ridge

__all__ = ["iterate_pilot", "refit_on_support"]

# Thresholded steps on the residual; a refinement, not a minimisation.
RESIDUAL_STEPS = 50


def iterate_pilot(
    resolvent: Callable[[Array], Array],
    X: Array,
    y: Array,
    thresholds: Array,
    *,
    n_steps: int = RESIDUAL_STEPS,
) -> Array:
    """Iterate the thresholded pilot on its residual, for all thresholds at once.

    The steps W ← S_t(W + pilot(y − X·W)), accelerated, descend

        ½(y − A·w)ᵀ(AAᵀ + εI)⁻¹(y − A·w) + t‖w‖₁,

    the Lasso in the metric of the pilot, in which a step of length one is safe.

    Parameters
    ----------
    resolvent : callable
        From residuals (n, k) to their pilots (k, P): `RidgeSystem.resolvent`.
    X : array of shape (n, P)
    y : array of shape (n,)
    thresholds : array of shape (G,)
        Absolute.

    Returns
    -------
    array of shape (G, P)
    """
    t = thresholds[:, None]
    coef = soft_threshold(resolvent(y[:, None]), t)
    ahead, momentum = coef, 1.0
    for _ in range(n_steps):
        residual = y[:, None] - inner(X, ahead)
        new = soft_threshold(ahead + resolvent(residual), t)
        grown = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        ahead = new + ((momentum - 1.0) / grown) * (new - coef)
        coef, momentum = new, grown
    return coef


def refit_on_support(
    X: Array,
    y: Array,
    weight: Array,
    coef: Array,
    ridge: float,
    *,
    variance: float,
    fit_intercept: bool,
) -> Array:
    """Return the ridge estimate on the support of one coefficient, shape (P,).

    A support larger than half the number of samples determines nothing; the
    coefficient is then returned as it is.
    """
    xp = array_namespace(coef)
    support = xp.nonzero(coef)[0]
    rows = xp.nonzero(weight > 0)[0]
    n_chosen = support.shape[0]
    if n_chosen == 0 or 2 * n_chosen > rows.shape[0]:
        return coef
    columns = xp.take(xp.take(X, support, axis=1), rows, axis=0)[None, ...]
    data = Subsets(y[rows][None, :], weight[rows][None, :], fit_intercept)
    penalty = ridge * variance * xp.sum(data.weight, axis=1)
    block = weighted_ridge(
        data.centred(columns), data.centred(data.y), data.weight, penalty
    )
    # Scatter by look-up: each place takes its entry, or the zero at the end.
    padded = xp.concat([block[0, :], 0.0 * block[0, :1]])
    chosen = coef != 0
    count = xp.cumulative_sum(xp.astype(chosen, xp.int64))
    return xp.take(padded, xp.where(chosen, count - 1, n_chosen), axis=0)
