"""Methods for responses of any shape, against independent solutions."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import MultiTaskLassoCV

from sltr import (
    ReducedRankRegressorCV,
    TensorMultiTaskLassoCV,
    TensorOnTensorRegressorCV,
    TensorRidge,
    load,
    save,
)
from sltr.peers.multi_response import tensor_on_tensor
from sltr.tuning.folds import splits

ALL = [
    TensorRidge(),
    ReducedRankRegressorCV(),
    TensorMultiTaskLassoCV(n_alphas=5),
    TensorOnTensorRegressorCV(ranks=(1, 2), alphas=(0.1, 1.0)),
]


def drawn(rng, shape=(4, 3), shape_out=(5,), n=40, noise=0.3):
    coef = np.ones(())
    for size in (*shape, *shape_out):
        coef = coef[..., None] * rng.choice([-1, 1], size) * rng.uniform(0.5, 2, size)
    X = rng.normal(size=(n, *shape)) + 1.0
    Y = np.tensordot(X, coef, len(shape)) + noise * rng.normal(size=(n, *shape_out))
    return X, Y + 2.0


@pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("shape_out", [(), (1,), (5,), (3, 2)])
def test_shapes_and_scores(rng, model, shape_out):
    X, Y = drawn(rng, shape_out=shape_out)
    model.fit(X, Y)
    assert model.coef_.shape == (4, 3, *shape_out)
    assert np.shape(model.intercept_) == shape_out
    expected = np.tensordot(X, model.coef_, 2) + model.intercept_
    assert model.predict(X).shape == Y.shape
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-10)
    assert model.score(X, Y) > 0.6
    if shape_out:
        assert np.shape(model.score(X, Y, multioutput="raw_values")) == shape_out


@pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)
def test_units_of_responses_change_nothing(rng, model):
    X, Y = drawn(rng, shape_out=(3,))
    unit = np.array([1.0, 1e4, 1e-3])
    first = model.fit(X, Y).predict(X)
    np.testing.assert_allclose(
        model.fit(X, Y * unit).predict(X) / unit, first, rtol=1e-6
    )


def test_ridge_of_many_responses_is_ridge_of_each(rng):
    X, Y = drawn(rng, shape_out=(3,))
    both = TensorRidge(2.0).fit(X, Y)
    for k in range(3):
        one = TensorRidge(2.0).fit(X, Y[:, k])
        np.testing.assert_allclose(both.coef_[..., k], one.coef_, atol=1e-10)
        assert both.intercept_[k] == pytest.approx(one.intercept_)


def test_ridge_chooses_the_penalty_of_least_leave_one_out_error(rng):
    X, Y = drawn(rng, shape_out=(3,), n=25, noise=2.0)
    unit = Y.std(axis=0)
    model = TensorRidge().fit(X, Y)

    def error(epsilon):
        total = 0.0
        for i in range(len(X)):
            rest = np.arange(len(X)) != i
            one = TensorRidge(epsilon).fit(X[rest], Y[rest])
            total += (((one.predict(X[[i]]) - Y[i]) / unit) ** 2).sum()
        return total

    best = error(model.epsilon_)
    for factor in (0.3, 3.0):
        assert error(factor * model.epsilon_) > 0.999 * best


def test_reduced_rank_ridge_is_the_constrained_minimum(rng):
    X, Y = drawn(rng, (5,), (4,), n=30, noise=1.0)
    model = ReducedRankRegressorCV(ranks=[2], epsilons=[0.3]).fit(X, Y)
    A, unit = X - X.mean(axis=0), Y.std(axis=0)
    T = (Y - Y.mean(axis=0)) / unit
    penalty = 0.3 * (A**2).sum() / 5

    def objective(B):
        return ((T - A @ B) ** 2).sum() + penalty * (B**2).sum()

    found = objective(model.coef_ / unit)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 2

    def of_factors(v):
        return objective(v[:10].reshape(5, 2) @ v[10:].reshape(2, 4))

    best = min(
        minimize(of_factors, rng.normal(size=18), tol=1e-12).fun for _ in range(3)
    )
    assert found == pytest.approx(best, rel=1e-6)


def test_of_full_rank_all_are_ridge(rng):
    X, Y = drawn(rng, (5,), (3,), noise=1.0)
    A, unit = X - X.mean(axis=0), Y.std(axis=0)
    reduced = ReducedRankRegressorCV(ranks=[3], epsilons=[0.5]).fit(X, Y)
    ridge = TensorRidge(0.5 * (A**2).sum() / 5).fit(X, Y)
    np.testing.assert_allclose(reduced.coef_, ridge.coef_, atol=1e-9)
    T = (Y - Y.mean(axis=0)) / unit
    terms = tensor_on_tensor(A, T, 3, ridge.epsilon, tol=1e-13, max_iter=5000)
    np.testing.assert_allclose(terms.coef * unit, ridge.coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "shape_out", "rank"), [((3, 4), (3,), 2), ((4,), (3, 2), 1)]
)
def test_tensor_on_tensor_is_a_minimum_over_all_factors_at_once(
    rng, shape, shape_out, rank
):
    X, Y = drawn(rng, shape, shape_out, noise=1.0)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    terms = tensor_on_tensor(X, Y, rank, 3.0, tol=1e-12, max_iter=5000)
    assert terms.converged
    sizes = (*shape, *shape_out)
    letters = "abcd"[: len(sizes)]
    rule = ",".join(f"{letter}r" for letter in letters) + "->" + letters

    def objective(v):
        cut = np.split(v, np.cumsum([rank * size for size in sizes])[:-1])
        factors = [part.reshape(-1, rank) for part in cut]
        coef = np.einsum(rule, *factors)
        rest = Y - np.tensordot(X, coef, len(shape))
        return (rest**2).sum() + 3.0 * (coef**2).sum()

    start = np.concatenate([f.ravel() for f in terms.factors])
    polished = minimize(objective, start, tol=1e-10)
    assert objective(start) == pytest.approx(polished.fun, rel=1e-6)
    coef = np.einsum(rule, *terms.factors)
    np.testing.assert_allclose(terms.coef.reshape(sizes), coef, atol=1e-12)


def test_tensor_on_tensor_finds_a_planted_coefficient(rng):
    X, Y = drawn(rng, (6, 5), (4, 3), n=80, noise=0.5)
    model = TensorOnTensorRegressorCV().fit(X, Y)
    assert model.rank_ == 1
    assert model.best_score_ > 0.5
    with pytest.warns(UserWarning, match="Alternating least squares stopped"):
        TensorOnTensorRegressorCV(max_iter=1, tol=0.0).fit(X, Y)


def test_the_multi_task_lasso_is_that_of_scikit_learn(rng):
    X, Y = drawn(rng, (12,), (3,), noise=1.0)
    unit = Y.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = TensorMultiTaskLassoCV([0.3, 0.1, 0.03], tol=1e-8).fit(X, Y)
        theirs = MultiTaskLassoCV(
            alphas=[ours.alpha_], tol=1e-8, cv=splits(5, Y[:, 0])
        ).fit(X, Y / unit)
    np.testing.assert_allclose(ours.coef_, theirs.coef_.T * unit, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_ * unit, atol=1e-5)


def test_settings_that_cannot_be_are_refused(rng):
    X, Y = drawn(rng)
    with pytest.raises(ValueError, match="ranks"):
        ReducedRankRegressorCV(ranks=[0]).fit(X, Y)
    with pytest.raises(ValueError, match=r"ranks=True was given; expected a sequence"):
        ReducedRankRegressorCV(ranks=True).fit(X, Y)
    with pytest.raises(ValueError, match="alphas"):
        TensorOnTensorRegressorCV(alphas=[-1.0]).fit(X, Y)
    with pytest.raises(ValueError, match=r"alphas=1e\+308 .*at most 1e\+15"):
        TensorOnTensorRegressorCV(alphas=[1e308]).fit(X, Y)
    with pytest.raises(ValueError, match="epsilons=1e"):
        ReducedRankRegressorCV(epsilons=[1.0, 1e308]).fit(X, Y)


def test_a_loaded_ridge_of_many_responses_predicts_the_same_bits(rng, tmp_path):
    X, Y = drawn(rng, (7, 5), (3,), n=20)
    model = TensorRidge(1.0).fit(X, Y)
    loaded = load(save(model, tmp_path / "model"))
    assert model.coef_.flags.c_contiguous
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
