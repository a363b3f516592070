"""A study's conditions on the data that a user names: films, or real sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from sltr.experiments.published import VIDEO_PAIRS
from sltr.experiments.spec import Condition
from sltr.experiments.study import Part, Study

__all__ = ["with_data"]

# Frames of the quick version: a ninth of the paper's entries.
_QUICK_CLIPS = {"n_frames": 8, "size": (16, 12)}


def with_data(
    study: Study,
    data: str | PathLike[str] | None,
    classes: Sequence[Sequence[str]] | None,
    target: Path,
    quick: bool,
) -> Study:
    """Return the study with its conditions on the data given."""
    if study.kind == "video":
        folder, pairs = _pairs(study, data, classes)
        options: dict[str, Any] = dict(_QUICK_CLIPS) if quick else {}
        options |= {"folder": str(folder), "cache": str(target / "clips")}
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
