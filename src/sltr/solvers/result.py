"""What every iterative solver returns."""

from __future__ import annotations

from dataclasses import dataclass

from sltr._array import Array, array_namespace

__all__ = ["Result", "exact", "joined"]


@dataclass(frozen=True, eq=False)
class Result:
    """A solution and how far it can be trusted.

    Attributes
    ----------
    x : array
        The solution.
    n_iter : int or array of int
        Iterations used, for each problem of a batch.
    residual : float or array
        The optimality measure the solver stops on, named in its docstring.
    converged : bool or array of bool
        Whether the residual reached the tolerance. Callers decide whether to warn.
    """

    x: Array
    n_iter: int | Array
    residual: float | Array
    converged: bool | Array


def joined(results: list[Result]) -> Result:
    """Return the results of several batches as those of one."""
    if len(results) == 1:
        return results[0]
    xp = array_namespace(results[0].x)
    fields = ("x", "n_iter", "residual", "converged")
    return Result(
        *(xp.concat([getattr(r, name) for r in results], axis=0) for name in fields)
    )


def exact(x: Array, like: Array) -> Result:
    """Return answers known without iterating: no steps and no gap, like `like` (G,)."""
    xp = array_namespace(x)
    gap = xp.astype(0.0 * like, xp.float64)
    return Result(x, xp.astype(gap, xp.int64), gap, gap == 0.0)
