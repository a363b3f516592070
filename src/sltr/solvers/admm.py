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

from sltr._array import Array, array_namespace, clip, device, is_numpy
from sltr.prox import clip_singular_values, soft_threshold
from sltr.solvers.fused import admm_fused, is_fused
from sltr.solvers.problem import Problem, spread_over
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
from sltr.tensor import fold, unfold

__all__ = ["admm"]


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
