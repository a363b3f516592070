"""What both ways to run the splitting share: where it starts, and its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sltr.arrays import (
    Array,
    array_namespace,
    can_iterate_splitting,
    clip,
    device,
    in_c_order,
    is_numpy,
    iterate_splitting,
    to_python,
)
from sltr.core.problem import Problem, Result, spread_over
from sltr.core.prox import clip_singular_values, polar, soft_threshold
from sltr.core.tensor import fold, unfold

RELAX = 1.6
ADAPT_EVERY, ADAPT_UNTIL = 5, 100
RESTART_AFTER = 300
# Looked at in any case: agreement may stall at rounding while the gap is closed.
CERTIFY_EVERY = 50


@dataclass(frozen=True, eq=False)
class Start:
    """A point, its multipliers and its steps: what a warm start needs.

    `x` has shape (G, p1, …, pM). The lists hold one array for each mode, whose
    second axis pairs the nuclear norm (0) with the spectral ball (1): multipliers
    of shape (G, 2, p1, …, pM), steps of shape (G, 2).
    """

    x: Array
    duals: list[Array]
    steps: list[Array]

    @property
    def nuclear(self) -> list[Array]:
        """Multipliers of the nuclear norms, shaped like `x`."""
        return [dual[:, 0, ...] for dual in self.duals]

    @property
    def spectral(self) -> list[Array]:
        """Multipliers of the spectral balls, shaped like `x`."""
        return [dual[:, 1, ...] for dual in self.duals]

    def take(self, indices: Array) -> Start:
        """Return the items at these places of the batch."""
        xp = array_namespace(self.x)

        def pick(arrays):
            return [xp.take(v, indices, axis=0) for v in arrays]

        return Start(pick([self.x])[0], pick(self.duals), pick(self.steps))

    def join(self, other: Start, indices: Array | None = None) -> Start:
        """Return this batch followed by another, or the items at these places."""
        xp = array_namespace(self.x)

        def both(one, two):
            return xp.concat([one, two], axis=0)

        joined = Start(
            both(self.x, other.x),
            [both(*pair) for pair in zip(self.duals, other.duals, strict=True)],
            [both(*pair) for pair in zip(self.steps, other.steps, strict=True)],
        )
        return joined if indices is None else joined.take(indices)


def cold_start(problem: Problem) -> Start:
    """Start from the multipliers of the limit of small spectral balls.

    There the answer moves from Z against the subgradient G = α·sign(Z) +
    Σβ_k·polar(Z_(k)), as far as the balls allow: W = Z − b·polar(G).
    """
    xp = array_namespace(problem.pilot)
    Z, shape = problem.pilot, tuple(problem.pilot.shape[1:])
    n_modes = len(problem.modes)

    def direction(tensor: Array, mode: int) -> Array:
        return fold(polar(unfold(tensor, mode)), mode, shape)

    gradient = spread_over(problem.sparse_weight, Z) * xp.sign(Z)
    for k, mode in enumerate(problem.modes):
        weight = spread_over(problem.low_weight[:, k], Z)
        gradient = gradient + weight * direction(Z, mode)
    x = Z
    for k, mode in enumerate(problem.modes):
        reach = spread_over(problem.low_radius[:, k] / n_modes, Z)
        x = x - reach * direction(gradient, mode)
    duals = []
    for k, mode in enumerate(problem.modes):
        pull = spread_over(problem.low_weight[:, k], Z) * direction(x, mode)
        duals.append(xp.stack([pull, -gradient / n_modes], axis=1))
    return Start(x, duals, _default_steps(problem))


def _default_steps(problem: Problem) -> list[Array]:
    """Return steps 1/r from the radii: the distances the answer may move."""
    xp = array_namespace(problem.pilot)
    shape = problem.pilot.shape[1:]
    steps = []
    for k, mode in enumerate(problem.modes):
        long_side = max(shape[mode], prod(shape) // shape[mode])
        reach = problem.low_radius[:, k] / long_side**0.5
        step = xp.minimum(problem.sparse_radius, reach)
        steps.append(xp.stack([4.0 * step, step], axis=1))
    return steps


def per_pair(values: Array, like: Array) -> Array:
    """Give values of shape (G, 2) trailing axes, so that they broadcast."""
    return values[(..., *([None] * (like.ndim - 2)))]


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


def admm(
    problem: Problem,
    start: Start | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> tuple[Result, Start]:
    """Solve a batch of sparse and low-rank problems to a relative duality gap.

    Parameters
    ----------
    problem : Problem
        All radii positive, the box inside the spectral balls
        (`Problem.with_effective_box`).
    start : Start, optional
        Where to begin; `cold_start(problem)` by default.
    tol : float
        Bound on the relative duality gap and on the relative spectral excess.
    max_iter : int

    Returns
    -------
    result : Result
        `residual` is the relative duality gap, shape (G,).
    end : Start
        Where each problem ended, for warm starts of its neighbours.
    """
    start = start or cold_start(problem)
    if is_fused(problem):
        return admm_fused(problem, start, tol=tol, max_iter=max_iter)
    xp = array_namespace(problem.pilot)
    batch = _Batch(problem, start)
    # Waiting for a device to answer costs more than the iterations it might save.
    check_every = 1 if is_numpy(problem.pilot) else 5
    places = xp.arange(problem.size, device=device(problem.pilot))
    finished: list[tuple] = []
    eager = xp.full_like(problem.sparse_radius, tol)
    for n_iter in range(1, max_iter + 1):
        batch.iterate(adapt=n_iter <= ADAPT_UNTIL and n_iter % ADAPT_EVERY == 0)
        last = n_iter == max_iter
        if n_iter % check_every and not last:
            continue
        # What one problem does never depends on the others in its batch.
        close = batch.disagreement() <= eager
        everyone = last or n_iter % CERTIFY_EVERY == 0
        if everyone or bool(xp.any(close)):
            gap, excess = batch.certificate(close | everyone, exact=tol < 1e-7)
            reached = (gap <= tol) & (excess <= tol)
            done = (reached & (close | everyone)) | last
            # A look in passing must not make the next one harder to come by.
            eager = xp.where(close & ~reached, 0.6 * eager, eager)
            if bool(xp.any(done)):
                out, kept = xp.nonzero(done)[0], xp.nonzero(~done)[0]
                finished.append(
                    (
                        xp.take(places, out, axis=0),
                        batch.end().take(out),
                        xp.take(gap, out, axis=0),
                        xp.take(reached, out, axis=0),
                        n_iter,
                    )
                )
                if kept.shape[0] == 0:
                    break
                batch.keep(kept)
                places, eager = (xp.take(v, kept, axis=0) for v in (places, eager))
        if n_iter == RESTART_AFTER:
            # Inherited weights, frozen by now, can be bad: begin again from scratch.
            batch = _Batch(batch.problem, cold_start(batch.problem))
    return _assemble(finished)


class _Batch:
    """The running state of a batch; shrinks as problems finish.

    The copies Y_k and Y'_k of each mode are kept as one array, so that each
    iteration decomposes all its matrices in one call.
    """

    def __init__(self, problem: Problem, start: Start):
        self._pose(problem)
        self.x = start.x
        self.steps = list(start.steps)
        self.Y = [
            start.x[:, None, ...] + per_pair(step, dual) * dual
            for step, dual in zip(start.steps, start.duals, strict=True)
        ]
        self.duals: list[Array] = []  # the parts cut off the copies: step · multiplier
        self.previous: list[Array] = []

    def _pose(self, problem: Problem) -> None:
        xp, Z = array_namespace(problem.pilot), problem.pilot
        self.problem = problem
        radius = spread_over(problem.sparse_radius, Z)
        self.lower, self.upper = Z - radius, Z + radius
        # A ball lies about Z, a nuclear norm about zero.
        self.centres = xp.stack([0.0 * Z, Z], axis=1)

    def iterate(self, *, adapt: bool) -> None:
        """Do one iteration; keeps what certificate and adaptation need."""
        xp, p = array_namespace(self.x), self.problem
        if self.duals:
            self._relax(adapt=adapt)
        self.duals = []
        total, mean = 0.0, 0.0
        for k, (copies, step) in enumerate(zip(self.Y, self.steps, strict=True)):
            radii = xp.stack(
                [p.low_weight[:, k] * step[:, 0], p.low_radius[:, k]], axis=1
            )
            dual = self._cut_off(copies - self.centres, radii, p.modes[k])
            rate = 1.0 / step
            mean = mean + xp.sum((copies - 2.0 * dual) * per_pair(rate, copies), axis=1)
            total = total + xp.sum(rate, axis=1)
            self.duals.append(dual)
        mean = mean / spread_over(total, mean)
        threshold = spread_over(p.sparse_weight / total, mean)
        self.x = clip(soft_threshold(mean, threshold), self.lower, self.upper)

    def _cut_off(self, copies: Array, radii: Array, mode: int) -> Array:
        """Clip the singular values of nuclear copies, threshold those of balls."""
        xp = array_namespace(copies)
        shape = tuple(copies.shape[2:])
        flat = unfold(xp.reshape(copies, (-1, *shape)), mode)
        clipped = clip_singular_values(flat, xp.reshape(radii, (-1,)))
        clipped = xp.reshape(fold(clipped, mode, shape), copies.shape)
        outside = copies[:, 1, ...] - clipped[:, 1, ...]
        return xp.stack([clipped[:, 0, ...], outside], axis=1)

    def _relax(self, *, adapt: bool) -> None:
        """Move the copies towards the last point, adapting their steps first."""
        x = self.x[:, None, ...]
        nearest = [y - dual for y, dual in zip(self.Y, self.duals, strict=True)]
        if adapt and self.previous:
            for k, (near, old) in enumerate(zip(nearest, self.previous, strict=True)):
                factor = _balance(x - near, near - old)
                self.steps[k] = self.steps[k] / factor
                self.duals[k] = self.duals[k] / per_pair(factor, near)
                self.Y[k] = near + self.duals[k]
        self.Y = [
            y + RELAX * (x - near) for y, near in zip(self.Y, nearest, strict=True)
        ]
        self.previous = nearest

    def disagreement(self) -> Array:
        """Return the largest ‖X − copy‖ / ‖X‖ over the copies, (G,)."""
        xp = array_namespace(self.x)
        x, worst = self.x[:, None, ...], 0.0 * self.problem.sparse_radius
        for y, dual in zip(self.Y, self.duals, strict=True):
            worst = xp.maximum(worst, xp.max(_norms(x - y + dual), axis=1))
        size = _norms(x)[:, 0]
        return worst / xp.where(size > 0, size, 1.0)

    def end(self) -> Start:
        """Return the present point with its multipliers and steps."""
        duals = [
            dual / per_pair(step, dual)
            for dual, step in zip(self.duals, self.steps, strict=True)
        ]
        return Start(self.x, duals, list(self.steps))

    def certificate(self, wanted: Array, *, exact: bool) -> tuple[Array, Array]:
        """Return gap and excess at the present point; infinite where not `wanted`."""
        end = self.end()
        if not is_numpy(self.x) or wanted.all():
            # An accelerator is done with all before it could pick some.
            return self._certified(self.problem, end, exact=exact)
        xp = array_namespace(self.x)
        some = xp.nonzero(wanted)[0]
        found = self._certified(self.problem.take(some), end.take(some), exact=exact)
        count = xp.cumulative_sum(xp.astype(wanted, xp.int64))
        places = xp.where(wanted, count - 1, 0)
        gap, excess = (xp.take(values, places, axis=0) for values in found)
        return xp.where(wanted, gap, xp.inf), xp.where(wanted, excess, xp.inf)

    @staticmethod
    def _certified(problem: Problem, end: Start, *, exact: bool) -> tuple[Array, Array]:
        return problem.certificate(end.x, end.nuclear, end.spectral, exact=exact)

    def keep(self, indices: Array) -> None:
        """Drop all problems but these."""
        xp = array_namespace(self.x)

        def pick(arrays):
            return [xp.take(v, indices, axis=0) for v in arrays]

        self._pose(self.problem.take(indices))
        self.x = xp.take(self.x, indices, axis=0)
        self.Y, self.duals = pick(self.Y), pick(self.duals)
        self.steps, self.previous = pick(self.steps), pick(self.previous)


def _balance(primal: Array, dual: Array) -> Array:
    """Return the factor on a weight r that balances the two residuals, (G, 2)."""
    xp = array_namespace(primal)
    p, d = _norms(primal), _norms(dual)
    both = (p > 0) & (d > 0)
    ratio = xp.where(both, p, 1.0) / xp.where(both, d, 1.0)
    apart = (ratio > 1.5) | (ratio < 1 / 1.5)
    return xp.where(apart, clip(xp.sqrt(ratio), 0.5, 2.0), 1.0)


def _norms(x: Array) -> Array:
    """Return the Frobenius norms of a batch of pairs, (G, 2)."""
    xp = array_namespace(x)
    flat = xp.reshape(x, (*x.shape[:2], -1))
    return xp.sqrt(xp.sum(flat * flat, axis=2))


def _assemble(finished: list[tuple]) -> tuple[Result, Start]:
    """Put results that finished at different times back into the batch's order."""
    xp = array_namespace(finished[0][0])
    order = xp.argsort(xp.concat([done[0] for done in finished]))
    end = finished[0][1]
    for done in finished[1:]:
        end = end.join(done[1])
    end = end.take(order)

    def joined(arrays):
        return xp.take(xp.concat(arrays, axis=0), order, axis=0)

    n_iter = joined([xp.full_like(done[0], done[4]) for done in finished])
    gap = joined([done[2] for done in finished])
    reached = joined([done[3] for done in finished])
    return Result(end.x, n_iter, gap, reached), end
