"""Tucker ranks from the spectrum of a coefficient, mode by mode."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from sltr._array import Array, array_namespace, clip, eigh, to_python
from sltr.tensor import unfold

__all__ = ["rank_path"]


def rank_path(seeds: Array, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield Tucker ranks, from all one upwards, that fit a batch of coefficients.

    The next direction joins in the mode whose next singular value is the largest,
    and in a second mode where a tensor of these ranks would not exist otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> seeds = np.zeros((1, 3, 3, 3))
    >>> seeds[0, 0, 0, 0], seeds[0, 1, 1, 0] = 2.0, 1.0
    >>> list(rank_path(seeds, 2))
    [(1, 1, 1), (2, 2, 1), (2, 2, 2)]
    """
    shape = tuple(seeds.shape[1:])
    energies = [
        to_python(_mean_energies(unfold(seeds, mode))) for mode in range(len(shape))
    ]
    ranks = [1] * len(shape)

    def raised() -> bool:
        """Raise one rank; say whether there was one to raise."""
        room = [m for m, size in enumerate(shape) if ranks[m] < min(size, largest)]
        room = [m for m in room if ranks[m] <= prod(ranks) // ranks[m]]
        if room:
            ranks[max(room, key=lambda m: energies[m][ranks[m]])] += 1
        return bool(room)

    yield tuple(ranks)
    while raised():
        while any(rank > prod(ranks) // rank for rank in ranks):
            if not raised():
                return
        yield tuple(ranks)


def _mean_energies(matrices: Array) -> Array:
    """Return squared singular values, descending, as shares, mean over a batch."""
    xp = array_namespace(matrices)
    gram = matrices @ xp.matrix_transpose(matrices)
    energies = xp.flip(clip(eigh(gram)[0], 0.0, None), axis=1)
    total = xp.sum(energies, axis=1, keepdims=True)
    return xp.mean(energies / xp.where(total > 0, total, 1.0), axis=0)
