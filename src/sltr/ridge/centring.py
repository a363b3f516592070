"""Weights and means of a subset, as a map between samples and rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sltr._array import Array, array_namespace

__all__ = ["Centring", "subset_shares"]


@dataclass(frozen=True, eq=False)
class Centring:
    """The map C of a subset: A = Cᵀ·X, its columns orthogonal to √weight.

    `weight` has shape (…, n), zero for samples that are left out; vectors are
    columns of arrays of shape (…, n, k).
    """

    weight: Array
    fit_intercept: bool

    @cached_property
    def _root(self) -> Array:
        return array_namespace(self.weight).sqrt(self.weight)[..., None]

    @cached_property
    def _total(self) -> Array:
        xp = array_namespace(self.weight)
        return xp.sum(self.weight, axis=-1, keepdims=True)[..., None]

    def spread(self, v: Array) -> Array:
        """Return C·v: sample coefficients of the combination Aᵀv."""
        xp = array_namespace(v)
        scaled = self._root * v
        if not self.fit_intercept:
            return scaled
        mean = xp.sum(scaled, axis=-2, keepdims=True) / self._total
        return scaled - self.weight[..., None] * mean

    def gather(self, t: Array) -> Array:
        """Return Cᵀ·t: centred by the weighted mean, scaled by root weights."""
        xp = array_namespace(t)
        if self.fit_intercept:
            weighted = self.weight[..., None] * t
            t = t - xp.sum(weighted, axis=-2, keepdims=True) / self._total
        return self._root * t

    def both(self, matrix: Array) -> Array:
        """Return Cᵀ·matrix·C for a symmetric (n, n) matrix."""
        xp = array_namespace(matrix)
        return self.gather(xp.matrix_transpose(self.gather(matrix)))


def subset_shares(subsets: Array, weight: Array) -> Array:
    """Return each sample's share of its subset's weight, (S, n): means are shares·X."""
    xp = array_namespace(weight)
    own = xp.where(subsets, weight, 0.0)
    return own / xp.sum(own, axis=1, keepdims=True)
