"""Experiments as data: specs, one runner, rows of results."""

from sltr.experiments.comparison import compare, summary
from sltr.experiments.rows import markdown_table, read_rows
from sltr.experiments.run import run
from sltr.experiments.spec import Condition, Experiment

__all__ = [
    "Condition",
    "Experiment",
    "compare",
    "markdown_table",
    "read_rows",
    "run",
    "summary",
]
