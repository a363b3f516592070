"""The default solver: a splitting with the sparse terms at its centre.

Each iteration thresholds singular values twice per mode and entries once:

    A_k = SVT_{β_k/r_k}(Y_k)                        nuclear norm of mode k
    B_k = projection of Y'_k onto its spectral ball
    X   = sparse norm and ball of the weighted mean of 2A_k − Y_k, 2B_k − Y'_k
    Y_k ← Y_k + ρ(X − A_k),  Y'_k ← Y'_k + ρ(X − B_k)

X is exactly sparse and inside its ball in every iteration; what converges is its
agreement with the A_k and B_k. The weights r, which are one over the steps, adapt
during the first iterations and then rest, so that convergence is that of a fixed
splitting. A device with a kernel for it does many iterations in one call.
"""

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
from sltr.core.problem import Problem, Result, joined
from sltr.core.prox import polar, scale_singular_values
from sltr.core.tensor import fold, spread_over, unfold

# ρ: over-relaxation converges for any value below 2, best for about 1.6.
RELAX = 1.6
# Longer adaptation ends with steps out of balance where the short side is large.
ADAPT_EVERY, ADAPT_UNTIL = 5, 50
# Adapted steps, frozen by then, can be bad: what takes longer begins from scratch.
RESTART_AFTER = 300
# Numbers of a copy that a CPU iterates at once: more would leave its cache.
BLOCK_ENTRIES = 2**16
# Copies may cease to agree better because of rounding while the gap is closed.
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

    def take(self, rows: Array) -> Start:
        """Return these rows of the batch."""
        return Start(
            _take([self.x], rows)[0], _take(self.duals, rows), _take(self.steps, rows)
        )

    def join(self, *others: Start) -> Start:
        """Return this batch followed by others."""
        xp, every = array_namespace(self.x), (self, *others)

        def of_all(name: str) -> list[Array]:
            parts = zip(*(getattr(start, name) for start in every), strict=True)
            return [xp.concat(part, axis=0) for part in parts]

        x = xp.concat([start.x for start in every], axis=0)
        return Start(x, of_all("duals"), of_all("steps"))

    def certificate(self, problem: Problem, tol: float) -> tuple[Array, Array]:
        """Return the relative duality gap and the constraint violation, (G,)."""
        nuclear = [dual[:, 0, ...] for dual in self.duals]
        spectral = [dual[:, 1, ...] for dual in self.duals]
        return problem.certificate(self.x, nuclear, spectral, exact=tol < 1e-7)


def _take(arrays: list[Array], rows: Array) -> list[Array]:
    xp = array_namespace(rows)
    return [xp.take(values, rows, axis=0) for values in arrays]


def cold_start(problem: Problem) -> Start:
    """Start from the multipliers of the limit of small spectral balls.

    There the solution moves from Z against the subgradient G = α·sign(Z) +
    Σβ_k·polar(Z_(k)), as far as the balls allow: W = Z − b·polar(G).
    """
    xp = array_namespace(problem.pilot)
    Z, shape = problem.pilot, tuple(problem.pilot.shape[1:])
    n_modes = len(problem.modes)

    def direction(tensor: Array, mode: int) -> Array:
        return fold(polar(unfold(tensor, mode)), mode, shape)

    sparse = spread_over(problem.sparse_weight, Z) * problem.sparsity.weights(Z)
    gradient = sparse * xp.sign(Z)
    for k, mode in enumerate(problem.modes):
        weight = spread_over(problem.low_weight[:, k], Z)
        gradient = gradient + weight * direction(Z, mode)
    x = Z
    for k, mode in enumerate(problem.modes):
        distance = spread_over(problem.low_radius[:, k] / n_modes, Z)
        x = x - distance * direction(gradient, mode)
    duals = []
    for k, mode in enumerate(problem.modes):
        nuclear = spread_over(problem.low_weight[:, k], Z) * direction(x, mode)
        duals.append(xp.stack([nuclear, -gradient / n_modes], axis=1))
    return Start(x, duals, default_steps(problem))


def default_steps(problem: Problem) -> list[Array]:
    """Return steps 1/r from the radii: the distances the solution may move."""
    xp = array_namespace(problem.pilot)
    shape = problem.pilot.shape[1:]
    steps = []
    for k, mode in enumerate(problem.modes):
        long_side = max(shape[mode], prod(shape) // shape[mode])
        per_entry = problem.low_radius[:, k] / long_side**0.5
        step = xp.minimum(problem.sparse_radius, per_entry)
        steps.append(xp.stack([4.0 * step, step], axis=1))
    return steps


def admm(
    problem: Problem,
    start: Start | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 5000,
) -> tuple[Result, Start]:
    """Solve a batch of sparse and low-rank problems to a relative duality gap.

    All radii are positive, and the box is inside the spectral balls
    (`Problem.with_effective_box`). `tol` bounds the gap, which is the `residual` of
    the result, and the constraint violation. Without a start, begins at
    `cold_start(problem)`. Also returns where each problem ended.
    """
    start = start or cold_start(problem)
    is_matrix = problem.pilot.ndim == 3 and problem.modes == (0,)
    if is_matrix and problem.sparsity.is_plain and can_iterate_splitting(problem.pilot):
        return _fused(problem, start, tol, max_iter)
    size = max(1, BLOCK_ENTRIES // prod(problem.pilot.shape[1:]))
    if problem.size <= size or not is_numpy(problem.pilot):
        return _portable(problem, start, tol, max_iter)
    xp = array_namespace(problem.pilot)
    blocks = []
    for first in range(0, problem.size, size):
        rows = xp.arange(first, min(first + size, problem.size))
        block = _portable(problem.take(rows), start.take(rows), tol, max_iter)
        blocks.append(block)
    results, ends = zip(*blocks, strict=True)
    return joined(list(results)), ends[0].join(*ends[1:])


def _portable(
    problem: Problem, start: Start, tol: float, max_iter: int
) -> tuple[Result, Start]:
    xp = array_namespace(problem.pilot)
    batch = _Batch(problem, start)
    # Waiting for a device to answer costs more than the iterations it might save.
    check_every = 1 if is_numpy(problem.pilot) else 5
    indices = xp.arange(problem.size, device=device(problem.pilot))
    finished: list[tuple[Array, Result, Start]] = []
    # A certificate costs much: it is asked for when the copies agree so well.
    check_below = xp.full_like(problem.sparse_radius, tol)
    for n_iter in range(1, max_iter + 1):
        batch.iterate(n_iter)
        last = n_iter == max_iter
        if n_iter % check_every and not last:
            continue
        # What one problem does never depends on the others in its batch.
        close = batch.disagreement() <= check_below
        everyone = last or n_iter % CERTIFY_EVERY == 0
        if everyone or bool(xp.any(close)):
            gap, violation = batch.certificate(close | everyone, tol)
            reached = (gap <= tol) & (violation <= tol)
            done = (reached & (close | everyone)) | last
            # Only a check the problem asked for makes the next one harder to get.
            check_below = xp.where(close & ~reached, 0.6 * check_below, check_below)
            if bool(xp.any(done)):
                rows, remaining = xp.nonzero(done)[0], xp.nonzero(~done)[0]
                end = batch.end().take(rows)
                done_at, gap, reached = _take([indices, gap, reached], rows)
                n_iters = xp.full_like(done_at, n_iter)
                finished.append((done_at, Result(end.x, n_iters, gap, reached), end))
                if remaining.shape[0] == 0:
                    break
                batch.keep(remaining)
                indices, check_below = _take([indices, check_below], remaining)
        if n_iter == RESTART_AFTER:
            batch = _Batch(batch.problem, cold_start(batch.problem))
    order = xp.argsort(xp.concat([done_at for done_at, _, _ in finished]))
    end = finished[0][2].join(*(other for _, _, other in finished[1:]))
    return joined([result for _, result, _ in finished]).take(order), end.take(order)


class _Batch:
    """The running state of a batch; shrinks as problems finish.

    The copies Y_k and Y'_k of each mode are kept as one array, so that each
    iteration decomposes all its matrices in one call. A copy is what it is less its
    centre, which is zero for a nuclear norm and Z for a ball.
    """

    def __init__(self, problem: Problem, start: Start):
        self.problem = problem
        self.x = start.x
        self.steps = list(start.steps)
        both = array_namespace(start.x).stack(
            [start.x, start.x - problem.pilot], axis=1
        )
        self.copies = [
            both + _per_pair(step, dual) * dual
            for step, dual in zip(start.steps, start.duals, strict=True)
        ]
        self.duals: list[Array] = []  # the parts cut off the copies: step · multiplier
        self.apart: list[Array] = []  # x less what is left of the copies
        self.previous: list[Array] = []  # what was left of them an iteration before

    def iterate(self, n_iter: int) -> None:
        """Do one iteration; keeps what certificate and adaptation need."""
        xp, p = array_namespace(self.x), self.problem
        if self.apart:
            self._relax(n_iter)
        self.duals = []
        rates = [1.0 / step for step in self.steps]
        total = sum(xp.sum(rate, axis=1) for rate in rates)
        of_balls = sum(rate[:, 1] for rate in rates) / total
        mean = spread_over(of_balls, p.pilot) * p.pilot
        for k, (copies, step) in enumerate(zip(self.copies, self.steps, strict=True)):
            radii = xp.stack(
                [p.low_weight[:, k] * step[:, 0], p.low_radius[:, k]], axis=1
            )
            dual = _cut_off(copies, radii, p.modes[k])
            share = rates[k] / total[:, None]
            mean += _weighted(share, copies)
            mean -= _weighted(2.0 * share, dual)
            self.duals.append(dual)
        self.x = p.region.shrink(mean, p.sparse_weight / total)
        self.apart = []
        for copies, dual in zip(self.copies, self.duals, strict=True):
            apart = dual - copies
            apart += self.x[:, None, ...]
            apart[:, 1, ...] -= p.pilot  # copies are about their centres
            self.apart.append(apart)

    def _relax(self, n_iter: int) -> None:
        """Move the copies towards the last point, adapting their steps first."""
        adapts, adapts_next = (
            n <= ADAPT_UNTIL and n % ADAPT_EVERY == 0 for n in (n_iter, n_iter + 1)
        )
        for k, apart in enumerate(self.apart):
            if adapts and self.previous:
                left = self.copies[k] - self.duals[k]
                factor = _balance(apart, left - self.previous[k])
                self.steps[k] = self.steps[k] / factor
                self.duals[k] = self.duals[k] / _per_pair(factor, left)
                self.copies[k] = left + self.duals[k]
        self.previous = []
        if adapts_next:
            pairs = zip(self.copies, self.duals, strict=True)
            self.previous = [copies - dual for copies, dual in pairs]
        for copies, apart in zip(self.copies, self.apart, strict=True):
            apart *= RELAX
            copies += apart

    def disagreement(self) -> Array:
        """Return the largest ‖X − copy‖ / ‖X‖ over the copies, (G,)."""
        xp = array_namespace(self.x)
        worst = 0.0 * self.problem.sparse_radius
        for apart in self.apart:
            worst = xp.maximum(worst, xp.max(_norms(apart), axis=1))
        size = _norms(self.x[:, None, ...])[:, 0]
        return worst / xp.where(size > 0, size, 1.0)

    def end(self) -> Start:
        """Return the present point with its multipliers and steps."""
        pairs = zip(self.duals, self.steps, strict=True)
        duals = [dual / _per_pair(step, dual) for dual, step in pairs]
        return Start(self.x, duals, list(self.steps))

    def certificate(self, wanted: Array, tol: float) -> tuple[Array, Array]:
        """Return gap and violation at the present point; infinite where not wanted."""
        if not is_numpy(self.x) or wanted.all():
            # An accelerator is done with all before it could pick some.
            return self.end().certificate(self.problem, tol)
        xp = array_namespace(self.x)
        some = xp.nonzero(wanted)[0]
        values = self.end().take(some).certificate(self.problem.take(some), tol)
        row_of = xp.cumulative_sum(xp.astype(wanted, xp.int64)) - 1
        gap, violation = _take(list(values), xp.where(wanted, row_of, 0))
        return xp.where(wanted, gap, xp.inf), xp.where(wanted, violation, xp.inf)

    def keep(self, rows: Array) -> None:
        """Drop all problems but these."""
        self.problem = self.problem.take(rows)
        [self.x] = _take([self.x], rows)
        for name in ("steps", "copies", "duals", "apart", "previous"):
            setattr(self, name, _take(getattr(self, name), rows))


def _cut_off(copies: Array, radii: Array, mode: int) -> Array:
    """Clip the singular values of nuclear copies, threshold those of balls."""
    xp, shape = array_namespace(copies), tuple(copies.shape[2:])
    # Small enough not to matter, large enough not to overflow the quotient.
    tiny = float(xp.finfo(copies.dtype).smallest_normal) ** 0.5

    def scale(values: Array) -> Array:
        pairs = xp.reshape(values, (*radii.shape, -1))
        share = clip(radii[:, :, None] / clip(pairs, tiny, None), None, 1.0)
        share = xp.stack([share[:, 0, :], 1.0 - share[:, 1, :]], axis=1)
        return xp.reshape(share, values.shape)

    flat = unfold(xp.reshape(copies, (-1, *shape)), mode)
    cut = fold(scale_singular_values(flat, scale), mode, shape)
    return xp.reshape(cut, copies.shape)


def _weighted(rates: Array, pairs: Array) -> Array:
    """Return the sum of pairs (G, 2, …) with weights (G, 2), in one pass."""
    xp = array_namespace(pairs)
    flat = xp.reshape(pairs, (*pairs.shape[:2], -1))
    total = rates[:, None, :] @ flat
    return xp.reshape(total, (pairs.shape[0], *pairs.shape[2:]))


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
    flat = xp.reshape(x, (*x.shape[:2], 1, -1))
    return xp.sqrt((flat @ xp.matrix_transpose(flat))[:, :, 0, 0])


def _per_pair(values: Array, like: Array) -> Array:
    """Give values of shape (G, 2) trailing axes, so that they broadcast."""
    return values[(..., *([None] * (like.ndim - 2)))]


# On a device all certificates together cost as much as twenty iterations. A problem
# pauses when it will likely be certified: at this fraction of the tolerance first.
FIRST_CHECK, NEXT_CHECK = 0.05, 0.3


def _fused(
    problem: Problem, start: Start, tol: float, max_iter: int
) -> tuple[Result, Start]:
    """Do what `_portable` does to rounding, many iterations in one kernel.

    A problem runs until its copies agree, whatever the others in its batch do; then
    the certificates of all are computed together.
    """
    xp = array_namespace(problem.pilot)
    state = _DeviceState(problem, start)
    check_below = xp.full_like(problem.sparse_radius, FIRST_CHECK * tol)
    done = xp.zeros_like(problem.sparse_radius, dtype=xp.bool)
    while True:
        disagreement = state.advance(check_below, done, max_iter)
        end = state.end()
        gap, violation = end.certificate(problem, tol)
        reached = (gap <= tol) & (violation <= tol)
        too_early = (disagreement <= check_below) & ~reached
        check_below = xp.where(too_early, NEXT_CHECK * check_below, check_below)
        done = done | reached | (state.n_iter == max_iter)
        stuck = ~done & (state.n_iter == RESTART_AFTER)
        all_done, some_stuck = to_python(xp.stack([xp.all(done), xp.any(stuck)]))
        if all_done:
            return Result(end.x, state.n_iter, gap, reached), end
        if some_stuck:
            state.restart(cold_start(problem), stuck)


class _DeviceState:
    """Arrays of a batch that the kernel changes in place."""

    def __init__(self, problem: Problem, start: Start):
        xp = array_namespace(problem.pilot)
        self.problem = problem
        self.x = in_c_order(start.x, copy=True)
        self.steps = in_c_order(start.steps[0], copy=True)
        # The parts cut off the copies: step · multiplier.
        self.duals = _per_pair(self.steps, start.duals[0]) * in_c_order(start.duals[0])
        self.copies = self.x[:, None, ...] + self.duals
        self.before = xp.zeros_like(self.copies)
        self.n_iter = xp.zeros_like(problem.sparse_radius, dtype=xp.int64)

    def restart(self, start: Start, where: Array) -> None:
        """Begin again from `start`, where this is true (G,)."""
        xp = array_namespace(self.x)
        fresh = _DeviceState(self.problem, start)
        for name in ("x", "steps", "duals", "copies"):
            old, new = getattr(self, name), getattr(fresh, name)
            chosen = xp.where(spread_over(where, old), new, old)
            setattr(self, name, in_c_order(chosen))

    def advance(self, check_below: Array, done: Array, last: int) -> Array:
        """Iterate what is not done; return the disagreement of its copies, (G,)."""
        p = self.problem
        return iterate_splitting(
            (p.pilot, p.sparse_radius, p.sparse_weight, p.low_radius, p.low_weight),
            (self.x, self.copies, self.duals, self.before, self.steps, self.n_iter),
            check_below,
            done,
            check_every=ADAPT_EVERY,
            adapt_until=ADAPT_UNTIL,
            certify_every=CERTIFY_EVERY,
            last=last,
            relax=RELAX,
        )

    def end(self) -> Start:
        """Return the present point with its multipliers and steps."""
        duals = self.duals / _per_pair(self.steps, self.duals)
        return Start(self.x, [duals], [self.steps])
