from dataclasses import replace

import numpy as np
import pytest
from oracles import feasible, fold_by_loop, objective, unfold_by_loop
from problems import POSED, Posed, posed

import sltr
from sltr.core.estimate import (
    Settings,
    absolute_radii,
    estimate,
    estimate_path,
    estimate_with,
)
from sltr.core.grid import Schedule, solve_grid

TOL = 1e-6
# shape, fraction of the largest entry, of the largest singular value, (α, β)
MATRICES = {
    "both bind": ((4, 6), 0.2, 0.3, (1.0, 1.0)),
    "both bind, tall": ((6, 4), 0.15, 0.2, (1.0, 1.0)),
    "square": ((5, 5), 0.3, 0.3, (1.0, 1.0)),
    "box only": ((4, 6), 0.1, 1.0, (1.0, 1.0)),
    "ball only": ((4, 6), 1.0, 0.3, (1.0, 1.0)),
    "neither": ((4, 6), 1.1, 1.1, (1.0, 1.0)),
    "small radii": ((4, 6), 0.01, 0.02, (1.0, 1.0)),
    "weight on rank": ((4, 6), 0.3, 0.3, (0.2, 1.0)),
    "weight on rank, box only": ((4, 6), 0.2, 1.0, (0.1, 1.0)),
    "weight on entries": ((4, 6), 0.3, 0.2, (3.0, 1.0)),
    "by radius": ((4, 6), 0.2, 0.3, "radius"),
    "by radius, wide ball": ((5, 4), 0.1, 0.6, "radius"),
    "by radius, wide box": ((5, 4), 0.7, 0.4, "radius"),
}
JOINT = {
    "matrix": ((4, 5), 0.25, 0.3, (1.0, 1.0)),
    "tensor": ((3, 4, 2), 0.2, 0.3, (1.0, 1.0)),
    "tensor, box only": ((3, 3, 2), 0.1, 1.0, (1.0, 1.0)),
    "tensor, ball only": ((3, 3, 2), 1.0, 0.3, (1.0, 1.0)),
    "tensor, weight on rank": ((2, 4, 3), 0.3, 0.3, (0.2, 1.0)),
    "tensor, weight on entries": ((2, 3, 3), 0.3, 0.3, (2.0, 0.5)),
    "tensor, by radius": ((3, 3, 2), 0.3, 0.3, "radius"),
}
AVERAGE = {
    "tensor": ((3, 4, 2), 0.2, 0.3, (1.0, 1.0)),
    "tensor, weight on rank": ((2, 4, 3), 0.3, 0.3, (0.3, 1.0)),
    "tensor, by radius": ((3, 3, 3), 0.2, 0.4, "radius"),
}


def drawn(seed, shape, sparse, low, weights, modes):
    """Return a problem and the weights as `estimate` takes them."""
    problem = posed(100 + seed, shape, sparse, low, modes=modes)
    b = problem.bs[0]
    problem = replace(problem, bs=(b,) * len(modes))  # one absolute radius for all
    alpha, beta = (problem.a, b) if weights == "radius" else weights
    betas = (beta / len(modes),) * len(modes)
    return replace(problem, alpha=alpha, betas=betas), weights


def numbered(cases, modes_of):
    return [
        pytest.param(*drawn(i, *case, modes_of(case[0])), id=name)
        for i, (name, case) in enumerate(cases.items())
    ]


def assert_optimal(problem, coef, gap):
    """Compare with CVXPY: objective, both balls, the pattern of zeros."""
    Z, a = problem.Z, problem.a
    optimum, _ = problem.solution
    inside = feasible(coef, Z, a, problem.bs, problem.modes)
    value = objective(inside, problem.alpha, problem.betas, problem.modes)
    size = objective(Z, problem.alpha, problem.betas, problem.modes)
    assert abs(value - optimum) <= 1e-5 * optimum + 1e-7 * size
    assert value - optimum <= gap * value + 1e-7 * size
    # The rounding of one subtraction; of one more where modes are averaged.
    assert np.all(np.abs(coef - Z) <= a + 2 * np.spacing(np.abs(Z) + a))
    for b, mode in zip(problem.bs, problem.modes, strict=True):
        assert np.linalg.norm(unfold_by_loop(coef - Z, mode), 2) <= b * (1 + TOL)


def assert_pattern(problem, coef):
    """Compare exact zeros with what is clearly zero or not for CVXPY."""
    _, best = problem.solution
    largest = np.abs(problem.Z).max()
    assert not coef[np.abs(best) < 1e-8 * largest].any()
    assert coef[np.abs(best) > 0.01 * largest].all()


@pytest.fixture(params=[10**9, 0], ids=["together", "one by one"])
def estimated(request):
    """Both schedules of a CPU through a grid, whatever the size of the problem."""

    def function(pilot, lambda_sparse, lambda_low, **options):
        settings = Settings(small_problem=request.param, **options)
        return estimate_with(settings, pilot, lambda_sparse, lambda_low)

    return function


def one_solve(problem, tol=TOL):
    """Return the result of a batch of one."""
    how = {"schedule": Schedule.ONE_BY_ONE, "tol": tol, "max_iter": 5000}
    [result] = solve_grid(problem, [[0]], **how)
    return result


def test_the_public_name_is_the_function():
    assert sltr.estimate is estimate
    assert callable(sltr.report)


@pytest.mark.parametrize("solver", ["admm", "ppxa"])
@pytest.mark.parametrize(("problem", "weights"), numbered(MATRICES, lambda _: (0,)))
def test_matrix_estimate_agrees_with_cvxpy(problem, weights, solver, estimated):
    found = estimated(
        problem.Z, problem.a, problem.bs[0], weights=weights, solver=solver, tol=TOL
    )
    assert found.converged
    assert found.gap <= TOL
    assert_optimal(problem, found.coef, found.gap)


@pytest.mark.parametrize(("problem", "weights"), numbered(MATRICES, lambda _: (0,)))
def test_what_is_zero_is_exactly_zero(problem, weights):
    """A gap of 1e-6 may leave traces; they go as the gap does."""
    found = estimate(problem.Z, problem.a, problem.bs[0], weights=weights, tol=1e-9)
    assert_pattern(problem, found.coef)


@pytest.mark.parametrize(
    ("problem", "weights"), numbered(JOINT, lambda shape: tuple(range(len(shape))))
)
def test_joint_estimate_agrees_with_cvxpy(problem, weights, estimated):
    found = estimated(
        problem.Z,
        problem.a,
        problem.bs[0],
        weights=weights,
        coupling="joint",
        tol=TOL,
        max_iter=50_000,
    )
    assert found.converged
    assert found.gap <= TOL
    assert_optimal(problem, found.coef, found.gap)


@pytest.mark.parametrize(("problem", "weights"), numbered(AVERAGE, lambda _: (0,)))
def test_average_is_that_of_optimal_modes(problem, weights):
    """Every mode's answer is optimal for its own problem, and no mode is lost."""
    Z, a, b = problem.Z, problem.a, problem.bs[0]
    found = estimate(Z, a, b, weights=weights, tol=TOL)
    folded, gaps = [], []
    for mode in range(Z.ndim):
        own = Posed(
            unfold_by_loop(Z, mode), a, (b,), problem.alpha, problem.betas, (0,)
        )
        # With weights "radius" α and β are fixed up to a factor, here a + b.
        scale = (a + b) / 2 if weights == "radius" else 1.0
        scaled = replace(own, alpha=own.alpha / scale, betas=(own.betas[0] / scale,))
        candidates = scaled.batch()
        result = one_solve(candidates)
        assert_optimal(own, result.x[0], float(result.residual[0]))
        folded.append(fold_by_loop(result.x[0], mode, Z.shape))
        gaps.append(float(result.residual[0]))
    np.testing.assert_allclose(found.coef, np.mean(folded, axis=0), atol=1e-12)
    assert found.gap == pytest.approx(max(gaps), abs=1e-12)
    assert found.converged


def test_unions_of_problems_are_at_least_twenty():
    assert len(MATRICES) + len(JOINT) + len(AVERAGE) >= 20


def test_both_modes_of_a_matrix_give_the_same_answer():
    """Averaging two solutions of one problem cannot leave its solutions."""
    single = POSED["more weight on rank"]
    found = estimate(
        single.Z, single.a, single.bs[0], weights=(0.2, 1.0), tol=1e-8
    ).coef
    result = one_solve(single.batch(), tol=1e-8)
    np.testing.assert_allclose(found, result.x[0], atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"tol": 1e-5},
        {"tol": 1e-5, "coupling": "joint"},
        {"tol": 1e-3, "solver": "ppxa"},
    ],
    ids=["average", "joint", "ppxa"],
)
def test_libraries_agree(foreign, options):
    Z = posed(5, (3, 4, 2), 0.2, 0.3).Z
    radii = np.array([0.05, 0.3]), np.array([0.4, 0.8])
    expected = estimate(Z, *radii, **options)
    found = estimate(
        foreign.array(Z), foreign.array(radii[0]), foreign.array(radii[1]), **options
    )
    np.testing.assert_allclose(
        foreign.numpy(found.coef), expected.coef, atol=30 * options["tol"]
    )
    assert foreign.numpy(found.converged).all()


def test_plain_numbers_serve_any_library(foreign):
    Z = posed(5, (3, 4), 0.2, 0.3).Z
    found = estimate(foreign.array(Z), 0.1, 0.4)
    assert isinstance(found.gap, float)
    assert isinstance(found.converged, bool)
    np.testing.assert_allclose(
        foreign.numpy(found.coef), estimate(Z, 0.1, 0.4).coef, atol=1e-2
    )


def test_arrays_of_radii_equal_single_estimates(rng, estimated):
    Z = posed(6, (4, 3, 2), 0.2, 0.3).Z
    sparse, low = np.meshgrid([0.0, 0.1, 0.5, 5.0], [0.0, 0.3, 1.5, 9.0])
    order = rng.permutation(sparse.size)
    sparse, low = sparse.reshape(-1)[order], low.reshape(-1)[order]
    found = estimated(Z, sparse, low, tol=TOL)
    assert found.coef.shape == (16, 4, 3, 2)
    assert found.gap.shape == found.n_iter.shape == found.converged.shape == (16,)
    for g in range(16):
        single = estimated(Z, float(sparse[g]), float(low[g]), tol=TOL)
        assert single.coef.shape == Z.shape
        np.testing.assert_allclose(found.coef[g], single.coef, atol=1e-3)


def test_one_radius_serves_all_of_the_other():
    Z = posed(6, (4, 3), 0.2, 0.3).Z
    found = estimate(Z, 0.1, [0.2, 0.4])
    assert found.coef.shape == (2, 4, 3)


@pytest.mark.parametrize("coupling", ["average", "joint"])
def test_jobs_and_chunks_do_not_change_answers(coupling, estimated):
    Z = posed(7, (4, 3, 3), 0.2, 0.3).Z
    radii = [0.05, 0.1, 0.3], [0.3, 0.5, 0.7]

    def answer(**options):
        found = estimated(Z, *radii, coupling=coupling, **options)
        return [found.coef, found.gap, found.n_iter, found.converged]

    for plain in ({}, {"solver": "ppxa"}):
        expected = answer(**plain)
        for other in ({"n_jobs": 2}, {"n_jobs": 3}, {"chunk_entries": 40}):
            for one, two in zip(answer(**plain, **other), expected, strict=True):
                assert np.array_equal(one, two)


@pytest.mark.parametrize("coupling", ["average", "joint"])
def test_single_precision_stays_single_and_agrees(xp, coupling):
    Z = posed(8, (4, 3, 2), 0.2, 0.3).Z
    expected = estimate(Z, 0.2, 0.6, coupling=coupling, weights=(0.5, 1.0))
    found = estimate(
        xp.array(Z, "float32"), 0.2, 0.6, coupling=coupling, weights=(0.5, 1.0)
    )
    assert xp.numpy(found.coef).dtype == np.float32
    assert found.converged
    np.testing.assert_allclose(xp.numpy(found.coef), expected.coef, atol=0.02)


@pytest.mark.parametrize("order", range(1, 7))
@pytest.mark.parametrize("coupling", ["average", "joint"])
def test_any_order(order, coupling):
    shape = (3, 2, 4, 2, 2, 3)[:order]
    Z = posed(9, shape, 0.2, 0.3).Z
    largest = np.linalg.norm(Z)
    found = estimate(Z, 0.3 * np.abs(Z).max(), 0.4 * largest, coupling=coupling)
    assert found.coef.shape == shape
    assert found.converged
    assert np.abs(found.coef).sum() < np.abs(Z).sum()
    gone = estimate(Z, 1.01 * np.abs(Z).max(), 1.01 * largest, coupling=coupling)
    assert not gone.coef.any()


def test_order_one_is_thresholding_within_a_euclidean_ball(rng):
    """A vector is a matrix of one column: its spectral norm is its length."""
    z = rng.normal(size=6)
    found = estimate(z, 0.4, 10.0).coef
    np.testing.assert_allclose(found, np.sign(z) * np.maximum(np.abs(z) - 0.4, 0.0))


@pytest.mark.parametrize("coupling", ["average", "joint"])
@pytest.mark.parametrize("solver", ["admm", "ppxa"])
def test_degenerate_pilots(coupling, solver):
    options = {"coupling": coupling, "solver": solver}
    zero = estimate(np.zeros((3, 4, 2)), 0.1, 0.1, **options)
    assert zero.converged
    assert not zero.coef.any()
    Z = posed(5, (3, 4, 2), 0.2, 0.3).Z
    for radii in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0)):
        found = estimate(Z, *radii, **options)
        assert np.array_equal(found.coef, Z) or np.allclose(found.coef, Z, rtol=1e-15)
        assert found.gap == 0.0
    rank_one = np.ones((3, 1, 2))
    found = estimate(rank_one, 0.2, 9.0, **options)
    np.testing.assert_allclose(found.coef, 0.8 * rank_one, atol=1e-3)


def test_exhausted_budget_is_reported():
    single = POSED["both bind"]
    found = estimate(single.Z, single.a, single.bs[0], tol=1e-9, max_iter=2)
    assert not found.converged
    assert found.n_iter == 2
    optimum, _ = single.solution
    upper = single.upper(found.coef)
    assert upper - optimum <= found.gap * upper + 1e-7


def test_relative_radii_are_fractions_of_the_maxima(xp, rng):
    pilots = rng.normal(size=(2, 3, 4, 2))
    fractions = xp.array(np.array([0.0, 0.5, 1.0]))
    sparse, low = absolute_radii(xp.array(pilots), fractions, fractions, "relative")
    assert xp.numpy(low).shape == (2, 3, 3)
    for q in range(2):
        largest = np.abs(pilots[q]).max()
        expected = np.array([0.0, 0.5, 1.0])
        np.testing.assert_allclose(xp.numpy(sparse)[q], expected * largest)
        for mode in range(3):
            norm = np.linalg.norm(unfold_by_loop(pilots[q], mode), 2)
            np.testing.assert_allclose(xp.numpy(low)[q, :, mode], expected * norm)
    plain = absolute_radii(xp.array(pilots), fractions, fractions, "absolute")
    assert np.array_equal(xp.numpy(plain[0]), [[0.0, 0.5, 1.0]] * 2)
    settings = Settings()
    [(places, found)] = estimate_path(xp.array(pilots), sparse, low, settings)
    gone = xp.numpy(found.coef)[:, places.index(2)]
    assert not gone.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lambda_sparse": -0.1}, "lambda_sparse"),
        ({"lambda_low": float("nan")}, "lambda_low"),
        ({"lambda_low": float("inf")}, "lambda_low"),
        ({"lambda_sparse": [0.1, 0.2], "lambda_low": [0.1] * 3}, "equal numbers"),
        ({"coupling": "sum"}, "coupling"),
        ({"solver": "fista"}, "solver"),
        ({"weights": "equal"}, "weights"),
        ({"weights": (1.0,)}, "weights"),
        ({"weights": (-1.0, 1.0)}, "weights"),
        ({"weights": (0.0, 0.0)}, "weights"),
        ({"weights": (1.0, float("nan"))}, "weights"),
        ({"tol": 0.0}, "tol"),
        ({"tol": float("nan")}, "tol"),
        ({"n_jobs": (1, 2)}, r"n_jobs=\(1, 2\) was given; expected one whole number"),
        ({"n_jobs": "all"}, "n_jobs"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"pilot": np.full((2, 2), np.nan)}, "pilot"),
        ({"pilot": np.full((2, 2), np.inf)}, "pilot"),
        ({"pilot": np.ones((2, 2), complex)}, "pilot"),
        ({"pilot": np.array([["a"]])}, "pilot"),
        ({"pilot": np.float64(3.0)}, "pilot"),
        ({"pilot": np.ones((0, 2))}, "pilot"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, message):
    arguments = {"pilot": np.eye(3), "lambda_sparse": 0.1, "lambda_low": 0.1} | change
    with pytest.raises(ValueError, match=message):
        estimate(**arguments)


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_whole_numbers_are_taken_as_real_ones(xp, dtype):
    pilot = np.array([[3, 0], [1, 2]]).astype(dtype)
    expected = estimate(pilot.astype(float), 0.5, 0.6).coef
    found = xp.numpy(estimate(xp.array(pilot), 0.5, 0.6).coef)
    np.testing.assert_allclose(found, expected, atol=1e-2)
    assert found.dtype == np.float64


@pytest.mark.parametrize("coupling", ["average", "joint"])
@pytest.mark.parametrize("scale", [1e-170, 1e-30, 1e30, 1e160])
def test_no_scale_is_too_small_or_large(coupling, scale, estimated):
    single = posed(5, (3, 4, 2), 0.2, 0.3)
    options = {"weights": (0.3, 1.0), "coupling": coupling}
    plain = estimated(single.Z, single.a, single.bs[0], **options)
    found = estimated(
        scale * single.Z, scale * single.a, scale * single.bs[0], **options
    )
    np.testing.assert_allclose(found.coef / scale, plain.coef, atol=1e-3)
    assert found.gap == pytest.approx(plain.gap, abs=1e-4)
    assert found.converged


@pytest.mark.parametrize("coupling", ["average", "joint"])
@pytest.mark.parametrize("weights", ["unit", "radius", (0.3, 1.0)])
def test_huge_radii_are_no_constraint(coupling, weights, estimated):
    Z = posed(5, (3, 4, 2), 0.2, 0.3).Z
    options = {"weights": (1e-9, 1.0) if weights == "radius" else weights}
    options |= {"coupling": coupling, "tol": 1e-6}
    free = estimated(Z, 0.5, 1e9, **options)
    huge = estimated(Z, 0.5, 1e300, **options | {"weights": weights})
    assert huge.converged
    np.testing.assert_allclose(huge.coef, free.coef, atol=1e-3)
    ball = estimated(Z, 1e300, 0.5, **options)
    np.testing.assert_allclose(
        ball.coef, estimated(Z, 0.5, 0.5, **options).coef, atol=1e-3
    )
    assert not estimated(Z, 1e300, 1e300, **options).coef.any()
    tiny = estimated(1e-170 * Z, 0.5e-170, 1e300, **options)
    np.testing.assert_allclose(1e170 * tiny.coef, free.coef, atol=1e-3)


def test_settings_may_be_numpy_scalars_and_arrays():
    Z = posed(5, (3, 4, 2), 0.2, 0.3).Z
    expected = estimate(Z, 0.2, 0.5, weights=(0.3, 1.0), tol=1e-3, max_iter=50)
    found = estimate(
        Z,
        np.float32(0.2),
        np.array(0.5),
        weights=np.array([0.3, 1.0]),
        tol=np.float64(1e-3),
        max_iter=np.int64(50),
    )
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6)


def test_input_is_left_alone():
    Z = posed(5, (3, 4, 2), 0.2, 0.3).Z
    kept = Z.copy()
    Z.flags.writeable = False
    plain = estimate(Z, 0.1, 0.5).coef
    assert np.array_equal(Z, kept)
    fortran = estimate(np.asfortranarray(Z), 0.1, 0.5).coef
    np.testing.assert_allclose(fortran, plain, atol=1e-10)
    strided = np.zeros((6, 4, 4))
    strided[::2, :, ::2] = Z
    np.testing.assert_allclose(
        estimate(strided[::2, :, ::2], 0.1, 0.5).coef, plain, atol=1e-10
    )
