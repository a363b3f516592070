"""One search for all tuned peers: fit every fold, score every candidate, choose.

A method gives `fit_all`, which fits all its candidates to some rows of the samples,
with warm starts inside, and fits the winner itself. Folds, scores and the rule are
the same for all methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer

from sltr.arrays import Array, to_numpy
from sltr.core.tensor import flatten
from sltr.peers.units import Centred
from sltr.samples.samples import Samples
from sltr.tuning.choose import best_index, cv_table
from sltr.tuning.folds import Split
from sltr.tuning.scores import default_metric, fold_scores, label_scores


class Trials(Protocol):
    """G candidates fitted to the same rows of the samples."""

    @property
    def converged(self) -> bool:
        """Whether all of them did."""

    def predictions(
        self, held_out: Samples, rows: np.ndarray, response: int
    ) -> np.ndarray:
        """Return predictions (n, G) of one response; `rows` number the samples."""

    def estimator(self, g: int, model: Any, rows: np.ndarray) -> Any:
        """Return candidate g as a fitted estimator, for scorers that need one."""


@dataclass(frozen=True, eq=False)
class LinearTrials:
    """Candidates that are linear, with K responses each."""

    coef: Array  # (G, K, p1, …, pM)
    intercept: Array  # (G, K)
    converged: bool = True

    @classmethod
    def of_one_response(cls, coef: Array, data: Centred) -> LinearTrials:
        """Return candidates (G, p1, …, pM) that were fitted to centred samples."""
        return cls(coef[:, None, ...], data.intercept(flatten(coef))[:, None])

    def predictions(
        self, held_out: Samples, rows: np.ndarray, response: int
    ) -> np.ndarray:
        """Return predictions (n, G) of one response."""
        products = held_out.design.inner(flatten(self.coef[:, response, ...]))
        return to_numpy(products) + to_numpy(self.intercept[:, response])

    def estimator(self, g: int, model: Any, rows: np.ndarray) -> Any:
        """Return a copy of the tuned model with the coefficients of candidate g."""
        # A fold's samples have been checked: they are tensors already.
        candidate = clone(model).set_params(feature_shape=None)
        candidate.shape_in_ = model.shape_in_
        labels = is_classifier(model)
        if labels:
            named = not callable(model.scoring)
            numbers = np.arange(len(model.classes_))
            candidate.classes_ = numbers if named else model.classes_
        candidate.coef_, candidate.intercept_ = linear_attributes(
            self.coef[g, ...], self.intercept[g, ...], labels=labels
        )
        return candidate


def linear_attributes(
    coef: Array, intercept: Array, *, labels: bool
) -> tuple[Array, Any]:
    """Return `coef_` and `intercept_`; those of a single response lose their axis.

    A classifier's scores, fitted to 0 and 1, are moved to change sign at ½.
    """
    if labels:
        intercept = intercept - 0.5
    single = coef.shape[0] == 1
    return (coef[0, ...], float(intercept[0])) if single else (coef, intercept)


@dataclass(frozen=True, eq=False)
class Searched:
    """The winner among G candidates, and how all of them scored on F folds."""

    index: int
    params: dict[str, Any]  # of the winner
    best_score: float
    table: dict[str, Any]  # `cv_results_`
    scored_by: str
    n_unconverged: int  # folds in which a candidate did not converge
    label_scores: dict[str, np.ndarray]  # of the winner, (F,); none of regressors


def search(
    model: Any,
    samples: Samples,
    folds: Sequence[Split],
    params: Mapping[str, Sequence],
    fit_all: Callable[[np.ndarray], Trials],
    *,
    scoring: str | Callable | None,
    rule: str = "best",
    complexity: np.ndarray | None = None,
    weighted: bool = False,
    truth: np.ndarray | None = None,
    indicators: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> Searched:
    """Score the candidates `params` (name to G values) on every fold, and choose.

    `truth`, the samples' responses by default, is what predictions are scored
    against: (n,), or (n, K) for the mean score of K responses. `weighted` says
    whether scores use the samples' weights. Of classifiers, whose trials predict the
    columns of `indicators` (n, K), the winner's area and accuracy are returned too.
    """
    truth = to_numpy(samples.y) if truth is None else truth
    default = default_metric(test for _, test in folds)
    if is_classifier(model):
        default = "accuracy"
        if len(model.classes_) > 2:  # only two classes are scored for all at once
            scoring = get_scorer(scoring or default)

    def score(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, bool, Any]:
        trials, held_out, correct = fit_all(train), samples.take(test), truth[test]
        weight = to_numpy(held_out.weight) if weighted else None
        each = [
            fold_scores(
                scoring,
                response,
                trials.predictions(held_out, test, k),
                weight=weight,
                model=lambda g: trials.estimator(g, model, test),
                X=held_out.X,
                default=default,
            )
            for k, response in enumerate(correct.T if correct.ndim == 2 else [correct])
        ]
        columns = range(0 if indicators is None else indicators.shape[1])
        predicted = [trials.predictions(held_out, test, k) for k in columns]
        return np.mean(each, axis=0), trials.converged, predicted

    jobs = (delayed(score)(*fold) for fold in folds)
    rows, converged, predicted = zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True)
    scores = np.stack(rows)
    winner = best_index(scores, rule=rule, complexity=complexity)
    found = []
    if indicators is not None:
        for (_, test), of_fold in zip(folds, predicted, strict=True):
            chosen = np.stack([column[:, winner] for column in of_fold], axis=1)
            found.append(label_scores(indicators[test], chosen))
    names = found[0] if found else {}
    return Searched(
        index=winner,
        params={name: values[winner] for name, values in params.items()},
        best_score=float(scores[:, winner].mean()),
        table=cv_table(params, scores),
        scored_by=default,
        n_unconverged=converged.count(False),
        label_scores={name: np.array([fold[name] for fold in found]) for name in names},
    )
