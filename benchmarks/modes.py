"""What is known of modes: where it is right, where it is useless, and what it costs.

    python benchmarks/modes.py simulated [--only smooth mask …] [--draws 10]
    python benchmarks/modes.py real [--only ifnb battery …] [--seeds 0 1]
    python benchmarks/modes.py speed [--draws 3]

`simulated`: held-out errors relative to the null model's, with and without; their
difference is paired over draws, ± its standard error. `real` needs a folder named by
SLTR_DATA: nested cross-validation, 5 folds × 2 for each seed, the same folds for all;
errors of differences are those of Nadeau and Bengio, since folds share samples.
`speed`: processor times of tuned fits relative to one without anything known, in turns,
in one run.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from sltr import SLTRClassifierCV, SLTRRegressorCV, TensorRidge
from sltr.datasets import make_tensor_regression

SHAPE, N_TRAIN, N_TEST, SNR = (5, 24), 100, 1000, 2.0
PAPER = {"refine": (None, "scale")}  # what slices, weights and signs go with


@dataclass
class Draw:
    """Samples, and the settings of the two models to compare."""

    X: np.ndarray
    y: np.ndarray
    with_it: dict[str, Any]
    without: dict[str, Any] = field(default_factory=dict)
    Z: np.ndarray | None = None  # covariates of the model that knows them
    n_train: int = N_TRAIN
    complete: bool = False  # whether the other model loses samples with gaps


def respond(X: np.ndarray, coef: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return responses with noise to the signal-to-noise ratio."""
    signal = X.reshape(len(X), -1) @ coef.ravel()
    return signal + signal.std() / np.sqrt(SNR) * rng.normal(size=len(X))


def courses(rng: np.random.Generator, smooth: bool = False) -> np.ndarray:
    """Return a coefficient of rank one: 3 of 5 sites, a smooth or rough course."""
    bump = np.exp(-0.5 * ((np.arange(24) - 9) / 3.0) ** 2)
    rough = rng.permutation(bump) * rng.choice([-1.0, 1.0], 24)
    return np.outer([1.0, -0.7, 0.0, 0.0, 0.3], bump if smooth else rough)


def normal(rng: np.random.Generator, n_train: int = N_TRAIN) -> np.ndarray:
    """Return independent samples, those to train on first."""
    return rng.normal(size=(n_train + N_TEST, *SHAPE))


def smooth(right: bool, rng: np.random.Generator) -> Draw:
    """Courses over time; else times in any order."""
    X = normal(rng)
    y = respond(X, courses(rng, smooth=right), rng)
    return Draw(X, y, {"smooth": {1: "auto"}})


def mask(right: bool, rng: np.random.Generator) -> Draw:
    """Keep what matters and little else; else all but a twentieth."""
    X, coef = normal(rng), courses(rng)
    y = respond(X, coef, rng)
    order = np.argsort(-np.abs(coef), axis=None)
    kept = np.zeros(coef.size, bool)
    kept[order[: 48 if right else 114]] = True
    return Draw(X, y, {"mask": kept.reshape(SHAPE)})


def standardize(right: bool, rng: np.random.Generator) -> Draw:
    """Units that differ a hundredfold between entries; else all alike."""
    X = normal(rng)
    y = respond(X, courses(rng), rng)
    units = 10.0 ** rng.uniform(-1, 1, SHAPE) if right else 1.0
    return Draw(X * units, y, {"standardize": "auto"})


def covariates(right: bool, rng: np.random.Generator) -> Draw:
    """One of two covariates moves samples and responses; else neither does."""
    X = normal(rng)
    y, Z = respond(X, courses(rng), rng), rng.normal(size=(len(X), 2))
    if right:
        y, X = y + 2.0 * y.std() * Z[:, 0], X + 0.5 * Z[:, 0, None, None]
    return Draw(X, y, {}, Z=Z)


def mean(right: bool, rng: np.random.Generator) -> Draw:
    """Half of the samples have a gap; else one in fifty. Without: they are dropped."""
    X = normal(rng)
    y = respond(X, courses(rng), rng)
    X[: int(N_TRAIN * (0.5 if right else 0.02)), :, 6:9] = np.nan
    return Draw(X, y, {"missing": "mean"}, {"missing": "mean"}, complete=True)


def low_rank(right: bool, rng: np.random.Generator) -> Draw:
    """Entries follow from others; else not at all. Without: the mean is put in."""
    X = normal(rng)
    if right:
        factors = rng.normal(size=(len(X), 3)) @ rng.normal(size=(3, X[0].size))
        X = factors.reshape(X.shape) + 0.3 * X
    y = respond(X, courses(rng), rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    return Draw(X, y, {"missing": "low_rank"}, {"missing": "mean"})


def slices(right: bool, rng: np.random.Generator) -> Draw:
    """Four times of 24 matter, at every site; else all do."""
    X, coef = normal(rng), rng.normal(size=SHAPE)
    coef[:, rng.permutation(24)[: 20 if right else 0]] = 0.0
    return Draw(X, respond(X, coef, rng), {"slices": 1, **PAPER}, PAPER)


def entry_weights(right: bool, rng: np.random.Generator) -> Draw:
    """Weights are small for the 20 entries that matter; else drawn by chance."""
    X, coef = normal(rng), rng.normal(size=SHAPE)
    places = rng.permutation(coef.size)
    coef.ravel()[places[20:]] = 0.0
    weights = np.ones(coef.size) if right else rng.uniform(0.5, 1.5, coef.size)
    weights[places[: 20 if right else 0]] = 0.1
    given = {"entry_weights": weights.reshape(SHAPE), **PAPER}
    return Draw(X, respond(X, coef, rng), given, PAPER)


def positive(right: bool, rng: np.random.Generator) -> Draw:
    """No entry is negative; else the many samples say so by themselves."""
    n_train = N_TRAIN if right else 12 * N_TRAIN
    X = normal(rng, n_train)
    coef = rng.uniform(size=SHAPE) * (rng.random(SHAPE) < 0.3) if right else 1.0
    y = respond(X, coef * np.ones(SHAPE), rng)
    return Draw(X, y, {"positive": True, **PAPER}, PAPER, n_train=n_train)


KINDS: dict[str, Callable[[bool, np.random.Generator], Draw]] = {
    make.__name__: make
    for make in (
        smooth,
        mask,
        standardize,
        covariates,
        mean,
        low_rank,
        slices,
        entry_weights,
        positive,
    )
}


def one_draw(kind: str, right: bool, seed: int) -> list[float]:
    """Return held-out relative errors: ridge, without, with, and of covariates alone.

    Ridge gets the mean for what is missing.
    """
    draw = KINDS[kind](right, np.random.default_rng(seed))
    rows, test = np.arange(draw.n_train), slice(draw.n_train, None)
    whole = rows
    if draw.complete:
        whole = rows[np.isfinite(draw.X[rows]).all(axis=(1, 2))]
    filled = np.where(np.isnan(draw.X), np.nanmean(draw.X[rows], axis=0), draw.X)
    ridge = TensorRidge().fit(filled[rows], draw.y[rows]).predict(filled[test])
    without = SLTRRegressorCV(**draw.without).fit(draw.X[whole], draw.y[whole])
    given = [{} if draw.Z is None else {"covariates": draw.Z[r]} for r in (rows, test)]
    model = SLTRRegressorCV(**draw.with_it)
    model.fit(draw.X[rows], draw.y[rows], **given[0])
    known = model.predict(draw.X[test], **given[1])
    found = [ridge, without.predict(draw.X[test]), known]
    if draw.Z is not None:
        alone = LinearRegression().fit(draw.Z[rows], draw.y[rows])
        found.append(alone.predict(draw.Z[test]))
    null = np.mean((draw.y[test] - draw.y[rows].mean()) ** 2)
    return [float(np.mean((draw.y[test] - p) ** 2) / null) for p in found]


def simulations(kinds: list[str], draws: int) -> None:
    """Print the simulated table."""
    print("| known | it is | ridge | without | with | difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in kinds:
        for right in (True, False):
            found = np.array([one_draw(kind, right, seed) for seed in range(draws)])
            change = found[:, 2] - found[:, 1]
            cells = [kind, "right" if right else "useless"]
            cells += [f"{m:.3f}" for m in found[:, :3].mean(axis=0)]
            cells.append(f"{change.mean():+.3f} ± {standard_error(change):.3f}")
            print("| " + " | ".join(cells) + " |", flush=True)
            if found.shape[1] > 3:
                cost = found[:, 3] - 1.0
                print(
                    f"\nLeast squares on the covariates alone: {cost.mean():+.3f} ± "
                    f"{standard_error(cost):.3f} over the null model.\n"
                )


def standard_error(values: np.ndarray, test_share: float = 0.0) -> float:
    """Return the standard error of a mean; of Nadeau and Bengio for folds."""
    spread = values.std(ddof=1) if len(values) > 1 else np.nan
    return float(spread * np.sqrt(1.0 / len(values) + test_share))


@dataclass
class RealSet:
    """Real samples, what every model is given, and what is known."""

    X: np.ndarray
    y: np.ndarray
    known: dict[str, Any]
    common: dict[str, Any] = field(default_factory=dict)
    Z: np.ndarray | None = None

    @property
    def has_labels(self) -> bool:
        """Whether responses are two classes."""
        return len(np.unique(self.y)) == 2


def real_set(name: str, folder: Path) -> RealSet:
    """Return one of the real sets by its name."""
    gaps = {"missing": "mean"}
    if name == "ifnb":
        data = np.load(folder / "ifnb_7x76.npz")
        return RealSet(data["X"], data["y"], {"smooth": {0: "auto"}})
    if name == "battery":
        data = np.load(folder / "battery_100x99.npz")
        kept = np.arange(124) != 62  # as the authors do
        X, y = data["X"].astype(float)[kept], np.log(data["cycle_life"])[kept]
        return RealSet(X, y, {"smooth": {1: "auto", 0: "auto"}})
    if name == "controller":
        data = np.load(folder / "alter_serology.npz")
        return RealSet(data["X"], data["controller"], {"standardize": "auto"}, gaps)
    data = np.load(folder / "fmc_11x325.npz")
    y = data["Y"][:, int(name.split("-")[1])]
    rows = np.isfinite(y)
    # More columns follow from each other, nearly, on some folds.
    Z = data["Zop"][rows, :3] if name.endswith("covariates") else None
    known = {"standardize": "auto", "smooth": {1: "auto"}}
    return RealSet(data["X"].astype(float)[rows], y[rows], known, gaps, Z)


def fold_scores(given: RealSet, train: np.ndarray, test: np.ndarray) -> dict:
    """Return what each method gets on a fold: AUROC, or squared error and the null's.

    Ridge gets means for what is missing, and what covariates do not explain.
    """
    X, y = given.X, given.y.astype(float)
    beside = [{}, {}]
    first = np.zeros(len(test))
    filled = np.nan_to_num(np.where(np.isnan(X), np.nanmean(X[train], axis=0), X))
    target = y[train]
    if given.Z is not None:
        beside = [{"covariates": given.Z[rows]} for rows in (train, test)]
        flat = filled.reshape(len(X), -1)
        explained = LinearRegression().fit(given.Z[train], flat[train])
        filled = (flat - explained.predict(given.Z)).reshape(X.shape)
        alone = LinearRegression().fit(given.Z[train], target)
        first, target = (
            alone.predict(given.Z[test]),
            target - alone.predict(given.Z[train]),
        )
    ridge = TensorRidge().fit(filled[train], target)
    found = {"ridge": first + ridge.predict(filled[test])}
    Model = SLTRClassifierCV if given.has_labels else SLTRRegressorCV
    for key, options in (("SLTR", {}), ("known", given.known)):
        model = Model(**given.common, **options)
        model.fit(X[train], given.y[train], **beside[0])
        ask = model.decision_function if given.has_labels else model.predict
        found[key] = ask(X[test], **beside[1])
    if given.has_labels:
        return {key: roc_auc_score(y[test], values) for key, values in found.items()}
    found["null"] = np.full(len(test), y[train].mean())
    return {key: np.sum((values - y[test]) ** 2) for key, values in found.items()}


def real(folder: Path, names: list[str], seeds: list[int]) -> None:
    """Print the scores on real sets; R² of all folds pooled."""
    print(
        "| set, seed | measure | ridge | SLTR | known | known − ridge | known − SLTR |"
    )
    print("|" + " --- |" * 7)
    for name in names:
        given = real_set(name, folder)
        Folds = RepeatedStratifiedKFold if given.has_labels else RepeatedKFold
        for seed in seeds:
            folds = Folds(n_splits=5, n_repeats=2, random_state=seed)
            found = [
                fold_scores(given, train, test)
                for train, test in folds.split(given.X, given.y)
            ]
            scores = {key: np.array([one[key] for one in found]) for key in found[0]}
            if not given.has_labels:  # R² by fold, about the mean error of the null
                null = scores.pop("null").mean()
                scores = {key: 1.0 - errors / null for key, errors in scores.items()}
            measure = "AUROC" if given.has_labels else "R²"
            cells = [f"{name}, {seed}", measure]
            cells += [f"{scores[k].mean():.4f}" for k in ("ridge", "SLTR", "known")]
            for key in ("ridge", "SLTR"):
                gain = scores["known"] - scores[key]
                error = standard_error(gain, 0.25)
                cells.append(f"{gain.mean():+.4f} ± {error:.4f}")
            print("| " + " | ".join(cells) + " |", flush=True)


def speeds(draws: int) -> None:
    """Print times relative to a fit without anything known."""
    shape, n = (16, 16, 8), 164
    rng = np.random.default_rng(0)
    inside = rng.random(shape) < 0.9
    kinds: dict[str, dict] = {
        "nothing": {},
        "smooth, given": {"smooth": {0: 4.0}},
        "smooth, two modes given": {"smooth": {0: 4.0, 1: 4.0}},
        "mask": {"mask": inside},
        "missing, mean": {"missing": "mean"},
        "missing, low rank": {"missing": "low_rank"},
        "standardize, given": {"standardize": "entries"},
        "covariates": {},
        'smooth, "auto"': {"smooth": {0: "auto"}},
        'smooth, "auto" for two modes': {"smooth": {0: "auto", 1: "auto"}},
        'standardize, "auto"': {"standardize": "auto"},
    }
    print("| known | " + " | ".join(f"{shape}, n = {n}, {t}" for t in TRUTHS) + " |")
    print("| --- |" + " --- |" * len(TRUTHS))
    ratios = {kind: [] for kind in kinds}
    for truth in TRUTHS.values():
        times = {kind: [] for kind in kinds}
        for seed in range(draws):
            data = make_tensor_regression(
                shape, n, random_state=seed, snr=10.0, **truth
            )
            for kind, options in kinds.items():
                times[kind].append(timed(kind, options, data.X, data.y, seed))
        for kind in kinds:
            ratio = np.array(times[kind]) / np.array(times["nothing"])
            ratios[kind].append(np.median(ratio))
    for kind, row in ratios.items():
        print("| " + " | ".join([kind, *(f"{ratio:.2f}" for ratio in row)]) + " |")


TRUTHS: dict[str, dict] = {
    "CP": {"truth": "cp", "rank": 2},
    "blob": {"truth": "blob", "rank": 1},
    "sparse": {"truth": "sparse", "sparsity": 0.97},
}


def timed(kind: str, options: dict, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Return the processor seconds of one tuned fit: others may use the machine."""
    rng = np.random.default_rng(seed)
    if kind.startswith("missing"):
        X = np.where(rng.random(X.shape) < 0.02, np.nan, X)
    given = {}
    if kind == "covariates":
        given = {"covariates": rng.normal(size=(len(X), 3))}
    start = process_time()
    SLTRRegressorCV(**options).fit(X, y, **given)
    return process_time() - start


REAL = (
    "ifnb",
    "battery",
    "controller",
    *(f"dryer-{k}" for k in (0, 2, 3, 5, 6, 7)),
    "dryer-0-covariates",
)


def main() -> None:
    """Run what is asked for and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("simulated", "real", "speed"))
    parser.add_argument("--only", nargs="+", help="some rows of the table")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the Lasso's budget
    if options.what == "simulated":
        simulations(options.only or list(KINDS), options.draws or 10)
    elif options.what == "real":
        folder = Path(os.environ["SLTR_DATA"])
        real(folder, options.only or list(REAL), options.seeds)
    else:
        speeds(options.draws or 3)


if __name__ == "__main__":
    main()
