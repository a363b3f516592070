"""The pilot again, in the metric of the coefficient's own modes.

A ridge estimate treats all directions alike. Given a coefficient W with
unfoldings W_(m), the next one is

    argmin_V  ‖y − A·vec(V)‖² + s · vec(V)ᵀ(Σ_1 ⊗ … ⊗ Σ_M)⁻¹vec(V),

    Σ_m = (p_m · W_(m)W_(m)ᵀ / ‖W‖² + δI)^½,

s the mean eigenvalue of A(Σ_1 ⊗ … ⊗ Σ_M)Aᵀ: directions that the modes of W use
are penalised less, and no rank is chosen. Early steps regularise more, so their
number is what is tuned. Each step is solved by conjugate gradients from the one
before, all items of a batch at once, until the residual is small.

Along a mode that is far longer than all others together, Σ_m is a multiple of the
identity but for the few directions that W has there, and is kept as these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from sltr.arrays import ROUNDINGS, Array, array_namespace, clip, device, eigh
from sltr.arrays.linalg import conjugate_gradients, iteration, reachable
from sltr.arrays.resources import row_ranges
from sltr.core.tensor import flatten, own_mode_product, unfold
from sltr.refine.subsets import Subsets, feature_variance, mean_variance
from sltr.samples.samples import BLOCK_ENTRIES, is_lazy

FLOOR = 0.01  # δ
# Shorter modes are never long: their matrices are cheap.
LEAST_LONG = 256
# Iterations of a step at most; each is a pass where samples stay where they are.
MAX_ITER, MAX_PASSES = 50, 5


def reweighted(
    X: Any,
    subsets: Subsets,
    start: Array,
    *,
    steps: Sequence[int],
    tol: float,
    shape_out: tuple[int, ...] = (),
    facts: Facts | None = None,
    go_on: Callable[[], bool] | None = None,
    rough: Any = None,
) -> Iterator[tuple[int, Array]]:
    """Yield reweighted coefficients (B, p1, …, pM) after each of some steps.

    X is (n, P), or a design that stays where it is: then each iteration of conjugate
    gradients is one pass. The first metric is that of `start`, (B, p1, …, pM). `tol`
    bounds each step's residual, relative to its right-hand side. Where responses make
    one tensor, coefficients are (B, p1, …, pM, q1, …, qQ), and the subsets hold each of
    the B items once for every response. `facts` are found unless given. Beyond the
    first of the steps they end where `go_on` says no.

    With `rough` samples, which stand for those that stay, a step takes one pass: it is
    solved on the rough ones, and then corrected.
    """
    shape = tuple(start.shape[1:])
    problem = _Problem.of(X, subsets, shape, shape_out, facts, tol=tol)
    solver, coef, image, settled = problem, start, None, False
    if rough is not None:
        solver = replace(problem, X=rough, max_iter=MAX_ITER)
        image = problem.normal(coef)
    for step in range(1, max(steps) + 1):
        if go_on is not None and step > min(steps) and not (settled or go_on()):
            return
        if not settled:
            last, metric = coef, _Metric.of(coef)
            coef, image = solver.solved(metric, coef, image)
            settled = coef is last  # the next step would be this one again
            del last
            if rough is not None and not settled:
                coef, image = solver.corrected(
                    metric, coef, image, problem.normal(coef)
                )
        if step in steps:
            yield step, coef


def is_long(shape: tuple[int, ...], mode: int) -> bool:
    """Say whether a mode has far more entries than its fibres can have directions.

    Examples
    --------
    >>> [is_long((2, 5000), mode) for mode in (0, 1)], is_long((300, 200), 0)
    ([False, True], False)
    """
    return shape[mode] > max(LEAST_LONG, 2 * prod(shape) // shape[mode])


@dataclass(frozen=True, eq=False)
class _Metric:
    """Σ_m^½, their inverses, and Σ_m for every mode, each (B, p_m, p_m).

    Along a long mode, F (B, p_m, r) stands for δ^¼·I + FFᵀ; in the inverse for
    δ^-¼·I − FFᵀ, and in Σ_m for δ^½·I + FFᵀ.
    """

    roots: list[Array]
    inverses: list[Array]
    squares: list[Array]

    @staticmethod
    def of(coef: Array) -> _Metric:
        """Take the modes' second moments of a batch of coefficients."""
        shape = tuple(coef.shape[1:])
        of_modes = [
            (_of_long if is_long(shape, mode) else _of_short)(unfold(coef, mode))
            for mode in range(len(shape))
        ]
        return _Metric(*map(list, zip(*of_modes, strict=True)))


def _of_short(rows: Array) -> tuple[Array, Array, Array]:
    """Return a mode's matrices from its unfoldings (B, p_m, P/p_m)."""
    xp, size = array_namespace(rows), rows.shape[1]
    second = rows @ xp.matrix_transpose(rows)
    energy = xp.linalg.trace(second)[:, None, None]
    values, vectors = eigh(second / xp.where(energy > 0, energy, 1.0))
    values = (size * clip(values, 0.0, None) + FLOOR)[:, None, :] ** 0.25
    back = xp.matrix_transpose(vectors)
    root = (vectors * values) @ back
    return root, (vectors / values) @ back, root @ root


def _of_long(rows: Array) -> tuple[Array, Array, Array]:
    """Return a long mode's factors F from its unfoldings (B, p_m, P/p_m)."""
    xp, size = array_namespace(rows), rows.shape[1]
    second = xp.matrix_transpose(rows) @ rows
    energy = xp.linalg.trace(second)[:, None, None]
    scale = size / xp.where(energy > 0, energy, 1.0)
    values, vectors = eigh(second)
    values = (scale * clip(values, 0.0, None)[:, None, :] + FLOOR) ** 0.25
    directions, floor = rows @ vectors, FLOOR**0.25
    # How powers differ from those of δ, over the squared lengths of the directions:
    # as quotients, small differences lose no digits.
    square = scale / (values**2 + floor**2)
    root = square / (values + floor)
    inverse = root / (values * floor)
    root, inverse, square = (directions * xp.sqrt(a) for a in (root, inverse, square))
    return root, inverse, square


@dataclass(frozen=True, eq=False)
class _Problem:
    """‖y − A·vec(V)‖² for each item, without its penalty.

    With k responses in each tensor, A is the samples once for every response.
    """

    X: Any  # (n, P), or a design that stays where it is
    subsets: Subsets  # of B items
    shape_in: tuple[int, ...]  # of the samples
    removed: Array  # (B, b, P), the regression of each item's samples on the basis
    cross: Array  # (B, p1, …, pM, …), Aᵀy
    energy: Array  # (B,), the trace of AAᵀ
    mean_eigenvalue: Array  # (B,), of AAᵀ
    covariances: list[Array | None]  # as in `Facts`
    tol: float  # of each solve's residual
    max_iter: int
    in_place: bool  # whether X is no array

    @staticmethod
    def of(
        X: Any,
        subsets: Subsets,
        shape: tuple[int, ...],
        shape_out: tuple[int, ...] = (),
        facts: Facts | None = None,
        *,
        tol: float,
    ) -> _Problem:
        """Prepare what all steps share."""
        xp, k = array_namespace(subsets.weight), prod(shape_out)
        inner = shape[: len(shape) - len(shape_out)]
        if facts is None:
            facts = facts_of(X, subsets, inner, k)
        rows = xp.reshape(facts.cross, (-1, k, X.shape[1]))
        cross = xp.reshape(xp.matrix_transpose(rows), (-1, *shape))
        # Items have the samples of their first response.
        subsets = subsets.take(list(range(0, subsets.y.shape[0], k)))
        total, count = xp.sum(subsets.weight, axis=1), subsets.count
        side = xp.where(count < X.shape[1], count, float(X.shape[1]))
        energy = facts.variance * total * X.shape[1]
        covariances, like = list(facts.covariances), facts.cross
        for size in shape_out:  # each response has the same samples
            if is_long(shape, len(covariances)):
                covariances.append(None)
                continue
            equal = xp.eye(size, dtype=like.dtype, device=device(like)) / size
            covariances.append(xp.broadcast_to(equal, (cross.shape[0], size, size)))
        return _Problem(
            X,
            subsets,
            inner,
            facts.removed,
            cross,
            energy,
            energy / side,
            covariances,
            tol,
            MAX_PASSES if is_lazy(X) else MAX_ITER,
            is_lazy(X),
        )

    def solved(
        self, metric: _Metric, coef: Array, image: Array | None
    ) -> tuple[Array, Array | None]:
        """Return the estimates in a metric: the last ones, if these will do.

        `image` is AᵀA times the last ones, if it is known; that of the estimates comes
        along where samples would have to be read for it.
        """
        xp, lazy = array_namespace(coef), self.in_place
        penalty, roots = self._penalty(metric)[:, None, None], metric.roots
        rhs = _columns(self.cross, roots)
        # Without a right-hand side there is nothing to start from either.
        some = xp.any(rhs != 0, axis=(1, 2), keepdims=True)
        start = xp.where(some, _columns(coef, metric.inverses, -1), 0.0)
        known = None
        if image is not None:
            known = xp.where(some, _columns(image, roots) + penalty * start, 0.0)
        found, seen, _, n_iter = conjugate_gradients(
            self._applied,
            rhs,
            given=(penalty, *roots),
            iterate=self._iteration,
            start=start,
            start_image=known,
            tol=self.tol,
            max_iter=self.max_iter,
            verify=not lazy,
        )
        if n_iter == 0 and bool(xp.all(some)):
            return coef, image
        if lazy:
            rest = xp.reshape(seen - penalty * found, coef.shape)
            image = _along_all_modes(rest, metric.inverses, -1)
        return _along_all_modes(xp.reshape(found, coef.shape), roots), image

    @cached_property
    def _iteration(self) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
        """One iteration, which all steps share."""
        return iteration(self._applied, 0.5 * reachable(self.tol, self.cross))

    def _applied(self, v: Array, penalty: Array, *roots: Array) -> Array:
        """Return the matrix of a metric times v, (B, P, 1)."""
        xp = array_namespace(v)
        tensors = _along_all_modes(xp.reshape(v, self.cross.shape), roots)
        return _columns(self.normal(tensors), roots) + penalty * v

    def _penalty(self, metric: _Metric) -> Array:
        """Return the mean eigenvalue of A(Σ_1 ⊗ … ⊗ Σ_M)Aᵀ for each item, (B,).

        As if the features' covariance were a product over the modes: a scale needs
        no more, and it costs nothing.
        """
        xp = array_namespace(self.mean_eigenvalue)
        found = self.mean_eigenvalue
        pairs = zip(metric.squares, self.covariances, strict=True)
        for mode, (square, covariance) in enumerate(pairs):
            if covariance is None:
                found = found * (FLOOR**0.5 + self._share_along(square, mode))
            else:
                found = found * xp.sum(square * covariance, axis=(1, 2))
        return found

    def _share_along(self, factor: Array, mode: int) -> Array:
        """Return ⟨FFᵀ, C⟩ of F (B, p_m, r) and the covariance C of a long mode's rows.

        It is what of the samples' energy is along F: one pass where they stay.
        """
        xp, (n_items, size, _) = array_namespace(factor), factor.shape
        equal = xp.sum(factor * factor, axis=(1, 2)) / size
        if mode >= len(self.shape_in):
            return equal
        weight, basis = self.subsets.weight, self.subsets.centring.basis
        back = xp.matrix_transpose(factor)
        removed = unfold(xp.reshape(self.removed, (-1, *self.shape_in)), mode)
        removed = xp.reshape(removed, (*self.removed.shape[:2], *removed.shape[1:]))
        known = back[:, None, ...] @ removed
        known = xp.reshape(known, (*known.shape[:2], known.shape[2] * known.shape[3]))
        given: list[Any] = [xp.reshape(back, (-1, size)), known, self.shape_in, mode]
        rowwise = [xp.matrix_transpose(weight), basis]
        if self.in_place:
            [found] = self.X.reduce_rows(_energy_part, added, rowwise, given)
        else:
            width = known.shape[2] * n_items + self.X.shape[1]
            found = 0.0 * self.energy
            for part in row_ranges(self.X.shape[0], max(1, BLOCK_ENTRIES // width)):
                block = [values[part, :] for values in (self.X, *rowwise)]
                found = found + _energy_part(*block, *given)[0]
        some = self.energy > 0
        return xp.where(some, found / xp.where(some, self.energy, 1.0), equal)

    def corrected(
        self, metric: _Metric, coef: Array, image: Array, seen: Array
    ) -> tuple[Array, Array]:
        """Return estimates, and AᵀA times them, of samples that these stand for.

        `image` is AᵀA times the estimates as these samples say, `seen` as the others
        do. Estimates change so that their residual is the same again.
        """
        penalty, roots = self._penalty(metric)[:, None, None], metric.roots
        found, *_ = conjugate_gradients(
            self._applied,
            _columns(image - seen, roots),
            given=(penalty, *roots),
            iterate=self._iteration,
            tol=self.tol,
            max_iter=self.max_iter,
            verify=False,
        )
        change = _along_all_modes(found.reshape(coef.shape), roots)
        return coef + change, seen + self.normal(change)

    def normal(self, v: Array) -> Array:
        """Return AᵀA·v for each item."""
        xp = array_namespace(v)
        n_items, (n_samples, n_entries) = v.shape[0], self.X.shape
        basis = self.subsets.centring.basis
        # Rows (B, k, P): one for each response of an item.
        columns = xp.reshape(v, (n_items, n_entries, -1))
        rows = xp.matrix_transpose(columns)
        shift = xp.matrix_transpose(self.removed @ columns) @ xp.matrix_transpose(basis)
        flat, weight = xp.reshape(rows, (-1, n_entries)), self.subsets.weight
        if self.in_place:  # each item has one response
            rowwise = [weight.T, shift[:, 0, :].T, basis]
            products, sums = self.X.reduce_rows(_normal_part, added, rowwise, [flat])
            sums = sums[:, None, :]
        else:
            fitted = xp.matrix_transpose(self.X @ xp.matrix_transpose(flat))
            fitted = xp.reshape(fitted, (n_items, -1, n_samples)) - shift
            rest = weight[:, None, :] * fitted
            products = xp.reshape(rest, (-1, n_samples)) @ self.X
            sums = rest @ basis
        products = xp.reshape(products, rows.shape) - sums @ self.removed
        return xp.reshape(xp.matrix_transpose(products), v.shape)


def _normal_part(
    X: Array, weight: Array, shift: Array, basis: Array, coef: Array
) -> tuple[Array, Array]:
    """Return a block's share in AᵀA·v before centring: (B, P), and (B, b)."""
    rows = (weight * (X @ coef.T - shift)).astype(X.dtype, copy=False).T
    return rows @ X, rows @ basis


def added(one: Sequence[Array], other: Sequence[Array]) -> tuple[Array, ...]:
    """Add the arrays of another block to those of one."""
    # In place: some are as large as memory allows.
    return tuple(np.add(a, b, out=a) for a, b in zip(one, other, strict=True))


def _energy_part(
    X: Array,
    weight: Array,
    basis: Array,
    back: Array,
    known: Array,
    shape: tuple[int, ...],
    mode: int,
) -> tuple[Array]:
    """Return a block's energy (B,) along the rows of `back`, (B·r, p_m).

    Less what the basis explains there, (B, b, r·P/p_m).
    """
    xp = array_namespace(X)
    rows = unfold(xp.reshape(X, (-1, *shape)), mode)
    along = xp.reshape(
        xp.astype(back, X.dtype, copy=False) @ rows, (-1, *known.shape[::2])
    )
    rest = xp.permute_dims(along, (1, 0, 2)) - basis @ known
    return (xp.sum(weight.T * xp.linalg.vecdot(rest, rest, axis=-1), axis=1),)


@dataclass(frozen=True, eq=False)
class Facts:
    """What refits of a batch of B subsets know of the samples beforehand."""

    removed: Array  # (B, b, P), the regression of each item's samples on the basis
    cross: Array  # (B, P), Aᵀy
    variance: Array  # (B,), `feature_variance`
    # (B, p_m, p_m) of each mode's rows, of trace one; for a long mode the samples are
    # asked when it is needed.
    covariances: list[Array | None]
    # Of all samples, where these stay: means and deviations of the entries, (2, P).
    columns: Any = None


def facts_of(
    X: Any, subsets: Subsets, shape: tuple[int, ...], n_responses: int = 1
) -> Facts:
    """Return the facts of samples (n, P); those that stay are read once.

    Of several responses in a tensor all but `cross` are those of the first.
    """
    columns = None
    whole = (*shape, n_responses)
    short = [mode for mode in range(len(shape)) if not is_long(whole, mode)]
    if not is_lazy(X):
        cross = subsets.cross(X)
        subsets = subsets.take(list(range(0, subsets.y.shape[0], n_responses)))
        removed = subsets.centring.share @ X
        seconds = _mode_seconds(X, subsets.weight, shape, short)
        variance = feature_variance(X, subsets)
    else:
        share = subsets.centring.share
        each = np.full_like(subsets.weight[:1], 1.0 / X.shape[0])
        rows = [share.reshape(-1, X.shape[0]), subsets.weight * subsets.target, each]
        rowwise = [np.concatenate(rows).T, subsets.weight.T]
        squares, products, energy, *seconds = X.reduce_rows(
            _sums_of_block, _merged_sums, rowwise, [shape, short]
        )
        removed = products[: len(rows[0])].reshape(*share.shape[:2], X.shape[1])
        cross, mean = products[len(rows[0]) : -1], products[-1]
        variances = np.maximum(energy / X.shape[0] - mean**2, 0.0)
        columns = np.stack([mean, np.sqrt(variances)])
        variance = mean_variance(squares, removed, subsets)
    covariances: list[Array | None] = [None] * len(shape)
    for mode, second in zip(short, seconds, strict=True):
        covariances[mode] = _covariance(second, subsets, removed, shape, mode)
    return Facts(removed, cross, variance, covariances, columns)


def _sums_of_block(
    X: Array,
    combined: Array,
    weight: Array,
    shape: tuple[int, ...],
    modes: Sequence[int],
) -> tuple[Array, ...]:
    """Return a block's squared lengths (R,), combinations, and moments.

    Those of each entry, then of these modes.
    """
    products = combined.T.astype(X.dtype, copy=False) @ X
    # Without a second block.
    squares, energy = np.einsum("np,np->n", X, X), np.einsum("np,np->p", X, X)
    return squares, products, energy, *_mode_seconds(X, weight.T, shape, modes)


def _merged_sums(one: Sequence[Array], other: Sequence[Array]) -> tuple[Array, ...]:
    return np.concatenate([one[0], other[0]]), *added(one[1:], other[1:])


def _mode_seconds(
    X: Array, weight: Array, shape: tuple[int, ...], modes: Sequence[int]
) -> list[Array]:
    """Return the weighted second moments of the rows of modes, (B, p_m, p_m)."""
    xp = array_namespace(X)
    tensors = xp.reshape(X, (-1, *shape))
    found = []
    for mode in modes:
        size = shape[mode]
        second: Any = 0.0
        # A few samples at a time, since unfolding copies them.
        for part in row_ranges(X.shape[0], BLOCK_ENTRIES // max(size**2, X.shape[1])):
            rows = unfold(tensors[part, ...], mode)
            squares = xp.reshape(rows @ xp.matrix_transpose(rows), (-1, size**2))
            sums = weight[:, part] @ squares
            second = second + xp.reshape(sums, (-1, size, size))
        found.append(second)
    return found


def _covariance(
    second: Array, subsets: Subsets, removed: Array, shape: tuple[int, ...], mode: int
) -> Array:
    """Return each item's covariance of a mode's rows, (B, p_m, p_m), trace one."""
    xp, size, batch = array_namespace(second), shape[mode], removed.shape[:2]
    scaled = subsets.centring.moments @ removed
    left, right = (
        unfold(xp.reshape(part, (-1, *shape)), mode) for part in (scaled, removed)
    )
    products = left @ xp.matrix_transpose(right)
    mean_part = xp.sum(xp.reshape(products, (*batch, size, size)), axis=1)
    second = second - mean_part
    trace, lost = (xp.linalg.trace(m)[:, None, None] for m in (second, mean_part))
    # Less than the rounding of what was subtracted says nothing of directions.
    known = trace > ROUNDINGS * xp.finfo(second.dtype).eps * lost
    equal = xp.eye(size, dtype=second.dtype, device=device(second)) / size
    return xp.where(known, second / xp.where(known, trace, 1.0), equal)


def _columns(tensors: Array, matrices: Sequence[Array], sign: int = 1) -> Array:
    """Return tensors times matrices along all modes, as columns (B, P, 1)."""
    return flatten(_along_all_modes(tensors, matrices, sign))[:, :, None]


def _along_all_modes(tensors: Array, matrices: Sequence[Array], sign: int = 1) -> Array:
    """Return tensors times a metric's roots, or with sign -1 times their inverses."""
    for mode, matrix in enumerate(matrices):
        if matrix.shape[2] == matrix.shape[1]:
            tensors = own_mode_product(tensors, matrix, mode)
        else:  # of a long mode
            back = array_namespace(matrix).matrix_transpose(matrix)
            along = own_mode_product(tensors, back, mode)
            part = own_mode_product(along, matrix, mode)
            tensors = FLOOR ** (sign * 0.25) * tensors + sign * part
    return tensors
