"""Regression on parts of real tensors: each slice is predicted from the others.

    python benchmarks/parts.py [--methods sltr ridge cp] [--repetitions 1] [--n-jobs 2]

Needs SLTR_DATA, the folder of the real sets. Numbers to predict are few among real
sets, and the rule that weighs candidates was chosen on them. Here slices along one
mode are responses: the mean of a slice is predicted from all slices that are not its
neighbours. Five folds, drawn anew in each repetition; everything is tuned inside the
training folds. Prints R², pooled over folds, gains over ridge with the error of Nadeau
and Bengio, and regrets.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from accuracy import maker, real_table
from joblib import Parallel, delayed
from sklearn.model_selection import KFold

from sltr.datasets import load_packaged, load_real


@dataclass(frozen=True)
class Source:
    """A set, and which of its slices are responses."""

    name: str
    mode: int  # of a sample
    n_samples: int  # drawn at random
    beside: int = 0  # neighbours on each side that are left out too
    load: dict | None = None  # arguments of `load_real`; None: from a package


SOURCES = (
    Source("covid", 1, 150, load={}),
    Source("covid", 0, 40, load={}),
    Source("ifnb", 1, 53, load={}),
    Source("gases", 0, 147, load={}),
    Source("sugar", 1, 100, 1, load={}),
    Source("dryer", 0, 59, load={"target": "0"}),
    Source("antibodies", 0, 150, load={"target": "ADCC"}),
    Source("eeg", 0, 61, 6, load={}),
    Source("haxby_slice", 0, 150, 2, load={}),
    Source("adrenal", 2, 200, 2, load={}),
    Source("battery", 1, 124, 30, load={}),
    Source("pines_2_3", 2, 120, 5, load={}),
    Source("digits", 0, 50, 1),
    Source("digits", 1, 150, 1),
)
# Where along the mode the responses are.
PLACES = (0.2, 0.5, 0.8)


def samples(source: Source) -> np.ndarray:
    """Return some samples; entries that miss anywhere are zero everywhere."""
    load = load_packaged if source.load is None else load_real
    X = np.asarray(load(source.name, **(source.load or {})).X, dtype=float)
    rng = np.random.default_rng(0)
    X = X[np.sort(rng.permutation(len(X))[: source.n_samples])]
    return np.where(np.isfinite(X).all(axis=0), X, 0.0)


def task(source: Source, place: float) -> tuple[np.ndarray, np.ndarray]:
    """Return all slices that are not close to one, and the mean of that one."""
    X = np.moveaxis(samples(source), source.mode + 1, 1)
    size = X.shape[1]
    k = int(place * size)
    near = range(max(0, k - source.beside), min(size, k + source.beside + 1))
    rest = np.moveaxis(np.delete(X, near, axis=1), 1, source.mode + 1)
    return rest, X[:, k].reshape(len(X), -1).mean(axis=1)


def rows(source: Source, place: float, method: str, repetition: int) -> list[dict]:
    """Return a row for each fold of one task."""
    X, y = task(source, place)
    label = f"{source.name} {source.mode}:{place:g}, n = {len(y)}"
    found, folds = [], KFold(5, shuffle=True, random_state=repetition)
    for f, (train, test) in enumerate(folds.split(X)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = maker(method)().fit(X[train], y[train])
        errors = y[test] - model.predict(X[test]), y[test] - y[train].mean()
        mse, null = (float(np.mean(error**2)) for error in errors)
        metrics = {
            "mse": mse,
            "null_mse": null,
            "test_share": len(test) / len(train),
            "empty": float(getattr(model, "sparse_radius_", None) == 1.0),
        }
        row = {"condition": label, "method": method, "repetition": 5 * repetition + f}
        found.append({**row, "metrics": metrics, "error": None})
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["sltr", "null", "ridge", "cp"])
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--n-jobs", type=int)
    options = parser.parse_args()
    jobs = [
        delayed(rows)(source, place, method, repetition)
        for method in options.methods
        for source in SOURCES
        for place in PLACES
        for repetition in range(options.repetitions)
    ]
    by_task = Parallel(n_jobs=options.n_jobs, batch_size=1)(jobs)
    found = [row for some in by_task for row in some]
    print(real_table(found))
    empty = [r["metrics"]["empty"] for r in found if r["method"] == "sltr"]
    print(f"Empty answers of SLTR: {np.mean(empty):.3f} of {len(empty)} fits.")


if __name__ == "__main__":
    main()
