"""The default answer on noise, on weak signals, and where the truth has zeros.

    python benchmarks/answers.py noise [--draws 40]
    python benchmarks/answers.py weak [--draws 6]
    python benchmarks/answers.py support [--draws 3]
    python benchmarks/answers.py real [--draws 2]    (needs SLTR_DATA)

`noise`: the share of empty answers where y has nothing to do with X. `weak`: errors
relative to the null model's where the best is little below it, of the mean of the
candidates and of the answer that is made of it. `support`: likewise for truths with
zeros, the F1 score of the support and the best that a threshold of the mean could have,
the share of entries that are not zero, and the mean error of the ranks of the
unfoldings. The truth is known, so that errors are those of endless new samples. `real`:
R² on left-out fifths of real sets with few samples, and how often the answer is empty.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from sltr import SLTRRegressorCV
from sltr.datasets import load_real, make_tensor_regression
from sltr.metrics import rank_error, support_f1
from sltr.tuning import final

SHAPE = (16, 16, 8)
TRUTHS = {
    "CP-2": {"truth": "cp", "rank": 2},
    "CP-3": {"truth": "cp", "rank": 3},
    "Tucker": {"truth": "tucker", "rank": (2, 3, 2), "sparsity": 0.0},
    "block": {"truth": "block", "rank": 1},
    "two blocks": {"truth": "block", "rank": 2},
    "blob, 7 %": {"truth": "blob", "rank": 1, "sparsity": 0.93},
    "blob": {"truth": "blob", "rank": 1},
    "sparse, 20 %": {"truth": "sparse", "sparsity": 0.8},
}
WEAK = ("CP-2", "Tucker", "block", "blob", "sparse, 20 %")
REAL = [("dorrit", str(k)) for k in range(4)] + [("dryer", str(k)) for k in range(8)]
NOISE = ((60, (12, 12, 4)), (164, SHAPE), (30, (8, 6)), (300, (10, 8)))


def main() -> None:
    """Run what is asked for and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("noise", "weak", "support", "real"))
    parser.add_argument("--draws", type=int)
    parser.add_argument("--first", type=int, default=0, help="other draws")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # the Lasso's budget
    if options.what == "noise":
        for n, shape in NOISE:
            noise(n, shape, options.draws or 40, options.first)
        noise(200, (8, 8), options.draws or 40, options.first, n_subjects=25)
        return
    if options.what == "real":
        print("| set | null | ridge | refined pilot | answer | empty |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, target in REAL:
            real(name, target, options.draws or 2)
        return
    cells = [(n, snr) for n in (164, 410) for snr in (10.0, 1.0)]
    names: tuple[str, ...] = tuple(TRUTHS)
    if options.what == "weak":
        cells, names = [(164, 0.3), (164, 1.0), (410, 0.1), (410, 0.3)], WEAK
    print(
        "| truth, n, SNR | error: mean, answer | F1, best | not zero | ranks | empty |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    ratios = []
    for n, snr in cells:
        for name in names:
            ratios.append(signal(name, n, snr, options.draws or 6, options.first))
    print(f"\nanswer / mean: mean {np.mean(ratios):.3f}, largest {max(ratios):.3f}")


def noise(
    n: int, shape: tuple[int, ...], draws: int, first: int, n_subjects: int = 0
) -> None:
    """Print how many answers to pure noise are empty.

    Subjects have samples that resemble each other, and one response.
    """
    empty, excess = 0, []
    for seed in range(first, first + draws):
        rng = np.random.default_rng(seed)
        X, y, groups = rng.normal(size=(n, *shape)), rng.normal(size=n), None
        if n_subjects:
            groups = np.arange(n) % n_subjects
            X, y = 0.5 * X + rng.normal(size=(n_subjects, *shape))[groups], y[groups]
        model = SLTRRegressorCV().fit(X, y, groups=groups)
        empty += not model.coef_.any()
        excess.append((np.sum(model.refined_**2), np.sum(model.coef_**2)))
    pilot, answer = np.mean(excess, axis=0)
    size = "×".join(map(str, shape))
    size += f" of {n_subjects} subjects" if n_subjects else ""
    print(
        f"{size}, n = {n}: {empty} of {draws} empty; error added to the noise: "
        f"pilot {pilot:.3f}, answer {answer:.3f}"
    )


def signal(name: str, n: int, snr: float, draws: int, first: int) -> float:
    """Print one row; return the ratio of errors."""
    rows = []
    for seed in range(100 + first, 100 + first + draws):
        data = make_tensor_regression(
            SHAPE, n, snr=snr, random_state=seed, **TRUTHS[name]
        )
        null = np.sum(data.coef**2) + data.noise**2
        for coef in mean_and_answer(data.X, data.y):
            error = (np.sum((coef - data.coef) ** 2) + data.noise**2) / null
            ranks = rank_error(coef, data.coef)
            found = support_f1(coef, data.coef), best_f1(coef, data.coef)
            rows.append((error, found[0], np.mean(coef != 0), ranks, found[1]))
    mean, answer = np.mean(rows[::2], axis=0), np.mean(rows[1::2], axis=0)
    empty = sum(row[2] == 0 for row in rows[1::2])
    print(
        f"| {name}, {n}, {snr:g} | {mean[0]:.3f} {answer[0]:.3f} | {mean[1]:.2f} "
        f"{answer[1]:.2f} {mean[4]:.2f} | {mean[2]:.2f} {answer[2]:.2f} | "
        f"{mean[3]:.1f} {answer[3]:.1f} | {empty} of {draws} |",
        flush=True,
    )
    return answer[0] / mean[0]


def best_f1(coef: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest F1 score that any threshold of the entries has."""
    size = np.abs(coef)
    thresholds = np.quantile(size, np.linspace(0.0, 1.0, 201))
    return max(
        support_f1(np.where(size >= t, coef, 0.0), truth) for t in np.unique(thresholds)
    )


def mean_and_answer(X, y) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the candidates, which no attribute has, and `coef_`."""
    seen, lowest_ranks = [], final.lowest_ranks

    def watched(pilots, fractions):
        seen.append(pilots)
        return lowest_ranks(pilots, fractions)

    final.lowest_ranks = watched
    try:
        model = SLTRRegressorCV().fit(X, y)
    finally:
        final.lowest_ranks = lowest_ranks
    # All samples come last, unless there was nothing to do for them.
    mean = seen[-1][0] / model.entry_scale_ if model.low_radius_ else model.refined_
    return mean, model.coef_


def real(name: str, target: str, repeats: int) -> None:
    """Print R², pooled over left-out fifths, of one response of a real set."""
    data = load_real(name, target=target)
    flat, errors, empty = data.X.reshape(len(data.X), -1), np.zeros(4), 0
    for seed in range(repeats):
        for train, test in KFold(5, shuffle=True, random_state=seed).split(flat):
            X, y, new = data.X[train], data.y[train], data.X[test]
            model = SLTRRegressorCV().fit(X, y)
            empty += not model.coef_.any()
            pilot = np.tensordot(new - X.mean(axis=0), model.refined_, new.ndim - 1)
            scale = np.sum((flat[train] - flat[train].mean(axis=0)) ** 2) / len(y)
            ridge = RidgeCV(scale * np.logspace(-6, 2, 17)).fit(flat[train], y)
            found = [y.mean(), ridge.predict(flat[test]), y.mean() + pilot]
            for m, values in enumerate([*found, model.predict(new)]):
                errors[m] += np.sum((data.y[test] - values) ** 2)
    total = repeats * np.sum((data.y - data.y.mean()) ** 2)
    scores = " | ".join(f"{1 - error / total:.3f}" for error in errors)
    print(f"| {name} {target} | {scores} | {empty} of {5 * repeats} |", flush=True)


if __name__ == "__main__":
    main()
