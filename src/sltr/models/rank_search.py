"""Rank and ridge of a low-rank GLM by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from sltr._array import Array, array_namespace, as_array, to_numpy
from sltr.models.decomposed import fit_path, remember, warn_unless_converged
from sltr.models.prepared import Prepared, check_family, check_response, prepare
from sltr.models.scoring import default_metric, fold_scores
from sltr.models.selection import Split, check_rule, kept_splits, record_choice
from sltr.solvers.block_relaxation import Relaxed
from sltr.solvers.units import check_squares
from sltr.validation import (
    Samples,
    check_covariates,
    check_nonnegative,
    check_samples,
    check_sequence,
)

__all__ = ["Search", "checked_samples", "choose_rank"]


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
    check_squares(samples.y)
    n_kept = samples.X.shape[0]
    Z = check_covariates(covariates, n_kept, samples.X, sample_weight=sample_weight)
    model.n_covariates_in_ = Z.shape[1]
    binomial = model.family == "binomial"
    folds = kept_splits(model.cv, y, sample_weight, groups=groups, classifier=binomial)
    return samples, Z, folds


def choose_rank(
    model: Any,
    samples: Samples,
    Z: Array,
    folds: list[Split],
    search: Search,
    weighted: bool,
) -> tuple[int, Prepared, Relaxed]:
    """Score all pairs of structure and ridge, keep the best, fit it on everything."""
    alphas = _falling(model.alphas_ridge)
    run = delayed(_score_fold)
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


def _score_fold(
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
