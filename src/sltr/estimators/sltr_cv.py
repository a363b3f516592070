"""SLTR with everything chosen by cross-validation, the whole grid in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sltr.arrays import Array, as_array, explained_memory, fitting_threads, to_numpy
from sltr.core.tensor import numerical_ranks
from sltr.estimators.base import (
    diagram_with_coef,
    linear_scores,
    predict_linear,
    tell_refit,
    unchanged_on_failure,
    warn_unless_converged,
)
from sltr.estimators.labels import (
    fit_sigmoids,
    label_indicators,
    probabilities,
    winning_labels,
)
from sltr.estimators.sltr import class_log_odds, set_class_fit
from sltr.samples.check import check_samples
from sltr.tuning.candidates import (
    LAMBDAS,
    REFINEMENTS,
    candidate_columns,
    check_refinements,
    grid_epsilons,
    grid_pairs,
    lazy_refinements,
)
from sltr.tuning.choose import Choice, check_choosing, choose, cv_table
from sltr.tuning.final import SubsetFit, all_of, fit_subsets
from sltr.tuning.folds import keeps_whole, kept_splits
from sltr.tuning.scores import default_metric
from sltr.tuning.search import held_out_predictions
from sltr.tuning.task import Fold, Task, fitting_task


class SLTRRegressorCV(RegressorMixin, BaseEstimator):
    """`SLTRRegressor` with penalty, radii and refinement chosen by cross-validation.

    One Gram matrix serves all folds and penalties, one chain of warm starts the
    radii of each pilot, and refits run on all folds at once, in single precision
    until one is chosen. Ranks and thresholds of refits are tried one after another,
    until they predict no better.

    Parameters
    ----------
    epsilons : "loo", "paper" or sequence of float
        Penalties of the pilot. "loo": about the one of least leave-one-out error,
        or, with `groups`, of a larger one that predicts the groups left out better, a
        tenth and ten times of it; "paper": 0.1, 0.2 and 0.3.
    lambdas_sparse, lambdas_low : "paper" or sequences of float
        Radii, all pairs of which are tried. "paper": its seven absolute ones, for
        `radius="absolute"`.
    refine : sequence of None, "scale", "reweight", "tucker", "cp" and "sparse"
        Refinements to try; with None among them the paper's own answer can win.
    cv : int, splitter or iterable
        As in scikit-learn.
    scoring : str or callable, optional
        As in scikit-learn; R² by default, or minus the squared error where a fold
        is a single sample.
    rule : {"average", "vote", "best", "1se"}
        "average": the mean of the candidates that held-out squared errors cannot
        tell from the best (by one standard error of the difference), with one vote
        for each kind of refinement. It predicts well and keeps what structure
        these have in common. "vote": the mean of all, weighted by how well these
        errors agree with their being the best, exp(−z²/2) at z standard errors;
        better for labels, and seldom with zeros. "best": the best candidate
        alone: of exact rank if it is a low-rank refit, with exact zeros if it is
        "cp", "sparse" or none. "1se": the candidate of fewest free
        parameters within one standard error of the best score.
    radius, coupling, weights, solver, fit_intercept, feature_shape, max_iter
        As for `SLTRRegressor`.
    tol : float
        Bound on the answer's relative duality gap; ten times as much suffices to
        choose by, but not to vote by.
    n_jobs : int, optional
        Processes over folds and kinds of refits; joblib's backends apply.
    memory_limit : str or int, optional
        As for `SLTRRegressor`. Samples that stay in a file or on a cluster are not
        refitted: `refine` is then (None, "scale") unless given.
    progress : callable, optional
        Called with the number of stages done and their total; with samples in a
        file, of blocks in each pass and of candidates between them.

    Attributes
    ----------
    coef_, intercept_, pilot_, pilot_method_, dual_gap_, n_iter_, ranks_, shape_in_, \
n_features_in_
        As for `SLTRRegressor`, fitted on all samples. The pilot is the best
        candidate's, gap and iterations are the worst of the estimates involved.
    epsilon_, lambda_sparse_, lambda_low_ : float
        Of a low-rank refit: those its start was made with; of "sparse": the same
        penalty, which it does not need, its threshold and 0.
        All of the best candidate, as are the next.
    refine_ : str or None
    refine_settings_ : tuple
        Of a refit, as `SLTRRegressor(refine=(refine_, *refine_settings_))` takes them.
    scale_ : float
        The factor of `refine_ == "scale"`, else 1.
    weights_ : array of shape (n_candidates,)
        Each candidate's share in `coef_`.
    best_index_ : int
    best_score_ : float
    scored_by_ : {"r2", "neg_mean_squared_error"}
        What `scoring=None` stands for on these folds.
    cv_results_ : dict
        scikit-learn's keys, one row for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> coef = np.zeros((6, 5, 4)); coef[:3, :2, :2] = 1.0
    >>> X = rng.normal(size=(60, 6, 5, 4))
    >>> y = np.einsum("nijk,ijk->n", X, coef) + 0.1 * rng.normal(size=60)
    >>> model = SLTRRegressorCV().fit(X, y)
    >>> bool(np.abs(model.coef_ - coef).max() < 0.2)
    True
    """

    _html_repr = diagram_with_coef

    def __init__(
        self,
        epsilons: str | Sequence[float] = "loo",
        lambdas_sparse: str | Sequence[float] = LAMBDAS,
        lambdas_low: str | Sequence[float] = LAMBDAS,
        *,
        refine: Sequence[str | None] = REFINEMENTS,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        rule: str = "average",
        radius: str = "relative",
        coupling: str = "average",
        weights: str | tuple[float, float] = "unit",
        solver: str = "admm",
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-3,
        max_iter: int = 5000,
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        self.epsilons = epsilons
        self.lambdas_sparse = lambdas_sparse
        self.lambdas_low = lambdas_low
        self.refine = refine
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.radius = radius
        self.coupling = coupling
        self.weights = weights
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.progress = progress

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SLTRRegressorCV:
        """Choose and fit; `groups` goes to the splitter."""
        samples = check_samples(self, X, y, sample_weight)
        with explained_memory(), fitting_threads(samples.X):
            task = fitting_task(self, samples, samples.y[:, None])
            splits = kept_splits(self.cv, y, sample_weight, groups=groups)
            folds = [Fold.of(task, train, test) for train, test in splits]
            weighted = sample_weight is not None
            grouped = keeps_whole(splits, groups, sample_weight)
            _, fit = _tune(self, task, folds, None, weighted, grouped)
        self.coef_, self.pilot_ = fit.coef[0, 0, ...], fit.pilot[0, 0, ...]
        self.intercept_ = float(fit.intercept[0, 0])
        self.ranks_ = numerical_ranks(self.coef_)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,) for samples of the fitted shape."""
        return predict_linear(self, X)


class SLTRClassifierCV(ClassifierMixin, BaseEstimator):
    """`SLTRClassifier` with everything chosen by cross-validation.

    One grid is tuned for all classes. Probabilities are calibrated on the
    answer's held-out scores.

    Parameters
    ----------
    epsilons, lambdas_sparse, lambdas_low, refine, cv, radius, coupling, weights, \
solver, fit_intercept, feature_shape, tol, max_iter, n_jobs, memory_limit, progress
        As for `SLTRRegressorCV`; an integer `cv` means stratified folds.
    rule : {"vote", "average", "best", "1se"}
        As for `SLTRRegressorCV`, but "vote" is the default: squared errors of labels
        are noisy, and many candidates rank samples better than a few.
    scoring : str or callable, optional
        As in scikit-learn; by default R² of the class indicators, which is finer
        than accuracy where samples are few.

    Attributes
    ----------
    classes_, coef_, intercept_, pilot_, pilot_method_, sigmoids_, ranks_, dual_gap_, \
n_iter_, shape_in_, n_features_in_
        As for `SLTRClassifier`.
    epsilon_, lambda_sparse_, lambda_low_, refine_, refine_settings_, weights_, \
best_index_, best_score_, scored_by_, cv_results_
        As for `SLTRRegressorCV`.
    scale_ : array of shape (1 or n_classes,)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 4))
    >>> y = np.where(X[:, :2, :2].sum(axis=(1, 2)) > 0, "up", "down")
    >>> SLTRClassifierCV(refine=(None, "tucker")).fit(X, y).predict(X[:2]).shape
    (2,)
    """

    _html_repr = diagram_with_coef

    def __init__(
        self,
        epsilons: str | Sequence[float] = "loo",
        lambdas_sparse: str | Sequence[float] = LAMBDAS,
        lambdas_low: str | Sequence[float] = LAMBDAS,
        *,
        refine: Sequence[str | None] = REFINEMENTS,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        rule: str = "vote",
        radius: str = "relative",
        coupling: str = "average",
        weights: str | tuple[float, float] = "unit",
        solver: str = "admm",
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
        tol: float = 1e-3,
        max_iter: int = 5000,
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        self.epsilons = epsilons
        self.lambdas_sparse = lambdas_sparse
        self.lambdas_low = lambdas_low
        self.refine = refine
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.radius = radius
        self.coupling = coupling
        self.weights = weights
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.progress = progress

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SLTRClassifierCV:
        """Choose and fit; `groups` goes to the splitter."""
        samples = check_samples(self, X, y, sample_weight, labels=True)
        self.classes_, indicators = label_indicators(samples.y)
        with explained_memory(), fitting_threads(samples.X):
            task = fitting_task(self, samples, as_array(indicators, samples.weight))
            splits = kept_splits(
                self.cv, y, sample_weight, groups=groups, classifier=True
            )
            folds = [Fold.of(task, train, test) for train, test in splits]
            weighted = sample_weight is not None
            grouped = keeps_whole(splits, groups, sample_weight)
            choice, fit = _tune(self, task, folds, self.classes_, weighted, grouped)
        set_class_fit(self, fit.coef[0, ...], fit.intercept[0, ...])
        self.pilot_ = (
            fit.pilot[0, ...] if len(self.classes_) > 2 else fit.pilot[0, 0, ...]
        )
        rows = np.concatenate([fold.rows for fold in folds])
        self.sigmoids_ = fit_sigmoids(
            np.concatenate(choice.held_out),
            indicators[rows],
            to_numpy(samples.weight)[rows],
        )
        return self

    def decision_function(self, X: Any) -> Array:
        """Return calibrated log-odds: (n,) for two classes, else (n, n_classes)."""
        return class_log_odds(linear_scores(self, X), self.sigmoids_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of the largest log-odds, shape (n,)."""
        check_is_fitted(self, "coef_")
        return winning_labels(self.classes_, to_numpy(self.decision_function(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return calibrated probabilities, shape (n, n_classes)."""
        return probabilities(to_numpy(self.decision_function(X)))


def _tune(
    model: Any,
    task: Task,
    folds: list[Fold],
    classes: np.ndarray | None,
    weighted: bool,
    grouped: bool,
) -> tuple[Choice, SubsetFit]:
    """Choose a candidate, fit it on all samples, and record what was chosen."""
    check_choosing(model.scoring, model.rule)
    held = held_out_predictions(
        task,
        folds,
        grid_epsilons(model, task, folds if grouped else None),
        grid_pairs(model),
        check_refinements(lazy_refinements(task.samples.X, model.refine, REFINEMENTS)),
        measure=model.rule == "1se",
        weigh=model.rule == "vote",
        n_jobs=model.n_jobs,
        progress=model.progress,
    )
    choice = choose(
        task,
        folds,
        held,
        scoring=model.scoring,
        classes=classes,
        rule=model.rule,
        weighted=weighted,
    )
    fit = fit_subsets(task, all_of(task.samples), choice.members)
    gap = to_numpy(fit.gap).max()
    warn_unless_converged(to_numpy(fit.converged).all(), gap, task.settings.tol)
    winner, model.weights_ = choice.members[0].candidate, choice.weights
    model.epsilon_, model.refine_ = winner.epsilon, winner.refine
    model.lambda_sparse_, model.lambda_low_ = winner.lambda_sparse, winner.lambda_low
    tell_refit(model, choice.members[0], task.Y.shape[1])
    model.dual_gap_, model.n_iter_ = float(gap), int(to_numpy(fit.n_iter).max())
    model.cv_results_ = cv_table(candidate_columns(held.candidates), choice.scores)
    model.best_index_ = choice.index
    model.scored_by_ = default_metric(fold.rows for fold in folds)
    model.best_score_ = float(choice.scores[:, choice.index].mean())
    return choice, fit
