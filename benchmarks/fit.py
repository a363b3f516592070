"""One fit: speed against the paper's algorithm, peak memory, what threads give.

Run by ``make bench``. The paper's algorithm is transcribed as directly as it
converges: four terms with equal weights, γ = 1, LAPACK SVDs, the two operators
corrected. Both sides stop at the same certified relative duality gap.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from sltr.core.estimate import estimate
from sltr.core.problem import Problem
from sltr.core.tensor import fold, unfold
from sltr.estimators.sltr import SLTRRegressor
from sltr.ridge import ridge_system

GAP = 1e-4
SHAPE, N_SAMPLES = (30, 30, 5), 360
FMRI_SHAPE = (51, 61, 23)


def simulated(shape, n_samples, seed=0):
    """Return samples and responses of a sparse, rank-two coefficient."""
    rng = np.random.default_rng(seed)
    coef = np.zeros(shape)
    for _ in range(2):
        part = np.ones(())
        for size in shape:
            factor = rng.normal(size=size) * (rng.random(size) < 0.4)
            part = np.multiply.outer(part, factor)
        coef += part
    X = rng.normal(size=(n_samples, *shape))
    y = X.reshape(n_samples, -1) @ coef.reshape(-1)
    return X, y + 0.1 * y.std() * rng.normal(size=n_samples)


def timed(work, repeats=3):
    """Return the median time of a few calls and the last answer."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        answer = work()
        times.append(perf_counter() - start)
    return median(times), answer


def transcription(pilot, a, b, *, check_every, max_iter, budget):
    """Solve every mode by the paper's algorithm; stop at the certified gap.

    Returns the coefficient, the largest gap and the iterations of each mode. Time
    for looking at the gap is kept small by looking rarely; `budget` bounds the
    seconds spent on one mode.
    """
    folded, gaps, counts = [], [], []
    for mode in range(pilot.ndim):
        Z = np.ascontiguousarray(unfold(pilot[None], mode)[0])
        problem = Problem(
            Z[None],
            np.array([min(a, b)]),
            np.array([[b]]),
            np.ones(1),
            np.ones((1, 1)),
            (0,),
        )
        W, copies = Z, [Z] * 4
        begun = perf_counter()
        for n_iter in range(1, max_iter + 1):
            points = _proximal_points(copies, Z, a, b)
            if n_iter % check_every == 0 or n_iter == max_iter:
                # Inside the box, as the certificate asks.
                x = Z + np.clip(points[0] - Z, -a, a)
                duals = [(copies[i] - points[i])[None] / 4.0 for i in (1, 3)]
                gap, excess = problem.certificate(x[None], [duals[0]], [duals[1]])
                late = perf_counter() - begun > budget
                if (gap[0] <= GAP and excess[0] <= GAP) or late:
                    break
            mean = sum(points) / 4.0
            copies = [
                Y + 2.0 * mean - W - p for Y, p in zip(copies, points, strict=True)
            ]
            W = mean
        folded.append(fold(x[None], mode, pilot.shape)[0])
        gaps.append(float(gap[0]))
        counts.append(n_iter)
    return np.mean(folded, axis=0), max(gaps), counts


def _proximal_points(copies, Z, a, b):
    """Return the four proximal points, γ = 1 and ω = 1/4: thresholds of four."""
    entries, nuclear, box, ball = copies
    left, values, right = np.linalg.svd(nuclear, full_matrices=False)
    low_rank = (left * np.maximum(values - 4.0, 0.0)) @ right
    left, values, right = np.linalg.svd(ball - Z, full_matrices=False)
    return [
        np.sign(entries) * np.maximum(np.abs(entries) - 4.0, 0.0),
        low_rank,
        Z + np.clip(box - Z, -a, a),
        Z + (left * np.minimum(values, b)) @ right,
    ]


def speed():
    """Compare one whole fit, pilot included, at the same certified gap."""
    X, y = simulated(SHAPE, N_SAMPLES)
    epsilon = 0.1
    flat = X.reshape(N_SAMPLES, -1)

    def pilot():
        ones, everyone = np.ones(N_SAMPLES), np.ones((1, N_SAMPLES), bool)
        system = ridge_system(flat, y[:, None], ones, fit_intercept=True)
        return system.coefs_and_means(everyone, np.array([epsilon]))[0].reshape(SHAPE)

    pilot_time, Z = timed(pilot)
    largest = float(np.abs(Z).max())
    print(f"One fit of {SHAPE}, n = {N_SAMPLES}, gap {GAP:g} (one BLAS thread)")
    print(f"  pilot: {1e3 * pilot_time:.1f} ms; largest entry {largest:.3f}")
    print("  radii (λ_sparse, λ_low)   default        paper's algorithm        ratio")
    for sparse, low in ((0.05, 0.5), (0.1, 0.3), (0.02, 1.0)):
        model = SLTRRegressor(epsilon, sparse, low, radius="absolute", tol=GAP)
        ours, fitted = timed(lambda model=model: model.fit(X, y))
        start = perf_counter()
        _, gap, counts = transcription(
            Z, sparse, low, check_every=25, max_iter=200_000, budget=8.0
        )
        theirs = pilot_time + perf_counter() - start
        reached = "" if gap <= GAP else f" (gave up at gap {gap:.0e})"
        bound = "≥ " if reached else ""
        print(
            f"  {sparse:<8g} {low:<8g} {1e3 * ours:12.1f} ms (gap "
            f"{fitted.dual_gap_:.0e}, {fitted.n_iter_} it.) {theirs:10.2f} s "
            f"({max(counts)} it.){reached}  {bound}{theirs / ours:.0f}×"
        )


def memory():
    """Measure the peak of a fit of fMRI size in a process of its own."""
    command = [sys.executable, __file__, "--fit-fmri"]
    report = subprocess.run(command, check=True, capture_output=True, text=True)
    size, before, peak, seconds = (float(v) for v in report.stdout.split())
    extra = peak - before
    limit = 3 * size + 1.0
    print(f"Fitting 360 × {FMRI_SHAPE} in double precision")
    print(f"  X {size:.2f} GB; peak of the process {peak:.2f} GB; fit {seconds:.1f} s")
    print(f"  of which the fit added {extra:.2f} GB; limit 3 X + 1 GB = {limit:.2f} GB")
    print("  within the limit" if peak <= limit else "  OVER THE LIMIT")


def _fit_fmri():
    """Fit once and write sizes in GB and seconds: X, before, peak, time."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((360, *FMRI_SHAPE))
    y = X[:, :10, :10, :5].sum(axis=(1, 2, 3))
    before = _peak()
    start = perf_counter()
    SLTRRegressor(1.0, 0.3, 0.3, weights="radius").fit(X, y)
    print(X.nbytes / 1e9, before, _peak(), perf_counter() - start)


def _peak():
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def parallelism():
    """Say whether threads over the modes pay on this processor."""
    print("Threads over the modes against none")
    print("  shape            solver  none        modes (2)")
    for shape in ((30, 30, 5), (40, 40, 20), (64, 64, 32)):
        rng = np.random.default_rng(1)
        Z = rng.normal(size=shape)
        sparse, low = 0.5, 0.3 * float(np.linalg.norm(Z.reshape(shape[0], -1), 2))

        def run(solver, n_jobs, Z=Z, sparse=sparse, low=low):
            options = {"solver": solver, "n_jobs": n_jobs, "max_iter": 20}
            return estimate(Z, sparse, low, tol=1e-12, **options)

        for solver in ("admm", "ppxa"):
            none, _ = timed(lambda solver=solver, run=run: run(solver, None))
            modes, _ = timed(lambda solver=solver, run=run: run(solver, 2))
            line = f"  {shape!s:16s} {solver:6s} {1e3 * none:7.0f} ms"
            line += f" {1e3 * modes:7.0f} ms ({none / modes:.1f}×)"
            print(line)


def main():
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit-fmri", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().fit_fmri:
        _fit_fmri()
        return
    with threadpool_limits(1):
        speed()
        parallelism()
    memory()


if __name__ == "__main__":
    main()
