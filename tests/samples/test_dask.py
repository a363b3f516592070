"""Samples as Dask arrays: any scheduler, real worker processes, killed ones."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import joblib
import numpy as np
import pytest
from oracles import assert_close
from problems import corner, draw
from sklearn.base import clone, is_classifier
from test_stored import check_products

from sltr.estimators.base import SLTRBase
from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.inference import permutation_test
from sltr.peers.elementary import TensorRidge
from sltr.samples import dask as room
from sltr.samples.mapped import lazy_samples
from sltr.samples.stored import Budget
from sltr.tuning.policy import DEFAULT

pytestmark = pytest.mark.usefixtures("samples_stay")

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

SMALL_GRID = {"lambdas_sparse": (0.0, 0.3, 0.7), "lambdas_low": (0.0, 0.5), "cv": 3}
CHUNKS = [(23, 6, 5, 4), (5, 6, 5, 4), (23, 2, 5, 4), (7, 3, 2, 4)]
EVERYWHERE = ("synchronous", "threads")


def lazy(X, chunks):
    array = da.from_array(X, chunks=chunks)
    return lazy_samples(array, X.shape[1:], Budget(10**6))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_products_of_dask_arrays(rng, chunks):
    X = rng.normal(size=(23, 6, 5, 4)) + 10.0
    with dask.config.set(scheduler="threads"):
        check_products(lazy(X, chunks), X, rng)


def test_rows_of_dask_arrays_and_empty_chunks(rng):
    X = rng.normal(size=(23, 6, 5, 4))
    rows = np.array([0, 14, 15, 20, 21, 22])
    with dask.config.set(scheduler="synchronous"):
        check_products(lazy(X, (5, 6, 2, 4)).take(rows), X[rows], rng)


def test_small_row_chunks_are_merged_for_the_gram_matrix(rng, monkeypatch):
    X = rng.normal(size=(40, 3))
    found = []
    original = room.computed
    monkeypatch.setattr(room, "computed", lambda t: found.append(len(t)) or original(t))
    with dask.config.set(scheduler="synchronous"):
        assert_close(lazy(X, (1, 3)).gram(), X @ X.T)
    assert found == [1]


def test_values_that_are_not_finite_are_named(rng):
    X = rng.normal(size=(23, 6, 5, 4))
    X[13, 4, 2, 1] = np.inf
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(ValueError, match=r"samples 10:15 .* first in sample 13"),
    ):
        lazy(X, (5, 3, 5, 4)).combine(np.ones((1, 23)))


@pytest.mark.parametrize(
    "product",
    [
        lambda X: X.gram(),
        lambda X: X.inner_groups([(np.arange(5, 15), np.ones((1, 120)))]),
    ],
)
def test_a_sample_is_named_by_its_place_in_the_array(rng, product):
    X = rng.normal(size=(23, 6, 5, 4))
    X[13, 4, 2, 1] = np.nan
    kept = np.setdiff1d(np.arange(len(X)), [2, 3, 12])
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(ValueError, match=r"first in sample 13"),
    ):
        product(lazy(X, (5, 3, 5, 4)).take(kept))


def broken_array(X, at):
    """Return X in row chunks of five, one of which cannot be loaded."""

    def load(start):
        if start == at:
            raise RuntimeError("checksum does not match")
        return X[start : start + 5]

    parts = [
        da.from_delayed(dask.delayed(load)(k), X[k : k + 5].shape, X.dtype)
        for k in range(0, len(X), 5)
    ]
    return da.concatenate(parts)


def test_a_chunk_that_cannot_be_computed_is_named(rng):
    X, y = rng.normal(size=(20, 4, 3)), rng.normal(size=20)
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(OSError, match=r"samples 10:15 and .*checksum does not match"),
    ):
        SLTRRegressor(1.0).fit(broken_array(X, 10), y)
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(OSError, match=r"samples 10:15 and .*checksum does not match"),
    ):
        SLTRRegressor(1.0).fit(broken_array(X, 10), y, np.arange(20) > 2)


def test_masked_blocks_are_refused_and_masks_of_nothing_dropped(rng):
    X, y = rng.normal(size=(20, 4, 3)), rng.normal(size=20)
    whole, chunks = X.max() + 1.0, da.from_array(X, chunks=(5, 4, 3))
    model = SLTRRegressor(1.0).fit(X, y)
    holes = da.ma.masked_greater(chunks, X.max() - 1e-9)
    hidden = chunks.map_blocks(
        lambda block: np.ma.masked_greater(block, X.max() - 1e-9),
        meta=np.empty((0, 0, 0)),
    )
    words = "1 entries of X are masked"
    with dask.config.set(scheduler="threads"):
        for array in (holes, hidden):
            for use in (lambda A: SLTRRegressor(1.0).fit(A, y), model.predict):
                with pytest.raises(OSError, match=words):
                    use(array)
        with pytest.raises(ValueError, match=words):
            TensorRidge().fit(holes, y)
        missing = da.ma.masked_less(da.from_array(y, chunks=5), np.sort(y)[2])
        with pytest.raises(ValueError, match=r"\d entries of y are masked"):
            SLTRRegressor(1.0).fit(X, missing)
        found = SLTRRegressor(1.0).fit(da.ma.masked_greater(chunks, whole), y)
    np.testing.assert_allclose(found.coef_, model.coef_, atol=1e-10)


@pytest.mark.parametrize("shape", [(6, 4, 3), (3, 4, 3), (5, 4, 2), (5, 12), (5,)])
def test_a_chunk_of_another_shape_is_named(rng, shape):
    X, y = rng.normal(size=(20, 4, 3)), rng.normal(size=20)
    good = da.from_array(X, chunks=(5, 4, 3))
    bad = da.from_delayed(dask.delayed(np.ones)(shape), (5, 4, 3), X.dtype)
    array = da.concatenate([good[:10], bad, good[15:]])
    model = SLTRRegressor(1.0).fit(X, y)
    words = r"samples 10:15 and .*shape .*, expected \(5, 4, 3\)"
    with dask.config.set(scheduler="threads"):
        for weight in (None, np.arange(20) != 14):  # all rows, or some of each chunk
            with pytest.raises(OSError, match=words):
                SLTRRegressor(1.0).fit(array, y, weight)
        with pytest.raises(OSError, match=words):
            model.predict(array)


def test_sizes_must_be_known(rng):
    X = da.from_array(rng.normal(size=(20, 3)), chunks=5)
    with pytest.raises(ValueError, match="known sizes"):
        SLTRRegressor(1.0).fit(X[X[:, 0] > 0], np.zeros(9))


@pytest.mark.parametrize("scheduler", EVERYWHERE)
def test_fits_are_those_in_memory(rng, scheduler):
    X, y = drawn(rng)
    weight = rng.uniform(0.5, 2.0, size=len(y))
    weight[[3, 4, 11]] = 0.0
    array = da.from_array(X, chunks=(9, 4, 5, 2))
    with dask.config.set(scheduler=scheduler):
        here = SLTRRegressor().fit(X, y, weight)
        there = SLTRRegressor().fit(array, da.from_array(y), weight)
        assert_close(there.coef_, here.coef_)
        assert_close(there.predict(array), here.predict(X))
        labels = np.where(y > np.median(y), "up", "down")
        here, there = (SLTRClassifier().fit(a, labels) for a in (X, array))
        assert_close(there.coef_, here.coef_)
        assert there.predict(array).tolist() == here.predict(X).tolist()


def test_tall_samples_are_reduced_on_the_cluster(rng):
    X = rng.normal(size=(90, 4, 3)) + 5.0
    y = X[:, 0, 0] + 0.1 * rng.normal(size=90)
    array = da.from_array(X, chunks=(20, 2, 3))
    with dask.config.set(scheduler="threads"):
        there = SLTRRegressorCV(refine=(None, "scale"), **SMALL_GRID).fit(array, y)
    here = SLTRRegressorCV(refine=(None, "scale"), **SMALL_GRID).fit(X, y)
    assert there.pilot_method_ == "primal"
    assert_close(there.coef_, here.coef_)


def drawn(rng):
    return draw(rng, corner((6, 5, 4), (2, 2, 2)), 45, noise=0.3, mean=2.0)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, watched by nannies that start them again."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "10s"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any free port
            silence_logs=50,
        ) as found,
    ):
        yield found


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as found:
        found.wait_for_workers(2, timeout=30)
        yield found


def slow_chunks(X, marks, seconds=0.25):
    """Return X as a Dask array whose chunks take their time and leave a mark."""

    def load(start, folder=str(marks)):
        time.sleep(seconds)
        with open(os.path.join(folder, f"{start}-{os.getpid()}"), "w"):  # noqa: PTH123,PTH118
            pass
        return X[start : start + 5]

    parts = [
        da.from_delayed(dask.delayed(load)(k), X[k : k + 5].shape, X.dtype)
        for k in range(0, len(X), 5)
    ]
    return da.concatenate(parts)


def kill_once(client, ready):
    """Kill the worker processes' first one as soon as `ready` says so."""
    killed = []

    def work():
        pids = client.run(os.getpid)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            pid = ready(set(pids.values()))
            if pid:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, killed


def marked_by(folder, pids):
    """Return the process that has loaded two chunks, if there is one."""
    found = [int(path.name.split("-")[1]) for path in folder.iterdir()]
    return next((pid for pid in found if pid in pids and found.count(pid) >= 2), None)


def test_workers_find_what_one_process_does(rng, client):
    X, y = drawn(rng)
    options = {**SMALL_GRID, "refine": (None, "scale"), "rule": "best"}
    here = SLTRRegressorCV(**options).fit(X, y)
    array = da.from_array(X, chunks=(10, 3, 5, 4))
    with joblib.parallel_config(backend="dask"):
        there = SLTRRegressorCV(n_jobs=2, **options).fit(array, y)
    assert_close(there.coef_, here.coef_)
    name = "mean_test_score"
    assert_close(there.cv_results_[name], here.cv_results_[name])
    assert_close(there.predict(array), here.predict(X))


ESTIMATORS = [SLTRRegressor(), SLTRRegressorCV(), SLTRClassifier(), SLTRClassifierCV()]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_every_default_finds_on_workers_what_it_finds_in_memory(
    rng, client, monkeypatch, model
):
    """The same where samples fit; close to it where they stay and are refitted."""
    X, y = drawn(rng)
    given = np.where(y > np.median(y), "up", "down") if is_classifier(model) else y
    array = da.from_array(X, chunks=(15, 6, 5, 4))
    here, told = clone(model).fit(X, given), []
    there = clone(model).set_params(memory_limit="1GB")
    there.set_params(progress=lambda *step: told.append(step)).fit(array, given)
    assert there.n_passes_ > 0
    # A pass that was made is told with the number of its chunks.
    assert [done for done, total in told if done == total == 3]
    outputs = [
        m.decision_function(X) if is_classifier(model) else m.predict(X)
        for m in (here, there)
    ]
    apart = np.sqrt(np.mean((outputs[0] - outputs[1]) ** 2))
    assert apart < 0.02 * np.std(outputs[0])
    monkeypatch.undo()  # what is small is loaded
    loaded = clone(model).fit(array, given)
    assert loaded.n_passes_ == 0
    np.testing.assert_allclose(loaded.coef_, here.coef_, rtol=0, atol=1e-6)


def test_folds_and_permutations_are_spread_over_workers(rng, client):
    X, y = drawn(rng)
    model = SLTRRegressorCV(refine=(None, "cp"), **SMALL_GRID)
    options = {"n": 5, "random_state": 0}
    alone, here = clone(model).fit(X, y), permutation_test(model, X, y, **options)
    with joblib.parallel_config(backend="dask"):
        both = clone(model).set_params(n_jobs=2).fit(X, y)
        there = permutation_test(model, X, y, n_jobs=2, **options)
    assert_close(both.coef_, alone.coef_)
    assert_close(there.null, here.null)


def test_a_chunk_lost_after_the_fit_began_is_named(rng, tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    X, y = drawn(rng)
    path = tmp_path / "X.zarr"
    target = zarr.create_array(
        str(path), shape=X.shape, chunks=(15, 6, 5, 4), dtype="f8"
    )
    target[...] = X
    gram = room.Chunked.gram

    def losing(self, **options):
        (path / "c" / "1" / "0" / "0" / "0").unlink()
        return gram(self, **options)

    monkeypatch.setattr(room.Chunked, "gram", losing)
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(OSError, match=r"chunk 'c/1/0/0/0', .* is missing"),
    ):
        SLTRRegressor(1.0).fit(da.from_zarr(str(path)), y)


def test_a_worker_killed_in_the_gram_pass_changes_nothing(rng, client, tmp_path):
    X, y = drawn(rng)
    here = SLTRRegressor(1.0, 0.3, 0.3).fit(X, y)
    thread, killed = kill_once(client, lambda pids: marked_by(tmp_path, pids))
    there = SLTRRegressor(1.0, 0.3, 0.3).fit(slow_chunks(X, tmp_path), y)
    thread.join()
    assert killed
    assert_close(there.coef_, here.coef_)
    assert_close(there.intercept_, here.intercept_)


def test_a_worker_killed_while_tuning_changes_nothing(
    rng, client, tmp_path, monkeypatch
):
    X, y = drawn(rng)
    # Spreads that are summed chunk by chunk differ by rounding, by which a solver may
    # end one iteration earlier.
    grid = {**SMALL_GRID, "standardize": None}
    here = SLTRRegressorCV(refine=(None, "scale"), **grid).fit(X, y)
    array = da.from_array(X, chunks=(10, 3, 5, 4))
    flag = tmp_path / "busy"
    monkeypatch.setattr("sltr.tuning.stored.solve_all_chunks", slow_solve(flag))

    def busy(pids):
        return next(
            (int(p.read_text()) for p in tmp_path.glob("busy*") if p.read_text()), None
        )

    thread, killed = kill_once(client, busy)
    with joblib.parallel_config(backend="dask"):
        model = SLTRRegressorCV(n_jobs=2, refine=(None, "scale"), **grid)
        there = model.fit(array, y)
    thread.join()
    assert killed
    assert_close(there.coef_, here.coef_)


def test_a_worker_killed_during_a_refit_changes_nothing(
    rng, client, tmp_path, monkeypatch, samples_stay
):
    monkeypatch.setattr(SLTRBase, "_policy", replace(DEFAULT, held_share=10**9))
    X, y = drawn(rng)
    array = da.from_array(X, chunks=(10, 3, 5, 4))
    model = SLTRRegressorCV(refine=("cp", "sparse"), memory_limit="1GB", **SMALL_GRID)
    undisturbed = clone(model).fit(array, y)
    name = "sltr.refine.stored_sweeps.moments_of_block"
    monkeypatch.setattr(name, slow_moments(tmp_path))

    def busy(pids):
        return next(
            (int(p.read_text()) for p in tmp_path.glob("busy*") if p.read_text()), None
        )

    thread, killed = kill_once(client, busy)
    there = clone(model).fit(array, y)
    thread.join()
    assert killed
    assert_close(there.coef_, undisturbed.coef_)
    here = clone(model).fit(X, y)
    apart = X.reshape(len(X), -1) @ (here.coef_ - there.coef_).ravel()
    assert np.std(apart) < 0.02 * y.std()


@pytest.fixture
def remote(tmp_path):
    """Yield a client, and the process of its scheduler, which has one worker."""
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]

    def started(name, *options):
        command = [sys.executable, "-m", f"distributed.cli.{name}", *common, *options]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    scheduler = started("dask_scheduler", "--port", "0")
    worker = started("dask_worker", "--nthreads", "1", "--no-nanny")
    timeouts = {"distributed.comm.timeouts.connect": "5s"}
    try:
        with (
            dask.config.set(timeouts),
            distributed.Client(scheduler_file=str(file), timeout="60s") as client,
        ):
            client.wait_for_workers(1, timeout=60)
            yield client, scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def test_a_lost_scheduler_is_named_and_nothing_is_computed_here(rng, remote):
    """Dask would go on in this process, whatever the size of the samples."""
    client, scheduler = remote
    address, told = client.scheduler.address, []

    def kill_after_a_few(done, total):
        told.append(done)
        if len(told) == 6:
            scheduler.kill()

    X, y = drawn(rng)
    array = da.from_array(X, chunks=(15, 6, 5, 4))
    model = SLTRRegressorCV(**SMALL_GRID, progress=kill_after_a_few)
    with pytest.raises(ConnectionError, match=f"scheduler at '{address}' was lost"):
        model.fit(array, y)
    assert len(told) >= 6
    assert not hasattr(model, "coef_")


def slow_moments(folder):
    from sltr.refine.stored_sweeps import moments_of_block

    def slow(*block):
        (folder / f"busy-{os.getpid()}").write_text(str(os.getpid()))
        time.sleep(0.05)
        return moments_of_block(*block)

    return slow


def slow_solve(flag):
    from sltr.tuning.stored import solve_all_chunks

    def slow(*job):
        flag.with_name(f"busy-{os.getpid()}").write_text(str(os.getpid()))
        time.sleep(0.5)
        return solve_all_chunks(*job)

    return slow


def test_scattered_coefficients_lost_with_their_worker_are_sent_again(
    rng, client, tmp_path, monkeypatch
):
    X, _ = drawn(rng)
    W = rng.normal(size=(300, 120))  # large enough to be scattered
    assert W.nbytes > 100_000
    pids = client.run(os.getpid)
    sent = []
    scatter = client.scatter

    def noted(value, **options):
        found = scatter(value, **options)
        sent.extend(found)
        return found

    monkeypatch.setattr(client, "scatter", noted)

    def holder(_):
        owners = client.who_has(sent[:1]).values() if sent else ()
        owner = next(iter(owners), ())
        return pids[owner[0]] if len(owner) == 1 else None

    thread, killed = kill_once(client, holder)
    array = slow_chunks(X, tmp_path)
    found = lazy_samples(array, X.shape[1:], Budget(10**6)).inner(W)
    thread.join()
    assert killed
    assert len(sent) == 2
    assert_close(found, X.reshape(45, -1) @ W.T, scale=100)
