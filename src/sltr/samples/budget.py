"""How much memory a pass over stored samples may take, and blocks that fit."""

from __future__ import annotations

import os
import re
from itertools import product
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

Box = tuple[slice, ...]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 1024**k for k, unit in enumerate("kmgt", start=1)}
# Without a limit a fit takes this share of the memory that is free.
SHARE = 4
LEAST = 1_000_000


def working_bytes(X: Any) -> int:
    """Return what samples take in memory, as the floats they are turned into."""
    single = np.dtype(X.dtype) in (np.dtype("float32"), np.dtype("float16"))
    return prod(X.shape) * (4 if single else 8)


def memory_bytes(limit: Any = None) -> int:
    """Return a memory limit in bytes; None stands for a quarter of what is free.

    Examples
    --------
    >>> memory_bytes("1.5 GB"), memory_bytes("2MiB"), memory_bytes(10**9)
    (1500000000, 2097152, 1000000000)
    """
    if limit is None:
        return max(LEAST, _free_bytes() // SHARE)
    found = -1
    if isinstance(limit, Integral) and not isinstance(limit, bool):
        found = int(limit)
    elif isinstance(limit, str):
        parts = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]?i?)b?\s*", limit.lower())
        if parts and parts[2] in _UNITS:
            found = int(float(parts[1]) * _UNITS[parts[2]])
    if found < LEAST:
        msg = (
            f"memory_limit={limit!r} was given; expected a text like '1GB', a number "
            f"of bytes of at least {LEAST}, or None for a quarter of the free memory."
        )
        raise ValueError(msg)
    return found


def _free_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not every system tells
        return 4 * 10**9


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
