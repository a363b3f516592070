"""Remurs and Sturm estimators: what is common to the convex tensor models."""

import numpy as np
import pytest
from problems import corner, draw
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, make_scorer, roc_auc_score
from sklearn.model_selection import (
    KFold,
    StratifiedKFold,
    cross_val_score,
)

from sltr.peers.lasso import TensorLasso
from sltr.peers.remurs import (
    RemursClassifier,
    RemursClassifierCV,
    RemursRegressor,
    RemursRegressorCV,
)
from sltr.peers.sturm import SturmRegressor, SturmRegressorCV

SHAPE = (5, 4, 3)
SINGLE = [RemursRegressor, SturmRegressor]
CV = [RemursRegressorCV, SturmRegressorCV]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return draw(rng, corner(SHAPE, (2, 2)), 50, noise=0.3, offset=4.0)


@pytest.mark.parametrize("Model", SINGLE)
def test_attributes_and_certificate(Model, data):
    X, y = data
    model = Model(alpha_sparse=2.0, alpha_low=5.0).fit(X, y)
    assert model.coef_.shape == SHAPE
    assert isinstance(model.intercept_, float)
    assert 0.0 <= model.dual_gap_ <= 1e-4
    assert model.n_iter_ > 0
    assert model.score(X, y) > 0.9
    expected = np.tensordot(X, model.coef_, 3) + model.intercept_
    np.testing.assert_allclose(model.predict(X), expected)


@pytest.mark.parametrize("Model", SINGLE)
def test_shifting_the_data_moves_only_the_intercept(Model, data):
    X, y = data
    near = Model(2.0, 5.0, tol=1e-8).fit(X, y)
    far = Model(2.0, 5.0, tol=1e-8).fit(X + 7.0, y - 3.0)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-4)
    np.testing.assert_allclose(far.predict(X + 7.0), near.predict(X) - 3.0, atol=1e-3)


@pytest.mark.parametrize("Model", SINGLE)
def test_without_the_low_rank_part_it_is_the_lasso(Model, data):
    X, y = data
    model = Model(alpha_sparse=5.0, alpha_low=0.0, tol=1e-8).fit(X, y)
    lasso = TensorLasso(alpha=5.0 / len(y), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, lasso.coef_, atol=1e-3)


@pytest.mark.parametrize("Model", SINGLE)
def test_a_ridge_too_small_to_divide_by_is_none(Model, data):
    none, tiny = (Model(alpha_ridge=ridge).fit(*data) for ridge in (0.0, 1e-320))
    np.testing.assert_array_equal(tiny.coef_, none.coef_)


@pytest.mark.parametrize("Model", SINGLE)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha_sparse": -1.0}, "alpha_sparse=-1.0"),
        ({"alpha_low": np.nan}, "alpha_low=nan"),
        ({"alpha_low": [5.0, 0.1]}, r"alpha_low=\[5.0, 0.1\]"),
        ({"alpha_sparse": (5.0,)}, r"alpha_sparse=\(5.0,\)"),
        ({"alpha_ridge": "much"}, "alpha_ridge='much'"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"feature_shape": (7, 7)}, "feature_shape"),
    ],
)
def test_bad_parameters_are_named(Model, params, message, data):
    with pytest.raises(ValueError, match=message):
        Model(**params).fit(*data)


@pytest.mark.parametrize("Model", SINGLE)
def test_other_shapes_are_refused_at_prediction(Model, data):
    X, y = data
    with pytest.raises(ValueError, match="fitted on"):
        Model().fit(X, y).predict(X.reshape(50, 5, 3, 4))


@pytest.mark.parametrize("Model", SINGLE)
def test_budget_that_runs_out_warns_with_the_gap(Model, data):
    with pytest.warns(ConvergenceWarning, match=r"gap .*max_iter=3") as caught:
        Model(0.1, 0.1, max_iter=3, tol=1e-9).fit(*data)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("Model", CV)
def test_cross_validation_equals_the_explicit_loop(Model, data):
    X, y = data
    lows, sparses = [20.0, 1.0], [10.0, 1.0, 0.1]
    model = Model(sparses, lows, cv=KFold(3), tol=1e-7).fit(X, y)
    Single = RemursRegressor if Model is RemursRegressorCV else SturmRegressor
    expected = [
        cross_val_score(Single(s, low, tol=1e-7), X, y, cv=KFold(3))
        for low in lows
        for s in sparses
    ]
    results = model.cv_results_
    found = np.stack([results[f"split{k}_test_score"] for k in range(3)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    best = results["params"][int(np.argmax(np.mean(expected, axis=1)))]
    assert best == {"alpha_low": model.alpha_low_, "alpha_sparse": model.alpha_sparse_}
    refit = Single(model.alpha_sparse_, model.alpha_low_, tol=1e-7).fit(X, y)
    np.testing.assert_array_equal(model.coef_, refit.coef_)
    assert model.best_score_ == pytest.approx(results["mean_test_score"].max())


def test_scorings_computed_at_once_and_one_by_one_agree(data):
    X, y = data
    grids = {"alphas_sparse": [5.0, 1.0], "alphas_low": [5.0, 1.0]}
    at_once = RemursRegressorCV(**grids, scoring="r2").fit(X, y)
    one_by_one = RemursRegressorCV(**grids, scoring="explained_variance").fit(X, y)
    difference = one_by_one.best_score_ - at_once.best_score_
    assert 0.0 <= difference < 0.05


def test_folded_rows_are_scored_one_by_one_too(data):
    X, y = data
    params = {
        "alphas_sparse": [5.0],
        "alphas_low": [5.0],
        "scoring": "neg_median_absolute_error",
    }
    tensors = RemursRegressorCV(**params).fit(X, y)
    rows = RemursRegressorCV(**params, feature_shape=SHAPE).fit(X.reshape(50, -1), y)
    assert rows.best_score_ == tensors.best_score_


@pytest.mark.parametrize("Model", CV)
def test_default_grid_scales_with_the_data_and_finds_the_signal(Model, data):
    X, y = data
    model = Model(n_alphas=4, cv=3).fit(X, y)
    scaled = Model(n_alphas=4, cv=3).fit(10.0 * X, 100.0 * y)
    assert len(model.cv_results_["params"]) == 16
    assert model.best_score_ > 0.85
    assert scaled.alpha_low_ == pytest.approx(1000.0 * model.alpha_low_)
    assert scaled.alpha_sparse_ == pytest.approx(1000.0 * model.alpha_sparse_)


def test_folds_and_weights_speak_of_the_same_samples(data):
    X, y = data
    weight = np.where(np.arange(50) % 5 == 0, 0.0, 1.0)
    kept, folds = weight > 0, list(KFold(3).split(X))
    number = np.cumsum(kept) - 1
    expected = RemursRegressorCV(
        [1.0, 5.0],
        [1.0],
        cv=[(number[a[kept[a]]], number[b[kept[b]]]) for a, b in folds],
    ).fit(X[kept], y[kept])
    found = RemursRegressorCV([1.0, 5.0], [1.0], cv=folds).fit(X, y, weight)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("Model", CV)
def test_empty_and_bad_grids_are_named(Model, data):
    with pytest.raises(ValueError, match=r"alphas_low=\[\] .*at least one"):
        Model([1.0], []).fit(*data)
    with pytest.raises(ValueError, match=r"alphas_sparse=1.0 .*write \[1.0\]"):
        Model(1.0, [1.0]).fit(*data)
    with pytest.raises(ValueError, match="n_alphas=1"):
        Model(n_alphas=1).fit(*data)


def test_folds_that_run_out_of_budget_warn(data):
    with pytest.warns(ConvergenceWarning) as caught:
        RemursRegressorCV([0.1], [0.1], cv=2, max_iter=3, tol=1e-9).fit(*data)
    assert "2 of 2 folds" in str(caught[0].message)
    assert [warning.filename for warning in caught] == [__file__] * 2


def test_tube_mode_matters_and_is_checked(data):
    X, y = data
    first, last = (SturmRegressor(tube_mode=m).fit(X, y) for m in (0, 2))
    assert np.abs(first.coef_ - last.coef_).max() > 1e-3
    moved = SturmRegressor(tube_mode=1, tol=1e-8).fit(np.swapaxes(X, 2, 3), y)
    last = SturmRegressor(tube_mode=2, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(np.swapaxes(moved.coef_, 1, 2), last.coef_, atol=1e-4)
    for given in (3, 1.0):
        with pytest.raises(ValueError, match=f"tube_mode={given}"):
            SturmRegressor(tube_mode=given).fit(X, y)
    counted = SturmRegressor(tube_mode=np.int64(0)).fit(X, y)
    np.testing.assert_array_equal(counted.coef_, first.coef_)


def test_binary_classes_are_regressed_as_zero_and_one(data):
    X, y = data
    labels = np.where(y > 4.0, "yes", "no")
    model = RemursClassifier(1.0, 2.0, tol=1e-8).fit(X, labels)
    regressor = RemursRegressor(1.0, 2.0, tol=1e-8).fit(X, labels == "yes")
    np.testing.assert_allclose(model.coef_, regressor.coef_)
    np.testing.assert_allclose(model.decision_function(X), regressor.predict(X) - 0.5)
    assert np.all((model.decision_function(X) > 0) == (model.predict(X) == "yes"))


@pytest.fixture
def three_classes():
    X, y = make_classification(
        90, 24, n_informative=6, n_classes=3, class_sep=3.0, random_state=0
    )
    return X.reshape(90, 4, 3, 2), np.array(["a", "b", "c"])[y]


def test_more_classes_are_regressed_one_against_the_rest(three_classes):
    X, y = three_classes
    model = RemursClassifier(tol=1e-8).fit(X, y)
    assert model.coef_.shape == (3, 4, 3, 2)
    for k, label in enumerate("abc"):
        single = RemursRegressor(tol=1e-8).fit(X, y == label)
        np.testing.assert_allclose(model.coef_[k], single.coef_, atol=1e-4)
    scores = model.decision_function(X)
    assert scores.shape == (90, 3)
    assert np.all(model.predict(X) == model.classes_[scores.argmax(axis=1)])
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy", "f1_macro"])
def test_classifier_is_tuned_for_several_classes(scoring, three_classes):
    X, y = three_classes
    model = RemursClassifierCV(n_alphas=3, cv=3, scoring=scoring).fit(X, y)
    assert model.best_score_ > 0.6
    assert set(model.predict(X)) <= set("abc")


def test_classifier_scores_equal_the_explicit_loop(data):
    X, y = data
    folds = StratifiedKFold(3)
    labels = np.where(y > 4.0, "yes", "no")
    for scoring in ("accuracy", "roc_auc", make_scorer(accuracy_score)):
        model = RemursClassifierCV([1.0], [1.0], cv=folds, scoring=scoring, tol=1e-7)
        expected = cross_val_score(
            RemursClassifier(1.0, 1.0, tol=1e-7), X, labels, cv=folds, scoring=scoring
        )
        assert model.fit(X, labels).best_score_ == pytest.approx(expected.mean())


def test_area_and_accuracy_of_the_winner_equal_the_explicit_loop(data, three_classes):
    folds = StratifiedKFold(3)
    two = data[0], np.where(data[1] > 4.0, "yes", "no")
    for X, y in (two, three_classes):
        model = RemursClassifierCV([1.0], [1.0], cv=folds, tol=1e-7).fit(X, y)
        right, area = [], []
        for train, test in folds.split(X, y):
            plain = RemursClassifier(1.0, 1.0, tol=1e-7).fit(X[train], y[train])
            scores = plain.decision_function(X[test]).reshape(len(test), -1)
            right.append(plain.score(X[test], y[test]))
            classes = plain.classes_[-scores.shape[1] :]
            each = zip(classes, scores.T, strict=True)
            area.append(np.mean([roc_auc_score(y[test] == c, s) for c, s in each]))
        np.testing.assert_allclose(model.held_out_scores_["accuracy"], right)
        np.testing.assert_allclose(model.held_out_scores_["roc_auc"], area)


def test_callable_scoring_sees_labels_and_names_see_numbers(data):
    X, y = data
    labels = np.where(y > 4.0, "yes", "no")
    named = RemursClassifierCV([1.0], [1.0], cv=3, scoring="f1").fit(X, labels)
    scorer = make_scorer(f1_score, pos_label="yes")
    called = RemursClassifierCV([1.0], [1.0], cv=3, scoring=scorer).fit(X, labels)
    assert named.best_score_ == pytest.approx(called.best_score_)


def test_classifier_takes_one_weight_of_each_kind(data):
    X, y = data
    with pytest.raises(ValueError, match=r"alpha_low=\[5.0, 0.1\]"):
        RemursClassifier(alpha_low=[5.0, 0.1]).fit(X, y > 4.0)


@pytest.mark.parametrize("value", [0.0, 2.3])
@pytest.mark.parametrize("Model", [*CV, RemursClassifierCV])
def test_equal_samples_give_a_zero_coefficient_at_once(Model, value, data):
    _, y = data
    y = y > 4.0 if Model is RemursClassifierCV else y
    model = Model(n_alphas=3, cv=3).fit(np.full((50, *SHAPE), value), y)
    assert not model.coef_.any()
    assert model.n_iter_ <= 10


def test_one_class_is_refused(data):
    X, _ = data
    with pytest.raises(ValueError, match="one class only"):
        RemursClassifier().fit(X, np.ones(50, dtype=int))
