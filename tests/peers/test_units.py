"""Powers of two that keep squares among the numbers."""

import numpy as np
import pytest

from sltr.peers.units import divide_by_unit

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
