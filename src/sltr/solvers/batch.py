"""Whole grids on an accelerator: two large batches for all pilots at once.

The structure is that of `sltr.solvers.chain`: closed forms, then one problem
for each pilot and spectral radius, then the band where both constraints bind.
Each level is one batch, whose problems leave it as they finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sltr._array import Array, array_namespace, device, to_python
from sltr.prox import clip_entries
from sltr.solvers.admm import admm
from sltr.solvers.problem import Problem, spread_over
from sltr.solvers.result import Result

__all__ = ["batch"]


def batch(
    candidates: Problem, chunks: Sequence[Sequence[int]], *, tol: float, max_iter: int
) -> Iterator[Result]:
    """Solve, chunk by chunk, candidates that may belong to different pilots.

    Parameters
    ----------
    candidates : Problem
        Its radii and weights have G rows, its pilot Q rows, where G is a multiple
        of Q: candidate g belongs to pilot g // (G / Q).
    chunks : sequence of sequences of int
        Places within the grid of one pilot; each chunk takes them of all pilots.

    Yields
    ------
    Result
        For each chunk, answers of shape (Q · len(chunk), …), pilot by pilot.
    """
    n_pilots = candidates.size
    per_pilot = candidates.sparse_radius.shape[0] // n_pilots
    for chunk in chunks:
        places = [q * per_pilot + g for q in range(n_pilots) for g in chunk]
        owners = [q for q in range(n_pilots) for _ in chunk]
        yield _solve(_gathered(candidates, places, owners), tol, max_iter)


def _solve(problem: Problem, tol: float, max_iter: int) -> Result:
    xp = array_namespace(problem.pilot)
    problem = problem.with_effective_box()
    closed = problem.is_closed_form()
    answers = _Answers.of(problem)
    open_places = xp.nonzero(~closed)[0]
    if open_places.shape[0] == 0:
        return answers.result()

    rest = problem.take(open_places)
    free = replace(rest, sparse_radius=xp.min(rest.low_radius, axis=1))
    firsts, group = _distinct(free)
    free = free.take(firsts)
    base, ends = admm(free, tol=tol, max_iter=max_iter)
    axes = tuple(range(1, base.x.ndim))
    reach = xp.max(xp.abs(base.x - free.pilot), axis=axes)
    shared = rest.sparse_radius >= xp.take(reach, group, axis=0)
    places = xp.nonzero(shared)[0]
    if places.shape[0] > 0:
        whose = xp.take(group, places, axis=0)
        answers.put(xp.take(open_places, places, axis=0), base, whose)

    places = xp.nonzero(~shared)[0]
    if places.shape[0] > 0:
        band = rest.take(places)
        start = ends.take(xp.take(group, places, axis=0))
        radius = spread_over(band.sparse_radius, start.x)
        boxed = band.pilot + clip_entries(start.x - band.pilot, radius)
        result, _ = admm(band, replace(start, x=boxed), tol=tol, max_iter=max_iter)
        answers.put(xp.take(open_places, places, axis=0), result, None)
    return answers.result()


def _gathered(candidates: Problem, places: list[int], owners: list[int]) -> Problem:
    xp = array_namespace(candidates.pilot)
    where = device(candidates.pilot)
    rows = xp.asarray(places, dtype=xp.int64, device=where)
    pilots = xp.asarray(owners, dtype=xp.int64, device=where)
    names = ("sparse_radius", "low_radius", "sparse_weight", "low_weight")
    taken = {name: xp.take(getattr(candidates, name), rows, axis=0) for name in names}
    return replace(candidates, pilot=xp.take(candidates.pilot, pilots, axis=0), **taken)


def _distinct(free: Problem) -> tuple[Array, Array]:
    """Return the first place of each distinct problem, and each one's group.

    Problems of one pilot come one after another; two of them are the same when
    their radii and weights are, and pilots differ in their largest entries.
    """
    xp = array_namespace(free.pilot)
    largest = xp.max(xp.abs(free.pilot), axis=tuple(range(1, free.pilot.ndim)))
    total = xp.sum(free.pilot, axis=tuple(range(1, free.pilot.ndim)))
    keys = xp.concat(
        [
            largest[:, None],
            total[:, None],
            free.low_radius,
            free.low_weight,
            free.sparse_weight[:, None],
        ],
        axis=1,
    )
    firsts: list[int] = []
    group: list[int] = []
    seen: dict[tuple, int] = {}
    for place, key in enumerate(map(tuple, to_python(keys))):
        if key not in seen:
            seen[key] = len(firsts)
            firsts.append(place)
        group.append(seen[key])
    where = device(free.pilot)
    return (
        xp.asarray(firsts, dtype=xp.int64, device=where),
        xp.asarray(group, dtype=xp.int64, device=where),
    )


@dataclass(eq=False)
class _Answers:
    """Answers of a batch, put in place level by level."""

    parts: list[Result]
    order: Array  # for each problem, its row in the concatenated parts
    n_rows: int

    @staticmethod
    def of(problem: Problem) -> _Answers:
        """Start with S_a(Z) for all, right where the closed form holds."""
        xp = array_namespace(problem.pilot)
        gap = xp.astype(0.0 * problem.sparse_radius, xp.float64)
        first = Result(problem.thresholded(), xp.astype(gap, xp.int64), gap, gap == 0.0)
        places = xp.arange(problem.size, device=device(problem.pilot))
        return _Answers([first], places, problem.size)

    def put(self, places: Array, result: Result, rows: Array | None) -> None:
        """Let the problems at `places` have `rows` (all by default) of a result."""
        xp = array_namespace(self.order)
        if rows is None:
            rows = xp.arange(result.x.shape[0], device=device(self.order))
        everyone = xp.arange(self.order.shape[0], device=device(self.order))
        # Each problem looks its place up in `places`; most are not in it.
        hits = everyone[:, None] == places[None, :]
        offset = xp.sum(xp.where(hits, rows[None, :] + self.n_rows, 0), axis=1)
        self.order = xp.where(xp.any(hits, axis=1), offset, self.order)
        self.parts.append(result)
        self.n_rows += result.x.shape[0]

    def result(self) -> Result:
        """Return all answers in the batch's order."""
        xp = array_namespace(self.order)
        return Result(
            *(
                xp.take(
                    xp.concat([getattr(part, name) for part in self.parts], axis=0),
                    self.order,
                    axis=0,
                )
                for name in ("x", "n_iter", "residual", "converged")
            )
        )
