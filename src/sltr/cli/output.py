"""What commands print: data to standard output, all else to standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import rich.progress
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from sltr.parameters import printable
from sltr.persistence import save
from sltr.persistence.values import plain_json
from sltr.samples.labelled import FITTED

Progress = Callable[..., None]

SCORES = {
    "r2": "R²",
    "mse": "MSE",
    "auroc": "AUROC",
    "accuracy": "accuracy",
    "d2": "D²",
}


def say(message: str) -> None:
    """Write a line for people; control characters in it are written out."""
    sys.stderr.write(printable(message) + "\n")


def print_json(value: Any) -> None:
    """Write one JSON document; numbers that JSON lacks become null."""
    text = json.dumps(plain_json(value), ensure_ascii=False, indent=2)
    if printable(text, keep="\n") != text:
        text = json.dumps(plain_json(value), indent=2).replace("\x7f", r"\u007f")
    sys.stdout.write(text + "\n")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Write names and values, one in a line."""
    width = max(map(len, facts))
    for name, value in facts.items():
        sys.stdout.write(printable(f"{name:<{width}}  {_text(value)}") + "\n")


def print_found(facts: Mapping[str, Any], as_json: bool) -> None:
    """Write what was found, for programs or for people."""
    (print_json if as_json else print_facts)(facts)


def print_scores(lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the table of a comparison: scores with standard errors, and times."""
    metrics = [name for name in SCORES if any(name in line for line in lines)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method")
    for name in metrics:
        table.add_column(f"{SCORES[name]} ± se", justify="right")
    table.add_column("tuning and fit, s", justify="right")
    best = _best(lines, metrics)
    for line in lines:
        cells = [_score(line, name) for name in metrics]
        seconds = line["fit_seconds"]
        cells.append("–" if seconds is None else f"{seconds:.2f}")
        table.add_row(line["title"], *cells, style="bold" if line is best else None)
    _stdout().print(table)
    for line in lines:
        if line["error"]:
            say(f"{line['title']}: {line['error']}")


def _stdout() -> Console:
    # A pipe has no width of its own, and a table must not be cut there.
    console = Console(file=sys.stdout)
    return console if console.is_terminal else Console(file=sys.stdout, width=200)


def _best(
    lines: Sequence[Mapping[str, Any]], metrics: list[str]
) -> Mapping[str, Any] | None:
    scored = [line for line in lines if metrics and metrics[0] in line]
    return max(scored, key=lambda line: line[metrics[0]], default=None)


def _score(line: Mapping[str, Any], name: str) -> str:
    if name not in line:
        return "–"
    error = line[f"{name}_se"]
    return f"{line[name]:.3f}" + ("" if error is None else f" ± {error:.3f}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return (" × " if isinstance(value, tuple) else ", ").join(map(_text, value))
    return "–" if value is None else str(value)


PARTS = 10  # of the work: at least one of them between two lines
SECONDS = 10.0  # at least, between two lines


@contextmanager
def progress_bar(text: str, *, quiet: bool) -> Iterator[Progress]:
    """Give a function (done, total, what) that shows how far the work is.

    On a terminal it moves a bar with the time left; elsewhere it writes lines.
    Everything goes to standard error.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda done, total, what="": None
    elif console.is_terminal:
        with _bar(console) as bar:
            task = bar.add_task(printable(text), total=None)

            def move(done: int, total: int, what: str = "") -> None:
                shown = printable(f"{text}: {what}" if what else text)
                bar.update(task, completed=done, total=total, description=shown)

            yield move
    else:
        yield progress_lines(text)


def progress_lines(text: str, clock: Callable[[], float] = monotonic) -> Progress:
    """Return a function that writes what has a name, and else a few lines.

    Lines without a name are a tenth of the work and `SECONDS` apart, or more. It is a
    function, not an object, because estimators copy their parameters.
    """
    start = last_time = clock()
    last_done = 0

    def move(done: int, total: int, what: str = "") -> None:
        nonlocal last_time, last_done
        now = clock()
        if what:
            say(f"{text}: {what} ({done + 1} of {total})")
        elif PARTS * (done - last_done) >= total > 0 and now - last_time >= SECONDS:
            say(f"{text}: {done} of {total}, {now - start:.0f} s")
        else:
            return
        last_time, last_done = now, done

    return move


def _bar(console: Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def write_model(
    model: Any,
    loaded: Any,
    out: Path,
    given: tuple[list[Path], dict[str, Any]],
    json: bool,
) -> None:
    """Save a fitted model, print what was found and name the next command.

    `given` are the files and options that the samples were read with.
    """
    from sltr.tuning.scores import metric_name

    if loaded.response_names is not None:
        model.response_names_ = list(loaded.response_names)
    save(model, out)
    facts: dict[str, Any] = {"model": type(model).__name__, "file": str(out)}
    facts |= {"samples": loaded.X.shape[0], "shape": loaded.X.shape[1:]}
    facts |= _fitted_values(model)
    if "best score" in facts:
        alone = "" if hasattr(model, "cv_results_") else ", leave-one-out"
        facts["scored by"] = metric_name(model) + alone
    facts |= _held_out(model)
    facts["entries that are not zero"] = int((model.coef_ != 0).sum())
    print_found(facts, json)
    say(f"Wrote {out}. Next: {_report_command(out, *given)}")


def _held_out(model: Any) -> dict[str, Any]:
    """Return cross-validated scores of the answer itself, with standard errors."""
    import numpy as np

    facts = {}
    for name, folds in getattr(model, "held_out_scores_", {}).items():
        known = np.asarray(folds, float)[np.isfinite(folds)]
        if len(known):
            known_names = {"roc_auc": "AUROC", "r2": "R²", "d2": "D²"}
            title = known_names.get(name, name.replace("_", " "))
            facts[f"held-out {title}"] = float(known.mean())
            if len(known) > 1:
                error = known.std(ddof=1) / np.sqrt(len(known))
                facts[f"held-out {title}, standard error"] = float(error)
    return facts


def _report_command(out: Path, data: list[Path], options: dict[str, Any]) -> str:
    """Return the command that shows this model, as the shell takes it."""
    words = ["sltr", "report", str(out), *map(str, data[:1])]
    chosen = {name: value for name, value in options.items() if value is not None}
    options_text = [shlex.join((name, str(value))) for name, value in chosen.items()]
    return " ".join([shlex.join(words), *["…"][: len(data) - 1], *options_text])


def _fitted_values(model: Any) -> dict[str, Any]:
    """Return what fitting found or chose, as far as it is a number, word or shape."""
    left_out = {"shape_in_", "n_features_in_", "best_index_", "n_covariates_in_"}
    left_out |= set(FITTED)
    facts: dict[str, Any] = {}
    for name, value in vars(model).items():
        if name == "refine_settings_":
            facts |= _refit(model)
        elif name == "best_params_":
            facts |= {key.replace("_", " "): item for key, item in value.items()}
        elif (
            name.endswith("_")
            and name not in left_out
            and isinstance(value, int | float | str | tuple)
            and not (isinstance(value, tuple) and not value)
            and len(str(value)) < 40
        ):
            facts[name.rstrip("_").replace("_", " ")] = value
    return facts


def _refit(model: Any) -> dict[str, Any]:
    """Return the refit by its settings' names, and how many candidates are averaged."""
    from sltr.tuning.candidates import SETTINGS

    kind = getattr(model, "refine_", model.refine)
    settings = dict(zip(SETTINGS[kind], model.refine_settings_, strict=True))
    if not hasattr(model, "weights_"):
        return settings
    return settings | {"candidates averaged": int((model.weights_ > 0).sum())}
