"""Experiments as data: specs, one runner, rows of results, tables and figures."""

from sltr.experiments.comparison import compare, summary
from sltr.experiments.reproduce import EXPERIMENTS, Reproduced, reproduce
from sltr.experiments.rows import markdown_table, read_rows
from sltr.experiments.run import run
from sltr.experiments.spec import Condition, Experiment

__all__ = [
    "EXPERIMENTS",
    "Condition",
    "Experiment",
    "Reproduced",
    "compare",
    "markdown_table",
    "read_rows",
    "reproduce",
    "run",
    "summary",
]
