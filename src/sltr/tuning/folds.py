"""TODO."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    StratifiedGroupKFold,
    check_cv,
)

from sltr.arrays import to_numpy

Split = tuple[np.ndarray, np.ndarray]


def splits(
    cv: Any, y: np.ndarray, *, groups: Any = None, classifier: bool = False
) -> list[Split]:
    """Return the folds as pairs (train rows, test rows).

    Parameters
    ----------
    cv : int, scikit-learn splitter or iterable of pairs
    y : array of shape (n,)
    groups : array of shape (n,), optional
    classifier : bool
        Whether an integer `cv` means stratified folds.
    """
    splitter = check_cv(
        _possible(cv, y) if classifier else cv, y, classifier=classifier
    )
    # Splitters look at X only for its length; y stands in for it.
    found = splitter.split(np.zeros((len(y), 1)), y, groups)
    folds = [(_rows(train), _rows(test)) for train, test in found]
    if not folds:
        msg = f"cv={cv!r} was given, which has no folds; expected at least one."
        raise ValueError(msg)
    for train, test in folds:
        if len(train) < 2 or len(test) < 1:
            msg = (
                f"A fold with {len(train)} training and {len(test)} test samples was "
                "given; expected at least 2 and 1. Use fewer folds or more samples."
            )
            raise ValueError(msg)
    return folds


def _rows(given: Any) -> np.ndarray:
    """Return row numbers; masks are others' way to give them."""
    rows = np.asarray(given)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _possible(cv: Any, y: np.ndarray) -> Any:
    """Return a number of folds that stratified ones can have, or `cv` as it is."""
    wanted = 5 if cv is None else cv
    if not isinstance(wanted, Integral):
        return cv
    largest = int(np.unique(y, return_counts=True)[1].max())
    if not 2 <= largest < int(wanted):
        return cv
    warnings.warn(
        f"{wanted} folds were asked for, and no class has more than {largest} samples: "
        f"there are {largest} folds.",
        UserWarning,
        stacklevel=6,  # the caller of SLTR's fit
    )
    return largest


def kept_splits(
    cv: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    classifier: bool = False,
) -> list[Split]:
    """Return folds in terms of the samples of positive weight.

    `cv` (and `groups`) speak of all samples that were given, `check_samples`
    keeps those of positive weight: rows are renumbered accordingly.

    Examples
    --------
    >>> import numpy as np
    >>> [test.tolist() for _, test in kept_splits(2, np.zeros(5), [1, 0, 1, 1, 1])]
    [[0, 1], [2, 3]]
    """
    y = to_numpy(y).reshape(-1)
    folds = splits(cv, y, groups=groups, classifier=classifier)
    kept = to_numpy(1.0 if sample_weight is None else sample_weight) > 0
    if kept.all():
        return folds
    number = np.cumsum(kept) - 1
    renumbered = [(number[a[kept[a]]], number[b[kept[b]]]) for a, b in folds]
    return splits(renumbered, y[kept])


def keeps_whole(folds: Sequence[Split], groups: Any, sample_weight: Any = None) -> bool:
    """Say whether folds of `kept_splits` have each group on one side.

    Examples
    --------
    >>> import numpy as np
    >>> folds = kept_splits(2, np.zeros(4))
    >>> [keeps_whole(folds, groups) for groups in ([0, 0, 1, 1], [0, 1, 1, 2], None)]
    [True, False, False]
    """
    if groups is None:
        return False
    kept = to_numpy(1.0 if sample_weight is None else sample_weight) > 0
    names = np.asarray(groups)[kept] if kept.ndim else np.asarray(groups)
    return not any(np.isin(names[test], names[train]).any() for train, test in folds)


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
