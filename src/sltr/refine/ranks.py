"""Tucker ranks that rise mode by mode, as coefficient and loss ask for."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from sltr._array import Array, array_namespace, clip, eigh, singular_values, to_python
from sltr.solvers.components import TuckerComponents
from sltr.tensor import own_mode_product, unfold

__all__ = ["next_rank", "slopes", "spectra"]


def next_rank(
    rank: tuple[int, ...],
    most: Sequence[int],
    slopes: Sequence[float],
    spectra: Sequence[Sequence[float]],
) -> tuple[int, ...] | None:
    """Return the Tucker rank to try after another, or None if there is none.

    One more direction joins in the mode of the largest slope, where a tensor of that
    rank exists: no rank exceeds the product of the others. Else two modes rise
    together, those whose next singular values are the largest.

    Parameters
    ----------
    rank : tuple of int
    most : sequence of int
        The largest rank of each mode.
    slopes : sequence of float
        What one more direction in a mode promises, given the others (`slopes`).
    spectra : sequence of sequences of float
        Squared singular values of each mode (`spectra`).

    Examples
    --------
    >>> spectra = [[0.9, 0.1, 0.0]] * 2 + [[1.0, 0.0, 0.0]]
    >>> next_rank((1, 1, 1), (3, 3, 3), [0.1, 0.2, 0.3], spectra)
    (2, 2, 1)
    >>> next_rank((2, 2, 1), (3, 3, 3), [0.1, 0.2, 0.3], spectra)
    (2, 2, 2)
    """
    found, modes = list(rank), range(len(rank))
    room = [m for m in modes if rank[m] < most[m]]
    alone = [m for m in room if (rank[m] + 1) * rank[m] <= prod(rank)]
    if alone:
        found[max(alone, key=lambda m: slopes[m])] += 1
        return tuple(found)
    for mode in sorted(room, key=lambda m: -spectra[m][rank[m]])[:2]:
        found[mode] += 1
    exists = all(own**2 <= prod(found) for own in found)
    return tuple(found) if exists and len(room) > 1 else None


def slopes(structure: TuckerComponents, gradient: Array) -> list[float]:
    """Return how steeply the loss falls along one more direction in each mode.

    The largest singular value of the gradient (B, p1, …, pM) between what the mode
    does not use yet and what the others use, squared, in units of that of noise.
    """
    xp = array_namespace(gradient)
    found = []
    for mode, own in enumerate(structure.factors):
        inner = gradient
        for other, factor in enumerate(structure.factors):
            if other != mode:
                inner = own_mode_product(inner, xp.matrix_transpose(factor), other)
        matrix = unfold(inner, mode)
        matrix = matrix - own @ (xp.matrix_transpose(own) @ matrix)
        largest = xp.max(singular_values(matrix), axis=1)
        noise = sqrt(matrix.shape[1] - own.shape[2]) + sqrt(matrix.shape[2])
        found.append(float(xp.mean(largest**2)) / noise**2)
    return found


def spectra(seeds: Array) -> list[list[float]]:
    """Return each mode's squared singular values, descending, as shares.

    The mean over a batch of coefficients (B, p1, …, pM).
    """
    xp = array_namespace(seeds)
    found = []
    for mode in range(seeds.ndim - 1):
        rows = unfold(seeds, mode)
        energies = clip(eigh(rows @ xp.matrix_transpose(rows))[0], 0.0, None)
        total = xp.sum(energies, axis=1, keepdims=True)
        shares = energies / xp.where(total > 0, total, 1.0)
        found.append(to_python(xp.flip(xp.mean(shares, axis=0), axis=0)))
    return found
