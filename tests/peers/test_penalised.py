"""Sparse and low-rank least squares: against CVXPY, and its own certificate."""

import numpy as np
import pytest

from sltr.peers.penalised import (
    Penalised,
    mode_norms,
    penalised_admm,
    penalised_path,
    rotate,
    zeroing_weight,
)
from sltr.peers.sturm import Tubal

cp = pytest.importorskip("cvxpy")

SHAPE = (5, 4, 3)


def problem_data(n, shape=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    W = np.zeros(shape)
    W[:2, :2] = 1.0
    A = rng.normal(size=(n, W.size))
    return A, A @ W.ravel() + 0.5 * rng.normal(size=n)


def unfolding(w, mode, shape):
    """Return the mode unfolding of a CVXPY vector in C order."""
    index = np.moveaxis(np.arange(np.prod(shape)).reshape(shape), mode, 0)
    index = index.reshape(shape[mode], -1)
    return cp.vstack([w[row] for row in index])


def circulant(w, shape):
    index = np.arange(np.prod(shape)).reshape(shape)
    p3 = shape[2]
    return cp.bmat(
        [
            [
                cp.vstack([w[row] for row in index[:, :, (i - j) % p3]])
                for j in range(p3)
            ]
            for i in range(p3)
        ]
    )


def remurs_norm(w, shape):
    modes = range(len(shape))
    return sum(cp.normNuc(unfolding(w, m, shape)) for m in modes) / len(shape)


def tubal_norm(w, shape):
    return cp.normNuc(circulant(w, shape)) / shape[2]


def oracle(A, y, low_norm, shape, low, sparse, ridge):
    w = cp.Variable(A.shape[1])
    objective = (
        0.5 * cp.sum_squares(y - A @ w)
        + low * low_norm(w, shape)
        + sparse * cp.norm1(w)
        + 0.5 * ridge * cp.sum_squares(w)
    )
    task = cp.Problem(cp.Minimize(objective))
    # The solver's default of 1e-8 is out of its reach where a minimum is flat, and it
    # warns; the comparisons ask for 1e-5.
    tolerances = {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-7}
    task.solve(solver=cp.CLARABEL, **tolerances)
    return task.value


def objective(A, y, norms, W, low, sparse, ridge):
    nuclear = sum(norm.value(W[None])[0] for norm in norms) / len(norms)
    return (
        0.5 * np.sum((y - A @ W.ravel()) ** 2)
        + low * nuclear
        + sparse * np.abs(W).sum()
        + 0.5 * ridge * np.sum(W**2)
    )


def solve(A, y, norms, low, sparse, ridge, shape=SHAPE, **how):
    weights = (np.array([float(weight)]) for weight in (low, sparse, ridge))
    return penalised_admm(Penalised(rotate(A, y), norms, shape, *weights), **how)


CASES = [
    (20, 5.0, 2.0, 0.0),
    (20, 20.0, 0.1, 0.0),
    (20, 0.5, 6.0, 0.0),
    (20, 3.0, 1.0, 2.0),
    (20, 0.0, 2.0, 0.0),
    (20, 4.0, 0.0, 0.0),
    (100, 10.0, 5.0, 0.0),
    (100, 1.0, 20.0, 1.0),
]


@pytest.mark.parametrize(("n", "low", "sparse", "ridge"), CASES)
@pytest.mark.parametrize(
    ("norms", "low_norm"), [(mode_norms(3), remurs_norm), ((Tubal(),), tubal_norm)]
)
def test_objective_agrees_with_cvxpy(n, low, sparse, ridge, norms, low_norm):
    A, y = problem_data(n)
    expected = oracle(A, y, low_norm, SHAPE, low, sparse, ridge)
    result = solve(A, y, norms, low, sparse, ridge, tol=1e-7)
    assert result.converged[0]
    found = objective(A, y, norms, result.x[0], low, sparse, ridge)
    assert found == pytest.approx(expected, rel=1e-5)


def test_matrix_coefficient_agrees_with_cvxpy():
    A, y = problem_data(30, (6, 5))
    expected = oracle(A, y, remurs_norm, (6, 5), 5.0, 1.0, 0.0)
    result = solve(A, y, mode_norms(2), 5.0, 1.0, 0.0, (6, 5), tol=1e-7)
    found = objective(A, y, mode_norms(2), result.x[0], 5.0, 1.0, 0.0)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("norms", [mode_norms(3), (Tubal(),)])
@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_reported_gap_bounds_the_true_one(norms, n, ridge):
    A, y = problem_data(n)
    tight = solve(A, y, norms, 4.0, 1.0, ridge, tol=1e-10, max_iter=20_000)
    assert tight.converged[0]
    least = objective(A, y, norms, tight.x[0], 4.0, 1.0, ridge)
    for tol in (1e-1, 1e-2, 1e-4):
        loose = solve(A, y, norms, 4.0, 1.0, ridge, tol=tol)
        above = objective(A, y, norms, loose.x[0], 4.0, 1.0, ridge) - least
        assert above <= (loose.residual[0] + 1e-9) * 0.5 * np.sum(y**2)
        assert loose.residual[0] <= tol


def test_strong_weights_give_exactly_zero():
    A, y = problem_data(20)
    pull = (A.T @ y).reshape(1, *SHAPE)
    low = 1.001 * zeroing_weight(mode_norms(3), pull)[0]
    for weights in ((low, 0.0, 0.0), (0.0, 1.001 * np.abs(pull).max(), 0.0)):
        result = solve(A, y, mode_norms(3), *weights, tol=1e-9)
        assert result.converged[0]
        np.testing.assert_allclose(result.x, 0.0, atol=1e-5)


def test_batch_equals_single_problems():
    A, y = problem_data(20)
    problem = rotate(A, np.stack([y, -2.0 * y[::-1]]))
    low, sparse = np.array([4.0, 1.0]), np.array([1.0, 3.0])
    how = {"tol": 1e-6}
    batch = penalised_admm(
        Penalised(problem, mode_norms(3), SHAPE, low, sparse, 0 * low), **how
    )
    for g, target in enumerate((y, -2.0 * y[::-1])):
        single = solve(A, target, mode_norms(3), low[g], sparse[g], 0.0, **how)
        np.testing.assert_allclose(batch.x[g], single.x[0], atol=1e-10)
        assert batch.n_iter[g] == single.n_iter[0]


@pytest.mark.parametrize("norms", [mode_norms(3), (Tubal(),)])
def test_warm_path_equals_cold_fits(norms):
    A, y = problem_data(30)
    lows, sparses = [1.0, 10.0, 0.0], [2.0, 1.0]
    path = penalised_path(rotate(A, y), norms, SHAPE, lows, sparses, tol=1e-7)
    assert np.all(path.converged)
    for i, low in enumerate(lows):
        for j, sparse in enumerate(sparses):
            cold = solve(A, y, norms, low, sparse, 0.0, tol=1e-7)
            np.testing.assert_allclose(path.x[i, j, 0], cold.x[0], atol=5e-3)
            found = objective(A, y, norms, path.x[i, j, 0], low, sparse, 0.0)
            expected = objective(A, y, norms, cold.x[0], low, sparse, 0.0)
            assert found == pytest.approx(expected, rel=1e-5)


def test_without_penalty_it_is_least_squares():
    A, y = problem_data(100)
    result = solve(A, y, mode_norms(3), 0.0, 0.0, 0.0, tol=1e-12)
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(result.x.ravel(), expected, atol=1e-4)


def test_budget_is_kept_and_reported():
    A, y = problem_data(20)
    result = solve(A, y, mode_norms(3), 1.0, 0.1, 0.0, tol=1e-12, max_iter=13)
    assert result.n_iter[0] == 13
    assert not result.converged[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_design_and_zero_response_are_solved(dtype):
    A = np.zeros((6, 60), dtype)
    y = np.arange(6, dtype=dtype)
    for design, target in ((A, y), (A, 0 * y), (np.ones_like(A), 0 * y)):
        weights = (np.ones(1, dtype),) * 3
        result = penalised_admm(
            Penalised(rotate(design, target), mode_norms(3), SHAPE, *weights)
        )
        assert result.converged[0]
        assert result.x.dtype == dtype
        np.testing.assert_array_equal(result.x, 0.0)


@pytest.mark.parametrize("norms", [mode_norms(3), (Tubal(),)])
def test_without_a_pull_no_weight_is_needed_for_zero(norms):
    loss, zero = rotate(np.zeros((9, 60)), np.ones(9)), np.zeros(1)
    result = penalised_admm(Penalised(loss, norms, SHAPE, zero, zero, zero))
    assert not result.x.any()
    assert result.n_iter[0] <= 10
    assert result.residual[0] == 0.0


def test_single_precision_reaches_the_default_tolerance():
    A, y = problem_data(40)
    problem = rotate(A.astype(np.float32), y.astype(np.float32))
    path = penalised_path(problem, mode_norms(3), SHAPE, [20.0, 1.0, 0.1], [5.0, 0.1])
    reference = penalised_path(
        rotate(A, y), mode_norms(3), SHAPE, [20.0, 1.0, 0.1], [5.0, 0.1], tol=1e-7
    )
    assert path.x.dtype == np.float32
    assert np.all(path.converged)
    fitted = path.x.reshape(6, -1) @ A.T
    expected = reference.x.reshape(6, -1) @ A.T
    assert np.all(np.linalg.norm(fitted - expected, axis=1) < 0.03 * np.linalg.norm(y))


def test_torch_arrays_stay_torch():
    torch = pytest.importorskip("torch")
    A, y = problem_data(20)
    for norms in (mode_norms(3), (Tubal(),)):
        expected = penalised_path(
            rotate(A, y), norms, SHAPE, [5.0, 1.0], [1.0], tol=1e-6
        )
        problem = rotate(torch.from_numpy(A), torch.from_numpy(y))
        found = penalised_path(problem, norms, SHAPE, [5.0, 1.0], [1.0], tol=1e-6)
        np.testing.assert_allclose(found.x.numpy(), expected.x, atol=1e-8)
