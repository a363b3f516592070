"""Centring, on all samples and on subsets of them."""

import numpy as np
import pytest

from sltr.samples.centring import Centring


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
