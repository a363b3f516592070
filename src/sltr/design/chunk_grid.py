"""The chunks of a Dask array, and arrays cut anew along whole samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sltr._dask import task
from sltr.design.budget import Box

__all__ = ["ChunkGrid", "merged_rows", "whole_rows"]

# Row chunks are merged up to this size for the Gram matrix, whose number of
# tasks grows with the square of theirs.
PANEL_BYTES = 128_000_000


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """The chunks of an array: blocks[i, b] holds rows[i] and boxes[b].

    If rows were taken from a larger array, places[i] says from where, and
    numbers[i], where samples between them were left out, which they are.
    """

    blocks: np.ndarray
    rows: list[slice]
    boxes: list[Box]
    places: list[slice]
    numbers: list[Any]

    @staticmethod
    def of(array: Any, taken: np.ndarray | None = None) -> ChunkGrid:
        """Return the grid of an array's chunks; empty ones are left out.

        `taken` (ascending) are the rows' numbers in the array they come from.
        """
        sides = []
        for sizes in array.chunks:
            ends = np.cumsum(sizes).tolist()
            sides.append(
                [slice(e - s, e) for s, e in zip(sizes, ends, strict=True) if s > 0]
            )
        shape = (len(sides[0]), -1)
        blocks = array.to_delayed()
        for axis, sizes in enumerate(array.chunks):
            blocks = np.compress(np.array(sizes) > 0, blocks, axis=axis)
        rows, boxes = sides[0], list(product(*sides[1:]))
        places, numbers = rows, [None] * len(rows)
        if taken is not None:
            own = [taken[part] for part in rows]
            places = [slice(int(n[0]), int(n[-1]) + 1) for n in own]
            # One task for a row of chunks, so that the graph holds them once.
            numbers = [task(np.asarray, n) if _has_gaps(n) else None for n in own]
        return ChunkGrid(blocks.reshape(shape), rows, boxes, places, numbers)


def _has_gaps(numbers: np.ndarray) -> bool:
    return bool(numbers[-1] - numbers[0] + 1 > len(numbers))


def merged_rows(array: Any) -> Any:
    """Merge small row chunks, so that pairs of them are few."""
    width = prod(max(sizes) for sizes in array.chunks[1:])
    rows = max(1, PANEL_BYTES // (8 * width))
    if rows <= max(array.chunks[0]) or len(array.chunks[0]) == 1:
        return array
    return array.rechunk({0: min(rows, array.shape[0])})


def whole_rows(array: Any) -> Any:
    """Return the array with chunks of whole samples, not larger than a panel."""
    rows = max(1, PANEL_BYTES // (8 * prod(array.shape[1:])))
    rows = min(rows, max(array.chunks[0]))
    return array.rechunk({0: rows, **dict.fromkeys(range(1, array.ndim), -1)})
