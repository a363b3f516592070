import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from sltr.tuning.folds import splits, weighted_splits


def test_folds_are_scikit_learns(rng):
    y = rng.normal(size=12)
    for (_, ours), (_, theirs) in zip(
        splits(3, y), KFold(3).split(y[:, None]), strict=True
    ):
        assert np.array_equal(ours, theirs)
    labels = np.array([0, 1] * 6)
    stratified = StratifiedKFold(3).split(labels[:, None], labels)
    for (_, ours), (_, theirs) in zip(
        splits(3, labels, classifier=True), stratified, strict=True
    ):
        assert np.array_equal(ours, theirs)
    groups = np.repeat([0, 1, 2], 4)
    for train, test in splits(GroupKFold(3), y, groups=groups):
        assert not set(groups[train]) & set(groups[test])


def test_folds_too_small_are_refused():
    with pytest.raises(ValueError, match="fewer folds"):
        splits([(np.array([0]), np.array([1]))], np.arange(3.0))


def test_folds_may_be_lists_or_masks():
    y, number = np.zeros(6), np.repeat(np.arange(3), 2)
    as_rows = [
        (np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(3)
    ]
    for given in (
        [(train.tolist(), test.tolist()) for train, test in as_rows],
        [(number != k, number == k) for k in range(3)],
    ):
        weight = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
        for found, expected in (
            (splits(given, y), as_rows),
            (weighted_splits(given, y, weight), weighted_splits(as_rows, y, weight)),
        ):
            for one, other in zip(found, expected, strict=True):
                for rows, others in zip(one, other, strict=True):
                    assert rows.tolist() == others.tolist()
    with pytest.raises(ValueError, match="no folds"):
        splits([], y)
