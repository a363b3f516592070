import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from sltr.tuning.folds import splits, weighted_splits, whole_groups


def test_folds_are_scikit_learns_shuffled(rng):
    y = rng.normal(size=12)
    for (_, ours), (_, theirs) in zip(
        splits(3, y),
        KFold(3, shuffle=True, random_state=0).split(y[:, None]),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)
    labels = np.array([0, 1] * 6)
    shuffled = StratifiedKFold(3, shuffle=True, random_state=0)
    stratified = shuffled.split(labels[:, None], labels)
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


@pytest.mark.parametrize("rows", [[0, 1, 40], [-1, 0, 1], [0.5, 1.0, 2.0]])
def test_folds_of_rows_that_do_not_exist_are_refused(rows):
    with pytest.raises(ValueError, match="whole numbers from 0 to 9"):
        splits([(np.arange(5), np.array(rows))], np.zeros(10))


@pytest.mark.parametrize("length", [9, 11])
def test_a_mask_of_another_length_is_refused(length):
    inside = np.arange(length) < 5
    with pytest.raises(ValueError, match="each of the 10 samples"):
        splits([(inside, ~inside)], np.zeros(10))


@pytest.mark.parametrize("cv", [None, 3, 5])
@pytest.mark.parametrize("classifier", [False, True])
def test_groups_stay_whole_with_a_number_of_folds(rng, cv, classifier):
    groups = np.repeat(np.arange(8), 5)
    order = rng.permutation(40)
    y = (np.arange(40) % 2).astype(float)
    folds = weighted_splits(cv, y, groups=groups[order], classifier=classifier)
    assert len(folds) == (cv or 5)
    assert whole_groups(folds, groups[order]) is not None


def test_few_groups_make_few_folds_and_one_is_refused():
    groups = np.repeat(["a", "b", "c"], 4)
    assert len(weighted_splits(5, np.zeros(12), groups=groups)) == 3
    with pytest.raises(ValueError, match="number of groups"):
        weighted_splits(5, np.zeros(12), groups=np.zeros(12))


@pytest.mark.parametrize("groups", [3.0, "words", np.zeros(11), np.zeros((1, 12))])
@pytest.mark.parametrize("cv", [None, GroupKFold(2)])
def test_groups_are_one_for_each_sample(groups, cv):
    with pytest.raises(ValueError, match="one value for each of the 12 samples"):
        weighted_splits(cv, np.zeros(12), groups=groups)


def test_a_splitter_that_was_not_made_is_told_from_one():
    with pytest.raises(TypeError, match=r"expected one that was made.*GroupKFold\(\)"):
        splits(GroupKFold, np.zeros(12))


def test_samples_without_a_group_are_refused():
    with pytest.raises(ValueError, match=r"groups=.*None for some sample"):
        weighted_splits(2, np.zeros(4), groups=["a", "b", None, "b"])
