"""What every iterative solver returns."""

from __future__ import annotations

from dataclasses import dataclass

from sltr._array import Array

__all__ = ["Result"]


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
