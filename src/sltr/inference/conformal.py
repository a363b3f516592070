"""Prediction intervals and label sets that hold their level: CV+.

Every training sample i has a prediction by the fold fit that did not see it, and an
error R_i. With μ_k(i) that fit, the interval of a new sample x at level 1 − α is

    [ the ⌊α(n + 1)⌋-th smallest of μ_k(i)(x) − R_i,
      the ⌈(1 − α)(n + 1)⌉-th smallest of μ_k(i)(x) + R_i ].

If samples are exchangeable, it covers with probability 1 − 2α at least, and close to
1 − α unless the fits are unstable. For labels the error of a class is minus its score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    explained_memory,
    fitting_threads,
    is_array_api,
    to_numpy,
)
from sltr.estimators.labels import Targets
from sltr.inference.targets import (
    fits_subsets_at_once,
    refuse_missing,
    rows_of,
    unwatched,
)
from sltr.parameters import refuse
from sltr.samples.check import (
    check_counts,
    check_new_samples,
    check_plain,
    check_samples,
)
from sltr.samples.samples import as_design
from sltr.tuning.choose import Scoring
from sltr.tuning.final import final_fit, last_step
from sltr.tuning.folds import Split, weighted_splits, whole_groups

# Numbers that the comparison of new samples with training samples holds at a time.
BLOCK_ENTRIES = 10_000_000

Scores = Callable[[Any], np.ndarray]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Prediction intervals of a regression.

    Attributes
    ----------
    y, held_out : arrays of shape (n,), or (n, q1, …)
        Responses of the training samples, and predictions by the folds' fits that
        did not see them.
    fold : array of shape (n,)
        The fold that held each of them out.
    """

    y: np.ndarray
    held_out: np.ndarray
    fold: np.ndarray
    _scores: Scores  # predictions (n, F, K) of new samples by all fold fits

    def predict(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper ends, (n,) each; infinite for too few samples.

        Of several responses (n, q1, …), and each by itself is covered so often.
        """
        alpha = 1.0 - _check_level(level)
        errors = np.abs(self.y - self.held_out).reshape(len(self.y), -1)
        guesses = self._scores(X)
        pairs = [
            self._ends(guesses[:, :, k], errors[:, k], alpha)
            for k in range(errors.shape[1])
        ]
        shape = (len(guesses), *self.y.shape[1:])
        lower, upper = (
            np.stack([pair[end] for pair in pairs], axis=1).reshape(shape)
            for end in (0, 1)
        )
        return lower, upper

    def _ends(
        self, guesses: np.ndarray, errors: np.ndarray, alpha: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of one response from all folds' predictions (n, F)."""
        n = len(errors)
        low, high = floor(alpha * (n + 1)), ceil((1.0 - alpha) * (n + 1))
        lower, upper = np.full(len(guesses), -np.inf), np.full(len(guesses), np.inf)
        for rows in _blocks(len(guesses), n):
            centre = guesses[rows][:, self.fold]  # (rows, n)
            if low >= 1:
                lower[rows] = _smallest(centre - errors, low)
            if high <= n:
                upper[rows] = _smallest(centre + errors, high)
        return lower, upper


@dataclass(frozen=True, eq=False)
class LabelSets:
    """Sets of labels that hold the true one.

    Attributes
    ----------
    classes : array of shape (n_classes,)
    y : array of shape (n,)
        Labels of the training samples, as places among the classes.
    held_out : array of shape (n, n_classes)
        Their scores by the folds' fits that did not see them.
    fold : array of shape (n,)
        The fold that held each of them out.
    """

    classes: np.ndarray
    y: np.ndarray
    held_out: np.ndarray
    fold: np.ndarray
    _scores: Scores  # scores (n, F, n_classes) of new samples by all fold fits

    def predict(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Return which classes are in the set of each sample, (n, n_classes)."""
        level, n = _check_level(level), len(self.y)
        own = self.held_out[np.arange(n), self.y]
        scores = self._scores(X)
        inside = np.zeros((len(scores), len(self.classes)), dtype=bool)
        for rows in _blocks(len(scores), n * len(self.classes)):
            # In how many comparisons with training samples the label does worse.
            worse = scores[rows][:, self.fold, :] < own[:, None]
            inside[rows] = worse.sum(axis=1) < level * (n + 1)
        return inside


def intervals(
    model: Any, X: Any, y: Any, *, groups: Any = None
) -> Intervals | LabelSets:
    """Return prediction intervals (or sets of labels) by CV+.

    SLTR's CV classes are tuned once on all samples, and what was chosen is fitted to
    all folds in one batch. Settings are then shared by the folds: few numbers, chosen
    by all samples, of which the guarantee below knows nothing; coverage is measured
    in the docs. Any other estimator is fitted to each fold by itself, its own tuning
    included.

    Parameters
    ----------
    model : estimator
        A regressor or a classifier, of SLTR or a peer. It is not changed, and need
        not be fitted.
    X : array of shape (n, p1, …, pM)
        Training samples.
    y : array of shape (n,)
        Responses or labels.
    groups : array of shape (n,), optional
        Folds keep groups whole: intervals are then those of samples of new groups.

    Returns
    -------
    Intervals or LabelSets
        Both have `predict(X, level=0.9)`: lower and upper ends for responses, or a
        table that says which classes are in each sample's set.

    References
    ----------
    Barber, Candès, Ramdas, Tibshirani (2021). Predictive inference with the
    jackknife+. Annals of Statistics 49. Romano, Sesia, Candès (2020). Classification
    with valid and adaptive coverage.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressorCV
    >>> from sltr.inference import intervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5, 4))
    >>> y = X[:, :2, :2].sum(axis=(1, 2)) + rng.normal(size=300)
    >>> found = intervals(SLTRRegressorCV(), X[:100], y[:100])
    >>> lower, upper = found.predict(X[100:], level=0.9)
    >>> bool(0.8 < np.mean((lower <= y[100:]) & (y[100:] <= upper)) < 1.0)
    True
    """
    model, labels = unwatched(model), is_classifier(model)
    X, y = check_plain(X, "X"), check_plain(y, "y")
    if fits_subsets_at_once(model):
        fits = _batch_of_folds(model, X, y, groups)
    else:
        fits = _folds_one_by_one(model, X, y, groups)
    rows = np.concatenate([test for _, test in fits.splits])
    order = np.argsort(rows, kind="stable")
    fold = np.repeat(np.arange(len(fits.splits)), [len(t) for _, t in fits.splits])
    held_out, fold, rows = fits.held_out[order], fold[order], rows[order]
    if not labels:
        y = fits.y[rows]
        return Intervals(y, held_out.reshape(y.shape), fold, fits.predict)
    return LabelSets(fits.classes, fits.y[rows], held_out, fold, fits.predict)


@dataclass(frozen=True, eq=False)
class _Fits:
    """Fits on folds: what each predicts for the rows it left out, and for new ones."""

    splits: Sequence[Split]
    y: np.ndarray  # (n,) or (n, q1, …), of labels their places among the classes
    held_out: np.ndarray  # (rows, K or n_classes), fold after fold
    classes: np.ndarray
    predict: Callable[[Any], np.ndarray]  # (n, F, K or n_classes)


def _both_classes(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return scores of all classes: two have one regression, of the second."""
    if n_classes != 2 or scores.shape[-1] == 2:
        return scores
    return np.concatenate([1.0 - scores, scores], axis=-1)


@dataclass(frozen=True, eq=False)
class _LinearFolds:
    """Predictions of linear fits on F folds, with K responses each."""

    model: Any  # checks new samples
    coef: Array  # (F, K, P)
    intercept: Array  # (F, K)
    n_classes: int

    def __call__(self, X: Any) -> np.ndarray:
        design = as_design(check_new_samples(self.model, X))
        xp = array_namespace(self.coef)
        products = design.inner(xp.reshape(self.coef, (-1, self.coef.shape[-1])))
        values = np.asarray(to_numpy(products), float).reshape(
            -1, *self.intercept.shape
        )
        values = values + np.asarray(to_numpy(self.intercept), float)
        return _both_classes(values, self.n_classes)


def _batch_of_folds(model: Any, X: Any, y: Any, groups: Any) -> _Fits:
    """Tune SLTR once, and fit what was chosen to all folds at once."""
    labels = is_classifier(model)
    samples = check_samples(model, X, y, labels=labels, tensors=not labels)
    refuse_missing(samples)
    targets = Targets.of(samples, labels, model.fit_intercept)
    classes = targets.classes
    numbers = np.asarray(to_numpy(samples.y))
    numbers = numbers.reshape(len(numbers), *getattr(model, "shape_out_", ()))
    if classes is not None:
        numbers = np.searchsorted(classes, numbers)
    splits = weighted_splits(model.cv, y, groups=groups, classifier=labels)
    tried = model._tried(samples.X)
    whole = whole_groups(splits, groups)
    with explained_memory(), fitting_threads(samples.X):
        folds = None if whole is None else splits
        task = model._task(samples, targets.Y, targets.shift, folds)
        scoring = Scoring(model.scoring, classes)
        held, choice = model._choose(task, splits, tried, scoring, whole)
        held, choice = last_step(task, held, choice, model.rule)
        training, last = held.folds.training, choice.last
        fitted = final_fit(task, choice.members, training, last=last)
    # New samples are checked as those of a fitted model.
    model._set_coef(task, fitted, None)
    xp = array_namespace(fitted.coef)
    n_classes = 0 if classes is None else len(classes)
    n_folds, n_responses = fitted.coef.shape[:2]
    flat = (n_folds, n_responses, -1)
    offset = as_array(task.y_shift * task.y_unit, fitted.intercept)
    coef, intercept = xp.reshape(fitted.coef, flat), fitted.intercept + offset
    predict = _LinearFolds(model, coef, intercept, n_classes)
    groups_of_rows = [(rows, coef[f, ...]) for f, (_, rows) in enumerate(splits)]
    products = samples.design.inner_groups(groups_of_rows)
    own = [
        np.asarray(to_numpy(part + intercept[f, ...]), float)
        for f, part in enumerate(products)
    ]
    held_out = _both_classes(np.concatenate(own), n_classes)
    none = np.empty(0)
    return _Fits(
        splits, numbers, held_out, none if classes is None else classes, predict
    )


@dataclass(frozen=True, eq=False)
class _FittedFolds:
    """Predictions of estimators fitted on folds."""

    models: Sequence[Any]

    def __call__(self, X: Any) -> np.ndarray:
        return np.stack([_predicted(model, X) for model in self.models], axis=1)


def _folds_one_by_one(model: Any, X: Any, y: Any, groups: Any) -> _Fits:
    """Fit any estimator to each fold."""
    labels = is_classifier(model)
    X = X if hasattr(X, "shape") else np.asarray(X)
    numbers = np.asarray(to_numpy(y) if is_array_api(y) else y)
    if labels or numbers.shape[1:] == (1,):
        numbers = np.ravel(numbers)
    n_samples, n_responses = (v.shape[0] if v.shape else 0 for v in (X, numbers))
    check_counts(n_samples, n_responses, min_samples=2)
    cv = getattr(model, "cv", None)
    if groups is not None and hasattr(model, "cv"):
        msg = (
            f"groups were given for {type(model).__name__}, whose own folds would not "
            "keep them whole; expected one of SLTR's CV classes, or settings without "
            "a tuning. Leave groups out, or set the settings."
        )
        raise ValueError(msg)
    splits = weighted_splits(cv, numbers, groups=groups, classifier=labels)
    models = []
    for train, _ in splits:
        models.append(clone(model).fit(rows_of(X, train), numbers[train]))
    own = [
        _predicted(fit, rows_of(X, rows))
        for fit, (_, rows) in zip(models, splits, strict=True)
    ]
    classes = np.empty(0)
    if labels:
        classes = np.unique(numbers)
        numbers = np.searchsorted(classes, numbers)
    return _Fits(splits, numbers, np.concatenate(own), classes, _FittedFolds(models))


def _predicted(model: Any, X: Any) -> np.ndarray:
    """Return predictions (n, K), or the classes' scores (n, n_classes)."""
    if not is_classifier(model):
        found = np.asarray(to_numpy(model.predict(X)), float)
        return found.reshape(len(found), -1)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), float)
    scores = np.asarray(to_numpy(model.decision_function(X)), float)
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def _check_level(level: Any) -> float:
    if not isinstance(level, float | int) or not 0 < level < 1:
        refuse("level", level, "a number between 0 and 1, such as 0.9")
    return float(level)


def _smallest(values: np.ndarray, place: int) -> np.ndarray:
    """Return the place-th smallest number of each row; the first place is 1."""
    return np.partition(values, place - 1, axis=1)[:, place - 1]


def _blocks(n_rows: int, width: int) -> list[slice]:
    size = max(1, BLOCK_ENTRIES // max(1, width))
    return [slice(first, first + size) for first in range(0, n_rows, size)]
