"""What responses are: numbers, or labels of two or more classes."""

from __future__ import annotations

from typing import Any

from sltr.cli.options import choose
from sltr.cli.output import say

__all__ = ["kind_of", "refuse_labels"]


def kind_of(y: Any, task: str) -> str:
    """Return "regression", "binary" or "multi-class"."""
    from sltr.experiments.tuned import response_kind

    choose(task, ("auto", "regression", "classification"), "--task")
    kind = response_kind(y, None if task == "auto" else task == "classification")
    if task == "auto":
        what = "numbers: regression" if kind == "regression" else "labels: " + kind
        say(f"Responses are {what} (--task changes it).")
    return kind


def refuse_labels(y: Any, kind: str, title: str) -> None:
    """Say which methods have a classifier, if this one cannot regress the labels."""
    from sltr.models.registry import METHODS

    words = y.dtype.kind not in "biuf"
    if words or kind == "multi-class":
        able = [name for name, entry in METHODS.items() if entry.make_classifier]
        what = "the labels are words" if words else "there are more than two classes"
        msg = (
            f"{title} has no classifier and {what}; expected labels 0 and 1, or one of "
            f"the methods {', '.join(name for name in able if name != 'null')}."
        )
        raise ValueError(msg)
