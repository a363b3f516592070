"""Experiments as data, the one runner, its rows of results, and their metrics."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import tempfile
import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from sltr.comparison import SCORES, Row, fit_tuned
from sltr.core.estimate import estimate
from sltr.core.tensor import numerical_ranks, unfold
from sltr.metrics import error_bound, estimation_error, rank_error, support_f1
from sltr.persistence import installed_version
from sltr.persistence.files import claim, release, write_through
from sltr.persistence.values import plain_json
from sltr.reproduction.data import SOURCES, Trial, draw_trial

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A row of a table: a source of data and its options.

    Parameters
    ----------
    label : str
        What the table calls it.
    source : str
        A key of `sltr.reproduction.data.SOURCES`.
    options : mapping
        What the source takes; anything JSON can hold.
    quick : bool
        Whether the quick version of the experiment has it.
    """

    label: str
    source: str
    options: Options = field(default_factory=dict)
    quick: bool = True


@dataclass(frozen=True)
class Experiment:
    """Every method on every condition, repeated, with the same data for all methods.

    Parameters
    ----------
    name : str
    conditions : tuple of Condition
    methods : tuple of str
        Names in the mapping of methods given to the runner.
    metrics : tuple of str
        Keys of `sltr.reproduction.run.METRICS`.
    repetitions : int
        Drawn anew with seeds that follow from `seed`; for real data the fold.
    seed : int
    candidates : mapping from method to mapping
        Arguments for the method's factory: its grid of hyper-parameters.
    scored_on : {"test", "train"}
        "test": new samples; "train": the samples fitted, as some published tables.
    keep_coef : bool
        Store each fitted coefficient, for figures.

    Examples
    --------
    >>> spec = Experiment(
    ...     "demo",
    ...     conditions=(Condition("6×5", "simulated", {"shape": (6, 5), "n": 30}),),
    ...     methods=("ridge", "null"),
    ...     metrics=("r2",),
    ...     repetitions=3,
    ... )
    >>> len(spec.jobs())
    6
    """

    name: str
    conditions: tuple[Condition, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    repetitions: int = 10
    seed: int = 0
    candidates: Mapping[str, Options] = field(default_factory=dict)
    scored_on: str = "test"
    keep_coef: bool = False

    def quick(self, repetitions: int = 2) -> Experiment:
        """Return the version that takes minutes: fewer repetitions and conditions."""
        return replace(
            self,
            conditions=tuple(c for c in self.conditions if c.quick),
            repetitions=min(repetitions, self.repetitions),
        )

    def jobs(self) -> list[Job]:
        """Return the pieces of work; methods change fastest."""
        return [
            Job(self, condition, repetition, method)
            for condition in self.conditions
            for repetition in range(self.repetitions)
            for method in self.methods
        ]


@dataclass(frozen=True)
class Job:
    """One method on one repetition of one condition: one row of results."""

    experiment: Experiment
    condition: Condition
    repetition: int
    method: str

    def identity(self) -> dict[str, Any]:
        """Return everything the result depends on, ready for JSON."""
        return {
            "experiment": self.experiment.name,
            "condition": self.condition.label,
            "source": self.condition.source,
            "options": dict(self.condition.options),
            "repetition": self.repetition,
            "method": self.method,
            "candidates": dict(self.experiment.candidates.get(self.method, {})),
            "seed": self.experiment.seed,
            "scored_on": self.experiment.scored_on,
        }

    def key(self) -> str:
        """Return a short name of what was asked for, by which done work is known."""
        spec = self.experiment
        content = [self.identity(), sorted(spec.metrics), spec.keep_coef]
        text = json.dumps(content, sort_keys=True, default=_plain)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(value: Any) -> Any:
    """Return arrays and NumPy numbers as JSON can hold them."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def append_row(path: Path, row: Row) -> None:
    """Append a row in one write and wait until it is on the disk.

    A line cut short by a killed run is closed first, so that it spoils nothing but
    itself.
    """
    text = json.dumps(plain_json(row), ensure_ascii=False, allow_nan=False) + "\n"
    with path.open("a+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode())
        os.fsync(file.fileno())


def read_rows(path: str | PathLike[str]) -> list[Row]:
    """Read the rows of a file; none where there is no file.

    Lines that are not whole (a run was killed while it wrote), or are no row, are
    left out. Of several rows with the same key the last counts.
    """
    file = Path(path)
    if not file.exists():
        return []
    rows: dict[str, Row] = {}
    # Not splitlines, which would cut texts at Unicode's other line separators.
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict) and isinstance(row.get("key"), str):
            rows.pop(row["key"], None)
            rows[row["key"]] = row
    return list(rows.values())


def markdown_table(rows: list[Row], metric: str, *, digits: int = 3) -> str:
    """Return a table: conditions down, methods across, mean ± standard error.

    Conditions and methods come in the order of the rows; failures are counted in
    their cell.

    Examples
    --------
    >>> row = {"condition": "a", "method": "null", "error": None}
    >>> rows = [row | {"metrics": {"mse": value}} for value in (1.0, 3.0)]
    >>> print(markdown_table(rows, "mse", digits=1))
    | mse | null |
    | --- | --- |
    | a | 2.0 ± 1.0 |
    """
    conditions = list(dict.fromkeys(row["condition"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [[metric, *methods], ["---"] * (len(methods) + 1)]
    for condition in conditions:
        cells = [
            [r for r in rows if r["condition"] == condition and r["method"] == m]
            for m in methods
        ]
        lines.append([condition, *(_cell(cell, metric, digits) for cell in cells)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(rows: list[Row], metric: str, digits: int) -> str:
    values = [row["metrics"].get(metric) for row in rows if not row["error"]]
    failed = sum(bool(row["error"]) for row in rows)
    note = f" ({failed} failed)" if failed else ""
    known = mean_and_error(values)
    if known is None:
        return f"–{note}"
    mean, error, number = known
    spread = f" ± {error:.{digits}f}" if number > 1 else ""
    return f"{mean:.{digits}f}{spread}{note}"


def mean_and_error(values: Sequence[float | None]) -> tuple[float, float, int] | None:
    """Return mean, standard error and number of the values that are there, if any."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    variance = math.fsum((v - mean) ** 2 for v in known) / max(len(known) - 1, 1)
    return mean, math.sqrt(variance / len(known)), len(known)


Methods = Mapping[str, Callable[..., Any]]

WAIT = 0.5  # seconds until it is looked again whether other runs are done
# What a row needs to be in a table.
FIELDS = {
    *("experiment", "condition", "options", "repetition", "method", "seed"),
    *("metrics", "error", "fit_seconds", "n_candidates", "versions", "finished"),
}


def run(
    experiment: Experiment,
    methods: Methods,
    folder: str | PathLike[str],
    *,
    n_jobs: int | None = None,
    retry: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> list[Row]:
    """Run what is not done yet of an experiment, and return all its rows.

    Each result is appended to ``<folder>/<name>.jsonl`` as soon as it is there: a run
    that was killed continues where it stopped and repeats nothing but the work it
    was killed in. Several runs may share a folder, and with it the work: each result
    is computed by one of them, and all wait for the last. A method that fails leaves
    a row with the error, and the rest goes on.

    Parameters
    ----------
    experiment : Experiment
    methods : mapping from name to callable
        Each returns an estimator that is not fitted and tunes itself; called with
        the experiment's candidates for it as keyword arguments. Where the data
        have groups, a number of folds ``cv`` becomes as many folds of whole groups,
        and they choose a ridge penalty that leave-one-out would choose.
    folder : path
        Made if it is not there.
    n_jobs : int, optional
        Results computed at the same time, as in joblib. More than one makes the
        timings less sure.
    retry : bool
        Run again what failed before.
    progress : callable, optional
        Called as ``progress(done, total)``; what was done before counts.

    Returns
    -------
    list of dict
        Rows in the order of the experiment, with `key`, what was run (`experiment`,
        `condition`, `source`, `options`, `repetition`, `method`, `candidates`, `seed`,
        `scored_on`), `metrics`, `error`, `fit_seconds`, `n_candidates`, `versions`
        and `finished`.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.dummy import DummyRegressor
    >>> from sltr.reproduction import Condition, Experiment
    >>> data = Condition("4×3", "simulated", {"shape": (4, 3), "n": 20, "n_test": 9})
    >>> spec = Experiment("demo", (data,), ("null",), ("relative_mse",), repetitions=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(spec, {"null": DummyRegressor}, folder)
    >>> [row["metrics"] for row in rows]
    [{'relative_mse': 1.0}, {'relative_mse': 1.0}]
    """
    _check_names(experiment, methods)
    report = progress or (lambda done, total: None)
    target = make_folder(folder)
    file = target / f"{experiment.name}.jsonl"
    jobs = {job.key(): job for job in experiment.jobs()}
    order = {key: place for place, key in enumerate(jobs)}
    rows = _results(file, order)
    failed = {row["key"]: row for row in rows if retry and row["error"]}
    done = {row["key"] for row in rows} - set(failed)
    report(len(done), len(jobs))
    workers = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    while remaining := {key: job for key, job in jobs.items() if key not in done}:
        calls = (
            delayed(_do)(job, methods[job.method], file, failed.get(key))
            for key, job in remaining.items()
        )
        for key in filter(None, workers(calls)):
            done.add(key)
            report(len(done), len(jobs))
        if not done & remaining.keys():
            sleep(WAIT)  # other runs are at all that is left
    return sorted(_results(file, order), key=lambda row: order[row["key"]])


def _do(job: Job, method: Callable[..., Any], file: Path, failed: Row | None) -> str:
    """Append the row of a job, unless another run has; return its key.

    Returns an empty text if another run is at it. A row that is `failed` is no
    result.
    """
    key = job.key()
    place = file.with_name(f".{key}.claim")
    try:
        held = claim(place)
        if held is None:
            return ""
    except OSError:  # without locks, runs at the same time do the work twice
        held = None
    try:
        if _results(file, (key,)) in ([], [failed]):
            append_row(file, _result(job, method, file.parent))
    finally:
        release(place, held)
    return key


def _results(file: Path, wanted: Container[str]) -> list[Row]:
    """Return the rows of these keys; what is no whole result counts as not done."""
    rows = read_rows(file)
    return [row for row in rows if row["key"] in wanted and row.keys() >= FIELDS]


def _result(job: Job, method: Callable[..., Any], folder: Path) -> Row:
    """Return the row of one job; errors of the method become part of it."""
    spec, condition = job.experiment, job.condition
    row: Row = {"key": job.key(), **job.identity()}
    row |= {"metrics": {}, "error": None, "fit_seconds": None, "n_candidates": None}
    try:
        trial = draw_trial(
            condition.source, condition.options, job.repetition, spec.seed
        )
        model = method(**spec.candidates.get(job.method, {}))
        labels = np.issubdtype(trial.y.dtype, np.integer)
        start = perf_counter()
        model = fit_tuned(model, trial.X, trial.y, groups=trial.groups, labels=labels)
        row["fit_seconds"] = perf_counter() - start
        row["metrics"] = score_model(model, trial, spec.metrics, spec.scored_on)
        row["n_candidates"] = _n_candidates(model)
        coef = fitted_coef(model)
        if spec.keep_coef and coef is not None:
            _store_coef(folder / "coef" / f"{row['key']}.npy", coef)
    except Exception:
        row["error"] = traceback.format_exc(limit=-3)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return row | {"versions": _versions(), "finished": finished}


def _n_candidates(model: Any) -> int | None:
    table = getattr(model, "cv_results_", None)
    return len(table["params"]) if table and "params" in table else None


def _store_coef(path: Path, coef: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    array = np.asarray(coef)
    write_through(path, lambda file: np.save(file, array, allow_pickle=False))


def _versions() -> dict[str, str]:
    names = ("sltr", "numpy", "scipy", "scikit-learn", "joblib")
    installed = {name: installed_version(name) or "not installed" for name in names}
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    return machine | installed


def _check_names(experiment: Experiment, methods: Methods) -> None:
    sources = [condition.source for condition in experiment.conditions]
    for kind, names, there in (
        ("methods", experiment.methods, methods),
        ("metrics", experiment.metrics, METRICS),
        ("sources", sources, SOURCES),
        ("candidates", experiment.candidates, experiment.methods),
    ):
        absent = [name for name in names if name not in there]
        if absent:
            msg = (
                f"The experiment {experiment.name!r} names the {kind} {absent}; "
                f"expected some of {sorted(there)}."
            )
            raise ValueError(msg)


def make_folder(folder: str | PathLike[str]) -> Path:
    """Return the folder, made and found writable, or say that it is not."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target):
            pass
    except OSError as error:
        msg = f"folder={str(folder)!r} cannot take results: {error}. Choose another."
        raise ValueError(msg) from error
    return target


Metric = Callable[[Any, np.ndarray, np.ndarray, Trial], float]


def score_model(
    model: Any, trial: Trial, metrics: tuple[str, ...], scored_on: str
) -> dict[str, float]:
    """Return the metrics of a fitted model on the test or the training samples."""
    if scored_on not in ("test", "train"):
        msg = f"scored_on={scored_on!r} was given; expected 'test' or 'train'."
        raise ValueError(msg)
    test = scored_on == "test"
    X, y = (trial.X_test, trial.y_test) if test else (trial.X, trial.y)
    return {name: float(METRICS[name](model, X, y, trial)) for name in metrics}


def fitted_coef(model: Any) -> np.ndarray | None:
    """Return the coefficient of a model, or of the best one a search found."""
    return getattr(getattr(model, "best_estimator_", model), "coef_", None)


def _relative_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Mean squared error over that of the training mean: the null model has 1."""
    return SCORES["mse"](model, X, y) / _null_mse(model, X, y, trial)


def _null_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Mean squared error of the training mean."""
    return float(np.mean((y - np.mean(trial.y)) ** 2))


def _test_share(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Return the samples tested on for each one trained on."""
    return len(y) / len(trial.y)


def _released_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """‖ŷ − y‖₂ / n: what the code released with the paper reports as its MSE.

    Over the samples the model names in `scored_rows_`, else over all.
    """
    rows = getattr(model, "scored_rows_", slice(None))
    return float(np.linalg.norm(model.predict(X[rows]) - y[rows])) / len(y[rows])


def _of_samples(
    score: Callable[[Any, np.ndarray, np.ndarray], float],
) -> Metric:
    """Return a score of predictions as a metric."""
    return lambda model, X, y, trial: score(model, X, y)


def _of_truth(
    measure: Callable[[np.ndarray, np.ndarray], float],
) -> Metric:
    """Return a metric of Ŵ and W; not a number where W or Ŵ is not known."""

    def metric(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
        coef = fitted_coef(model)
        if trial.coef is None or coef is None:
            return float("nan")
        return measure(np.reshape(coef, trial.coef.shape), trial.coef)

    return metric


def _theorem_error(pilot: np.ndarray, truth: np.ndarray) -> float:
    """‖Ŵ − W‖_F / ‖W‖_F for SLTR from this pilot, with the least radii admitting W."""
    if not pilot.any():
        return float("nan")
    coef = estimate(pilot, *_theorem_radii(pilot, truth)).coef
    return estimation_error(coef, truth)


def _theorem_bound(pilot: np.ndarray, truth: np.ndarray) -> float:
    """Return the corollary's bound on `_theorem_error`."""
    if not pilot.any():
        return float("nan")
    ranks = [int(rank) for rank in numerical_ranks(truth)]
    bound = error_bound(truth.shape, *_theorem_radii(pilot, truth), ranks)
    return bound / float(np.linalg.norm(truth))


def _theorem_radii(pilot: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return ‖W̃ − W‖_∞ and the largest ‖(W̃ − W)_(m)‖₂: the theorem needs these."""
    difference = (pilot - truth)[None]
    norms = [np.linalg.norm(unfold(difference, m)[0], 2) for m in range(truth.ndim)]
    return float(np.abs(difference).max()), float(max(norms))


METRICS: dict[str, Metric] = {
    **{name: _of_samples(score) for name, score in SCORES.items()},
    "relative_mse": _relative_mse,
    "null_mse": _null_mse,
    "test_share": _test_share,
    "released_mse": _released_mse,
    "estimation_error": _of_truth(estimation_error),
    "support_f1": _of_truth(support_f1),
    "rank_error": _of_truth(rank_error),
    "theorem_error": _of_truth(_theorem_error),
    "theorem_bound": _of_truth(_theorem_bound),
}
