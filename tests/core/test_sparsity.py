"""Groups, weights and signs: their norms, their region, whole grids of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import (
    assert_close,
    cvx_solution,
    feasible,
    groups_of,
    objective,
    soft,
)
from problems import POSED

from sltr.core.admm import admm
from sltr.core.estimate import Settings, estimate, estimate_with, make_sparsity
from sltr.core.problem import Region, Sparsity

SHAPE = (3, 4)
WEIGHTS = np.array([[1.0, 0.5, 0.0, 2.0], [0.0, 1.0, 1.0, 3.0], [1.0, 1.0, 0.2, 0.0]])
KINDS = {
    "entries": Sparsity(SHAPE),
    "weights": Sparsity(SHAPE, None, WEIGHTS),
    "positive": Sparsity(SHAPE, positive=True),
    "rows": Sparsity.of(SHAPE, (0,)),
    "columns, some free": Sparsity.of(
        SHAPE, (1,), np.tile([0.0, 1.0, 2.0, 0.5], (3, 1))
    ),
    "positive rows": Sparsity.of(SHAPE, (0,), positive=True),
}
every_kind = pytest.mark.parametrize("sparsity", KINDS.values(), ids=KINDS)
entries = st.integers(-256, 256).map(lambda k: k / 64)
matrices = arrays(float, SHAPE, elements=entries)


def cvx_prox(sparsity, v, t, Z, a):
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable(v.size)
    weight = np.broadcast_to(1.0 if sparsity.weight is None else sparsity.weight, SHAPE)
    cost, limits = 0.5 * cp.sum_squares(x - v.reshape(-1)), []
    for members, _ in groups_of(SHAPE, sparsity.slices):
        omega = float(weight.reshape(-1)[members[0]])
        cost = cost + t * omega * cp.norm(x[members])
        limits.append(cp.norm(x[members] - Z.reshape(-1)[members]) <= a * omega)
    limits += [x >= 0] if sparsity.positive else []
    cp.Problem(cp.Minimize(cost), limits).solve("CLARABEL")
    return x.value.reshape(SHAPE)


@every_kind
def test_shrinking_in_the_region_agrees_with_an_interior_point_method(sparsity, rng):
    for t in (0.0, 0.3, 2.0):
        v = 2.0 * rng.normal(size=SHAPE)
        Z = sparsity.admissible(rng.normal(size=SHAPE))
        found = Region(sparsity, Z, 0.6).shrink(v, t)
        np.testing.assert_allclose(found, cvx_prox(sparsity, v, t, Z, 0.6), atol=2e-4)


@every_kind
@given(v=matrices, other=matrices, centre=matrices, t=st.sampled_from([0.0, 0.4, 3.0]))
def test_shrinking_in_the_region_is_a_prox(sparsity, v, other, centre, t):
    """The three-point inequality for every point of the region, and inside exactly."""
    Z = sparsity.admissible(centre)
    region = Region(sparsity, Z, 0.7)
    x, p = region.nearest(other), region.shrink(v, t)
    left = t * sparsity.norm(p) + (np.sum((p - v) ** 2) + np.sum((x - p) ** 2)) / 2
    assert left <= t * sparsity.norm(x) + np.sum((x - v) ** 2) / 2 + 1e-7
    assert_close(region.nearest(p), p)
    assert not sparsity.positive or p.min() >= 0.0


@every_kind
@given(slope=matrices, other=matrices, centre=matrices)
def test_the_lower_bound_is_below_every_point_and_reached(
    sparsity, slope, other, centre
):
    Z = sparsity.admissible(centre)
    region, weight = Region(sparsity, Z[None], np.array([0.7])), np.array([0.9])
    beside = 0.3 * other
    bound = region.lower_bound(weight, slope[None] - beside[None], beside[None])[0]

    def value(x):
        return 0.9 * sparsity.norm(x) + np.sum((slope - beside) * x + beside * (x - Z))

    assert bound <= value(region.nearest(other[None])[0]) + 1e-9
    # The prox of a step without end minimises the function itself.
    best = region.shrink(Z[None] - 1e6 * slope[None], np.array([0.9e6]))[0]
    assert bound == pytest.approx(value(best), abs=1e-3)


def test_norms_are_dual_to_each_other(rng):
    for sparsity in KINDS.values():
        x, d = rng.normal(size=(2, 50, *SHAPE))
        penalised = np.broadcast_to(sparsity.weights(x), SHAPE) > 0
        x, d = x * penalised, d * penalised
        product = np.sum(x * d, axis=(1, 2))
        assert (product <= sparsity.norm(x) * sparsity.dual_norm(d) + 1e-12).all()


def test_entries_outside_a_mask_do_not_make_a_slice_larger():
    kept = np.array(
        [[True, True, False, False], [True] * 4, [True, False, False, False]]
    )
    sparsity = Sparsity.of(SHAPE, (0,), kept=kept)
    assert_close(sparsity.weight[:, 0], np.sqrt([2.0, 4.0, 1.0]))


STRUCTURED = {name: p for name, p in POSED.items() if p.groups or p.positive}


@pytest.mark.parametrize("posed", STRUCTURED.values(), ids=STRUCTURED)
@pytest.mark.parametrize("schedule", ["together", "one by one", "ppxa"])
def test_a_grid_of_estimates_is_optimal_for_each_pair_of_radii(posed, schedule):
    """Closed forms, shared bases and the band: each within the gap that is claimed."""
    shape = posed.Z.shape
    sparsity = Sparsity.of(shape, posed.slices, posed.weights, positive=posed.positive)
    largest = np.abs(posed.Z).max()
    sparse, low = (
        np.array(values) * largest
        for values in ([0.0, 0.15, 0.3, 1.0, 9.0], [0.5, 0.5, 1.2, 30.0, 2.0])
    )
    settings = Settings(
        coupling="joint",
        solver="ppxa" if schedule == "ppxa" else "admm",
        tol=1e-5,
        max_iter=50_000,
        small_problem=0 if schedule == "one by one" else None,
        sparsity=sparsity,
    )
    found = estimate_with(settings, posed.Z, sparse, low)
    modes = tuple(range(len(shape)))
    betas = (1.0 / len(modes),) * len(modes)
    groups = posed.groups or groups_of(shape)
    for g in range(len(sparse)):
        a, bs = float(sparse[g]), (float(low[g]),) * len(modes)
        inside = feasible(found.coef[g], posed.Z, a, bs, modes, groups)
        np.testing.assert_allclose(inside, found.coef[g], atol=1e-4 * largest)
        value = objective(inside, 1.0, betas, modes, groups)
        # Where nearly all entries are zero, rounding keeps it from a gap of 1e-8.
        optimum, _ = cvx_solution(
            posed.Z, a, bs, 1.0, betas, modes, groups, posed.positive, tol=1e-7
        )
        assert value <= optimum * (1 + 3e-5) + 1e-5 * largest
        assert found.converged[g]


def test_slices_are_zero_as_a_whole_and_weights_of_zero_keep_the_pilot(rng):
    Z = rng.normal(size=(6, 5, 4)) * np.array([3, 0.5, 2, 0.4, 1, 0.3])[:, None, None]
    coef = estimate(Z, 1.0, 20.0, slices=0).coef
    off = ~coef.any(axis=(1, 2))
    assert off.tolist() == [False, True, False, True, False, True]
    assert (coef[~off] != 0).all()
    weights = rng.choice([0.0, 1.0], size=Z.shape)
    coef = estimate(Z, 1.0, 5.0, entry_weights=weights).coef
    assert_close(coef[weights == 0], Z[weights == 0])
    assert (coef == 0).any()


def test_nothing_is_negative_in_any_coupling_and_solver(rng):
    Z = rng.normal(size=(4, 5, 3))
    for coupling in ("average", "joint"):
        for solver in ("admm", "ppxa"):
            for slices in (None, 1):
                how = {"coupling": coupling, "solver": solver, "slices": slices}
                found = estimate(Z, 0.3, 0.8, positive=True, tol=1e-3, **how)
                assert found.coef.min() >= 0.0
                assert found.converged
    closed = estimate(Z, 0.3, 100.0, positive=True).coef
    assert_close(closed, soft(np.maximum(Z, 0.0), 0.3))


def test_structure_agrees_over_array_libraries(xp, rng):
    Z = rng.normal(size=(5, 4, 3))
    for structure in (
        {"slices": (0, 2)},
        {"slices": 1, "positive": True},
        {"entry_weights": rng.choice([0.0, 0.5, 1.0], size=Z.shape)},
    ):
        expected = estimate(Z, 0.4, 1.5, tol=1e-6, **structure)
        found = estimate(xp.array(Z), 0.4, 1.5, tol=1e-6, **structure)
        np.testing.assert_allclose(xp.numpy(found.coef), expected.coef, atol=1e-4)
        single = estimate(Z.astype(np.float32), 0.4, 1.5, tol=1e-3, **structure)
        assert single.coef.dtype == np.float32
        np.testing.assert_allclose(single.coef, expected.coef, atol=5e-2)


def test_ones_and_single_entries_are_the_papers_problem(rng):
    Z = rng.normal(size=(4, 5, 3))
    plain = estimate(Z, 0.3, 1.0, tol=1e-6).coef
    for structure in (
        {"entry_weights": np.ones(Z.shape)},
        {"slices": (0, 1, 2)},
        {"entry_weights": np.full(Z.shape, 2.0)},
    ):
        half = 0.5 if structure.get("entry_weights", [[[1]]])[0][0][0] == 2 else 1.0
        weights = (half, 1.0)
        found = estimate(Z, 0.3 * half, 1.0, tol=1e-6, weights=weights, **structure)
        np.testing.assert_allclose(found.coef, plain, atol=1e-4)


def test_what_makes_no_sense_is_refused():
    shape = (3, 4)
    for slices in ("0", 2, -3, [], [0, 0], [True], 0.5):
        with pytest.raises(ValueError, match="slices"):
            make_sparsity(shape, slices)
    for weights in (np.ones(3), -np.ones(shape), np.full(shape, np.nan), "many"):
        with pytest.raises(ValueError, match="entry_weights"):
            make_sparsity(shape, None, weights)
    with pytest.raises(ValueError, match="none is penalised"):
        make_sparsity(shape, None, np.zeros(shape))
    with pytest.raises(ValueError, match="one weight for all entries of a slice"):
        make_sparsity(shape, 0, np.arange(12.0).reshape(shape))
    with pytest.raises(ValueError, match="positive"):
        make_sparsity(shape, positive="yes")
    assert make_sparsity(shape) is None


def test_a_structured_batch_repeats_single_solves():
    posed = [POSED["rows"], replace(POSED["rows"], a=2.0 * POSED["rows"].a)]
    problems = [p.batch() for p in posed]
    fields = ("pilot", "sparse_radius", "low_radius", "sparse_weight", "low_weight")
    together = replace(
        problems[0],
        **{f: np.concatenate([getattr(p, f) for p in problems]) for f in fields},
    )
    result, _ = admm(together, tol=1e-6)
    for g, problem in enumerate(problems):
        assert_close(result.x[g], admm(problem, tol=1e-6)[0].x[0], scale=100)
