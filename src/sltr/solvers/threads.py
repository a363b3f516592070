"""Threads over modes, and over the terms of a mode's problem."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

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
    if isinstance(n_jobs, Sequence):
        modes, terms = n_jobs
        return effective_n_jobs(modes), effective_n_jobs(terms)
    return effective_n_jobs(n_jobs), 1
