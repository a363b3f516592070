"""How time and memory of the default tuning grow with n and P, against two floors.

One floor is a pass that only reads X, the other the product X·Xᵀ; both are measured in
the process that tunes. Each row is a process of its own, whose peak is measured:
samples in memory; in a zarr file, within a limit of twice its size, so that refits hold
them in single precision ("file"), and within nine tenths of it, so that refits read
them again ("passes"); and on a cluster of two worker processes, within twice the size.
With ``--device cuda`` the samples are PyTorch's on that device, and the peak is the
device's; their floors are the copy to the device and the product there. Rows that need
a package which is not there, or more memory, are left out, and the reason is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib.util import find_spec
from math import prod
from pathlib import Path
from time import perf_counter

import numpy as np
from out_of_core import opened, peak_gigabytes, read_once, run_alone, write_samples

from sltr.estimators.sltr_cv import SLTRRegressorCV

# n grows, then P; on a device that has memory for them, both go further.
SIZES = [(200, 16), (400, 16), (800, 16), (200, 24), (200, 32)]
DEVICE_SIZES = [(200, 16), (800, 16), (3200, 16), (200, 32), (200, 64), (800, 64)]
WAYS = ("memory", "file", "passes", "cluster")
NEEDED = {"file": "zarr", "passes": "zarr", "cluster": "distributed"}
# What a factorised pilot of n samples takes, in n² numbers of eight bytes.
PILOT_MATRICES = 8


def main():
    """Print the table, or the row of one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cuda for rows of a GPU")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--samples", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.samples is not None:
        print(json.dumps(one_row(options)))
        return
    on_device = options.device != "cpu"
    kind = "zarr" if find_spec("zarr") else "npy"
    print("| n | P | X | X is | read X | X·Xᵀ | tuned | passes | floors | peak |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for n_samples, side in DEVICE_SIZES if on_device else SIZES:
        shape = (side,) * 3
        with tempfile.TemporaryDirectory() as folder:
            path, y = write_samples(folder, n_samples, shape, kind)
            np.save(path.with_name("y.npy"), y)
            for way in ["memory"] if on_device else options.ways:
                missing = _missing(way, n_samples, prod(shape))
                if missing:
                    print(f"{n_samples} × {prod(shape)}, {way}: {missing}", flush=True)
                    continue
                given = ["--samples", path, "--way", way, "--device", options.device]
                found = run_alone(*given, script=__file__)
                told = options.device if on_device else way
                print(_line(n_samples, prod(shape), told, found), flush=True)


def _missing(way, n, P):
    """Say why a row cannot be made, if it cannot."""
    package = NEEDED.get(way)
    if package and not find_spec(package):
        return f"left out, {package} is not installed"
    if way == "passes" and 8 * PILOT_MATRICES * n**2 > _limit(way, 8 * n * P):
        return "left out, the limit does not hold the pilot's factorisation"
    return None


def _limit(way, n_bytes):
    return int(0.9 * n_bytes) if way == "passes" else 2 * n_bytes


def _line(n, P, way, found):
    floors = max(1.0, found["passes"]) * found["reading"] + found["product"]
    passes = f"{found['passes']:.0f}" if found["passes"] else "–"
    return (
        f"| {n} | {P} | {8e-6 * n * P:.0f} MB | {way} | {found['reading']:.3f} s | "
        f"{found['product']:.3f} s | {found['seconds']:.1f} s | {passes} | "
        f"{found['seconds'] / floors:.0f} × | {found['peak']:.2f} GB |"
    )


def one_row(options):
    """Tune once; return seconds, floors, passes and the peak of memory."""
    y = np.load(options.samples.with_name("y.npy"))
    X = opened(options.samples)
    if options.device != "cpu":
        return _on_device(np.asarray(X[:]), y, options.device)
    whole = hasattr(X, "chunks")  # a memmap has none

    def read():
        read_once(X) if whole else np.array(X)

    found = {"reading": min(_seconds(read) for _ in range(3))}
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((len(y), min(4096, prod(X.shape[1:]))))
    scale = prod(X.shape[1:]) / flat.shape[1]
    found["product"] = scale * min(_seconds(lambda: flat @ flat.T) for _ in range(3))
    # Samples that fit four times would be loaded.
    limit = _limit(options.way, X.nbytes)
    if options.way == "memory":
        found |= _tuned(np.array(X[:]), y, None)
    elif options.way == "cluster":
        found |= _on_cluster(options.samples, y, limit)
    else:
        found |= _tuned(X, y, limit)
    return found | {"peak": peak_gigabytes()}


def _tuned(X, y, limit):
    began = perf_counter()
    model = SLTRRegressorCV(memory_limit=limit).fit(X, y)
    return {"seconds": perf_counter() - began, "passes": model.n_passes_}


def _on_cluster(path, y, limit):
    import dask.array as da
    from distributed import Client, LocalCluster

    cluster = LocalCluster(2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster):
        X = da.from_zarr(str(path))
        # A few chunks for each worker: many small ones only wait for the scheduler.
        return _tuned(X.rechunk((100, -1, -1, -1)), y, limit)


def _on_device(X, y, device):
    import torch

    began = perf_counter()
    there = torch.as_tensor(X, device=device)
    torch.cuda.synchronize()
    found = {"reading": perf_counter() - began}
    y = torch.as_tensor(y, device=device)
    flat = there.reshape(len(y), -1)

    def product():
        flat @ flat.T
        torch.cuda.synchronize()

    product()
    found["product"] = min(_seconds(product) for _ in range(3))
    _tuned(there, y, None)  # kernels are compiled once
    torch.cuda.reset_peak_memory_stats()
    found |= _tuned(there, y, None)
    return found | {"peak": torch.cuda.max_memory_allocated() / 1e9}


def _seconds(work):
    began = perf_counter()
    work()
    return perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
