import numpy as np
import pytest
from oracles import ridge_by_normal_equations, soft
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import cross_val_score

from sltr.estimators.sltr_cv import SLTRRegressorCV
from sltr.peers.elementary import ElemRidge, TensorRidge


@pytest.fixture(params=[(12, 3, 4, 2), (60, 3, 2, 2)], ids=["wide", "tall"])
def data(request, rng):
    X = rng.normal(size=request.param) + 1.0
    return X, X[:, 0].sum(axis=(1, 2)) + 3.0 * rng.normal(size=len(X))


def test_tensor_ridge_is_scikit_learns_ridge_on_flat_rows(data, rng):
    X, y = data
    weight = rng.uniform(0.5, 2.0, size=len(y))
    for fit_intercept in (True, False):
        ours = TensorRidge(0.7, fit_intercept=fit_intercept).fit(X, y, weight)
        flat = X.reshape(len(X), -1)
        theirs = Ridge(0.7, fit_intercept=fit_intercept).fit(flat, y, weight)
        assert ours.coef_.shape == X.shape[1:]
        np.testing.assert_allclose(ours.coef_.reshape(-1), theirs.coef_, atol=1e-9)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(flat))


def test_leave_one_out_chooses_as_scikit_learn_does(data):
    X, y = data
    flat = X.reshape(len(X), -1)
    ours = TensorRidge().fit(X, y)
    theirs = RidgeCV(ours.epsilon_ * 10.0 ** (np.arange(-12, 13) / 6)).fit(flat, y)
    assert theirs.alpha_ == pytest.approx(ours.epsilon_)


def test_elem_ridge_thresholds_the_pilot(data):
    X, y = data
    pilot = ridge_by_normal_equations(X.reshape(len(X), -1), y, 2.0)
    for radius, threshold in (
        ("absolute", 0.1),
        ("relative", 0.1 * np.abs(pilot).max()),
    ):
        model = ElemRidge(2.0, 0.1, radius=radius).fit(X, y)
        np.testing.assert_allclose(model.pilot_.reshape(-1), pilot, atol=1e-9)
        np.testing.assert_allclose(
            model.coef_.reshape(-1), soft(pilot, threshold), atol=1e-9
        )
        residual = y - X.reshape(len(X), -1) @ model.coef_.reshape(-1)
        assert model.intercept_ == pytest.approx(residual.mean())


def test_the_whole_fraction_leaves_nothing(data):
    assert not ElemRidge(1.0, 1.0).fit(*data).coef_.any()
    X, y = data
    for radius in ("relative", "absolute"):  # what single precision does not have
        model = ElemRidge(1.0, 1e200, radius=radius)
        assert not model.fit(X.astype("float32"), y).coef_.any()


def test_cross_validation_takes_tensors(data):
    for model in (ElemRidge(), TensorRidge()):
        assert np.isfinite(cross_val_score(model, *data, cv=3)).all()


def test_foreign_arrays_stay_foreign(foreign, data):
    X, y = data
    for model in (ElemRidge(), TensorRidge()):
        expected = model.fit(X, y).predict(X)
        given = foreign.array(X)
        found = model.fit(given, foreign.array(y)).predict(given)
        np.testing.assert_allclose(foreign.numpy(found), expected, atol=1e-6)


def test_chosen_penalty_is_above_rounding():
    # Without noise the smallest penalty is best; in single precision a tenth of
    # 1e-6 of the mean eigenvalue would not even make a Gram matrix definite.
    X = np.random.default_rng(0).normal(size=(40, 3, 2))
    y = X.sum(axis=(1, 2))
    double = TensorRidge().fit(X, y).epsilon_
    single = TensorRidge().fit(X.astype(np.float32), y.astype(np.float32)).epsilon_
    assert single > 500 * double


@pytest.mark.parametrize(
    "model",
    [
        TensorRidge(epsilon=1e300),
        ElemRidge(epsilon=1e300),
        SLTRRegressorCV(epsilons=(1.0, 1e300), cv=2),
    ],
)
def test_penalties_that_the_precision_does_not_have_are_refused(model, rng):
    X, y = rng.normal(size=(6, 3)).astype("f4"), rng.normal(size=6)
    with pytest.raises(ValueError, match="a number that float32 has"):
        model.fit(X, y)
