"""How much memory a pass over stored samples may take, and blocks that fit.

It is apart because files, Dask arrays and the command line ask for it alike.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import prod
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

Box = tuple[slice, ...]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 1024**k for k, unit in enumerate("kmgt", start=1)}
# Without a limit a fit takes one part in so many of the memory that is free.
FREE_SHARE = 4
LEAST = 1_000_000


@dataclass(frozen=True)
class Budget:
    """A memory limit in bytes, and how a pass over stored samples uses it."""

    limit: int
    # A block takes one part in so many; its clean copy takes as much again.
    block_share: int = 8
    # Rows of a Gram matrix that are computed before they are added.
    strip_rows: int = 1024
    # Rows of a block for products with few vectors: enough for BLAS to be busy.
    product_rows: int = 512
    # Counts what was read, in passes over all samples.
    read: list[float] = field(default_factory=lambda: [0.0], compare=False)

    def block_entries(self, dtype: np.dtype) -> int:
        """Return how many numbers a block may hold."""
        return max(1, self.limit // (self.block_share * dtype.itemsize))


def working_bytes(X: Any) -> int:
    """Return what samples take in memory, as the floats they are turned into."""
    single = np.dtype(X.dtype) in (np.dtype("float32"), np.dtype("float16"))
    return prod(X.shape) * (4 if single else 8)


def memory_bytes(limit: Any = None, name: str = "memory_limit") -> int:
    """Return a memory limit in bytes; None stands for a quarter of what is free.

    Examples
    --------
    >>> memory_bytes("1.5 GB"), memory_bytes("2MiB"), memory_bytes(10**9)
    (1500000000, 2097152, 1000000000)
    """
    if limit is None:
        return max(LEAST, free_bytes() // FREE_SHARE)
    n_bytes = -1
    if isinstance(limit, Integral) and not isinstance(limit, bool):
        n_bytes = int(limit)
    elif isinstance(limit, str):
        parts = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]?i?)b?\s*", limit.lower())
        if parts and parts[2] in _UNITS:
            n_bytes = int(float(parts[1]) * _UNITS[parts[2]])
    if n_bytes < LEAST:
        msg = (
            f"{name}={limit!r} was given; expected a text like '1GB', a number "
            f"of bytes of at least {LEAST}, or None for a quarter of the free memory."
        )
        raise ValueError(msg)
    return n_bytes


def bytes_text(n_bytes: int) -> str:
    """Return a memory limit of at least so many bytes, as `memory_bytes` reads it.

    Examples
    --------
    >>> bytes_text(1_234_567_890), bytes_text(61_000_001)
    ('1.24GB', '61.1MB')
    """
    unit, size = ("GB", 10**9) if n_bytes >= 10**9 else ("MB", 10**6)
    # Three digits, rounded up.
    step = 10 ** max(0, len(str(n_bytes)) - 3)
    return f"{-(-n_bytes // step) * step / size:g}{unit}"


def free_bytes() -> int:
    """Return the memory that is free, with what Linux would take from its caches."""
    try:
        facts = Path("/proc/meminfo").read_text(encoding="utf-8")
        return 1024 * int(facts.partition("MemAvailable:")[2].split()[0])
    except (OSError, IndexError, ValueError):  # not Linux
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not every system tells
        return 4 * 10**9


def return_freed_memory() -> None:
    """Return memory that was freed to the system, where the C library keeps it.

    Blocks are read by many threads; GNU's library keeps what each of them frees, and
    it would count towards the limit.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return None


def box_shape(
    shape: tuple[int, ...], chunks: tuple[int, ...], most: int
) -> tuple[int, ...]:
    """Return the shape of boxes of whole chunks that hold at most `most` entries.

    Boxes grow along the last axis first, which is contiguous in most files. A
    chunk that is larger by itself is the box: to read a part of it costs as much.

    Examples
    --------
    >>> box_shape((6, 5, 4), (1, 1, 1), 40)
    (2, 5, 4)
    >>> box_shape((6, 5, 4), (3, 5, 2), 40)
    (3, 5, 2)
    """
    box = [min(c, p) for c, p in zip(chunks, shape, strict=True)]
    for axis in reversed(range(len(shape))):
        others = prod(box) // box[axis]
        times = max(1, most // (others * box[axis]))
        box[axis] = min(shape[axis], times * box[axis])
        if box[axis] < shape[axis]:
            break
    return tuple(box)


def boxes(shape: tuple[int, ...], box: tuple[int, ...]) -> list[Box]:
    """Return the boxes that cover an array of a shape, in C order."""
    sides = [row_ranges(size, step) for size, step in zip(shape, box, strict=True)]
    return list(product(*sides))


def row_ranges(n_rows: int, step: int) -> list[slice]:
    """Return slices of at most `step` rows that cover all of them.

    Examples
    --------
    >>> row_ranges(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, step)
    return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]
