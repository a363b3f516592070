"""Responses of any shape: one tensor for all of them, or one for each.

    python benchmarks/responses.py simulated [--draws 10]
    python benchmarks/responses.py real [--sets emotion dryer antibodies dorrit]
    python benchmarks/responses.py classes [--sets gases covid digits haxby_blocks]
    python benchmarks/responses.py speed

`simulated` and `real` print R² of held-out samples, the mean over responses, and the
difference of SLTR to each row with its standard error: over draws, or over folds by
Nadeau and Bengio. Real errors are relative to the variance of all samples. Every method
tunes itself on the training samples. "sltr" may share a tensor or not, as folds choose;
"sltr each" is a model for each response. `classes` prints the error of labels, and the
log-loss where there are probabilities. `speed` prints ratios of times for 100 responses
and one. `real` and `classes` need SLTR_DATA. Responses that were not measured are
filled for training (`missing_y="ridge"`, means for other methods) and not scored.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV, TensorRidge
from sltr.comparison import fit_tuned, tuned_model
from sltr.datasets import load_real
from sltr.datasets.real import _digits
from sltr.peers.registry import METHODS

ALL = (
    "null", "ridge", "ridge each", "reduced_rank", "multitask_lasso",
    "tensor_on_tensor", "sltr each", "sltr separate", "sltr shared", "sltr",
)  # fmt: skip


def joint_model(name: str) -> Any:
    """Return an estimator of all responses at once."""
    if name == "sltr":
        return SLTRRegressorCV()
    if name.startswith("sltr "):
        return SLTRRegressorCV(responses=name.removeprefix("sltr "))
    return METHODS[name].make_regressor()


def predicted(name: str, X: Any, Y: Any, new: Any, groups: Any = None) -> np.ndarray:
    """Fit a method to training samples; return predictions for new ones."""
    if name == "null":
        return np.broadcast_to(np.nanmean(Y, axis=0), (len(new), *Y.shape[1:]))
    if name.endswith(" each"):
        return _each(name.removesuffix(" each"), X, Y, new, groups)
    model = joint_model(name)
    if np.isnan(Y).any():
        if "missing_y" in model.get_params():
            model.set_params(missing_y="ridge")
        else:
            Y = np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)
    return fit_tuned(model, X, Y, groups=groups).predict(new)


def _each(name: str, X: Any, Y: Any, new: Any, groups: Any) -> np.ndarray:
    columns = Y.reshape(len(Y), -1)
    found = []
    for column in columns.T:
        known = ~np.isnan(column)
        inside = None if groups is None else groups[known]
        model = joint_model(name)
        fit_tuned(model, X[known], column[known], groups=inside)
        found.append(model.predict(new))
    return np.stack(found, axis=1).reshape(len(new), *Y.shape[1:])


def r2(Y: np.ndarray, guess: np.ndarray, known: np.ndarray | None = None) -> float:
    """Return the mean over responses of R² on what is known.

    Errors are relative to the variances of these samples, or of all `known` ones: test
    folds of a few samples have none to speak of.
    """
    rows = (len(Y), -1)
    everyone = Y if known is None else known
    Y, guess = Y.reshape(rows), guess.reshape(rows)
    variance = np.nanvar(everyone.reshape(len(everyone), -1), axis=0)
    return float(np.nanmean(1.0 - np.nanmean((Y - guess) ** 2, axis=0) / variance))


def coefficient(rng: Any, shape: tuple, rank: int, sparsity: float) -> np.ndarray:
    """Return a sum of outer products, with zeros in the factors of samples' modes."""
    coef: Any = 0.0
    for _ in range(rank):
        term = np.ones(())
        for size in shape:
            factor = rng.normal(size=size)
            factor[rng.permutation(size)[: int(sparsity * size)]] = 0.0
            term = term[..., None] * factor
        coef = coef + term
    return coef


def draw(seed: int, cell: str, n: int, shape: tuple, k: int, snr: float) -> tuple:
    """Return training and test samples of one draw."""
    rng = np.random.default_rng(seed)
    if cell == "shared":
        rank_one = [coefficient(rng, shape, 1, 0.5) for _ in range(2)]
        weights = rng.normal(size=(2, k))
        coef = np.tensordot(np.stack(rank_one, -1), weights, 1)
    else:
        coef = np.stack([coefficient(rng, shape, 2, 0.5) for _ in range(k)], -1)
    coef /= np.linalg.norm(coef.reshape(-1, k), axis=0)
    X = rng.normal(size=(n + 500, *shape))
    signal = np.tensordot(X, coef, len(shape))
    Y = signal + rng.normal(size=signal.shape) / np.sqrt(snr)
    return X[:n], Y[:n], X[n:], Y[n:]


CELLS = {
    "shared, n = 100": ("shared", 100, (8, 8, 4), 8, 1.0),
    "shared, n = 200": ("shared", 200, (8, 8, 4), 8, 1.0),
    "not shared, n = 100": ("own", 100, (8, 8, 4), 8, 1.0),
    "not shared, n = 200": ("own", 200, (8, 8, 4), 8, 1.0),
}


def simulated(n_draws: int, methods: Sequence[str], cells: Sequence[str]) -> None:
    """Print the table of simulated draws."""
    for name in cells:
        scores: dict[str, list[float]] = {method: [] for method in methods}
        for seed in range(n_draws):
            X, Y, new, truth = draw(seed, *CELLS[name])
            for method in methods:
                scores[method].append(r2(truth, predicted(method, X, Y, new)))
        print_table(name, {m: np.array(v) for m, v in scores.items()}, 1.0 / n_draws)


def print_table(title: str, scores: dict[str, np.ndarray], share: float) -> None:
    """Print means, and differences to "sltr" with errors of variance × share."""
    print(f"\n| {title} | R² | sltr less this |\n| --- | --- | --- |")
    for method, values in scores.items():
        gain = scores["sltr"] - values if "sltr" in scores else 0.0 * values
        error = np.sqrt(gain.var(ddof=1) * share) if len(values) > 1 else np.nan
        less = "" if method == "sltr" else f"{gain.mean():+.3f} ± {error:.3f}"
        print(f"| {method} | {values.mean():.3f} | {less} |", flush=True)


def real(sets: Sequence[str], methods: Sequence[str], n_folds: int | None) -> None:
    """Print the tables of real sets."""
    for name in sets:
        target = {} if name == "emotion" else {"target": "all"}
        data = load_real(name, **target)
        groups = data.groups
        folds = data.cv[:n_folds]
        scores: dict[str, list[float]] = {method: [] for method in methods}
        for train, test in folds:
            inside = None if groups is None else groups[train]
            args = data.X[train], data.y[train], data.X[test], inside
            for method in methods:
                start = perf_counter()
                value = r2(data.y[test], predicted(method, *args), data.y)
                scores[method].append(value)
                seconds = perf_counter() - start
                print(f"{name} {method} {value:.3f} {seconds:.0f} s", file=sys.stderr)
        n_test = np.mean([len(test) / len(train) for train, test in folds])
        share = 1.0 / len(folds) + n_test
        print_table(name, {m: np.array(v) for m, v in scores.items()}, share)


def logistic(X: Any) -> Any:
    """Return logistic regression on standardised entries, its penalty tuned."""
    flat = FunctionTransformer(partial(np.reshape, shape=(-1, X[0].size)))
    pipe = make_pipeline(flat, StandardScaler(), LogisticRegression(max_iter=2000))
    return GridSearchCV(pipe, {"logisticregression__C": np.logspace(-4, 2, 7)})


def classes(sets: Sequence[str], methods: Sequence[str], n_folds: int | None) -> None:
    """Print the errors of labels of many classes, and their log-loss."""
    makers: dict[str, Callable[[Any], Any]] = {
        "null": lambda X: tuned_model(METHODS["null"], kind="multi-class"),
        "ridge": lambda X: tuned_model(METHODS["ridge"], kind="multi-class"),
        "logistic": logistic,
        "cp": lambda X: OneVsRestClassifier(METHODS["cp"].make_classifier(ranks=(1,))),
        "sltr separate": lambda X: SLTRClassifierCV(responses="separate"),
        "sltr shared": lambda X: SLTRClassifierCV(responses="shared"),
        "sltr both": lambda X: SLTRClassifierCV(responses=("separate", "shared")),
        "sltr likelihood": lambda X: SLTRClassifierCV(family="multinomial"),
    }
    for name in sets:
        data = _labelled(name)
        folds, groups = data.cv[:n_folds], data.groups
        chosen = [m for m in makers if m in methods or not methods]
        errors: dict[str, list[float]] = {method: [] for method in chosen}
        losses: dict[str, list[float]] = {method: [] for method in chosen}
        for train, test in folds:
            for method in chosen:
                model, start = makers[method](data.X), perf_counter()
                inside = None if groups is None else groups[train]
                fit_tuned(
                    model, data.X[train], data.y[train], groups=inside, labels=True
                )
                wrong = np.mean(model.predict(data.X[test]) != data.y[test])
                errors[method].append(float(wrong))
                if hasattr(model, "predict_proba"):
                    shares = model.predict_proba(data.X[test])
                    loss = log_loss(data.y[test], shares, labels=model.classes_)
                    losses[method].append(loss)
                seconds = perf_counter() - start
                print(f"{name} {method} {wrong:.3f} {seconds:.0f} s", file=sys.stderr)
        share = 1.0 / len(folds) + np.mean([len(b) / len(a) for a, b in folds])
        print(
            f"\n| {name}, {len(folds)} folds | error | less sltr separate | log-loss |"
        )
        print("| --- | --- | --- | --- |")
        base = np.array(errors.get("sltr separate", errors[chosen[0]]))
        for method, values in errors.items():
            gap = np.array(values) - base
            error = np.sqrt(gap.var(ddof=1) * share)
            less = f"{gap.mean():+.3f} ± {error:.3f}"
            loss = f"{np.mean(losses[method]):.3f}" if losses[method] else "–"
            print(f"| {method} | {np.mean(values):.3f} | {less} | {loss} |", flush=True)


HAXBY = (
    "bottle", "cat", "chair", "face", "house", "scissors", "scrambledpix", "shoe",
)  # fmt: skip
COVID = ("Deceased", "Severe", "Moderate", "Negative")


def _labelled(name: str) -> Any:
    """Return a set with all its classes; of the digits 300 are for training."""
    if name == "digits":
        data = _digits(classes=tuple("0123456789"))
        rng = np.random.default_rng(0)
        data.cv = [(rng.choice(a, 300, replace=False), b) for a, b in data.cv]
        return data
    return load_real(
        name, **{"gases": {}, "covid": {"classes": COVID}}.get(name, {"classes": HAXBY})
    )


def speed(repetitions: int = 3) -> None:
    """Print the times of 100 responses over those of one, of one core.

    The floor is what the iterations of the slowest mode spend in products and
    eigendecompositions, two copies of an unfolding in each.
    """
    rng = np.random.default_rng(0)
    shape, k = (16, 16, 8), 100
    made = {
        "pilot (ridge)": TensorRidge(),
        "estimate, shared": SLTRRegressor(responses="shared"),
        "estimate, separate": SLTRRegressor(responses="separate"),
        "tuned, no refits": SLTRRegressorCV(refine=None, responses="shared"),
        "tuned, all refits": SLTRRegressorCV(responses="shared"),
    }
    unfolded = {
        "estimate, shared": (2, k, prod(shape)),
        "estimate, separate": (2 * k, shape[0], prod(shape[1:])),
    }
    print("\n| fit, 16×16×8 | n | q = 1, s | q = 100, s | ratio | floor, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n in (200, 2000):
        coef = coefficient(rng, (*shape, k), 2, 0.5)
        X = rng.normal(size=(n, *shape))
        Y = np.tensordot(X, coef, 3)
        Y += rng.normal(size=Y.shape) * Y.std()
        for name, model in list(made.items())[: 5 if n == 200 else 3]:
            n_times = 1 if "tuned" in name else repetitions
            one = seconds(partial(clone(model).fit, X, Y[:, 0]), n_times)
            many = seconds(partial(model.fit, X, Y), n_times)
            least = "–"
            if name in unfolded:
                copies = rng.normal(size=unfolded[name])
                least = f"{model.n_iter_ * seconds(partial(_decomposed, copies)):.3f}"
            row = f"| {name} | {n} | {one:.3f} | {many:.3f} | {many / one:.1f} |"
            print(f"{row} {least} |", flush=True)


def seconds(call: Callable[[], object], repetitions: int = 10) -> float:
    """Return the least processor time of some calls."""
    times = []
    for _ in range(repetitions):
        start = process_time()
        call()
        times.append(process_time() - start)
    return min(times)


def _decomposed(copies: np.ndarray) -> np.ndarray:
    """Do what an iteration cannot do without."""
    _, vectors = np.linalg.eigh(copies @ copies.swapaxes(1, 2))
    return (vectors @ vectors.swapaxes(1, 2)) @ copies


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["simulated", "real", "classes", "speed"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--folds", type=int, default=None, help="the first so many")
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--cells", nargs="+", default=list(CELLS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.what == "simulated":
        simulated(args.draws, args.methods or ALL, args.cells)
    elif args.what == "real":
        sets = args.sets or ["emotion", "dryer", "antibodies", "dorrit"]
        real(sets, args.methods or ALL, args.folds)
    elif args.what == "classes":
        sets = args.sets or ["gases", "covid", "digits", "haxby_blocks", "haxby_slice"]
        classes(sets, args.methods or [], args.folds)
    else:
        with threadpool_limits(1):
            speed()


if __name__ == "__main__":
    main()
