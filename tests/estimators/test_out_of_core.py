"""Fits to samples that stay in a file equal fits in memory."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from problems import corner, draw
from sklearn.base import clone
from sklearn.model_selection import KFold

from sltr import (
    RemursRegressor,
    SLTRClassifier,
    SLTRClassifierCV,
    SLTRRegressor,
    SLTRRegressorCV,
    load,
    save,
    sltr_path,
)
from sltr.estimators.base import SLTRBase
from sltr.samples.stored import Budget
from sltr.tuning import stored
from sltr.tuning.candidates import DEFAULT_REFINEMENTS
from sltr.tuning.passes import StoredRefits
from sltr.tuning.policy import DEFAULT

zarr = pytest.importorskip("zarr")

SMALL_GRID = {"lambdas_sparse": (0.0, 0.3, 0.7), "lambdas_low": (0.0, 0.5)}
LARGE = (30, (18, 17, 16))  # beyond what is solved as one batch
SIZES = [(40, (6, 5, 4)), (90, (4, 3, 2))]
# Refits read samples again for every product, even if they would fit.
NEVER_HELD = replace(DEFAULT, held_share=10**9)
# So they do here, but memory holds the test's samples in eight bits, or in four.
EIGHT_BITS, FOUR_BITS = (replace(DEFAULT, held_share=share) for share in (16, 32))
every_size = pytest.mark.parametrize("size", SIZES, ids=["wide", "tall"])


def share_blocks(monkeypatch, block_share, **options):
    """Let blocks take another part of the memory limit."""
    budget = partial(Budget, block_share=block_share, **options)
    monkeypatch.setattr("sltr.samples.mapped.Budget", budget)


@pytest.fixture(autouse=True)
def tight(monkeypatch, samples_stay):
    """Blocks of 400 entries; predictions for a few coefficients at a time."""
    share_blocks(monkeypatch, 10**6 // (400 * 8), product_rows=8)
    policy = replace(DEFAULT, waiting_share=60, chunk_share=60, pilot_share=150)
    monkeypatch.setattr(SLTRBase, "_policy", policy)


def drawn(rng, size):
    n_samples, shape = size
    return draw(rng, corner(shape, (2, 2, 2)), n_samples, noise=0.3, mean=2.0)


def as_zarr(X, chunks=None):
    found = zarr.create_array(
        zarr.storage.MemoryStore(),
        shape=X.shape,
        chunks=chunks or (7, 2, *X.shape[2:]),
        dtype=X.dtype,
    )
    found[...] = X
    return found


def same(found, expected, tol=1e-8):
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


def labels_of(y):
    return np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]


@every_size
@pytest.mark.parametrize("epsilon", ["loo", 0.5])
def test_a_fit_is_the_one_in_memory(rng, size, epsilon):
    X, y = drawn(rng, size)
    weight = rng.uniform(0.5, 2.0, size=len(y))
    weight[[0, 5, 6, 30]] = 0.0
    model = SLTRRegressor(epsilon, 0.2, 0.2, refine="scale")
    here = clone(model).fit(X, y, weight)
    there = clone(model).set_params(memory_limit="1MB").fit(as_zarr(X), y, weight)
    same(there.coef_, here.coef_)
    same(there.intercept_, here.intercept_)
    same(there.epsilon_, here.epsilon_)
    same(there.predict(as_zarr(X)), here.predict(X))
    assert here.pilot_method_ == there.pilot_method_
    assert there.pilot_method_ == ("dual" if size[0] < 90 else "primal")
    assert there.shape_in_ == X.shape[1:]


@every_size
@pytest.mark.parametrize("rule", ["average", "best", "1se"])
def test_tuning_is_the_one_in_memory(rng, size, rule):
    X, y = drawn(rng, size)
    options = {**SMALL_GRID, "rule": rule, "cv": KFold(4, shuffle=True, random_state=0)}
    options["refine"] = (None, "scale")
    here = SLTRRegressorCV(**options).fit(X, y)
    there = SLTRRegressorCV(memory_limit="1MB", **options).fit(as_zarr(X), y)
    scores = "mean_test_score"
    same(there.cv_results_[scores], here.cv_results_[scores])
    same(there.cv_results_["param_epsilon"], here.cv_results_["param_epsilon"])
    for name in ("lambda_sparse", "lambda_low", "refine"):
        column = f"param_{name}"
        assert there.cv_results_[column].tolist() == here.cv_results_[column].tolist()
    same(there.coef_, here.coef_)
    same(there.intercept_, here.intercept_)


def test_chains_of_warm_starts_are_the_ones_in_memory(rng, monkeypatch):
    share_blocks(monkeypatch, 8)
    X, y = drawn(rng, LARGE)
    options = {**SMALL_GRID, "epsilons": [30.0, 31.0, 3000.0], "cv": 2}
    options |= {"refine": None, "rule": "best"}
    here = SLTRRegressorCV(**options).fit(X, y)
    there = SLTRRegressorCV(memory_limit="20MB", **options).fit(as_zarr(X), y)
    name = "mean_test_score"
    same(there.cv_results_[name], here.cv_results_[name])
    same(there.coef_, here.coef_)


@pytest.mark.parametrize("model", [SLTRClassifier, SLTRClassifierCV])
def test_classes_are_those_found_in_memory(rng, model):
    X, y = drawn(rng, SIZES[0])
    labels = labels_of(y)
    options = (
        {"refine": (None, "scale"), **SMALL_GRID} if model is not SLTRClassifier else {}
    )
    here = model(**options).fit(X, labels)
    there = model(memory_limit="1MB", **options).fit(as_zarr(X), labels)
    same(there.coef_, here.coef_)
    same(there.sigmoids_, here.sigmoids_, 1e-6)
    same(there.predict_proba(as_zarr(X)), here.predict_proba(X), 1e-6)
    assert there.predict(as_zarr(X)).tolist() == here.predict(X).tolist()


def test_processes_find_the_same(rng):
    X, y = drawn(rng, SIZES[0])
    options = {**SMALL_GRID, "cv": 3, "memory_limit": "1MB"}
    alone = SLTRRegressorCV(**options).fit(as_zarr(X), y)
    both = SLTRRegressorCV(n_jobs=2, **options).fit(as_zarr(X), y)
    same(both.coef_, alone.coef_, 1e-12)


def test_processes_get_no_more_than_the_memory_limit(rng, monkeypatch):
    """A process hands over all solutions of its part, which wait in memory."""
    X, y = drawn(rng, SIZES[0])
    at_once = []

    class Counted(stored.Parallel):
        def __call__(self, work):
            work = list(work)
            at_once.append(len(work))
            return super().__call__(work)

    monkeypatch.setattr(stored, "Parallel", Counted)
    options = {**SMALL_GRID, "cv": 6, "n_jobs": 4, "memory_limit": "1MB"}
    options["refine"] = None
    found = {}
    # A part takes 109 kB: the states of two solvers, and their solutions twice.
    for share in (1, 4, 20):
        policy = replace(SLTRBase._policy, state_share=share, pilot_share=1)
        monkeypatch.setattr(SLTRBase, "_policy", policy)
        model = SLTRRegressorCV(**options, epsilons=(1.0, 1.001)).fit(as_zarr(X), y)
        found[share] = model.coef_, list(at_once)
        at_once.clear()
    assert found[1][1] == [4, 2]
    assert found[4][1] == [2, 2, 2]
    assert found[20][1] == []
    same(found[4][0], found[1][0])
    same(found[20][0], found[1][0], 1e-3)


@pytest.mark.parametrize("pilot_share", [1, 150, 10**6])
def test_groups_ask_for_larger_penalties_as_in_memory(rng, monkeypatch, pilot_share):
    """Samples of one group resemble each other: leaving one out is too easy."""
    X, y = drawn(rng, (36, (6, 5, 4)))
    X, y = np.repeat(X[:9], 4, axis=0) + 0.05 * X, np.repeat(y[:9], 4)
    groups = np.repeat(np.arange(9), 4)
    policy = replace(SLTRBase._policy, pilot_share=pilot_share)
    monkeypatch.setattr(SLTRBase, "_policy", policy)
    options = {**SMALL_GRID, "refine": None, "cv": 3}
    here = SLTRRegressorCV(**options).fit(X, y, groups=groups)
    there = SLTRRegressorCV(memory_limit="1MB", **options)
    there.fit(as_zarr(X), y, groups=groups)
    alone = SLTRRegressorCV(**options).fit(X, y)
    tried = [set(m.cv_results_["param_epsilon"].tolist()) for m in (here, alone)]
    assert max(tried[0]) > 5 * max(tried[1])
    same(there.cv_results_["param_epsilon"], here.cv_results_["param_epsilon"], 1e-6)
    same(there.coef_, here.coef_, 1e-6)


def test_close_penalties_stay_together_as_far_as_memory_allows(rng):
    first, other = rng.normal(size=(2, 1, 30))
    close = np.stack([first, first * 1.0001, first * 1.0002, other, other * 1.0001])
    cut = [slice(0, 3), slice(3, 5)]
    assert stored._close_penalties(close, 5) == cut
    assert stored._close_penalties(close, 2) == [
        slice(0, 2),
        slice(2, 3),
        slice(3, 5),
    ]
    both = np.concatenate([close, rng.normal(size=close.shape)], axis=1)
    assert len(stored._close_penalties(both, 5)) == 5


def test_penalties_one_by_one_find_the_same(rng, monkeypatch):
    X, y = drawn(rng, SIZES[0])
    options = {**SMALL_GRID, "epsilons": [0.5, 0.501], "memory_limit": "1MB", "cv": 3}
    options |= {"refine": None, "rule": "best"}
    counts = []
    original = stored.stored_parts

    def counted(*arguments):
        for parts in original(*arguments):
            counts.append(len(parts))
            yield parts

    monkeypatch.setattr(stored, "stored_parts", counted)
    together = SLTRRegressorCV(**options).fit(as_zarr(X), y)
    assert sum(counts) == 3
    counts.clear()
    policy = replace(SLTRBase._policy, state_share=10**6)
    monkeypatch.setattr(SLTRBase, "_policy", policy)
    single = SLTRRegressorCV(**options).fit(as_zarr(X), y)
    assert sum(counts) == 3 * 2
    same(single.coef_, together.coef_)
    name = "mean_test_score"
    same(single.cv_results_[name], together.cv_results_[name])


def test_the_number_of_passes_is_what_the_page_on_planning_says(rng, monkeypatch):
    """Units, Gram matrix, pilots, predictions, final pilot: a pass each if they fit.

    Factors need pilots and predictions of their own.
    """
    X, y = drawn(rng, SIZES[0])
    source = as_zarr(X)
    read = []

    class Counted:
        shape, dtype, chunks = source.shape, source.dtype, source.chunks

        def __getitem__(self, index):
            found = source[index]
            read.append(found.size)
            return found

    share_blocks(monkeypatch, 1)
    policy = replace(DEFAULT, waiting_share=1, chunk_share=1, pilot_share=1)
    monkeypatch.setattr(SLTRBase, "_policy", policy)
    options = {"memory_limit": "1MB", "cv": 4, **SMALL_GRID}
    first = 1 / len(X)  # the row about which deviations are taken, read twice
    for refine, standardize, n_passes in (
        ((None, "scale"), None, 6),
        (None, None, 4),
        (None, "slices", 5 + first),
    ):
        read.clear()
        given = {"refine": refine, "standardize": standardize, **options}
        model = SLTRRegressorCV(**given).fit(Counted(), y)
        assert sum(read) == pytest.approx(n_passes * X.size)
        assert model.n_passes_ == pytest.approx(n_passes, abs=0.01)
    read.clear()
    model = SLTRRegressorCV(**options).fit(Counted(), y)
    assert model.n_passes_ == pytest.approx(sum(read) / X.size, abs=0.01)
    assert model.n_passes_ < 60


def test_a_whole_path_from_a_file(rng):
    X, y = drawn(rng, SIZES[0])
    here = sltr_path(X, y, **SMALL_GRID)
    there = sltr_path(as_zarr(X), y, memory_limit="1MB", **SMALL_GRID)
    same(there.coef, here.coef)
    same(there.intercept, here.intercept)


def test_a_memmap_beyond_the_limit_is_not_copied(rng, tmp_path):
    X, y = drawn(rng, (100, (20, 10, 20)))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = SLTRRegressor(1.0, memory_limit=10**6 * 10)
    here = clone(model).fit(X, y)
    seen = []
    model.set_params(memory_limit="2MB", progress=lambda *step: seen.append(step))
    there = model.fit(mapped, y)
    assert seen, "the file was not read in blocks"
    assert there.pilot_method_ == "dual"
    same(there.coef_, here.coef_)


@pytest.mark.parametrize("refine", [None, "scale"])
@pytest.mark.parametrize("chunks", [None, (7, 3, 5, 2)])
def test_an_hdf5_data_set_stays_in_its_file(rng, tmp_path, refine, chunks):
    h5py = pytest.importorskip("h5py")
    X, y = drawn(rng, SIZES[0])
    here = SLTRRegressor(refine=refine).fit(X, y)
    with h5py.File(tmp_path / "samples.h5", "w") as file:
        data = file.create_dataset("X", data=X, chunks=chunks)
        seen = []
        model = SLTRRegressor(refine=refine, memory_limit="1MB")
        model.set_params(progress=lambda *step: seen.append(step)).fit(data, y)
        same(model.predict(data), here.predict(X))
    assert seen, "the file was not read in blocks"
    same(model.coef_, here.coef_)


def test_flat_rows_in_a_file_are_folded(rng):
    X, y = drawn(rng, SIZES[0])
    here = SLTRRegressor(1.0).fit(X, y)
    flat = as_zarr(X.reshape(len(X), -1), (9, 50))
    there = SLTRRegressor(1.0, feature_shape=X.shape[1:]).fit(flat, y)
    same(there.coef_, here.coef_)
    assert there.n_features_in_ == 120


def test_single_precision_and_whole_numbers(rng):
    X, y = drawn(rng, SIZES[0])
    single = SLTRRegressor(1.0).fit(as_zarr(X.astype(np.float32)), y)
    assert single.coef_.dtype == np.float32
    counts = rng.integers(0, 255, size=X.shape, dtype=np.uint8)
    here = SLTRRegressor(1.0).fit(counts.astype(float), y)
    same(SLTRRegressor(1.0).fit(as_zarr(counts), y).coef_, here.coef_)


@pytest.mark.parametrize("refine", ["tucker", ("cp", 1, 1.0), (None, "sparse")])
def test_refits_without_room_are_refused(rng, refine):
    X = rng.normal(size=(30, 20, 20, 20))
    y = X[:, 0, 0, 0]
    model = SLTRRegressor if refine != (None, "sparse") else SLTRRegressorCV
    with pytest.raises(ValueError, match="no room for refits"):
        model(refine=refine, memory_limit="1MB").fit(as_zarr(X), y)


def low_rank(rng, n_samples=160, shape=(12, 10, 6)):
    """A problem whose best refit is of low rank, and samples to predict for."""
    factors = [rng.normal(size=size) * (np.arange(size) < 4) for size in shape]
    coef = np.einsum("i,j,k->ijk", *factors)
    X = rng.normal(size=(n_samples + 200, *shape)) + 3.0
    y = np.einsum("nijk,ijk->n", X, coef)
    y = y + 0.3 * y.std() * rng.normal(size=len(y))
    return X[:n_samples], y[:n_samples], X[n_samples:]


def truth(rng, kind, shape=(12, 10, 6)):
    """Coefficients that different refits are good at."""
    coef = np.zeros(shape)
    if kind == "sparse":
        coef.flat[rng.choice(coef.size, 8, replace=False)] = rng.normal(size=8)
    elif kind == "dense":
        coef = rng.normal(size=shape)
    elif kind != "nothing":
        for _ in range(3 if kind == "three terms" else 1):
            factors = [rng.normal(size=p) * (rng.random(p) < 0.5) for p in shape]
            coef = coef + np.einsum("i,j,k->ijk", *factors)
    return coef


TRUTHS = ["one term", "three terms", "dense", "nothing", "sparse"]


def drawn_truth(kind, seed):
    """Return samples and responses of a truth, 160 to fit and 300 to predict."""
    rng = np.random.default_rng(seed)
    coef = truth(rng, kind)
    X = rng.normal(size=(460, *coef.shape)) + 3.0
    y = np.einsum("nijk,ijk->n", X, coef)
    y = y + (0.3 * y.std() if y.std() > 0 else 1.0) * rng.normal(size=len(y))
    return X[:160], y[:160], X[160:], y[160:]


HOLDINGS = {
    "held": (DEFAULT, [0, 2]),
    "eight bits": (EIGHT_BITS, [0, 1, 2, 5, 6, 9, 19, 20]),
    "passes": (NEVER_HELD, [0, 2]),
}


@pytest.mark.parametrize("kind", TRUTHS)
@pytest.mark.parametrize(
    ("holding", "seed"), [(name, k) for name, (_, ks) in HOLDINGS.items() for k in ks]
)
def test_a_small_limit_keeps_samples_in_their_file_and_refits_them(
    kind, holding, seed, monkeypatch
):
    """Samples that fit in single precision are held for refits, others read again.

    Low ranks of these are searched on samples in few bits, if memory holds them.
    """
    monkeypatch.undo()
    # Of these draws none has two local minima between which rounding decides.
    X, y, new, response = drawn_truth(kind, seed)
    here = SLTRRegressorCV().fit(X, y)
    monkeypatch.setattr(SLTRBase, "_policy", HOLDINGS[holding][0])
    there = SLTRRegressorCV(memory_limit="3.6MB").fit(as_zarr(X, (40, 6, 10, 6)), y)
    assert 0 < there.n_passes_ <= (11 if holding == "held" else 60)
    assert "passes over X" in str(there.summary())
    apart = here.predict(new) - there.predict(new)
    assert np.sqrt(np.mean(apart**2)) < 0.02 * y.std()
    assert there.score(new, response) > here.score(new, response) - 0.01


@pytest.mark.parametrize("seed", [1, 4, 6, 9])
def test_few_bits_cost_no_accuracy(seed, monkeypatch):
    """Sums of terms end in other local minima, which predict as well."""
    monkeypatch.undo()
    X, y, new, response = drawn_truth("three terms", seed)
    here = SLTRRegressorCV().fit(X, y)
    monkeypatch.setattr(SLTRBase, "_policy", FOUR_BITS)
    there = SLTRRegressorCV(memory_limit="3.6MB").fit(as_zarr(X, (40, 6, 10, 6)), y)
    assert there.n_passes_ <= 60
    assert there.score(new, response) > here.score(new, response) - 0.01


def test_what_is_not_a_must_is_left_out_where_passes_are_short(monkeypatch):
    """Later steps of reweighting and smaller thresholds of the Lasso."""
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 12, 10, 6)) + 3.0
    y = X.reshape(160, -1) @ truth(rng, "sparse").ravel() + 0.3 * rng.normal(size=160)
    tried = {}
    for most in (60, 52):
        policy = replace(NEVER_HELD, most_passes=most)
        monkeypatch.setattr(SLTRBase, "_policy", policy)
        model = SLTRRegressorCV(memory_limit="3.6MB").fit(as_zarr(X, (40, 6, 10, 6)), y)
        assert model.n_passes_ <= most
        refits = model.cv_results_["param_refine"]
        assert {"reweight", "tucker", "cp", "sparse"} <= set(refits)
        tried[most] = sum(refine in ("reweight", "sparse") for refine in refits)
    assert tried[52] < tried[60]


def test_a_small_limit_keeps_labelled_samples_in_their_file(monkeypatch):
    monkeypatch.undo()
    X, y, new = low_rank(np.random.default_rng(0), 240)
    labels = np.where(y > np.median(y), "up", "down")
    here = SLTRClassifierCV().fit(X, labels)
    stored = as_zarr(X, (40, 6, 10, 6))
    there = SLTRClassifierCV(memory_limit="5MB").fit(stored, labels)
    assert there.n_passes_ > 0
    apart = here.predict_proba(new) - there.predict_proba(new)
    assert np.sqrt(np.mean(apart**2)) < 0.02


@pytest.mark.parametrize("kind", ["zarr", "hdf5", "memmap"])
def test_refits_out_of_core_predict_as_those_in_memory(
    rng, tmp_path, kind, samples_stay, monkeypatch
):
    monkeypatch.setattr(SLTRBase, "_policy", NEVER_HELD)
    X, y, new = low_rank(rng)
    here, limit = SLTRRegressorCV().fit(X, y), "1GB"
    if kind == "zarr":
        stored = as_zarr(X)
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        stored = h5py.File(tmp_path / "X.h5", "w").create_dataset(
            "X", data=X, chunks=(16, 12, 5, 6)
        )
    else:
        np.save(tmp_path / "X.npy", X)
        stored = np.load(tmp_path / "X.npy", mmap_mode="r")
        limit = 10 * X.nbytes
        monkeypatch.setattr("sltr.samples.check.is_left_in_place", lambda X, limit: 1)
    there = SLTRRegressorCV(memory_limit=limit).fit(stored, y)
    assert set(there.cv_results_["param_refine"]) >= {"reweight", "cp", "tucker"}
    apart = new.reshape(len(new), -1) @ (here.coef_ - there.coef_).ravel()
    apart = apart + here.intercept_ - there.intercept_
    assert np.sqrt(np.mean(apart**2)) < 0.02 * y.std()
    assert 0 < there.n_passes_ <= 60
    assert here.n_passes_ == 0


@pytest.mark.parametrize("policy", [DEFAULT, NEVER_HELD], ids=["held", "passes"])
def test_labels_out_of_core_are_refitted_as_in_memory(
    rng, samples_stay, monkeypatch, policy
):
    monkeypatch.setattr(SLTRBase, "_policy", policy)
    X, y, new = low_rank(rng, 240)
    labels = np.where(y > np.median(y), "up", "down")
    here = SLTRClassifierCV().fit(X, labels)
    there = SLTRClassifierCV().fit(as_zarr(X), labels)
    apart = here.predict_proba(new) - there.predict_proba(new)
    assert np.sqrt(np.mean(apart**2)) < 0.02


@pytest.mark.parametrize(
    "refine", [("cp", 2, 0.1), ("tucker", (2, 2, 2), 0.1), ("reweight", 2), "sparse"]
)
@pytest.mark.parametrize(
    ("policy", "most"), [(DEFAULT, 1e-3), (NEVER_HELD, 0.05)], ids=["held", "passes"]
)
def test_one_given_refit_out_of_core_is_the_one_in_memory(
    rng, refine, samples_stay, monkeypatch, policy, most
):
    monkeypatch.setattr(SLTRBase, "_policy", policy)
    X, y, new = low_rank(rng)
    here = SLTRRegressor(refine=refine, lambda_sparse=0.3).fit(X, y)
    there = SLTRRegressor(refine=refine, lambda_sparse=0.3).fit(as_zarr(X), y)
    apart = here.predict(new) - there.predict(new)
    assert np.sqrt(np.mean(apart**2)) < most * y.std()
    assert there.refine_settings_ == here.refine_settings_


def test_the_lasso_reads_further_columns_until_none_is_missing(rng, monkeypatch):
    """What the first few columns leave out joins by the optimality conditions."""
    monkeypatch.setattr("sltr.samples.check.fits_in_memory", lambda X, limit: False)
    monkeypatch.setattr(SLTRBase, "_policy", NEVER_HELD)
    X = rng.normal(size=(80, 12, 10))
    y = X[:, 0, 0] + 0.8 * X[:, 3, 3] + 0.6 * X[:, 5, 2] + 0.1 * rng.normal(size=80)
    options = {"lambda_sparse": 0.1, "refine": ("sparse", None)}
    here = SLTRRegressor(**options).fit(X, y)
    monkeypatch.setattr("sltr.tuning.passes.COLUMNS_PER_SAMPLE", 0.1)
    there = SLTRRegressor(**options).fit(as_zarr(X), y)
    same_support = (here.coef_ != 0) == (there.coef_ != 0)
    assert same_support[[0, 3, 5], [0, 3, 2]].all()
    np.testing.assert_allclose(there.coef_, here.coef_, atol=0.05)


def test_a_scorer_gets_the_predictions_but_no_samples(rng):
    X, y = drawn(rng, SIZES[0])
    shapes = []

    def scorer(model, X, y):
        shapes.append(X.shape)
        return -np.abs(model.predict(X) - y).mean()

    SLTRRegressorCV(scoring=scorer, cv=4, **SMALL_GRID).fit(as_zarr(X), y)
    assert set(shapes) == {(10, 0)}


def test_a_chunk_lost_or_broken_while_refits_are_made_is_named(
    rng, tmp_path, monkeypatch
):
    monkeypatch.setattr(SLTRBase, "_policy", NEVER_HELD)
    X, y = drawn(rng, SIZES[0])
    for damage, words in (
        (lambda path: path.unlink(), r"chunk 'c/2/0/0/0', .* is missing"),
        (lambda path: path.write_bytes(b"short"), r"samples 14:21 and entries"),
    ):
        folder = tmp_path / str(len(words))
        source = zarr.create_array(
            str(folder), shape=X.shape, chunks=(7, 6, 5, 4), dtype=X.dtype
        )
        source[...] = X
        chunk = folder / "c" / "2" / "0" / "0" / "0"
        sweep = StoredRefits.low_rank

        def damaged(*given, sweep=sweep, damage=damage, chunk=chunk, **options):
            damage(chunk)
            return sweep(*given, **options)

        monkeypatch.setattr(StoredRefits, "low_rank", damaged)
        model = SLTRRegressorCV(refine="cp", memory_limit="1GB", cv=3, **SMALL_GRID)
        with pytest.raises(OSError, match=words):
            model.fit(source, y)
        assert not hasattr(model, "coef_")
        monkeypatch.setattr(StoredRefits, "low_rank", sweep)


def test_bad_values_and_broken_chunks_leave_the_model_as_it_was(rng):
    X, y = drawn(rng, SIZES[0])
    model = SLTRRegressor(1.0, memory_limit="1MB").fit(X, y)
    before = model.coef_.copy()
    X[17, 1, 1, 1] = np.nan
    with pytest.raises(ValueError, match="sample 17"):
        model.fit(as_zarr(X), y)
    source = as_zarr(np.nan_to_num(X))

    class Broken:
        shape, dtype, chunks = source.shape, source.dtype, source.chunks

        def __getitem__(self, index):
            if index[0].start >= 14:
                raise RuntimeError("checksum does not match")
            return source[index]

    with pytest.raises(OSError, match=r"samples 14:21 .*checksum does not match"):
        model.fit(Broken(), y)
    assert np.array_equal(model.coef_, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, y[:-1]), "equal numbers"),
        (lambda X, y: (X, np.where(y > y.mean(), np.nan, y)), "y contains NaN"),
        (lambda X, y: (X, None), "y=None"),
        (lambda X, y: (X.astype(complex), y), "real numbers"),
        (lambda X, y: (X[:, 0, 0, 0], y), "first axis counts"),
    ],
)
def test_bad_input_is_refused(rng, change, message):
    X, y = change(*drawn(rng, SIZES[0]))
    chunks = None if X.ndim > 2 else X.shape
    with pytest.raises(ValueError, match=message):
        SLTRRegressor().fit(as_zarr(X, chunks), y)


def test_samples_of_another_shape_are_refused(rng):
    X, y = drawn(rng, SIZES[0])
    model = SLTRRegressor(1.0).fit(X, y)
    with pytest.raises(ValueError, match="fitted on"):
        model.predict(as_zarr(X[:, :5]))


def test_limits_are_checked_and_may_rule_out_a_factorisation(rng, monkeypatch):
    share_blocks(monkeypatch, 8)
    X, y = drawn(rng, SIZES[0])
    with pytest.raises(ValueError, match="memory_limit="):
        SLTRRegressor(memory_limit="lots").fit(as_zarr(X), y)
    wide = rng.normal(size=(200, 300))
    response = wide[:, 0] + 0.1 * rng.normal(size=200)
    exact = SLTRRegressor(5.0).fit(wide, response)
    assert exact.pilot_method_ == "dual"
    there = SLTRRegressor(5.0, memory_limit=10**6).fit(
        as_zarr(wide, (50, 70)), response
    )
    assert there.pilot_method_ == "cg"
    same(there.coef_, exact.coef_)
    with pytest.raises(ValueError, match="raise memory_limit"):
        SLTRRegressor(memory_limit=10**6).fit(as_zarr(wide, (50, 70)), response)


def test_other_methods_load_such_samples(rng):
    X, y = drawn(rng, SIZES[0])
    same(RemursRegressor().fit(as_zarr(X), y).coef_, RemursRegressor().fit(X, y).coef_)


def test_models_are_saved_with_their_limit(rng, tmp_path):
    X, y = drawn(rng, SIZES[0])
    model = SLTRRegressor(1.0, memory_limit="5MB").fit(as_zarr(X), y)
    save(model, tmp_path / "model.sltr")
    again = load(tmp_path / "model.sltr")
    assert again.memory_limit == "5MB"
    assert again.pilot_method_ == "dual"


def test_the_default_says_which_refits_it_leaves_out(rng, monkeypatch):
    monkeypatch.undo()
    X = rng.normal(size=(24, 13, 13, 12))
    y, options = X[:, 0, 0, 0], {**SMALL_GRID, "cv": 3, "memory_limit": "1MB"}
    with pytest.warns(UserWarning, match="no room for refits") as told:
        left_out = SLTRRegressorCV(**options).fit(as_zarr(X), y)
    assert set(left_out.cv_results_["param_refine"]) == {None, "scale"}
    # What it says to do gives refits their room.
    advised = re.search(r"memory_limit='(.*?)'", str(told[0].message)).group(1)
    raised = SLTRRegressorCV(**options | {"memory_limit": advised})
    raised.fit(as_zarr(X), y)
    assert raised.n_passes_ > 0
    assert set(raised.cv_results_["param_refine"]) >= {"reweight", "cp"}
    # Who names them all, in whatever order, asks for the same.
    given = SLTRRegressorCV(**options, refine=list(DEFAULT_REFINEMENTS[::-1]))
    with pytest.warns(UserWarning, match="no room for refits"):
        same(given.fit(as_zarr(X), y).coef_, left_out.coef_)


def test_a_memory_limit_changes_nothing_for_samples_in_memory(rng):
    X, y = drawn(rng, (150, (12, 13, 1)))
    limited = SLTRRegressor(memory_limit="1MB").fit(X, y)
    same(limited.coef_, SLTRRegressor().fit(X, y).coef_)
