"""Whole grids as two large batches, for all pilots at once.

For accelerators, and for small problems on a CPU, which gain by sharing calls.

The structure is that of `sltr.solvers.chain`: closed forms, then one problem
for each pilot and spectral radius, then the band where both constraints bind.
Each level is one batch, whose problems leave it as they finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sltr._array import Array, array_namespace, device, to_python
from sltr.prox import clip_entries
from sltr.solvers.admm import admm
from sltr.solvers.problem import Problem, spread_over
from sltr.solvers.result import Result, exact, joined
from sltr.solvers.splitting import Start, cold_start

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
