"""The pilot iterated on its own residual, and a refit on the support found.

The iteration soft-thresholds, which makes it a Lasso in the pilot's metric; the
refit is a ridge estimate on the entries that survive.
"""

from __future__ import annotations

from collections.abc import Callable

from sltr._array import Array, array_namespace, as_array, clip, to_python
from sltr.prox import soft_threshold
from sltr.refine.subset import Subsets, weighted_ridge

__all__ = ["iterate_pilot", "refit_on_support"]

# Thresholded steps on the residual, and the relative change that ends them.
MAX_STEPS, TOLERANCE = 200, 1e-2
# Below this fraction of the pilot's largest entry, thresholds creep: they end later.
CREEPING = 0.1
# Products that estimate the longest safe step, and what they may fall short of it.
POWER_STEPS, POWER_MARGIN = 8, 1.1


def iterate_pilot(
    resolvents: Callable[[Array], Array],
    X: Array,
    y: Array,
    thresholds: Array,
    *,
    tol: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
) -> Array:
    """Iterate thresholded pilots on their residuals, all groups and thresholds at once.

    The steps W ← S_st(W + s·pilot(y − X·W)), accelerated, descend

        ½(y − A·w)ᵀ(AAᵀ + εI)⁻¹(y − A·w) + t‖w‖₁,

    the Lasso in the metric of the pilot. There s = 1 is safe, and more where the
    penalty exceeds the samples' own eigenvalues.

    Parameters
    ----------
    resolvents : callable
        From residuals (G, n, k) to their pilots (G, k, P): `RidgeSystem.resolvents`.
    X : array of shape (n, P)
    y : array of shape (G, n)
    thresholds : array of shape (G, k)
        Absolute.
    tol : float
        The largest relative change of a coefficient in the last step; less, in
        proportion, for thresholds below `CREEPING`.
    max_steps : int

    Returns
    -------
    array of shape (G, k, P)
    """
    xp = array_namespace(X)
    transposed = xp.matrix_transpose(X) + 0.0  # a copy: many products along memory
    pilots = resolvents(y[:, :, None])
    length = _safe_length(resolvents, transposed, pilots)
    largest = xp.max(xp.abs(pilots), axis=2)
    fraction = thresholds / xp.where(largest > 0, largest, 1.0)
    enough = (tol * clip(fraction / CREEPING, None, 1.0)) ** 2
    t = length * thresholds[:, :, None]
    coef = soft_threshold(length * pilots, t)
    ahead, momentum = coef, 1.0
    answer, done = coef, coef[:, :, 0] != coef[:, :, 0]
    places = list(range(coef.shape[1]))
    found: dict[int, Array] = {}
    for _ in range(max_steps):
        flat = xp.reshape(ahead, (-1, coef.shape[2])) @ transposed
        fitted = xp.reshape(flat, (*coef.shape[:2], -1))
        residual = xp.matrix_transpose(y[:, None, :] - fitted)
        new = soft_threshold(ahead + length * resolvents(residual), t)
        grown = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        change = new - coef
        ahead = new + ((momentum - 1.0) / grown) * change
        coef, momentum = new, grown
        # Each stops by itself, so that no answer depends on its company.
        answer = xp.where(done[:, :, None], answer, coef)
        size = xp.linalg.vecdot(coef, coef, axis=-1)
        done = done | (xp.linalg.vecdot(change, change, axis=-1) <= enough * size)
        ready = to_python(xp.all(done, axis=0))
        found |= {k: answer[:, i, :] for i, k in enumerate(places) if ready[i]}
        kept = [i for i, over in enumerate(ready) if not over]
        if not kept:
            break
        if len(kept) < len(places):  # large thresholds are done soon
            places = [places[i] for i in kept]
            index = as_array(kept, X, dtype=xp.int64)
            coef, ahead, t, answer, done, enough = (
                xp.take(x, index, axis=1)
                for x in (coef, ahead, t, answer, done, enough)
            )
    found |= {k: answer[:, i, :] for i, k in enumerate(places) if k not in found}
    return xp.stack([found[k] for k in range(thresholds.shape[1])], axis=1)


def _safe_length(
    resolvents: Callable[[Array], Array], transposed: Array, start: Array
) -> Array:
    """Return how long a step of each group may be, (G, 1, 1), at least one.

    Power iterations from the pilots (G, 1, P) for the largest eigenvalue of
    Aᵀ(AAᵀ + εI)⁻¹A, which is below one.
    """
    xp = array_namespace(start)
    vector, size = start, xp.ones_like(start[:, :, :1])
    for _ in range(POWER_STEPS):
        norm = xp.sqrt(xp.sum(vector**2, axis=2, keepdims=True))
        vector = vector / xp.where(norm > 0, norm, 1.0)
        image = resolvents(xp.matrix_transpose(vector @ transposed))
        size = xp.sum(vector * image, axis=2, keepdims=True)
        vector = image
    bound = clip(POWER_MARGIN * size, None, 1.0)
    return 1.0 / xp.where(bound > 0, bound, 1.0)


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
    columns = xp.take(xp.take(X, support, axis=1), rows, axis=0)
    columns = xp.matrix_transpose(columns)[None, ...]
    data = Subsets(y[rows][None, :], weight[rows][None, :], fit_intercept)
    penalty = ridge * variance * xp.sum(data.weight, axis=1)
    block = weighted_ridge(data.centred(columns), data.target, data.weight, penalty)
    # Scatter by look-up: each place takes its entry, or the zero at the end.
    padded = xp.concat([block[0, :], 0.0 * block[0, :1]])
    chosen = coef != 0
    count = xp.cumulative_sum(xp.astype(chosen, xp.int64))
    return xp.take(padded, xp.where(chosen, count - 1, n_chosen), axis=0)
