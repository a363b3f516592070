"""Whether samples and responses are such as a model was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sltr.cli.reading import are_images

__all__ = [
    "match_covariates",
    "match_images",
    "match_responses",
    "refuse_covariates",
]


def match_images(model: Any, files: Sequence[Path], X: Any, mask: Path | None) -> None:
    """Refuse images of another shape than the model's, and name the mask.

    A mask cuts images down to the box about its voxels.
    """
    fitted, given = tuple(model.shape_in_), tuple(X.shape[1:])
    if given == fitted or not are_images(files):
        return
    advice = (
        "Give --mask, as the command that fitted it was given"
        if mask is None
        else "Give as --mask the one that the command that fitted it was given"
    )
    msg = (
        f"{files[0]} holds images of shape {given}"
        f"{'' if mask is None else f' inside {mask}'}; the model was fitted on "
        f"{fitted}. {advice}."
    )
    raise ValueError(msg)


def match_responses(model: Any, y: Any, target: str) -> None:
    """Refuse responses that the model cannot be scored on, and name --target."""
    y, classes = y.ravel(), getattr(model, "classes_", None)
    if classes is None:
        if y.dtype.kind in "biuf":
            return
        expected = "numbers"
    else:
        if set(classes.tolist()) & set(y.tolist()):
            return
        expected = f"some of {_few(classes.tolist())}"
    msg = (
        f"The responses {target!r} are {_few(y.tolist())}; the model predicts "
        f"{expected}. Name theirs by --target."
    )
    raise ValueError(msg)


def match_covariates(model: Any, covariates: Any) -> None:
    """Refuse more or fewer covariates than the model was fitted with."""
    fitted = getattr(model, "n_covariates_in_", 0)
    given = 0 if covariates is None else covariates.shape[1]
    if given != fitted:
        advice = "Leave --covariates out" if not fitted else "Name them by --covariates"
        msg = (
            f"{given} covariates were given; the model was fitted with {fitted}. "
            f"{advice}."
        )
        raise ValueError(msg)


def refuse_covariates(model: Any) -> None:
    """Refuse a report of a model that predicts from more than its samples."""
    if getattr(model, "n_covariates_in_", 0):
        msg = (
            "The model was fitted with covariates; expected one without, since a "
            "report predicts from samples alone. Use sltr predict --covariates."
        )
        raise ValueError(msg)


def _few(values: list[Any]) -> str:
    """Return the first of the different values, as text."""
    different = list(dict.fromkeys(values))
    return ", ".join(map(repr, different[:4])) + ("" if len(different) <= 4 else ", …")
