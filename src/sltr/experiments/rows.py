"""Rows of results: one JSON object in a line, appended, read, and made a table."""

from __future__ import annotations

import json
import math
import os
from os import PathLike
from pathlib import Path
from typing import Any

__all__ = ["append_row", "markdown_table", "read_rows"]

Row = dict[str, Any]


def append_row(path: Path, row: Row) -> None:
    """Append a row in one write and wait until it is on the disk.

    A line cut short by a killed run is closed first, so that it spoils nothing but
    itself.
    """
    text = json.dumps(_finite(row), ensure_ascii=False, allow_nan=False) + "\n"
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
    known = [value for value in values if value is not None]
    failed = sum(bool(row["error"]) for row in rows)
    note = f" ({failed} failed)" if failed else ""
    if not known:
        return f"–{note}"
    mean = math.fsum(known) / len(known)
    text = f"{mean:.{digits}f}"
    if len(known) > 1:
        variance = math.fsum((v - mean) ** 2 for v in known) / (len(known) - 1)
        text += f" ± {math.sqrt(variance / len(known)):.{digits}f}"
    return text + note


def _finite(value: Any) -> Any:
    """Return a value JSON can hold: NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
