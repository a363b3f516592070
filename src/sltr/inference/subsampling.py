"""Stability selection: which entries are found again in halves of the samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier

from sltr.arrays import (
    array_namespace,
    as_array,
    explained_memory,
    fitting_threads,
    is_numpy,
    to_numpy,
)
from sltr.estimators.labels import Targets
from sltr.inference.targets import fits_subsets_at_once, rows_of, unwatched
from sltr.parameters import check_count, random_generator, refuse
from sltr.samples.check import check_samples
from sltr.samples.labelled import Labels
from sltr.tuning.choose import Scoring
from sltr.tuning.final import final_fit
from sltr.tuning.folds import weighted_splits

Progress = Callable[[int, int], None]

# Coefficients that are fitted to halves at a time.
BATCH_ENTRIES = 4_000_000


@dataclass(frozen=True, eq=False)
class Stability:
    """How often entries are selected in halves of the samples.

    Attributes
    ----------
    frequency : array of shape (p1, …, pM)
        Share of the halves in which an entry is among the `n_largest`.
    selected : array of bool, shape (p1, …, pM)
        Where it is at least `threshold`.
    threshold : float
    n_largest : int
        Entries selected at most in a half: the largest of those that are not zero.
    n_selected : float
        Entries selected in a half, in the mean.
    max_false : float
        Bound on the expected number of false ones among the selected, for
        distributions of frequencies with one peak (Shah and Samworth, Theorem 2).
    max_false_worst : float
        The bound without that assumption (Theorem 1).
    n_halves : int
    labels : Labels or None
        What the samples know of their modes, for pictures.
    """

    frequency: np.ndarray
    selected: np.ndarray
    threshold: float
    n_largest: int
    n_selected: float
    max_false: float
    max_false_worst: float
    n_halves: int
    labels: Labels | None = None

    def __str__(self) -> str:
        return (
            f"{np.count_nonzero(self.selected):,} of {self.selected.size:,} entries "
            f"are selected in at least {100 * self.threshold:.0f} % of {self.n_halves} "
            f"halves; at most {self.max_false:.2g} of them are expected to be false"
        )


def stability(
    model: Any,
    X: Any,
    y: Any,
    *,
    threshold: float = 0.75,
    max_false: float = 1.0,
    n_pairs: int = 50,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Stability:
    r"""Return how often each entry is selected in complementary halves of the samples.

    Samples are cut in two halves, many times, and the model is fitted to each half.
    An entry is selected in a half if it is among the q largest that are not zero.
    With p entries, a threshold τ and B pairs of halves, the expected number of
    entries that are selected in a share τ of the halves, although a half selects
    them no more often than by chance, is at most

    .. math:: C(τ, B)\, q² / p,

    C = 1 / (2τ − 1) in the worst case, about a half of it or less if frequencies
    have one peak. q is the largest number for which the bound is `max_false`.

    Parameters
    ----------
    model : estimator
        It is not changed, and need not be fitted. SLTR's CV classes are tuned once on
        all samples, and what was chosen is fitted to all halves in batches, from one
        Gram matrix. Others are fitted to each half by themselves.
    X : array of shape (n_samples, p1, …, pM)
    y : array of shape (n_samples,)
        Of labels, halves have equal shares of the classes.
    threshold : float
        Share of the halves, above one half.
    max_false : float
        What the bound shall be: the expected number of false entries.
    n_pairs : int
        Pairs of halves.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Processes over halves, for models that are fitted to each half.
    progress : callable, optional
        Called with the number of halves done and their total.

    Returns
    -------
    Stability

    References
    ----------
    Shah, Samworth (2013). Variable selection with error control: another look at
    stability selection. Journal of the Royal Statistical Society B 75.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressorCV
    >>> from sltr.inference import stability
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 6, 5))
    >>> y = X[:, 0, 0] - X[:, 3, 2] + 0.3 * rng.normal(size=120)
    >>> found = stability(SLTRRegressorCV(), X, y, n_pairs=10, random_state=0)
    >>> np.argwhere(found.selected).tolist()
    [[0, 0], [3, 2]]
    """
    if not isinstance(threshold, float) or not 0.5 < threshold <= 1:
        refuse("threshold", threshold, "a share above 0.5 and at most 1")
    if not isinstance(max_false, float | int) or not max_false > 0:
        refuse("max_false", max_false, "a number above 0")
    n_pairs = check_count(n_pairs, "n_pairs")
    model, labels = unwatched(model), is_classifier(model)
    samples = check_samples(model, X, y, labels=labels, min_samples=4)
    numbers = np.asarray(to_numpy(samples.y))
    rng = random_generator(random_state)
    halves = _halves(numbers if labels else None, len(numbers), n_pairs, rng)
    n_entries = int(np.prod(samples.shape))
    bound = _one_peak(threshold, n_pairs)
    n_largest = max(1, int((max_false * n_entries / bound) ** 0.5))
    if fits_subsets_at_once(model):
        sizes = _batches_of_halves(model, samples, y, halves, progress)
    else:
        X = X if hasattr(X, "shape") else np.asarray(X)
        sizes = _one_by_one(model, X, numbers, halves, n_jobs, progress)
    picked = [_largest(size, n_largest) for size in sizes]
    frequency = np.mean(picked, axis=0).reshape(samples.shape)
    n_selected = float(np.mean([one.sum() for one in picked]))
    share = n_selected**2 / n_entries
    return Stability(
        frequency=frequency,
        selected=frequency >= threshold - 1e-9,
        threshold=float(threshold),
        n_largest=n_largest,
        n_selected=n_selected,
        max_false=bound * share,
        max_false_worst=share / (2.0 * threshold - 1.0),
        n_halves=len(halves),
        labels=samples.labels,
    )


def _one_peak(threshold: float, n_pairs: int) -> float:
    """Return C(τ, B) of Shah and Samworth's Theorem 2; never above the worst case.

    Examples
    --------
    >>> round(_one_peak(0.75, 10**6), 3), round(_one_peak(0.9, 50), 3)
    (1.0, 0.431)
    """
    half_pair = 1.0 / (2.0 * n_pairs)
    if threshold <= 0.75:
        rest = 2.0 * threshold - 1.0 - half_pair
        value = 1.0 / (2.0 * rest) if rest > 0 else np.inf
    else:
        value = 4.0 * (1.0 - threshold + half_pair) / (1.0 + 1.0 / n_pairs)
    return float(min(value, 1.0 / (2.0 * threshold - 1.0)))


def _halves(
    labels: np.ndarray | None, n: int, n_pairs: int, rng: np.random.RandomState
) -> list[np.ndarray]:
    """Return rows of complementary halves, pair after pair; classes are cut alike.

    Of an odd number of samples one is left out.
    """
    found = []
    for _ in range(n_pairs):
        order = rng.permutation(n)
        if labels is not None:
            # Samples of a class follow each other, and take turns in the halves.
            order = order[np.argsort(labels[order], kind="stable")]
        pair = order[: n - n % 2].reshape(-1, 2)
        found += [np.sort(pair[:, 0]), np.sort(pair[:, 1])]
    return found


def _largest(size: np.ndarray, most: int) -> np.ndarray:
    """Say which entries are among the largest that are not zero; ties are left out."""
    if most >= np.count_nonzero(size):
        return size > 0
    cut = np.partition(size, len(size) - most - 1)[len(size) - most - 1]
    return size > cut


def _sizes(coef: np.ndarray, n_responses: int) -> np.ndarray:
    """Return the size (P,) of each entry over all responses."""
    return np.sqrt((coef.reshape(n_responses, -1) ** 2).sum(axis=0))


def _batches_of_halves(
    model: Any,
    samples: Any,
    y: Any,
    halves: list[np.ndarray],
    progress: Progress | None,
) -> list[np.ndarray]:
    """Tune SLTR once, and fit what was chosen to all halves."""
    labels = is_classifier(model)
    targets = Targets.of(samples, labels, model.fit_intercept)
    Y, classes = targets.Y, targets.classes
    splits = weighted_splits(model.cv, y, classifier=labels)
    tried = model._tried(samples.X)
    xp = array_namespace(samples.weight)
    sizes: list[np.ndarray] = []
    with explained_memory(), fitting_threads(samples.X):
        task = model._task(samples, Y, targets.shift)
        scoring = Scoring(model.scoring, classes)
        _, choice = model._choose(task, splits, tried, scoring)
        n_entries = Y.shape[1] * samples.design.shape[1]
        batch = max(1, BATCH_ENTRIES // (n_entries * len(choice.members)))
        for first in range(0, len(halves), batch):
            part = halves[first : first + batch]
            inside = np.zeros((len(part), Y.shape[0]), dtype=bool)
            for row, rows in zip(inside, part, strict=True):
                row[rows] = True
            training = as_array(inside, samples.weight, dtype=xp.bool)
            fitted = final_fit(task, choice.members, training)
            sizes += [_sizes(coef, Y.shape[1]) for coef in to_numpy(fitted.coef)]
            if progress is not None:
                progress(len(sizes), len(halves))
    return sizes


def _one_by_one(
    model: Any,
    X: Any,
    y: np.ndarray,
    halves: list[np.ndarray],
    n_jobs: int | None,
    progress: Progress | None,
) -> list[np.ndarray]:
    """Fit any linear model to each half."""
    parallel = Parallel(n_jobs=n_jobs if is_numpy(X) else None, return_as="generator")
    sizes = []
    for size in parallel(delayed(_fit_half)(model, X, y, rows) for rows in halves):
        sizes.append(size)
        if progress is not None:
            progress(len(sizes), len(halves))
    return sizes


def _fit_half(model: Any, X: Any, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    fitted = clone(model).fit(rows_of(X, rows), y[rows])
    coef = np.asarray(to_numpy(fitted.coef_), float)
    single = coef.ndim == len(fitted.shape_in_)
    return _sizes(coef, 1 if single else len(coef))
