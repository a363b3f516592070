from itertools import pairwise

import array_api_compat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import draw, outer_products
from sklearn.linear_model import Lasso

from sltr.refine.factors import (
    CP,
    Tucker,
    Unfoldings,
    leading_term,
    sweep,
)
from sltr.refine.lasso import SMALL_THRESHOLD, TOLERANCE, lasso, refit_on_support
from sltr.refine.low_rank import (
    CPStep,
    Point,
    Sweeps,
    TuckerStep,
    next_rank,
    solve_ridge_block,
)
from sltr.refine.subsets import Subsets, feature_variance
from sltr.ridge import ridge_system
from sltr.tuning.policy import DEFAULT

TENTH = np.array([0.1])
SHAPES = [(7,), (6, 5), (4, 1), (5, 4, 3), (1, 4, 3), (3, 2, 3, 2), (2, 1, 3, 1)]


def planted(rng, shape, n, *, rank=1, noise=0.0, offset=2.0):
    """Return samples, responses and a coefficient of a sum of outer products."""
    coef = outer_products(rng, shape, rank)
    return *draw(rng, coef, n, noise=noise, mean=0.5, offset=offset), coef


def second_size(shape):
    """Return the largest rank a tensor can have in two modes at once."""
    return sorted(shape)[-2] if len(shape) > 1 else 1


def refits(*args, **settings):
    """Return what `refit_steps` swept, rank after rank and ridge after ridge."""
    return [swept for step in refit_steps(*args, **settings) for swept in step.swept]


def refit_steps(
    X,
    y,
    weight,
    *,
    kind="tucker",
    rank=2,
    intercept=True,
    ridges=DEFAULT.ridges,
):
    """Run the sweeps on a batch of weights, started from the pilots."""
    n, shape = X.shape[0], X.shape[1:]

    def pilot(w):
        A, b = centred_samples(X, y, w, intercept)
        return A.T @ np.linalg.solve(A @ A.T + np.eye(n), b)

    start = np.stack([pilot(w).reshape(shape) for w in weight])

    problem = sweeps_of(
        X, Subsets(np.stack([y] * len(weight)), weight, intercept), ridges
    )
    largest = min(rank, second_size(shape))
    if kind == "cp":
        return list(rising("cp", problem, [start], largest))
    equal = [tuple(min(r, size) for size in shape) for r in range(1, largest + 1)]
    return [
        TuckerStep.of_rank(problem, [start], largest, ranks).with_lower_ridges()
        for ranks in equal
    ]


def rising(kind, problem, seeds, largest):
    """Yield all ranks' steps, each under all ridges."""
    kinds = {"cp": CPStep, "tucker": TuckerStep}
    step = kinds[kind].first(problem, seeds, largest)
    while step is not None:
        step = step.with_lower_ridges()
        yield step
        step = step.next_rank()


def sweeps_of(X, subsets, ridges=DEFAULT.ridges):
    """Prepare sweeps over samples (n, p1, …, pM)."""
    xp = array_api_compat.array_namespace(X)
    flat = xp.reshape(X, (X.shape[0], -1))
    variance = feature_variance(flat, subsets)
    how = (ridges, DEFAULT.sweeps, DEFAULT.starting_sweeps)
    return Sweeps(Unfoldings.of(X, 0.0 * flat[:, 0] + 1.0), subsets, variance, *how)


def centred_samples(X, y, w, intercept=True):
    """Return weighted, centred least-squares data, by the definition."""
    flat = X.reshape(len(X), -1)
    if intercept:
        flat = flat - np.average(flat, axis=0, weights=w)
        y = y - np.average(y, weights=w)
    root = np.sqrt(w)
    return root[:, None] * flat, root * y


def objective(X, y, w, coef, penalty, intercept=True):
    A, b = centred_samples(X, y, w, intercept)
    return np.sum((b - A @ coef.ravel()) ** 2) + penalty * np.sum(coef**2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
def test_tucker_steps_never_raise_the_objective(rng, shape, intercept):
    X, y, _ = planted(rng, shape, 30, rank=2, noise=0.5)
    weight = rng.uniform(0.2, 2.0, size=(1, 30))
    variance = feature_variance(
        X.reshape(30, -1), Subsets(0.0 * weight, weight, intercept)
    )
    penalty = 0.1 * variance * weight.sum()
    data = sweeps_of(X, Subsets(y[None], weight, intercept))
    rank = min(2, second_size(shape))
    ranks = tuple(min(rank, size) for size in shape)
    structure = Tucker.truncated(rng.normal(size=(1, *shape)), ranks)

    def value(structure):
        coef = structure.coef()[0]
        return objective(X, y, weight[0], coef, float(penalty[0]), intercept)

    values = [value(structure)]

    def solve(point, index, design):
        point = solve_ridge_block(data.subsets, penalty, point, index, design)
        values.append(value(point.structure))
        return point

    point = Point(structure)
    for _ in range(4):
        point = sweep(data.samples, 30, point, solve)
    assert len(values) == 1 + 4 * (len(shape) + 1)
    assert np.all(np.diff(values) <= 1e-10 * values[0])
    assert values[-1] < values[0]


@pytest.mark.parametrize("kind", ["tucker", "cp"])
@pytest.mark.parametrize("shape", SHAPES)
def test_fitted_values_are_products_with_the_coefficient(rng, kind, shape):
    X, y, _ = planted(rng, shape, 25, rank=2, noise=0.3)
    weight = rng.uniform(0.5, 2.0, size=(2, 25))
    weight[1, :6] = 0.0
    for refit in refits(X, y, weight, kind=kind, rank=2):
        coef = refit.coef()
        assert coef.shape == (2, *shape)
        for item in range(2):
            flat = X.reshape(25, -1)
            flat = flat - np.average(flat, axis=0, weights=weight[item])
            expected = flat @ coef[item].ravel()
            np.testing.assert_allclose(refit.fitted[item], expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["tucker", "cp"])
def test_ranks_and_ridges_come_in_order_and_ranks_are_kept(rng, kind):
    X, y, _ = planted(rng, (5, 4, 3), 40, rank=3, noise=0.3)
    steps = refit_steps(X, y, np.ones((1, 40)), kind=kind, rank=3)
    found = [
        (step.rank if kind == "cp" else step.rank[0], swept)
        for step in steps
        for swept in step.swept
    ]
    asked = [(rank, ridge) for rank in (1, 2, 3) for ridge in DEFAULT.ridges]
    assert [(rank, swept.ridge) for rank, swept in found] == asked
    for rank, swept in found:
        matrix = swept.coef()[0].reshape(5, 12)
        assert np.linalg.matrix_rank(matrix, tol=1e-8) <= rank


@pytest.mark.parametrize("kind", ["tucker", "cp"])
def test_a_batch_equals_its_items_run_alone(rng, kind):
    X, y, _ = planted(rng, (5, 4, 3), 30, rank=2, noise=0.3)
    weight = rng.uniform(0.5, 2.0, size=(3, 30))
    weight[0, :10] = 0.0
    together = refits(X, y, weight, kind=kind)
    for item in range(3):
        alone = refits(X, y, weight[item : item + 1], kind=kind)
        for both, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(both.coef()[item], one.coef()[0], atol=1e-9)
            np.testing.assert_allclose(both.fitted[item], one.fitted[0], atol=1e-9)


@pytest.mark.parametrize("kind", ["tucker", "cp"])
@pytest.mark.parametrize("intercept", [True, False])
def test_weight_zero_removes_and_integers_repeat(rng, kind, intercept):
    X, y, _ = planted(rng, (4, 3, 3), 24, rank=2, noise=0.3)
    counts = rng.integers(0, 4, size=24)
    weighted = refits(X, y, counts[None].astype(float), kind=kind, intercept=intercept)
    rows = np.repeat(np.arange(24), counts)
    ones = np.ones((1, len(rows)))
    repeated = refits(X[rows], y[rows], ones, kind=kind, intercept=intercept)
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one.coef(), other.coef(), atol=1e-8)
        np.testing.assert_allclose(one.fitted[:, rows], other.fitted, atol=1e-8)


def test_an_order_one_tucker_refit_is_ridge_regression(rng):
    X, y, _ = planted(rng, (6,), 30, noise=0.3)
    w = rng.uniform(0.5, 2.0, size=30)
    refit = refits(X, y, w[None], rank=1, ridges=(0.1,))[0]
    A, b = centred_samples(X, y, w)
    penalty = 0.1 * w.sum() * np.mean((A**2).sum(axis=0) / w.sum())
    expected = np.linalg.solve(A.T @ A + penalty * np.eye(6), A.T @ b)
    np.testing.assert_allclose(refit.coef()[0], expected, atol=1e-10)


def relative_error(found, coef):
    return np.linalg.norm(found - coef) / np.linalg.norm(coef)


@pytest.mark.parametrize("kind", ["tucker", "cp"])
@pytest.mark.parametrize(
    ("shape", "n"), [((14, 12), 110), ((12, 10, 6), 180), ((7, 6, 5, 4), 200)]
)
def test_a_planted_tensor_is_found_from_few_samples(rng, kind, shape, n):
    X, y, coef = planted(rng, shape, n, rank=2)
    assert n < 0.7 * coef.size
    pilot = refits(X, y, np.ones((1, n)), kind=kind, rank=2, ridges=(1.0, 0.1, 1e-4))
    # "cp" leaves out entries that are small against their column.
    bound = 0.05 if kind == "tucker" else 0.1
    assert relative_error(pilot[-1].coef()[0], coef) < bound
    ridge = ridge_system(X.reshape(n, -1), y[:, None], np.ones(n), fit_intercept=True)
    start = ridge.coefs_and_means(np.ones((1, n), bool), np.ones(1))[0][0, 0, 0]
    assert relative_error(start, coef.ravel()) > 0.4


def test_a_planted_tucker_tensor_is_found(rng):
    shape, n = (10, 9, 6), 250
    coef = rng.normal(size=(2, 2, 2))
    for mode, size in enumerate(shape):
        factor = np.linalg.qr(rng.normal(size=(size, 2)))[0]
        coef = np.moveaxis(np.tensordot(factor, coef, axes=(1, mode)), 0, mode)
    X = rng.normal(size=(n, *shape))
    y = X.reshape(n, -1) @ coef.ravel()
    found = refits(X, y, np.ones((1, n)), rank=2, ridges=(1.0, 0.1, 1e-4))
    assert relative_error(found[-1].coef()[0], coef) < 0.05


@pytest.mark.parametrize("kind", ["tucker", "cp"])
def test_ranks_beyond_a_mode_and_zero_responses_stay_finite(rng, kind):
    X, y, _ = planted(rng, (4, 3, 1), 20, rank=2)
    for response in (y, np.zeros(20)):
        for refit in refits(X, response, np.ones((1, 20)), kind=kind, rank=3):
            assert np.all(np.isfinite(refit.coef()))
    np.testing.assert_allclose(refit.coef(), 0.0, atol=1e-12)


def test_cp_shrinks_entries_that_are_zero_more_than_tucker(rng):
    coef = np.zeros((10, 8, 6))
    coef[:3, :3, :2] = 1.0
    X = rng.normal(size=(90, 10, 8, 6))
    y = X.reshape(90, -1) @ coef.ravel() + 0.5 * rng.normal(size=90)
    off = {}
    for kind in ("tucker", "cp"):
        found = refits(X, y, np.ones((1, 90)), kind=kind, rank=1)[1].coef()[0]
        off[kind] = np.abs(found[coef == 0]).mean() / np.abs(found).max()
    assert off["cp"] < 0.5 * off["tucker"]


@pytest.mark.parametrize("kind", ["tucker", "cp"])
def test_samples_that_are_all_equal_give_zero(kind):
    found = refits(np.ones((9, 4, 3)), np.arange(9.0), np.ones((1, 9)), kind=kind)
    assert all(np.all(refit.coef() == 0.0) for refit in found)


def test_cp_finds_the_zeros_of_a_block(rng):
    coef = np.zeros((10, 8, 6))
    coef[:3, :3, :2] = 1.0
    X = rng.normal(size=(150, 10, 8, 6))
    y = X.reshape(150, -1) @ coef.ravel() + 0.5 * rng.normal(size=150)
    found = refits(X, y, np.ones((1, 150)), kind="cp", rank=1)[-1].coef()[0]
    np.testing.assert_array_equal(found != 0, coef != 0)


def test_a_vanished_cp_term_keeps_its_direction():
    structure = CP.start(np.ones((1, 3, 2)))
    after = structure.with_block(0, np.zeros((1, 3)))
    np.testing.assert_array_equal(after.factors[0], structure.factors[0])
    assert np.all(after.coef() == 0.0)


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
@pytest.mark.parametrize("kind", ["tucker", "cp"])
def test_other_libraries_agree_with_numpy(rng, name, kind):
    xp = pytest.importorskip(name)
    X, y, _ = planted(rng, (4, 3, 2), 20, rank=2, noise=0.3)
    flat, weight = X.reshape(20, -1), np.ones((2, 20))
    weight[1, :5] = 0.0

    def run(convert):
        problem = sweeps_of(
            convert(X), Subsets(convert(np.stack([y, y])), convert(weight), True)
        )
        start = convert((np.stack([y, y]) @ flat).reshape(2, 4, 3, 2))
        seeds = [start, -start] if kind == "tucker" else [start]
        found = [r for step in rising(kind, problem, seeds, 2) for r in step.swept]
        return [(np.asarray(r.coef()), np.asarray(r.fitted)) for r in found]

    for ours, theirs in zip(run(np.asarray), run(xp.asarray), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_sparse_refits_agree_in_other_libraries(rng, name):
    xp = pytest.importorskip(name)
    X, y, weight = rng.normal(size=(20, 30)), rng.normal(size=20), np.ones(20)

    def run(convert):
        item = Subsets(convert(y[None]), convert(weight[None]), True)
        found = lasso(convert(X), item, convert(np.array([[3.0, 5.0]])))
        refit = refit_on_support(convert(X), item, found[0, 1:2, :], convert(TENTH))
        return np.asarray(found), np.asarray(refit)

    for one, other in zip(run(np.asarray), run(xp.asarray), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


class SmallLasso:
    """A small problem of the Lasso, with everything by its definition."""

    def __init__(self, rng, n=15, p=25, intercept=True):
        self.X, self.y = rng.normal(size=(n, p)) + 0.5, rng.normal(size=n)
        self.weight = rng.uniform(0.5, 2.0, size=n)
        self.weight[:2] = 0.0
        self.A, self.b = centred_samples(self.X, self.y, self.weight, intercept)
        self.item = Subsets(self.y[None], self.weight[None], intercept)
        self.largest = np.abs(self.A.T @ self.b).max()

    def solved(self, thresholds, **how):
        return lasso(self.X, self.item, np.asarray(thresholds)[None], **how)[0]

    def value(self, coef, t):
        return 0.5 * np.sum((self.b - self.A @ coef) ** 2) + t * np.abs(coef).sum()


@pytest.mark.parametrize("intercept", [True, False])
def test_the_lasso_ends_at_an_optimum(rng, intercept):
    problem = SmallLasso(rng, intercept=intercept)
    thresholds = problem.largest * np.array([0.5, 0.2, 1.01])
    found = problem.solved(thresholds, tol=0.0, max_steps=5000)
    for coef, t in zip(found, thresholds, strict=True):
        slope = problem.A.T @ (problem.b - problem.A @ coef)
        assert np.all(np.abs(slope) <= t * (1 + 1e-6))
        np.testing.assert_allclose(
            slope[coef != 0], t * np.sign(coef[coef != 0]), rtol=1e-6
        )
    assert np.count_nonzero(found[0]) > 0
    assert np.count_nonzero(found[2]) == 0


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.8, 0.4, 0.1, 0.03]))
@settings(max_examples=30, deadline=None)
def test_the_lasso_is_nearly_optimal_when_it_stops(seed, fraction):
    problem = SmallLasso(np.random.default_rng(seed))
    t = fraction * problem.largest
    exact = problem.solved([t], tol=0.0, max_steps=2000)[0]
    stopped = problem.solved([t], max_steps=2000)[0]
    null, best = (problem.value(coef, t) for coef in (0.0 * exact, exact))
    assert problem.value(stopped, t) - best <= TOLERANCE * null * (1 + 1e-9)


@pytest.mark.parametrize("fraction", [0.008, 0.003])
def test_momentum_that_overshoots_ends_no_item(fraction):
    """Where ⟨y, r⟩ < 0, a scaled residual may leave the dual's feasible set."""
    for seed in range(60):
        problem = SmallLasso(np.random.default_rng(seed), intercept=False)
        t = fraction * problem.largest
        exact = Lasso(alpha=t / len(problem.b), fit_intercept=False, max_iter=10**6)
        best = problem.value(exact.fit(problem.A, problem.b).coef_, t)
        stopped = problem.solved([t], max_steps=3000)[0]
        allowed = TOLERANCE * fraction / SMALL_THRESHOLD * 0.5 * np.sum(problem.b**2)
        assert problem.value(stopped, t) - best <= allowed


@pytest.mark.parametrize("fraction", [0.6, 0.1, 0.02])
def test_working_sets_of_the_lasso_are_certified_over_all_entries(rng, fraction):
    problem = SmallLasso(rng, n=20, p=600)
    t = fraction * problem.largest
    exact = Lasso(alpha=t / len(problem.b), fit_intercept=False, tol=1e-12)
    best = problem.value(exact.fit(problem.A, problem.b).coef_, t)
    found = problem.solved([t, 2.0 * t], large=100, max_steps=2000)
    allowed = TOLERANCE * min(1.0, fraction / SMALL_THRESHOLD)
    assert problem.value(found[0], t) - best <= allowed * 0.5 * np.sum(problem.b**2)
    assert 0 < np.count_nonzero(found[0]) < 100
    whole = problem.solved([1.01 * problem.largest], large=100)[0]
    assert not whole.any()


def test_a_lasso_says_only_of_what_ran_out_of_steps_that_it_did(rng):
    for _ in range(5):
        problem, told = SmallLasso(rng), []
        problem.X[:] = problem.X + 2.0 * rng.normal(size=(15, 1))
        problem.A, problem.b = centred_samples(
            problem.X, problem.y, problem.weight, True
        )
        thresholds = np.abs(problem.A.T @ problem.b).max() * np.array([0.5, 0.2, 0.05])
        found = problem.solved(thresholds, max_steps=5000, unconverged=told.append)
        assert told == []
        least = problem.solved(thresholds, tol=0.0, max_steps=2000)
        for coef, best, t in zip(found, least, thresholds, strict=True):
            excess = problem.value(coef, t) - problem.value(best, t)
            assert excess <= 2e-2 * 0.5 * np.sum(problem.b**2)
        problem.solved(thresholds, max_steps=2, unconverged=told.append)
        assert told[0] > 2e-2


def test_items_and_thresholds_are_solved_independently(rng):
    problem, other = SmallLasso(rng), SmallLasso(rng)
    thresholds = problem.largest * np.array([0.6, 0.3, 0.1])
    together = problem.solved(thresholds)
    items = Subsets(
        np.stack([problem.y, other.y]), np.stack([problem.weight, other.weight]), True
    )
    twice = lasso(problem.X, items, np.stack([thresholds, 0.5 * thresholds]))
    np.testing.assert_allclose(twice[0], together, atol=1e-12)
    for place in range(3):
        alone = problem.solved(thresholds[place : place + 1])
        np.testing.assert_allclose(together[place], alone[0], atol=1e-12)


def test_the_lasso_is_that_of_scikit_learn(rng):
    n, p = 40, 8
    X = rng.normal(size=(n, p)) + 3.0
    y = X[:, 0] - 2.0 * X[:, 3] + 0.1 * rng.normal(size=n)
    expected = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(X, y).coef_
    item = Subsets(y[None], np.ones((1, n)), True)
    thresholds = np.array([[0.1 * n]])
    found = lasso(X, item, thresholds, tol=0.0, max_steps=3000)[0, 0]
    np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_array_equal(found != 0, expected != 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lasso_steps_that_are_too_long_are_taken_back(rng, dtype):
    """Power iterations from Aᵀy miss a direction that y is orthogonal to."""
    n, p = 30, 12
    left = np.linalg.qr(rng.normal(size=(n, p)) - 0.0)[0]
    right = np.linalg.qr(rng.normal(size=(p, p)))[0]
    X = (left * np.r_[30.0, np.ones(p - 1)]) @ right.T
    y = X @ right[:, 1:] @ rng.normal(size=p - 1)
    y -= left[:, 0] * (left[:, 0] @ y)
    item = Subsets(y[None].astype(dtype), np.ones((1, n), dtype), False)
    t = 0.1 * np.abs(X.T @ y).max()
    found = lasso(X.astype(dtype), item, np.array([[t]], dtype), max_steps=3000)[0, 0]
    exact = Lasso(alpha=t / n, fit_intercept=False, tol=1e-8, max_iter=10**6)
    expected = exact.fit(X, y).coef_

    def value(coef):
        return 0.5 * np.sum((y - X @ coef) ** 2) + t * np.abs(coef).sum()

    assert value(found) - value(expected) <= 0.021 * value(0.0 * expected)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_lasso_knows_no_units(rng, scale):
    X, y = rng.normal(size=(20, 8)).astype(np.float32), rng.normal(size=20)
    item = Subsets(y[None].astype(np.float32), np.ones((1, 20), np.float32), True)
    X = X * np.float32(scale)
    t = 0.2 * np.abs(item.cross(X)).max()
    found = lasso(X, item, np.array([[t]], np.float32))[0, 0]
    plain = lasso(X / np.float32(scale), item, np.array([[t / scale]], np.float32))
    np.testing.assert_allclose(found * scale, plain[0, 0], rtol=1e-3, atol=1e-5)
    assert np.count_nonzero(found) > 0


def test_the_lasso_of_constant_responses_is_zero(rng):
    X = rng.normal(size=(10, 6))
    item = Subsets(np.full((1, 10), 2.0), np.ones((1, 10)), True)
    assert np.abs(lasso(X, item, np.array([[0.0, 1.0]]))).max() < 1e-14


def test_refits_on_supports_of_several_sizes_are_those_of_each(rng):
    X, y, weight = (rng.normal(size=s) for s in [(20, 9), (5, 20), (5, 20)])
    items = Subsets(y, np.abs(weight), True)
    coefs = rng.normal(size=(5, 9)) * (
        np.arange(9) < np.array([[2], [0], [9], [1], [4]])
    )
    ridges = rng.uniform(0.1, 1.0, size=5)
    alone = [
        refit_on_support(X, items.take([b]), coefs[[b]], ridges[[b]])[0]
        for b in range(5)
    ]
    assert np.all(alone[2] == coefs[2])
    assert np.all(alone[4] != coefs[4], where=coefs[4] != 0)
    for entries in (1, 4_000_000):
        found = refit_on_support(X, items, coefs, ridges, entries=entries)
        np.testing.assert_allclose(found, alone, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_refit_on_the_support_is_ridge_on_its_columns(rng, intercept):
    X, y = rng.normal(size=(30, 12)) + 1.0, rng.normal(size=30)
    weight = rng.uniform(0.5, 2.0, size=30)
    weight[:4] = 0.0
    coef = np.zeros(12)
    support = [1, 5, 11]
    coef[support] = [1.0, -1.0, 0.5]
    item = Subsets(y[None], weight[None], intercept)
    [found] = refit_on_support(X, item, coef[None], np.array([0.17]))
    A, b = centred_samples(X[:, support], y, weight, intercept)
    penalty = 0.17 * weight.sum()
    expected = np.zeros(12)
    expected[support] = np.linalg.solve(A.T @ A + penalty * np.eye(3), A.T @ b)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("n_chosen", [0, 6, 12])
def test_a_support_too_large_or_empty_is_left_alone(rng, n_chosen):
    X, y = rng.normal(size=(11, 12)), rng.normal(size=11)
    coef = np.zeros(12)
    coef[:n_chosen] = 1.0
    item = Subsets(y[None], np.ones((1, 11)), True)
    [found] = refit_on_support(X, item, coef[None], TENTH)
    np.testing.assert_array_equal(found, coef)


def test_a_refit_on_the_support_counts_weights_as_repetitions(rng):
    """Five entries of twelve samples are too many, those of 24 are not."""
    X, y = rng.normal(size=(12, 7)), rng.normal(size=12)
    coef = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    weighted = Subsets(y[None], np.full((1, 12), 2.0), True)
    repeated = Subsets(np.tile(y, 2)[None], np.ones((1, 24)), True)
    [found] = refit_on_support(X, weighted, coef[None], TENTH)
    [expected] = refit_on_support(np.tile(X, (2, 1)), repeated, coef[None], TENTH)
    assert np.abs(expected - coef).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_feature_variance_is_the_mean_weighted_variance(rng, intercept):
    X, weight = rng.normal(size=(9, 5)) + 2.0, rng.uniform(size=(2, 9))
    items = Subsets(0.0 * weight, weight, intercept)
    for found, w in zip(feature_variance(X, items), weight, strict=True):
        A, _ = centred_samples(X, np.zeros(9), w, intercept)
        assert found == pytest.approx((A**2).sum() / w.sum() / 5)


def test_a_variance_is_not_less_than_its_rounding(rng):
    """Large, equal entries cancel; zero or less would be no penalty."""
    X, weight = rng.normal(size=(9, 5)), rng.uniform(size=(4, 9))
    X[:, 2] = 1e30 / 7
    items = Subsets(0.0 * weight, weight, True)
    assert (feature_variance(X, items) > 1e-16 * (1e30 / 7) ** 2).all()
    assert (feature_variance(0.0 * X, items) == 0).all()


def of_tucker_rank(rng, ranks, shape):
    """Return a coefficient whose singular values in each mode are all alike."""
    coef = np.linalg.qr(rng.normal(size=(np.prod(ranks), np.prod(ranks))))[0]
    coef = coef[0].reshape(ranks)
    for mode, size in enumerate(shape):
        factor = np.linalg.qr(rng.normal(size=(size, ranks[mode])))[0]
        coef = np.moveaxis(np.tensordot(factor, coef, axes=(1, mode)), 0, mode)
    return coef


def visited(X, y, seed, largest):
    n = len(X)
    problem = sweeps_of(X, Subsets(y[None], np.ones((1, n)), True))
    return [step.rank for step in rising("tucker", problem, [seed[None]], largest)]


@pytest.mark.parametrize("ranks", [(2, 3, 2), (3, 2, 2), (2, 2, 3)])
def test_tucker_ranks_rise_where_the_loss_falls(rng, ranks):
    shape = (8, 7, 6)
    coef = of_tucker_rank(rng, ranks, shape)
    X = rng.normal(size=(250, *shape))
    y = X.reshape(250, -1) @ coef.ravel()
    y += 0.1 * y.std() * rng.normal(size=250)
    # The seed knows of the first direction in each mode only.
    seed = Tucker.truncated(coef[None], (1, 1, 1)).coef()[0]
    path = visited(X, y, seed + 0.01 * rng.normal(size=shape), 4)
    assert path[0] == (1, 1, 1)
    assert ranks in path
    for before, after in pairwise(path):
        assert all(a <= b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_tucker_ranks_rise_to_the_largest_that_exist(rng, shape):
    X, y, coef = planted(rng, shape, 30, rank=2, noise=0.3)
    path = visited(X, y, coef, 3)
    assert path[0] == (1,) * len(shape)
    assert len(set(path)) == len(path)
    for ranks in path:
        assert all(rank**2 <= np.prod(ranks) for rank in ranks)
    for mode, size in enumerate(shape):
        raised = [r + (k == mode) for k, r in enumerate(path[-1])]
        possible = raised[mode] <= min(size, 3)
        exists = all(rank**2 <= np.prod(raised) for rank in raised)
        assert not (possible and exists)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_every_next_rank_exists_and_the_last_cannot_rise(most, seed):
    draws = np.random.default_rng(seed)
    rank = (1,) * len(most)
    size = len(most)

    def after(rank):
        slopes, spectra = draws.uniform(size=size), draws.uniform(size=(size, 5))
        return next_rank(rank, most, slopes, spectra)

    while (following := after(rank)) is not None:
        assert sum(following) > sum(rank)
        assert all(a <= b <= c for a, b, c in zip(rank, following, most, strict=True))
        assert all(r**2 <= np.prod(following) for r in following)
        rank = following
    alone = [r + 1 for r, end in zip(rank, most, strict=True) if r < end]
    assert all(r * (r - 1) > np.prod(rank) for r in alone)


@pytest.mark.parametrize("kind", ["tucker", "cp"])
def test_of_several_starts_each_item_keeps_the_best(rng, kind):
    shape, n = (6, 5, 4), 60
    X = rng.normal(size=(n, *shape))
    # Two terms in disjoint corners: each is a minimum for a single one.
    terms = np.zeros((2, *shape))
    terms[0, :3, :2, :2], terms[1, 3:, 2:, 2:] = 1.5, 1.0
    y = X.reshape(n, -1) @ terms.sum(axis=0).ravel() + 0.3 * rng.normal(size=n)
    weight = np.ones((2, n))
    weight[1, :10] = 0.0
    problem = sweeps_of(X, Subsets(np.stack([y, y]), weight, True))
    larger, smaller = (np.stack([term, term]) for term in terms)

    def first(seeds):
        made = Tucker if kind == "tucker" else CP
        if kind == "tucker":
            starts = [made.truncated(seed, (1, 1, 1)) for seed in seeds]
        else:
            starts = [made.start(seed) for seed in seeds]
        return problem.first_ridge(starts).coef()

    def values(coefs):
        penalty = DEFAULT.ridges[0] * problem.variance * weight.sum(axis=1)
        return [objective(X, y, weight[b], coefs[b], penalty[b]) for b in range(2)]

    alone = np.array([values(first([seed])) for seed in (larger, smaller)])
    assert np.all(alone[1] > 1.1 * alone[0])
    for seeds in ([larger, smaller], [smaller, larger], [smaller, smaller, larger]):
        np.testing.assert_allclose(values(first(seeds)), alone[0], rtol=1e-9)


@pytest.mark.parametrize("shape", [(40,), (40, 3), (3, 40), (30, 3, 2)])
def test_the_leading_term_of_one_long_mode(rng, shape):
    tensors = rng.normal(size=(2, *shape))
    tensors[1] = 0.0
    vectors, size = leading_term(tensors)
    for vector in vectors:
        np.testing.assert_allclose(np.linalg.norm(vector, axis=1), 1.0)
    rows = tensors[0].reshape(shape[0], -1)
    if len(shape) < 3:  # else the largest singular value is but a bound
        expected = np.linalg.norm(rows, 2)
        assert size[0] == pytest.approx(expected)
        left = np.linalg.svd(rows)[0][:, 0]
        assert abs(vectors[0][0, :, 0] @ left) == pytest.approx(1.0)
    assert 0.5 * np.linalg.norm(rows, 2) < size[0] <= 1.0001 * np.linalg.norm(rows, 2)
    assert size[1] == 0.0


def test_rounding_chooses_no_start(rng):
    """A seed without a third term starts rank three along the gradient."""
    X, y, coef = planted(rng, (6, 5), 40, rank=2, noise=0.5)
    weight = np.ones((1, 40))
    problem = sweeps_of(X, Subsets(y[None], weight, True))
    seed = coef[None]
    expected = [s for step in rising("cp", problem, [seed], 4) for s in step.swept]
    for _ in range(3):
        noise = 1e-12 * rng.normal(size=seed.shape)
        steps = rising("cp", problem, [seed + noise], 4)
        found = [s for step in steps for s in step.swept]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.coef(), other.coef(), atol=1e-6)
