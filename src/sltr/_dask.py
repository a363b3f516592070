"""The one place that knows Dask: task graphs, and the cluster that runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat

__all__ = ["computed", "constants", "is_dask", "lost_data", "merged", "task"]

# What is smaller travels inside the graph, what is larger is scattered once.
SCATTER_BYTES = 100_000
FAN_IN = 8


def is_dask(x: object) -> bool:
    """Say whether `x` is a Dask array."""
    return bool(array_api_compat.is_dask_array(x))


def task(function: Callable, *arguments: Any) -> Any:
    """Return the call of a function on blocks, tasks and values, not yet made."""
    import dask

    return dask.delayed(function, pure=False, traverse=False)(*arguments)


def constants(values: Sequence[Any]) -> list[Any]:
    """Return values that tasks share: each is sent to the workers once.

    On a cluster large ones are scattered, each to one worker, from where others
    fetch what they need; they are lost with their worker (`lost_data`).
    """
    import dask

    client = _client()
    size = sum(getattr(value, "nbytes", 0) for value in values)
    if client is None or size < SCATTER_BYTES:
        return [dask.delayed(value, pure=False, traverse=False) for value in values]
    return client.scatter(list(values), hash=False)


def merged(parts: Sequence[Any], merge: Callable) -> Any:
    """Return tasks merged as a tree, a few at a time."""
    parts = list(parts)
    while len(parts) > 1:
        parts = [
            task(_merge_all, merge, *parts[i : i + FAN_IN])
            if i + 1 < len(parts)
            else parts[i]
            for i in range(0, len(parts), FAN_IN)
        ]
    return parts[0]


def _merge_all(merge: Callable, first: Any, *others: Any) -> Any:
    for other in others:
        first = merge(first, other)
    return first


def computed(tasks: Sequence[Any]) -> list[Any]:
    """Return the tasks' results from whichever scheduler is active."""
    import dask

    return list(dask.compute(*tasks, optimize_graph=True))


def lost_data(error: BaseException) -> bool:
    """Say whether an error means that scattered data went down with its worker."""
    return type(error).__name__ in ("CancelledError", "FutureCancelledError")


def _client() -> Any:
    """Return the distributed client that computes for this thread, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None
