"""The published algorithm to the letter, for reproduction only.

Neither variant solves the problem it states; `sltr.estimate` does. They exist so
that published numbers can be compared with what produced them. Both run the
parallel proximal iteration on every unfolding of the pilot W̃,

    p_i = prox_i(Y_i),  p = mean p_i,
    Y_i ← Y_i + 2p − W − p_i,  W ← p,

with four operators whose parameters are four times the radii, and average the
modes. They differ in two operators and in the rule by which they stop.

"paper"
    The operators as printed. The box returns its *centre* for every entry inside
    it. The spectral ball looks at the singular values of W instead of W − W̃,
    returns its centre where they are small, and otherwise adds the centre to
    singular values that were thresholded, not clipped.
"released"
    The authors' code. The box and the norms are right for the problem
    min λ‖W‖₁ + τ‖W‖_* s.t. ‖W − W̃‖_∞ ≤ 4λ, ‖W − W̃‖₂ ≤ 4τ, which is not the
    paper's; the spectral ball returns its centre for every point inside it; and
    iterations stop when ‖ΔW‖_F / P ≤ 1e-4, which large tensors meet at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import enet_path
from sklearn.model_selection import KFold

from sltr.core.problem import Result
from sltr.core.tensor import fold, unfold
from sltr.tuning.candidates import PAPER_EPSILONS, PAPER_LAMBDAS

Operator = Callable[[np.ndarray], np.ndarray]


def literal_pilot(
    X: np.ndarray, y: np.ndarray, epsilon: float, *, variant: str = "paper"
) -> np.ndarray:
    """Return the ridge pilot without an intercept, shape (p1, …, pM).

    "released" ignores `epsilon` and uses 1, as the authors' second release does.
    """
    _check_variant(variant)
    penalty = 1.0 if variant == "released" else epsilon
    A = X.reshape(len(X), -1)
    dual = np.linalg.solve(A @ A.T + penalty * np.eye(len(A)), y)
    return (A.T @ dual).reshape(X.shape[1:])


def literal_estimate(
    pilot: np.ndarray,
    lambda_sparse: float,
    lambda_low: float,
    *,
    variant: str = "paper",
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Result:
    """Run the published algorithm, faults included.

    Radii are absolute, and `tol` bounds the change of W: relative to ‖W‖_F for "paper",
    divided by the number of entries for "released".
    `x` of the result is the average over the modes; its `residual` is the largest last
    change and says nothing about optimality.
    """
    _check_variant(variant)
    answers = []
    for mode in range(pilot.ndim):
        Z = unfold(pilot[None], mode)[0]
        operators = _operators(Z, 4.0 * lambda_sparse, 4.0 * lambda_low, variant)
        size = _number_of_entries if variant == "released" else _frobenius_norm
        answers.append(_iterate(Z, operators, size, tol, max_iter))
    folded = [
        fold(W[None], mode, pilot.shape)[0] for mode, (W, _, _) in enumerate(answers)
    ]
    change = max(change for _, change, _ in answers)
    n_iter = max(n_iter for _, _, n_iter in answers)
    return Result(np.mean(folded, axis=0), n_iter, change, change <= tol)


def _iterate(
    Z: np.ndarray,
    operators: list[Operator],
    size: Callable[[np.ndarray], float],
    tol: float,
    max_iter: int,
) -> tuple[np.ndarray, float, int]:
    """Iterate from W̃ until ‖ΔW‖_F / size(W) ≤ tol; return W, this and a count."""
    W, copies = Z, [Z] * len(operators)
    change, n_iter = np.inf, 0
    while n_iter < max_iter and change > tol:
        points = [prox(Y) for prox, Y in zip(operators, copies, strict=True)]
        mean = sum(points) / len(points)
        copies = [Y + (2.0 * mean - W - p) for Y, p in zip(copies, points, strict=True)]
        step = mean - W
        W = W + step
        change = float(np.linalg.norm(step) / max(size(W), np.finfo(float).tiny))
        n_iter += 1
    return W, change, n_iter


def _operators(Z: np.ndarray, a: float, b: float, variant: str) -> list[Operator]:
    """Return the two thresholds, the box and the spectral ball about Z."""

    def box(W):
        away = W - Z
        if variant == "released":
            return Z + np.clip(away, -a, a)
        return np.where(np.abs(away) <= a, Z, Z + a * np.sign(away))

    def ball(W):
        released = variant == "released"
        left, values, right = np.linalg.svd(W - Z if released else W, False)
        if values.max() <= b:
            return Z
        values = np.minimum(values, b) if released else np.maximum(values - b, 0.0)
        return Z + (left * values) @ right

    def threshold(W):
        return np.sign(W) * np.maximum(np.abs(W) - a, 0.0)

    def threshold_values(W):
        left, values, right = np.linalg.svd(W, full_matrices=False)
        return (left * np.maximum(values - b, 0.0)) @ right

    return [threshold, threshold_values, box, ball]


def _number_of_entries(W: np.ndarray) -> float:
    return float(W.size)


def _frobenius_norm(W: np.ndarray) -> float:
    return float(np.linalg.norm(W))


def _check_variant(variant: str) -> None:
    if variant not in ("paper", "released"):
        msg = f"variant={variant!r} was given; expected 'paper' or 'released'."
        raise ValueError(msg)


class AllSamples:
    """A splitter with one fold that trains and validates on all samples.

    It makes a tuned estimator fit each candidate once, which is what the published
    tuning times count.
    """

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return 1."""
        return 1

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all rows, twice."""
        rows = np.arange(len(X))
        yield rows, rows


@dataclass(eq=False, repr=False)
class ReleasedNull(RegressorMixin, BaseEstimator):
    """W = 0: every prediction is zero.

    With `last_fifth` it is scored on the last fifth of the samples, as the linear
    methods are.
    """

    last_fifth: bool = False

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReleasedNull:
        """Remember the shape; nothing is estimated."""
        self.coef_ = np.zeros(X.shape[1:])
        self.scored_rows_ = _last_fifth(len(y)) if self.last_fifth else slice(None)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return zeros of shape (n,)."""
        return np.zeros(len(X))


@dataclass(eq=False, repr=False)
class ReleasedSLTR(RegressorMixin, BaseEstimator):
    """The published algorithm, faults included, over the paper's absolute radii.

    All pairs of `lambdas` are tried as radii. The released code takes a penalty of 1,
    whatever `epsilons` are. A pair is chosen by `n_folds` folds over the samples, or,
    for None, by the error on the samples fitted.
    """

    lambdas: Sequence[float] = PAPER_LAMBDAS
    epsilons: Sequence[float] = PAPER_EPSILONS[:1]
    _: KW_ONLY
    n_folds: int | None = 5

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReleasedSLTR:
        """Choose a pair of radii by ‖ŷ − y‖₂ and fit it to all samples."""
        X, y = np.asarray(X, float), np.asarray(y, float)
        candidates = list(product(self.epsilons, self.lambdas, self.lambdas))
        folds = AllSamples() if self.n_folds is None else KFold(self.n_folds)
        errors = np.zeros(len(candidates))
        for train, test in folds.split(X) if len(candidates) > 1 else ():
            for k, coef in enumerate(_literal_fits(X[train], y[train], candidates)):
                errors[k] += np.linalg.norm(_predict(X[test], coef) - y[test])
        best = candidates[int(np.argmin(errors))]
        self.epsilon_, self.lambda_sparse_, self.lambda_low_ = best
        self.coef_ = next(_literal_fits(X, y, [best]))
        self.cv_results_ = {"params": candidates, "mean_test_score": -errors}
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return ⟨W, X_i⟩, shape (n,)."""
        return _predict(X, self.coef_)


@dataclass(eq=False, repr=False)
class ReleasedLinear(RegressorMixin, BaseEstimator):
    """Lasso or elastic net on the first 80 %, its penalty chosen on the last 20 %.

    An `l1_ratio` of 1 is the Lasso; the paper's elastic net has 0.5. The path has
    `n_alphas` penalties and falls to a hundredth of the largest.
    """

    l1_ratio: float = 1.0
    _: KW_ONLY
    n_alphas: int = 30

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReleasedLinear:
        """Follow the path and keep the penalty that does best on the last fifth."""
        A = np.asarray(X, float).reshape(len(X), -1)
        tail = _last_fifth(len(y))
        A_train, y_train = A[: tail.start], y[: tail.start]
        mean, level = A_train.mean(axis=0), y_train.mean()
        A_train, y_train = A_train - mean, y_train - level
        largest = np.abs(A_train.T @ y_train).max() / (len(A_train) * self.l1_ratio)
        alphas = np.geomspace(largest, 0.01 * largest, self.n_alphas)
        _, coefs, _ = enet_path(
            A_train, y_train, l1_ratio=self.l1_ratio, alphas=alphas, tol=1e-3
        )
        misses = (A[tail] - mean) @ coefs + level - y[tail, None]
        best = coefs[:, int(np.argmin(np.linalg.norm(misses, axis=0)))]
        self.coef_ = best.reshape(X.shape[1:])
        self.intercept_ = float(level - mean @ best)
        self.scored_rows_ = tail
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return ⟨W, X_i⟩ + b, shape (n,)."""
        return _predict(X, self.coef_) + self.intercept_


def _literal_fits(
    X: np.ndarray, y: np.ndarray, candidates: Sequence[tuple[float, float, float]]
) -> Iterator[np.ndarray]:
    """Yield the coefficient of each candidate; candidates of one ε share a pilot."""
    last = None
    for epsilon, sparse, low in candidates:
        if epsilon != last:
            pilot = literal_pilot(X, y, epsilon, variant="released")
            last = epsilon
        yield literal_estimate(pilot, sparse, low, variant="released").x


def _predict(X: np.ndarray, coef: np.ndarray) -> np.ndarray:
    return np.asarray(X, float).reshape(len(X), -1) @ coef.ravel()


def _last_fifth(n: int) -> slice:
    return slice(n - max(1, round(n / 5)), n)
