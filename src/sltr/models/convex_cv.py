"""Choosing the weights of a convex tensor regression by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer

from sltr._array import Array, array_namespace, as_array, to_numpy
from sltr.design import inner
from sltr.models.convex import (
    Fits,
    Weights,
    convex_fits,
    set_linear,
    store_fit,
    warn_unconverged,
)
from sltr.models.selection import Split, best_index, cv_table, fold_scores
from sltr.solvers.low_rank import TensorNorm, zeroing_weight
from sltr.tensor import flatten
from sltr.validation import Samples, centre

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
    if not isinstance(n_alphas, int | np.integer) or n_alphas < 2:
        msg = f"n_alphas={n_alphas!r} was given; expected an integer of at least 2."
        raise ValueError(msg)
    xp = array_namespace(targets)
    data = centre(Samples(samples.X, targets[0, :], samples.weight), fit_intercept)
    # A is centred, so the mean of the responses drops out of Aᵀy.
    pull = (xp.sqrt(samples.weight) * targets) @ data.A
    low = zeroing_weight(norms, xp.reshape(pull, (-1, *samples.shape)))
    fractions = np.append(np.geomspace(*FRACTIONS, n_alphas - 1), 0.0)
    return (
        float(xp.max(low)) * fractions,
        float(xp.max(xp.abs(pull))) * fractions,
    )


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
    results = Parallel(n_jobs=model.n_jobs)(
        delayed(_score_fold)(
            model, samples, targets, truth, fold, norms, weights, weighted
        )
        for fold in folds
    )
    n_open = sum(not converged for _, converged in results)
    if n_open:
        paths = f"Paths of {n_open} of {len(folds)} folds"
        warn_unconverged(paths, model.tol, model.max_iter)
    scores = np.stack([row for row, _ in results])
    best = best_index(scores)
    params = weights.params
    model.alpha_low_, model.alpha_sparse_ = (
        params[name][best] for name in ("alpha_low", "alpha_sparse")
    )
    model.best_score_ = float(scores[:, best].mean())
    model.cv_results_ = cv_table(params, scores)
    chosen = Weights((model.alpha_low_,), (model.alpha_sparse_,), weights.ridge)
    store_fit(model, _fits_of(model, samples, targets, norms, chosen))


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


def _score_fold(
    model, samples, targets, truth, fold, norms, weights, weighted
) -> tuple[np.ndarray, bool]:
    """Return the scores of all candidates on one fold, and whether all converged."""
    train, test = fold
    held = _rows(samples, test)
    fits = _fits_of(
        model, _rows(samples, train), _take(targets, train, axis=1), norms, weights
    )
    default = "accuracy" if is_classifier(model) else "r2"
    scoring = model.scoring
    if targets.shape[0] > 1:  # only two classes are scored for all candidates at once
        scoring = get_scorer(scoring or default)
    scores = fold_scores(
        scoring,
        truth[test],
        to_numpy(inner(held.flat, flatten(fits.coef[:, 0, ...])))
        + to_numpy(fits.intercept[:, 0]),
        weight=to_numpy(held.weight) if weighted else None,
        model=lambda g: _candidate(model, fits, g),
        X=held.X,
        default=default,
    )
    return scores, fits.converged


def _candidate(model: Any, fits: Fits, g: int) -> Any:
    """Return candidate g as an estimator fitted on tensors, folded already."""
    candidate = clone(model).set_params(feature_shape=None)
    candidate.shape_in_ = model.shape_in_
    candidate.n_features_in_ = model.shape_in_[0]
    if is_classifier(model):
        named = not callable(model.scoring)
        candidate.classes_ = np.arange(len(model.classes_)) if named else model.classes_
    set_linear(candidate, fits.coef[g, ...], fits.intercept[g, ...])
    return candidate


def _rows(samples: Samples, rows: np.ndarray) -> Samples:
    """Return some of the samples; their responses travel apart, as targets."""
    X, weight = _take(samples.X, rows), _take(samples.weight, rows)
    return Samples(X, weight, weight)


def _take(x: Array, rows: np.ndarray, axis: int = 0) -> Array:
    xp = array_namespace(x)
    return xp.take(x, as_array(rows, x, dtype=xp.int64), axis=axis)
