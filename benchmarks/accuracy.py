"""Held-out accuracy of SLTR and its peers: simulated families and real data.

    python benchmarks/accuracy.py simulated [--quick] [--out results] [--n-jobs 2]
    python benchmarks/accuracy.py real [--quick] …      (needs SLTR_DATA)
    python benchmarks/accuracy.py times [--out results]
    python benchmarks/accuracy.py tables [--out results]

`real` runs all sets of SLTR_DATA on their folds and prints R² or AUROC, SLTR's gain
over ridge with the error of Nadeau and Bengio, and its regret to each peer.

Every method tunes itself on the training samples alone; the null model and
ridge are in every table. A killed run goes on where it stopped. Tables give the
mean over repetitions of the squared error relative to the null model's
(simulated), its standard error, the ratio of SLTR to the
best peer, and the ratio of tuning times; for simulated data also the F1 score of
the support and the error of the ranks. "sltr_best" is SLTR with rule="best".
Times of a run with several jobs, or on a busy machine, mean little: `times` tunes
SLTR, Remurs, CP and Tucker one after another on one draw of some cells, CP and
Tucker also over the ranks that SLTR may try, "cp_wide" and "tucker_wide", and SLTR
without any refinement, the paper's own grid on folds, "sltr_plain".
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sltr.peers.registry import METHODS
from sltr.peers.tucker import candidate_ranks
from sltr.reproduction.run import Condition, Experiment, read_rows, run
from sltr.tuning.policy import DEFAULT

PEERS = ("null", "ridge", "lasso", "elastic_net", "remurs", "cp", "tucker", "surf")
OURS = ("sltr", "sltr_best", "sltr_plain")  # the last one if asked for
RIVALS = ("remurs", "cp", "tucker")  # whose times are compared with SLTR's
SLOWER = ("elem_ridge", "sturm", "tpgd", "ortrr", "hrtrr")  # only if asked for
SHAPE = (16, 16, 8)
FAMILIES = {
    "CP-2, sparse factors": {"truth": "cp", "rank": 2},
    "CP-3, sparse factors": {"truth": "cp", "rank": 3},
    "Tucker (2, 3, 2)": {"truth": "tucker", "rank": (2, 3, 2), "sparsity": 0.0},
    "block": {"truth": "block", "rank": 1},
    "smooth blob": {"truth": "blob", "rank": 1},
    "sparse, 3 %": {"truth": "sparse", "sparsity": 0.97},
    "sparse, 20 %": {"truth": "sparse", "sparsity": 0.8},
    "the paper's": {"truth": "paper"},
}
# With neighbours that are correlated along every mode, AR(1).
CORRELATED = (
    "CP-2, sparse factors",
    "Tucker (2, 3, 2)",
    "block",
    "smooth blob",
    "sparse, 3 %",
)
SPOTS = (
    ((30, 30, 5), 0.08, "CP-2, sparse factors"),
    ((30, 30, 5), 0.08, "block"),
    ((32, 32), 0.2, "CP-2, sparse factors"),
    ((32, 32), 1.5, "sparse, 3 %"),
    ((10, 10, 8, 5), 0.08, "CP-2, sparse factors"),
    ((16, 16, 8), 1.5, "sparse, 20 %"),
)
TIMED = (
    "CP-2, sparse factors; 16×16×8, n = 164, SNR 10",
    "sparse, 3 %; 16×16×8, n = 164, SNR 1",
    "Tucker (2, 3, 2); 16×16×8, n = 410, SNR 10",
    "sparse, 20 %; 16×16×8, n = 410, SNR 10",
    "block; 16×16×8, n = 1024, SNR 1",
    "the paper's; 16×16×8, n = 1024",
    "CP-2, sparse factors; 30×30×5, n = 360, SNR 10",
    "CP-2, sparse factors; 32×32, n = 205, SNR 10",
    "CP-2, sparse factors; 10×10×8×5, n = 320, SNR 10",
)
FUNCTIONS = ("ADCC", "ADCD", "ADNP", "CD107a", "IFNy", "MIP1b")
REAL = {  # pooled R² of numbers, mean AUROC of labels
    "sugar": ("mse", {"name": "sugar"}),
    "battery": ("mse", {"name": "battery"}),
    **{f"dorrit {k}": ("mse", {"name": "dorrit", "target": str(k)}) for k in range(4)},
    **{
        f"dryer {k}": ("mse", {"name": "dryer", "target": str(k)})
        for k in (0, 2, 3, 5, 6, 7)
    },
    **{
        f"antibodies {t}": ("mse", {"name": "antibodies", "target": t})
        for t in FUNCTIONS
    },
    "controllers": ("auroc", {"name": "antibodies", "target": "controller"}),
    "viremic": ("auroc", {"name": "antibodies", "target": "viremic"}),
    "EEG": ("auroc", {"name": "eeg"}),
    "IFNβ": ("auroc", {"name": "ifnb"}),
    "Haxby face/house": (
        "auroc",
        {"name": "haxby_slice", "classes": ["face", "house"]},
    ),
    "Haxby cat/shoe": ("auroc", {"name": "haxby_slice", "classes": ["cat", "shoe"]}),
    "Haxby blocks": ("auroc", {"name": "haxby_blocks", "classes": ["face", "house"]}),
    "adrenal": ("auroc", {"name": "adrenal"}),
    "Pines 2/3": ("auroc", {"name": "pines_2_3"}),
    "Pines 10/11": ("auroc", {"name": "pines_10_11"}),
    "COVID severe/deceased": ("auroc", {"name": "covid"}),
    "COVID moderate/severe": (
        "auroc",
        {"name": "covid", "classes": ["Moderate", "Severe"]},
    ),
}
FOLDS = {"adrenal": 1, "Haxby face/house": 4, "Haxby cat/shoe": 4, "Haxby blocks": 4}


def cell(
    shape: tuple[int, ...],
    share: float,
    snr: float,
    family: str,
    correlation: float = 0.0,
) -> Condition:
    """Return one cell: a family at n = share · P and a signal-to-noise ratio.

    Neighbours along every mode have the `correlation`.
    """
    n = round(share * int(np.prod(shape)))
    size = "×".join(map(str, shape))
    label = f"{family}; {size}, n = {n}, SNR {snr:g}"
    options = {"shape": shape, "n": n, "snr": snr, **FAMILIES[family]}
    if family == "the paper's":  # its noise is part of it
        del options["snr"]
        label = f"{family}; {size}, n = {n}"
    if correlation:
        options["correlation"] = correlation
        label += f", ρ = {correlation:g}"
    return Condition(label, "simulated", options, quick=share < 0.5)


def simulated(repetitions: int) -> list[Experiment]:
    """Return the cells of one shape, spot checks and correlated designs.

    The last two have at most three draws.
    """
    cells = [
        cell(SHAPE, share, snr, family)
        for share in (0.08, 0.2, 0.5)
        for family in FAMILIES
        for snr in ((10.0,) if family == "the paper's" else (10.0, 1.0))
    ]
    spots = [cell(shape, share, 10.0, family) for shape, share, family in SPOTS]
    correlated = [
        cell(SHAPE, share, 10.0, family, correlation)
        for correlation in (0.5, 0.9)
        for share in (0.08, 0.2)
        for family in CORRELATED
    ]
    metrics = ("relative_mse", "estimation_error", "support_f1", "rank_error")
    methods = (*OURS[:2], *PEERS)
    few = min(3, repetitions)
    return [
        Experiment("accuracy", tuple(cells), methods, metrics, repetitions),
        Experiment("accuracy-spots", tuple(spots), methods, metrics, few),
        Experiment("accuracy-correlated", tuple(correlated), methods, metrics, few),
    ]


def timed(repetitions: int, methods: Sequence[str] | None = None) -> list[Experiment]:
    """Return an experiment for each cell that is timed."""
    ours, wide_ones = ("sltr", "sltr_plain"), ("cp_wide", "tucker_wide")
    methods = tuple(methods or (*ours, *RIVALS, *wide_ones))
    everything = [cell for spec in simulated(1) for cell in spec.conditions]
    found = []
    for one in everything:
        if one.label not in TIMED:
            continue
        ranks = candidate_ranks(
            one.options["shape"], largest=DEFAULT.largest_tucker_rank
        )
        wide = {
            "cp_wide": {"ranks": list(range(1, DEFAULT.largest_cp_rank + 1))},
            "tucker_wide": {"candidates": ranks},
        }
        candidates = {name: wide[name] for name in methods if name in wide}
        found.append(
            Experiment(
                "times",
                (one,),
                methods,
                ("relative_mse",),
                repetitions,
                candidates=candidates,
            )
        )
    return found


def maker(name: str, task: str = "r2"):
    """Return a factory: the method's classifier where it has one, tuned on AUROC."""
    if name == "sltr_plain":
        return partial(maker("sltr", task), refine=(None,))
    if name.startswith("sltr_"):
        return partial(maker("sltr", task), rule=name.removeprefix("sltr_"))
    method = METHODS[name.removesuffix("_wide")]
    if task != "auroc" or method.make_classifier is None:
        return method.make_regressor
    if name == "remurs":
        return partial(method.make_classifier, scoring="roc_auc")
    return method.make_classifier


def main() -> None:
    """Run what is asked for and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("simulated", "real", "times", "tables"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--methods", nargs="+", help="leave the others out")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--n-jobs", type=int)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # a peer's budget of iterations is its own affair
    if options.what == "simulated":
        for spec in simulated(options.repetitions or 10):
            if options.quick:
                spec = spec.quick(options.repetitions or 1)
            spec = replace(spec, methods=tuple(options.methods or spec.methods))
            makers = {name: maker(name) for name in spec.methods}
            run(spec, makers, options.out, n_jobs=options.n_jobs, progress=_progress)
    if options.what == "times":
        rows = []
        for spec in timed(options.repetitions or 1, options.methods):
            makers = {name: maker(name) for name in spec.methods}
            if not rows:
                _warm_up(makers)
            rows += run(spec, makers, options.out, progress=_progress)
        print(times(rows))
        return
    if options.what == "real":
        rows = []
        for label, (metric, where) in REAL.items():
            n_folds = FOLDS.get(label, 10)
            spec = Experiment(
                f"real-{label.replace('/', '-').replace(' ', '-')}",
                (Condition(label, "real", where),),
                tuple(options.methods or (*OURS[:1], *PEERS)),
                (metric, "null_mse", "test_share"),
                repetitions=min(n_folds, 5) if options.quick else n_folds,
            )
            makers = {name: maker(name, metric) for name in spec.methods}
            rows += run(
                spec, makers, options.out, n_jobs=options.n_jobs, progress=_progress
            )
        print(real_table(rows))
        return
    for file in sorted(options.out.glob("accuracy*.jsonl")):
        print(tables(read_rows(file)))


def real_table(rows: list[dict]) -> str:
    """Return scores on real data, gains over ridge with their errors, and regrets.

    R² is pooled over all folds: one less the sum of squared errors over that of the
    training means'. Errors of gains are those of Nadeau and Bengio (2003), since folds
    train on the same samples: the variance over J folds times 1/J plus the test samples
    for each training sample.
    """
    cells: Cells = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if not row["error"]:
            cells[row["condition"]][row["method"]].append(row)
    names = [n for n in (*OURS, *PEERS, *SLOWER) if any(n in c for c in cells.values())]
    peers = [name for name in names if name not in OURS]
    gains: dict[str, dict[str, float]] = {"R²": {}, "AUROC": {}}
    regrets: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in (*peers, "best peer")} for kind in gains
    }

    def columns(label: str, found: dict[str, list[dict]]) -> list[str]:
        scores = {name: _fold_scores(found[name]) for name in names if name in found}
        means = {name: values.mean() for name, values in scores.items()}
        cells_ = [f"{means[n]:.3f}" if n in means else "–" for n in names]
        if not {"sltr", "ridge"} <= set(means):
            return [*cells_, "–", "–"]
        kind = "R²" if "mse" in found["sltr"][0]["metrics"] else "AUROC"
        best = max((n for n in peers if n in means), key=lambda n: means[n])
        for name in peers:
            if name in means:
                regrets[kind][name].append(means[name] - means["sltr"])
        regrets[kind]["best peer"].append(means[best] - means["sltr"])
        gain = scores["sltr"] - scores["ridge"]
        share = np.mean([row["metrics"]["test_share"] for row in found["sltr"]])
        spread = gain.std(ddof=1) if len(gain) > 1 else np.nan
        error = spread * np.sqrt(1.0 / len(gain) + share)
        gains[kind][label] = gain.mean() / error if error else np.nan
        return [*cells_, f"{gain.mean():+.3f} ± {error:.3f}", best]

    head = [*names, "SLTR − ridge", "best peer"]
    lines = ["| " + " | ".join(["set", *head]) + " |", "|" + " --- |" * (len(head) + 1)]
    for label, found in cells.items():
        lines.append("| " + " | ".join([label, *columns(label, found)]) + " |")
    for kind, by_name in regrets.items():
        if not by_name["best peer"]:
            continue
        worse = [label for label, z in gains[kind].items() if z < -1]
        better = [label for label, z in gains[kind].items() if z > 2]
        listed = ", ".join(f"{n} {np.mean(v):+.4f}" for n, v in by_name.items() if v)
        lines += [
            "",
            f"{kind}, {len(gains[kind])} sets. Mean regret of SLTR to {listed}.",
            f"Worse than ridge by more than one error: {', '.join(worse) or 'none'}. "
            f"Better by two: {', '.join(better) or 'none'}.",
        ]
    return "\n".join(lines) + "\n"


def _fold_scores(rows: list[dict]) -> np.ndarray:
    """Return AUROC by fold, or by fold 1 − J·loss / Σ losses of the training means."""
    ordered = sorted(rows, key=lambda row: row["repetition"])  # paired over folds
    metrics = [row["metrics"] for row in ordered]
    if "auroc" in metrics[0]:
        return np.array([m["auroc"] for m in metrics])
    null = np.mean([m["null_mse"] for m in metrics])
    return 1.0 - np.array([m["mse"] for m in metrics]) / null


def _warm_up(makers: dict) -> None:
    """Fit every method once: what is loaded at the first fit is not timed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5, 4, 3))
    for make in makers.values():
        make().fit(X, X[:, 0, 0, 0] + 0.1 * rng.normal(size=40))


def _progress(done: int, total: int) -> None:
    print(f"\r{done} of {total}", end="" if done < total else "\n", file=sys.stderr)


Cells = dict[str, dict[str, list[dict]]]


def tables(rows: list[dict]) -> str:
    """Return Markdown tables: a row for each cell, a column for each method."""
    cells: Cells = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if not row["error"]:
            cells[row["condition"]][row["method"]].append(row)
    present = {name for found in cells.values() for name in found}
    names = [name for name in (*OURS, *PEERS, *SLOWER) if name in present]
    extra = ["SLTR / best peer", "time: Remurs, CP, Tucker / SLTR"]
    parts = [_table(cells, [*names, *extra], lambda found: _errors(found, names))]
    metrics = rows[0]["metrics"] if rows else {}
    if "support_f1" in metrics:
        parts.append("Support (F1), and rank error:")
        parts.append(_table(cells, names, lambda found: _structure(found, names)))
    return "\n".join(parts)


def times(rows: list[dict]) -> str:
    """Return a Markdown table of seconds to tune, and of ratios to SLTR's."""
    cells: Cells = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row["condition"]][row["method"]].append(row)
    names = list(next(iter(cells.values())))

    def columns(found: dict[str, list[dict]]) -> list[str]:
        seconds = {n: np.mean([r["fit_seconds"] for r in found[n]]) for n in names}
        own = seconds["sltr"]
        return [
            f"{seconds[n]:.2f}" if n in OURS else f"{seconds[n]:.1f} ({t:.1f}×)"
            for n in names
            for t in [seconds[n] / own]
        ]

    return _table(cells, names, columns)


def _table(cells: Cells, head: list[str], columns) -> str:
    lines = [
        "| " + " | ".join(["cell", *head]) + " |",
        "|" + " --- |" * (len(head) + 1),
    ]
    for label, found in cells.items():
        lines.append("| " + " | ".join([label, *columns(found)]) + " |")
    return "\n".join(lines) + "\n"


def _values(found: dict[str, list[dict]], name: str, metric: str) -> np.ndarray:
    return np.array([row["metrics"][metric] for row in found.get(name, [])], float)


def _structure(found: dict[str, list[dict]], names: list[str]) -> list[str]:
    columns = []
    for name in names:
        f1, ranks = (_values(found, name, m) for m in ("support_f1", "rank_error"))
        known = len(f1) and np.isfinite(f1).all()
        columns.append(f"{f1.mean():.2f}, {ranks.mean():.1f}" if known else "–")
    return columns


def _errors(found: dict[str, list[dict]], names: list[str]) -> list[str]:
    metric = next(iter(next(iter(found.values()))[0]["metrics"]))
    means, columns = {}, []
    for name in names:
        values = _values(found, name, metric)
        if not len(values):
            columns.append("–")
            continue
        means[name] = values.mean()
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        columns.append(f"{means[name]:.3f} ± {error:.3f}")
    peers = {name: value for name, value in means.items() if name not in OURS}
    if "sltr" not in means or not peers:
        return [*columns, "–", "–"]
    lower = metric.endswith("mse")
    best = min(peers, key=peers.get) if lower else max(peers, key=peers.get)
    ratio = means["sltr"] / peers[best] if lower else means["sltr"] - peers[best]
    columns.append(f"{ratio:.2f} ({best})" if lower else f"{ratio:+.3f} ({best})")
    seconds = {n: np.mean([r["fit_seconds"] for r in found[n]]) for n in means}
    ratios = [seconds.get(n, np.nan) / seconds["sltr"] for n in RIVALS]
    columns.append(", ".join(f"{ratio:.1f}×" for ratio in ratios))
    return columns


if __name__ == "__main__":
    main()
