"""Rows of a study as figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sltr.experiments.methods import TITLES
from sltr.experiments.rows import Row
from sltr.experiments.study import Column, Study
from sltr.experiments.tables import cell
from sltr.experiments.trials import draw_trial

__all__ = ["draw_figures"]

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
    for condition, found in _by_condition(study, rows).items():
        name = re.sub(r"[^\w-]+", "_", condition)
        figures[f"{stem}_{name}.png"] = _heat_maps(condition, found, folder)
    return [_save(fig, folder / name) for name, fig in figures.items() if fig]


def _results(study: Study, rows: Sequence[Row]) -> Any:
    from sltr.plotting import Panel, plot_results

    conditions = study.conditions()
    panels = []
    series = {
        TITLES[method]: [
            None
            if (value := study.published.get(c, {}).get(method)) is None
            else (value, 0.0)
            for c in conditions
        ]
        for method in study.methods()
    }
    drawn = [column for column in study.columns if column.panel]
    if any(value for values in series.values() for value in values):
        label = drawn[0].title.rpartition(": ")[2]
        panels.append(Panel("published", label, _nonempty(series)))
    if study.together:
        panels.append(_one_panel(study, rows, drawn))
        drawn = []
    for column in drawn:
        title, _, label = column.title.rpartition(": ")
        found = _series(study, rows, column, conditions)
        if found:
            panels.append(Panel(title or label, label, found))
    if not panels:
        return None
    return plot_results(
        panels,
        _places(study),
        place_label=study.x or "",
        log=study.log,
        log_places=_spans_decades(_places(study)),
        styles=None if study.together else _STYLES,
    )


def _one_panel(study: Study, rows: Sequence[Row], columns: list[Column]) -> Any:
    """Return a panel with the first column by method, the others by their title."""
    from sltr.plotting import Panel

    first, *others = columns
    found = _series(study, rows, first, study.conditions())
    for column in others:
        values = _series(study, rows, column, study.conditions())
        found |= dict(zip([column.title], values.values(), strict=False))
    return Panel(study.title, first.title, found)


def _series(
    study: Study, rows: Sequence[Row], column: Column, conditions: list[str]
) -> dict[str, list[tuple[float, float] | None]]:
    return _nonempty(
        {
            TITLES[method]: [
                None if (found := cell(rows, column, c, method)) is None else found[:2]
                for c in conditions
            ]
            for method in study.methods()
        }
    )


def _nonempty(series: dict[str, list]) -> dict[str, list]:
    return {name: values for name, values in series.items() if any(values)}


def _places(study: Study) -> list[Any]:
    if study.x is None:
        return study.conditions()
    options = {
        condition.label: condition.options[study.x]
        for part in study.parts
        for condition in part.experiment.conditions
    }
    return [options[label] for label in study.conditions()]


def _spans_decades(places: list[Any]) -> bool:
    numbers = [place for place in places if not isinstance(place, str)]
    return bool(numbers) and min(numbers) > 0 and max(numbers) >= 30 * min(numbers)


def _by_condition(study: Study, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of the first repetition whose coefficients are to be drawn."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        wanted = row["experiment"] == study.heat_maps and row["repetition"] == 0
        if wanted and not row["error"]:
            found.setdefault(row["condition"], []).append(row)
    return found


def _heat_maps(condition: str, rows: list[Row], folder: Path) -> Any:
    from sltr.plotting import plot_heat_maps

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
    import matplotlib.pyplot as plt

    fig.savefig(path, dpi=160)
    plt.close(fig)
    return path
