"""Coefficients of chosen refits, on any subsets of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sltr._array import Array, array_namespace, as_array
from sltr.models.candidates import Candidate
from sltr.models.folds import Task, about_means, in_range
from sltr.models.refits import (
    low_rank_fits,
    low_rank_seeds,
    reweighted_fits,
    sparse_fits,
    start_estimates,
    sweeps,
)

__all__ = ["has_start", "refit_coefs"]


def has_start(candidate: Candidate) -> bool:
    """Say whether a refit starts from an estimate, the same for all that do."""
    return candidate.refine in ("reweight", "tucker", "cp")


def refit_coefs(
    task: Task,
    subsets: Array,
    candidates: Sequence[Candidate],
    estimates: Array | None = None,
) -> dict[Candidate, Array]:
    """Return the refitted candidates' coefficients, (S, K, p1, …, pM).

    `estimates` are those that refits start from, if they are known.
    """
    if not candidates:
        return {}
    xp, dtype = array_namespace(task.Y), task.Y.dtype
    refits = [c for c in candidates if has_start(c)]
    if refits and estimates is None:
        base = _start(refits)
        pilots = task.system.coefs(subsets, as_array([base.epsilon], task.Y))
        estimates = start_estimates(task, pilots[:, 0, ...], base)
    task = in_range(about_means(task)[0])
    sparse = [c for c in candidates if c.refine == "sparse"]
    found = _sparse_refits(task, subsets, sparse)
    if refits and estimates is not None:
        estimates = xp.astype(estimates, task.Y.dtype)
        found |= _refits_from(task, subsets, refits, estimates)
    return {c: xp.astype(coef, dtype) for c, coef in found.items()}


def _start(refits: Sequence[Candidate]) -> Candidate:
    """Return the setting all refits start from: the same for all of them."""
    return replace(refits[0], refine=None, rank=0, ridge=None, steps=0)


def _refits_from(
    task: Task, subsets: Array, refits: Sequence[Candidate], estimates: Array
) -> dict[Candidate, Array]:
    """Return reweighted and low-rank refits of estimates, (S, K, p1, …, pM)."""
    xp = array_namespace(estimates)
    found: dict[Candidate, Array] = {}
    base = _start(refits)
    steps = None
    if len(task.samples.shape) > 1:
        steps = reweighted_fits(task, subsets, estimates)
        found |= {c: steps[c.steps] for c in refits if c.refine == "reweight"}
    low_rank = [c for c in refits if c.refine != "reweight"]
    if not low_rank:
        return found
    problem, seeds = sweeps(task, subsets), low_rank_seeds(estimates, steps)
    for kind in dict.fromkeys(str(c.refine) for c in low_rank):
        wanted = {c for c in low_rank if c.refine == kind}
        ranks = [c.rank for c in wanted if isinstance(c.rank, tuple)]
        for one_rank in low_rank_fits(
            task, problem, base, kind, seeds, ranks=dict.fromkeys(ranks)
        ):
            for candidate in [c for c in one_rank if c in wanted]:
                coef = one_rank[candidate].coef()
                found[candidate] = xp.reshape(coef, estimates.shape)
                wanted.remove(candidate)
            if not wanted:
                break
    return found


def _sparse_refits(
    task: Task, subsets: Array, candidates: Sequence[Candidate]
) -> dict[Candidate, Array]:
    """Return sparse refits, (S, K, p1, …, pM); all thresholds are one batch."""
    if not candidates:
        return {}
    radii = sorted({c.lambda_sparse for c in candidates})
    ridges = list(dict.fromkeys(c.ridge for c in candidates))
    shape = (subsets.shape[0], task.Y.shape[1], *task.samples.shape)
    # They all have the same penalty, which the Lasso does not need.
    return {
        candidate: array_namespace(coef).reshape(coef, shape)
        for candidate, coef in sparse_fits(
            task, subsets, candidates[0].epsilon, radii, ridges
        )
        if candidate in candidates
    }
