"""Folds: which samples are trained on, which are held out, and their losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.arrays.resources import row_ranges
from sltr.parameters import one_or_more, parts_of, refuse, unmasked, warn_caller
from sltr.samples.samples import is_lazy, take_rows
from sltr.tuning.task import Task

if TYPE_CHECKING:
    from sltr.core.families import Family
    from sltr.tuning.likelihood import Free

Split = tuple[np.ndarray, np.ndarray]


def splits(
    cv: Any, y: np.ndarray, *, groups: Any = None, classifier: bool = False
) -> list[Split]:
    """Return the folds as pairs of row numbers: to train on, and held out.

    `cv` is a number, a scikit-learn splitter or an iterable of pairs. A number means
    shuffled folds, always the same ones; stratified for a `classifier`.
    """
    if isinstance(cv, type):
        msg = (
            f"cv={cv.__name__} was given, a class; expected one that was made, such as "
            f"{cv.__name__}()."
        )
        raise TypeError(msg)
    if isinstance(cv, Iterable) and not hasattr(cv, "split"):
        listed = one_or_more(cv, "cv")
        cv = listed[0] if getattr(cv, "ndim", 1) == 0 else listed
    splitter = check_cv(
        _possible(cv, y) if classifier else cv, y, classifier=classifier
    )
    if isinstance(splitter, KFold | StratifiedKFold) and not hasattr(cv, "split"):
        # Samples are often sorted: neighbours would make folds unlike each other.
        splitter = type(splitter)(splitter.n_splits, shuffle=True, random_state=0)
    # scikit-learn wraps a list of folds, and unpacks them without a look.
    wrapped = not hasattr(cv, "split") and hasattr(splitter, "cv")
    given = list(splitter.cv) if wrapped else None
    # Splitters look at X only for its length; y stands in for it.
    found = given or splitter.split(np.zeros((len(y), 1)), y, groups)
    folds = [_pair(fold, len(y)) for fold in found]
    if not folds:
        msg = f"cv={cv!r} was given, which has no folds; expected at least one."
        raise ValueError(msg)
    for train, test in folds:
        rows = np.concatenate([train, test])
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(y):
            msg = (
                f"cv={cv!r} was given, with a fold of rows {rows.tolist()[:5]} …; "
                f"expected whole numbers from 0 to {len(y) - 1}."
            )
            raise ValueError(msg)
        if len(train) < 2 or len(test) < 1:
            msg = (
                f"A fold with {len(train)} training and {len(test)} test samples was "
                "given; expected at least 2 and 1. Use fewer folds or more samples."
            )
            raise ValueError(msg)
    return folds


def _pair(fold: Any, n_samples: int) -> Split:
    """Return the rows of a fold: to train on, and held out."""
    parts = list(fold) if isinstance(fold, Iterable) else []
    rows = [_rows(part, n_samples) for part in parts[:2]]
    if len(parts) != 2 or any(part.ndim != 1 for part in rows):
        msg = (
            f"cv was given with {str(fold)[:60]} in place of a fold; expected two "
            "lists of row numbers for each: to train on, and held out."
        )
        raise ValueError(msg)
    train, test = rows
    return train, test


def _rows(given: Any, n_samples: int) -> np.ndarray:
    """Return row numbers; splitters may also give masks."""
    rows = np.asarray(unmasked(given, "cv"))
    if rows.dtype != bool:
        return rows
    if rows.shape != (n_samples,):
        msg = (
            f"cv was given with a mask of shape {rows.shape}; expected one entry for "
            f"each of the {n_samples} samples."
        )
        raise ValueError(msg)
    return np.flatnonzero(rows)


def _possible(cv: Any, y: np.ndarray) -> Any:
    """Return a number of folds that stratified ones can have, or `cv` as it is."""
    wanted = 5 if cv is None else cv
    if not isinstance(wanted, Integral):
        return cv
    largest = int(np.unique(y, return_counts=True)[1].max())
    if not 2 <= largest < int(wanted):
        return cv
    warn_caller(
        f"{wanted} folds were asked for, and no class has more than {largest} samples: "
        f"there are {largest} folds.",
        UserWarning,
    )
    return largest


def weighted_splits(
    cv: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    classifier: bool = False,
) -> list[Split]:
    """Return the folds of the samples of positive weight.

    `cv` and `groups` count all samples that were given. `check_samples` keeps only
    those of positive weight, so rows are numbered anew.

    Examples
    --------
    >>> import numpy as np
    >>> [test.tolist() for _, test in weighted_splits(2, np.zeros(5), [1, 0, 1, 1, 1])]
    [[0, 1], [2, 3]]
    """
    y, groups = to_numpy(y), unmasked(groups, "groups")
    if any(one is None for one in ([] if groups is None else parts_of(groups))):
        refuse("groups", "None for some sample", "a group for each")
    # Only labels are looked at, of which there is one for each sample.
    y = y.reshape(-1) if classifier else y.reshape(len(y), -1)[:, 0]
    if groups is not None and np.shape(groups)[:1] != (len(y),):
        msg = (
            f"groups has shape {np.shape(groups)}; expected one value for each of the "
            f"{len(y)} samples."
        )
        raise ValueError(msg)
    if groups is not None and (cv is None or isinstance(cv, Integral)):
        n_folds = 5 if cv is None else int(cv)
        try:
            n_groups = len(np.unique(to_numpy(groups)))
        except (TypeError, ArithmeticError):
            refuse("groups", "values that have no order", "numbers, or texts")
        check_folds(min(n_folds, n_groups), len(y), to_numpy(groups))
        cv = group_folds(groups, n_folds, labels=classifier)
    folds = splits(cv, y, groups=groups, classifier=classifier)
    kept = to_numpy(1.0 if sample_weight is None else sample_weight) > 0
    if kept.all():
        return folds
    number = np.cumsum(kept) - 1
    renumbered = [(number[a[kept[a]]], number[b[kept[b]]]) for a, b in folds]
    return splits(renumbered, y[kept])


def whole_groups(
    folds: Sequence[Split], groups: Any, sample_weight: Any = None
) -> np.ndarray | None:
    """Return groups by number, if folds of `weighted_splits` keep each on one side.

    Examples
    --------
    >>> import numpy as np
    >>> folds = weighted_splits(2, np.zeros(4))
    >>> whole_groups(folds, ["b", "b", "a", "a"])
    array([1, 1, 0, 0])
    >>> [whole_groups(folds, groups) for groups in ([0, 1, 1, 2], None)]
    [None, None]
    """
    if groups is None:
        return None
    kept = to_numpy(1.0 if sample_weight is None else sample_weight) > 0
    names = np.asarray(groups)[kept] if kept.ndim else np.asarray(groups)
    cut = any(np.isin(names[test], names[train]).any() for train, test in folds)
    return None if cut else np.unique(names, return_inverse=True)[1].ravel()


def check_folds(folds: int, n_samples: int, groups: Any = None) -> None:
    """Refuse a number of folds that there cannot be.

    Examples
    --------
    >>> check_folds(9, 100, groups=[0, 0, 1, 1])
    Traceback (most recent call last):
    ...
    ValueError: folds=9 was given; expected 2 to 2, the number of groups.
    """
    n_units = n_samples if groups is None else len(np.unique(groups))
    if not 2 <= folds <= n_units:
        what = "samples" if groups is None else "groups"
        msg = f"folds={folds} was given; expected 2 to {n_units}, the number of {what}."
        raise ValueError(msg)


def group_folds(groups: Any, n_folds: int, *, labels: bool) -> Any:
    """Return the splitter of at most so many folds that keep groups together."""
    splitter = StratifiedGroupKFold if labels else GroupKFold
    return splitter(max(2, min(n_folds, len(np.unique(groups)))))


def fold_batches(task: Task, folds: Folds, n_epsilons: int) -> list[slice]:
    """Cut folds to as many at a time as have room for pilots of so many penalties.

    In memory there is room for all; samples left in place have a limit.
    """
    n_folds = len(folds.rows)
    if not is_lazy(task.samples.X):
        return [slice(0, n_folds)]
    samples, room = task.samples, task.samples.X.budget.limit // task.policy.pilot_share
    one = samples.X.dtype.itemsize * prod(samples.shape) * task.Y.shape[1]
    return row_ranges(n_folds, max(1, room // (one * n_epsilons)))


def squares(targets: np.ndarray, values: np.ndarray | float) -> np.ndarray:
    """Return squared errors; what was not measured has none."""
    return np.where(np.isnan(targets), 0.0, (targets - values) ** 2)


# Mean losses that differ by this share are alike, however sure their difference is:
# solvers stop before they are exact, and where samples are few rounding may be this
# large. What is chosen shall not hang on either.
ALIKE = 0.02


def close_to(
    best: int,
    losses: np.ndarray,
    weight: np.ndarray,
    *,
    errors: float = 1.0,
    alike: float = 0.0,
) -> np.ndarray:
    """Say which candidates held-out losses cannot tell from the best, shape (G,).

    Those whose losses (n, G) exceed the best one's, sample by sample, by no more in
    the mean than one standard error of that mean, or `errors` of them. A whole weight
    counts as that many equal samples. Of the best one's mean a share `alike` is added
    to the error.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([[1.0, 3.0, 0.0], [1.0, 3.1, 2.1], [1.0, 3.2, 1.0]])
    >>> close_to(0, losses, np.ones(3)).tolist()
    [True, False, True]
    """
    mean, error = excess_of(best, losses, weight, alike)
    return mean <= errors * error


def excess_of(
    best: int, losses: np.ndarray, weight: np.ndarray, alike: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean excess of losses over the best one's, and its error.

    The standard error, and beside it a share of the best one's mean.
    """
    share = weight / weight.sum()
    excess = losses - losses[:, [best]]
    mean = share @ excess
    count = np.maximum(weight, 1.0).sum()
    # Powers of two as units, since squares of what are squares already may overflow.
    unit = np.ldexp(1.0, np.frexp(np.abs(excess).max(axis=0))[1] - 1)
    error = unit * np.sqrt(share @ ((excess - mean) / unit) ** 2 / count)
    return mean, np.hypot(error, alike * float(share @ losses[:, best]))


@dataclass(frozen=True, eq=False)
class Folds:
    """F subsets to train on, and what is left out of each."""

    training: Array  # (F, n), true where a sample is trained on
    rows: list[np.ndarray]  # held out
    # What the training samples' intercept and covariates alone predict, (n_rows, K),
    # and held-out responses less that.
    baseline: list[np.ndarray]
    targets: list[np.ndarray]  # NaN where a response was not measured
    weights: list[np.ndarray]  # (n_rows,)
    # Of a likelihood, whose baseline is on the link's scale and whose targets are the
    # held-out responses: what fits intercept and covariates, one for each fold.
    family: Family | None = None
    free: list[Free] = field(default_factory=list)
    groups: np.ndarray | None = None  # numbers (n,), if folds keep groups whole

    @staticmethod
    def of(task: Task, splits: Sequence[Split]) -> Folds:
        """Prepare the folds of a task's samples."""
        samples = task.samples
        xp = array_namespace(samples.weight)
        inside = np.zeros((len(splits), samples.weight.shape[0]), dtype=bool)
        for f, (train, _) in enumerate(splits):
            inside[f, train] = True
            if inside[f].sum() < len(train):
                msg = (
                    f"A fold trains on {len(train)} samples, of which "
                    f"{inside[f].sum()} are different ones; expected each once. Give "
                    "sample_weight for more."
                )
                raise ValueError(msg)
        training = as_array(inside, samples.weight, dtype=xp.bool)
        if task.family is not None:
            return Folds._of_likelihood(task, training, splits)
        Y, weight = to_numpy(task.Y), to_numpy(samples.weight)
        # About the first response: the mean of equal ones is then exact.
        first = task.Y[0, :] if task.fit_intercept else 0.0 * task.Y[0, :]
        centring = task.centring(training)
        coef, basis = to_numpy(centring.share @ (task.Y - first)), centring.basis
        rows = [np.asarray(test) for _, test in splits]
        baseline = [
            to_numpy(first) + to_numpy(basis)[test] @ coef[f]
            for f, test in enumerate(rows)
        ]
        if samples.measured is not None:
            Y = np.where(samples.measured, Y, np.nan)
        targets = [Y[test] - part for test, part in zip(rows, baseline, strict=True)]
        baseline = [part + task.y_shift for part in baseline]
        weights = [weight[test] for test in rows]
        return Folds(training, rows, baseline, targets, weights)

    @staticmethod
    def _of_likelihood(task: Task, training: Array, splits: Sequence[Split]) -> Folds:
        """Do so for a likelihood: the baseline is on the link's scale."""
        from sltr.tuning.likelihood import fold_fits

        free, rows = fold_fits(task, splits), [np.asarray(test) for _, test in splits]
        Y, weight = (
            np.asarray(to_numpy(values), float)
            for values in (task.Y, task.samples.weight)
        )
        baseline = [part.held @ part.gamma for part in free]
        known = [Y[test] for test in rows], [weight[test] for test in rows]
        return Folds(training, rows, baseline, *known, task.family, free)

    @property
    def residuals(self) -> list[np.ndarray]:
        """Held-out responses less what the null model expects, (n_rows, K)."""
        if self.family is None:
            return self.targets
        pairs = zip(self.targets, self.baseline, strict=True)
        return [target - self.family.mean(known) for target, known in pairs]

    def losses(self, predictions: Sequence[np.ndarray | float]) -> np.ndarray:
        """Return squared errors of all held-out samples, fold after fold.

        `predictions` are those of each fold, (n_rows, K), less its baseline.
        """
        return np.concatenate(
            [self.fold_losses(f, values) for f, values in enumerate(predictions)]
        )

    def fold_losses(self, f: int, values: np.ndarray | float) -> np.ndarray:
        """Return squared errors (n_rows, …) of one fold; of a likelihood, deviances.

        `values` are predictions less the baseline, (n_rows, K, …).
        """
        target, more = self.targets[f], (1,) * max(0, np.ndim(values) - 2)
        target = target.reshape(*target.shape, *more)
        if self.family is None:
            return squares(target, values).sum(axis=1)
        known = self.baseline[f].reshape(target.shape)
        eta, target = (np.moveaxis(a, 1, -1) for a in (known + values, target))
        return self.family.deviance(target, eta).sum(axis=-1)

    def total(self, losses: np.ndarray) -> float:
        """Return the weighted sum of all held-out samples' losses."""
        return float(np.concatenate(self.weights) @ losses)

    def is_better(
        self, losses: np.ndarray, others: np.ndarray, *, errors: float = 1.0
    ) -> bool:
        """Say whether losses are lower by more than some errors of the mean."""
        pair = np.stack([losses, others], axis=1)
        return not close_to(0, pair, np.concatenate(self.weights), errors=errors)[1]

    def of_fitted(self, fitted: Array) -> list[np.ndarray]:
        """Return each fold's predictions (n_rows, K) from all F · K fitted values.

        Those of all samples may follow.
        """
        values = to_numpy(fitted)
        values = values.reshape(-1, self.targets[0].shape[1], values.shape[-1])
        return [
            self._of_rows(f, values[f][:, self._seen(f)].T, axis=1)
            for f in range(len(self.rows))
        ]

    def predictions(
        self,
        task: Task,
        indices: Sequence[int],
        coefs: Sequence[Array],
        removed: Sequence[Array],
        axis: int = 2,
    ) -> list[np.ndarray]:
        """Return what coefficients predict for the rows of some folds, (n_rows, …).

        For each of these folds there are coefficients (…, P), and what its pilots
        removed from the samples, (b, P). Predictions are less the baseline; responses
        are along an `axis` of them. Samples in a file are read once for all folds.
        """
        xp, basis = array_namespace(removed[0]), task.centring(self.training).basis
        rows = [self._seen(f) for f in indices]
        flat = [xp.reshape(coef, (-1, coef.shape[-1])) for coef in coefs]
        groups = list(zip(rows, flat, strict=True))
        products, found = task.samples.design.inner_groups(groups), []
        for k, f in enumerate(indices):
            explained = removed[k] @ xp.matrix_transpose(flat[k])
            values = to_numpy(products[k] - take_rows(basis, rows[k]) @ explained)
            values = values.reshape(-1, *coefs[k].shape[:-1])
            found.append(self._of_rows(f, values, axis))
        return found

    def _seen(self, f: int) -> np.ndarray:
        """Return the samples to predict for fold f: those that it leaves out.

        A likelihood needs those it trains on before them, for its intercept.
        """
        if self.family is None:
            return self.rows[f]
        return np.concatenate([self.free[f].rows, self.rows[f]])

    def _of_rows(self, f: int, values: np.ndarray, axis: int) -> np.ndarray:
        """Return the predictions of the rows that fold f leaves out.

        `values` are those of all it has `_seen`, responses along an axis. Under a
        likelihood they get the intercept, and the covariates' slopes, that are most
        likely on the training samples.
        """
        if self.family is None:
            return values
        moved = np.moveaxis(values, axis, -1)
        flat = moved.reshape(len(moved), -1, moved.shape[-1]).swapaxes(0, 1)
        found = self.free[f].completed(self.family, flat)  # (G, n_rows, K)
        found = found.swapaxes(0, 1).reshape(-1, *moved.shape[1:])
        return np.moveaxis(found, -1, axis).astype(values.dtype, copy=False)
