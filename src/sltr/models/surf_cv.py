"""SURF with terms, step, ridge weight and stopping position chosen by CV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from sltr._array import Array, as_array
from sltr.models.linear import predict_linear
from sltr.models.linear_cv import LinearFits, candidate_scores
from sltr.models.selection import check_rule, kept_splits, record_choice
from sltr.models.surf import (
    check_step,
    check_stop,
    fit_terms,
    set_terms,
)
from sltr.models.unchanged import unchanged_on_failure
from sltr.solvers.surf import cumulative_tensors
from sltr.solvers.units import check_squares, in_original_units
from sltr.validation import (
    Samples,
    centre,
    check_count,
    check_nonnegative,
    check_samples,
    check_sequence,
)

__all__ = ["SURFRegressorCV"]


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
        check_squares(samples.y)
        settings, n_terms = self._settings(), self._n_terms()
        params = _candidates(settings, n_terms)
        scores, _ = candidate_scores(
            self,
            samples,
            kept_splits(self.cv, y, sample_weight, groups=groups),
            lambda rows: self._fit_all(samples.take(rows), settings, n_terms),
            weighted=sample_weight is not None,
        )
        sizes = np.array(params["n_components"])
        winner = record_choice(self, params, scores, rule=self.rule, complexity=sizes)
        best = {name: values[winner] for name, values in params.items()}
        centred = centre(samples, self.fit_intercept)
        terms, unit = fit_terms(
            samples, centred, xi=None, max_steps=self.max_steps, **best
        )
        set_terms(self, terms, unit, samples, centred)
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
            terms, unit = fit_terms(
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
        # The unit is the samples', whatever the setting.
        stacked = in_original_units(as_array(np.concatenate(coefs), samples.X), unit)
        offsets = [[centred.intercept(stacked[g, ...])] for g in range(len(stacked))]
        return LinearFits(stacked[:, None, ...], as_array(offsets, samples.X))


def _candidates(settings: list[dict[str, Any]], n_terms: int) -> dict[str, list]:
    rows = [
        {**setting, "n_components": k}
        for setting in settings
        for k in range(1, n_terms + 1)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}
