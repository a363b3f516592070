"""The published algorithm's documented faults, pinned."""

import numpy as np
import pytest
from oracles import ridge_by_normal_equations
from problems import posed

from sltr.core.estimate import estimate
from sltr.reproduction.released import (
    _operators,
    literal_estimate,
    literal_pilot,
)


@pytest.fixture
def single():
    return posed(0, (6, 8), 0.2, 0.2)


def certified_gap(single, W):
    """Return a lower bound on the relative suboptimality of the point towards W."""
    best = estimate(single.Z, single.a, single.bs[0], tol=1e-6)
    return single.upper(W) / single.upper(best.coef) - 1.0 - best.gap


def spectral_distance(single, W):
    return np.linalg.norm(W - single.Z, 2) / single.bs[0]


def test_the_printed_box_returns_its_centre_for_inner_points(single):
    _, _, box, _ = _operators(single.Z, 1.0, 1.0, "paper")
    assert np.array_equal(box(single.Z + 0.9), single.Z)
    np.testing.assert_allclose(box(single.Z - 5.0), single.Z - 1.0)
    _, _, box, _ = _operators(single.Z, 1.0, 1.0, "released")
    np.testing.assert_allclose(box(single.Z + 0.9), single.Z + 0.9)


def test_the_printed_ball_is_no_projection(single):
    Z = single.Z
    inside = Z + 1e-3 * Z / np.linalg.norm(Z, 2)
    _, _, _, ball = _operators(Z, 1.0, 1.0, "paper")
    assert np.linalg.norm(ball(inside) - Z, 2) > 1.0  # it lands outside its own ball
    assert np.array_equal(ball(0.1 * Z / np.linalg.norm(Z, 2)), Z)


def test_the_released_ball_projects_from_outside_and_collapses_inside(single):
    Z = single.Z
    _, _, _, ball = _operators(Z, 1.0, 1.0, "released")
    outside = Z + 3.0 * np.eye(*Z.shape)
    np.testing.assert_allclose(ball(outside), Z + np.eye(*Z.shape), atol=1e-12)
    assert np.array_equal(ball(Z + 0.5 * np.eye(*Z.shape)), Z)


@pytest.mark.parametrize(("variant", "at_least"), [("paper", 0.3), ("released", 0.1)])
def test_neither_variant_solves_the_stated_problem(single, variant, at_least):
    found = literal_estimate(single.Z, single.a, single.bs[0], variant=variant)
    assert found.converged
    assert certified_gap(single, found.x) > at_least


@pytest.mark.parametrize("fraction", [0.02, 0.05])
def test_small_radii_are_overrun(fraction):
    """Parameters four times too large let the answer leave the stated balls."""
    single = posed(1, (6, 8), fraction, fraction)
    for variant in ("paper", "released"):
        found = literal_estimate(single.Z, single.a, single.bs[0], variant=variant)
        assert np.abs(found.x - single.Z).max() > 3.5 * single.a
        assert spectral_distance(single, found.x) > 3.5


def test_the_printed_operators_need_not_settle():
    single = posed(1, (6, 8), 0.02, 0.02)
    found = literal_estimate(single.Z, single.a, single.bs[0])
    assert not found.converged
    assert found.n_iter == 1000


def test_the_released_variant_solves_its_own_problem_where_the_ball_binds():
    single = posed(0, (6, 8), 0.02, 0.02)
    a, b = single.a, single.bs[0]
    found = literal_estimate(single.Z, a, b, variant="released", tol=1e-12)
    own = estimate(single.Z, 4 * a, 4 * b, weights=(a, b), tol=1e-6).coef
    np.testing.assert_allclose(found.x, own, atol=1e-3)


def test_the_released_stop_rule_fires_early_on_large_tensors(rng):
    X = rng.normal(size=(60, 20, 20, 5))
    coef = rng.random((20, 20, 5)) * (rng.random((20, 20, 5)) < 0.2)
    pilot = literal_pilot(X, X.reshape(60, -1) @ coef.reshape(-1), 1.0)
    found = literal_estimate(pilot, 0.01, 0.01, variant="released")
    assert found.converged
    assert found.n_iter <= 10
    own = estimate(pilot, 0.04, 0.04).coef
    assert np.linalg.norm(found.x - own) > 0.05 * np.linalg.norm(own)


def test_the_second_release_ignores_the_penalty(rng):
    X, y = rng.normal(size=(8, 3, 4)), rng.normal(size=8)
    flat = X.reshape(8, -1)
    for variant, epsilon in (("paper", 5.0), ("released", 1.0)):
        expected = ridge_by_normal_equations(flat, y, epsilon, fit_intercept=False)
        found = literal_pilot(X, y, 5.0, variant=variant)
        np.testing.assert_allclose(found.reshape(-1), expected, atol=1e-10)


def test_an_unknown_variant_is_refused(single):
    with pytest.raises(ValueError, match="variant='matlab'"):
        literal_estimate(single.Z, 0.1, 0.1, variant="matlab")
