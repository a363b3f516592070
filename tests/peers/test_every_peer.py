"""What all peers have in common that scikit-learn's own checks do not look at."""

import numpy as np
import pytest
from problems import corner, draw
from sklearn.base import clone

import sltr

SHAPE = (5, 4, 3)
# Tight tolerances: two ways to the same minimum are compared.
PLAIN = [
    sltr.TensorRidge(1.0),
    sltr.ElemRidge(1.0, 0.2),
    sltr.TensorLasso(0.1, tol=1e-9),
    sltr.TensorElasticNet(0.1, tol=1e-9),
    sltr.RemursRegressor(2.0, 5.0, tol=1e-6),
    sltr.SturmRegressor(2.0, 5.0, tol=1e-6),
    sltr.SURFRegressor(2),
    sltr.TPGDRegressor(2, sparsity=2),
    sltr.CPRegressor(1, tol=1e-7),
    sltr.TuckerRegressor(1, tol=1e-7),
    sltr.HRTRRRegressor(1, tol=1e-7),
    sltr.ORTRRRegressor(2),
]
TUNED = [
    sltr.TensorLassoCV(n_alphas=3, cv=2),
    sltr.RemursRegressorCV(n_alphas=2, cv=2),
    sltr.SturmRegressorCV(n_alphas=2, cv=2),
    sltr.SURFRegressorCV(2, epsilons=(0.05,), alphas=(0.0,), stops=(0.0,), cv=2),
    sltr.TPGDRegressorCV((1,), sparsities=(2, 3), cv=2),
    sltr.CPRegressorCV((1, 2), alphas_ridge=(1e-2,), cv=2),
    sltr.TuckerRegressorCV((1, 2), alphas_ridge=(1e-2,), cv=2),
]


def names(model):
    return type(model).__name__


@pytest.fixture
def data(rng):
    return draw(rng, corner(SHAPE, (2, 2)), 50, noise=0.3, mean=1.0, offset=4.0)


@pytest.mark.parametrize("model", PLAIN, ids=names)
def test_a_weight_is_a_repetition(model, data):
    X, y = data
    weight = np.arange(len(y)) % 3
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-4)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-3)


@pytest.mark.parametrize("model", PLAIN, ids=names)
def test_no_intercept_is_a_fit_through_the_origin(model, data):
    model = clone(model).set_params(fit_intercept=False).fit(*data)
    assert model.intercept_ == 0.0
    assert model.predict(np.zeros((1, *SHAPE))) == pytest.approx(0.0)


@pytest.mark.parametrize("model", [*PLAIN, *TUNED], ids=names)
def test_flat_rows_fold(model, data):
    X, y = data
    expected = clone(model).fit(X, y)
    flat = X.reshape(len(X), -1)
    found = clone(model).set_params(feature_shape=SHAPE).fit(flat, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.predict(flat), expected.predict(X))


@pytest.mark.parametrize("model", PLAIN, ids=names)
def test_single_precision_stays_and_agrees(model, data):
    X, y = data
    double = clone(model).fit(X, y)
    X, y = X.astype(np.float32), y.astype(np.float32)
    single = clone(model)
    if hasattr(model, "tol"):
        single.set_params(tol=1e-4)
    single.fit(X, y)
    assert single.coef_.dtype == np.float32
    assert single.predict(X).dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-2)


@pytest.mark.parametrize("model", [*PLAIN, *TUNED], ids=names)
def test_torch_stays_torch(model, data):
    torch = pytest.importorskip("torch")
    X, y = data
    expected = clone(model).fit(X, y)
    found = clone(model).fit(torch.asarray(X), torch.asarray(y))
    assert isinstance(found.coef_, torch.Tensor)
    np.testing.assert_allclose(found.coef_.numpy(), expected.coef_, atol=1e-6)
    predicted = found.predict(torch.asarray(X)).numpy()
    np.testing.assert_allclose(predicted, expected.predict(X), atol=1e-6)


@pytest.mark.parametrize("model", PLAIN, ids=names)
def test_one_sample_is_too_few(model, rng):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        clone(model).fit(rng.standard_normal((1, 3, 2)), [1.0])


@pytest.mark.parametrize("seed", [-1, 2**32])
@pytest.mark.parametrize(
    "Model", [sltr.CPRegressor, sltr.TuckerRegressor, sltr.HRTRRRegressor]
)
def test_a_seed_that_is_none_is_refused(rng, Model, seed):
    X = rng.normal(size=(8, 3, 2))
    with pytest.raises(ValueError, match=f"random_state={seed} was given; expected"):
        Model(random_state=seed).fit(X, X[:, 0, 0])
