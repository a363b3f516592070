"""The pilot again, in the metric of the coefficient's own modes.

A ridge estimate treats all directions alike. Given a coefficient W with
unfoldings W_(m), the next one is

    argmin_V  ‖y − A·vec(V)‖² + s · vec(V)ᵀ(Σ_1 ⊗ … ⊗ Σ_M)⁻¹vec(V),

    Σ_m = (p_m · W_(m)W_(m)ᵀ / ‖W‖² + δI)^½,

s the mean eigenvalue of A(Σ_1 ⊗ … ⊗ Σ_M)Aᵀ: directions that the modes of W use
are penalised less, and no rank is chosen. Early steps regularise more, so their
number is what is tuned. Each step is solved by conjugate gradients from the one
before, all items of a batch at once, until the residual is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from sltr.arrays import Array, array_namespace, clip, device, eigh
from sltr.core.tensor import flatten, own_mode_product, unfold
from sltr.refine.subsets import ROUNDINGS, Subsets, feature_variance
from sltr.ridge.conjugate_gradients import conjugate_gradients
from sltr.samples.budget import row_ranges
from sltr.samples.samples import BLOCK_ENTRIES

FLOOR = 0.01  # δ
MAX_ITER = 50


def reweighted(
    X: Array,
    subsets: Subsets,
    start: Array,
    *,
    steps: Sequence[int],
    tol: float,
    shape_out: tuple[int, ...] = (),
) -> Iterator[tuple[int, Array]]:
    """Yield reweighted coefficients (B, p1, …, pM) after each of some steps.

    X is (n, P). The first metric is that of `start`, (B, p1, …, pM). `tol` bounds
    each step's residual, relative to its right-hand side. Where responses make one
    tensor, coefficients are (B, p1, …, pM, q1, …, qQ), and the subsets hold each of
    the B items once for every response.
    """
    problem = _Problem.of(X, subsets, tuple(start.shape[1:]), shape_out)
    coef, settled = start, False
    for step in range(1, max(steps) + 1):
        if not settled:
            last, coef = coef, problem.solved(_Metric.of(coef), coef, tol)
            settled = coef is last  # the next step would be this one again
        if step in steps:
            yield step, coef


@dataclass(frozen=True, eq=False)
class _Metric:
    """Σ_m^½ and their inverses for every mode, each (B, p_m, p_m)."""

    roots: list[Array]
    inverses: list[Array]

    @staticmethod
    def of(coef: Array) -> _Metric:
        """Take the modes' second moments of a batch of coefficients."""
        xp = array_namespace(coef)
        roots, inverses = [], []
        for mode, size in enumerate(coef.shape[1:]):
            rows = unfold(coef, mode)
            second = rows @ xp.matrix_transpose(rows)
            energy = xp.linalg.trace(second)[:, None, None]
            values, vectors = eigh(second / xp.where(energy > 0, energy, 1.0))
            values = (size * clip(values, 0.0, None) + FLOOR)[:, None, :] ** 0.25
            back = xp.matrix_transpose(vectors)
            roots.append((vectors * values) @ back)
            inverses.append((vectors / values) @ back)
        return _Metric(roots, inverses)


@dataclass(frozen=True, eq=False)
class _Problem:
    """‖y − A·vec(V)‖² for each item, without its penalty.

    With k responses in each tensor, A is the samples once for every response.
    """

    X: Array  # (n, P)
    subsets: Subsets  # of B items
    removed: Array  # (B, b, P), the regression of each item's samples on the basis
    cross: Array  # (B, p1, …, pM, …), Aᵀy
    mean_eigenvalue: Array  # (B,), of AAᵀ
    covariances: list[Array]  # (B, p_m, p_m) for each mode, of trace one

    @staticmethod
    def of(
        X: Array,
        subsets: Subsets,
        shape: tuple[int, ...],
        shape_out: tuple[int, ...] = (),
    ) -> _Problem:
        """Prepare what all steps share."""
        xp, k = array_namespace(X), prod(shape_out)
        rows = xp.reshape(subsets.cross(X), (-1, k, X.shape[1]))
        cross = xp.reshape(xp.matrix_transpose(rows), (-1, *shape))
        # Items have the samples of their first response.
        subsets = subsets.take(list(range(0, subsets.y.shape[0], k)))
        total = xp.sum(subsets.weight, axis=1)
        removed = subsets.centring.share @ X
        variance = feature_variance(X, subsets)
        count = subsets.count
        side = xp.where(count < X.shape[1], count, float(X.shape[1]))
        inner = shape[: len(shape) - len(shape_out)]
        covariances = _mode_covariances(X, subsets, removed, inner)
        for size in shape_out:  # each response has the same samples
            equal = xp.eye(size, dtype=X.dtype, device=device(X)) / size
            covariances.append(xp.broadcast_to(equal, (cross.shape[0], size, size)))
        return _Problem(
            X,
            subsets,
            removed,
            cross,
            variance * total * X.shape[1] / side,
            covariances,
        )

    def solved(self, metric: _Metric, coef: Array, tol: float) -> Array:
        """Return the estimates in a metric: the last ones, if these will do."""
        xp = array_namespace(coef)
        penalty = self._penalty(metric)[:, None, None]

        def tensors(v: Array) -> Array:
            return _along_all_modes(xp.reshape(v, coef.shape), metric.roots)

        def columns(tensor: Array) -> Array:
            return flatten(_along_all_modes(tensor, metric.roots))[:, :, None]

        rhs = columns(self.cross)
        # Without a right-hand side there is nothing to start from either.
        some = xp.any(rhs != 0, axis=(1, 2), keepdims=True)
        start = flatten(_along_all_modes(coef, metric.inverses))[:, :, None]
        found, _, n_iter = conjugate_gradients(
            lambda v: columns(self._normal(tensors(v))) + penalty * v,
            rhs,
            start=xp.where(some, start, 0.0),
            tol=tol,
            max_iter=MAX_ITER,
        )
        return tensors(found) if n_iter or not bool(xp.all(some)) else coef

    def _penalty(self, metric: _Metric) -> Array:
        """Return the mean eigenvalue of A(Σ_1 ⊗ … ⊗ Σ_M)Aᵀ for each item, (B,).

        As if the features' covariance were a product over the modes: a scale needs
        no more, and it costs nothing.
        """
        xp = array_namespace(self.X)
        found = self.mean_eigenvalue
        for root, covariance in zip(metric.roots, self.covariances, strict=True):
            found = found * xp.sum((root @ root) * covariance, axis=(1, 2))
        return found

    def _normal(self, v: Array) -> Array:
        """Return AᵀA·v for each item."""
        xp = array_namespace(v)
        n_items, (n_samples, n_entries) = v.shape[0], self.X.shape
        basis = self.subsets.centring.basis
        # Rows (B, k, P): one for each response of an item.
        columns = xp.reshape(v, (n_items, n_entries, -1))
        rows = xp.matrix_transpose(columns)
        shift = xp.matrix_transpose(self.removed @ columns) @ xp.matrix_transpose(basis)
        flat = xp.reshape(rows, (-1, n_entries))
        fitted = xp.matrix_transpose(self.X @ xp.matrix_transpose(flat))
        fitted = xp.reshape(fitted, (n_items, -1, n_samples)) - shift
        rest = self.subsets.weight[:, None, :] * fitted
        products = xp.reshape(rest, (-1, n_samples)) @ self.X
        products = xp.reshape(products, rows.shape) - (rest @ basis) @ self.removed
        return xp.reshape(xp.matrix_transpose(products), v.shape)


def _mode_covariances(
    X: Array, subsets: Subsets, removed: Array, shape: tuple[int, ...]
) -> list[Array]:
    """Return each item's covariance of each mode's rows, (B, p_m, p_m), trace one."""
    xp = array_namespace(X)
    tensors = xp.reshape(X, (-1, *shape))
    weight, scaled = subsets.weight, subsets.centring.moments @ removed
    batch = removed.shape[:2]
    found = []
    for mode, size in enumerate(shape):
        left, right = (
            unfold(xp.reshape(part, (-1, *shape)), mode) for part in (scaled, removed)
        )
        products = left @ xp.matrix_transpose(right)
        mean_part = xp.sum(xp.reshape(products, (*batch, size, size)), axis=1)
        second = -mean_part
        for part in row_ranges(X.shape[0], max(1, BLOCK_ENTRIES // size**2)):
            rows = unfold(tensors[part, ...], mode)
            squares = xp.reshape(rows @ xp.matrix_transpose(rows), (-1, size**2))
            second = second + xp.reshape(weight[:, part] @ squares, second.shape)
        trace, lost = (xp.linalg.trace(m)[:, None, None] for m in (second, mean_part))
        # Less than the rounding of what was subtracted says nothing of directions.
        known = trace > ROUNDINGS * xp.finfo(X.dtype).eps * lost
        equal = xp.eye(size, dtype=X.dtype, device=device(X)) / size
        found.append(xp.where(known, second / xp.where(known, trace, 1.0), equal))
    return found


def _along_all_modes(tensors: Array, matrices: list[Array]) -> Array:
    for mode, matrix in enumerate(matrices):
        tensors = own_mode_product(tensors, matrix, mode)
    return tensors
