"""SLTR for responses and for labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    explained_memory,
    fitting_threads,
    to_numpy,
)
from sltr.core.tensor import flatten
from sltr.estimators.base import CalibratedLabels, SLTRBase, warn_of_lasso
from sltr.estimators.fitted import (
    TensorResponses,
    tensor_predictions,
    unchanged_on_failure,
)
from sltr.estimators.labels import (
    Targets,
    calibration_folds,
    class_weighted,
    fit_sigmoids,
    label_shift,
    own_logits,
)
from sltr.estimators.partial_fit import (
    add_chunk,
    known_classes,
    moment_sigmoids,
    refuse_maps,
    squares_only,
    task_of_moments,
)
from sltr.parameters import check_choice, check_nonnegative, refuse
from sltr.ridge import choose_epsilon
from sltr.samples.check import check_samples
from sltr.samples.labelled import FITTED
from sltr.samples.samples import Samples, take_rows
from sltr.tuning.candidates import RESPONSES, Candidate
from sltr.tuning.choose import Member
from sltr.tuning.final import Fitted, final_fit
from sltr.tuning.folds import Folds
from sltr.tuning.search import choose_refit, inner_folds
from sltr.tuning.task import Task


@dataclass(eq=False, repr=False)
class _SLTR(SLTRBase):
    """The parameters of `SLTRRegressor` and `SLTRClassifier`, and their common fit."""

    epsilon: float | str = "loo"
    lambda_sparse: float = 0.1
    lambda_low: float = 0.1
    _: KW_ONLY
    radius: str = "relative"
    coupling: str = "average"
    weights: str | tuple[float, float] = "unit"
    solver: str = "admm"
    refine: str | tuple | None = None
    responses: str = "shared"
    family: str | None = None
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    mask: Any = None
    missing: str = "error"
    standardize: str | None = None
    smooth: Any = None
    slices: Any = None
    entry_weights: Any = None
    positive: bool = False
    tol: float = 1e-4
    max_iter: int = 5000
    n_jobs: int | None = None
    memory_limit: str | int | None = None
    progress: Callable[[int, int], None] | None = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        check_choice("responses", self.responses, RESPONSES)
        check_nonnegative(self.lambda_sparse, "lambda_sparse")
        check_nonnegative(self.lambda_low, "lambda_low")
        super()._check_parameters()

    def _candidate(self, task: Task, folds: Folds | None) -> Candidate:
        return Candidate(
            self._chosen_epsilon(task, folds),
            float(self.lambda_sparse),
            float(self.lambda_low),
            shared=bool(task.shape_out) and self.responses == "shared",
        )

    def _chosen_epsilon(self, task: Task, folds: Folds | None) -> float:
        """Return the penalty; that of a likelihood is chosen by folds."""
        given = not (isinstance(self.epsilon, str) and self.epsilon == "loo")
        if task.family is None or given:
            found = choose_epsilon(task.system, self.epsilon, task.samples.weight)
            if task.family is not None and not found > 0.0:
                refuse("epsilon", self.epsilon, "a positive number for a likelihood")
            return found
        from sltr.tuning.likelihood import likely_epsilon

        return likely_epsilon(task, inner_folds(task) if folds is None else folds)

    def _fit_task(self, task: Task, folds: Folds | None = None) -> Fitted:
        """Fit on all samples and, from the same Gram matrix, on each fold's.

        A likelihood needs no scores of samples that it has not seen: its folds only
        choose.
        """
        candidate = self._candidate(task, folds)
        n_subsets = 1 + (task.policy.inner_folds if folds is None else len(folds.rows))
        n_items = n_subsets * task.Y.shape[1]
        refine = self.refine
        if isinstance(refine, tuple | list) and len(refine) == 1:
            [refine] = refine
        self._check_refits([refine], task.samples.X, n_items)
        member, held = choose_refit(task, candidate, refine, folds)
        training = task.everyone
        if folds is not None and task.family is None:
            xp = array_namespace(training)
            training = xp.concat([training, folds.training], axis=0)
        fitted = final_fit(task, [member], training, held)
        self._remember(task, member, fitted)
        return fitted

    def _forget_fit(self) -> None:
        """Drop what an earlier fit found: it is of other samples, or other classes."""
        seen = {
            "shape_in_",
            "shape_out_",
            "response_names_",
            "n_features_in_",
            "feature_names_in_",
            "classes_",
            *FITTED,
        }
        for name in [n for n in vars(self) if n.endswith("_") and n not in seen]:
            delattr(self, name)

    def _remember(self, task: Task, member: Member, fitted: Fitted) -> None:
        self._remember_fit(task, fitted, member.candidate)
        warn_of_lasso(fitted.lasso_gap)
        self._set_coef(task, fitted, member.scale)
        self._tell()


@dataclass(eq=False, repr=False, kw_only=True)
class SLTRRegressor(TensorResponses, _SLTR):
    """Sparse and low-rank tensor regression about a ridge pilot.

    The pilot W̃ = (AᵀA + εI)⁻¹Aᵀy is computed once, A the centred samples as
    rows. Then, for every mode m and Z the pilot's unfolding along it,

        min_V  α‖V‖₁ + β‖V‖_*   s.t.  ‖V − Z‖_∞ ≤ λ_sparse,  ‖V − Z‖₂ ≤ λ_low

    is solved to a duality gap, and the answers are averaged over the modes.

    Parameters
    ----------
    epsilon : float or "loo"
        Penalty of the pilot; "loo" takes the one of least leave-one-out error.
    lambda_sparse, lambda_low : float
        Radii of the entrywise and the spectral ball. 0 leaves the pilot as it is.
    radius : {"relative", "absolute"}
        "relative": radii are fractions of the pilot's largest entry and of each
        unfolding's largest singular value; with 1 everything may go to zero.
    coupling : {"average", "joint"}
        Average the modes' answers, as in the paper, or solve for one tensor under
        the terms of all modes.
    weights : {"unit", "radius"} or pair of floats
        (α, β): (1, 1) as in the paper, proportional to the radii, or given.
    solver : {"admm", "ppxa"}
        "ppxa" is the paper's parallel proximal algorithm, corrected.
    refine : None, "scale", "reweight", "tucker", "cp", "sparse" or tuple
        What undoes the pilot's shrinkage: nothing, as in the paper; a factor fitted
        to out-of-fold predictions; the pilot again in the metric of its own modes
        ("reweight"); a low-rank refit ("tucker", "cp"); or the Lasso ("sparse"),
        with the threshold `lambda_sparse`, a fraction of its largest for relative
        radii. Steps, rank and ridge are chosen by five folds of the training data, or
        set by a tuple as `SLTRRegressorCV` reports them: ("reweight", steps),
        ("tucker", ranks, ridge), ("cp", rank, ridge) or ("sparse", ridge).
    responses : {"shared", "separate"}
        Of responses with modes (q1, …, qQ): whether they share one problem about the
        pilot (p1, …, pM, q1, …, qQ), with the unfoldings of all M + Q modes, or each
        has one of its own. Each response is divided by its standard deviation before,
        and modes of one entry do not count. "reweight", "tucker" and "cp" are shared
        likewise, their ranks those of all M + Q modes, unless samples stay in a file;
        "sparse" takes each response by itself.
    family : None or "poisson"
        None: least squares, as in the paper. "poisson": y are counts with mean
        exp(⟨W, X⟩ + b). The pilot is then that of the penalised likelihood,
        min_{W,b} −log L(y; ⟨W, X⟩ + b) + (ε/2)·‖W‖², found by reweighted
        ridge solves from the same Gram matrix, and the paper's
        problem is solved about it. Refits are least squares on the pilot's working
        responses, in the pilot's working weights. The intercept is the most likely one
        for `coef_`. `epsilon="loo"` takes the penalty of least deviance on five folds.
        `predict` returns means and `score` D²; the samples have to be in memory.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into, for use behind tools that flatten.
    mask : array of shape (p1, …, pM), optional
        True where to look. Outside, the coefficient is exactly zero, whatever X holds
        there, NaN too. Beside an intercept, entries that never vary are outside anyway.
    missing : {"error", "mean", "low_rank"}
        What to do with NaN in X: refuse it; fill in the mean of the samples that have
        the entry; or what its sample's other entries lead to expect, by a factor model.
        Both are learnt from the samples of the fit without a look at y, fill in
        samples to predict for as well, and entries that no sample has are masked. The
        folds inside a fit share them.
    missing_y : {"error", "ridge"}
        What to do with NaN in y: refuse it; or fill each response by its own ridge
        estimate from the samples in which it was measured. The pilot is then the one
        of these samples alone, since filled values lie on it. Scores leave filled
        values out, and fits leave out samples without any response.
    standardize : None, "slices", "entries" or "auto"
        What entries are divided by; `coef_` is in the units of X all the same.
        "entries": each by its standard deviation in the samples of the fit. "slices":
        a factor for each slice of each mode, the cube root of its spread relative to
        the largest of the mode, so that loud slices count somewhat less. "auto":
        "slices", or "entries" if the pilot's leave-one-out errors are clearly lower.
    smooth : dict or sequence of modes, optional
        Ordered modes along which the coefficient should change little: the pilot's
        penalty becomes ε·wᵀ(⊗(I + s·L))w, L of first differences. A dictionary of
        modes (numbers from 0, or names if X has them, as xarray's arrays do) and
        strengths s: a number, some to choose from, "auto", or a dictionary with any
        of "strength", "order" (1, or 2 for second differences), "coords" (places of
        the entries, in order), "periodic" (True, or the period), or "positions"
        (of sites, one row each) or "laplacian" (p × p) for modes without an order. A
        sequence of modes means "auto". Strengths are chosen by the pilot's
        leave-one-out errors; 0 stays unless another is clearly better. Ranks do not
        change by it; zeros of the sparse step become places where smooth bumps are
        left out: see the page on modes.
    slices : mode or sequence of modes, optional
        Modes, by number or name, whose slices are switched on and off as a whole: with
        "time" whole time points, with ("x", "y") all that is at one pair of places.
        The sum of ``|W|`` becomes ``Σ_g √|g|·‖W_g‖₂`` over slices g, and
        `lambda_sparse` bounds the root mean square of W_g − Z_g. Refits do not obey
        this and the next two: `refine` must be None or "scale".
    entry_weights : array of shape (p1, …, pM), optional
        Weights ω ≥ 0 of the entries in the sparse step: ``Σω|W|`` with ``|W − Z|`` ≤
        ω·λ_sparse. Zero leaves an entry as the pilot has it; for no penalty at all
        make it a covariate. With `slices`, equal in each slice.
    positive : bool
        Whether no entry of the coefficient may be negative. The pilot's negative
        entries count as zero.
    tol : float
        Bound on the relative duality gap.
    max_iter : int
        Budget of iterations for each problem.
    n_jobs : int, optional
        Threads over modes.
    memory_limit : str or int, optional
        Bytes, or a text like "1GB", that a fit to samples in a file may take; by
        default a quarter of the memory that is free. Zarr, HDF5 and Dask arrays of
        more than a quarter of it, and memmaps larger than it, stay where they are:
        see the page on scaling.
    progress : callable, optional
        Called with the blocks read and their total in each pass over such samples.
    verbose : int
        With 1 the logger "sltr" is told how far a long fit is and what it found; on
        standard error, unless logging is set up otherwise.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM), or (p1, …, pM, q1, …, qQ)
    intercept_ : float, or array of shape (q1, …, qQ)
    pilot_ : array of the shape of `coef_`
    epsilon_ : float
        The penalty used.
    pilot_method_ : {"dual", "primal", "cg"}
        How the pilot was found: by the Gram matrix of the samples, by the moments of
        the features, or by conjugate gradients.
    dual_gap_ : float
        Largest relative duality gap over the modes' problems that `coef_` is the mean
        of. A refit is a better pilot, and `coef_` that pilot with radii of zero. So its
        gap is zero, and says nothing about the refit.
    n_iter_ : int
        Largest number of iterations over the modes' problems, or over those of the
        estimate that a refit starts from; 1 for a closed form.
    n_passes_ : float
        How often samples that stay in a file or on a cluster were read; 0 in memory.
    ranks_ : tuple of int
        Numerical rank of each unfolding of `coef_`.
    refine_settings_ : tuple
        Of a refit, given or chosen, as a tuple `refine=(kind, …)` takes them.
    scale_ : float, or array of shape (q1, …, qQ)
        The factor of `refine="scale"`, else 1.
    pilot_residual_ : float or None
        Of a `family`: the gradient of the penalised likelihood at `pilot_`, relative to
        that of the null model; None for least squares, which are exact.
    mask_ : array of shape (p1, …, pM), or None
        The entries that were looked at; None for all of them.
    standardize_ : None, "slices" or "entries"
    entry_scale_ : array of shape (p1, …, pM), or None
        What entries were divided by. Sizes of coefficients, and so the penalties, the
        radii and the problem whose gap is `dual_gap_`, are those of
        `coef_ * entry_scale_`; None if the units of X were kept.
    smooth_ : dict
        The strength of each smooth mode.
    fill_ : dict or None
        What `missing` learnt: "mean", "scale", "loadings" and "noise".
    covariate_coef_ : array of shape (q,), or (q1, …, qQ, q)
        Of the columns `covariate_names_`: a number is one, a category has one for each
        level but the first.
    covariate_names_, covariate_columns_ : lists of str
        Encoded columns, and those that were given.
    covariate_levels_ : dict
        The levels of the columns that are categories, by their place.
    n_covariates_in_ : int
    shape_in_, shape_out_ : tuples of int
        The shapes of a sample and of its response; () of a number.
    n_features_in_ : int
        Of flat rows; samples with several modes have `shape_in_` alone.

    References
    ----------
    Zhang, Cai, Wang, Wang. Sparse and low-rank high-order tensor regression via
    parallel proximal method. Equations 6–9.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> coef = np.zeros((6, 5, 4)); coef[:3, :2, :2] = 1.0
    >>> X = rng.normal(size=(150, 6, 5, 4))
    >>> y = np.einsum("nijk,ijk->n", X, coef) + 0.1 * rng.normal(size=150)
    >>> model = SLTRRegressor(lambda_sparse=0.2, lambda_low=0.2).fit(X, y)
    >>> model.coef_.shape, bool(model.score(X, y) > 0.9)
    ((6, 5, 4), True)
    """

    missing_y: str = "error"

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, covariates: Any = None
    ) -> SLTRRegressor:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,).

        A response may be a tensor itself: y of shape (n, q1, …, qQ). `covariates`
        (n, q), an array or a table, are numbers and categories that are not
        penalised: what they explain is removed from samples and responses.
        """
        samples, _ = self._given(X, y, sample_weight, covariates)
        self.__dict__.pop("_moments", None)
        with explained_memory(), fitting_threads(samples.X):
            self._fit_task(self._task(samples, samples.Y))
        return self

    @available_if(squares_only)
    @unchanged_on_failure
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, solve: bool = True
    ) -> SLTRRegressor:
        """Add a chunk of samples to those seen by earlier calls, and fit to them all.

        Only their moments are kept, P × P numbers, so that n may be any. They are
        exact: chunks in any order give the fit to all samples at once, up to
        rounding. With `epsilon="loo"` the penalty is chosen by generalised
        cross-validation, since no sample is left to be left out. After `fit`, and
        in a loaded model, the count begins anew.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM)
        y : array of shape (n,) or (n, q1, …, qQ)
        sample_weight : array of shape (n,), optional
        solve : bool
            Whether to fit now; with many chunks only the last one needs it.
        """
        refuse_maps(self)
        seen = getattr(self, "_moments", None)
        samples = check_samples(
            self, X, y, sample_weight, tensors=True, min_samples=1, reset=seen is None
        )
        self._moments = add_chunk(seen, samples, samples.Y, self.refine)
        if seen is None:
            self._forget_fit()
        if solve:
            self._fit_task(task_of_moments(self))
        return self

    def predict(self, X: Any, *, covariates: Any = None) -> Array:
        """Return predictions of shape (n,), or (n, q1, …, qQ), for new samples.

        With `family="poisson"` they are expected counts.
        """
        return tensor_predictions(self, X, covariates)


@dataclass(eq=False, repr=False, kw_only=True)
class SLTRClassifier(CalibratedLabels, _SLTR):
    """Sparse and low-rank tensor classification by least squares on labels.

    Each class's 0/1 indicator (one indicator for two classes) is regressed on
    the samples by the method of `SLTRRegressor`; all classes share one Gram
    matrix. A sigmoid, or for more classes a softmax, fitted to out-of-fold scores
    turns scores into labels and probabilities.

    Parameters
    ----------
    epsilon, lambda_sparse, lambda_low, radius, coupling, weights, solver, refine, \
fit_intercept, feature_shape, mask, missing, standardize, smooth, slices, \
entry_weights, positive, tol, max_iter, n_jobs, memory_limit, progress, verbose
        As for `SLTRRegressor`.
    responses : {"separate", "shared"}
        Whether each class has a problem of its own, or all of more than two classes
        share one, as for `SLTRRegressor`.
    family : None, "binomial" or "multinomial"
        None: least squares on the labels. Else the likelihood of two classes, or of
        two or more, as for `SLTRRegressor`: scores are log-odds, or logits whose
        softmax are the probabilities, and no sigmoid is fitted to held-out scores.
        Classes have penalties and problems of their own: `responses` is "separate".
    class_weight : None, "balanced" or dict
        Weights of the samples by their class, on top of `sample_weight`: given by
        label, or such that all classes weigh the same. Probabilities are those of
        samples so weighted.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_, pilot_ : arrays of shape (p1, …, pM), or (n_classes, p1, …, pM)
        One tensor for two classes, else one for each class.
    intercept_ : float or array of shape (n_classes,)
    sigmoids_ : array of shape (1, 2) or (n_classes, n_classes + 1)
        Of two classes slope and offset of the log-odds. Of more, for each class its
        weights on all scores and its offset; probabilities are the softmax. In models
        that were saved before, (n_classes, 2): one sigmoid a class. With a `family`
        they leave scores as they are.
    pilot_residual_, epsilon_, pilot_method_, dual_gap_, n_iter_, refine_settings_, \
mask_, standardize_, entry_scale_, smooth_, fill_, shape_in_, n_features_in_
        As for `SLTRRegressor`.
    scale_ : array of shape (1 or n_classes,)
        The factors of `refine="scale"`, else ones.
    ranks_ : tuple of int, or list of tuples

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 5, 4))
    >>> y = np.where(X[:, :2, :2].sum(axis=(1, 2)) > 0, "up", "down")
    >>> model = SLTRClassifier().fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X).shape
    (['down', 'up'], (80, 2))
    """

    responses: str = "separate"
    class_weight: str | dict | None = None

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, covariates: Any = None
    ) -> SLTRClassifier:
        """Fit to samples X of shape (n, p1, …, pM) and labels y of shape (n,).

        `covariates` as for `SLTRRegressor`.
        """
        samples, _ = self._given(X, y, sample_weight, covariates)
        self.__dict__.pop("_moments", None)
        targets = Targets.of(samples, True, self.fit_intercept)
        self.classes_, indicators = (
            targets.classes,
            np.asarray(to_numpy(targets.Y), float),
        )
        with explained_memory(), fitting_threads(samples.X):
            task = self._task(samples, targets.Y, targets.shift)
            splits = calibration_folds(indicators)
            folds = Folds.of(task, splits) if splits else None
            fitted = self._fit_task(task, folds)
        if task.family is not None:
            self.sigmoids_ = own_logits(indicators.shape[1])
            return self
        scores = _out_of_fold(fitted, samples, folds)
        self.sigmoids_ = fit_sigmoids(scores, indicators, to_numpy(samples.weight))
        return self

    @available_if(squares_only)
    @unchanged_on_failure
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        solve: bool = True,
    ) -> SLTRClassifier:
        """Add a chunk of samples to those seen by earlier calls, and fit to them all.

        As `SLTRRegressor.partial_fit`; the first call needs all `classes`.
        Probabilities take the scores of each class as normal, since there are no
        samples to calibrate on.
        """
        refuse_maps(self)
        if self.class_weight == "balanced":
            refuse("class_weight", "balanced", "weights, since chunks are not kept")
        seen = getattr(self, "_moments", None)
        weight = class_weighted(self.class_weight, y, sample_weight)
        samples = check_samples(
            self, X, y, weight, labels=True, min_samples=1, reset=seen is None
        )
        fitted_classes = getattr(self, "classes_", None)
        self.classes_, indicators = known_classes(
            fitted_classes, classes, samples.y, first=seen is None
        )
        shift = label_shift(indicators.shape[1], self.fit_intercept)
        Y = as_array(indicators - shift, samples.weight)
        self._moments = add_chunk(seen, samples, Y, self.refine)
        if seen is None:
            self._forget_fit()
        if not solve:
            return self
        fitted = self._fit_task(task_of_moments(self))
        self.sigmoids_ = moment_sigmoids(
            self._moments, fitted.coef[0, ...], fitted.intercept[0, ...], shift
        )
        return self


def _out_of_fold(fitted: Fitted, samples: Samples, folds: Folds | None) -> np.ndarray:
    """Return each sample's scores by the fit that did not see it, (n, K).

    Without folds (a class of one member) the scores are the training ones.
    """
    n_samples = samples.weight.shape[0]
    rows = [np.arange(n_samples)] if folds is None else folds.rows
    first = 0 if folds is None else 1
    groups = [(r, flatten(fitted.coef[first + s, ...])) for s, r in enumerate(rows)]
    scores = np.empty((n_samples, fitted.coef.shape[1]))
    for s, values in enumerate(samples.design.inner_groups(groups)):
        values = values + fitted.intercept[first + s, ...]
        if samples.covariates is not None:
            Z = take_rows(samples.covariates, rows[s])
            values = values + Z @ fitted.covariate_coef[first + s, ...]
        scores[rows[s]] = to_numpy(values)
    return scores
