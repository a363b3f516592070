"""Whole grids of large problems on a CPU: a chain of single problems with warm starts.

Most of a grid needs no solve of its own (`Problem.is_closed_form`). For the
rest, the problem is solved once per spectral radius without a box that binds;
every box wide enough for that answer shares it. Only the band where both
constraints bind is solved one by one, each from its neighbour's answer: that of
the next box or, better, of the same radii about a pilot close by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sltr._array import Array, array_namespace, spectral_norm, to_python
from sltr.prox import clip_entries
from sltr.solvers.admm import admm
from sltr.solvers.problem import Problem, is_within, spread_over
from sltr.solvers.result import Result, exact, joined
from sltr.solvers.splitting import Start
from sltr.tensor import unfold

__all__ = ["chain", "chains", "runs_of_close_pilots"]

# Pilots this close, relative to their largest entry, start each other's problems.
CLOSE = 0.01


def chain(
    candidates: Problem,
    chunks: Sequence[Sequence[int]],
    *,
    tol: float,
    max_iter: int,
) -> Iterator[Result]:
    """Solve the candidates of one pilot along the chunks' order.

    Parameters
    ----------
    candidates : Problem
        Its arrays of radii and weights have G rows, its pilot only one.
    chunks : sequence of sequences of int
        Places in the grid, best by ascending spectral radius and, within it,
        descending entrywise radius. Answers do not depend on how the order is
        cut into chunks.

    Yields
    ------
    Result
        For each chunk, its answers stacked.
    """
    return chains([candidates], chunks, tol=tol, max_iter=max_iter)


def chains(
    pilots: Sequence[Problem],
    chunks: Sequence[Sequence[int]],
    *,
    tol: float,
    max_iter: int,
) -> Iterator[Result]:
    """Solve one grid for a run of pilots, each close to the one before.

    As `chain`; a chunk's answers are stacked pilot after pilot.
    """
    order = [g for chunk in chunks for g in chunk]
    trails = [_Trail(problem.pilot) for problem in pilots]
    walks = [
        _walk(problem, order, tol, max_iter, before, own)
        for problem, before, own in zip(
            pilots, [None, *trails], [*trails[:-1], None], strict=False
        )
    ]
    for chunk in chunks:
        yield joined([next(walk) for walk in walks for _ in chunk])


def runs_of_close_pilots(pilots: Array) -> list[list[int]]:
    """Cut pilots (Q, …) into runs whose neighbours differ by little."""
    xp = array_namespace(pilots)
    runs = [[0]]
    for q in range(1, pilots.shape[0]):
        moved = xp.max(xp.abs(pilots[q, ...] - pilots[q - 1, ...]))
        if bool(moved <= CLOSE * xp.max(xp.abs(pilots[q, ...]))):
            runs[-1].append(q)
        else:
            runs.append([q])
    return runs


@dataclass(frozen=True, eq=False)
class _Trail:
    """Where the problems of one pilot ended; each end is used once."""

    pilot: Array
    bases: dict[int, Start | None] = field(default_factory=dict)
    ends: dict[int, Start | None] = field(default_factory=dict)


def _carried(
    ends: dict[int, Start | None], g: int, old: Array, new: Array
) -> Start | None:
    """Return where a problem of the old pilot ended, moved along to the new one."""
    end = ends.pop(g, None)
    return None if end is None else replace(end, x=end.x + (new - old))


def _walk(
    candidates: Problem,
    order: list[int],
    tol: float,
    max_iter: int,
    before: _Trail | None,
    own: _Trail | None,
) -> Iterator[Result]:
    candidates = candidates.with_effective_box()
    pilot = candidates.pilot
    before = before or _Trail(pilot)
    closed = _closed_forms(candidates)
    base: _Base | None = None
    for g in order:
        problem = candidates.candidate(g)
        if closed[g]:
            yield exact(problem.thresholded(), problem.sparse_radius)
            continue
        if base is None or not base.serves(problem):
            near = _carried(before.bases, g, before.pilot, pilot)
            base = _base(problem, near, base, tol, max_iter)
            last = base.end
            if own is not None:
                own.bases[g] = last
        if bool(problem.sparse_radius[0] >= base.reach):
            yield base.answer
            continue
        start = _carried(before.ends, g, before.pilot, pilot) or last
        start = None if start is None else replace(start, x=_boxed(start.x, problem))
        result, last = admm(problem, start, tol=tol, max_iter=max_iter)
        if own is not None:
            own.ends[g] = last
        yield result


@dataclass(frozen=True, eq=False)
class _Base:
    """The answer for a spectral radius without a box that binds."""

    problem: Problem
    answer: Result
    end: Start | None  # none for a closed form, which has no multipliers
    reach: Array  # the narrowest box that does not change the answer

    def serves(self, problem: Problem) -> bool:
        """Say whether `problem` differs from the base in its box alone."""
        xp = array_namespace(problem.pilot)
        names = ("low_radius", "low_weight", "sparse_weight")
        return all(
            bool(xp.all(getattr(self.problem, name) == getattr(problem, name)))
            for name in names
        )


def _base(
    problem: Problem,
    start: Start | None,
    last: _Base | None,
    tol: float,
    max_iter: int,
) -> _Base:
    xp = array_namespace(problem.pilot)
    free = replace(problem, sparse_radius=xp.min(problem.low_radius, axis=1))
    answer, end = exact(free.thresholded(), free.sparse_radius), None
    # A ball that holds zero gives zero, which no relative gap can certify.
    if not bool(free.is_closed_form()[0]):
        if start is None and last is not None and last.end is not None:
            start = _scaled(last.end, last.problem, free)
        answer, end = admm(free, start, tol=tol, max_iter=max_iter)
    return _Base(free, answer, end, xp.max(xp.abs(answer.x - free.pilot)))


def _closed_forms(candidates: Problem) -> list[bool]:
    """Say which candidates are closed forms, looking at each box once."""
    xp = array_namespace(candidates.pilot)
    norms: dict[float, list[Array]] = {}
    largest = float(xp.max(xp.abs(candidates.pilot)))
    found = []
    for g, a in enumerate(to_python(candidates.sparse_radius)):
        if a not in norms:
            moved = clip_entries(candidates.pilot, a)
            norms[a] = [spectral_norm(unfold(moved, mode)) for mode in candidates.modes]
        fits = is_within(xp.concat(norms[a]), candidates.low_radius[g, :])
        absorbs = candidates.sparse_weight[g] >= xp.sum(candidates.low_weight[g, :])
        either = largest <= a or bool(absorbs)
        found.append(a == 0.0 or (either and bool(xp.all(fits))))
    return found


def _boxed(x: Array, problem: Problem) -> Array:
    radius = spread_over(problem.sparse_radius, x)
    return problem.pilot + clip_entries(x - problem.pilot, radius)


def _scaled(start: Start, old: Problem, new: Problem) -> Start:
    """Blow a start up with the spectral radius; multipliers stay."""
    xp = array_namespace(start.x)
    ratio = xp.min(new.low_radius / old.low_radius, axis=1)
    return Start(
        new.pilot + spread_over(ratio, start.x) * (start.x - old.pilot),
        start.duals,
        [step * ratio[:, None] for step in start.steps],
    )
