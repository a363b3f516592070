"""The certificate bounds the true suboptimality; solutions known on paper are found."""

import numpy as np
import pytest
from oracles import map_singular_values, soft, unfold_by_loop
from problems import POSED, posed

from sltr.core.admm import admm
from sltr.core.ppxa import solve_by_ppxa
from sltr.core.problem import Problem

every_problem = pytest.mark.parametrize("single", POSED.values(), ids=POSED)
# What an interior point method and a Gram matrix leave of the true numbers.
ROUNDING = 2e-7


def certified(single, x, nuclear, spectral, *, exact=False):
    gap, excess = single.batch().certificate(
        x[None], [v[None] for v in nuclear], [s[None] for s in spectral], exact=exact
    )
    return float(gap[0]), float(excess[0])


def random_multipliers(rng, single):
    scale = 10.0 ** rng.uniform(-2, 2)
    return tuple(
        [scale * rng.normal(size=single.Z.shape) for _ in single.modes]
        for _ in range(2)
    )


@every_problem
def test_no_multiplier_gives_a_bound_above_the_optimum(single, rng):
    optimum, best = single.solution
    inside = single.batch().region.nearest(best[None])[0]
    for _ in range(30):
        nuclear, spectral = random_multipliers(rng, single)
        upper = single.upper(inside)
        gap, _ = certified(single, inside, nuclear, spectral)
        assert upper * (1.0 - gap) <= optimum + ROUNDING * optimum


@every_problem
def test_the_gap_bounds_the_suboptimality_of_any_point(single, rng):
    """Random points with the best multipliers, which leave the least slack."""
    optimum, _ = single.solution
    problem = single.batch()
    _, end = admm(problem, tol=1e-7)
    nuclear, spectral = ([dual[0, i] for dual in end.duals] for i in range(2))
    for _ in range(30):
        move = rng.uniform(-1.0, 1.0, size=single.Z.shape) * rng.random()
        x = problem.region.nearest(problem.pilot + problem.sparse_radius * move)[0]
        upper = single.upper(x)
        gap, _ = certified(single, x, nuclear, spectral)
        assert upper - optimum <= gap * upper + ROUNDING * optimum
        # Not an empty promise: with the best multipliers it is nearly sharp.
        assert gap * upper <= upper - optimum + 1e-5 * upper


@every_problem
def test_the_excess_is_the_violation_of_the_tightest_ball(single, rng):
    zeros = [0.0 * single.Z] * len(single.modes)
    for _ in range(5):
        x = single.Z + rng.normal(size=single.Z.shape)
        _, excess = certified(single, x, zeros, zeros)
        ratios = [
            np.linalg.norm(unfold_by_loop(x - single.Z, mode), 2) / b
            for mode, b in zip(single.modes, single.bs, strict=True)
        ]
        assert excess == pytest.approx(max(1.0, *ratios) - 1.0, abs=1e-9)


@every_problem
def test_exact_and_fast_certificates_agree(single, rng):
    nuclear, spectral = random_multipliers(rng, single)
    fast = certified(single, single.Z, nuclear, spectral)
    exact = certified(single, single.Z, nuclear, spectral, exact=True)
    assert fast == pytest.approx(exact, rel=1e-6)


SOLVERS = {
    "admm": lambda problem, **how: admm(problem, **how)[0],
    "ppxa": solve_by_ppxa,
}
every_solver = pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)
TOL = 1e-8


def answer(solve, Z, a, b, alpha=1.0, beta=1.0):
    columns = (np.array([v]) for v in (a, alpha))
    wide = (np.array([[v]]) for v in (b, beta))
    (a, alpha), (b, beta) = columns, wide
    problem = Problem(Z[None], a, b, alpha, beta, (0,)).with_effective_box()
    result = solve(problem, tol=TOL, max_iter=50_000)
    assert result.converged[0]
    return result.x[0]


@pytest.fixture
def Z(rng):
    return rng.normal(size=(4, 7))


@every_solver
def test_entries_are_thresholded_where_the_clip_fits(solve, Z):
    a = 0.6
    b = 1.001 * np.linalg.norm(np.clip(Z, -a, a), 2)
    for alpha, beta in ((1.0, 1.0), (2.0, 0.5)):
        found = answer(solve, Z, a, b, alpha, beta)
        np.testing.assert_allclose(found, soft(Z, a), atol=1e-5)


def test_closed_form_is_recognised_exactly_where_it_holds(Z):
    a = 0.6
    reach = np.linalg.norm(np.clip(Z, -a, a), 2)

    def is_closed(b, alpha=1.0, beta=1.0):
        columns = (np.array([v]) for v in (a, alpha))
        wide = (np.array([[v]]) for v in (b, beta))
        (radius, alpha), (b, beta) = columns, wide
        return bool(Problem(Z[None], radius, b, alpha, beta, (0,)).is_closed_form()[0])

    assert is_closed(1.001 * reach)
    assert not is_closed(0.999 * reach)
    assert not is_closed(1.001 * reach, alpha=0.9)


@every_solver
def test_a_box_wider_than_the_ball_is_redundant(solve, Z):
    b = 1.0
    wide = answer(solve, Z, 1e6, b, 0.3)
    equal = answer(solve, Z, b, b, 0.3)
    np.testing.assert_allclose(wide, equal, atol=1e-6)


@every_solver
def test_everything_is_exactly_zero_at_the_maxima_and_not_below(solve, Z):
    a, b = np.abs(Z).max(), np.linalg.norm(Z, 2)
    assert not answer(solve, Z, a * (1 + 1e-12), b * (1 + 1e-12)).any()
    assert answer(solve, Z, 0.99 * a, b).any()
    assert answer(solve, Z, a, 0.99 * b).any()


@every_solver
def test_a_diagonal_pilot_is_thresholded_at_the_smaller_radius(solve):
    Z = np.diag([3.0, -2.0, 0.5, 1.0])
    for a, b in ((1.0, 2.0), (2.0, 0.7)):
        found = answer(solve, Z, a, b)
        np.testing.assert_allclose(found, soft(Z, min(a, b)), atol=1e-6)


@every_solver
def test_without_the_low_rank_half_entries_are_thresholded(solve, Z):
    found = answer(solve, Z, 0.5, 2 * np.linalg.norm(Z, 2), beta=0.0)
    np.testing.assert_allclose(found, soft(Z, 0.5), atol=1e-6)


@every_solver
def test_without_the_sparse_half_singular_values_are_thresholded(solve, Z):
    b = 1.2
    found = answer(solve, Z, 1e6, b, alpha=0.0)
    expected = map_singular_values(Z, lambda s: soft(s, b))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@every_solver
def test_both_modes_of_a_matrix_pose_the_same_problem(solve, Z):
    rows = answer(solve, Z, 0.4, 0.8, 0.5)
    columns = answer(solve, Z.T.copy(), 0.4, 0.8, 0.5)
    np.testing.assert_allclose(rows, columns.T, atol=1e-5)


@every_solver
def test_scaling_the_pilot_and_the_radii_scales_the_answer(solve):
    single = posed(3, (4, 5), 0.3, 0.3, alpha=0.5)
    plain = answer(solve, single.Z, single.a, single.bs[0], 0.5)
    for scale in (1e-5, 1e5):
        found = answer(
            solve, scale * single.Z, scale * single.a, scale * single.bs[0], 0.5
        )
        np.testing.assert_allclose(found / scale, plain, atol=1e-5)
