"""Powers of two that keep squares among the numbers."""

import numpy as np
import pytest

from sltr.samples.front import check_squares, in_original_units, of_unit_size

EXTREMES = [(np.float32, 1e-44), (np.float32, 3e38), (float, 1e-310), (float, 1e308)]


@pytest.mark.parametrize(("dtype", "size"), EXTREMES)
def test_division_by_the_unit_is_exact(dtype, size):
    x = np.array([size, -size / 3.0, 0.0], dtype)
    divided, unit = of_unit_size(x)
    assert divided.dtype == dtype
    assert 1.0 <= np.abs(divided).max() < 2.0
    np.testing.assert_array_equal(divided.astype(float) * unit, x.astype(float))


@pytest.mark.parametrize("size", [0.0, 1e-2, 255.0])
def test_arrays_of_ordinary_size_are_not_copied(size):
    x = np.array([-size, 0.0])
    same, unit = of_unit_size(x)
    assert same is x
    assert unit == 1.0


def test_coefficients_come_back_unless_their_precision_has_no_such_numbers():
    coef = np.array([1.0, -0.5], np.float32)
    np.testing.assert_array_equal(in_original_units(coef, 2.0**90), coef * 2.0**90)
    for unit in (2.0**200, 2.0**-200):
        assert not in_original_units(0.0 * coef, unit).any()
    assert not in_original_units(1e-9 * coef, 2.0**-200).any()
    with pytest.raises(ValueError, match="float32 does not have"):
        in_original_units(1e-9 * coef, 2.0**200)
    for unit in (2.0**200, 2.0**-200, float("inf"), 0.0):
        with pytest.raises(ValueError, match="float32 does not have"):
            in_original_units(coef, unit)


@pytest.mark.parametrize(("dtype", "size"), EXTREMES)
def test_responses_without_squares_are_refused(dtype, size):
    with pytest.raises(ValueError, match="Divide y by its largest entry"):
        check_squares(np.array([size, 0.0], dtype))
    check_squares(np.array([1e5, -1e-5, 0.0], dtype))
