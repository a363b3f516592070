"""SURF: sparse unit-rank terms, one after another, by stage-wise steps.

Every step moves one coordinate of one factor by a small amount. The greedy
search reads a value in each step, so it runs on the host, in NumPy; a step
touches one slice of the samples, never all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from sltr._array import Array, to_numpy
from sltr.tensor import cp_to_tensor

__all__ = ["Step", "UnitRank", "cumulative_tensors", "surf"]


@dataclass(frozen=True, eq=False)
class UnitRank:
    """One term σ·w¹∘…∘w^M with ‖w^m‖₁ = 1, and where its path ended.

    Attributes
    ----------
    scale : float
        σ, in the units of y over X.
    factors : tuple of arrays of shape (p_m,)
    penalty_max, penalty : float
        The largest λ of the path and the last one.
    n_iter : int
        Steps taken.
    converged : bool
        Whether the path ended by itself (or at `stop`) within the budget.
    """

    scale: float
    factors: tuple[np.ndarray, ...]
    penalty_max: float
    penalty: float
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Step:
    """One step as the callback sees it: the state *after* it.

    `change` is the predicted change of the loss J, exact by construction.
    """

    term: int
    backward: bool
    change: float
    penalty: float
    scale: float
    factors: tuple[np.ndarray, ...]


@dataclass
class _State:
    """The moving parts of a path; rows stack the coordinates of all modes."""

    tensors: np.ndarray
    Z: np.ndarray
    squares: np.ndarray
    w: list[np.ndarray]
    residual: np.ndarray
    scale: float


@dataclass(frozen=True)
class _Rules:
    """The settings of :func:`surf`, filled in."""

    epsilon: float
    xi: float
    alpha: float
    stop: float
    max_iter: int
    n_total: float


@dataclass(frozen=True, eq=False)
class _Moves:
    """What may be done next, one entry for each coordinate of each mode."""

    w_hat: np.ndarray
    forward: np.ndarray
    change_forward: np.ndarray
    backward: np.ndarray
    change_backward: np.ndarray


def surf(
    A: Array,
    y: Array,
    shape: Sequence[int],
    *,
    n_components: int = 1,
    epsilon: float = 0.1,
    xi: float | None = None,
    alpha: float = 1.0,
    stop: float = 0.0,
    max_iter: int = 10_000,
    n_total: float | None = None,
    callback: Callable[[int, Step], None] | None = None,
) -> list[UnitRank]:
    r"""Fit unit-rank terms to the residual, one after another.

    Each term follows the stage-wise path of

    .. math::

       \min_{\sigma, w} J + \lambda\sigma, \qquad
       J = \tfrac1n\|y - \sigma\langle X, w^1\circ\dots\circ w^M\rangle\|^2
       + \alpha\sigma^2 \prod_m \|w^m\|_2^2, \qquad \|w^m\|_1 = 1,

    from the largest λ downwards. With ŵ = σ·wᵐ, Z the samples contracted with
    all other factors, e the residual and β = ∏_{k≠m}‖w^k‖², a move of ŵ_j by
    s·δ changes J by exactly −(δ/n)(s·g_j − δ·h_j), g = 2(Z·e − nαβŵ),
    h = rowsum(Z²) + nαβ. A backward step (towards zero, by at most ε) is taken
    where it lowers J + λσ by more than ξ; otherwise the best forward step, and
    λ falls to what it gained, (ΔJ − ξ)/ε, if that is less.

    Parameters
    ----------
    A : array of shape (n, P)
        Samples, one row each, centred.
    y : array of shape (n,)
    shape : sequence of int
        (p1, …, pM), product P.
    n_components : int
        Terms; fewer are returned if one of them does not pay.
    epsilon : float
        Step, in the units of y over X.
    xi : float, optional
        Least gain of a step, in the units of y²; None is ε²/2.
    alpha : float
        Ridge weight, in the units of X².
    stop : float
        Each path ends where λ falls below `stop` × its largest value; 0 ends it
        where no step gains more than ξ.
    max_iter : int
        Steps for each term.
    n_total : float, optional
        What n in J stands for, if not the number of rows (weighted rows).
    callback : callable, optional
        ``callback(n_iter, step)`` after every step.

    Returns
    -------
    list of UnitRank

    References
    ----------
    .. [1] He, Chen, Xu, Zhou, Wang. Boosted sparse and low-rank tensor
       regression. NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 4, 3))
    >>> [term] = surf(X.reshape(50, 12), 2 * X[:, 1, 2], (4, 3), alpha=0.0)
    >>> [int(np.argmax(np.abs(w))) for w in term.factors]
    [1, 2]
    """
    # Samples last: a slice across any mode is then made of contiguous runs.
    samples_last = np.ascontiguousarray(to_numpy(A).T)
    tensors = samples_last.reshape((*shape, -1))
    squares = np.einsum("ij,ij->i", samples_last, samples_last, dtype=np.float64)
    residual = to_numpy(y).astype(np.float64)
    rules = _Rules(
        epsilon=epsilon,
        xi=0.5 * epsilon**2 if xi is None else xi,
        alpha=alpha,
        stop=stop,
        max_iter=max_iter,
        n_total=float(len(residual)) if n_total is None else float(n_total),
    )
    terms: list[UnitRank] = []
    for number in range(n_components):
        state = _start(tensors, residual, squares, epsilon)
        term = _follow(state, rules, number, callback)
        if term is None:
            break
        terms.append(term)
        residual = state.residual
    return terms


def cumulative_tensors(terms: Sequence[UnitRank], shape: Sequence[int]) -> np.ndarray:
    """Return the sums of the first 0, 1, …, R terms, shape (R + 1, p1, …, pM).

    Examples
    --------
    >>> import numpy as np
    >>> term = UnitRank(2.0, (np.ones(1), np.ones(1)), 1.0, 0.0, 1, True)
    >>> cumulative_tensors([term, term], (1, 1)).ravel()
    array([0., 2., 4.])
    """
    sums = np.zeros((len(terms) + 1, *shape))
    for number, term in enumerate(terms):
        outer = cp_to_tensor([w[:, None] for w in term.factors])
        sums[number + 1] = sums[number] + term.scale * outer
    return sums


def _start(
    tensors: np.ndarray, y: np.ndarray, squares: np.ndarray, epsilon: float
) -> _State:
    """Point all factors at the entry whose first step gains most; scale 0."""
    shape = tensors.shape[:-1]
    gains = 2 * np.abs(tensors.reshape(prod(shape), -1) @ y) - epsilon * squares
    where = tuple(int(j) for j in np.unravel_index(int(np.argmax(gains)), shape))
    w = [np.eye(size)[j] for size, j in zip(shape, where, strict=True)]
    rows = [
        tensors[(*where[:mode], slice(None), *where[mode + 1 :])]  # type: ignore[arg-type]
        for mode in range(len(shape))
    ]
    # Small beside the samples, and updated in every step: double precision.
    Z = np.concatenate(rows).astype(np.float64)
    return _State(tensors, Z, np.einsum("ij,ij->i", Z, Z), w, y.copy(), 0.0)


def _follow(
    state: _State,
    rules: _Rules,
    number: int,
    callback: Callable[[int, Step], None] | None,
) -> UnitRank | None:
    """Walk one path from `state`; None if not even the first step pays."""
    modes = np.repeat(np.arange(len(state.w)), [len(w) for w in state.w])
    penalty_max = penalty = float("inf")
    n_iter, converged = 0, False
    while n_iter < rules.max_iter:
        moves = _moves(state, modes, rules)
        backward, row, move, change = _choose(state, moves, penalty, rules)
        if not backward:
            reached = min(penalty, (-change - rules.xi) / rules.epsilon)
            end = 0.0 if n_iter == 0 else rules.stop * penalty_max
            if reached < end:
                converged = True
                break
            penalty = reached
            penalty_max = penalty if n_iter == 0 else penalty_max
        _apply(state, int(modes[row]), row, move)
        n_iter += 1
        if callback is not None:
            factors = tuple(w.copy() for w in state.w)
            step = Step(number, backward, change, penalty, state.scale, factors)
            callback(n_iter, step)
    if n_iter == 0:
        return None
    return UnitRank(
        state.scale, tuple(state.w), penalty_max, penalty, n_iter, converged
    )


def _moves(state: _State, modes: np.ndarray, rules: _Rules) -> _Moves:
    """Return the forward and backward move of every coordinate."""
    epsilon, n_total = rules.epsilon, rules.n_total
    w_hat = state.scale * np.concatenate(state.w)
    norms = [float(w @ w) for w in state.w]
    others = np.array([prod(norms[:m] + norms[m + 1 :]) for m in range(len(norms))])
    ridge = (n_total * rules.alpha) * others[modes]
    g = 2.0 * (state.Z @ state.residual - ridge * w_hat)
    h = state.squares + ridge
    backward = -np.clip(w_hat, -epsilon, epsilon)
    return _Moves(
        w_hat=w_hat,
        forward=np.where(g < 0.0, -epsilon, epsilon),
        change_forward=-(epsilon / n_total) * (np.abs(g) - epsilon * h),
        backward=backward,
        change_backward=-(backward / n_total) * (g - backward * h),
    )


def _choose(
    state: _State, moves: _Moves, penalty: float, rules: _Rules
) -> tuple[bool, int, float, float]:
    """Return whether to step back, the row, the move and its change of J."""
    changes = moves.change_forward
    if state.scale > 0.0:
        size = np.abs(moves.backward)
        total = moves.change_backward - penalty * size
        # The last coordinate of a mode may not vanish: the term would be zero.
        last = size >= state.scale * (1.0 - 1e-9)
        total = np.where(last | (size == 0.0), np.inf, total)
        row = int(np.argmin(total))
        if total[row] < -rules.xi:
            change = float(moves.change_backward[row])
            return True, row, float(moves.backward[row]), change
        growth = np.abs(moves.w_hat + moves.forward) - np.abs(moves.w_hat)
        vanishes = state.scale + growth < 1e-9 * rules.epsilon
        changes = np.where(vanishes, np.inf, changes)
    row = int(np.argmin(changes))
    return False, row, float(moves.forward[row]), float(changes[row])


def _apply(state: _State, mode: int, row: int, move: float) -> None:
    """Move one coordinate; what depends on it follows by its one slice."""
    starts = np.cumsum([0, *(len(w) for w in state.w)])
    index = row - int(starts[mode])
    state.residual -= move * state.Z[row]
    w_hat = state.scale * state.w[mode]
    w_hat[index] += move
    scale = float(np.abs(w_hat).sum())
    state.w[mode] = w_hat / scale
    block = np.take(state.tensors, index, axis=mode)
    rest = [w for k, w in enumerate(state.w) if k != mode]
    for position, k in enumerate(k for k in range(len(state.w)) if k != mode):
        rows = slice(int(starts[k]), int(starts[k + 1]))
        part = _contract_all_but(block, rest, position)
        Z = (state.scale * state.Z[rows] + move * part) / scale
        state.Z[rows] = Z
        state.squares[rows] = np.einsum("ij,ij->i", Z, Z)
    state.scale = scale


def _contract_all_but(
    block: np.ndarray, vectors: list[np.ndarray], kept: int
) -> np.ndarray:
    """Contract the modes of `block` (…, n) with `vectors`, all but one."""
    for axis in range(len(vectors) - 1, -1, -1):
        if axis != kept:
            left, right = block.shape[:axis], block.shape[axis + 1 :]
            flat = block.reshape(prod(left), block.shape[axis], prod(right))
            block = np.matmul(vectors[axis], flat).reshape(left + right)
    return block
