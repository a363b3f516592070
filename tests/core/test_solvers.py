"""Both algorithms find what an interior point method finds."""

import numpy as np
import pytest
from oracles import groups_of, unfold_by_loop
from problems import POSED, posed

from sltr.core.admm import admm
from sltr.core.ppxa import solve_by_ppxa
from sltr.core.problem import Problem

SOLVERS = {
    "admm": lambda problem, **how: admm(problem, **how)[0],
    "ppxa": solve_by_ppxa,
}
every_solver = pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)
every_problem = pytest.mark.parametrize("posed", POSED.values(), ids=POSED)


@every_solver
@every_problem
def test_solution_agrees_with_an_interior_point_method(solve, posed):
    optimum, _ = posed.solution
    result = solve(posed.batch(), tol=1e-6, max_iter=20_000)
    x = result.x[0]
    assert bool(result.converged[0])
    assert float(result.residual[0]) <= 1e-6
    upper = posed.upper(x)
    assert upper == pytest.approx(optimum, rel=1e-5)
    assert upper - optimum <= float(result.residual[0]) * upper + 2e-7 * optimum
    moved = (x - posed.Z).reshape(-1)
    for members, weight in posed.groups or groups_of(posed.Z.shape):
        assert np.linalg.norm(moved[members]) <= posed.a * weight * (1 + 1e-14) + 1e-14
    assert not posed.positive or x.min() >= 0
    for b, mode in zip(posed.bs, posed.modes, strict=True):
        assert np.linalg.norm(unfold_by_loop(x - posed.Z, mode), 2) <= b * (1 + 1e-6)


@every_solver
@every_problem
def test_what_is_clearly_zero_is_exactly_zero(solve, posed):
    if posed.alpha == 0.0:
        pytest.skip("without the entrywise norm nothing has to vanish")
    _, best = posed.solution
    size = np.abs(posed.Z).max()
    x = solve(posed.batch(), tol=1e-7, max_iter=50_000).x[0]
    assert not x[np.abs(best) < 1e-7 * size].any()
    assert x[np.abs(best) > 1e-2 * size].all()


@every_solver
def test_an_exhausted_budget_is_confessed_and_the_gap_still_valid(solve):
    for name in ("both bind", "more weight on rank", "joint tensor"):
        posed = POSED[name]
        optimum, _ = posed.solution
        result = solve(posed.batch(), tol=1e-12, max_iter=3)
        assert not result.converged[0]
        assert result.n_iter[0] == 3
        upper, gap = posed.upper(result.x[0]), float(result.residual[0])
        assert gap > 1e-12
        assert upper - optimum <= gap * upper + 1e-7 * optimum


@every_solver
def test_batch_equals_loop(solve):
    singles = [posed(seed, (4, 6), 0.25, 0.3, alpha=0.7) for seed in range(4)]
    problems = [single.batch() for single in singles]
    fields = ("pilot", "sparse_radius", "low_radius", "sparse_weight", "low_weight")
    together = Problem(
        *(np.concatenate([getattr(p, f) for p in problems]) for f in fields),
        modes=(0,),
    )
    result = solve(together, tol=1e-8)
    for g, problem in enumerate(problems):
        alone = solve(problem, tol=1e-8)
        scale = np.abs(problem.pilot).max()
        np.testing.assert_allclose(result.x[g], alone.x[0], atol=1e-5 * scale)
        assert result.residual[g] <= 1e-8
        assert result.converged[g]


def test_admm_batch_repeats_single_solves_exactly_in_iterations():
    """Problems leave the batch one by one without disturbing the others."""
    singles = [posed(s, (4, 6), f, 0.3).batch() for s, f in ((0, 0.2), (1, 0.9))]
    fields = ("pilot", "sparse_radius", "low_radius", "sparse_weight", "low_weight")
    together = Problem(
        *(np.concatenate([getattr(p, f) for p in singles]) for f in fields),
        modes=(0,),
    )
    result, _ = admm(together, tol=1e-6)
    alone = [admm(p, tol=1e-6)[0] for p in singles]
    assert result.n_iter.tolist() == [int(r.n_iter[0]) for r in alone]
    for g, single in enumerate(alone):
        np.testing.assert_allclose(result.x[g], single.x[0], atol=1e-12)


def test_a_warm_start_at_the_answer_needs_no_more_than_a_look():
    problem = POSED["both bind"].batch()
    cold, end = admm(problem, tol=1e-8)
    warm, _ = admm(problem, end, tol=1e-6)
    assert warm.n_iter[0] <= 3 < cold.n_iter[0]


@every_solver
def test_libraries_agree(foreign, solve):
    """Iterates agree to rounding; CPU and device look at the gap at other times."""
    for name in ("both bind", "joint tensor"):
        posed = POSED[name]
        expected = solve(posed.batch(), tol=1e-12, max_iter=40)
        found = solve(posed.batch(foreign.array), tol=1e-12, max_iter=40)
        np.testing.assert_allclose(foreign.numpy(found.x), expected.x, atol=1e-9)


@every_solver
@pytest.mark.parametrize("name", ["both bind", "joint tensor"])
def test_single_precision_reaches_its_tolerance(solve, name):
    posed = POSED[name]
    problem = posed.batch(lambda v: np.asarray(v, dtype="float32"))
    result = solve(problem, tol=1e-4)
    assert result.x.dtype == np.float32
    assert result.converged[0]
    assert posed.upper(result.x[0]) == pytest.approx(posed.solution[0], rel=2e-4)
