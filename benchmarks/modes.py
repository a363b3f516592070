"""What is known of modes, where it is right and where it is useless.

Simulated: error of the coefficient's predictions, relative to the variance of the
signal, with and without; the difference is paired over draws. Real data (a folder named
by SLTR_DATA): nested cross-validation, the same folds for all.

    python benchmarks/modes.py --draws 5
    python benchmarks/modes.py --real ifnb battery serology dryer
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from sltr import SLTRClassifierCV, SLTRRegressorCV, TensorRidge

SHAPE, N_TRAIN, N_TEST = (5, 24), 80, 500


def simulated(kind, right, rng):
    """Return samples, responses, covariates, the signal, and the options to try."""
    bump = np.exp(-0.5 * ((np.arange(24) - 9) / 3.0) ** 2)
    rough = rng.permutation(bump) * rng.choice([-1.0, 1.0], 24)
    coef = np.outer([1.0, -0.7, 0.0, 0.0, 0.3], rough if kind != "smooth" else bump)
    if kind == "smooth" and not right:
        coef = np.outer([1.0, -0.7, 0.0, 0.0, 0.3], rough)
    n = N_TRAIN + N_TEST
    X, Z, options = rng.normal(size=(n, *SHAPE)), None, {}
    signal = X.reshape(n, -1) @ coef.ravel()
    y = signal + signal.std() * rng.normal(size=n)
    if kind == "smooth":
        options = {"smooth": {1: "auto"}}
    elif kind == "mask":
        mask = np.abs(coef) > (0.05 if right else -1.0)
        options = {"mask": mask if right else None}
    elif kind == "standardize":
        X = X * (10.0 ** rng.uniform(-1, 1, SHAPE) if right else 1.0)
        options = {"standardize": "auto"}
    elif kind == "covariates":
        Z = rng.normal(size=(n, 2))
        y = y + right * 2.0 * signal.std() * Z[:, 0]
        X = X + right * 0.5 * Z[:, 0, None, None]
    elif kind == "low_rank":
        factors = rng.normal(size=(n, 3)) @ rng.normal(size=(3, X[0].size))
        X = (factors if right else 1.0) + (0.3 if right else 1.0) * X.reshape(n, -1)
        signal = X @ coef.ravel()
        y = signal + signal.std() * rng.normal(size=n)
        X = X.reshape(n, *SHAPE)
        X[rng.random(n) < 0.5, :, 6:12] = np.nan  # a missed part
        options = {"missing": "low_rank"}
    return X, y, Z, options


def one_draw(kind, right, seed):
    """Return held-out relative errors without and with what is known."""
    rng = np.random.default_rng(seed)
    X, y, Z, options = simulated(kind, right, rng)
    train, test = slice(N_TRAIN), slice(N_TRAIN, None)
    errors = []
    plain = {"missing": "mean"} if kind == "low_rank" else {}
    for given in (plain, options):
        beside = Z is not None and bool(errors)  # the second time
        more = [{"covariates": Z[rows]} if beside else {} for rows in (train, test)]
        model = SLTRRegressorCV(**given).fit(X[train], y[train], **more[0])
        errors.append(1.0 - r2_score(y[test], model.predict(X[test], **more[1])))
    return errors


def simulations(draws, kinds):
    """Print the simulated table."""
    print(f"{'known':<12} {'it is':<8} without   with   difference ± SE")
    for kind in kinds:
        for right in (True, False):
            found = np.array([one_draw(kind, right, s) for s in range(draws)])
            change = found[:, 1] - found[:, 0]
            error = change.std(ddof=1) / np.sqrt(draws)
            word = "right" if right else "useless"
            means = "   ".join(f"{m:.3f}" for m in found.mean(axis=0))
            print(f"{kind:<12} {word:<8} {means}   {change.mean():+.3f} ± {error:.3f}")


def real_sets(folder):
    """Return the sets: samples, responses, covariates, whether labels, options."""
    ifnb, battery, serology, dryer = (
        np.load(folder / f"{name}.npz")
        for name in ("ifnb_7x76", "battery_100x99", "alter_serology", "fmc_11x325")
    )
    kept = np.arange(124) != 62
    rows = np.isfinite(dryer["Y"][:, 0])
    gaps = {"missing": "mean"}
    return {
        "ifnb": (ifnb["X"], ifnb["y"], None, True, {"smooth": {0: "auto"}}, {}),
        "battery": (
            battery["X"].astype(float)[kept],
            np.log(battery["cycle_life"])[kept],
            None,
            False,
            {"smooth": {1: "auto"}},
            {},
        ),
        "serology": (
            serology["X"],
            serology["controller"],
            None,
            True,
            {"standardize": "auto"},
            gaps,
        ),
        "dryer": (
            dryer["X"].astype(float)[rows],
            dryer["Y"][rows, 0],
            None,
            False,
            {"standardize": "auto", "smooth": {1: "auto"}},
            gaps,
        ),
    }


def real(folder, names, seed):
    """Print the scores on real sets."""
    for name in names:
        X, y, _, labels, options, common = real_sets(folder)[name]
        splitter = RepeatedStratifiedKFold if labels else RepeatedKFold
        folds = splitter(n_splits=5, n_repeats=2, random_state=seed)
        Model = SLTRClassifierCV if labels else SLTRRegressorCV
        scores = {"ridge": [], "SLTR": [], "SLTR, known": []}
        total = np.sum((y - y.mean()) ** 2) / 5
        for train, test in folds.split(X, y):
            filled = np.where(np.isnan(X), np.nanmean(X[train], axis=0), X)
            filled = np.nan_to_num(filled)
            fits = {
                "ridge": TensorRidge().fit(filled[train], y[train].astype(float)),
                "SLTR": Model(**common).fit(X[train], y[train]),
                "SLTR, known": Model(**common, **options).fit(X[train], y[train]),
            }
            for key, model in fits.items():
                samples = filled[test] if key == "ridge" else X[test]
                if labels and key != "ridge":
                    score = roc_auc_score(y[test], model.decision_function(samples))
                elif labels:
                    score = roc_auc_score(y[test], model.predict(samples))
                elif name == "battery":
                    score = np.sum((model.predict(samples) - y[test]) ** 2) / total
                else:
                    score = r2_score(y[test], model.predict(samples))
                scores[key].append(score)
        what = "AUROC" if labels else "relative MSE" if name == "battery" else "R²"
        against = np.array(scores["SLTR, known"])
        for key, values in scores.items():
            change = against - np.array(values)
            error = change.std(ddof=1) / np.sqrt(len(values))
            print(
                f"{name:<9} {what:<12} {key:<12} {np.mean(values):.4f}   known less "
                f"this: {change.mean():+.4f} ± {error:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=5)
    kinds = ("smooth", "mask", "standardize", "covariates", "low_rank")
    parser.add_argument("--kinds", nargs="*", default=kinds)
    parser.add_argument("--real", nargs="*", default=())
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.real:
        real(Path(os.environ["SLTR_DATA"]), given.real, given.seed)
    else:
        simulations(given.draws, given.kinds)
