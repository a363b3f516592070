"""Samples that stay where they are, as the map in front of a fit makes them.

It is apart from `front.py` because it is about files: a block of mapped samples is made
of the entries it needs when it is read, so that products, passes and budgets know
nothing of the map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sltr.arrays import to_numpy
from sltr.core.tensor import mode_product
from sltr.samples.dask import Chunked, mapped_chunks
from sltr.samples.stored import Stored

if TYPE_CHECKING:
    from sltr.samples.front import Front


@dataclass(frozen=True, eq=False)
class MappedFile:
    """A file of samples, mapped; it is sliced as the file is, by rows and boxes."""

    raw: Stored  # all samples of the file, with zeros outside the mask
    front: Front

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is read, (n, p1, …, pM)."""
        return (int(self.raw.source.shape[0]), *self.front.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of what is read."""
        return self.raw.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """What is read at once: a smooth mode, and flat rows, are needed whole."""
        rows, *sides = self.raw.chunks
        if self._is_flat:
            sides = list(self.front.shape)
        for mode in self.front.roots:
            sides[mode] = self.front.shape[mode]
        return rows, *sides

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        rows, *box = key
        front = self.front
        wide = tuple(
            slice(0, size) if mode in front.roots else side
            for mode, (side, size) in enumerate(zip(box, front.shape, strict=True))
        )
        if self._is_flat:
            block = self.raw.block(rows, (slice(0, prod(front.shape)),))
            block = block.reshape(-1, *front.shape)[(slice(None), *wide)]
        else:
            sizes = [side.stop - side.start for side in wide]
            block = self.raw.block(rows, wide).reshape(-1, *sizes)
        if front.scale is not None:
            block = block / to_numpy(front.scale)[wide]
        for mode, root in front.roots.items():
            block = mode_product(block, root[box[mode]].astype(block.dtype), mode)
        return block

    @property
    def _is_flat(self) -> bool:
        """Whether samples are still flat rows in the file."""
        return len(self.raw.source.shape) - 1 != len(self.front.shape)


def in_place(X: Stored | Chunked, front: Front) -> Stored | Chunked:
    """Return samples that stay in a file or on a cluster, mapped when they are read.

    The map must not cut slices out.
    """
    if isinstance(X, Chunked):
        return replace(X, source=mapped_chunks(X.source, front, X.dtype))
    kept = None if front.kept is None else front.kept.reshape(X.source.shape[1:])
    if front.scale is None and not front.roots:
        return replace(X, kept=kept)
    # What the map reads is counted once, by those who read the map.
    budget = replace(X.budget, read=[0.0])
    raw = replace(X, budget=budget, kept=kept, rows=None, progress=None)
    return replace(X, source=MappedFile(raw, front))
