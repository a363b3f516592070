"""Samples that stay where they are, as the map in front of a fit makes them.

It is apart from `front.py` because it is about files: a block of mapped samples is made
of the entries it needs when it is read, so that products, passes and budgets know
nothing of the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.core.tensor import mode_product
from sltr.samples.budget import Box
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
        """The shape of what is read, (n, …)."""
        return (int(self.raw.source.shape[0]), *self.front.mapped_shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of what is read."""
        return self.raw.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """What is read at once: a smooth mode, and flat rows, are needed whole."""
        rows, *sides = self.raw.chunks
        if self._is_flat:
            return rows, *self.front.mapped_shape
        for mode, size in enumerate(self.front.mapped_shape):
            whole = mode in self.front.roots
            sides[mode] = size if whole else min(sides[mode], size)
        return rows, *sides

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        rows, *box = key
        front, spans = self.front, self._spans(box)
        given = (slice(0, prod(front.shape)),) if self._is_flat else spans
        block = self.raw.block(rows, given)
        sizes = [span.stop - span.start for span in spans]
        block = block.reshape(len(block), *sizes)
        for mode, (side, span) in enumerate(zip(box, spans, strict=True)):
            if mode in front.slices:
                kept = front.slices[mode][side] - span.start
                block = np.take(block, kept, axis=mode + 1)
            elif mode not in front.roots and side != span:
                block = block[(slice(None),) * (mode + 1) + (side,)]
        if front.scale is not None:
            at = [
                slice(None) if mode in front.roots else side
                for mode, side in enumerate(box)
            ]
            block = block / to_numpy(front.scale)[tuple(at)]
        for mode, root in front.roots.items():
            block = mode_product(block, root[box[mode]].astype(block.dtype), mode)
        return block

    @property
    def _is_flat(self) -> bool:
        """Whether samples are still flat rows in the file."""
        return len(self.raw.source.shape) - 1 != len(self.front.shape)

    def _spans(self, box: Sequence[slice]) -> Box:
        """Return what has to be read of each mode, for a box of mapped samples."""
        found = []
        for mode, (side, size) in enumerate(zip(box, self.front.shape, strict=True)):
            if self._is_flat or mode in self.front.roots:
                side = slice(0, size)
            elif mode in self.front.slices:
                kept = self.front.slices[mode][side]
                side = slice(int(kept[0]), int(kept[-1]) + 1)
            found.append(side)
        return tuple(found)


def in_place(X: Stored | Chunked, front: Front) -> Stored | Chunked:
    """Return samples that stay in a file or on a cluster, mapped when they are read."""
    if isinstance(X, Chunked):
        source = mapped_chunks(X.source, front, X.dtype)
        return replace(X, source=source, sample_shape=front.mapped_shape)
    kept = None if front.kept is None else front.kept.reshape(X.source.shape[1:])
    if not front.slices and front.scale is None and not front.roots:
        return replace(X, kept=kept)
    # What the map reads is not counted again, and may be wider than what it gives.
    budget = replace(X.budget, read=[0.0])
    raw: Any = replace(X, budget=budget, kept=kept, rows=None, progress=None)
    wider = ceil(prod(front.shape) / prod(front.mapped_shape)) + 1
    budget = replace(X.budget, block_share=wider * X.budget.block_share)
    return replace(
        X,
        source=MappedFile(raw, front),
        sample_shape=front.mapped_shape,
        budget=budget,
    )
