"""Low-rank norms of whole tensors: their values, proximal operators and duals.

Each acts on a batch of shape (G, p1, …, pM) and follows the `Term` protocol of
`sltr.prox` with weight one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from sltr._array import Array, array_namespace, device, singular_values
from sltr.prox import threshold_singular_values
from sltr.tensor import fold, unfold

__all__ = ["ModeNuclear", "TensorNorm", "Tubal", "mode_norms", "zeroing_weight"]


class TensorNorm(Protocol):
    """A norm of a tensor: its value, its proximal operator, its dual norm."""

    def value(self, x: Array) -> Array:
        """Return the norm of each tensor of the batch, shape (G,)."""

    def prox(self, v: Array, step: Array) -> Array:
        """Return argmin_x value(x) + ‖x − v‖² / (2 step), one step per tensor."""

    def dual(self, z: Array) -> Array:
        """Return max ⟨x, z⟩ over value(x) ≤ 1 for each tensor, shape (G,)."""


@dataclass(frozen=True)
class ModeNuclear:
    """The nuclear norm of one unfolding, ‖W_(mode)‖_*.

    Examples
    --------
    >>> import numpy as np
    >>> ModeNuclear(0).value(2 * np.eye(3)[None])
    array([6.])
    """

    mode: int

    def value(self, x: Array) -> Array:
        """Return the sum of the unfolding's singular values."""
        xp = array_namespace(x)
        return xp.sum(singular_values(unfold(x, self.mode)), axis=-1)

    def prox(self, v: Array, step: Array) -> Array:
        """Soft-threshold the unfolding's singular values at `step`."""
        matrix = threshold_singular_values(unfold(v, self.mode), step)
        return fold(matrix, self.mode, tuple(v.shape[1:]))

    def dual(self, z: Array) -> Array:
        """Return the unfolding's largest singular value."""
        xp = array_namespace(z)
        return xp.max(singular_values(unfold(z, self.mode)), axis=-1)


def mode_norms(order: int) -> tuple[ModeNuclear, ...]:
    """Return the nuclear norms of all distinct unfoldings of a tensor.

    The two unfoldings of a matrix are each other's transpose: one is enough.

    Examples
    --------
    >>> mode_norms(2)
    (ModeNuclear(mode=0),)
    """
    return tuple(ModeNuclear(mode) for mode in range(1 if order == 2 else order))


@dataclass(frozen=True)
class Tubal:
    """The tubal nuclear norm, the mean nuclear norm of slices after an FFT.

    With Ŵ the discrete Fourier transform of W along every mode but the two that
    span the slices (the first two other than `tube_mode`),

        ‖W‖_TNN = (1/q) Σ_k ‖Ŵ(:, :, k)‖_*,      q the number of slices.

    A matrix has one slice, itself; a vector is a matrix of one column. The
    transform of a real tensor is conjugate symmetric, so half of it is enough.

    Examples
    --------
    >>> import numpy as np
    >>> W = np.zeros((1, 3, 3, 2))
    >>> W[0, :, :, 0] = np.eye(3)
    >>> Tubal().value(W)
    array([3.])
    """

    tube_mode: int = -1

    def value(self, x: Array) -> Array:
        """Return the mean nuclear norm of the transformed slices."""
        xp = array_namespace(x)
        sums = xp.sum(singular_values(self._slices(x)), axis=-1)
        tubes = self._tubes(x)
        if not tubes:
            return sums
        # Slices whose conjugate the half transform leaves out count twice.
        k = xp.arange(sums.shape[-1], device=device(x))
        twice = (k > 0) & (2 * k != tubes[-1])
        sums = sums + xp.where(twice, sums, xp.zeros_like(sums))
        return xp.sum(xp.reshape(sums, (x.shape[0], -1)), axis=-1) / prod(tubes)

    def prox(self, v: Array, step: Array) -> Array:
        """Soft-threshold the transformed slices' singular values at `step`."""
        xp = array_namespace(v)
        slices = self._slices(v)
        steps = xp.reshape(step, (-1, *([1] * (slices.ndim - 3))))
        slices = threshold_singular_values(slices, steps)
        tubes = self._tubes(v)
        if not tubes:
            return xp.reshape(slices, v.shape)
        modes = xp.moveaxis(slices, (-2, -1), (1, 2))
        axes = tuple(range(3, modes.ndim))
        tensor = xp.fft.irfftn(modes, s=tubes, axes=axes)
        return xp.moveaxis(
            xp.astype(tensor, v.dtype, copy=False), -1, self._tube_axis(v)
        )

    def dual(self, z: Array) -> Array:
        """Return the largest singular value of all transformed slices."""
        xp = array_namespace(z)
        largest = xp.max(singular_values(self._slices(z)), axis=-1)
        return xp.max(xp.reshape(largest, (z.shape[0], -1)), axis=-1)

    def _tube_axis(self, x: Array) -> int:
        return self.tube_mode % (x.ndim - 1) + 1

    def _tubes(self, x: Array) -> tuple[int, ...]:
        """Return the sizes of the transformed modes, the tube mode last."""
        if x.ndim < 4:
            return ()
        xp = array_namespace(x)
        return tuple(xp.moveaxis(x, self._tube_axis(x), -1).shape[3:])

    def _slices(self, x: Array) -> Array:
        """Return the half transform, slices on the last two axes."""
        xp = array_namespace(x)
        if x.ndim < 4:
            return xp.reshape(x, (x.shape[0], x.shape[1], -1))
        x = xp.moveaxis(x, self._tube_axis(x), -1)
        transformed = xp.fft.rfftn(x, axes=tuple(range(3, x.ndim)))
        return xp.moveaxis(transformed, (1, 2), (-2, -1))


def zeroing_weight(norms: Sequence[TensorNorm], pull: Array) -> Array:
    """Return a weight of the mean of `norms` at which the zero tensor is optimal.

    Zero minimises ½‖y − A·w‖² + α/K Σ_k ‖W‖_(k) if Aᵀy is a sum of K tensors of
    dual norm at most α/K. Shares of Aᵀy in inverse proportion to its dual norms
    d_k do it for α = K / Σ_k (1/d_k); for K = 1 no smaller α does.

    Parameters
    ----------
    norms : sequence of K TensorNorm
    pull : array of shape (G, p1, …, pM)
        Aᵀy, of each problem.

    Returns
    -------
    array of shape (G,)

    Examples
    --------
    >>> import numpy as np
    >>> zeroing_weight(mode_norms(2), 3.0 * np.eye(2)[None])
    array([3.])
    """
    xp = array_namespace(pull)
    sizes = xp.stack([norm.dual(pull) for norm in norms])
    least = xp.min(sizes, axis=0)
    inverse = 1.0 / xp.clip(sizes, xp.finfo(sizes.dtype).smallest_normal, None)
    # Where nothing pulls, no weight is needed.
    return xp.where(least > 0.0, len(norms) / xp.sum(inverse, axis=0), least)
