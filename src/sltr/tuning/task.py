"""What all fits of a tuning share, and its folds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.estimate import Settings
from sltr.ridge import RidgeSystem, ridge_system
from sltr.samples.budget import memory_bytes
from sltr.samples.samples import Samples, is_lazy

# Entries up to this size, and down to its inverse, are safe in single precision.
LARGEST_SINGLE = 1e5


@dataclass(frozen=True, eq=False)
class Task:
    """What all fits share: samples, responses, the prepared ridge system."""

    samples: Samples
    Y: Array  # (n, K)
    system: RidgeSystem
    fit_intercept: bool
    radius: str
    settings: Settings


@dataclass(frozen=True, eq=False)
class Fold:
    """A subset to train on and rows to predict; means of the training part."""

    subset: Array  # (n,) bool
    rows: np.ndarray
    y_mean: np.ndarray  # (K,)
    x_mean: Any = None  # (P,), known once the pilots are

    @staticmethod
    def of(task: Task, train: np.ndarray, test: np.ndarray) -> Fold:
        """Prepare a fold from its rows."""
        samples = task.samples
        xp = array_namespace(samples.weight)
        inside = np.zeros(samples.weight.shape[0], dtype=bool)
        inside[train] = True
        if inside.sum() < len(train):
            msg = (
                f"A fold trains on {len(train)} samples, of which {inside.sum()} are "
                "different ones; expected each once. Give sample_weight for more."
            )
            raise ValueError(msg)
        subset = as_array(inside, samples.weight, dtype=xp.bool)
        weight = xp.where(subset, samples.weight, 0.0)
        share = (weight / xp.sum(weight))[None, :]
        if not task.fit_intercept:
            share = 0.0 * share
        return Fold(subset, np.asarray(test), to_numpy(share @ task.Y)[0])

    def centred_predictions(self, task: Task, coef: Array) -> np.ndarray:
        """Return ⟨coef, x − mean⟩ for the fold's rows: (n_rows, k), coef (k, P)."""
        [values] = task.samples.design.inner_groups([(self.rows, coef)])
        return to_numpy(values - coef @ self.x_mean)


def held_out_losses(
    task: Task, folds: Sequence[Fold], values: Sequence[np.ndarray]
) -> np.ndarray:
    """Return weighted squared errors of held-out samples, fold after fold.

    `values` are centred predictions of each fold, (n_rows, K).
    """
    Y, weight = to_numpy(task.Y), to_numpy(task.samples.weight)
    errors = [
        weight[fold.rows] * ((Y[fold.rows] - fold.y_mean - own) ** 2).sum(axis=1)
        for fold, own in zip(folds, values, strict=True)
    ]
    return np.concatenate(errors)


def training_subsets(folds: Sequence[Fold]) -> Array:
    """Return what the folds are trained on, (F, n)."""
    subsets = [fold.subset for fold in folds]
    return array_namespace(subsets[0]).stack(subsets, axis=0)


def with_pilots(
    task: Task, folds: Sequence[Fold], epsilons: Sequence[float]
) -> tuple[list[Fold], Array]:
    """Return folds that know their mean sample, and their pilots (F, E, K, P)."""
    subsets = training_subsets(folds)
    penalties = as_array(list(epsilons), task.Y)
    pilots, means = task.system.coefs_and_means(subsets, penalties)
    if not task.fit_intercept:
        means = 0.0 * means
    known = [replace(fold, x_mean=means[f, ...]) for f, fold in enumerate(folds)]
    return known, pilots


def about_means(task: Task) -> tuple[Task, Array, Array]:
    """Return the task about the means of its samples and responses, and these.

    What refits see: large means would take the digits that differences need.
    """
    samples = task.samples
    xp = array_namespace(task.Y)
    flat = samples.flat
    if not task.fit_intercept:
        return task, 0.0 * flat[0, :], 0.0 * task.Y[0, :]
    rest, shift = _deviations(flat)
    Y, y_shift = _deviations(task.Y)
    samples = replace(samples, X=xp.reshape(rest, samples.X.shape))
    return replace(task, samples=samples, Y=Y), shift, y_shift


def _deviations(rows: Array) -> tuple[Array, Array]:
    """Return rows about their mean, and the mean; exact zeros if all are equal.

    A sum of equal numbers is rounded, but their differences are not.
    """
    xp = array_namespace(rows)
    rest = rows - rows[0, :]
    mean = xp.mean(rest, axis=0)
    return rest - mean, rows[0, :] + mean


def in_range(task: Task) -> Task:
    """Return a task in double precision if its numbers are too large or too small.

    Refits multiply four of them; single precision has no more than 1e±38.
    """
    xp = array_namespace(task.Y)
    for values in (task.samples.flat, task.Y):
        size = float(xp.max(xp.abs(values)))
        if size > LARGEST_SINGLE or 0.0 < size < 1.0 / LARGEST_SINGLE:
            return _in_precision(task, xp.float64)
    return task


def _in_precision(task: Task, dtype: Any) -> Task:
    xp = array_namespace(task.Y)
    samples = task.samples
    X, weight, Y = (
        xp.astype(values, dtype) for values in (samples.X, samples.weight, task.Y)
    )
    return replace(task, samples=replace(samples, X=X, weight=weight), Y=Y)


def for_comparison(task: Task, folds: Sequence[Fold]) -> tuple[Task, list[Fold]]:
    """Return the task, about its means, and its folds for refits that are compared.

    In single precision where its range allows: their errors differ by far more than
    it rounds, at twice the speed; the answer itself is fitted in the samples' own.
    The ridge system stays as it is.
    """
    xp = array_namespace(task.Y)
    task, shift, y_shift = about_means(task)
    safe = in_range(task)
    task = _in_precision(task, xp.float32) if safe is task else safe
    own = [
        replace(
            fold,
            y_mean=fold.y_mean - to_numpy(y_shift),
            x_mean=xp.astype(fold.x_mean - shift, task.Y.dtype),
        )
        for fold in folds
    ]
    return task, own


# Of the memory limit, for each entry of a chunk's answers: 12 doubles in an eighth.
CHUNK_BYTES = 8 * 12 * 8


def solver_settings(model: Any) -> Settings:
    """Return the solver's settings from an estimator's parameters.

    `n_jobs` means threads over modes here; where it means processes over folds,
    these work without further threads.
    """
    return Settings(
        coupling=model.coupling,
        weights=model.weights,
        solver=model.solver,
        tol=model.tol,
        max_iter=model.max_iter,
        n_jobs=None if hasattr(model, "cv") else model.n_jobs,
    )


def fitting_task(model: Any, samples: Samples, Y: Array) -> Task:
    """Prepare an estimator's samples: the expensive part, done once."""
    settings = solver_settings(model)
    lazy = is_lazy(samples.X)
    limit = memory_bytes(model.memory_limit)  # checked for all, used by lazy ones
    if lazy:
        entries = limit // (CHUNK_BYTES * Y.shape[1])
        settings = replace(settings, chunk_entries=max(1, entries))
    system = ridge_system(
        samples.flat,
        Y,
        samples.weight,
        fit_intercept=model.fit_intercept,
        limit=limit if lazy else None,
        unconverged=_warn_of_pilot,
    )
    model.pilot_method_ = system.method
    return Task(samples, Y, system, bool(model.fit_intercept), model.radius, settings)


def _warn_of_pilot(residual: float, n_iter: int) -> None:
    warnings.warn(
        f"The pilot's conjugate gradients stopped after {n_iter} iterations at a "
        f"relative residual of {residual:.1e}. Increase epsilon, or memory_limit so "
        "that a factorisation fits.",
        ConvergenceWarning,
        stacklevel=2,
    )
