"""A refit on the support of a sparse coefficient."""

from __future__ import annotations

from sltr._array import Array, array_namespace
from sltr.refine.subset import Subsets

__all__ = ["refit_on_support"]


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
