"""AUROC and calibration of labels: logistic refits and other ways to average.

    python benchmarks/labels.py simulated [--draws 5] [--out results]
    python benchmarks/labels.py real [--pairs] …        (needs SLTR_DATA)
    python benchmarks/labels.py tables [--out results]

All candidates of SLTRClassifierCV are fitted once for each trial, on the inner
folds and on all training samples; ways to combine them are compared on the same
held-out predictions. Tables give AUROC, log-loss and Brier score of the test
samples for `rule="vote"`, the default, and the others' mean difference from it,
with its standard error over trials. `--pairs` adds all other pairs of Haxby's
classes. A killed run goes on where it stopped.

Ways: "average" and "best" are `rule`s; "…, AUROC" are tuned on `scoring="roc_auc"`,
"folds" takes those within one standard error of AUROC over folds as members; "stack"
weighs the kinds of refinement by non-negative ridge regression of the labels on their
held-out scores, "logistic stack" by logistic regression, "moved" by a ridge about
the average's own weights; "core" is the best Tucker refit with its core fitted anew,
by either loss, at the ridge that is best on the test samples; "IRLS" fits everything
anew to the working responses and weights of the held-out log-odds.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from accuracy import FAMILIES, REAL, SHAPE
from scipy.optimize import minimize, nnls
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from sltr import (
    SLTRClassifierCV,
    SLTRRegressorCV,
    TensorLassoCV,
    TensorRidge,
)
from sltr.comparison import Trial
from sltr.core.tensor import flatten, mode_product, unfold
from sltr.datasets import make_tensor_classification
from sltr.estimators.labels import fit_sigmoids, label_indicators
from sltr.reproduction.data import draw_trial
from sltr.samples.check import check_samples
from sltr.tuning.candidates import REFINEMENTS, Candidate, grid_epsilons, grid_pairs
from sltr.tuning.choose import close_to, shares_by_kind, votes
from sltr.tuning.final import Member, all_of, fit_subsets
from sltr.tuning.fits import refit_coefs
from sltr.tuning.held_out import scale_factors
from sltr.tuning.scores import fold_scores
from sltr.tuning.search import held_out_predictions
from sltr.tuning.task import Fold, Task, fitting_task

CLASSES = (
    "house",
    "scrambledpix",
    "cat",
    "shoe",
    "bottle",
    "scissors",
    "chair",
    "face",
)
BASE = "vote"  # the way that others are compared with
CORE_RIDGES = (1.0, 10.0, 100.0, 1000.0)
STACK_RIDGE = 0.1  # relative to the scores' energy
Folds = list[tuple[np.ndarray, np.ndarray]]


class Candidates:
    """All candidates' scores of one trial: held-out ones, and of the test samples."""

    def __init__(self, trial: Trial, folds: Folds):
        model = SLTRClassifierCV()
        samples = check_samples(model, trial.X, trial.y, labels=True)
        classes, indicators = label_indicators(samples.y)
        task = fitting_task(model, samples, indicators)
        parts = [Fold.of(task, *pair) for pair in folds]
        held = held_out_predictions(
            task,
            parts,
            grid_epsilons(model, task),
            grid_pairs(model),
            REFINEMENTS,
            weigh=True,
        )
        n = len(trial.y)
        self.kinds = [candidate.refine for candidate in held.candidates]
        self.y, self.y_test = task.Y[:, 0], (trial.y_test == classes[-1]).astype(float)
        self.folds = [test for _, test in folds]
        self.mean = np.empty(n)
        for fold in parts:
            self.mean[fold.rows] = fold.y_mean[0]
        self.scores = np.empty((n, len(self.kinds)))  # as the answer has them
        self.judged = np.empty_like(self.scores)  # factors without the fold itself
        self.test = _test_scores(task, held.candidates, trial)
        targets = [task.Y[f.rows] - f.y_mean for f in parts]
        weights = [np.ones(len(f.rows)) for f in parts]
        for g, kind in enumerate(self.kinds):
            given = (held.values[g], targets, weights)
            factor = scale_factors(*given)[0] if kind == "scale" else 1.0
            self.test[:, g] *= factor
            for f, test in enumerate(self.folds):
                without = [[v for i, v in enumerate(p) if i != f] for p in given]
                own = scale_factors(*without)[0] if kind == "scale" else 1.0
                self.scores[test, g] = factor * held.values[g][f][:, 0]
                self.judged[test, g] = own * held.values[g][f][:, 0]

    @property
    def losses(self) -> np.ndarray:
        """Squared errors of held-out scores, (n, C)."""
        return (self.judged + (self.mean - self.y)[:, None]) ** 2

    def table(self, scoring: str) -> np.ndarray:
        """Scores by fold, (F, C)."""
        found = self.judged + self.mean[:, None]
        return np.array(
            [fold_scores(scoring, self.y[test], found[test]) for test in self.folds]
        )

    def answer(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Held-out and test scores of a weighted sum of candidates."""
        return self.scores @ shares + self.mean, self.test @ shares + self.y.mean()


def _test_scores(task: Task, candidates: list[Candidate], trial: Trial) -> np.ndarray:
    """Centred scores of the test samples, each candidate fitted on all others."""
    everyone = all_of(task.samples)
    coefs = refit_coefs(task, everyone, candidates)
    columns = []
    for candidate in candidates:
        if candidate not in coefs:  # scaled ones are scaled later
            plain = Member(replace(candidate, refine=None))
            coefs[candidate] = fit_subsets(task, everyone, [plain]).coef
        columns.append(flatten(coefs[candidate][0])[0])
    centred = flatten(trial.X_test - trial.X.mean(axis=0))
    return centred @ np.stack(columns, axis=1)


def best(c: Candidates, scoring: str = "r2") -> np.ndarray:
    """Shares of `rule="best"`."""
    return np.eye(len(c.kinds))[c.table(scoring).mean(axis=0).argmax()]


def vote(c: Candidates, scoring: str = "r2") -> np.ndarray:
    """Shares of `rule="vote"`."""
    index = int(best(c, scoring).argmax())
    n = len(c.y)
    overlap = sum(len(test) / (n - len(test)) for test in c.folds)
    return shares_by_kind(c.kinds, votes(index, c.losses, np.ones(n), overlap))


def average(c: Candidates, scoring: str = "r2") -> np.ndarray:
    """Shares of `rule="average"`."""
    index = int(best(c, scoring).argmax())
    return shares_by_kind(c.kinds, close_to(index, c.losses, np.ones(len(c.y))))


def average_by_folds(c: Candidates) -> np.ndarray:
    """Shares of the candidates whose AUROC over folds is that of the best."""
    table = c.table("roc_auc")
    gap = table[:, [int(table.mean(axis=0).argmax())]] - table
    error = gap.std(axis=0, ddof=1) / np.sqrt(len(table))
    return shares_by_kind(c.kinds, gap.mean(axis=0) <= error)


def kind_shares(c: Candidates) -> np.ndarray:
    """Shares within each kind, of those close to its own best: (C, kinds)."""
    mean, columns = c.table("r2").mean(axis=0), []
    for kind in dict.fromkeys(c.kinds):
        own = np.flatnonzero([k == kind for k in c.kinds])
        close = close_to(int(mean[own].argmax()), c.losses[:, own], np.ones(len(c.y)))
        shares = np.zeros(len(c.kinds))
        shares[own[close]] = 1.0 / close.sum()
        columns.append(shares)
    return np.array(columns).T


def stack(c: Candidates, logistic: bool) -> np.ndarray:
    """Shares by non-negative ridge or logistic regression on the kinds' scores."""
    inside, _ = _of_unit_size(c, kind_shares(c))
    Z, penalty = c.scores @ inside, STACK_RIDGE * len(c.y)
    if logistic:  # at even odds its curvature is a quarter of the squares'
        weights = _nonnegative_logistic(Z, c.y, 0.25 * penalty)
    else:
        weights = _nonnegative_ridge(Z, c.y - c.mean, penalty, np.zeros(Z.shape[1]))
    return inside @ weights if weights.any() else average(c)


def moved_average(c: Candidates) -> np.ndarray:
    """Shares of the average, its kinds' moved by ridge regression that prefers them."""
    start, inside = average(c), kind_shares(c)
    kinds = list(dict.fromkeys(c.kinds))
    member = np.array([[own == kind for kind in kinds] for own in c.kinds])
    votes = start @ member
    inside = np.where(
        votes > 0, start[:, None] * member / np.maximum(votes, 1e-12), inside
    )
    inside, sizes = _of_unit_size(c, inside)
    votes = votes[sizes > 0] * sizes[sizes > 0]
    moved = _nonnegative_ridge(c.scores @ inside, c.y - c.mean, len(c.y), votes)
    return inside @ moved if moved.any() else start


def _of_unit_size(c: Candidates, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares whose scores have unit mean square, and sizes before; 0 was left out."""
    sizes = np.sqrt(np.mean((c.scores @ shares) ** 2, axis=0))
    sizes = np.where(sizes > 1e-10, sizes, 0.0)
    return shares[:, sizes > 0] / sizes[sizes > 0], sizes


def _nonnegative_ridge(
    Z: np.ndarray, target: np.ndarray, penalty: float, start: np.ndarray
) -> np.ndarray:
    """Minimise ‖target − Z·v‖² + penalty · ‖v − start‖² over v ≥ 0."""
    root = np.sqrt(penalty)
    rows = np.concatenate([Z, root * np.eye(Z.shape[1])])
    return nnls(rows, np.concatenate([target, root * start]))[0]


def _nonnegative_logistic(Z: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        odds, weights = Z @ v[:-1] + v[-1], np.append(v[:-1], 0.0)
        slope = expit(odds) - y
        value = np.sum(np.logaddexp(0.0, odds) - y * odds)
        gradient = np.append(Z.T @ slope, slope.sum())
        return value + 0.5 * penalty * weights @ weights, gradient + penalty * weights

    bounds = [(0.0, None)] * Z.shape[1] + [(None, None)]
    return minimize(loss, np.zeros(Z.shape[1] + 1), jac=True, bounds=bounds).x[:-1]


def core_refits(trial: Trial, folds: Folds, y: np.ndarray) -> dict[str, list]:
    """Test scores of the best Tucker refit, and of its core fitted anew."""
    model = SLTRClassifierCV(refine=["tucker"], rule="best", cv=folds)
    coef = model.fit(trial.X, trial.y).coef_
    mean = trial.X.mean(axis=0)
    features = []
    for X in (trial.X, trial.X_test):
        core = X - mean
        for mode in range(coef.ndim):
            factor = np.linalg.svd(unfold(coef[None], mode)[0])[0]
            leading = factor[:, : max(1, model.ranks_[mode])]
            core = mode_product(core, leading.T, mode)
        features.append(flatten(core))
    size = np.sqrt(np.mean(features[0] ** 2)) or 1.0
    Z, Z_test = (part / size for part in features)
    fits = {
        "core, logistic": [
            LogisticRegression(C=1.0 / ridge, max_iter=1000).fit(Z, y).coef_[0]
            for ridge in CORE_RIDGES
        ],
        "core, squares": [Ridge(4.0 * r).fit(Z, y).coef_ for r in CORE_RIDGES],
    }
    found = {name: [Z_test @ v for v in each] for name, each in fits.items()}
    return {
        "Tucker": [(trial.X_test - mean).reshape(len(Z_test), -1) @ coef.ravel()]
    } | found


def irls(trial: Trial, folds: Folds, c: Candidates) -> np.ndarray:
    """Test scores of SLTR fitted to the labels' working responses and weights."""
    held = c.answer(vote(c))[0]
    odds = np.empty(len(c.y))
    for train, test in folds:
        odds[test] = _log_odds(held[train], c.y[train], held[test])
    odds = np.clip(odds, -4.0, 4.0)
    share = expit(odds)
    weight = share * (1.0 - share)
    model = SLTRRegressorCV(cv=folds)
    model.fit(trial.X, odds + (c.y - share) / weight, weight / weight.mean())
    return model.predict(trial.X_test)


def _log_odds(held: np.ndarray, y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    slope, offset = fit_sigmoids(held[:, None], y[:, None], np.ones(len(y)))[0]
    return slope * scores + offset


def quality(y: np.ndarray, odds: np.ndarray) -> list[float]:
    """AUROC, log-loss and Brier score of log-odds."""
    loss = np.mean(np.logaddexp(0.0, odds) - y * odds)
    return [roc_auc_score(y, odds), loss, np.mean((expit(odds) - y) ** 2)]


def peers(trial: Trial, folds: Folds, y: np.ndarray, y_test: np.ndarray) -> dict:
    """Null, ridge and Lasso with the same calibration; logistic with either norm."""
    mean = trial.X.mean(axis=0)
    size = (trial.X - mean).std()
    X, X_test = (
        (flatten(part) - mean.ravel()) / size for part in (trial.X, trial.X_test)
    )
    found = {"null": [0.5, *quality(y_test, _constant(y, y_test))[1:]]}
    makers = {
        "ridge": lambda rows: TensorRidge(),
        "Lasso": lambda rows: TensorLassoCV(cv=_inner(trial, rows)),
    }
    for name, make in makers.items():
        held = np.empty(len(y))
        for train, test in folds:
            held[test] = make(train).fit(X[train], y[train]).predict(X[test])
        scores = make(np.arange(len(y))).fit(X, y).predict(X_test)
        found[name] = quality(y_test, _log_odds(held, y, scores))
    left, values, right = np.linalg.svd(X, full_matrices=False)  # the L2 norm stays
    settings = {"cv": folds, "scoring": "neg_log_loss"}
    dense = LogisticRegressionCV(Cs=np.logspace(-6, 1, 15), max_iter=2000, **settings)
    odds = dense.fit(left * values, y).decision_function(X_test @ right.T)
    found["logistic, L2"] = quality(y_test, odds)
    sparse = LogisticRegressionCV(
        Cs=np.logspace(-2.5, 1, 8),
        l1_ratios=(1,),
        solver="liblinear",
        tol=1e-3,
        intercept_scaling=10.0,
        **settings,
    )
    found["logistic, L1"] = quality(y_test, sparse.fit(X, y).decision_function(X_test))
    return found


def _constant(y: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.full(len(like), np.log(y.mean() / (1.0 - y.mean())))


def _inner(trial: Trial, rows: np.ndarray) -> Folds:
    """Folds of some training samples; groups stay together."""
    y = trial.y[rows]
    if trial.groups is None:
        return list(StratifiedKFold(5).split(y, y))
    groups = trial.groups[rows]
    n_folds = max(2, min(5, len(np.unique(groups))))
    return list(StratifiedGroupKFold(n_folds).split(y, y, groups))


def compare(trial: Trial, with_peers: bool) -> dict[str, list[float]]:
    """Return the qualities of all ways for one trial."""
    folds = _inner(trial, np.arange(len(trial.y)))
    c = Candidates(trial, folds)
    shares = {
        "vote": vote(c),
        "vote, AUROC": vote(c, "roc_auc"),
        "average": average(c),
        "best": best(c),
        "average, AUROC": average(c, "roc_auc"),
        "best, AUROC": best(c, "roc_auc"),
        "average, AUROC by folds": average_by_folds(c),
        "stack": stack(c, logistic=False),
        "logistic stack": stack(c, logistic=True),
        "average, moved": moved_average(c),
    }
    found = {}
    for name, each in shares.items():
        held, test = c.answer(each)
        found[name] = quality(c.y_test, _log_odds(held, c.y, test))
    found["IRLS"] = [roc_auc_score(c.y_test, irls(trial, folds, c)), np.nan, np.nan]
    for name, each in core_refits(trial, folds, c.y).items():
        top = max(roc_auc_score(c.y_test, scores) for scores in each)
        found[name] = [top, np.nan, np.nan]
    if with_peers:
        found |= peers(trial, folds, c.y, c.y_test)
    return found


def simulated(draws: int):
    """Yield (row name, repetition, trial) of every family, size and noise."""
    for repetition in range(draws):
        for n in (164, 410):
            for strength in (5.0, 2.0):
                for family, options in FAMILIES.items():
                    if family == "the paper's":  # that of "sparse, 20 %"
                        continue
                    rng = np.random.default_rng([0, repetition])
                    data = make_tensor_classification(
                        SHAPE,
                        n + 1000,
                        strength=strength,
                        random_state=rng,
                        **options,
                    )
                    X, y = data.X, data.y
                    trial = Trial(X[:n], y[:n], X[n:], y[n:], coef=data.coef)
                    name = f"n = {n}, log-odds {strength:g}; {family}"
                    yield name, repetition, trial


def real(pairs: bool):
    """Yield the same for real sets; the first folds are those of `accuracy.py`."""
    sets = {name: where for name, (metric, where) in REAL.items() if metric == "auroc"}
    n_folds = dict.fromkeys(sets, 4) | {"EEG": 20, "adrenal": 1}
    if pairs:
        known = [set(where.get("classes", ())) for where in sets.values()]
        for pair in combinations(CLASSES, 2):
            if set(pair) not in known:
                label = f"other Haxby pairs; {'/'.join(pair)}"
                sets[label] = {"name": "haxby_slice", "classes": list(pair)}
    for label, where in sets.items():
        for repetition in range(n_folds.get(label, 4)):
            yield label, repetition, draw_trial("real", where, repetition, 0)


def tables(rows: list[dict]) -> str:
    """Return Markdown tables, one for each quality: a column for each group of sets."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["set"].split(";")[0]].append(row["found"])
    ways = list(dict.fromkeys(way for row in rows for way in row["found"]))
    parts = []
    for place, quality_name in enumerate(("AUROC", "log-loss", "Brier score")):
        sizes = [f"{name} ({len(each)} trials)" for name, each in groups.items()]
        lines = ["| " + " | ".join([quality_name, *sizes]) + " |"]
        lines.append("|" + " --- |" * (len(groups) + 1))
        for way in ways:
            cells = [_cell(each, way, place) for each in groups.values()]
            if any(cells):
                lines.append("| " + " | ".join([way, *cells]) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(each: list[dict], way: str, place: int) -> str:
    pairs = [(row[way][place], row[BASE][place]) for row in each if way in row]
    values, base = np.array(pairs, float).reshape(-1, 2).T
    if not len(values) or np.isnan(values).all():
        return ""
    gap = values if way == BASE else values - base
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
    sign = "" if way == BASE else "+"
    return f"{gap.mean():{sign}.4f} ± {error:.4f}"


def main() -> None:
    """Run what is asked for and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("simulated", "real", "tables"))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # a peer's budget of iterations is its own affair
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "labels.jsonl"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    done = {(row["set"], row["repetition"]) for row in rows}
    trials = {
        "simulated": lambda: simulated(options.draws),
        "real": lambda: real(options.pairs),
        "tables": lambda: (),
    }
    for name, repetition, trial in trials[options.what]():
        if (name, repetition) in done:
            continue
        found = compare(trial, not options.no_peers)
        rows.append({"set": name, "repetition": repetition, "found": found})
        with file.open("a", encoding="utf-8") as target:
            target.write(json.dumps(rows[-1]) + "\n")
    print(tables(rows))


if __name__ == "__main__":
    main()
