"""The settings SLTR is tuned over, as a table with one row for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isnan, nan
from typing import Any

from sltr.refine import RIDGES, STEPS
from sltr.validation import check_nonnegative, check_sequence

__all__ = [
    "LAMBDAS",
    "PAPER_EPSILONS",
    "PAPER_LAMBDAS",
    "REFINEMENTS",
    "Candidate",
    "candidate_columns",
    "check_refinements",
    "equal_ranks",
    "grid_values",
    "largest_rank",
    "n_parameters",
    "own_settings",
    "refined",
]

# Fractions of the maxima: 0 is the pilot itself, 1 leaves a constraint out.
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
