"""Sweeps whose samples stay where they are, or are sliced, are those in memory."""

import numpy as np
import pytest
from problems import draw, outer_products

from sltr.refine import reweight
from sltr.refine.factors import (
    CP,
    SlicedUnfoldings,
    Tucker,
    Unfoldings,
)
from sltr.refine.lasso import _Loss, length_by_gram
from sltr.refine.low_rank import Sweeps
from sltr.refine.reweight import facts_of, reweighted
from sltr.refine.stored_sweeps import BEST_STEPS, Packed, StoredSweeps
from sltr.refine.subsets import Subsets, feature_variance
from sltr.samples.stored import Budget, Stored

SHAPES = [(6, 5), (5, 4, 3), (4, 6, 5), (3, 2, 3, 2)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
every_centring = pytest.mark.parametrize("centred", ["no", "intercept", "covariates"])


def problem(rng, shape, centred, n=60):
    """Return samples, and subsets of two folds and all of them."""
    X, y = draw(rng, outer_products(rng, shape, 2), n, noise=0.3, mean=0.5, offset=2.0)
    weight = rng.uniform(0.5, 2.0, size=(3, n))
    weight[0, :15], weight[1, 15:30] = 0.0, 0.0
    Z = rng.normal(size=(n, 2)) if centred == "covariates" else None
    return X, Subsets(np.stack([y] * 3), weight, centred != "no", Z)


def stored(X, n_rows=7):
    """Return samples in memory that are read in blocks, as a file would be."""
    budget = Budget(8 * n_rows * X[0].size, block_share=1)
    return Stored(X, X.shape[1:], X.dtype, budget)


def starts(rng, shape):
    """Return two starts for each item, of CP and of Tucker."""
    seeds = rng.normal(size=(2, 3, *shape))
    ranks = tuple(min(2, size) for size in shape)
    cp = [CP.start(seed).grown(seed - CP.start(seed).coef()) for seed in seeds]
    return [cp, [Tucker.truncated(seed, ranks) for seed in seeds]]


@every_shape
@every_centring
def test_sweeps_by_passes_are_those_in_memory(rng, shape, centred):
    X, subsets = problem(rng, shape, centred)
    variance = feature_variance(X.reshape(len(X), -1), subsets)
    settings = (subsets, variance, (0.3, 0.01), 4, 3)
    whole = Unfoldings.of(X, np.ones(len(X)))
    here, design = Sweeps(whole, *settings), stored(X)
    there = StoredSweeps(design, *settings, shape, whole.order)
    many = starts(rng, shape)
    firsts = there.first_ridges(many)
    lower = [there.swept_on([(first.structure, 0.01)]) for first in firsts]
    # A block of all structures is one pass, and so are fitted values.
    assert design.budget.read[0] == pytest.approx(3 * (4 * len(shape) + 1))
    for begun, first, others in zip(many, firsts, lower, strict=True):
        expected = here.first_ridge(begun)
        for one, other in zip(
            [first, *others], [expected, *here.lower_ridges(expected)], strict=True
        ):
            assert one.ridge == other.ridge
            np.testing.assert_allclose(one.coef(), other.coef(), atol=1e-8)
            np.testing.assert_allclose(one.fitted, other.fitted, atol=1e-8)


@every_shape
@pytest.mark.parametrize("batch_entries", [None, 1, 3000])
def test_sliced_unfoldings_have_the_same_products(rng, shape, batch_entries):
    X, subsets = problem(rng, shape, "intercept")
    whole = Unfoldings.of(X, np.ones(len(X)))
    sliced = SlicedUnfoldings(X, whole.order, batch_entries)
    for mode, size in enumerate(shape):
        rows = rng.normal(size=(4, X[0].size // size))
        np.testing.assert_allclose(
            sliced.project(rows, mode), whole.project(rows, mode)
        )
    shares = rng.normal(size=(4, len(X)))
    np.testing.assert_allclose(sliced.spread(shares), whole.spread(shares))
    variance = feature_variance(X.reshape(len(X), -1), subsets)
    settings = (subsets, variance, (0.3, 0.01), 4, 3)
    for begun in starts(rng, shape):
        one, other = (
            Sweeps(samples, *settings).first_ridge(begun) for samples in (sliced, whole)
        )
        np.testing.assert_allclose(one.coef(), other.coef(), atol=1e-10)


@every_shape
@pytest.mark.parametrize("bits", BEST_STEPS)
def test_packed_samples_are_close_and_have_their_own_products(rng, shape, bits):
    """What is kept of normal numbers is known; products are those of what is kept."""
    X = 3.0 + 2.0 * rng.normal(size=(400, *shape))
    flat = X.reshape(400, -1)
    columns = np.stack([flat.mean(axis=0), flat.std(axis=0)])
    whole = Unfoldings.of(X, np.ones(400))
    design = stored(X)
    packed = Packed.of(design, shape, bits, columns, whole.order, None)
    assert design.budget.read[0] == pytest.approx(1.0)
    kept = packed.spread(np.eye(400))
    lost = np.mean((kept - flat) ** 2) / 4.0
    # J. Max, Quantizing for minimum distortion (1960), table II: four bits.
    expected = {8: 1e-4, 4: 0.01154}
    assert lost < 1.1 * expected[bits]
    assert bits == 8 or lost > 0.9 * expected[bits]
    again = Unfoldings.of(kept.reshape(X.shape), np.ones(400))
    for mode, size in enumerate(shape):
        rows = rng.normal(size=(4, X[0].size // size))
        expected_product = again.project(rows, mode)
        np.testing.assert_allclose(packed.project(rows, mode), expected_product)
    shares = rng.normal(size=(4, 400))
    np.testing.assert_allclose(packed.spread(shares), again.spread(shares))


def ridge(X, subsets):
    """Return what reweighting starts from, of all items."""
    A = np.sqrt(subsets.weight)[:, :, None] * X.reshape(1, len(X), -1)
    kernel = A @ np.swapaxes(A, 1, 2) + 10.0 * np.eye(len(X))
    dual = np.linalg.solve(
        kernel, np.sqrt(subsets.weight)[:, :, None] * subsets.target[:, :, None]
    )
    return (np.swapaxes(A, 1, 2) @ dual).reshape(-1, *X.shape[1:])


@every_shape
@every_centring
def test_reweighting_by_passes_is_that_in_memory(rng, shape, centred):
    """The image of a step's start is known from the step before: no pass for it."""
    X, subsets = problem(rng, shape, centred)
    start = ridge(X, subsets)
    design = stored(X)
    options = {"steps": (1, 2, 3), "tol": 0.04}
    here = dict(reweighted(X.reshape(len(X), -1), subsets, start, **options))
    there = dict(reweighted(design, subsets, start, **options))
    # The facts, the first start, and at most five iterations of a step.
    assert design.budget.read[0] <= 2 + 3 * 5
    for step, coef in here.items():
        size = np.linalg.norm(coef)
        assert np.linalg.norm(there[step] - coef) < 0.05 * size


@every_shape
@every_centring
@pytest.mark.parametrize("bits", BEST_STEPS)
def test_reweighting_with_rough_samples_takes_a_pass_for_each_step(
    rng, shape, centred, bits
):
    """What bits lose is found by the pass, and what that changes is solved for."""
    X, subsets = problem(rng, shape, centred)
    flat, design, steps = X.reshape(len(X), -1), stored(X), range(1, 5)
    start = ridge(X, subsets)
    columns = np.stack([flat.mean(axis=0), flat.std(axis=0)])
    packed = Packed.of(design, shape, bits, columns, tuple(range(len(shape))), None)
    facts, before = facts_of(design, subsets, shape), design.budget.read[0]
    options = {"steps": steps, "tol": 1e-6}
    here = dict(reweighted(flat, subsets, start, **options))
    there = dict(
        reweighted(design, subsets, start, **options, facts=facts, rough=packed)
    )
    assert design.budget.read[0] - before <= 1 + len(steps) + 1e-6
    for step, coef in here.items():
        lost = np.linalg.norm(there[step] - coef)
        assert lost < {8: 1e-3, 4: 0.05}[bits] * np.linalg.norm(coef)


@every_centring
def test_along_a_long_mode_reweighting_reads_once_more(rng, monkeypatch, centred):
    """So what it needs of the samples there takes no matrix of that mode."""
    monkeypatch.setattr(reweight, "LEAST_LONG", 4)
    X, subsets = problem(rng, (2, 12), centred)
    start, flat = rng.normal(size=(3, 2, 12)), X.reshape(len(X), -1)
    design = stored(X)
    facts = [facts_of(samples, subsets, (2, 12)) for samples in (design, flat)]
    assert [matrix is None for matrix in facts[0].covariances] == [False, True]
    metric = reweight._Metric.of(start)
    read = design.budget.read[0]
    there, here = (
        reweight._Problem.of(samples, subsets, (2, 12), (), own, tol=1e-6)
        for samples, own in zip((design, flat), facts, strict=True)
    )
    penalty = there._penalty(metric)
    assert design.budget.read[0] == pytest.approx(read + 1)
    np.testing.assert_allclose(penalty, here._penalty(metric), rtol=1e-6)


@every_centring
def test_the_gram_matrix_knows_how_long_lasso_steps_may_be(rng, centred):
    X, subsets = problem(rng, (5, 4, 3), centred)
    flat = X.reshape(len(X), -1)
    shifted = flat - (flat[3] if centred != "no" else 0.0)
    expected = _Loss(flat, subsets).safe_length(subsets.cross(flat))
    found = length_by_gram(shifted @ shifted.T, subsets)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
