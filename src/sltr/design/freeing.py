"""Memory that was read and is not needed any more, handed back."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["release_pages", "trim_heap"]


@cache
def _trimmer() -> Callable[[int], Any] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None


def trim_heap() -> None:
    """Hand freed memory back: what reader threads have used stays theirs in glibc."""
    trim = _trimmer()
    if trim is not None:
        trim(0)


def release_pages(array: np.memmap) -> None:
    """Let go of pages that were read: mapped, they count as the process's memory."""
    mapped = getattr(array, "_mmap", None)
    # A private mapping would lose what was written to it.
    shared = getattr(array, "mode", "c") != "c"
    if mapped is not None and shared and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
