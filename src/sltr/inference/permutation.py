"""Permutation tests of whether the samples predict the responses at all.

A permutation test compares a statistic T(X, y) with T(X, y after a permutation). It is
exact for every statistic, if the responses are exchangeable when there is nothing to
find: then all n + 1 values are, and p = (1 + b) / (1 + n), b the permutations that
reach the true order's value, is at most α with probability at most α.

What does not depend on y may be shared between permutations: T stays the same function
of X and y, and is only computed faster. These are the checks of X, its Gram matrix
(or moments) and their eigendecomposition; folds, as far as they do not look at y.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

from sltr.arrays import (
    Array,
    array_namespace,
    explained_memory,
    fitting_threads,
    free_entries,
    is_numpy,
    to_numpy,
)
from sltr.core.prox import soft_threshold, threshold_singular_values
from sltr.core.tensor import fold, unfold
from sltr.estimators.fitted import TensorResponses
from sltr.estimators.labels import Targets
from sltr.estimators.sltr import SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.inference.targets import refuse_missing, unwatched
from sltr.parameters import (
    check_choice,
    check_count,
    printable,
    random_generator,
    refuse,
    unmasked,
)
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples, take_rows
from sltr.tuning.choose import Scoring
from sltr.tuning.evidence import PENALTIES, correlations, draw_orders, permuted
from sltr.tuning.folds import Folds, Split, splits, weighted_splits, whole_groups
from sltr.tuning.scores import metric_name
from sltr.tuning.task import Task, ridge_pilots

Progress = Callable[[int, int], None]

# The pilot of the cheap test whose estimates are made too, one of `PENALTIES`, with
# these relative radii of the entrywise ball and of the spectral ball.
ESTIMATED = 1.0
RADII_SPARSE = (0.3, 0.6)
RADIUS_LOW = 0.5
# Coefficients that a batch of permutations may hold on a CPU.
BATCH_ENTRIES = 4_000_000
# Arrays of this size that are held at a time on a device.
ARRAYS_HELD = 8
# Values that differ by rounding are equal.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """What a permutation test found.

    Attributes
    ----------
    p_value : float
        (1 + b) / (1 + n), b the permutations that score as well as the true order.
    score : float
        The statistic for the responses as they are.
    null : array of shape (n,)
        The statistic for each permutation.
    statistic : {"procedure", "pilot"}
    scored_by : str
        What the statistic measures.
    permuted : {"samples", "samples within groups", "whole groups"}
        What changed places.
    """

    p_value: float
    score: float
    null: np.ndarray
    statistic: str
    scored_by: str
    permuted: str

    def __str__(self) -> str:
        return (
            f"p = {self.p_value:.2g} ({len(self.null)} permutations of "
            f"{self.permuted}); {printable(self.scored_by)} {self.score:.3f}, permuted "
            f"{np.nanmean(self.null):.3f} ± {np.nanstd(self.null):.3f}"
        )


def permutation_test(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    n: int = 1000,
    statistic: str = "procedure",
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PermutationTest:
    """Test whether the samples predict the responses at all.

    The test is exact for both statistics. What does not depend on the responses
    (the Gram matrix and its eigendecomposition, and folds unless they are
    stratified) is made once and serves all permutations; nothing that was chosen by
    looking at the responses is shared. With `smooth` or `standardize="auto"`, which
    look at them, nothing is.

    Parameters
    ----------
    model : estimator
        It is not changed, and need not be fitted. For "procedure": a tuned one, of
        SLTR or a peer; any other is scored by cross-validation in five folds.
    X : array of shape (n_samples, p1, …, pM)
    y : array of shape (n_samples,), or (n_samples, q1, …)
        Responses or labels. All responses of a sample change places together.
    groups : array of shape (n_samples,), optional
        Samples of one group (subject, run, film) resemble each other. Folds keep
        groups whole. Responses are permuted within groups; if all samples of a group
        have the same response, whole groups change places.
    n : int
        Number of permutations; the smallest p-value is 1 / (1 + n).
    statistic : {"procedure", "pilot"}
        "procedure": the whole tuning under each permutation, scored by its best
        mean held-out score. "pilot": ridge pilots of a few penalties and their
        sparse and low-rank estimates, scored by the largest correlation of held-out
        predictions with the responses: all permutations are one batch, thousands
        take seconds, on a GPU too. It is weaker where only refits find the signal.
    random_state : int, RandomState or None
        Draws the permutations, and the folds of "pilot".
    n_jobs : int, optional
        Processes over permutations, for "procedure".
    progress : callable, optional
        Called with the number of permutations done and their total.

    Returns
    -------
    PermutationTest

    References
    ----------
    Phipson, Smyth (2010). Permutation p-values should never be zero.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressorCV
    >>> from sltr.inference import permutation_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4))
    >>> y = X[:, :2, :2].sum(axis=(1, 2)) + rng.normal(size=60)
    >>> model = SLTRRegressorCV()
    >>> test = permutation_test(model, X, y, n=199, statistic="pilot", random_state=0)
    >>> test.p_value
    0.005
    """
    check_choice("statistic", statistic, ("procedure", "pilot"))
    n = check_count(n, "n")
    labels = is_classifier(model)
    model = unwatched(model)
    rng = random_generator(random_state)
    checked = model if statistic == "procedure" else _like(model)
    tensors = isinstance(model, TensorResponses) and not labels
    samples = check_samples(checked, X, y, labels=labels, tensors=tensors)
    refuse_missing(samples)
    responses = to_numpy(samples.y)
    groups = check_groups(groups, len(responses))
    orders, permuted = draw_orders(responses, groups, n, rng)
    if statistic == "pilot":
        folds = _blind_folds(model, len(responses), groups, rng)
        with explained_memory(), fitting_threads(samples.X):
            values = _pilot_scores(checked, samples, folds, orders, labels, progress)
        scored_by = "held-out correlation"
    elif (
        isinstance(model, SLTRRegressorCV | SLTRClassifierCV) and not model._chooses_map
    ):
        job = _shared_job(model, samples, groups)
        values = _in_processes(job, orders, n_jobs, samples.X, progress)
        scored_by = metric_name(model)
    else:
        shape = (len(responses), *getattr(checked, "shape_out_", ()))
        job = _plain_job(model, X, responses.reshape(shape), groups, rng)
        values = _in_processes(job, orders, n_jobs, samples.X, progress)
        scored_by = metric_name(model)
    score, null = float(values[0]), values[1:]
    if not np.isfinite(score):
        refuse("y", y, "responses for which the score is a number")
    # A permutation without a score counts against the model.
    beaten = null < score - ROUNDING * max(1.0, abs(score))
    p_value = (1 + int(np.count_nonzero(~beaten))) / (1 + n)
    return PermutationTest(p_value, score, null, statistic, scored_by, permuted)


def _like(model: Any) -> SLTRRegressor:
    """Return an estimator whose pilot is that of the model's samples."""
    names = (
        *("fit_intercept", "feature_shape", "memory_limit", "mask"),
        *("missing", "missing_y"),
    )
    shared = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return SLTRRegressor(**shared)


def check_groups(groups: Any, n_samples: int) -> np.ndarray | None:
    """Return each sample's group as a number."""
    if groups is None:
        return None
    names = np.asarray(unmasked(groups, "groups"))
    if names.shape != (n_samples,):
        refuse("groups", f"shape {names.shape}", f"one for each of {n_samples} samples")
    return np.unique(names, return_inverse=True)[1]


def _blind_folds(
    model: Any,
    n_samples: int,
    groups: np.ndarray | None,
    rng: np.random.RandomState,
) -> list[Split]:
    """Return folds that do not depend on the responses."""
    cv = getattr(model, "cv", None)
    if cv is None or isinstance(cv, int):
        n_folds = 5 if cv is None else cv
        if groups is None:
            cv = KFold(min(n_folds, n_samples), shuffle=True, random_state=rng)
        else:
            cv = GroupKFold(min(n_folds, groups.max() + 1))
    return splits(cv, np.zeros(n_samples), groups=groups)


def _pilot_scores(
    model: SLTRRegressor,
    samples: Samples,
    folds: Sequence[Split],
    orders: np.ndarray,
    labels: bool,
    progress: Progress | None,
) -> np.ndarray:
    """Return the cheap statistic of all permutations, in batches that fit memory."""
    targets = Targets.of(samples, labels, model.fit_intercept)
    Y = targets.Y
    task = model._task(samples, Y, targets.shift)
    held = Folds.of(task, folds)
    unit = task.system.mean_eigenvalue()
    unit = unit if unit > 0 else 1.0  # all samples are equal
    n_candidates = len(PENALTIES) + len(RADII_SPARSE) + 1
    size = len(folds) * n_candidates * Y.shape[1] * samples.design.shape[1]
    room = max(BATCH_ENTRIES, free_entries(samples.X) // ARRAYS_HELD)
    batch = max(1, room // size)
    values: list[np.ndarray] = []
    for first in range(0, len(orders), batch):
        part = orders[first : first + batch]
        values.append(_batch_scores(task, held, unit, part))
        if progress is not None:
            progress(min(first + batch, len(orders)), len(orders))
    return np.concatenate(values)


def _batch_scores(
    task: Task, folds: Folds, unit: float, orders: np.ndarray
) -> np.ndarray:
    """Return the largest held-out correlation over candidates, (B,) for B orders."""
    xp, Y = array_namespace(task.Y), permuted(task.Y, orders)  # (n, B·K)
    pilots = ridge_pilots(
        task.with_responses(Y), folds.training, [unit * e for e in PENALTIES]
    )
    coefs = [pilots.coef[:, e, ...] for e in range(len(PENALTIES))]  # (F, B·K, P)
    coefs += _estimates(coefs[PENALTIES.index(ESTIMATED)], task.samples.shape)
    stacked = xp.stack(coefs, axis=1)  # (F, C, B·K, P)
    flat = xp.reshape(stacked, (stacked.shape[0], -1, stacked.shape[-1]))
    products = task.samples.design.inner_groups(
        [(rows, flat[f, ...]) for f, rows in enumerate(folds.rows)]
    )
    basis, predicted = task.centring(folds.training).basis, []
    for f, rows in enumerate(folds.rows):
        removed = pilots.removed[f, ...] @ xp.matrix_transpose(flat[f, ...])
        values = products[f] - take_rows(basis, rows) @ removed
        predicted.append(xp.reshape(values, (len(rows), -1, Y.shape[1])))
    found = correlations(task, folds, Y, predicted, task.Y.shape[1])
    return found.max(axis=0)


def _estimates(pilots: Array, shape: tuple[int, ...]) -> list[Array]:
    """Return the estimates about pilots (F, B, P) that one ball alone makes.

    Both are closed forms: entries moved towards zero, and, where there are modes,
    the mean over modes of unfoldings whose singular values are.
    """
    xp = array_namespace(pilots)
    largest = xp.max(xp.abs(pilots), axis=-1, keepdims=True)
    sparse = [soft_threshold(pilots, radius * largest) for radius in RADII_SPARSE]
    if len(shape) == 1:
        return sparse
    tensors = xp.reshape(pilots, (-1, *shape))
    low = 0.0 * tensors
    for mode in range(len(shape)):
        matrices = unfold(tensors, mode)
        cut = threshold_singular_values(matrices, RADIUS_LOW, relative=True)
        low = low + fold(cut, mode, shape) / len(shape)
    return [*sparse, xp.reshape(low, pilots.shape)]


Job = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class _SharedJob:
    """The tuning of SLTR under some orders; all that does not see y is shared."""

    model: Any
    samples: Samples
    task: Task
    tried: tuple
    classes: np.ndarray | None
    groups: np.ndarray | None

    def __call__(self, orders: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings(), fitting_threads(self.samples.X):
            # What a tuning warns of, it would for each permutation.
            warnings.simplefilter("ignore")
            return np.array([self._score(order) for order in orders])

    def _score(self, order: np.ndarray) -> float:
        folds = weighted_splits(
            self.model.cv,
            to_numpy(self.samples.y)[order],
            groups=self.groups,
            classifier=self.classes is not None,
        )
        groups = whole_groups(folds, self.groups)
        task = self.task.with_responses(take_rows(self.task.Y, order))
        scoring = Scoring(self.model.scoring, self.classes)
        _, choice = self.model._choose(task, folds, self.tried, scoring, groups)
        return best_mean(choice.scores)


def best_mean(scores: np.ndarray) -> float:
    """Return the best mean over folds of scores (F, G); not a number if none is."""
    mean = scores.mean(axis=0)
    return float(np.nanmax(mean)) if np.isfinite(mean).any() else float("nan")


def _shared_job(model: Any, samples: Samples, groups: np.ndarray | None) -> Job:
    model.set_params(n_jobs=None)
    if not isinstance(model.cv, int) and not hasattr(model.cv, "split"):
        model.set_params(cv=None if model.cv is None else list(model.cv))
    targets = Targets.of(samples, is_classifier(model), model.fit_intercept)
    tried = model._tried(samples.X)
    with explained_memory(), fitting_threads(samples.X):
        task = model._task(samples, targets.Y, targets.shift)
    return _SharedJob(model, samples, task, tried, targets.classes, groups)


@dataclass(frozen=True, eq=False)
class _PlainJob:
    """Any estimator under some orders: its own best score, or that of folds."""

    model: Any
    X: Any
    y: np.ndarray
    folds: list[Split]

    def __call__(self, orders: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array([self._score(self.y[order]) for order in orders])

    def _score(self, y: np.ndarray) -> float:
        if hasattr(self.model, "cv"):
            return float(clone(self.model).fit(self.X, y).best_score_)
        scores = cross_val_score(self.model, self.X, y, cv=self.folds)
        return float(np.mean(scores))


def _plain_job(
    model: Any,
    X: Any,
    y: np.ndarray,
    groups: np.ndarray | None,
    rng: np.random.RandomState,
) -> Job:
    if not is_numpy(X):
        X = np.asarray(to_numpy(X)) if hasattr(X, "shape") else np.asarray(X)
    folds = _blind_folds(model, len(y), groups, rng)
    if hasattr(model, "cv") and groups is not None:
        model.set_params(cv=folds)
    return _PlainJob(model, X, y, folds)


def _in_processes(
    job: Job,
    orders: np.ndarray,
    n_jobs: int | None,
    X: Any,
    progress: Progress | None,
) -> np.ndarray:
    """Return a job's values for all orders; devices work in this process alone."""
    n_jobs = n_jobs if is_numpy(X) else None
    n_chunks = min(len(orders), 1 if n_jobs is None else 8 * effective_n_jobs(n_jobs))
    n_chunks = max(n_chunks, min(len(orders), 20))  # for those who watch
    chunks = np.array_split(orders, n_chunks)
    values, done = [], 0
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    results: Iterator[np.ndarray] = parallel(delayed(job)(part) for part in chunks)
    for part in results:
        values.append(part)
        done += len(part)
        if progress is not None:
            progress(done, len(orders))
    return np.concatenate(values)
