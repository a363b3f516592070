"""The sparse and low-rank problem, its certificate and its closed forms.

For a batch of tensors Z (the pilots) the problem is, item by item,

    min_W  α·R(W) + Σ_k β_k‖W_(k)‖_*
    s.t.   R*(W − Z) ≤ a,  ‖W_(k) − Z_(k)‖₂ ≤ b_k  for every mode k of `modes`.

R is the entrywise norm ‖W‖₁ and R* the largest entry ‖W − Z‖_∞, as in the paper, or
what `sparsity` makes of them: weights, whole slices, W ≥ 0. One mode is the paper's
sub-problem; all modes at once are the joint problem. The first constraint is the
sparse ball, or box; the others are the spectral balls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sltr.arrays import (
    Array,
    array_namespace,
    clip,
    singular_values,
    spectral_norm,
    to_float64,
)
from sltr.core.sparsity import Region, Sparsity
from sltr.core.tensor import unfold


@dataclass(frozen=True, eq=False)
class Result:
    """A solution and how far it can be trusted.

    `residual` is the measure of optimality the solver stops on, named in its
    docstring. `converged` says whether it reached the tolerance; callers decide
    whether to warn. All but `x` are numbers, or arrays of shape (G,) for a batch.
    """

    x: Array
    n_iter: int | Array
    residual: float | Array
    converged: bool | Array

    def take(self, rows: Array) -> Result:
        """Return these rows of a batch."""
        xp = array_namespace(self.x)
        fields = (self.x, self.n_iter, self.residual, self.converged)
        return Result(*(xp.take(values, rows, axis=0) for values in fields))


def joined(results: list[Result]) -> Result:
    """Return the results of several batches as those of one."""
    if len(results) == 1:
        return results[0]
    xp = array_namespace(results[0].x)
    fields = ("x", "n_iter", "residual", "converged")
    return Result(
        *(xp.concat([getattr(r, name) for r in results], axis=0) for name in fields)
    )


def exact(x: Array, like: Array) -> Result:
    """Return solutions known without iterating: no steps and no gap, like `like`."""
    xp = array_namespace(x)
    gap = xp.astype(0.0 * like, xp.float64)
    return Result(x, xp.astype(gap, xp.int64), gap, gap == 0.0)


def spread_over(values: Array, like: Array) -> Array:
    """Give values of shape (G,) trailing axes, so that they broadcast over a batch."""
    return values[(slice(None), *([None] * (like.ndim - 1)))]


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch of G problems that share shape and modes.

    The pilots Z have shape (G, p1, …, pM), the sparse radii a and weights α (G,),
    the spectral radii b_k and weights β_k (G, K), with one column for each of the K
    `modes` whose unfoldings carry a nuclear norm and a spectral ball. Pilots are
    non-negative where W has to be.
    """

    pilot: Array
    sparse_radius: Array
    low_radius: Array
    sparse_weight: Array
    low_weight: Array
    modes: tuple[int, ...]
    structure: Sparsity | None = None  # None: the paper's

    @property
    def sparsity(self) -> Sparsity:
        """The norm R, and whether W ≥ 0."""
        return self.structure or Sparsity(tuple(self.pilot.shape[1:]))

    @cached_property
    def region(self) -> Region:
        """What the sparse half allows."""
        return Region(self.sparsity, self.pilot, self.sparse_radius)

    @property
    def size(self) -> int:
        """The number of pilots in the batch."""
        return self.pilot.shape[0]

    def take(self, rows: Array, *, pilots: Array | None = None) -> Problem:
        """Return these rows of the batch, with these rows of the pilots if given."""
        xp = array_namespace(self.pilot)
        names = ("sparse_radius", "low_radius", "sparse_weight", "low_weight")
        taken = {name: xp.take(getattr(self, name), rows, axis=0) for name in names}
        pilot = xp.take(self.pilot, rows if pilots is None else pilots, axis=0)
        return replace(self, pilot=pilot, **taken)

    def with_effective_box(self) -> Problem:
        """Reduce radii to what can bind: the same problem in moderate numbers.

        No entry exceeds its matrix's spectral norm, so that a spectral ball is inside
        a sparse one of min b_k / least; this keeps the dual bound finite without a
        box. A spectral ball wider than span·R*(Z) holds zero, and every sparse ball
        that does not hold zero. With unpenalised groups zero may be no solution.
        """
        xp, sparsity = array_namespace(self.pilot), self.sparsity
        # A grid has several rows of radii for each pilot, one after another.
        n_rows = self.sparse_radius.shape[0] // self.size
        reach = xp.repeat(sparsity.dual_norm(self.pilot), n_rows)
        # The factor keeps clear of rounding.
        widest = 1.01 * sparsity.span * reach
        low = self.low_radius
        if not sparsity.has_free:
            low = xp.where(
                (low > widest[:, None]) & (widest[:, None] > 0.0),
                widest[:, None] + 0.0 * self.low_weight,
                low,
            )
        box = xp.minimum(self.sparse_radius, xp.min(low, axis=1) / sparsity.least)
        return replace(self, sparse_radius=box, low_radius=low)

    def reach(self) -> Array:
        """Return the sparse radius from which each solution may vanish, (G,)."""
        xp, sparsity = array_namespace(self.pilot), self.sparsity
        reach = sparsity.dual_norm(self.pilot)
        if not sparsity.has_free:
            return reach
        kept = xp.where(sparsity.weights(self.pilot) == 0, self.pilot, 0.0)
        some = xp.any(kept != 0, axis=tuple(range(1, self.pilot.ndim)))
        return xp.where(some, xp.inf, reach)

    def thresholded(self) -> Array:
        """Return S_a(Z), the solution wherever `is_closed_form` holds."""
        return self.sparsity.shrink(self.pilot, self.sparse_radius)

    def norms_of_clip(self) -> Array:
        """Return ‖Z_(k) − S_a(Z)_(k)‖₂, the distances of S_a(Z) from Z: (G, K)."""
        xp = array_namespace(self.pilot)
        moved = self.sparsity.cut_off(self.pilot, self.sparse_radius)
        norms = [spectral_norm(unfold(moved, mode)) for mode in self.modes]
        return xp.stack(norms, axis=1)

    def is_closed_form(
        self, norms: Array | None = None, reach: Array | None = None
    ) -> Array:
        """Say, for each problem, whether S_a(Z) is certainly the solution: (G,).

        It is when Z − S_a(Z) fits into the spectral balls and, for single entries,
        αω ≥ Σβ_k: a nuclear subgradient has no entry above its spectral norm, which is
        at most β_k, and so the entrywise norm absorbs it. A group's norm would absorb
        it in one direction only. Where S_a(Z) = 0 no weight matters. `norms` and
        `reach` are those of the problem where they are known already.
        """
        xp, sparsity = array_namespace(self.pilot), self.sparsity
        norms = self.norms_of_clip() if norms is None else norms
        vanishes = (self.reach() if reach is None else reach) <= self.sparse_radius
        total = xp.sum(self.low_weight, axis=1)
        absorbs = self.sparse_weight * sparsity.least >= total
        if sparsity.slices is not None:
            absorbs = total == 0.0
        # A radius equal to the norm must count as reaching it, whatever the rounding.
        slack = 1.0 + 16.0 * float(xp.finfo(norms.dtype).eps)
        fits = xp.all(norms <= self.low_radius * slack, axis=1)
        return (fits & (vanishes | absorbs)) | (self.sparse_radius == 0.0)

    def certificate(
        self,
        x: Array,
        nuclear: list[Array],
        spectral: list[Array],
        *,
        exact: bool = False,
    ) -> tuple[Array, Array]:
        """Return the relative duality gap and the constraint violation of `x`, (G,).

        `x` (G, p1, …, pM) is inside the sparse ball. `nuclear` and `spectral` hold, for
        each mode, multipliers V_k of the nuclear norm and S_k of the spectral ball,
        shaped like `x`. Any arrays give a valid bound: V_k is scaled into its ball
        first. `exact` spends a full SVD, which gaps below 1e-7 need.

        The lower bound is min_W α·R(W) + ⟨ΣV_k, W⟩ + ⟨ΣS_k, W − Z⟩ − Σb_k‖S_k‖_* over
        the sparse ball; for entries it is ⟨Z, U+ΣV_k⟩ − a‖U+ΣV_k+ΣS_k‖₁ − Σb_k‖S_k‖_*
        with the best U of entries at most α. The upper bound is the objective at the
        point of the segment from Z to `x` that is inside all balls. The violation is
        the largest
        ‖x_(k) − Z_(k)‖₂ / b_k − 1, at least zero. All in double precision.
        """
        xp = array_namespace(x)
        x, Z = to_float64(x), to_float64(self.pilot)
        a, alpha = to_float64(self.sparse_radius), to_float64(self.sparse_weight)
        b, beta = to_float64(self.low_radius), to_float64(self.low_weight)

        moved, radius = x - Z, xp.where(b > 0, b, 1.0)
        sum_V, sum_S, dual_cost, ratio = 0.0, 0.0, 0.0, 1.0 + 0.0 * a
        for k, mode in enumerate(self.modes):
            V, S = to_float64(nuclear[k]), to_float64(spectral[k])
            # One decomposition serves all three: for small matrices the call costs.
            values = singular_values(unfold(xp.concat([V, moved, S]), mode))
            largest, of_S = xp.max(values, axis=-1), values[2 * self.size :, :]
            size, distance = largest[: self.size], largest[self.size : 2 * self.size]
            shrink = clip(beta[:, k] / clip(size, 1e-150, None), None, 1.0)
            sum_V = sum_V + V * spread_over(shrink, V)
            sum_S = sum_S + S
            if exact:
                of_S = singular_values(unfold(S, mode), exact=True)
            dual_cost = dual_cost + b[:, k] * xp.sum(of_S, axis=-1)
            ratio = xp.maximum(ratio, distance / radius[:, k])
        region = Region(self.sparsity, Z, a)
        lower = region.lower_bound(alpha, sum_V, sum_S) - dual_cost
        inside = Z + moved / spread_over(ratio, Z)
        upper = alpha * self.sparsity.norm(inside)
        for k, mode in enumerate(self.modes):
            values = singular_values(unfold(inside, mode), exact=exact)
            upper = upper + beta[:, k] * xp.sum(values, axis=-1)
        gap = (upper - lower) / xp.where(upper > 0, upper, 1.0)
        return clip(gap, 0.0, None), ratio - 1.0
