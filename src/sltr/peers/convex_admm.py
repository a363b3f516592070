"""Sparse and low-rank least squares by the alternating direction method.

One factorisation of the design serves all weights and every step size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, to_python
from sltr.core.problem import Result
from sltr.core.prox import soft_threshold
from sltr.estimators.base import set_linear
from sltr.parameters import check_count, check_nonnegative, check_sequence
from sltr.peers.convex import (
    LeastSquares,
    Penalised,
    TensorNorm,
    positive,
    rotate,
    zeroing_weight,
)
from sltr.peers.search import LinearFits, candidate_scores
from sltr.samples.front import centre
from sltr.samples.samples import Samples
from sltr.tuning.choose import record_choice
from sltr.tuning.folds import Split

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


def _cold(problem: Penalised) -> State:
    xp = array_namespace(problem.low)
    coef = xp.zeros_like(problem.loss.pull)
    step = problem.loss.scale + 0.0 * coef[:, :1]
    return State(coef, xp.stack([coef] * (1 + len(problem.norms))), step)


def penalised_admm(
    problem: Penalised,
    *,
    start: State | None = None,
    relax: float = 1.6,
    tol: float = 1e-4,
    max_iter: int = 5000,
    callback: Callable[[int, Array], None] | None = None,
) -> AdmmResult:
    """Solve a batch of sparse and low-rank least-squares problems.

        min_W  ½‖y − A·w‖² + (α/K) Σ_k ‖W‖_(k) + β ‖W‖₁ + (γ/2) ‖W‖²

    Consensus ADMM: one copy U of the coefficient for the loss, one V_k for each
    norm, and W that carries the entrywise terms. The step size of each problem
    balances its primal and dual residuals. A problem leaves the batch when its
    duality gap is small enough.

    Parameters
    ----------
    problem : Penalised
        G problems over one design.
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
    >>> from sltr.peers.convex import rotate
    >>> from sltr.peers.convex import mode_norms
    >>> loss = rotate(np.eye(4), np.array([3.0, 0.1, -2.0, 0.5]))
    >>> zero, one = np.zeros(1), np.ones(1)
    >>> problem = Penalised(loss, mode_norms(2), (2, 2), zero, one, zero)
    >>> result = penalised_admm(problem, tol=1e-9)
    >>> np.round(result.x, 3) + 0.0
    array([[[ 2.,  0.],
            [-1.,  0.]]])
    """
    xp = array_namespace(problem.low)
    state = _cold(problem) if start is None else start
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
        over = n_iter >= max_iter
        leaving = [i for i, g in enumerate(gaps) if over or g <= tol]
        staying = [i for i, g in enumerate(gaps) if not (over or g <= tol)]
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
            rows, index = [rows[i] for i in staying], _index(staying, lower)
            problem, state = problem.take(index), state.take(index)
            lower = xp.take(lower, index, axis=0)
    return _collect(finished, problem.shape, tol)


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
    """Solve for every pair of weights, each start taken from its neighbour.

    All sparse weights (and responses) make a batch; the batch walks down the
    low-rank weights, from strong to weak, with warm starts.

    Parameters
    ----------
    loss : LeastSquares
        K responses over one design.
    norms, shape
        As for `Penalised`.
    lows, sparses : sequences of L and S floats
    ridge : float
    tol, max_iter
        As for `penalised_admm`.

    Returns
    -------
    Result
        `x` of shape (L, S, K, p1, …, pM); the other fields of shape (L, S, K).

    Examples
    --------
    >>> import numpy as np
    >>> from sltr.peers.convex import rotate
    >>> from sltr.peers.convex import mode_norms
    >>> loss = rotate(np.eye(4), np.array([3.0, 0.1, -2.0, 0.5]))
    >>> penalised_path(loss, mode_norms(2), (2, 2), [1.0, 0.1], [1.0, 0.5, 0.1]).x.shape
    (2, 3, 1, 2, 2)
    """
    xp = array_namespace(loss.design)
    n_sparse, n_responses = len(sparses), loss.target.shape[0]
    batch = loss.take(_index(list(range(n_responses)) * n_sparse, loss.rest))
    repeated = [value for value in sparses for _ in range(n_responses)]
    sparse = as_array(repeated, loss.rest)
    order = sorted(range(len(lows)), key=lambda i: -lows[i])
    results: dict[int, AdmmResult] = {}
    state = None
    for i in order:
        low, gamma = 0.0 * sparse + float(lows[i]), 0.0 * sparse + float(ridge)
        problem = Penalised(batch, norms, shape, low, sparse, gamma)
        results[i] = penalised_admm(problem, start=state, tol=tol, max_iter=max_iter)
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


def _step(problem: Penalised, state: State, relax: float) -> tuple[State, Array, Array]:
    """Return the next state, the copies (1 + K, G, P) and B·u of the loss's."""
    xp = array_namespace(state.coef)
    loss, step = problem.loss, state.step
    pulled = loss.pull + step * (state.coef - state.duals[0, ...])
    fitted = (pulled @ xp.matrix_transpose(loss.design)) / (step + loss.spectrum)
    copies = [(pulled - fitted @ loss.design) / step]
    threshold = problem.share / step[:, 0]
    for k, norm in enumerate(problem.norms, start=1):
        low_rank = norm.prox(problem.fold(state.coef - state.duals[k, ...]), threshold)
        copies.append(xp.reshape(low_rank, state.coef.shape))
    stacked = xp.stack(copies)
    pushed = state.duals + relax * stacked + (1.0 - relax) * state.coef
    total = len(copies) * step
    mean = xp.sum(pushed, axis=0) / len(copies)
    coef = soft_threshold(mean, problem.sparse[:, None] / total)
    coef = coef / (1.0 + problem.ridge[:, None] / total)
    return State(coef, pushed - coef, step), stacked, fitted


def _bound(problem: Penalised, state: State, copies: Array, fitted: Array) -> Array:
    """Return the lower bound that the step from `state` to `copies` implies.

    The optimality of each copy gives Aᵀ(y − A·u), without a product, and a
    subgradient of each norm, whose dual norm is at most its weight.
    """
    pull = state.step * (copies[0, ...] - state.coef + state.duals[0, ...])
    parts = state.step * (state.coef - state.duals[1:, ...] - copies[1:, ...])
    return problem.lower_bound(problem.loss.target - fitted, pull, parts)


def _balance(previous: State, state: State, copies: Array, middle: Array) -> State:
    """Move each step size so that the relative residuals become equal.

    Steps stay in a range about `middle`, the size of the loss's eigenvalues, in
    which the loss's copy, a difference divided by the step, keeps half its digits.
    """
    xp = array_namespace(copies)
    n_copies = copies.shape[0]

    def size(x):
        return xp.sqrt(xp.sum(x**2, axis=(0, 2)))[:, None]

    spread = size(state.coef[None, ...]) * n_copies**0.5
    moved = size((state.coef - previous.coef)[None, ...]) * n_copies**0.5
    primal = size(copies - state.coef) / positive(xp.maximum(size(copies), spread))
    ratio = xp.sqrt(primal / positive(moved / positive(size(state.duals))))
    ratio = xp.clip(ratio, 0.2, 5.0)
    # A zero coefficient has no scale to which a residual could be relative.
    near = ((ratio > 0.8) & (ratio < 1.25)) | (spread == 0.0)
    digits = xp.finfo(copies.dtype).eps ** 0.5
    step = xp.where(near, state.step, state.step * ratio)
    step = xp.minimum(xp.maximum(step, middle * digits), middle / digits)
    return State(state.coef, state.duals * (state.step / step), step)


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


@dataclass(frozen=True)
class Weights:
    """Candidate weights: every pair of `low` and `sparse`, one `ridge`."""

    low: tuple[float, ...]
    sparse: tuple[float, ...]
    ridge: float = 0.0

    @classmethod
    def single(cls, low: Any, sparse: Any, ridge: Any) -> Weights:
        """Return the only candidate, or say which of the numbers cannot be used."""
        return cls(
            (check_nonnegative(low, "alpha_low"),),
            (check_nonnegative(sparse, "alpha_sparse"),),
            check_nonnegative(ridge, "alpha_ridge"),
        )

    @classmethod
    def checked(cls, low: Any, sparse: Any, ridge: Any) -> Weights:
        """Return clean candidates, or say which of the values cannot be used."""
        return cls(
            _checked(low, "alphas_low"),
            _checked(sparse, "alphas_sparse"),
            check_nonnegative(ridge, "alpha_ridge"),
        )

    def of_units(self, X_unit: float, y_unit: float, most: float) -> Weights:
        """Return the weights that mean the same once X and y are divided.

        Any above `most`, which must be enough to make a coefficient zero, is `most`.
        """

        def divided(weight: float) -> float:
            return min(weight / X_unit / y_unit, most)

        return Weights(
            tuple(map(divided, self.low)),
            tuple(map(divided, self.sparse)),
            min(self.ridge / X_unit / X_unit, most),
        )

    @property
    def params(self) -> dict[str, list[float]]:
        """The candidates as columns, in the order in which they are solved."""
        pairs = [(low, sparse) for low in self.low for sparse in self.sparse]
        return {
            "alpha_low": [low for low, _ in pairs],
            "alpha_sparse": [sparse for _, sparse in pairs],
        }


def _checked(values: Any, name: str) -> tuple[float, ...]:
    return tuple(check_nonnegative(v, name) for v in check_sequence(values, name))


@dataclass(frozen=True, eq=False, kw_only=True)
class Fits(LinearFits):
    """Candidates, C pairs of weights, with `n_iter` and `gap` of shape (C, K)."""

    n_iter: Array
    gap: Array


def convex_fits(
    samples: Samples,
    targets: Array,
    norms: Sequence[TensorNorm],
    weights: Weights,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Fits:
    """Fit every candidate to every response, with one factorisation.

    Parameters
    ----------
    samples : Samples
    targets : array of shape (K, n)
    norms : sequence of TensorNorm
    weights : Weights
    """
    check_nonnegative(tol, "tol")
    data = centre(samples, fit_intercept, targets)
    xp = array_namespace(targets)
    most = float(xp.finfo(targets.dtype).max) ** 0.5
    scaled = weights.of_units(data.X_unit, data.y_unit, most)
    path = penalised_path(
        rotate(data.A, data.y),
        norms,
        samples.shape,
        scaled.low,
        scaled.sparse,
        scaled.ridge,
        tol=tol,
        max_iter=check_count(max_iter, "max_iter"),
    )
    pairs = (-1, targets.shape[0])
    flat = xp.reshape(path.x * data.coef_unit, (*pairs, data.X_mean.shape[0]))
    return Fits(
        coef=xp.reshape(flat, (*pairs, *samples.shape)),
        intercept=data.intercept(flat),
        n_iter=xp.reshape(path.n_iter, pairs),
        gap=xp.reshape(path.residual, pairs),
        converged=bool(xp.all(path.converged)),
    )


def store_fit(model: Any, fits: Fits, *, stacklevel: int = 5) -> None:
    """Set the fitted attributes of `model` from the only candidate of `fits`.

    The default `stacklevel` of a warning is for a `fit` that calls this itself.
    """
    coef, intercept = fits.coef[0, ...], fits.intercept[0, ...]
    set_linear(model, coef, intercept)
    model.n_iter_ = max(to_python(fits.n_iter[0, ...]))
    model.dual_gap_ = max(to_python(fits.gap[0, ...]))
    if not fits.converged:
        reached = f"The fit, at a gap of {model.dual_gap_:.1e},"
        warn_unconverged(reached, model.tol, model.max_iter, stacklevel=stacklevel)


def warn_unconverged(
    what: str, tol: float, max_iter: int, *, stacklevel: int = 5
) -> None:
    """Warn that the budget ran out before the duality gap reached `tol`."""
    msg = (
        f"{what} did not reach a duality gap of tol={tol} (relative to ½‖y‖²) in "
        f"max_iter={max_iter} iterations. Increase max_iter or tol, or penalise more."
    )
    warnings.warn(msg, ConvergenceWarning, stacklevel=stacklevel)


# Of the weights that make the coefficient zero: above a half little is left of
# it, and below a thousandth a penalty hardly acts.
FRACTIONS = (0.5, 1e-3)


def weight_grids(
    samples: Samples,
    targets: Array,
    norms: Sequence[TensorNorm],
    fit_intercept: bool,
    n_alphas: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return default grids of (low, sparse) weights, strongest first.

    They are fractions of the weights at which either penalty alone makes the
    coefficient zero, equally spaced on a log scale, and zero: either penalty alone
    is among the candidates.
    """
    check_count(n_alphas, "n_alphas", smallest=2)
    xp = array_namespace(targets)
    data = centre(samples, fit_intercept, targets)
    pull = data.y @ data.A
    low = zeroing_weight(norms, xp.reshape(pull, (-1, *samples.shape)))
    unit = data.X_unit * data.y_unit
    largest = [float(xp.max(size)) * unit for size in (low, xp.abs(pull))]
    fractions = np.append(np.geomspace(*FRACTIONS, n_alphas - 1), 0.0)
    return largest[0] * fractions, largest[1] * fractions


def select_weights(
    model: Any,
    samples: Samples,
    targets: Array,
    truth: np.ndarray,
    folds: Sequence[Split],
    norms: Sequence[TensorNorm],
    *,
    weighted: bool,
) -> None:
    """Choose the weights of a CV estimator by its own parameters, and fit it.

    Parameters
    ----------
    model : estimator
        Its parameters say what to try; its fitted attributes are set.
    samples, targets, norms
        As for `convex_fits`.
    truth : array of shape (n,)
        What predictions are scored against: responses, labels or class numbers.
    folds : sequence of (train rows, test rows)
    weighted : bool
        Whether scores use the samples' weights.
    """
    low, sparse = model.alphas_low, model.alphas_sparse
    if low is None or sparse is None:
        grids = weight_grids(
            samples, targets, norms, model.fit_intercept, model.n_alphas
        )
        low, sparse = (
            default if given is None else given
            for default, given in zip(grids, (low, sparse), strict=True)
        )
    weights = Weights.checked(low, sparse, model.alpha_ridge)

    def fit(rows: np.ndarray) -> Fits:
        part = _take(targets, rows)
        return _fits_of(model, samples.take(rows), part, norms, weights)

    scores, n_open = candidate_scores(
        model, samples, folds, fit, weighted=weighted, truth=truth
    )
    if n_open:
        paths = f"Paths of {n_open} of {len(folds)} folds"
        warn_unconverged(paths, model.tol, model.max_iter)
    params = weights.params
    best = record_choice(model, params, scores)
    model.alpha_low_ = params["alpha_low"][best]
    model.alpha_sparse_ = params["alpha_sparse"][best]
    chosen = Weights((model.alpha_low_,), (model.alpha_sparse_,), weights.ridge)
    final = _fits_of(model, samples, targets, norms, chosen)
    store_fit(model, final, stacklevel=6)


def _fits_of(model, samples, targets, norms, weights) -> Fits:
    return convex_fits(
        samples,
        targets,
        norms,
        weights,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
    )


def _take(targets: Array, rows: np.ndarray) -> Array:
    xp = array_namespace(targets)
    return xp.take(targets, as_array(rows, targets, dtype=xp.int64), axis=1)
