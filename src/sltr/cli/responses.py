"""What responses are: numbers, or labels of two or more classes."""

from __future__ import annotations

from typing import Any

from sltr.cli.options import choose
from sltr.cli.output import say

__all__ = ["kind_of", "refuse_words"]


def kind_of(y: Any, task: str) -> str:
    """Return "regression", "binary" or "multi-class"."""
    from sltr.experiments.tuned import response_kind

    choose(task, ("auto", "regression", "classification"), "--task")
    kind = response_kind(y, None if task == "auto" else task == "classification")
    if task == "auto":
        what = "numbers: regression" if kind == "regression" else "labels: " + kind
        say(f"Responses are {what} (--task changes it).")
    return kind


def refuse_words(y: Any, title: str) -> None:
    """Say which methods have a classifier, if labels are words and this has none."""
    from sltr.models.registry import METHODS

    if y.dtype.kind not in "biuf":
        able = [name for name, entry in METHODS.items() if entry.make_classifier]
        msg = (
            f"{title} has no classifier and the labels are words; expected labels 0 "
            f"and 1, or one of the methods {', '.join(able)}."
        )
        raise ValueError(msg)
