import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from oracles import ridge_by_normal_equations
from problems import block, draw
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sltr.core.estimate import estimate
from sltr.core.tensor import numerical_ranks
from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.peers.elementary import ElemRidge, TensorRidge
from sltr.ridge import RidgeLimits
from sltr.tuning.policy import Policy


# The default settings are checked with all other estimators.
@parametrize_with_checks([SLTRRegressor(coupling="joint")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def planted(rng, shape, n_samples=60, noise=0.1):
    coef = block(shape)
    return *draw(rng, coef, n_samples, noise=noise, offset=3.0), coef


SHAPES = [(4, 5), (4, 3, 2), (3, 2, 2, 2)]
every_order = pytest.mark.parametrize("shape", SHAPES, ids=["3-D", "4-D", "5-D"])
both = pytest.mark.parametrize("model", [SLTRRegressor(), SLTRClassifier()])


def as_target(model, y):
    return y > np.median(y) if isinstance(model, SLTRClassifier) else y


@both
@every_order
def test_scikit_learn_tools_pass_tensors_through(rng, model, shape):
    X, y, _ = planted(rng, shape)
    y = as_target(model, y)
    scores = cross_val_score(model, X, y, cv=3)
    assert scores.min() > 0.5
    search = GridSearchCV(model, {"lambda_sparse": [0.05, 0.9]}, cv=3).fit(X, y)
    assert search.best_params_["lambda_sparse"] == 0.05
    copy = clone(search.best_estimator_)
    assert copy.get_params() == search.best_estimator_.get_params()
    refitted = copy.fit(X, y)
    assert np.array_equal(refitted.coef_, search.best_estimator_.coef_)


@both
@every_order
def test_worker_processes_return_the_same_model(rng, model, shape):
    X, y, _ = planted(rng, shape)
    y = as_target(model, y)
    here = clone(model).fit(X, y)
    [there] = Parallel(n_jobs=2)([delayed(clone(model).fit)(X, y)])
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-12)
    np.testing.assert_allclose(there.predict(X), here.predict(X))


@both
def test_pipeline_folds_flat_rows(rng, model):
    X, y, _ = planted(rng, (4, 3, 2))
    y = as_target(model, y)
    flat = X.reshape(len(X), -1)
    folded = clone(model).set_params(feature_shape=(4, 3, 2))
    pipeline = make_pipeline(StandardScaler(), folded).fit(flat, y)
    scaled = StandardScaler().fit_transform(flat).reshape(X.shape)
    direct = clone(model).fit(scaled, y)
    np.testing.assert_allclose(pipeline[-1].coef_, direct.coef_, atol=1e-12)
    assert np.array_equal(pipeline.predict(flat), direct.predict(scaled))


def test_fit_is_pilot_then_estimate_then_intercept(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    model = SLTRRegressor(2.0, 0.2, 0.5, radius="absolute").fit(X, y)
    flat = X.reshape(len(X), -1)
    pilot = ridge_by_normal_equations(flat, y, 2.0).reshape(4, 3, 2)
    np.testing.assert_allclose(model.pilot_, pilot, atol=1e-10)
    expected = estimate(pilot, 0.2, 0.5)
    np.testing.assert_allclose(model.coef_, expected.coef, atol=1e-8)
    offset = np.mean(y - flat @ model.coef_.reshape(-1))
    assert model.intercept_ == pytest.approx(offset)
    assert model.dual_gap_ <= 1e-4
    np.testing.assert_allclose(
        model.predict(X), flat @ model.coef_.reshape(-1) + model.intercept_
    )


def test_relative_radii_do_not_see_the_scale_of_y(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    plain, large = (SLTRRegressor(weights="radius").fit(X, s * y) for s in (1.0, 1e4))
    np.testing.assert_allclose(large.coef_ / 1e4, plain.coef_, atol=1e-3)


def test_a_huge_ball_leaves_the_elementary_estimator(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    model = SLTRRegressor(1.0, 0.3, 1e6, radius="absolute").fit(X, y)
    elementary = ElemRidge(1.0, 0.3, radius="absolute").fit(X, y)
    np.testing.assert_allclose(model.coef_, elementary.coef_, atol=1e-12)
    assert model.n_iter_ == 1


def test_no_radii_leave_the_pilot(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    for zeros in ({"lambda_sparse": 0.0}, {"lambda_low": 0.0}):
        model = SLTRRegressor(1.0, **zeros).fit(X, y)
        ridge = TensorRidge(1.0).fit(X, y)
        np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-12)
        np.testing.assert_allclose(model.predict(X), ridge.predict(X))


def test_full_radii_leave_the_mean(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    for weights in ("unit", "radius"):
        for coupling in ("average", "joint"):
            model = SLTRRegressor(
                1.0, 1.0, 1.0, weights=weights, coupling=coupling
            ).fit(X, y)
            assert not model.coef_.any()
            assert model.ranks_ == (0, 0, 0)
            np.testing.assert_allclose(model.predict(X), y.mean())


def test_planted_coefficient_is_recovered(rng):
    X, y, coef = planted(rng, (6, 5, 4), n_samples=400)
    model = SLTRRegressor(lambda_sparse=0.15, lambda_low=0.15, coupling="joint")
    model.fit(X, y)
    assert np.array_equal(model.coef_ != 0, coef != 0)
    assert numerical_ranks(model.coef_, rtol=0.05) == (1, 1, 1)
    error = np.linalg.norm(model.coef_ - coef) / np.linalg.norm(coef)
    assert error < 0.2
    assert model.intercept_ == pytest.approx(3.0, abs=0.2)


def test_integer_weights_are_repetitions(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    times = rng.integers(0, 4, size=len(y))
    options = {"epsilon": 2.0, "lambda_sparse": 0.2, "tol": 1e-8}
    weighted = SLTRRegressor(**options).fit(X, y, sample_weight=times)
    repeated = SLTRRegressor(**options).fit(np.repeat(X, times, 0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-4)


def test_weights_decide_between_contradicting_samples(rng):
    X, y, _ = planted(rng, (4, 3))
    doubled, contrary = np.concatenate([X, X]), np.concatenate([y, -y])
    weight = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    model = SLTRRegressor().fit(doubled, contrary, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, SLTRRegressor().fit(X, y).coef_, atol=1e-8)
    labels = np.concatenate([y > 3, y <= 3])
    classifier = SLTRClassifier().fit(doubled, labels, sample_weight=weight + 1e-3)
    assert np.mean(classifier.predict(X) == (y > 3)) > 0.9


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_intercept_nothing_is_centred(rng, fit_intercept):
    X, y, _ = planted(rng, (4, 3))
    model = SLTRRegressor(1.0, 0.0, 0.0, fit_intercept=fit_intercept).fit(X, y)
    expected = ridge_by_normal_equations(
        X.reshape(len(X), -1), y, 1.0, fit_intercept=fit_intercept
    )
    np.testing.assert_allclose(model.coef_.reshape(-1), expected, atol=1e-10)
    assert (model.intercept_ != 0.0) == fit_intercept


@both
def test_single_precision_stays_single(rng, model):
    X, y, _ = planted(rng, (4, 3, 2))
    y = as_target(model, y)
    single = clone(model).fit(X.astype("float32"), y)
    assert single.coef_.dtype == np.float32
    double = clone(model).fit(X, y)
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-2)
    if isinstance(model, SLTRRegressor):
        assert single.predict(X.astype("float32")).dtype == np.float32


@pytest.mark.parametrize("solver", ["admm", "ppxa"])
@pytest.mark.parametrize("coupling", ["average", "joint"])
def test_solvers_agree_and_jobs_change_nothing(rng, solver, coupling):
    X, y, _ = planted(rng, (4, 3, 2))
    options = {"coupling": coupling, "lambda_sparse": 0.2, "lambda_low": 0.2}
    reference = SLTRRegressor(1.0, **options).fit(X, y)
    model = SLTRRegressor(1.0, solver=solver, **options).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=0.02)
    again = clone(model).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(again.coef_, model.coef_)


@both
def test_foreign_arrays_stay_foreign(foreign, rng, model):
    X, y, _ = planted(rng, (4, 3, 2))
    y = as_target(model, y)
    reference = clone(model).fit(X, y)
    given = foreign.array(X)
    fitted = clone(model).fit(given, foreign.array(y.astype(float)))
    np.testing.assert_allclose(foreign.numpy(fitted.coef_), reference.coef_, atol=5e-3)
    predictions = fitted.predict(given)
    if isinstance(model, SLTRRegressor):
        assert type(predictions) is type(given)
        predictions = foreign.numpy(predictions)
        np.testing.assert_allclose(predictions, reference.predict(X), atol=0.05)
    else:
        assert np.mean(predictions == reference.predict(X)) > 0.95
        scores = fitted.decision_function(given)
        assert type(scores) is type(given)


def test_budget_that_runs_out_warns_with_the_gap(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    options = {"lambda_sparse": 0.2, "lambda_low": 0.1, "max_iter": 1, "tol": 1e-8}
    with pytest.warns(ConvergenceWarning, match="duality gap of .* Increase max_iter"):
        model = SLTRRegressor(1.0, **options).fit(X, y)
    assert model.dual_gap_ > 1e-8
    assert model.n_iter_ == 1
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        SLTRClassifier(1.0, **options).fit(X, y > 3)


def test_the_chosen_penalty_has_the_least_leave_one_out_error(rng):
    X, y, _ = planted(rng, (4, 3), noise=2.0)
    chosen = TensorRidge().fit(X, y).epsilon_

    def error(epsilon):
        total = 0.0
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            fit = TensorRidge(epsilon).fit(X[rest], y[rest])
            total += float(fit.predict(X[i : i + 1])[0] - y[i]) ** 2
        return total

    assert error(chosen) <= min(error(chosen * f) for f in (0.3, 0.7, 1.4, 3.0))
    assert SLTRRegressor().fit(X, y).epsilon_ == pytest.approx(chosen)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("kind", ["strings", "integers"])
def test_classes_of_any_name_and_number(rng, n_classes, kind):
    X = rng.normal(size=(150, 4, 3))
    codes = np.argmax(X.reshape(150, -1)[:, :n_classes], axis=1)
    names = np.array(["ash", "birch", "cedar", "date", "elm"])
    y = names[codes] if kind == "strings" else codes * 10 - 20
    model = SLTRClassifier(lambda_sparse=0.05, lambda_low=0.05).fit(X, y)
    assert np.array_equal(model.classes_, np.unique(y))
    assert model.score(X, y) > 0.7
    proba = model.predict_proba(X)
    assert proba.shape == (150, n_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert proba.min() >= 0.0
    decision = model.decision_function(X)
    if n_classes == 2:
        assert decision.shape == (150,)
        assert model.coef_.shape == (4, 3)
        assert np.array_equal(
            model.predict(X), model.classes_[(decision > 0).astype(int)]
        )
    else:
        assert decision.shape == (150, n_classes)
        assert model.coef_.shape == (n_classes, 4, 3)
        assert len(model.ranks_) == n_classes
    winners = model.classes_[proba.argmax(axis=1)]
    assert np.mean(winners == model.predict(X)) > 0.99


def test_probabilities_are_calibrated(rng):
    """Better than clipping the raw scores, and close to the true probabilities."""
    weight = rng.normal(size=(4, 3))

    def draw(n):
        X = rng.normal(size=(n, 4, 3))
        truth = 1 / (1 + np.exp(-2.0 * np.einsum("nij,ij->n", X, weight)))
        return X, (rng.random(n) < truth).astype(int), truth

    X, y, _ = draw(300)
    X_new, y_new, truth = draw(2000)
    model = SLTRClassifier(lambda_sparse=0.05, lambda_low=0.05).fit(X, y)
    found = model.predict_proba(X_new)[:, 1]
    raw = np.einsum("nij,ij->n", X_new, model.coef_) + model.intercept_
    clipped = brier_score_loss(y_new, np.clip(raw, 0.0, 1.0))
    assert brier_score_loss(y_new, found) < clipped
    assert np.mean(np.abs(found - truth)) < 0.08


def test_a_class_of_one_member_is_still_fitted(rng):
    X = rng.normal(size=(20, 3, 2))
    y = np.array(["rare"] + ["common"] * 19)
    model = SLTRClassifier().fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_fitting_twice_gives_the_same_model(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = (SLTRRegressor().fit(X, y) for _ in range(2))
    assert np.array_equal(one.coef_, two.coef_)


class SmallRidge(SLTRRegressor):
    """Takes five samples for too many, and two iterations for enough."""

    _policy = Policy(RidgeLimits(largest_side=5, sketch_rank=1, max_iter=2))


def test_a_pilot_that_did_not_converge_is_warned_of(rng):
    X = rng.normal(size=(30, 40))
    with pytest.warns(ConvergenceWarning, match="relative residual of .* epsilon"):
        model = SmallRidge(1e-3).fit(X, X[:, 0])
    assert model.pilot_method_ == "cg"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("Model", [SLTRRegressor, TensorRidge])
def test_new_samples_may_come_from_another_library(rng, Model, dtype):
    torch = pytest.importorskip("torch")
    X, y, _ = planted(rng, (4, 3, 2))
    expected = Model().fit(X, y).predict(X)
    there = torch.asarray(X, dtype=getattr(torch, dtype))
    model = Model().fit(torch.asarray(X), torch.asarray(y))
    for samples, kind in ((X, np.ndarray), (there, torch.Tensor)):
        found = model.predict(samples)
        assert isinstance(found, kind)
        np.testing.assert_allclose(np.asarray(found), expected, atol=0.01)
    found = Model().fit(X, y).predict(there)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(np.asarray(found), expected, atol=0.01)


def test_gradients_are_not_followed(rng):
    torch = pytest.importorskip("torch")
    X, y, _ = planted(rng, (4, 3, 2))
    samples, responses = (torch.tensor(a, requires_grad=True) for a in (X, y))
    weight = torch.ones(len(X), dtype=torch.float64, requires_grad=True)
    model = SLTRRegressor().fit(samples, responses, weight)
    assert not model.coef_.requires_grad
    assert not model.predict(samples).requires_grad


@pytest.mark.parametrize("kind", ["tucker", "cp", "reweight", "sparse"])
def test_a_chosen_refit_is_told_and_can_be_given(rng, kind):
    X, y, _ = planted(rng, (4, 3, 2))
    chosen = SLTRRegressor(refine=kind).fit(X, y)
    given = SLTRRegressor(refine=(kind, *chosen.refine_settings_)).fit(X, y)
    assert given.refine_settings_ == chosen.refine_settings_ != ()
    np.testing.assert_allclose(given.coef_, chosen.coef_)
    assert chosen.scale_ == 1.0


def test_a_scale_factor_is_told(rng):
    X, y, _ = planted(rng, (4, 3, 2))
    plain = SLTRRegressor().fit(X, y)
    scaled = SLTRRegressor(refine="scale").fit(X, y)
    np.testing.assert_allclose(scaled.coef_, scaled.scale_ * plain.coef_)
    assert scaled.scale_ != 1.0
    assert plain.refine_settings_ == scaled.refine_settings_ == ()
    labels = SLTRClassifier(refine="scale").fit(X, np.digitize(y, [2.0, 4.0]))
    assert labels.scale_.shape == (3,)
