"""What a device does in one kernel is what NumPy does step by step."""

import numpy as np
import pytest
from problems import POSED

from sltr.core.admm import RESTART_AFTER, admm
from sltr.core.problem import Problem

# About tiles of eight rows and about 40, the longest short side of the kernel.
SHAPES = [(1, 6), (5, 19), (8, 8), (9, 30), (15, 70), (32, 50), (40, 43), (41, 45)]


def posed_batch(shape, array=np.asarray, dtype="float64"):
    rng = np.random.default_rng(shape)
    Z = 0.3 * rng.normal(size=(3, *shape))
    Z[:, : shape[0] // 2 + 1, : shape[1] // 3] += 1.0
    norms = np.linalg.norm(Z, 2, axis=(1, 2))
    largest = np.abs(Z).max(axis=(1, 2))
    fields = (
        Z,
        np.array([0.2, 0.1, 0.6]) * largest,
        (np.array([0.2, 0.1, 0.5]) * norms)[:, None],
        np.array([1.0, 0.5, 1.0]),
        np.array([[1.0], [1.5], [0.7]]),
    )
    given = (array(np.asarray(field, dtype=dtype)) for field in fields)
    return Problem(*given, modes=(0,)).with_effective_box()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_iterates_agree_to_rounding(foreign, shape):
    expected, end = admm(posed_batch(shape), tol=-1.0, max_iter=13)
    found, there = admm(posed_batch(shape, foreign.array), tol=-1.0, max_iter=13)
    np.testing.assert_allclose(foreign.numpy(found.x), expected.x, atol=1e-9)
    assert foreign.numpy(found.n_iter).tolist() == [13] * 3
    for name in ("duals", "steps"):
        [mine], [theirs] = getattr(end, name), getattr(there, name)
        np.testing.assert_allclose(foreign.numpy(theirs), mine, rtol=1e-7, atol=1e-7)


def test_single_precision_agrees_to_its_rounding(foreign):
    expected, _ = admm(posed_batch((15, 70)), tol=1e-4)
    found, _ = admm(posed_batch((15, 70), foreign.array, "float32"), tol=1e-4)
    x = foreign.numpy(found.x)
    assert x.dtype == np.float32
    assert foreign.numpy(found.converged).all()
    np.testing.assert_allclose(x, expected.x, atol=2e-3)


def test_problems_finish_when_they_are_done(foreign):
    """Iterations of each are those it needs alone; neither start nor pilot changes."""
    problem = posed_batch((9, 30), foreign.array)
    pilot = foreign.numpy(problem.pilot).copy()
    together, end = admm(problem, tol=1e-6)
    x = foreign.numpy(together.x).copy()
    assert foreign.numpy(together.converged).all()
    for g in range(3):
        some = foreign.array(np.array([g]))
        alone, _ = admm(problem.take(some), tol=1e-6)
        assert foreign.numpy(alone.n_iter)[0] == foreign.numpy(together.n_iter)[g]
        np.testing.assert_allclose(foreign.numpy(alone.x)[0], x[g], atol=1e-10)
    again, _ = admm(problem, end, tol=1e-6)
    assert (2 * foreign.numpy(again.n_iter) <= foreign.numpy(together.n_iter)).all()
    assert np.array_equal(foreign.numpy(end.x), x)
    assert np.array_equal(foreign.numpy(problem.pilot), pilot)


def test_what_does_not_end_begins_again_from_scratch(foreign):
    problem = POSED["both bind"].batch(foreign.array)
    found, _ = admm(problem, tol=-1.0, max_iter=RESTART_AFTER + 3)
    fresh, _ = admm(problem, tol=-1.0, max_iter=3)
    x = foreign.numpy(found.x)
    assert foreign.numpy(found.n_iter).tolist() == [RESTART_AFTER + 3]
    np.testing.assert_allclose(x, foreign.numpy(fresh.x), atol=1e-9)
