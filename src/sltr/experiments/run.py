"""One runner for any experiment."""

from __future__ import annotations

import platform
import tempfile
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from sltr.experiments.rows import Row, append_row, read_rows
from sltr.experiments.scores import METRICS, fitted_coef, score_model
from sltr.experiments.spec import Experiment, Job
from sltr.experiments.trials import SOURCES, Trial, draw_trial
from sltr.experiments.tuned import fit_with_groups
from sltr.persistence.files import write_atomically

__all__ = ["fit_on", "make_folder", "run"]

Methods = Mapping[str, Callable[..., Any]]

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
    was killed in. A method that fails leaves a row with the error, and the rest
    goes on.

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
    >>> from sltr.experiments import Condition, Experiment
    >>> data = Condition("4×3", "simulated", {"shape": (4, 3), "n": 20, "n_test": 9})
    >>> spec = Experiment("demo", (data,), ("null",), ("relative_mse",), repetitions=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(spec, {"null": DummyRegressor}, folder)
    >>> [row["metrics"] for row in rows]
    [{'relative_mse': 1.0}, {'relative_mse': 1.0}]
    """
    jobs = experiment.jobs()
    _check_names(experiment, methods)
    target = make_folder(folder)
    file = target / f"{experiment.name}.jsonl"
    wanted = {job.key(): place for place, job in enumerate(jobs)}
    before = _results(file, wanted)
    done = {row["key"] for row in before if not (retry and row["error"])}
    left = [job for job in jobs if job.key() not in done]
    workers = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    n_done = len(jobs) - len(left)
    _report(progress, n_done, len(jobs))
    for row in workers(
        delayed(_result)(job, methods[job.method], target) for job in left
    ):
        append_row(file, row)
        n_done += 1
        _report(progress, n_done, len(jobs))
    return sorted(_results(file, wanted), key=lambda row: wanted[row["key"]])


def _results(file: Path, wanted: Mapping[str, int]) -> list[Row]:
    """Return the rows of these keys; what is no whole result counts as not done."""
    rows = read_rows(file)
    return [row for row in rows if row["key"] in wanted and row.keys() >= FIELDS]


def _result(job: Job, method: Callable[..., Any], folder: Path) -> Row:
    """Return the row of one job; errors of the method become part of it."""
    row: Row = {"key": job.key(), **job.identity()}
    row |= {"metrics": {}, "error": None, "fit_seconds": None, "n_candidates": None}
    try:
        trial = draw_trial(
            job.condition.source, job.condition.options, job.repetition, job.seed
        )
        model = method(**job.candidates)
        start = perf_counter()
        model = fit_on(model, trial)
        row["fit_seconds"] = perf_counter() - start
        row["metrics"] = score_model(model, trial, job.metrics, job.scored_on)
        row["n_candidates"] = _n_candidates(model)
        coef = fitted_coef(model)
        if job.keep_coef and coef is not None:
            _store_coef(folder / "coef" / f"{row['key']}.npy", coef)
    except Exception:
        row["error"] = traceback.format_exc(limit=-3)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return row | {"versions": _versions(), "finished": finished}


def fit_on(model: Any, trial: Trial) -> Any:
    """Fit a model to the training samples of a trial.

    Tuning keeps samples of a group on one side, as the outer split does.
    """
    if trial.groups is None:
        return model.fit(trial.X, trial.y)
    return fit_with_groups(model, trial.X, trial.y, trial.groups)


def _n_candidates(model: Any) -> int | None:
    table = getattr(model, "cv_results_", None)
    return len(table["params"]) if table and "params" in table else None


def _store_coef(path: Path, coef: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    content = BytesIO()
    np.save(content, np.asarray(coef), allow_pickle=False)
    write_atomically(path, content.getvalue())


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("sltr", "numpy", "scipy", "scikit-learn", "joblib"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


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


def _report(
    progress: Callable[[int, int], object] | None, done: int, total: int
) -> None:
    if progress is not None:
        progress(done, total)
