"""Choose SLTR's settings without folds: information criteria against folds.

The degrees of freedom of every candidate come from one perturbed fit of the whole
grid, df = bᵀ(ŷ(y + δb) − ŷ(y))/δ with random signs b. With n samples, the residual
sum of squares RSS, and d = df + 1 for the intercept,

    GCV = RSS/n/(1 − d/n)²
    AIC = n·log(RSS/n) + 2·d
    BIC = n·log(RSS/n) + log(n)·d

Prints the expected held-out squared error of the candidate each rule chooses, over
the variance of the signal, and its mean ratio to five-fold cross-validation's.

    python benchmarks/criteria.py
    python benchmarks/criteria.py --seeds 10 --probes 4
"""

from __future__ import annotations

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from sltr.datasets import make_tensor_regression
from sltr.estimators.path import sltr_path
from sltr.estimators.sltr_cv import SLTRRegressorCV

SHAPE = (12, 12, 6)
SHARES = (0.2, 0.5, 1.5)
TRUTHS = ("cp", "tucker", "block", "blob", "sparse")
RULES = ("CV", "GCV", "AIC", "BIC", "oracle")
FRACTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
GRID = {"lambdas_sparse": FRACTIONS, "lambdas_low": FRACTIONS}
SETTINGS = {"tol": 1e-3}
# A step of this many standard deviations: larger than the solver's tolerance shows.
STEP = 0.1


def fitted(path, X):
    """Return every candidate's fitted values, shape (C, n)."""
    coef = path.coef.reshape(len(path.coef), -1)
    return coef @ X.reshape(len(X), -1).T + path.intercept[:, None]


def degrees_of_freedom(X, y, path, n_probes, rng):
    """Return the candidates' degrees of freedom, without the intercept, (C,)."""
    epsilons = sorted(set(path.epsilon.tolist()))
    before, total = fitted(path, X), 0.0
    for _ in range(n_probes):
        signs = rng.choice([-1.0, 1.0], size=len(y))
        step = STEP * y.std()
        moved = sltr_path(X, y + step * signs, epsilons=epsilons, **GRID, **SETTINGS)
        signs = signs - signs.mean()  # the intercept is counted apart
        total = total + (fitted(moved, X) - before) @ signs / step
    return np.maximum(total / n_probes, 0.0)


def chosen(X, y, path, n_probes, rng):
    """Return the candidate that each criterion chooses."""
    n = len(y)
    rss = np.mean((y - fitted(path, X)) ** 2, axis=1)
    d = np.minimum(degrees_of_freedom(X, y, path, n_probes, rng) + 1.0, 0.999 * n)
    return {
        "GCV": np.argmin(rss / (1.0 - d / n) ** 2),
        "AIC": np.argmin(n * np.log(rss) + 2.0 * d),
        "BIC": np.argmin(n * np.log(rss) + np.log(n) * d),
    }


def errors(truth, share, snr, seed, n_probes):
    """Return the held-out error of every rule's choice over the signal's variance."""
    n = round(share * np.prod(SHAPE))
    data = make_tensor_regression(SHAPE, n, truth=truth, snr=snr, random_state=seed)
    X, y, coef = data.X, data.y, data.coef
    rng = np.random.default_rng(seed)
    path = sltr_path(X, y, **GRID, **SETTINGS)
    # Normal samples of unit variance: errors of predictions are the coefficient's.
    miss = (path.coef - coef).reshape(len(path.coef), -1)
    error = (miss**2).sum(axis=1) / (coef**2).sum() + 1.0 / snr
    model = SLTRRegressorCV(refine=None, rule="best", **GRID, **SETTINGS).fit(X, y)
    rules = {"CV": model.best_index_, **chosen(X, y, path, n_probes, rng)}
    rules["oracle"] = np.argmin(error)
    return [error[rules[rule]] for rule in RULES]


def main():
    """Print one row for each family, number of samples and noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--probes", type=int, default=1)
    args = parser.parse_args()
    print(
        f"{'truth':10s} {'n/P':>5s} {'SNR':>4s}  " + "".join(f"{r:>8s}" for r in RULES)
    )
    ratios = []
    with threadpool_limits(1):
        for truth in TRUTHS:
            for share in SHARES:
                for snr in (1.0, 10.0):
                    rows = [
                        errors(truth, share, snr, seed, args.probes)
                        for seed in range(args.seeds)
                    ]
                    mean = np.mean(rows, axis=0)
                    ratios.append(mean / mean[0])
                    cells = "".join(f"{value:8.3f}" for value in mean)
                    print(f"{truth:10s} {share:5.1f} {snr:4.0f}  {cells}", flush=True)
    mean, worst = np.mean(ratios, axis=0), np.max(ratios, axis=0)
    print(f"{'mean ratio to CV':21s}  " + "".join(f"{value:8.3f}" for value in mean))
    print(f"{'worst ratio to CV':21s}  " + "".join(f"{value:8.3f}" for value in worst))


if __name__ == "__main__":
    main()
