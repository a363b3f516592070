import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from sltr import CPRegressorCV, RemursRegressorCV, SLTRRegressorCV, SURFRegressorCV
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


def test_a_candidate_that_is_not_finite_scores_nothing_with_weights_too():
    y, weight = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0])
    predictions = np.array([[0.1, np.nan], [0.2, 1.0], [0.3, 1.0]])
    found = fold_scores("roc_auc", y, predictions, weight=weight)
    assert found[0] == 1.0
    assert np.isnan(found[1])


@pytest.mark.parametrize("scoring", ["neg_log_loss", "average_precision"])
@pytest.mark.parametrize(
    "model",
    [
        SLTRRegressorCV((1.0,), (0.2,), (0.2,), refine=(None,), cv=2),
        RemursRegressorCV(n_alphas=2, cv=2),
        CPRegressorCV(cv=2, ranks=(1,), alphas_ridge=(0.1,)),
        SURFRegressorCV(1, epsilons=(0.1,), stops=(0.0,), cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_scorer_that_needs_what_the_model_has_not_is_refused(rng, model, scoring):
    X = rng.normal(size=(20, 3, 2))
    with pytest.raises(ValueError, match=r"cannot score this regressor.*predict_proba"):
        clone(model).set_params(scoring=scoring).fit(X, X[:, 0, 0])


@pytest.mark.parametrize("value", ["a", None, {"r2": 1.0}, np.zeros(2)])
def test_a_score_that_is_no_number_is_refused(rng, value):
    X = rng.normal(size=(20, 3, 2))
    model = SLTRRegressorCV((1.0,), scoring=lambda model, X, y: value, cv=2)
    with pytest.raises(ValueError, match=r"returned .*; expected one number"):
        model.fit(X, X[:, 0, 0])
