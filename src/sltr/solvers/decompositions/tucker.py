"""A core and a factor for each mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from sltr._array import Array, array_namespace, as_array
from sltr.solvers.decompositions.blocks import Blocks, Shape, halves, leading_vectors
from sltr.tensor import flatten, mode_product, unfold

__all__ = ["Tucker"]


@dataclass(frozen=True)
class Tucker:
    """B = G ×₁ B_1 … ×_M B_M; the blocks are the factors (p_m, r_m), then the core."""

    shape: Shape
    ranks: Shape

    @property
    def largest_rank(self) -> int:
        """The largest of the modes' ranks."""
        return max(self.ranks)

    def designs(self, X: Array, blocks: Blocks) -> Iterator[tuple[int, Array]]:
        """Yield the design of every factor, shape (n, p_m·r_m), then of the core.

        Blocks are read when their turn comes: an update between two designs of a
        sweep is seen by the second.
        """
        first, last = halves(self.shape)
        part = X
        for mode in reversed(last):
            part = _project(part, blocks, mode)
        yield from self._half_designs(part, blocks, first)
        part = X
        for mode in first:
            part = _project(part, blocks, mode)
        yield from self._half_designs(part, blocks, last)
        for mode in reversed(last):
            part = _project(part, blocks, mode)
        yield len(self.shape), flatten(part)

    def _half_designs(self, part, blocks, modes):
        xp = array_namespace(part)
        for mode in modes:
            projected = part
            for other in modes:
                if other != mode:
                    projected = _project(projected, blocks, other)
            core = unfold(blocks[-1][None, ...], mode)[0, ...]
            yield mode, flatten(unfold(projected, mode) @ xp.matrix_transpose(core))

    def balance(self, blocks: Blocks) -> Blocks:
        """Share sizes between each factor and the core.

        With B_m = Q·R and R·G_(m) = U·S·Vᵀ, the pair Q·U·√S and √S·Vᵀ has the least
        ‖B_m‖² + ‖G‖² among those with the same product.
        """
        xp = array_namespace(*blocks)
        factors, core = list(blocks[:-1]), blocks[-1]
        for mode, factor in enumerate(factors):
            if factor.shape[0] < factor.shape[1]:
                continue
            basis, triangle = xp.linalg.qr(factor)
            U, s, _ = xp.linalg.svd(
                triangle @ unfold(core[None, ...], mode)[0, ...], full_matrices=False
            )
            if float(s[-1]) <= 1e-12 * float(s[0]) or s.shape[0] < factor.shape[1]:
                continue
            root = xp.sqrt(s)
            change = (xp.matrix_transpose(U) / root[:, None]) @ triangle
            factors[mode] = (basis @ U) * root
            core = mode_product(core[None, ...], change, mode)[0, ...]
        return [*factors, core]

    def tensor(self, blocks: Blocks) -> Array:
        """Return the coefficient, shape (p1, …, pM)."""
        tensor = blocks[-1][None, ...]
        for mode, factor in enumerate(blocks[:-1]):
            tensor = mode_product(tensor, factor, mode)
        return tensor[0, ...]

    def random_start(self, rng: Any, like: Array) -> Blocks:
        """Return normal factors and a normal core."""
        factors = [
            as_array(rng.standard_normal((size, rank)) / size**0.5, like)
            for size, rank in zip(self.shape, self.ranks, strict=True)
        ]
        return [*factors, as_array(rng.standard_normal(self.ranks), like)]

    def spectral_start(self, pilot: Array) -> Blocks:
        """Return the truncated higher-order SVD of the pilot tensor."""
        batch = pilot[None, ...]
        factors = [
            leading_vectors(unfold(batch, mode)[0, ...], rank)
            for mode, rank in enumerate(self.ranks)
        ]
        for mode in range(len(factors)):
            batch = _project(batch, factors, mode)
        return [*factors, batch[0, ...]]

    def smaller(self, rank: int) -> Tucker:
        """Return the structure with ranks of at most `rank`."""
        return Tucker(self.shape, tuple(min(rank, r) for r in self.ranks))

    def enlarge(self, blocks: Blocks, coef: Array, slope: Array) -> Blocks:
        """Truncate a gradient step from the tensor of smaller blocks."""
        return self.spectral_start(coef + slope)

    def n_parameters(self) -> int:
        """Return the free parameters: those of the blocks less their invariances."""
        factors = sum(r * (p - r) for p, r in zip(self.shape, self.ranks, strict=True))
        return factors + prod(self.ranks)

    def block_sizes(self) -> list[int]:
        """Return the number of unknowns of each block."""
        factors = [p * r for p, r in zip(self.shape, self.ranks, strict=True)]
        return [*factors, prod(self.ranks)]


def _project(tensor: Array, blocks: Blocks, mode: int) -> Array:
    xp = array_namespace(tensor)
    return mode_product(tensor, xp.matrix_transpose(blocks[mode]), mode)
