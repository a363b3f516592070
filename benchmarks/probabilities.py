"""How good are probabilities: held-out log-loss beside logistic regression's.

    python benchmarks/probabilities.py             (gases: needs SLTR_DATA)
    python benchmarks/probabilities.py --only digits tables --draws 3

Gases: 21 classes of a colour sensor array, seven samples each, at one dose and at
two, five stratified folds. Digits: pairs of scikit-learn's, 30 and 60 training
samples, drawn ten times; 80 samples of which 12 are of the first class, and as large a
share of test samples; and all ten digits. Tables: breast cancer and two wines. The null
model predicts the shares of the classes. Logistic regression is tuned over
1e-6 ≤ C ≤ 1e4 by the log-loss of five inner folds, on entries in units of their common
standard deviation ("logistic") or each of its own ("standardised"), or as scikit-learn
does by default, by accuracy ("by accuracy"). "sltr pilot" is SLTR's pilot of the
likelihood alone, a logistic ridge: `LIKELY_PILOT`. The ratio is that of SLTR to
"logistic".
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sltr import SLTRClassifierCV

BY_LOSS = {"Cs": [10.0**e for e in range(-6, 5)], "scoring": "neg_log_loss"}
PAIRS = ((3, 8), (3, 5), (4, 9), (1, 7))
LOPSIDED = ((3, 8), (2, 3), (5, 8))
SOLVER = {"max_iter": 3000, "tol": 1e-3}
LIKELY_PILOT = {
    "refine": (None,),
    "lambdas_sparse": (0.0,),
    "lambdas_low": (0.0,),
    "rule": "best",
}
METHODS = {
    "null": DummyClassifier(strategy="prior"),
    "logistic": LogisticRegressionCV(**BY_LOSS, **SOLVER),
    "standardised": make_pipeline(
        StandardScaler(), LogisticRegressionCV(**BY_LOSS, **SOLVER)
    ),
    "by accuracy": LogisticRegressionCV(**SOLVER),
    "sltr": SLTRClassifierCV(),
    "sltr pilot": SLTRClassifierCV(**LIKELY_PILOT),
}


def gases():
    """Yield name, samples, labels and splits of the sensor array."""
    folder = os.environ.get("SLTR_DATA")
    if folder is None:
        print("gases: left out. Set SLTR_DATA to a folder with csa_36x3x2.npz.")
        return
    data = np.load(Path(folder) / "csa_36x3x2.npz")
    X, y = data["X"], data["y"]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    splits = list(folds.split(y, y))
    yield "21 gases, 36×3", X[..., 0], y, splits
    yield "21 gases, 36×3×2", X, y, splits


def digits(n_draws):
    """Yield name, samples, labels and splits of pairs of digits, and of all."""
    yield from lopsided(n_draws)
    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8)
    cells = [
        (f"digits {a}/{b}, n = {n}", np.isin(y, (a, b)), n)
        for a, b in PAIRS
        for n in (30, 60)
    ]
    for name, some, n in [*cells, ("ten digits, n = 150", y >= 0, 150)]:
        rows, labels = np.arange(some.sum()), y[some]
        splits = [
            train_test_split(rows, train_size=n, stratify=labels, random_state=seed)
            for seed in range(n_draws)
        ]
        yield name, X[some], labels, splits


def lopsided(n_draws, n=80, share=0.15):
    """Yield name, samples, labels and splits of pairs of which one is rare."""
    X, y = load_digits(return_X_y=True)
    for rare, common in LOPSIDED:
        splits = []
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            few, many = (
                rng.permutation(np.flatnonzero(y == c)) for c in (rare, common)
            )
            k = round(share * n)
            n_test = round((len(many) - n + k) * share / (1.0 - share))
            train = np.concatenate([few[:k], many[: n - k]])
            splits.append((train, np.concatenate([few[k : k + n_test], many[n - k :]])))
        yield f"digits {rare}/{common}, 15 %, n = {n}", X.reshape(-1, 8, 8), y, splits


def tables(n_draws):
    """Yield name, samples of one mode, labels and splits."""
    for name, load, sizes in (
        ("breast cancer", load_breast_cancer, (30, 60, 250)),
        ("wine", load_wine, (40,)),
    ):
        X, y = load(return_X_y=True)
        rows = np.flatnonzero(y > 0) if name == "wine" else np.arange(len(y))
        X, y = X[rows] / X.std(axis=0), y[rows]
        for n in sizes:
            splits = [
                train_test_split(
                    np.arange(len(y)), train_size=n, stratify=y, random_state=seed
                )
                for seed in range(n_draws)
            ]
            yield f"{name}, n = {n}", X, y, splits


def losses(X, y, train, test):
    """Return the held-out log-loss of every method."""
    X = X / X[train].std()
    found = []
    family = "binomial" if len(np.unique(y[train])) == 2 else "multinomial"
    METHODS["sltr pilot"].set_params(family=family)
    for name, method in METHODS.items():
        rows = X if name.startswith("sltr") else X.reshape(len(X), -1)
        model = method.fit(rows[train], y[train])
        found.append(
            log_loss(y[test], model.predict_proba(rows[test]), labels=model.classes_)
        )
    return found


def main():
    """Print one row for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=("gases", "digits", "tables"))
    parser.add_argument("--draws", type=int, default=10)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # of solvers at the ends of their grids
    makers = {
        "gases": gases,
        "digits": lambda: digits(args.draws),
        "tables": lambda: tables(args.draws),
    }
    sets = [task for name in args.only or makers for task in makers[name]()]
    print(
        f"{'log-loss':24s}" + "".join(f"{m:>14s}" for m in METHODS) + f"{'ratio':>8s}"
    )
    with threadpool_limits(1):
        for name, X, y, splits in sets:
            mean = np.mean([losses(X, y, *split) for split in splits], axis=0)
            row = dict(zip(METHODS, mean, strict=True))
            cells = "".join(f"{value:14.4f}" for value in mean)
            print(f"{name:24s}{cells}{row['sltr'] / row['logistic']:8.2f}", flush=True)


if __name__ == "__main__":
    main()
