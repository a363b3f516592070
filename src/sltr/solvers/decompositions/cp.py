"""Sums of outer products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from sltr._array import Array, array_namespace, as_array
from sltr.solvers.decompositions.blocks import Blocks, Shape, halves
from sltr.solvers.rank_one import leading_term
from sltr.tensor import cp_to_tensor

__all__ = ["CP"]


@dataclass(frozen=True)
class CP:
    """B = Σ_r b_r¹ ∘ … ∘ b_r^M; block m is the factor of mode m, shape (p_m, R)."""

    shape: Shape
    rank: int

    @staticmethod
    def largest_possible(shape: Shape) -> int:
        """Return a rank no tensor exceeds: one term for each fibre of the long mode."""
        return prod(shape) // max(shape)

    @property
    def largest_rank(self) -> int:
        """The number of components."""
        return self.rank

    def designs(self, X: Array, blocks: Blocks) -> Iterator[tuple[int, Array]]:
        """Yield every factor's design, shape (n, p_m·R), from the current blocks.

        Blocks are read when their turn comes: an update between two designs of a
        sweep is seen by the second.
        """
        xp = array_namespace(X)
        first, last = halves(self.shape)
        n_samples = X.shape[0]
        n_first, n_last = (prod(self.shape[m] for m in half) for half in (first, last))
        weights = _khatri_rao([blocks[m] for m in last], blocks[0])
        part = xp.reshape(X, (n_samples * n_first, n_last)) @ weights
        part = xp.moveaxis(xp.reshape(part, (n_samples, n_first, self.rank)), 2, 0)
        yield from self._half_designs(part, blocks, first)
        if len(last):
            weights = _khatri_rao([blocks[m] for m in first], blocks[0])
            part = xp.matmul(
                xp.matrix_transpose(weights),
                xp.reshape(X, (n_samples, n_first, n_last)),
            )
            yield from self._half_designs(xp.moveaxis(part, 1, 0), blocks, last)

    def _half_designs(self, part, blocks, modes):
        """Contract (R, n, sizes of `modes`) with all factors of `modes` but one."""
        xp = array_namespace(part)
        n_samples = part.shape[1]
        sizes = [self.shape[m] for m in modes]
        part = xp.reshape(part, (self.rank, n_samples, *sizes))
        for mode in modes:
            design = part
            for other in reversed(modes):
                if other == mode:
                    continue
                # Modes after `mode` go first, so `other` sits at its own place.
                axis = 2 + other - modes[0]
                design = xp.moveaxis(design, axis, -1)
                kept = design.shape[:-1]
                rows = xp.reshape(design, (self.rank, -1, self.shape[other]))
                column = xp.matrix_transpose(blocks[other])[:, :, None]
                design = xp.reshape(xp.matmul(rows, column), kept)
            yield mode, xp.reshape(xp.moveaxis(design, 0, -1), (n_samples, -1))

    def balance(self, blocks: Blocks, *, l1: bool = False) -> Blocks:
        """Share every component's size equally among its factors.

        By the inequality of the means this gives Σ_m‖b_r^m‖² (or, for `l1`, the sum of
        1-norms) its least value for a given tensor.
        """
        xp = array_namespace(*blocks)
        order = len(blocks)
        norms = xp.stack(
            [
                xp.sum(xp.abs(b), axis=0) if l1 else xp.sqrt(xp.sum(b * b, axis=0))
                for b in blocks
            ]
        )
        alive = xp.all(norms > 0.0, axis=0)
        norms = xp.where(alive[None, :], norms, xp.ones_like(norms))
        logs = xp.log(norms)
        scales = xp.exp(xp.sum(logs, axis=0) / order - logs)
        return [block * scales[m, :] for m, block in enumerate(blocks)]

    def tensor(self, blocks: Blocks) -> Array:
        """Return the coefficient, shape (p1, …, pM)."""
        return cp_to_tensor(blocks)

    def random_start(self, rng: Any, like: Array) -> Blocks:
        """Return normal factors whose columns have norms of about one."""
        return [
            as_array(rng.standard_normal((size, self.rank)) / size**0.5, like)
            for size in self.shape
        ]

    def spectral_start(self, pilot: Array) -> Blocks:
        """Peel R rank-one terms off the pilot tensor by the power method."""
        xp = array_namespace(pilot)
        terms = []
        for _ in range(self.rank):
            term, size = leading_term(pilot[None, ...])
            columns = [xp.matrix_transpose(vector) for vector in term]
            pilot = pilot - size[0] * cp_to_tensor(columns)
            terms.append(columns)
        return [xp.concat(columns, axis=1) for columns in zip(*terms, strict=True)]

    def smaller(self, rank: int) -> CP:
        """Return the structure with at most `rank` components."""
        return CP(self.shape, min(rank, self.rank))

    def enlarge(self, blocks: Blocks, coef: Array, slope: Array) -> Blocks:
        """Add the leading rank-one term of `slope` to blocks of one rank less."""
        xp = array_namespace(slope)
        term, size = leading_term(slope[None, ...])
        share = float(size[0]) ** (1.0 / slope.ndim)
        return [
            xp.concat([block, share * xp.matrix_transpose(vector)], axis=1)
            for block, vector in zip(blocks, term, strict=True)
        ]

    def n_parameters(self) -> int:
        """Return the free parameters: those of the factors less their invariances."""
        if len(self.shape) == 2:
            return self.rank * (sum(self.shape) - self.rank)
        return self.rank * (sum(self.shape) - len(self.shape) + 1)

    def block_sizes(self) -> list[int]:
        """Return the number of unknowns of each block."""
        return [size * self.rank for size in self.shape]


def _khatri_rao(factors: Blocks, like: Array) -> Array:
    """Return the column-wise Kronecker product, shape (∏p_m, R); ones for none."""
    xp = array_namespace(like)
    product = xp.ones_like(like[:1, :])
    for factor in factors:
        product = product[:, None, :] * factor[None, :, :]
        product = xp.reshape(product, (-1, like.shape[1]))
    return product
