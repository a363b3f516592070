"""What all fits of one call share: samples, responses, ridge system, settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log10, prod
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.arrays.resources import memory_bytes
from sltr.core.estimate import Settings
from sltr.ridge import RidgeSystem, choose_epsilon, ridge_system
from sltr.samples.centring import Centring
from sltr.samples.front import Front
from sltr.samples.samples import Samples, is_lazy, take_rows
from sltr.tuning.policy import DEFAULT, Policy

if TYPE_CHECKING:
    from sltr.core.families import Family
    from sltr.ridge.likelihood import LikelihoodPilot
    from sltr.tuning.likelihood import Working

# Entries up to this size, and down to its inverse, are safe in single precision:
# refits multiply four of them.
LARGEST_SINGLE = 1e5
# Powers of ten between which double precision is safe.
LARGEST_EXPONENT = 290
# Doubles that the solver holds for each entry of a chunk's solutions.
ARRAYS_OF_A_CHUNK = 12


@dataclass(frozen=True, eq=False)
class Task:
    """What all fits share; comparing and the final fit differ only in its fields."""

    samples: Samples
    Y: Array  # (n, K)
    system: RidgeSystem
    fit_intercept: bool
    radius: str
    settings: Settings
    front: Front  # the map that the samples went through
    policy: Policy = DEFAULT
    shift: Array | None = None  # (P,), what was subtracted from every sample
    # Given responses are (Y + y_shift) · y_unit; of several responses (K,) each.
    y_shift: float | np.ndarray = 0.0
    y_unit: float | np.ndarray = 1.0
    # The modes of a response that are longer than one. `shared` are the same where all
    # responses make one tensor (p1, …, pM, q1, …), () where each has one of its own.
    shape_out: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    # Of a likelihood: responses are given ones, predictions are on the link's scale,
    # and refits are least squares on working responses.
    family: Family | None = None
    working: Working | None = None
    # Its pilots that were solved for, by subset and penalty: a fit asks for them often.
    solved: dict[tuple[bytes, float], LikelihoodPilot] = field(default_factory=dict)

    @property
    def everyone(self) -> Array:
        """The subset of all samples, (1, n)."""
        return (self.samples.weight > 0)[None, :]

    def given(self, values: np.ndarray) -> np.ndarray:
        """Return responses (…, K), or predictions of them, in the units given."""
        return (values + self.y_shift) * self.y_unit

    def sharing(self, is_shared: bool) -> Task:
        """Return the task in which all responses make one tensor, or each its own."""
        return replace(self, shared=self.shape_out if is_shared else ())

    def with_responses(self, Y: Array) -> Task:
        """Return the task of the same samples with other responses (n, K)."""
        system = self.system.with_responses(Y)
        return replace(self, Y=Y, system=system, working=None, solved={})

    def centring(self, training: Array) -> Centring:
        """Return what removes intercept and covariates on each subset (S, n)."""
        samples = self.samples
        every = Centring(samples.weight, self.fit_intercept, samples.covariates)
        return every.on(training)

    def with_loose_gap(self) -> Task:
        """Return the task with the duality gap that comparing candidates needs."""
        tol = self.settings.tol
        loose = max(tol, min(self.policy.loose_gap * tol, self.policy.largest_gap))
        return replace(self, settings=replace(self.settings, tol=loose))

    def for_refits(self, precision: str | None = None) -> Task:
        """Return the task about the middle of its samples, in some precision.

        Large means would take the digits that differences need. Numbers that single
        precision cannot hold stay in double.
        """
        xp, samples = array_namespace(self.Y), self.samples
        X, Y, shift = samples.flat, self.Y, 0.0 * samples.flat[0, :]
        if self.fit_intercept:
            shift = middle_row(X)
            X, Y = X - shift, Y - middle_row(Y)
        dtype = None if precision is None else getattr(xp, precision)
        X_size, Y_size = (float(xp.max(xp.abs(values))) for values in (X, Y))
        if not (fits_single(X_size) and fits_single(Y_size)):
            dtype = xp.float64
            _check_powers(X_size, Y_size, prod(X.shape))
        weight, Z = samples.weight, samples.covariates
        if dtype is not None:
            X, Y, weight = (
                xp.astype(values, dtype, copy=False) for values in (X, Y, weight)
            )
            Z = None if Z is None else xp.astype(Z, dtype, copy=False)
        X = xp.reshape(X, samples.X.shape)
        samples = replace(samples, X=X, weight=weight, covariates=Z)
        working = self.working and self.working.astype(Y.dtype)
        return replace(self, samples=samples, Y=Y, shift=shift, working=working)


def middle_row(rows: Array) -> Array:
    """Return the middle one of the first, a central and the last row, by entry.

    It is close to most rows, and an entry that is far from all others leaves it alone,
    unlike the mean. Rows that are all equal have differences of exactly zero.
    """
    xp, n_rows = array_namespace(rows), rows.shape[0]
    first, central, last = (rows[i, :] for i in (0, n_rows // 2, n_rows - 1))
    low, high = xp.minimum(first, last), xp.maximum(first, last)
    return xp.minimum(xp.maximum(low, central), high)


def fits_single(size: float) -> bool:
    """Say whether single precision is safe for numbers of some size."""
    return size == 0.0 or 1.0 / LARGEST_SINGLE <= size <= LARGEST_SINGLE


def _check_powers(X_size: float, Y_size: float, count: int) -> None:
    """Refuse units in which refits would leave the range of double precision.

    Conjugate gradients form products of up to six entries of X and two of y.
    """
    if X_size == 0.0 or Y_size == 0.0:
        return
    digits = 6 * log10(X_size) + 2 * log10(Y_size)
    if -LARGEST_EXPONENT <= digits <= LARGEST_EXPONENT - log10(count):
        return
    msg = (
        f"X of about {X_size:.0e} and y of about {Y_size:.0e} were given; refits "
        "multiply up to six entries of X and two of y, which float64 does not have. "
        "Divide X and y by their largest entries, or pass refine=None."
    )
    raise ValueError(msg)


def prepare(
    samples: Samples,
    Y: Array,
    settings: Settings,
    front: Front,
    *,
    fit_intercept: bool,
    radius: str,
    epsilon: Any = None,
    memory_limit: Any = None,
    unconverged: Callable[[float, int], None] | None = None,
    policy: Policy = DEFAULT,
    y_shift: float = 0.0,
    in_units: bool = False,
    shape_out: tuple[int, ...] = (),
    family: Family | None = None,
) -> Task:
    """Prepare the ridge system of some samples: the expensive part, done once.

    All that follows knows the samples as the map `front` makes them.
    `y_shift` is subtracted from the responses; scores see them as they were. With
    `in_units`, several responses are divided by their standard deviations. They may
    share a tensor if they have modes, `shape_out`.
    An `epsilon` of "loo" says that leave-one-out errors will choose the penalty.
    `unconverged` is called with the residual and the iterations of conjugate
    gradients that ran out of budget.
    """
    samples = front.samples(samples)
    unit: float | np.ndarray = 1.0
    shift: float | np.ndarray
    if family is not None:
        Y, shift = array_namespace(Y).astype(Y, samples.weight.dtype, copy=False), 0.0
    elif in_units and Y.shape[1] > 1:
        Y, shift, unit = _in_units(Y, samples, fit_intercept)
    else:
        Y, shift = _in_precision(Y, samples.weight, fit_intercept, y_shift)
    lazy = is_lazy(samples.X)
    limit = memory_bytes(memory_limit)  # checked for all, used by lazy ones
    if lazy:
        room = limit // policy.chunk_share
        entries = room // (8 * ARRAYS_OF_A_CHUNK * Y.shape[1])
        settings = replace(settings, chunk_entries=max(1, entries))
    system = ridge_system(
        samples.design,
        Y,
        samples.weight,
        fit_intercept=fit_intercept,
        covariates=samples.covariates,
        loo=isinstance(epsilon, str) and epsilon == "loo",
        memory=limit if lazy else None,
        limits=policy.ridge_limits,
        unconverged=unconverged,
    )
    task = Task(
        samples,
        Y,
        system,
        bool(fit_intercept),
        radius,
        settings,
        front,
        policy,
        y_shift=shift,
        y_unit=unit,
        shape_out=shape_out,
        family=family,
    )
    if samples.measured is None:
        return task
    if isinstance(epsilon, Sequence) and all(isinstance(e, Real) for e in epsilon):
        epsilon = sorted(epsilon)[len(epsilon) // 2]
    return _with_responses_filled(task, epsilon if isinstance(epsilon, Real) else "loo")


def _with_responses_filled(task: Task, epsilon: Any) -> Task:
    """Return the task with each missing response filled by its own ridge estimate.

    Fitted to the samples in which it was measured: the pilot of this penalty on all
    samples is then the one on these, since filled values lie on it. Twice, because
    the penalty is chosen with what was filled before.
    """
    xp, measured = array_namespace(task.Y), task.samples.measured
    assert measured is not None
    patterns, which = np.unique(measured.T, axis=0, return_inverse=True)
    training = as_array(patterns, task.samples.weight, dtype=xp.bool)
    centring = task.centring(training)
    for _ in range(2):
        penalty = choose_epsilon(task.system, epsilon, task.samples.weight)
        pilots = ridge_pilots(task, training, [penalty])
        filled = np.array(to_numpy(task.Y))
        for s, pattern in enumerate(patterns):
            rows, responses = np.flatnonzero(~pattern), np.flatnonzero(which == s)
            if not len(rows):
                continue
            coef = take_rows(pilots.coef[s, 0, ...], responses)
            beside = centring.share[s, ...] @ task.Y  # (b, K)
            beside = xp.matrix_transpose(
                take_rows(xp.matrix_transpose(beside), responses)
            )
            beside = beside - pilots.removed[s, ...] @ xp.matrix_transpose(coef)
            [values] = task.samples.design.inner_groups([(rows, coef)])
            values = values + take_rows(centring.basis, rows) @ beside
            filled[np.ix_(rows, responses)] = to_numpy(values)
        task = task.with_responses(as_array(filled, task.Y))
    return task


def _in_units(
    Y: Array, samples: Samples, fit_intercept: bool
) -> tuple[Array, np.ndarray, np.ndarray]:
    """Return responses (n, K) in units of their standard deviations.

    And what was subtracted, in these units, and the units, (K,) each. Only so can
    errors of several responses be added up, and responses share a tensor. Without an
    intercept nothing is subtracted, and the unit is the root of the mean square.
    """
    xp, weight = array_namespace(Y), samples.weight
    share = xp.astype(weight / xp.sum(weight), Y.dtype)[:, None]
    if samples.measured is not None:
        share = share * as_array(samples.measured, Y, dtype=Y.dtype)
        share = share / xp.sum(share, axis=0)
    # About the first one: responses that are all equal leave exact zeros.
    mean = Y[0, :] + xp.sum(share * (Y - Y[:1, :]), axis=0)
    mean = mean if fit_intercept else 0.0 * Y[0, :]
    rest = Y - mean
    unit = xp.sqrt(xp.sum(share * rest**2, axis=0))
    unit = xp.where(unit > 0, unit, 1.0)
    Y = xp.astype(rest / unit, weight.dtype, copy=False)
    return Y, to_numpy(mean / unit), to_numpy(unit)


def _in_precision(
    Y: Array, weight: Array, fit_intercept: bool, y_shift: float
) -> tuple[Array, float]:
    """Return responses in the samples' precision, and what was subtracted from them.

    Responses that are more precise lose their mean first, which would take digits.
    """
    xp = array_namespace(Y)
    if Y.dtype != weight.dtype and fit_intercept:
        y_shift = float(xp.mean(Y))
    Y = Y if y_shift == 0.0 else Y - y_shift
    return xp.astype(Y, weight.dtype, copy=False), y_shift


@dataclass(frozen=True, eq=False)
class Pilots:
    """Ridge estimates on S subsets of the samples, for E penalties, K responses."""

    training: Array  # (S, n), true where a sample takes part
    epsilons: list[float]
    coef: Array  # (S, E, K, P)
    removed: Array  # (S, b, P), the samples' regression on the basis of centring
    # Of a likelihood: the worst gradient, relative to that of the null model.
    residual: float = 0.0

    def some(self, subsets: slice, epsilons: slice = slice(None)) -> Pilots:
        """Return the pilots of some subsets and penalties."""
        return Pilots(
            self.training[subsets, ...],
            self.epsilons[epsilons],
            self.coef[subsets, epsilons, ...],
            self.removed[subsets, ...],
        )

    @property
    def parts(self) -> tuple[list[Array], list[Array]]:
        """The coefficients of each subset, and what was removed from its samples."""
        subsets = range(self.training.shape[0])
        coefs = [self.coef[s, ...] for s in subsets]
        return coefs, [self.removed[s, ...] for s in subsets]

    def of_penalties(self, epsilons: Sequence[float]) -> Pilots | None:
        """Return the pilots for some penalties; None if not all of them are there."""
        if not set(epsilons) <= set(self.epsilons):
            return None
        coef = [self.coef[:, self.epsilons.index(e), ...] for e in epsilons]
        coef = array_namespace(self.coef).stack(coef, axis=1)
        return replace(self, epsilons=list(epsilons), coef=coef)

    def removed_for(self, task: Task) -> Array:
        """Return what was removed from the samples as this task has shifted them."""
        if task.shift is None:
            return self.removed
        xp, removed = array_namespace(task.shift), self.removed
        if task.fit_intercept:
            first = removed[:, :1, :] - task.shift
            removed = xp.concat([first, removed[:, 1:, :]], axis=1)
        return xp.astype(removed, task.Y.dtype, copy=False)


def ridge_pilots(task: Task, training: Array, epsilons: list[float]) -> Pilots:
    """Return the pilots of some subsets (S, n) for some penalties."""
    if task.family is not None:
        from sltr.tuning.likelihood import likely_pilots

        found = likely_pilots(task, training, epsilons)
        return Pilots(training, list(epsilons), *found)
    penalties = as_array(list(epsilons), task.Y)
    coef, removed = task.system.coefs_and_means(training, penalties)
    return Pilots(training, list(epsilons), coef, removed)
