"""The paper's own estimates for whole grids, and their held-out predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from sltr._array import Array, array_namespace, as_array, singular_values, to_numpy
from sltr.estimate import Settings, absolute_radii, estimate_path
from sltr.models.candidates import Candidate
from sltr.models.folds import Fold, Task
from sltr.tensor import flatten, unfold

__all__ = ["Chunk", "Plain", "PlainEstimates", "Row", "in_grid_order", "rows_of"]

Row = tuple[Candidate, int, np.ndarray, float]
Chunk = tuple[list[int], Array, np.ndarray]


@dataclass(frozen=True, eq=False)
class PlainEstimates:
    """The whole grid for some folds' pilots; needs no samples, so it travels well."""

    shape: tuple[int, ...]
    radius: str
    settings: Settings
    pilots: Array  # (F, E, K, P)
    pairs: list[tuple[float, float]]
    measure: bool

    def chunks(self) -> Iterator[Chunk]:
        """Yield places in the grid, coefficients (F, E, K, g, P), sizes (F, E, g)."""
        xp = array_namespace(self.pilots)
        batch = tuple(self.pilots.shape[:3])
        flat = xp.reshape(self.pilots, (-1, *self.shape))
        columns = zip(*self.pairs, strict=True)
        sparse, low = (as_array(column, flat) for column in columns)
        radii = absolute_radii(flat, sparse, low, self.radius)
        for places, found in estimate_path(flat, *radii, self.settings):
            coef = xp.reshape(found.coef, (*batch, len(places), -1))
            free = _free_parameters(found.coef) if self.measure else 0.0 * found.gap
            free = to_numpy(free).reshape(*batch, len(places)).mean(axis=2)
            yield places, coef, free

    def __call__(self) -> list[Chunk]:
        """Return all chunks at once: a job for another process."""
        return list(self.chunks())


@dataclass(frozen=True, eq=False)
class Plain:
    """The paper's estimates on some folds, predicted for samples in memory."""

    task: Task
    places: list[int]
    folds: list[Fold]
    epsilons: list[float]
    estimates: PlainEstimates
    start: Candidate | None = None  # whose coefficients refits start from

    def __call__(self) -> tuple[list[Row], Array | None]:
        """Return the rows of all candidates and folds, and the start's (F, K, P)."""
        rows: list[Row] = []
        kept: Array | None = None
        for places, coef, free in self.estimates.chunks():
            xp = array_namespace(coef)
            pairs = [self.estimates.pairs[g] for g in places]
            if self.start is not None and self.start.radii in pairs:
                e = self.epsilons.index(self.start.epsilon)
                # A copy: a view would keep the whole chunk.
                kept = coef[:, e, :, pairs.index(self.start.radii), :] + 0.0
            for f, fold in enumerate(self.folds):
                flat = xp.reshape(coef[f, ...], (-1, coef.shape[4]))
                values = fold.centred_predictions(self.task, flat)
                values = values.reshape(-1, *coef.shape[1:4])
                rows += rows_of(self.epsilons, pairs, self.places[f], values, free[f])
        return in_grid_order(rows, self.epsilons, self.estimates.pairs), kept


def rows_of(
    epsilons: list[float],
    pairs: list[tuple[float, float]],
    place: int,
    values: np.ndarray,
    free: np.ndarray,
) -> Iterator[Row]:
    """Yield rows from values (n_rows, E, K, g) and sizes (E, g) of one fold."""
    for e, epsilon in enumerate(epsilons):
        for i, pair in enumerate(pairs):
            candidate = Candidate(epsilon, *pair)
            yield candidate, place, values[:, e, :, i], float(free[e, i])


def in_grid_order(
    rows: list[Row], epsilons: list[float], pairs: list[tuple[float, float]]
) -> list[Row]:
    """Sort by the grid, whatever the chunks: ties go to the first."""
    grid = product(epsilons, pairs)
    order = {Candidate(e, *pair): i for i, (e, pair) in enumerate(grid)}
    return sorted(rows, key=lambda row: order[row[0]])


def _free_parameters(coef: Array) -> Array:
    """Count a coefficient's free parameters relative to P, (Q, g).

    The fewer of its non-zero entries and of the rows its ranks need.
    """
    xp = array_namespace(coef)
    shape = tuple(coef.shape[2:])
    batch = xp.reshape(coef, (-1, *shape))
    free = xp.mean(xp.astype(flatten(batch) != 0, coef.dtype), axis=1)
    rows = 0.0 * free
    for mode, size in enumerate(shape):
        values = singular_values(unfold(batch, mode))
        largest = xp.max(values, axis=1, keepdims=True)
        kept = (values > 1e-3 * largest) & (values > 0)
        rows = rows + size * xp.sum(xp.astype(kept, coef.dtype), axis=1)
    return xp.reshape(xp.minimum(free, rows / prod(shape)), coef.shape[:2])
