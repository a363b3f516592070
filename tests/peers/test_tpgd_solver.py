from itertools import combinations

import numpy as np
import pytest

from sltr.peers.tpgd import largest_eigenvalue, sparse_components, sparse_tucker, tpgd


def planted(rng, n=150, shape=(8, 7, 5), noise=0.0):
    """Ranks (2, 2, 2), two entries in each column of each factor."""
    factors = []
    for size in shape:
        factor = np.zeros((size, 2))
        factor[:2, 0], factor[2:4, 1] = (1.0, -1.0), (1.0, 1.0)
        factors.append(factor)
    core = np.array([[[3.0, 0.0], [0.0, 1.0]], [[0.0, 0.5], [-2.0, 0.0]]])
    coef = np.einsum("abc,ia,jb,kc->ijk", core, *factors)
    A = rng.standard_normal((n, coef.size))
    return A, A @ coef.ravel() + noise * rng.standard_normal(n), coef


def test_planted_coefficient_is_recovered_exactly(rng):
    A, y, coef = planted(rng)
    fit = tpgd(A, y, coef.shape, (2, 2, 2), (2, 2, 2), tol=1e-14)
    np.testing.assert_allclose(fit.coef, coef, atol=1e-5)
    assert fit.converged


@pytest.mark.parametrize("sparsity", [(1, 1, 1), (3, 2, 4), (8, 7, 5)])
@pytest.mark.parametrize("ranks", [(1, 1, 1), (3, 2, 2)])
def test_result_is_feasible_and_the_objective_never_rises(rng, ranks, sparsity):
    A, y, coef = planted(rng, n=60, noise=2.0)
    seen = []
    fit = tpgd(
        A, y, coef.shape, ranks, sparsity, callback=lambda _, w: seen.append(w.copy())
    )
    assert [f.shape for f in fit.factors] == list(zip(coef.shape, ranks, strict=True))
    for factor, cardinality in zip(fit.factors, sparsity, strict=True):
        assert np.count_nonzero(factor, axis=0).max() <= cardinality
    rebuilt = np.einsum("abc,ia,jb,kc->ijk", fit.core, *fit.factors)
    np.testing.assert_allclose(fit.coef, rebuilt, atol=1e-12)
    assert np.all(np.diff(fit.objective_path) <= 0.0)
    values = [0.5 * np.sum((A @ w.ravel() - y) ** 2) for w in seen]
    np.testing.assert_allclose(values, fit.objective_path[1:])
    assert fit.objective_path[0] <= 0.5 * y @ y
    assert len(seen) == fit.n_iter


def test_dense_full_rank_is_least_squares(rng):
    A = rng.standard_normal((40, 6))
    y = rng.standard_normal(40)
    fit = tpgd(A, y, (3, 2), (2, 2), (3, 2), tol=1e-15)
    np.testing.assert_allclose(
        fit.coef.ravel(), np.linalg.lstsq(A, y, rcond=None)[0], atol=1e-6
    )


def test_order_one_finds_the_best_subset(rng):
    A = rng.standard_normal((60, 9))
    y = A[:, [1, 4, 7]] @ [2.0, -1.5, 1.0] + 0.3 * rng.standard_normal(60)
    fit = tpgd(A, y, (9,), (1,), (3,), tol=1e-15)
    errors = [
        np.linalg.lstsq(A[:, list(subset)], y, rcond=None)[1][0]
        for subset in combinations(range(9), 3)
    ]
    assert 2 * fit.objective_path[-1] == pytest.approx(min(errors))


def test_fewer_samples_than_parameters_end(rng):
    A = rng.standard_normal((6, 60))
    y = rng.standard_normal(6)
    fit = tpgd(A, y, (5, 4, 3), (2, 2, 2), (5, 4, 3))
    assert fit.converged
    assert fit.objective_path[-1] < 0.05 * y @ y


def test_zero_data_give_zero():
    for A, y in [(np.zeros((5, 6)), np.ones(5)), (np.ones((5, 6)), np.zeros(5))]:
        fit = tpgd(A, y, (3, 2), (2, 2), (2, 2))
        assert not fit.coef.any()
        assert fit.converged


def test_budget_is_kept_and_inputs_are_left_as_they_were(rng):
    A, y, coef = planted(rng, noise=1.0)
    copies = A.copy(), y.copy()
    fit = tpgd(A, y, coef.shape, (2, 2, 2), (3, 3, 3), tol=0.0, max_iter=2)
    assert (fit.n_iter, fit.converged) == (2, False)
    assert fit.residual > 0.0
    np.testing.assert_array_equal(A, copies[0])
    np.testing.assert_array_equal(y, copies[1])


def test_first_component_beats_almost_every_support(rng):
    """Against the exact answer, by trying all supports."""
    for _ in range(20):
        matrix = rng.standard_normal((8, 12)) * np.linspace(1.0, 2.0, 8)[:, None]
        v = sparse_components(matrix, 1, 3)[:, 0]
        values = [
            np.linalg.norm(matrix[list(rows)], 2) for rows in combinations(range(8), 3)
        ]
        assert np.count_nonzero(v) == 3
        found = np.linalg.norm(v @ matrix)
        assert found <= max(values) * (1 + 1e-9)
        assert found >= np.quantile(values, 0.9)


def test_dense_components_are_the_singular_vectors(rng):
    matrix = rng.standard_normal((5, 30)) * np.array([5, 4, 3, 2, 1.0])[:, None]
    found = sparse_components(matrix, 3, 5)
    exact = np.linalg.svd(matrix)[0][:, :3]
    np.testing.assert_allclose(np.abs(np.sum(found * exact, axis=0)), 1.0, rtol=1e-4)


def test_components_of_a_rank_deficient_matrix_end_with_zeros(rng):
    matrix = np.outer(rng.standard_normal(6), rng.standard_normal(9))
    found = sparse_components(matrix, 3, 6)
    assert np.linalg.norm(found[:, 0]) == pytest.approx(1.0)
    assert not found[:, 1:].any()


@pytest.mark.parametrize("size", [(6, 4), (4, 20)])
def test_components_span_new_directions(rng, size):
    found = sparse_components(rng.standard_normal(size), 4, 2)
    assert np.linalg.matrix_rank(found, tol=1e-6) == 4
    assert np.count_nonzero(found, axis=0).max() <= 2


def test_a_tensor_in_the_set_is_left_alone(rng):
    _, _, coef = planted(rng)
    np.testing.assert_allclose(
        sparse_tucker(coef, (2, 2, 2), (2, 2, 2)).coef, coef, atol=1e-10
    )


@pytest.mark.parametrize("size", [(5, 40), (40, 5), (12, 12)])
def test_power_method_finds_the_largest_eigenvalue(rng, size):
    A = rng.standard_normal(size)
    exact = np.linalg.norm(A, 2) ** 2
    assert largest_eigenvalue(A) == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("seed", range(3, 7))
def test_single_precision_takes_the_same_steps(seed):
    """In any order of the samples, where the steps come to an end."""
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(12, 12)), rng.normal(size=12)
    A, y = (a.astype(np.float32) for a in (A - A.mean(axis=0), y - y.mean()))
    how = {"shape": (3, 4), "ranks": (2, 2), "sparsity": (2, 2)}
    double = tpgd(A.astype(float), y.astype(float), **how)
    assert double.converged
    for rows in (np.arange(12), rng.permutation(12), rng.permutation(12)):
        single = tpgd(A[rows], y[rows], **how)
        assert (single.coef.dtype, single.n_iter) == (np.float32, double.n_iter)
        np.testing.assert_allclose(single.coef, double.coef, atol=1e-6)
