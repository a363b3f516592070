"""Threads over modes, and over the terms of a mode's problem."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from numbers import Integral

from joblib import effective_n_jobs

__all__ = ["job_counts", "thread_map"]


def thread_map(n_jobs: int):
    """Return a context that gives a `map`, over threads if there are several."""
    if n_jobs <= 1:
        return nullcontext(map)
    return _ThreadMap(n_jobs)


class _ThreadMap:
    def __init__(self, n_jobs: int):
        self.pool = ThreadPoolExecutor(n_jobs)

    def __enter__(self):
        return self.pool.map

    def __exit__(self, *_):
        self.pool.shutdown()


def job_counts(n_jobs: int | Sequence[int] | None) -> tuple[int, int]:
    """Return the threads over modes, and over the terms inside a mode."""
    counts = tuple(n_jobs) if isinstance(n_jobs, list | tuple) else (n_jobs, 1)
    whole = [c is None or isinstance(c, Integral) for c in counts]
    if len(counts) != 2 or not all(whole):
        msg = (
            f"n_jobs={n_jobs!r} was given; expected a whole number, None, or a pair of "
            "them: for modes, and for the terms inside a mode."
        )
        raise ValueError(msg)
    return effective_n_jobs(counts[0]), effective_n_jobs(counts[1])
