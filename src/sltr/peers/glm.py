"""Samples, covariates and responses of a low-rank GLM, in units of one.

The penalties are relative: they act on samples (centred, covariates projected out)
with unit mean square and, for the normal family, on a response with unit mean
square; so a fit does not change with the units of X and y.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import log
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, clip, to_numpy
from sltr.core.families import FAMILIES
from sltr.estimators.fitted import (
    RegressorBeside,
    scores_with_covariates,
    unchanged_on_failure,
)
from sltr.parameters import (
    check_count,
    check_nonnegative,
    check_relative,
    check_sequence,
    random_generator,
    warn_caller,
)
from sltr.peers.search import search
from sltr.peers.units import divide_by_unit
from sltr.refine.factors import CP, Form, Unfoldings
from sltr.refine.glm import GLMFit, TensorGLM, fit_blocks, glm_starts
from sltr.samples.check import check_samples
from sltr.samples.covariates import encoded, remember_encoding
from sltr.samples.samples import Samples, take_rows
from sltr.tuning.choose import check_rule
from sltr.tuning.folds import weighted_splits

# Families of a single response.
ONE_RESPONSE = ("binomial", "normal", "poisson")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A GLM in units of one, and the way back: X' = (X − Z·C)/s, y' = (y − Z·c)/d.

    X and y were divided by their sizes before anything was squared; C, c, s and d are
    those of X and y so divided.
    """

    problem: TensorGLM
    total: float  # how many samples; a whole weight counts as equal samples
    weight_unit: float  # the weights were divided by it, for `total` to be their sum
    n_covariates: int  # columns of Z, that of ones included
    X_size: float
    y_size: float
    X_shift: Array  # C, (c, P)
    y_shift: Array  # c, (c,)
    X_unit: float  # s
    y_unit: float  # d
    fit_intercept: bool

    @property
    def coef_unit(self) -> float:
        """What one entry of a coefficient stands for in the units of X and y."""
        return (self.y_unit / self.X_unit) * (self.y_size / self.X_size)

    @property
    def response_unit(self) -> float:
        """What one stands for in the units of y."""
        return self.y_unit * self.y_size

    def original(self, coef: Array, gamma: Array) -> tuple[Array, float, Array]:
        """Return coefficient, intercept and covariates' coefficients, user's units."""
        xp = array_namespace(coef)
        coef = coef * (self.y_unit / self.X_unit)
        shift = self.y_shift - self.X_shift @ xp.reshape(coef, (-1,))
        gamma = (shift + gamma if gamma.shape[0] else shift) * self.y_size
        coef = coef * (self.y_size / self.X_size)
        if self.fit_intercept:
            return coef, float(gamma[0]), gamma[1:]
        return coef, 0.0, gamma


def check_family(family: Any) -> str:
    """Return the name of a family we know."""
    if not isinstance(family, str) or family not in ONE_RESPONSE:
        msg = f"family={family!r} was given; expected one of {list(ONE_RESPONSE)}."
        raise ValueError(msg)
    return family


def check_response(y: Array, family: str) -> None:
    """Refuse responses that the family cannot have."""
    xp = array_namespace(y)
    if family == "binomial" and not bool(xp.all((y == 0.0) | (y == 1.0))):
        msg = (
            "family='binomial' was given a response with values other than 0 and 1. "
            "Code the labels as 0 and 1, or use CPClassifier."
        )
        raise ValueError(msg)
    if family == "poisson" and not bool(xp.all(y >= 0.0)):
        msg = (
            f"family='poisson' was given a response of {float(xp.min(y))}; expected "
            "counts of at least 0. Use family='normal' for other responses."
        )
        raise ValueError(msg)


def prepare(
    samples: Samples, covariates: Array, family: str, fit_intercept: bool
) -> Prepared:
    """Project the covariates out of X (and of a normal y) and scale to units of one.

    A normal response needs no covariates afterwards, and its weights go into the rows.
    """
    xp = array_namespace(samples.X)
    y, total = samples.y, float(xp.sum(clip(samples.weight, 1.0, None)))
    weight_unit = float(xp.sum(samples.weight)) / total
    weight = samples.weight / weight_unit
    root = xp.sqrt(weight)
    ones = xp.ones_like(weight)[:, None]
    Z = xp.concat([ones, covariates], axis=1) if fit_intercept else covariates
    weighted = root[:, None] * Z
    X, X_size = divide_by_unit(root[:, None] * samples.flat)
    project = xp.linalg.pinv(weighted) if Z.shape[1] else xp.matrix_transpose(weighted)
    X_shift = project @ X
    residue = X - weighted @ X_shift
    X_unit = _unit(residue, X, total * X.shape[1])
    if family == "normal":
        # In the responses' own precision, until what covariates explain is removed.
        precise = y.dtype
        y, y_size = divide_by_unit(xp.astype(root, precise) * y)
        y_shift = xp.astype(project, precise) @ y
        y_residue = y - xp.astype(weighted, precise) @ y_shift
        y_unit = _unit(y_residue, y, total)
        y = xp.astype(y_residue / y_unit, X.dtype)
        Z, scale = Z[:, :0], 1.0 / X_unit
        weight = xp.ones_like(weight)
    else:
        y, y_shift = xp.astype(y, X.dtype), xp.zeros_like(Z[0, :])
        y_size, y_unit = 1.0, 1.0
        scale = (1.0 / (root * X_unit))[:, None]
    X = xp.reshape(residue * scale, samples.X.shape)
    del residue  # as large as X, whose unfoldings are made next
    return Prepared(
        problem=TensorGLM(Unfoldings.of(X, weight), y, weight, Z, FAMILIES[family]),
        total=total,
        weight_unit=weight_unit,
        n_covariates=weighted.shape[1],
        X_size=X_size,
        y_size=y_size,
        X_shift=X_shift,
        y_shift=y_shift,
        X_unit=X_unit,
        y_unit=y_unit,
        fit_intercept=fit_intercept,
    )


def _unit(residue: Array, before: Array, count: float) -> float:
    """Return the root mean square; the rounding a constant leaves counts as none."""
    xp = array_namespace(residue)
    square, whole = float(xp.sum(residue * residue)), float(xp.sum(before * before))
    rounding = (10.0 * float(xp.finfo(residue.dtype).eps)) ** 2 * whole
    return (square / count) ** 0.5 if square > rounding else 1.0


def fit_path(
    prepared: Prepared,
    form: Form,
    model: Any,
    alphas: Sequence[float],
    *,
    l1: float = 0.0,
) -> list[GLMFit]:
    """Fit one form for each relative ridge, from the largest to the smallest.

    From the second on, the solution before races against the first of the starts
    alone: a component that a large ridge took to zero could not come back.
    """
    problem, total = prepared.problem, prepared.total
    ridges = [total * check_relative(a, "alpha_ridge") for a in alphas]
    l1 = total * check_relative(l1, "alpha_l1")
    _check_enough_samples(problem, form, ridges[-1], l1)
    starts = glm_starts(
        problem,
        form,
        check_count(model.n_restarts, "n_restarts", largest=10_000),
        random_generator(model.random_state),
        ridge=ridges[-1],
        l1=l1,
    )
    fits: list[GLMFit] = []
    for ridge in ridges:
        fit = fit_blocks(
            problem,
            [fits[-1].structure, starts[0]] if fits else starts,
            ridge=ridge,
            l1=l1,
            tol=check_nonnegative(model.tol, "tol"),
            max_iter=check_count(model.max_iter, "max_iter"),
        )
        fits.append(fit)
    return fits


def _check_enough_samples(
    problem: TensorGLM, form: Form, ridge: float, l1: float
) -> None:
    n_unknowns = form.largest_block() + problem.covariates.shape[1]
    n_samples = problem.y.shape[0]
    if ridge == l1 == 0.0 and n_samples < n_unknowns:
        msg = (
            f"{n_samples} samples were given for a block of {n_unknowns} unknowns "
            "without a penalty; expected at least as many. Lower the rank, add "
            "samples, or set alpha_ridge > 0."
        )
        raise ValueError(msg)


def bic(prepared: Prepared, fit: GLMFit) -> float:
    """Return −2·log-likelihood + log n·(free parameters), constants left out.

    For the normal family the variance is estimated: n·log(RSS/n) stands for the
    deviance. With no fewer parameters than samples the fit says nothing: infinity.
    """
    n = prepared.total
    form = Form(type(fit.structure), prepared.problem.shape, fit.structure.rank)
    n_parameters = form.n_parameters() + prepared.n_covariates
    if n_parameters >= n:
        return float("inf")
    lack = fit.deviance / n  # of one sample
    if prepared.problem.family.name == "normal":
        lack = log(max(lack, 1e-300)) + 2.0 * log(prepared.response_unit)
    return n * lack + log(n) * n_parameters


def choose_by_bic(
    prepared: Prepared,
    forms: Sequence[Form],
    model: Any,
    *,
    ridge: float,
    l1: float = 0.0,
) -> GLMFit:
    """Return the fit with the lowest BIC, the first of equals."""
    # Forms that cannot have a finite BIC are left out, unless there is no other.
    most = prepared.total - prepared.n_covariates
    possible = [form for form in forms if form.n_parameters() < most]
    tried = possible or forms[:1]
    fits = [fit_path(prepared, form, model, [ridge], l1=l1)[0] for form in tried]
    return min(fits, key=lambda fit: bic(prepared, fit))


class _TensorGLMBase(BaseEstimator):
    """What the CP, Tucker and TRR models share: predictions and fitted attributes."""

    fit_intercept: bool
    tol: float

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, covariates: Any, family: str
    ) -> Prepared:
        """Check the user's data and bring it to units of one."""
        samples, Z = self._checked(X, y, sample_weight, covariates, family)
        return prepare(samples, Z, family, self.fit_intercept)

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, covariates: Any, family: str
    ) -> tuple[Samples, Array]:
        samples = check_samples(self, X, y, sample_weight)
        check_response(samples.y, check_family(family))
        return samples, self._checked_covariates(covariates, samples, sample_weight)

    def _checked_covariates(
        self, covariates: Any, samples: Samples, sample_weight: Any
    ) -> Array:
        encoding, Z = encoded(covariates, samples.X.shape[0], sample_weight)
        remember_encoding(self, encoding)
        if Z.shape[1] == 0:  # an empty list would lose its number of columns
            return array_namespace(samples.X).zeros_like(samples.flat[:, :0])
        return as_array(Z, samples.X)

    def _finish(self, prepared: Prepared, fit: GLMFit) -> Any:
        """Keep a fit; warn if its sweeps ran out, and say what the last one gained."""
        name, path = type(self).__name__, fit.path
        if not fit.converged and len(path) < 2:
            warn_caller(
                f"{name} stopped after one sweep, too few to tell how far it had come. "
                "Raise max_iter.",
                ConvergenceWarning,
            )
        elif not fit.converged:
            gain = (path[-2] - path[-1]) / (abs(path[-1]) + 1.0)
            warn_caller(
                f"{name} stopped after {len(path)} sweeps; the last one lowered the "
                f"objective by {gain:.1e} (tol={self.tol}). Raise max_iter, tol or the "
                "penalty.",
                ConvergenceWarning,
            )
        return self._remember(prepared, fit)

    def _remember(self, prepared: Prepared, fit: GLMFit) -> Any:
        coef = fit.structure.coef()[0, ...]
        parts = prepared.original(coef, fit.gamma)
        self.coef_, self.intercept_, self.covariate_coef_ = parts
        self.deviance_path_ = fit.path
        unit = prepared.response_unit
        # A product, since a power that overflows is an error.
        self.deviance_ = fit.deviance * prepared.weight_unit * unit * unit
        self.n_iter_ = len(fit.path)
        self.bic_ = bic(prepared, fit)
        unit = prepared.coef_unit
        if isinstance(fit.structure, CP):
            self.rank_ = fit.structure.rank
            share = unit ** (1.0 / len(fit.blocks))
            self.factors_ = [block * share for block in fit.blocks]
        else:
            self.ranks_ = fit.structure.rank
            *self.factors_, core = fit.blocks
            self.core_ = core * unit
        return self

    def predict(self, X: Any, covariates: Any = None) -> Array:
        """Return the expected responses, shape (n,)."""
        return predict_mean(self, X, covariates, self.family)


def predict_mean(model: Any, X: Any, covariates: Any, family: str) -> Array:
    """Return the expected responses, shape (n,)."""
    return FAMILIES[family].mean(scores_with_covariates(model, X, covariates))


ALPHAS_RIDGE = (1e-3, 1e-2, 1e-1)


@dataclass(frozen=True, eq=False)
class GlmTrials:
    """Candidates of a search as fitted estimators, which predict with covariates."""

    models: list[Any]
    covariates: Array  # of all samples, (n, q)
    converged: bool = True

    def predictions(
        self, held_out: Samples, rows: np.ndarray, response: int
    ) -> np.ndarray:
        """Return predictions (n, G) of the one response."""
        Z = take_rows(self.covariates, rows)
        columns = [to_numpy(model.predict(held_out.X, Z)) for model in self.models]
        return np.stack(columns, axis=1)

    def estimator(self, g: int, model: Any, rows: np.ndarray) -> Any:
        """Return candidate g; scorers give it X alone, so it knows the covariates."""
        candidate = self.models[g]
        Z = take_rows(self.covariates, rows)
        candidate.predict = partial(type(candidate).predict, candidate, covariates=Z)
        return candidate


class _TensorGLMSearch(RegressorBeside, _TensorGLMBase):
    """What the tuned CP and Tucker models share: the choice of a form and a ridge."""

    alphas_ridge: Sequence[float]
    cv: Any
    family: str
    n_jobs: int | None
    rule: str
    scoring: Any
    shape_in_: tuple[int, ...]
    alpha_l1: float = 0.0  # CP has it as a parameter
    _plain: type  # the estimator of one pair of form and ridge
    _rank_name: str  # its parameter for the rank

    @abstractmethod
    def _forms(self, shape: tuple[int, ...]) -> list[Form]:
        """Return the forms that there are for samples of a shape."""

    @unchanged_on_failure
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        covariates: Any = None,
        groups: Any = None,
    ) -> Self:
        """Score all pairs of form and ridge on folds, and fit the best.

        Arguments are as for the model that is not tuned; `groups` go to the splitter.
        """
        check_rule(self.rule)
        samples, Z = self._checked(X, y, sample_weight, covariates, self.family)
        labels = self.family == "binomial"
        folds = weighted_splits(
            self.cv, y, sample_weight, groups=groups, classifier=labels
        )
        forms, l1, name = self._forms(self.shape_in_), self.alpha_l1, self._rank_name
        alphas = _falling(self.alphas_ridge)
        pairs = [(form, alpha) for form in forms for alpha in alphas]

        def fit_all(rows: np.ndarray) -> GlmTrials:
            train = samples.take(rows), take_rows(Z, rows)
            prepared = prepare(*train, self.family, self.fit_intercept)
            paths = [fit_path(prepared, form, self, alphas, l1=l1) for form in forms]
            models = []
            for (form, alpha), fit in zip(pairs, chain(*paths), strict=True):
                params = {name: form.rank, "alpha_ridge": alpha, "family": self.family}
                candidate = self._plain(**params)
                candidate.shape_in_ = self.shape_in_
                candidate.n_covariates_in_ = Z.shape[1]
                models.append(candidate._remember(prepared, fit))
            return GlmTrials(models, Z)

        # Fewer parameters are simpler, then larger ridges.
        sizes = [(form.n_parameters(), -alpha) for form, alpha in pairs]
        order = {size: place for place, size in enumerate(sorted(set(sizes)))}
        searched = search(
            self,
            samples,
            folds,
            {
                name: [form.rank for form, _ in pairs],
                "alpha_ridge": [alpha for _, alpha in pairs],
            },
            fit_all,
            scoring=self.scoring,
            rule=self.rule,
            complexity=np.array([order[size] for size in sizes]),
            weighted=sample_weight is not None,
            n_jobs=self.n_jobs,
        )
        form, self.alpha_ridge_ = pairs[searched.index]
        self.best_score_, self.cv_results_ = searched.best_score, searched.table
        self.scored_by_ = searched.scored_by
        prepared = prepare(samples, Z, self.family, self.fit_intercept)
        # Ridges fall, and every fit starts from the one before it.
        larger = alphas[: alphas.index(self.alpha_ridge_) + 1]
        fit = fit_path(prepared, form, self, larger, l1=l1)[-1]
        return self._finish(prepared, fit)


def _falling(alphas: Sequence[float]) -> list[float]:
    given = check_sequence(alphas, "alphas_ridge")
    clean = {check_relative(a, "an entry of alphas_ridge") for a in given}
    return sorted(clean, reverse=True)
