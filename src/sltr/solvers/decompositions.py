"""Low-rank structures for a coefficient tensor: CP and Tucker.

A structure turns a GLM in a tensor into a cycle of GLMs in blocks: the tensor is
linear in each block when the others are held. All structures offer the same methods:

- ``designs(X, blocks)`` yields ``(index, design)`` for one sweep;
- ``balance(blocks)`` is the same tensor at no higher a ridge penalty;
- ``spectral_start``, ``random_start``, ``enlarge`` and ``tensor`` make blocks and undo
  them; ``smaller(k)`` is the same structure with ranks of at most k.

The samples are read twice in a sweep: once contracted with the factors of the last
modes, which serves all the first modes, and once the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from sltr._array import Array, array_namespace, as_array, device, eigh
from sltr.tensor import cp_to_tensor, flatten, mode_product, unfold

__all__ = ["CP", "Blocks", "Tucker"]

Blocks = list[Array]
Shape = tuple[int, ...]


def _halves(shape: Shape) -> tuple[range, range]:
    """Split the modes in two runs whose sizes have the smallest sum."""
    order = len(shape)
    cut = min(
        range(1, order),
        key=lambda h: prod(shape[:h]) + prod(shape[h:]),
        default=1,
    )
    return range(cut), range(cut, order)


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
        first, last = _halves(self.shape)
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
            term = _rank_one(pilot)
            size = _inner_product(pilot, term)
            pilot = pilot - size * cp_to_tensor([v[:, None] for v in term])
            terms.append(term)
        return [xp.stack([t[m] for t in terms], axis=1) for m in range(pilot.ndim)]

    def smaller(self, rank: int) -> CP:
        """Return the structure with at most `rank` components."""
        return CP(self.shape, min(rank, self.rank))

    def enlarge(self, blocks: Blocks, coef: Array, slope: Array) -> Blocks:
        """Add the leading rank-one term of `slope` to blocks of one rank less."""
        xp = array_namespace(slope)
        term = _rank_one(slope)
        size = abs(float(_inner_product(slope, term))) ** (1.0 / slope.ndim)
        return [
            xp.concat([block, size * vector[:, None]], axis=1)
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
        first, last = _halves(self.shape)
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
            _leading_vectors(unfold(batch, mode)[0, ...], rank)
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


def _khatri_rao(factors: Blocks, like: Array) -> Array:
    """Return the column-wise Kronecker product, shape (∏p_m, R); ones for none."""
    xp = array_namespace(like)
    product = xp.ones_like(like[:1, :])
    for factor in factors:
        product = product[:, None, :] * factor[None, :, :]
        product = xp.reshape(product, (-1, like.shape[1]))
    return product


def _project(tensor: Array, blocks: Blocks, mode: int) -> Array:
    xp = array_namespace(tensor)
    return mode_product(tensor, xp.matrix_transpose(blocks[mode]), mode)


def _leading_vectors(matrix: Array, n_vectors: int) -> Array:
    """Return orthonormal leading left singular vectors, shape (rows, n_vectors)."""
    xp = array_namespace(matrix)
    rows, columns = matrix.shape
    if rows <= columns:
        return xp.flip(eigh(matrix @ xp.matrix_transpose(matrix))[1], axis=1)[
            :, :n_vectors
        ]
    vectors = xp.flip(eigh(xp.matrix_transpose(matrix) @ matrix)[1], axis=1)
    leading = matrix @ vectors[:, :n_vectors]
    # More vectors than columns: unit vectors fill up; QR makes all orthonormal.
    filling = xp.eye(rows, n_vectors, dtype=matrix.dtype, device=device(matrix))
    basis = xp.linalg.qr(xp.concat([leading, filling], axis=1))[0]
    return basis[:, :n_vectors]


def _rank_one(tensor: Array, *, n_steps: int = 10) -> list[Array]:
    """Return unit vectors whose outer product is near the best rank-one term."""
    xp = array_namespace(tensor)
    order = tensor.ndim
    vectors = [
        _leading_vectors(unfold(tensor[None, ...], mode)[0, ...], 1)[:, 0]
        for mode in range(order)
    ]
    for _ in range(n_steps if order > 2 else 1):
        for mode in range(order):
            row = tensor[None, ...]
            for other in range(order):
                if other != mode:
                    row = mode_product(row, vectors[other][None, :], other)
            direction = xp.reshape(row, (-1,))
            norm = float(xp.sqrt(xp.sum(direction**2)))
            if norm > 0.0:
                vectors[mode] = direction / norm
    return vectors


def _inner_product(tensor: Array, vectors: list[Array]) -> Array:
    """Return ⟨tensor, v¹ ∘ … ∘ v^M⟩."""
    batch = tensor[None, ...]
    for mode, vector in enumerate(vectors):
        batch = mode_product(batch, vector[None, :], mode)
    return array_namespace(batch).sum(batch)
