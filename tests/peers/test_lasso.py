"""Lasso and Elastic Net on tensors: scikit-learn's answers in tensor shape."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, ElasticNetCV, Lasso, LassoCV
from sklearn.model_selection import KFold, ShuffleSplit

from sltr.peers.lasso import (
    TensorElasticNet,
    TensorElasticNetCV,
    TensorLasso,
    TensorLassoCV,
)

FOLDS = KFold(5, shuffle=True, random_state=0)  # what a number of folds means


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4, 3, 2))
    return X, X[:, 0, 0, 0] - 2.0 * X[:, 1, 1, 1] + 3.0 + 0.3 * rng.normal(size=60)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (TensorLasso(alpha=0.1), Lasso(alpha=0.1, max_iter=10_000)),
        (TensorElasticNet(alpha=0.1), ElasticNet(alpha=0.1, max_iter=10_000)),
        (TensorLassoCV(), LassoCV(cv=FOLDS, max_iter=10_000)),
        (TensorElasticNetCV(), ElasticNetCV(cv=FOLDS, max_iter=10_000)),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_answers_are_those_of_scikit_learn(ours, theirs, weighted, data):
    X, y = data
    weight = 1.0 + np.arange(60) % 3 if weighted else None
    ours.fit(X, y, weight)
    theirs.fit(X.reshape(60, -1), y, sample_weight=weight)
    assert ours.coef_.shape == (4, 3, 2)
    np.testing.assert_allclose(ours.coef_.ravel(), theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X.reshape(60, -1)))
    if hasattr(theirs, "alpha_"):
        assert ours.alpha_ == pytest.approx(theirs.alpha_)
        assert ours.best_score_ == pytest.approx(-theirs.mse_path_.mean(1).min())


def test_explicit_candidates_are_tried(data):
    model = TensorLassoCV([0.3, 0.1, 0.01], cv=3).fit(*data)
    assert model.alpha_ in (0.3, 0.1, 0.01)
    assert len(model.cv_results_["params"]) == 3
    best = int(np.argmin(model.cv_results_["rank_test_score"]))
    assert model.cv_results_["params"][best] == {"alpha": model.alpha_}


@pytest.mark.parametrize("Model", [TensorLassoCV, TensorElasticNetCV])
@pytest.mark.parametrize(
    ("params", "n_alphas", "n_folds"),
    [
        ({"alphas": [0.1]}, 1, 5),
        ({"n_alphas": 1}, 1, 5),
        ({"n_alphas": 3, "cv": ShuffleSplit(1, random_state=0)}, 3, 1),
        ({"alphas": [0.1], "cv": ShuffleSplit(1, random_state=0)}, 1, 1),
    ],
)
def test_one_candidate_or_one_fold_is_enough(Model, params, n_alphas, n_folds, data):
    model = Model(**params).fit(*data)
    table = model.cv_results_
    assert len(table["params"]) == n_alphas
    assert sum(name.startswith("split") for name in table) == n_folds
    assert model.best_score_ == pytest.approx(table["mean_test_score"].max())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TensorLasso(-1.0), "alpha=-1.0"),
        (TensorLassoCV([-1.0]), "alphas=-1.0"),
        (TensorLassoCV(n_alphas=0), "n_alphas=0"),
        (TensorElasticNetCV(l1_ratio=0.0), "l1_ratio=0.0"),
        (TensorElasticNetCV(l1_ratio=1e-320), "l1_ratio=1e-320"),
        (TensorLassoCV([1e308]), "alphas=1e.308 .*at most 1e.300"),
        (
            TensorElasticNetCV(l1_ratio=[0.1, 0.5]),
            r"l1_ratio=\[0.1, 0.5\].* one number",
        ),
        (TensorElasticNet(l1_ratio=2.0), "l1_ratio=2.0"),
        (TensorLassoCV(0.1), r"alphas=0.1 .*expected a sequence: write \[0.1\]"),
        (TensorLassoCV([]), r"alphas=\[\] .*at least one"),
        (TensorLassoCV("few"), "alphas='few' .*expected a sequence"),
    ],
)
def test_bad_parameters_are_named(model, message, data):
    with pytest.raises(ValueError, match=message):
        model.fit(*data)


@pytest.mark.parametrize("max_iter", [0, 1e308, 10**400, 2**63, None])
@pytest.mark.parametrize("model", [TensorLasso(), TensorLassoCV(n_alphas=3, cv=2)])
def test_budgets_that_are_no_counts_are_refused(model, max_iter, rng):
    X, y = rng.normal(size=(8, 3)), rng.normal(size=8)
    with pytest.raises(ValueError, match=r"max_iter=.* a whole number of at least 1"):
        clone(model).set_params(max_iter=max_iter).fit(X, y)
