"""The sparse and low-rank problem, its certificate and its closed forms.

For a batch of tensors Z (the pilots) the problem is, item by item,

    min_W  α‖W‖₁ + Σ_k β_k‖W_(k)‖_*
    s.t.   ‖W − Z‖_∞ ≤ a,  ‖W_(k) − Z_(k)‖₂ ≤ b_k  for every mode k of `modes`.

One mode is the paper's sub-problem; all modes at once are the joint problem. The
first constraint is the entrywise ball, or box; the others are the spectral balls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from sltr.arrays import (
    Array,
    array_namespace,
    clip,
    singular_values,
    spectral_norm,
    to_float64,
)
from sltr.core.prox import clip_entries, soft_threshold
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

    The pilots Z have shape (G, p1, …, pM), the entrywise radii a and weights α (G,),
    the spectral radii b_k and weights β_k (G, K), with one column for each of the K
    `modes` whose unfoldings carry a nuclear norm and a spectral ball.
    """

    pilot: Array
    sparse_radius: Array
    low_radius: Array
    sparse_weight: Array
    low_weight: Array
    modes: tuple[int, ...]

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

        No entry exceeds its matrix's spectral norm, so min(a, min b_k) makes the
        same problem; it also keeps the dual bound finite without a box. A ball
        wider than √P·max|Z| holds zero, and every box that does not hold zero.
        """
        xp = array_namespace(self.pilot)
        # A grid has several rows of radii for each pilot, one after another.
        n_rows = self.sparse_radius.shape[0] // self.size
        largest = xp.repeat(self.largest_entries(), n_rows)
        # The factor keeps clear of rounding.
        widest = 1.01 * prod(self.pilot.shape[1:]) ** 0.5 * largest
        low = xp.where(
            (self.low_radius > widest[:, None]) & (widest[:, None] > 0.0),
            widest[:, None] + 0.0 * self.low_weight,
            self.low_radius,
        )
        box = xp.minimum(self.sparse_radius, xp.min(low, axis=1))
        return replace(self, sparse_radius=box, low_radius=low)

    def largest_entries(self) -> Array:
        """Return max|Z| of each pilot."""
        xp = array_namespace(self.pilot)
        return xp.max(xp.abs(self.pilot), axis=tuple(range(1, self.pilot.ndim)))

    def thresholded(self) -> Array:
        """Return S_a(Z), the solution wherever `is_closed_form` holds."""
        return soft_threshold(self.pilot, spread_over(self.sparse_radius, self.pilot))

    def norms_of_clip(self) -> Array:
        """Return ‖clip(Z, −a, a)_(k)‖₂, the distances of S_a(Z) from Z: (G, K)."""
        xp = array_namespace(self.pilot)
        moved = clip_entries(self.pilot, spread_over(self.sparse_radius, self.pilot))
        norms = [spectral_norm(unfold(moved, mode)) for mode in self.modes]
        return xp.stack(norms, axis=1)

    def is_closed_form(self, norms: Array | None = None) -> Array:
        """Say, for each problem, whether S_a(Z) is certainly the solution: (G,).

        It is when clip(Z, −a, a) fits into the spectral balls and α ≥ Σβ_k: a
        nuclear subgradient has no entry above its spectral norm, which is at most
        β_k, and so the entrywise norm absorbs it. Where S_a(Z) = 0 no weight
        matters. `norms` are `norms_of_clip` where they are known already.
        """
        xp = array_namespace(self.pilot)
        norms = self.norms_of_clip() if norms is None else norms
        vanishes = self.largest_entries() <= self.sparse_radius
        absorbs = self.sparse_weight >= xp.sum(self.low_weight, axis=1)
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

        `x` (G, p1, …, pM) is inside the box. `nuclear` and `spectral` hold, for each
        mode, multipliers V_k of the nuclear norm and S_k of the spectral ball,
        shaped like `x`. Any arrays give a valid bound: V_k is scaled into its ball
        first. `exact` spends a full SVD, which gaps below 1e-7 need.

        The lower bound is ⟨Z, U+ΣV_k⟩ − a‖U+ΣV_k+ΣS_k‖₁ − Σb_k‖S_k‖_* with the best
        U of entries at most α. The upper bound is the objective at the point of the
        segment from Z to `x` that is inside all balls. The violation is the largest
        ‖x_(k) − Z_(k)‖₂ / b_k − 1, at least zero. All in double precision.
        """
        xp = array_namespace(x)
        x, Z = to_float64(x), to_float64(self.pilot)
        a, alpha = to_float64(self.sparse_radius), to_float64(self.sparse_weight)
        b, beta = to_float64(self.low_radius), to_float64(self.low_weight)
        axes = tuple(range(1, Z.ndim))

        moved, radius = x - Z, xp.where(b > 0, b, 1.0)
        sum_V: Array | float = 0.0
        sum_S, dual_cost, ratio = 0.0, 0.0, 1.0 + 0.0 * a
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
        rest = sum_S + sum_V
        most, box = spread_over(alpha, Z), spread_over(a, Z)
        U = xp.where(xp.abs(Z) <= box, clip_entries(-rest, most), most * xp.sign(Z))
        lower = (
            xp.sum(Z * (U + sum_V), axis=axes)
            - a * xp.sum(xp.abs(U + rest), axis=axes)
            - dual_cost
        )
        inside = Z + moved / spread_over(ratio, Z)
        upper = alpha * xp.sum(xp.abs(inside), axis=axes)
        for k, mode in enumerate(self.modes):
            values = singular_values(unfold(inside, mode), exact=exact)
            upper = upper + beta[:, k] * xp.sum(values, axis=-1)
        gap = (upper - lower) / xp.where(upper > 0, upper, 1.0)
        return clip(gap, 0.0, None), ratio - 1.0
