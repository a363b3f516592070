"""Low-rank norms of whole tensors: their values, proximal operators and duals.

Each acts on a batch of shape (G, p1, …, pM) and follows the `Term` protocol of
`sltr.prox` with weight one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from sltr.arrays import (
    Array,
    array_namespace,
    device,
    eigh,
    singular_values,
    to_float64,
)
from sltr.core.prox import soft_threshold, threshold_singular_values
from sltr.core.tensor import fold, unfold


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


@dataclass(frozen=True, eq=False)
class Penalised:
    """A batch of G problems over one design.

    Attributes
    ----------
    loss : LeastSquares
    norms : sequence of K TensorNorm
    shape : tuple of int
        Shape of the coefficient, of P entries.
    low, sparse, ridge : array of shape (G,)
        The weights α, β, γ of each problem.
    """

    loss: LeastSquares
    norms: Sequence[TensorNorm]
    shape: tuple[int, ...]
    low: Array
    sparse: Array
    ridge: Array

    def take(self, rows: Array) -> Penalised:
        """Return the problems of some rows."""
        xp = array_namespace(self.low)
        return replace(
            self,
            loss=self.loss.take(rows),
            low=xp.take(self.low, rows, axis=0),
            sparse=xp.take(self.sparse, rows, axis=0),
            ridge=xp.take(self.ridge, rows, axis=0),
        )

    @property
    def share(self) -> Array:
        """The weight α/K of each norm."""
        return self.low / len(self.norms)

    def fold(self, flat: Array) -> Array:
        """Return rows of P entries as tensors."""
        return array_namespace(flat).reshape(flat, (-1, *self.shape))

    def value(self, coef: Array) -> Array:
        """Return the objective, shape (G,), at `coef` of shape (G, P)."""
        xp = array_namespace(coef)
        error = self.loss.target - coef @ xp.matrix_transpose(self.loss.design)
        low_rank = sum(norm.value(self.fold(coef)) for norm in self.norms)
        return (
            0.5 * (xp.sum(error**2, axis=1) + self.loss.rest)
            + self.share * low_rank
            + self.sparse * xp.sum(xp.abs(coef), axis=1)
            + 0.5 * self.ridge * xp.sum(coef**2, axis=1)
        )

    def lower_bound(self, error: Array, pull: Array, parts: Array) -> Array:
        """Return a number the objective cannot fall below, shape (G,).

        By duality it is ⟨y, r⟩ − ½‖r‖² for any r for which Aᵀr = Σ Z_k + v with
        Z_k of dual norm at most α/K and ‖v‖_∞ ≤ β; with a ridge, what exceeds β
        in v costs its square over 2γ instead. Without one (r, Z, v) is scaled
        until v fits, or the excess of v is spread over the Z_k before scaling;
        the best of these counts.

        Parameters
        ----------
        error : array of shape (G, r)
            r, in the coordinates of the loss.
        pull : array of shape (G, P)
            Aᵀr.
        parts : array of shape (K, G, P)
            The Z_k, of dual norm at most α/K each.
        """
        xp = array_namespace(pull)
        left = pull - xp.sum(parts, axis=0)
        cross = xp.sum(self.loss.target * error, axis=1)
        square = xp.sum(error**2, axis=1)

        def bound(scale):
            return scale * cross - 0.5 * scale**2 * square + 0.5 * self.loss.rest

        best = positive(cross / positive(square))
        largest = xp.maximum(xp.max(xp.abs(left), axis=1), self.sparse)
        boxed = bound(xp.minimum(best, positive(self.sparse) / positive(largest)))
        excess = soft_threshold(left, self.sparse[:, None])
        largest = self.share
        for k, norm in enumerate(self.norms):
            widened = self.fold(parts[k, ...] + excess / len(self.norms))
            largest = xp.maximum(largest, norm.dual(widened))
        spread = bound(xp.minimum(best, positive(self.share) / positive(largest)))
        either = xp.maximum(boxed, spread)
        ridge = xp.where(self.ridge > 0.0, self.ridge, xp.ones_like(self.ridge))
        paid = bound(1.0) - xp.sum(excess**2, axis=1) / (2.0 * ridge)
        return xp.where(self.ridge > 0.0, xp.maximum(either, paid), either)


def positive(x: Array) -> Array:
    """Return `x` with zeros raised to the smallest number that can divide."""
    xp = array_namespace(x)
    return xp.clip(x, xp.finfo(x.dtype).smallest_normal, None)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """½‖y − A·w‖², turned so that A·Aᵀ is diagonal.

    Attributes
    ----------
    design : array of shape (r, P)
        B with Bᵀ·B = Aᵀ·A and B·Bᵀ = diag(spectrum), r = min(n, P).
    spectrum : array of shape (r,)
    target : array of shape (G, r)
        One row t for each problem: ‖y − A·w‖² = ‖t − B·w‖² + rest.
    pull : array of shape (G, P)
        Bᵀ·t = Aᵀ·y.
    rest : array of shape (G,)
    """

    design: Array
    spectrum: Array
    target: Array
    pull: Array
    rest: Array

    @property
    def null(self) -> Array:
        """The objective ½‖y‖² of the coefficient zero, shape (G,)."""
        xp = array_namespace(self.target)
        return 0.5 * (xp.sum(self.target**2, axis=1) + self.rest)

    @property
    def scale(self) -> Array:
        """The mean of the eigenvalues that are not zero, or one if all are.

        Repeating samples, as weights do, adds zeros only.
        """
        xp = array_namespace(self.spectrum)
        floor = xp.max(self.spectrum) * xp.finfo(self.spectrum.dtype).eps ** 0.5
        n_above = xp.sum(xp.astype(self.spectrum > floor, self.spectrum.dtype))
        mean = xp.sum(self.spectrum) / xp.clip(n_above, 1.0, None)
        return xp.where(mean > 0.0, mean, xp.ones_like(mean))

    def take(self, rows: Array) -> LeastSquares:
        """Return the problems of some rows; a row may be taken many times."""
        xp = array_namespace(self.target)
        return LeastSquares(
            self.design,
            self.spectrum,
            xp.take(self.target, rows, axis=0),
            xp.take(self.pull, rows, axis=0),
            xp.take(self.rest, rows, axis=0),
        )


def rotate(A: Array, y: Array) -> LeastSquares:
    """Factorise A once, through the Gram matrix of its short side.

    Parameters
    ----------
    A : array of shape (n, P)
    y : array of shape (n,), or (G, n) for several responses

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A, y, w = rng.normal(size=(4, 9)), rng.normal(size=4), rng.normal(size=9)
    >>> problem = rotate(A, y)
    >>> turned = np.sum((problem.target[0] - problem.design @ w) ** 2)
    >>> bool(np.isclose(turned + problem.rest[0], np.sum((y - A @ w) ** 2)))
    True
    """
    xp = array_namespace(A)
    y = y[None, :] if y.ndim == 1 else y
    n_samples, n_features = A.shape
    if n_samples <= n_features:
        values, vectors = eigh(to_float64(A @ xp.matrix_transpose(A)))
        vectors = xp.astype(vectors, A.dtype, copy=False)
        design, target = xp.matrix_transpose(vectors) @ A, y @ vectors
        rest = xp.zeros_like(target[:, 0])
    else:
        values, vectors = eigh(to_float64(xp.matrix_transpose(A) @ A))
        vectors = xp.astype(vectors, A.dtype, copy=False)
        floor = xp.max(values) * xp.finfo(A.dtype).eps * n_features
        kept = values > floor
        root = xp.sqrt(xp.where(kept, values, xp.ones_like(values)))
        root = xp.astype(root, A.dtype, copy=False)
        zero = xp.zeros_like(root)
        design = xp.where(kept, root, zero)[:, None] * xp.matrix_transpose(vectors)
        target = xp.where(kept, 1.0 / root, zero) * ((y @ A) @ vectors)
        rest = xp.sum(y**2, axis=1) - xp.sum(target**2, axis=1)
        rest = xp.clip(rest, 0.0, None)
    values = xp.clip(xp.astype(values, A.dtype, copy=False), 0.0, None)
    return LeastSquares(design, values, target, target @ design, rest)
