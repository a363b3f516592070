"""SURF: sparse unit-rank terms, one after another, by stage-wise steps.

Every step moves one coordinate of one factor by a small amount. The greedy
search reads a value in each step, so it runs on the host, in NumPy; a step
touches one slice of the samples, never all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.tensor import cp_to_tensor, flatten
from sltr.estimators.base import predict_linear, unchanged_on_failure
from sltr.parameters import check_count, check_nonnegative, check_sequence
from sltr.peers.search import LinearFits, candidate_scores
from sltr.samples.check import check_samples
from sltr.samples.front import (
    Centred,
    centre,
)
from sltr.samples.samples import Samples
from sltr.tuning.choose import check_rule, record_choice
from sltr.tuning.folds import weighted_splits


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


class SURFRegressor(RegressorMixin, BaseEstimator):
    r"""Boosted sparse and low-rank tensor regression (SURF).

    The coefficient is a sum of unit-rank terms σ·w¹∘…∘w^M with ‖w^m‖₁ = 1, each
    fitted to the residual of those before it by a stage-wise path of

    .. math::

       \min_{\sigma, w}\; \tfrac1n \|y - \sigma\langle X, w^1\circ\dots\circ
       w^M\rangle\|^2 + \alpha\sigma^2\prod_m\|w^m\|_2^2 + \lambda\sigma,

    from the largest λ downwards, in steps of `epsilon`. All settings are
    relative: the problem is posed as if y had unit variance and the entries of
    X unit mean square, so the defaults serve data of any scale.

    Parameters
    ----------
    n_components : int, default=3
        Unit-rank terms at most; a term that does not pay ends the fit.
    epsilon : float, default=0.05
        Step of a coordinate. Smaller is finer, slower, and follows the path
        further down, since no step may gain less than `xi`.
    xi : float, default=None
        Least gain of a step; None stands for ε²/2.
    alpha : float, default=0.1
        Ridge weight.
    stop : float, default=0.0
        Each path ends where λ falls below this fraction of its largest value.
        0 follows it to its end.
    max_steps : int, default=10000
        Steps for each term.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    scales_ : array of shape (R,)
        σ of each term, R ≤ `n_components`.
    factors_ : list of arrays of shape (p_m, R)
        Columns of unit l1 norm.
    penalties_ : array of shape (R,)
        The last λ of each term's path, relative to its first.
    n_iter_ : int
        Steps taken, over all terms.
    n_features_in_ : int

    References
    ----------
    .. [1] He, Chen, Xu, Zhou, Wang. Boosted sparse and low-rank tensor
       regression. NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> model = SURFRegressor(n_components=1).fit(X, X[:, 2, 3] + X[:, 2, 4])
    >>> [np.flatnonzero(f[:, 0]).tolist() for f in model.factors_]
    [[2], [3, 4]]
    """

    def __init__(
        self,
        n_components: int = 3,
        *,
        epsilon: float = 0.05,
        xi: float | None = None,
        alpha: float = 0.1,
        stop: float = 0.0,
        max_steps: int = 10_000,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.xi = xi
        self.alpha = alpha
        self.stop = stop
        self.max_steps = max_steps
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SURFRegressor:
        """Fit the terms one after another.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM), or (n, P) with `feature_shape`
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 is the same as giving the sample twice.
        """
        samples = check_samples(self, X, y, sample_weight)
        centred = centre(samples, self.fit_intercept)
        terms = fit_terms(
            samples,
            centred,
            n_components=check_count(self.n_components, "n_components"),
            epsilon=check_step(self.epsilon),
            xi=None if self.xi is None else check_nonnegative(self.xi, "xi"),
            alpha=check_nonnegative(self.alpha, "alpha"),
            stop=check_stop(self.stop),
            max_steps=check_count(self.max_steps, "max_steps"),
        )
        set_terms(self, terms, samples, centred)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,)."""
        return predict_linear(self, X)


def fit_terms(
    samples: Samples,
    centred: Centred,
    *,
    n_components: int,
    epsilon: float,
    xi: float | None,
    alpha: float,
    stop: float,
    max_steps: int,
) -> list[UnitRank]:
    """Run the solver with settings relative to the scales of X and y."""
    A, y = centred.A, centred.y
    xp = array_namespace(A)
    n_total = float(xp.sum(samples.weight))
    y_scale = (float(xp.sum(y**2)) / n_total) ** 0.5
    X_scale = (float(xp.mean(A**2)) * A.shape[0] / n_total) ** 0.5
    if y_scale == 0.0 or X_scale == 0.0:
        return []
    xi = 0.5 * epsilon**2 if xi is None else xi
    return surf(
        A,
        y,
        samples.shape,
        n_components=n_components,
        epsilon=epsilon * y_scale / X_scale,
        xi=xi * y_scale**2,
        alpha=alpha * X_scale**2,
        stop=stop,
        max_iter=max_steps,
        n_total=n_total,
    )


def set_terms(
    model: Any,
    terms: list[UnitRank],
    samples: Samples,
    centred: Centred,
) -> None:
    """Set the fitted attributes that belong to `terms`; warn if one is unfinished."""
    unit = centred.coef_unit
    coef = as_array(cumulative_tensors(terms, samples.shape)[-1:], samples.X) * unit
    model.coef_ = coef[0, ...]
    model.intercept_ = float(centred.intercept(flatten(coef))[0])
    model.scales_ = np.array([term.scale * unit for term in terms])
    model.factors_ = [
        np.array([term.factors[mode] for term in terms]).reshape(-1, size).T
        for mode, size in enumerate(samples.shape)
    ]
    model.penalties_ = np.array(
        [term.penalty / term.penalty_max if term.penalty else 0.0 for term in terms]
    )
    model.n_iter_ = sum(term.n_iter for term in terms)
    unfinished = [k for k, term in enumerate(terms) if not term.converged]
    if unfinished:
        reached = float(np.max(model.penalties_[unfinished]))
        msg = (
            f"{len(unfinished)} of {len(terms)} paths ran out of steps; the penalty "
            f"had fallen to {reached:.2g} of its largest value. Increase max_steps, "
            "epsilon or stop."
        )
        warnings.warn(msg, ConvergenceWarning, stacklevel=4)


def check_step(epsilon: Any) -> float:
    """Return a positive step, or say what is wrong with it."""
    if check_nonnegative(epsilon, "epsilon") == 0.0:
        msg = "epsilon=0 was given; expected a positive step, such as 0.05."
        raise ValueError(msg)
    return float(epsilon)


def check_stop(stop: Any) -> float:
    """Return a fraction in [0, 1], or say what is wrong with it."""
    if check_nonnegative(stop, "stop") > 1.0:
        msg = f"stop={stop!r} was given; expected a fraction from 0 to 1."
        raise ValueError(msg)
    return float(stop)


class SURFRegressorCV(RegressorMixin, BaseEstimator):
    """SURF tuned by cross-validation.

    Candidates are all combinations of step, ridge weight, stopping position on
    the stage-wise path and number of terms. The terms are nested: one fit with
    the largest number serves all smaller ones.

    Parameters
    ----------
    n_components : int, default=5
        Largest number of terms to consider.
    epsilons : sequence of float, default=(0.1, 0.05, 0.02)
        Steps, as in :class:`SURFRegressor`.
    alphas : sequence of float, default=(0.0, 1.0)
        Ridge weights.
    stops : sequence of float, default=(0.0, 0.1, 0.3)
        Fractions of the largest penalty at which the paths end.
    max_steps : int, default=10000
        Steps for each term.
    cv : int, splitter or iterable, default=5
    scoring : str or callable, default=None
        As in scikit-learn; None is R².
    rule : {"best", "1se"}, default="best"
        "1se": the fewest terms within one standard error of the best score.
    n_jobs : int, default=None
        Folds fitted at the same time.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_, intercept_, scales_, factors_, penalties_, n_iter_, n_features_in_
        As in :class:`SURFRegressor`, of the winner fitted to all samples.
    n_components_, epsilon_, alpha_, stop_
        The winner.
    best_score_ : float
    cv_results_ : dict
        scikit-learn's keys, one row for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> model = SURFRegressorCV(2, epsilons=[0.1]).fit(X, X[:, 2, 3] + X[:, 2, 4])
    >>> bool(model.best_score_ > 0.9)
    True
    """

    def __init__(
        self,
        n_components: int = 5,
        *,
        epsilons: Sequence[float] = (0.1, 0.05, 0.02),
        alphas: Sequence[float] = (0.0, 1.0),
        stops: Sequence[float] = (0.0, 0.1, 0.3),
        max_steps: int = 10_000,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        rule: str = "best",
        n_jobs: int | None = None,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilons = epsilons
        self.alphas = alphas
        self.stops = stops
        self.max_steps = max_steps
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.n_jobs = n_jobs
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SURFRegressorCV:
        """Choose a candidate by cross-validation and fit it to all samples.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM), or (n, P) with `feature_shape`
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Used for fitting and for scoring.
        groups : array of shape (n,), optional
            Passed to the splitter.
        """
        check_rule(self.rule)
        samples = check_samples(self, X, y, sample_weight)
        settings, n_terms = self._settings(), self._n_terms()
        params = _candidates(settings, n_terms)
        scores, _ = candidate_scores(
            self,
            samples,
            weighted_splits(self.cv, y, sample_weight, groups=groups),
            lambda rows: self._fit_all(samples.take(rows), settings, n_terms),
            weighted=sample_weight is not None,
        )
        sizes = np.array(params["n_components"])
        winner = record_choice(self, params, scores, rule=self.rule, complexity=sizes)
        best = {name: values[winner] for name, values in params.items()}
        centred = centre(samples, self.fit_intercept)
        terms = fit_terms(samples, centred, xi=None, max_steps=self.max_steps, **best)
        set_terms(self, terms, samples, centred)
        for name, value in best.items():
            setattr(self, f"{name}_", value)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,)."""
        return predict_linear(self, X)

    def _n_terms(self) -> int:
        check_count(self.max_steps, "max_steps")
        return check_count(self.n_components, "n_components")

    def _settings(self) -> list[dict[str, Any]]:
        alphas = check_sequence(self.alphas, "alphas")
        grid = product(
            map(check_step, check_sequence(self.epsilons, "epsilons")),
            [check_nonnegative(alpha, "alphas") for alpha in alphas],
            map(check_stop, check_sequence(self.stops, "stops")),
        )
        return [{"epsilon": e, "alpha": a, "stop": s} for e, a, s in grid]

    def _fit_all(
        self, samples: Samples, settings: list[dict[str, Any]], n_terms: int
    ) -> LinearFits:
        """Return all candidates, in order."""
        centred = centre(samples, self.fit_intercept)
        coefs = []
        for setting in settings:
            terms = fit_terms(
                samples,
                centred,
                n_components=n_terms,
                xi=None,
                max_steps=self.max_steps,
                **setting,
            )
            sums = cumulative_tensors(terms, samples.shape)
            # A path that ended early stays what it was: repeat its last sum.
            last = len(terms)
            coefs.append(sums[[min(k, last) for k in range(1, n_terms + 1)]])
        stacked = as_array(np.concatenate(coefs), samples.X) * centred.coef_unit
        offsets = centred.intercept(flatten(stacked))
        return LinearFits(stacked[:, None, ...], offsets[:, None])


def _candidates(settings: list[dict[str, Any]], n_terms: int) -> dict[str, list]:
    rows = [
        {**setting, "n_components": k}
        for setting in settings
        for k in range(1, n_terms + 1)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}
