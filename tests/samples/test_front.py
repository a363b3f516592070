"""Centring, and powers of two that keep squares among the numbers."""

import numpy as np
import pytest

from sltr.arrays import largest_entry
from sltr.samples.check import check_squares
from sltr.samples.front import Centring, divide_by_unit

EXTREMES = [(np.float32, 1e-44), (np.float32, 3e38), (float, 1e-310), (float, 1e308)]


@pytest.mark.parametrize(("dtype", "size"), EXTREMES)
def test_division_by_the_unit_is_exact(dtype, size):
    x = np.array([size, -size / 3.0, 0.0], dtype)
    divided, unit = divide_by_unit(x)
    assert divided.dtype == dtype
    assert 1.0 <= np.abs(divided).max() < 2.0
    np.testing.assert_array_equal(divided.astype(float) * unit, x.astype(float))


@pytest.mark.parametrize("size", [0.0, 1e-2, 255.0])
def test_arrays_of_ordinary_size_are_not_copied(size):
    x = np.array([-size, 0.0])
    same, unit = divide_by_unit(x)
    assert same is x
    assert unit == 1.0


@pytest.mark.parametrize(("dtype", "size"), EXTREMES)
def test_sizes_without_squares_are_refused(dtype, size):
    like = np.array([size, 0.0], dtype)
    with pytest.raises(ValueError, match="Divide y by its largest entry"):
        check_squares(largest_entry(like), like, "y")
    for ordinary in (0.0, 1e-5, 1e5):
        check_squares(ordinary, like, "X", count=1000)


def test_a_category_that_a_subset_lacks_has_no_slope(xp, rng):
    Z = np.column_stack([rng.normal(size=6), [0.7, 0.7, 0.7, 0.7, -1.4, -1.4]])
    weight = np.array([1.0, 2.0, 1.0, 0.5, 0.0, 0.0])
    t = rng.normal(size=(6, 2)) + 5.0
    centring = Centring(xp.array(weight), True, xp.array(Z))
    found = xp.numpy(centring.regression(xp.array(t)))
    root, inside = np.sqrt(weight[:4, None]), np.column_stack([np.ones(4), Z[:4, 0]])
    expected = np.linalg.lstsq(root * inside, root * t[:4], rcond=None)[0]
    np.testing.assert_allclose(found[:2], expected, atol=1e-8)
    np.testing.assert_array_equal(found[2], 0.0)


@pytest.mark.parametrize("dtype", [np.float32, float])
def test_what_a_basis_explains_leaves_no_rounding(xp, rng, dtype):
    Z = rng.normal(size=(5, 2)).astype(dtype)
    weight = np.array([0.3, 0.7, 1.1, 0.0, 0.0], dtype)  # as many as the basis has
    rows = (10.0 * rng.normal(size=(2, 5))).astype(dtype)
    centring = Centring(xp.array(weight), True, xp.array(Z))
    rest = xp.numpy(centring.residual(xp.array(rows)))
    assert not rest[:, :3].any()
    assert rest[:, 3:].all()  # samples that take no part keep what is left of them
    assert not xp.numpy(centring.gather(xp.array(rows.T.copy()))).any()
    constant = Centring(xp.array(weight), True)
    same = xp.array(0.0 * rows + rows[:, :1])
    assert not xp.numpy(constant.residual(same))[:, :3].any()
    some = xp.numpy(constant.residual(xp.array(rows)))[:, :3]
    np.testing.assert_allclose(some @ weight[:3], 0.0, atol=1e-4)
    assert np.abs(some).max() > 0.1
