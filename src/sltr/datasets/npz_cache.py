"""Arrays computed from files, kept on disk until the files change."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

import numpy as np

from sltr.datasets.files import READ_ERRORS

__all__ = ["cache_file", "read_arrays", "write_arrays"]

# Change it when the same files and options would give other numbers.
_FORMAT = 1


def cache_file(
    cache: str | PathLike[str], name: str, sources: list[Path], options: object
) -> Path:
    """Return the file that belongs to these source files and options.

    Its name changes with the path, size and time of change of every source and
    with the options (anything JSON can hold). The folder `cache` is made, and
    checked, before the work is done rather than after.
    """
    directory = Path(cache)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError("not writable")
    except OSError as error:
        msg = (
            f"cache={str(cache)!r} cannot be used as a folder: {error}. Choose another."
        )
        raise ValueError(msg) from error
    files = [(str(path.absolute()), *_state(path)) for path in sources]
    key = json.dumps([_FORMAT, options, files])
    return directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"


def _state(path: Path) -> tuple[int, int]:
    """Return size and time of change, negative where there is no file to ask."""
    try:
        found = path.stat()
    except OSError:  # a broken link: whoever reads the files reports it
        return -1, -1
    return found.st_size, found.st_mtime_ns


def read_arrays(stored: Path, names: Iterable[str]) -> dict[str, np.ndarray] | None:
    """Return the stored arrays, or None where they are not there or damaged."""
    try:
        with stored.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (*READ_ERRORS, KeyError):
        return None


def write_arrays(stored: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Store arrays; the file appears under its name only when it is complete."""
    handle, partial = tempfile.mkstemp(dir=stored.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        Path(partial).replace(stored)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
