"""The splitting on a device, many iterations in one kernel.

Matrices of a short side of up to 40 are iterated by one thread block each. A
problem runs until its copies agree, whatever the others in its batch do; then
all certificates are looked at together. What a problem does is what
`sltr.solvers.admm` does, to rounding.
"""

from __future__ import annotations

from sltr._array import (
    Array,
    array_namespace,
    can_iterate_splitting,
    in_c_order,
    iterate_splitting,
    to_python,
)
from sltr.solvers.problem import Problem
from sltr.solvers.result import Result
from sltr.solvers.splitting import (
    ADAPT_EVERY,
    ADAPT_UNTIL,
    CERTIFY_EVERY,
    RELAX,
    RESTART_AFTER,
    Start,
    cold_start,
    per_pair,
)

__all__ = ["admm_fused", "is_fused"]

# A look at the certificates costs as much as twenty iterations: a problem pauses
# when it will likely be certified, at this share of the tolerance.
EAGER, LESS_EAGER = 0.05, 0.3


def is_fused(problem: Problem) -> bool:
    """Say whether the device has a kernel for these problems."""
    is_matrix = problem.pilot.ndim == 3 and problem.modes == (0,)
    return is_matrix and can_iterate_splitting(problem.pilot)


def admm_fused(
    problem: Problem, start: Start, *, tol: float, max_iter: int
) -> tuple[Result, Start]:
    """Do what `admm` does, for problems of which `is_fused` is true."""
    xp = array_namespace(problem.pilot)
    state = _State(problem, start)
    eager = xp.full_like(problem.sparse_radius, EAGER * tol)
    done = xp.zeros_like(problem.sparse_radius, dtype=xp.bool)
    while True:
        apart = state.advance(eager, done, max_iter)
        end = state.end()
        gap, excess = problem.certificate(
            end.x, end.nuclear, end.spectral, exact=tol < 1e-7
        )
        reached = (gap <= tol) & (excess <= tol)
        eager = xp.where((apart <= eager) & ~reached, LESS_EAGER * eager, eager)
        done = done | reached | (state.n_iter == max_iter)
        stuck = ~done & (state.n_iter == RESTART_AFTER)
        all_done, some_stuck = to_python(xp.stack([xp.all(done), xp.any(stuck)]))
        if all_done:
            return Result(end.x, state.n_iter, gap, reached), end
        if some_stuck:
            state.begin(cold_start(problem), stuck)


class _State:
    """Arrays of a batch that the kernel changes in place."""

    def __init__(self, problem: Problem, start: Start):
        xp = array_namespace(problem.pilot)
        self.problem = problem
        self.x = in_c_order(start.x, copy=True)
        self.steps = in_c_order(start.steps[0], copy=True)
        # The parts cut off the copies: step · multiplier.
        self.duals = per_pair(self.steps, start.duals[0]) * in_c_order(start.duals[0])
        self.copies = self.x[:, None, ...] + self.duals
        self.before = xp.zeros_like(self.copies)
        self.n_iter = xp.zeros_like(problem.sparse_radius, dtype=xp.int64)

    def begin(self, start: Start, where: Array) -> None:
        """Begin again from `start`, where this is true (G,)."""
        xp = array_namespace(self.x)
        fresh = _State(self.problem, start)
        for name in ("x", "steps", "duals", "copies"):
            old, new = getattr(self, name), getattr(fresh, name)
            chosen = where[(..., *([None] * (old.ndim - 1)))]
            setattr(self, name, in_c_order(xp.where(chosen, new, old)))

    def advance(self, eager: Array, done: Array, last: int) -> Array:
        """Iterate what is not done; return the disagreement of its copies, (G,)."""
        p = self.problem
        return iterate_splitting(
            (p.pilot, p.sparse_radius, p.sparse_weight, p.low_radius, p.low_weight),
            (self.x, self.copies, self.duals, self.before, self.steps, self.n_iter),
            eager,
            done,
            check_every=ADAPT_EVERY,
            adapt_until=ADAPT_UNTIL,
            look_every=CERTIFY_EVERY,
            last=last,
            relax=RELAX,
        )

    def end(self) -> Start:
        """Return the present point with its multipliers and steps."""
        duals = self.duals / per_pair(self.steps, self.duals)
        return Start(self.x, [duals], [self.steps])
