"""Low-rank coefficients in factored form, a batch of them: Tucker and CP.

In mode m a coefficient is W_(m) = B·Lᵀ with loadings L made of the other modes.
A structure gives these loadings, takes a new block B back, and grows by the
leading rank-one term of another tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sltr._array import Array, array_namespace, eigh
from sltr.solvers.rank_one import leading_term
from sltr.tensor import fold, own_mode_product, unfold

__all__ = ["CPComponents", "TuckerComponents"]

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
