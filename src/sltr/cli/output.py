"""What commands print: data to standard output, all else to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_facts", "print_json", "print_scores", "say"]

SCORES = {"r2": "R²", "mse": "MSE", "auroc": "AUROC", "accuracy": "accuracy"}


def say(message: str) -> None:
    """Write a line for people."""
    sys.stderr.write(message + "\n")


def print_json(value: Any) -> None:
    """Write one JSON document; numbers that JSON lacks become null."""
    sys.stdout.write(json.dumps(_plain(value), ensure_ascii=False, indent=2) + "\n")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Write names and values, one in a line."""
    width = max(map(len, facts))
    for name, value in facts.items():
        sys.stdout.write(f"{name:<{width}}  {_text(value)}\n")


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


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, int | float) else str(value)
