"""Refits of samples that stay in a file or on a cluster, by few passes over them.

Apart from `fits`, which has the samples at hand. Samples that fit into memory in the
precision of refits are read once for all of them: then refits are those in memory. Else
every product with X is a pass, so all subsets, kinds, ranks and ridges share it: ranks
do not wait for each other but start from the estimates at once, and the fit to all
samples goes along with the folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import prod, sqrt
from typing import Any

import numpy as np

from sltr.arrays import Array, array_namespace
from sltr.refine.factors import (
    CP,
    SlicedUnfoldings,
    Structure,
    Tucker,
    ordered_modes,
)
from sltr.refine.lasso import LARGE, length_by_gram
from sltr.refine.low_rank import Sweeps, Swept, next_rank, spectra
from sltr.refine.reweight import MAX_PASSES, Facts, facts_of
from sltr.refine.stored_sweeps import BEST_STEPS, Packed, StoredSweeps
from sltr.ridge import GramRidge
from sltr.samples.mapped import Shifted
from sltr.samples.samples import is_lazy
from sltr.samples.stored import Budget
from sltr.tuning.candidates import Candidate
from sltr.tuning.fits import (
    CoefsOf,
    LowRankStart,
    given_low_rank,
    items_of,
    lasso_fits,
    reweighted_fits,
    start_estimates,
    structure_coefs,
)
from sltr.tuning.folds import Folds, fold_batches
from sltr.tuning.policy import Policy
from sltr.tuning.task import Task, fits_single, middle_row, ridge_pilots

# Arrays of the size of a coefficient that reweighting holds for each subset and
# response: the facts, conjugate gradients, and the steps that are kept.
ARRAYS_OF_AN_ITEM = 16
# What low-rank refits start from: estimates, these reweighted, and rough refits.
STARTS = 3
# Rounds in which columns join the Lasso, two passes for each but the last, and how
# many there are at first for each sample.
LASSO_ROUNDS, COLUMNS_PER_SAMPLE = 3, 4
# A column that the Lasso does not have may exceed its threshold by this much.
KKT_SLACK = 0.02


def rough_bits(X: Any, policy: Policy) -> int | None:
    """Return how many bits for an entry memory holds beside refits, if any."""
    room = X.budget.limit // policy.held_share
    return next((b for b in BEST_STEPS if prod(X.shape) * b // 8 <= room), None)


def lacking_room(X: Any, n_items: int, policy: Policy) -> int | None:
    """Return the memory limit that refits of stored samples need, if theirs is lower.

    Items are the subsets times the responses. Each takes arrays of a coefficient's
    size, and the normal equations of a factor with one column.
    """
    state = 4 * ARRAYS_OF_AN_ITEM * n_items * X.shape[1]
    seen = 4 * n_items * STARTS * max(X.sample_shape) ** 2
    needed = max(2 * state, policy.sweep_share * seen)
    return needed if needed > X.budget.limit else None


Form = tuple[str, Any]  # a kind and a rank


@dataclass(frozen=True, eq=False)
class StoredRefits:
    """Refits on S subsets of samples that stay where they are, K responses each."""

    task: Task  # its samples less a row, in the precision of refits; perhaps in memory
    training: Array  # (S, n)
    removed: Array  # (S, b, P), the regression of these samples on the basis
    estimates: Array  # (S, K, p1, …, pM), that refits start from
    facts: Facts
    budget: Budget  # of the samples
    later: float = 0.0  # how many passes others will make

    @staticmethod
    def of(
        task: Task,
        training: Array,
        start: Candidate,
        known: Mapping[int, Array] | None = None,
    ) -> StoredRefits:
        """Prepare refits from the estimates of one setting: two passes.

        Estimates (K, P) that are `known`, by subset, are not solved for again.
        """
        pilots = ridge_pilots(task, training, [start.epsilon])
        estimates = start_estimates(task, pilots.coef[:, 0, ...], start, known)
        own, shape = _for_refits(task), task.samples.shape
        X, budget = own.samples.X, task.samples.X.budget
        if prod(X.shape) * X.dtype.itemsize <= budget.limit // task.policy.held_share:
            held = X.collected(np.asarray, [], X.shape[1], X.dtype).reshape(-1, *shape)
            own = replace(own, samples=replace(own.samples, X=held))
        else:
            rough = rough_bits(X, task.policy) is not None
            own = replace(own, policy=task.policy.for_stored(len(shape), rough))
        facts = facts_of(own.samples.flat, items_of(own, training), task.samples.shape)
        return StoredRefits(
            own,
            training,
            pilots.removed_for(own),
            estimates.astype(own.Y.dtype, copy=False),
            facts,
            budget,
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order in which sweeps visit the modes."""
        return ordered_modes(self.task.samples.shape, self.facts.covariances)

    @property
    def held(self) -> bool:
        """Whether the samples were read into memory."""
        return not is_lazy(self.task.samples.X)

    @property
    def has_bits(self) -> bool:
        """Whether memory holds samples that stay in few bits."""
        X, policy = self.task.samples.X, self.task.policy
        return not self.held and rough_bits(X, policy) is not None

    def passes_left(self, folds: Folds) -> float:
        """Return how many passes may be made for what is not a must.

        The last step and the final fit make some more.
        """
        policy, samples = self.task.policy, self.task.samples
        # The last step does not see the samples in the precision of refits.
        own = replace(self.task, samples=replace(samples, X=samples.X.design))
        last = fold_batches(own, folds, 1 + len(policy.last_radii))
        left = policy.most_passes - self.budget.read[0] - self.later
        return left - 3 * len(last) - 1

    def lasso_rounds_left(self, folds: Folds, columns: Columns | None) -> int:
        """Return how many rounds of the Lasso on known columns may be made."""
        if self.held:
            return LASSO_ROUNDS
        left = self.passes_left(folds)
        if columns is not None and columns.values is None:
            left -= 1
        return min(LASSO_ROUNDS, 1 + int(left // 2))

    def reweighted(
        self,
        more: Sequence[int] = (),
        folds: Folds | None = None,
        packed: Packed | None = None,
    ) -> dict[int, Array]:
        """Return coefficients (S, K, p1, …, pM) by the number of steps.

        In a search on folds there are fewer where low-rank refits would lack passes.
        Samples in few bits, if there are some, save most of these.
        """

        def go_on() -> bool:
            if self.held or folds is None:
                return True
            # One of two also predicts ranks for which memory has no room.
            own = MAX_PASSES if packed is None else 2
            needed = own + 1 + passes_of_ranks(self)
            return self.passes_left(folds) >= needed

        known = self.task, self.training, self.estimates, more
        return reweighted_fits(*known, facts=self.facts, go_on=go_on, rough=packed)

    def low_rank_start(
        self, seeds: Sequence[Array], subsets: slice, more_ridges: Sequence[float] = ()
    ) -> LowRankStart:
        """Prepare low-rank refits of samples in memory, on some of the subsets."""
        X = self.task.samples.X
        samples = SlicedUnfoldings(X, self.order, self._room_for_designs())
        return self._low_rank_start(samples, seeds, subsets, more_ridges)

    def _room_for_designs(self) -> int:
        """Return how many numbers designs may have."""
        share, itemsize = self.task.policy.sweep_share, self.task.Y.dtype.itemsize
        return self.budget.limit // (share * itemsize)

    def _low_rank_start(
        self,
        samples: SlicedUnfoldings | Packed,
        seeds: Sequence[Array],
        subsets: slice,
        more_ridges: Sequence[float] = (),
    ) -> LowRankStart:
        task, policy, k = self.task, self.task.policy, self.task.Y.shape[1]
        problem = Sweeps(
            samples,
            items_of(task, self.training[subsets, ...]),
            self.facts.variance[subsets.start * k : subsets.stop * k],
            tuple(dict.fromkeys([*policy.ridges, *more_ridges])),
            policy.sweeps,
            policy.starting_sweeps,
        )
        shape = task.samples.shape
        return LowRankStart(problem, [s[subsets].reshape(-1, *shape) for s in seeds])

    def rough_start(self, seeds: Sequence[Array], packed: Packed) -> LowRankStart:
        """Prepare low-rank refits of samples in few bits, on all subsets.

        The last one, of all samples, has no say in which ranks are tried.
        """
        n_subsets = len(self.training)
        found = self._low_rank_start(packed, seeds, slice(0, n_subsets))
        return replace(found, n_asked=max(1, n_subsets - 1) * self.task.Y.shape[1])

    def packed(self) -> Packed | None:
        """Return the samples in as many bits as memory holds, or None: a pass."""
        if self.held:
            return None
        X = self.task.samples.flat
        bits = rough_bits(X, self.task.policy)
        if bits is None:
            return None
        # Less than beside samples that are held: designs are there thrice.
        shape, own = self.task.samples.shape, self._room_for_designs() // 4
        return Packed.of(X, shape, bits, self.facts.columns, self.order, own)

    def sweeps(self) -> StoredSweeps:
        """Return the problem of low-rank refits that read the samples again."""
        policy = self.task.policy
        return StoredSweeps(
            self.task.samples.flat,
            items_of(self.task, self.training),
            self.facts.variance,
            policy.ridges,
            policy.sweeps,
            policy.starting_sweeps,
            self.task.samples.shape,
            self.order,
        )

    def low_rank(
        self,
        starts: Mapping[Form, Sequence[Structure]],
        seeds: Sequence[Array],
        lower: Callable[[list[Ranked]], Sequence[tuple[Ranked, float]]],
    ) -> list[Ranked]:
        """Refit by all forms (a kind and a rank) at once.

        They start from where it is known, or else from seeds. All are swept under the
        first ridge; then those that `lower` returns, each under a lower ridge.
        """
        shape = self.task.samples.shape
        problem = self.sweeps()
        flat = [seed.reshape(-1, *shape) for seed in seeds]
        begun = [
            known or [_start(*form, seed, self.order) for seed in flat]
            for form, known in starts.items()
        ]
        firsts = zip(starts, problem.first_ridges(begun), strict=True)
        found = [Ranked(kind, rank, (first,)) for (kind, rank), first in firsts]
        pairs = lower(found)
        swept = problem.swept_on([(one.swept[0].structure, r) for one, r in pairs])
        more: dict[Form, list[Swept]] = {}
        for (one, _), values in zip(pairs, swept, strict=True):
            more.setdefault((one.kind, one.rank), []).append(values)
        return [
            replace(one, swept=(*one.swept, *more.get((one.kind, one.rank), ())))
            for one in found
        ]

    def lasso(
        self,
        thresholds: Sequence[float],
        epsilon: float,
        columns: Columns | None = None,
        ridges: Sequence[float | None] | None = None,
        unconverged: Callable[[float], object] | None = None,
        rounds: int = LASSO_ROUNDS,
    ) -> tuple[dict[Candidate, Array], Columns]:
        """Return Lasso fits (S, K, C) on columns that are enough, and these.

        Columns that correlate most with the responses are read; those left out are
        checked against the optimality conditions, and join where they fail: two passes
        for each round after the first.
        """
        if self.held:
            flat = self.task.samples.flat
            columns = Columns(np.arange(flat.shape[1]), flat)
        if columns is None:
            columns = self._first_columns()
        elif columns.values is None:
            columns = self._read(columns.chosen)
        ridges = self.task.policy.support_ridges if ridges is None else ridges
        # Steps are those that the Lasso on all columns takes.
        n_entries, length = self.facts.cross.shape[1], None
        large = LARGE if n_entries <= LARGE else 0
        if n_entries <= LARGE and isinstance(self.task.system, GramRidge):
            items = items_of(self.task, self.training)
            length = length_by_gram(self.task.system.gram, items)
        fits: dict[Candidate, Array] = {}
        gaps: list[float] = []
        for last in range(1, rounds + 1):
            own = columns.task(self.task)
            gaps.clear()  # those of earlier rounds do not matter
            fits = dict(
                lasso_fits(
                    own,
                    self.training,
                    epsilon,
                    thresholds,
                    (None, *(r for r in ridges if r is not None)),
                    gaps.append,
                    variance=self.facts.variance,
                    length=length,
                    large=large,
                )
            )
            if last == rounds:
                break
            bare = [coef for c, coef in fits.items() if c.ridge is None]
            missing = self._missing(own, bare, thresholds, columns)
            if len(missing) == 0:
                break
            columns = self._with_columns(columns, missing)
        if unconverged is not None and gaps:
            unconverged(max(gaps))
        return {c: coef for c, coef in fits.items() if c.ridge in ridges}, columns

    def _room_for_columns(self) -> int:
        X = self.task.samples.flat
        room = X.budget.limit // self.task.policy.column_share
        return max(1, room // (self.task.Y.dtype.itemsize * X.shape[0]))

    def _first_columns(self) -> Columns:
        """Read the columns that correlate most with the responses: one pass."""
        cross = np.abs(self.facts.cross)
        largest = cross.max(axis=1, keepdims=True)
        use = (cross / np.where(largest > 0, largest, 1.0)).max(axis=0)
        n_samples, n_entries = self.task.samples.flat.shape
        asked = int(COLUMNS_PER_SAMPLE * n_samples)
        most = min(self._room_for_columns(), asked, n_entries)
        chosen = np.sort(np.argpartition(use, -most)[-most:])
        return self._read(chosen)

    def _with_columns(self, columns: Columns, missing: np.ndarray) -> Columns:
        room = max(0, self._room_for_columns() - len(columns.chosen))
        chosen = np.union1d(columns.chosen, missing[:room])
        return self._read(chosen)

    def _read(self, chosen: np.ndarray) -> Columns:
        X = self.task.samples.flat
        return Columns(chosen, X.collected(_columns_of, [chosen], len(chosen), X.dtype))

    def _missing(
        self,
        own: Task,
        coefs: Sequence[Array],
        thresholds: Sequence[float],
        columns: Columns,
    ) -> np.ndarray:
        """Return columns that break the optimality conditions, worst first: a pass."""
        if len(columns.chosen) == self.facts.cross.shape[1]:
            return np.array([], dtype=int)
        items = items_of(own, self.training)
        largest = np.abs(self.facts.cross).max(axis=1)
        if self.task.radius != "relative":
            largest = self.facts.variance * items.weight.sum(axis=1)
        excess = np.zeros(self.facts.cross.shape[1], own.Y.dtype)
        residuals, limits = [], []
        for coef, threshold in zip(coefs, thresholds, strict=True):
            fitted = coef.reshape(len(items.y), -1) @ columns.values.T
            residuals.append(items.weight * (items.target - items.centred(fitted)))
            limits.append(threshold * largest)
        # The smallest threshold lets most columns in: it is enough where room is short.
        n_rows = 4 * len(coefs) * excess.nbytes * len(items.y)
        if n_rows > self.task.samples.flat.budget.limit // self.task.policy.pilot_share:
            residuals, limits = residuals[-1:], limits[-1:]
        slopes = np.abs(self.task.samples.flat.combine(np.concatenate(residuals)))
        bound = np.concatenate(limits)[:, None]
        excess = (slopes / np.where(bound > 0, bound, np.inf)).max(axis=0)
        excess[columns.chosen] = 0.0
        worst = np.flatnonzero(excess > 1.0 + KKT_SLACK)
        return worst[np.argsort(-excess[worst])]

    def sparse_coefs(self, coefs: Array, columns: Columns) -> CoefsOf:
        """Return what gives Lasso coefficients of all entries on some subsets."""
        shape, chosen = self.task.samples.shape, columns.chosen

        def whole(subsets: Sequence[int]) -> Array:
            some = coefs[np.asarray(subsets)]
            found = np.zeros((*some.shape[:2], prod(shape)), some.dtype)
            found[:, :, chosen] = some
            return found.reshape(*some.shape[:2], *shape)

        return whole


def _for_refits(task: Task) -> Task:
    """Do what `Task.for_refits` does: samples are shifted and cast when they are read.

    They are less the middle one of three, which are far apart.
    """
    samples, X, Y = task.samples, task.samples.X, task.Y
    shift = np.zeros(X.shape[1], X.dtype)
    if task.fit_intercept:
        ends = sorted({0, X.shape[0] // 2, X.shape[0] - 1})
        rows = [X.take(np.array([end])).map_rows(np.array, ()) for end in ends]
        shift = middle_row(np.concatenate(list(chain.from_iterable(rows))))
        Y = Y - middle_row(Y)
    # The root mean square stands for the largest entry, which nobody has seen.
    energy = task.system.mean_eigenvalue() * min(X.shape) / prod(X.shape)
    dtype = np.dtype(task.policy.precision)
    if not (fits_single(sqrt(energy)) and fits_single(float(np.abs(Y).max()))):
        dtype = np.dtype("float64")
    Z = samples.covariates
    samples = replace(
        samples,
        X=Shifted(X, shift, dtype),
        weight=samples.weight.astype(dtype),
        covariates=None if Z is None else Z.astype(dtype),
    )
    return replace(task, samples=samples, Y=Y.astype(dtype), shift=shift)


@dataclass(frozen=True, eq=False)
class Columns:
    """Entries of the samples: their numbers, and values (n, C), or None if let go."""

    chosen: np.ndarray
    values: Any

    def task(self, task: Task) -> Task:
        """Return a task of these columns alone, as vectors in memory."""
        samples = replace(task.samples, X=self.values, support=None)
        return replace(task, samples=samples)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Refits of one kind and rank: under the first ridge, perhaps lower ones."""

    kind: str
    rank: Any
    swept: tuple[Swept, ...]


def all_forms(
    refits: StoredRefits, kinds: Sequence[str], seeds: Sequence[Array]
) -> dict[Form, Sequence[Structure]]:
    """Return the kinds and ranks to try if nothing is known of them.

    Tucker ranks rise where the seeds' singular values are largest.
    """
    policy, shape = refits.task.policy, refits.task.samples.shape
    found: list[Form] = []
    if "cp" in kinds:
        found += [("cp", r + 1) for r in range(policy.largest_rank("cp", shape))]
    if "tucker" in kinds:
        ranks = _tucker_ranks(seeds[-1].reshape(-1, *shape), policy)
        found += [("tucker", rank) for rank in ranks]
    return dict.fromkeys(found, ())


def starts_with_room(
    refits: StoredRefits, starts: Mapping[Form, Sequence[Structure]]
) -> dict[Form, Sequence[Structure]]:
    """Return the first of these forms, as many as memory lets share their passes."""
    room, kept = sweep_room(refits), dict[Form, Sequence[Structure]]()
    for form, some in starts.items():
        room -= (len(some) or STARTS) * seen_bytes(refits, form)
        if room < 0 and kept:
            break
        kept[form] = some
    return kept


def sweep_room(refits: StoredRefits) -> int:
    """Return how many bytes normal equations may take."""
    return refits.budget.limit // refits.task.policy.sweep_share


def seen_bytes(refits: StoredRefits, form: Form) -> int:
    """Return what the normal equations of all items take, at most."""
    kind, rank = form
    shape = refits.task.samples.shape
    largest = max(shape) * rank if kind == "cp" else Tucker.seen(shape, rank)
    return refits.task.Y.dtype.itemsize * len(refits.facts.variance) * largest**2


def passes_of_ranks(refits: StoredRefits) -> int:
    """Return how many passes low-rank refits of some forms take at most."""
    n_blocks = refits.task.policy.sweeps * len(refits.task.samples.shape)
    return 2 * (n_blocks + 1)  # under the first ridge and lower ones, and fitted values


def _tucker_ranks(seed: Array, policy: Policy) -> list[tuple[int, ...]]:
    shape = seed.shape[1:]
    most = [min(size, policy.largest_rank("tucker", shape)) for size in shape]
    energies = spectra(seed)
    rank: tuple[int, ...] | None = (1,) * len(shape)
    found: list[tuple[int, ...]] = []
    while rank is not None and len(found) < policy.stored_tucker_ranks:
        found.append(rank)
        known = rank
        slopes = [
            share[own] if own < len(share) else 0.0
            for share, own in zip(energies, known, strict=True)
        ]
        rank = next_rank(known, most, slopes, energies)
    return found


def _start(kind: str, rank: Any, seed: Array, order: Sequence[int]) -> Structure:
    if kind == "tucker":
        return Tucker.truncated(seed, rank)
    terms = CP.start(seed, order)
    for _ in range(1, rank):
        terms = terms.grown(seed - terms.coef(), order=order)
    return terms


@dataclass(frozen=True, eq=False)
class HeldRanks:
    """Low-rank refits of samples in memory: on the folds, and all samples if asked."""

    task: Task
    folds: Mapping[Candidate, Structure]
    everyone: LowRankStart
    n_folds: int

    @cached_property
    def _of_all(self) -> dict[Candidate, Structure]:
        given = given_low_rank(self.everyone, list(self.folds))
        return {candidate: swept.structure for candidate, swept in given}

    def coefs(self, candidate: Candidate) -> CoefsOf:
        """Return what gives a candidate's coefficients on some subsets."""

        def of_subset(s: int) -> Array:
            some = self.folds if s < self.n_folds else self._of_all
            return structure_coefs(self.task, some[candidate])([s % self.n_folds])

        return lambda subsets: np.concatenate([of_subset(s) for s in subsets])


def _columns_of(X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return X[:, chosen]


def given_refits(
    task: Task,
    training: Array,
    candidates: Sequence[Candidate],
    unconverged: Callable[[float], object] | None = None,
) -> dict[Candidate, Array]:
    """Return the coefficients (S, K, p1, …, pM) of given refits of stored samples."""
    if not candidates:
        return {}
    assert is_lazy(task.samples.X)
    xp, everyone = array_namespace(task.Y), range(training.shape[0])
    start = next((c.plain for c in candidates if c.has_start), candidates[0].plain)
    refits = StoredRefits.of(task, training, start)
    found: dict[Candidate, Array] = {}
    steps: Mapping[int, Array] = {}
    started = [c for c in candidates if c.has_start]
    if started:
        packed = refits.packed()
        steps = refits.reweighted([c.steps for c in started if c.steps], packed=packed)
        found |= {c: steps[c.steps] for c in started if c.refine == "reweight"}
    low_rank = [c for c in started if c.refine != "reweight"]
    if low_rank:
        ridges = [c.ridge for c in low_rank if c.ridge is not None]
        seeds = seeds_of(refits, steps)
        ranked: list[Ranked] = []
        if refits.held:
            begun = refits.low_rank_start(seeds, slice(0, len(training)), ridges)
            for c, swept in given_low_rank(begun, low_rank):
                found[c] = structure_coefs(refits.task, swept.structure)(everyone)
        else:
            starts = _given_starts(refits, low_rank, seeds, packed)
            del packed  # sweeps over the samples need the room
            ranked = _given_stored(refits, low_rank, seeds, starts)
        for one in ranked:
            for swept in one.swept:
                for c in low_rank:
                    if (c.refine, c.rank, c.ridge) == (one.kind, one.rank, swept.ridge):
                        found[c] = structure_coefs(refits.task, swept.structure)(
                            everyone
                        )
    sparse = [c for c in candidates if not c.has_start]
    if sparse:
        thresholds = sorted({c.lambda_sparse for c in sparse}, reverse=True)
        kinds = list(dict.fromkeys(c.ridge for c in sparse))
        fits, columns = refits.lasso(
            thresholds, sparse[0].epsilon, None, kinds, unconverged
        )
        for c in sparse:
            found[c] = refits.sparse_coefs(fits[c], columns)(everyone)
    return {c: xp.astype(coef, task.Y.dtype) for c, coef in found.items()}


def _given_starts(
    refits: StoredRefits,
    candidates: Sequence[Candidate],
    seeds: Sequence[Array],
    packed: Packed | None,
) -> dict[Form, Sequence[Structure]]:
    """Return where given low-rank refits start, if samples in few bits say so."""
    starts: dict[Form, Sequence[Structure]] = {}
    starts |= {(str(c.refine), c.rank): () for c in candidates}
    if packed is None:
        return starts
    begun, ranks = refits.rough_start(seeds, packed), [rank for _, rank in starts]
    for rank in ranks:
        if isinstance(rank, tuple):
            starts["tucker", rank] = begun.tucker_step(rank).swept[0].starts
    for step in begun.cp_steps(max([r for r in ranks if isinstance(r, int)] or [0])):
        if ("cp", step.rank) in starts:
            starts["cp", step.rank] = step.swept[0].starts
    return starts


def _given_stored(
    refits: StoredRefits,
    candidates: Sequence[Candidate],
    seeds: Sequence[Array],
    starts: Mapping[Form, Sequence[Structure]],
) -> list[Ranked]:
    """Return given low-rank refits by passes."""

    def lower(found: list[Ranked]) -> list[tuple[Ranked, float]]:
        return [
            (one, c.ridge)
            for one in found
            for c in candidates
            if (c.refine, c.rank) == (one.kind, one.rank)
            and c.ridge not in (None, one.swept[0].ridge)
        ]

    return refits.low_rank(starts, seeds, lower)


def seeds_of(refits: StoredRefits, steps: Mapping[int, Array]) -> list[Array]:
    """Return what low-rank refits start from: the estimates, and these reweighted."""
    seeds = [refits.estimates]
    wanted = [k for k in refits.task.policy.seed_steps if k in steps]
    for coef in [steps[k] for k in wanted or list(steps)[-1:]]:
        if (coef != seeds[-1]).any():
            seeds.append(coef)
    return seeds[-1:] if len(refits.task.samples.shape) == 2 else seeds
