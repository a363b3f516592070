"""What SLTR's estimators share: a fit's preparation, what it remembers, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.arrays.resources import bytes_text
from sltr.coefficients import coef_array, coef_thumbnail, target_name
from sltr.core.estimate import Settings, make_sparsity
from sltr.core.problem import Sparsity
from sltr.core.tensor import numerical_ranks
from sltr.estimators.fitted import ClassifierBeside, scores_with_covariates
from sltr.estimators.labels import (
    calibrated_scores,
    class_weighted,
    has_own_sigmoids,
    probabilities,
    winning_labels,
)
from sltr.parameters import (
    check_choice,
    one_or_more,
    refuse,
    verbose_logger,
    warn_caller,
)
from sltr.refine.lasso import MAX_STEPS as LASSO_STEPS
from sltr.samples.check import check_samples, measured_weight
from sltr.samples.covariates import Encoding, remember_encoding, with_covariates
from sltr.samples.front import Front, front_plan
from sltr.samples.labelled import Labels
from sltr.samples.samples import Samples, is_lazy, passes_made
from sltr.tuning.candidates import Candidate
from sltr.tuning.final import Fitted
from sltr.tuning.folds import Split
from sltr.tuning.policy import DEFAULT, Policy
from sltr.tuning.task import Task, prepare

if TYPE_CHECKING:
    from sltr.core.families import Family
    from sltr.estimators.summary import Summary

# Of a likelihood's pilot; Newton's steps end far below it.
LARGEST_RESIDUAL = 1e-4


def diagram_with_coef(model: Any) -> str:
    """Return scikit-learn's diagram, and below it the coefficient of a fitted model.

    An estimator uses it as its `_html_repr`, which scikit-learn calls.

    Examples
    --------
    >>> from sltr import SLTRRegressor
    >>> "<img" in diagram_with_coef(SLTRRegressor())
    False
    """
    diagram = estimator_html_repr(model)
    if not hasattr(model, "coef_"):
        return diagram
    shape = " × ".join(map(str, coef_array(model).shape))
    name = " of ".join(filter(None, ["coef_", escape(target_name(model))]))
    note = f"{name}, {shape}: blue below zero, red above, the strongest entry in depth"
    return (
        f'{diagram}<figure style="margin:.5em 0"><img src="{coef_thumbnail(model)}" '
        f'alt="{note}" style="image-rendering:pixelated;border:1px solid #999">'
        f'<figcaption style="font-size:85%;opacity:.8">{note}</figcaption></figure>'
    )


class SLTRBase(BaseEstimator):
    """What all SLTR estimators do alike: settings, preparation, a picture."""

    # How hard a tuning tries. Not a parameter: a subclass may set another.
    _policy: ClassVar[Policy] = DEFAULT

    _html_repr = diagram_with_coef

    def _tell(self) -> None:
        """Tell the log what was found, if it is to be told."""
        if self.verbose:
            verbose_logger().info("%s", self.summary())

    def summary(self, test: Any = None) -> Summary:
        """Return what was found in a few lines: print it, or show it in Jupyter.

        The held-out score with its standard error and that of the null model, zeros,
        ranks, what was chosen, and the duality gap. A `test` by
        `sltr.inference.permutation_test` adds its p-value.
        """
        from sltr.estimators.summary import summarise

        check_is_fitted(self, "coef_")
        return summarise(self, test)

    def _given(
        self, X: Any, y: Any, sample_weight: Any, covariates: Any
    ) -> tuple[Samples, Any]:
        """Check what a fit is given; return clean samples, and the weights of all."""
        labels = is_classifier(self)
        if labels:
            weight = class_weighted(self.class_weight, y, sample_weight)
        else:
            weight = measured_weight(self, y, sample_weight)
        tensors = not labels and self.family is None
        samples = check_samples(self, X, y, weight, labels=labels, tensors=tensors)
        samples = with_covariates(
            samples, covariates, weight, fit_intercept=self.fit_intercept
        )
        return samples, weight

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit could use; the solver's are checked by it."""
        check_choice("radius", self.radius, ("relative", "absolute"))
        if self.standardize is not None:
            scales = ("slices", "entries", "auto")
            check_choice("standardize", self.standardize, scales)

    def _settings(self, front: Front, labels: Labels | None = None) -> Settings:
        """Return how problems are built, for samples that went through `front`."""
        # Where `n_jobs` means processes over folds, these work without threads.
        n_jobs = None if hasattr(self, "cv") else self.n_jobs
        return Settings(
            self.coupling,
            self.weights,
            self.solver,
            self.tol,
            self.max_iter,
            n_jobs,
            sparsity=self._sparsity(front, labels),
        )

    @property
    def _has_structure(self) -> bool:
        """Whether the sparse half of the problem is another than the paper's."""
        return bool(
            self.slices is not None or self.entry_weights is not None or self.positive
        )

    def _sparsity(self, front: Front, labels: Labels | None) -> Sparsity | None:
        """Return what is switched off together, in front of the samples."""
        slices, shape = self.slices, front.shape
        if slices is not None:
            from sltr.samples.smooth import mode_number

            names = labels.names if labels and len(labels.names) == len(shape) else ()
            asked = one_or_more(slices, "slices")
            slices = [mode_number(name, shape, names, "slices") for name in asked]
        given = (slices, self.entry_weights, self.positive)
        found = make_sparsity(shape, *given, front.kept)
        if found is None:
            return None
        smooth = sorted(set(front.modes) & set(slices or ()))
        blurred = {
            "slices": bool(smooth),
            "entry_weights": bool(front.modes) and self.entry_weights is not None,
            "positive": bool(front.modes) and found.positive,
        }
        for name in [name for name, is_blurred in blurred.items() if is_blurred]:
            msg = (
                f"{name} was given with smooth modes {list(front.modes)}, along which "
                "entries are blurred after the sparse step. Leave one of the two out, "
                "or give slices along other modes."
            )
            raise ValueError(msg)
        if front.slices and front.kept is not None:
            weight = self.entry_weights
            weight = None if weight is None else front.in_front(to_numpy(weight))
            kept = front.in_front(front.kept)
            found = make_sparsity(kept.shape, slices, weight, self.positive, kept)
        return found

    def _lacking_room(self, X: Any, n_items: int) -> int | None:
        """Return the memory limit that refits of X need, if theirs is lower."""
        if not is_lazy(X):
            return None
        from sltr.tuning.passes import lacking_room

        return lacking_room(X, n_items, self._policy)

    def _check_refits(self, asked: Sequence[Any], X: Any, n_items: int) -> None:
        """Refuse refits without room for them, or that would not obey the structure.

        `n_items` are the subsets of samples times the responses.
        """
        refits = [one for one in asked if one not in (None, "scale")]
        if not refits:
            return
        needed = self._lacking_room(X, n_items)
        if needed is not None:
            msg = (
                f"refine={self.refine!r} was given for samples that stay in a file or "
                "on a cluster; expected None or 'scale', since memory_limit leaves no "
                "room for refits of so many entries, samples, folds and responses. "
                f"Set memory_limit={bytes_text(needed)!r} or more."
            )
            raise ValueError(msg)
        if self._has_structure:
            msg = (
                f"refine={refits[0]!r} was given with slices, entry_weights or "
                "positive, which refits do not obey; expected None or 'scale'."
            )
            raise ValueError(msg)

    def _likelihood(self, samples: Samples, Y: Array) -> Family | None:
        """Return the family of the responses (n, K); None for least squares."""
        if self.family is None:
            return None
        labels = is_classifier(self)
        check_choice(
            "family",
            self.family,
            ("binomial", "multinomial") if labels else ("poisson",),
        )
        several = isinstance(self.refine, Iterable) and not isinstance(self.refine, str)
        asked = self.refine if several else [self.refine]
        if is_lazy(samples.X):
            msg = (
                f"family={self.family!r} was given for samples that stay in a file or "
                "on a cluster; expected samples in memory. Load them, or leave it out."
            )
            raise ValueError(msg)
        if "scale" in (asked or ()):
            refuse("refine", self.refine, "no 'scale', which is of least squares")
        if labels and "separate" not in self.responses:
            refuse("responses", self.responses, "'separate' beside a family")
        if labels and self.family == "binomial" and Y.shape[1] > 1:
            refuse("family", self.family, f"'multinomial' for {Y.shape[1]} classes")
        if not labels:
            if self.missing_y != "error":
                refuse("missing_y", self.missing_y, "'error' beside family='poisson'")
            if Y.shape[1] > 1:
                what = f"{Y.shape[1]} responses of each sample"
                refuse("y", what, "one count beside family='poisson'")
            check_counts(Y)
        from sltr.core.families import FAMILIES

        # Two classes have one indicator: both families are the same.
        return FAMILIES["binomial" if labels and Y.shape[1] == 1 else self.family]

    def _task(
        self,
        samples: Samples,
        Y: Array,
        y_shift: float = 0.0,
        splits: Sequence[Split] | None = None,
    ) -> Task:
        """Prepare a fit in the map that predicts best, of those that are allowed.

        Maps are compared by leave-one-out errors, or on the given splits; those of a
        likelihood too by least squares, its first step from the null model.
        """
        self._check_parameters()
        family, shape_out = self._likelihood(samples, Y), self._modes_out(Y)
        plan = front_plan(
            samples,
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            smooth=self.smooth,
        )
        # Several maps are compared by leave-one-out errors.
        given = self.epsilons if hasattr(self, "cv") else self.epsilon
        epsilon = "loo" if plan.several else given

        def prepared(front: Front) -> Task:
            return prepare(
                samples,
                Y,
                self._settings(front, samples.labels),
                front,
                fit_intercept=self.fit_intercept,
                radius=self.radius,
                epsilon=epsilon,
                memory_limit=self.memory_limit,
                unconverged=warn_of_pilot,
                policy=self._policy,
                y_shift=y_shift,
                family=family,
                # Indicators of classes have a unit already.
                in_units=not is_classifier(self),
                shape_out=shape_out,
            )

        if not plan.several:
            return prepared(plan.first)
        from sltr.tuning.maps import task_in_best_map

        return task_in_best_map(plan, prepared, splits)

    def _modes_out(self, Y: Array) -> tuple[int, ...]:
        """Return the modes that responses may share; classes are one.

        A mode of one entry has nothing to share.
        """
        shape = getattr(self, "shape_out_", (Y.shape[1],))
        return tuple(size for size in shape if size > 1)

    @property
    def _chooses_map(self) -> bool:
        """Whether a fit looks at the responses to choose its map."""
        return self.standardize == "auto" or self.smooth is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _remember_fit(self, task: Task, fitted: Fitted, best: Candidate) -> None:
        """Set how the fit on all samples was found; warn if it ran out of budget."""
        gap, n_iter = to_numpy(fitted.gap[0, :]), to_numpy(fitted.n_iter[0, :])
        warn_unless_converged(fitted.converged[0, :], gap, task.settings.tol)
        self.epsilon_, self.refine_settings_ = best.epsilon, best.settings
        self.pilot_method_ = task.system.method
        self.dual_gap_, self.n_iter_ = fitted.dual_gap, max(1, int(n_iter.max()))
        self.n_passes_ = passes_made(task.samples.X)

    def _set_coef(self, task: Task, fitted: Fitted, scale: np.ndarray | None) -> None:
        """Set the fit on all samples; that of a single response loses its axis.

        Tensor responses come last, classes first.
        """
        front, fill = task.front, task.samples.fill
        coef, pilot = fitted.coef[0, ...], fitted.pilot[0, ...]
        shape_out = getattr(self, "shape_out_", ())
        self.mask_, self.standardize_ = front.kept, front.standardize
        self.entry_scale_, self.smooth_ = front.scale_of_given(), dict(front.strengths)
        self.fill_ = None if fill is None else dict(vars(fill))
        intercept = fitted.intercept[0, ...] + self._set_covariates(task, fitted)
        offset = task.y_shift * task.y_unit if task.fit_intercept else 0.0
        factors = np.ones(coef.shape[0]) if scale is None else scale
        single = coef.shape[0] == 1
        self.coef_, self.pilot_ = self._shaped(coef), self._shaped(pilot)
        if shape_out:
            intercept = intercept + as_array(offset, intercept)
            self.intercept_ = array_namespace(coef).reshape(intercept, shape_out)
        elif single:
            self.intercept_ = float(intercept[0]) + offset
        else:
            self.intercept_ = intercept
        if is_classifier(self):
            ranks = [numerical_ranks(coef[k, ...]) for k in range(coef.shape[0])]
            self.ranks_ = ranks[0] if single else ranks
        else:
            self.ranks_ = numerical_ranks(self.coef_)
        self.pilot_residual_ = None
        if task.family is not None:
            self.pilot_residual_ = fitted.residual
            warn_of_likelihood(fitted.residual)
        scales = factors.reshape(shape_out) if shape_out else factors
        self.scale_ = scales if is_classifier(self) or shape_out else float(scales[0])

    def _shaped(self, coef: Array) -> Array:
        """Return coefficients (K, p1, …, pM) as an estimator has them."""
        shape_out = getattr(self, "shape_out_", ())
        if shape_out:
            xp, shape = array_namespace(coef), (*coef.shape[1:], *shape_out)
            # In order in memory, as a saved model has it: it predicts the same bits.
            parts = [coef[k, ...] for k in range(coef.shape[0])]
            return xp.reshape(xp.stack(parts, axis=-1), shape)
        return coef[0, ...] if coef.shape[0] == 1 else coef

    def _set_covariates(self, task: Task, fitted: Fitted) -> Array:
        """Set what was found of covariates; return what it adds to intercepts, (K,)."""
        slopes, known = fitted.covariate_coef[0, ...], task.samples.known  # (q, K)
        xp, single = array_namespace(slopes), slopes.shape[1] == 1
        remember_encoding(self, Encoding(()) if known is None else known.encoding)
        change = 0.0 * fitted.intercept[0, ...]
        if known is not None:
            slopes = slopes / as_array(known.scale, slopes)[:, None]
            change = -(as_array(known.centre, slopes) @ slopes)
        slopes = xp.matrix_transpose(slopes)
        shape_out = getattr(self, "shape_out_", ())
        if shape_out:
            slopes = xp.reshape(slopes, (*shape_out, slopes.shape[1]))
        self.covariate_coef_ = slopes[0, :] if single and not shape_out else slopes
        return change


def warn_unless_converged(converged: Any, gap: Any, tol: float) -> None:
    """Warn, with the largest gap, when the budget of iterations ran out."""
    if not to_numpy(converged).all():
        largest = float(to_numpy(gap).max())
        warn_caller(
            f"SLTR stopped at a relative duality gap of {largest:.1e}; tol={tol:g} "
            "was asked for. Increase max_iter or tol.",
            ConvergenceWarning,
        )


def warn_of_lasso(gap: float) -> None:
    """Warn, with its gap, of a Lasso refit that ran out of steps; 0: there is none."""
    if gap > 0.0:
        warn_caller(
            f"The Lasso of refine='sparse' stopped after {LASSO_STEPS} steps at a "
            f"relative duality gap of {gap:.1e}. It predicts as it was compared, but "
            "is not the minimum. Entries of X that are nearly copies of each other, "
            "or in unlike units, do this: reduce or standardise X.",
            ConvergenceWarning,
        )


def warn_of_likelihood(residual: float) -> None:
    """Warn of a likelihood's pilot that ran out of steps."""
    if residual > LARGEST_RESIDUAL:
        from sltr.ridge.likelihood import MAX_STEPS

        warn_caller(
            f"The likelihood's pilot stopped after {MAX_STEPS} reweighted "
            f"solves at a gradient of {residual:.1e}, relative to that of the null "
            "model. Increase epsilon, or divide X by its standard deviation.",
            ConvergenceWarning,
        )


def check_counts(Y: Array) -> None:
    """Refuse responses that are not counts."""
    xp = array_namespace(Y)
    least, most = float(xp.min(Y)), float(xp.max(Y))
    if least < 0.0:
        msg = (
            f"family='poisson' was given a response of {least:g}; expected counts of "
            "at least 0. Use family=None for other responses."
        )
        raise ValueError(msg)
    if most == 0.0:
        msg = (
            "family='poisson' was given responses that are all 0; expected some count "
            "above it. There is nothing to fit."
        )
        raise ValueError(msg)


def warn_of_pilot(residual: float, n_iter: int) -> None:
    """Warn that conjugate gradients for the pilot ran out of iterations."""
    warn_caller(
        f"The pilot's conjugate gradients stopped after {n_iter} iterations at a "
        f"relative residual of {residual:.1e}. Increase epsilon, or memory_limit so "
        "that a factorisation fits.",
        ConvergenceWarning,
    )


class CalibratedLabels(ClassifierBeside, SLTRBase):
    """Labels and probabilities from scores, by a sigmoid or a softmax."""

    def decision_function(self, X: Any, *, covariates: Any = None) -> Array:
        """Return log-odds (n,) of two classes, or logits (n, n_classes) of more."""
        scores = scores_with_covariates(self, X, covariates)
        return calibrated_scores(scores, self.sigmoids_)

    def predict(self, X: Any, *, covariates: Any = None) -> np.ndarray:
        """Return the most probable labels, shape (n,)."""
        check_is_fitted(self, "coef_")
        decision = self.decision_function(X, covariates=covariates)
        return winning_labels(self.classes_, to_numpy(decision))

    def predict_proba(self, X: Any, *, covariates: Any = None) -> np.ndarray:
        """Return calibrated probabilities, shape (n, n_classes)."""
        logits = to_numpy(self.decision_function(X, covariates=covariates))
        return probabilities(logits, own_sigmoids=has_own_sigmoids(self.sigmoids_))
