import numpy as np
import pytest
from problems import draw
from sklearn.exceptions import ConvergenceWarning

from sltr.peers.tpgd import (
    TPGDRegressor,
    TPGDRegressorCV,
    column_cardinalities,
    tucker_ranks,
)

SHAPE = (6, 5, 4)
SMALL_CV = {"ranks": (1, 2), "sparsities": (2, 4), "cv": 3}


def planted(rng, n=150, noise=0.2):
    coef = np.zeros(SHAPE)
    coef[:2, :2, 1] = 1.0
    coef[3, 4, 2:] = -1.5
    return *draw(rng, coef, n, noise=noise, mean=3.0, offset=7.0), coef


@pytest.mark.parametrize(
    "model", [TPGDRegressor(2, sparsity=2), TPGDRegressorCV(**SMALL_CV)]
)
def test_planted_coefficient_is_found(rng, model):
    X, y, coef = planted(rng)
    model.fit(X, y)
    assert np.linalg.norm(model.coef_ - coef) < 0.1 * np.linalg.norm(coef)
    assert model.predict(X).mean() == pytest.approx(y.mean())
    assert np.all(np.diff(model.objective_path_) <= 0.0)
    assert len(model.objective_path_) == model.n_iter_ + 1


def test_cross_validation_chooses_the_planted_structure(rng):
    X, y, _ = planted(rng)
    model = TPGDRegressorCV(ranks=(1, (2, 2, 2)), sparsities=(1, 2), cv=3)
    model.fit(X, y)
    assert (model.ranks_, model.sparsity_) == ((2, 2, 2), (2, 2, 2))
    assert model.cv_results_["param_ranks"].shape == (4,)
    assert model.cv_results_["params"][0] == {
        "ranks": (1, 1, 1),
        "sparsity": (1, 1, 1),
    }


def test_winner_refitted_is_the_plain_estimator(rng):
    X, y, _ = planted(rng)
    cv = TPGDRegressorCV(**SMALL_CV).fit(X, y)
    plain = TPGDRegressor(cv.ranks_, sparsity=cv.sparsity_).fit(X, y)
    np.testing.assert_array_equal(cv.coef_, plain.coef_)
    assert cv.best_score_ == cv.cv_results_["mean_test_score"].max()


def test_cv_scores_are_those_of_fits_on_the_folds(rng):
    X, y, _ = planted(rng, n=60)
    train, test = np.arange(40), np.arange(40, 60)
    cv = TPGDRegressorCV(**{**SMALL_CV, "cv": [(train, test)]}).fit(X, y)
    for params, score in zip(
        cv.cv_results_["params"], cv.cv_results_["split0_test_score"], strict=True
    ):
        alone = TPGDRegressor(**params).fit(X[train], y[train])
        assert score == pytest.approx(alone.score(X[test], y[test]))


def test_settings_of_one_meaning_are_one_candidate(rng):
    X, y, _ = planted(rng, n=30)
    model = TPGDRegressorCV((1, 2, 3), sparsities=(0.5, 1.0), cv=2)
    model.fit(X.reshape(30, -1), y)
    assert len(model.cv_results_["params"]) == 2


def test_core_and_factors_are_of_the_samples_kind(rng):
    torch = pytest.importorskip("torch")
    X, y, _ = planted(rng, n=40)
    model = TPGDRegressor(sparsity=2).fit(torch.asarray(X).float(), torch.asarray(y))
    assert {part.dtype for part in (model.core_, *model.factors_)} == {torch.float32}


def test_too_few_steps_warn(rng):
    X, y, _ = planted(rng)
    with pytest.warns(ConvergenceWarning, match="Increase max_iter") as caught:
        TPGDRegressor(max_iter=1, tol=0.0).fit(X, y)
    assert caught[0].filename == __file__


def test_one_number_is_cut_to_what_the_modes_allow():
    assert tucker_ranks(9, (9, 8, 3)) == (9, 8, 3)
    assert tucker_ranks(5, (7, 2)) == (2, 2)
    assert column_cardinalities(6, (9, 8, 3)) == (6, 6, 3)
    assert column_cardinalities(0.1, (30, 9)) == (3, 1)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"ranks": 0}, "ranks=0"),
        ({"ranks": 1.5}, "ranks=1.5"),
        ({"ranks": "many"}, "ranks='many'"),
        ({"ranks": (2, 2)}, r"ranks=\(2, 2\)"),
        ({"ranks": (7, 5, 4)}, r"ranks=\(7, 5, 4\)"),
        ({"ranks": (5, 2, 2)}, "product of the other ranks"),
        ({"sparsity": 0}, "sparsity=0"),
        ({"sparsity": 7}, "sparsity=7"),
        ({"sparsity": 1.5}, "sparsity=1.5"),
        ({"sparsity": -0.5}, "sparsity=-0.5"),
        ({"sparsity": True}, "sparsity=True"),
        ({"sparsity": (2, 2)}, r"sparsity=\(2, 2\)"),
        ({"sparsity": (6, 5, 5)}, r"sparsity=\(6, 5, 5\)"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"feature_shape": (7, 5)}, "feature_shape"),
    ],
)
def test_bad_parameters_are_named(rng, params, match):
    X, y, _ = planted(rng, n=10)
    with pytest.raises(ValueError, match=match):
        TPGDRegressor(**params).fit(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"ranks": ()}, "at least one value"),
        ({"ranks": 2}, r"ranks=2 .*write \[2\]"),
        ({"sparsities": 0.5}, r"sparsities=0.5 .*write \[0.5\]"),
        ({"sparsities": (0.5, 0.0)}, "sparsity=0.0"),
        ({"ranks": (1, 0)}, "ranks=0"),
        ({"rule": "worst"}, "rule='worst'"),
        ({"cv": 20}, "n_splits=20"),
    ],
)
def test_bad_grids_are_named(rng, params, match):
    X, y, _ = planted(rng, n=10)
    with pytest.raises(ValueError, match=match):
        TPGDRegressorCV(**{**SMALL_CV, **params}).fit(X, y)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_order_of_samples_does_not_matter(rng, ranks):
    """The best fit within the spans of a start leaves a gradient of rounding there."""
    for shape in ((5, 9), (1, 5), (2, 3, 4)):
        X, y = rng.normal(size=(10, *shape)), rng.normal(size=10)
        model = TPGDRegressor(ranks, max_iter=5, tol=0.0)
        coefs = []
        for order in (np.arange(10), *(rng.permutation(10) for _ in range(5))):
            with pytest.warns(ConvergenceWarning):
                coefs.append(model.fit(X[order], y[order]).coef_)
        for coef in coefs[1:]:
            np.testing.assert_allclose(coef, coefs[0], atol=1e-9)
