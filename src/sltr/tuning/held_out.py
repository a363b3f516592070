"""Held-out predictions of all candidates, and their losses.

Each chunk of coefficients is predicted as soon as it is solved. For samples that stay
in a file or on a cluster, `stored` lets them wait for one pass over X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    to_numpy,
    to_python,
)
from sltr.arrays.resources import row_ranges
from sltr.refine.factors import Structure
from sltr.samples.samples import is_lazy
from sltr.tuning.candidates import Candidate, Grid
from sltr.tuning.fits import CoefsOf, PlainFits
from sltr.tuning.folds import Folds
from sltr.tuning.task import Pilots, Task

if TYPE_CHECKING:
    from sltr.tuning.likelihood import Working


class Row(NamedTuple):
    """One candidate's predictions of the rows that one fold leaves out."""

    candidate: Candidate
    fold: int
    predictions: np.ndarray  # (n_rows, K), less the fold's baseline
    complexity: float  # free parameters, relative to P


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The predictions of all candidates, by candidate and then by fold."""

    folds: Folds
    predictions: dict[Candidate, list[np.ndarray]]
    complexity: dict[Candidate, float]  # the mean over folds
    # Of scaled candidates, for each fold, (K,); fitted without the rows it holds out.
    factors: dict[Candidate, list[np.ndarray]] = field(default_factory=dict)
    # Coefficients that were kept, or can be made again. The subsets are the folds; and
    # all samples, which come last, where these are left in place.
    coefs: dict[Candidate, CoefsOf] = field(default_factory=dict)
    working: Working | None = None  # of a likelihood, what refits saw
    pilots: Pilots | None = None  # of the folds, for samples in memory

    def factor(self, candidate: Candidate, f: int) -> np.ndarray | float:
        """Return what to multiply a candidate's predictions of fold f by."""
        return self.factors[candidate][f] if candidate in self.factors else 1.0

    def with_rows(
        self,
        rows: Iterable[Row],
        coefs: Mapping[Candidate, CoefsOf] | None = None,
        grid: Grid | None = None,
    ) -> HeldOut:
        """Return the table with more candidates, those of a `grid` in its order.

        The order matters because ties go to the first.
        """
        n_folds = len(self.folds.rows)
        predictions, complexity = dict(self.predictions), dict(self.complexity)
        for candidate in grid.plain if grid else ():
            predictions[candidate] = [np.empty(0)] * n_folds
        for row in rows:
            by_fold = predictions.setdefault(row.candidate, [np.empty(0)] * n_folds)
            by_fold[row.fold] = row.predictions
            before = complexity.get(row.candidate, 0.0)
            complexity[row.candidate] = before + row.complexity / n_folds
        known = {**self.coefs, **(coefs or {})}
        return replace(
            self, predictions=predictions, complexity=complexity, coefs=known
        )

    @cached_property
    def losses(self) -> dict[Candidate, np.ndarray]:
        """Squared errors of all held-out samples, of candidates that are finite."""
        losses = {c: self.folds.losses(p) for c, p in self.predictions.items()}
        return {c: values for c, values in losses.items() if np.isfinite(values).all()}

    def refined(
        self,
        refinements: Sequence[str | None],
        factors: Sequence[Mapping[Candidate, np.ndarray]] = (),
    ) -> HeldOut:
        """Return the table of what was asked for: scaled estimates join at the end.

        They have the plain estimates' predictions, which are multiplied by each fold's
        `factors` when compared.
        """
        plain = [c for c in self.predictions if c.refine is None]
        scaled = {replace(c, refine="scale"): c for c in plain}
        sources = {c: c for c in self.predictions}
        if "scale" in refinements:
            sources |= scaled
        if None not in refinements:
            sources = {c: source for c, source in sources.items() if c.refine}
        return replace(
            self,
            predictions={c: self.predictions[s] for c, s in sources.items()},
            complexity={c: self.complexity[s] for c, s in sources.items()},
            factors={
                c: [by_candidate[source] for by_candidate in factors]
                for c, source in scaled.items()
                if c in sources and factors
            },
        )


def scale_factors(
    predictions: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
) -> np.ndarray:
    """Return least-squares factors on held-out predictions, one per response (K,).

    Predictions and targets (n_rows, K) are about their folds' training means. A
    factor below zero says that nothing was found; it counts as zero.
    """
    known = [~np.isnan(t) for t in targets]
    predictions = [np.where(k, p, 0.0) for p, k in zip(predictions, known, strict=True)]
    targets = [np.where(k, t, 0.0) for t, k in zip(targets, known, strict=True)]
    parts = list(zip(predictions, targets, weights, strict=True))
    cross = np.sum([w @ (p * t) for p, t, w in parts], axis=0)
    size = np.sum([w @ (p * p) for p, _, w in parts], axis=0)
    target = np.sum([w @ (t * t) for _, t, w in parts], axis=0)
    # Predictions of the size of rounding are none.
    rounding = 10.0 * max(float(np.finfo(p.dtype).eps) for p, _, _ in parts)
    some = size > rounding**2 * target
    factors = np.divide(cross, size, out=np.ones_like(size), where=some)
    return np.clip(factors, 0.0, None)


@dataclass(frozen=True, eq=False)
class Part:
    """Folds and penalties whose grid is solved together."""

    folds: range
    pilots: Pilots


def dense_coefs(task: Task, batches: Sequence[Array]) -> CoefsOf:
    """Return what gives coefficients that are known, in batches (s, K, …)."""
    shape, xp = task.samples.shape, array_namespace(*batches)

    def coefs(subsets: Sequence[int]) -> Array:
        parts = [xp.reshape(part, (*part.shape[:2], *shape)) for part in batches]
        whole = xp.concat(parts, axis=0)
        return xp.take(whole, as_array(list(subsets), whole, dtype=xp.int64), axis=0)

    return coefs


def predicted(
    task: Task,
    folds: Folds,
    waiting: Sequence[tuple[Part, PlainFits]],
    needs_complexity: bool,
) -> Iterator[Row]:
    """Predict the held-out rows of all coefficients that wait, in one pass."""
    each = [
        (part, fits, s, f) for part, fits in waiting for s, f in enumerate(part.folds)
    ]
    found = folds.predictions(
        task,
        [f for *_, f in each],
        [fits.coef[s, ...] for _, fits, s, _ in each],  # (E, K, g, P)
        [part.pilots.removed[s, ...] for part, _, s, _ in each],
    )
    sizes = {
        id(fits): to_numpy(fits.complexity(task.samples.shape, task.shared))
        for _, fits in waiting
        if needs_complexity
    }
    for (part, fits, s, f), values in zip(each, found, strict=True):
        size = sizes.get(id(fits))
        for e, epsilon in enumerate(part.pilots.epsilons):
            for g, pair in enumerate(fits.pairs):
                complexity = 0.0 if size is None else float(size[s, e, g])
                candidate = Candidate(epsilon, *pair, shared=bool(task.shared))
                yield Row(candidate, f, values[:, e, :, g], complexity)


def coef_rows(
    task: Task,
    folds: Folds,
    removed: Array,
    coefs: Sequence[tuple[Candidate, Array]],
    complexity: Callable[[Array], list[float]],
    indices: Sequence[int] | None = None,
) -> list[Row]:
    """Return the predictions of refitted coefficients (S, K, …), candidates in order.

    `removed` (F, b, P) is what was removed from the samples of each fold. `indices` are
    the folds that the S subsets belong to; by default all of them.
    """
    xp, n_responses = array_namespace(task.Y), task.Y.shape[1]
    indices = range(len(folds.rows)) if indices is None else indices
    # One pass for all folds over a file; in memory a copy of one fold's at a time.
    size = len(indices) if is_lazy(task.samples.X) else 1
    rows: list[Row] = []
    for some in row_ranges(len(indices), size):
        flat = [
            xp.concat([xp.reshape(c[s, ...], (n_responses, -1)) for _, c in coefs])
            for s in range(some.start, some.stop)
        ]
        shape = len(coefs), n_responses, -1
        stacks = [xp.reshape(one, shape) for one in flat]
        own = indices[some]
        found = folds.predictions(task, own, stacks, [removed[f, ...] for f in own])
        for f, stack, values in zip(own, stacks, found, strict=True):
            sizes = complexity(stack)
            rows += [
                Row(candidate, f, values[:, g, :], sizes[g])
                for g, (candidate, _) in enumerate(coefs)
            ]
    return rows


def distinct_fits(fits: Mapping[Candidate, Array]) -> set[Candidate]:
    """Return the Lasso fits but for refits on supports that are all too large.

    These are the Lasso itself, with which they would tie.
    """
    xp = array_namespace(*fits.values())
    return {
        candidate
        for candidate, coefs in fits.items()
        if candidate.ridge is None
        or bool(xp.any(coefs != fits[replace(candidate, ridge=None)]))
    }


def all_free(coefs: Array) -> list[float]:
    """Return the complexity of coefficients (G, K, P) that have no zeros."""
    return [1.0] * coefs.shape[0]


def shares_nonzero(coefs: Array) -> list[float]:
    """Return the share of entries other than zero of each (K, P) of a batch."""
    xp = array_namespace(coefs)
    return to_python(xp.mean(xp.astype(coefs != 0, coefs.dtype), axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class Ranks:
    """What low-rank refits of one kind predict, and the tensors found on the folds."""

    rows: list[Row]
    structures: dict[Candidate, Structure]
    # By rank, in the order of trial; `Swept.starts`.
    starts: dict[Any, Sequence[Structure]]


def low_rank_rows(
    task: Task,
    folds: Folds,
    first_step: Callable[[str, int], Any],
    kind: str,
    base: Candidate,
    baseline: np.ndarray | None,
    n_more: int = 0,
) -> Ranks:
    """Return what one kind of low-rank refit predicts, rank after rank.

    `first_step` is given the kind and its largest rank, and returns its first
    `RankStep`, if there is one. It ends after `Policy.patience` ranks in a row that
    gain no more than one standard error. The first rank counts as a gain unless it is
    clearly worse than the mean of the responses. It also ends when the same gain at
    each remaining rank would not reach the baseline, the best candidate of another
    kind. `n_more` times it goes on all the same.
    """
    shape, policy = (*task.samples.shape, *task.shared), task.policy
    null = folds.losses([0.0] * len(folds.rows))
    baseline = null if baseline is None else baseline
    best, best_first, n_idle = null, null, 0
    rows: list[Row] = []
    structures: dict[Candidate, Structure] = {}
    starts: dict[Any, Sequence[Structure]] = {}
    patience = policy.patience(kind, shape)
    step = first_step(kind, policy.largest_rank(kind, shape))
    while step is not None:
        starts[step.rank] = step.swept[0].starts
        first = folds.losses(folds.of_fitted(step.swept[0].fitted))
        if not folds.is_better(best_first, first, errors=policy.worse_by):
            step = step.with_lower_ridges()
        structure: Any = step.swept[0].structure  # CP or Tucker
        complexity = structure.n_parameters(shape, step.rank) / prod(shape)
        losses = []
        for swept in step.swept:
            candidate = replace(base, refine=kind, rank=step.rank, ridge=swept.ridge)
            predictions = folds.of_fitted(swept.fitted)
            structures[candidate] = swept.structure
            rows += [
                Row(candidate, f, part, complexity)
                for f, part in enumerate(predictions)
            ]
            losses.append(folds.losses(predictions))
        least = min(losses, key=folds.total)
        best_first = min(best_first, first, key=folds.total)
        not_worse_than_null = best is null and not folds.is_better(null, least)
        if not_worse_than_null or folds.is_better(least, best):
            remaining = _ranks_remaining(step.rank, step.largest_rank, shape)
            missing, gain = folds.total(least - baseline), folds.total(best - least)
            ends = missing > remaining * gain and folds.is_better(baseline, least)
            best, n_idle = least, 0
        else:
            n_idle += 1
            ends = n_idle >= patience
        if ends and n_more == 0:
            break
        n_more -= ends
        step = step.next_rank()
    return Ranks(rows, structures, starts)


def _ranks_remaining(
    rank: int | tuple[int, ...], largest: int, shape: tuple[int, ...]
) -> int:
    """Return how many times a rank may still rise, in one mode if it has several.

    Examples
    --------
    >>> _ranks_remaining(2, 6, (16, 16, 8)), _ranks_remaining((2, 1, 1), 4, (16, 16, 2))
    (4, 6)
    """
    if isinstance(rank, int):
        return largest - rank
    most = (min(size, largest) for size in shape)
    return sum(end - now for end, now in zip(most, rank, strict=True))


def smaller_is_worth_it(held: HeldOut, thresholds: Sequence[float]) -> bool:
    """Say whether thresholds below these are worth trying.

    They are if the smallest predicts best, before a refit on the support, which
    favours larger ones, and no other kind is clearly better.
    """
    losses = held.losses
    lasso = [c for c in losses if c.refine == "sparse"]
    bare = [c for c in lasso if c.ridge is None]
    if not bare:  # no finite errors
        return False
    best, best_lasso, best_bare = (
        min(some, key=lambda c: held.folds.total(losses[c]))
        for some in (losses, lasso, bare)
    )
    if held.folds.is_better(losses[best], losses[best_lasso]):
        return False
    return best_bare.lambda_sparse <= thresholds[-1]
