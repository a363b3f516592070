"""What all estimators that tune themselves have in common."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, LeaveOneOut

import sltr

MODELS = [
    sltr.CPRegressorCV(ranks=(1, 2), alphas_ridge=(1e-2,)),
    sltr.RemursRegressorCV(n_alphas=2),
    sltr.SLTRRegressorCV("loo", (0.0, 0.5), (0.5,), refine=(None, "scale")),
    sltr.SturmRegressorCV(n_alphas=2),
    sltr.SURFRegressorCV(2, epsilons=(0.05,), alphas=(0.0,), stops=(0.0,)),
    sltr.TPGDRegressorCV((1,), sparsities=(0.5, 1.0)),
    sltr.TuckerRegressorCV((1, 2), alphas_ridge=(1e-2,)),
]
LINEAR = [sltr.TensorLassoCV(n_alphas=3), sltr.TensorElasticNetCV(n_alphas=3)]


def names(model):
    return type(model).__name__


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((36, 4, 3))
    return X, 2.0 * X[:, 0, 0] - X[:, 1, 0] + 0.3 * rng.standard_normal(36)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_scorers_see_weights_only_if_some_were_given(model, data):
    X, y = data
    model = clone(model)

    def plain(estimator, X, y):
        return r2_score(y, estimator.predict(X))

    def weighted(estimator, X, y, sample_weight):
        return r2_score(y, estimator.predict(X), sample_weight=sample_weight)

    found = model.set_params(scoring=plain, cv=3).fit(X, y).cv_results_
    by_name = model.set_params(scoring="r2").fit(X, y).cv_results_
    np.testing.assert_allclose(found["mean_test_score"], by_name["mean_test_score"])
    weight = np.linspace(0.5, 2.0, len(y))
    model.set_params(scoring=weighted).fit(X, y, sample_weight=weight)
    by_name = model.cv_results_["mean_test_score"]
    model.set_params(scoring="r2").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], by_name)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_any_score_is_computed_where_the_samples_are(model, data):
    torch = pytest.importorskip("torch")
    X, y = data
    model = clone(model).set_params(scoring="explained_variance", cv=3)
    expected = model.fit(X, y).cv_results_["mean_test_score"]
    model.fit(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"], expected, rtol=5e-3, atol=1e-12
    )


@pytest.mark.parametrize("Model", [sltr.CPRegressorCV, sltr.TuckerRegressorCV])
def test_scorers_need_not_know_of_covariates(Model, data):
    X, y = data
    age = np.linspace(0.0, 5.0, len(y))

    def plain(estimator, X, y):
        return r2_score(y, estimator.predict(X))

    scores = [
        Model((1,), cv=3, scoring=scoring).fit(X, y + age, covariates=age).best_score_
        for scoring in ("r2", plain)
    ]
    assert scores[0] == pytest.approx(scores[1])
    assert scores[0] > 0.9


@pytest.mark.parametrize("model", MODELS + LINEAR, ids=names)
def test_groups_reach_the_splitter(model, data):
    X, y = data
    model = clone(model)
    groups = np.repeat([0, 1, 2, 3], 9)
    model.set_params(cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    expected = [
        (np.flatnonzero(groups != g), np.flatnonzero(groups == g)) for g in range(4)
    ]
    scores = [model.cv_results_[f"split{g}_test_score"] for g in range(4)]
    model.set_params(cv=expected).fit(X, y)
    for g in range(4):
        np.testing.assert_allclose(model.cv_results_[f"split{g}_test_score"], scores[g])
    with pytest.raises(ValueError, match="groups"):
        model.set_params(cv=GroupKFold(2)).fit(X, y)


@pytest.mark.parametrize("model", MODELS + LINEAR, ids=names)
def test_folds_do_not_depend_on_the_number_of_jobs(model, data):
    one, two = clone(model).set_params(cv=3), clone(model).set_params(cv=3, n_jobs=2)
    one.fit(*data)
    with parallel_config("threading"):
        two.fit(*data)
    scores = (fitted.cv_results_["mean_test_score"] for fitted in (one, two))
    np.testing.assert_array_equal(*scores)
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("model", MODELS + LINEAR, ids=names)
def test_the_table_has_one_row_for_each_candidate(model, data):
    X, y = data
    model = clone(model)
    model.set_params(cv=3).fit(X, y)
    table = model.cv_results_
    means = np.mean([table[f"split{f}_test_score"] for f in range(3)], axis=0)
    np.testing.assert_allclose(table["mean_test_score"], means)
    assert model.best_score_ == pytest.approx(means.max())
    best = table["params"][int(means.argmax())]
    chosen = {name: getattr(model, f"{name}_") for name in best}
    assert chosen == best


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_folds_of_one_sample_are_scored_by_squared_error(model, data):
    X, y = data
    X, y = X[:12], y[:12]
    model = clone(model).set_params(cv=LeaveOneOut()).fit(X, y)
    scores = model.cv_results_["mean_test_score"]
    assert np.ptp(scores) > 0  # R² of a single sample is zero for all
    again = clone(model).set_params(scoring="neg_mean_squared_error").fit(X, y)
    np.testing.assert_allclose(scores, again.cv_results_["mean_test_score"])


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_scores_of_labels_need_labels(model, data):
    X, y = data
    for scoring in ("accuracy", "roc_auc"):
        model = clone(model).set_params(scoring=scoring)
        with pytest.raises(ValueError, match="0 and 1"):
            model.fit(X, y)


@pytest.mark.parametrize(
    "model", [m for m in MODELS if "rule" in m.get_params()], ids=names
)
def test_an_unknown_rule_is_refused_before_any_work(model, data):
    X, y = data

    def score(estimator, X, y):
        pytest.fail("scored before the rule was looked at")

    model = clone(model).set_params(rule="median", scoring=score)
    with pytest.raises(ValueError, match="rule='median' was given; expected one of"):
        model.fit(X, y)


@pytest.mark.parametrize("model", [*MODELS, *LINEAR], ids=names)
def test_a_fit_that_fails_changes_nothing(model, data):
    X, y = data
    model = clone(model).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"cv=|fold|splits"):
        model.set_params(cv=99).fit(X[:, :3], y)
    np.testing.assert_array_equal(model.predict(X), before)


SINGLE = [
    sltr.CPRegressor(2),
    sltr.HRTRRRegressor(2),
    sltr.ORTRRRegressor(2),
    sltr.RemursRegressor(0.0, 0.0),
    sltr.SturmRegressor(0.0, 0.0),
    sltr.SURFRegressor(1),
    sltr.TPGDRegressor(1),
    sltr.TuckerRegressor(2),
]
# The first squares overflow, the second vanish.
EXTREMES = [(np.float32, 1e19), (np.float32, 1e-20), (float, 1e160), (float, 1e-160)]


# The largest and smallest sizes, about, that have squares.
LARGE = [(np.float32, 1e15), (np.float32, 1e-18), (float, 1e150), (float, 1e-150)]


@pytest.mark.parametrize(("dtype", "unit"), EXTREMES)
@pytest.mark.parametrize("model", [*SINGLE, *MODELS], ids=names)
def test_units_whose_squares_are_no_numbers_are_refused(data, model, dtype, unit):
    X, y = (part.astype(dtype) for part in data)
    with pytest.raises(ValueError, match=r"Samples of about .*Divide X"):
        clone(model).fit((unit * X).astype(dtype), y)
    with pytest.raises(ValueError, match=r"Responses of about .*Divide y"):
        clone(model).fit(X, (unit * y).astype(dtype))


@pytest.mark.parametrize(("dtype", "unit"), LARGE)
@pytest.mark.parametrize("model", SINGLE, ids=names)
def test_other_units_do_not_matter(data, model, dtype, unit):
    X, y = (part.astype(dtype) for part in data)
    expected = clone(model).fit(X, y).predict(X)
    atol = 1e-3 * np.abs(expected).max()
    large = (unit * X).astype(dtype)
    found = clone(model).fit(large, y).predict(large)
    np.testing.assert_allclose(found, expected, atol=atol)
    found = clone(model).fit(large, (unit * y).astype(dtype)).predict(large) / unit
    np.testing.assert_allclose(found, expected, atol=atol)


@pytest.mark.parametrize("unit", [1e-13, 1e10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Model", [sltr.TensorLassoCV, sltr.TPGDRegressorCV])
def test_units_do_not_matter(data, Model, dtype, unit):
    X, y = (part.astype(dtype) for part in data)
    expected = Model().fit(X, y).predict(X)
    assert np.ptp(expected) > 1.0
    X = (unit * X).astype(dtype)
    found = Model().fit(X, y).predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())
