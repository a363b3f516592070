"""From chosen settings to fitted coefficients, on any subsets of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sltr._array import Array, array_namespace, as_array
from sltr.design import combine
from sltr.estimate import absolute_radii, estimate_path
from sltr.models.candidates import Candidate, refined
from sltr.models.folds import Task
from sltr.models.refits import (
    low_rank_fits,
    reweighted_fits,
    sparse_fits,
    start_estimates,
)
from sltr.validation import Samples

__all__ = ["Member", "SubsetFit", "all_of", "fit_subsets", "intercepts", "left_out"]


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
    samples = task.samples
    xp = array_namespace(samples.X)
    first = members[0].candidate
    plain = _Plain(task, subsets)
    plain.solve([first, *(m.candidate for m in members if _is_plain(m.candidate))])
    refits = _refits(task, subsets, [m.candidate for m in members])
    coef: Array = 0.0
    for member in members:
        part = refits.get(member.candidate)
        if part is None:
            part = plain.coefs[_setting(member.candidate)]
        if member.scale is not None:
            factors = as_array(member.scale, part)
            part = part * factors[(slice(None), *([None] * (part.ndim - 2)))]
        coef = coef + member.weight * part
    return SubsetFit(
        coef,
        intercepts(coef, samples, task.Y, subsets, task.fit_intercept),
        xp.reshape(plain.pilots[first.epsilon], coef.shape),
        *plain.certificate(),
    )


Setting = tuple[float, float, float]


def _setting(candidate: Candidate) -> Setting:
    return candidate.epsilon, candidate.lambda_sparse, candidate.lambda_low


def _is_plain(candidate: Candidate) -> bool:
    return candidate.refine in (None, "scale")


class _Plain:
    """The paper's estimates for some settings, with their certificates."""

    def __init__(self, task: Task, subsets: Array):
        self.task, self.subsets = task, subsets
        self.pilots: dict[float, Array] = {}
        self.coefs: dict[Setting, Array] = {}
        self.found: list = []

    def solve(self, candidates: Sequence[Candidate]) -> None:
        """Estimate every setting once, those of a penalty as one path."""
        settings = list(dict.fromkeys(map(_setting, candidates)))
        for epsilon in dict.fromkeys(setting[0] for setting in settings):
            pairs = [pair for penalty, *pair in settings if penalty == epsilon]
            self._path(epsilon, pairs)

    def _path(self, epsilon: float, pairs: list) -> None:
        task, shape = self.task, self.task.samples.shape
        xp = array_namespace(task.Y)
        penalty = as_array([epsilon], task.Y)
        flat = task.system.coefs(self.subsets, penalty)[:, 0, ...]
        flat = xp.reshape(flat, (-1, *shape))
        self.pilots[epsilon] = flat
        sparse, low = (as_array(column, flat) for column in zip(*pairs, strict=True))
        radii = absolute_radii(flat, sparse, low, task.radius)
        batch = (self.subsets.shape[0], task.Y.shape[1])
        for places, found in estimate_path(flat, *radii, task.settings):
            self.found.append(found)
            for i, place in enumerate(places):
                coef = xp.reshape(found.coef[:, i, ...], (*batch, *shape))
                self.coefs[(epsilon, *pairs[place])] = coef

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


def _refits(
    task: Task, subsets: Array, candidates: Sequence[Candidate]
) -> dict[Candidate, Array]:
    """Return the refitted candidates' coefficients, (S, K, p1, …, pM)."""
    xp = array_namespace(task.Y)
    shape = task.samples.shape
    found: dict[Candidate, Array] = {}
    sparse = [c for c in candidates if c.refine == "sparse"]
    for candidate in sparse:
        rows = [
            sparse_fits(task, subsets[s, :], [[candidate]])[0][0]
            for s in range(subsets.shape[0])
        ]
        found[candidate] = xp.reshape(
            xp.stack(rows, axis=0), (subsets.shape[0], -1, *shape)
        )
    others = [c for c in candidates if c.refine in ("reweight", "tucker", "cp")]
    if not others:
        return found
    base = replace(
        others[0], refine=None, rank=0, ridge=None, steps=0, start=None
    )  # the same for all of them
    estimates = start_estimates(task, subsets, base)
    seeds = None
    if any("reweight" in (c.refine, c.start) for c in others):
        each = [
            reweighted_fits(task, subsets[s, :], estimates[s, ...])
            for s in range(subsets.shape[0])
        ]
        steps = {step: xp.stack([part[step] for part in each]) for step in each[0]}
        seeds = steps[max(steps)]
        found |= {c: steps[c.steps] for c in others if c.refine == "reweight"}
    for kind in ("tucker", "cp"):
        mine = {c for c in others if c.refine == kind}
        for start, coefs in (("estimate", estimates), ("reweight", seeds)):
            wanted = {c for c in mine if c.start == start}
            if not wanted:
                continue
            known = [c for c in refined(kind, base, shape) if c.start == start]
            fits = low_rank_fits(task, subsets, base, kind, {start: coefs})
            for candidate, refit in zip(known, fits, strict=False):
                if candidate in wanted:
                    found[candidate] = xp.reshape(refit.coef(), estimates.shape)
                    wanted.remove(candidate)
                if not wanted:
                    break
    return found


def intercepts(
    coef: Array, samples: Samples, Y: Array, subsets: Array, fit_intercept: bool
) -> Array:
    """Return weighted means of y − ⟨coef, x⟩ over each subset: (S, K).

    `coef` has shape (S, K, p1, …, pM).
    """
    xp = array_namespace(coef)
    if not fit_intercept:
        return 0.0 * coef[(slice(None), slice(None), *([0] * (coef.ndim - 2)))]
    weight = xp.where(subsets, samples.weight, 0.0)
    share = weight / xp.sum(weight, axis=1, keepdims=True)
    means = combine(share, samples.flat)  # (S, P)
    rows = xp.reshape(coef, (*coef.shape[:2], -1))
    return share @ Y - xp.sum(rows * means[:, None, :], axis=2)
