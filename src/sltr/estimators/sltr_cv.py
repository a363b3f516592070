"""SLTR with everything chosen by cross-validation, the whole grid in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer

from sltr.arrays import Array, explained_memory, fitting_threads, to_numpy
from sltr.arrays.resources import bytes_text
from sltr.estimators.base import CalibratedLabels, SLTRBase, warn_of_lasso
from sltr.estimators.fitted import (
    TensorResponses,
    tensor_predictions,
    unchanged_on_failure,
)
from sltr.estimators.labels import Targets, fit_sigmoids, own_logits
from sltr.parameters import check_choice, progress_of, refuse, warn_caller
from sltr.tuning.candidates import (
    DEFAULT_REFINEMENTS,
    LAMBDAS,
    RESPONSES,
    candidate_columns,
    check_refinements,
    check_sharing,
    grid_epsilons,
    grid_pairs,
    make_grid,
)
from sltr.tuning.choose import (
    RULES,
    Choice,
    Scoring,
    answer_scores,
    choose,
    cv_table,
    null_scores,
)
from sltr.tuning.final import Fitted, final_fit, last_step
from sltr.tuning.folds import Folds, Split, weighted_splits, whole_groups
from sltr.tuning.held_out import HeldOut
from sltr.tuning.scores import default_metric
from sltr.tuning.search import search
from sltr.tuning.task import Task


@dataclass(eq=False, repr=False)
class _SLTRCV(SLTRBase):
    """The parameters of both CV classes, and the way of their fit."""

    epsilons: str | Sequence[float] = "loo"
    lambdas_sparse: str | Sequence[float] = LAMBDAS
    lambdas_low: str | Sequence[float] = LAMBDAS
    _: KW_ONLY
    refine: Sequence[str | None] = DEFAULT_REFINEMENTS
    responses: str | Sequence[str] = RESPONSES
    family: str | None = None
    cv: Any = 5
    scoring: str | Callable | None = None
    rule: str = "average"
    radius: str = "relative"
    coupling: str = "average"
    weights: str | tuple[float, float] = "unit"
    solver: str = "admm"
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    mask: Any = None
    missing: str = "error"
    standardize: str | None = "slices"
    smooth: Any = None
    slices: Any = None
    entry_weights: Any = None
    positive: bool = False
    tol: float = 1e-3
    max_iter: int = 5000
    n_jobs: int | None = None
    memory_limit: str | int | None = None
    progress: Callable[[int, int], None] | None = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        check_choice("rule", self.rule, RULES)
        if isinstance(self.scoring, str):
            get_scorer(self.scoring)
        elif self.scoring is not None and not callable(self.scoring):
            refuse("scoring", self.scoring, "a name, a callable or None")
        check_sharing(self.responses, ())
        super()._check_parameters()

    def _refinements(self, X: Any, n_items: int) -> list[str | None]:
        """Return what to try: by default what there is room for, and what obeys."""
        asked = check_refinements(self.refine)
        if set(asked) == set(DEFAULT_REFINEMENTS):
            needed = self._lacking_room(X, n_items)
            if needed is not None:
                warn_caller(
                    "X stays where it is, and memory_limit leaves no room for refits: "
                    "refine is (None, 'scale'), without the refits, which predict "
                    f"better. Set memory_limit={bytes_text(needed)!r} or more.",
                    UserWarning,
                )
                return [None, "scale"]
            if self._has_structure:
                return [None]
        self._check_refits(asked, X, n_items)
        return asked

    def _tune(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, covariates: Any
    ) -> tuple[Task, Folds, Choice]:
        """Choose candidates by their held-out scores, and fit them to all samples."""
        samples, weight = self._given(X, y, sample_weight, covariates)
        labels = is_classifier(self)
        targets = Targets.of(samples, labels, self.fit_intercept)
        if labels:
            self.classes_ = targets.classes
        splits = weighted_splits(self.cv, y, weight, groups=groups, classifier=labels)
        groups = whole_groups(splits, groups, weight)
        tried = self._tried(samples.X, (len(splits) + 1) * targets.Y.shape[1])
        scoring = Scoring(self.scoring, targets.classes, weight is not None)
        with explained_memory(), fitting_threads(samples.X):
            kept_whole = None if groups is None else splits
            task = self._task(samples, targets.Y, targets.shift, kept_whole)
            held, choice = self._choose(task, splits, tried, scoring, groups)
            held, choice = last_step(task, held, choice, self.rule)
            members, last = choice.members, choice.last
            fitted = final_fit(task, members, task.everyone, held, last)
        self._remember(task, held, choice, fitted, scoring)
        return task, held.folds, choice

    def _tried(
        self, X: Any, n_items: int = 6
    ) -> tuple[list[tuple[float, float]], list[str | None]]:
        """Return the pairs of radii and the refinements to try.

        `n_items` are the subsets, all samples among them, times the responses.
        """
        pairs = grid_pairs(self.lambdas_sparse, self.lambdas_low)
        return pairs, self._refinements(X, n_items)

    def _choose(
        self,
        task: Task,
        splits: Sequence[Split],
        tried: tuple[list[tuple[float, float]], list[str | None]],
        scoring: Scoring,
        groups: np.ndarray | None = None,
    ) -> tuple[HeldOut, Choice]:
        """Choose among candidates by their scores on the rows that folds leave out."""
        folds = replace(Folds.of(task, splits), groups=groups)
        on_folds = groups is not None or task.family is not None
        shape_out = task.shape_out if task.family is None else ()
        sharing = check_sharing(self.responses, shape_out)
        few = task.Y.shape[1] <= task.policy.most_refitted
        refitted = bool(set(tried[1]) - {None, "scale"})
        where = folds if on_folds else None
        grid = make_grid(
            grid_epsilons(task, self.epsilons, where, alone=refitted),
            *tried,
            self.radius,
            task.policy,
            rule=self.rule,
            sharing=sharing,
            refits_each=few or True not in sharing,
        )
        held = search(task, folds, grid, n_jobs=self.n_jobs, progress=progress_of(self))
        return held, choose(task, held, scoring, self.rule)

    def _remember(
        self,
        task: Task,
        held: HeldOut,
        choice: Choice,
        fitted: Fitted,
        scoring: Scoring,
    ) -> None:
        best = choice.members[0]
        self._remember_fit(task, fitted, best.candidate)
        if best.candidate.refine == "sparse":  # else it has a small share
            warn_of_lasso(fitted.lasso_gap)
        self.refine_ = best.candidate.refine
        self.lambda_sparse_, self.lambda_low_ = best.candidate.radii
        self.responses_ = RESPONSES[int(best.candidate.shared)]
        self.weights_, self.best_index_ = choice.weights, choice.index
        self.best_score_ = float(choice.scores[:, choice.index].mean())
        columns = candidate_columns(list(held.predictions))
        self.cv_results_ = cv_table(columns, choice.scores)
        self.null_score_ = float(null_scores(task, held.folds, scoring).mean())
        self.held_out_scores_ = answer_scores(
            task, held.folds, choice.held_out, is_classifier(self)
        )
        likelihood = task.family is not None
        self.scored_by_ = default_metric(held.folds.rows, likelihood=likelihood)
        last = choice.last
        self.low_radius_ = None if last is None else last.low
        self.sparse_radius_ = None if last is None else last.sparse
        self._set_coef(task, fitted, best.scale)
        self.refined_ = self._shaped(fitted.refined[0, ...])
        self._tell()


@dataclass(eq=False, repr=False, kw_only=True)
class SLTRRegressorCV(TensorResponses, _SLTRCV):
    """`SLTRRegressor` with penalty, radii and refinement chosen by cross-validation.

    One Gram matrix serves all folds and penalties, one chain of warm starts the
    radii of each pilot, and refits run on all folds at once, in single precision
    until one is chosen. Ranks and thresholds of refits are tried one after another,
    until they predict no better.

    Parameters
    ----------
    epsilons : "loo", "paper" or sequence of float
        Penalties of the pilot. "loo": the one of least leave-one-out error, or, with
        `groups`, a larger one that predicts the groups left out better; without any
        refits a tenth and ten times of it, too. "paper": 0.1, 0.2 and 0.3.
    lambdas_sparse, lambdas_low : "paper" or sequences of float
        Radii, all pairs of which are tried. "paper": its seven absolute ones, for
        `radius="absolute"`.
    refine : sequence of None, "scale", "reweight", "tucker", "cp" and "sparse"
        Refinements to try; with None among them the paper's own answer can win.
        Beside the refits "scale" gains nothing: it is tried where it is asked for.
    responses : "separate", "shared", or both
        Of responses with modes, y of shape (n, q1, …, qQ): what to try. Each may have
        a tensor of its own, or all share one, as for `SLTRRegressor`; held-out errors
        choose. Of more than 50 responses only a shared tensor is refitted, unless
        "separate" is given alone.
    family : None or "poisson"
        As for `SLTRRegressor`. Candidates are compared by their deviance on the samples
        left out, and so are penalties. With `rule="average"` refits are made again
        about the answer that they led to, up to three times, as long as that deviance
        falls. Working responses of a fold come from its training samples alone.
    cv : int, splitter or iterable
        As in scikit-learn, but a number means shuffled folds, always the same ones.
        Where neighbouring samples resemble each other, as in one recording, give
        `groups` to `fit`, or a splitter.
    scoring : str or callable, optional
        As in scikit-learn; R² by default, the mean over responses, or minus the
        squared error where a fold
        is a single sample; with a `family` D², one minus the deviance over that of
        the null model of the training samples.
    rule : {"average", "vote", "best", "1se"}
        "average": the mean of the candidates, weighted by how well their held-out
        squared errors agree with those of the best: exp(−z²/2) at z standard errors
        of the difference. First within each kind (the pilot, the paper's estimates,
        each refinement), then between the kinds, where the pilot counts more and
        low-rank and sparse refits less if samples are few. Of several responses each
        has weights of its own, half by its errors, half by those of all. The ranks
        of this mean are lowered as far as the held-out error is sure to stay.
        The answer is the sparsest tensor in a box about that, whose width held-out
        errors choose; it is zero where nothing predicts clearly better than the mean
        response. "vote": the same, an earlier name. "best": the best candidate
        alone: of exact rank if it is a low-rank refit, with exact zeros if it is
        "cp", "sparse" or none. "1se": the candidate of fewest free
        parameters within one standard error of the best score.
    radius, coupling, weights, solver, fit_intercept, feature_shape, mask, missing, \
missing_y, standardize, smooth, slices, entry_weights, positive, max_iter
        As for `SLTRRegressor`. Missing responses are filled once, before folds are
        made. Where folds keep groups whole, "auto" compares errors on these.
    tol : float
        Bound on the relative duality gap of the final fit. Candidates are compared
        at ten times this gap.
    n_jobs : int, optional
        Processes over folds and kinds of refits; joblib's backends apply.
    memory_limit : str or int, optional
        As for `SLTRRegressor`. Samples that stay in a file or on a cluster are refitted
        by some fifty passes over them; all ranks start at once there, not one after
        another, so that answers differ a little from those in memory. Where the limit
        leaves no room for refits, a warning says so.
    progress : callable, optional
        Called with the number of stages done and their total; with samples in a
        file, of blocks in each pass and of candidates between them.
    verbose : int
        With 1 the logger "sltr" is told how far a long fit is and what it found; on
        standard error, unless logging is set up otherwise.

    Attributes
    ----------
    coef_, intercept_, pilot_, pilot_method_, pilot_residual_, dual_gap_, n_iter_, \
n_passes_, ranks_, mask_, \
standardize_, entry_scale_, smooth_, fill_, shape_in_, shape_out_, n_features_in_
        As for `SLTRRegressor`, fitted on all samples. The pilot is the best
        candidate's, iterations are the worst of the estimates involved. The gap is
        that of `coef_`: zero where refits take part, whose last step has a closed form.
    low_radius_ : float or None
        Of the last step, relative to the largest singular value of each unfolding of
        the candidates' mean: `refined_` has no singular vectors of smaller ones. 0
        leaves the mean as it is. None where `sparse_radius_` is.
    sparse_radius_ : float or None
        Of the last step, relative to the largest entry of `refined_`: 0 leaves the
        refined pilot as it is, 1 says that nothing was found. None where there is no
        last step: with another rule, or without refits.
    refined_ : array of the shape of `coef_`
        The refined pilot: the weighted mean of the candidates, at the ranks that
        `low_radius_` leaves. `coef_` is made of it.
    epsilon_, lambda_sparse_, lambda_low_ : float
        Of the best candidate, as are the next. Of "reweight", "tucker" and "cp": those
        of the estimate that the refit starts from. Of "sparse": `lambda_sparse_` is the
        Lasso's threshold, `lambda_low_` is 0 and `epsilon_` is not used.
    refine_ : str or None
    responses_ : {"separate", "shared"}
    refine_settings_ : tuple
        Of a refit, as `SLTRRegressor(refine=(refine_, *refine_settings_))` takes them.
    scale_ : float, or array of shape (q1, …, qQ)
        The factor of `refine_ == "scale"`, else 1.
    weights_ : array of shape (n_candidates,)
        Each candidate's share in the mean that `refined_` is made of, the mean over
        responses.
    best_index_ : int
    best_score_ : float
        Mean held-out score of the best candidate alone, not of the mean of several
        that `coef_` may be.
    held_out_scores_ : dict of arrays of shape (n_folds,)
        Scores of `coef_` itself, fitted without each fold, on its samples: R², or
        minus the squared error where a fold is a single sample. A little optimistic,
        since the same folds chose its settings.
    null_score_ : float
        Mean held-out score of the null model, the mean of the training responses.
    scored_by_ : {"r2", "neg_mean_squared_error", "d2", "neg_mean_deviance"}
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

    missing_y: str = "error"

    @unchanged_on_failure
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        covariates: Any = None,
    ) -> SLTRRegressorCV:
        """Choose and fit; with `groups`, a number `cv` of folds keeps each group whole.

        A response may be a tensor itself: y of shape (n, q1, …, qQ). `groups` also go
        to a given splitter. Where folds keep groups whole, larger
        penalties are tried. `covariates` (n, q), an array or a table, are numbers and
        categories that are not penalised: what they explain is removed from samples
        and responses, on each training fold anew.
        """
        self._tune(X, y, sample_weight, groups, covariates)
        return self

    def predict(self, X: Any, *, covariates: Any = None) -> Array:
        """Return predictions of shape (n,), or (n, q1, …, qQ), for new samples.

        With `family="poisson"` they are expected counts.
        """
        return tensor_predictions(self, X, covariates)


@dataclass(eq=False, repr=False, kw_only=True)
class SLTRClassifierCV(CalibratedLabels, _SLTRCV):
    """`SLTRClassifier` with everything chosen by cross-validation.

    One grid is tuned for all classes. Probabilities are calibrated on the
    answer's held-out scores.

    Parameters
    ----------
    epsilons, lambdas_sparse, lambdas_low, refine, cv, radius, coupling, weights, \
solver, fit_intercept, feature_shape, mask, missing, standardize, smooth, tol, \
max_iter, n_jobs, memory_limit, progress, verbose
        As for `SLTRRegressorCV`; an integer `cv` means stratified folds.
    rule : {"average", "vote", "best", "1se"}
        As for `SLTRRegressorCV`.
    responses : "separate", "shared", or both
        Of more than two classes: what to try, as for `SLTRRegressorCV`. A likelihood
        has separate ones.
    family : None, "binomial" or "multinomial"
        As for `SLTRClassifier`, tuned as for `SLTRRegressorCV`.
    scoring : str or callable, optional
        As in scikit-learn; by default R² of the class indicators, which is finer
        than accuracy where samples are few.
    class_weight : None, "balanced" or dict
        As for `SLTRClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, pilot_, pilot_method_, pilot_residual_, sigmoids_, \
ranks_, dual_gap_, n_iter_, mask_, standardize_, entry_scale_, smooth_, fill_, \
shape_in_, n_features_in_
        As for `SLTRClassifier`.
    epsilon_, lambda_sparse_, lambda_low_, refine_, refine_settings_, weights_, \
low_radius_, sparse_radius_, refined_, best_index_, best_score_, null_score_, \
scored_by_, cv_results_
        As for `SLTRRegressorCV`.
    held_out_scores_ : dict of arrays of shape (n_folds,)
        As for `SLTRRegressorCV`: "roc_auc" and "accuracy".
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

    class_weight: str | dict | None = None

    @unchanged_on_failure
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        covariates: Any = None,
    ) -> SLTRClassifierCV:
        """Choose and fit; with `groups`, a number `cv` of folds keeps each group whole.

        `groups` also go to a given splitter. Where folds keep groups whole, larger
        penalties are tried. `covariates` (n, q), an array or a table, are numbers and
        categories that are not penalised: what they explain is removed from samples
        and responses, on each training fold anew.
        """
        task, folds, choice = self._tune(X, y, sample_weight, groups, covariates)
        indicators = np.asarray(task.given(to_numpy(task.Y)), float)
        if self.family is not None:
            self.sigmoids_ = own_logits(indicators.shape[1])
            return self
        rows = np.concatenate(folds.rows)
        self.sigmoids_ = fit_sigmoids(
            np.concatenate(choice.held_out) - task.y_shift,
            indicators[rows],
            to_numpy(task.samples.weight)[rows],
        )
        return self
