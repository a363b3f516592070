"""SLTR by likelihood: labels and counts."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, log_loss
from sklearn.model_selection import GridSearchCV, KFold

import sltr
from sltr.core.estimate import absolute_radii
from sltr.core.families import FAMILIES
from sltr.estimators.fitted import scores_with_covariates
from sltr.samples.check import check_samples
from sltr.tuning.candidates import Candidate, grid_about
from sltr.tuning.folds import Folds
from sltr.tuning.likelihood import working_responses
from sltr.tuning.policy import DEFAULT
from sltr.tuning.search import search

SHAPE = (6, 5)
BARE = {"epsilon": 2.0, "lambda_sparse": 0.0, "lambda_low": 0.0}


def drawn(kind, n, rng, shape=SHAPE):
    """Return samples, responses and the linear predictors of a block of ones."""
    X = rng.normal(size=(n, *shape)) + 1.0
    eta = (X - 1.0)[:, :3, :2].sum(axis=(1, 2))
    if kind == "poisson":
        return X, rng.poisson(np.exp(0.4 * eta)).astype(float), 0.4 * eta
    if kind == "binomial":
        share = 1.0 / (1.0 + np.exp(-eta))
        return X, np.where(rng.random(n) < share, "yes", "no"), eta
    etas = np.stack([eta, -eta, X[:, 4, 4] - 1.0], axis=1)
    labels = (etas + rng.gumbel(size=etas.shape)).argmax(axis=1)
    return X, np.array(["a", "b", "c"])[labels], etas


def model_of(kind, tuned=False, **options):
    if kind == "poisson":
        made = sltr.SLTRRegressorCV if tuned else sltr.SLTRRegressor
    else:
        made = sltr.SLTRClassifierCV if tuned else sltr.SLTRClassifier
    return made(family=kind, **options)


KINDS = ["binomial", "poisson", "multinomial"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [25, 90])  # fewer and more than entries
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_radii_of_zero_leave_the_penalised_likelihood(kind, n, fit_intercept, rng):
    X, y, _ = drawn(kind, n, rng)
    rows, weight = X.reshape(n, -1), rng.uniform(0.5, 2.0, n)
    model = model_of(kind, fit_intercept=fit_intercept, **BARE)
    model.fit(X, y, sample_weight=weight)
    exact = {"tol": 1e-9, "max_iter": 10_000, "fit_intercept": fit_intercept}
    if kind == "poisson":
        other = PoissonRegressor(alpha=2.0 / weight.sum(), **exact)
        other.fit(rows, y, sample_weight=weight)
        expected, found = other.predict(rows), model.predict(X)
    else:
        other = LogisticRegression(C=0.5, **exact)
        other.fit(rows, y, sample_weight=weight)
        expected, found = other.predict_proba(rows), model.predict_proba(X)
        assert (model.predict(X) == other.predict(rows)).all()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    assert model.pilot_residual_ < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_problem_is_solved_about_the_likelihoods_pilot(kind, rng):
    X, y, _ = drawn(kind, 40, rng)
    radii = {"lambda_sparse": 0.3, "lambda_low": 0.4}
    model = model_of(kind, epsilon=1.0, tol=1e-8, **radii).fit(X, y)
    pilots = model.pilot_ if kind == "multinomial" else model.pilot_[None]
    coefs = model.coef_ if kind == "multinomial" else model.coef_[None]
    for pilot, coef in zip(pilots, coefs, strict=True):
        found = absolute_radii(
            pilot[None], np.array([0.3]), np.array([0.4]), "relative"
        )
        sparse, low = (float(np.ravel(radius)[0]) for radius in found)
        expected = sltr.estimate(pilot, sparse, low, tol=1e-8).coef
        np.testing.assert_allclose(coef, expected, atol=1e-6 * np.abs(pilot).max())
    assert model.dual_gap_ <= 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tuned", [False, True])
def test_intercept_and_covariates_are_most_likely_for_the_coefficient(kind, tuned, rng):
    X, y, _ = drawn(kind, 60, rng)
    weight, Z = rng.uniform(0.5, 2.0, 60), rng.normal(size=(60, 2))
    options = {"refine": (None, "cp"), "cv": 3} if tuned else {"lambda_sparse": 0.5}
    model = model_of(kind, tuned, **options)
    model.fit(X, y, sample_weight=weight, covariates=Z)
    mean = FAMILIES[kind].mean(scores_with_covariates(model, X, Z).reshape(60, -1))
    Y = y[:, None]
    if kind != "poisson":
        Y = (model.classes_ == Y).astype(float)[:, -mean.shape[1] :]
    excess = weight[:, None] * (Y - mean)
    assert np.abs(excess.sum(axis=0)).max() < 1e-6 * weight.sum()
    assert np.abs(Z.T @ excess).max() < 1e-6 * weight.sum()


def test_swapped_labels_swap_probabilities(rng):
    X, y, _ = drawn("binomial", 50, rng)
    # Stratified folds would depend on the order of the labels.
    options = {"refine": (None, "cp"), "cv": list(KFold(3).split(X))}
    model = model_of("binomial", True, **options).fit(X, y)
    swapped = model_of("binomial", True, **options).fit(
        X, np.where(y == "yes", "no", "yes")
    )
    ours, theirs = model.predict_proba(X), swapped.predict_proba(X)
    np.testing.assert_allclose(ours, theirs[:, ::-1], atol=1e-4)


def test_the_order_of_classes_does_not_matter(rng):
    X, y, _ = drawn("multinomial", 50, rng)
    names = {"a": "z", "b": "y", "c": "x"}
    model = model_of("multinomial", epsilon=1.0).fit(X, y)
    other = model_of("multinomial", epsilon=1.0).fit(X, [names[c] for c in y])
    ours, theirs = model.predict_proba(X), other.predict_proba(X)
    np.testing.assert_allclose(ours, theirs[:, ::-1], atol=1e-4)


def test_two_classes_are_binomial_by_either_name(rng):
    X, y, _ = drawn("binomial", 50, rng)
    found = [model_of(kind).fit(X, y).predict_proba(X) for kind in KINDS[::2]]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_samples_do_not_matter(kind, rng):
    X, y, _ = drawn(kind, 50, rng)
    models = [model_of(kind).fit(unit * X, y) for unit in (1.0, 100.0)]
    np.testing.assert_allclose(
        models[1].coef_ * 100.0, models[0].coef_, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_weight_counts_as_equal_samples(kind, rng):
    X, y, _ = drawn(kind, 40, rng)
    times = rng.integers(1, 4, 40)
    weighted = model_of(kind, epsilon=2.0).fit(X, y, sample_weight=times)
    repeated = model_of(kind, epsilon=2.0).fit(np.repeat(X, times, 0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_working_responses_know_nothing_of_samples_left_out(kind, rng):
    X, y, _ = drawn(kind, 40, rng)
    model = model_of(kind, True)
    other = y.copy()
    other[:10] = y[:10][::-1] if kind != "poisson" else 50.0
    found = []
    for labels in (y, other):
        Y = labels[:, None]
        if kind != "poisson":
            Y = (np.unique(y) == Y).astype(float)[:, -1 if kind == "binomial" else 0 :]
        task = model._task(check_samples(model, X, Y[:, 0]), Y)
        training = (np.arange(40) >= 10)[None]
        found.append((working_responses(task, training, 1.0), task))
    assert (found[0][1].Y != found[1][1].Y).any()
    first, second = (working for working, _ in found)
    np.testing.assert_array_equal(first.Y[:, 10:], second.Y[:, 10:])
    np.testing.assert_array_equal(first.weight, second.weight)


@pytest.mark.parametrize("seed", range(4))
def test_candidates_of_a_fold_do_not_depend_on_the_responses_it_leaves_out(seed):
    X, y, _ = drawn("poisson", 40, np.random.default_rng(seed))
    model, held = model_of("poisson", True), []
    splits = [(np.arange(10, 40), np.arange(10)), (np.arange(30), np.arange(30, 40))]
    for responses in (y, np.r_[y[:10] + 5.0, y[10:]]):
        samples = check_samples(model, X, responses)
        task = model._task(samples, responses[:, None])
        folds = Folds.of(task, splits)
        found = search(task, folds, grid_about(Candidate(1.0, 0.3, 0.3), "cp"))
        # Later ranks are tried or not by the errors of all folds.
        first = next(iter(found.predictions.values()))[0]
        held.append(first + folds.baseline[0])
    assert np.ptp(held[0]) > 0
    # Single precision rounds about the mean of all responses.
    np.testing.assert_allclose(*held, atol=1e-5)


def test_working_responses_give_the_pilot_back(rng):
    """A reweighted step from the optimum ends there."""
    X, y, _ = drawn("poisson", 30, rng)
    model = model_of("poisson", True, standardize=None)
    task = model._task(check_samples(model, X, y), y[:, None])
    working = working_responses(task, task.everyone, 2.0)
    z, v = working.Y[0, :, 0], working.weight[0, :, 0]
    rows = X.reshape(30, -1)
    other = PoissonRegressor(alpha=2.0 / 30, tol=1e-10, max_iter=10_000).fit(rows, y)
    # Weights are means up to a factor, which the penalty has to take too.
    factor = v.sum() / other.predict(rows).sum()
    A = rows - v @ rows / v.sum()
    coef = np.linalg.solve(
        A.T @ (v[:, None] * A) + 2.0 * factor * np.eye(A.shape[1]), A.T @ (v * z)
    )
    fitted = A @ coef + v @ z / v.sum()
    np.testing.assert_allclose(np.exp(fitted), other.predict(rows), rtol=1e-4)


def test_counts_are_found_where_least_squares_finds_little(rng):
    X, y, eta = drawn("poisson", 1100, rng, (8, 8))
    train, test = slice(0, 100), slice(100, None)
    model = model_of("poisson", True).fit(X[train], y[train])
    squares = sltr.SLTRRegressorCV().fit(X[train], y[train])
    assert (model.predict(X[test]) > 0).all()
    best = d2_tweedie_score(y[test], np.exp(eta[test]), power=1)
    assert model.score(X[test], y[test]) == pytest.approx(
        d2_tweedie_score(y[test], model.predict(X[test]), power=1)
    )
    assert model.score(X[test], y[test]) > 0.8 * best
    least = np.clip(squares.predict(X[test]), 0.01, None)
    assert d2_tweedie_score(y[test], least, power=1) < 0.8 * best
    assert model.scored_by_ == "d2"
    assert 0.0 == model.null_score_ < model.best_score_


def test_probabilities_of_classes_beat_the_null_model(rng):
    X, y, _ = drawn("multinomial", 700, rng)
    model = model_of("multinomial", True, refine=(None, "cp")).fit(X[:150], y[:150])
    share = model.predict_proba(X[150:])
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    prior = np.array([np.mean(y[:150] == c) for c in model.classes_])
    null = log_loss(y[150:], np.tile(prior, (550, 1)))
    assert log_loss(y[150:], share) < 0.9 * null


def test_reweighting_lowers_the_held_out_deviance(rng):
    X, y, _ = drawn("poisson", 90, rng)
    scores = []
    for reweightings in (0, 3):
        policy = replace(DEFAULT, reweightings=reweightings)
        made = type("Tuned", (sltr.SLTRRegressorCV,), {"_policy": policy})
        model = made(family="poisson", refine=(None, "cp"), cv=3).fit(X, y)
        scores.append(model.held_out_scores_["d2"].mean())
    assert scores[1] > scores[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tuned", [False, True])
def test_models_are_saved_cloned_and_summarised(kind, tuned, rng, tmp_path):
    X, y, _ = drawn(kind, 40, rng)
    options = {"refine": None, "cv": 3} if tuned else {}
    model = clone(model_of(kind, tuned, **options)).fit(X, y)
    sltr.save(model, tmp_path / "model.sltr")
    loaded = sltr.load(tmp_path / "model.sltr")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.pilot_residual_ == model.pilot_residual_
    assert f"{kind}; relative gradient" in str(model.summary())


def test_grid_search_scores_by_the_deviance(rng):
    X, y, _ = drawn("poisson", 60, rng)
    grid = {"epsilon": [1e-2, 10.0, 1e6]}
    tuned = GridSearchCV(model_of("poisson"), grid, cv=4).fit(X, y)
    assert tuned.best_params_ == {"epsilon": 10.0}
    assert tuned.cv_results_["mean_test_score"][2] == pytest.approx(0.0, abs=0.2)


def test_single_samples_left_out_are_scored_by_their_deviance(rng):
    X, y, _ = drawn("poisson", 16, rng)
    model = model_of("poisson", True, refine=None, cv=16).fit(X, y)
    assert model.scored_by_ == "neg_mean_deviance"
    assert list(model.held_out_scores_) == ["neg_mean_deviance"]


def test_single_precision_gives_nearly_the_same(rng):
    X, y, _ = drawn("poisson", 40, rng)
    models = [
        model_of("poisson", epsilon=2.0).fit(X.astype(dtype), y)
        for dtype in ("float64", "float32")
    ]
    assert models[1].coef_.dtype == np.float32
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (sltr.SLTRRegressor(family="gamma"), "'poisson'"),
        (sltr.SLTRRegressor(family="binomial"), "'poisson'"),
        (sltr.SLTRClassifier(family="poisson"), "'binomial', 'multinomial'"),
        (sltr.SLTRClassifier(family="binomial"), "'multinomial' for 3 classes"),
        (sltr.SLTRClassifier(family="multinomial", refine="scale"), "no 'scale'"),
        (sltr.SLTRClassifier(family="multinomial", responses="shared"), "'separate'"),
        (sltr.SLTRClassifier(family="multinomial", epsilon=0.0), "positive"),
        (sltr.SLTRClassifierCV(family="multinomial", epsilons=(0.0, 1.0)), "positive"),
    ],
)
def test_what_makes_no_sense_is_refused(model, words, rng):
    X, y, _ = drawn("multinomial", 40, rng)
    if isinstance(model, sltr.SLTRRegressor):
        y = np.ones(40)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)


def test_what_is_not_a_count_is_refused(rng):
    X, y, _ = drawn("poisson", 30, rng)
    model = model_of("poisson")
    with pytest.raises(ValueError, match="response of -1; expected counts"):
        model.fit(X, y - y.max() + (y.max() - y.min() - 1.0))
    with pytest.raises(ValueError, match="all 0"):
        model.fit(X, 0.0 * y)
    with pytest.raises(ValueError, match=r"\(30, 2\)"):
        model.fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.fit(X, np.where(y > 0, np.inf, y))
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(X, y)
    assert "all samples again" in str(caught.value.__cause__)


def test_samples_in_a_file_are_refused(rng, tmp_path, samples_stay):
    zarr = pytest.importorskip("zarr")
    X, y, _ = drawn("poisson", 30, rng)
    stored = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, dtype="f8")
    stored[:] = X
    with pytest.raises(ValueError, match="stay in a file"):
        model_of("poisson", memory_limit="1MB").fit(stored, y)


def test_devices_keep_the_coefficient(foreign, rng):
    if foreign.name == "array-api-strict":
        pytest.skip("samples are NumPy's or a device's")
    X, y, _ = drawn("poisson", 30, rng)
    model = model_of("poisson", **BARE)
    expected = clone(model).fit(X, y).coef_
    found = model.fit(foreign.array(X), foreign.array(y))
    np.testing.assert_allclose(foreign.numpy(found.coef_), expected, atol=1e-7)
    assert foreign.numpy(found.predict(foreign.array(X))).shape == (30,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("refine", [("reweight", 4), ("sparse", 0.1)])
def test_whole_weights_are_repetitions_in_refits(kind, refine, rng):
    X, y, _ = drawn(kind, 12, rng)
    counts = rng.integers(1, 4, 12)
    rows = np.repeat(np.arange(12), counts)
    model = model_of(kind, epsilon=1.0, refine=refine)
    weighted = clone(model).fit(X, y, sample_weight=counts.astype(float))
    repeated = clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4, atol=1e-5)


def test_refits_that_are_no_word_are_refused_beside_a_family(rng):
    X, y, _ = drawn("binomial", 25, rng)
    with pytest.raises(ValueError, match="refine=inf was given"):
        model_of("binomial", refine=float("inf")).fit(X, y)


def test_a_fold_whose_counts_the_null_model_knows_has_a_score(rng):
    X = rng.normal(size=(12, 3, 2))
    y = np.array([0, 2] * 5 + [1, 1])  # the mean of the first ten is one
    folds = [(np.arange(10), np.array([10, 11])), (np.arange(2, 12), np.array([0, 1]))]
    model = sltr.SLTRRegressorCV(
        family="poisson", refine=(None,), cv=folds, lambdas_sparse=(0.0, 1.0)
    ).fit(X, y)
    scores = model.cv_results_["split0_test_score"]
    assert set(scores) <= {0.0, 1.0}
