"""SURF and TPGD on 30×30×5, n = 360: time and held-out error.

Prints one line for each method: mean seconds of a fit (tuning included for
the CV estimators) and the squared error of new samples over the variance of their
noise-free responses. The null model predicts the mean of y.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sltr.peers.surf import SURFRegressor, SURFRegressorCV
from sltr.peers.tpgd import TPGDRegressor, TPGDRegressorCV

SHAPE, N_TRAIN, N_TEST, NOISE, RANK, SUPPORT = (30, 30, 5), 360, 2000, 0.3, 2, (6, 6, 3)


# Not the seeds on which the estimators' defaults were chosen (0 and 1).
SEEDS = (101, 102, 103)


def rows(X: np.ndarray) -> np.ndarray:
    """Return the samples as a matrix."""
    return X.reshape(len(X), -1)


def planted(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return training and test data of a CP coefficient with sparse factors."""
    coef = np.zeros(SHAPE)
    for _ in range(RANK):
        factors = [np.zeros(size) for size in SHAPE]
        for factor, count in zip(factors, SUPPORT, strict=True):
            where = rng.choice(len(factor), count, replace=False)
            factor[where] = rng.standard_normal(count)
        coef += np.einsum("i,j,k->ijk", *factors)
    X = rng.standard_normal((N_TRAIN, *SHAPE))
    X_test = rng.standard_normal((N_TEST, *SHAPE))
    clean, clean_test = rows(X) @ coef.ravel(), rows(X_test) @ coef.ravel()
    y = clean + NOISE * clean.std() * rng.standard_normal(N_TRAIN)
    return X, y, X_test, clean_test


def main() -> None:
    """Fit all methods on three data sets and print means."""
    flat = FunctionTransformer(rows)
    methods = {
        "null model": DummyRegressor(),
        "ridge, tuned": make_pipeline(flat, RidgeCV(np.logspace(0, 6, 25))),
        "SURF, defaults": SURFRegressor(),
        "SURF, tuned": SURFRegressorCV(),
        "TPGD, defaults": TPGDRegressor(),
        "TPGD, tuned": TPGDRegressorCV(),
    }
    problems = [planted(np.random.default_rng(seed)) for seed in SEEDS]
    print(f"{'method':16s} {'seconds':>8s}  relative error (mean of 3; each)")
    for name, model in methods.items():
        errors, seconds = [], 0.0
        for X, y, X_test, clean in problems:
            start = perf_counter()
            model.fit(X, y)
            seconds += (perf_counter() - start) / len(problems)
            error = np.mean((model.predict(X_test) - clean) ** 2) / clean.var()
            errors.append(error)
        each = ", ".join(f"{error:.3f}" for error in errors)
        print(f"{name:16s} {seconds:8.2f}  {np.mean(errors):.3f}; {each}")


if __name__ == "__main__":
    main()
