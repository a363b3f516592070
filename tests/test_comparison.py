"""Nested cross-validation of methods on one data set."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sltr import comparison
from sltr.comparison import (
    compare,
    fit_tuned,
    is_classification,
    summary,
    tuned_model,
)
from sltr.peers.elementary import TensorRidge
from sltr.peers.lasso import TensorLassoCV
from sltr.peers.registry import METHODS, Method


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4, 3))
    return X, X[:, 0, 0] + X[:, 1, 1] + 0.1 * rng.normal(size=40)


def entry(name, make_regressor, make_classifier=None):
    fields = dict.fromkeys(Method.__dataclass_fields__)
    fields |= {"name": name, "title": name, "make_regressor": make_regressor}
    return Method(**fields | {"make_classifier": make_classifier})


def register(monkeypatch, *entries):
    table = {item.name: item for item in (METHODS["null"], METHODS["ridge"], *entries)}
    monkeypatch.setattr(comparison, "method", table.__getitem__)


def test_scores_are_those_of_a_plain_loop(data):
    X, y = data
    rows = compare(X, y, methods=(), folds=4, random_state=3)
    splits = KFold(4, shuffle=True, random_state=3).split(X)
    expected = [
        r2_score(y[test], TensorRidge().fit(X[train], y[train]).predict(X[test]))
        for train, test in splits
    ]
    found = [row["metrics"]["r2"] for row in rows if row["method"] == "ridge"]
    assert found == pytest.approx(expected, rel=1e-12)


def test_groups_stay_together_inside_and_outside(data, monkeypatch):
    X, y = data
    groups = np.arange(40) // 4
    seen = []

    class Spy(Ridge):
        def fit(self, X, y, sample_weight=None):
            seen.append(set(X[:, 0].tolist()))
            return super().fit(X, y)

    make = lambda: GridSearchCV(Spy(), {"alpha": [1.0]})  # noqa: E731
    register(monkeypatch, entry("spy", make))
    flat = X.reshape(40, -1).copy()
    flat[:, 0] = groups
    rows = compare(flat, y, ("spy",), folds=2, groups=groups)
    assert {row["error"] for row in rows} == {None}
    # Two outer folds: two refits on five groups each, and five inner fits on four.
    assert sorted(map(len, seen)) == [4] * 10 + [5] * 2


def test_a_method_that_fails_leaves_its_reason_and_stops_nothing(data, monkeypatch):
    class Fails(DummyRegressor):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("no luck")

    register(monkeypatch, entry("fails", Fails))
    found = summary(compare(*data, ("fails",), folds=2))
    assert [line["method"] for line in found] == ["null", "ridge", "fails"]
    assert found[2]["error"] == "ValueError: no luck"
    assert found[2]["n_folds"] == 0
    assert found[1]["r2"] > 0


def test_two_labels_are_regressed_where_there_is_no_classifier(data):
    X, y = data
    found = summary(compare(X, np.where(y > 0, "up", "down"), (), folds=4))
    null, ridge = found
    assert null["auroc"] == 0.5
    assert ridge["auroc"] > 0.8
    assert ridge["accuracy"] > 0.7


def test_more_labels_are_regressed_each_against_the_rest(data):
    X, y = data
    labels = np.digitize(y, [-0.5, 0.5])
    rows = compare(X, labels.astype(str), "elem_ridge", folds=4)
    splits = StratifiedKFold(4, shuffle=True, random_state=0).split(X, labels)
    expected = []
    for train, test in splits:
        each = [TensorRidge().fit(X[train], labels[train] == k) for k in range(3)]
        largest = np.argmax([model.predict(X[test]) for model in each], axis=0)
        expected.append(np.mean(largest == labels[test]))
    found = [row["metrics"]["accuracy"] for row in rows if row["method"] == "ridge"]
    assert found == pytest.approx(expected)
    assert {row["error"] for row in rows} == {None}


@pytest.fixture
def copies():
    """Return samples with three near-copies each, and responses with much noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 5, 4))
    y = 2 * X[:, 0, 0] + 2 * rng.normal(size=25)
    X = np.repeat(X, 4, axis=0) + 0.01 * rng.normal(size=(100, 5, 4))
    return X, np.repeat(y, 4), np.repeat(np.arange(25), 4)


def test_ridge_is_tuned_on_folds_of_groups(copies):
    X, y, groups = copies
    model = fit_tuned(TensorRidge(), X, y, groups=groups)
    grid = {"epsilon": [row["epsilon"] for row in model.cv_results_["params"]]}
    oracle = GridSearchCV(TensorRidge(), grid, cv=GroupKFold(5))
    oracle.fit(X, y, groups=groups)
    assert model.epsilon_ == oracle.best_params_["epsilon"]
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"],
        oracle.cv_results_["mean_test_score"],
        rtol=1e-6,
    )
    assert model.epsilon_ > 100 * TensorRidge().fit(X, y).epsilon_


def test_classes_share_a_penalty_chosen_on_folds_of_groups(copies):
    X, _, groups = copies
    labels = np.digitize(X[:, 0, 0], [-0.5, 0.5])
    model = tuned_model(METHODS["ridge"], kind="multi-class")
    fit_tuned(model, X, labels, groups=groups, labels=True)
    (chosen,) = {one.epsilon_ for one in model.estimators_}
    splits = StratifiedGroupKFold(5).split(X, labels, groups)
    cv, near = list(splits), chosen * 10.0 ** np.array([-2, -1 / 3, 0, 1 / 3, 2])
    each = [
        GridSearchCV(TensorRidge(), {"epsilon": near}, cv=cv).fit(X, labels == k)
        for k in range(3)
    ]
    scores = np.mean([one.cv_results_["mean_test_score"] for one in each], axis=0)
    assert np.argmax(scores) == 2


def test_a_pilot_has_the_penalty_of_ridge(copies):
    X, y, groups = copies
    search = METHODS["elem_ridge"].make_regressor()
    fitted = fit_tuned(search, X, y, groups=groups).best_estimator_
    ridge = fit_tuned(TensorRidge(), X, y, groups=groups)
    assert fitted.epsilon == ridge.epsilon
    assert (
        len(ridge.cv_results_["params"]) == 34
    )  # a ladder of three penalties for each of eleven decades
    assert ridge.best_score_ == max(ridge.cv_results_["mean_test_score"])


def test_groups_reach_the_penalties_of_every_comparison(copies):
    X, y, groups = copies
    found = summary(compare(X, y, "elem_ridge", groups=groups))
    # Near-copies make leave-one-out choose no penalty at all: R² is about -9 then.
    assert all(line["r2"] > -0.5 for line in found)


def test_the_last_group_leaves_ridge_to_itself(data):
    X, y = data
    rows = compare(X, y, (), folds=2, groups=np.arange(40) // 20)
    assert {row["error"] for row in rows} == {None}


def test_unknown_method_is_refused_with_the_nearest(data):
    with pytest.raises(ValueError, match="did you mean 'remurs'"):
        compare(*data, ("remus",))


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([1.0, 2, 3, 4], {"folds": 5}, "folds=5 was given; expected 2 to 4"),
        (["a", "a", "a", "b"], {"folds": 2}, "The rarest label has 1"),
        (["a"] * 4, {"folds": 2}, "All labels are 'a'"),
        ([1.0, 2, 3, 4], {"folds": 3, "groups": [0, 0, 1, 1]}, "number of groups"),
    ],
)
def test_bad_folds_and_labels(y, options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        compare(np.eye(4), y, (), **options)


@pytest.mark.parametrize(
    ("y", "groups", "message"),
    [
        (np.arange(39.0), None, "X has 40 samples and y has 39 values"),
        (np.arange(41.0), None, "X has 40 samples and y has 41 values"),
        (np.arange(40.0), np.arange(9), "X has 40 samples and groups has 9 values"),
    ],
)
def test_unequal_lengths_are_refused(data, y, groups, message):
    with pytest.raises(ValueError, match=message):
        compare(data[0], y, (), groups=groups)


def test_a_single_method_may_be_given_by_itself(data):
    rows = compare(*data, "elem_ridge", folds=2)
    assert {row["method"] for row in rows} == {"null", "ridge", "elem_ridge"}


def test_labels_are_recognised():
    assert is_classification(np.array(["a", "b", "c"]))
    assert is_classification(np.array([True, False]))
    assert is_classification(np.array([0.0, 1.0, 1.0]))
    assert not is_classification(np.arange(5))


def test_progress_counts_every_fit(data):
    calls = []
    compare(*data, (), folds=2, progress=lambda *call: calls.append(call))
    assert [done for done, _, _ in calls] == [0, 1, 2, 3, 4]
    assert {total for _, total, _ in calls} == {4}
    assert calls[1][2] == "Ridge, fold 1"


def test_a_column_of_responses_is_what_it_holds(rng):
    X, y = rng.normal(size=(24, 4, 3)), rng.normal(size=24)
    flat, column = (
        summary(compare(X, given, methods=(), folds=3)) for given in (y, y[:, None])
    )
    for one, other in zip(flat, column, strict=True):
        assert one["mse"] == pytest.approx(other["mse"])


def test_penalties_inside_a_pipeline_are_left_to_it(rng):
    """Its ridge sees other samples than those that would choose."""
    groups = np.repeat(np.arange(12), 3)
    X, coef = rng.normal(size=(36, 8)), rng.normal(size=8)
    y = X @ coef + 0.1 * rng.normal(size=36)
    model = make_pipeline(StandardScaler(), TensorRidge())
    fit_tuned(model, 1e3 * X, y, groups=groups)
    assert model[-1].epsilon == "loo"
    assert model.score(1e3 * X, y) > 0.95


def test_folds_inside_a_search_are_its_own(rng):
    groups = np.repeat(np.arange(12), 3)
    X, coef = rng.normal(size=(36, 4, 2)), rng.normal(size=8)
    y = X.reshape(36, -1) @ coef + 0.1 * rng.normal(size=36)
    inner = TensorLassoCV(n_alphas=3)
    model = GridSearchCV(inner, {"fit_intercept": [True, False]}, error_score="raise")
    fit_tuned(model, X, y, groups=groups)
    assert model.estimator.cv == inner.cv
    for train, test in model.cv.split(X, y, groups):
        assert not np.isin(groups[test], groups[train]).any()
    assert model.best_score_ > 0.8


@pytest.mark.parametrize("intercept", [True, False])
def test_penalties_are_chosen_with_the_models_own_intercept(rng, intercept):
    groups = np.repeat(np.arange(10), 3)
    X = rng.normal(size=(30, 5)) + 2.0
    y = X @ rng.normal(size=5) + rng.normal(size=30) + 20.0
    model = TensorRidge(fit_intercept=intercept)
    fit_tuned(model, X, y, groups=groups)
    splits = list(GroupKFold(5).split(X, y, groups))
    for place in (0, model.best_index_):
        ridge = Ridge(
            model.cv_results_["param_epsilon"][place], fit_intercept=intercept
        )
        scores = [
            r2_score(y[test], ridge.fit(X[train], y[train]).predict(X[test]))
            for train, test in splits
        ]
        found = model.cv_results_["mean_test_score"][place]
        assert found == pytest.approx(np.mean(scores))


def test_rows_print_as_a_table_and_become_a_data_frame(rng):
    X = rng.normal(size=(24, 3, 2))
    rows = compare(X, X[:, 0, 0], methods=(), groups=np.arange(24) // 8)
    assert max(row["fold"] for row in rows) == 2  # as many folds as groups
    lines = str(rows).splitlines()
    assert lines[0].split() == ["method", "title", "fold", "fit_seconds", "r2", "mse"]
    assert len(lines) == 1 + len(rows) == 7
    assert "<th>r2</th>" in summary(rows)._repr_html_()
    assert isinstance(rows, list)
    pytest.importorskip("pandas")
    frame = summary(rows).to_pandas()
    assert frame.loc[1, "r2"] == summary(rows)[1]["r2"]
    failed = [*rows, rows[0] | {"error": "<b>", "metrics": {}}]
    assert "&lt;b&gt;" in type(rows)(failed)._repr_html_()


def test_every_method_knows_the_covariates(rng):
    """The null model is least squares on them; ridge is the joint fit."""
    X = rng.normal(size=(90, 4, 3))
    age, site = rng.normal(size=90), rng.choice(["a", "b"], size=90)
    table = list(zip(age, site, strict=True))
    y = X[:, 0, 0] + 4.0 * age + 2.0 * (site == "b") + 0.1 * rng.normal(size=90)
    without = {r["method"]: r for r in summary(compare(X, y, folds=3))}
    with pytest.raises(ValueError, match="covariates has 9 values"):
        compare(X, y, covariates=table[:9])
    rows = compare(X, y, ("sltr", "cp"), folds=3, covariates=table)
    assert not any(row["error"] for row in rows)
    found = {row["method"]: row for row in summary(rows)}
    assert without["sltr"]["r2"] < 0.5
    assert 0.85 < found["null"]["r2"] < 0.97
    for name in ("ridge", "sltr", "cp"):
        assert found[name]["r2"] > 0.99
    labels = np.where(y > 0, "up", "down")
    by_label = compare(X, labels, "sltr", folds=3, covariates=table)
    assert not any(row["error"] for row in by_label)
    assert {r["method"]: r for r in summary(by_label)}["null"]["auroc"] > 0.9
    with pytest.raises(ValueError, match="more than two classes"):
        compare(X, np.arange(90) % 3, classification=True, covariates=table)


def test_test_rows_change_no_slope_of_a_comparison(rng):
    """The null model beside covariates is least squares on the training rows."""
    X, Z = rng.normal(size=(40, 3, 2)), rng.normal(size=(40, 2))
    y = Z @ [1.0, -2.0] + rng.normal(size=40)
    rows = compare(X, y, (), folds=4, covariates=Z)
    folds = KFold(4, shuffle=True, random_state=0).split(X)
    scores = [row["metrics"]["mse"] for row in rows if row["method"] == "null"]
    for (train, test), score in zip(folds, scores, strict=True):
        basis = np.column_stack([np.ones(40), Z])
        slopes = np.linalg.lstsq(basis[train], y[train], rcond=None)[0]
        assert score == pytest.approx(np.mean((y[test] - basis[test] @ slopes) ** 2))


def test_responses_that_are_tensors_are_compared(rng):
    X = rng.normal(size=(60, 4, 3))
    factors = [rng.uniform(0.5, 2.0, size) for size in (4, 3, 2, 2)]
    Y = np.einsum("nij,i,j,k,l->nkl", X, *factors)
    Y = Y + 0.1 * rng.normal(size=Y.shape)
    names = ["reduced_rank", "tensor_on_tensor", "elem_ridge"]
    rows = compare(X, Y, names, folds=2, groups=np.repeat(np.arange(12), 5))
    assert not any(row["error"] for row in rows)
    found = {row["method"]: row["r2"] for row in summary(rows)}
    assert found["null"] < 0.05
    assert all(found[name] > 0.8 for name in ("ridge", *names))
    # A method of single numbers is tuned for each of them.
    for row in [row for row in rows if row["method"] == "elem_ridge"][:1]:
        splits = GroupKFold(2, shuffle=True, random_state=0)
        groups = np.repeat(np.arange(12), 5)
        train, test = next(iter(splits.split(X, groups=groups)))
        scores = []
        for i, j in np.ndindex(2, 2):
            model = tuned_model(METHODS["elem_ridge"], kind="regression")
            fit_tuned(model, X[train], Y[train, i, j], groups=groups[train])
            scores.append(r2_score(Y[test, i, j], model.predict(X[test])))
        assert row["metrics"]["r2"] == pytest.approx(np.mean(scores))


def test_covariates_beside_responses_that_are_tensors(rng):
    X, Z = rng.normal(size=(60, 4)), rng.normal(size=(60, 1))
    Y = X[:, :1] * [1.0, 2.0] + 5.0 * Z + 0.1 * rng.normal(size=(60, 2))
    found = summary(compare(X, Y, "reduced_rank", folds=3, covariates=Z))
    assert all(row["error"] is None for row in found)
    scores = {row["method"]: row["r2"] for row in found}
    assert scores["ridge"] > 0.98
    assert scores["reduced_rank"] > 0.98
    assert scores["null"] > 0.5


def test_labels_that_are_tensors_are_refused(rng):
    with pytest.raises(ValueError, match="expected one for each sample"):
        compare(rng.normal(size=(9, 3)), np.zeros((9, 2)), classification=True)


def test_a_likelihood_is_given_to_the_methods_that_have_one(rng):
    X = rng.normal(size=(90, 3, 2))
    counts = rng.poisson(np.exp(0.5 + 1.2 * X[:, 0, 0])).astype(float)
    plain, likely = (
        {line["method"]: line for line in summary(compare(X, counts, **options))}
        for options in (
            {"methods": ["sltr"], "folds": 2},
            {"methods": ["sltr"], "folds": 2, "family": "poisson"},
        )
    )
    assert likely["ridge"]["r2"] == plain["ridge"]["r2"]
    assert likely["sltr"]["mse"] < plain["sltr"]["mse"]
    assert likely["sltr"]["d2"] > likely["ridge"]["d2"]
    assert "d2" not in plain["sltr"]


def test_explained_deviance_of_labels_is_that_of_probabilities(rng):
    X = rng.normal(size=(90, 3, 2))
    y = np.argmax(2 * X[:, :, 0] + rng.gumbel(size=(90, 3)), axis=1)
    options = {"folds": 2, "classification": True, "random_state": 1}
    rows = compare(X, y, ["sltr"], family="multinomial", **options)
    splits = StratifiedKFold(2, shuffle=True, random_state=1).split(X, y)
    train, test = next(iter(splits))
    model = tuned_model(METHODS["sltr"], kind="multi-class", family="multinomial")
    shares = model.fit(X[train], y[train]).predict_proba(X[test])
    wrong = -np.log(shares[np.arange(len(test)), y[test]]).mean()
    prior = np.bincount(y[test]) / len(test)
    expected = 1.0 - wrong / -(prior * np.log(prior)).sum()
    found = {row["method"]: row["metrics"] for row in rows if row["fold"] == 0}
    assert found["sltr"]["d2"] == pytest.approx(expected)
    assert "d2" in found["null"]
    assert "d2" not in found["ridge"]  # a regression of labels


@pytest.mark.parametrize(
    ("y", "family", "message"),
    [
        (np.arange(6) % 2, "poisson", "expected None, or 'binomial'"),
        (np.arange(6.0), "gamma", "expected None, or 'poisson'"),
        (np.arange(6.0) - 2, "poisson", "a response of -2.0; expected one count"),
        (np.ones((6, 2)), "poisson", r"of shape \(6, 2\); expected one count"),
    ],
)
def test_families_of_other_responses_are_refused(y, family, message):
    with pytest.raises(ValueError, match=message):
        compare(np.ones((6, 2)), y, family=family)
