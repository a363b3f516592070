"""What an experiment is: data to compare, methods, repetitions and metrics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Condition", "Experiment", "Job"]

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A row of a table: a source of data and its options.

    Parameters
    ----------
    label : str
        What the table calls it.
    source : str
        A key of `sltr.experiments.trials.SOURCES`.
    options : mapping
        What the source takes; anything JSON can hold.
    quick : bool
        Whether the quick version of the experiment has it.
    """

    label: str
    source: str
    options: Options = field(default_factory=dict)
    quick: bool = True


@dataclass(frozen=True)
class Experiment:
    """Every method on every condition, repeated, with the same data for all methods.

    Parameters
    ----------
    name : str
    conditions : tuple of Condition
    methods : tuple of str
        Names in the mapping of methods given to the runner.
    metrics : tuple of str
        Keys of `sltr.experiments.scores.METRICS`.
    repetitions : int
        Drawn anew with seeds that follow from `seed`; for real data the fold.
    seed : int
    candidates : mapping from method to mapping
        Arguments for the method's factory: its grid of hyper-parameters.
    scored_on : {"test", "train"}
        "test": new samples; "train": the samples fitted, as some published tables.
    keep_coef : bool
        Store each fitted coefficient, for figures.

    Examples
    --------
    >>> spec = Experiment(
    ...     "demo",
    ...     conditions=(Condition("6×5", "simulated", {"shape": (6, 5), "n": 30}),),
    ...     methods=("ridge", "null"),
    ...     metrics=("r2",),
    ...     repetitions=3,
    ... )
    >>> len(spec.jobs())
    6
    """

    name: str
    conditions: tuple[Condition, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    repetitions: int = 10
    seed: int = 0
    candidates: Mapping[str, Options] = field(default_factory=dict)
    scored_on: str = "test"
    keep_coef: bool = False

    def quick(self, repetitions: int = 2) -> Experiment:
        """Return the version that takes minutes: fewer repetitions and conditions."""
        return replace(
            self,
            conditions=tuple(c for c in self.conditions if c.quick),
            repetitions=min(repetitions, self.repetitions),
        )

    def jobs(self) -> list[Job]:
        """Return the pieces of work; methods change fastest."""
        return [
            Job(
                experiment=self.name,
                condition=condition,
                repetition=repetition,
                method=method,
                candidates=self.candidates.get(method, {}),
                metrics=self.metrics,
                seed=self.seed,
                scored_on=self.scored_on,
                keep_coef=self.keep_coef,
            )
            for condition in self.conditions
            for repetition in range(self.repetitions)
            for method in self.methods
        ]


@dataclass(frozen=True)
class Job:
    """One method on one repetition of one condition: one row of results."""

    experiment: str
    condition: Condition
    repetition: int
    method: str
    candidates: Options
    metrics: tuple[str, ...]
    seed: int
    scored_on: str
    keep_coef: bool

    def identity(self) -> dict[str, Any]:
        """Return everything the result depends on, ready for JSON."""
        return {
            "experiment": self.experiment,
            "condition": self.condition.label,
            "source": self.condition.source,
            "options": dict(self.condition.options),
            "repetition": self.repetition,
            "method": self.method,
            "candidates": dict(self.candidates),
            "seed": self.seed,
            "scored_on": self.scored_on,
        }

    def key(self) -> str:
        """Return a short name of what was asked for, by which done work is known."""
        identity = self.identity()
        # Where clips are cached changes no result.
        identity["options"].pop("cache", None)
        content = [identity, sorted(self.metrics), self.keep_coef]
        text = json.dumps(content, sort_keys=True, default=_plain)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(value: Any) -> Any:
    """Return arrays and NumPy numbers as JSON can hold them."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
