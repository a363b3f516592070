"""Low-rank refits of one tensor over the modes of samples and responses.

The coefficient of K responses is (p1, …, pM, q1, …, qQ), of low CP or Tucker rank. The
blocks of `factors.py` are solved for in turn, as in `low_rank.py`. Given the factors of
the responses, their Kronecker (Khatri–Rao) product has an orthonormal basis of few
columns J: responses in this basis, J for each sample, are all that a block of the
samples' modes has to fit. So the number of responses hardly costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from sltr.arrays import Array, array_namespace, device, qr
from sltr.core.tensor import flatten
from sltr.refine.factors import CP, Structure, Tucker, khatri_rao
from sltr.refine.low_rank import Sweeps
from sltr.refine.subsets import Subsets


@dataclass(frozen=True, eq=False)
class SharedSweeps(Sweeps):
    """What `Sweeps` lowers, for B items whose K responses share a tensor each.

    `subsets` hold each item once for every response, (B·K, n). Fitted values are
    (B, K, n), structures and seeds (B, p1, …, pM, q1, …, qQ).
    """

    shape_out: tuple[int, ...]

    @cached_property
    def _each(self) -> Subsets:
        """The items with the samples of their first response."""
        n_all, k = self.subsets.y.shape[0], prod(self.shape_out)
        return self.subsets.take(list(range(0, n_all, k)))

    @cached_property
    def _penalty(self) -> Array:
        xp = array_namespace(self.variance)
        return self.variance * xp.sum(self._each.weight, axis=1)

    def descent(self, fitted: Array) -> Array:
        """Return Aᵀ(Y − fitted), (B, P·K), the direction in which the loss falls."""
        xp = array_namespace(fitted)
        rows = super().descent(xp.reshape(fitted, self.subsets.y.shape))
        rows = xp.reshape(rows, (-1, prod(self.shape_out), rows.shape[1]))
        return flatten(xp.matrix_transpose(rows))

    def _swept(
        self, structure: Structure, ridges: Sequence[float], n_sweeps: int
    ) -> tuple[Structure, Array]:
        xp, each = array_namespace(self.variance), self._each
        n_items, n_samples = each.y.shape
        subsets = each.take(list(range(n_items)) * len(ridges))
        targets = xp.reshape(self.subsets.target, (n_items, -1, n_samples))
        blocks = _Blocks(
            self.samples,
            subsets,
            xp.concat([targets] * len(ridges), axis=0),
            xp.concat([ridge * self._penalty for ridge in ridges], axis=0),
            self.shape_out,
        )
        for _ in range(n_sweeps):
            structure = blocks.swept(structure)
        return structure, blocks.fitted(structure)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The ridge problems of the blocks, for B items of K responses."""

    samples: Any  # Unfoldings
    subsets: Subsets  # of B items; its responses are not used
    targets: Array  # (B, K, n), centred
    penalty: Array  # (B,)
    shape_out: tuple[int, ...]

    def swept(self, structure: Structure) -> Structure:
        """Solve for every block once: samples' modes, responses' modes, the core."""
        n_modes = len(structure.factors)
        n_in = n_modes - len(self.shape_out)
        for mode in self.samples.order:
            structure = self._of_samples(structure, mode)
        for mode in range(n_in, n_modes):
            structure = self._of_responses(structure, mode)
        return structure if isinstance(structure, CP) else self._of_core(structure)

    def fitted(self, structure: Structure) -> Array:
        """Return centred fitted values of all samples and responses, (B, K, n)."""
        xp, n_out = array_namespace(self.targets), len(self.shape_out)
        small, basis = _narrowed(structure, range(-n_out, 0))
        coef = small.coef()
        coef = xp.reshape(coef, (coef.shape[0], -1, basis.shape[2]))
        seen = self._centred(self._inner(xp.matrix_transpose(coef)))  # (B, J, n)
        return basis @ seen

    def _of_samples(self, structure: Structure, mode: int) -> Structure:
        """Solve for the factor of a mode of the samples."""
        xp, n_out = array_namespace(self.targets), len(self.shape_out)
        small, basis = _narrowed(structure, range(-n_out, 0))
        n_items, size, rank = structure.factors[mode].shape
        n_narrow = basis.shape[2]
        if isinstance(structure, CP):
            # A term sees the samples alike for all responses, up to its size there.
            inner = CP(small.factors[:-1], structure.sizes, None).loadings(mode)
            seen = self._seen(inner, mode)[:, :, :, None, :]
            share = xp.matrix_transpose(small.factors[-1])
            design = seen * share[:, :, None, :, None]  # (B, r, p, J, n)
        else:
            loadings = small.loadings(mode)
            loadings = xp.reshape(loadings, (n_items, -1, n_narrow * rank))
            seen = self._seen(loadings, mode)
            seen = xp.reshape(seen, (n_items, n_narrow, rank, size, -1))
            design = xp.moveaxis(seen, 1, 3)
        design = xp.reshape(design, (n_items, rank * size, -1))
        narrow = xp.matrix_transpose(basis) @ self.targets  # (B, J, n)
        weight = xp.concat([self.subsets.weight] * n_narrow, axis=1)
        problem = Subsets(flatten(narrow), weight, fit_intercept=False)
        vector = problem.ridge(design, self.penalty, structure.prior(mode))
        return structure.with_block(mode, structure.pruned(vector))

    def _of_responses(self, structure: Structure, mode: int) -> Structure:
        """Solve for the factor of a mode of the responses, entry by entry of it."""
        xp, n_out = array_namespace(self.targets), len(self.shape_out)
        n_modes = len(structure.factors)
        others = [m - n_modes for m in range(n_modes - n_out, n_modes) if m != mode]
        small, basis = _narrowed(structure, others)
        n_items, size, rank = structure.factors[mode].shape
        if isinstance(structure, CP):
            inputs = khatri_rao(structure.factors[:-n_out], structure.factors[mode])
            seen = self._centred(self._inner(xp.matrix_transpose(inputs)))
            share = small.factors[-1] if others else xp.ones_like(inputs[:, :1, :])
            design = seen[:, :, None, :] * xp.matrix_transpose(share)[:, :, :, None]
        else:
            loadings = xp.reshape(
                small.loadings(mode), (n_items, -1, basis.shape[2], rank)
            )
            rows = xp.moveaxis(loadings, 1, 3)  # (B, J, r, P)
            rows = xp.reshape(rows, (n_items, -1, rows.shape[3]))
            seen = self._centred(self._inner(rows))
            design = xp.reshape(seen, (n_items, basis.shape[2], rank, -1))
            design = xp.moveaxis(design, 1, 2)
        weighted = design * self.subsets.weight[:, None, None, :]
        weighted, design = flatten_last(weighted), flatten_last(design)  # (B, r, J·n)
        place = mode - (n_modes - n_out)
        targets = xp.reshape(self.targets, (n_items, *self.shape_out, -1))
        targets = xp.moveaxis(targets, 1 + place, 1)
        targets = xp.reshape(targets, (n_items, size, -1, targets.shape[-1]))
        narrow = xp.matrix_transpose(basis)[:, None, :, :] @ targets  # (B, q, J, n)
        rhs = flatten_last(narrow) @ xp.matrix_transpose(weighted)  # (B, q, r)
        normal = weighted @ xp.matrix_transpose(design)
        prior = structure.prior(mode)
        if prior is None:
            block = xp.matrix_transpose(self._solved(normal, xp.matrix_transpose(rhs)))
        else:
            scale = xp.matrix_transpose(xp.reshape(prior, (n_items, rank, size)))
            normal = scale[:, :, :, None] * normal[:, None, :, :] * scale[:, :, None, :]
            block = scale * self._solved(normal, (scale * rhs)[:, :, :, None])[..., 0]
        vector = structure.pruned(structure.vector(mode, block))
        return structure.with_block(mode, vector)

    def _of_core(self, structure: Tucker) -> Tucker:
        """Solve for the core: each combination of the responses by itself."""
        xp, n_out = array_namespace(self.targets), len(self.shape_out)
        _, basis = _narrowed(structure, range(-n_out, 0))
        inputs = Tucker(structure.factors[:-n_out], structure.core)
        last = len(inputs.factors) - 1
        seen = self._seen(inputs.other_factors(last), last)  # (B, R', p, n)
        factor = xp.matrix_transpose(inputs.factors[last])[:, None, :, :]
        design = factor @ seen
        design = xp.reshape(design, (design.shape[0], -1, design.shape[3]))
        weighted = design * self.subsets.weight[:, None, :]
        narrow = xp.matrix_transpose(basis) @ self.targets
        rhs = weighted @ xp.matrix_transpose(narrow)
        normal = weighted @ xp.matrix_transpose(design)
        core = self._solved(normal, rhs)
        return structure.with_block(len(structure.factors), flatten(core))

    def _solved(self, normal: Array, rhs: Array) -> Array:
        """Solve normal equations (B, …, d, d) under the items' penalties."""
        xp, penalty = array_namespace(normal), self.penalty
        shift = xp.where(penalty > 0, penalty, 1.0)
        shift = xp.reshape(shift, (-1, *[1] * (normal.ndim - 1)))
        eye = xp.eye(normal.shape[-1], dtype=normal.dtype, device=device(normal))
        return xp.linalg.solve(normal + shift * eye, rhs)

    def _seen(self, loadings: Array, mode: int) -> Array:
        """Return samples times loadings (B, P / p_m, k), centred: (B, k, p_m, n)."""
        xp, n_samples = array_namespace(loadings), self.targets.shape[2]
        rows = xp.matrix_transpose(loadings)
        seen = self.samples.project(xp.reshape(rows, (-1, rows.shape[2])), mode)
        seen = xp.reshape(seen, (loadings.shape[0], -1, n_samples))
        return xp.reshape(self._centred(seen), (*loadings.shape[::2], -1, n_samples))

    def _inner(self, rows: Array) -> Array:
        """Return rows (B, k, P) times the samples, (B, k, n)."""
        xp = array_namespace(rows)
        found = self.samples.inner(xp.reshape(rows, (-1, rows.shape[2])))
        return xp.reshape(found, (*rows.shape[:2], -1))

    def _centred(self, rows: Array) -> Array:
        """Return rows (B, k, n) less what intercept and covariates explain."""
        centring = self.subsets.centring
        if centring.basis.shape[1] == 0:
            return rows
        xp = array_namespace(rows)
        explained = rows @ xp.matrix_transpose(centring.share)
        return rows - explained @ xp.matrix_transpose(centring.basis)


def flatten_last(array: Array) -> Array:
    """Return (…, J, n) as (…, J·n)."""
    return array_namespace(array).reshape(array, (*array.shape[:-2], -1))


def _narrowed(structure: Structure, modes: Sequence[int]) -> tuple[Structure, Array]:
    """Return a structure whose `modes` have an orthonormal basis, and the basis.

    `modes` are some of the last ones, counted from the end. The basis is (B, ∏ q, J).
    Of CP they become one last mode; of Tucker they keep their places.
    """
    first = structure.factors[0]
    xp = array_namespace(first)
    if isinstance(structure, CP):
        chosen = [structure.factors[mode] for mode in modes]
        if not chosen:
            return structure, xp.ones_like(first[:, :1, :1])
        basis, small = qr(khatri_rao(chosen, first))
        places = {mode % len(structure.factors) for mode in modes}
        kept = [f for m, f in enumerate(structure.factors) if m not in places]
        return CP([*kept, small], structure.sizes, None), basis
    basis = xp.ones_like(first[:, :1, :1])
    factors = list(structure.factors)
    for mode in modes:
        factor = factors[mode]
        basis = basis[:, :, None, :, None] * factor[:, None, :, None, :]
        n_items, a, b, c, d = basis.shape
        basis = xp.reshape(basis, (n_items, a * b, c * d))
        eye = xp.eye(factor.shape[2], dtype=factor.dtype, device=device(factor))
        factors[mode] = xp.broadcast_to(eye, (n_items, *eye.shape))
    return replace(structure, factors=factors), basis
