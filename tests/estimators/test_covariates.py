"""Covariates beside samples: unpenalised, projected out on each training subset."""

import numpy as np
import pytest
import sklearn
from problems import draw
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_score

from sltr import (
    CPRegressor,
    SLTRClassifier,
    SLTRClassifierCV,
    SLTRRegressor,
    SLTRRegressorCV,
    load,
    save,
)
from sltr.ridge import ridge_system
from sltr.samples.check import check_samples
from sltr.samples.covariates import learn_encoding, with_covariates
from sltr.tuning.candidates import make_grid
from sltr.tuning.folds import Folds
from sltr.tuning.search import search

SHAPE = (5, 4)


@pytest.fixture
def data(rng):
    """Samples that vary with age, and responses that vary with age and site."""
    coef = np.zeros(SHAPE)
    coef[:2, :2] = 1.0
    X, y = draw(rng, coef, 60)
    age = rng.normal(50.0, 10.0, size=60)
    site = rng.choice(["a", "b", "c"], 60)
    X = X + 0.1 * (age - 50.0)[:, None, None]
    Z = np.column_stack([age.astype(object), site.astype(object)])
    return X, y + 0.5 * age + 5.0 * (site == "c"), Z


def numbers(Z):
    return learn_encoding(Z, len(Z)).encode(Z, len(Z))


def joint_ridge(X, y, Z, epsilon, weight=None, fit_intercept=True):
    """Solve for the coefficient and for unpenalised covariates at once."""
    weight = np.ones(len(y)) if weight is None else weight
    ones = np.ones((len(y), int(fit_intercept)))
    A = np.column_stack([X.reshape(len(X), -1), ones, Z])
    P = A.shape[1] - Z.shape[1] - ones.shape[1]
    penalty = np.diag([epsilon] * P + [0.0] * (A.shape[1] - P))
    found = np.linalg.solve(A.T @ (weight[:, None] * A) + penalty, A.T @ (weight * y))
    return found[:P], found[P:]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_pilot_is_ridge_with_free_columns(data, xp, fit_intercept, rng):
    X, y, Z = data
    weight = rng.uniform(0.5, 2.0, size=60)
    model = SLTRRegressor(2.0, 0.0, 0.0, fit_intercept=fit_intercept)
    model.fit(xp.array(X), xp.array(y), xp.array(weight), covariates=Z)
    coef, rest = joint_ridge(X, y, numbers(Z), 2.0, weight, fit_intercept)
    np.testing.assert_allclose(xp.numpy(model.coef_).ravel(), coef, atol=1e-6)
    found = xp.numpy(model.covariate_coef_)
    np.testing.assert_allclose(found, rest[int(fit_intercept) :], atol=1e-6)
    assert model.covariate_names_ == ["0", "1=b", "1=c"]
    if fit_intercept:
        assert model.intercept_ == pytest.approx(rest[0], abs=1e-6)
    predicted = xp.numpy(model.predict(xp.array(X), covariates=Z))
    design = np.column_stack(
        [np.ones(60)[:, None][:, : int(fit_intercept)], numbers(Z)]
    )
    expected = X.reshape(60, -1) @ coef + design @ rest
    np.testing.assert_allclose(predicted, expected, atol=1e-5)


@pytest.mark.parametrize("method", ["dual", "primal", "cg"])
@pytest.mark.parametrize("loo", [False, True])
def test_every_system_projects_covariates_out_of_every_subset(data, rng, method, loo):
    X, y, Z = data
    flat, Z = X.reshape(60, -1), numbers(Z)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    weight = rng.uniform(0.5, 2.0, size=60)
    subsets = np.stack([np.ones(60, bool), rng.random(60) < 0.7, np.arange(60) > 3])
    system = ridge_system(
        flat,
        y[:, None],
        weight,
        fit_intercept=True,
        covariates=Z,
        method=method,
        loo=loo and method == "dual",
    )
    coefs, removed = system.coefs_and_means(subsets, np.array([0.5, 3.0]))
    for s, rows in enumerate(subsets):
        basis = np.column_stack([np.ones(rows.sum()), Z[rows]])
        root = np.sqrt(weight[rows])[:, None]
        regression = np.linalg.lstsq(root * basis, root * flat[rows], rcond=None)[0]
        np.testing.assert_allclose(removed[s], regression, atol=1e-6)
        for e, epsilon in enumerate((0.5, 3.0)):
            given = flat[rows], y[rows], Z[rows], epsilon, weight[rows]
            np.testing.assert_allclose(
                coefs[s, e, 0], joint_ridge(*given)[0], atol=1e-5
            )


@pytest.mark.parametrize("method", ["dual", "primal"])
def test_leave_one_out_leaves_covariates_out_too(data, method):
    X, y, Z = data
    flat, Z = X.reshape(60, -1), numbers(Z)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    system = ridge_system(
        flat, y[:, None], np.ones(60), fit_intercept=True, covariates=Z, method=method
    )
    losses = system.loo_losses(np.array([2.0]))[0]
    for i in (0, 17, 41):
        rest = np.arange(60) != i
        coef, free = joint_ridge(flat[rest], y[rest], Z[rest], 2.0)
        error = y[i] - flat[i] @ coef - free @ [1.0, *Z[i]]
        assert losses[i] == pytest.approx(error**2, rel=1e-5)


def test_no_tensor_is_least_squares(data):
    X, y, Z = data
    model = SLTRRegressor(1e12, 0.0, 0.0).fit(X, y, covariates=Z)
    expected = LinearRegression().fit(numbers(Z), y)
    np.testing.assert_allclose(model.covariate_coef_, expected.coef_, rtol=1e-4)
    assert model.intercept_ == pytest.approx(expected.intercept_, rel=1e-3)


def test_statsmodels_agrees_where_the_penalty_is_nothing_or_all(data, rng):
    api = pytest.importorskip("statsmodels.api")
    X, y, Z = data
    weight = rng.uniform(0.5, 2.0, size=60)
    beside = api.add_constant(numbers(Z))
    model = SLTRRegressor(1e12, 0.0, 0.0).fit(X, y, weight, covariates=Z)
    expected = api.WLS(y, beside, weight).fit().params
    found = [model.intercept_, *model.covariate_coef_]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    model = SLTRRegressor(1e-9, 0.0, 0.0).fit(X, y, weight, covariates=Z)
    design = np.column_stack([beside, X.reshape(60, -1)])
    expected = api.WLS(y, design, weight).fit().params
    found = [model.intercept_, *model.covariate_coef_, *model.coef_.ravel()]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("radii", [(0.0, 0.0), (0.2, 0.3)])
def test_a_fit_beside_covariates_is_that_to_partial_residuals(data, radii):
    api = pytest.importorskip("statsmodels.api")
    X, y, Z = data
    beside = api.add_constant(numbers(Z))
    flat = X.reshape(60, -1)
    rest = np.stack([api.OLS(column, beside).fit().resid for column in flat.T], axis=1)
    model = SLTRRegressor(2.0, *radii).fit(X, y, covariates=Z)
    target = api.OLS(y, beside).fit().resid
    expected = SLTRRegressor(2.0, *radii).fit(rest.reshape(X.shape), target)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


@pytest.mark.parametrize("refine", ["reweight", "tucker", "cp", "sparse", "scale"])
def test_refits_know_covariates(data, refine):
    X, y, Z = data
    model = SLTRRegressorCV(refine=(refine,), rule="best").fit(X, y, covariates=Z)
    assert model.best_score_ > 0.95
    assert model.null_score_ < model.best_score_
    np.testing.assert_allclose(model.covariate_coef_[[0, 2]], [0.5, 5.0], atol=0.4)
    # Units and origin of a covariate change nothing else.
    moved = Z.copy()
    moved[:, 0] = 1000.0 * moved[:, 0] + 5e4
    again = SLTRRegressorCV(refine=(refine,), rule="best").fit(X, y, covariates=moved)
    np.testing.assert_allclose(
        again.predict(X, covariates=moved), model.predict(X, covariates=Z), atol=1e-3
    )


def test_held_out_rows_change_nothing_that_is_fitted_on_a_fold(data, rng):
    X, y, Z = data
    folds = list(KFold(3).split(X))

    def predictions(y, Z):
        model = SLTRRegressorCV()
        samples = check_samples(model, X, y)
        samples = with_covariates(samples, Z, None, fit_intercept=True)
        task = model._task(samples, samples.y[:, None])
        held = Folds.of(task, folds)
        grid = make_grid(
            [1.0], [(0.0, 0.0), (0.3, 0.3)], [None], "relative", task.policy
        )
        return search(task, held, grid).predictions, held

    other = y.copy()
    other[folds[0][1]] = rng.normal(size=len(folds[0][1]))
    (one, _), (two, _) = predictions(y, Z), predictions(other, Z)
    for a, b in zip(one.values(), two.values(), strict=True):
        np.testing.assert_allclose(a[0], b[0], atol=1e-9)


def test_labels_have_covariates_and_models_are_saved(data, tmp_path):
    X, y, Z = data
    labels = np.where(y > np.median(y), "high", "low")
    for Model in (SLTRClassifier, SLTRClassifierCV):
        model = Model().fit(X, labels, covariates=Z)
        assert model.score(X, labels, covariates=Z) > 0.8
        again = load(save(model, tmp_path / "m.sltr"))
        np.testing.assert_array_equal(
            again.predict_proba(X, covariates=Z), model.predict_proba(X, covariates=Z)
        )


def test_tables_are_read_by_their_columns(data):
    pandas = pytest.importorskip("pandas")
    X, y, Z = data
    table = pandas.DataFrame({"age": Z[:, 0].astype(float), "site": Z[:, 1]})
    table["site"] = table["site"].astype("category")
    model = SLTRRegressor().fit(X, y, covariates=table)
    assert model.covariate_names_ == ["age", "site=b", "site=c"]
    expected = SLTRRegressor().fit(X, y, covariates=Z).coef_
    np.testing.assert_allclose(model.coef_, expected)
    with pytest.raises(ValueError, match="expected those of the fit"):
        model.predict(X, covariates=table[["site", "age"]])
    peer = CPRegressor(1).fit(X, y, covariates=table)
    assert peer.score(X, y, covariates=table) > 0.9


def test_metadata_routing_brings_covariates_to_folds(data):
    X, y, Z = data
    with sklearn.config_context(enable_metadata_routing=True):
        model = SLTRRegressor().set_fit_request(covariates=True)
        model = model.set_score_request(covariates=True)
        with_them = cross_val_score(model, X, y, params={"covariates": Z})
    assert with_them.mean() > cross_val_score(SLTRRegressor(), X, y).mean() + 0.05


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda Z: Z[:10], "one row for each sample"),
        (lambda Z: np.column_stack([Z, np.ones(60)]), "'2' is constant"),
        (lambda Z: np.column_stack([Z[:, 0], 2.0 * Z[:, 0]]), "collinear"),
        (lambda Z: np.where(Z[3, 0] == Z, np.nan, Z), "'0' of sample 3 is nan"),
        (lambda Z: np.where(Z == "a", None, Z), "category for each"),
        (lambda Z: np.zeros((60, 2, 2)), r"\(n, q\)"),
        (lambda Z: np.arange(60).astype(str).astype(object) + "x", "expected fewer"),
    ],
)
def test_bad_covariates_are_refused(data, change, match):
    X, y, Z = data
    with pytest.raises(ValueError, match=match):
        SLTRRegressor().fit(X, y, covariates=change(Z))


def test_unseen_categories_are_refused_and_absent_ones_are_not(data):
    X, y, Z = data
    model = SLTRRegressor().fit(X, y, covariates=Z)
    Z[2, 1] = "d"
    with pytest.raises(ValueError, match=r"'1' is 'd'.*had 'a', 'b', 'c'"):
        model.predict(X, covariates=Z)
    with pytest.raises(ValueError, match="covariates of shape"):
        model.predict(X)
    # One sample alone has this category: the fold that leaves it out lacks it.
    found = SLTRRegressorCV(refine=(None,)).fit(X, y, covariates=Z)
    assert np.isfinite(found.best_score_)


def test_balanced_classes_weigh_the_same(data):
    X, y, _ = data
    labels = np.where(y > np.quantile(y, 0.8), "rare", "usual")
    share = np.where(labels == "rare", 60 / (2 * 12), 60 / (2 * 48))
    for Model in (SLTRClassifier, SLTRClassifierCV):
        expected = Model().fit(X, labels, share)
        found = Model(class_weight="balanced").fit(X, labels)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        again = Model(class_weight={"rare": 2.5, "usual": 0.625}).fit(X, labels)
        np.testing.assert_allclose(again.coef_, expected.coef_)
    for bad in ("equal", {"none": 1.0}, {"rare": -1.0}):
        with pytest.raises(ValueError, match="class_weight="):
            SLTRClassifier(class_weight=bad).fit(X, labels)
    with pytest.raises(ValueError, match="chunks are not kept"):
        SLTRClassifier(class_weight="balanced").partial_fit(X, labels)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda Z: 1e200 * Z, "at most 1e.100"),
        (lambda Z: np.clip(1e308 * Z, -1e308, 1e308), "at most 1e.100"),
        (lambda Z: [[10**400, *row] for row in Z], "at most 1e.100"),
        (lambda Z: Z + 1j, "complex"),
    ],
    ids=["squares", "sums", "no float", "complex"],
)
def test_numbers_that_covariates_cannot_be_are_refused(rng, spoil, message):
    X, y, Z = rng.normal(size=(20, 3, 2)), rng.normal(size=20), rng.normal(size=(20, 2))
    with np.errstate(over="ignore"):
        wrong = spoil(Z)
    with pytest.raises(ValueError, match=message):
        SLTRRegressor().fit(X, y, covariates=wrong)
    model = SLTRRegressor().fit(X, y, covariates=Z)
    with pytest.raises(ValueError, match=f"{message}|fitted with 2 columns"):
        model.predict(X, covariates=wrong)


def test_categories_that_pandas_does_not_know_are_refused(rng):
    pandas = pytest.importorskip("pandas")
    X, y = rng.normal(size=(20, 3, 2)), rng.normal(size=20)
    table = pandas.DataFrame({"site": [pandas.NA, "a"] * 10})
    with pytest.raises(ValueError, match="expected a category for each"):
        SLTRRegressor().fit(X, y, covariates=table)


@pytest.mark.parametrize("refine", [None, "reweight", "tucker", "cp", "sparse"])
@pytest.mark.parametrize("n_samples", [5, 40])
def test_samples_that_covariates_explain_say_nothing_more(rng, refine, n_samples):
    # Of the Gram matrix, or of the moments, only rounding is left.
    Z = rng.normal(size=(n_samples, 2))
    X = 3.0 + np.einsum("nq,qij->nij", Z, rng.normal(size=(2, 3, 3)))
    y = Z @ [1.0, -2.0] + rng.normal(size=n_samples)
    model = SLTRRegressor(refine=refine).fit(X, y, covariates=Z)
    assert np.abs(model.coef_).max() < 1e-6
    expected = LinearRegression().fit(Z, y).predict(Z)
    np.testing.assert_allclose(model.predict(X, covariates=Z), expected, atol=1e-6)


def test_covariates_may_explain_all_samples_of_a_fold(rng):
    X, y = rng.normal(size=(4, 2, 2)), rng.normal(size=4)
    Z = np.column_stack([rng.normal(size=4), [0.0, 0.0, 1.0, 1.0]])
    for refine in ("sparse", "cp", "reweight"):
        model = SLTRRegressor(refine=refine).fit(X, y, covariates=Z)
        assert np.isfinite(model.coef_).all()


def test_units_of_covariates_count_whole_weights_as_repetitions(rng):
    X, y, Z = rng.normal(size=(8, 2, 2)), rng.normal(size=8), rng.normal(size=(8, 3))
    counts = np.array([1, 3, 2, 2, 1, 1, 3, 1])
    rows = np.repeat(np.arange(8), counts)
    # Of the first training set there are fewer samples than columns.
    folds = [np.array([0, 1, 2]), np.array([3, 4, 5, 6, 7])]
    of_rows = [np.flatnonzero(np.isin(rows, part)) for part in folds]
    scores = []
    for data, given, weight in (
        ((X, y, Z), folds, counts.astype(float)),
        ((X[rows], y[rows], Z[rows]), of_rows, None),
    ):
        model = SLTRRegressorCV(
            cv=[(given[0], given[1]), (given[1], given[0])],
            epsilons=[1.0],
            refine=None,
            scoring="neg_mean_squared_error",
        )
        model.fit(*data[:2], sample_weight=weight, covariates=data[2])
        scores.append(model.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-5)
