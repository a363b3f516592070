"""Larger than memory: peak memory, rate of the Gram pass, Dask, and what to plan for.

``tune`` writes samples to zarr and tunes SLTR on them within a memory limit, in a
process of its own whose peak is measured; ``gram`` compares the rate of the Gram pass
with NumPy's matrix product; ``dask`` compares two worker processes with one;
``plan`` prints the cost model beside measurements, and extrapolates it; ``draws``
compares refits out of core with those in memory on the tests' small problems.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from time import perf_counter

import numpy as np

from sltr.arrays.resources import memory_bytes
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.ridge import cheapest_method
from sltr.samples.mapped import lazy_samples
from sltr.samples.stored import Budget
from sltr.tuning.candidates import DEFAULT_REFINEMENTS
from sltr.tuning.policy import DEFAULT

SHAPE = (80, 80, 80)
SEED = 0


def rows_of(start, stop, shape):
    """Return samples start:stop, noise and a pattern; each block on its own."""
    rng = np.random.default_rng([SEED, start])
    samples = rng.standard_normal((stop - start, *shape))
    strength = 0.05 * rng.standard_normal(stop - start)
    samples += strength[(..., *[None] * len(shape))] * coefficient(shape)
    return samples


def coefficient(shape):
    """Return the coefficient behind the responses: a block."""
    coef = np.zeros(shape)
    coef[tuple(slice(0, max(1, size // 4)) for size in shape)] = 1.0
    return coef


def write_samples(folder, n_samples, shape, kind="zarr", step=100, n_test=0):
    """Write samples block by block; return the path and the responses.

    With `n_test` more of them, to be held out, have a path and responses of their own
    at the end.
    """
    name = f"{'x'.join(map(str, shape))}.{kind}"
    paths = [Path(folder) / f"X-{n_samples}-{name}", Path(folder) / f"test-{name}"]
    parts = [(0, n_samples), (n_samples, n_samples + n_test)]
    y = np.empty(n_samples + n_test)
    for path, (first, last) in zip(paths, parts, strict=True):
        if first < last:
            target = _created(path, (last - first, *shape), kind, step)
            for start in range(first, last, step):
                stop = min(start + step, last)
                block = rows_of(start, stop, shape)
                target[start - first : stop - first] = block
                y[start:stop] = _signal(block, shape)
    noise = np.random.default_rng(SEED + 1).standard_normal(len(y))
    y = y + 0.5 * y[:n_samples].std() * noise
    return (*paths[:1], y, *paths[1:]) if n_test else (paths[0], y)


def _signal(block, shape):
    return block.reshape(len(block), -1) @ coefficient(shape).reshape(-1)


def _created(path, shape, kind, step):
    if kind == "npy":
        return np.lib.format.open_memmap(path, mode="w+", dtype="float64", shape=shape)
    import zarr

    chunks = (step, max(1, 5000 // prod(shape[2:])), *shape[2:])
    return zarr.create_array(
        str(path),
        shape=shape,
        chunks=tuple(map(min, chunks, shape)),
        dtype="float64",
        compressors=None,
    )


def opened(path):
    """Open samples without reading them."""
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    import zarr

    return zarr.open_array(str(path), mode="r")


def peak_gigabytes():
    """Return the most memory this process has held, in GB.

    What `getrusage` tells includes the parent's before the program was started.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e9
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def run_alone(*arguments, script=__file__):
    """Run a script in a process of its own; return what it found."""
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def tuned(X, y, limit, n_folds, progress=None, refine=DEFAULT_REFINEMENTS):
    """Tune with the default grid, and by default all refits."""
    model = SLTRRegressorCV(cv=n_folds, memory_limit=limit, refine=refine)
    return model.set_params(progress=progress).fit(X, y)


def child(options):
    """Tune on a file; print the peak of memory, the time, and the held-out R²."""
    y, n_test = np.load(options.responses), options.tests
    X, X_test = opened(options.samples), opened(options.held_out)
    before = peak_gigabytes()
    shown = _Passes()
    began = perf_counter()
    limit = None if options.limit == "memory" else options.limit
    given = np.asarray(X[:]) if limit is None else X
    model = tuned(given, y[:-n_test], limit, options.folds, shown)
    seconds = perf_counter() - began
    score = model.score(X_test, y[-n_test:])
    found = {"before": before, "peak": peak_gigabytes(), "seconds": seconds}
    # Last, since it would leave memory with the threads that read.
    reading = _timed(lambda: read_once(X))
    found |= {"score": score, "cv": model.best_score_, "method": model.pilot_method_}
    found |= {"passes": model.n_passes_, "reading": reading, "seen": shown.passes}
    found["refine"] = model.refine_
    print(json.dumps(found))


def read_once(X, size=10**8):
    """Read all samples and do nothing with them: the floor of a pass."""
    step = max(1, int(size / X.dtype.itemsize / prod(X.shape[1:])))
    step = max(1, step // X.chunks[0]) * X.chunks[0]
    width = max(1, int(size / X.dtype.itemsize / prod(X.shape[2:]) / step))
    for start in range(0, X.shape[0], step):
        for first in range(0, X.shape[1], width):
            X[start : start + step, first : first + width]


class _Passes:
    """Counts the passes that progress tells of, and shows them."""

    def __init__(self):
        self.passes = 0

    def __call__(self, done, total):
        self.passes += done == 1
        if done == total or done % max(1, total // 10) == 0:
            sys.stderr.write(f"\r  pass {self.passes}: {done} of {total} ")
            sys.stderr.flush()


def tune(options):
    """Tune beyond memory; check a small copy against the fit in memory."""
    n_samples = int(options.gigabytes * 1e9 / 8 / prod(SHAPE))
    found = _tune_alone(options, n_samples, SHAPE, options.limit)
    print(_told(f"limit {options.limit}", found))
    for limit in ("50MB", "memory"):  # a smaller copy
        print(_told(f"limit {limit}", _tune_alone(options, 800, (30, 30, 30), limit)))


def _tune_alone(options, n_samples, shape, limit):
    """Write samples and held-out ones, tune in a process of its own, clean up."""
    size = n_samples * prod(shape) * 8 / 1e9
    n_test = 200
    began = perf_counter()
    path, y, tests = write_samples(options.folder, n_samples, shape, n_test=n_test)
    print(
        f"{n_samples} samples of {shape}, {size:.2f} GB of zarr, uncompressed; "
        f"written in {perf_counter() - began:.0f} s"
    )
    responses = options.folder / "y.npy"
    np.save(responses, y)
    given = {"samples": path, "held-out": tests, "responses": responses}
    given |= {"tests": n_test, "limit": limit, "folds": options.folds}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    found = run_alone("child", *words)
    _remove(path)
    _remove(tests)
    return found | {"size": size}


def _told(name, found):
    text = (
        f"\n  {name}: tuned in {found['seconds']:.0f} s, peak {found['peak']:.2f} GB "
        f"of which {found['before']:.2f} GB before the fit; held-out R² "
        f"{found['score']:.4f} (folds {found['cv']:.4f}), best: {found['refine']}, "
        f"pilot: {found['method']}"
    )
    if found["passes"]:
        floor = found["passes"] * found["reading"]
        text += (
            f"\n    {found['passes']:.1f} passes; one that only reads "
            f"{found['reading']:.1f} s ({found['size'] / found['reading']:.2f} GB/s): "
            f"{found['seconds'] / floor:.1f} × the floor of reading"
        )
    return text


def _timed(work):
    began = perf_counter()
    work()
    return perf_counter() - began


def _best(work, repeats=3):
    return min(_timed(work) for _ in range(repeats))


def gram_rates(options):
    """Compare the Gram pass with NumPy's products of data in memory."""
    print("The Gram pass, data in the page cache, against NumPy in memory (seconds)")
    print(
        "  n      P        source  limit    X·Yᵀ    X·Xᵀ   Gram pass   "
        "share of X·Yᵀ's rate, of X·Xᵀ's"
    )
    for n_samples, shape in ((1000, (40, 50, 50)), (2000, (20, 50, 50))):
        X, Y = np.random.default_rng(0).standard_normal((2, n_samples, 5000))
        scale = prod(shape) / 5000
        plain = scale * _best(lambda X=X, Y=Y: X @ Y.T)
        own = scale * _best(lambda X=X: X @ X.T)  # NumPy computes one half of it
        for kind in ("npy", "zarr"):
            path, _ = write_samples(options.folder, n_samples, shape, kind)
            source = opened(path)
            np.asarray(source[:])  # to the page cache
            lazy = lazy_samples(source, shape, Budget(memory_bytes(options.limit)))
            found = _best(lambda lazy=lazy: lazy.gram(centred=True))
            print(
                f"  {n_samples:<6} {prod(shape):<8} {kind:<7} {options.limit:<6} "
                f"{plain:7.2f} {own:7.2f} {found:9.2f}   "
                f"{plain / found:14.0%} {own / found:14.0%}"
            )
            _remove(path)


def _remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def dask_times(options):
    """Compare a cluster of two processes with one process; the answers must agree."""
    import dask
    import dask.array as da
    import joblib
    from distributed import Client, LocalCluster

    n_samples, shape = 1000, (20, 40, 50)
    path, y = write_samples(options.folder, n_samples, shape)
    began = perf_counter()
    alone = tuned(opened(path), y, options.limit, options.folds)
    print(f"{n_samples} × {shape}, tuned from zarr")
    print(f"  one process: {perf_counter() - began:.1f} s")
    # Workers hand freed memory back at once, which costs more than the estimates.
    environ = "distributed.nanny.pre-spawn-environ"
    keep = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
    with dask.config.set({f"{environ}.{name}": size for name, size in keep.items()}):
        cluster = LocalCluster(2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster), joblib.parallel_config(backend="dask"):
        X = da.from_zarr(str(path)).rechunk((500, 5, -1, -1))
        began = perf_counter()
        model = SLTRRegressorCV(cv=options.folds, refine=(None, "scale"), n_jobs=2)
        model.fit(X, y)
        seconds = perf_counter() - began
    change = np.abs(model.coef_ - alone.coef_).max() / np.abs(alone.coef_).max()
    print(f"  two workers: {seconds:.1f} s, largest relative difference {change:.1e}")


@dataclass(frozen=True)
class Work:
    """What a fit or a tuning costs: the model of the page on planning."""

    passes: float  # over X
    flops: float  # where the samples are
    local: float  # flops at the client
    read: float  # bytes of X
    moved: float  # bytes between the client and its workers
    held: float  # bytes at the client, beside blocks


def tuning_work(n, P, *, folds, penalties, pairs, limit, item=8, iterations=0):
    """Return the cost of tuning, without the estimates (which do not touch X)."""
    method = cheapest_method(n, P, itemsize=item, memory=limit)
    pilots = folds * penalties
    coefficients = pilots * pairs
    waiting = max(1.0, limit / 4 / (item * P))
    # Contiguous folds: each coefficient meets its own fold's samples only.
    predicting = max(1.0, coefficients / waiting / folds)
    short = min(n, P)
    held = item * (P * (min(coefficients, waiting) + pilots) + 8 * short**2)
    product, solves = 2.0 * n * P, pilots / 3 + 9.0
    predictions = product * coefficients / folds
    local = solves * short**3
    if method == "dual":
        passes, flops = 3 + predicting, n * n * P + product * (pilots + folds + 2)
    elif method == "primal":
        # The moments, the folds' own, and the leave-one-out errors.
        passes, flops = 3 + predicting, 2 * product * P + product * P
    else:
        local = 0.0
        passes = 2 + 4 * (iterations + 1) + predicting
        flops = product * (200 + 2 * (iterations + 1) * (pilots + 1))
        held = item * (P * (min(coefficients, waiting) + pilots) + 100 * (n + P))
    moved = item * (P * (pilots + coefficients) + n * coefficients / folds)
    moved += item * (short**2 if method != "cg" else 2 * iterations * (n + P) * pilots)
    flops += predictions
    return method, Work(passes, flops, local, passes * n * P * item, moved, held)


MACHINES, MACHINE_FLOPS, DISK, NETWORK = 100, 1e12, 1e9, 1e9


def _extrapolate():
    """Print what large problems cost, for machines as assumed above."""
    print(
        f"\nOn {MACHINES} machines of {MACHINE_FLOPS / 1e12:.0f} Tflop/s, "
        f"{DISK / 1e9:.0f} GB/s disks, a client with a {NETWORK / 1e9:.0f} GB/s link "
        "and a limit of 64 GB"
    )
    print("(float32, 5 folds × 3 penalties × 16 pairs, 100 iterations of CG):")
    print(
        "  n        P        X          pilot    passes   read      compute   "
        "client    move      client holds"
    )
    for n, P in ((10**4, 10**6), (10**6, 10**4), (10**5, 10**6), (10**6, 10**6)):
        grid = {"folds": 5, "penalties": 3, "pairs": 16}
        method, work = tuning_work(
            n, P, **grid, limit=64 * 10**9, item=4, iterations=100
        )
        compute = work.flops / MACHINES / MACHINE_FLOPS
        read = work.read / MACHINES / DISK
        print(
            f"  {n:<8.0e} {P:<8.0e} {4e-12 * n * P:6.2f} TB  {method:7s} "
            f"{work.passes:7.0f}  {_duration(read):>9s} {_duration(compute):>9s} "
            f"{_duration(work.local / MACHINE_FLOPS):>9s} "
            f"{_duration(work.moved / NETWORK):>9s} {work.held / 1e9:9.0f} GB"
        )


TERMS = {"one term": 1, "two terms": 2, "three terms": 3}
TRUTHS = (*TERMS, "Tucker", "block", "dense", "nothing", "sparse")
# Parts of the memory limit that leave the draws' samples so much room.
HOLDINGS = {"eight bits": 16, "four bits": 32, "not held": 10**9}
SHAKEN = "1 % off"


def small_truth(rng, kind, shape=(12, 10, 6)):
    """Return coefficients that different refits are good at."""
    coef = np.zeros(shape)
    if kind == "sparse":
        coef.flat[rng.choice(coef.size, 8, replace=False)] = rng.normal(size=8)
    elif kind == "dense":
        coef = rng.normal(size=shape)
    elif kind == "block":
        starts = [int(rng.integers(p // 2)) for p in shape]
        ends = [start + p // 3 for start, p in zip(starts, shape, strict=True)]
        coef[tuple(map(slice, starts, ends))] = 1.0
    elif kind == "Tucker":
        factors = [rng.normal(size=(p, 2)) for p in shape]
        coef = np.einsum("rst,ir,js,kt->ijk", rng.normal(size=(2, 2, 2)), *factors)
    for _ in range(TERMS.get(kind, 0)):
        factors = [rng.normal(size=p) * (rng.random(p) < 0.5) for p in shape]
        coef = coef + np.einsum("i,j,k->ijk", *factors)
    return coef


def draws(options):
    """Compare predictions of refits out of core with those of refits in memory.

    Of labels, those are the probabilities.
    """
    print(
        f"{options.draws} draws each: within 2 % of SD(y), farthest; R² (of labels: "
        "accuracy) less memory's"
    )
    for kind in options.truths:
        found = {name: [] for name in (*HOLDINGS, SHAKEN)}
        for seed in range(options.first, options.first + options.draws):
            rows = _draw(options, kind, seed)
            for name, row in rows.items():
                found[name].append(row)
            sys.stderr.write(f"{kind} {seed}: {rows}\n")
        for name, rows in found.items():
            apart, gain, passes = np.array(rows).T
            print(
                f"  {kind:12s} {name:10s} {(apart < 0.02).sum():3d}, {apart.max():.3f};"
                f" mean {gain.mean():+.4f}, lowest {gain.min():+.3f};"
                f" passes {passes.min():.0f} to {passes.max():.0f}",
                flush=True,
            )


def _draw(options, kind, seed):
    """Return the distance, the gain and the passes of each holding, of one draw."""
    rng = np.random.default_rng(seed)
    coef = small_truth(rng, kind)
    X = rng.normal(size=(460, *coef.shape)) + 3.0
    y = X.reshape(460, -1) @ coef.ravel()
    y = y + (0.3 * y.std() if y.std() > 0 else 1.0) * rng.normal(size=460)
    path = options.folder / f"{kind}-{seed}.npy"
    np.save(path, X[:160])
    make, unit = SLTRRegressorCV, y[:160].std()
    if options.labels:
        make, unit, y = SLTRClassifierCV, 0.5, (y > np.median(y[:160])).astype(int)

    def predicted(model):
        if options.labels:
            return model.predict_proba(X[160:])[:, 1]
        return model.predict(X[160:])

    here, found = make().fit(X[:160], y[:160]), {}
    expected, score = predicted(here), here.score(X[160:], y[160:])
    for name, share in HOLDINGS.items():
        # Four times the samples: only the share keeps them in their file.
        there = make(memory_limit="3.6MB")
        there._policy = replace(DEFAULT, held_share=share)
        there.fit(Sliced(np.load(path, mmap_mode="r")), y[:160])
        apart = np.sqrt(np.mean((predicted(there) - expected) ** 2)) / unit
        gain = there.score(X[160:], y[160:]) - score
        found[name] = float(apart), float(gain), there.n_passes_
    # How far memory's own predictions move if entries do, by a hundredth.
    near = X[:160] + 0.01 * rng.normal(size=X[:160].shape)
    there = make().fit(near, y[:160])
    apart = np.sqrt(np.mean((predicted(there) - expected) ** 2)) / unit
    gain = there.score(X[160:], y[160:]) - score
    found[SHAKEN] = float(apart), float(gain), there.n_passes_
    return found


class Sliced:
    """An array that is only sliced, as a file is."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, index):
        return self.array[index]


def _duration(seconds):
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def plan(options):
    """Check the model of a pass against measurements, then extrapolate."""
    n_samples, shape = 1500, (25, 40, 50)
    P = prod(shape)
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, n_samples, 5000))
    rate = 2.0 * n_samples**2 * 5000 / _best(lambda: X @ Y.T)
    path, _ = write_samples(options.folder, n_samples, shape)
    source = opened(path)
    size = source.nbytes
    lazy = lazy_samples(source, shape, Budget(500 * 10**6))
    bandwidth = size / _best(lambda: lazy.combine(np.ones((1, n_samples))))
    print(
        f"Here: {rate / 1e9:.0f} Gflop/s for products, {bandwidth / 1e9:.2f} GB/s for"
    )
    print("reading and checking blocks from the page cache. Seconds for one pass over")
    print(f"{n_samples} × {P} ({size / 1e9:.1f} GB), by the model and measured:")
    C, W = rng.standard_normal((20, n_samples)), rng.standard_normal((200, P))
    cases = {
        "Gram matrix": (lazy.gram, n_samples**2 * P),
        "20 combinations C·X": (lambda: lazy.combine(C), 2 * 20 * n_samples * P),
        "200 predictions X·Wᵀ": (lambda: lazy.inner(W), 2 * 200 * n_samples * P),
    }
    for name, (work, flops) in cases.items():
        expected = flops / rate + size / bandwidth
        print(f"  {name:24s} model {expected:6.2f}  measured {_best(work, 2):6.2f}")
    _extrapolate()


def main():
    """Run one of the parts; all but `plan` write below --folder and clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part",
        nargs="?",
        default="gram",
        choices=["tune", "gram", "dask", "plan", "draws", "child"],
    )
    parser.add_argument("--draws", type=int, default=7)
    parser.add_argument("--first", type=int, default=0, help="the first draw's seed")
    parser.add_argument("--truths", nargs="+", default=TRUTHS, choices=TRUTHS)
    parser.add_argument("--labels", action="store_true", help="two, instead of numbers")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--limit", default="1GB")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--samples", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--held-out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tests", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--responses", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.limit != "memory":
        memory_bytes(options.limit)
    if options.part == "child":
        child(options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        options.folder = Path(folder)
        parts = {"tune": tune, "gram": gram_rates, "dask": dask_times, "plan": plan}
        parts["draws"] = draws
        parts[options.part](options)


if __name__ == "__main__":
    main()
