"""How far the search for a refit goes, and refits of awkward samples."""

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from sltr.estimators.sltr import SLTRRegressor
from sltr.estimators.sltr_cv import SLTRRegressorCV
from sltr.samples.check import check_samples
from sltr.tuning import fits as refits
from sltr.tuning.candidates import Candidate
from sltr.tuning.fits import low_rank_start
from sltr.tuning.folds import Folds
from sltr.tuning.held_out import HeldOut, low_rank_rows
from sltr.tuning.policy import DEFAULT
from sltr.tuning.search import memory_parts
from sltr.tuning.task import ridge_pilots

SHAPE = (6, 5, 4)
RIDGES = DEFAULT.ridges


def of_rank(rng, rank, n=150, noise=0.1, shape=SHAPE):
    """Return samples, and responses of orthogonal terms of falling size."""
    coef = np.zeros(shape)
    bases = [np.linalg.qr(rng.normal(size=(size, size)))[0] for size in shape]
    for r in range(rank):
        vectors = [basis[:, r] for basis in bases]
        coef += 0.8**r * reduce(np.multiply.outer, vectors)
    X = rng.normal(size=(n, *shape))
    signal = X.reshape(n, -1) @ coef.ravel()
    return X, signal + noise * signal.std() * rng.normal(size=n)


def search(X, y, kind, baseline=None, policy=DEFAULT):
    """Run one kind of refit on three folds; `baseline` is a share of the null's loss.

    Returns the null model's held-out losses, and each candidate's in the order of
    trial.
    """
    folds, rows = _searched(X, y, kind, baseline, policy)
    losses = HeldOut(folds, {}, {}).with_rows(rows).losses
    return folds.losses([0.0] * 3), losses


def search_rows(X, y, kind):
    """Return the predictions of one kind of refit on three folds."""
    return _searched(X, y, kind, None, DEFAULT)[1]


def _searched(X, y, kind, baseline, policy):
    model = SLTRRegressorCV()
    model._policy = policy
    samples = check_samples(model, X, y, None)
    task = model._task(samples, samples.y[:, None])
    folds = Folds.of(task, list(KFold(3).split(X)))
    pilots = ridge_pilots(task, folds.training, [10.0])
    single = task.for_refits(policy.precision)
    null = folds.losses([0.0] * 3)
    losses = None if baseline is None else baseline * null
    seeds = pilots.coef.reshape(3, 1, *X.shape[1:]).astype(np.float32)
    start = low_rank_start(single, folds.training, seeds, {})
    base = Candidate(10.0, 0.3, 0.3)
    found = low_rank_rows(single, folds, start.first_step, kind, base, losses)
    return folds, found.rows


def ranks_tried(*args, **kwargs):
    return list(dict.fromkeys(c.rank for c in search(*args, **kwargs)[1]))


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_ranks_are_tried_until_they_gain_nothing(rng, kind):
    tried = ranks_tried(*of_rank(rng, 2), kind)
    if kind == "cp":
        assert tried == [1, 2, 3]
    else:
        assert (2, 2, 2) in tried
        assert len(tried) <= tried.index((2, 2, 2)) + 1 + DEFAULT.patience(kind, SHAPE)


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_lower_ridges_are_left_out_where_the_first_is_hopeless(rng, kind):
    """That is far behind the mean of the responses, or itself for a rank before."""
    hopeful = []
    for noise in (0.1, 3.0):
        null, found = search(*of_rank(rng, 2, noise=noise), kind)
        by_rank = {}
        for candidate, losses in found.items():
            by_rank.setdefault(candidate.rank, {})[candidate.ridge] = losses
        before = [null]
        for own in by_rank.values():
            first = own[RIDGES[0]]
            excess = first - min(before, key=np.sum)
            limit = 2.0 * excess.std(ddof=1) / np.sqrt(len(excess))
            hopeful.append(excess.mean() <= limit)
            assert tuple(own) == (RIDGES if hopeful[-1] else RIDGES[:1])
            before.append(first)
    assert not all(hopeful)


def test_ranks_of_matrices_rise_together_and_need_no_patience(rng):
    X, y = of_rank(rng, 2, shape=(8, 7))
    assert ranks_tried(X, y, "tucker") == [(1, 1), (2, 2), (3, 3)]


def test_refits_start_from_the_grids_own_estimates(rng, monkeypatch):
    X, y = of_rank(rng, 2)
    # The start is in the middle of the grid.
    settings = {"lambdas_sparse": (0.0, 0.3, 1.0), "lambdas_low": (0.1, 0.3), "cv": 3}
    alone = SLTRRegressorCV(**settings, refine="reweight").fit(X, y)
    solved = []
    path = refits.estimate_path

    def counted(pilots, sparse, low, settings):
        # On three folds the grid itself has six pairs of radii, the start alone one.
        if tuple(sparse.shape) == (3, 1):
            solved.append(sparse)
        return path(pilots, sparse, low, settings)

    monkeypatch.setattr(refits, "estimate_path", counted)
    # One candidate: the last step of a mean would fit its members to the folds again.
    both = SLTRRegressorCV(**settings, refine=(None, "reweight"), rule="best")
    both.fit(X, y)
    assert not solved
    np.testing.assert_allclose(
        both.cv_results_["mean_test_score"][-5:],
        alone.cv_results_["mean_test_score"],
        rtol=1e-4,
    )
    # Without the start in the grid it is solved for.
    SLTRRegressorCV(lambdas_sparse=(0.0,), cv=3, refine=(None, "cp")).fit(X, y)
    assert solved


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_a_baseline_within_reach_changes_nothing(rng, kind):
    X, y = of_rank(rng, 4)
    alone = ranks_tried(X, y, kind)
    assert len(alone) > 3
    # The first rank leaves more than half; at its pace the others would do as well.
    assert ranks_tried(X, y, kind, baseline=0.3) == alone


def test_a_search_that_cannot_catch_up_ends(rng):
    X, y = of_rank(rng, 4)
    policy = replace(DEFAULT, largest_cp_rank=2)
    # One rank remains, and would have to gain all that the first one did not.
    assert ranks_tried(X, y, "cp", baseline=1e-6, policy=policy) == [1]
    assert len(ranks_tried(X, y, "cp", policy=policy)) > 1


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_noise_ends_the_search_at_once(rng, kind):
    X = rng.normal(size=(60, *SHAPE))
    tried = ranks_tried(X, rng.normal(size=60), kind)
    assert len(tried) == DEFAULT.patience(kind, SHAPE)


@pytest.mark.parametrize("n", [20, 1000])
@pytest.mark.parametrize("shape", [(5,), (4, 3), (4, 3, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_samples_that_are_all_equal_predict_the_mean(rng, dtype, shape, n):
    X = np.full((n, *shape), 0.1, dtype)
    y = (rng.normal(size=n) + 5.0).astype(dtype)
    model = SLTRRegressorCV(cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-3)
    assert np.abs(model.coef_).max() < 1e-2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("x_unit", "y_unit"), [(1e-13, 1.0), (1e9, 1.0), (1.0, 1e-12), (1.0, 1e12)]
)
def test_units_do_not_matter(rng, dtype, x_unit, y_unit):
    X, y = of_rank(rng, 1, n=80)
    X, y = X.astype(dtype), y.astype(dtype)
    plain = SLTRRegressorCV(cv=3).fit(X, y)
    X, y = X * dtype(x_unit), y * dtype(y_unit)
    model = SLTRRegressorCV(cv=3).fit(X, y)
    assert model.score(X, y) == pytest.approx(
        plain.score(X / x_unit, y / y_unit), abs=0.01
    )
    assert model.coef_.dtype == dtype


@pytest.mark.parametrize("refine", ["sparse", "cp", "tucker", "reweight"])
@pytest.mark.parametrize("offset", [0.0, 3000.0])
def test_large_means_cost_no_digits(rng, refine, offset):
    X, y = of_rank(rng, 1)
    own = SLTRRegressor(1.0, 0.1, 0.1, refine=refine).fit(X, y).score(X, y)
    shifted = (X + offset).astype(np.float32)
    model = SLTRRegressor(1.0, 0.1, 0.1, refine=refine).fit(
        shifted, y.astype(np.float32)
    )
    assert model.score(shifted, y) > own - 0.02


def test_responses_without_the_leading_component_are_fitted(rng):
    X = rng.normal(size=(120, 64))
    left, sizes, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    sizes[0] *= 4.0
    X = (left * sizes) @ right
    y = X[:, :5].sum(axis=1)
    y -= left[:, 0] * (left[:, 0] @ y)
    model = SLTRRegressorCV().fit(X.reshape(120, 8, 8), y)
    assert model.score(X.reshape(120, 8, 8), y) > 0.9


def test_a_coarse_tolerance_is_no_error(rng):
    X, y = of_rank(rng, 1, n=40)
    assert SLTRRegressorCV(tol=0.5, refine=(None, "scale"), cv=3).fit(X, y).coef_.any()


def test_averages_do_not_hang_on_the_tolerance(rng):
    X = rng.normal(size=(60, *SHAPE))
    y = X[:, :2, :2, :2].sum(axis=(1, 2, 3)) + 3.0 * rng.normal(size=60)
    grid = {"lambdas_sparse": (0.1, 0.2, 0.3, 0.5), "lambdas_low": (0.1, 0.3, 0.5)}
    loose, tight = (
        SLTRRegressorCV(**grid, refine=None, cv=3, tol=tol).fit(X, y).coef_
        for tol in (1e-3, 1e-5)
    )
    np.testing.assert_allclose(loose, tight, atol=0.05 * np.abs(tight).max())


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_complexity_counts_the_free_parameters_of_a_refit(rng, kind):
    """That is the dimension of all tensors of a rank: of the tangent space of one."""
    X, y = of_rank(rng, 2, n=60, shape=(4, 3, 3))
    rows = search_rows(X, y, kind)
    for rank in {row.candidate.rank for row in rows if np.max(row.candidate.rank) < 3}:
        ranks = rank if kind == "tucker" else (rank,) * 3
        sizes = zip((4, 3, 3), ranks, strict=True)
        factors = [rng.normal(size=size) for size in sizes]
        core = rng.normal(size=ranks)
        if kind == "cp":
            core = np.eye(rank)[:, :, None] * np.eye(rank)
        blocks = [*factors, core]
        free = blocks if kind == "tucker" else blocks[:3]
        tangent = []
        for place, block in enumerate(free):
            for unit in np.eye(block.size):
                changed = [*blocks]
                changed[place] = unit.reshape(block.shape)
                U, V, W, G = changed
                tangent.append(np.einsum("ar,bs,ct,rst->abc", U, V, W, G).ravel())
        dimension = np.linalg.matrix_rank(np.array(tangent))
        found = [row.complexity * 36 for row in rows if row.candidate.rank == rank]
        np.testing.assert_allclose(found, dimension)


def test_complexity_of_the_paper_s_estimate_is_that_of_its_ranks(rng):
    """The same count as for refits: Tucker tensors of rank one have 1 + Σ(p − 1)."""
    tensor = reduce(np.multiply.outer, (rng.normal(size=p) for p in (6, 5, 4)))
    sparse = np.zeros((6, 5, 4))
    sparse[0, 0, :] = 1.0
    coef = np.stack([tensor, sparse, 0.0 * sparse]).reshape(1, 1, 1, 3, -1)
    fits = refits.PlainFits([(0.0, 0.0)] * 3, coef, *[np.zeros((1, 1, 1, 3))] * 3)
    found = fits.complexity((6, 5, 4))[0, 0]
    np.testing.assert_allclose(found * 120, [13, 4, 0])


@pytest.mark.parametrize("small", [0, 10**9])
def test_small_problems_are_solved_together_in_all_folds(rng, small):
    X, y = of_rank(rng, 1, n=30, shape=(4, 3))
    model = SLTRRegressorCV()
    samples = check_samples(model, X, y, None)
    task = model._task(samples, samples.y[:, None])
    task = replace(task, settings=replace(task.settings, small_problem=small))
    folds = Folds.of(task, list(KFold(3).split(X)))
    parts = memory_parts(task, ridge_pilots(task, folds.training, [1.0]))
    assert len(parts) == (1 if small else 3)


def test_a_lasso_that_runs_out_of_steps_says_so(rng):
    X = rng.normal(size=(60, 10, 8)) + 3.0 * rng.normal(size=(60, 1, 1))
    y = X[:, 2, 3] - X[:, 5, 1] + 0.1 * rng.normal(size=60)
    single = SLTRRegressor(lambda_sparse=0.001, refine=("sparse", None))
    with pytest.warns(ConvergenceWarning, match="The Lasso of refine='sparse' stopped"):
        single.fit(X, y)
    single.set_params(lambda_sparse=0.3).fit(X, y)


OUTLIER_REFITS = {
    "reweight": Candidate(10.0, 0.3, 0.3, "reweight", steps=4),
    "tucker": Candidate(10.0, 0.3, 0.3, "tucker", rank=(2, 2, 1), ridge=0.1),
    "cp": Candidate(10.0, 0.3, 0.3, "cp", rank=2, ridge=0.1),
    "sparse": Candidate(10.0, 0.18, 0.0, "sparse", ridge=0.03),
}


@pytest.mark.parametrize("row", [0, 7, 29])
@pytest.mark.parametrize("kind", OUTLIER_REFITS)
def test_an_outlier_that_is_held_out_changes_nothing(rng, kind, row):
    X, y = of_rank(rng, 2, n=30, shape=(5, 4, 3))
    training = (np.arange(30) != row)[None]
    start, found = rng.normal(size=(1, 1, 5, 4, 3)), []
    for value in (0.5, 1e30):
        X[row, 1, 2, 0] = value
        model = SLTRRegressorCV(standardize=None)  # units are learnt from all samples
        samples = check_samples(model, X, y, None)
        task = model._task(samples, samples.y[:, None])
        candidate = OUTLIER_REFITS[kind]
        found += refits.refit_coefs(task, training, [candidate], start).values()
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("refine", [None, "scale", *OUTLIER_REFITS])
def test_one_entry_of_1e30_is_survived(rng, refine):
    for cell in (0, 77, 30 * 12 - 1):
        X, y = of_rank(rng, 2, n=30, shape=(4, 3))
        X.reshape(-1)[cell] = 1e30
        for model in (SLTRRegressor(refine=refine), SLTRRegressorCV(refine=refine)):
            assert np.isfinite(model.fit(X, y).coef_).all()
            assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("x_unit", "y_unit"), [(1e60, 1.0), (1e-60, 1.0), (1e40, 1e40)]
)
def test_units_beyond_the_products_of_refits_are_refused(rng, x_unit, y_unit):
    X, y = of_rank(rng, 1, n=30, shape=(4, 3))
    X, y = x_unit * X, y_unit * y
    with pytest.raises(ValueError, match="Divide X and y by their largest entries"):
        SLTRRegressorCV(refine="reweight").fit(X, y)
    assert np.isfinite(SLTRRegressorCV(refine=None).fit(X, y).coef_).all()
