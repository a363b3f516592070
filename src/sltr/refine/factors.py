"""Tensors of low rank, CP and Tucker, a batch of them.

Both consist of blocks: one factor for each mode, and for Tucker a core. Given all
other blocks, the tensor is linear in block m: its unfolding is W_(m) = B·Lᵀ with
loadings L, and X_(m)·L is the design of a regression for B.

A structure is kept in one of two forms. Refits penalise the whole tensor: a new block
is normalised at once (unit columns, orthonormal factors), so that loadings are unit
or orthonormal. The CP and Tucker models penalise the blocks: there a new block
stays as it is, and `balanced` shares the sizes among all blocks after a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Protocol, TypeVar

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, device, eigh, qr, repeated
from sltr.core.tensor import flatten, fold, own_mode_product, unfold

Shape = tuple[int, ...]

# How far an entry of a CP factor may be shrunk against its column's mean.
REWEIGHT_FLOOR = 0.1
# Entries of less than this share of their column's mean energy are zero.
PRUNED_SHARE = 0.01
# The eigenvectors of p × p matrices become expensive beyond this size.
LONG_MODE = 64


def khatri_rao(factors: Sequence[Array], like: Array) -> Array:
    """Return the column-wise Kronecker products, (B, ∏p_m, R); ones for no factor.

    Of `like` (B, p, R) only the batch and the columns are used.
    """
    xp = array_namespace(like)
    if not factors:
        return xp.ones_like(like[:, :1, :])
    product = factors[0]
    for factor in factors[1:]:
        product = product[:, :, None, :] * factor[:, None, :, :]
        product = xp.reshape(product, (like.shape[0], -1, like.shape[2]))
    return product


def leading_term(
    tensor: Array, order: Sequence[int] | None = None, n_iter: int = 10
) -> tuple[list[Array], Array]:
    """Return unit vectors (B, p_m, 1) and size (B, 1) of a best rank-one term.

    Higher-order power iterations from the leading singular vectors, one mode after
    another in this order.
    """
    xp = array_namespace(tensor)
    matrices = [unfold(tensor, mode) for mode in range(tensor.ndim - 1)]
    modes = range(len(matrices)) if order is None else order

    def turned(*state: Array) -> tuple[Array, ...]:
        """Return the vectors, and the size, after each was solved for once."""
        vectors, size = list(state[:-1]), state[-1]
        for mode in modes:
            others = vectors[:mode] + vectors[mode + 1 :]
            vector = matrices[mode] @ khatri_rao(others, vectors[mode])
            size = xp.linalg.vector_norm(vector, axis=1, keepdims=True)
            some = size > 0
            unit = vector / xp.where(some, size, 1.0)
            vectors[mode] = xp.where(some, unit, vectors[mode])
        return (*vectors, size)

    vectors = [_leading_vector(matrix) for matrix in matrices]
    state = (*vectors, xp.ones_like(vectors[0][:, :1, :]))
    *vectors, size = repeated(turned, state)(n_iter)
    return vectors, size[:, :, 0]


def _leading_vector(matrix: Array) -> Array:
    """Return the leading left singular vectors of a batch (B, p, q): (B, p, 1)."""
    xp = array_namespace(matrix)
    transposed = xp.matrix_transpose(matrix)
    if matrix.shape[1] <= matrix.shape[2]:
        return eigh(matrix @ transposed)[1][:, :, -1:]
    # From the short side, which one long mode would make the expensive one.
    vector = matrix @ eigh(transposed @ matrix)[1][:, :, -1:]
    size = xp.linalg.vector_norm(vector, axis=1, keepdims=True)
    first = xp.eye(matrix.shape[1], 1, dtype=matrix.dtype, device=device(matrix))
    return xp.where(size > 0, vector / xp.where(size > 0, size, 1.0), first)


def _leading_vectors(matrix: Array, n_vectors: int) -> Array:
    """Return orthonormal leading left singular vectors, (B, p, n_vectors)."""
    xp = array_namespace(matrix)
    transposed = xp.matrix_transpose(matrix)
    n_items, rows, columns = matrix.shape
    if rows <= max(columns, LONG_MODE):
        vectors = eigh(matrix @ transposed)[1]
        return xp.flip(vectors[:, :, rows - n_vectors :], axis=2)
    vectors = xp.flip(eigh(transposed @ matrix)[1], axis=2)
    leading = matrix @ vectors[:, :, :n_vectors]
    # There may be more vectors than columns: unit vectors take the other places.
    filling = xp.eye(rows, n_vectors, dtype=matrix.dtype, device=device(matrix))
    filling = xp.broadcast_to(filling, (n_items, rows, n_vectors))
    basis = qr(xp.concat([leading, filling], axis=2))[0]
    return basis[:, :, :n_vectors]


@dataclass(frozen=True, eq=False)
class CP:
    """W = Σ_r size_r · u_r¹ ∘ … ∘ u_r^M, a batch of them.

    `scales` are prior variances of the factors' entries, with mean 1. Where they are
    None, new blocks are not normalised and all sizes are 1.
    """

    factors: list[Array]  # (B, p_m, R)
    sizes: Array  # (B, R)
    scales: list[Array] | None  # (B, p_m, R)

    @staticmethod
    def start(tensor: Array, order: Sequence[int] | None = None) -> CP:
        """Take the leading rank-one term of each tensor (B, p1, …, pM), normalised."""
        factors, sizes = leading_term(tensor, order)
        ones = [array_namespace(f).ones_like(f) for f in factors]
        return CP(factors, sizes, ones)

    @staticmethod
    def of_factors(factors: list[Array]) -> CP:
        """Return the sum of the columns' outer products, not normalised."""
        xp = array_namespace(*factors)
        return CP(factors, xp.ones_like(factors[0][:, 0, :]), None)

    @staticmethod
    def spectral(tensor: Array, rank: int, order: Sequence[int] | None = None) -> CP:
        """Return unit vectors of leading terms, taken off the tensor one by one."""
        terms = CP.start(tensor, order)
        for _ in range(1, rank):
            terms = terms.grown(tensor - terms.coef(), order=order)
        return CP.of_factors(terms.factors)

    @staticmethod
    def random(shape: Shape, rank: int, rng: Any, like: Array) -> CP:
        """Return one item, normal factors whose columns have norms of about one."""
        return CP.of_factors([_normal(rng, size, rank, like) for size in shape])

    @staticmethod
    def largest_rank(shape: Shape) -> int:
        """Return a rank no tensor exceeds: one term for each fibre of the long mode."""
        return prod(shape) // max(shape)

    @staticmethod
    def rising(rank: int) -> list[int]:
        """Return the ranks through which a start of this rank grows."""
        return list(range(1, rank + 1))

    @staticmethod
    def n_parameters(shape: Shape, rank: int) -> int:
        """Return the free parameters: those of the factors less their invariances."""
        if len(shape) == 2:
            return rank * (sum(shape) - rank)
        return rank * (sum(shape) - len(shape) + 1)

    @staticmethod
    def largest_block(shape: Shape, rank: int) -> int:
        """Return the number of unknowns of the largest block."""
        return max(shape) * rank

    @property
    def rank(self) -> int:
        """The number of terms."""
        return self.sizes.shape[1]

    @property
    def blocks(self) -> list[Array]:
        """What is solved for in turn: the factors."""
        return self.factors

    @property
    def n_seen(self) -> int:
        """How many numbers of each sample the largest design of an item has."""
        return self.rank * max(factor.shape[1] for factor in self.factors)

    def arrays(self) -> list[Array]:
        """Return all arrays, in the order of `of_arrays`."""
        return [*self.factors, self.sizes, *(self.scales or [])]

    def of_arrays(self, arrays: list[Array]) -> CP:
        """Return a structure of the same form with other arrays."""
        n_modes = len(self.factors)
        scales = None if self.scales is None else arrays[n_modes + 1 :]
        return CP(arrays[:n_modes], arrays[n_modes], scales)

    def grown(
        self,
        tensor: Array,
        rank: int | None = None,
        order: Sequence[int] | None = None,
    ) -> CP:
        """Return a start of one term more (of `rank`): the leading one of `tensor`."""
        return self.with_terms(CP.start(tensor, order))

    def with_terms(self, new: CP) -> CP:
        """Return the sum with the terms of another, which is normalised."""
        xp = array_namespace(self.sizes)
        if self.scales is None:
            share = new.sizes[:, None, :] ** (1.0 / len(new.factors))
            new = CP.of_factors([share * factor for factor in new.factors])
        pairs = zip(self.arrays(), new.arrays(), strict=True)
        return self.of_arrays([xp.concat(pair, axis=-1) for pair in pairs])

    def loadings(self, mode: int) -> Array:
        """Return L (B, P / p_m, R) with W_(m) = B·Lᵀ; of unit columns if normalised."""
        others = self.factors[:mode] + self.factors[mode + 1 :]
        return khatri_rao(others, self.factors[mode])

    def vector(self, index: int, values: Array) -> Array:
        """Return a block's values as (B, R·p_m), in the order of its design."""
        return flatten(array_namespace(values).matrix_transpose(values))

    def prior(self, index: int) -> Array | None:
        """Return standard deviations of a block's entries, (B, R·p_m)."""
        if self.scales is None:
            return None
        xp = array_namespace(self.sizes)
        return self.vector(index, xp.sqrt(self.scales[index]))

    def pruned(self, vector: Array) -> Array:
        """Return a block's vector without entries small against their column."""
        xp = array_namespace(vector)
        columns = xp.reshape(vector, (*self.sizes.shape, -1))
        energy = columns**2
        mean = xp.mean(energy, axis=2, keepdims=True)
        return flatten(xp.where(energy < PRUNED_SHARE * mean, 0.0, columns))

    def with_block(self, index: int, vector: Array) -> CP:
        """Put in a block, given as a vector; normalise it and reweight its entries."""
        xp = array_namespace(vector)
        block = xp.matrix_transpose(xp.reshape(vector, (*self.sizes.shape, -1)))
        if self.scales is None:
            return replace(self, factors=_replaced(self.factors, index, block))
        size = xp.linalg.vector_norm(block, axis=1, keepdims=True)
        some = size > 0
        # A term that vanished keeps its direction: it may come back in another mode.
        unit = xp.where(some, block / xp.where(some, size, 1.0), self.factors[index])
        share, floor = block.shape[1] / (1.0 + REWEIGHT_FLOOR), REWEIGHT_FLOOR
        scale = xp.where(some, share * unit**2 + floor / (1.0 + floor), 1.0)
        return CP(
            _replaced(self.factors, index, unit),
            size[:, 0, :],
            _replaced(self.scales, index, scale),
        )

    def balanced(self, *, l1: bool = False) -> CP:
        """Share every term's size equally among its factors.

        By the inequality of the means this gives Σ_m‖b_r^m‖² (or, for `l1`, the sum of
        1-norms) its least value for a given tensor.
        """
        xp = array_namespace(self.sizes)
        norms = xp.stack(
            [
                xp.sum(xp.abs(b), axis=1) if l1 else xp.sqrt(xp.sum(b * b, axis=1))
                for b in self.factors
            ]
        )
        alive = xp.all(norms > 0.0, axis=0)
        logs = xp.log(xp.where(alive, norms, 1.0))
        scales = xp.exp(xp.mean(logs, axis=0) - logs)[:, :, None, :]
        factors = [block * scales[m, ...] for m, block in enumerate(self.factors)]
        return replace(self, factors=factors)

    def coef(self) -> Array:
        """Return the full tensors, (B, p1, …, pM)."""
        xp = array_namespace(self.sizes)
        block = self.factors[0] * self.sizes[:, None, :]
        matrix = block @ xp.matrix_transpose(self.loadings(0))
        return fold(matrix, 0, tuple(factor.shape[1] for factor in self.factors))


@dataclass(frozen=True, eq=False)
class Tucker:
    """W = core ×₁ U_1 … ×_M U_M, a batch of them.

    Unless `orthonormal`, new blocks are not normalised.
    """

    factors: list[Array]  # (B, p_m, r_m)
    core: Array  # (B, r_1, …, r_M)
    orthonormal: bool = True
    # By mode, once made: a step on a mode asks twice.
    _rows: dict[int, Array] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def truncated(tensor: Array, ranks: Shape) -> Tucker:
        """Project tensors (B, p1, …, pM) on their modes' leading singular vectors."""
        xp = array_namespace(tensor)
        factors, core = [], tensor
        for mode, rank in enumerate(ranks):
            factors.append(_leading_vectors(unfold(tensor, mode), rank))
            core = own_mode_product(core, xp.matrix_transpose(factors[-1]), mode)
        return Tucker(factors, core)

    @staticmethod
    def spectral(tensor: Array, ranks: Shape) -> Tucker:
        """Return the truncated tensor; new blocks will not be normalised."""
        return replace(Tucker.truncated(tensor, ranks), orthonormal=False)

    @staticmethod
    def random(shape: Shape, ranks: Shape, rng: Any, like: Array) -> Tucker:
        """Return one item, normal factors and a normal core."""
        pairs = zip(shape, ranks, strict=True)
        factors = [_normal(rng, size, rank, like) for size, rank in pairs]
        core = as_array(rng.standard_normal(ranks), like)[None, ...]
        return Tucker(factors, core, orthonormal=False)

    @staticmethod
    def rising(ranks: Shape) -> list[Shape]:
        """Return the ranks through which a start of these ranks grows."""
        return [tuple(min(r, k + 1) for r in ranks) for k in range(max(ranks))]

    @staticmethod
    def n_parameters(shape: Shape, ranks: Shape) -> int:
        """Return the free parameters: those of the blocks less their invariances."""
        factors = sum(r * (p - r) for p, r in zip(shape, ranks, strict=True))
        return factors + prod(ranks)

    @staticmethod
    def largest_block(shape: Shape, ranks: Shape) -> int:
        """Return the number of unknowns of the largest block."""
        factors = [p * r for p, r in zip(shape, ranks, strict=True)]
        return max(*factors, prod(ranks))

    @property
    def rank(self) -> Shape:
        """The ranks of the modes."""
        return tuple(self.core.shape[1:])

    @property
    def blocks(self) -> list[Array]:
        """What is solved for in turn: the factors, then the core."""
        return [*self.factors, self.core]

    @property
    def n_seen(self) -> int:
        """How many numbers of each sample the largest design of an item has."""
        return Tucker.seen(tuple(f.shape[1] for f in self.factors), self.rank)

    @staticmethod
    def seen(shape: Shape, ranks: Shape) -> int:
        """Return how many numbers of each sample the largest design may have.

        The last factor and the core have one projection, through all other factors.
        """
        pairs = zip(shape, ranks, strict=True)
        return max(p * max(r, prod(ranks) // r) for p, r in pairs)

    def arrays(self) -> list[Array]:
        """Return all arrays, in the order of `of_arrays`."""
        return self.blocks

    def of_arrays(self, arrays: list[Array]) -> Tucker:
        """Return a structure of the same form with other arrays."""
        return replace(self, factors=arrays[:-1], core=arrays[-1])

    def grown(
        self, tensor: Array, ranks: Shape, order: Sequence[int] | None = None
    ) -> Tucker:
        """Truncate the sum of this and another tensor to larger ranks."""
        larger = Tucker.truncated(self.coef() + tensor, ranks)
        return replace(larger, orthonormal=self.orthonormal)

    def rows(self, mode: int) -> Array:
        """Return C_(m)ᵀ (B, Π r_k, r_m), k ≠ m, of the core C.

        With orthonormal factors it is an orthonormal basis of these columns.
        """
        if mode not in self._rows:
            xp = array_namespace(self.core)
            rows = xp.matrix_transpose(unfold(self.core, mode))
            self._rows[mode] = qr(rows)[0] if self.orthonormal else rows
        return self._rows[mode]

    def loadings(self, mode: int) -> Array:
        """Return L (B, P / p_m, r_m) with W_(m) = B·Lᵀ, orthonormal as the factors."""
        rows = self.rows(mode)
        others = self.factors[:mode] + self.factors[mode + 1 :]
        xp = array_namespace(rows)
        ranks = [factor.shape[2] for factor in others]
        loadings = xp.reshape(rows, (rows.shape[0], *ranks, rows.shape[2]))
        for k, factor in enumerate(others):
            loadings = own_mode_product(loadings, factor, k)
        return xp.reshape(loadings, (rows.shape[0], -1, rows.shape[2]))

    def other_factors(self, mode: int) -> Array:
        """Return the Kronecker product of the other modes' factors, item by item.

        Shape (B, P / p_m, Π r_k), k ≠ m; `loadings` are these times `rows`.
        """
        xp = array_namespace(self.core)
        product = xp.ones_like(self.factors[mode][:, :1, :1])
        for factor in self.factors[:mode] + self.factors[mode + 1 :]:
            product = product[:, :, None, :, None] * factor[:, None, :, None, :]
            n_items, a, b, c, d = product.shape
            product = xp.reshape(product, (n_items, a * b, c * d))
        return product

    def vector(self, index: int, values: Array) -> Array:
        """Return a block's values as (B, r_m·p_m) or (B, ∏ r_m), as in its design."""
        if index < len(self.factors):
            values = array_namespace(values).matrix_transpose(values)
        return flatten(values)

    def prior(self, index: int) -> Array | None:
        """Return None: all entries of a block have the same variance."""
        return None

    def pruned(self, vector: Array) -> Array:
        """Return a block's vector as it is: rotations would undo any zeros."""
        return vector

    def with_block(self, index: int, vector: Array) -> Tucker:
        """Put in a block, given as a vector; make its factor orthonormal again."""
        xp = array_namespace(vector)
        if index == len(self.factors):
            return replace(self, core=xp.reshape(vector, self.core.shape))
        n_items, size, rank = self.factors[index].shape
        block = xp.matrix_transpose(xp.reshape(vector, (n_items, rank, size)))
        if not self.orthonormal:
            return replace(self, factors=_replaced(self.factors, index, block))
        factor, triangle = qr(block)
        matrix = triangle @ xp.matrix_transpose(self.rows(index))
        factors = _replaced(self.factors, index, factor)
        return Tucker(factors, fold(matrix, index, self.rank))

    def balanced(self, order: Sequence[int] | None = None) -> Tucker:
        """Share sizes between each factor and the core, mode by mode in this order.

        With U_m = Q·R and R·C_(m) = A·S·Vᵀ, the pair Q·A·√S and √S·Vᵀ has the least
        ‖U_m‖² + ‖core‖² among those with the same product.
        """
        xp = array_namespace(self.core)
        factors, core = list(self.factors), self.core
        for mode in range(len(factors)) if order is None else order:
            factor = factors[mode]
            if factor.shape[1] < factor.shape[2]:
                continue
            basis, triangle = qr(factor)
            U, s, _ = xp.linalg.svd(triangle @ unfold(core, mode), full_matrices=False)
            singular = bool(xp.any(s[:, -1] <= 1e-12 * s[:, 0]))
            if singular or s.shape[1] < factor.shape[2]:
                continue
            root = xp.sqrt(s)
            change = (xp.matrix_transpose(U) / root[:, :, None]) @ triangle
            factors[mode] = (basis @ U) * root[:, None, :]
            core = own_mode_product(core, change, mode)
        return replace(self, factors=factors, core=core)

    def coef(self) -> Array:
        """Return the full tensors, (B, p1, …, pM)."""
        coef = self.core
        for mode, factor in enumerate(self.factors):
            coef = own_mode_product(coef, factor, mode)
        return coef


@dataclass(frozen=True)
class Form:
    """What a fit is asked for: CP or Tucker, a shape and a rank."""

    kind: Any  # the class, CP or Tucker
    shape: Shape
    rank: Any  # an int for CP, one for each mode for Tucker

    def n_parameters(self) -> int:
        """Return the free parameters: those of the blocks less their invariances."""
        return self.kind.n_parameters(self.shape, self.rank)

    def largest_block(self) -> int:
        """Return the number of unknowns of the largest block."""
        return self.kind.largest_block(self.shape, self.rank)


Structure = CP | Tucker


def _normal(rng: Any, size: int, rank: int, like: Array) -> Array:
    return as_array(rng.standard_normal((size, rank)) / size**0.5, like)[None, ...]


def _replaced(arrays: list[Array], index: int, new: Array) -> list[Array]:
    return [*arrays[:index], new, *arrays[index + 1 :]]


def unfoldings(X: Array) -> list[Array]:
    """Return the samples' unfoldings, each (P / p_m, p_m · n): samples come last."""
    xp = array_namespace(X)
    n_samples, *shape = X.shape
    # With samples last already, what is copied lies together in memory.
    columns = xp.reshape(xp.moveaxis(X, 0, -1), (-1, n_samples))
    tensor = xp.reshape(columns, (*shape, n_samples))
    return [
        xp.reshape(xp.moveaxis(tensor, mode, -2), (-1, size * n_samples))
        for mode, size in enumerate(shape)
    ]


def visiting_order(X: Array, weight: Array) -> tuple[int, ...]:
    """Return the order in which sweeps visit the modes, however these are written down.

    Sweeps end elsewhere if modes change places, so that the order has to come from
    the samples: long modes first, which on real sets predicts a little better than
    short ones first. Modes of one size come by the products of their slices in all
    samples, less the weighted mean.
    """
    xp = array_namespace(X)
    shape = tuple(X.shape[1:])
    if len(set(shape)) == len(shape):
        return ordered_modes(shape, [None] * len(shape))
    share = xp.reshape(weight / xp.sum(weight), (-1, *[1] * len(shape)))
    rest = xp.sqrt(share) * (X - xp.sum(share * X, axis=0))
    products = []
    for mode, size in enumerate(shape):
        rows = xp.reshape(xp.moveaxis(rest, mode + 1, 0), (size, -1))
        some = shape.count(size) > 1
        products.append(rows @ xp.matrix_transpose(rows) if some else None)
    return ordered_modes(shape, products)


def ordered_modes(shape: Shape, products: Sequence[Array | None]) -> tuple[int, ...]:
    """Return modes, long ones first, those of one size by their products' energy.

    `products` are those of a mode's slices, (…, p_m, p_m).
    """

    def key(mode: int) -> tuple[int, float]:
        size, known = shape[mode], products[mode]
        if known is None or shape.count(size) == 1:
            return -size, 0.0
        return -size, float(array_namespace(known).sum(known * known))

    return tuple(sorted(range(len(shape)), key=key))


@dataclass(frozen=True, eq=False)
class Unfoldings:
    """The samples' unfoldings in memory, and the two products that sweeps need."""

    matrices: list[Array]  # (P / p_m, p_m · n)
    order: tuple[int, ...]  # in which modes are visited
    batch_entries: int | None = None  # how many numbers designs may have

    @staticmethod
    def of(X: Array, weight: Array) -> Unfoldings:
        """Return those of samples (n, p1, …, pM) with weights (n,)."""
        return Unfoldings(unfoldings(X), visiting_order(X, weight))

    def project(self, rows: Array, mode: int) -> Array:
        """Return rows (k, P / p_m) times an unfolding, (k, p_m · n)."""
        return rows @ self.matrices[mode]

    def inner(self, rows: Array) -> Array:
        """Return the inner products of rows (k, P) with all samples, (k, n)."""
        xp, last = array_namespace(rows), self.matrices[-1]
        return rows @ xp.reshape(last, (rows.shape[1], -1))

    def spread(self, residual: Array) -> Array:
        """Return combinations (B, P) of the samples, with shares (B, n)."""
        xp = array_namespace(residual)
        columns = xp.reshape(self.matrices[-1], (-1, residual.shape[1]))
        return xp.matrix_transpose(columns @ xp.matrix_transpose(residual))


@dataclass(frozen=True, eq=False)
class SlicedUnfoldings:
    """The same products where memory is short: no unfolding is made as a whole."""

    X: np.ndarray  # (n, p1, …, pM)
    order: tuple[int, ...]  # in which modes are visited
    batch_entries: int | None  # how many numbers designs may have

    def project(self, rows: np.ndarray, mode: int) -> np.ndarray:
        """Return rows (k, P / p_m) times an unfolding, (k, p_m · n)."""
        n_samples, size = len(self.X), self.X.shape[mode + 1]
        found = np.empty((len(rows), size, n_samples), rows.dtype)
        for i in range(size):
            part = np.take(self.X, i, axis=mode + 1).reshape(n_samples, -1)
            found[:, i, :] = rows @ part.T
        return found.reshape(len(rows), -1)

    def spread(self, residual: np.ndarray) -> np.ndarray:
        """Return combinations (B, P) of the samples, with shares (B, n)."""
        return residual @ self.X.reshape(len(self.X), -1)


class _HasStructure(Protocol):
    @property
    def structure(self) -> Structure: ...


State = TypeVar("State", bound=_HasStructure)


def sweep(
    samples: Unfoldings | SlicedUnfoldings,
    n_samples: int,
    state: State,
    solve: Callable[[State, int, Array], State],
) -> State:
    """Solve for every block once: the factors, for Tucker the core.

    `solve(state, index, design)` returns the state with another block `index`. A
    design is (B, d, n) for a block of d unknowns.
    """
    xp = array_namespace(*state.structure.blocks)

    def projected(loadings: Array, mode: int) -> Array:
        """Return Lᵀ·X_(m)ᵀ for every item, (B, r, p·n)."""
        rows = xp.reshape(xp.matrix_transpose(loadings), (-1, loadings.shape[1]))
        return xp.reshape(samples.project(rows, mode), (*loadings.shape[::2], -1))

    def step(state: State, index: int, design: Array) -> State:
        design = xp.reshape(design, (design.shape[0], -1, n_samples))
        return solve(state, index, design)

    *modes, last = samples.order
    for mode in modes:
        state = step(state, mode, projected(state.structure.loadings(mode), mode))
    structure = state.structure
    if isinstance(structure, CP):
        return step(state, last, projected(structure.loadings(last), last))
    # The last factor and the core of Tucker see the samples through the same other
    # factors: one projection serves both.
    seen = projected(structure.other_factors(last), last)
    state = step(state, last, xp.matrix_transpose(structure.rows(last)) @ seen)
    factor = xp.matrix_transpose(state.structure.factors[last])[:, None, :, :]
    seen = xp.reshape(seen, (*seen.shape[:2], factor.shape[3], n_samples))
    core = _core_design(structure, last, factor @ seen)
    return step(state, len(samples.order), core)


def _core_design(structure: Tucker, last: int, seen: Array) -> Array:
    """Return the core's design of (B, Π r_k, r_last, n), k ≠ last: ranks in order."""
    xp = array_namespace(seen)
    n_items, _, rank, n_samples = seen.shape
    others = [r for mode, r in enumerate(structure.rank) if mode != last]
    seen = xp.reshape(seen, (n_items, *others, rank, n_samples))
    return xp.moveaxis(seen, -2, 1 + last)
