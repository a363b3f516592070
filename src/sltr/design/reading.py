"""Blocks of stored samples as clean matrices; a bad one says where it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from sltr.design.budget import Box

__all__ = ["NotFiniteError", "clean_block", "place_of", "unreadable"]


class NotFiniteError(ValueError):
    """Stored samples hold NaN or infinity."""


def clean_block(
    block: Any, rows: slice, box: Box, dtype: Any, numbers: np.ndarray | None = None
) -> np.ndarray:
    """Return a block (R, …) as a matrix (R, w) of finite numbers.

    It holds the samples of `rows`, or those of them with these numbers.
    """
    block = np.asarray(block)
    part = block.astype(dtype, copy=False).reshape(block.shape[0], -1)
    # A sum is finite if all are, up to overflow: the entries decide only then.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(part.sum())
    if suspect and not np.isfinite(part).all():
        first = int(np.flatnonzero(~np.isfinite(part).all(axis=1))[0])
        row = rows.start + first if numbers is None else int(numbers[first])
        msg = (
            f"X contains NaN or infinity in {place_of(rows, box)}, first in sample "
            f"{row}; expected finite numbers. Impute or drop them."
        )
        raise NotFiniteError(msg)
    return part


def place_of(rows: slice, box: Box) -> str:
    """Say which samples and entries a block holds."""
    sides = ", ".join(f"{side.start}:{side.stop}" for side in box)
    return f"the chunk of samples {rows.start}:{rows.stop} and entries [{sides}]"


def unreadable(rows: slice, box: Box, error: BaseException) -> OSError:
    """Return the error that names a chunk that cannot be read."""
    msg = (
        f"X cannot be read in {place_of(rows, box)}: {type(error).__name__}: {error}. "
        "Restore this part of the file; nothing was fitted."
    )
    return OSError(msg)
