"""Threads and memory that array libraries may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any

import array_api_compat
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
