"""The settings SLTR is tuned over, as a table with one row for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isnan, nan, prod
from numbers import Integral
from typing import Any

from sltr.parameters import check_nonnegative, check_sequence
from sltr.ridge.penalty import choose_epsilon
from sltr.samples.samples import is_lazy
from sltr.tuning.policy import DEFAULT
from sltr.tuning.task import Fold, Task, held_out_losses, with_pilots


def own_candidate(model: Any) -> Candidate:
    """Return the one candidate of an estimator whose `epsilon_` is known."""
    return Candidate(
        model.epsilon_,
        check_nonnegative(model.lambda_sparse, "lambda_sparse"),
        check_nonnegative(model.lambda_low, "lambda_low"),
    )


def lazy_refinements(X: Any, refine: Any, default: Any) -> Any:
    """Return what of `refine` can be done for these samples.

    Refits read X dozens of times: for lazy samples the default leaves them out,
    with a warning, and to ask for them is an error.
    """
    if not is_lazy(X):
        return refine
    if refine == default and default is None:
        return None
    if refine == default:
        warnings.warn(
            "X stays where it is: refine is (None, 'scale'), without the refits, which "
            "predict better. If X fits into memory, give X[:]. Or give refine.",
            UserWarning,
            stacklevel=5,
        )
        return None, "scale"
    asked = [refine] if isinstance(refine, str) or refine is None else list(refine)
    if not set(asked) <= {None, "scale"}:
        msg = (
            f"refine={refine!r} was given for samples that stay in a file or on a "
            "cluster; expected None or 'scale', since refits read the samples dozens "
            "of times. Load X into memory, or shrink it first."
        )
        raise ValueError(msg)
    return refine


# Fractions of the maxima: 0 is the pilot itself, 1 leaves a constraint out.
STEPS, RIDGES = DEFAULT.steps, DEFAULT.ridges
LAMBDAS = (0.0, 0.3, 1.0)
PAPER_LAMBDAS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
PAPER_EPSILONS = (0.1, 0.2, 0.3)
REFINEMENTS = (None, "scale", "reweight", "tucker", "cp", "sparse")
# Ranks are tried until one predicts no better than the last.
LARGEST_RANK = {"tucker": 4, "cp": 6}
# What each kind of refit has besides the estimate's own settings.
SETTINGS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "scale": (),
    "reweight": ("steps",),
    "tucker": ("rank", "ridge"),
    "cp": ("rank", "ridge"),
    "sparse": ("ridge",),
}
# Ridges on the support; None leaves the Lasso as it is.
SUPPORT_RIDGES = (None, 0.03)


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

    @property
    def radii(self) -> tuple[float, float]:
        """The pair of them, as a grid has it."""
        return self.lambda_sparse, self.lambda_low

    @property
    def settings(self) -> tuple:
        """The refinement's own settings, as `refine=(kind, …)` takes them."""
        return tuple(getattr(self, name) for name in SETTINGS[self.refine])


def grid_values(values: Any, name: str, paper: Sequence[float]) -> list[float]:
    """Return a grid given as numbers, or as "paper"."""
    if isinstance(values, str):
        if values != "paper":
            names = "'loo' or 'paper'" if name == "epsilons" else "'paper'"
            msg = f"{name}={values!r} was given; expected numbers or {names}."
            raise ValueError(msg)
        values = paper
    return [check_nonnegative(value, name) for value in check_sequence(values, name)]


def check_refinements(refine: Any) -> list[str | None]:
    """Return the refinements to try; a single one may be given by itself."""
    single = isinstance(refine, str) or not isinstance(refine, Iterable)
    asked = [refine] if single else list(refine)
    for one in asked:
        if one not in REFINEMENTS:
            choices = ", ".join(map(repr, REFINEMENTS))
            msg = f"refine={one!r} was given; expected one of {choices}."
            raise ValueError(msg)
    if not asked:
        msg = f"refine={refine!r} was given; expected at least one, perhaps None."
        raise ValueError(msg)
    return asked


def largest_rank(kind: str, shape: tuple[int, ...]) -> int:
    """Return the largest rank worth trying for tensors of a shape."""
    if len(shape) == 1:
        return 1
    return min(LARGEST_RANK[kind], max(shape), sorted(shape)[-2])


def refined(kind: str, base: Candidate, shape: tuple[int, ...]) -> list[Candidate]:
    """Return the refits of one kind that start from a setting.

    Those of "tucker" are of equal ranks; a tuning finds others.
    """
    common = replace(base, refine=kind)
    if kind == "scale":
        return [common]
    if kind == "sparse":  # has but one radius
        return [replace(common, lambda_low=0.0, ridge=r) for r in SUPPORT_RIDGES]
    if kind == "reweight":
        # A vector has no modes to weigh against each other.
        steps = STEPS if len(shape) > 1 else ()
        return [replace(common, steps=step) for step in steps]
    ranks: list = list(range(1, largest_rank(kind, shape) + 1))
    if kind == "tucker":
        ranks = [equal_ranks(rank, shape) for rank in ranks]
    return [
        replace(common, rank=rank, ridge=ridge)
        for rank, ridge in product(ranks, RIDGES)
    ]


def equal_ranks(rank: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a rank for each mode, as far as its size goes.

    Examples
    --------
    >>> equal_ranks(3, (5, 4, 2))
    (3, 3, 2)
    """
    return tuple(min(rank, size) for size in shape)


def n_parameters(rank: int | tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the number of entries of a refit's factors."""
    ranks = rank if isinstance(rank, tuple) else (rank,) * len(shape)
    return sum(r * size for r, size in zip(ranks, shape, strict=True))


def own_settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what applies to a candidate of all that its row in a table holds.

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
    estimate = ("epsilon", "lambda_low") if kind != "sparse" else ()
    own = {"refine", "lambda_sparse", *estimate, *SETTINGS.get(kind, tuple(row))}
    blank = [name for name, v in row.items() if isinstance(v, float) and isnan(v)]
    return {k: v for k, v in row.items() if k in own and k not in blank}


def candidate_columns(candidates: Sequence[Candidate]) -> dict[str, list]:
    """Return the table's columns; those of refits only if there are some."""
    names = ["epsilon", "lambda_sparse", "lambda_low", "refine"]
    blank = Candidate(0.0, 0.0, 0.0)
    for name in ("rank", "ridge", "steps"):
        if any(getattr(c, name) != getattr(blank, name) for c in candidates):
            names.append(name)
    columns = {name: [getattr(c, name) for c in candidates] for name in names}
    if "ridge" in columns:
        columns["ridge"] = [nan if r is None else r for r in columns["ridge"]]
    return columns


def _given_refit(base: Candidate, refine: Any, shape: tuple[int, ...]) -> Candidate:
    """Return the candidate a tuple asks for, which must be one that is tuned over."""
    kind, *rest = tuple(refine) or (None,)
    ranks = None
    if kind == "tucker" and len(rest) == 2:
        ranks = rest[0]
        if isinstance(ranks, Integral):
            ranks = equal_ranks(int(ranks), shape)
        ranks = tuple(ranks) if isinstance(ranks, Iterable) else None
        # A tuning may find any ranks; the rest is that of equal ones.
        rest = [equal_ranks(1, shape), *rest[1:]]
    if kind in ("reweight", "tucker", "cp", "sparse"):
        for known in refined(kind, base, shape):
            if known.settings == tuple(rest):
                if kind != "tucker":
                    return known
                if ranks is not None and _exist(ranks, shape):
                    return replace(known, rank=tuple(map(int, ranks)))
    largest = {k: largest_rank(k, shape) for k in ("tucker", "cp")}
    msg = (
        f"refine={refine!r} was given; expected ('tucker', ranks, ridge) with a rank "
        f"up to {largest['tucker']} for each mode, none above the product of the "
        f"others, ('cp', rank up to {largest['cp']}, ridge), with a ridge of {RIDGES}, "
        f"('reweight', steps) with one of {STEPS}, or ('sparse', ridge) with one of "
        f"{SUPPORT_RIDGES}."
    )
    raise ValueError(msg)


def _exist(ranks: tuple, shape: tuple[int, ...]) -> bool:
    """Say whether there are tensors of these ranks, in the range that is tuned."""
    largest = largest_rank("tucker", shape)
    if len(ranks) != len(shape) or not all(isinstance(r, Integral) for r in ranks):
        return False
    return all(
        1 <= rank <= min(size, largest) and rank**2 <= prod(ranks)
        for rank, size in zip(ranks, shape, strict=True)
    )


# Penalties about the one of least leave-one-out error.
EPSILON_FACTORS = (0.1, 1.0, 10.0)
# And what it is multiplied by where groups are left out.
LARGER_EPSILONS = tuple(10.0**k for k in range(5))


def grid_epsilons(
    model: Any, task: Task, folds: Sequence[Fold] | None = None
) -> list[float]:
    """Return the penalties an estimator's `epsilons` stand for.

    Samples of a group resemble each other, so that one of them is easily told from
    the rest: given `folds` of groups, larger penalties are tried on these.
    """
    if isinstance(model.epsilons, str) and model.epsilons == "loo":
        best = choose_epsilon(task.system, "loo", task.samples.weight)
        if folds is not None and not is_lazy(task.samples.X):
            larger = [factor * best for factor in LARGER_EPSILONS]
            best = min(larger, key=lambda epsilon: _pilot_loss(task, folds, epsilon))
        return [factor * best for factor in EPSILON_FACTORS]
    return grid_values(model.epsilons, "epsilons", PAPER_EPSILONS)


def _pilot_loss(task: Task, folds: Sequence[Fold], epsilon: float) -> float:
    """Return the pilots' squared error on the rows that folds leave out."""
    known, pilots = with_pilots(task, folds, [epsilon])
    values = [
        fold.centred_predictions(task, pilots[f, 0, ...])
        for f, fold in enumerate(known)
    ]
    return float(held_out_losses(task, known, values).sum())


def grid_pairs(model: Any) -> list[tuple[float, float]]:
    """Return all pairs of an estimator's `lambdas_sparse` and `lambdas_low`."""
    sparse = grid_values(model.lambdas_sparse, "lambdas_sparse", PAPER_LAMBDAS)
    low = grid_values(model.lambdas_low, "lambdas_low", PAPER_LAMBDAS)
    return list(product(sparse, low))
