"""Sparse and low-rank least squares by the alternating direction method.

    min_W  ½‖y − A·w‖² + α Σ_k c ‖W‖_(k) + β ‖W‖₁ + (γ/2) ‖W‖²,   w = vec(W),

with low-rank norms ‖·‖_(k), each of share c = 1/K. One factorisation of A
serves every α, β, γ and every step size; a batch holds one problem per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sltr._array import Array, array_namespace, as_array, to_python
from sltr.prox import soft_threshold
from sltr.solvers.least_squares import LeastSquares
from sltr.solvers.low_rank import TensorNorm
from sltr.solvers.result import Result

__all__ = ["AdmmResult", "State", "admm", "admm_path"]

# Residual balancing, and the gap, look at the iterates this often.
CHECK_EVERY = 10
# Convergence is only proven for step sizes that change finitely often.
BALANCE_UNTIL = 1000


@dataclass(frozen=True, eq=False)
class State:
    """Where the iteration stands: all that a warm start needs.

    Attributes
    ----------
    coef : array of shape (G, P)
    duals : array of shape (1 + K, G, P)
        Scaled by 1/step: first the loss's, then one for each norm.
    step : array of shape (G, 1)
    """

    coef: Array
    duals: Array
    step: Array

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
    """A result with the state to start a neighbouring problem from.

    `residual` is the duality gap relative to the objective of the zero
    coefficient, ½‖y‖².
    """

    state: State


@dataclass(frozen=True, eq=False)
class _Penalty:
    """The weights of a batch, each of shape (G, 1)."""

    low: Array
    sparse: Array
    ridge: Array

    def take(self, rows: Array) -> _Penalty:
        xp = array_namespace(self.low)
        parts = (self.low, self.sparse, self.ridge)
        return _Penalty(*(xp.take(part, rows, axis=0) for part in parts))


def _cold(problem: LeastSquares, n_norms: int) -> State:
    xp = array_namespace(problem.design)
    coef = xp.zeros_like(problem.pull)
    step = problem.scale + 0.0 * coef[:, :1]
    return State(coef, xp.stack([coef] * (n_norms + 1)), step)


def admm(
    problem: LeastSquares,
    norms: Sequence[TensorNorm],
    shape: tuple[int, ...],
    low: Array,
    sparse: Array,
    ridge: Array,
    *,
    start: State | None = None,
    relax: float = 1.6,
    tol: float = 1e-4,
    max_iter: int = 5000,
    callback: Callable[[int, Array], None] | None = None,
) -> AdmmResult:
    """Solve a batch of sparse and low-rank least-squares problems.

    Consensus ADMM: one copy U of the coefficient for the loss, one V_k for each
    norm, and W that carries the entrywise terms. The step size of each problem
    balances its primal and dual residuals. A problem leaves the batch when its
    duality gap is small enough.

    Parameters
    ----------
    problem : LeastSquares
        G problems over one design.
    norms : sequence of K TensorNorm
        The low-rank norms, of weight low / K each.
    shape : tuple of int
        Shape of the coefficient, of P entries.
    low, sparse, ridge : array of shape (G,)
        The weights α, β, γ of each problem.
    start : State, optional
        The state of a result for neighbouring weights.
    relax : float
        Over-relaxation, in (0, 2).
    tol : float
        Duality gap to stop at, relative to ½‖y‖².
    max_iter : int
    callback : callable, optional
        Called as ``callback(n_iter, coef)`` with the unfinished problems.

    Returns
    -------
    AdmmResult
        `x` of shape (G, p1, …, pM); the other fields of shape (G,).

    References
    ----------
    X. Song, H. Lu, "Multilinear regression for embedded feature selection with
    application to fMRI analysis", AAAI 2017. S. Boyd et al., "Distributed
    optimization and statistical learning via the alternating direction method of
    multipliers", 2011, §3.4, §7.1. B. Wohlberg, "ADMM penalty parameter selection
    by residual balancing", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr.solvers.least_squares import rotate
    >>> from sltr.solvers.low_rank import mode_norms
    >>> problem = rotate(np.eye(4), np.array([3.0, 0.1, -2.0, 0.5]))
    >>> zero, one = np.zeros(1), np.ones(1)
    >>> result = admm(problem, mode_norms(2), (2, 2), zero, one, zero, tol=1e-9)
    >>> np.round(result.x, 3) + 0.0
    array([[[ 2.,  0.],
            [-1.,  0.]]])
    """
    xp = array_namespace(problem.design)
    penalty = _Penalty(low[:, None] / len(norms), sparse[:, None], ridge[:, None])
    state = _cold(problem, len(norms)) if start is None else start
    rows = list(range(problem.target.shape[0]))
    finished: list[_Finished] = []
    lower = xp.zeros_like(problem.rest)
    n_iter = 0
    while rows:
        for _ in range(min(CHECK_EVERY, max_iter - n_iter)):
            previous = state
            state, copies, fitted = _step(
                problem, norms, shape, penalty, previous, relax
            )
            n_iter += 1
        if callback is not None:
            callback(n_iter, state.coef)
        dual = _dual(problem, norms, shape, penalty, previous, copies, fitted)
        lower = xp.maximum(lower, dual)
        gap = _primal(problem, norms, shape, penalty, state.coef) - lower
        gaps = to_python(xp.clip(gap, 0.0, None) / _positive(problem.null))
        over = n_iter >= max_iter
        leaving = [i for i, g in enumerate(gaps) if over or g <= tol]
        staying = [i for i, g in enumerate(gaps) if not (over or g <= tol)]
        if n_iter <= BALANCE_UNTIL:
            state = _balance(problem, previous, state, copies)
        if leaving:
            finished.append(
                _Finished(
                    [rows[i] for i in leaving],
                    state.take(_index(leaving, lower)),
                    n_iter,
                    [gaps[i] for i in leaving],
                )
            )
            rows, index = [rows[i] for i in staying], _index(staying, lower)
            problem, penalty = problem.take(index), penalty.take(index)
            state, lower = state.take(index), xp.take(lower, index, axis=0)
    return _collect(finished, shape, tol)


def admm_path(
    problem: LeastSquares,
    norms: Sequence[TensorNorm],
    shape: tuple[int, ...],
    lows: Sequence[float],
    sparses: Sequence[float],
    ridge: float = 0.0,
    *,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> Result:
    """Solve for every pair of weights, each start taken from its neighbour.

    All sparse weights (and responses) make a batch; the batch walks down the
    low-rank weights, from strong to weak, with warm starts.

    Parameters
    ----------
    problem : LeastSquares
        K responses over one design.
    norms, shape, tol, max_iter
        As for `admm`.
    lows, sparses : sequences of L and S floats
    ridge : float

    Returns
    -------
    Result
        `x` of shape (L, S, K, p1, …, pM); the other fields of shape (L, S, K).

    Examples
    --------
    >>> import numpy as np
    >>> from sltr.solvers.least_squares import rotate
    >>> from sltr.solvers.low_rank import mode_norms
    >>> problem = rotate(np.eye(4), np.array([3.0, 0.1, -2.0, 0.5]))
    >>> admm_path(problem, mode_norms(2), (2, 2), [1.0, 0.1], [1.0, 0.5, 0.1]).x.shape
    (2, 3, 1, 2, 2)
    """
    xp = array_namespace(problem.design)
    n_sparse, n_responses = len(sparses), problem.target.shape[0]
    batch = problem.take(_index(list(range(n_responses)) * n_sparse, problem.rest))
    sparse = [value for value in sparses for _ in range(n_responses)]
    weights = as_array(sparse, problem.rest)
    order = sorted(range(len(lows)), key=lambda i: -lows[i])
    results: dict[int, AdmmResult] = {}
    state = None
    for i in order:
        results[i] = admm(
            batch,
            norms,
            shape,
            0.0 * weights + float(lows[i]),
            weights,
            0.0 * weights + float(ridge),
            start=state,
            tol=tol,
            max_iter=max_iter,
        )
        state = results[i].state

    def stacked(name: str) -> Array:
        values = xp.stack([getattr(results[i], name) for i in range(len(lows))])
        return xp.reshape(values, (len(lows), n_sparse, n_responses, *values.shape[2:]))

    return Result(*map(stacked, ("x", "n_iter", "residual", "converged")))


@dataclass(frozen=True, eq=False)
class _Finished:
    """Problems that left the batch together."""

    rows: list[int]
    state: State
    n_iter: int
    gaps: list[float]


def _step(problem, norms, shape, penalty, state, relax):
    """Return the next state, the copies (1 + K, G, P) and B·u of the loss's."""
    xp = array_namespace(state.coef)
    step, n_copies = state.step, 1 + len(norms)
    pulled = problem.pull + step * (state.coef - state.duals[0, ...])
    fitted = (pulled @ xp.matrix_transpose(problem.design)) / (step + problem.spectrum)
    copies = [(pulled - fitted @ problem.design) / step]
    threshold = (penalty.low / step)[:, 0]
    for k, norm in enumerate(norms, start=1):
        centre = xp.reshape(state.coef - state.duals[k, ...], (-1, *shape))
        copies.append(xp.reshape(norm.prox(centre, threshold), state.coef.shape))
    stacked = xp.stack(copies)
    pushed = state.duals + relax * stacked + (1.0 - relax) * state.coef
    coef = soft_threshold(
        xp.sum(pushed, axis=0) / n_copies, penalty.sparse / (n_copies * step)
    ) / (1.0 + penalty.ridge / (n_copies * step))
    return State(coef, pushed - coef, step), stacked, fitted


def _balance(
    problem: LeastSquares, previous: State, state: State, copies: Array
) -> State:
    """Move each step size so that the relative residuals become equal.

    Steps stay in a range about the mean eigenvalue in which the loss's copy, a
    difference divided by the step, keeps half of its digits.
    """
    xp = array_namespace(copies)
    n_copies = copies.shape[0]

    def size(x):
        return xp.sqrt(xp.sum(x**2, axis=(0, 2)))[:, None]

    spread = size(state.coef[None, ...]) * n_copies**0.5
    moved = size((state.coef - previous.coef)[None, ...]) * n_copies**0.5
    primal = size(copies - state.coef) / _positive(xp.maximum(size(copies), spread))
    ratio = xp.sqrt(primal / _positive(moved / _positive(size(state.duals))))
    ratio = xp.clip(ratio, 0.2, 5.0)
    # A zero coefficient has no scale to which a residual could be relative.
    near = ((ratio > 0.8) & (ratio < 1.25)) | (spread == 0.0)
    digits = xp.finfo(copies.dtype).eps ** 0.5
    middle = problem.scale
    step = xp.where(near, state.step, state.step * ratio)
    step = xp.minimum(xp.maximum(step, middle * digits), middle / digits)
    return State(state.coef, state.duals * (state.step / step), step)


def _primal(problem, norms, shape, penalty, coef):
    """Return the objective at `coef`, shape (G,)."""
    xp = array_namespace(coef)
    error = problem.target - coef @ xp.matrix_transpose(problem.design)
    tensor = xp.reshape(coef, (-1, *shape))
    low = sum(norm.value(tensor) for norm in norms)
    return (
        0.5 * (xp.sum(error**2, axis=1) + problem.rest)
        + penalty.low[:, 0] * low
        + penalty.sparse[:, 0] * xp.sum(xp.abs(coef), axis=1)
        + 0.5 * penalty.ridge[:, 0] * xp.sum(coef**2, axis=1)
    )


def _dual(problem, norms, shape, penalty, state, copies, fitted):
    """Return a lower bound of the objective, shape (G,).

    For any r and Z_k with ‖Z_k‖ ≤ α/K in the dual norm, and what is left,
    v = Aᵀr − Σ Z_k, the bound is ⟨y, r⟩ − ½‖r‖² if ‖v‖_∞ ≤ β. The prox steps
    give such Z_k, and Aᵀr without a product. (r, Z, v) is scaled until the last
    constraint holds, or what exceeds it is spread over the Z_k before scaling,
    or, with a ridge, what exceeds β costs its square over 2γ.
    """
    xp = array_namespace(copies)
    error = problem.target - fitted
    pulls = state.step * (copies[0, ...] - state.coef + state.duals[0, ...])
    pushes = state.step * (state.coef - state.duals[1:, ...] - copies[1:, ...])
    left = pulls - xp.sum(pushes, axis=0)
    cross = xp.sum(problem.target * error, axis=1)
    square = xp.sum(error**2, axis=1)
    rest = 0.5 * problem.rest

    def bound(scale):
        return scale * cross - 0.5 * scale**2 * square + rest

    sparse, low, ridge = penalty.sparse[:, 0], penalty.low[:, 0], penalty.ridge[:, 0]
    best = _positive(cross / _positive(square))
    boxed = sparse / _positive(xp.maximum(xp.max(xp.abs(left), axis=1), sparse))
    excess = soft_threshold(left, penalty.sparse)
    largest = low
    for k, norm in enumerate(norms):
        spread = xp.reshape(pushes[k, ...] + excess / len(norms), (-1, *shape))
        largest = xp.maximum(largest, norm.dual(spread))
    shared = low / _positive(largest)
    bounds = xp.maximum(bound(xp.minimum(best, boxed)), bound(xp.minimum(best, shared)))
    cost = xp.sum(excess**2, axis=1) / (2.0 * _unit_if_zero(ridge))
    return xp.maximum(bounds, xp.where(ridge > 0.0, bound(1.0) - cost, bounds))


def _unit_if_zero(x: Array) -> Array:
    """Return `x` with ones in place of zeros."""
    xp = array_namespace(x)
    return xp.where(x > 0.0, x, xp.ones_like(x))


def _positive(x: Array) -> Array:
    """Return `x` with tiny values raised, so that it can divide."""
    xp = array_namespace(x)
    return xp.clip(x, xp.finfo(x.dtype).smallest_normal, None)


def _index(rows: list[int], like: Array) -> Array:
    return as_array(rows, like, dtype=array_namespace(like).int64)


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
