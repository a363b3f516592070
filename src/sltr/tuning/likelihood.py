"""What a likelihood adds to the stages of tuning; least squares never come here.

Its pilots are found by reweighted ridge solves, its penalty by folds. Refits are least
squares on working responses. On each fold, intercept and covariates are fitted anew to
what a coefficient leaves. Apart from these stages, so that who reads them for least
squares need not read this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.ridge import choose_epsilon
from sltr.ridge.likelihood import (
    LikelihoodPilot,
    Point,
    free_coefs,
    likelihood_pilots,
    working_weights,
)

if TYPE_CHECKING:
    from sltr.core.families import Family
    from sltr.tuning.folds import Folds, Split
    from sltr.tuning.task import Pilots, Task


def likely_pilots(
    task: Task, training: Array, epsilons: Sequence[float]
) -> tuple[Array, Array, float]:
    """Return pilots (S, E, K, P), what was removed, (S, b, P), and the worst gradient.

    As `ridge_pilots` does; one pass makes all coefficients.
    """
    xp, samples = array_namespace(task.Y), task.samples
    found = _solved(task, training, epsilons)
    # (S, E, K, n or P)
    shares = xp.stack(
        [xp.stack([xp.matrix_transpose(p.shares) for p in row]) for row in found]
    )
    shares = xp.astype(shares, task.Y.dtype)
    coef = shares
    if task.system.method == "dual":
        rows = xp.reshape(shares, (-1, shares.shape[-1]))
        coef = samples.design.combine(rows)
        coef = xp.reshape(coef, (*shares.shape[:3], -1))
    share = task.centring(training).share
    removed = samples.design.combine(xp.reshape(share, (-1, share.shape[-1])))
    removed = xp.reshape(removed, (*share.shape[:2], coef.shape[-1]))
    residual = max(pilot.residual for row in found for pilot in row)
    return coef, removed, residual


def _solved(
    task: Task, training: Array, epsilons: Sequence[float]
) -> list[list[LikelihoodPilot]]:
    """Return the pilots of each subset and penalty; each is solved for once."""
    assert task.family is not None
    found = []
    for s in range(training.shape[0]):
        name = to_numpy(training[s, :]).tobytes()
        missing = [e for e in epsilons if (name, e) not in task.solved]
        if missing:
            subset = training[s : s + 1, ...]
            [pilots] = likelihood_pilots(task.system, task.family, subset, missing)
            task.solved.update(
                {(name, e): pilot for e, pilot in zip(missing, pilots, strict=True)}
            )
        found.append([task.solved[name, e] for e in epsilons])
    return found


def working_responses(task: Task, training: Array, epsilon: float) -> Working:
    """Return the working responses of some subsets (S, n) at their pilots."""
    assert task.family is not None
    found = _solved(task, training, [epsilon])
    eta = array_namespace(task.Y).stack([pilot.eta for [pilot] in found])
    return working_at(task, training, eta)


def working_at(task: Task, training: Array, eta: Array) -> Working:
    """Return the working responses of some subsets (S, n) at their η, (S, n, K)."""
    assert task.family is not None
    xp = array_namespace(task.Y)
    variance = working_weights(task.family, eta)
    Y = eta + (xp.astype(task.Y, eta.dtype) - task.family.mean(eta)) / variance
    weight = xp.where(training, xp.astype(task.samples.weight, eta.dtype), 0.0)
    weighted = weight[:, :, None] * variance
    sums = xp.sum(weighted, axis=1, keepdims=True)
    weighted = weighted * (xp.sum(weight, axis=1)[:, None, None] / sums)
    return Working(training, Y, weighted).astype(task.Y.dtype)


@dataclass(frozen=True, eq=False)
class Working:
    """Working responses and weights of S subsets: a likelihood about its pilots.

    Each subset's own pilot made them, so that they know nothing of samples it leaves
    out. Weights of a response sum up to those of the subset's samples.
    """

    training: Array  # (S, n)
    Y: Array  # (S, n, K)
    weight: Array  # (S, n, K), zero for samples that are left out

    def of(self, training: Array) -> tuple[Array, Array]:
        """Return responses and weights (s, n, K) of some of the subsets."""
        xp = array_namespace(self.Y)
        known = {to_numpy(row).tobytes(): s for s, row in enumerate(self.training)}
        places = [known[to_numpy(row).tobytes()] for row in training]
        index = as_array(places, self.Y, dtype=xp.int64)
        return xp.take(self.Y, index, axis=0), xp.take(self.weight, index, axis=0)

    def astype(self, dtype: Any) -> Working:
        """Return them in another precision."""
        xp = array_namespace(self.Y)
        Y, weight = (xp.astype(a, dtype, copy=False) for a in (self.Y, self.weight))
        return replace(self, Y=Y, weight=weight)


@dataclass(frozen=True, eq=False)
class Free:
    """What a fold needs to fit intercept and covariates by likelihood."""

    rows: np.ndarray  # trained on, (m,)
    y: np.ndarray  # (m, K)
    weight: np.ndarray  # (m,)
    basis: np.ndarray  # (m, b)
    held: np.ndarray  # the basis of the rows left out, (n_rows, b)
    gamma: np.ndarray  # of the null model, (b, K)

    def completed(self, family: Family, offsets: np.ndarray) -> np.ndarray:
        """Return predictions (G, n_rows, K) less those of the null model.

        `offsets` (G, m + n_rows, K) are those of the training rows, then the others.
        """
        offsets = offsets.astype(float, copy=False)
        first, rest = offsets[:, : len(self.rows), :], offsets[:, len(self.rows) :, :]
        found = np.full_like(rest, np.nan)
        finite = np.isfinite(offsets).all(axis=(1, 2))
        known = (family, self.y, self.weight, self.basis)
        if finite.any():
            # From the null model on, whose intercept is not far.
            start = first[finite] + self.basis @ self.gamma
            found[finite] = rest[finite] + self.held @ free_coefs(*known, start)
        return found


def fold_fits(task: Task, splits: Sequence[Split]) -> list[Free]:
    """Return what each fold needs to fit intercept and covariates."""
    family = task.family
    assert family is not None
    Y, weight = (np.asarray(to_numpy(a), float) for a in (task.Y, task.samples.weight))
    basis = np.asarray(to_numpy(task.centring(task.everyone).basis), float)
    free = []
    for train, test in splits:
        rows = np.asarray(train)
        y, w, B = Y[rows], weight[rows], basis[rows]
        gamma = free_coefs(family, y, w, B, np.zeros((1, *y.shape)))[0]
        free.append(Free(rows, y, w, B, basis[np.asarray(test)], gamma))
    return free


def likely_epsilon(task: Task, folds: Folds) -> float:
    """Return the penalty whose pilots have the least deviance on the rows left out.

    From the one of least leave-one-out error in least squares, in the units of the
    null model's likelihood, the search walks to better neighbours, twice a decade.
    """
    family = task.family
    assert family is not None
    first = choose_epsilon(task.system, "loo", task.samples.weight)
    # The variance of the responses under the null model of each fold.
    spreads = [np.mean(family.variance(f.basis @ f.gamma)) for f in folds.free]
    first *= float(np.mean([float(spread) for spread in spreads]))
    most = task.policy.most_penalties
    known: dict[int, float] = {}
    starts: list[Point] = []

    def loss(step: int) -> float:
        if step not in known:
            epsilon = first * 10.0 ** (step / 2)
            losses, starts[:] = _likely_losses(task, folds, epsilon, starts)
            known[step] = folds.total(losses)
        return known[step]

    best = 0
    while abs(best) < most:
        step = min((best, best + 1, best - 1), key=loss)
        if step == best:
            break
        best = step
    return first * 10.0 ** (best / 2)


def _likely_losses(
    task: Task, folds: Folds, epsilon: float, starts: Sequence[Point]
) -> tuple[np.ndarray, list[Point]]:
    """Return deviances of one penalty's pilots, fold after fold, and where they are."""
    family, tol = task.family, task.policy.likely_tol
    assert family is not None
    found = likelihood_pilots(
        task.system, family, folds.training, [epsilon], tol=tol, starts=starts
    )
    etas = [to_numpy(pilot.eta)[folds.rows[f]] for f, [pilot] in enumerate(found)]
    values = [eta - known for eta, known in zip(etas, folds.baseline, strict=True)]
    return folds.losses(values), [pilot.point for [pilot] in found]


def likely_basis_coefs(
    rows: Array, task: Task, training: Array, pilots: Pilots
) -> Array:
    """Return the most likely intercepts and slopes beside centred samples, (S, b, K).

    Coefficients are rows (S, K, P).
    """
    xp, family = array_namespace(rows), task.family
    assert family is not None
    basis = np.asarray(to_numpy(task.centring(training[:1, :]).basis), float)
    Y, weight = (np.asarray(to_numpy(a), float) for a in (task.Y, task.samples.weight))
    found = []
    for s in range(rows.shape[0]):
        inside = np.flatnonzero(to_numpy(training[s, :]))
        [values] = task.samples.design.inner_groups([(inside, rows[s, ...])])
        removed = pilots.removed[s, ...] @ xp.matrix_transpose(rows[s, ...])
        B, explained = basis[inside], np.asarray(to_numpy(removed), float)
        offset = np.asarray(to_numpy(values), float) - B @ explained
        known = (family, Y[inside], weight[inside], B)
        gamma = free_coefs(*known, offset[None, ...])[0]
        if family.name == "multinomial" and task.fit_intercept:
            # Only differences between classes count; about zero in the mean.
            gamma[0] -= np.average((offset + B @ gamma).mean(axis=1), weights=known[2])
        found.append(gamma)
    return as_array(np.stack(found), rows)
