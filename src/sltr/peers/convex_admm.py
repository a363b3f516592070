"""Sparse and low-rank least squares by the alternating direction method.

It stands apart from `convex`, which alone calls it, because it is an algorithm of
its own: the objective is there, the iteration is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sltr.arrays import Array, array_namespace, as_array, to_python
from sltr.core.problem import Result
from sltr.core.prox import soft_threshold

if TYPE_CHECKING:
    from sltr.peers.convex import Penalised

# The gap is computed, and the residuals are balanced, after so many steps.
CHECK_EVERY = 10
# Convergence is only proven for step sizes that change finitely often.
BALANCE_UNTIL = 1000


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
    relax: float = 1.6,
    tol: float = 1e-4,
    max_iter: int = 5000,
    callback: Callable[[int, Array], None] | None = None,
) -> AdmmResult:
    """Solve a batch of G sparse and low-rank least-squares problems over one design.

        min_W  ½‖y − A·w‖² + (α/L) Σ_l ‖W‖_(l) + β ‖W‖₁ + (γ/2) ‖W‖²

    Consensus ADMM: one copy U of the coefficient for the loss, one V_l for each
    norm, and W that carries the entrywise terms. The step size of each problem
    balances its primal and dual residuals. A problem leaves the batch when its
    duality gap, relative to ½‖y‖², is at most `tol`; `callback` sees the others.

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
            state, copies, fitted = _step(problem, previous, relax)
            n_iter += 1
        if callback is not None:
            callback(n_iter, state.coef)
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


def _step(problem: Penalised, state: State, relax: float) -> tuple[State, Array, Array]:
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
    moved = state.duals + relax * stacked + (1.0 - relax) * state.coef
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


def positive(x: Array) -> Array:
    """Return `x` with zeros raised to the smallest number that can divide."""
    xp = array_namespace(x)
    return xp.clip(x, xp.finfo(x.dtype).smallest_normal, None)
