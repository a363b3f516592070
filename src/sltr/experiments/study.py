"""What a table or figure is made of: experiments, columns, published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sltr.experiments.spec import Experiment

__all__ = ["Column", "Part", "Study"]

# No table without what any method has to beat.
ALWAYS = ("null", "null_last_fifth", "ridge")


@dataclass(frozen=True)
class Part:
    """An experiment under one protocol.

    Parameters
    ----------
    experiment : Experiment
    factories : str
        Key of `sltr.experiments.methods.FACTORIES`: what method names mean.
    quick_methods : tuple of str, optional
        Those of the quick version; default: all.
    quick_repetitions : int
    """

    experiment: Experiment
    factories: str
    quick_methods: tuple[str, ...] | None = None
    quick_repetitions: int = 2

    def version(self, quick: bool, methods: Sequence[str] | None) -> Part:
        """Return the part as asked for: quick or full, with all or some methods."""
        chosen = self.experiment
        if quick:
            names = self.quick_methods or chosen.methods
            chosen = replace(chosen.quick(self.quick_repetitions), methods=names)
        if methods is not None:
            # What was asked for by name is run, be it cheap or not.
            wanted = {*methods, *ALWAYS}
            there = [name for name in self.experiment.methods if name in wanted]
            chosen = replace(chosen, methods=tuple(there))
        kept = {
            name: options
            for name, options in chosen.candidates.items()
            if name in chosen.methods
        }
        return replace(self, experiment=replace(chosen, candidates=kept))


@dataclass(frozen=True)
class Column:
    """A column of the table: one metric of some experiments.

    Parameters
    ----------
    title : str
    metric : str
        A metric, or `fit_seconds` or `n_candidates` of the rows.
    experiments : tuple of str
        Names of those that share the column.
    digits : int
    panel : bool
        Whether the figure has it.
    """

    title: str
    metric: str
    experiments: tuple[str, ...]
    digits: int = 3
    panel: bool = False


@dataclass(frozen=True)
class Study:
    """A table and its figure, under all protocols side by side.

    Parameters
    ----------
    name, title : str
    description : str
        One line.
    parts : tuple of Part
    columns : tuple of Column
    published : mapping from condition to mapping from method to float
    source : str
        Where `published` is printed.
    condition : str
        What the rows of the table differ by.
    x : str, optional
        Option of the conditions that the figure has on its axis; without it the
        conditions are categories.
    log : bool
        Whether values are on a log scale.
    together : bool
        Whether the figure has its columns in one panel, the first by method.
    ratio : pair of str, optional
        Methods whose values are divided in a row of its own.
    heat_maps : str, optional
        Experiment whose coefficients are drawn over frames.
    kind : {"simulated", "video", "real"}
        What the data are; "video" needs a folder.
    """

    name: str
    title: str
    description: str
    parts: tuple[Part, ...]
    columns: tuple[Column, ...]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    source: str = ""
    condition: str = "condition"
    x: str | None = None
    log: bool = False
    together: bool = False
    ratio: tuple[str, str] | None = None
    heat_maps: str | None = None
    kind: str = "simulated"

    def version(self, quick: bool, methods: Sequence[str] | None) -> Study:
        """Return the study as asked for; parts without methods left are gone."""
        parts = (part.version(quick, methods) for part in self.parts)
        return replace(self, parts=tuple(p for p in parts if p.experiment.methods))

    def methods(self) -> list[str]:
        """Return the names of all methods, in order of appearance."""
        names = (name for part in self.parts for name in part.experiment.methods)
        return list(dict.fromkeys(names))

    def conditions(self) -> list[str]:
        """Return the labels of all conditions, in order of appearance."""
        labels = (c.label for part in self.parts for c in part.experiment.conditions)
        return list(dict.fromkeys(labels))
