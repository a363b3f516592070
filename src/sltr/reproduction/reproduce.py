"""Run a study of the paper on the data that a user names, and write its page."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from sltr.parameters import nearest
from sltr.persistence.files import write_atomically
from sltr.reproduction.methods import FACTORIES
from sltr.reproduction.pages import draw_figures, page
from sltr.reproduction.published import VIDEO_PAIRS
from sltr.reproduction.run import Condition, Row, make_folder, run
from sltr.reproduction.studies import STUDIES, Part, Study

# Frames of the quick version: a ninth of the paper's entries.
_QUICK_CLIPS = {"n_frames": 8, "size": (16, 12)}


EXPERIMENTS: dict[str, str] = {name: s.description for name, s in STUDIES.items()}


@dataclass(frozen=True)
class Reproduced:
    """What `reproduce` wrote.

    Attributes
    ----------
    name : str
    rows : tuple of Path
        JSON lines, one for each result.
    tables : tuple of Path
        Markdown.
    figures : tuple of Path
        PNG.
    n_failed : int
        Results that are an error; the table lists them.
    """

    name: str
    rows: tuple[Path, ...]
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    n_failed: int = 0


def reproduce(
    name: str,
    *,
    quick: bool = False,
    out: str | PathLike[str] = "reproduction",
    data: str | PathLike[str] | None = None,
    classes: Sequence[Sequence[str]] | None = None,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    retry: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Reproduced:
    """Run a table or figure of the paper under all protocols, side by side.

    Results are appended to files in `out` as they come: a run that was killed
    continues where it stopped, runs at the same time share the work, and a quick run
    is part of the full one.

    Parameters
    ----------
    name : str
        A key of `EXPERIMENTS`.
    quick : bool
        Minutes on two cores: fewer repetitions and conditions, cheap methods, for
        video smaller frames. Otherwise as in the paper: ten trials, all shapes.
    out : path
        Folder for the results; made if it is not there.
    data : path, optional
        For video the folder of clips, one sub-folder for each class; for "real"
        the folder of real sets (default: the environment variable SLTR_DATA).
    classes : sequence of pairs of str, optional
        For video, the pairs of classes; default: the paper's three.
    methods : sequence of str, optional
        Only these, the null model and ridge, be they in the quick version or not.
    n_jobs : int, optional
        Results computed at the same time. More than one makes timings less sure.
    retry : bool
        Run again what failed before.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    Reproduced

    Examples
    --------
    >>> reproduce("mse_by_sizes")
    Traceback (most recent call last):
        ...
    ValueError: name='mse_by_sizes' was given; did you mean 'mse_by_size' ...
    """
    if name not in STUDIES:
        hint = nearest(name, STUDIES, 3)
        msg = f"name={name!r} was given; {hint} one of {list(STUDIES)}."
        raise ValueError(msg)
    study = STUDIES[name]
    methods = [methods] if isinstance(methods, str) else methods
    _check_methods(study, methods)
    target = make_folder(out)
    study = _with_data(study.version(quick, methods), data, classes, quick)
    rows: list[Row] = []
    total = sum(len(part.experiment.jobs()) for part in study.parts)
    for part in study.parts:

        def report(done: int, _: int, before: int = len(rows)) -> None:
            if progress is not None:
                progress(before + done, total)

        rows += run(
            part.experiment,
            FACTORIES[part.factories],
            target,
            n_jobs=n_jobs,
            retry=retry,
            progress=report,
        )
    stem = f"{name}_quick" if quick else name
    if find_spec("matplotlib") is None:
        msg = "Figures are left out: install matplotlib with pip install 'sltr[report]'"
        warnings.warn(msg, stacklevel=2)
        figures = []
    else:
        figures = draw_figures(study, rows, target, stem)
    table = target / f"{stem}.md"
    text = page(study, rows, quick=quick, figures=figures)
    write_atomically(table, text.encode())
    files = tuple(target / f"{part.experiment.name}.jsonl" for part in study.parts)
    n_failed = sum(bool(row["error"]) for row in rows)
    return Reproduced(name, files, (table,), tuple(figures), n_failed)


def _check_methods(study: Study, methods: Sequence[str] | None) -> None:
    there = study.methods()
    for name in methods or ():
        if name not in there:
            hint = nearest(name, there, 3)
            msg = f"methods={methods!r} was given; {hint} some of {there}."
            raise ValueError(msg)
    if methods is not None and not methods:
        msg = f"methods={methods!r} was given; expected some of {there}."
        raise ValueError(msg)


def _with_data(
    study: Study,
    data: str | PathLike[str] | None,
    classes: Sequence[Sequence[str]] | None,
    quick: bool,
) -> Study:
    """Return the study with its conditions on the data given."""
    if study.kind == "video":
        folder, pairs = _pairs(study, data, classes)
        options: dict[str, Any] = dict(_QUICK_CLIPS) if quick else {}
        options |= {"folder": str(folder)}
        return replace(
            study,
            parts=tuple(_over_pairs(part, pairs, options) for part in study.parts),
        )
    if classes is not None:
        msg = f"classes={classes!r} was given; {study.name!r} has no choice. Omit it."
        raise ValueError(msg)
    if study.kind == "real":
        place = data if data is not None else os.environ.get("SLTR_DATA")
        if place is not None and not Path(place).is_dir():
            msg = (
                f"data={str(place)!r} was given, or is in SLTR_DATA; expected the "
                "folder of real sets. Without one the packaged sets are run."
            )
            raise ValueError(msg)
        parts = (_in_folder(part, place) for part in study.parts)
        return replace(study, parts=tuple(p for p in parts if p.experiment.conditions))
    if data is not None:
        msg = f"data={str(data)!r} was given; {study.name!r} simulates. Omit it."
        raise ValueError(msg)
    return study


def _pairs(
    study: Study,
    data: str | PathLike[str] | None,
    classes: Sequence[Sequence[str]] | None,
) -> tuple[Path, list[tuple[str, str]]]:
    if data is None or not Path(data).is_dir():
        given = None if data is None else str(data)
        msg = (
            f"data={given!r} was given; {study.name!r} needs a folder of clips with "
            "one sub-folder for each class, such as UCF101 unpacked. Name it as `data` "
            "(--data)."
        )
        raise ValueError(msg)
    folder = Path(data)
    there = sorted(path.name for path in folder.iterdir() if path.is_dir())
    pairs = [tuple(pair) for pair in (VIDEO_PAIRS if classes is None else classes)]
    for pair in pairs:
        if len(pair) != 2 or not set(pair) <= set(there):
            msg = (
                f"The pair {pair} was asked for; expected two of the class folders "
                f"{there} of {folder}. Name pairs of them as `classes` (--pair A,B)."
            )
            raise ValueError(msg)
    return folder, [(first, second) for first, second in pairs]


def _over_pairs(
    part: Part, pairs: list[tuple[str, str]], options: dict[str, Any]
) -> Part:
    conditions = tuple(
        Condition(
            " & ".join(pair),
            condition.source,
            {**condition.options, **options, "classes": pair},
        )
        for condition in part.experiment.conditions
        for pair in pairs
    )
    return replace(part, experiment=replace(part.experiment, conditions=conditions))


def _in_folder(part: Part, place: str | PathLike[str] | None) -> Part:
    """Return the part with the folder of its set; without one it has no conditions."""
    conditions = tuple(
        replace(c, options={**c.options, "folder": str(place)})
        if c.source == "real"
        else c
        for c in part.experiment.conditions
        if c.source != "real" or place is not None
    )
    return replace(part, experiment=replace(part.experiment, conditions=conditions))
