"""The paper's experiments: specs, one runner, rows of results, tables and figures."""

from sltr.comparison import compare, summary
from sltr.reproduction.reproduce import EXPERIMENTS, Reproduced, reproduce
from sltr.reproduction.run import Condition, Experiment, markdown_table, read_rows, run

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
