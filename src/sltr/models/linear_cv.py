"""Cross-validation of linear tensor models that fit all candidates of a fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer

from sltr._array import Array, to_numpy
from sltr.design import inner
from sltr.models.linear import set_linear
from sltr.models.scoring import default_metric, fold_scores
from sltr.models.selection import Split
from sltr.tensor import flatten
from sltr.validation import Samples

__all__ = ["LinearFits", "candidate_scores"]


@dataclass(frozen=True, eq=False)
class LinearFits:
    """G candidates fitted to the same samples, for K responses each.

    Attributes
    ----------
    coef : array of shape (G, K, p1, …, pM)
    intercept : array of shape (G, K)
    converged : bool
        Whether all of them did.
    """

    coef: Array
    intercept: Array
    converged: bool = True


def candidate_scores(
    model: Any,
    samples: Samples,
    folds: Sequence[Split],
    fit: Callable[[np.ndarray], LinearFits],
    *,
    weighted: bool,
    truth: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """Fit every fold and score its candidates.

    Parameters
    ----------
    model : estimator
        Its `scoring` and `n_jobs` are used; a clone carries a candidate where the
        score needs an estimator.
    samples : Samples
    folds : sequence of (train rows, test rows)
    fit : callable
        From training rows to the candidates fitted to them.
    weighted : bool
        Whether scores use the samples' weights.
    truth : array of shape (n,), optional
        What predictions are scored against, in place of the samples' responses.

    Returns
    -------
    scores : array of shape (F, G)
    n_open : int
        Folds in which a candidate did not converge.
    """
    truth = to_numpy(samples.y) if truth is None else truth
    run = delayed(_score_fold)
    model.scored_by_ = default_metric(test for _, test in folds)
    if is_classifier(model):
        model.scored_by_ = "accuracy"
    jobs = (run(model, samples, truth, fold, fit, weighted) for fold in folds)
    scores, converged = zip(*Parallel(n_jobs=model.n_jobs)(jobs), strict=True)
    return np.stack(scores), converged.count(False)


def _score_fold(
    model: Any,
    samples: Samples,
    truth: np.ndarray,
    fold: Split,
    fit: Callable[[np.ndarray], LinearFits],
    weighted: bool,
) -> tuple[np.ndarray, bool]:
    train, test = fold
    fits, held_out = fit(train), samples.take(test)
    scoring, default = model.scoring, model.scored_by_
    if fits.coef.shape[1] > 1:  # only two classes are scored for all at once
        scoring = get_scorer(scoring or default)
    scores = fold_scores(
        scoring,
        truth[test],
        to_numpy(inner(held_out.flat, flatten(fits.coef[:, 0, ...])))
        + to_numpy(fits.intercept[:, 0]),
        weight=to_numpy(held_out.weight) if weighted else None,
        model=lambda g: _candidate(model, fits, g),
        X=held_out.X,
        default=default,
    )
    return scores, fits.converged


def _candidate(model: Any, fits: LinearFits, g: int) -> Any:
    """Return candidate g as an estimator fitted on tensors, folded already."""
    candidate = clone(model).set_params(feature_shape=None)
    candidate.shape_in_ = model.shape_in_
    candidate.n_features_in_ = model.shape_in_[0]
    if is_classifier(model):
        named = not callable(model.scoring)
        candidate.classes_ = np.arange(len(model.classes_)) if named else model.classes_
    set_linear(candidate, fits.coef[g, ...], fits.intercept[g, ...])
    return candidate
