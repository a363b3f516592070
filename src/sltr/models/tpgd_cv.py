"""Sparse Tucker regression with ranks and cardinality chosen by CV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from sltr._array import Array, array_namespace, as_array
from sltr.models.linear import predict_linear
from sltr.models.linear_cv import LinearFits, candidate_scores
from sltr.models.selection import check_rule, kept_splits, record_choice
from sltr.models.tpgd import set_tucker
from sltr.models.tpgd_parameters import (
    check_budget,
    column_cardinalities,
    tucker_ranks,
)
from sltr.models.unchanged import unchanged_on_failure
from sltr.solvers.tpgd import largest_eigenvalue, tpgd
from sltr.solvers.units import check_squares, in_original_units, of_unit_size
from sltr.validation import centre, check_samples, check_sequence

__all__ = ["TPGDRegressorCV"]

Candidate = tuple[tuple[int, ...], tuple[int, ...]]


class TPGDRegressorCV(RegressorMixin, BaseEstimator):
    """Sparse Tucker regression (TPGD) tuned by cross-validation.

    Parameters
    ----------
    ranks : sequence, default=(1, 2, 3)
        Values of `ranks` to consider, as in :class:`TPGDRegressor`.
    sparsities : sequence, default=(0.1, 0.25, 0.5, 1.0)
        Values of `sparsity` to consider.
    tol : float, default=1e-5
    max_iter : int, default=1000
    cv : int, splitter or iterable, default=5
    scoring : str or callable, default=None
        As in scikit-learn; None is R².
    rule : {"best", "1se"}, default="best"
        "1se": the fewest free parameters within one standard error of the best.
    n_jobs : int, default=None
        Folds fitted at the same time.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_, intercept_, core_, factors_, objective_path_, residual_, n_iter_, …
        As in :class:`TPGDRegressor`, of the winner fitted to all samples.
    ranks_, sparsity_ : tuple of int
        The winner, one number for each mode.
    best_score_ : float
    cv_results_ : dict
        scikit-learn's keys, one row for each candidate; settings that mean the
        same for the shape of the samples are one candidate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> y = X[:, 2, 3] + X[:, 2, 4] + 0.1 * X[:, 0, 0]
    >>> TPGDRegressorCV((1, 2), sparsities=(2, 5)).fit(X, y).sparsity_
    (2, 2)
    """

    def __init__(
        self,
        ranks: Sequence = (1, 2, 3),
        *,
        sparsities: Sequence = (0.1, 0.25, 0.5, 1.0),
        tol: float = 1e-5,
        max_iter: int = 1000,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        rule: str = "best",
        n_jobs: int | None = None,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.ranks = ranks
        self.sparsities = sparsities
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.n_jobs = n_jobs
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> TPGDRegressorCV:
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
        check_squares(samples.y)
        tol, max_iter = check_budget(self.tol, self.max_iter)
        candidates = _candidates(self.ranks, self.sparsities, samples.shape)

        def fit_all(rows: np.ndarray) -> LinearFits:
            centred = centre(samples.take(rows), self.fit_intercept)
            (A, X_unit), (y, y_unit) = of_unit_size(centred.A), of_unit_size(centred.y)
            step = 1.0 / (largest_eigenvalue(A) or 1.0)
            solve = partial(
                tpgd, A, y, samples.shape, step=step, tol=tol, max_iter=max_iter
            )
            fits = [solve(*candidate) for candidate in candidates]
            coefs = [in_original_units(fit.coef, y_unit / X_unit) for fit in fits]
            offsets = as_array([[centred.intercept(coef)] for coef in coefs], A)
            return LinearFits(array_namespace(A).stack(coefs)[:, None, ...], offsets)

        folds = kept_splits(self.cv, y, sample_weight, groups=groups)
        scores, _ = candidate_scores(
            self, samples, folds, fit_all, weighted=sample_weight is not None
        )
        sizes = np.array([_n_parameters(*candidate) for candidate in candidates])
        ranks, sparsity = zip(*candidates, strict=True)
        params = {"ranks": ranks, "sparsity": sparsity}
        winner = record_choice(self, params, scores, rule=self.rule, complexity=sizes)
        self.ranks_, self.sparsity_ = candidates[winner]
        centred = centre(samples, self.fit_intercept)
        (A, X_unit), (y, y_unit) = of_unit_size(centred.A), of_unit_size(centred.y)
        result = tpgd(
            A,
            y,
            samples.shape,
            self.ranks_,
            self.sparsity_,
            tol=tol,
            max_iter=max_iter,
        )
        set_tucker(self, result, centred, X_unit, y_unit)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,)."""
        return predict_linear(self, X)


def _candidates(
    ranks: Sequence, sparsities: Sequence, shape: tuple[int, ...]
) -> list[Candidate]:
    """Return all combinations, each meaning once, simplest first as given."""
    grid = product(
        [tucker_ranks(value, shape) for value in check_sequence(ranks, "ranks")],
        [
            column_cardinalities(value, shape)
            for value in check_sequence(sparsities, "sparsities")
        ],
    )
    return list(dict.fromkeys(grid))


def _n_parameters(ranks: tuple[int, ...], sparsity: tuple[int, ...]) -> int:
    core = int(np.prod(ranks))
    return core + sum(r * s for r, s in zip(ranks, sparsity, strict=True))
