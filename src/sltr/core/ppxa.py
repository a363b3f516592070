"""The parallel proximal algorithm (PPXA) of the paper, corrected.

For a sum of N terms with equal weights 1/N, step γ and relaxation ρ ∈ (0, 2):

    p_i = prox_{Nγ f_i}(y_i),  p = mean p_i,
    y_i ← y_i + ρ(2p − x − p_i),  x ← x + ρ(p − x).

An indicator's prox is the projection, whatever the step. At a solution the
u_i = (y_i − p_i) / (Nγ) are subgradients that sum to zero: they certify it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sltr.arrays import Array, array_namespace, clip
from sltr.core.problem import Problem, Region, Result, Sparsity
from sltr.core.prox import Nuclear, SpectralBall, Term, indicator
from sltr.core.tensor import fold, spread_over, unfold


def ppxa(
    terms: Sequence[Term],
    x0: Array,
    certify: Callable[[list[Array], list[Array]], tuple[Array, Array, Array]],
    *,
    step: float | Array = 1.0,
    relax: float = 1.5,
    tol: float = 1e-4,
    max_iter: int = 5000,
    check_every: int = 10,
) -> Result:
    """Minimise a sum of convex terms; all terms of an iteration are independent.

    `x0` has any shape the terms accept, its first axis a batch of G. `certify` is
    given the points p_i and the subgradients u_i; it returns a candidate solution,
    its gap and its constraint violation, the last two of shape (G,). `step` is γ, a
    number or (G,), and `relax` is ρ. `residual` of the result is the gap.
    """
    xp = array_namespace(x0)
    n_terms = len(terms)
    # Each problem of a batch has its own γ.
    scale = step if isinstance(step, float | int) else spread_over(step, x0)
    x, copies = x0, [x0] * n_terms
    for n_iter in range(1, max_iter + 1):
        points = [
            term.prox(y, n_terms * step) for term, y in zip(terms, copies, strict=True)
        ]
        if n_iter % check_every == 0 or n_iter == max_iter:
            duals = [
                (y - p) / (n_terms * scale) for y, p in zip(copies, points, strict=True)
            ]
            solution, gap, violation = certify(points, duals)
            reached = (gap <= tol) & (violation <= tol)
            if bool(xp.all(reached)) or n_iter == max_iter:
                break
        mean = sum(points) / n_terms
        copies = [
            y + relax * (2.0 * mean - x - p)
            for y, p in zip(copies, points, strict=True)
        ]
        x = x + relax * (mean - x)
    return Result(solution, xp.full_like(reached, n_iter, dtype=xp.int64), gap, reached)


def solve_by_ppxa(
    problem: Problem, *, tol: float = 1e-4, max_iter: int = 5000
) -> Result:
    """Solve sparse and low-rank problems by PPXA with the paper's terms.

    The norm R, its dual ball, and for each mode a nuclear norm and a spectral ball:
    four terms for one mode, as in the paper's equation; W ≥ 0 is one more. `residual`
    of the result is the relative duality gap. All radii must be positive.
    """
    Z, shape = problem.pilot, tuple(problem.pilot.shape[1:])
    a, sparsity = problem.sparse_radius, problem.sparsity
    terms: list[Term] = [
        SparseNorm(sparsity, problem.sparse_weight),
        SparseBall(sparsity, Z, a),
    ]
    for k, mode in enumerate(problem.modes):
        terms += [
            _Unfolded(Nuclear(problem.low_weight[:, k]), mode, shape),
            _Unfolded(
                SpectralBall(unfold(Z, mode), problem.low_radius[:, k]), mode, shape
            ),
        ]
    last = len(terms)
    if sparsity.positive:
        terms.append(NonNegative(sparsity.n_modes))

    def certify(points, duals):
        # What the norm made zero stays zero wherever the ball allows it.
        x = problem.region.nearest(points[0])
        nuclear, spectral = duals[2:last:2], duals[3:last:2]
        return x, *problem.certificate(x, nuclear, spectral, exact=tol < 1e-7)

    return ppxa(terms, Z, certify, step=a, tol=tol, max_iter=max_iter)


@dataclass(frozen=True, eq=False)
class SparseNorm:
    """The norm weight · R(x)."""

    sparsity: Sparsity
    weight: float | Array = 1.0

    def value(self, x: Array) -> Array:
        """Return weight · R(x) of each tensor."""
        return self.weight * self.sparsity.norm(x)

    def prox(self, v: Array, step: float | Array) -> Array:
        """Shrink each group by step · weight · ω_g."""
        return self.sparsity.shrink(v, step * self.weight)


@dataclass(frozen=True, eq=False)
class SparseBall:
    """The indicator of R*(x − centre) ≤ radius. Its prox ignores the step."""

    sparsity: Sparsity
    centre: Array
    radius: float | Array

    def value(self, x: Array) -> Array:
        """Return 0 inside the ball (to rounding), infinity outside."""
        excess = self.sparsity.sizes(x - self.centre) - self._region.radii
        largest = array_namespace(x).max(excess, axis=self.sparsity.modes)
        return indicator(largest + self.radius, self.radius, x, self.sparsity.n_modes)

    def prox(self, v: Array, step: float | Array) -> Array:
        """Move each group into its ball, whatever the step."""
        return self._region.nearest(v)

    @cached_property
    def _region(self) -> Region:
        # The ball alone: non-negative entries are another term.
        return Region(replace(self.sparsity, positive=False), self.centre, self.radius)


@dataclass(frozen=True, eq=False)
class NonNegative:
    """The indicator of x ≥ 0. Its prox ignores the step."""

    n_modes: int

    def value(self, x: Array) -> Array:
        """Return 0 where no entry is negative, infinity elsewhere."""
        xp = array_namespace(x)
        least = xp.min(x, axis=tuple(range(-self.n_modes, 0)))
        return xp.where(least >= 0, 0.0, xp.inf)

    def prox(self, v: Array, step: float | Array) -> Array:
        """Cut negative entries, whatever the step."""
        return clip(v, 0.0, None)


class _Unfolded:
    """A matrix term applied to one unfolding of a tensor."""

    def __init__(self, term: Term, mode: int, shape: tuple[int, ...]):
        self.term, self.mode, self.shape = term, mode, shape

    def value(self, x: Array) -> Array:
        return self.term.value(unfold(x, self.mode))

    def prox(self, v: Array, step: float | Array) -> Array:
        moved = self.term.prox(unfold(v, self.mode), step)
        return fold(moved, self.mode, self.shape)
