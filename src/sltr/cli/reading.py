"""Samples and responses as a command names them, and whether they fit a model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from sltr.cli.options import choose, parse_names
from sltr.cli.output import say
from sltr.persistence.files import check_destination


def read_samples(
    files: Sequence[Path],
    *,
    mask: Path | None = None,
    model: Any = None,
    **options: Any,
) -> Any:
    """Read samples as `load_samples` does, and say which rows of a table are theirs.

    A mask that would do nothing is refused. Images for a model that was fitted to
    some are read in its own mask.
    """
    from sltr.datasets.samples import load_samples

    if mask is not None and not are_images(files):
        msg = (
            f"--mask={mask} was given; expected NIfTI images, which {files[0]} is not. "
            "Leave it out"
        )
        raise typer.BadParameter(msg)
    own = getattr(model, "space_", {}).get("kind") == "voxels" and are_images(files)
    kept = model if mask is None and own else mask
    target = options.get("target")
    if target is not None and "," in target:
        options["target"] = _names_as_fitted(parse_names(target), model)
    loaded = load_samples(files, mask=kept, **options)
    names = options.get("target")
    loaded.response_names = None if isinstance(names, str) or names is None else names
    if loaded.note:
        say(loaded.note)
    shape, dtype = tuple(loaded.X.shape), loaded.X.dtype
    logging.getLogger("sltr").info("Read X of shape %s, %s.", shape, dtype)
    return loaded


def _names_as_fitted(names: Sequence[str], model: Any) -> list[str]:
    """Return names of responses in the order of those a model was fitted to, if any."""
    from sltr.samples.check import check_response_names

    fitted = getattr(model, "response_names_", None)
    if fitted is None:
        return list(names)
    check_response_names(names, fitted)
    return list(fitted)


def check_output(out: Path, *read: Path | None) -> None:
    """Refuse a file that cannot be written, or that the command reads.

    Of a folder of images or films these are read, and of a Zarr store every file.
    """
    from sltr.datasets.nifti import is_image
    from sltr.datasets.video import SUFFIXES

    check_destination(out, read)
    data = is_image(out) or out.suffix.lower() in SUFFIXES
    for folder in read:
        if folder is None or not (folder.is_dir() and out.exists()):
            continue
        inside = out.resolve().is_relative_to(folder.resolve())
        if inside and (data or folder.suffix == ".zarr"):
            msg = (
                f"{out} was given; expected another file than the samples in {folder}, "
                "which are read. Choose another name."
            )
            raise FileExistsError(msg)


def are_images(files: Sequence[Path]) -> bool:
    """Say whether these are NIfTI images, or folders of them."""
    from sltr.datasets.nifti import images_in, is_image

    return all(is_image(file) or images_in(file) for file in files)


def kind_of(y: Any, task: str) -> str:
    """Return "regression", "binary" or "multi-class"."""
    from sltr.comparison import response_kind

    choose(task, ("auto", "regression", "classification"), "--task")
    kind = response_kind(y, None if task == "auto" else task == "classification")
    if task == "auto":
        what = "numbers: regression" if kind == "regression" else "labels: " + kind
        say(f"Responses are {what} (--task changes it).")
    return kind


def refuse_labels(y: Any, kind: str, title: str) -> None:
    """Say which methods have a classifier, if this one cannot regress the labels."""
    from sltr.peers.registry import METHODS

    words = y.dtype.kind not in "biuf"
    if words or kind == "multi-class":
        able = [name for name, entry in METHODS.items() if entry.make_classifier]
        what = "the labels are words" if words else "there are more than two classes"
        msg = (
            f"{title} has no classifier and {what}; expected labels 0 and 1, or one of "
            f"the methods {', '.join(name for name in able if name != 'null')}."
        )
        raise ValueError(msg)


def placed(loaded: Any, device: str, *, labels: bool) -> tuple[Any, Any]:
    """Return samples and responses where they are to be computed with."""
    from sltr.arrays import on_device

    if device == "cpu":
        return loaded.X, loaded.y
    X = on_device(loaded.X, device)
    return X, loaded.y if labels else on_device(loaded.y, device)


def reading_options(
    y: Path | None, target: str, mask: Path | None, covariates: str | None
) -> dict[str, Any]:
    """Return the options that samples were read with, as far as they were given."""
    named = None if target == "y" else target
    return {"--y": y, "--target": named, "--covariates": covariates, "--mask": mask}


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


def _few(values: list[Any]) -> str:
    """Return the first of the different values, as text."""
    different = list(dict.fromkeys(values))
    return ", ".join(map(repr, different[:4])) + ("" if len(different) <= 4 else ", …")
