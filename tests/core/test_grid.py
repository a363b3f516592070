"""Whole grids: the structure saves solves, it does not change answers."""

import numpy as np
import pytest
from oracles import feasible, unfold_by_loop
from problems import Posed, posed

from sltr.core.admm import admm
from sltr.core.grid import Schedule, solve_grid
from sltr.core.problem import Problem

FRACTIONS = (0.0, 0.1, 0.4, 1.0)
TOL = 1e-6
CASES = {
    "unit": (posed(20, (4, 6), 1.0, 1.0), 1.0, 1.0),
    "weight on rank": (posed(21, (6, 3), 1.0, 1.0), 0.3, 1.0),
    "joint": (posed(22, (3, 4, 2), 1.0, 1.0, modes=(0, 1, 2)), 0.6, 1.0),
}
SCHEDULES = (Schedule.TOGETHER, Schedule.ONE_BY_ONE)
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def grid(case, array=np.asarray, n_pilots=1):
    """Return candidates of one or more pilots, and each one by itself."""
    single, alpha, beta = case
    pairs = [(f, g) for g in FRACTIONS for f in FRACTIONS[::-1]]
    betas = (beta / len(single.modes),) * len(single.modes)
    # Pilots differ by a factor, so that the same fractions mean other radii.
    alone = [
        Posed(
            scale * single.Z,
            scale * f * single.a,
            tuple(scale * g * b for b in single.bs),
            alpha,
            betas,
            single.modes,
        )
        for scale in (1.0, 2.5)[:n_pilots]
        for f, g in pairs
    ]
    pilots = np.stack([alone[q * len(pairs)].Z for q in range(n_pilots)])
    candidates = Problem(
        array(pilots),
        array(np.array([p.a for p in alone])),
        array(np.array([p.bs for p in alone])),
        array(np.array([p.alpha for p in alone])),
        array(np.array([p.betas for p in alone])),
        single.modes,
    )
    return candidates, alone, len(pairs)


def by_itself(problem):
    """Solve one candidate without any of the grid's structure."""
    if problem.a == 0.0 or min(problem.bs) == 0.0:
        return problem.Z
    zero = 0.0 * problem.Z
    if np.allclose(feasible(zero, problem.Z, problem.a, problem.bs, problem.modes), 0):
        return zero  # which no relative gap can certify
    return admm(problem.batch(), tol=TOL)[0].x[0]


def assert_answers(alone, x, gap):
    for problem, found, bound in zip(alone, x, gap, strict=True):
        expected = problem.upper(by_itself(problem))
        slack = 2 * TOL * np.abs(problem.Z).sum()
        assert bound <= TOL
        assert problem.upper(found) == pytest.approx(expected, rel=2 * TOL, abs=slack)
        assert np.abs(found - problem.Z).max() <= problem.a * (1 + 1e-12)
        for b, mode in zip(problem.bs, problem.modes, strict=True):
            size = np.linalg.norm(unfold_by_loop(found - problem.Z, mode), 2)
            assert size <= b * (1 + 2 * TOL) + 1e-12


def solve(candidates, chunks, schedule=Schedule.ONE_BY_ONE, tol=TOL, max_iter=5000):
    how = {"schedule": schedule, "tol": tol, "max_iter": max_iter}
    return list(solve_grid(candidates, chunks, **how))


@every_case
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_pilots", [1, 2])
def test_schedules_equal_single_solves(case, schedule, n_pilots):
    candidates, alone, n = grid(case, n_pilots=n_pilots)
    [result] = solve(candidates, [list(range(n))], schedule)
    assert result.converged.all()
    assert_answers(alone, result.x, result.residual)


def test_batches_run_on_other_libraries(foreign):
    candidates, alone, n = grid(CASES["unit"], foreign.array, n_pilots=2)
    [result] = solve(candidates, [list(range(n))], Schedule.TOGETHER)
    assert_answers(alone, foreign.numpy(result.x), foreign.numpy(result.residual))


@every_case
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_chunks_do_not_change_answers(case, schedule):
    candidates, _, n = grid(case)
    order = np.random.default_rng(0).permutation(n).tolist()

    def answers(length):
        chunks = [order[i : i + length] for i in range(0, n, length)]
        results = solve(candidates, chunks, schedule, tol=1e-4)
        assert [len(r.x) for r in results] == [len(c) for c in chunks]
        return [
            np.concatenate([getattr(r, name) for r in results])
            for name in ("x", "residual", "n_iter", "converged")
        ]

    whole = answers(n)
    for length in (1, 4):
        for found, expected in zip(answers(length), whole, strict=True):
            if schedule is Schedule.ONE_BY_ONE:
                assert np.array_equal(found, expected)
            else:  # products of larger batches may round differently
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_multiples_of_a_pilot_start_from_its_solutions():
    candidates, _, n = grid(CASES["unit"], n_pilots=2)
    chunk = sorted(range(n), key=lambda g: float(candidates.low_radius[g, 0]))
    [result] = solve(candidates, [chunk])
    first, second = result.n_iter.reshape(2, n)
    assert first.max() > 5
    assert second.max() <= 2


def test_zero_radii_leave_the_pilot_alone():
    candidates, alone, n = grid(CASES["unit"])
    [result] = solve(candidates, [list(range(n))])
    for problem, x in zip(alone, result.x, strict=True):
        if problem.a == 0.0 or problem.bs[0] == 0.0:
            assert np.array_equal(x, problem.Z)


def test_an_exhausted_budget_is_confessed_for_what_needed_iterations():
    candidates, alone, n = grid(CASES["unit"])
    [result] = solve(candidates, [list(range(n))], tol=1e-10, max_iter=2)
    needed = result.n_iter > 0
    assert needed.any()
    assert not needed.all()
    assert result.converged[~needed].all()
    assert not result.converged[needed & (result.residual > 1e-10)].any()
    for problem, x, gap in zip(alone, result.x, result.residual, strict=True):
        upper = problem.upper(x)
        optimum = problem.upper(by_itself(problem))
        assert upper - optimum <= gap * upper + 2 * TOL * (optimum + 1e-9)
