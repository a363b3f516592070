"""What `sltr.inference` promises, measured.

    python benchmarks/inference.py permutations   # seconds of 1,000 permutations
    python benchmarks/inference.py null           # p-values where there is nothing
    python benchmarks/inference.py coverage       # of 90 % intervals
    python benchmarks/inference.py support        # hidimstat's simulations

`--draws` sets the number of data sets, `--device cuda` where permutations are
computed. `support --others` runs hidimstat's EnCluDL as well, if it is installed
(`pip install hidimstat`); it takes about a minute for each data set.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from time import perf_counter, process_time

import numpy as np
from joblib import Parallel, delayed
from scipy.ndimage import distance_transform_cdt, gaussian_filter
from scipy.stats import kstest
from threadpoolctl import threadpool_limits

from sltr import SLTRRegressorCV
from sltr.arrays import on_device
from sltr.datasets import make_tensor_regression
from sltr.inference import intervals, permutation_test, significant

# hidimstat's example: edge of the regions, its spatial tolerance, clusters, error rate.
EDGE, TOLERANCE, CLUSTERS, FWER = 4, 6, 200, 0.1


def permutations(draws: int, device: str, quick: bool, jobs: int | None) -> None:
    """Print the seconds that permutations take, and a loop of fits.

    In one process, seconds of the processor are those of one core, whatever else the
    machine does. `jobs` processes share the procedure's permutations; then only the
    seconds that pass count, and few `draws` would count the start of processes.
    """
    sizes = [((16, 16, 8), 164, 1000)]
    if device != "cpu":
        sizes.append(((51, 61, 23), 360, 10_000))
    model = SLTRRegressorCV()
    for shape, n_samples, n in sizes:
        data = make_tensor_regression(shape, n_samples, snr=1, random_state=0)
        X, y = data.X, data.y
        if device != "cpu":
            X, y = on_device(X, device), on_device(y, device)

        def permute(n, statistic, X=X, y=y):
            permutation_test(model, X, y, n=n, statistic=statistic, n_jobs=jobs)

        def fit(n, X=X, y=y):
            for seed in range(n):
                model.fit(X, np.random.default_rng(seed).permutation(y))

        permute(9, "pilot")  # load what is needed
        print(f"{shape}, n = {n_samples}, {n} permutations")
        print("  pilot:", timed(1.0, permute, n, "pilot"))
        if quick or device != "cpu":
            continue
        print("  procedure:", timed(n / (draws + 1), permute, draws, "procedure"))
        few = min(draws, 20)
        print("  a loop of whole fits:", timed(n / few, fit, few))


def timed(scale: float, work, *args) -> str:
    """Return how long some work takes, times a factor."""
    start, used = perf_counter(), process_time()
    work(*args)
    used, passed = process_time() - used, perf_counter() - start
    return f"{scale * passed:.1f} s, {scale * used:.1f} s of the processor"


def null(draws: int, statistic: str) -> None:
    """Print how uniform p-values are where there is nothing to find.

    The whole procedure has smaller samples and fewer permutations.
    """
    shape, n = ((60, 12, 12, 4), 199) if statistic == "pilot" else ((40, 8, 6), 19)
    model, p_values = SLTRRegressorCV(), []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=shape), rng.normal(size=shape[0])
        test = permutation_test(
            model, X, y, n=n, statistic=statistic, random_state=seed
        )
        p_values.append(test.p_value)
    p_values = np.array(p_values)
    # Uniform on 1/(n + 1), …, 1: the middles of their steps are those of (0, 1).
    agreement = kstest(p_values - 0.5 / (n + 1), "uniform").pvalue
    shares = ", ".join(
        f"{np.mean(p_values <= level):.3f} at most {level}"
        for level in (0.05, 0.1, 0.5)
    )
    print(f"{draws} null draws: Kolmogorov–Smirnov p = {agreement:.2f}; {shares}")


def coverage(draws: int) -> None:
    """Print the coverage and width of 90 % intervals on new samples."""
    for snr in (1.0, 5.0):
        shares, widths = [], []
        for seed in range(draws):
            data = make_tensor_regression((10, 10, 4), 500, snr=snr, random_state=seed)
            X, y = data.X, data.y
            found = intervals(SLTRRegressorCV(), X[:100], y[:100])
            lower, upper = found.predict(X[100:], level=0.9)
            shares.append(np.mean((lower <= y[100:]) & (y[100:] <= upper)))
            widths.append(np.mean(upper - lower) / np.std(y))
        print(
            f"SNR {snr:g}, {draws} draws: coverage {np.mean(shares):.3f} (from "
            f"{min(shares):.2f} to {max(shares):.2f}), width {np.mean(widths):.2f} "
            "standard deviations of y (3.29 without a model)"
        )


def simulated(shape: tuple[int, ...], n_samples: int, seed: int):
    """Return hidimstat's spatial simulation: smooth samples, regions in corners."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((n_samples, *shape))
    X = np.stack([gaussian_filter(sample, 1.0) for sample in drawn])
    coef, low, high = np.zeros(shape), slice(0, EDGE), slice(-EDGE, None)
    if len(shape) == 2:
        for corner in ((low, low), (low, high), (high, low), (high, high)):
            coef[corner] = 1.0
    else:
        coef[low, low, low] = coef[low, high, high] = -1.0
        coef[high, high, low] = coef[high, low, high] = 1.0
        coef[tuple(slice((p - EDGE) // 2, (p + EDGE) // 2) for p in shape)] = 1.0
    signal = X.reshape(n_samples, -1) @ coef.ravel()
    noise = rng.standard_normal(n_samples)
    size = np.linalg.norm(signal) / np.linalg.norm(noise) / np.sqrt(10.0)
    return X, signal + size * noise, coef


def ours(X, y) -> np.ndarray:
    """Return the entries that `significant` selects."""
    return significant(SLTRRegressorCV(), X, y, fwer=FWER, random_state=0).selected


def ensemble(X, y) -> np.ndarray:
    """Return the entries that hidimstat's EnCluDL selects, as its example does."""
    from hidimstat import DesparsifiedLasso
    from hidimstat.ensemble_clustered_inference import EnCluDL
    from sklearn.cluster import FeatureAgglomeration
    from sklearn.feature_extraction.image import grid_to_graph

    clusters = FeatureAgglomeration(
        n_clusters=CLUSTERS, connectivity=grid_to_graph(*X.shape[1:]), linkage="ward"
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        found = EnCluDL(DesparsifiedLasso(), clusters, random_state=0)
        found.fit_importance(X.reshape(len(X), -1), y)
        selected = found.fwer_selection(FWER, n_tests=CLUSTERS, two_tailed_test=True)
    return (selected != 0).reshape(X.shape[1:])


def drawn(method, shape: tuple[int, ...], n_samples: int, seed: int) -> tuple:
    """Return power, entries beyond the tolerance, those within it, and seconds."""
    X, y, coef = simulated(shape, n_samples, seed)
    with threadpool_limits(1):
        start = perf_counter()
        selected = method(X, y)
        seconds = perf_counter() - start
    inside = coef != 0
    far = distance_transform_cdt(~inside, "taxicab") > TOLERANCE
    strays = np.count_nonzero(selected & far)
    near = np.count_nonzero(selected & ~inside & ~far)
    return selected[inside].mean(), strays, near, seconds


def support(draws: int, others: bool, jobs: int | None) -> None:
    """Print power and errors on hidimstat's simulations; draws share processes."""
    methods = {"significant": ours} | ({"EnCluDL": ensemble} if others else {})
    for shape, n_samples in (((40, 40), 100), ((20, 20, 20), 100), ((20, 20, 20), 400)):
        for name, method in methods.items():
            rows = Parallel(jobs)(
                delayed(drawn)(method, shape, n_samples, seed) for seed in range(draws)
            )
            power, strays, near, seconds = np.array(rows, float).T
            print(
                f"{shape}, n = {n_samples}, {draws} draws, {name}: power "
                f"{power.mean():.3f}, family-wise error {np.mean(strays > 0):.2f} "
                f"({strays.mean():.2f} entries beyond the tolerance, "
                f"{near.mean():.0f} within it), {seconds.mean():.2f} s each",
                flush=True,
            )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("permutations", "null", "coverage", "support"))
    parser.add_argument("--draws", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--jobs", type=int, help="processes for the procedure, or for draws"
    )
    parser.add_argument("--quick", action="store_true", help="the pilot alone")
    parser.add_argument(
        "--statistic", default="pilot", choices=("pilot", "procedure"), help="of `null`"
    )
    parser.add_argument("--others", action="store_true", help="EnCluDL as well")
    given = parser.parse_args()
    if given.what == "permutations":
        permutations(given.draws or 20, given.device, given.quick, given.jobs)
    elif given.what == "null":
        null(given.draws or 200, given.statistic)
    elif given.what == "coverage":
        coverage(given.draws or 100)
    else:
        support(given.draws or 50, given.others, given.jobs)


if __name__ == "__main__":
    main()
