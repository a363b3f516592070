"""What Remurs and Sturm share as estimators: candidate weights, fits, the choice.

The problem that both solve, and its solution, are in `penalised`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, to_python
from sltr.estimators.fitted import PlainRegressor, linear_scores, unchanged_on_failure
from sltr.estimators.labels import label_shift
from sltr.parameters import check_count, check_nonnegative, check_sequence, warn_caller
from sltr.peers.penalised import (
    TensorNorm,
    mode_norms,
    penalised_path,
    rotate,
    zeroing_weight,
)
from sltr.peers.search import LinearTrials, linear_attributes, search
from sltr.peers.units import centre
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.folds import Split, weighted_splits


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
        return linear_scores(self, X)


class _ConvexRegressor(PlainRegressor, _Convex):
    """How Remurs and Sturm are fitted with given weights."""

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        return self._fit_given(samples, samples.y[None, :])


class _ConvexRegressorCV(PlainRegressor, _Convex):
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
