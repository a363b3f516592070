"""From chosen settings to fitted coefficients, on any subsets of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sltr.arrays import Array, array_namespace, as_array
from sltr.core.estimate import Estimate, absolute_radii, estimate_path
from sltr.samples.front import Centring
from sltr.samples.samples import Samples
from sltr.tuning.candidates import Candidate
from sltr.tuning.fits import has_start, or_pilots, refit_coefs
from sltr.tuning.task import Task


@dataclass(frozen=True, eq=False)
class Member:
    """A candidate with its share of the answer, and its factors if it is scaled."""

    candidate: Candidate
    weight: float = 1.0
    scale: np.ndarray | None = None  # (K,)


@dataclass(frozen=True, eq=False)
class SubsetFit:
    """SLTR fitted on S subsets of the samples, for K responses each.

    `coef` and `pilot` have shape (S, K, p1, …, pM), the rest (S, K): the worst over
    the estimates that were solved for.
    """

    coef: Array
    intercept: Array
    pilot: Array
    gap: Array
    n_iter: Array
    converged: Array


def all_of(samples: Samples) -> Array:
    """Return the subset of all samples, shape (1, n)."""
    return (samples.weight > 0)[None, :]


def left_out(samples: Samples, folds: list) -> Array:
    """Return subsets that leave one fold's rows out each, shape (F, n)."""
    xp = array_namespace(samples.weight)
    rows = []
    for test in folds:
        held = set(int(i) for i in test)
        rows.append([i not in held for i in range(samples.weight.shape[0])])
    return as_array(rows, samples.weight, dtype=xp.bool)


def fit_subsets(task: Task, subsets: Array, members: Sequence[Member]) -> SubsetFit:
    """Fit the weighted mean of some candidates on several subsets.

    All share one preparation. The pilot is the first member's.
    """
    others = {m.candidate: m.weight for m in members if not _is_plain(m.candidate)}
    plain = _Plain(task, subsets, members, next(filter(has_start, others), None))
    coef = plain.coef
    refits = refit_coefs(task, subsets, list(others), plain.start)
    for candidate, weight in others.items():
        coef = coef + weight * refits[candidate]
    return SubsetFit(
        coef,
        intercepts(
            coef, task.samples, task.Y, subsets, task.fit_intercept, plain.means
        ),
        plain.pilot,
        *plain.certificate(),
    )


Setting = tuple[float, float, float]


def _setting(candidate: Candidate) -> Setting:
    return candidate.epsilon, candidate.lambda_sparse, candidate.lambda_low


def _is_plain(candidate: Candidate) -> bool:
    return candidate.refine in (None, "scale")


class _Plain:
    """The weighted sum of the paper's estimates, with their certificates.

    Estimates are added up as they are found, so that no more than a chunk of them
    is held; all penalties' pilots and the means take one pass over the samples.
    """

    def __init__(
        self,
        task: Task,
        subsets: Array,
        members: Sequence[Member],
        refit: Candidate | None,
    ):
        self.task, self.subsets = task, subsets
        self.found: list[Estimate] = []
        self.start: Array | None = None  # the estimate that a refit starts from
        # The first member's estimate is solved for in any case: its gap is told.
        shares: dict[Setting, list[Member]] = {_setting(members[0].candidate): []}
        if refit is not None:
            shares.setdefault(_setting(refit), [])
        for member in members:
            if _is_plain(member.candidate):
                shares.setdefault(_setting(member.candidate), []).append(member)
        epsilons = list(dict.fromkeys(setting[0] for setting in shares))
        penalties = as_array(epsilons, task.Y)
        pilots, self.means = task.system.coefs_and_means(subsets, penalties)
        xp = array_namespace(pilots)
        batch = (subsets.shape[0], task.Y.shape[1], *task.samples.shape)
        self.pilot = xp.reshape(pilots[:, 0, ...], batch)
        self.coef = 0.0 * self.pilot
        for e, epsilon in enumerate(epsilons):
            pairs = [pair for penalty, *pair in shares if penalty == epsilon]
            for pair, coef in self._path(pilots[:, e, ...], pairs):
                setting = (epsilon, *pair)
                if refit is not None and setting == _setting(refit):
                    self.start = or_pilots(coef, pilots[:, e, ...])
                for member in shares[setting]:
                    self.coef = self.coef + member.weight * _scaled(coef, member.scale)

    def _path(self, pilots: Array, pairs: list) -> Iterator[tuple[list, Array]]:
        """Yield each pair of radii and its coefficients (S, K, p1, …, pM)."""
        task = self.task
        xp = array_namespace(pilots)
        flat = xp.reshape(pilots, (-1, *task.samples.shape))
        sparse, low = (as_array(column, flat) for column in zip(*pairs, strict=True))
        radii = absolute_radii(flat, sparse, low, task.radius)
        for places, found in estimate_path(flat, *radii, task.settings):
            self.found.append(replace(found, coef=None))
            for i, place in enumerate(places):
                yield pairs[place], xp.reshape(found.coef[:, i, ...], self.pilot.shape)

    def certificate(self) -> tuple[Array, Array, Array]:
        """Return the largest gap and n_iter, and whether all converged: (S, K)."""
        xp = array_namespace(self.task.Y)
        shape = (self.subsets.shape[0], self.task.Y.shape[1])
        gap, n_iter, converged = (
            xp.concat([getattr(found, name) for found in self.found], axis=1)
            for name in ("gap", "n_iter", "converged")
        )
        worst = (xp.max(gap, axis=1), xp.max(n_iter, axis=1), xp.all(converged, axis=1))
        return tuple(xp.reshape(values, shape) for values in worst)


def _scaled(coef: Array, scale: np.ndarray | None) -> Array:
    if scale is None:
        return coef
    factors = as_array(scale, coef)
    return coef * factors[(slice(None), *([None] * (coef.ndim - 2)))]


def intercepts(
    coef: Array,
    samples: Samples,
    Y: Array,
    subsets: Array,
    fit_intercept: bool,
    means: Array | None = None,
) -> Array:
    """Return weighted means of y − ⟨coef, x⟩ over each subset: (S, K).

    `coef` has shape (S, K, p1, …, pM); `means` (S, P) are the subsets' mean samples,
    if they are known.
    """
    xp = array_namespace(coef)
    if not fit_intercept:
        return 0.0 * coef[(slice(None), slice(None), *([0] * (coef.ndim - 2)))]
    share = Centring.of_subsets(subsets, samples.weight, True).share
    if means is None:
        means = samples.design.combine(share)
    rows = xp.reshape(coef, (*coef.shape[:2], -1))
    return share @ Y - xp.sum(rows * means[:, None, :], axis=2)
