"""The two couplings: pilots and radii as blocks of problems of equal shape."""

from __future__ import annotations

from dataclasses import dataclass

from sltr._array import Array, array_namespace
from sltr.tensor import fold, unfold

__all__ = ["COUPLINGS", "Block"]


@dataclass(frozen=True, eq=False)
class Block:
    """Problems of equal shape that are posed together.

    `members` are the modes whose unfoldings are stacked along the first axis, of
    which a joint problem has none; `modes` are those of the posed problem.
    """

    members: tuple[int, ...]
    modes: tuple[int, ...]
    pilots: Array  # divided by `scale`, which the radii are not
    scale: Array
    sparse_radius: Array
    low_radius: Array

    def tensors(self, x: Array, shape: tuple[int, ...]) -> list[Array]:
        """Return the answers as batches of tensors, one for each member."""
        if not self.members:
            return [x]
        length = x.shape[0] // len(self.members)
        return [
            fold(x[i * length : (i + 1) * length, ...], mode, shape)
            for i, mode in enumerate(self.members)
        ]


def _mode_blocks(
    pilots: Array, scale: Array, sparse_radius: Array, low_radius: Array
) -> list[Block]:
    """Pose one matrix problem for each mode, those of equal shape in one block."""
    xp = array_namespace(pilots)
    shape = pilots.shape[1:]
    # The two unfoldings of a matrix pose the same problem, transposed.
    modes = range(len(shape)) if len(shape) != 2 else range(1)
    groups: dict[int, list[int]] = {}
    for mode in modes:
        groups.setdefault(shape[mode], []).append(mode)
    return [
        Block(
            tuple(members),
            (0,),
            xp.concat([unfold(pilots, mode) for mode in members], axis=0),
            xp.concat([scale] * len(members), axis=0),
            xp.concat([sparse_radius] * len(members), axis=0),
            xp.concat([low_radius[:, :, m : m + 1] for m in members], axis=0),
        )
        for members in groups.values()
    ]


def _joint_block(
    pilots: Array, scale: Array, sparse_radius: Array, low_radius: Array
) -> list[Block]:
    modes = tuple(range(pilots.ndim - 1))
    return [Block((), modes, pilots, scale, sparse_radius, low_radius)]


COUPLINGS = {"average": _mode_blocks, "joint": _joint_block}
