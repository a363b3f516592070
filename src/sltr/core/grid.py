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

from sltr.arrays import Array, array_namespace, device, spectral_norm, to_python
from sltr.core.admm import Start, admm, cold_start
from sltr.core.problem import Problem, Result, exact, is_within, joined, spread_over
from sltr.core.prox import clip_entries
from sltr.core.tensor import unfold

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
        problem = _gathered(candidates, places, owners).with_effective_box()
        yield _solve(problem, owners, tol, max_iter)


def _solve(problem: Problem, owners: list[int], tol: float, max_iter: int) -> Result:
    xp = array_namespace(problem.pilot)
    answers = [exact(problem.thresholded(), problem.sparse_radius)]
    row_of = list(range(problem.size))  # each problem's row among all answers
    closed = to_python(problem.is_closed_form())
    places = [g for g in row_of if not closed[g]]
    if not places:
        return answers[0]

    # Level one: no box that binds, once for each pilot and spectral radius.
    rest = problem.take(_indices(places, problem))
    free = replace(rest, sparse_radius=xp.min(rest.low_radius, axis=1))
    firsts, group = _distinct(free, [owners[g] for g in places])
    free = free.take(_indices(firsts, problem))
    base, ends = _without_box(free, tol, max_iter)
    reach = xp.max(xp.abs(base.x - free.pilot), axis=tuple(range(1, base.x.ndim)))
    reach = xp.take(reach, _indices(group, problem), axis=0)
    shared = to_python(rest.sparse_radius >= reach)
    for i, g in enumerate(places):
        row_of[g] = problem.size + group[i]
    answers.append(base)

    # Level two: the band, each from the answer without its box.
    in_band = [i for i in range(len(places)) if not shared[i]]
    if in_band:
        band = rest.take(_indices(in_band, problem))
        start = ends.take(_indices([group[i] for i in in_band], problem))
        radius = spread_over(band.sparse_radius, start.x)
        boxed = band.pilot + clip_entries(start.x - band.pilot, radius)
        result, _ = admm(band, replace(start, x=boxed), tol=tol, max_iter=max_iter)
        for row, i in enumerate(in_band):
            row_of[places[i]] = problem.size + len(firsts) + row
        answers.append(result)
    return _rows(answers, _indices(row_of, problem))


def _without_box(free: Problem, tol: float, max_iter: int) -> tuple[Result, Start]:
    """Solve all but the closed forms: no relative gap can certify a zero answer."""
    closed = to_python(free.is_closed_form())
    rest = [g for g in range(free.size) if not closed[g]]
    known = exact(free.thresholded(), free.sparse_radius)
    if not rest:
        return known, cold_start(free)
    if len(rest) == free.size:
        return admm(free, tol=tol, max_iter=max_iter)
    found, ends = admm(free.take(_indices(rest, free)), tol=tol, max_iter=max_iter)
    places = {g: free.size + i for i, g in enumerate(rest)}
    rows = _indices([places.get(g, g) for g in range(free.size)], free)
    return _rows([known, found], rows), cold_start(free).join(ends, rows)


def _gathered(candidates: Problem, places: list[int], owners: list[int]) -> Problem:
    xp = array_namespace(candidates.pilot)
    rows, pilots = _indices(places, candidates), _indices(owners, candidates)
    names = ("sparse_radius", "low_radius", "sparse_weight", "low_weight")
    taken = {name: xp.take(getattr(candidates, name), rows, axis=0) for name in names}
    return replace(candidates, pilot=xp.take(candidates.pilot, pilots, axis=0), **taken)


def _distinct(free: Problem, owners: list[int]) -> tuple[list[int], list[int]]:
    """Return the first place of each distinct problem, and each one's group."""
    xp = array_namespace(free.pilot)
    settings = xp.concat(
        [free.low_radius, free.low_weight, free.sparse_weight[:, None]], axis=1
    )
    groups: dict[tuple, int] = {}
    firsts: list[int] = []
    group: list[int] = []
    for place, (owner, row) in enumerate(zip(owners, to_python(settings), strict=True)):
        key = (owner, *row)
        if key not in groups:
            groups[key] = len(firsts)
            firsts.append(place)
        group.append(groups[key])
    return firsts, group


def _indices(places: list[int], problem: Problem) -> Array:
    xp = array_namespace(problem.pilot)
    return xp.asarray(places, dtype=xp.int64, device=device(problem.pilot))


def _rows(answers: list[Result], rows: Array) -> Result:
    xp = array_namespace(rows)
    every = joined(answers)
    fields = (every.x, every.n_iter, every.residual, every.converged)
    return Result(*(xp.take(values, rows, axis=0) for values in fields))
