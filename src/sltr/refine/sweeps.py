"""Alternating ridge sweeps over the modes of a low-rank coefficient.

In mode m the coefficient is B·Lᵀ with loadings L made of the other modes, and B is
a ridge estimate on the n × (r·p) matrix X_(m)·L. "cp" also reweights its entries,
and those that become small are zero. Every routine works on a batch of subsets and
responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sltr._array import Array, array_namespace, device
from sltr.refine.subset import Subsets, weighted_ridge
from sltr.solvers.components import CPComponents, TuckerComponents
from sltr.tensor import flatten

__all__ = ["RIDGES", "Structure", "Sweeps", "unfoldings"]

# Ridges of the sweeps, relative to the features' mean energy: from a strong one,
# whose objective has few minima, down to nearly none, each starting from the last.
RIDGES = (0.3, 0.1, 0.03)
FIRST_SWEEPS, NEXT_SWEEPS = 4, 3

Structure = TuckerComponents | CPComponents
Some = TypeVar("Some", TuckerComponents, CPComponents)


def unfoldings(X: Array) -> list[Array]:
    """Return the samples' unfoldings, each (P / p_m, p_m · n): samples come last."""
    xp = array_namespace(X)
    n_samples = X.shape[0]
    found = []
    for mode, size in enumerate(X.shape[1:]):
        order = [*(k for k in range(1, X.ndim) if k != mode + 1), mode + 1, 0]
        matrix = xp.permute_dims(X, order)
        found.append(xp.reshape(matrix, (-1, size * n_samples)))
    return found


@dataclass(frozen=True, eq=False)
class Sweeps:
    """The problem that sweeps lower, one mode after another, for a batch.

    With A the weighted, centred samples it is

        ‖y − A·vec(W)‖² + ridge · variance · Σweight · ‖W‖²,

    W of Tucker rank (at most) r in every mode, or a sum of r outer products.
    Samples of weight zero take no part, but get fitted values.
    """

    matrices: list[Array]  # `unfoldings` of the samples
    subsets: Subsets
    variance: Array  # (B,), `feature_variance` of the subsets
    ridges: Sequence[float] = RIDGES  # descending

    def descent(self, fitted: Array) -> Array:
        """Return Aᵀ(y − fitted), (B, P), the direction in which the loss falls."""
        xp = array_namespace(fitted)
        # Centred and weighted, a residual sums to zero: samples need no centring.
        residual = self.subsets.weight * (self.subsets.target - fitted)
        columns = xp.reshape(self.matrices[-1], (-1, fitted.shape[1]))
        return xp.matrix_transpose(columns @ xp.matrix_transpose(residual))

    def along_ridges(
        self, starts: Sequence[Some]
    ) -> Iterator[tuple[float, Some, Array]]:
        """Yield each ridge, the structures swept under it, and their fitted values.

        Every item begins from all starts; under the first ridge the one of the least
        objective is kept.
        """
        wide = self if len(starts) == 1 else self._repeated(len(starts))
        structure, fitted = wide._swept(_joined(starts), self.ridges[0], FIRST_SWEEPS)
        if len(starts) > 1:
            best = wide._best_of(structure, fitted, len(starts))
            structure = structure.take(best)
            fitted = array_namespace(fitted).take(fitted, best, axis=0)
        yield self.ridges[0], structure, fitted
        for ridge in self.ridges[1:]:
            structure, fitted = self._swept(structure, ridge, NEXT_SWEEPS)
            yield ridge, structure, fitted

    def _penalty(self, ridge: float) -> Array:
        xp = array_namespace(self.variance)
        return ridge * self.variance * xp.sum(self.subsets.weight, axis=1)

    def _swept(
        self, structure: Some, ridge: float, n_sweeps: int
    ) -> tuple[Some, Array]:
        penalty = self._penalty(ridge)
        for _ in range(n_sweeps):
            for mode in range(len(self.matrices)):
                structure, fitted = _mode_step(self, structure, mode, penalty)
            if isinstance(structure, TuckerComponents):
                structure, fitted = _core_step(self, structure, penalty)
        return structure, fitted

    def _repeated(self, times: int) -> Sweeps:
        """Return the same problems for a batch that is `times` as long."""
        xp = array_namespace(self.variance)
        y, weight, variance = (
            xp.concat([values] * times, axis=0)
            for values in (self.subsets.y, self.subsets.weight, self.variance)
        )
        subsets = replace(self.subsets, y=y, weight=weight)
        return replace(self, subsets=subsets, variance=variance)

    def _best_of(self, structure: Structure, fitted: Array, n_starts: int) -> Array:
        """Return the place of each item's start of the least objective, (B,)."""
        xp = array_namespace(fitted)
        coef = flatten(structure.coef())
        residual = self.subsets.target - fitted
        loss = xp.linalg.vecdot(self.subsets.weight * residual, residual)
        size = self._penalty(self.ridges[0]) * xp.linalg.vecdot(coef, coef)
        objective = xp.reshape(loss + size, (n_starts, -1))
        n_items = objective.shape[1]
        items = xp.arange(n_items, dtype=xp.int64, device=device(fitted))
        return items + n_items * xp.astype(xp.argmin(objective, axis=0), xp.int64)


def _joined(parts: Sequence[Some]) -> Some:
    return parts[0] if len(parts) == 1 else type(parts[0]).joined(parts)


def _mode_step(
    data: Sweeps, structure: Some, mode: int, penalty: Array
) -> tuple[Some, Array]:
    """Solve for one mode's block given all others; return it and fitted values."""
    xp = array_namespace(data.subsets.y)
    scale = xp.sqrt(xp.matrix_transpose(structure.scales[mode]))  # (B, r, p)
    n_items, rank, size = scale.shape
    design = _projected(data, structure.loadings(mode), mode)
    design = _flat_centred(data, design)  # (B, r · p, n)
    flat = xp.reshape(scale, (n_items, rank * size))
    rows = _fit_block(data, design * flat[:, :, None], penalty) * flat
    rows = xp.reshape(rows, (n_items, rank, size))
    block = structure.pruned(xp.matrix_transpose(rows))
    rows = xp.reshape(xp.matrix_transpose(block), (n_items, 1, rank * size))
    return structure.replaced(mode, block), (rows @ design)[:, 0, :]


def _core_step(
    data: Sweeps, structure: TuckerComponents, penalty: Array
) -> tuple[TuckerComponents, Array]:
    """Solve for the core given all factors; return it and fitted values."""
    xp = array_namespace(data.subsets.y)
    last = len(structure.factors) - 1
    loadings = xp.ones_like(structure.core[(slice(None), *([0] * (last + 1)))])
    loadings = loadings[:, None, None]
    for factor in structure.factors[:last]:  # Kronecker products, item by item
        loadings = loadings[:, :, None, :, None] * factor[:, None, :, None, :]
        n_items, a, b, c, d = loadings.shape
        loadings = xp.reshape(loadings, (n_items, a * b, c * d))
    design = _projected(data, loadings, last)
    factor = xp.matrix_transpose(structure.factors[last])[:, None, :, :]
    design = _flat_centred(data, factor @ design)  # (B, r_1 ⋯ r_M, n)
    core = _fit_block(data, design, penalty)
    fitted = (core[:, None, :] @ design)[:, 0, :]
    return replace(structure, core=xp.reshape(core, structure.core.shape)), fitted


def _projected(data: Sweeps, loadings: Array, mode: int) -> Array:
    """Return Lᵀ·X_(m)ᵀ for every item of a batch in one product: (B, r, p, n)."""
    xp = array_namespace(data.subsets.y)
    n_items, rest, rank = loadings.shape
    rows = xp.reshape(xp.matrix_transpose(loadings), (n_items * rank, rest))
    product = rows @ data.matrices[mode]
    return xp.reshape(product, (n_items, rank, -1, data.subsets.y.shape[1]))


def _flat_centred(data: Sweeps, design: Array) -> Array:
    xp = array_namespace(design)
    n_items, *_, n_samples = design.shape
    return data.subsets.centred(xp.reshape(design, (n_items, -1, n_samples)))


def _fit_block(data: Sweeps, design: Array, penalty: Array) -> Array:
    """Solve the ridge problems of centred designs (B, d, n): blocks (B, d)."""
    subsets = data.subsets
    return weighted_ridge(design, subsets.target, subsets.weight, penalty)
