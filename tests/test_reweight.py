import numpy as np
import pytest

from sltr.refine import STEPS, reweighted
from sltr.refine.reweight import FLOOR, RIDGE


@pytest.fixture
def rng():
    return np.random.default_rng(20240301)


def power(matrix, exponent):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


@pytest.mark.parametrize("n", [15, 60])
@pytest.mark.parametrize("shape", [(5, 4), (4, 3, 2), (2, 3, 2, 2)])
def test_a_step_is_ridge_under_a_kronecker_penalty(rng, n, shape):
    A, y = rng.normal(size=(n, *shape)), rng.normal(size=n)
    start = rng.normal(size=shape)
    coef, flat = start, A.reshape(n, -1)
    steps = dict(reweighted(A, y, start))
    assert tuple(steps) == STEPS
    for step in range(1, 4):
        metric = np.ones((1, 1))
        for mode, size in enumerate(shape):
            rows = np.moveaxis(coef, mode, 0).reshape(size, -1)
            second = size * rows @ rows.T / np.sum(coef**2) + FLOOR * np.eye(size)
            metric = np.kron(metric, power(second, 0.5))
        # The mean eigenvalue is over the smaller of the two sides.
        scale = np.trace(flat @ metric @ flat.T) / min(n, flat.shape[1])
        normal = flat.T @ flat + RIDGE * scale * np.linalg.inv(metric)
        coef = np.linalg.solve(normal, flat.T @ y).reshape(shape)
        if step in STEPS:
            np.testing.assert_allclose(steps[step], coef, atol=1e-9)


def test_a_low_rank_tensor_is_found_without_a_rank(rng):
    factors = [rng.normal(size=(size, 2)) for size in (12, 10, 6)]
    coef = np.einsum("ir,jr,kr->ijk", *factors)
    X = rng.normal(size=(220, *coef.shape))
    y = X.reshape(220, -1) @ coef.ravel()
    flat = X.reshape(220, -1)
    pilot = flat.T @ np.linalg.solve(flat @ flat.T + np.eye(220), y)
    errors = [
        np.linalg.norm(found - coef)
        for _, found in reweighted(X, y, pilot.reshape(coef.shape))
    ]
    assert np.all(np.diff(errors) < 0)
    assert errors[-1] < 0.3 * np.linalg.norm(pilot - coef.ravel())


@pytest.mark.parametrize("n", [10, 40])
@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_other_libraries_agree_with_numpy(rng, name, n):
    xp = pytest.importorskip(name)
    sizes = ((n, 4, 3, 2), (n,), (4, 3, 2))
    A, y, start = (rng.normal(size=size) for size in sizes)
    ours = dict(reweighted(A, y, start))
    for step, theirs in reweighted(*map(xp.asarray, (A, y, start))):
        np.testing.assert_allclose(np.asarray(theirs), ours[step], atol=1e-9)


def test_samples_that_are_all_equal_give_zero():
    found = reweighted(np.zeros((5, 3, 2)), np.arange(5.0), np.ones((3, 2)))
    assert all(np.all(coef == 0.0) for _, coef in found)
