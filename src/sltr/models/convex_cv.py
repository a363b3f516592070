"""Choosing the weights of a convex tensor regression by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from sltr._array import Array, array_namespace, as_array
from sltr.models.convex import (
    Fits,
    Weights,
    centred_targets,
    convex_fits,
    store_fit,
    warn_unconverged,
)
from sltr.models.linear_cv import candidate_scores
from sltr.models.selection import Split, record_choice
from sltr.solvers.low_rank import TensorNorm, zeroing_weight
from sltr.solvers.units import check_squares
from sltr.validation import Samples, check_count

__all__ = ["select_weights", "weight_grids"]

# Of the weights that make the coefficient zero: above a half little is left of
# it, and below a thousandth a penalty hardly acts.
FRACTIONS = (0.5, 1e-3)


def weight_grids(
    samples: Samples,
    targets: Array,
    norms: Sequence[TensorNorm],
    fit_intercept: bool,
    n_alphas: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return default grids of (low, sparse) weights, strongest first.

    They are fractions of the weights at which either penalty alone makes the
    coefficient zero, equally spaced on a log scale, and zero: either penalty alone
    is among the candidates.
    """
    check_count(n_alphas, "n_alphas", smallest=2)
    xp = array_namespace(targets)
    data = centred_targets(samples, targets, fit_intercept)
    pull = data.targets @ data.A
    low = zeroing_weight(norms, xp.reshape(pull, (-1, *samples.shape)))
    unit = data.X_unit * data.y_unit
    largest = [float(xp.max(size)) * unit for size in (low, xp.abs(pull))]
    if unit == 0.0 or not all(map(isfinite, largest)):
        msg = (
            f"X of size {data.X_unit:.0e} and y of size {data.y_unit:.0e} were given, "
            "whose products are no numbers. Divide both by their largest entries."
        )
        raise ValueError(msg)
    fractions = np.append(np.geomspace(*FRACTIONS, n_alphas - 1), 0.0)
    return largest[0] * fractions, largest[1] * fractions


def select_weights(
    model: Any,
    samples: Samples,
    targets: Array,
    truth: np.ndarray,
    folds: Sequence[Split],
    norms: Sequence[TensorNorm],
    *,
    weighted: bool,
) -> None:
    """Choose the weights of a CV estimator by its own parameters, and fit it.

    Parameters
    ----------
    model : estimator
        Its parameters say what to try; its fitted attributes are set.
    samples, targets, norms
        As for `convex_fits`.
    truth : array of shape (n,)
        What predictions are scored against: responses, labels or class numbers.
    folds : sequence of (train rows, test rows)
    weighted : bool
        Whether scores use the samples' weights.
    """
    check_squares(targets)
    low, sparse = model.alphas_low, model.alphas_sparse
    if low is None or sparse is None:
        grids = weight_grids(
            samples, targets, norms, model.fit_intercept, model.n_alphas
        )
        low, sparse = (
            default if given is None else given
            for default, given in zip(grids, (low, sparse), strict=True)
        )
    weights = Weights.checked(low, sparse, model.alpha_ridge)

    def fit(rows: np.ndarray) -> Fits:
        part = _take(targets, rows)
        return _fits_of(model, samples.take(rows), part, norms, weights)

    scores, n_open = candidate_scores(
        model, samples, folds, fit, weighted=weighted, truth=truth
    )
    if n_open:
        paths = f"Paths of {n_open} of {len(folds)} folds"
        warn_unconverged(paths, model.tol, model.max_iter)
    params = weights.params
    best = record_choice(model, params, scores)
    model.alpha_low_ = params["alpha_low"][best]
    model.alpha_sparse_ = params["alpha_sparse"][best]
    chosen = Weights((model.alpha_low_,), (model.alpha_sparse_,), weights.ridge)
    final = _fits_of(model, samples, targets, norms, chosen)
    store_fit(model, final, stacklevel=6)


def _fits_of(model, samples, targets, norms, weights) -> Fits:
    return convex_fits(
        samples,
        targets,
        norms,
        weights,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
    )


def _take(targets: Array, rows: np.ndarray) -> Array:
    xp = array_namespace(targets)
    return xp.take(targets, as_array(rows, targets, dtype=xp.int64), axis=1)
