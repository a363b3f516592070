"""Held-out predictions of all candidates, and factors that scale them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sltr.models.candidates import Candidate, refined
from sltr.models.plain import Row

__all__ = ["HeldOut", "collected", "scale_factors"]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions, centred, of a fold's rows: (n_rows, K) for each candidate."""

    candidates: list[Candidate]
    values: list[list[np.ndarray]]  # by candidate, then by fold
    complexity: list[float]  # mean number of free parameters, relative to P


def collected(
    found: Sequence[Row],
    n_folds: int,
    refinements: Sequence[str | None],
) -> HeldOut:
    """Return the rows of all candidates and folds as a table, scaled ones included."""
    table: dict[Candidate, list] = {}
    parameters: dict[Candidate, float] = {}
    for candidate, f, values, n_free in found:
        table.setdefault(candidate, [None] * n_folds)[f] = values
        parameters[candidate] = parameters.get(candidate, 0.0) + n_free / n_folds
    candidates = list(table)
    if "scale" in refinements:
        candidates += [
            refined("scale", c, ())[0] for c in candidates if c.refine is None
        ]
    if None not in refinements:
        candidates = [c for c in candidates if c.refine is not None]
    # A scale factor is applied to the plain candidate's own predictions.
    sources = [
        replace(c, refine=None) if c.refine == "scale" else c for c in candidates
    ]
    return HeldOut(
        candidates,
        [table[source] for source in sources],
        [parameters[source] for source in sources],
    )


def scale_factors(
    predictions: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
) -> np.ndarray:
    """Return least-squares factors on held-out predictions, one per response (K,).

    Predictions and targets are centred by their folds' training means, each of
    shape (n_rows, K); a factor below zero says that nothing was found.
    """
    parts = list(zip(predictions, targets, weights, strict=True))
    cross = np.sum([w @ (p * t) for p, t, w in parts], axis=0)
    size = np.sum([w @ (p * p) for p, _, w in parts], axis=0)
    target = np.sum([w @ (t * t) for _, t, w in parts], axis=0)
    # Predictions of the size of rounding are none.
    rounding = 10.0 * max(float(np.finfo(p.dtype).eps) for p, _, _ in parts)
    some = size > rounding**2 * target
    factors = np.divide(cross, size, out=np.ones_like(size), where=some)
    return np.clip(factors, 0.0, None)
