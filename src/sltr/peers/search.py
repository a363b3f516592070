"""Cross-validation of linear tensor models that fit all candidates of a fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.tensor import flatten
from sltr.estimators.base import set_linear
from sltr.parameters import check_nonnegative, check_sequence
from sltr.peers.glm import (
    Prepared,
    check_family,
    check_response,
    fit_path,
    prepare,
    remember,
    warn_unless_converged,
)
from sltr.refine.sweeps import GLMFit
from sltr.samples.check import check_covariates, check_samples
from sltr.samples.samples import Samples
from sltr.tuning.choose import check_rule, record_choice
from sltr.tuning.folds import Split, weighted_splits
from sltr.tuning.scores import default_metric, fold_scores


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
        to_numpy(held_out.design.inner(flatten(fits.coef[:, 0, ...])))
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


@dataclass(frozen=True)
class Search:
    """Structures to try, and the plain estimator that carries one as a parameter."""

    structures: Sequence[Any]
    names: Sequence[Any]
    plain: type
    rank_name: str
    l1: float = 0.0


def checked_samples(
    model, X, y, sample_weight, covariates, groups
) -> tuple[Samples, Array, list[Split]]:
    """Return samples, covariates and folds of what a CV estimator was given."""
    check_rule(model.rule)
    samples = check_samples(model, X, y, sample_weight)
    check_response(samples.y, check_family(model.family))
    n_kept = samples.X.shape[0]
    Z = check_covariates(covariates, n_kept, samples.X, sample_weight=sample_weight)
    model.n_covariates_in_ = Z.shape[1]
    binomial = model.family == "binomial"
    folds = weighted_splits(
        model.cv, y, sample_weight, groups=groups, classifier=binomial
    )
    return samples, Z, folds


def choose_rank(
    model: Any,
    samples: Samples,
    Z: Array,
    folds: list[Split],
    search: Search,
    weighted: bool,
) -> tuple[int, Prepared, GLMFit]:
    """Score all pairs of structure and ridge, keep the best, fit it on everything."""
    alphas = _falling(model.alphas_ridge)
    run = delayed(_score_rank_fold)
    model.scored_by_ = default_metric(test for _, test in folds)
    shared = (search, alphas, weighted, model.scored_by_)
    jobs = (run(model, samples, Z, fold, *shared) for fold in folds)
    rows = Parallel(n_jobs=model.n_jobs)(jobs)
    structures = search.structures
    scores = np.array(rows)
    pairs = [(s, a) for s in range(len(structures)) for a in alphas]
    complexity = [(structures[s].n_parameters(), -a) for s, a in pairs]
    order = {c: place for place, c in enumerate(sorted(set(complexity)))}
    table = {
        search.rank_name: [search.names[s] for s, _ in pairs],
        "alpha_ridge": [a for _, a in pairs],
    }
    best = record_choice(
        model,
        table,
        scores,
        rule=model.rule,
        complexity=np.array([order[c] for c in complexity]),
    )
    chosen, model.alpha_ridge_ = pairs[best]
    prepared = prepare(samples, Z, model.family, model.fit_intercept)
    larger = alphas[: alphas.index(model.alpha_ridge_) + 1]
    found = fit_path(prepared, structures[chosen], model, larger, l1=search.l1)[-1]
    warn_unless_converged(model, found)
    remember(model, prepared, structures[chosen], found)
    return chosen, prepared, found


def _falling(alphas: Sequence[float]) -> list[float]:
    given = check_sequence(alphas, "alphas_ridge")
    clean = {check_nonnegative(a, "an entry of alphas_ridge") for a in given}
    return sorted(clean, reverse=True)


def _score_rank_fold(
    model, samples, Z, fold, search, alphas, weighted, default
) -> np.ndarray:
    """Fit all candidates on a fold's training rows and score them on the others."""
    train, (held_out, Z_test) = (_rows(samples, Z, rows) for rows in fold)
    prepared = prepare(*train, model.family, model.fit_intercept)
    candidates = []
    for structure, name in zip(search.structures, search.names, strict=True):
        fits = fit_path(prepared, structure, model, alphas, l1=search.l1)
        for alpha, found in zip(alphas, fits, strict=True):
            named = {search.rank_name: name}
            candidate = search.plain(**named, family=model.family, alpha_ridge=alpha)
            candidate.shape_in_ = model.shape_in_
            candidate.n_features_in_ = model.shape_in_[0]
            candidate.n_covariates_in_ = Z.shape[1]
            remember(candidate, prepared, structure, found)
            # Scorers pass X alone.
            candidate.predict = partial(candidate.predict, covariates=Z_test)
            candidates.append(candidate)
    return fold_scores(
        model.scoring,
        to_numpy(held_out.y),
        np.stack([to_numpy(c.predict(held_out.X)) for c in candidates], axis=1),
        weight=to_numpy(held_out.weight) if weighted else None,
        model=candidates.__getitem__,
        X=held_out.X,
        default=default,
    )


def _rows(samples: Samples, Z: Array, rows: np.ndarray) -> tuple[Samples, Array]:
    xp = array_namespace(samples.X)
    index = as_array(rows, samples.X, dtype=xp.int64)
    return samples.take(rows), xp.take(Z, index, axis=0)
