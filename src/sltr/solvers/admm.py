"""The default solver: a splitting with the entrywise terms at its centre.

Each iteration thresholds singular values twice per mode and entries once:

    A_k = SVT_{β_k/r_k}(Y_k)                        nuclear norm of mode k
    B_k = projection of Y'_k onto its spectral ball
    X   = entrywise norm and box of the weighted mean of 2A_k − Y_k, 2B_k − Y'_k
    Y_k ← Y_k + ρ(X − A_k),  Y'_k ← Y'_k + ρ(X − B_k)

X is exactly sparse and inside the box in every iteration; what converges is
its agreement with the A_k and B_k. The weights r adapt during the first
iterations and then rest, so that convergence is that of a fixed splitting.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sltr._array import Array, array_namespace, clip, is_numpy
from sltr.prox import clip_singular_values, polar, soft_threshold
from sltr.prox import threshold_singular_values as svt
from sltr.solvers.problem import Problem, spread_over
from sltr.solvers.result import Result
from sltr.tensor import fold, unfold

__all__ = ["Start", "admm", "cold_start"]

RELAX = 1.6
ADAPT_EVERY, ADAPT_UNTIL = 5, 100
RESTART_AFTER = 300
# Looked at in any case: agreement may stall at rounding while the gap is closed.
CERTIFY_EVERY = 50


@dataclass(frozen=True, eq=False)
class Start:
    """A point, its multipliers and its weights: what a warm start needs.

    `x` has shape (G, p1, …, pM); the lists hold one array for each mode, the
    multipliers shaped like `x`, the weights of shape (G,).
    """

    x: Array
    nuclear: list[Array]
    spectral: list[Array]
    nuclear_step: list[Array]
    spectral_step: list[Array]

    def take(self, indices: Array) -> Start:
        """Return the items at these places of the batch."""
        xp = array_namespace(self.x)

        def pick(arrays):
            return [xp.take(v, indices, axis=0) for v in arrays]

        return Start(
            xp.take(self.x, indices, axis=0),
            pick(self.nuclear),
            pick(self.spectral),
            pick(self.nuclear_step),
            pick(self.spectral_step),
        )

    def join(self, other: Start, indices: Array) -> Start:
        """Return the items at these places of this batch followed by another."""
        xp = array_namespace(self.x)

        def both(one, two):
            return xp.take(xp.concat([one, two], axis=0), indices, axis=0)

        def each(name):
            pairs = zip(getattr(self, name), getattr(other, name), strict=True)
            return [both(one, two) for one, two in pairs]

        lists = ("nuclear", "spectral", "nuclear_step", "spectral_step")
        return Start(both(self.x, other.x), *(each(name) for name in lists))


def cold_start(problem: Problem) -> Start:
    """Start from the multipliers of the limit of small spectral balls.

    There the answer moves from Z against the subgradient G = α·sign(Z) +
    Σβ_k·polar(Z_(k)), as far as the balls allow: W = Z − b·polar(G).
    """
    xp = array_namespace(problem.pilot)
    Z, shape = problem.pilot, tuple(problem.pilot.shape[1:])
    n_modes = len(problem.modes)
    nuclear, gradient = [], spread_over(problem.sparse_weight, Z) * xp.sign(Z)
    for k, mode in enumerate(problem.modes):
        pull = fold(polar(unfold(Z, mode)), mode, shape)
        gradient = gradient + spread_over(problem.low_weight[:, k], Z) * pull
    x = Z
    for k, mode in enumerate(problem.modes):
        move = fold(polar(unfold(gradient, mode)), mode, shape)
        x = x - spread_over(problem.low_radius[:, k] / n_modes, Z) * move
    for k, mode in enumerate(problem.modes):
        pull = fold(polar(unfold(x, mode)), mode, shape)
        nuclear.append(spread_over(problem.low_weight[:, k], Z) * pull)
    nuclear_step, spectral_step = _default_steps(problem)
    spectral = [-gradient / n_modes] * n_modes
    return Start(x, nuclear, spectral, nuclear_step, spectral_step)


def _default_steps(problem: Problem) -> tuple[list[Array], list[Array]]:
    """Return steps 1/r from the radii: the distances the answer may move."""
    xp = array_namespace(problem.pilot)
    shape = problem.pilot.shape[1:]
    nuclear, spectral = [], []
    for k, mode in enumerate(problem.modes):
        long_side = max(shape[mode], prod(shape) // shape[mode])
        step = xp.minimum(
            problem.sparse_radius, problem.low_radius[:, k] / long_side**0.5
        )
        nuclear.append(4.0 * step)
        spectral.append(step)
    return nuclear, spectral


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
    xp = array_namespace(problem.pilot)
    batch = _Batch(problem, start or cold_start(problem))
    # Waiting for a device to answer costs more than the iterations it might save.
    check_every = 1 if is_numpy(problem.pilot) else 5
    places = xp.arange(problem.size)
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
            gap, excess = batch.certificate(exact=tol < 1e-7)
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
    """The running state of a batch; shrinks as problems finish."""

    def __init__(self, problem: Problem, start: Start):
        self._pose(problem)
        self.x = start.x
        self.nuclear_step = list(start.nuclear_step)
        self.spectral_step = list(start.spectral_step)
        self.Y = [
            start.x + spread_over(step, start.x) * dual
            for step, dual in zip(start.nuclear_step, start.nuclear, strict=True)
        ]
        self.Y_ball = [
            start.x + spread_over(step, start.x) * dual
            for step, dual in zip(start.spectral_step, start.spectral, strict=True)
        ]
        self.clipped: list[Array] = []
        self.cut: list[Array] = []
        self.previous: list[Array] = []

    def _pose(self, problem: Problem) -> None:
        self.problem = problem
        radius = spread_over(problem.sparse_radius, problem.pilot)
        self.lower, self.upper = problem.pilot - radius, problem.pilot + radius

    def iterate(self, *, adapt: bool) -> None:
        """Do one iteration; keeps what certificate and adaptation need."""
        Z, p = self.problem.pilot, self.problem
        shape = tuple(Z.shape[1:])
        if self.clipped:
            self._relax(adapt=adapt)
        self.clipped, self.cut = [], []
        total, mean = 0.0, 0.0
        for k, mode in enumerate(p.modes):
            step, ball_step = self.nuclear_step[k], self.spectral_step[k]
            radius = p.low_weight[:, k] * step
            clipped = fold(
                clip_singular_values(unfold(self.Y[k], mode), radius), mode, shape
            )
            outside = unfold(self.Y_ball[k] - Z, mode)
            cut = fold(svt(outside, p.low_radius[:, k]), mode, shape)
            mean = mean + (self.Y[k] - 2.0 * clipped) / spread_over(step, Z)
            mean = mean + (self.Y_ball[k] - 2.0 * cut) / spread_over(ball_step, Z)
            total = total + 1.0 / step + 1.0 / ball_step
            self.clipped.append(clipped)
            self.cut.append(cut)
        threshold = spread_over(p.sparse_weight / total, Z)
        mean = soft_threshold(mean / spread_over(total, Z), threshold)
        self.x = clip(mean, self.lower, self.upper)

    def _relax(self, *, adapt: bool) -> None:
        """Move the copies towards the last point, adapting their weights first."""
        copies = [y - c for y, c in zip(self.Y, self.clipped, strict=True)]
        copies += [y - c for y, c in zip(self.Y_ball, self.cut, strict=True)]
        steps = self.nuclear_step + self.spectral_step
        duals = self.clipped + self.cut  # multiplier = dual / step
        if adapt and self.previous:
            for i, (copy, old) in enumerate(zip(copies, self.previous, strict=True)):
                factor = _balance(self.x - copy, copy - old)
                steps[i] = steps[i] / factor
                duals[i] = duals[i] / spread_over(factor, duals[i])
        moved = [
            copy + dual + RELAX * (self.x - copy)
            for copy, dual in zip(copies, duals, strict=True)
        ]
        n_modes = len(self.Y)
        self.previous = copies
        self.Y, self.Y_ball = moved[:n_modes], moved[n_modes:]
        self.nuclear_step, self.spectral_step = steps[:n_modes], steps[n_modes:]

    def disagreement(self) -> Array:
        """Return the largest ‖X − copy‖ / ‖X‖ over the copies, (G,)."""
        xp = array_namespace(self.x)
        size, worst = _norm(self.x), 0.0 * self.problem.sparse_radius
        for y, c in zip(self.Y + self.Y_ball, self.clipped + self.cut, strict=True):
            worst = xp.maximum(worst, _norm(self.x - y + c))
        return worst / xp.where(size > 0, size, 1.0)

    def end(self) -> Start:
        """Return the present point with its multipliers and weights."""
        return Start(
            self.x,
            [
                c / spread_over(s, c)
                for c, s in zip(self.clipped, self.nuclear_step, strict=True)
            ],
            [
                c / spread_over(s, c)
                for c, s in zip(self.cut, self.spectral_step, strict=True)
            ],
            self.nuclear_step,
            self.spectral_step,
        )

    def certificate(self, *, exact: bool) -> tuple[Array, Array]:
        """Return gap and excess at the present point."""
        end = self.end()
        return self.problem.certificate(end.x, end.nuclear, end.spectral, exact=exact)

    def keep(self, indices: Array) -> None:
        """Drop all problems but these."""
        xp = array_namespace(self.x)

        def pick(arrays):
            return [xp.take(v, indices, axis=0) for v in arrays]

        self._pose(self.problem.take(indices))
        self.x = xp.take(self.x, indices, axis=0)
        self.Y, self.Y_ball = pick(self.Y), pick(self.Y_ball)
        self.clipped, self.cut = pick(self.clipped), pick(self.cut)
        self.nuclear_step = pick(self.nuclear_step)
        self.spectral_step = pick(self.spectral_step)
        self.previous = pick(self.previous)


def _balance(primal: Array, dual: Array) -> Array:
    """Return the factor on a weight r that balances the two residuals, (G,)."""
    xp = array_namespace(primal)
    p, d = _norm(primal), _norm(dual)
    both = (p > 0) & (d > 0)
    ratio = xp.where(both, p, 1.0) / xp.where(both, d, 1.0)
    apart = (ratio > 1.5) | (ratio < 1 / 1.5)
    return xp.where(apart, clip(xp.sqrt(ratio), 0.5, 2.0), 1.0)


def _norm(x: Array) -> Array:
    xp = array_namespace(x)
    flat = xp.reshape(x, (x.shape[0], -1))
    return xp.sqrt(xp.sum(flat * flat, axis=1))


def _assemble(finished: list[tuple]) -> tuple[Result, Start]:
    """Put results that finished at different times back into the batch's order."""
    xp = array_namespace(finished[0][0])
    order = xp.argsort(xp.concat([done[0] for done in finished]))
    ends = [done[1] for done in finished]

    def joined(arrays):
        return xp.take(xp.concat(arrays, axis=0), order, axis=0)

    def joined_lists(name):
        n_modes = len(getattr(ends[0], name))
        return [joined([getattr(end, name)[k] for end in ends]) for k in range(n_modes)]

    end = Start(
        joined([end.x for end in ends]),
        joined_lists("nuclear"),
        joined_lists("spectral"),
        joined_lists("nuclear_step"),
        joined_lists("spectral_step"),
    )
    n_iter = joined([xp.full_like(done[0], done[4]) for done in finished])
    gap = joined([done[2] for done in finished])
    reached = joined([done[3] for done in finished])
    return Result(end.x, n_iter, gap, reached), end
