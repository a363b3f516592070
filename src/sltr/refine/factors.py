"""The leading outer product of a tensor, for a batch of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from sltr.arrays import Array, array_namespace, as_array, device, eigh
from sltr.core.tensor import (
    cp_to_tensor,
    flatten,
    fold,
    mode_product,
    own_mode_product,
    unfold,
)


def _outer(vectors: list[Array]) -> Array:
    """Return the outer products of a batch of vectors, (B, p1, …, pM)."""
    tensor = vectors[0]
    for vector in vectors[1:]:
        places = (slice(None), *([None] * (tensor.ndim - 1)), slice(None))
        tensor = tensor[..., None] * vector[places]
    return tensor


def leading_term(tensor: Array, n_iter: int = 10) -> tuple[list[Array], Array]:
    """Return unit vectors (B, p_m) and size (B,) of a best rank-one term.

    Higher-order power iterations from the leading singular vectors.
    """
    xp = array_namespace(tensor)
    n_modes = tensor.ndim - 1
    matrices = [unfold(tensor, mode) for mode in range(n_modes)]
    vectors = [_leading_vector(matrix) for matrix in matrices]
    for _ in range(n_iter):
        for mode, matrix in enumerate(matrices):
            others = [vectors[k] for k in range(n_modes) if k != mode]
            if others:
                weights = xp.reshape(_outer(others), (tensor.shape[0], -1))
            else:
                weights = xp.ones_like(matrix[:, 0, :])
            vector = (matrix @ weights[:, :, None])[:, :, 0]
            size = xp.sqrt(xp.sum(vector**2, axis=1))
            some = (size > 0)[:, None]
            unit = vector / xp.where(some, size[:, None], 1.0)
            vectors[mode] = xp.where(some, unit, vectors[mode])
    return vectors, size


def _leading_vector(matrix: Array) -> Array:
    """Return the leading left singular vectors of a batch (B, p, q): (B, p)."""
    xp = array_namespace(matrix)
    transposed = xp.matrix_transpose(matrix)
    if matrix.shape[1] <= matrix.shape[2]:
        return eigh(matrix @ transposed)[1][:, :, -1]
    # From the short side, which one long mode would make the expensive one.
    vector = (matrix @ eigh(transposed @ matrix)[1][:, :, -1:])[:, :, 0]
    size = xp.linalg.vector_norm(vector, axis=1, keepdims=True)
    first = xp.eye(1, matrix.shape[1], dtype=matrix.dtype, device=device(matrix))
    return xp.where(size > 0, vector / xp.where(size > 0, size, 1.0), first)


Blocks = list[Array]
Shape = tuple[int, ...]


def halves(shape: Shape) -> tuple[range, range]:
    """Split the modes in two runs whose sizes have the smallest sum."""
    order = len(shape)
    cut = min(
        range(1, order),
        key=lambda h: prod(shape[:h]) + prod(shape[h:]),
        default=1,
    )
    return range(cut), range(cut, order)


def leading_vectors(matrix: Array, n_vectors: int) -> Array:
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


# How far an entry of a CP factor may be shrunk against its column's mean.
REWEIGHT_FLOOR = 0.1
# Entries of less than this share of their column's mean energy are zero.
PRUNED_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class TuckerComponents:
    """W = core ×₁ U_1 … ×_M U_M with orthonormal factors, a batch of them."""

    factors: list[Array]  # (B, p_m, r_m)
    core: Array  # (B, r_1, …, r_M)
    # By mode, once made: a step on a mode asks twice.
    _row_spaces: dict[int, Array] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def truncated(coef: Array, ranks: tuple[int, ...]) -> TuckerComponents:
        """Project each coefficient on the leading singular vectors of its modes."""
        xp = array_namespace(coef)
        factors, core = [], coef
        for mode, rank in enumerate(ranks):
            rows = unfold(coef, mode)
            vectors = eigh(rows @ xp.matrix_transpose(rows))[1]
            factors.append(xp.flip(vectors[:, :, vectors.shape[2] - rank :], axis=2))
            core = own_mode_product(core, xp.matrix_transpose(factors[-1]), mode)
        return TuckerComponents(factors, core)

    @staticmethod
    def joined(parts: Sequence[TuckerComponents]) -> TuckerComponents:
        """Return several batches as one."""
        xp = array_namespace(parts[0].core)
        core = xp.concat([part.core for part in parts], axis=0)
        return TuckerComponents(_joined_lists(parts, "factors"), core)

    def take(self, items: Array) -> TuckerComponents:
        """Return the items of these places."""
        core = array_namespace(self.core).take(self.core, items, axis=0)
        return TuckerComponents(_taken(self.factors, items), core)

    @property
    def scales(self) -> None:
        """Prior variances of the blocks' entries: all equal."""
        return None

    def pruned(self, block: Array) -> Array:
        """Return a block as it is: rotations would undo any zeros."""
        return block

    def row_space(self, mode: int) -> Array:
        """Return an orthonormal basis of the core's rows, (B, Π r_k, r_m), k ≠ m."""
        if mode not in self._row_spaces:
            xp = array_namespace(self.core)
            columns = xp.matrix_transpose(unfold(self.core, mode))
            self._row_spaces[mode] = xp.linalg.qr(columns)[0]
        return self._row_spaces[mode]

    def loadings(self, mode: int) -> Array:
        """Return L (B, P / p_m, r_m), orthonormal columns, with W_(m) = B·Lᵀ."""
        rows = self.row_space(mode)  # (B, Π r_k, r_m)
        others = [factor for k, factor in enumerate(self.factors) if k != mode]
        xp = array_namespace(rows)
        ranks = [factor.shape[2] for factor in others]
        loadings = xp.reshape(rows, (rows.shape[0], *ranks, rows.shape[2]))
        for k, factor in enumerate(others):
            loadings = own_mode_product(loadings, factor, k)
        return xp.reshape(loadings, (rows.shape[0], -1, rows.shape[2]))

    def other_factors(self, mode: int) -> Array:
        """Return the Kronecker product of the other modes' factors, item by item.

        Shape (B, P / p_m, Π r_k), k ≠ m; `loadings` are these times `row_space`.
        """
        xp = array_namespace(self.core)
        product = xp.ones_like(self.factors[mode][:, :1, :1])
        for k, factor in enumerate(self.factors):
            if k != mode:
                product = product[:, :, None, :, None] * factor[:, None, :, None, :]
                n_items, a, b, c, d = product.shape
                product = xp.reshape(product, (n_items, a * b, c * d))
        return product

    def replaced(self, mode: int, block: Array) -> TuckerComponents:
        """Return the structure with W_(m) = block·Lᵀ, orthonormal again."""
        xp = array_namespace(block)
        factor, size = xp.linalg.qr(block)
        matrix = size @ xp.matrix_transpose(self.row_space(mode))
        factors = [*self.factors[:mode], factor, *self.factors[mode + 1 :]]
        return TuckerComponents(factors, fold(matrix, mode, tuple(self.core.shape[1:])))

    def coef(self) -> Array:
        """Return the full tensors, (B, p1, …, pM)."""
        coef = self.core
        for mode, factor in enumerate(self.factors):
            coef = own_mode_product(coef, factor, mode)
        return coef


@dataclass(frozen=True, eq=False)
class CPComponents:
    """W = Σ_r size_r · u_r¹ ∘ … ∘ u_r^M with unit vectors, a batch of them."""

    factors: list[Array]  # (B, p_m, R), unit columns
    sizes: Array  # (B, R)
    scales: list[Array]  # (B, p_m, R), prior variances of the entries, mean 1

    @staticmethod
    def start(coef: Array) -> CPComponents:
        """Take the leading rank-one term of each coefficient."""
        xp = array_namespace(coef)
        vectors, size = leading_term(coef)
        factors = [vector[:, :, None] for vector in vectors]
        return CPComponents(factors, size[:, None], [xp.ones_like(f) for f in factors])

    @staticmethod
    def joined(parts: Sequence[CPComponents]) -> CPComponents:
        """Return several batches as one."""
        xp = array_namespace(parts[0].sizes)
        return CPComponents(
            _joined_lists(parts, "factors"),
            xp.concat([part.sizes for part in parts], axis=0),
            _joined_lists(parts, "scales"),
        )

    def take(self, items: Array) -> CPComponents:
        """Return the items of these places."""
        sizes = array_namespace(self.sizes).take(self.sizes, items, axis=0)
        factors, scales = _taken(self.factors, items), _taken(self.scales, items)
        return CPComponents(factors, sizes, scales)

    def grown(self, extra: Array) -> CPComponents:
        """Return a start of one term more: the leading one of `extra`."""
        xp = array_namespace(self.sizes)
        vectors, size = leading_term(extra)
        new = [vector[:, :, None] for vector in vectors]
        factors = [
            xp.concat([factor, column], axis=2)
            for factor, column in zip(self.factors, new, strict=True)
        ]
        scales = [
            xp.concat([scale, xp.ones_like(column)], axis=2)
            for scale, column in zip(self.scales, new, strict=True)
        ]
        return CPComponents(
            factors, xp.concat([self.sizes, size[:, None]], axis=1), scales
        )

    def loadings(self, mode: int) -> Array:
        """Return L (B, P / p_m, R), unit columns, with W_(m) = B·Lᵀ."""
        xp = array_namespace(self.sizes)
        loadings = xp.ones_like(self.sizes)[:, None, :]
        for k, factor in enumerate(self.factors):
            if k != mode:
                loadings = loadings[:, :, None, :] * factor[:, None, :, :]
                loadings = xp.reshape(
                    loadings, (loadings.shape[0], -1, loadings.shape[3])
                )
        return loadings

    def pruned(self, block: Array) -> Array:
        """Return a block without entries that are small against their column."""
        xp = array_namespace(block)
        energy = block**2
        mean = xp.mean(energy, axis=1, keepdims=True)
        return xp.where(energy < PRUNED_SHARE * mean, 0.0, block)

    def replaced(self, mode: int, block: Array) -> CPComponents:
        """Return the structure with W_(m) = block·Lᵀ, and reweigh its entries."""
        xp = array_namespace(block)
        energy = block**2
        total = xp.sum(energy, axis=1, keepdims=True)
        some = total > 0
        divisor = xp.where(some, total, 1.0)
        share = xp.where(some, block.shape[1] * energy / divisor, 1.0)
        scale = (share + REWEIGHT_FLOOR) / (1.0 + REWEIGHT_FLOOR)
        # A term that vanished keeps its direction: it may come back in another mode.
        unit = xp.where(some, block / xp.sqrt(divisor), self.factors[mode])
        return replace(
            self,
            factors=[*self.factors[:mode], unit, *self.factors[mode + 1 :]],
            scales=[*self.scales[:mode], scale, *self.scales[mode + 1 :]],
            sizes=xp.sqrt(total[:, 0, :]),
        )

    def coef(self) -> Array:
        """Return the full tensors, (B, p1, …, pM)."""
        xp = array_namespace(self.sizes)
        block = self.factors[0] * self.sizes[:, None, :]
        matrix = block @ xp.matrix_transpose(self.loadings(0))
        shape = tuple(factor.shape[1] for factor in self.factors)
        return fold(matrix, 0, shape)


def _joined_lists(parts: Sequence, name: str) -> list[Array]:
    """Return the parts' lists of arrays, each entry one after another."""
    lists = [getattr(part, name) for part in parts]
    xp = array_namespace(*lists[0])
    return [xp.concat(arrays, axis=0) for arrays in zip(*lists, strict=True)]


def _taken(arrays: list[Array], items: Array) -> list[Array]:
    xp = array_namespace(items)
    return [xp.take(array, items, axis=0) for array in arrays]
