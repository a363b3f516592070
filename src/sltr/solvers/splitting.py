"""What both ways to run the splitting share: where it starts, and its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sltr._array import Array, array_namespace
from sltr.prox import polar
from sltr.solvers.problem import Problem, spread_over
from sltr.tensor import fold, unfold

__all__ = [
    "ADAPT_EVERY",
    "ADAPT_UNTIL",
    "CERTIFY_EVERY",
    "RELAX",
    "RESTART_AFTER",
    "Start",
    "cold_start",
    "per_pair",
]

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
