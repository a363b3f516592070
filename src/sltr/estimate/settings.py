"""How problems are posed and solved."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sltr.estimate.blocks import COUPLINGS
from sltr.estimate.checks import check_choice, refuse

__all__ = ["Settings"]

SOLVERS = ("admm", "ppxa")


@dataclass(frozen=True)
class Settings:
    """How the problems are posed and solved; checked when made."""

    coupling: str = "average"
    weights: str | tuple[float, float] = "unit"
    solver: str = "admm"
    tol: float = 1e-4
    max_iter: int = 5000
    n_jobs: int | tuple[int, int] | None = None
    chunk_entries: int | None = None  # coefficients held at a time; None: the usual

    def __post_init__(self):
        check_choice("coupling", self.coupling, COUPLINGS)
        check_choice("solver", self.solver, SOLVERS)
        if isinstance(self.weights, str):
            check_choice("weights", self.weights, ("unit", "radius"))
        else:
            _check_pair(self.weights)
        if not isinstance(self.tol, Real) or not 0 < self.tol < 1:
            refuse("tol", self.tol, "a number between 0 and 1")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            refuse("max_iter", self.max_iter, "a whole number of at least 1")


def _check_pair(weights: Any) -> None:
    try:
        alpha, beta = (float(w) for w in weights)
    except (TypeError, ValueError):
        alpha = beta = -1.0
    if not (
        0 <= alpha < float("inf") and 0 <= beta < float("inf") and alpha + beta > 0
    ):
        expected = "'unit', 'radius' or two finite numbers of at least 0, not both 0"
        refuse("weights", weights, expected)
