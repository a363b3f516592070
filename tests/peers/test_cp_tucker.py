"""CP and Tucker GLMs: recovery, agreement with other packages, bad input."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from sltr.core.tensor import cp_to_tensor
from sltr.peers.cp import CPClassifier, CPRegressor, CPRegressorCV
from sltr.peers.trr import HRTRRRegressor, ORTRRRegressor
from sltr.peers.tucker import TuckerRegressor, TuckerRegressorCV, candidate_ranks
from sltr.refine.factors import Tucker

sm = pytest.importorskip("statsmodels.api")
tensorly = pytest.importorskip("tensorly.regression")

SHAPE = (6, 5, 4)


def _planted(n, noise=0.1, seed=0, shape=SHAPE):
    rng = np.random.default_rng(seed)
    coef = cp_to_tensor([rng.standard_normal((p, 2)) for p in shape])
    coef = coef / np.linalg.norm(coef)
    X = rng.standard_normal((n, *shape))
    eta = X.reshape(n, -1) @ coef.ravel()
    return X, eta + 2.0 + noise * rng.standard_normal(n), eta, coef


def _cosine(a, b):
    return np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize(
    "model",
    [
        CPRegressor(2),
        CPRegressor(2, alpha_l1=1e-4),
        TuckerRegressor(2),
        HRTRRRegressor(2, alpha_ridge=1e-3),
        ORTRRRegressor(),
    ],
    ids=lambda m: type(m).__name__,
)
def test_planted_tensor_is_recovered_from_fewer_samples_than_entries(model):
    X, y, _, coef = _planted(100)
    model.fit(X, y)
    assert X.shape[0] < coef.size
    assert _cosine(model.coef_, coef) > 0.98
    assert model.intercept_ == pytest.approx(2.0, abs=0.1)
    path = np.array(model.deviance_path_)
    assert np.all(np.diff(path) <= 1e-9 * path[0])
    assert model.n_iter_ == len(path)


def test_factors_rebuild_the_coefficient():
    X, y, _, _ = _planted(100)
    X, y = 7.0 * X + 3.0, 0.2 * y
    cp, tucker = CPRegressor(2).fit(X, y), TuckerRegressor((2, 2, 2)).fit(X, y)
    np.testing.assert_allclose(cp_to_tensor(cp.factors_), cp.coef_)
    rebuilt = Tucker([f[None] for f in tucker.factors_], tucker.core_[None]).coef()
    np.testing.assert_allclose(rebuilt[0], tucker.coef_)


@pytest.mark.parametrize("model", [CPRegressor(2), TuckerRegressor(2)])
def test_fit_does_not_depend_on_units(model):
    X, y, _, _ = _planted(100)
    plain = model.fit(X, y).predict(X)
    scaled = model.fit(1e3 * X - 5.0, 1e-2 * y).predict(1e3 * X - 5.0)
    np.testing.assert_allclose(scaled, 1e-2 * plain, rtol=1e-6)


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_agrees_with_tensorly_at_the_optimum(kind):
    X, _, eta, _ = _planted(200)
    X = X / np.sqrt(np.mean(X**2))
    y = eta / np.sqrt(np.mean(eta**2))
    how = {"fit_intercept": False, "alpha_ridge": 0.01, "tol": 1e-13, "max_iter": 3000}
    their = {"reg_W": 2.0, "tol": 1e-13, "n_iter_max": 3000, "verbose": 0}
    if kind == "cp":
        ours = CPRegressor(2, **how).fit(X, y)
        other = tensorly.CPRegressor(2, random_state=0, **their).fit(X, y)
        blocks = other.cp_weight_[1]
    else:
        ours = TuckerRegressor(2, **how).fit(X, y)
        other = tensorly.TuckerRegressor([2, 2, 2], random_state=0, **their).fit(X, y)
        blocks = [other.tucker_weight_[0], *other.tucker_weight_[1]]
    objective = np.sum((y - other.predict(X)) ** 2)
    objective += 2.0 * sum(np.sum(block**2) for block in blocks)
    assert ours.deviance_path_[-1] == pytest.approx(objective, rel=1e-5)
    np.testing.assert_allclose(ours.predict(X), other.predict(X), atol=5e-3)


def test_one_mode_is_ridge_regression():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 8)), rng.standard_normal(50)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    alpha = 0.3 * 50 * np.mean(Xc**2)
    reference = Ridge(alpha=alpha).fit(X, y)
    model = CPRegressor(1, alpha_ridge=0.3).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-10)
    assert model.intercept_ == pytest.approx(reference.intercept_)
    assert model.deviance_ == pytest.approx(np.sum((reference.predict(X) - y) ** 2))
    assert yc.shape == (50,)


def test_one_mode_logistic_ridge_is_scikit_learns():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 5))
    y = np.where(X[:, 0] + rng.logistic(size=80) > 0, "b", "a")
    unit = np.mean((X - X.mean(axis=0)) ** 2)
    # dev + n·α·s²‖b‖² is twice scikit-learn's loss with C = 1/(n·α·s²).
    reference = LogisticRegression(C=1.0 / (80 * 0.05 * unit), tol=1e-10).fit(X, y)
    model = CPClassifier(1, alpha_ridge=0.05, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_[0], atol=1e-5)
    np.testing.assert_allclose(
        model.predict_proba(X), reference.predict_proba(X), atol=1e-5
    )
    assert list(model.predict(X)) == list(reference.predict(X))


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_one_mode_glm_with_covariates_and_weights_is_statsmodels(family):
    rng = np.random.default_rng(2)
    X, Z = rng.standard_normal((90, 4)) + 1.0, rng.standard_normal((90, 2))
    eta = 0.5 * X[:, 0] - 0.5 * Z[:, 1] - 0.3
    if family == "binomial":
        y = (eta + rng.logistic(size=90) > 0).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    weight = rng.integers(0, 3, 90).astype(float)
    model = CPRegressor(1, family=family, alpha_ridge=0.0, tol=1e-13)
    model.fit(X, y, sample_weight=weight, covariates=Z)
    kind = {"binomial": sm.families.Binomial, "poisson": sm.families.Poisson}[family]
    design = np.column_stack([np.ones(90), Z, X])
    reference = sm.GLM(y, design, family=kind(), freq_weights=weight).fit(tol=1e-13)
    found = np.concatenate([[model.intercept_], model.covariate_coef_, model.coef_])
    np.testing.assert_allclose(found, reference.params, atol=1e-5)
    np.testing.assert_allclose(
        model.predict(X, Z), reference.predict(design), rtol=1e-4
    )
    assert model.deviance_ == pytest.approx(reference.deviance, rel=1e-8)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("kind", [CPRegressor, TuckerRegressor])
def test_planted_tensor_is_found_in_other_families(family, kind):
    X, _, eta, coef = _planted(600)
    rng = np.random.default_rng(3)
    if family == "binomial":
        y = (2.0 * eta + rng.logistic(size=600) > 0).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    model = kind(2, family=family).fit(X, y)
    assert _cosine(model.coef_, coef) > 0.9
    mean = model.predict(X)
    assert mean.min() >= 0.0
    assert np.corrcoef(mean, y)[0, 1] > 0.5


@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_weights_are_repetitions_and_covariates_follow(family):
    X, y, eta, _ = _planted(150)
    Z = np.cos(np.arange(150.0))
    y = y + Z if family == "normal" else np.round(np.exp(eta))
    times = np.arange(150) % 3
    repeated = np.repeat(np.arange(150), times)
    model = CPRegressor(2, family=family, tol=1e-6)
    weighted = model.fit(X, y, sample_weight=times, covariates=Z).predict(X, Z)
    again = model.fit(X[repeated], y[repeated], covariates=Z[repeated]).predict(X, Z)
    np.testing.assert_allclose(weighted, again, rtol=1e-4, atol=1e-5)


def test_covariate_effect_is_found():
    X, y, _, coef = _planted(150)
    Z = np.random.default_rng(5).standard_normal((150, 2))
    model = TuckerRegressor(2).fit(X, y + Z @ [3.0, -1.0], covariates=Z)
    np.testing.assert_allclose(model.covariate_coef_, [3.0, -1.0], atol=0.1)
    assert _cosine(model.coef_, coef) > 0.98
    with pytest.raises(ValueError, match="covariates of shape"):
        model.predict(X)
    with pytest.raises(ValueError, match="covariates of shape"):
        model.fit(X, y, covariates=Z[:10])


def test_bic_picks_the_true_rank():
    X, y, _, _ = _planted(300)
    assert CPRegressor("bic", ranks=(1, 2, 3, 4)).fit(X, y).rank_ == 2
    assert TuckerRegressor("bic").fit(X, y).ranks_ == (2, 2, 2)


@pytest.mark.parametrize("model", [CPRegressor(), TuckerRegressor()], ids=str)
@pytest.mark.parametrize("family", ["normal", "poisson"])
def test_bic_counts_samples_whatever_their_weights_sum_to(model, family):
    X, y, eta, _ = _planted(300)
    y = np.random.default_rng(1).poisson(np.exp(eta)) if family == "poisson" else y
    model.set_params(family=family).fit(X, y)
    assert model.coef_.any()
    chosen, expected, deviance = model.coef_, model.bic_, model.deviance_
    model.fit(X, y, sample_weight=np.full(300, 1.0 / 300.0))
    np.testing.assert_allclose(model.coef_, chosen, rtol=1e-6)
    assert model.bic_ == pytest.approx(expected)
    assert model.deviance_ == pytest.approx(deviance / 300.0)


@pytest.mark.parametrize("model", [CPRegressor(), TuckerRegressor()], ids=str)
def test_bic_takes_whole_weights_for_repeated_samples(model):
    X, y, _, _ = _planted(100, noise=0.5)
    times = np.arange(100) % 3
    weighted = model.fit(X, y, sample_weight=times)
    coef, bic = weighted.coef_, weighted.bic_
    repeated = model.fit(X.repeat(times, 0), y.repeat(times))
    np.testing.assert_allclose(coef, repeated.coef_, atol=1e-6)
    assert bic == pytest.approx(repeated.bic_)


def test_bic_formula():
    X, y, _, _ = _planted(300)
    model = CPRegressor(2).fit(X, y)
    rss = np.sum((y - model.predict(X)) ** 2)
    expected = 300 * np.log(rss / 300) + np.log(300) * (2 * (6 + 5 + 4 - 3 + 1) + 1)
    assert model.bic_ == pytest.approx(expected)


def test_candidate_ranks_are_possible_ranks():
    for shape in [(5,), (4, 4), (6, 2, 5), (3, 3, 3, 3)]:
        for ranks in candidate_ranks(shape):
            assert all(r <= p for r, p in zip(ranks, shape, strict=True))
            assert all(r * r <= np.prod(ranks) for r in ranks)
    assert candidate_ranks((5,)) == [(1,)]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (CPRegressorCV((1, 2), alphas_ridge=(1e-3, 1.0), cv=3), "rank"),
        (TuckerRegressorCV((1, 2), alphas_ridge=(1e-3, 1.0), cv=3), "ranks"),
    ],
    ids=["cp", "tucker"],
)
def test_cross_validation_finds_rank_and_weak_ridge(model, name):
    X, y, _, coef = _planted(120)
    model.fit(X, y)
    assert np.all(np.atleast_1d(getattr(model, f"{name}_")) == 2)
    assert model.alpha_ridge_ == 1e-3
    assert _cosine(model.coef_, coef) > 0.98
    table = model.cv_results_
    best = int(np.argmax(table["mean_test_score"]))
    assert table["params"][best][name] == getattr(model, f"{name}_")
    assert model.best_score_ == table["mean_test_score"][best]
    with parallel_config(backend="threading"):  # processes take seconds to start
        parallel = model.set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        parallel.cv_results_["mean_test_score"], table["mean_test_score"]
    )


def test_cross_validation_takes_any_scorer_and_the_simpler_rule():
    X, y, _, _ = _planted(80)
    model = CPRegressorCV((1, 2, 3), alphas_ridge=(1e-3, 1e-2), cv=3)
    fast = model.set_params(scoring="neg_mean_absolute_error").fit(X, y)
    means = fast.cv_results_["mean_test_score"]
    slow = model.set_params(scoring="neg_median_absolute_error").fit(X, y)
    assert slow.cv_results_["mean_test_score"].shape == means.shape
    model.set_params(scoring=None)
    best, simple = model.fit(X, y).rank_, model.set_params(rule="1se").fit(X, y).rank_
    assert simple <= best


def test_ortrr_prunes_six_components_to_two():
    X, y, _, _ = _planted(200)
    model = ORTRRRegressor(max_rank=6).fit(X, y)
    assert model.rank_ == 2
    assert all(factor.shape[1] == 2 for factor in model.factors_)


def test_sparse_factors_have_zeros():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((150, 8, 8))
    y = X[:, :2, :2].sum(axis=(1, 2)) + 0.1 * rng.standard_normal(150)
    dense = CPRegressor(1).fit(X, y)
    sparse = CPRegressor(1, alpha_l1=0.02).fit(X, y)
    assert np.count_nonzero(dense.coef_) == 64
    assert np.count_nonzero(sparse.coef_) <= 9
    assert sparse.score(X, y) > 0.98


def test_covariates_follow_new_samples_to_their_library():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(60, 4, 3)), rng.normal(size=(60, 2))
    y = X[:, 0, 0] + Z @ [3.0, -1.0] + 0.1 * rng.normal(size=60)
    there = [torch.asarray(values) for values in (X, y, Z)]
    expected = TuckerRegressor(1).fit(X, y, covariates=Z).predict(X, Z)
    model = TuckerRegressor(1).fit(there[0], there[1], covariates=there[2])
    for samples, given in ((X, Z), (there[0].float(), there[2].float())):
        found = model.predict(samples, given)
        assert type(found) is type(samples)
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (CPRegressor(0), "rank=0"),
        (CPRegressor(-1), "rank=-1"),
        (CPRegressor(2.5), "rank=2.5"),
        (CPRegressor(21), "at most 20"),
        (CPRegressor("cv"), "CPRegressorCV"),
        (CPRegressor(ranks=()), r"ranks=\(\) .*at least one"),
        (CPRegressor(ranks=2), r"ranks=2 .*write \[2\]"),
        (CPRegressor(ranks=(0, 1)), "ranks=0"),
        (CPRegressor(family="gamma"), "family='gamma'"),
        (CPRegressor(family=["normal"]), r"family=\['normal'\]"),
        (CPRegressor(2, alpha_ridge=-1.0), "alpha_ridge"),
        (CPRegressor(2, alpha_ridge=1e308), r"alpha_ridge=1e\+308 .*at most 1e\+15"),
        (CPRegressor(2, alpha_l1=1e200), "alpha_l1"),
        (TuckerRegressorCV(alphas_ridge=[1e40]), "an entry of alphas_ridge"),
        (CPRegressor(2, n_restarts=0), "n_restarts=0"),
        (CPRegressor(8, alpha_ridge=0.0), "alpha_ridge > 0"),
        (CPRegressor(1, family="binomial"), "0 and 1"),
        (CPRegressor(1, family="poisson"), "counts"),
        (TuckerRegressor((2, 2)), "one rank for each mode"),
        (TuckerRegressor((2, 6, 2)), "mode 1=6"),
        (TuckerRegressor(0), "mode 0=0"),
        (TuckerRegressor("cv"), "TuckerRegressorCV"),
        (TuckerRegressor(candidates=()), "at least one"),
        (HRTRRRegressor("bic"), "rank='bic'"),
        (ORTRRRegressor(max_rank=0), "max_rank=0"),
        (ORTRRRegressor(beta=0.0), "beta=0"),
        (CPRegressorCV(alphas_ridge=()), r"alphas_ridge=\(\) .*at least one"),
        (CPRegressorCV(alphas_ridge=0.1), r"alphas_ridge=0.1 .*write \[0.1\]"),
        (CPRegressorCV(ranks=2), r"ranks=2 .*write \[2\]"),
        (TuckerRegressorCV(candidates=2), r"candidates=2 .*write \[2\]"),
        (CPRegressorCV(family="poisson"), "counts"),
    ],
    ids=str,
)
def test_bad_input_is_refused_with_what_to_do(model, match):
    X, y, _, _ = _planted(40)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y - y.mean())


def test_classifier_refuses_other_than_two_classes():
    X, _, _, _ = _planted(40)
    with pytest.raises(ValueError, match="Only binary"):
        CPClassifier(1).fit(X, np.arange(40) % 3)
    with pytest.raises(ValueError, match="one class"):
        CPClassifier(1).fit(X, np.zeros(40, dtype=int))


@pytest.mark.parametrize("max_iter", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        CPRegressor(2),
        CPClassifier(2),
        TuckerRegressor(2),
        HRTRRRegressor(2),
        ORTRRRegressor(2),
        CPRegressorCV((2,), cv=2),
        TuckerRegressorCV((2,), cv=2),
    ],
    ids=lambda m: type(m).__name__,
)
def test_exhausted_budget_warns_the_caller_with_what_to_do(model, max_iter):
    X, y, _, _ = _planted(100)
    y = y > 2.0 if isinstance(model, CPClassifier) else y
    with pytest.warns(ConvergenceWarning, match="Raise max_iter") as caught:
        model.set_params(tol=0.0, max_iter=max_iter).fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}


def test_constant_response_gives_a_zero_coefficient():
    X, _, _, _ = _planted(40)
    for model in (CPRegressor(2), TuckerRegressor(2), ORTRRRegressor()):
        model.fit(X, np.full(40, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)


def test_large_counts_are_fitted():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((100, 4, 3))
    y = rng.poisson(np.exp(0.3 * X[:, 0, 0] + 18.0))
    model = CPRegressor(1, family="poisson", alpha_ridge=0.0).fit(X, y)
    assert model.intercept_ == pytest.approx(18.0, abs=1e-3)
    assert model.coef_[0, 0] == pytest.approx(0.3, abs=1e-3)


def test_given_folds_count_samples_of_weight_zero():
    X, y, _, _ = _planted(90)
    weight = (np.arange(90) % 5 > 0).astype(float)
    rows = np.arange(90)
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    kept = np.flatnonzero(weight)
    place = {row: i for i, row in enumerate(kept)}
    kept_folds = [
        tuple(np.array([place[r] for r in part if r in place]) for part in fold)
        for fold in folds
    ]
    how = {"ranks": (1, 2), "alphas_ridge": (1e-2,)}
    weighted = CPRegressorCV(**how, cv=folds).fit(X, y, sample_weight=weight)
    dropped = CPRegressorCV(**how, cv=kept_folds).fit(X[kept], y[kept])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"],
        dropped.cv_results_["mean_test_score"],
    )
    np.testing.assert_allclose(weighted.coef_, dropped.coef_)


def test_cross_validation_of_labels_ranks_by_auc():
    X, _, eta, coef = _planted(150, shape=(5, 4))
    y = (eta > 0).astype(float)
    model = CPRegressorCV((1, 2), family="binomial", scoring="roc_auc", cv=3)
    model.fit(X, y)
    assert model.best_score_ > 0.9
    assert _cosine(model.coef_, coef) > 0.9
