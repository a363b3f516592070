"""Samples as the options of a command name them, and where to compute with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

__all__ = ["are_images", "placed", "read_samples", "reading_options"]


def read_samples(
    files: Sequence[Path], *, mask: Path | None = None, **options: Any
) -> Any:
    """Read samples as `load_samples` does; refuse a mask that would do nothing."""
    from sltr.datasets import load_samples

    if mask is not None and not are_images(files):
        msg = (
            f"--mask={mask} was given; expected NIfTI images, which {files[0]} is not. "
            "Leave it out"
        )
        raise typer.BadParameter(msg)
    return load_samples(files, mask=mask, **options)


def are_images(files: Sequence[Path]) -> bool:
    """Say whether these are NIfTI images."""
    return all(file.name.endswith((".nii", ".nii.gz")) for file in files)


def placed(loaded: Any, device: str, *, labels: bool) -> tuple[Any, Any]:
    """Return samples and responses where they are to be computed with."""
    from sltr._array import on_device

    if device == "cpu":
        return loaded.X, loaded.y
    X = on_device(loaded.X, device)
    return X, loaded.y if labels else on_device(loaded.y, device)


def reading_options(y: Path | None, target: str, mask: Path | None) -> dict[str, Any]:
    """Return the options that samples were read with, as far as they were given."""
    return {"--y": y, "--target": None if target == "y" else target, "--mask": mask}
