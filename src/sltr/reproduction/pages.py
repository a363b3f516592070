"""Rows of a study as a page: what was run, one table, its figures, its failures.

Apart from `reproduce` because it fits nothing: rows of any run can be drawn again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sltr.persistence.files import write_through
from sltr.reproduction.data import draw_trial
from sltr.reproduction.methods import TITLES
from sltr.reproduction.run import Row, mean_and_error
from sltr.reproduction.studies import Column, Study

Cell = tuple[float, float, int]


def cell(
    rows: Sequence[Row], column: Column, condition: str, method: str
) -> Cell | None:
    """Return mean, standard error and number of the values of a cell, if any."""
    values = [
        row["metrics"].get(column.metric, row.get(column.metric))
        for row in rows
        if row["experiment"] in column.experiments
        and row["condition"] == condition
        and row["method"] == method
        and not row["error"]
    ]
    return mean_and_error(values)


def study_table(study: Study, rows: Sequence[Row]) -> str:
    """Return the Markdown table: a line for each condition and method.

    Published numbers come first, then the columns of the study; a dash stands
    where a protocol has no such method.
    """
    printed = ["published"] if _published(study) else []
    head = [study.condition, "method", *printed, *(c.title for c in study.columns)]
    lines = [head, ["---"] * len(head)]
    for condition in study.conditions():
        for method in study.lines():
            line = _line(study, rows, condition, method)
            if any(text != "–" for text in line):
                lines.append([condition, TITLES[method], *line])
        if study.ratio is not None:
            lines.append([condition, *_ratio(study, rows, condition)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(
    study: Study, rows: Sequence[Row], *, quick: bool, figures: Sequence[Path]
) -> str:
    """Return the whole page in Markdown."""
    kind = "a quick run: few repetitions, cheap methods" if quick else "the full run"
    parts = [
        f"# {study.title}",
        f"{study.description[0].upper()}{study.description[1:]}. This is {kind}.",
    ]
    if _published(study):
        parts.append(f"Published numbers: the paper's {study.source}.")
    parts.append(study_table(study, rows))
    parts.append(_origin(rows))
    parts += [f"![{figure.stem}]({figure.name})" for figure in figures]
    failed = [row for row in rows if row["error"]]
    if failed:
        parts.append(f"{len(failed)} of {len(rows)} results failed:")
        parts.append("\n".join(_failure(row) for row in failed))
    return "\n\n".join(parts) + "\n"


def _published(study: Study) -> bool:
    return any(study.published.get(condition) for condition in study.conditions())


def _line(study: Study, rows: Sequence[Row], condition: str, method: str) -> list[str]:
    texts = []
    if _published(study):
        value = study.published.get(condition, {}).get(method)
        texts.append("–" if value is None else f"{value:.4g}")
    for column in study.columns:
        texts.append(_text(cell(rows, column, condition, method), column.digits))
    return texts


def _text(known: Cell | None, digits: int) -> str:
    if known is None:
        return "–"
    mean, error, number = known
    spread = f" ± {error:.{digits}f}" if number > 1 and digits else ""
    return f"{mean:.{digits}f}{spread}"


def _ratio(study: Study, rows: Sequence[Row], condition: str) -> list[str]:
    """Return a line of quotients, of seconds alone."""
    above, below = study.ratio or ("", "")
    texts = [f"{TITLES[above]} ÷ {TITLES[below]}"]
    if _published(study):
        row = study.published.get(condition, {})
        both = above in row and below in row
        texts.append(f"{row[above] / row[below]:.1f}×" if both else "–")
    for column in study.columns:
        one, two = (cell(rows, column, condition, m) for m in (above, below))
        known = one and two and column.metric == "fit_seconds"
        texts.append(f"{one[0] / two[0]:.1f}×" if known and one and two else "–")
    return texts


def _origin(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing was run."
    seeds = sorted({row["seed"] for row in rows})
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(row["experiment"], set()).add(row["repetition"])
    each = ", ".join(f"{name} {len(numbers)}" for name, numbers in counts.items())
    names = ", ".join(
        f"{name} {_versions(rows, name)}" for name in ("sltr", "numpy", "scikit-learn")
    )
    return (
        f"Mean ± standard error. Repetitions: {each}; seeds follow from {seeds}. "
        f"{names}; last result {max(row['finished'] for row in rows)}."
    )


def _versions(rows: Sequence[Row], package: str) -> str:
    """Return the versions that the rows were made by: a run may have been resumed."""
    return " and ".join(dict.fromkeys(row["versions"][package] for row in rows))


def _failure(row: Row) -> str:
    reason = row["error"].strip().splitlines()[-1]
    return (
        f"- {row['experiment']}, {row['condition']}, {row['method']}, "
        f"repetition {row['repetition']}: {reason}"
    )


# Seven colours with filled markers, then with open ones: the null model is grey.
_ORDER = (
    *("sltr_paper", "sltr", "ridge", "lasso", "elastic_net", "remurs", "null"),
    *("surf", "cp", "tucker", "sturm", "tpgd", "elem_ridge", "null_last_fifth"),
)
_STYLES = list(dict.fromkeys(TITLES[name] for name in (*_ORDER, *TITLES)))


def draw_figures(
    study: Study, rows: Sequence[Row], folder: Path, stem: str
) -> list[Path]:
    """Draw the study's figures into `folder` and return their files."""
    figures = {f"{stem}.png": _results(study, rows)}
    for condition, chosen in _by_condition(study, rows).items():
        name = re.sub(r"[^\w-]+", "_", condition)
        figures[f"{stem}_{name}.png"] = _heat_maps(condition, chosen, folder)
    return [_save(fig, folder / name) for name, fig in figures.items() if fig]


def _results(study: Study, rows: Sequence[Row]) -> Any:
    from sltr.plotting.results import Panel, plot_results

    conditions, places = study.conditions(), _places(study)
    drawn = [column for column in study.columns if column.panel]
    panels = []
    printed = _nonempty(
        {
            TITLES[method]: [
                None
                if (value := study.published.get(c, {}).get(method)) is None
                else (value, 0.0)
                for c in conditions
            ]
            for method in study.lines()
        }
    )
    if printed:
        label = drawn[0].title.rpartition(": ")[2]
        panels.append(Panel("published", label, printed))
    if study.together:
        # One panel has the first column by method, the others by their title.
        first, *others = drawn
        series = _series(study, rows, first, conditions)
        for column in others:
            values = _series(study, rows, column, conditions).values()
            series |= dict(zip([column.title], values, strict=False))
        panels.append(Panel(study.title, first.title, series))
        drawn = []
    for column in drawn:
        title, _, label = column.title.rpartition(": ")
        series = _series(study, rows, column, conditions)
        if series:
            panels.append(Panel(title or label, label, series))
    if not panels:
        return None
    numbers = [place for place in places if not isinstance(place, str)]
    decades = bool(numbers) and min(numbers) > 0 and max(numbers) >= 30 * min(numbers)
    return plot_results(
        panels,
        places,
        place_label=study.x or "",
        log=study.log,
        log_places=decades,
        styles=None if study.together else _STYLES,
    )


def _series(
    study: Study, rows: Sequence[Row], column: Column, conditions: list[str]
) -> dict[str, list[tuple[float, float] | None]]:
    return _nonempty(
        {
            TITLES[method]: [
                None if (known := cell(rows, column, c, method)) is None else known[:2]
                for c in conditions
            ]
            for method in study.methods()
        }
    )


def _nonempty(series: dict[str, list]) -> dict[str, list]:
    return {name: values for name, values in series.items() if any(values)}


def _places(study: Study) -> list[Any]:
    """Return where the conditions are drawn: their option `x`, or their names."""
    if study.x is None:
        return study.conditions()
    values = {
        condition.label: condition.options[study.x]
        for part in study.parts
        for condition in part.experiment.conditions
    }
    return [values[label] for label in study.conditions()]


def _by_condition(study: Study, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of the first repetition whose coefficients are to be drawn."""
    by_condition: dict[str, list[Row]] = {}
    for row in rows:
        wanted = row["experiment"] == study.heat_maps and row["repetition"] == 0
        if wanted and not row["error"]:
            by_condition.setdefault(row["condition"], []).append(row)
    return by_condition


def _heat_maps(condition: str, rows: list[Row], folder: Path) -> Any:
    from sltr.plotting.coefficient import plot_heat_maps

    first = rows[0]
    trial = draw_trial("video", first["options"], 0, first["seed"])
    coefs = {
        TITLES[row["method"]]: np.load(path).reshape(trial.X.shape[1:])
        for row in rows
        if (path := folder / "coef" / f"{row['key']}.npy").exists()
    }
    if not coefs:
        return None
    samples = {
        name: trial.X_test[np.flatnonzero(trial.y_test == label)[0]]
        for label, name in enumerate(first["options"]["classes"])
        if np.any(trial.y_test == label)
    }
    return plot_heat_maps(coefs, samples=samples, title=condition)


def _save(fig: Any, path: Path) -> Path:
    from sltr.plotting.style import close_figure

    written = write_through(path, lambda file: fig.savefig(file, dpi=160))
    close_figure(fig)
    return written
