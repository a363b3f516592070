"""Tune whole grids on a GPU: times, floors, and agreement with the CPU.

    python benchmarks/gpu.py [--device cuda] [--cpu] [--only NAME] [--profile NAME]
    python benchmarks/gpu.py --refits [--device cuda]

Each row tunes the paper's grid (or one of its size) with the pilot included.
`--cpu` also times the same code on this machine's CPU, `--device none` nothing
else. The two floors are the least bytes moved over bandwidth and the operations
over the matrix rate, both rates measured in this run. `--refits` times the default
tuning with all refits instead, of numbers and of labels, with PyTorch, CuPy if it is
there, and on the CPU, beside the targets.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV


@dataclass(frozen=True)
class Row:
    """One benchmark problem."""

    name: str
    shape: tuple[int, ...]
    n_samples: int
    n_candidates: int
    folds: int
    target: float
    dtype: str = "float64"


ROWS = (
    Row("paper-4d", (30, 30, 10, 5), 3600, 147, 1, 0.3),
    Row("paper-40", (40, 40, 5), 640, 147, 1, 0.3),
    Row("video", (15, 32, 24), 230, 80, 1, 0.1),
    Row("cube", (64, 64, 64), 1000, 147, 1, 2.0, "float32"),
    Row("fmri", (51, 61, 23), 360, 147, 5, 5.0),
)


# The default tuning with all refits; targets are those of numbers.
REFITS = (
    Row("16x16x8", (16, 16, 8), 164, 0, 5, 0.15, "float32"),
    Row("30x30x5", (30, 30, 5), 360, 0, 5, 0.15, "float32"),
    Row("51x61x23", (51, 61, 23), 360, 0, 5, 0.5, "float32"),
    Row("64x64x32", (64, 64, 32), 360, 0, 5, 0.6, "float32"),
    Row("96x96x64", (96, 96, 64), 360, 0, 5, 2.0, "float32"),
)
# A CPU takes minutes beyond this many entries.
LARGEST_ON_CPU = 200_000


def problem(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Simulate a block of ones seen through noise."""
    rng = np.random.default_rng(0)
    coef = np.zeros(row.shape)
    coef[tuple(slice(p // 4, p // 2 + 1) for p in row.shape)] = 1.0
    X = rng.standard_normal((row.n_samples, *row.shape), dtype=np.float32)
    y = X.reshape(len(X), -1) @ coef.ravel().astype(np.float32)
    y = y + 0.1 * y.std() * rng.standard_normal(len(y), dtype=np.float32)
    return X.astype(row.dtype), y.astype(row.dtype)


def grid(row: Row) -> dict:
    """Return the grid's parameters: seven radii by three penalties, or its like."""
    if row.n_candidates == 80:
        return {
            "epsilons": [0.1, 0.2, 0.3, 0.5, 1.0],
            "lambdas_sparse": [0.005, 0.05, 0.5, 1.0],
            "lambdas_low": [0.005, 0.05, 0.5, 1.0],
        }
    return {"epsilons": "paper", "lambdas_sparse": "paper", "lambdas_low": "paper"}


def tune(X, y, row: Row, split) -> SLTRRegressorCV:
    """Tune one row; a single split when the paper's time has no folds."""
    model = SLTRRegressorCV(
        **grid(row), radius="absolute", refine=(None,), cv=split, rule="best"
    )
    return model.fit(X, y)


def folds(row: Row) -> list:
    """Return the row's folds; one fold trains on all but ten samples."""
    rows = np.arange(row.n_samples)
    if row.folds == 1:
        return [(rows[10:], rows[:10])]
    parts = np.array_split(rows, row.folds)
    return [(np.setdiff1d(rows, part), part) for part in parts]


def timed(work, repeats: int, wait) -> float:
    """Return the least time of several runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - begin)
    return min(times)


def ceilings(torch, device) -> tuple[float, float, float]:
    """Measure bandwidth (bytes/s) and float64 and float32 matrix rates (flop/s)."""
    wait = torch.cuda.synchronize
    x = torch.empty(2**28, device=device)
    copy = timed(lambda: x.clone(), 5, wait)
    rates = []
    for dtype in (torch.float64, torch.float32):
        a = torch.randn(8192, 8192, device=device, dtype=dtype)
        rates.append(2 * 8192**3 / timed(lambda a=a: a @ a, 3, wait))
    return 2 * x.numel() * 4 / copy, *rates


def floors(row: Row, n_iter: int, speed: tuple[float, float, float]) -> tuple:
    """Return the least seconds by bytes moved and by operations.

    Bytes: the samples read for the Gram matrix, the pilots and the predictions,
    and each solved candidate's tensor once for each mode. Operations: the Gram
    matrix, the factorisations, and two products for each of `n_iter` iterations.
    """
    n, size = row.n_samples, int(np.prod(row.shape))
    item = np.dtype(row.dtype).itemsize
    moved = item * size * (3 * n + len(row.shape) * row.n_candidates * row.folds)
    work = n * n * size + 3 * row.folds * n**3 / 3
    work += n_iter * 4 * size * max(row.shape)
    return moved / speed[0], work / speed[1 if row.dtype == "float64" else 2]


def main() -> None:
    """Print one line for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", nargs="*", default=[row.name for row in ROWS])
    parser.add_argument("--profile")
    parser.add_argument("--refits", action="store_true")
    options = parser.parse_args()
    if options.refits:
        time_refits(options.device)
        return
    rows = [row for row in ROWS if row.name in options.only]
    speed = None
    if options.device != "none":
        speed = measured_speed(options.device)
    for row in rows:
        X, y = problem(row)
        line = (
            f"{row.name:9s} {'x'.join(map(str, row.shape)):12s} n={row.n_samples} "
            f"{row.folds}x{row.n_candidates} {row.dtype}:"
        )
        coef = scores = None
        if speed is not None:
            seconds, model = on_device(X, y, row, options.device, options.profile)
            coef, scores = model.coef_.cpu().numpy(), model.cv_results_
            moved, computed = floors(row, row.n_candidates * 10, speed)
            line += (
                f" {seconds:.3f} s (target {row.target} s; floors: "
                f"bytes {moved:.4f}, flops {computed:.4f});"
            )
        if options.cpu or speed is None:
            begin = time.perf_counter()
            host = tune(X, y, row, folds(row))
            line += f" CPU {time.perf_counter() - begin:.2f} s"
            line += "" if coef is None else difference(host, coef, scores)
        print(line, flush=True)


def time_refits(device: str) -> None:
    """Print seconds of the default tuning by each library, and how far coefs differ.

    "Apart" is the largest difference from the first library, relative to the largest
    entry.
    """
    libraries = {"CPU": (lambda array: array, lambda: None, lambda array: array)}
    if device != "none":
        import torch

        libraries["PyTorch"] = (
            lambda array: torch.asarray(array, device=device),
            torch.cuda.synchronize,
            lambda array: array.cpu().numpy(),
        )
        if importlib.util.find_spec("cupy") is not None:
            import cupy

            wait = cupy.cuda.Device().synchronize
            libraries["CuPy"] = (cupy.asarray, wait, cupy.asnumpy)
    for row in REFITS:
        X, y = problem(row)
        for labels in (False, True):
            kind = "labels" if labels else "numbers"
            line, host = f"{row.name:9s} n = {row.n_samples} {kind}:", None
            for name, (move, wait, fetch) in libraries.items():
                if name == "CPU" and X[0].size > LARGEST_ON_CPU:
                    continue
                # Labels are always on the host.
                own = move(X), (y > 0) if labels else move(y)
                model = SLTRClassifierCV() if labels else SLTRRegressorCV()
                n_runs = 1 if name == "CPU" else 3
                fit = partial(model.fit, *own)
                seconds = timed(fit, n_runs, wait)
                coef = fetch(model.coef_)
                host = coef if host is None else host
                apart = np.abs(coef - host).max() / (np.abs(host).max() or 1.0)
                line += f" {name} {seconds:.2f} s (apart {apart:.0e});"
            print(f"{line} target {row.target:g} s", flush=True)


def measured_speed(device: str) -> tuple[float, float, float]:
    """Measure and print the ceilings of a CUDA device; guess those of a CPU."""
    import torch

    speed = (1e10, 5e10, 1e11)
    if torch.device(device).type == "cuda":
        speed = ceilings(torch, torch.device(device))
    rates = (
        f"{speed[0] / 1e12:.2f} TB/s, {speed[1] / 1e12:.1f} and {speed[2] / 1e12:.1f}"
    )
    print(f"device {device}: {rates} Tflop/s (float64, float32)")
    return speed


def on_device(X, y, row: Row, device: str, profiled: str | None) -> tuple:
    """Return the least time of five runs on the device, and the tuned model."""
    import torch

    is_cuda = torch.device(device).type == "cuda"
    wait = torch.cuda.synchronize if is_cuda else lambda: None
    split = folds(row)
    samples = torch.as_tensor(X).to(device), torch.as_tensor(y).to(device)
    found = []

    def work():
        found.append(tune(*samples, row, split))

    seconds = timed(work, 5, wait)
    if profiled == row.name:
        with torch.profiler.profile() as profile:
            work()
            wait()
        print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=25))
    return seconds, found[-1]


def difference(host: SLTRRegressorCV, coef: np.ndarray, results: dict) -> str:
    """Say how far coefficients and scores of the device are from the host's."""
    apart = np.abs(host.coef_ - coef).max() / (np.abs(host.coef_).max() or 1.0)
    scores = host.cv_results_["mean_test_score"]
    gap = np.abs(scores - results["mean_test_score"])
    gap = (gap / np.maximum(1.0, np.abs(scores))).max()
    return f", coefficients apart by {apart:.1e}, scores by {gap:.1e}"


if __name__ == "__main__":
    main()
