"""What arrays, tables and images share when they are read: one error, one limit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from sltr.arrays.resources import free_bytes, memory_bytes

AnyPath = str | PathLike[str]
# Names that an error message lists at most.
LISTED = 20
# Numbers seldom compress to a hundredth; masks and counts do, but are small.
EXPANSION = 100
SMALL = 256_000_000


@contextmanager
def reading(failure: str, advice: str) -> Iterator[None]:
    """Turn all that goes wrong into one error: what failed, why, what to do.

    Libraries trust their files: at damaged ones they raise whatever their code
    happens to.
    """
    try:
        yield
    except Exception as error:
        reason = str(error).rstrip(".") or type(error).__name__
        msg = f"{failure}: {reason}. {advice}"
        raise ValueError(msg) from error


def check_expansion(file: Path, n_bytes: int) -> None:
    """Refuse to read a file that says that it takes too much memory."""
    size, limit = _size(file), expansion_limit(file)
    if n_bytes > limit:
        msg = (
            f"{file} has {size:,} bytes and would take {n_bytes:,} in memory; expected "
            f"at most {limit:,}. If you trust it, set the environment variable "
            f"SLTR_READ_LIMIT to more, for example {-(-n_bytes // 10**9)}GB."
        )
        raise ValueError(msg)


def expansion_limit(file: Path) -> int:
    """Return how many bytes of memory a file may take.

    This is SLTR_READ_LIMIT, of the environment. By default it is a hundred times the
    file's size, at least 256 MB, within the free memory. What a file holds without
    compression may always be read.
    """
    size, given = _size(file), os.environ.get("SLTR_READ_LIMIT")
    if given is not None:
        return max(size, memory_bytes(given, "SLTR_READ_LIMIT"))
    return max(size, min(free_bytes(), max(SMALL, EXPANSION * size)))


def _size(file: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    parts = file.rglob("*") if file.is_dir() else [file]
    return sum(part.stat().st_size for part in parts if part.is_file())


def text_bytes(texts: Sequence[str]) -> int:
    """Return the bytes of an array of texts: each takes the memory of the longest."""
    return 4 * len(texts) * max(map(len, texts), default=0)


def existing_file(path: AnyPath) -> Path:
    """Return the path of a file or folder, or say that nothing is there."""
    file = Path(path)
    if not file.exists():
        msg = f"{file} does not exist; expected a file of data. Check the path."
        raise FileNotFoundError(msg)
    return check_regular(file)


def check_regular(path: AnyPath) -> Path:
    """Return the path; refuse pipes and devices, which may give nothing, or no end."""
    file = Path(path)
    if file.exists() and not (file.is_file() or file.is_dir()):
        msg = (
            f"{file} is no file: it is a pipe, a socket or a device; expected a file "
            "of data. Write what it gives to a file first."
        )
        raise ValueError(msg)
    return file


def require_names(names: Iterable[str], there: Iterable[str], file: Path) -> None:
    """Say which arrays or columns a file lacks, and which it has."""
    has = set(there)
    absent = [name for name in names if name not in has]
    if absent:
        msg = (
            f"{file} has no {few(absent)}; it holds {few(sorted(has))}. Name one of "
            "these."
        )
        raise ValueError(msg)


def few(names: Sequence[str]) -> str:
    """Return names as a list, the first of them if there are many."""
    if len(names) <= LISTED:
        return str(list(names))
    return f"{list(names[:LISTED])} and {len(names) - LISTED} more"
