"""Larger than memory: peak memory, rate of the Gram pass, Dask, and what to plan for.

``tune`` writes samples to zarr and tunes SLTR on them within a memory limit, in a
process of its own whose peak is measured; ``gram`` compares the rate of the Gram pass
with NumPy's matrix product; ``dask`` compares two worker processes with one;
``plan`` prints the cost model beside measurements, and extrapolates it.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from time import perf_counter

import numpy as np

from sltr.estimators.sltr_cv import SLTRRegressorCV
from sltr.ridge import cheapest_method
from sltr.samples.budget import Budget, memory_bytes
from sltr.samples.samples import lazy_samples

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


def write_samples(folder, n_samples, shape, kind="zarr", step=100):
    """Write samples block by block; return the path and the responses."""
    path = Path(folder) / f"X-{n_samples}-{'x'.join(map(str, shape))}.{kind}"
    if kind == "zarr":
        import zarr

        chunks = (step, max(1, 5000 // prod(shape[1:])), *shape[1:])
        target = zarr.create_array(
            str(path),
            shape=(n_samples, *shape),
            chunks=tuple(map(min, chunks, (n_samples, *shape))),
            dtype="float64",
            compressors=None,
        )
    else:
        target = np.lib.format.open_memmap(
            path, mode="w+", dtype="float64", shape=(n_samples, *shape)
        )
    flat = coefficient(shape).reshape(-1)
    y = np.empty(n_samples)
    for start in range(0, n_samples, step):
        stop = min(start + step, n_samples)
        block = rows_of(start, stop, shape)
        target[start:stop] = block
        y[start:stop] = block.reshape(stop - start, -1) @ flat
    noise = np.random.default_rng(SEED + 1).standard_normal(n_samples)
    return path, y + 0.5 * y.std() * noise


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


def run_alone(*arguments):
    """Run this script in a process of its own; return what it found."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def tuned(X, y, limit, n_folds, progress=None):
    """Tune with the default grid."""
    model = SLTRRegressorCV(cv=n_folds, memory_limit=limit, refine=(None, "scale"))
    return model.set_params(progress=progress).fit(X, y)


def child(options):
    """Tune on a file and print the peak of memory and the time."""
    y = np.load(options.responses)
    before = peak_gigabytes()
    began = perf_counter()
    model = tuned(opened(options.samples), y, options.limit, options.folds, _shown)
    seconds = perf_counter() - began
    found = {"before": before, "peak": peak_gigabytes(), "seconds": seconds}
    found |= {"score": model.best_score_, "method": model.pilot_method_}
    print(json.dumps(found))


def _shown(done, total):
    if done == total or done % max(1, total // 10) == 0:
        sys.stderr.write(f"\r  {done} of {total} ")
        sys.stderr.flush()


def tune(options):
    """Tune beyond memory; check a small copy against the fit in memory."""
    shape = SHAPE
    n_samples = int(options.gigabytes * 1e9 / 8 / prod(shape))
    print(f"{n_samples} samples of {shape}, {n_samples * prod(shape) * 8 / 1e9:.2f} GB")
    began = perf_counter()
    path, y = write_samples(options.folder, n_samples, shape)
    print(f"  written in {perf_counter() - began:.0f} s (zarr, uncompressed)")
    np.save(options.folder / "y.npy", y)
    found = run_alone(
        "child",
        "--samples",
        path,
        "--responses",
        options.folder / "y.npy",
        "--limit",
        options.limit,
        "--folds",
        options.folds,
    )
    print(
        f"\n  limit {options.limit}: tuned in {found['seconds']:.0f} s, peak "
        f"{found['peak']:.2f} GB of which {found['before']:.2f} GB before the fit; "
        f"R² {found['score']:.3f}, pilot: {found['method']}"
    )
    small = (20, 20, 20)
    path, y = write_samples(options.folder, 300, small)
    there = tuned(opened(path), y, "8MB", options.folds)
    here = tuned(np.asarray(opened(path)), y, None, options.folds)
    change = np.abs(there.coef_ - here.coef_).max() / np.abs(here.coef_).max()
    scores = [m.cv_results_["mean_test_score"] for m in (there, here)]
    worst = np.abs(scores[0] - scores[1]).max()
    print(
        f"  copy of 300 × {small}, limit 8 MB: largest difference to the fit in memory "
        f"{change:.1e} (coefficient), {worst:.1e} (scores)"
    )


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
        choices=["tune", "gram", "dask", "plan", "child"],
    )
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--limit", default="1GB")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--samples", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--responses", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    memory_bytes(options.limit)
    if options.part == "child":
        child(options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        options.folder = Path(folder)
        parts = {"tune": tune, "gram": gram_rates, "dask": dask_times, "plan": plan}
        parts[options.part](options)


if __name__ == "__main__":
    main()
