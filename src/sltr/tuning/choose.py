"""Choosing among candidates by held-out scores: the winner, weights, the table.

Every CV estimator chooses by these rules, SLTR's and its peers'.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import get_scorer

from sltr.arrays import to_numpy
from sltr.parameters import check_choice
from sltr.samples.samples import is_lazy, take_rows
from sltr.tuning.candidates import Candidate
from sltr.tuning.folds import ALIKE, Folds, excess_of
from sltr.tuning.held_out import HeldOut, scale_factors
from sltr.tuning.policy import Policy
from sltr.tuning.scores import (
    AT_ONCE,
    FixedClassifier,
    FixedRegressor,
    class_numbers,
    default_metric,
    fold_scores,
    label_scores,
)
from sltr.tuning.task import Task


def check_rule(rule: Any) -> None:
    """Refuse an unknown rule, before anything is fitted."""
    check_choice("rule", rule, ("best", "1se"))


def best_index(
    scores: np.ndarray,
    *,
    rule: str = "best",
    complexity: np.ndarray | None = None,
) -> int:
    """Return the winner's index: the first best, or the simplest close to it.

    `scores` has a row per fold, (F, G). The rule "1se" takes the simplest candidate,
    by `complexity` (G,), whose mean is within one standard error of the best; ties go
    to the better score.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.5, 0.6, 0.1], [0.7, 0.62, 0.2]])
    >>> best_index(scores)
    1
    >>> best_index(scores, rule="1se", complexity=np.array([1, 2, 0]))
    0
    """
    mean = scores.mean(axis=0)
    if not np.isfinite(mean).any():
        msg = (
            "No candidate has a finite score on every fold; expected at least one. "
            "Use folds in which the score is defined (more samples, stratified)."
        )
        raise ValueError(msg)
    best = int(np.nanargmax(mean))
    if rule == "best":
        return best
    check_rule(rule)
    if complexity is None:
        msg = "rule='1se' was given without complexities; expected one for each."
        raise ValueError(msg)
    n_folds = scores.shape[0]
    spread = scores[:, best].std(ddof=1) / np.sqrt(n_folds) if n_folds > 1 else 0.0
    close = np.flatnonzero(mean >= mean[best] - spread)
    return int(min(close, key=lambda g: (complexity[g], -mean[g])))


def cv_table(params: Mapping[str, Sequence], scores: np.ndarray) -> dict[str, Any]:
    """Return scores (F, G) as scikit-learn's `cv_results_`, one row per candidate.

    `params` maps each parameter's name to G values.
    """
    names = list(params)
    rows = zip(*params.values(), strict=True)
    table: dict[str, Any] = {f"param_{name}": _column(params[name]) for name in names}
    table["params"] = [dict(zip(names, row, strict=True)) for row in rows]
    for fold, row in enumerate(scores):
        table[f"split{fold}_test_score"] = row
    mean = scores.mean(axis=0)
    table["mean_test_score"] = mean
    with np.errstate(over="ignore"):
        table["std_test_score"] = scores.std(axis=0)
    ranked = np.where(np.isnan(mean), -np.inf, mean)
    table["rank_test_score"] = rankdata(-ranked, method="min").astype(np.int32)
    return table


def _column(values: Sequence) -> np.ma.MaskedArray:
    """Return one entry per candidate, also where a value is itself a tuple."""
    if not any(isinstance(value, tuple) for value in values):
        # Of a list, np.ma would look at each entry for a mask of its own.
        return np.ma.array(np.array(list(values)))
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return np.ma.array(column)


def agreement_weights(
    losses: np.ndarray, weight: np.ndarray, smallest: float
) -> np.ndarray:
    """Return how well held-out losses agree with being as good as the first, (G,).

    exp(−z²/2), z the mean excess over the first one's losses in standard errors. What
    is at most `smallest` becomes zero, and the rest is rescaled, without a step. Losses
    within some per cent are alike.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([[1.0, 2.0, 0.0], [1.0, 1.8, 2.1], [1.0, 0.7, 1.0]])
    >>> agreement_weights(losses, np.ones(3), smallest=0.1).round(2).tolist()
    [1.0, 0.24, 1.0]
    """
    mean, error = excess_of(0, losses, weight, ALIKE)
    z = np.divide(mean, error, out=np.full_like(mean, np.inf), where=error > 0)
    agreement = np.where(mean <= 0, 1.0, np.exp(-0.5 * z**2))
    # Losses that are not finite compare as false, and get no weight.
    rest = (agreement - smallest) / (1.0 - smallest)
    return np.where(rest > 0, rest, 0.0)


def _kind(candidate: Candidate) -> str:
    """Return what averages count it as: the bare pilot is a kind of its own."""
    if candidate.refine is None and not any(candidate.radii):
        return "pilot"
    kind = candidate.refine or "estimate"
    return f"{kind} shared" if candidate.shared else kind


# How a kind counts where samples are few: the power of 1 + prior_samples / n.
SIMPLICITY = {"pilot": 1, "tucker": -1, "cp": -1, "sparse": -1}


def average_weights(
    candidates: Sequence[Candidate],
    scores: np.ndarray,
    predictions: Sequence[np.ndarray],
    folds: Folds,
    policy: Policy,
) -> np.ndarray:
    """Return the candidates' shares in the average of `rule="average"`, (G,).

    First the candidates of a kind are averaged, each by how well its losses agree
    with those of the kind's best, by mean score (G,). Then the means of the kinds are
    averaged in the same way, where simple kinds count more if samples are few.
    `predictions` are (n_rows, K, G) for each fold. All weights are zero if no losses
    are finite.
    """
    weights = np.zeros(len(candidates))
    losses, weight = sample_losses(folds, predictions)
    finite = np.isfinite(losses).all(axis=0)
    order = [int(g) for g in np.argsort(-scores, kind="stable") if finite[g]]
    kinds: dict[str, list[int]] = {}
    for g in order:  # the best kind first, and in each kind its best candidate
        kinds.setdefault(_kind(candidates[g]), []).append(g)
    if not kinds:
        return weights
    for same in kinds.values():
        agreement = agreement_weights(losses[:, same], weight, policy.smallest_weight)
        weights[same] = agreement / agreement.sum()
    means = [
        np.stack([values[:, :, same] @ weights[same] for same in kinds.values()], 2)
        for values in predictions
    ]
    losses, weight = sample_losses(folds, means)
    share = agreement_weights(losses, weight, policy.smallest_weight)
    base = 1.0 + policy.prior_samples / np.maximum(weight, 1.0).sum()
    powers = [SIMPLICITY.get(kind.removesuffix(" shared"), 0) for kind in kinds]
    share = share * [base**power for power in powers]
    for same, value in zip(kinds.values(), share / share.sum(), strict=True):
        weights[same] *= value
    return weights


def sample_losses(
    folds: Folds, predictions: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared errors or deviances (n, G) by sample, and the samples' weights.

    The errors of a sample that several folds leave out are averaged: they are not
    independent.
    """
    losses = folds.losses(predictions)
    rows = np.concatenate(folds.rows)
    kept, first, number, count = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True
    )
    weight = np.concatenate(folds.weights)[first]
    if len(kept) == len(rows):
        return losses[first], weight
    total = np.zeros((len(kept), losses.shape[1]))
    np.add.at(total, number, losses)
    return total / count[:, None], weight


# The rules that average; "vote" is the earlier name.
AVERAGES = ("average", "vote")
RULES = (*AVERAGES, "best", "1se")


@dataclass(frozen=True, eq=False)
class Member:
    """A candidate with its weight in the final fit, and its factors if it is scaled."""

    candidate: Candidate
    weight: float | np.ndarray = 1.0  # (K,) where responses weigh it differently
    scale: np.ndarray | None = None  # (K,)

    @property
    def share(self) -> np.ndarray:
        """What its coefficients are multiplied by, (K,) or (1,); or (S, K)."""
        share = np.ravel(self.weight)
        return share if self.scale is None else share * self.scale


@dataclass(frozen=True)
class Last:
    """The radii of the last step, from 0, which leaves all as it is, to 1.

    Relative to the largest singular value of each unfolding of the members' mean, and
    to the largest entry of what its ranks were lowered to: there 1 leaves nothing.
    """

    low: float
    sparse: float

    @property
    def stays(self) -> bool:
        """Whether the mean itself is the answer."""
        return self.low == self.sparse == 0.0


@dataclass(frozen=True, eq=False)
class Choice:
    """The best candidate, the members of the final fit, and everyone's scores."""

    index: int
    members: list[Member]  # the best one first
    weights: np.ndarray  # (G,)
    scores: np.ndarray  # (F, G)
    held_out: list[np.ndarray]  # the answer's predictions by fold, (n_rows, K)
    # What the mean would predict, less the baseline, if all responses had the weights
    # that their errors choose together; None where they have.
    common: list[np.ndarray] | None = None
    last: Last | None = None  # None where the mean itself is the answer


@dataclass(frozen=True, eq=False)
class Scoring:
    """What candidates are scored by.

    None is R², of class indicators for a classifier with these `classes`; the negative
    squared error if a fold is a single sample. Of a likelihood it is the share of the
    null model's deviance that is explained, or minus the deviance.
    """

    by: str | Callable | None = None
    classes: np.ndarray | None = None
    weighted: bool = False  # whether scores take the samples' weights


def choose(task: Task, held: HeldOut, scoring: Scoring, rule: str = "best") -> Choice:
    """Return the candidate of the best mean score, or a mean of those near it."""
    folds, candidates = held.folds, list(held.predictions)
    predictions = [_compared(held, f) for f in range(len(folds.rows))]
    scores = np.array(
        [
            _scores(task, folds, f, values, scoring)
            for f, values in enumerate(predictions)
        ]
    )
    index = best_index(
        scores,
        rule="1se" if rule == "1se" else "best",
        complexity=np.array([held.complexity[c] for c in candidates]),
    )
    weights = np.zeros(len(candidates))
    if rule in AVERAGES:
        mean = np.nan_to_num(scores.mean(axis=0), nan=-np.inf)
        weights = average_weights(candidates, mean, predictions, folds, task.policy)
    if not weights.any():  # one candidate is asked for, or no errors are finite
        weights[index] = 1.0
    shares, common = np.tile(weights[:, None], (1, task.Y.shape[1])), None  # (G, K)
    if rule in AVERAGES and scoring.classes is None and task.Y.shape[1] > 1:
        # Half by the errors of all responses, which know more, half by its own, which
        # know it better (`benchmarks/responses.py simulated`).
        own = _own_weights(candidates, predictions, folds, task.policy)
        kept = np.flatnonzero(weights)  # what is not finite has no weight
        common = [values[:, :, kept] @ weights[kept] for values in predictions]
        shares = np.where(own.any(axis=0), (shares + own) / 2, shares)
        weights = shares.mean(axis=1)
    order = [index, *(g for g in np.flatnonzero(weights).tolist() if g != index)]
    members = [_member(held, candidates[g], shares[g]) for g in order]
    held_out = _mean_predictions(held, members)
    return Choice(index, members, weights, scores, held_out, common)


def _own_weights(
    candidates: Sequence[Candidate],
    predictions: Sequence[np.ndarray],
    folds: Folds,
    policy: Policy,
) -> np.ndarray:
    """Return the weights that each response by itself would give, (G, K)."""
    found = []
    for k in range(predictions[0].shape[1]):
        some = [values[:, k : k + 1, :] for values in predictions]
        targets = [target[:, k : k + 1] for target in folds.targets]
        one = replace(folds, targets=targets)
        losses, weight = sample_losses(one, some)
        found.append(average_weights(candidates, -(weight @ losses), some, one, policy))
    return np.stack(found, axis=1)


def _compared(held: HeldOut, f: int) -> np.ndarray:
    """Return all candidates' predictions of one fold, (n_rows, K, G)."""
    columns = [
        held.factor(candidate, f) * values[f]
        for candidate, values in held.predictions.items()
    ]
    return np.stack(columns, axis=2)


def _member(held: HeldOut, candidate: Candidate, weight: float | np.ndarray) -> Member:
    scale = None
    if candidate.refine == "scale":
        values = held.predictions[candidate]
        scale = scale_factors(values, held.folds.targets, held.folds.weights)
    return Member(candidate, weight, scale)


def _mean_predictions(held: HeldOut, members: Sequence[Member]) -> list[np.ndarray]:
    """Return the weighted mean of the members' predictions, with the mean response."""
    folds = held.folds
    means = [
        np.zeros(target.shape) + mean
        for target, mean in zip(folds.targets, folds.baseline, strict=True)
    ]
    for member in members:
        values = held.predictions[member.candidate]
        means = [
            mean + member.weight * held.factor(member.candidate, f) * values[f]
            for f, mean in enumerate(means)
        ]
    return means


def null_scores(task: Task, folds: Folds, scoring: Scoring) -> np.ndarray:
    """Return the scores (F,) of intercept and covariates alone on each fold.

    Some scorers warn of predictions that are all equal, which are meant here.
    """
    scores: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f, known in enumerate(folds.baseline):
            nothing = np.zeros_like(known)[:, :, None]
            scores += list(_scores(task, folds, f, nothing, scoring))
    return np.array(scores)


def answer_scores(
    task: Task, folds: Folds, held_out: Sequence[np.ndarray], labels: bool
) -> dict[str, np.ndarray]:
    """Return scores (F,) of the answer itself, by name, on the rows folds leave out.

    Of labels the area under the ROC curve (the mean over more than two classes, each
    against the rest) and the accuracy; else R², or minus the squared error where a
    fold is a single sample. Of counts the share of the deviance that is explained, or
    minus the deviance.
    """
    if task.family is not None and not labels:
        each = [
            deviance_scores(folds, f, (values - folds.baseline[f])[:, :, None])
            for f, values in enumerate(held_out)
        ]
        return {default_metric(folds.rows, likelihood=True): np.concatenate(each)}
    found: list[dict[str, float]] = []
    for rows, predicted in zip(folds.rows, held_out, strict=True):
        truth = task.given(to_numpy(task.Y)[rows])
        predicted = predicted * task.y_unit
        if task.family is not None:
            predicted = task.family.mean(predicted)
        if labels:
            found.append(label_scores(truth, predicted))
            continue
        name = default_metric(folds.rows)
        each = [
            fold_scores(name, truth[known, k], predicted[known, k][:, None])[0]
            for k, known in _scored(task, rows)
        ]
        found.append({name: float(np.mean(each))})
    return {name: np.array([scores[name] for scores in found]) for name in found[0]}


def _scored(task: Task, rows: np.ndarray) -> list[tuple[int, Any]]:
    """Return responses, each with those of these rows in which it was measured.

    Without those that were measured in fewer than two, unless all are.
    """
    n_responses, measured = task.Y.shape[1], task.samples.measured
    if measured is None:
        return [(k, slice(None)) for k in range(n_responses)]
    found = [(k, np.flatnonzero(measured[rows, k])) for k in range(n_responses)]
    some = [(k, known) for k, known in found if len(known) > 1]
    return some or [(k, known) for k, known in found if len(known)]


def deviance_scores(
    folds: Folds, f: int, values: np.ndarray, weighted: bool = True
) -> np.ndarray:
    """Return scores (G,) of a likelihood's predictions (n_rows, K, G) of one fold.

    One minus the deviance over that of the null model, which knows the training rows
    alone; minus the mean deviance where a fold is a single sample. As R² of a constant,
    it is 0 or 1 where the null model is exact.
    """
    weight = folds.weights[f] if weighted else np.ones(len(folds.rows[f]))
    share = weight / weight.sum()
    deviance = share @ folds.fold_losses(f, values)
    if default_metric(folds.rows, likelihood=True) != "d2":
        return -deviance
    null = np.broadcast_to(share @ folds.fold_losses(f, 0.0), deviance.shape)
    unexplained = np.where(deviance > 0, 1.0, 0.0)
    return 1.0 - np.divide(deviance, null, out=unexplained, where=null > 0)


def _scores(
    task: Task,
    folds: Folds,
    f: int,
    values: np.ndarray,
    scoring: Scoring,
) -> np.ndarray:
    """Score one fold: predictions (n_rows, K, G), less the fold's baseline."""
    by, classes, weighted = scoring.by, scoring.classes, scoring.weighted
    if by is None and folds.family is not None:
        return deviance_scores(folds, f, values, weighted)
    rows, default = folds.rows[f], default_metric(folds.rows)
    weight = folds.weights[f] if weighted else None
    predictions = values + folds.baseline[f][:, :, None]
    if folds.family is not None:
        means = folds.family.mean(np.moveaxis(predictions, 1, -1))
        predictions = np.moveaxis(means, -1, 1)
    Y, n_responses = task.given(to_numpy(task.Y)[rows]), task.Y.shape[1]
    if np.ndim(task.y_unit):
        predictions = predictions * np.asarray(task.y_unit)[:, None]
    at_once = isinstance(by, str) and by in AT_ONCE
    if task.samples.measured is not None and by is not None:
        msg = (
            f"scoring={by!r} was given with responses that are missing; expected "
            "None, the mean over responses of R² on what was measured."
        )
        raise ValueError(msg)
    if by is None or (n_responses == 1 and at_once):
        each = [
            fold_scores(
                by,
                Y[known, k],
                predictions[known, k, :],
                weight=None if weight is None else weight[known],
                default=default,
            )
            for k, known in _scored(task, rows)
        ]
        return np.mean(each, axis=0)

    def model(g: int) -> Any:
        known = predictions[:, :, g]
        if classes is None:
            return FixedRegressor(known if n_responses > 1 else known[:, 0])
        return FixedClassifier(known, classes)

    # Scorers see the fold's samples; of those left in place only as many empty rows.
    lazy = is_lazy(task.samples.X)
    X = np.empty((len(rows), 0)) if lazy else to_numpy(take_rows(task.samples.X, rows))
    truth = Y if n_responses > 1 else Y[:, 0]
    truth = truth if classes is None else classes[class_numbers(Y)]
    # A name would score the first indicator; its scorer sees labels of all classes.
    return fold_scores(
        get_scorer(by),
        truth,
        predictions[:, 0, :],
        weight=weight,
        model=model,
        X=X,
    )
