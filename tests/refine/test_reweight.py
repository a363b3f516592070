import numpy as np
import pytest

from sltr.refine import reweight
from sltr.refine.reweight import FLOOR
from sltr.refine.subsets import Subsets
from sltr.tuning.policy import DEFAULT

STEPS = DEFAULT.steps


def reweighted(X, subsets, start, *, tol=DEFAULT.reweight_tol):
    return reweight.reweighted(X, subsets, start, steps=STEPS, tol=tol)


@pytest.fixture
def rng():
    """Draw problems on which reweighting gains as much as a test asks for."""
    return np.random.default_rng(20240301)


def power(matrix, exponent):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(5, 4), (4, 3, 2), (2, 3, 2, 2)])
def test_a_step_is_ridge_under_a_kronecker_penalty(rng, shape, intercept):
    n, size = 60, int(np.prod(shape))
    flat = np.linalg.qr(rng.normal(size=(n, size)))[0]
    if intercept:
        flat = np.linalg.qr(flat - flat.mean(axis=0))[0]
    y, start = rng.normal(size=n), rng.normal(size=shape)
    offset = 7.0 if intercept else 0.0
    data = Subsets((y + offset)[None], np.ones((1, n)), intercept)
    steps = dict(reweighted(flat + offset, data, start[None], tol=1e-12))
    assert tuple(steps) == STEPS
    coef = start
    for step in range(1, 4):
        metric = np.ones((1, 1))
        for mode, length in enumerate(shape):
            rows = np.moveaxis(coef, mode, 0).reshape(length, -1)
            second = length * rows @ rows.T / np.sum(coef**2) + FLOOR * np.eye(length)
            metric = np.kron(metric, power(second, 0.5))
        # These features are orthonormal: the penalty's scale is then exact.
        scale = np.trace(flat @ metric @ flat.T) / size
        normal = flat.T @ flat + scale * np.linalg.inv(metric)
        coef = np.linalg.solve(normal, flat.T @ y).reshape(shape)
        if step in STEPS:
            np.testing.assert_allclose(steps[step][0], coef, atol=1e-9)


@pytest.mark.parametrize("shape", [(4, 3), (9, 7)])
def test_weight_zero_removes_and_whole_numbers_repeat(rng, shape):
    X, y = rng.normal(size=(30, np.prod(shape))) + 1.0, rng.normal(size=30)
    start = rng.normal(size=(1, *shape))
    counts = rng.integers(0, 3, size=30)
    rows = np.repeat(np.arange(30), counts)
    weighted = Subsets(y[None], counts[None].astype(float), True)
    repeated = Subsets(y[rows][None], np.ones((1, len(rows))), True)
    ours = dict(reweighted(X, weighted, start, tol=1e-12))
    for step, theirs in reweighted(X[rows], repeated, start, tol=1e-12):
        np.testing.assert_allclose(ours[step], theirs, atol=1e-8)


def test_a_batch_equals_its_items_run_alone(rng):
    X, Y = rng.normal(size=(15, 24)), rng.normal(size=(3, 15))
    weight = np.ones((3, 15))
    start = rng.normal(size=(3, 4, 3, 2))
    together = dict(reweighted(X, Subsets(Y, weight, True), start, tol=1e-12))
    for item in range(3):
        one = slice(item, item + 1)
        data = Subsets(Y[one], weight[one], True)
        for step, alone in reweighted(X, data, start[one], tol=1e-12):
            np.testing.assert_allclose(together[step][one], alone, atol=1e-8)


def test_a_low_rank_tensor_is_found_without_a_rank(rng):
    factors = [rng.normal(size=(size, 2)) for size in (12, 10, 6)]
    coef = np.einsum("ir,jr,kr->ijk", *factors)
    flat = rng.normal(size=(220, coef.size))
    y = flat @ coef.ravel()
    pilot = flat.T @ np.linalg.solve(flat @ flat.T + np.eye(220), y)
    data = Subsets(y[None], np.ones((1, 220)), False)
    errors = [
        np.linalg.norm(found[0] - coef)
        for _, found in reweighted(flat, data, pilot.reshape(1, *coef.shape))
    ]
    assert np.all(np.diff(errors) <= 0)  # it may settle before the last
    assert errors[-1] < 0.3 * np.linalg.norm(pilot - coef.ravel())


@pytest.mark.parametrize("n", [10, 40])
@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_other_libraries_agree_with_numpy(rng, name, n):
    xp = pytest.importorskip(name)
    sizes = ((n, 24), (2, n), (2, 4, 3, 2))
    X, y, start = (rng.normal(size=size) for size in sizes)

    def run(convert):
        data = Subsets(convert(y), convert(np.ones((2, n))), True)
        return dict(reweighted(convert(X), data, convert(start), tol=1e-10))

    ours, theirs = run(np.asarray), run(xp.asarray)
    for step, found in ours.items():
        np.testing.assert_allclose(np.asarray(theirs[step]), found, atol=1e-7)


def test_samples_that_are_all_equal_give_zero():
    data = Subsets(np.arange(5.0)[None], np.ones((1, 5)), True)
    found = reweighted(np.ones((5, 6)), data, np.ones((1, 3, 2)))
    assert all(np.all(coef == 0.0) for _, coef in found)


def test_responses_of_one_tensor_are_reweighted_by_all_modes(rng):
    """One step is ridge in the metric of all modes, by dense normal equations."""
    n, shape, q = 12, (3, 2), 4
    X, Y = rng.normal(size=(n, 6)), rng.normal(size=(n, q))
    start, weight = rng.normal(size=(1, *shape, q)), rng.uniform(0.5, 2.0, size=n)
    items = Subsets(Y.T, np.tile(weight, (q, 1)), True)
    steps = dict(
        reweight.reweighted(X, items, start, steps=[1], tol=1e-13, shape_out=(q,))
    )
    share = weight / weight.sum()
    A = np.sqrt(weight)[:, None] * (X - share @ X)
    B = np.sqrt(weight)[:, None] * (Y - share @ Y)
    metric = np.ones((1, 1))
    for mode in range(3):
        rows = np.moveaxis(start[0], mode, 0).reshape(start.shape[mode + 1], -1)
        second = len(rows) * rows @ rows.T / np.sum(rows**2)
        values, vectors = np.linalg.eigh(second + reweight.FLOOR * np.eye(len(rows)))
        metric = np.kron(metric, (vectors * np.sqrt(values)) @ vectors.T)
    design = np.kron(A, np.eye(q))  # samples × responses
    normal = design.T @ design
    # The penalty's scale is that of a covariance that is a product over the modes.
    penalty = reweight._Problem.of(X, items, (*shape, q), (q,), tol=1e-13)._penalty(
        reweight._Metric.of(start)
    )[0]
    found = np.linalg.solve(
        normal + penalty * np.linalg.inv(metric), design.T @ B.reshape(-1)
    )
    np.testing.assert_allclose(steps[1].reshape(-1), found, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape_out", [(), (2,), (40,)], ids=str)
@pytest.mark.parametrize("name", ["numpy", "array_api_strict", "torch"])
def test_a_long_mode_gives_what_its_matrices_give(rng, monkeypatch, name, shape_out):
    """As a mode of the samples, or of the responses."""
    xp, shape = pytest.importorskip(name), (2, 3) if shape_out == (40,) else (2, 30)
    n, k, size = 25, int(np.prod(shape_out)), int(np.prod(shape))
    X, Z = rng.normal(size=(n, size)) + 1.0, rng.normal(size=(n, 2))
    y = rng.normal(size=(2 * k, n))
    weight = np.repeat(rng.integers(0, 3, size=(2, n)).astype(float), k, axis=0)
    start = rng.normal(size=(2, *shape, *shape_out))
    start[0, ..., 0] = 0.0  # fewer directions than there could be

    def run(least_long, convert):
        monkeypatch.setattr(reweight, "LEAST_LONG", least_long)
        items = Subsets(*map(convert, (y, weight)), True, convert(Z))
        given = convert(X), items, convert(start)
        found = reweight.reweighted(
            *given, steps=(1, 3), tol=1e-12, shape_out=shape_out
        )
        return {step: np.asarray(coef) for step, coef in found}

    dense, long = run(10**6, np.asarray), run(4, xp.asarray)
    for step, coef in dense.items():
        np.testing.assert_allclose(long[step], coef, atol=1e-7 * np.abs(coef).max())


def test_a_long_mode_of_equal_samples_gives_zero(monkeypatch):
    monkeypatch.setattr(reweight, "LEAST_LONG", 4)
    data = Subsets(np.arange(5.0)[None], np.ones((1, 5)), True)
    found = reweighted(np.ones((5, 20)), data, np.ones((1, 2, 10)))
    assert all(np.all(coef == 0.0) for _, coef in found)
