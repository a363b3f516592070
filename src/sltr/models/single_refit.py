"""The refit of an estimator that tunes nothing else: given, or chosen by folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from sltr.models.answer import Member
from sltr.models.candidates import (
    SUPPORT_RIDGES,
    Candidate,
    check_refinements,
    equal_ranks,
    largest_rank,
    refined,
)
from sltr.models.choosing import choose
from sltr.models.folds import Fold, Task
from sltr.models.tuning import held_out_predictions
from sltr.refine import RIDGES, STEPS

__all__ = ["choose_refit"]

INNER_FOLDS = 5


def choose_refit(
    task: Task, base: Candidate, refine: Any, held_out: Sequence[np.ndarray] = ()
) -> Member:
    """Return the refined candidate, with its factors if it is scaled.

    What is not given is chosen by folds, whose rows are `held_out`: by default five
    runs of the task's samples.
    """
    if refine is None:
        return Member(base)
    if isinstance(refine, tuple | list):
        return Member(_given_refit(base, refine, task.samples.shape))
    [kind] = check_refinements(refine)
    n_samples = task.samples.weight.shape[0]
    everyone = np.arange(n_samples)
    held_out = held_out or np.array_split(everyone, min(INNER_FOLDS, n_samples))
    folds = [Fold.of(task, np.setdiff1d(everyone, rows), rows) for rows in held_out]
    held = held_out_predictions(
        task,
        folds,
        [base.epsilon],
        [(base.lambda_sparse, base.lambda_low)],
        [kind],
        start=base,
    )
    return choose(task, folds, held, scoring=None).members[0]


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
