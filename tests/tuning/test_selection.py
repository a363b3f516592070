import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from sltr.tuning.choose import best_index, cv_table
from sltr.tuning.folds import splits, weighted_splits
from sltr.tuning.scores import FixedRegressor, fold_scores

LABELLED = {"accuracy", "roc_auc"}
ORACLES = {
    "r2": r2_score,
    "neg_mean_squared_error": lambda y, p, **w: -mean_squared_error(y, p, **w),
    "neg_root_mean_squared_error": lambda y, p, **w: (
        -np.sqrt(mean_squared_error(y, p, **w))
    ),
    "neg_mean_absolute_error": lambda y, p, **w: -mean_absolute_error(y, p, **w),
    "accuracy": lambda y, p, **w: accuracy_score(y, p > 0.5, **w),
    "roc_auc": roc_auc_score,
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_at_once_are_scikit_learns(rng, name, weighted):
    y = (
        (rng.random(40) < 0.4).astype(float)
        if name in LABELLED
        else rng.normal(size=40)
    )
    predictions = np.round(y[:, None] + rng.normal(size=(40, 5)), 1)  # with ties
    weight = rng.uniform(0.1, 2.0, size=40) if weighted else None
    found = fold_scores(name, y, predictions, weight=weight)
    extra = {"sample_weight": weight} if weighted else {}
    expected = [ORACLES[name](y, column, **extra) for column in predictions.T]
    np.testing.assert_allclose(found, expected)


def test_no_name_means_the_default(rng):
    y, predictions = rng.normal(size=20), rng.normal(size=(20, 3))
    for default in ("r2", "neg_mean_squared_error"):
        expected = fold_scores(default, y, predictions)
        assert np.array_equal(
            fold_scores(None, y, predictions, default=default), expected
        )


def test_a_constant_response_scores_as_in_scikit_learn():
    y = np.ones(4)
    predictions = np.column_stack([np.ones(4), np.zeros(4)])
    expected = [r2_score(y, column) for column in predictions.T]
    assert fold_scores("r2", y, predictions).tolist() == expected


def test_area_of_one_class_is_undefined():
    assert np.isnan(fold_scores("roc_auc", np.ones(4), np.zeros((4, 2)))).all()


def test_other_scores_go_through_fitted_models(rng):
    X, y = rng.normal(size=(10, 2)), rng.normal(size=10)
    models = [DummyRegressor(strategy="constant", constant=c).fit(X, y) for c in (0, 5)]
    predictions = np.column_stack([m.predict(X) for m in models])
    name = "neg_median_absolute_error"
    found = fold_scores(name, y, predictions, model=models.__getitem__, X=X)
    expected = [-np.median(np.abs(y - column)) for column in predictions.T]
    np.testing.assert_allclose(found, expected)
    with pytest.raises(ValueError, match="expected one of"):
        fold_scores(name, y, predictions)


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


def test_the_best_has_the_highest_mean_and_ties_go_to_the_first():
    assert best_index(np.array([[1.0, 3.0, 3.0], [2.0, 3.0, 3.0]])) == 1


def test_candidates_without_a_score_never_win():
    assert best_index(np.array([[np.nan, 1.0, 2.0], [9.0, 1.0, 2.0]])) == 2
    with pytest.raises(ValueError, match="finite score"):
        best_index(np.array([[np.nan], [1.0]]))


def test_one_standard_error_prefers_the_simplest_close_candidate():
    scores = np.array([[1.0, 0.9, 0.2], [0.6, 0.5, 0.1]])  # standard error 0.2
    assert best_index(scores, rule="1se", complexity=np.array([3, 2, 1])) == 1
    assert best_index(scores, rule="1se", complexity=np.array([1, 1, 0])) == 0
    with pytest.raises(ValueError, match="rule"):
        best_index(scores, rule="median")


def test_the_table_has_scikit_learns_keys():
    scores = np.array([[0.1, 0.5, 0.5], [0.3, 0.5, np.nan]])
    table = cv_table({"a": [1, 2, 3], "b": ["x", "y", "z"]}, scores)
    assert table["params"][1] == {"a": 2, "b": "y"}
    assert table["param_a"].tolist() == [1, 2, 3]
    assert table["split1_test_score"][0] == 0.3
    np.testing.assert_allclose(table["mean_test_score"], [0.2, 0.5, np.nan])
    np.testing.assert_allclose(table["std_test_score"][0], 0.1)
    assert table["rank_test_score"].tolist() == [2, 1, 3]


@pytest.mark.parametrize("n", range(2, 20))
@pytest.mark.parametrize("value", [1.0, 0.1, 1e9 / 7])
def test_equal_responses_are_no_reason_for_huge_scores(n, value):
    y = np.full(n, value)
    predictions = np.stack([y, y + 0.5], axis=1)
    assert fold_scores("r2", y, predictions).tolist() == [1.0, 0.0]
    weight = np.linspace(0.5, 2.0, n)
    assert fold_scores("r2", y, predictions, weight=weight).tolist() == [1.0, 0.0]


def test_a_score_that_takes_no_weights_is_given_none(rng):
    y, predictions = rng.normal(size=6), rng.normal(size=(6, 2))
    X = np.arange(6.0)[:, None]
    models = [FixedRegressor(column) for column in predictions.T]
    expected = -np.abs(predictions - y[:, None]).max(axis=0)

    def worst(model, X, y):
        return -np.abs(model.predict(X) - y).max()

    for scoring in ("neg_max_error", worst):
        found = fold_scores(
            scoring, y, predictions, weight=np.ones(6), model=models.__getitem__, X=X
        )
        np.testing.assert_allclose(found, expected)


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


def test_a_candidate_that_is_not_finite_scores_nothing_with_weights_too():
    y, weight = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0])
    predictions = np.array([[0.1, np.nan], [0.2, 1.0], [0.3, 1.0]])
    found = fold_scores("roc_auc", y, predictions, weight=weight)
    assert found[0] == 1.0
    assert np.isnan(found[1])
