"""Responses of any shape: vectors, matrices, curves."""

from dataclasses import replace

import numpy as np
import pytest
from oracles import cvx_solution, objective
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

import sltr
from sltr import SLTRRegressor, SLTRRegressorCV
from sltr.arrays import to_numpy
from sltr.coefficients import coef_array, target_name
from sltr.tuning.policy import DEFAULT

FOR_TENSORS = [
    SLTRRegressor, SLTRRegressorCV, sltr.TensorRidge, sltr.ReducedRankRegressorCV,
    sltr.TensorMultiTaskLassoCV, sltr.TensorOnTensorRegressorCV,
]  # fmt: skip
FEW = {"lambdas_sparse": (0.0, 0.3), "lambdas_low": (0.0, 0.3), "cv": 3}


def drawn(rng, shape=(5, 4), shape_out=(3,), n=60, noise=0.3):
    """Return samples and responses of one rank-one tensor over all modes."""
    coef = np.ones(())
    for size in (*shape, *shape_out):
        coef = coef[..., None] * rng.normal(size=size)
    X = rng.normal(size=(n, *shape))
    Y = np.tensordot(X, coef, len(shape)) + noise * rng.normal(size=(n, *shape_out))
    return X, Y, coef


def ridge_by_normal_equations(X, y, epsilon):
    A = (X - X.mean(axis=0)).reshape(len(X), -1)
    normal = A.T @ A + epsilon * np.eye(A.shape[1])
    return np.linalg.solve(normal, A.T @ (y - y.mean(axis=0)))


@pytest.mark.parametrize("coupling", ["average", "joint"])
def test_the_joint_problem_of_all_responses_agrees_with_cvxpy(rng, coupling):
    X, Y, _ = drawn(rng, (4, 3), (3,))
    unit = Y.std(axis=0)
    model = SLTRRegressor(
        2.0, 0.2, 0.3, radius="absolute", coupling=coupling, tol=1e-7
    ).fit(X, Y)
    pilot = ridge_by_normal_equations(X, Y / unit, 2.0).reshape(4, 3, 3)
    np.testing.assert_allclose(model.pilot_ / unit, pilot, rtol=1e-8)
    # Each mode's problem has one optimal value; solutions of a joint one agree too.
    if coupling == "joint":
        modes, weights = (0, 1, 2), (1 / 3,) * 3
        value, _ = cvx_solution(pilot, 0.2, [0.3] * 3, 1.0, weights, modes)
        found = objective(model.coef_ / unit, 1.0, weights, modes)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        return
    parts = [cvx_solution(pilot, 0.2, [0.3], 1.0, [1.0], [m])[1] for m in range(3)]
    np.testing.assert_allclose(model.coef_ / unit, np.mean(parts, axis=0), atol=2e-4)


@pytest.mark.parametrize("shape_out", [(1,), (1, 1)])
@pytest.mark.parametrize("kind", [SLTRRegressor, SLTRRegressorCV])
def test_one_response_gives_the_model_of_numbers(rng, kind, shape_out):
    X, Y, _ = drawn(rng, (5, 4), ())
    options = {} if kind is SLTRRegressor else FEW
    number = kind(**options).fit(X, Y)
    one = kind(**options).fit(X, Y.reshape(-1, *shape_out))
    np.testing.assert_allclose(
        one.coef_.reshape(5, 4), number.coef_, rtol=0, atol=1e-12
    )
    assert one.predict(X).shape == Y.reshape(-1, *shape_out).shape
    np.testing.assert_allclose(one.predict(X).ravel(), number.predict(X), atol=1e-12)


def test_modes_of_one_entry_share_nothing(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    flat = SLTRRegressor().fit(X, Y)
    long = SLTRRegressor().fit(X, Y[:, None, :, None])
    np.testing.assert_allclose(long.coef_[:, :, 0, :, 0], flat.coef_, atol=1e-12)


@pytest.mark.parametrize("shape_out", [(3,), (3, 2), (2, 2, 2)])
def test_shapes_of_all_that_is_fitted(rng, shape_out):
    X, Y, _ = drawn(rng, (5, 4), shape_out)
    Z = rng.normal(size=(len(X), 2))
    for model in (SLTRRegressor(), SLTRRegressorCV(refine=None, **FEW)):
        model.fit(X, Y, covariates=Z)
        assert model.coef_.shape == model.pilot_.shape == (5, 4, *shape_out)
        assert model.intercept_.shape == model.scale_.shape == shape_out
        assert model.covariate_coef_.shape == (*shape_out, 2)
        assert len(model.ranks_) == 2 + len(shape_out)
        expected = np.tensordot(X, model.coef_, 2) + model.intercept_
        expected += np.tensordot(Z, np.moveaxis(model.covariate_coef_, -1, 0), 1)
        np.testing.assert_allclose(model.predict(X, covariates=Z), expected, atol=1e-10)


def test_separate_responses_are_those_of_models_of_their_own(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    Y *= [1.0, 1e3, 1e-3]
    together = SLTRRegressor(2.0, responses="separate", tol=1e-8).fit(X, Y + 7.0)
    for k in range(3):
        alone = SLTRRegressor(2.0, tol=1e-8).fit(X, Y[:, k] + 7.0)
        size = np.abs(alone.coef_).max()
        np.testing.assert_allclose(
            together.coef_[..., k], alone.coef_, rtol=0, atol=1e-5 * size
        )
        assert together.intercept_[k] == pytest.approx(alone.intercept_)


@pytest.mark.parametrize("intercept", [True, False])
def test_units_of_responses_change_nothing(rng, intercept):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    unit = np.array([1.0, 1e4, 1e-3])
    kept = SLTRRegressorCV(fit_intercept=intercept, refine=None, **FEW)
    scaled = SLTRRegressorCV(fit_intercept=intercept, refine=None, **FEW)
    kept.fit(X, Y)
    scaled.fit(X, Y * unit)
    np.testing.assert_allclose(scaled.coef_ / unit, kept.coef_, atol=1e-10)
    np.testing.assert_allclose(scaled.intercept_ / unit, kept.intercept_, atol=1e-9)
    assert scaled.best_score_ == pytest.approx(kept.best_score_)


def test_scores_of_the_tuning_are_in_the_units_of_y(rng):
    X, Y, _ = drawn(rng, (5, 4), (2,))
    Y *= [1.0, 50.0]
    model = SLTRRegressorCV(
        [2.0],
        [0.0],
        [0.0],
        refine=None,
        cv=3,
        scoring="neg_mean_squared_error",
        standardize=None,
    ).fit(X, Y)
    errors = []
    for train, test in sltr.tuning.folds.splits(3, Y[:, 0]):
        coef = ridge_by_normal_equations(X[train], Y[train], 2.0)
        rest = X[test] - X[train].mean(axis=0)
        predicted = rest.reshape(len(test), -1) @ coef + Y[train].mean(axis=0)
        errors.append(np.mean((predicted - Y[test]) ** 2))
    assert model.best_score_ == pytest.approx(-np.mean(errors))


def test_score_takes_multioutput(rng):
    X, Y, _ = drawn(rng, (5, 4), (3, 2))
    model = SLTRRegressor().fit(X, Y)
    rows, predicted = Y.reshape(len(Y), 6), model.predict(X).reshape(len(Y), 6)
    for how in ("uniform_average", "variance_weighted", np.arange(6.0)):
        expected = r2_score(rows, predicted, multioutput=how)
        assert model.score(X, Y, multioutput=how) == pytest.approx(expected)
    raw = model.score(X, Y, multioutput="raw_values")
    expected = r2_score(rows, predicted, multioutput="raw_values")
    np.testing.assert_allclose(raw, expected.reshape(3, 2))
    weight = rng.uniform(size=len(X))
    expected = r2_score(rows, predicted, sample_weight=weight)
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="expected responses of the fitted shape"):
        model.score(X, Y[:, :2])


def test_responses_of_one_tensor_are_found_better_together(rng):
    X, Y, coef = drawn(rng, (6, 5), (12,), n=60, noise=2.0)
    errors = {}
    for name in ("separate", "shared"):
        model = SLTRRegressorCV(
            lambdas_sparse=(1.0,), lambdas_low=(0.1, 0.3, 0.5),
            refine=None, responses=name, cv=3,
        ).fit(X, Y)  # fmt: skip
        assert model.responses_ == name
        errors[name] = np.linalg.norm(model.coef_ - coef)
    assert errors["shared"] < 0.85 * errors["separate"]


def test_chunks_of_many_responses_equal_one_fit(rng):
    X, Y, _ = drawn(rng, (3, 2), (2, 2))
    Y *= [[1.0, 100.0], [1.0, 0.1]]
    whole = SLTRRegressor(1.0, tol=1e-8).fit(X, Y)
    stream = SLTRRegressor(1.0, tol=1e-8)
    stream.partial_fit(X[:20], Y[:20], solve=False).partial_fit(X[20:], Y[20:])
    np.testing.assert_allclose(stream.coef_, whole.coef_, atol=1e-8)
    np.testing.assert_allclose(stream.intercept_, whole.intercept_, atol=1e-8)
    with pytest.raises(ValueError, match="expected that of the first chunk"):
        stream.partial_fit(X, Y[:, :1])


def test_names_of_columns_are_those_of_responses(rng):
    pandas = pytest.importorskip("pandas")
    X, Y, _ = drawn(rng, (5, 4), (3,))
    model = SLTRRegressor().fit(X, pandas.DataFrame(Y, columns=["a", "b", "c"]))
    assert model.response_names_ == ["a", "b", "c"]
    np.testing.assert_array_equal(coef_array(model, "b"), model.coef_[..., 1])
    assert target_name(model, 2) == "response c"
    assert not hasattr(model.fit(X, Y), "response_names_")


def test_a_saved_model_predicts_the_same(rng, tmp_path):
    pytest.importorskip("safetensors")
    X, Y, _ = drawn(rng, (5, 4), (3, 2))
    model = SLTRRegressorCV(refine=None, **FEW).fit(X, Y)
    sltr.save(model, tmp_path / "m.safetensors")
    loaded = sltr.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.shape_out_ == (3, 2)


def test_tools_of_scikit_learn_take_tensor_responses(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    search = GridSearchCV(SLTRRegressor(), {"responses": ["separate", "shared"]}, cv=3)
    assert search.fit(X, Y).predict(X).shape == Y.shape
    each = MultiOutputRegressor(SLTRRegressor(feature_shape=(5, 4)))
    assert each.fit(X.reshape(len(X), -1), Y).predict(X.reshape(len(X), -1)).shape == (
        len(X),
        3,
    )


def test_other_libraries_fit_the_same(rng, xp):
    X, Y, _ = drawn(rng, (5, 4), (3, 2))
    expected = SLTRRegressor(tol=1e-8).fit(X, Y)
    model = SLTRRegressor(tol=1e-8).fit(xp.array(X), xp.array(Y))
    np.testing.assert_allclose(to_numpy(model.coef_), expected.coef_, atol=1e-6)
    found = model.predict(xp.array(X))
    assert tuple(found.shape) == Y.shape
    assert model.score(xp.array(X), xp.array(Y)) == pytest.approx(expected.score(X, Y))


@pytest.mark.parametrize("name", ["zarr", "h5py"])
def test_samples_in_a_file_fit_the_same(rng, tmp_path, samples_stay, name):
    module = pytest.importorskip(name)
    X, Y, _ = drawn(rng, (5, 4), (3,))
    if name == "zarr":
        stored = module.create_array(store=str(tmp_path / "x"), data=X)
    else:
        stored = module.File(tmp_path / "x.h5", "w").create_dataset("X", data=X)
    options = {**FEW, "refine": None, "epsilons": [1.0, 2.0]}
    here = SLTRRegressorCV(**options).fit(X, Y)
    there = SLTRRegressorCV(memory_limit="1MB", **options).fit(stored, Y)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-6)


@pytest.mark.parametrize("given", ["both", (), ("shared", "own")])
def test_an_unknown_choice_for_responses_is_refused(rng, given):
    X, Y, _ = drawn(rng)
    with pytest.raises(ValueError, match="responses"):
        SLTRRegressorCV(responses=given).fit(X, Y)


@pytest.mark.parametrize("shape_out", [(0,), (0, 2)])
def test_responses_without_entries_are_refused(rng, shape_out):
    X, _, _ = drawn(rng)
    with pytest.raises(ValueError, match="at least one"):
        SLTRRegressor().fit(X, np.empty((len(X), *shape_out)))


def test_columns_of_a_table_are_put_in_the_order_of_the_fit(rng, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, Y, _ = drawn(rng, (5, 4), (3,))
    table = pandas.DataFrame(Y, columns=["water", "fat", "ash"])
    other = table[["ash", "water", "fat"]]
    model = SLTRRegressor().fit(X, table)
    each = model.score(X, table, multioutput="raw_values")
    np.testing.assert_array_equal(model.score(X, other, multioutput="raw_values"), each)
    pages = [
        sltr.report(model, X, y, tmp_path / "r.html", n_bootstrap=2).read_text()
        for y in (Y, table, other)
    ]
    scores = [[row for row in page.split("<tr>") if "RMSE" in row] for page in pages]
    assert scores[0] == scores[1] == scores[2]
    once, twice = SLTRRegressor(2.0), SLTRRegressor(2.0)
    once.fit(X, table)
    twice.partial_fit(X[:30], table[:30]).partial_fit(X[30:], other[30:])
    assert twice.response_names_ == ["water", "fat", "ash"]
    np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-3)
    for wrong in (table.rename(columns={"ash": "salt"}), table[["fat", "ash"]]):
        with pytest.raises(ValueError, match="was fitted to"):
            model.score(X, wrong)


def test_a_response_that_is_hardly_measured_is_named(rng):
    pandas = pytest.importorskip("pandas")
    X, Y, _ = drawn(rng, (5, 4), (3,))
    Y[1:, 1] = np.nan
    model = SLTRRegressor(missing_y="ridge")
    with pytest.raises(ValueError, match=r"1 of the responses .* the first is 1;"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="the first is 'fat';"):
        model.fit(X, pandas.DataFrame(Y, columns=["water", "fat", "ash"]))


def test_constant_responses_are_predicted(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    Y[:, 1] = 3.0
    model = SLTRRegressorCV(refine=None, **FEW).fit(X, Y)
    np.testing.assert_allclose(model.predict(X)[:, 1], 3.0, atol=1e-10)
    assert np.isfinite(model.coef_).all()


def test_reweighting_all_modes_finds_a_common_tensor(rng):
    X, Y, coef = drawn(rng, (6, 5), (8,), n=80, noise=2.0)
    errors = {}
    for name in ("separate", "shared"):
        model = SLTRRegressorCV(refine=(None, "reweight"), responses=name, cv=3)
        errors[name] = np.linalg.norm(model.fit(X, Y).coef_ - coef)
    assert errors["shared"] < 0.7 * errors["separate"]
    again = SLTRRegressor(refine=("reweight", 4)).fit(X, Y)
    assert again.coef_.shape == coef.shape
    assert again.refine_settings_ == (4,)


def test_vectors_are_reweighted_along_their_responses(rng):
    X, Y, _ = drawn(rng, (8,), (5,))
    model = SLTRRegressor(refine="reweight").fit(X, Y)
    assert model.coef_.shape == (8, 5)


def test_the_lasso_and_separate_refits_take_each_response_by_itself(rng):
    X, Y, _ = drawn(rng, (5, 4), (2,))
    for refine in (("cp", 1, 0.1), ("tucker", 1, 0.1), ("sparse", None)):
        responses = "shared" if refine[0] == "sparse" else "separate"
        both = SLTRRegressor(2.0, refine=refine, responses=responses).fit(X, Y)
        for k in range(2):
            one = SLTRRegressor(2.0, refine=refine).fit(X, Y[:, k])
            np.testing.assert_allclose(both.coef_[..., k], one.coef_, atol=2e-3)


@pytest.mark.parametrize("refine", [("cp", 1, 0.001), ("tucker", (1, 1, 1), 0.001)])
def test_low_rank_refits_of_all_modes_find_a_common_tensor(rng, refine):
    X, Y, coef = drawn(rng, (6, 5), (8,), n=80, noise=1.0)
    model = SLTRRegressor(refine=refine).fit(X, Y)
    assert model.ranks_ == (1, 1, 1)
    assert np.linalg.norm(model.coef_ - coef) < 0.15 * np.linalg.norm(coef)
    each = SLTRRegressor(refine=(refine[0], 1, 0.001), responses="separate").fit(X, Y)
    errors = [np.linalg.norm(one.coef_ - coef) for one in (each, model)]
    assert errors[0] > 1.5 * errors[1]


def test_low_rank_refits_of_responses_are_tuned(rng):
    X, Y, coef = drawn(rng, (6, 5), (4, 3), n=80, noise=2.0)
    model = SLTRRegressorCV(refine=("cp", "tucker"), rule="best", cv=3).fit(X, Y)
    assert model.responses_ == "shared"
    # Units of responses, by which these are divided, are no outer product.
    assert model.ranks_[:2] == (1, 1)
    assert np.linalg.norm(model.coef_ - coef) < 0.3 * np.linalg.norm(coef)


def with_gaps(rng, Y, share=0.3):
    gaps = rng.uniform(size=Y.shape) < share
    return np.where(gaps, np.nan, Y)


@pytest.mark.parametrize("shape_out", [(3,), (2, 2), (1,), ()])
@pytest.mark.parametrize("beside", [False, True])
def test_missing_responses_leave_each_pilot_that_of_its_samples(rng, shape_out, beside):
    X, Y, _ = drawn(rng, (5, 4), shape_out)
    Y, Z = with_gaps(rng, Y + 3.0), rng.normal(size=(len(X), 2)) if beside else None
    model = SLTRRegressor(2.0, 0.0, 0.0, missing_y="ridge").fit(X, Y, covariates=Z)
    columns = Y.reshape(len(Y), -1)
    coefs = model.coef_.reshape(5, 4, -1)
    intercepts = np.ravel(model.intercept_)
    for k in range(columns.shape[1]):
        known = ~np.isnan(columns[:, k])
        alone = SLTRRegressor(2.0, 0.0, 0.0).fit(
            X[known], columns[known, k], covariates=None if Z is None else Z[known]
        )
        np.testing.assert_allclose(coefs[..., k], alone.coef_, atol=1e-9)
        assert intercepts[k] == pytest.approx(alone.intercept_)


def test_missing_responses_are_not_scored(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    gappy = with_gaps(rng, Y)
    gappy[:, 0] = Y[:, 0]  # no sample is left out
    grid = {"epsilons": [2.0], "lambdas_sparse": [0.0], "lambdas_low": [0.0]}
    grid |= {"refine": None, "standardize": None}
    model = SLTRRegressorCV(**grid, cv=3, missing_y="ridge").fit(X, gappy)
    # A filled value lies on the pilot of all samples, held-out ones too: the score is
    # that of filled responses on what was measured.
    filled = np.where(np.isnan(gappy), model.predict(X), gappy)
    scores = []
    for train, test in sltr.tuning.folds.splits(3, Y[:, 0]):
        coef = ridge_by_normal_equations(X[train], filled[train], 2.0)
        rest = (X[test] - X[train].mean(axis=0)).reshape(len(test), -1)
        predicted = rest @ coef + filled[train].mean(axis=0)
        each = []
        for k in range(3):
            known = ~np.isnan(gappy[test, k])
            each.append(r2_score(gappy[test, k][known], predicted[known, k]))
        scores.append(np.mean(each))
    assert model.best_score_ == pytest.approx(np.mean(scores))
    raw = model.score(X, gappy, multioutput="raw_values")
    for k in range(3):
        known = ~np.isnan(gappy[:, k])
        expected = r2_score(gappy[known, k], model.predict(X)[known, k])
        assert raw[k] == pytest.approx(expected)
    assert model.score(X, gappy) == pytest.approx(raw.mean())


def test_a_full_tuning_takes_missing_responses(rng):
    X, Y, coef = drawn(rng, (6, 5), (6,), n=80, noise=1.0)
    model = SLTRRegressorCV(cv=3, missing_y="ridge").fit(X, with_gaps(rng, Y))
    assert np.linalg.norm(model.coef_ - coef) < 0.5 * np.linalg.norm(coef)


def test_samples_without_any_response_are_left_out(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    gappy = Y.copy()
    gappy[::7] = np.nan
    kept = ~np.isnan(gappy[:, 0])
    model = SLTRRegressor(missing_y="ridge").fit(X, gappy)
    alone = SLTRRegressor().fit(X[kept], Y[kept])
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-8)
    SLTRRegressorCV(missing_y="ridge", refine=None, **FEW).fit(X, gappy)


def test_missing_responses_are_refused_unless_asked_for(rng):
    X, Y, _ = drawn(rng, (5, 4), (3,))
    Y[4, 1] = np.nan
    for model in (SLTRRegressor(), SLTRRegressorCV()):
        with pytest.raises(ValueError, match="y contains NaN, 1 of 180 entries"):
            model.fit(X, Y)
    with pytest.raises(ValueError, match="missing_y='mean' was given"):
        SLTRRegressor(missing_y="mean").fit(X, Y)
    with pytest.raises(ValueError, match="scoring='r2' was given with responses"):
        SLTRRegressorCV(missing_y="ridge", scoring="r2").fit(X, Y)
    Y[1:, 1] = np.nan
    with pytest.raises(ValueError, match="fewer than two times"):
        SLTRRegressor(missing_y="ridge").fit(X, Y)


def test_each_response_weighs_candidates_by_its_own_errors_too(rng):
    # One response is dense, which the pilot predicts best, the other a single entry.
    X = rng.normal(size=(120, 5, 4))
    Y = np.stack([X.sum(axis=(1, 2)), 4.0 * X[:, 0, 0]], axis=1)
    Y += 2.0 * rng.normal(size=Y.shape)
    model = SLTRRegressorCV(refine=(None, "sparse"), responses="separate", cv=3)
    model.fit(X, Y)
    share = np.count_nonzero(np.abs(model.refined_) > 0.05, axis=(0, 1)) / 20
    assert share[0] > 0.9
    assert share[1] < 0.7
    np.testing.assert_allclose(model.weights_.sum(), 1.0)


def test_of_many_responses_only_a_shared_tensor_is_refitted(rng):
    X, Y, _ = drawn(rng, (4, 3), (60,), n=40)
    model = SLTRRegressorCV(refine=(None, "reweight", "sparse"), cv=2).fit(X, Y)
    rows = model.cv_results_["params"]
    assert {row["refine"] for row in rows if row["shared"]} == {None, "reweight"}
    assert {row["refine"] for row in rows if not row["shared"]} == {None}
    alone = SLTRRegressorCV(refine=("reweight",), responses="separate", cv=2).fit(X, Y)
    assert alone.refine_ == "reweight"


def test_a_saved_model_predicts_the_same_bits(rng, tmp_path):
    X, Y, _ = drawn(rng, (5, 4), (3, 2))
    model = SLTRRegressor().fit(X, Y)
    assert model.coef_.flags.c_contiguous
    loaded = sltr.load(sltr.save(model, tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("kind", FOR_TENSORS)
def test_checks_of_scikit_learn_know_that_there_may_be_several_responses(kind):
    assert get_tags(kind()).target_tags.multi_output
    names = {
        getattr(check, "func", check).__name__
        for _, check in estimator_checks_generator(kind())
    }
    assert "check_regressor_multioutput" in names
    counts = SLTRRegressor(family="poisson")
    assert not get_tags(counts).target_tags.multi_output


def test_folds_compare_a_large_shared_tensor_as_well_in_single_precision(rng):
    X, Y, _ = drawn(rng, (10, 9), (60,), n=40)  # 5,400 entries
    options = {"refine": None, "responses": "shared", "cv": 2, "rule": "best"}
    single = SLTRRegressorCV(**options)
    double = SLTRRegressorCV(**options)
    double._policy = replace(DEFAULT, precision="float64")
    single.fit(X, Y), double.fit(X, Y)
    scores, expected = (
        model.cv_results_["mean_test_score"] for model in (single, double)
    )
    # Folds stop at a gap of 1e-3.
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert (scores != expected).any()
    assert single.coef_.dtype == np.float64
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-12)
