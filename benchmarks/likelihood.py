"""Least squares or likelihood: labels and counts, simulated and real.

    python benchmarks/likelihood.py labels            (ten draws of each kind)
    python benchmarks/likelihood.py counts
    python benchmarks/likelihood.py real              (needs SLTR_DATA)
    python benchmarks/likelihood.py real --only gases ifnb

Held-out log-loss, AUROC (of several classes the mean, each against the rest) and
seconds of a fit; of counts D², the share of the deviance explained. All methods are
tuned on the training samples alone. The null model knows the shares of the classes, or
the mean count. Ridge is a penalised likelihood without structure: scikit-learn's
logistic regression tuned by its log-loss, or its Poisson regression tuned by its
deviance, on entries in units of their common standard deviation. SLTR is the default,
least squares with a sigmoid on held-out scores ("squares"), and with `family`
("likelihood"). "gain" is the mean of what the likelihood adds to least squares, over
draws or folds, with its standard error: of the log-loss lower is better.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import reduce

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegressionCV, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from sltr import SLTRClassifierCV, SLTRRegressorCV
from sltr.datasets import load_real

N_TEST = 1000
RIDGES = [10.0**e for e in range(-6, 5)]


def classifiers(n_classes):
    """Return the methods for labels."""
    family = "binomial" if n_classes == 2 else "multinomial"
    options = {"scoring": "neg_log_loss", "max_iter": 3000, "tol": 1e-3}
    return {
        "null": DummyClassifier(strategy="prior"),
        "ridge": LogisticRegressionCV(Cs=RIDGES, **options),
        "squares": SLTRClassifierCV(),
        "likelihood": SLTRClassifierCV(family=family),
    }


def regressors():
    """Return the methods for counts."""
    tuned = {"alpha": RIDGES}
    return {
        "null": DummyRegressor(),
        "ridge": GridSearchCV(
            PoissonRegressor(max_iter=3000), tuned, scoring="neg_mean_poisson_deviance"
        ),
        "squares": SLTRRegressorCV(),
        "likelihood": SLTRRegressorCV(family="poisson"),
    }


def coefficient(kind, shape, rng):
    """Return a coefficient: a block of ones, two rank-one terms, or single entries."""
    if kind == "block":
        coef = np.zeros(shape)
        coef[tuple(slice(size // 4, size // 4 + size // 3 + 1) for size in shape)] = 1.0
        return coef
    if kind == "cp":
        terms = [[rng.normal(size=size) for size in shape] for _ in range(2)]
        return sum(reduce(np.multiply, np.ix_(*term)) for term in terms)
    coef = np.zeros(np.prod(shape))
    coef[rng.choice(coef.size, 12, replace=False)] = rng.normal(size=12)
    return coef.reshape(shape)


def simulated_labels(n_draws):
    """Yield name, samples, labels and splits; the linear predictor has a deviation."""
    for kind, shape, n_classes, n_samples, size in (
        ("block", (12, 10), 2, 150, 2.0),
        ("cp", (8, 8, 5), 2, 200, 3.0),
        ("single", (8, 8, 5), 2, 200, 3.0),
        ("block", (12, 10), 4, 200, 3.0),
        ("cp", (8, 8, 5), 4, 300, 3.0),
    ):
        draws = []
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            n_all = n_samples + N_TEST
            X = rng.normal(size=(n_all, *shape))
            coefs = [coefficient(kind, shape, rng) for _ in range(n_classes)]
            if kind == "block":  # of each class somewhere else
                coefs = [np.roll(c, 3 * k, axis=(0, 1)) for k, c in enumerate(coefs)]
            if n_classes == 2:
                coefs = [0.0 * coefs[0], coefs[0]]
            eta = np.stack([np.tensordot(X, c, c.ndim) for c in coefs], axis=1)
            eta *= size / eta.std(axis=0).max()
            y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
            split = np.arange(n_samples), np.arange(n_samples, n_all)
            draws.append((X, y, split))
        sizes = "×".join(map(str, shape))
        yield f"{kind} {sizes}, {n_classes} classes, n = {n_samples}", draws


def simulated_counts(n_draws):
    """Yield name, samples, counts and splits of a Poisson model."""
    for kind, shape, n_samples, size in (
        ("block", (12, 10), 150, 1.0),
        ("cp", (8, 8, 5), 200, 1.0),
        ("single", (8, 8, 5), 200, 1.0),
        ("cp", (8, 8, 5), 200, 0.3),
    ):
        draws = []
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            n_all = n_samples + N_TEST
            X, coef = rng.normal(size=(n_all, *shape)), coefficient(kind, shape, rng)
            eta = np.tensordot(X, coef, coef.ndim)
            y = rng.poisson(np.exp(1.0 + size * eta / eta.std())).astype(float)
            split = np.arange(n_samples), np.arange(n_samples, n_all)
            draws.append((X, y, split))
        sizes = "×".join(map(str, shape))
        yield f"{kind} {sizes}, n = {n_samples}, deviation of η {size}", draws


REAL = {
    "gases": ("gases", {}),
    "digits": ("digits", {"classes": tuple("0123456789")}),
    "ifnb": ("ifnb", {}),
    "covid": ("covid", {}),
    "covid 4": (
        "covid",
        {"classes": ("Deceased", "Severe", "Moderate", "Negative")},
    ),
    "haxby": ("haxby_slice", {}),
    "haxby cat/shoe": ("haxby_slice", {"classes": ("cat", "shoe")}),
    "eeg": ("eeg", {}),
}


def real(names):
    """Yield name, samples, labels and at most five outer folds of real sets."""
    from sltr.datasets.real import _digits

    for name in names or REAL:
        file, options = REAL[name]
        task = _digits(**options) if file == "digits" else load_real(file, **options)
        splits = task.cv[:5]
        if file == "digits":  # 300 of them train
            rng = np.random.default_rng(0)
            splits = [(rng.choice(train, 300, replace=False), b) for train, b in splits]
        shape = "×".join(map(str, task.X.shape))
        yield f"{name} {shape}", [(task.X, task.y, split) for split in splits]


def measured(X, y, train, test, *, counts):
    """Return (methods, measures): log-loss, AUROC and seconds, or D² and seconds."""
    X = X / X[train].std()
    methods = regressors() if counts else classifiers(len(np.unique(y[train])))
    found = []
    for name, method in methods.items():
        rows = X if name in ("squares", "likelihood") else X.reshape(len(X), -1)
        began = time.process_time()
        model = method.fit(rows[train], y[train])
        seconds = time.process_time() - began
        if counts:
            # Least squares may predict counts below zero.
            mean = np.clip(model.predict(rows[test]), 1e-2, None)
            found.append((d2_tweedie_score(y[test], mean, power=1), seconds))
            continue
        share = model.predict_proba(rows[test])
        loss = log_loss(y[test], share, labels=model.classes_)
        if share.shape[1] == 2:
            auc = roc_auc_score(y[test], share[:, 1])
        else:
            auc = np.mean(
                [
                    roc_auc_score(y[test] == c, share[:, k])
                    for k, c in enumerate(model.classes_)
                    if 0 < (y[test] == c).mean() < 1
                ]
            )
        found.append((loss, auc, seconds))
    return np.array(found)


def main():
    """Print one row for each set and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("labels", "counts", "real"))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=tuple(REAL))
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # of solvers at the ends of their grids
    counts = args.what == "counts"
    sets = {
        "labels": lambda: simulated_labels(args.draws),
        "counts": lambda: simulated_counts(args.draws),
        "real": lambda: real(args.only),
    }[args.what]()
    columns = ("null", "ridge", "squares", "likelihood")
    print(f"{'':44s}" + "".join(f"{c:>12s}" for c in columns) + f"{'gain':>18s}")
    with threadpool_limits(1):
        for name, draws in sets:
            each = np.stack([measured(X, y, *s, counts=counts) for X, y, s in draws])
            names = ("D²",) if counts else ("log-loss", "AUROC")
            for m, measure in enumerate((*names, "seconds")):
                values = each[:, :, m]
                gain = values[:, 3] - values[:, 2]
                error = gain.std(ddof=1) / len(gain) ** 0.5
                cells = "".join(f"{value:12.3f}" for value in values.mean(axis=0))
                print(
                    f"{name:36s}{measure:>8s}{cells}{gain.mean():9.3f} ± {error:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
