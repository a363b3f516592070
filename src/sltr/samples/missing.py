"""Missing entries: what is put in their place, learnt from the samples of a fit.

"mean" is the mean of the samples that have the entry. "low_rank" expects it from the
other entries of its sample, by a factor model x = mean + scale·(Λᵀt + noise) of normal
scores t, fitted by EM to what was measured (probabilistic principal components). Its
rank is the one that best restores measured entries, hidden where other samples lack
theirs; it may be 0, the mean.

References
----------
Tipping, Bishop (1999). Probabilistic principal component analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, device, eigh, unless_rounding
from sltr.core.tensor import flatten

RANKS = (0, 1, 2, 3, 5, 8)
SWEEPS = 30
# Of a prior that pulls loadings to zero, in samples.
PRIOR = 1.0


@dataclass(frozen=True, eq=False)
class Fill:
    """What replaces missing entries, P of them, from loadings of r factors."""

    mean: Array  # (P,), zero where nothing was measured
    scale: Array  # (P,)
    loadings: Array  # (r, P), in units of the scale
    noise: float  # variance, in these units

    def __call__(self, X: Array) -> Array:
        """Return samples (n, p1, …, pM) with a number for each entry."""
        xp = array_namespace(X)
        mean, scale, loadings = (
            as_array(part, X) for part in (self.mean, self.scale, self.loadings)
        )
        flat = flatten(X)
        measured = ~xp.isnan(flat)
        expected = mean
        if loadings.shape[0]:
            rest = xp.where(measured, (flat - mean) / scale, 0.0)
            scores, _ = _scores(rest, measured, loadings, self.noise)
            expected = mean + scale * (scores @ loadings)
        return xp.reshape(xp.where(measured, flat, expected), X.shape)


def mean_fill(X: Array, weight: Array) -> Fill:
    """Return the fill by weighted means of what was measured of samples (n, …)."""
    xp = array_namespace(X)
    flat = flatten(X)
    measured = ~xp.isnan(flat)
    mass = xp.astype(measured, flat.dtype) * weight[:, None]
    total = xp.sum(mass, axis=0)
    # About a measured value: the mean of an entry that never varies is that entry.
    least = xp.min(xp.where(mass > 0, flat, xp.inf), axis=0)
    least = xp.where(total > 0, least, 0.0)
    rest = xp.where(mass > 0, flat - least, 0.0)
    mean = least + xp.sum(mass * rest, axis=0) / xp.where(total > 0, total, 1.0)
    return Fill(mean, 0.0 * mean + 1.0, 0.0 * mean[None, :][:0, :], 1.0)


def low_rank_fill(X: Array, weight: Array) -> Fill:
    """Return the fill by the factor model of the rank that restores entries best."""
    xp = array_namespace(X)
    flat = flatten(X)
    measured = ~xp.isnan(flat)
    middle = mean_fill(X, weight)
    known = xp.where(measured, flat, 0.0)
    mass = xp.astype(measured, flat.dtype) * weight[:, None]
    rest = xp.where(measured, flat - middle.mean, 0.0)
    rest = unless_rounding(rest, known, mass, axis=0)
    total = xp.sum(mass, axis=0)
    variance = xp.sum(mass * rest**2, axis=0) / xp.where(total > 0, total, 1.0)
    scale = xp.where(variance > 0, xp.sqrt(variance), 1.0)
    rest = rest / scale
    hidden = _hidden(measured)
    seen = measured & ~hidden
    errors = []
    for rank in [r for r in RANKS if r < X.shape[0] - 1]:
        fitted = _factors(xp.where(seen, rest, 0.0), seen, weight, rank)
        guess = _expected(rest, seen, fitted)
        lost = xp.where(hidden, (rest - guess) ** 2, 0.0) * weight[:, None]
        errors.append(float(xp.sum(lost)))
    best = RANKS[int(np.argmin(errors))] if errors else 0
    loadings, noise = _factors(rest, measured, weight, best)
    return Fill(middle.mean, scale, loadings, noise)


def _hidden(measured: Array) -> Array:
    """Return measured entries to hide: each sample's where another one lacks its own.

    Entries that few samples have stay seen.
    """
    xp = array_namespace(measured)
    n = measured.shape[0]
    shift = max(1, n // 3)
    others = xp.concat([measured[shift:, :], measured[:shift, :]], axis=0)
    hidden = measured & ~others
    left = xp.sum(xp.astype(measured & others, xp.int64), axis=0)
    return hidden & (left >= 3)[None, :]


def _factors(
    rest: Array, measured: Array, weight: Array, rank: int
) -> tuple[Array, float]:
    """Return loadings (r, P) and noise of samples (n, P), zero where not measured."""
    xp = array_namespace(rest)
    if rank == 0:
        return rest[:0, :], 1.0
    root = xp.sqrt(weight)[:, None]
    # The first components of the samples, filled by means.
    values, vectors = eigh((root * rest) @ xp.matrix_transpose(root * rest))
    # Components of the size of rounding are none.
    least = xp.finfo(values.dtype).eps * xp.max(values)
    some = values[-rank:] > least
    size = xp.where(some, 1.0 / xp.sqrt(xp.where(some, values[-rank:], 1.0)), 0.0)
    loadings = xp.matrix_transpose(vectors[:, -rank:] * size) @ (root * rest)
    count, noise = xp.sum(xp.astype(measured, rest.dtype) * weight[:, None]), 0.5
    inside = xp.astype(measured, rest.dtype) * weight[:, None]
    prior = PRIOR * xp.eye(rank, dtype=rest.dtype, device=device(rest))
    for _ in range(SWEEPS):
        scores, spread = _scores(rest, measured, loadings, noise)
        # E[t tᵀ] of each sample, and the regression of each entry on the scores.
        second = spread + scores[:, :, None] * scores[:, None, :]
        normal = xp.matrix_transpose(inside) @ xp.reshape(second, (-1, rank**2))
        normal = xp.reshape(normal, (-1, rank, rank)) + prior
        cross = xp.matrix_transpose(inside * rest) @ scores
        loadings = xp.linalg.solve(normal, cross[:, :, None])[:, :, 0]  # (P, r)
        error = xp.sum(inside * rest**2) - xp.sum(cross * loadings)
        noise = max(float(error / count), 1e-6)
        loadings = xp.matrix_transpose(loadings)
    return loadings, noise


def _scores(
    rest: Array, measured: Array, loadings: Array, noise: float
) -> tuple[Array, Array]:
    """Return the expected scores (n, r) of samples, and their covariances (n, r, r)."""
    xp = array_namespace(rest)
    rank = loadings.shape[0]
    outer = xp.reshape(loadings[:, None, :] * loadings[None, :, :], (rank**2, -1))
    seen = xp.astype(measured, rest.dtype)
    precision = xp.reshape(seen @ xp.matrix_transpose(outer), (-1, rank, rank))
    identity = xp.eye(rank, dtype=rest.dtype, device=device(rest))
    spread = noise * xp.linalg.inv(precision + noise * identity)
    cross = (rest * seen) @ xp.matrix_transpose(loadings)
    return (spread @ cross[:, :, None])[:, :, 0] / noise, spread


def _expected(rest: Array, seen: Array, fitted: tuple[Array, float]) -> Array:
    loadings, noise = fitted
    if loadings.shape[0] == 0:
        return 0.0 * rest
    return _scores(rest, seen, loadings, noise)[0] @ loadings


FILLS: dict[str, Any] = {"mean": mean_fill, "low_rank": low_rank_fill}
