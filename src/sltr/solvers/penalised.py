"""The objective of sparse and low-rank least squares, and a bound below it.

    min_W  ½‖y − A·w‖² + (α/K) Σ_k ‖W‖_(k) + β ‖W‖₁ + (γ/2) ‖W‖²,   w = vec(W),

with K low-rank norms ‖·‖_(k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sltr._array import Array, array_namespace
from sltr.prox import soft_threshold
from sltr.solvers.least_squares import LeastSquares
from sltr.solvers.low_rank import TensorNorm

__all__ = ["Penalised", "positive"]


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
