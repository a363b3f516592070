"""A whole grid of radii about some pilots: one loop, three schedules.

Apart from `estimate`, which says what is solved; this module says in which order.

Most of a grid needs no solve of its own, because it has a closed form
(`Problem.is_closed_form`). For the rest, the problem is first solved once for each
spectral radius with a sparse ball that does not bind: the base. Every sparse ball
that is wide enough for the base's solution shares it. Only the band where both
constraints bind is solved problem by problem, and starts from a neighbour's solution.

A schedule says which problems are solved in one call. TOGETHER solves all bases of a
chunk, then its whole band: accelerators and small problems gain by sharing calls.
ONE_BY_ONE solves each problem by itself and starts it from the one before or, better,
from the same radii about a close pilot: large problems on a CPU gain more by that.
PPXA solves each problem by itself with the paper's algorithm and uses no structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from sltr.arrays import Array, array_namespace, to_python
from sltr.core.admm import Start, admm, cold_start, default_steps
from sltr.core.problem import ClosedForms, Item, Problem, Result, exact, indices, joined
from sltr.core.tensor import spread_over

# Pilots that are this close to multiples of each other, relative to their largest
# entry, start each other's problems.
CLOSE = 0.01

Schedule = Enum("Schedule", ["TOGETHER", "ONE_BY_ONE", "PPXA"])


def solve_grid(
    grid: Problem,
    chunks: Sequence[Sequence[int]],
    *,
    schedule: Schedule,
    tol: float,
    max_iter: int,
) -> Iterator[Result]:
    """Solve the candidates of each chunk for all pilots.

    `grid` has Q pilots and Q·G rows of radii and weights, those of pilot q from row
    q·G on. A chunk lists candidates between 0 and G − 1. ONE_BY_ONE wants them by
    ascending spectral and descending entrywise radius, and each pilot close to the
    one before. How the order is cut into chunks does not change the solutions.
    Yields for each chunk a result with Q·len(chunk) rows, pilot by pilot.
    """
    grid = grid.with_effective_box()
    closed_forms = ClosedForms(grid)
    ends = _Ends(grid) if schedule is Schedule.ONE_BY_ONE else None
    single = grid.n_candidates == 1
    for chunk in chunks:
        items = [(q, g) for q in range(grid.size) for g in chunk]
        solved = _Solved()
        known: list[int] = []
        if schedule is not Schedule.PPXA:
            known = closed_forms.among(items)
        if known:
            solved.add(known, *closed_forms.solutions([items[i] for i in known]))
        unknown = sorted(set(range(len(items))) - set(known))
        together = schedule is Schedule.TOGETHER and unknown
        for call in [unknown] if together else [[i] for i in unknown]:
            some = [items[i] for i in call]
            problem = grid.of_items(some)
            if schedule is Schedule.PPXA:
                solved.add(call, _by_ppxa(problem, tol, max_iter))
            else:
                result = _by_admm(problem, some, ends, tol, max_iter, single=single)
                solved.add(call, result)
        yield solved.in_order(grid)


@dataclass(eq=False)
class _Solved:
    """Results of some problems each, and which row of them is whose solution."""

    results: list[Result] = field(default_factory=list)
    row_of: dict[int, int] = field(default_factory=dict)
    n_rows: int = 0

    def add(
        self, indices: list[int], result: Result, rows: list[int] | None = None
    ) -> None:
        """Add the result of some problems; by default each has a row of its own."""
        rows = list(range(len(indices))) if rows is None else rows
        for i, row in zip(indices, rows, strict=True):
            self.row_of[i] = self.n_rows + row
        self.results.append(result)
        self.n_rows += result.x.shape[0]

    def in_order(self, problem: Problem) -> Result:
        """Return the results of all problems by their index, in one copy."""
        rows = [self.row_of[i] for i in range(len(self.row_of))]
        every = joined(self.results)
        if rows == list(range(self.n_rows)):
            return every
        return every.take(indices(rows, problem.pilot))


def _by_ppxa(problem: Problem, tol: float, max_iter: int) -> Result:
    from sltr.core.ppxa import solve_by_ppxa

    if float(problem.sparse_radius[0]) == 0.0:  # only the pilot is feasible
        return exact(problem.pilot, problem.sparse_radius)
    return solve_by_ppxa(problem, tol=tol, max_iter=max_iter)


def _by_admm(
    problem: Problem,
    items: list[Item],
    ends: _Ends | None,
    tol: float,
    max_iter: int,
    *,
    single: bool,
) -> Result:
    """Solve problems of a grid that have no closed form: bases, then the band."""
    if single:  # nobody would share its base
        start = None if ends is None else ends.from_close_pilot("band", items[0])
        result, end = admm(problem, start, tol=tol, max_iter=max_iter)
        if ends is not None:
            ends.add("band", items[0], end)
        return result
    xp = array_namespace(problem.pilot)
    bases, base_of = _find_bases(problem, items, ends, tol, max_iter)
    rows = indices(base_of, problem.pilot)
    shares = to_python(
        problem.sparse_radius >= xp.take(bases.largest_move, rows, axis=0)
    )
    shared = [j for j, shares_base in enumerate(shares) if shares_base]
    band = [j for j, shares_base in enumerate(shares) if not shares_base]
    solved = _Solved()
    if shared:
        solved.add(shared, bases.result, [base_of[j] for j in shared])
    if band:
        rows = indices([base_of[j] for j in band], problem.pilot)
        narrow = problem.take(band)
        start = _start_of_band(narrow, bases, rows, items[0], ends)
        result, end = admm(narrow, start, tol=tol, max_iter=max_iter)
        if ends is not None:
            ends.add("band", items[0], end)
        solved.add(band, result)
    return solved.in_order(problem)


def _start_of_band(
    problem: Problem, bases: _Bases, rows: Array, item: Item, ends: _Ends | None
) -> Start | None:
    """Start from the bases of these rows, or from a neighbour, inside the box.

    Steps of a base, which no box binds, are too long: they would take half as many
    iterations again where the short side of a matrix is large.
    """
    start: Start | None
    if ends is None:
        start = (bases.end or cold_start(bases.problem)).take(rows)
    else:
        start = ends.start_of_band(item)
    if start is None:
        return None
    is_base = ends is None or start is bases.end
    steps = default_steps(problem) if is_base else start.steps
    return Start(problem.region.nearest(start.x), start.duals, steps)


@dataclass(frozen=True, eq=False)
class _Bases:
    """Solutions for some spectral radii with a sparse ball that does not bind."""

    keys: list[tuple]  # pilot, spectral radii and weights of each row
    problem: Problem
    result: Result
    end: Start | None  # none where all are closed forms, which have no multipliers

    @property
    def largest_move(self) -> Array:
        """The narrowest sparse balls that do not change the solutions, (B,)."""
        return self.problem.sparsity.dual_norm(self.result.x - self.problem.pilot)


def _find_bases(
    problem: Problem, items: list[Item], ends: _Ends | None, tol: float, max_iter: int
) -> tuple[_Bases, list[int]]:
    """Return the distinct bases of some problems, and the row of each one's base."""
    xp = array_namespace(problem.pilot)
    widest = xp.min(problem.low_radius, axis=1) / problem.sparsity.least
    free = replace(problem, sparse_radius=widest)
    settings = xp.concat(
        [free.low_radius, free.low_weight, free.sparse_weight[:, None]], axis=1
    )
    keys = [(q, *row) for (q, _), row in zip(items, to_python(settings), strict=True)]
    first: dict[tuple, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    row_of = {key: row for row, key in enumerate(first)}
    base_of = [row_of[key] for key in keys]
    known = None if ends is None else ends.bases.get(items[0][0])
    if known is not None and known.keys == list(first):
        return known, base_of
    free = free.take(list(first.values()))
    start = None if ends is None else ends.start_of_base(items[0], free)
    result, end = _solve_bases(free, start, tol, max_iter)
    bases = _Bases(list(first), free, result, end)
    if ends is not None:
        ends.bases[items[0][0]] = bases
        ends.add("base", items[0], end)
    return bases, base_of


def _solve_bases(
    free: Problem, start: Start | None, tol: float, max_iter: int
) -> tuple[Result, Start | None]:
    """Solve all but the closed forms: no relative gap can certify a zero solution."""
    closed = to_python(free.is_closed_form())
    rest = [g for g in range(free.size) if not closed[g]]
    known = exact(free.thresholded(), free.sparse_radius)
    if not rest:
        return known, None
    if len(rest) == free.size:
        return admm(free, start, tol=tol, max_iter=max_iter)
    solved, end = admm(free.take(rest), tol=tol, max_iter=max_iter)
    row_of = {g: free.size + row for row, g in enumerate(rest)}
    rows = indices([row_of.get(g, g) for g in range(free.size)], free.pilot)
    return joined([known, solved]).take(rows), cold_start(free).join(end).take(rows)


@dataclass(frozen=True, eq=False)
class _Ends:
    """Where problems ended that were solved one by one: starts for their neighbours.

    The ends of a pilot wait for the next pilot, which uses each of them once.
    """

    grid: Problem
    bases: dict[int, _Bases] = field(default_factory=dict)  # the last of each pilot
    last: dict[int, Start | None] = field(default_factory=dict)
    waiting: dict[tuple[str, int, int], Start | None] = field(default_factory=dict)

    def start_of_base(self, item: Item, free: Problem) -> Start | None:
        """Start from the close pilot's base, or from the base of a smaller radius."""
        start = self.from_close_pilot("base", item)
        before = self.bases.get(item[0])
        if start is None and before is not None and before.end is not None:
            start = _scaled(before.end, before.problem, free)
        return start

    def start_of_band(self, item: Item) -> Start | None:
        """Start from the close pilot's problem, or from the one before."""
        return self.from_close_pilot("band", item) or self.last[item[0]]

    def add(self, kind: str, item: Item, end: Start | None) -> None:
        """Keep where a problem ended, for the next one and the next pilot."""
        self.last[item[0]] = end
        if item[0] + 1 < self.grid.size:
            self.waiting[kind, *item] = end

    def from_close_pilot(self, kind: str, item: Item) -> Start | None:
        """Return the end for the same candidate, moved along with the pilot.

        With the radii, a multiple of a pilot multiplies its solution.
        """
        q, g = item
        end = self.waiting.pop((kind, q - 1, g), None)
        if end is None:
            return None
        old, new = (self.grid.of_items([(pilot, g)]) for pilot in (q - 1, q))
        ratio = _multiple(old.pilot, new.pilot)
        scaled = float(new.low_radius[0, 0]) / float(old.low_radius[0, 0])
        if abs(scaled - ratio) > CLOSE * ratio:
            return None
        moved = new.pilot + ratio * (end.x - old.pilot)
        return Start(moved, end.duals, [step * ratio for step in end.steps])


def _scaled(start: Start, old: Problem, new: Problem) -> Start:
    """Scale a start with the spectral radius; multipliers stay as they are."""
    xp = array_namespace(start.x)
    ratio = xp.min(new.low_radius / old.low_radius, axis=1)
    return Start(
        new.pilot + spread_over(ratio, start.x) * (start.x - old.pilot),
        start.duals,
        [step * ratio[:, None] for step in start.steps],
    )


def independent_parts(grid: Problem, schedule: Schedule) -> list[Problem]:
    """Cut a grid into parts that `solve_grid` may take one by one, or in threads."""
    if schedule is Schedule.TOGETHER:
        return [grid]
    runs = [[q] for q in range(grid.size)]
    if schedule is Schedule.ONE_BY_ONE:
        runs = runs_of_close_pilots(grid.pilot)
    n_candidates = grid.n_candidates
    rows = [
        [q * n_candidates + g for q in run for g in range(n_candidates)] for run in runs
    ]
    return [grid.take(some, pilots=run) for run, some in zip(runs, rows, strict=True)]


def runs_of_close_pilots(pilots: Array) -> list[list[int]]:
    """Cut pilots (Q, …) into runs of those that nearly are multiples of the last."""
    xp = array_namespace(pilots)
    runs = [[0]]
    for q in range(1, pilots.shape[0]):
        old, new = pilots[q - 1, ...], pilots[q, ...]
        ratio = _multiple(old, new)
        moved = xp.max(xp.abs(new - ratio * old))
        if ratio > 0.0 and bool(moved <= CLOSE * xp.max(xp.abs(new))):
            runs[-1].append(q)
        else:
            runs.append([q])
    return runs


def _multiple(old: Array, new: Array) -> float:
    """Return the factor that brings one pilot closest to another."""
    xp = array_namespace(old)
    size = float(xp.sum(old * old))
    return float(xp.sum(old * new)) / size if size > 0.0 else 0.0
