"""CP and Tucker regression against TensorLy's: time and held-out error, one run.

    python benchmarks/cp_tucker.py [--repeats 3]

Both get the same data, ranks and penalty. TensorLy fits no intercept and takes an
absolute penalty, so it is given centred data of unit mean square and n·alpha; its
error is measured in the same units. Times are the best of the repeats, errors the
mean over them (a new problem and seed each); "null" is the training mean's error,
"noise" that of the true coefficient.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import tensorly.regression as peer

from sltr.peers.cp import CPRegressor
from sltr.peers.tucker import TuckerRegressor

ALPHA = 1e-3
# shape, true rank, samples
PROBLEMS = [
    ((16, 16, 8), 2, 200),
    ((16, 16, 8), 2, 1000),
    ((30, 30, 5), 3, 360),
    ((40, 40), 2, 500),
    ((64, 64), 3, 500),
    ((10, 10, 8, 5), 2, 300),
]


def problem(shape, rank, n_samples, seed):
    """Return training and test data of a planted CP tensor, noise of variance 0.1."""
    rng = np.random.default_rng(seed)
    coef = np.zeros(shape)
    for _ in range(rank):
        term = np.ones(())
        for size in shape:
            term = np.multiply.outer(term, rng.standard_normal(size))
        coef += term
    coef /= np.linalg.norm(coef)
    X = rng.standard_normal((n_samples + 500, *shape))
    y = X.reshape(len(X), -1) @ coef.ravel() + 0.1**0.5 * rng.standard_normal(len(X))
    return X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:]


def ours(model, X, y, X_test, y_test):
    """Return seconds to fit and the held-out mean squared error."""
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    return seconds, np.mean((model.predict(X_test) - y_test) ** 2)


def theirs(model, X, y, X_test, y_test):
    """Return seconds to fit, scaling left out, and the held-out error."""
    X_mean, y_mean = X.mean(axis=0), y.mean()
    X_unit, y_unit = (X - X_mean).std(), y.std()
    X_scaled, y_scaled = (X - X_mean) / X_unit, (y - y_mean) / y_unit
    start = time.perf_counter()
    model.fit(X_scaled, y_scaled)
    seconds = time.perf_counter() - start
    found = model.predict((X_test - X_mean) / X_unit) * y_unit + y_mean
    return seconds, np.mean((found - y_test) ** 2)


def main() -> None:
    """Print one row for each problem and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    print(
        f"{'model':7}{'shape':>14}{'n':>6}{'sltr s':>9}{'TensorLy s':>12}{'ratio':>7}"
        f"{'sltr MSE':>10}{'TensorLy':>10}{'null':>7}{'noise':>7}"
    )
    for shape, rank, n in PROBLEMS:
        for name in ("CP", "Tucker"):
            rows = []
            for seed in range(repeats):
                data = problem(shape, rank, n, seed)
                common = {"reg_W": ALPHA * n, "random_state": seed, "verbose": 0}
                if name == "CP":
                    mine = CPRegressor(rank, alpha_ridge=ALPHA)
                    other = peer.CPRegressor(weight_rank=rank, **common)
                else:
                    mine = TuckerRegressor(rank, alpha_ridge=ALPHA)
                    ranks = [rank] * len(shape)
                    other = peer.TuckerRegressor(weight_ranks=ranks, **common)
                null = np.mean((data[3] - data[1].mean()) ** 2)
                rows.append((*ours(mine, *data), *theirs(other, *data), null))
            table = np.array(rows)
            fast, slow = table[:, 0].min(), table[:, 2].min()
            mse, peer_mse, null = table[:, [1, 3, 4]].mean(axis=0)
            print(
                f"{name:7}{'×'.join(map(str, shape)):>14}{n:6}{fast:9.3f}{slow:12.3f}"
                f"{slow / fast:7.1f}{mse:10.3f}{peer_mse:10.3f}{null:7.2f}{0.1:7.2f}"
            )


if __name__ == "__main__":
    main()
