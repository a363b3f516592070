"""Sparse and low-rank least squares, and its solution by the alternating directions.

    min_W  ½‖y − A·w‖² + (α/L) Σ_l ‖W‖_(l) + β ‖W‖₁ + (γ/2) ‖W‖²

The low-rank norms ‖·‖_(l), the objective with a lower bound, the algorithm, and one
run of it for all pairs of weights (α, β). Apart from `convex`, which alone calls it,
because it is mathematics on arrays: it knows neither samples nor estimators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    eigh,
    singular_values,
    to_float64,
    to_python,
)
from sltr.core.problem import Result
from sltr.core.prox import soft_threshold, threshold_singular_values
from sltr.core.tensor import fold, unfold

# The gap is computed, and the residuals are balanced, after so many steps.
CHECK_EVERY = 10
# Convergence is only proven for step sizes that change finitely often.
BALANCE_UNTIL = 1000
# Over-relaxation of the duals.
RELAX = 1.6


class TensorNorm(Protocol):
    """A norm of each tensor of a batch (G, p1, …, pM)."""

    def value(self, x: Array) -> Array:
        """Return the norm of each tensor, shape (G,)."""

    def prox(self, v: Array, step: Array) -> Array:
        """Return argmin_x value(x) + ‖x − v‖² / (2 step), one step per tensor."""

    def dual(self, z: Array) -> Array:
        """Return max ⟨x, z⟩ over value(x) ≤ 1 for each tensor, shape (G,)."""


@dataclass(frozen=True)
class ModeNuclear:
    """The nuclear norm of one unfolding, ‖W_(mode)‖_*."""

    mode: int

    def value(self, x: Array) -> Array:
        """Return the sum of the unfolding's singular values."""
        xp = array_namespace(x)
        return xp.sum(singular_values(unfold(x, self.mode)), axis=-1)

    def prox(self, v: Array, step: Array) -> Array:
        """Soft-threshold the unfolding's singular values at `step`."""
        matrix = threshold_singular_values(unfold(v, self.mode), step)
        return fold(matrix, self.mode, tuple(v.shape[1:]))

    def dual(self, z: Array) -> Array:
        """Return the unfolding's largest singular value."""
        xp = array_namespace(z)
        return xp.max(singular_values(unfold(z, self.mode)), axis=-1)


def mode_norms(order: int) -> tuple[ModeNuclear, ...]:
    """Return the nuclear norms of all distinct unfoldings of a tensor.

    The two unfoldings of a matrix are each other's transpose: one is enough.
    """
    return tuple(ModeNuclear(mode) for mode in range(1 if order == 2 else order))


def zeroing_weight(norms: Sequence[TensorNorm], correlation: Array) -> Array:
    """Return a weight α, (G,), of the mean of L norms at which zero is optimal.

    Zero minimises ½‖y − A·w‖² + α/L Σ_l ‖W‖_(l) if the correlation Aᵀy is a sum of L
    tensors of dual norm at most α/L. Shares of Aᵀy in inverse proportion to its dual
    norms d_l do it for α = L / Σ_l (1/d_l); for L = 1 no smaller α does.
    """
    xp = array_namespace(correlation)
    sizes = xp.stack([norm.dual(correlation) for norm in norms])
    least = xp.min(sizes, axis=0)
    # Without any correlation no weight is needed.
    divisors = xp.where(least > 0.0, sizes, 1.0)
    weight = len(norms) / xp.sum(1.0 / divisors, axis=0)
    return xp.where(least > 0.0, weight, least)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """½‖y − A·w‖² of G problems, turned so that A·Aᵀ is diagonal; r = min(n, P)."""

    design: Array  # (r, P), B with Bᵀ·B = Aᵀ·A and B·Bᵀ = diag(spectrum)
    spectrum: Array  # (r,)
    target: Array  # (G, r), rows t with ‖y − A·w‖² = ‖t − B·w‖² + rest
    correlation: Array  # (G, P), Bᵀ·t = Aᵀ·y
    rest: Array  # (G,)

    @property
    def null(self) -> Array:
        """The objective ½‖y‖² of the coefficient zero, shape (G,)."""
        xp = array_namespace(self.target)
        return 0.5 * (xp.sum(self.target**2, axis=1) + self.rest)

    @property
    def scale(self) -> Array:
        """The mean of the eigenvalues that are not zero, or one if all are.

        Repeating samples, as weights do, adds zeros only.
        """
        xp = array_namespace(self.spectrum)
        floor = xp.max(self.spectrum) * xp.finfo(self.spectrum.dtype).eps ** 0.5
        n_above = xp.sum(xp.astype(self.spectrum > floor, self.spectrum.dtype))
        mean = xp.sum(self.spectrum) / xp.clip(n_above, 1.0, None)
        return xp.where(mean > 0.0, mean, xp.ones_like(mean))

    def take(self, rows: Array) -> LeastSquares:
        """Return the problems of some rows; a row may be taken many times."""
        xp = array_namespace(self.target)
        names = ("target", "correlation", "rest")
        return replace(
            self, **{name: xp.take(getattr(self, name), rows, axis=0) for name in names}
        )


def rotate(A: Array, y: Array) -> LeastSquares:
    """Factorise A (n, P) once, through the Gram matrix of its short side.

    `y` has shape (n,), or (G, n) for several responses.
    """
    xp = array_namespace(A)
    y = y[None, :] if y.ndim == 1 else y
    n_samples, n_features = A.shape
    if n_samples <= n_features:
        values, vectors = eigh(to_float64(A @ xp.matrix_transpose(A)))
        vectors = xp.astype(vectors, A.dtype, copy=False)
        design, target = xp.matrix_transpose(vectors) @ A, y @ vectors
        rest = xp.zeros_like(target[:, 0])
    else:
        values, vectors = eigh(to_float64(xp.matrix_transpose(A) @ A))
        vectors = xp.astype(vectors, A.dtype, copy=False)
        floor = xp.max(values) * xp.finfo(A.dtype).eps * n_features
        kept = values > floor
        root = xp.sqrt(xp.where(kept, values, xp.ones_like(values)))
        root = xp.astype(root, A.dtype, copy=False)
        zero = xp.zeros_like(root)
        design = xp.where(kept, root, zero)[:, None] * xp.matrix_transpose(vectors)
        target = xp.where(kept, 1.0 / root, zero) * ((y @ A) @ vectors)
        rest = xp.sum(y**2, axis=1) - xp.sum(target**2, axis=1)
        rest = xp.clip(rest, 0.0, None)
    values = xp.clip(xp.astype(values, A.dtype, copy=False), 0.0, None)
    return LeastSquares(design, values, target, target @ design, rest)


@dataclass(frozen=True, eq=False)
class Penalised:
    """A batch of G problems over one design, with weights α, β, γ of shape (G,)."""

    loss: LeastSquares
    norms: Sequence[TensorNorm]
    shape: tuple[int, ...]  # of the coefficient
    low: Array
    sparse: Array
    ridge: Array

    def take(self, rows: Array) -> Penalised:
        """Return the problems of some rows."""
        xp = array_namespace(self.low)
        weights = (self.low, self.sparse, self.ridge)
        taken = (xp.take(weight, rows, axis=0) for weight in weights)
        return Penalised(self.loss.take(rows), self.norms, self.shape, *taken)

    @property
    def share(self) -> Array:
        """The weight α/L of each norm."""
        return self.low / len(self.norms)

    def fold(self, flat: Array) -> Array:
        """Return rows of P entries as tensors."""
        return array_namespace(flat).reshape(flat, (-1, *self.shape))

    def value(self, coef: Array) -> Array:
        """Return the objective, shape (G,), at `coef` of shape (G, P)."""
        xp = array_namespace(coef)
        error = self.loss.target - coef @ xp.matrix_transpose(self.loss.design)
        low_rank = sum(norm.value(self.fold(coef)) for norm in self.norms)
        return (
            0.5 * (xp.sum(error**2, axis=1) + self.loss.rest)
            + self.share * low_rank
            + self.sparse * xp.sum(xp.abs(coef), axis=1)
            + 0.5 * self.ridge * xp.sum(coef**2, axis=1)
        )

    def lower_bound(self, error: Array, correlation: Array, parts: Array) -> Array:
        """Return a number the objective cannot fall below, shape (G,).

        By duality it is ⟨y, r⟩ − ½‖r‖² for any `error` r, in the coordinates of the
        loss, whose `correlation` Aᵀr is Σ Z_l + v with `parts` Z_l, (L, G, P), of
        dual norm at most α/L and ‖v‖_∞ ≤ β; with a ridge, what exceeds β in v costs
        its square over 2γ instead. Without one (r, Z, v) is scaled until v fits, or
        the excess of v is spread over the Z_l before scaling; the best counts.
        """
        xp = array_namespace(correlation)
        rest = correlation - xp.sum(parts, axis=0)
        cross = xp.sum(self.loss.target * error, axis=1)
        square = xp.sum(error**2, axis=1)

        def bound(scale):
            return scale * cross - 0.5 * scale**2 * square + 0.5 * self.loss.rest

        best = positive(cross / positive(square))
        largest = xp.maximum(xp.max(xp.abs(rest), axis=1), self.sparse)
        scaled = bound(xp.minimum(best, positive(self.sparse) / positive(largest)))
        excess = soft_threshold(rest, self.sparse[:, None])
        largest = self.share
        for index, norm in enumerate(self.norms):
            widened = self.fold(parts[index, ...] + excess / len(self.norms))
            largest = xp.maximum(largest, norm.dual(widened))
        spread = bound(xp.minimum(best, positive(self.share) / positive(largest)))
        either = xp.maximum(scaled, spread)
        ridge = xp.where(self.ridge > 0.0, self.ridge, xp.ones_like(self.ridge))
        paid = bound(1.0) - xp.sum(excess**2, axis=1) / (2.0 * ridge)
        return xp.where(self.ridge > 0.0, xp.maximum(either, paid), either)


def positive(x: Array) -> Array:
    """Return `x` with zeros raised to the smallest number that can divide."""
    xp = array_namespace(x)
    return xp.clip(x, xp.finfo(x.dtype).smallest_normal, None)


@dataclass(frozen=True, eq=False)
class State:
    """Where the iteration stands: all that a warm start needs."""

    coef: Array  # (G, P)
    duals: Array  # (1 + L, G, P), times 1/step: of the loss, then of each norm
    step: Array  # (G, 1)

    def take(self, rows: Array) -> State:
        """Return the state of some problems."""
        xp = array_namespace(self.coef)
        return State(
            xp.take(self.coef, rows, axis=0),
            xp.take(self.duals, rows, axis=1),
            xp.take(self.step, rows, axis=0),
        )


@dataclass(frozen=True, eq=False)
class AdmmResult(Result):
    """A result with the state from which a neighbouring problem can start.

    `residual` is the duality gap relative to ½‖y‖², the objective at zero.
    """

    state: State


def penalised_admm(
    problem: Penalised,
    *,
    start: State | None = None,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> AdmmResult:
    """Solve a batch of G sparse and low-rank least-squares problems over one design.

        min_W  ½‖y − A·w‖² + (α/L) Σ_l ‖W‖_(l) + β ‖W‖₁ + (γ/2) ‖W‖²

    Consensus ADMM: one copy U of the coefficient for the loss, one V_l for each
    norm, and W that carries the entrywise terms. The step size of each problem
    balances its primal and dual residuals. A problem leaves the batch when its
    duality gap, relative to ½‖y‖², is at most `tol`.

    References
    ----------
    X. Song, H. Lu, "Multilinear regression for embedded feature selection with
    application to fMRI analysis", AAAI 2017. S. Boyd et al., "Distributed
    optimization and statistical learning via the alternating direction method of
    multipliers", 2011, §3.4, §7.1. B. Wohlberg, "ADMM penalty parameter selection
    by residual balancing", 2017.
    """
    xp = array_namespace(problem.low)
    state = _zero_state(problem) if start is None else start
    rows = list(range(problem.low.shape[0]))
    finished: list[_Finished] = []
    lower = xp.zeros_like(problem.low)
    n_iter = 0
    while rows:
        for _ in range(min(CHECK_EVERY, max_iter - n_iter)):
            previous = state
            state, copies, fitted = _step(problem, previous)
            n_iter += 1
        lower = xp.maximum(lower, _bound(problem, previous, copies, fitted))
        gap = xp.clip(problem.value(state.coef) - lower, 0.0, None)
        gaps = to_python(gap / positive(problem.loss.null))
        leaving = [i for i, g in enumerate(gaps) if n_iter >= max_iter or g <= tol]
        if n_iter <= BALANCE_UNTIL:
            state = _balance(previous, state, copies, problem.loss.scale)
        if leaving:
            finished.append(
                _Finished(
                    [rows[i] for i in leaving],
                    state.take(_index(leaving, lower)),
                    n_iter,
                    [gaps[i] for i in leaving],
                )
            )
            staying = sorted(set(range(len(rows))) - set(leaving))
            rows, index = [rows[i] for i in staying], _index(staying, lower)
            problem, state = problem.take(index), state.take(index)
            lower = xp.take(lower, index, axis=0)
    return _collect(finished, problem.shape, tol)


def _zero_state(problem: Penalised) -> State:
    xp = array_namespace(problem.low)
    coef = xp.zeros_like(problem.loss.correlation)
    step = problem.loss.scale + 0.0 * coef[:, :1]
    return State(coef, xp.stack([coef] * (1 + len(problem.norms))), step)


def _step(problem: Penalised, state: State) -> tuple[State, Array, Array]:
    """Return the next state, the copies (1 + L, G, P) and B·u of the loss's copy."""
    xp = array_namespace(state.coef)
    loss, step = problem.loss, state.step
    target = loss.correlation + step * (state.coef - state.duals[0, ...])
    fitted = (target @ xp.matrix_transpose(loss.design)) / (step + loss.spectrum)
    copies = [(target - fitted @ loss.design) / step]
    threshold = problem.share / step[:, 0]
    for part, norm in enumerate(problem.norms, start=1):
        low_rank = norm.prox(
            problem.fold(state.coef - state.duals[part, ...]), threshold
        )
        copies.append(xp.reshape(low_rank, state.coef.shape))
    stacked = xp.stack(copies)
    moved = state.duals + RELAX * stacked + (1.0 - RELAX) * state.coef
    total = len(copies) * step
    mean = xp.sum(moved, axis=0) / len(copies)
    coef = soft_threshold(mean, problem.sparse[:, None] / total)
    coef = coef / (1.0 + problem.ridge[:, None] / total)
    return State(coef, moved - coef, step), stacked, fitted


def _bound(problem: Penalised, state: State, copies: Array, fitted: Array) -> Array:
    """Return the lower bound that the step from `state` to `copies` implies.

    The optimality of each copy gives Aᵀ(y − A·u), without a product, and a
    subgradient of each norm, whose dual norm is at most its weight.
    """
    correlation = state.step * (copies[0, ...] - state.coef + state.duals[0, ...])
    parts = state.step * (state.coef - state.duals[1:, ...] - copies[1:, ...])
    return problem.lower_bound(problem.loss.target - fitted, correlation, parts)


def _balance(previous: State, state: State, copies: Array, middle: Array) -> State:
    """Move each step size so that the relative residuals become equal.

    Steps stay in a range about `middle`, the size of the loss's eigenvalues, in
    which the loss's copy, a difference divided by the step, keeps half its digits.
    """
    xp = array_namespace(copies)
    n_copies = copies.shape[0]

    def size(x):
        return xp.sqrt(xp.sum(x**2, axis=(0, 2)))[:, None]

    coef_size = size(state.coef[None, ...]) * n_copies**0.5
    moved = size((state.coef - previous.coef)[None, ...]) * n_copies**0.5
    primal = size(copies - state.coef) / positive(xp.maximum(size(copies), coef_size))
    ratio = xp.sqrt(primal / positive(moved / positive(size(state.duals))))
    ratio = xp.clip(ratio, 0.2, 5.0)
    # A zero coefficient has no scale to which a residual could be relative.
    near = ((ratio > 0.8) & (ratio < 1.25)) | (coef_size == 0.0)
    digits = xp.finfo(copies.dtype).eps ** 0.5
    step = xp.where(near, state.step, state.step * ratio)
    step = xp.minimum(xp.maximum(step, middle * digits), middle / digits)
    return State(state.coef, state.duals * (state.step / step), step)


@dataclass(frozen=True, eq=False)
class _Finished:
    """Problems that left the batch together."""

    rows: list[int]
    state: State
    n_iter: int
    gaps: list[float]


def _collect(
    finished: list[_Finished], shape: tuple[int, ...], tol: float
) -> AdmmResult:
    """Put the finished problems back into their order."""
    first = finished[0].state.coef
    xp = array_namespace(first)
    rows = [row for part in finished for row in part.rows]
    back = sorted(range(len(rows)), key=rows.__getitem__)
    state = State(
        xp.concat([part.state.coef for part in finished], axis=0),
        xp.concat([part.state.duals for part in finished], axis=1),
        xp.concat([part.state.step for part in finished], axis=0),
    ).take(_index(back, first))
    n_iter = [part.n_iter for part in finished for _ in part.rows]
    gaps = [gap for part in finished for gap in part.gaps]
    return AdmmResult(
        x=xp.reshape(state.coef, (len(rows), *shape)),
        n_iter=_index([n_iter[i] for i in back], first),
        residual=as_array([gaps[i] for i in back], first),
        converged=as_array([gaps[i] <= tol for i in back], first, dtype=xp.bool),
        state=state,
    )


def _index(rows: list[int], like: Array) -> Array:
    return as_array(rows, like, dtype=array_namespace(like).int64)


def penalised_path(
    loss: LeastSquares,
    norms: Sequence[TensorNorm],
    shape: tuple[int, ...],
    lows: Sequence[float],
    sparses: Sequence[float],
    ridge: float = 0.0,
    *,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> Result:
    """Solve for all pairs of n_low and n_sparse weights and K responses.

    All sparse weights (and responses) make a batch; the low-rank weights follow one
    another from strong to weak, each starting where the one before it ended. `x` has
    shape (n_low, n_sparse, K, p1, …, pM), the other fields (n_low, n_sparse, K).
    """
    xp = array_namespace(loss.design)
    n_sparse, n_responses = len(sparses), loss.target.shape[0]
    repeated = as_array(list(range(n_responses)) * n_sparse, loss.rest, dtype=xp.int64)
    batch = loss.take(repeated)
    # In units of one, weights beyond this leave nothing; larger ones are no numbers.
    most = float(xp.finfo(loss.rest.dtype).max) ** 0.5
    lows, ridge = [min(float(value), most) for value in lows], min(float(ridge), most)
    ridge = ridge if ridge > 1.0 / most else 0.0  # what is divided by it would be none
    sparse = as_array(
        [min(value, most) for value in sparses for _ in range(n_responses)], loss.rest
    )
    results: dict[int, AdmmResult] = {}
    state = None
    for i in sorted(range(len(lows)), key=lambda i: -lows[i]):
        low, gamma = 0.0 * sparse + lows[i], 0.0 * sparse + ridge
        problem = Penalised(batch, norms, shape, low, sparse, gamma)
        results[i] = penalised_admm(problem, start=state, tol=tol, max_iter=max_iter)
        state = results[i].state

    def stacked(name: str) -> Array:
        values = xp.stack([getattr(results[i], name) for i in range(len(lows))])
        return xp.reshape(values, (len(lows), n_sparse, n_responses, *values.shape[2:]))

    return Result(*map(stacked, ("x", "n_iter", "residual", "converged")))
