"""Threads and memory that a fit may use."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from math import prod
from numbers import Integral
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_numpy_array, is_torch_array
from joblib import effective_n_jobs
from joblib.externals.loky import reusable_executor
from threadpoolctl import ThreadpoolController

from sltr.arrays import cuda as _cuda

# Up to this many entries of X nothing is large enough to share among threads.
SMALL_SAMPLES = 5_000_000


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS uses one thread.

    Products and decompositions of small matrices lose more to waiting threads
    than they gain, up to ten times on a busy machine.
    """
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def fitting_threads(X: Any) -> AbstractContextManager:
    """Return a context with one BLAS thread for small samples, else as it is."""
    if is_numpy_array(X) and X.size <= SMALL_SAMPLES:
        return one_blas_thread()
    return nullcontext()


@contextmanager
def explained_memory() -> Iterator[None]:
    """Turn a device's out-of-memory error into one that says what to change."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        msg = (
            "The device ran out of memory. Use float32 samples, a smaller grid or "
            "fewer folds, free other tensors, or fit on the CPU."
        )
        raise MemoryError(msg) from error


def free_entries(x: Any) -> int:
    """Return how many numbers like those of `x` its device has room for now."""
    if is_torch_array(x) and x.is_cuda:
        torch = import_module("torch")
        stats = torch.cuda.memory_stats(x.device)
        reserved = stats["reserved_bytes.all.current"]
        unused = reserved - stats["allocated_bytes.all.current"]
        return (torch.cuda.mem_get_info(x.device)[0] + unused) // x.element_size()
    if array_api_compat.is_cupy_array(x):
        cupy = _cuda.cupy()
        unused = cupy.get_default_memory_pool().free_bytes()
        return (cupy.cuda.runtime.memGetInfo()[0] + unused) // x.itemsize
    return 0


@contextmanager
def thread_map(n_jobs: int | None) -> Iterator[Callable]:
    """Give a `map` that runs in this many threads, as joblib counts them."""
    n_threads = effective_n_jobs(n_jobs)
    if n_threads == 1:
        yield map
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield pool.map


_of_parents: list[Any] = []


def _forget_workers() -> None:
    """Let a forked process start its own workers.

    joblib keeps its workers for the next call. They answer to the parent only: the
    child would wait for them for ever. The object is kept, because the end of its
    life would end the parent's workers.
    """
    _of_parents.append(reusable_executor._executor)
    reusable_executor._executor = None


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget_workers)


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 1024**k for k, unit in enumerate("kmgt", start=1)}
# Without a limit a fit takes one part in so many of the memory that is free.
FREE_SHARE = 4
M_ARENA_MAX = -8  # of GNU's malloc.h
LEAST = 1_000_000


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
    trim = _libc("malloc_trim")
    if trim is not None:
        trim(0)


def share_freed_memory() -> None:
    """Let threads that start from now on free memory to where it can be returned.

    GNU's library gives each thread a place of its own, and keeps what is freed there.
    """
    adjust = _libc("mallopt")
    if adjust is not None:
        adjust(ctypes.c_int(M_ARENA_MAX), ctypes.c_int(1))


@cache
def _libc(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return None


def row_ranges(n_rows: int, step: int) -> list[slice]:
    """Return slices of at most `step` rows that cover all of them.

    Examples
    --------
    >>> row_ranges(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, step)
    return [slice(k, min(k + step, n_rows)) for k in range(0, n_rows, step)]
