"""Rows of a study as a page: what was run, one table, its figures, its failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from sltr.experiments.methods import TITLES
from sltr.experiments.rows import Row
from sltr.experiments.study import Column, Study

__all__ = ["Cell", "cell", "page", "study_table"]

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
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    variance = math.fsum((v - mean) ** 2 for v in known) / max(len(known) - 1, 1)
    return mean, math.sqrt(variance / len(known)), len(known)


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


def _text(found: Cell | None, digits: int) -> str:
    if found is None:
        return "–"
    mean, error, number = found
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
    each = ", ".join(f"{name} {len(found)}" for name, found in counts.items())
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
