"""SURF: sparse unit-rank terms, one after another, by stage-wise steps.

Every step moves one coordinate of one factor by a small amount. The greedy search
reads a value in each step, so it runs on the host, in NumPy; a step touches one
slice of the samples, never all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.tensor import cp_to_tensor, flatten
from sltr.estimators.fitted import PlainRegressor, linear_scores, unchanged_on_failure
from sltr.parameters import (
    check_count,
    check_nonnegative,
    check_relative,
    check_sequence,
    warn_caller,
)
from sltr.peers.search import LinearTrials, search
from sltr.peers.units import Centred, centre
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.choose import check_rule
from sltr.tuning.folds import weighted_splits


@dataclass(frozen=True, eq=False)
class UnitRank:
    """One term σ·w¹∘…∘w^M with ‖w^m‖₁ = 1, and where its path ended."""

    scale: float  # σ, in the units of y over X
    factors: tuple[np.ndarray, ...]  # of shape (p_m,)
    penalty_max: float  # the largest λ of the path
    penalty: float  # the last one
    n_iter: int
    converged: bool  # whether the path ended within the budget of steps


@dataclass(frozen=True, eq=False)
class Step:
    """One step as a callback sees it: the state after it.

    `change` is the predicted change of the loss J, exact by construction.
    """

    term: int
    backward: bool
    change: float
    penalty: float
    scale: float
    factors: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class _Rules:
    """The settings of `surf`, filled in."""

    epsilon: float
    xi: float
    alpha: float
    stop: float
    max_iter: int
    n_total: float


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
    r"""Fit unit-rank terms to the residual of centred A (n, P), y (n,) in turn.

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

    The step `epsilon` is in the units of y over X, the least gain `xi` (ε²/2 if None)
    in those of y², `alpha` in those of X². A path ends where λ falls below `stop`
    times its largest value, for 0 where no step gains more than ξ, or after
    `max_iter` steps. `n_total` stands for n in J if rows are weighted. Fewer than
    `n_components` terms are returned if one of them does not pay.

    References
    ----------
    .. [1] He, Chen, Xu, Zhou, Wang. Boosted sparse and low-rank tensor
       regression. NeurIPS 2018.
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
        path = _Path.start(tensors, residual, squares, rules)
        term = _follow(path, number, callback)
        if term is None:
            break
        terms.append(term)
        residual = path.residual
    return terms


def _follow(
    path: _Path, number: int, callback: Callable[[int, Step], None] | None
) -> UnitRank | None:
    """Follow one path to its end; None if not even the first step pays."""
    rules = path.rules
    penalty_max = penalty = float("inf")
    n_iter, converged = 0, False
    while n_iter < rules.max_iter:
        backward, row, move, change = path.best_move(penalty)
        if not backward:
            reached = min(penalty, (-change - rules.xi) / rules.epsilon)
            end = 0.0 if n_iter == 0 else rules.stop * penalty_max
            if reached < end:
                converged = True
                break
            penalty = reached
            penalty_max = penalty if n_iter == 0 else penalty_max
        path.apply(row, move)
        n_iter += 1
        if callback is not None:
            factors = tuple(w.copy() for w in path.w)
            step = Step(number, backward, change, penalty, path.scale, factors)
            callback(n_iter, step)
    if n_iter == 0:
        return None
    return UnitRank(path.scale, tuple(path.w), penalty_max, penalty, n_iter, converged)


@dataclass
class _Path:
    """The moving parts of one path; rows stack the coordinates of all modes."""

    tensors: np.ndarray  # (p1, …, pM, n)
    Z: np.ndarray  # (Σ p_m, n), samples contracted with all other factors
    squares: np.ndarray  # (Σ p_m,), of the rows of Z
    w: list[np.ndarray]
    residual: np.ndarray  # (n,)
    scale: float
    rules: _Rules

    @classmethod
    def start(
        cls, tensors: np.ndarray, y: np.ndarray, squares: np.ndarray, rules: _Rules
    ) -> _Path:
        """Point all factors at the entry whose first step gains most; scale 0."""
        shape = tensors.shape[:-1]
        correlation = np.abs(tensors.reshape(prod(shape), -1) @ y)
        gains = 2 * correlation - rules.epsilon * squares
        entry = tuple(int(j) for j in np.unravel_index(int(np.argmax(gains)), shape))
        w = [np.eye(size)[j] for size, j in zip(shape, entry, strict=True)]
        rows = [
            tensors[(*entry[:mode], slice(None), *entry[mode + 1 :])]  # type: ignore[arg-type]
            for mode in range(len(shape))
        ]
        # Small beside the samples, and updated in every step: double precision.
        Z = np.concatenate(rows).astype(np.float64)
        return cls(tensors, Z, np.einsum("ij,ij->i", Z, Z), w, y.copy(), 0.0, rules)

    def best_move(self, penalty: float) -> tuple[bool, int, float, float]:
        """Return whether to step back, the row, the move and its change of J."""
        epsilon, n_total = self.rules.epsilon, self.rules.n_total
        w_hat = self.scale * np.concatenate(self.w)
        norms = [float(w @ w) for w in self.w]
        others = [prod(norms[:m] + norms[m + 1 :]) for m in range(len(norms))]
        sizes = [len(w) for w in self.w]
        ridge = (n_total * self.rules.alpha) * np.repeat(others, sizes)
        g = 2.0 * (self.Z @ self.residual - ridge * w_hat)
        h = self.squares + ridge
        forward = np.where(g < 0.0, -epsilon, epsilon)
        changes = -(epsilon / n_total) * (np.abs(g) - epsilon * h)
        if self.scale > 0.0:
            backward = -np.clip(w_hat, -epsilon, epsilon)
            changes_backward = -(backward / n_total) * (g - backward * h)
            size = np.abs(backward)
            total = changes_backward - penalty * size
            # The last coordinate of a mode may not vanish: the term would be zero.
            last = size >= self.scale * (1.0 - 1e-9)
            total = np.where(last | (size == 0.0), np.inf, total)
            row = int(np.argmin(total))
            if total[row] < -self.rules.xi:
                return True, row, float(backward[row]), float(changes_backward[row])
            growth = np.abs(w_hat + forward) - np.abs(w_hat)
            vanishes = self.scale + growth < 1e-9 * epsilon
            changes = np.where(vanishes, np.inf, changes)
        row = int(np.argmin(changes))
        return False, row, float(forward[row]), float(changes[row])

    def apply(self, row: int, move: float) -> None:
        """Move one coordinate; what depends on it follows by its one slice."""
        starts = np.cumsum([0, *(len(w) for w in self.w)])
        mode = int(np.searchsorted(starts, row, side="right")) - 1
        index = row - int(starts[mode])
        self.residual -= move * self.Z[row]
        w_hat = self.scale * self.w[mode]
        w_hat[index] += move
        scale = float(np.abs(w_hat).sum())
        self.w[mode] = w_hat / scale
        block = np.take(self.tensors, index, axis=mode)
        others = [k for k in range(len(self.w)) if k != mode]
        for position, k in enumerate(others):
            rows = slice(int(starts[k]), int(starts[k + 1]))
            part = _contract_all_but(block, [self.w[o] for o in others], position)
            Z = (self.scale * self.Z[rows] + move * part) / scale
            self.Z[rows] = Z
            self.squares[rows] = np.einsum("ij,ij->i", Z, Z)
        self.scale = scale


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


def cumulative_tensors(terms: Sequence[UnitRank], shape: Sequence[int]) -> np.ndarray:
    """Return the sums of the first 0, 1, …, R terms, shape (R + 1, p1, …, pM)."""
    sums = np.zeros((len(terms) + 1, *shape))
    for number, term in enumerate(terms):
        outer = cp_to_tensor([w[:, None] for w in term.factors])
        sums[number + 1] = sums[number] + term.scale * outer
    return sums


def _fit_terms(
    samples: Samples,
    centred: Centred,
    *,
    n_components: int,
    epsilon: float,
    xi: float | None = None,
    alpha: float,
    stop: float,
    max_steps: int,
) -> list[UnitRank]:
    """Return the terms, in the units of `centred`; settings are relative to X and y."""
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


class _SURF(BaseEstimator):
    """What `SURFRegressor` and its tuned version share: the final fit."""

    fit_intercept: bool

    def _fit_one(self, samples: Samples, **settings: Any) -> Any:
        """Fit the terms of one setting, and remember them."""
        centred = centre(samples, self.fit_intercept)
        terms, unit = _fit_terms(samples, centred, **settings), centred.coef_unit
        coef = as_array(cumulative_tensors(terms, samples.shape)[-1:], samples.X) * unit
        self.coef_ = coef[0, ...]
        self.intercept_ = float(centred.intercept(flatten(coef))[0])
        self.scales_ = np.array([term.scale * unit for term in terms])
        self.factors_ = [
            np.array([term.factors[mode] for term in terms]).reshape(-1, size).T
            for mode, size in enumerate(samples.shape)
        ]
        self.penalties_ = np.array(
            [term.penalty / term.penalty_max if term.penalty else 0.0 for term in terms]
        )
        self.n_iter_ = sum(term.n_iter for term in terms)
        unfinished = [k for k, term in enumerate(terms) if not term.converged]
        if unfinished:
            reached = float(np.max(self.penalties_[unfinished]))
            warn_caller(
                f"{len(unfinished)} of {len(terms)} paths ran out of steps; the "
                f"penalty had fallen to {reached:.2g} of its largest value. Increase "
                "max_steps, epsilon or stop.",
                ConvergenceWarning,
            )
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return linear_scores(self, X)


@dataclass(eq=False, repr=False)
class SURFRegressor(PlainRegressor, _SURF):
    r"""Boosted sparse and low-rank tensor regression (SURF).

    The coefficient is a sum of unit-rank terms σ·w¹∘…∘w^M with ‖w^m‖₁ = 1, each
    fitted to the residual of those before it by a stage-wise path of

    .. math::

       \min_{\sigma, w}\; \tfrac1n \|y - \sigma\langle X, w^1\circ\dots\circ
       w^M\rangle\|^2 + \alpha\sigma^2\prod_m\|w^m\|_2^2 + \lambda\sigma,

    from the largest λ downwards, in steps of `epsilon`. All settings are
    relative: the problem is solved as if y had unit variance and the entries of
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

    n_components: int = 3
    _: KW_ONLY
    epsilon: float = 0.05
    xi: float | None = None
    alpha: float = 0.1
    stop: float = 0.0
    max_steps: int = 10_000
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SURFRegressor:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,).

        A weight of 2 is the same as giving the sample twice.
        """
        samples = check_samples(self, X, y, sample_weight)
        return self._fit_one(
            samples,
            n_components=check_count(self.n_components, "n_components"),
            epsilon=check_step(self.epsilon),
            xi=None if self.xi is None else check_nonnegative(self.xi, "xi"),
            alpha=check_relative(self.alpha, "alpha"),
            stop=check_stop(self.stop),
            max_steps=check_count(self.max_steps, "max_steps"),
        )


def check_step(epsilon: Any) -> float:
    """Return a positive step, or say what is wrong with it."""
    if check_relative(epsilon, "epsilon") == 0.0:
        msg = "epsilon=0 was given; expected a positive step, such as 0.05."
        raise ValueError(msg)
    return float(epsilon)


def check_stop(stop: Any) -> float:
    """Return a fraction in [0, 1], or say what is wrong with it."""
    if check_nonnegative(stop, "stop") > 1.0:
        msg = f"stop={stop!r} was given; expected a fraction from 0 to 1."
        raise ValueError(msg)
    return float(stop)


@dataclass(eq=False, repr=False)
class SURFRegressorCV(PlainRegressor, _SURF):
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

    n_components: int = 5
    _: KW_ONLY
    epsilons: Sequence[float] = (0.1, 0.05, 0.02)
    alphas: Sequence[float] = (0.0, 1.0)
    stops: Sequence[float] = (0.0, 0.1, 0.3)
    max_steps: int = 10_000
    cv: Any = 5
    scoring: str | Callable | None = None
    rule: str = "best"
    n_jobs: int | None = None
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SURFRegressorCV:
        """Choose a candidate by cross-validation, then fit it to all samples.

        Weights serve fits and scores; `groups` are passed to the splitter.
        """
        check_rule(self.rule)
        samples = check_samples(self, X, y, sample_weight)
        settings = self._settings()
        max_steps = check_count(self.max_steps, "max_steps")
        n_terms = check_count(self.n_components, "n_components")
        sizes = range(1, n_terms + 1)
        rows = [{**one, "n_components": size} for one in settings for size in sizes]
        params = {name: [row[name] for row in rows] for name in rows[0]}
        searched = search(
            self,
            samples,
            weighted_splits(self.cv, y, sample_weight, groups=groups),
            params,
            lambda rows: self._fit_all(samples.take(rows), settings, n_terms),
            scoring=self.scoring,
            rule=self.rule,
            complexity=np.array(params["n_components"]),
            weighted=sample_weight is not None,
            n_jobs=self.n_jobs,
        )
        self.best_score_, self.cv_results_ = searched.best_score, searched.table
        self.scored_by_ = searched.scored_by
        self.n_components_ = searched.params["n_components"]
        self.epsilon_ = searched.params["epsilon"]
        self.alpha_, self.stop_ = searched.params["alpha"], searched.params["stop"]
        return self._fit_one(samples, max_steps=max_steps, **searched.params)

    def _settings(self) -> list[dict[str, float]]:
        """Return all settings but the number of terms."""
        alphas = check_sequence(self.alphas, "alphas")
        grid = product(
            map(check_step, check_sequence(self.epsilons, "epsilons")),
            [check_relative(alpha, "alphas") for alpha in alphas],
            map(check_stop, check_sequence(self.stops, "stops")),
        )
        return [{"epsilon": e, "alpha": a, "stop": s} for e, a, s in grid]

    def _fit_all(
        self, samples: Samples, settings: list[dict[str, float]], n_terms: int
    ) -> LinearTrials:
        """Fit every setting once: its terms are nested, fewer are their first ones."""
        centred = centre(samples, self.fit_intercept)
        coefs = []
        for setting in settings:
            terms = _fit_terms(
                samples,
                centred,
                n_components=n_terms,
                max_steps=self.max_steps,
                **setting,
            )
            sums = cumulative_tensors(terms, samples.shape)
            # A path that ended early stays what it was: repeat its last sum.
            coefs.append(sums[[min(k, len(terms)) for k in range(1, n_terms + 1)]])
        coef = as_array(np.concatenate(coefs), samples.X) * centred.coef_unit
        return LinearTrials.of_one_response(coef, centred)
