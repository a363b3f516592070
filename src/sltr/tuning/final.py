"""The final fit: the chosen candidates on given subsets, and their weighted mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sltr.arrays import Array, array_namespace, as_array
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import Candidate
from sltr.tuning.choose import Member
from sltr.tuning.fits import PlainFits, pilot_where_zero, plain_fits, refit_coefs
from sltr.tuning.held_out import HeldOut
from sltr.tuning.passes import given_refits
from sltr.tuning.task import Pilots, Task, ridge_pilots


@dataclass(frozen=True, eq=False)
class Fitted:
    """SLTR fitted on S subsets of the samples, for K responses each.

    Coefficients are those of the samples as they were before the map in front, and
    of the responses less what was subtracted from them.

    Gap, iterations and convergence are the worst of the estimates that were solved
    for.
    """

    coef: Array  # (S, K, p1, …, pM)
    pilot: Array  # (S, K, p1, …, pM), of the first member
    intercept: Array  # (S, K), and so have the rest
    covariate_coef: Array  # (S, q, K)
    gap: Array
    n_iter: Array
    converged: Array
    lasso_gap: float = 0.0  # where a Lasso refit ran out of steps


def final_fit(
    task: Task,
    members: Sequence[Member],
    training: Array,
    held: HeldOut | None = None,
) -> Fitted:
    """Fit the weighted mean of some candidates on each of the subsets (S, n).

    All penalties' pilots take one pass over the samples. Estimates are added up as
    they are found, so that only a chunk of them is held. Refits that `held` knows are
    not made again: the subset is all samples, perhaps followed by the folds.
    """
    refits = {m.candidate: m.weight for m in members if not m.candidate.is_plain}
    # Refits start from the estimate of theirs that is the first of those that share a
    # tensor, or do not.
    starts = {c.shared: c.plain for c in reversed(refits) if c.has_start}
    # The first member's estimate is solved for in any case: its gap is reported.
    by_setting: dict[Candidate, list[Member]] = {members[0].candidate.plain: []}
    for start in starts.values():
        by_setting.setdefault(start, [])
    for member in members:
        if member.candidate.is_plain:
            by_setting.setdefault(member.candidate.plain, []).append(member)
    epsilons = list(dict.fromkeys(c.epsilon for c in by_setting))
    pilots = ridge_pilots(task, training, epsilons)
    xp = array_namespace(pilots.coef)
    coef = 0.0 * pilots.coef[:, 0, ...]  # (S, K, P)
    estimates: dict[bool, Array] = {}
    solved: list[PlainFits] = []
    for shared, (e, epsilon) in product((False, True), enumerate(epsilons)):
        variant, about = task.sharing(shared), pilots.coef[:, e : e + 1, ...]
        some = [c for c in by_setting if (c.shared, c.epsilon) == (shared, epsilon)]
        pairs = [c.radii for c in some]
        for fits in plain_fits(variant, about, pairs) if some else ():
            solved.append(replace(fits, coef=None))  # only certificates are needed
            for pair in fits.pairs:
                setting = Candidate(epsilon, *pair, shared=shared)
                values = fits.of_pair(pair)[:, 0, ...]
                if setting == starts.get(shared):
                    first = about[:, 0, ...]
                    estimates[shared] = pilot_where_zero(values, first, variant)
                for member in by_setting[setting]:
                    coef = coef + member.weight * _scaled(values, member.scale)
    shape = (*coef.shape[:2], *task.samples.shape)
    coef = xp.reshape(coef, shape)
    gaps = [0.0]
    for shared in (False, True):
        same = [c for c in refits if c.shared == shared]
        variant, begun = task.sharing(shared), estimates.get(shared)
        refitted = _refitted(variant, training, same, begun, gaps.append, held)
        for candidate, values in refitted.items():
            coef = coef + refits[candidate] * values
    beside = basis_coefs(coef, task, training, pilots)  # (S, b, K)
    n_first, unit = int(task.fit_intercept), as_array(task.y_unit, coef)
    pilot = xp.reshape(pilots.coef[:, 0, ...], shape)
    return Fitted(
        _as_given(task, coef),
        _as_given(task, pilot),
        xp.sum(beside[:, :n_first, :], axis=1) * unit,
        beside[:, n_first:, :] * unit,
        *_worst(solved),
        lasso_gap=max(gaps),
    )


def _refitted(
    task: Task,
    training: Array,
    candidates: Sequence[Candidate],
    estimates: Array | None,
    unconverged: Callable[[float], object],
    held: HeldOut | None,
) -> dict[Candidate, Array]:
    """Return the coefficients of refits, (S, K, p1, …, pM)."""
    if not is_lazy(task.samples.X):
        return refit_coefs(task, training, candidates, estimates, unconverged)
    known = {} if held is None else held.answers
    subsets: list[int] = []
    if held is not None:
        n_folds = len(held.folds.rows)
        # All samples come last there, and first here.
        subsets = [n_folds, *range(n_folds)][: training.shape[0]]
    found = {c: known[c](subsets) for c in candidates if c in known}
    rest = [c for c in candidates if c not in known]
    return found | given_refits(task, training, rest, unconverged)


def _as_given(task: Task, coef: Array) -> Array:
    """Return coefficients (S, K, …) without the map in front, in y's units."""
    xp, batch = array_namespace(coef), coef.shape[:2]
    if np.ndim(task.y_unit):
        unit = as_array(task.y_unit, coef)
        coef = coef * xp.reshape(unit, (-1, *[1] * (coef.ndim - 2)))
    if task.front is None:
        return coef
    found = task.front.coef(xp.reshape(coef, (-1, *coef.shape[2:])))
    return xp.reshape(found, (*batch, *found.shape[1:]))


def _scaled(coef: Array, scale: np.ndarray | None) -> Array:
    """Return coefficients (S, K, P) times each response's factor."""
    return coef if scale is None else coef * as_array(scale, coef)[:, None]


def _worst(solved: Sequence[PlainFits]) -> tuple[Array, Array, Array]:
    """Return the largest gap and n_iter, and whether all converged: (S, K)."""
    xp = array_namespace(solved[0].gap)
    gap, n_iter, converged = (
        xp.concat([getattr(fits, name)[:, 0, ...] for fits in solved], axis=2)
        for name in ("gap", "n_iter", "converged")
    )
    return xp.max(gap, axis=2), xp.max(n_iter, axis=2), xp.all(converged, axis=2)


def basis_coefs(coef: Array, task: Task, training: Array, pilots: Pilots) -> Array:
    """Return the regression of y − ⟨coef, x⟩ on intercept and covariates, (S, b, K).

    `coef` is (S, K, p1, …, pM); `pilots` know the same regression of the samples.
    """
    xp = array_namespace(coef)
    rows = xp.reshape(coef, (*coef.shape[:2], -1))
    explained = pilots.removed @ xp.matrix_transpose(rows)
    return task.centring(training).share @ task.Y - explained
