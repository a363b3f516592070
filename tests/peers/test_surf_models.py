import numpy as np
import pytest
from problems import draw
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_absolute_error

from sltr.peers.surf import SURFRegressor, SURFRegressorCV

SMALL_CV = {"epsilons": (0.03,), "alphas": (0.0, 1.0), "stops": (0.0, 0.3), "cv": 3}


def planted(rng, n=120, shape=(6, 5, 4), noise=0.2):
    coef = np.zeros(shape)
    coef[0, :2, 1] = 1.0
    coef[3, 4, 2:] = -1.5
    return *draw(rng, coef, n, noise=noise, mean=3.0, offset=7.0), coef


@pytest.mark.parametrize(
    "model", [SURFRegressor(2, alpha=0.0), SURFRegressorCV(3, **SMALL_CV)]
)
def test_planted_terms_are_found(rng, model):
    X, y, coef = planted(rng)
    model.fit(X, y)
    assert np.linalg.norm(model.coef_ - coef) < 0.25 * np.linalg.norm(coef)
    assert model.predict(X).mean() == pytest.approx(y.mean())
    rebuilt = np.einsum("r,ir,jr,kr->ijk", model.scales_, *model.factors_)
    np.testing.assert_allclose(rebuilt, model.coef_)


@pytest.mark.parametrize("model", [SURFRegressor(2), SURFRegressorCV(2, **SMALL_CV)])
def test_scales_of_X_and_y_do_not_matter(rng, model):
    X, y, _ = planted(rng)
    coef = model.fit(X, y).coef_
    np.testing.assert_allclose(model.fit(X * 1e3, y * 1e-2).coef_, coef * 1e-5)


def test_winner_refitted_is_the_plain_estimator(rng):
    X, y, _ = planted(rng)
    cv = SURFRegressorCV(3, **SMALL_CV).fit(X, y)
    plain = SURFRegressor(
        cv.n_components_, epsilon=cv.epsilon_, alpha=cv.alpha_, stop=cv.stop_
    ).fit(X, y)
    np.testing.assert_array_equal(cv.coef_, plain.coef_)
    assert cv.best_score_ == cv.cv_results_["mean_test_score"].max()
    assert len(cv.cv_results_["params"]) == 3 * 1 * 2 * 2


def test_cv_scores_are_those_of_fits_on_the_folds(rng):
    X, y, _ = planted(rng, n=60)
    train, test = np.arange(40), np.arange(40, 60)
    cv = SURFRegressorCV(2, **{**SMALL_CV, "cv": [(train, test)]}).fit(X, y)
    for params, score in zip(
        cv.cv_results_["params"], cv.cv_results_["split0_test_score"], strict=True
    ):
        alone = SURFRegressor(**params).fit(X[train], y[train])
        assert score == pytest.approx(alone.score(X[test], y[test]))


def test_any_scorer_serves(rng):
    X, y, _ = planted(rng, n=60)

    def scorer(model, X, y, sample_weight=None):
        return -mean_absolute_error(y, model.predict(X), sample_weight=sample_weight)

    named = SURFRegressorCV(2, scoring="neg_mean_absolute_error", **SMALL_CV).fit(X, y)
    called = SURFRegressorCV(
        2, scoring=scorer, feature_shape=(6, 5, 4), **SMALL_CV
    ).fit(X.reshape(60, -1), y)
    assert called.best_score_ == pytest.approx(named.best_score_)


def test_one_standard_error_rule_takes_no_more_terms(rng):
    X, y, _ = planted(rng, noise=3.0)
    best = SURFRegressorCV(4, **SMALL_CV).fit(X, y)
    simple = SURFRegressorCV(4, rule="1se", **SMALL_CV).fit(X, y)
    assert simple.n_components_ <= best.n_components_


def test_constant_response_gives_the_null_model(rng):
    X = rng.standard_normal((20, 4, 3))
    model = SURFRegressor().fit(X, np.full(20, 5.0))
    assert not model.coef_.any()
    np.testing.assert_allclose(model.predict(X), 5.0)
    assert model.n_iter_ == 0


def test_too_few_steps_warn(rng):
    X, y, _ = planted(rng)
    with pytest.warns(ConvergenceWarning, match="Increase max_steps") as caught:
        SURFRegressor(1, max_steps=2).fit(X, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": 1.5}, "n_components=1.5"),
        ({"epsilon": 0.0}, "epsilon=0"),
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": 1e308}, "epsilon=1e.308 .*at most"),
        ({"xi": -1.0}, "xi=-1.0"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"alpha": 1e308}, "alpha=1e.308"),
        ({"stop": 1.5}, "stop=1.5"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"feature_shape": (7, 5)}, "feature_shape"),
    ],
)
def test_bad_parameters_are_named(rng, params, match):
    X, y, _ = planted(rng, n=10)
    with pytest.raises(ValueError, match=match):
        SURFRegressor(**params).fit(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_components": 0}, "n_components=0"),
        ({"epsilons": ()}, r"epsilons=\(\) .*at least one"),
        ({"epsilons": 0.1}, r"epsilons=0.1 .*write \[0.1\]"),
        ({"alphas": 0.1}, r"alphas=0.1 .*write \[0.1\]"),
        ({"stops": 0.1}, r"stops=0.1 .*write \[0.1\]"),
        ({"epsilons": (0.03, 0.0)}, "epsilon=0"),
        ({"stops": (2.0,)}, "stop=2.0"),
        ({"rule": "worst"}, "rule='worst'"),
        ({"max_steps": -1}, "max_steps=-1"),
    ],
)
def test_bad_grids_are_named(rng, params, match):
    X, y, _ = planted(rng, n=10)
    with pytest.raises(ValueError, match=match):
        SURFRegressorCV(**{**SMALL_CV, "n_components": 1, **params}).fit(X, y)
