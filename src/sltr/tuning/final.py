"""The final fit: the chosen candidates' mean, and the sparse problem about it.

The weighted mean of the chosen candidates, at the lowest ranks that held-out errors
allow, is the refined pilot. The last step makes the answer from it: the sparsest tensor
in a box about the refined pilot. Held-out errors say how wide the box is. Where nothing
predicts clearly better than the null model, the answer is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.estimate import adaptive_estimate, lowest_ranks
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import Candidate
from sltr.tuning.choose import AVERAGES, Choice, Last, Member, sample_losses
from sltr.tuning.evidence import is_found
from sltr.tuning.fits import (
    CoefsOf,
    PlainFits,
    pilot_where_zero,
    plain_fits,
    refit_coefs,
)
from sltr.tuning.folds import Folds, close_to, excess_of, fold_batches
from sltr.tuning.held_out import HeldOut
from sltr.tuning.policy import Policy
from sltr.tuning.task import Pilots, Task, ridge_pilots


@dataclass(frozen=True, eq=False)
class Fitted:
    """SLTR fitted on S subsets of the samples, for K responses each.

    Coefficients are those of the samples as they were before the map in front, and
    of the responses less what was subtracted from them.

    Gap, iterations and convergence are the worst of the estimates that were solved
    for. Where refits take part, the coefficient is the exact solution of the last
    step's problem instead: of radius zero, with a single point, if none was chosen.
    """

    coef: Array  # (S, K, p1, …, pM)
    refined: Array  # (S, K, p1, …, pM), the refined pilot
    pilot: Array  # (S, K, p1, …, pM), the ridge pilot of the first member
    intercept: Array  # (S, K), and so have the rest
    covariate_coef: Array  # (S, q, K)
    gap: Array
    n_iter: Array
    converged: Array
    lasso_gap: float = 0.0  # where a Lasso refit ran out of steps
    residual: float = 0.0  # of a likelihood's pilots, see `Pilots`
    closed: bool = False  # whether the coefficient is a closed form

    @property
    def dual_gap(self) -> float:
        """The largest gap of the coefficients on all samples, the first subset."""
        return 0.0 if self.closed else float(to_numpy(self.gap[0, :]).max())


def final_fit(
    task: Task,
    members: Sequence[Member],
    training: Array,
    held: HeldOut | None = None,
    last: Last | None = None,
) -> Fitted:
    """Fit the weighted mean of some candidates on each of the subsets (S, n).

    The `last` step lowers its ranks, and makes the answer from that. Refits that `held`
    knows are not made again: the subset is all samples, perhaps followed by the folds.
    """
    subsets: list[int] = []
    if held is not None:
        n_folds = len(held.folds.rows)
        # All samples come last there, and first here.
        subsets = [n_folds, *range(n_folds)][: training.shape[0]]
    # In memory the final fit is more exact than those on the folds were.
    known = held.coefs if held is not None and is_lazy(task.samples.X) else {}
    task = task if held is None else replace(task, working=held.working)
    mean = _mean_fit(task, members, training, known, subsets)
    coef, entries = mean.coef, task.front.unsmoothed(mean.coef)
    answer = entries
    if last is not None and not last.stays:
        entries, answer = _last_estimates(entries, last)
        coef = task.front.smoothed(answer)
    beside = basis_coefs(coef, task, training, mean.pilots)  # (S, b, K)
    n_first = int(task.fit_intercept)
    xp, unit = array_namespace(coef), as_array(task.y_unit, coef)
    pilot = xp.reshape(mean.pilots.coef[:, 0, ...], coef.shape)
    gap, n_iter, converged = _worst(mean.solved, mean.pilots)
    return Fitted(
        _as_given(task, answer),
        _as_given(task, entries),
        _as_given(task, task.front.unsmoothed(pilot)),
        xp.sum(beside[:, :n_first, :], axis=1) * unit,
        beside[:, n_first:, :] * unit,
        gap,
        n_iter,
        converged,
        lasso_gap=mean.lasso_gap,
        residual=mean.pilots.residual,
        closed=last is not None or not all(m.candidate.is_plain for m in members),
    )


def last_step(
    task: Task, held: HeldOut, choice: Choice, rule: str
) -> tuple[HeldOut, Choice]:
    """Return the choice with its last step, if the answer is a mean with refits in it.

    Without refits the grid is the paper's problem already. Refits of a likelihood see
    what its working responses are, which come along.
    """
    if rule not in AVERAGES or all(c.is_plain for c in held.predictions):
        return held, choice
    choice = choose_radii(task, held, choice)
    if task.family is None:
        return held, choice
    return reweighted_choice(task, held, choice)


def choose_radii(task: Task, held: HeldOut, choice: Choice) -> Choice:
    """Return the choice with the radii of the last step, and what it predicts.

    The chosen mean is made on each fold, of coefficients that the search has kept if
    there was room. First its ranks are lowered as far as the held-out error is sure to
    stay. About that every radius of the box is tried. The one of least held-out error
    is taken if that is clearly enough below the error of the first, radius 0: zeros
    that do not pay may be wrong. The answer is the null model (radius 1) unless
    something was found. Refits are in single precision, as when they were chosen.
    """
    task, folds = task.with_loose_gap(), held.folds
    task = replace(task, working=held.working)
    radii, n_folds = task.policy.last_radii, len(folds.rows)
    means: list[tuple[range, Array, Array]] = []
    lower: list[np.ndarray] = []  # predictions (n_rows, K, R) by fold
    epsilons = {member.candidate.epsilon for member in choice.members}
    for batch in fold_batches(task, folds, len(epsilons) + len(radii)):
        indices = range(n_folds)[batch]
        members = [_of_folds(held, member, indices) for member in choice.members]
        training = folds.training[batch, ...]
        precision = task.policy.precision
        known = held.coefs, indices, precision, held.pilots
        mean = _mean_fit(task, members, training, *known)
        entries, removed = task.front.unsmoothed(mean.coef), mean.pilots.removed
        means.append((indices, entries, removed))
        lower += _predictions(task, folds, means[-1], lowest_ranks, radii)
    low = _lowest(task.policy, *sample_losses(folds, lower))
    sparser: list[np.ndarray] = []
    for indices, entries, removed in means:
        entries = _shrunk(lowest_ranks, entries, [radii[low]])[:, :, 0, ...]
        part = indices, entries, removed
        sparser += _predictions(task, folds, part, adaptive_estimate, radii)
    losses, weight = sample_losses(folds, sparser)
    best = int(np.argmin(weight @ losses))
    if close_to(best, losses, weight, errors=task.policy.zeros_pay)[0]:
        best = 0
    values = [p[:, :, best] for p in sparser]
    refined = choice.common or [p[:, :, 0] for p in lower]
    if is_found(task, folds, refined, values):
        return _with_last(folds, choice, Last(radii[low], radii[best]), values)
    nothing = [0.0 * p for p in values]
    return _with_last(folds, choice, Last(radii[low], 1.0), nothing)


def _lowest(policy: Policy, losses: np.ndarray, weight: np.ndarray) -> int:
    """Return the last radius up to which losses (n, R) are sure to stay as they are."""
    rise, error = excess_of(0, losses, weight, 0.0)
    allowed = policy.low_share * (weight @ losses[:, 0]) / weight.sum()
    sure = rise + policy.low_errors * error <= allowed
    return int(np.argmin(np.append(sure[1:], False)))


def reweighted_choice(
    task: Task, held: HeldOut, choice: Choice
) -> tuple[HeldOut, Choice]:
    """Return the choice with its members refitted about the answer, of a likelihood.

    Refits saw the working responses at the ridge pilots. Those at the answer itself,
    on each fold that of its own training samples, make the next answer, as long as its
    deviance on the rows left out falls, and at most `Policy.reweightings` times.
    """
    from sltr.tuning.likelihood import working_at

    folds = held.folds
    xp, subsets = array_namespace(task.Y), [task.everyone, folds.training]
    training = xp.concat(subsets, axis=0)
    for _ in range(task.policy.reweightings):
        found = choice.last is not None and choice.last.sparse < 1.0
        if not found or held.working is None:
            break
        eta = _likely_predictions(task, held, choice, training)
        again = replace(
            held,
            working=working_at(task, training, eta),
            coefs={c: known for c, known in held.coefs.items() if c.is_plain},
        )
        other = choose_radii(task, again, choice)
        if not _deviance(folds, other) < _deviance(folds, choice):
            break
        held, choice = again, other
    return held, choice


def _deviance(folds: Folds, choice: Choice) -> float:
    parts = zip(choice.held_out, folds.baseline, strict=True)
    return folds.total(folds.losses([values - known for values, known in parts]))


def _likely_predictions(
    task: Task, held: HeldOut, choice: Choice, training: Array
) -> Array:
    """Return η (S, n, K) of the answer on all samples and on each fold's."""
    task, xp = task.with_loose_gap(), array_namespace(task.Y)
    task, precision = replace(task, working=held.working), task.policy.precision
    mean = _mean_fit(task, choice.members, training, {}, (), precision)
    coef = mean.coef
    if choice.last is not None and not choice.last.stays:
        entries = task.front.unsmoothed(coef)
        coef = task.front.smoothed(_last_estimates(entries, choice.last)[1])
    beside = basis_coefs(coef, task, training, mean.pilots)  # (S, b, K)
    basis = task.centring(training).basis
    rows = xp.reshape(coef, (-1, mean.pilots.coef.shape[-1]))
    values = task.samples.design.inner(rows)  # (n, S·K)
    shape = (values.shape[0], *coef.shape[:2])
    return xp.moveaxis(xp.reshape(values, shape), 0, 1) + basis @ beside


def _with_last(
    folds: Folds, choice: Choice, last: Last, values: Sequence[np.ndarray]
) -> Choice:
    held_out = [p + mean for p, mean in zip(values, folds.baseline, strict=True)]
    return replace(choice, last=last, held_out=held_out)


def _of_folds(held: HeldOut, member: Member, indices: Sequence[int]) -> Member:
    """Return a member with each fold's own factors, which know none of its rows."""
    if member.scale is None or member.candidate not in held.factors:
        return member
    factors = held.factors[member.candidate]
    return replace(member, scale=np.stack([factors[f] for f in indices]))


def _predictions(
    task: Task,
    folds: Folds,
    means: tuple[Sequence[int], Array, Array],
    estimate: Callable[[Array, Array], Array],
    radii: Sequence[float],
) -> list[np.ndarray]:
    """Return what estimates about some folds' means predict there, (n_rows, K, R).

    `means` are the folds, their entries (S, K, …), and what was removed from samples.
    """
    (indices, entries, removed), coefs = means, []
    xp = array_namespace(entries)
    for s in range(len(indices)):
        shrunk = _shrunk(estimate, entries[s : s + 1, ...], radii)  # (1, K, R, …)
        batch = shrunk.shape[:3]
        flat = xp.reshape(shrunk, (1, -1, *shrunk.shape[3:]))
        coefs.append(xp.reshape(task.front.smoothed(flat), (*batch[1:], -1)))
    each = [removed[s, ...] for s in range(len(indices))]
    return folds.predictions(task, indices, coefs, each, axis=1)


@dataclass(frozen=True, eq=False)
class _Mean:
    """The weighted mean of some candidates on S subsets, in front coordinates."""

    coef: Array  # (S, K, p1, …, pM)
    pilots: Pilots
    solved: list[PlainFits]  # without coefficients
    lasso_gap: float


def _mean_fit(
    task: Task,
    members: Sequence[Member],
    training: Array,
    known: Mapping[Candidate, CoefsOf],
    subsets: Sequence[int],
    precision: str | None = None,
    pilots: Pilots | None = None,
) -> _Mean:
    """Fit the weighted mean of some candidates on each of the subsets (S, n).

    All penalties' pilots take one pass over the samples. Estimates are added up as
    they are found, so that only a chunk of them is held. Candidates that are `known`
    are not fitted again; `subsets` are the numbers by which they know the subsets.
    `pilots` are those of the subsets for some penalties, if they are known.
    """
    fitted = [m for m in members if m.candidate.source not in known]
    refits = {m.candidate: m.share for m in fitted if not m.candidate.is_plain}
    # Refits start from the estimate of theirs that is the first of those that share a
    # tensor, or do not.
    starts = {c.shared: c.plain for c in reversed(refits) if c.has_start}
    by_setting: dict[Candidate, list[Member]] = {}
    for start in starts.values():
        by_setting.setdefault(start, [])
    for member in fitted:
        if member.candidate.is_plain:
            by_setting.setdefault(member.candidate.plain, []).append(member)
    pilots_of = [members[0].candidate, *by_setting]  # the first one's is reported
    epsilons = list(dict.fromkeys(candidate.epsilon for candidate in pilots_of))
    if task.family is not None and refits and task.working is None:
        from sltr.tuning.likelihood import working_responses

        working = working_responses(task, training, epsilons[0])
        task = replace(task, working=working)
    pilots = pilots and pilots.of_penalties(epsilons)
    pilots = pilots or ridge_pilots(task, training, epsilons)
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
                    pilot = about[:, 0, ...]
                    estimates[shared] = pilot_where_zero(values, pilot, variant)
                for member in by_setting[setting]:
                    coef = coef + _scaled(values, member.share)
    for member in members:
        if member.candidate.source in known:
            values = known[member.candidate.source](subsets)
            values = xp.astype(xp.reshape(values, coef.shape), coef.dtype)
            coef = coef + _scaled(values, member.share)
    shape = (*coef.shape[:2], *task.samples.shape)
    coef = xp.reshape(coef, shape)
    gaps = [0.0]
    for shared in (False, True):
        same = [c for c in refits if c.shared == shared]
        variant, begun = task.sharing(shared), estimates.get(shared)
        if is_lazy(task.samples.X):
            from sltr.tuning.passes import given_refits

            found = given_refits(variant, training, same, gaps.append)
        else:
            found = refit_coefs(
                variant, training, same, begun, gaps.append, precision=precision
            )
        for candidate, values in found.items():
            share = as_array(refits[candidate], values)
            coef = coef + values * xp.reshape(share, (-1, *[1] * (coef.ndim - 2)))
    return _Mean(coef, pilots, solved, max(gaps))


def _last_estimates(entries: Array, last: Last) -> tuple[Array, Array]:
    """Return the refined pilots (S, K, …) made of some means, and the answers."""
    lowered = _shrunk(lowest_ranks, entries, [last.low])[:, :, 0, ...]
    return lowered, _shrunk(adaptive_estimate, lowered, [last.sparse])[:, :, 0, ...]


def _shrunk(
    estimate: Callable[[Array, Array], Array], entries: Array, radii: Sequence[float]
) -> Array:
    """Return estimates about pilots (S, K, …) for all radii, (S, K, R, …)."""
    xp, batch = array_namespace(entries), entries.shape[:2]
    pilots = xp.reshape(entries, (-1, *entries.shape[2:]))
    found = estimate(pilots, as_array(list(radii), entries))
    return xp.reshape(found, (*batch, *found.shape[1:]))


def _as_given(task: Task, entries: Array) -> Array:
    """Return entries (S, K, …) without the map in front, in y's units."""
    xp = array_namespace(entries)
    if np.ndim(task.y_unit):
        unit = as_array(task.y_unit, entries)
        entries = entries * xp.reshape(unit, (-1, *[1] * (entries.ndim - 2)))
    return task.front.of_given(entries)


def _scaled(coef: Array, scale: np.ndarray) -> Array:
    """Return coefficients (S, K, P) times factors (K,) or (S, K)."""
    return coef * as_array(scale, coef)[..., None]


def _worst(solved: Sequence[PlainFits], pilots: Pilots) -> tuple[Array, Array, Array]:
    """Return the largest gap and n_iter, and whether all converged: (S, K)."""
    xp = array_namespace(pilots.coef)
    if not solved:  # a Lasso needs no estimate
        nothing = 0.0 * pilots.coef[:, 0, :, 0]
        return nothing, nothing, nothing == 0.0
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
    if task.family is not None:
        from sltr.tuning.likelihood import likely_basis_coefs

        return likely_basis_coefs(rows, task, training, pilots) - explained
    return task.centring(training).share @ task.Y - explained
