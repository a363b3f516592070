"""Which settings a tuning tries: one candidate for each, and the grid of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isnan, nan, prod
from numbers import Integral, Real
from sys import float_info
from typing import Any

import numpy as np

from sltr.parameters import check_nonnegative, check_sequence, one_or_more, refuse
from sltr.refine.factors import CP
from sltr.ridge import choose_epsilon
from sltr.tuning.folds import Folds, fold_batches
from sltr.tuning.policy import Policy
from sltr.tuning.task import Task, ridge_pilots

# Fractions of the maxima: 0 is the pilot itself, 1 leaves a constraint out.
LAMBDAS = (0.0, 0.3, 1.0)
PAPER_LAMBDAS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
PAPER_EPSILONS = (0.1, 0.2, 0.3)
REFINEMENTS = (None, "scale", "reweight", "tucker", "cp", "sparse")
# A factor gains nothing beside the refits: it is tried only where it is asked for.
DEFAULT_REFINEMENTS = (None, "reweight", "tucker", "cp", "sparse")
# Refits that there are for responses that share a tensor; the Lasso looks at each
# entry by itself, and would be the same.
SHARED_REFINEMENTS = (None, "scale", "reweight", "tucker", "cp")
# Whether all responses make one tensor, or each has one of its own.
RESPONSES = ("separate", "shared")
# What each kind of refit has besides the settings of the estimate it starts from.
SETTINGS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "scale": (),
    "reweight": ("steps",),
    "tucker": ("rank", "ridge"),
    "cp": ("rank", "ridge"),
    "sparse": ("ridge",),
}


@dataclass(frozen=True)
class Candidate:
    """One setting; what follows `refine` belongs to refits."""

    epsilon: float
    lambda_sparse: float
    lambda_low: float
    refine: str | None = None
    rank: int | tuple[int, ...] = 0
    ridge: float | None = None
    steps: int = 0
    shared: bool = False  # all responses make one tensor

    @property
    def radii(self) -> tuple[float, float]:
        """Both radii, as a grid has them."""
        return self.lambda_sparse, self.lambda_low

    @property
    def settings(self) -> tuple:
        """The refinement's own settings, as `refine=(kind, …)` takes them."""
        return tuple(getattr(self, name) for name in SETTINGS[self.refine])

    @property
    def is_plain(self) -> bool:
        """Whether this is the paper's estimate, perhaps times a factor."""
        return self.refine in (None, "scale")

    @property
    def has_start(self) -> bool:
        """Whether this refit starts from the paper's estimate."""
        return self.refine in ("reweight", "tucker", "cp")

    @property
    def plain(self) -> Candidate:
        """The paper's estimate of the same penalty and radii."""
        return Candidate(self.epsilon, *self.radii, shared=self.shared)

    @property
    def source(self) -> Candidate:
        """Whose coefficients these are: a factor apart, an estimate's or its own."""
        return self.plain if self.is_plain else self


@dataclass(frozen=True, eq=False)
class Grid:
    """What a tuning tries: all penalties × pairs of radii, and refits of some kinds."""

    epsilons: list[float]
    pairs: list[tuple[float, float]]  # (lambda_sparse, lambda_low)
    refinements: list[str | None]
    start: Candidate  # the estimate that refits start from
    thresholds: Sequence[Sequence[float]]  # of the Lasso, in batches, descending
    needs_complexity: bool = False  # for a rule that weighs it
    # Whether each response has a tensor of its own, or all share one, or both.
    sharing: tuple[bool, ...] = (False,)
    refits_each: bool = True  # whether there are refits of each response by itself

    @property
    def plain(self) -> list[Candidate]:
        """The paper's estimates, in order."""
        settings = product(self.epsilons, self.pairs)
        return [Candidate(e, *pair, shared=self.start.shared) for e, pair in settings]

    def of_sharing(self, shared: bool) -> Grid:
        """Return the part of the grid in which responses share a tensor, or not.

        Tensors of their own come first, and with them what is the same either way:
        the pilots, which a radius of zero leaves as they are, and the Lasso.
        """
        start = replace(self.start, shared=shared)
        if not shared:
            kinds = self.refinements
            if not self.refits_each:
                kinds = [kind for kind in kinds if kind in (None, "scale")]
            return replace(self, start=start, refinements=kinds, sharing=(shared,))
        known = False in self.sharing
        return replace(
            self,
            pairs=[pair for pair in self.pairs if all(pair) or not known],
            refinements=[k for k in self.refinements if k in SHARED_REFINEMENTS],
            start=start,
            sharing=(shared,),
        )


def make_grid(
    epsilons: Sequence[float],
    pairs: Sequence[tuple[float, float]],
    refinements: Sequence[str | None],
    radius: str,
    policy: Policy,
    *,
    rule: str = "best",
    sharing: tuple[bool, ...] = (False,),
    refits_each: bool = True,
) -> Grid:
    """Return the grid of a tuning; refits start from its middle penalty."""
    absolute = radius == "absolute"
    radii = policy.start_radii
    if absolute:  # nothing is known of them but the middles of the grid
        sparse, low = zip(*pairs, strict=True)
        radii = middle(sparse), middle(low)
    start = Candidate(middle(epsilons), *radii)
    return Grid(
        list(epsilons),
        list(pairs),
        list(refinements),
        start,
        _distinct_thresholds(pairs) if absolute else policy.thresholds,
        needs_complexity=rule == "1se",
        sharing=sharing,
        refits_each=refits_each,
    )


def middle(values: Sequence[float]) -> float:
    """Return the middle one of some values, the upper one of two."""
    values = sorted(set(values))
    return values[len(values) // 2]


def grid_about(base: Candidate, kind: str | None) -> Grid:
    """Return the grid that chooses the settings of one kind of refit of a candidate."""
    pairs = [base.radii]
    thresholds = _distinct_thresholds(pairs)
    sharing = (base.shared,)
    return Grid([base.epsilon], pairs, [kind], base, thresholds, sharing=sharing)


def _distinct_thresholds(pairs: Sequence[tuple[float, float]]) -> list[list[float]]:
    return [sorted({sparse for sparse, _ in pairs}, reverse=True)]


def grid_values(values: Any, name: str, paper: Sequence[float]) -> list[float]:
    """Return a grid given as numbers, or as "paper"."""
    if isinstance(values, str):
        if values != "paper":
            names = "'loo' or 'paper'" if name == "epsilons" else "'paper'"
            msg = f"{name}={values!r} was given; expected numbers or {names}."
            raise ValueError(msg)
        values = paper
    checked = [check_nonnegative(v, name) for v in check_sequence(values, name)]
    return list(dict.fromkeys(checked))


def grid_epsilons(
    task: Task, epsilons: Any, folds: Folds | None = None, *, alone: bool = False
) -> list[float]:
    """Return the penalties that an estimator's `epsilons` stand for.

    "loo" stands for the best one, `alone` or with neighbours on both sides.
    """
    if not (isinstance(epsilons, str) and epsilons == "loo"):
        given = grid_values(epsilons, "epsilons", PAPER_EPSILONS)
        if task.family is not None and not min(given) > 0.0:
            expected = "positive penalties: a likelihood may have no maximum"
            refuse("epsilons", epsilons, expected)
        return [choose_epsilon(task.system, e, task.samples.weight) for e in given]
    best = best_epsilon(task, folds)
    return [best] if alone else [f * best for f in task.policy.epsilon_factors]


def best_epsilon(task: Task, folds: Folds | None = None) -> float:
    """Return the penalty whose pilot predicts best.

    Samples of one group resemble each other, so leaving one of them out is too easy:
    given `folds` that leave groups out, larger penalties are tried on these.
    """
    if task.family is not None:
        assert folds is not None
        from sltr.tuning.likelihood import likely_epsilon

        return likely_epsilon(task, folds)
    best = choose_epsilon(task.system, "loo", task.samples.weight)
    if folds is None:
        return best
    larger = [factor * best for factor in task.policy.group_factors]
    losses = pilot_losses(task, folds, larger)
    return larger[int(np.argmin(np.concatenate(folds.weights) @ losses))]


def pilot_losses(task: Task, folds: Folds, epsilons: list[float]) -> np.ndarray:
    """Return the pilots' squared errors of all samples that folds leave out, (n, E).

    Samples left in place are read twice for as many folds as there is room for.
    """
    losses: list[np.ndarray] = []
    for batch in fold_batches(task, folds, len(epsilons)):
        pilots = ridge_pilots(task, folds.training[batch, ...], epsilons)
        indices = range(batch.start, batch.stop)
        found = folds.predictions(task, indices, *pilots.parts)  # (n_rows, E, K)
        losses += [
            folds.fold_losses(f, values.swapaxes(1, 2))
            for f, values in zip(indices, found, strict=True)
        ]
    return np.concatenate(losses)


def grid_pairs(lambdas_sparse: Any, lambdas_low: Any) -> list[tuple[float, float]]:
    """Return all pairs of radii."""
    sparse = grid_values(lambdas_sparse, "lambdas_sparse", PAPER_LAMBDAS)
    low = grid_values(lambdas_low, "lambdas_low", PAPER_LAMBDAS)
    return list(product(sparse, low))


def check_refinements(refine: Any) -> list[str | None]:
    """Return the refinements to try; a single one may be given by itself."""
    asked = one_or_more(refine, "refine")
    for one in asked:
        if not isinstance(one, str | None) or one not in REFINEMENTS:
            choices = ", ".join(map(repr, REFINEMENTS))
            msg = f"refine={one!r} was given; expected one of {choices}."
            raise ValueError(msg)
    if not asked:
        msg = f"refine={refine!r} was given; expected at least one, perhaps None."
        raise ValueError(msg)
    return asked


def check_sharing(responses: Any, shape_out: tuple[int, ...]) -> tuple[bool, ...]:
    """Return what to try, "separate" first: whether responses share a tensor.

    A single response has nothing to share.

    Examples
    --------
    >>> check_sharing(("shared", "separate"), (4,)), check_sharing("shared", ())
    ((False, True), (False,))
    """
    asked = one_or_more(responses, "responses")
    if not asked or any(one not in RESPONSES for one in asked):
        names = " and ".join(map(repr, RESPONSES))
        refuse("responses", responses, f"any of {names}")
    if not shape_out:
        return (False,)
    return tuple(name == "shared" for name in RESPONSES if name in asked)


def equal_ranks(rank: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a rank for each mode, as far as its size goes.

    Examples
    --------
    >>> equal_ranks(3, (5, 4, 2))
    (3, 3, 2)
    """
    return tuple(min(rank, size) for size in shape)


def given_refit(base: Candidate, refine: Any, shape: tuple[int, ...]) -> Candidate:
    """Return the candidate that a tuple (kind, *settings) asks for."""
    kind, *settings = tuple(refine) or (None,)
    common = replace(base, refine=kind)
    match kind, settings:
        case "reweight", [steps] if _is_count(steps) and len(shape) > 1:
            return replace(common, steps=int(steps))
        case "sparse", [ridge] if ridge is None or _is_ridge(ridge):
            return replace(common, lambda_low=0.0, ridge=ridge)
        case "cp", [rank, ridge] if _is_ridge(ridge) and _is_count(rank):
            if rank <= CP.largest_rank(shape):
                return replace(common, rank=int(rank), ridge=float(ridge))
        case "tucker", [ranks, ridge] if _is_ridge(ridge):
            if isinstance(ranks, Integral):
                ranks = equal_ranks(int(ranks), shape)
            ranks = tuple(ranks) if isinstance(ranks, Iterable) else ()
            if _exist(ranks, shape):
                return replace(common, rank=tuple(map(int, ranks)), ridge=float(ridge))
    msg = (
        f"refine={refine!r} was given; expected ('tucker', ranks, ridge) with a rank "
        f"for each mode of {shape}, none above the product of the others, "
        f"('cp', rank, ridge) with a rank up to {CP.largest_rank(shape)}, "
        "('reweight', steps) for samples of two modes or more, or "
        "('sparse', ridge or None). Ridges are positive."
    )
    raise ValueError(msg)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and 1 <= int(value) <= 1000


def _is_ridge(value: Any) -> bool:
    # A whole number may be larger than any float.
    number: Any = value
    return isinstance(value, Real) and bool(0 < number <= float_info.max)


def _exist(ranks: tuple, shape: tuple[int, ...]) -> bool:
    """Say whether there are tensors of these ranks."""
    if len(ranks) != len(shape) or not all(map(_is_count, ranks)):
        return False
    return all(
        rank <= size and rank**2 <= prod(ranks)
        for rank, size in zip(ranks, shape, strict=True)
    )


def own_settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings in a table's row that apply to its candidate.

    Examples
    --------
    >>> own_settings({"lambda_sparse": 0.3, "refine": "sparse", "rank": 0})
    {'lambda_sparse': 0.3, 'refine': 'sparse'}
    >>> own_settings({"alpha": 1.0})
    {'alpha': 1.0}
    """
    kind = row.get("refine")
    if "refine" not in row or not (kind is None or isinstance(kind, str)):
        return dict(row)
    # The Lasso has a threshold, and needs no estimate to start from.
    estimate = ("epsilon", "lambda_low", "shared") if kind != "sparse" else ()
    names = {"refine", "lambda_sparse", *estimate, *SETTINGS.get(kind, tuple(row))}
    blank = [name for name, v in row.items() if isinstance(v, float) and isnan(v)]
    return {k: v for k, v in row.items() if k in names and k not in blank}


def candidate_columns(candidates: Sequence[Candidate]) -> dict[str, list]:
    """Return the table's columns; those of refits only if there are some."""
    names = ["epsilon", "lambda_sparse", "lambda_low", "refine"]
    blank = Candidate(0.0, 0.0, 0.0)
    for name in ("rank", "ridge", "steps", "shared"):
        if any(getattr(c, name) != getattr(blank, name) for c in candidates):
            names.append(name)
    columns = {name: [getattr(c, name) for c in candidates] for name in names}
    if "ridge" in columns:
        columns["ridge"] = [nan if r is None else r for r in columns["ridge"]]
    return columns
