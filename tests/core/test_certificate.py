"""The duality gap bounds the true suboptimality, whatever it is given."""

import numpy as np
import pytest
from oracles import unfold_by_loop
from problems import POSED

from sltr.core.admm import admm

every_problem = pytest.mark.parametrize("posed", POSED.values(), ids=POSED)
# What an interior point method and a Gram matrix leave of the true numbers.
ROUNDING = 2e-7


def certified(posed, x, nuclear, spectral, *, exact=False):
    gap, excess = posed.batch().certificate(
        x[None], [v[None] for v in nuclear], [s[None] for s in spectral], exact=exact
    )
    return float(gap[0]), float(excess[0])


def random_multipliers(rng, posed):
    scale = 10.0 ** rng.uniform(-2, 2)
    return tuple(
        [scale * rng.normal(size=posed.Z.shape) for _ in posed.modes] for _ in range(2)
    )


@every_problem
def test_no_multiplier_gives_a_bound_above_the_optimum(posed, rng):
    optimum, best = posed.solution
    inside = posed.Z + np.clip(best - posed.Z, -posed.a, posed.a)
    for _ in range(30):
        nuclear, spectral = random_multipliers(rng, posed)
        upper = posed.upper(inside)
        gap, _ = certified(posed, inside, nuclear, spectral)
        assert upper * (1.0 - gap) <= optimum + ROUNDING * optimum


@every_problem
def test_the_gap_bounds_the_suboptimality_of_any_point(posed, rng):
    """Random points with the best multipliers, which leave the least slack."""
    optimum, _ = posed.solution
    _, end = admm(posed.batch(), tol=1e-7)
    nuclear, spectral = [v[0] for v in end.nuclear], [s[0] for s in end.spectral]
    for _ in range(30):
        move = rng.uniform(-1.0, 1.0, size=posed.Z.shape) * rng.random()
        x = posed.Z + posed.batch().sparse_radius[0] * move
        upper = posed.upper(x)
        gap, _ = certified(posed, x, nuclear, spectral)
        assert upper - optimum <= gap * upper + ROUNDING * optimum
        # Not an empty promise: with the best multipliers it is nearly sharp.
        assert gap * upper <= upper - optimum + 1e-5 * upper


@every_problem
def test_the_excess_is_the_violation_of_the_tightest_ball(posed, rng):
    zeros = [0.0 * posed.Z] * len(posed.modes)
    for _ in range(5):
        x = posed.Z + rng.normal(size=posed.Z.shape)
        _, excess = certified(posed, x, zeros, zeros)
        ratios = [
            np.linalg.norm(unfold_by_loop(x - posed.Z, mode), 2) / b
            for mode, b in zip(posed.modes, posed.bs, strict=True)
        ]
        assert excess == pytest.approx(max(1.0, *ratios) - 1.0, abs=1e-9)


@every_problem
def test_exact_and_fast_certificates_agree(posed, rng):
    nuclear, spectral = random_multipliers(rng, posed)
    fast = certified(posed, posed.Z, nuclear, spectral)
    exact = certified(posed, posed.Z, nuclear, spectral, exact=True)
    assert fast == pytest.approx(exact, rel=1e-6)
