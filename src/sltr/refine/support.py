"""Sparse refits: the Lasso for a batch of subsets, and a refit on the support found.

The Lasso takes proximal steps on the squared loss itself, bounded in number, for
many thresholds at once; nothing is factorised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sltr._array import Array, array_namespace, as_array, clip, to_python
from sltr.design import combine
from sltr.prox import soft_threshold
from sltr.refine.subset import Subsets

__all__ = ["lasso", "refit_on_support"]

# Thresholded steps, and the relative change that ends them.
MAX_STEPS, TOLERANCE = 200, 1e-2
# Below this fraction of the largest threshold steps creep: they end later.
CREEPING = 0.03
# Products that estimate the longest safe step, and what they may fall short of it.
POWER_STEPS, POWER_MARGIN = 8, 1.1


def lasso(
    X: Array,
    subsets: Subsets,
    thresholds: Array,
    *,
    tol: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
) -> Array:
    """Return Lasso estimates of all items and thresholds, shape (B, k, P).

    Accelerated proximal steps on ½‖y − A·w‖² + t‖w‖₁, A and y an item's weighted,
    centred samples. All are taken at once, and each ends by itself, so that no
    answer depends on its company.

    Parameters
    ----------
    X : array of shape (n, P)
    subsets : Subsets
        B items.
    thresholds : array of shape (B, k)
        From max |Aᵀy| upwards nothing is left.
    tol : float
        The largest relative change of a coefficient in the last step; less, in
        proportion, for thresholds below `CREEPING`.
    max_steps : int
    """
    xp = array_namespace(X)
    n_items, n_thresholds = thresholds.shape
    cross = subsets.cross(X)
    loss = _Loss(X, xp.matrix_transpose(X) + 0.0, subsets)
    length = loss.safe_length(cross)
    largest = xp.max(xp.abs(cross), axis=1)[:, None]
    fraction = thresholds / xp.where(largest > 0, largest, 1.0)
    enough = xp.reshape((tol * clip(fraction / CREEPING, None, 1.0)) ** 2, (-1,))
    items = [b for b in range(n_items) for _ in range(n_thresholds)]
    index = as_array(items, X, dtype=xp.int64)
    loss, length = loss.of(items), xp.take(length, index, axis=0)[:, None]
    t = length * xp.reshape(thresholds, (-1, 1))
    coef = soft_threshold(length * xp.take(cross, index, axis=0), t)
    ahead, momentum = coef, 1.0
    places = list(range(len(items)))
    found: dict[int, Array] = {}
    for step in range(max_steps):
        new = soft_threshold(ahead + length * loss.descent(ahead), t)
        grown = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        change = new - coef
        ahead = new + ((momentum - 1.0) / grown) * change
        coef, momentum = new, grown
        size = xp.linalg.vecdot(coef, coef, axis=-1)
        small = xp.linalg.vecdot(change, change, axis=-1) <= enough * size
        done = to_python(small) if step < max_steps - 1 else [True] * len(places)
        found |= {place: coef[i, :] for i, place in enumerate(places) if done[i]}
        kept = [i for i, over in enumerate(done) if not over]
        if not kept:
            break
        if len(kept) < len(places):  # large thresholds are done soon
            places = [places[i] for i in kept]
            index = as_array(kept, X, dtype=xp.int64)
            loss = loss.of(kept)
            coef, ahead, length, t, enough = (
                xp.take(x, index, axis=0) for x in (coef, ahead, length, t, enough)
            )
    rows = xp.stack([found[place] for place in range(len(items))], axis=0)
    return xp.reshape(rows, (n_items, n_thresholds, -1))


@dataclass(frozen=True, eq=False)
class _Loss:
    """½‖y − A·w‖² of each item."""

    X: Array  # (n, P)
    transposed: Array  # (P, n), a copy: products run along memory
    subsets: Subsets

    def of(self, items: Sequence[int]) -> _Loss:
        """Return the losses of some items, or of the same one several times."""
        return _Loss(self.X, self.transposed, self.subsets.take(items))

    def descent(self, coef: Array) -> Array:
        """Return Aᵀ(y − A·w) for coefficients of shape (B, P)."""
        return self._spread(self.subsets.target - self._fitted(coef))

    def safe_length(self, start: Array) -> Array:
        """Return how long a step of each item may be, (B,).

        Power iterations from directions (B, P) for the largest eigenvalue of AᵀA.
        """
        xp = array_namespace(start)
        vector, size = start, xp.ones_like(start[:, 0])
        for _ in range(POWER_STEPS):
            norm = xp.linalg.vector_norm(vector, axis=1, keepdims=True)
            vector = vector / xp.where(norm > 0, norm, 1.0)
            image = self._spread(self._fitted(vector))
            size = xp.linalg.vecdot(vector, image, axis=-1)
            vector = image
        bound = POWER_MARGIN * size
        return 1.0 / xp.where(bound > 0, bound, 1.0)

    def _fitted(self, coef: Array) -> Array:
        return self.subsets.centred(coef @ self.transposed)

    def _spread(self, residual: Array) -> Array:
        # Weighted and centred, it sums to zero: samples need no centring.
        return combine(self.subsets.weight * residual, self.X)


def refit_on_support(X: Array, item: Subsets, coef: Array, ridge: float) -> Array:
    """Return one item's ridge estimate on the support of a coefficient, shape (P,).

    The penalty is `ridge` for each unit of weight. A support larger than a third of the
    number of samples determines nothing; the coefficient is then returned as it is.
    """
    xp = array_namespace(coef)
    support = xp.nonzero(coef)[0]
    rows = xp.nonzero(item.weight[0, :] > 0)[0]
    n_chosen = support.shape[0]
    if n_chosen == 0 or 3 * n_chosen > rows.shape[0]:
        return coef
    columns = xp.take(xp.take(X, support, axis=1), rows, axis=0)
    taking_part = item.of_samples(rows)
    penalty = ridge * xp.sum(taking_part.weight, axis=1)
    block = taking_part.ridge(xp.matrix_transpose(columns)[None, ...], penalty)
    # Scatter by look-up: each place takes its entry, or the zero at the end.
    padded = xp.concat([block[0, :], 0.0 * block[0, :1]])
    chosen = coef != 0
    count = xp.cumulative_sum(xp.astype(chosen, xp.int64))
    return xp.take(padded, xp.where(chosen, count - 1, n_chosen), axis=0)
