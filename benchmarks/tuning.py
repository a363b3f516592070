"""Tuning SLTR: the whole grid in one go, against what it replaces.

    python benchmarks/tuning.py                  # every part but the large ones
    python benchmarks/tuning.py loop growth      # some parts alone
    python benchmarks/tuning.py remurs --large   # 30×30×10×5, n = 3600, too
    python benchmarks/tuning.py long             # one long mode
    python benchmarks/tuning.py fmri             # 360 × 51×61×23, in a process

loop    the paper's grid (147 candidates) against single cold fits of each
remurs  the same against a warm-started path of Remurs with 49 candidates
growth  the same at ten times as many features and equally many samples
long    the default beside one mode that is longer than all others together
fmri    five folds × 147 candidates at the size of an fMRI study: time and memory

Wall-clock and CPU seconds are printed; ratios are of CPU seconds, which other
work on the machine disturbs least. Data are the paper's own simulation.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
from functools import partial
from time import perf_counter, process_time

import numpy as np
from threadpoolctl import threadpool_limits

from sltr.datasets import make_tensor_regression
from sltr.estimators.path import sltr_path
from sltr.estimators.sltr import SLTRRegressor
from sltr.estimators.sltr_cv import SLTRRegressorCV
from sltr.peers.convex import Weights, convex_fits, weight_grids
from sltr.peers.penalised import mode_norms
from sltr.samples.samples import Samples
from sltr.tuning.candidates import PAPER_EPSILONS, PAPER_LAMBDAS

SMALL, LARGE, FMRI = (30, 30, 5), (30, 30, 10, 5), (51, 61, 23)
N_SAMPLES, N_LARGE = 360, 3600
TOL = 1e-4
PAPER = {
    "epsilons": "paper",
    "lambdas_sparse": "paper",
    "lambdas_low": "paper",
    "radius": "absolute",
}
# 147 candidates that act at any scale of the data.
FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
RELATIVE = {"lambdas_sparse": FRACTIONS, "lambdas_low": FRACTIONS}
GRIDS = {"paper's grid": PAPER, "fractions": RELATIVE}


def timed(work, repeats=1):
    """Return the least wall-clock and CPU seconds of some calls, and the answer."""
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = perf_counter(), process_time()
        answer = work()
        walls.append(perf_counter() - wall)
        cpus.append(process_time() - cpu)
    return min(walls), min(cpus), answer


def simulated(shape, n_samples):
    """Return the paper's simulated samples and responses."""
    data = make_tensor_regression(shape, n_samples, truth="paper", random_state=0)
    return data.X, data.y


def line(name, wall, cpu, remark=""):
    """Print one row of the table."""
    print(f"  {name:34s} {wall:8.2f} s {cpu:8.2f} s CPU  {remark}")


def loop(args):
    """Compare the grid with a loop of cold fits; check that answers agree."""
    X, y = simulated(SMALL, N_SAMPLES)
    print("paper's grid, 147 candidates, 30×30×5, n = 360")
    whole = timed(partial(sltr_path, X, y, tol=TOL, **PAPER), 3)
    path = whole[2]
    line("sltr_path", *whole[:2])
    grid = list(itertools.product(PAPER_EPSILONS, PAPER_LAMBDAS, PAPER_LAMBDAS))

    def cold():
        settings = {"radius": "absolute", "tol": TOL}
        return [SLTRRegressor(*triple, **settings).fit(X, y) for triple in grid]

    wall, cpu, models = timed(cold)
    line("loop of cold fits", wall, cpu, f"{cpu / whole[1]:.0f}×, target ≥ 20×")
    size = np.linalg.norm(path.coef.reshape(len(grid), -1), axis=1)
    apart = [
        np.linalg.norm(model.coef_ - coef)
        for model, coef in zip(models, path.coef, strict=True)
    ]
    apart = np.array(apart) / np.where(size > 0, size, 1.0)
    gaps = max(path.gap.max(), max(model.dual_gap_ for model in models))
    print(
        f"  coefficients apart by at most {apart.max():.1e} of their norm (median "
        f"{np.median(apart):.1e}); every gap ≤ {gaps:.1e}"
    )


def remurs(args):
    """Compare the grid of 147 with a path of Remurs over 49 candidates."""
    sizes = [(SMALL, N_SAMPLES, "30")]
    if args.large:
        sizes.append((LARGE, N_LARGE, "146"))
    for shape, n_samples, paper in sizes:
        X, y = simulated(shape, n_samples)
        name = "×".join(map(str, shape))
        print(f"SLTR, 147 candidates, against Remurs, 49; {name}, n = {n_samples}")
        for title, grid in GRIDS.items():
            ours = timed(partial(sltr_path, X, y, tol=TOL, **grid), 3)
            line(f"SLTR, {title}", *ours[:2])
            if title == "paper's grid":
                reference = ours[1]
        samples = Samples(X, y, np.ones(n_samples))
        norms = mode_norms(len(shape))

        def path(samples=samples, norms=norms):
            low, sparse = weight_grids(samples, samples.y[None], norms, True, 7)
            return convex_fits(
                samples,
                samples.y[None],
                norms,
                Weights.checked(low, sparse, 0.0),
                fit_intercept=True,
                tol=TOL,
                max_iter=1000,
            )

        wall, cpu, fits = timed(path)
        remark = f"{cpu / reference:.0f}×, the paper: {paper}×"
        line("Remurs, warm-started path", wall, cpu, remark)
        print(f"  Remurs: largest gap {float(np.max(fits.gap)):.1e} of ½‖y‖²")


def growth(args):
    """Compare ten times as many features with the same number of samples."""
    print("growth from 30×30×5 to 30×30×10×5, n = 360, 147 candidates")
    for title, grid in GRIDS.items():
        before = None
        for shape in (SMALL, LARGE):
            X, y = simulated(shape, N_SAMPLES)
            wall, cpu, path = timed(partial(sltr_path, X, y, tol=TOL, **grid), 3)
            remark = f"{int(path.n_iter.sum())} iterations"
            if before is not None:
                remark += f"; {cpu / before:.1f}×, target ≤ 10×"
            before = cpu
            line(f"{title}, {'×'.join(map(str, shape))}", wall, cpu, remark)


LONG = [(40, 2, 1000), (40, 2, 5000), (25, 3, 20000), (200, 20, 2000)]


def long(args):
    """Time the default tuning of samples with a long mode, as spectra have."""
    print("default tuning of samples with a long mode")
    rng = np.random.default_rng(0)
    for shape in LONG:
        X = rng.standard_normal(shape)
        block = X[:, :1, : shape[2] // 3].sum(axis=(1, 2))
        y = block / block.std() + 0.3 * rng.standard_normal(len(X))
        wall, cpu, _ = timed(partial(SLTRRegressorCV().fit, X, y))
        line("×".join(map(str, shape)), wall, cpu)


def fmri(args):
    """Run the large problem in a process of its own, for its peak memory."""
    for title in GRIDS:
        command = [sys.executable, __file__, "fmri-worker", "--grid", title]
        command += ["--threads", str(args.threads)]
        subprocess.run(command, check=True)


def fmri_worker(args):
    """Tune on 360 × 51×61×23 by five folds and print time and peak memory."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_SAMPLES, *FMRI))
    block = X[:, 10:20, 10:25, 5:12].sum(axis=(1, 2, 3))
    y = block / block.std() + 0.3 * rng.standard_normal(N_SAMPLES)
    grid = GRIDS[args.grid]
    model = SLTRRegressorCV(refine=None, rule="best", **grid)
    wall, cpu, model = timed(partial(model.fit, X, y))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    allowed = 3 * X.nbytes / 1e9 + 1.0
    print(f"5 folds × 147 candidates, 360 × 51×61×23, {args.grid}")
    line("SLTRRegressorCV", wall, cpu, "target < 180 s")
    print(f"  peak memory {peak:.2f} GB, allowed 3·X + 1 GB = {allowed:.2f} GB")


PARTS = {"loop": loop, "remurs": remurs, "growth": growth, "long": long, "fmri": fmri}


def main():
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--large", action="store_true", help="30×30×10×5, n = 3600")
    parser.add_argument("--threads", type=int, default=2, help="of BLAS")
    parser.add_argument("--grid", choices=list(GRIDS), default="paper's grid")
    args = parser.parse_args()
    unknown = set(args.parts) - {*PARTS, "fmri-worker"}
    if unknown:
        parser.error(f"{sorted(unknown)} were given; parts are {', '.join(PARTS)}")
    with threadpool_limits(args.threads):
        if args.parts == ["fmri-worker"]:
            fmri_worker(args)
            return
        for part in args.parts or ("loop", "remurs", "growth"):
            PARTS[part](args)
            print()


if __name__ == "__main__":
    main()
