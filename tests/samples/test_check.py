import numpy as np
import pytest
from oracles import assert_close, ridge_by_normal_equations
from sklearn.base import BaseEstimator

from sltr.arrays import largest_entry
from sltr.parameters import check_nonnegative
from sltr.peers.units import centre
from sltr.samples.check import (
    check_new_samples,
    check_samples,
    check_shape,
    check_squares,
)
from sltr.samples.covariates import learn_encoding
from sltr.samples.samples import Samples


class Model(BaseEstimator):
    """The least an estimator has to be."""

    feature_shape = None


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_centred_data_pose_the_weighted_problem(xp, rng, fit_intercept):
    X, y = rng.normal(size=(9, 2, 3)) + 1.0, rng.normal(size=9) + 2.0
    weight = rng.uniform(0.5, 2.0, size=9)
    centred = centre(Samples(xp.array(X), xp.array(y), xp.array(weight)), fit_intercept)
    A, r = xp.numpy(centred.A), xp.numpy(centred.y)
    coef = np.linalg.solve(A.T @ A + np.eye(6), A.T @ r)
    flat = X.reshape(9, -1)
    expected = ridge_by_normal_equations(flat, y, 1.0, weight, fit_intercept)
    assert_close(coef, expected)
    offset = float(centred.intercept(xp.array(coef)))
    residual = np.average(y - flat @ coef, weights=weight)
    assert offset == pytest.approx(residual if fit_intercept else 0.0)


def test_samples_of_weight_zero_are_dropped(xp, rng):
    X, y = rng.normal(size=(5, 2, 3)), np.arange(5.0)
    weight = np.array([1.0, 0.0, 2.0, 0.0, 1.0])
    model = Model()
    samples = check_samples(model, xp.array(X), xp.array(y), xp.array(weight))
    assert xp.numpy(samples.y).tolist() == [0.0, 2.0, 4.0]
    assert np.array_equal(xp.numpy(samples.X), X[::2])
    assert model.shape_in_ == samples.shape == (2, 3)
    with pytest.raises(ValueError, match="1 sample"):
        check_samples(model, xp.array(X), xp.array(y), xp.array(np.eye(5)[0]))


def test_flat_rows_are_folded_in_c_order(xp, rng):
    X = rng.normal(size=(5, 2, 3))
    model = Model()
    model.feature_shape = (2, 3)
    samples = check_samples(model, xp.array(X.reshape(5, 6)), xp.array(np.arange(5.0)))
    assert np.array_equal(xp.numpy(samples.X), X)
    assert np.array_equal(xp.numpy(samples.flat), X.reshape(5, 6))


@pytest.mark.parametrize(
    "value", [-1, float("nan"), float("inf"), "two", None, [1, 2], 10**400]
)
def test_hyper_parameters_are_finite_and_not_negative(value):
    with pytest.raises(ValueError, match="lambda_low="):
        check_nonnegative(value, "lambda_low")
    assert check_nonnegative(np.float32(0.5), "lambda_low") == 0.5


@pytest.mark.parametrize("shape", [(2, 2), (), (-2, -3), (0,), 6.5, None])
def test_shapes_that_do_not_hold_a_row_are_refused(shape):
    with pytest.raises(ValueError, match="feature_shape"):
        check_shape((6,), shape)
    assert check_shape((6,), [2, 3]) == (2, 3)


def test_a_device_too_small_to_look_at_the_samples_says_so(foreign, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        """What libraries call theirs."""

    def full(_, **options):
        raise OutOfMemoryError

    monkeypatch.setattr("sltr.samples.check.check_foreign_tensor", full)
    with pytest.raises(MemoryError, match="Use float32 samples"):
        check_samples(Model(), foreign.array(np.ones((4, 2))), np.ones(4))


@pytest.mark.parametrize(
    ("size", "dtype"), [(1e308, "f4"), (1e308, "f8"), (1e-308, "f8")]
)
def test_weights_that_the_precision_does_not_have_are_refused(size, dtype):
    X = np.ones((4, 2), dtype)
    with pytest.raises(ValueError, match="Weights of about 1e"):
        check_samples(Model(), X, np.arange(4.0), np.full(4, size))


def test_tensors_are_not_folded_into_another_shape(xp, rng):
    X, y = xp.array(rng.normal(size=(5, 2, 3))), xp.array(np.arange(5.0))
    model = Model()
    model.feature_shape = (3, 2)
    with pytest.raises(ValueError, match=r"samples of shape \(2, 3\)"):
        check_samples(model, X, y)
    model.feature_shape = [2, 3]
    assert check_samples(model, X, y).shape == (2, 3)


@pytest.mark.parametrize("shape", [(5, 2), (5, 1, 2), (5, 2, 3)])
def test_several_responses_are_refused_by_name(rng, shape):
    X = rng.normal(size=(5, 2, 3))
    with pytest.raises(ValueError, match=r"y has shape .* one number for each sample"):
        check_samples(Model(), X, np.zeros(shape))


def test_flat_rows_for_a_model_of_tensors_are_refused_by_shape(rng):
    X = rng.normal(size=(5, 2, 3))
    model = Model()
    check_samples(model, X, np.arange(5.0))
    with pytest.raises(ValueError, match=r"shape \(6,\) .* \(2, 3\).* feature_shape"):
        check_new_samples(model, X.reshape(5, 6))


def test_masked_values_are_refused_and_a_mask_of_nothing_is_dropped(rng):
    X, y = rng.normal(size=(5, 2, 3)), np.arange(5.0)
    whole = np.ma.masked_array(X), np.ma.masked_array(y)
    samples = check_samples(Model(), *whole, np.ma.ones(5))
    assert type(samples.X) is type(samples.y) is np.ndarray
    assert np.array_equal(samples.X, X)
    hole_X, hole_y = np.ma.masked_greater(X, X.max() - 1e-9), np.ma.masked_less(y, 2)
    for labels in (False, True):
        with pytest.raises(ValueError, match="1 entries of X are masked"):
            check_samples(Model(), hole_X, y, labels=labels)
        with pytest.raises(ValueError, match="2 entries of y are masked"):
            check_samples(Model(), X, hole_y, labels=labels)
    with pytest.raises(ValueError, match="1 entries of X are masked"):
        check_samples(Model(), list(hole_X), y)
    with pytest.raises(ValueError, match="2 entries of sample_weight are masked"):
        check_samples(Model(), X, y, hole_y)
    with pytest.raises(ValueError, match="2 entries of covariates are masked"):
        learn_encoding(hole_y, 5)
    model = Model()
    check_samples(model, X, y)
    with pytest.raises(ValueError, match="1 entries of X are masked"):
        check_new_samples(model, hole_X)


@pytest.mark.parametrize("unit", ["M8[D]", "M8[ns]", "m8[h]"])
def test_dates_are_refused(rng, unit):
    X, y = rng.normal(size=(5, 3)), np.arange(5.0)
    days = np.arange(5).astype(unit)
    dates = days.astype(unit.replace("ns", "us")).tolist()  # datetime's own
    for y_given in (days, list(days), dates, np.array(dates, object)):
        for labels in (False, True):
            with pytest.raises(ValueError, match="y holds dates or times"):
                check_samples(Model(), X, y_given, labels=labels)
    tensor = np.broadcast_to(days[:, None], (5, 3))
    model = Model()
    check_samples(model, X, y)
    for X_given in (tensor, list(tensor), [[date] * 3 for date in dates]):
        with pytest.raises(ValueError, match="X holds dates or times"):
            check_samples(Model(), X_given, y)
        with pytest.raises(ValueError, match="X holds dates or times"):
            check_new_samples(model, X_given)


def test_columns_of_dates_are_refused(rng):
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=5)
    table = pandas.DataFrame({"a": np.arange(5.0), "day": days})
    with pytest.raises(ValueError, match="X holds dates or times"):
        check_samples(Model(), table, np.arange(5.0))
    with pytest.raises(ValueError, match="y holds dates or times"):
        check_samples(Model(), table[["a"]], table["day"])


EXTREMES = [(np.float32, 1e-44), (np.float32, 3e38), (float, 1e-310), (float, 1e308)]


@pytest.mark.parametrize(("dtype", "size"), EXTREMES)
def test_sizes_without_squares_are_refused(dtype, size):
    like = np.array([size, 0.0], dtype)
    with pytest.raises(ValueError, match="Divide y by its largest entry"):
        check_squares(largest_entry(like), like, "y")
    for ordinary in (0.0, 1e-5, 1e5):
        check_squares(ordinary, like, "X", count=1000)
