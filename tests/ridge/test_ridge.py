import numpy as np
import pytest
from oracles import assert_close, leave_one_out_by_loop, ridge_by_normal_equations

from sltr import ridge as dual
from sltr.arrays.linalg import conjugate_gradients
from sltr.ridge import (
    CHOLESKY_PER_EIGH,
    GramRidge,
    RidgeLimits,
    cheapest_method,
    mean_loss,
    ridge_system,
)
from sltr.ridge.conjugate_gradients import CGRidge
from sltr.ridge.moments import MomentRidge
from sltr.samples.centring import Centring
from sltr.samples.samples import InMemory

METHODS = ["dual", "primal", "cg"]
DIRECT = ["dual", "primal"]
SIZES = [(8, 15), (20, 6)]
every_method = pytest.mark.parametrize("method", METHODS)
every_direct = pytest.mark.parametrize("method", DIRECT)
every_size = pytest.mark.parametrize("size", SIZES, ids=["wide", "tall"])
with_or_without = pytest.mark.parametrize("fit_intercept", [True, False])


def drawn(rng, size, n_responses=2):
    X = rng.normal(size=size) + 0.5
    Y = rng.normal(size=(size[0], n_responses)) + X[:, :1]
    return X, Y, rng.uniform(0.2, 3.0, size=size[0])


def pilots(
    X, Y, weight, epsilons, *, method, fit_intercept=True, subsets=None, xp=None
):
    if subsets is None:
        subsets = np.ones((1, len(X)), bool)
    array = np.asarray if xp is None else xp.array
    system = ridge_system(
        array(X), array(Y), array(weight), fit_intercept=fit_intercept, method=method
    )
    epsilons = array(np.asarray(epsilons, X.dtype))
    found, _ = system.coefs_and_means(array(subsets), epsilons)
    return found if xp is None else xp.numpy(found)


@every_method
@every_size
@with_or_without
def test_pilots_solve_the_normal_equations(rng, method, size, fit_intercept):
    X, Y, weight = drawn(rng, size)
    epsilons = [0.05, 3.0]
    found = pilots(X, Y, weight, epsilons, method=method, fit_intercept=fit_intercept)
    assert found.shape == (1, 2, 2, size[1])
    for e, epsilon in enumerate(epsilons):
        for k in range(2):
            expected = ridge_by_normal_equations(
                X, Y[:, k], epsilon, weight, fit_intercept
            )
            assert_close(found[0, e, k], expected)


@every_method
@every_size
@with_or_without
def test_other_responses_give_the_system_made_with_them(
    rng, method, size, fit_intercept
):
    X, Y, weight = drawn(rng, size)
    other = rng.normal(size=(size[0], 3)) + 5.0
    options = {"fit_intercept": fit_intercept, "method": method}
    subsets = rng.random((2, size[0])) < 0.8
    epsilons = np.array([0.1, 2.0])
    changed = ridge_system(X, Y, weight, **options).with_responses(other)
    made = ridge_system(X, other, weight, **options)
    for found, expected in zip(
        changed.coefs_and_means(subsets, epsilons),
        made.coefs_and_means(subsets, epsilons),
        strict=True,
    ):
        assert_close(found, expected)
    if method != "cg":
        assert_close(changed.loo_losses(epsilons), made.loo_losses(epsilons))


@every_method
@every_size
def test_subsets_equal_fits_on_their_samples(rng, method, size):
    X, Y, weight = drawn(rng, size)
    subsets = rng.random((3, size[0])) < 0.7
    subsets[0], subsets[1, :3] = True, True
    found = pilots(X, Y, weight, [0.5], method=method, subsets=subsets)
    for s, taken in enumerate(subsets):
        expected = ridge_by_normal_equations(X[taken], Y[taken, 1], 0.5, weight[taken])
        assert_close(found[s, 0, 1], expected)


@with_or_without
@pytest.mark.parametrize("n_left_out", [0, 1, 5])
def test_one_decomposition_serves_all_folds(
    rng, monkeypatch, fit_intercept, n_left_out
):
    X, Y, weight = drawn(rng, (40, 60))
    taken = np.ones((1, 40), bool)
    taken[0, rng.permutation(40)[:n_left_out]] = False
    Y[~taken[0]] = 1e6  # a sample left out has no say, not even in rounding
    system = ridge_system(
        X, Y, weight, fit_intercept=fit_intercept, method="dual", loo=True
    )
    epsilons = np.array([0.5, 20.0])
    monkeypatch.setattr(dual, "penalised_solves", None)
    found, _ = system.coefs_and_means(taken, epsilons)
    rows = taken[0]
    for e, epsilon in enumerate(epsilons):
        for k in range(2):
            expected = ridge_by_normal_equations(
                X[rows], Y[rows, k], epsilon, weight[rows], fit_intercept
            )
            assert_close(found[0, e, k], expected)


def test_solves_are_direct_where_the_decomposition_would_not_do(rng, monkeypatch):
    X, Y, weight = drawn(rng, (40, 60))
    system = ridge_system(X, Y, weight, fit_intercept=True, method="dual")
    everything, half = np.ones((1, 40), bool), np.arange(40)[None, :] % 2 == 0
    calls = []
    solves = dual.penalised_solves
    monkeypatch.setattr(
        dual, "penalised_solves", lambda *args: calls.append(1) or solves(*args)
    )
    system.coefs_and_means(everything, np.array([1.0]))  # nothing was decomposed yet
    assert len(calls) == 1
    system = system.with_spectrum()
    system.coefs_and_means(everything, np.array([1.0]))
    assert len(calls) == 1
    system.coefs_and_means(half, np.array([1.0]))  # cheaper by itself
    system.coefs_and_means(everything, np.array([1e-9]))  # rounding would show
    system.coefs_and_means(everything, np.array([0.0]))
    assert len(calls) == 4


def test_libraries_agree_on_folds_after_leave_one_out(foreign, rng):
    X, Y, weight = drawn(rng, (30, 50))
    subsets, epsilons = np.arange(30)[None, :] % 8 != 0, np.array([0.3, 5.0])
    answers = []
    for array, numpy in ((np.asarray, np.asarray), (foreign.array, foreign.numpy)):
        given = array(X), array(Y), array(weight)
        system = ridge_system(*given, fit_intercept=True, method="dual", loo=True)
        coefs, _ = system.coefs_and_means(array(subsets), array(epsilons))
        answers.append(numpy(coefs))
    assert_close(answers[1], answers[0])


@every_direct
@every_size
def test_many_penalties_share_an_eigendecomposition(rng, method, size):
    X, Y, weight = drawn(rng, size, 1)
    epsilons = np.geomspace(1e-3, 1e3, CHOLESKY_PER_EIGH + 3)
    found = pilots(X, Y, weight, epsilons, method=method)
    for e, epsilon in enumerate(epsilons):
        expected = ridge_by_normal_equations(X, Y[:, 0], epsilon, weight)
        assert_close(found[0, e, 0], expected)


@every_direct
@every_size
@with_or_without
def test_no_penalty_gives_the_solution_of_least_norm(rng, method, size, fit_intercept):
    X, Y, weight = drawn(rng, size, 1)
    X[:, 3] = X[:, 2]  # a tall matrix is short of rank, too
    found = pilots(X, Y, weight, [0.0], method=method, fit_intercept=fit_intercept)
    expected = ridge_by_normal_equations(X, Y[:, 0], 0.0, weight, fit_intercept)
    assert_close(found[0, 0, 0], expected, scale=100)


@every_method
@every_size
def test_integer_weights_are_repetitions(rng, method, size):
    X, Y, _ = drawn(rng, size)
    times = rng.integers(1, 4, size=size[0])
    weighted = pilots(X, Y, times.astype(float), [0.5], method=method)
    repeated_X, repeated_Y = np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0)
    ones = np.ones(len(repeated_X))
    assert_close(weighted, pilots(repeated_X, repeated_Y, ones, [0.5], method=method))


@every_direct
@every_size
@with_or_without
def test_leave_one_out_equals_leaving_out(rng, method, size, fit_intercept):
    X, Y, _ = drawn(rng, size, 1)
    system = ridge_system(
        X, Y, np.ones(size[0]), fit_intercept=fit_intercept, method=method
    )
    found = mean_loss(system.loo_losses(np.array([0.1, 2.0])), np.ones(size[0]))
    expected = [
        leave_one_out_by_loop(X, Y[:, 0], epsilon, fit_intercept)
        for epsilon in (0.1, 2.0)
    ]
    assert_close(found, expected)


@every_direct
@every_size
def test_leave_one_out_counts_integer_weights_as_repetitions(rng, method, size):
    X, Y, _ = drawn(rng, size, 1)
    times = rng.integers(1, 4, size=size[0])
    system = ridge_system(X, Y, times.astype(float), fit_intercept=True, method=method)
    expected = leave_one_out_by_loop(
        np.repeat(X, times, axis=0), np.repeat(Y[:, 0], times), 0.7
    )
    found = mean_loss(system.loo_losses(np.array([0.7])), times.astype(float))
    assert_close(found, [expected])


def test_leave_one_out_keeps_its_digits_where_a_basis_explains_nearly_all(rng):
    # One direction u is left beside intercept and covariates, and without a sample
    # none: whatever the penalty, its error is that of the basis alone, u·y/u_i.
    for _ in range(20):
        X, Y = rng.normal(size=(4, 9)), rng.normal(size=(4, 1))
        Z = rng.normal(size=(4, 2))
        basis = np.column_stack([np.ones(4), Z])
        u = np.linalg.svd(basis)[0][:, -1]
        given = [values.astype("float32") for values in (X, Y, np.ones(4))]
        settings = {"fit_intercept": True, "method": "dual", "loo": True}
        system = ridge_system(*given, **settings, covariates=Z.astype("float32"))
        epsilons = np.array([0.01, 1.0, 100.0], "float32")
        found = np.sqrt(system.loo_losses(epsilons))
        expected = np.abs(u @ Y[:, 0] / u)
        rounding = 1e-5 / np.abs(u).min()
        np.testing.assert_allclose(found, np.tile(expected, (3, 1)), rtol=rounding)


@every_direct
@every_size
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sample_with_a_column_of_its_own_takes_no_part(rng, method, size, dtype):
    X, Y, _ = (values.astype(dtype) for values in drawn(rng, size))
    number = rng.normal(size=(size[0], 1)).astype(dtype)
    rest = np.arange(size[0]) != 3
    Z = np.hstack([number, ~rest[:, None]]).astype(dtype)
    epsilons, one = np.array([0.1, 2.0], dtype), np.ones(size[0], dtype)
    settings = {"fit_intercept": True, "method": method}
    system = ridge_system(X, Y, one, **settings, covariates=Z)
    found = system.loo_losses(epsilons)
    system = ridge_system(
        X[rest], Y[rest], one[rest], **settings, covariates=number[rest]
    )
    expected = system.loo_losses(epsilons)
    np.testing.assert_array_equal(found[:, 3], 0.0)
    rtol = 1e-8 if dtype == "float64" else 2e-3
    np.testing.assert_allclose(found[:, rest], expected, rtol=rtol)


@every_method
@every_size
def test_mean_eigenvalue_is_that_of_the_centred_samples(rng, method, size):
    X, Y, _ = drawn(rng, size)
    system = ridge_system(X, Y, np.ones(size[0]), fit_intercept=True, method=method)
    A = X - X.mean(axis=0)
    assert_close(system.mean_eigenvalue(), np.sum(A**2) / min(size))


@every_method
@every_size
def test_a_large_mean_costs_no_digits(rng, method, size):
    X, Y, weight = drawn(rng, size)
    plain = pilots(X, Y, weight, [0.5], method=method)
    far = pilots(X + 1e6, Y + 1e6, weight, [0.5], method=method)
    np.testing.assert_allclose(far, plain, rtol=1e-5, atol=1e-7)


@every_method
def test_single_precision_stays_single(rng, method):
    X, Y, weight = (v.astype("float32") for v in drawn(rng, (8, 15)))
    found = pilots(X, Y, weight, [0.5], method=method)
    expected = pilots(*(v.astype(float) for v in (X, Y, weight)), [0.5], method=method)
    assert found.dtype == np.float32
    assert_close(found, expected, "float32")


@every_method
@every_size
def test_libraries_agree(foreign, rng, method, size):
    X, Y, weight = drawn(rng, size)
    subsets = np.ones((2, size[0]), bool)
    subsets[1, :2] = False
    options = {"method": method, "subsets": subsets}
    expected = pilots(X, Y, weight, [0.5, 2.0], **options)
    assert_close(pilots(X, Y, weight, [0.5, 2.0], xp=foreign, **options), expected)


@every_direct
def test_libraries_agree_on_leave_one_out(foreign, rng, method):
    X, Y, weight = drawn(rng, (8, 15))
    epsilons = np.array([0.5, 2.0])

    def errors(array):
        system = ridge_system(
            array(X), array(Y), array(weight), fit_intercept=True, method=method
        )
        return system.loo_losses(array(epsilons)), system.mean_eigenvalue()

    found, scale = errors(foreign.array)
    expected, expected_scale = errors(np.asarray)
    assert_close(foreign.numpy(found), expected)
    assert_close(scale, expected_scale)


def test_the_cheapest_system_is_chosen(rng):
    wide, tall = (drawn(rng, size) for size in SIZES)
    assert isinstance(ridge_system(*wide, fit_intercept=True), GramRidge)
    assert isinstance(ridge_system(*tall, fit_intercept=True), MomentRidge)
    small = RidgeLimits(largest_side=5)
    assert isinstance(ridge_system(*wide, fit_intercept=True, limits=small), CGRidge)


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        ((100, 5000), {}, "dual"),
        ((5000, 100), {}, "primal"),
        ((30_000, 40_000), {}, "cg"),
        ((4000, 10**6), {"memory": 10**9 + 10**8}, "dual"),
        ((4000, 10**6), {"memory": 10**9}, "cg"),
        ((4000, 10**6), {"memory": 10**9, "itemsize": 4}, "dual"),
        ((10**6, 4000), {"memory": 10**9, "itemsize": 4}, "cg"),
    ],
)
def test_the_choice_keeps_to_the_memory_limit(size, options, expected):
    assert cheapest_method(*size, **options) == expected


def decaying(rng, n_samples=80, n_features=90):
    """Return samples whose Gram matrix has a few large eigenvalues."""
    left = np.linalg.qr(rng.normal(size=(n_samples, n_samples)))[0]
    right = np.linalg.qr(rng.normal(size=(n_features, n_samples)))[0]
    return (left * 10.0 ** np.linspace(3, -2, n_samples)) @ right.T


@pytest.mark.parametrize("kind", ["all", "subsets"])
def test_a_sketch_saves_iterations_and_changes_nothing(rng, kind):
    X, Y = decaying(rng) + 5.0, rng.normal(size=(80, 2))
    weight = rng.uniform(0.5, 2.0, size=80)
    subsets = np.ones((1, 80), bool)
    if kind == "subsets":
        subsets = rng.random((3, 80)) < 0.8
    epsilons = np.array([0.01, 1.0])
    passes = []

    class Counted(InMemory):
        def inner(self, coef):
            passes.append(1)
            return super().inner(coef)

    X = Counted(X)
    plain = CGRidge(X, Y, Centring(weight, True))
    expected = plain.coefs_and_means(subsets, epsilons)[0]
    n_plain = len(passes)
    passes.clear()
    found = ridge_system(X, Y, weight, fit_intercept=True, method="cg")
    np.testing.assert_allclose(
        found.coefs_and_means(subsets, epsilons)[0], expected, rtol=1e-5, atol=1e-8
    )
    assert len(passes) < n_plain / 3
    small = ridge_system(
        X, Y, weight, fit_intercept=True, method="cg", memory=170 * 320
    )
    assert small.sketch.shape == (80, 10)


def test_a_budget_that_runs_out_is_reported_with_the_residual(rng):
    X, Y = decaying(rng), rng.normal(size=(80, 1))
    told = []
    system = CGRidge(
        InMemory(X),
        Y,
        Centring(np.ones(80), True),
        max_iter=3,
        unconverged=lambda *a: told.append(a),
    )
    found, _ = system.coefs_and_means(np.ones((1, 80), bool), np.array([0.1]))
    found = found[0, 0, 0]
    (residual, n_iter) = told[0]
    assert n_iter == 3
    A, y = X - X.mean(axis=0), Y[:, 0] - Y.mean()
    # The pilot is Aᵀc: what is left of y is not explained by ε·c.
    dual = np.linalg.lstsq(A.T, found, rcond=None)[0]
    left = np.linalg.norm(y - A @ found - 0.1 * dual) / np.linalg.norm(y)
    assert residual == pytest.approx(left, rel=0.3)


def test_matrix_free_pilot_refuses_leave_one_out(rng):
    system = ridge_system(*drawn(rng, (8, 15)), fit_intercept=True, method="cg")
    with pytest.raises(ValueError, match="as numbers"):
        system.loo_losses(np.array([1.0]))


def test_leave_one_out_at_the_least_penalties_does_not_see_added_constants():
    rng = np.random.default_rng(0)
    X, Y, shift = (rng.normal(size=size) for size in ((7, 18), (7, 1), (1, 18)))
    errors = []
    for samples in (X, X + 100.0 * shift):
        given = (samples, Y, np.ones(7))
        system = ridge_system(*given, fit_intercept=True, method="dual", loo=True)
        epsilon = np.array([1e-6 * system.mean_eigenvalue()])
        errors.append(float(mean_loss(system.loo_losses(epsilon), np.ones(7))[0]))
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)


def test_conjugate_gradients_solve_each_system_by_itself(rng):
    roots = rng.normal(size=(3, 12, 12)) * np.array([0.1, 1.0, 5.0])[:, None, None]
    matrices = roots @ np.swapaxes(roots, 1, 2) + np.eye(12)
    rhs = rng.normal(size=(3, 12, 1))
    options = {"tol": 1e-2, "max_iter": 50, "verify": False}
    together, *_ = conjugate_gradients(lambda v: matrices @ v, rhs, **options)
    for k in range(3):
        one = matrices[k : k + 1]
        alone, *_ = conjugate_gradients(lambda v, A=one: A @ v, rhs[[k]], **options)
        np.testing.assert_array_equal(together[[k]], alone)
