from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import assert_close, map_singular_values, soft

from sltr.core.ppxa import NonNegative, SparseBall, SparseNorm
from sltr.core.problem import Sparsity
from sltr.core.prox import (
    Nuclear,
    SpectralBall,
    clip_entries,
    clip_singular_values,
    polar,
    soft_threshold,
    threshold_singular_values,
)

CENTRE = np.array([[1.0, -2.0, 0.5, 0.0], [0.0, 3.0, -1.0, 1.5], [2.0, 0.0, 0.0, -1.0]])


WEIGHTS = np.array([[1.0, 0.5, 0.0, 2.0], [0.0, 1.0, 1.0, 3.0], [1.0, 1.0, 0.2, 0.0]])
ENTRIES = Sparsity(CENTRE.shape)
WEIGHTED = Sparsity(CENTRE.shape, None, WEIGHTS)
ROWS = Sparsity.of(CENTRE.shape, (0,), np.outer([1.0, 0.5, 2.0], np.ones(4)))
COLUMNS = Sparsity.of(CENTRE.shape, (1,))


def _shrunk_rows(v, thresholds):
    """Shrink each row by its threshold, in a loop."""
    rows = []
    for row, t in zip(v, thresholds, strict=True):
        size = np.linalg.norm(row)
        rows.append(row * (1 - t / size) if size > t else 0 * row)
    return np.array(rows)


def _rows_in_balls(v, centre, radii):
    """Move each row into the ball about its centre, in a loop."""
    rows = []
    for row, middle, radius in zip(v, centre, radii, strict=True):
        size = np.linalg.norm(row - middle)
        rows.append(middle + (row - middle) * min(1.0, radius / max(size, 1e-300)))
    return np.array(rows)


@dataclass(frozen=True)
class Case:
    """A term, its prox by full SVD or entries, and what kind of function it is."""

    term: object
    oracle: object
    is_set: bool = False


# A new term joins here.
CASES = {
    "l1": Case(SparseNorm(ENTRIES, 0.7), lambda v, step: soft(v, 0.7 * step)),
    "weighted l1": Case(
        SparseNorm(WEIGHTED, 0.7), lambda v, step: soft(v, 0.7 * step * WEIGHTS)
    ),
    "rows": Case(
        SparseNorm(ROWS, 0.7),
        lambda v, step: _shrunk_rows(v, 0.7 * step * 2 * np.array([1.0, 0.5, 2.0])),
    ),
    "columns": Case(
        SparseNorm(COLUMNS, 0.7),
        lambda v, step: _shrunk_rows(v.T, [0.7 * step * 3**0.5] * 4).T,
    ),
    "nuclear": Case(
        Nuclear(0.7),
        lambda v, step: map_singular_values(v, lambda s: soft(s, 0.7 * step)),
    ),
    "box": Case(
        SparseBall(ENTRIES, CENTRE, 0.8),
        lambda v, step: CENTRE + np.clip(v - CENTRE, -0.8, 0.8),
        is_set=True,
    ),
    "weighted box": Case(
        SparseBall(WEIGHTED, CENTRE, 0.8),
        lambda v, step: CENTRE + np.clip(v - CENTRE, -0.8 * WEIGHTS, 0.8 * WEIGHTS),
        is_set=True,
    ),
    "balls of rows": Case(
        SparseBall(ROWS, CENTRE, 0.8),
        lambda v, step: _rows_in_balls(v, CENTRE, [1.6, 0.8, 3.2]),
        is_set=True,
    ),
    "non-negative": Case(
        NonNegative(2), lambda v, step: np.where(v > 0, v, 0.0), is_set=True
    ),
    "spectral ball": Case(
        SpectralBall(CENTRE, 0.8),
        lambda v, step: (
            CENTRE + map_singular_values(v - CENTRE, lambda s: np.minimum(s, 0.8))
        ),
        is_set=True,
    ),
}
SETS = {name: case for name, case in CASES.items() if case.is_set}
BALLS = {name: case for name, case in SETS.items() if hasattr(case.term, "centre")}
every_term = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_set = pytest.mark.parametrize("case", SETS.values(), ids=SETS)
every_ball = pytest.mark.parametrize("case", BALLS.values(), ids=BALLS)

# Multiples of 1/64: no numbers whose squares underflow, many ties and zeros.
entries = st.integers(-256, 256).map(lambda k: k / 64)
matrices = arrays(float, CENTRE.shape, elements=entries)
steps = st.sampled_from([0.01, 0.5, 1.0, 3.0])


@every_term
@given(v=matrices, step=steps)
def test_prox_agrees_with_full_svd(case, v, step):
    assert_close(case.term.prox(v, step), case.oracle(v, step), scale=100)


@every_term
@given(v=matrices, w=matrices, step=steps)
def test_prox_is_firmly_nonexpansive(case, v, w, step):
    moved = case.term.prox(v, step) - case.term.prox(w, step)
    assert np.sum(moved**2) <= np.sum(moved * (v - w)) + 1e-6


@every_term
@given(v=matrices, x=matrices, step=steps)
def test_prox_satisfies_the_three_point_inequality(case, v, x, step):
    """f(p) + ‖p−v‖²/2t + ‖x−p‖²/2t ≤ f(x) + ‖x−v‖²/2t for every x: p is optimal."""
    p = case.term.prox(v, step)
    if case.is_set:
        x = case.term.prox(x, 1.0)
    left = case.term.value(p) + (np.sum((p - v) ** 2) + np.sum((x - p) ** 2)) / 2 / step
    right = case.term.value(x) + np.sum((x - v) ** 2) / 2 / step
    assert left <= right + 1e-5


@every_set
@given(v=matrices, step=steps)
def test_projection_lands_inside_rests_there_and_ignores_the_step(case, v, step):
    p = case.term.prox(v, step)
    assert case.term.value(p) == 0.0
    assert_close(case.term.prox(p, step), p, scale=100)
    assert np.array_equal(p, case.term.prox(v, 7.0 * step))


@every_ball
@given(v=matrices)
def test_projection_leaves_inner_points_alone(case, v):
    """The point itself comes back, not the centre (a fault of the paper's text)."""
    inside = CENTRE + 0.5 * (case.term.prox(v, 1.0) - CENTRE)
    assert_close(case.term.prox(inside, 1.0), inside, scale=10)


@every_ball
def test_indicator_is_infinite_outside(case):
    assert np.isinf(case.term.value(CENTRE + np.full(CENTRE.shape, 1.0)))
    assert case.term.value(CENTRE) == 0.0


def test_one_negative_entry_is_outside_of_the_non_negative():
    term, x = NonNegative(2), np.abs(CENTRE)
    assert term.value(x) == 0.0
    x[1, 1] = -1e-300
    assert np.isinf(term.value(x))


@given(v=matrices, t=steps)
def test_moreau_splits_a_point_between_norm_and_dual_ball(v, t):
    origin = np.zeros_like(v)
    in_ball = SpectralBall(origin, t).prox(v, 1.0)
    for sparsity in (ENTRIES, WEIGHTED, ROWS, COLUMNS):
        in_box = SparseBall(sparsity, origin, t).prox(v, 1.0)
        assert_close(SparseNorm(sparsity).prox(v, t) + in_box, v)
    assert_close(Nuclear().prox(v, t) + in_ball, v, scale=100)


def test_norms_are_their_definitions(rng):
    x = rng.normal(size=(2, 3, 4))
    entries = SparseNorm(Sparsity((3, 4)), 2.0)
    rows = SparseNorm(Sparsity.of((3, 4), (0,)), 2.0)
    assert_close(entries.value(x), [2 * np.abs(m).sum() for m in x])
    assert_close(
        rows.value(x), [2 * 4**0.5 * np.linalg.norm(m, axis=1).sum() for m in x]
    )
    assert_close(Nuclear(2.0).value(x), [2 * np.linalg.norm(m, "nuc") for m in x])


@every_term
def test_batch_equals_loop(case, rng):
    v = rng.normal(size=(5, *CENTRE.shape))
    step = np.array([0.1, 0.5, 1.0, 2.0, 8.0])
    found = case.term.prox(v, step)
    for g in range(5):
        assert_close(found[g], case.term.prox(v[g], float(step[g])))


def test_batch_of_radii_equals_loop(rng):
    v, radii = rng.normal(size=(3, 4, 6)), np.array([0.2, 1.0, 50.0])
    for kernel in (clip_singular_values, threshold_singular_values):
        found = kernel(v, radii)
        for g in range(3):
            assert_close(found[g], kernel(v[g], float(radii[g])))


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (1, 5), (5, 1), (1, 1)])
def test_singular_value_kernels_agree_with_full_svd_for_any_shape(xp, rng, shape):
    v = rng.normal(size=shape)
    cut = xp.numpy(clip_singular_values(xp.array(v), 0.9))
    kept = xp.numpy(threshold_singular_values(xp.array(v), 0.9))
    turned = xp.numpy(polar(xp.array(v)))
    assert_close(cut, map_singular_values(v, lambda s: np.minimum(s, 0.9)))
    assert_close(kept, map_singular_values(v, lambda s: soft(s, 0.9)))
    assert_close(turned, map_singular_values(v, np.ones_like))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_complex_matrices_are_thresholded_too(rng, shape):
    """Sturm's norm takes them, from a Fourier transform."""
    v = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    expected = map_singular_values(v, lambda s: soft(s, 0.9))
    np.testing.assert_allclose(threshold_singular_values(v, 0.9), expected, atol=1e-12)
    values = np.linalg.svd(v, compute_uv=False)
    np.testing.assert_allclose(Nuclear().value(v), values.sum())


def test_threshold_has_exactly_the_rank_that_survives(rng):
    left, _, right = np.linalg.svd(rng.normal(size=(4, 6)), full_matrices=False)
    x = (left * np.array([5.0, 3.0, 1.0, 0.5])) @ right
    values = np.linalg.svd(threshold_singular_values(x, 2.0), compute_uv=False)
    assert_close(values, [3.0, 1.0, 0.0, 0.0])
    assert not threshold_singular_values(x, 6.0).any()
    shares = threshold_singular_values(np.stack([x, 7 * x]), 0.4, relative=True)
    whole = threshold_singular_values(x, 2.0)
    np.testing.assert_allclose(shares, [whole, 7 * whole], atol=1e-12)


def test_polar_leaves_out_what_is_zero(rng):
    x = np.outer([3.0, 4.0], [1.0, 0.0, 0.0])
    assert_close(polar(x), x / 5.0)
    assert not polar(np.zeros((2, 3))).any()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_libraries_agree_and_keep_the_dtype(xp, rng, dtype):
    v = rng.normal(size=(2, *CENTRE.shape)).astype(dtype)
    centre = CENTRE.astype(dtype)
    for name, case in CASES.items():
        term = case.term
        if hasattr(term, "centre"):
            term = replace(term, centre=xp.array(centre))
        found = xp.numpy(term.prox(xp.array(v), 1.5))
        assert found.dtype == dtype, name
        for g in range(2):
            assert_close(found[g], case.oracle(v[g].astype(float), 1.5), dtype)


def test_soft_threshold_zeros_are_exact(rng):
    x = rng.normal(size=100)
    assert np.array_equal(soft_threshold(x, 0.5) == 0.0, np.abs(x) <= 0.5)
    assert np.array_equal(clip_entries(x, 0.5), np.clip(x, -0.5, 0.5))
