"""Which map in front of the samples predicts best: units of entries, smooth modes.

Apart from the rest of tuning because it comes before it: a map is chosen by the ridge
pilot alone, and then everything else is chosen once, in that map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sltr.arrays import as_array, to_numpy
from sltr.ridge import choose_epsilon
from sltr.samples.front import Front, FrontPlan
from sltr.tuning.candidates import best_epsilon, pilot_losses
from sltr.tuning.folds import ALIKE, Folds, Split, close_to
from sltr.tuning.task import Task


@dataclass(frozen=True, eq=False)
class Tried:
    """A map, the fits prepared in it, and its pilot's squared errors, (n,)."""

    task: Task
    losses: np.ndarray
    weight: np.ndarray

    @property
    def total(self) -> float:
        """The weighted sum of the errors."""
        return float(self.weight @ self.losses)


def task_in_best_map(
    plan: FrontPlan,
    prepared: Callable[[Front], Task],
    splits: Sequence[Split] | None = None,
) -> Task:
    """Return the task in the map that predicts best, or the first if none clearly does.

    Units are chosen first, then the strength of one smooth mode after another. A map
    takes the place of the one before it where its pilot's errors are lower by more
    than one standard error of the difference, and by more than are alike: those of
    leaving out one sample at a time, or the rows of `splits`, where samples come in
    groups.
    """
    front = plan.first

    def tried(front: Front) -> Tried:
        return _tried(prepared(front), splits)

    best = tried(front)
    for units in list(plan.scales)[1:]:
        best = _better(best, [tried(plan.front(units, front.strengths))])
    for mode in plan.modes:
        known = best.task.front
        others = [
            tried(plan.front(known.standardize, {**known.strengths, mode.mode: s}))
            for s in mode.strengths[1:]
        ]
        best = _better(best, others)
    return best.task


def _tried(task: Task, splits: Sequence[Split] | None) -> Tried:
    if splits is None:
        like = task.samples.weight
        best = choose_epsilon(task.system, "loo", like)
        losses = task.system.loo_losses(as_array([best], like))[0, :]
        return Tried(task, to_numpy(losses), to_numpy(like))
    folds = Folds.of(task, splits)
    losses = pilot_losses(task, folds, [best_epsilon(task, folds)])[:, 0]
    return Tried(task, losses, np.concatenate(folds.weights))


def _better(first: Tried, others: Sequence[Tried]) -> Tried:
    """Return the best of the others if it is clearly better than the first."""
    best = min([first, *others], key=lambda tried: tried.total)
    pair = np.stack([best.losses, first.losses], axis=1)
    return first if close_to(0, pair, first.weight, alike=ALIKE)[1] else best
