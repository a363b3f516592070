"""Sparse and low-rank least squares, which Remurs and Sturm solve.

    min_W  ½‖y − A·w‖² + (α/L) Σ_l ‖W‖_(l) + β ‖W‖₁ + (γ/2) ‖W‖²

The low-rank norms ‖·‖_(l), the objective with a lower bound, one fit for all pairs of
weights (α, β), and what the estimators share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning

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
from sltr.estimators.base import predict_linear, unchanged_on_failure
from sltr.estimators.labels import label_shift
from sltr.parameters import check_count, check_nonnegative, check_sequence, warn_caller
from sltr.peers.convex_admm import AdmmResult, penalised_admm, positive
from sltr.peers.search import LinearTrials, linear_attributes, search
from sltr.peers.units import centre
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.folds import Split, weighted_splits


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

        def clean(values: Any, name: str) -> tuple[float, ...]:
            given = check_sequence(values, name)
            return tuple(check_nonnegative(value, name) for value in given)

        return cls(
            clean(low, "alphas_low"),
            clean(sparse, "alphas_sparse"),
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvexFits(LinearTrials):
    """G pairs of weights, with `n_iter` and `gap` of shape (G, K)."""

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
) -> ConvexFits:
    """Fit every pair of weights to responses (K, n), with one factorisation."""
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
    return ConvexFits(
        coef=xp.reshape(flat, (*pairs, *samples.shape)),
        intercept=data.intercept(flat),
        n_iter=xp.reshape(path.n_iter, pairs),
        gap=xp.reshape(path.residual, pairs),
        converged=bool(xp.all(path.converged)),
    )


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
    check_count(n_alphas, "n_alphas", smallest=2, largest=10_000)
    xp = array_namespace(targets)
    data = centre(samples, fit_intercept, targets)
    correlation = data.y @ data.A
    low = zeroing_weight(norms, xp.reshape(correlation, (-1, *samples.shape)))
    unit = data.X_unit * data.y_unit
    largest = [float(xp.max(size)) * unit for size in (low, xp.abs(correlation))]
    fractions = np.append(np.geomspace(*FRACTIONS, n_alphas - 1), 0.0)
    return largest[0] * fractions, largest[1] * fractions


class _Convex(BaseEstimator):
    """What Remurs and Sturm share: how they are fitted, tuned and remembered."""

    alpha_low: float
    alpha_sparse: float
    alphas_low: Any
    alphas_sparse: Any
    alpha_ridge: float
    n_alphas: int
    cv: Any
    scoring: Any
    fit_intercept: bool
    tol: float
    max_iter: int
    n_jobs: int | None

    def _norms(self, order: int) -> Sequence[TensorNorm]:
        """Return the low-rank norms: those of Remurs, unless a subclass has others."""
        return mode_norms(order)

    def _shift(self, targets: Array) -> float:
        """Return what is subtracted from targets (K, n), and added to intercepts."""
        labels = is_classifier(self)
        return label_shift(targets.shape[0], self.fit_intercept) if labels else 0.0

    def _fits(self, samples, targets, weights) -> ConvexFits:
        shift = self._shift(targets)
        fits = convex_fits(
            samples,
            targets - shift,
            self._norms(len(samples.shape)),
            weights,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return fits if shift == 0.0 else replace(fits, intercept=fits.intercept + shift)

    def _fit_given(self, samples: Samples, targets: Array) -> Self:
        """Fit with the weights that are parameters."""
        given = (self.alpha_low, self.alpha_sparse, self.alpha_ridge)
        return self._fit_one(samples, targets, Weights.single(*given))

    def _fit_one(self, samples, targets, weights: Weights) -> Self:
        """Fit the only pair of weights to responses (K, n), and remember it."""
        fits = self._fits(samples, targets, weights)
        self.coef_, self.intercept_ = linear_attributes(
            fits.coef[0, ...], fits.intercept[0, ...], labels=is_classifier(self)
        )
        self.n_iter_ = max(to_python(fits.n_iter[0, ...]))
        self.dual_gap_ = max(to_python(fits.gap[0, ...]))
        if not fits.converged:
            self._warn(f"The fit, at a gap of {self.dual_gap_:.1e},")
        return self

    def _fit_best(
        self,
        samples: Samples,
        targets: Array,
        folds: list[Split],
        *,
        truth: np.ndarray | None = None,
        indicators: np.ndarray | None = None,
        weighted: bool,
    ) -> Self:
        """Choose the weights by cross-validation, then fit to all samples."""
        norms = self._norms(len(samples.shape))
        low, sparse = self.alphas_low, self.alphas_sparse
        if low is None or sparse is None:
            shifted = targets - self._shift(targets)
            grids = weight_grids(
                samples, shifted, norms, self.fit_intercept, self.n_alphas
            )
            low = grids[0] if low is None else low
            sparse = grids[1] if sparse is None else sparse
        weights = Weights.checked(low, sparse, self.alpha_ridge)

        def fit_all(rows: np.ndarray) -> ConvexFits:
            xp = array_namespace(targets)
            part = xp.take(targets, as_array(rows, targets, dtype=xp.int64), axis=1)
            return self._fits(samples.take(rows), part, weights)

        searched = search(
            self,
            samples,
            folds,
            weights.params,
            fit_all,
            scoring=self.scoring,
            truth=truth,
            indicators=indicators,
            weighted=weighted,
            n_jobs=self.n_jobs,
        )
        if searched.label_scores:
            self.held_out_scores_ = searched.label_scores
        if searched.n_unconverged:
            self._warn(f"Paths of {searched.n_unconverged} of {len(folds)} folds")
        self.best_score_, self.cv_results_ = searched.best_score, searched.table
        self.scored_by_ = searched.scored_by
        self.alpha_low_ = searched.params["alpha_low"]
        self.alpha_sparse_ = searched.params["alpha_sparse"]
        chosen = Weights((self.alpha_low_,), (self.alpha_sparse_,), weights.ridge)
        return self._fit_one(samples, targets, chosen)

    def _warn(self, what: str) -> None:
        """Warn that the budget ran out before the duality gap reached `tol`."""
        warn_caller(
            f"{what} did not reach a duality gap of tol={self.tol} (relative to ½‖y‖²) "
            f"in max_iter={self.max_iter} iterations. Increase max_iter or tol, or "
            "penalise more.",
            ConvergenceWarning,
        )

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return predict_linear(self, X)


class _ConvexRegressor(RegressorMixin, _Convex):
    """How Remurs and Sturm are fitted with given weights."""

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        return self._fit_given(samples, samples.y[None, :])


class _ConvexRegressorCV(RegressorMixin, _Convex):
    """How Remurs and Sturm are tuned."""

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Choose the weights, then fit; `groups` are passed to the splitter."""
        samples = check_samples(self, X, y, sample_weight)
        folds = weighted_splits(self.cv, y, sample_weight, groups=groups)
        weighted = sample_weight is not None
        return self._fit_best(samples, samples.y[None, :], folds, weighted=weighted)
