"""The sparse and low-rank problem, its certificate and its closed forms.

For a batch of tensors Z (the pilots) the problem is, item by item,

    min_W  α·R(W) + Σ_k β_k‖W_(k)‖_*
    s.t.   R*(W − Z) ≤ a,  ‖W_(k) − Z_(k)‖₂ ≤ b_k  for every mode k of `modes`.

One mode is the paper's sub-problem; all modes at once are the joint problem. The first
constraint is the sparse ball, or box; the others are the spectral balls.

R says what is switched off together, and how dearly (`Sparsity`). With groups g of
entries and weights ω_g ≥ 0,

    R(W) = Σ_g ω_g‖W_g‖₂   and   R*(D) = max_g ‖D_g‖₂ / ω_g

are a norm and its dual. Single entries with weights of one give the entrywise norm
and the box of the paper. Groups are slices or fibres of a tensor; their weights have a
factor √|g|, so that R is at most the entrywise norm, and equal to it for flat groups.
A weight of zero leaves its group at the pilot.

`Region` is the set R*(W − Z) ≤ a, perhaps with W ≥ 0, where Z ≥ 0 then. Groups do not
touch each other: each has one multiplier, the root of an equation, found for all at
once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt

import numpy as np

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    clip,
    singular_values,
    spectral_norm,
    to_float64,
    to_python,
)
from sltr.core.prox import clip_entries, soft_threshold, trailing
from sltr.core.tensor import spread_over, unfold

# Halvings of the interval that holds a multiplier; secants make most of them needless.
N_STEPS = 30


@dataclass(frozen=True, eq=False)
class Sparsity:
    """Which entries of tensors (…, p1, …, pM) are switched off together.

    All entries that agree in their place along the modes `slices` are a group; None
    makes every entry its own. `weight` holds ω_g in an array that broadcasts to the
    tensors, None for ones.
    """

    shape: tuple[int, ...]
    slices: tuple[int, ...] | None = None
    weight: np.ndarray | None = None
    positive: bool = False

    @staticmethod
    def of(
        shape: tuple[int, ...],
        slices: tuple[int, ...] | None = None,
        weight: np.ndarray | None = None,
        *,
        positive: bool = False,
        kept: np.ndarray | None = None,
    ) -> Sparsity:
        """Return the sparsity of tensors of a shape; groups get their factor √|g|.

        Only entries that are `kept` count as members. `weight` has the shape of the
        tensors and is constant in each group.
        """
        if slices is None or len(slices) == len(shape):
            return Sparsity(shape, None, weight, positive)
        axes = tuple(m for m in range(len(shape)) if m not in slices)
        inside = np.ones(shape) if kept is None else kept
        sizes = np.sqrt(np.sum(inside, axis=axes, keepdims=True, dtype=float))
        given = 1.0 if weight is None else np.max(weight, axis=axes, keepdims=True)
        return Sparsity(shape, slices, given * sizes, positive)

    def with_modes(self, more: tuple[int, ...]) -> Sparsity:
        """Return the sparsity of tensors with more modes behind, all in each group."""
        if not more:
            return self
        factor = 1.0 if self.slices is None else sqrt(prod(more))
        weight = self.weight
        if weight is not None:
            weight = factor * weight.reshape(*weight.shape, *([1] * len(more)))
        return replace(self, shape=(*self.shape, *more), weight=weight)

    @property
    def n_modes(self) -> int:
        """The number of modes of a tensor."""
        return len(self.shape)

    @property
    def is_plain(self) -> bool:
        """Whether this is the paper's: entries that all count the same."""
        return self.slices is None and self.weight is None and not self.positive

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that run through a group, counted from the end."""
        if self.slices is None:
            return ()
        return tuple(
            m - self.n_modes for m in range(self.n_modes) if m not in self.slices
        )

    @property
    def modes(self) -> tuple[int, ...]:
        """All axes of a tensor, counted from the end."""
        return tuple(range(-self.n_modes, 0))

    @cached_property
    def least(self) -> float:
        """The least ω_g/√|g| that is positive.

        A tensor whose entries are at most b has an R* of at most b / least.
        """
        if self.weight is None:
            return 1.0
        some = self.weight[self.weight > 0]
        size = prod(self.shape[axis] for axis in self.axes)
        return float(some.min()) / sqrt(size) if some.size else 1.0

    @cached_property
    def span(self) -> float:
        """The largest Frobenius norm of a tensor with R* = 1, √Σω²."""
        if self.weight is None:
            return sqrt(prod(self.shape))
        full = self.shape if self.slices is None else self.weight.shape
        return float(np.linalg.norm(np.broadcast_to(self.weight, full)))

    @property
    def has_free(self) -> bool:
        """Whether some groups are not penalised."""
        return self.weight is not None and bool((self.weight == 0).any())

    def weights(self, like: Array) -> float | Array:
        """Return ω, which broadcasts over tensors."""
        return 1.0 if self.weight is None else as_array(self.weight, like)

    def sizes(self, x: Array) -> Array:
        """Return ‖x_g‖₂, with axes of length one for what a group runs through."""
        xp = array_namespace(x)
        if self.slices is None:
            return xp.abs(x)
        return xp.sqrt(self.sums(x * x))

    def sums(self, x: Array) -> Array:
        """Return the sum over each group of several entries."""
        return array_namespace(x).sum(x, axis=self.axes, keepdims=True)

    def norm(self, x: Array) -> Array:
        """Return R(x) of each tensor."""
        return array_namespace(x).sum(self.weights(x) * self.sizes(x), axis=self.modes)

    def dual_norm(self, d: Array) -> Array:
        """Return R*(d) of each tensor, over the groups that are penalised."""
        xp, sizes = array_namespace(d), self.sizes(d)
        if self.weight is not None:
            weight = self.weights(d)
            sizes = xp.where(weight > 0, sizes / xp.where(weight > 0, weight, 1.0), 0.0)
        return xp.max(sizes, axis=self.modes)

    def admissible(self, pilot: Array) -> Array:
        """Return the nearest tensor that may be a solution."""
        return clip(pilot, 0.0, None) if self.positive else pilot

    def shrink(self, v: Array, threshold: float | Array) -> Array:
        """Return argmin_x t·R(x) + ‖x − v‖²/2; `threshold` is a number or a batch."""
        t = trailing(threshold, self.n_modes) * self.weights(v)
        if self.slices is None:
            return soft_threshold(v, t)
        return v * _kept_share(self.sizes(v), t)

    def cut_off(self, v: Array, threshold: float | Array) -> Array:
        """Return v less its `shrink`, which has R* of at most the threshold."""
        if self.slices is not None:
            return v - self.shrink(v, threshold)
        return clip_entries(v, trailing(threshold, self.n_modes) * self.weights(v))


def _kept_share(size: Array, threshold: Array) -> Array:
    """Return 1 − t/size where that is positive, else 0."""
    xp = array_namespace(size)
    kept = size > threshold
    return xp.where(kept, 1.0 - threshold / xp.where(kept, size, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class Region:
    """All W with R*(W − centre) ≤ radius, and W ≥ 0 where that is asked for."""

    sparsity: Sparsity
    centre: Array  # (…, p1, …, pM), inside
    radius: float | Array  # a number, or one of each tensor

    @cached_property
    def radii(self) -> Array:
        """The radius of each group, spread over tensors."""
        return trailing(self.radius, self.sparsity.n_modes) * self.sparsity.weights(
            self.centre
        )

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest value of each entry, where entries are alone."""
        return self.sparsity.admissible(self.centre - self.radii), (
            self.centre + self.radii
        )

    def nearest(self, x: Array) -> Array:
        """Return a point inside, on the way from the centre to `x`."""
        if self.sparsity.slices is None:
            return clip(x, *self.bounds)
        xp, x = array_namespace(x), self.sparsity.admissible(x)
        size = self.sparsity.sizes(x - self.centre)
        outside = size > self.radii
        share = xp.where(outside, self.radii / xp.where(outside, size, 1.0), 1.0)
        return xp.where(outside, self.centre + share * (x - self.centre), x)

    def shrink(self, v: Array, threshold: float | Array) -> Array:
        """Return argmin_x t·R(x) + ‖x − v‖²/2 over the region."""
        if self.sparsity.slices is None:
            return clip(self.sparsity.shrink(v, threshold), *self.bounds)
        t = trailing(threshold, self.sparsity.n_modes) * self.sparsity.weights(v)
        return self._solve(v - self.centre, t, 1.0)[0]

    def lower_bound(self, weight: Array, linear: Array, beside: Array) -> Array:
        """Bound weight·R(x) + ⟨linear, x⟩ + ⟨beside, x − Z⟩ from below, in the region.

        `weight` is one of each tensor. Returns one bound for each.
        """
        xp, sparsity, Z = array_namespace(linear), self.sparsity, self.centre
        slope = linear + beside
        most = trailing(weight, sparsity.n_modes) * sparsity.weights(Z)
        if sparsity.slices is None:
            lower, upper = self.bounds
            middle = clip(xp.zeros_like(Z), lower, upper)
            x = xp.where(slope > most, lower, xp.where(slope < -most, upper, middle))
            value = most * xp.abs(x) + linear * x + beside * (x - Z)
            return xp.sum(value, axis=sparsity.modes)
        # The best multiplier of the ball gives those of the norm and of W ≥ 0.
        x, rate = self._solve(-slope, most, 0.0)
        if sparsity.positive:
            slope = xp.where(self.radii > 0, xp.minimum(slope, rate * Z), slope)
        U = xp.where(self.radii > 0, rate * (Z - x) - slope, 0.0)
        size = sparsity.sizes(U)
        U = U * clip(most / xp.where(size > 0, size, 1.0), None, 1.0)
        q = U + slope
        return xp.sum(Z * (q - beside), axis=sparsity.modes) - xp.sum(
            self.radii * sparsity.sizes(q), axis=sparsity.modes
        )

    def _solve(self, d: Array, t: Array, rate: float) -> tuple[Array, Array]:
        """Solve for groups: x = S_t(d + νZ)/ν with the least ν ≥ rate inside the ball.

        S_t shrinks each group (of its positive part, if W ≥ 0) by t. So x minimises
        t‖x‖ − ⟨d, x⟩ + ν‖x − Z‖²/2, of which ‖x − Z‖ falls as ν rises: with `rate` 1
        and d = v − Z this is the prox of v, with 0 the minimum of a linear function.
        Returns x and ν. With κ = (1 − t/m)/ν and m = ‖d + νZ‖, x − Z = κd − (t/m)Z;
        no digits cancel.
        """
        xp, sparsity, Z = array_namespace(d), self.sparsity, self.centre
        ZZ, dZ, dd = sparsity.sums(Z * Z), sparsity.sums(d * Z), sparsity.sums(d * d)
        pinned = self.radii <= 0
        radii = xp.where(pinned, 1.0, self.radii) + 0.0 * dd
        tiny = float(xp.finfo(d.dtype).smallest_normal) ** 0.5

        def distance(nu: Array) -> Array:
            if sparsity.positive:
                rest = xp.maximum(d, -nu * Z)
                d_d, d_Z = sparsity.sums(rest * rest), sparsity.sums(rest * Z)
                m = sparsity.sizes(rest + nu * Z)
            else:
                d_d, d_Z = dd, dZ
                m = xp.sqrt(clip(dd + 2.0 * nu * dZ + nu * nu * ZZ, 0.0, None))
            share = _kept_share(m, t)
            back, kappa = 1.0 - share, share / xp.where(nu > 0, nu, 1.0)
            square = (kappa * xp.sqrt(d_d)) ** 2 + back * (
                back * ZZ - 2.0 * kappa * d_Z
            )
            # Without a ball, what a linear function does not lift to zero has no end.
            endless = (nu <= 0) & (share > 0)
            return xp.where(endless, xp.inf, xp.sqrt(clip(square, tiny**2, None)))

        low = rate + 0.0 * dd
        high = xp.maximum((xp.sqrt(dd) + t) / radii * (1.0 + 1e-6) + tiny, low)
        inside = distance(low) <= radii
        high = xp.where(inside, low, high)
        at_low, at_high = 1.0 / distance(low), 1.0 / distance(high)
        goal = 1.0 / radii
        for step in range(N_STEPS):
            # One over the distance is nearly linear: secants, and safe halvings.
            slope = at_high - at_low
            share = (goal - at_low) / xp.where(slope > 0, slope, 1.0)
            share = xp.where(slope > 0, clip(share, 0.0, 1.0), 0.5)
            if step % 3 == 2:
                share = 0.5 + 0.0 * share
            nu = low + share * (high - low)
            at_nu = 1.0 / distance(nu)
            enough = at_nu >= goal
            high, at_high = xp.where(enough, nu, high), xp.where(enough, at_nu, at_high)
            low, at_low = xp.where(enough, low, nu), xp.where(enough, at_low, at_nu)
        moved = sparsity.admissible(d + high * Z)
        x = moved * (
            _kept_share(sparsity.sizes(moved), t) / xp.where(high > 0, high, 1.0)
        )
        return xp.where(pinned, Z, x), high


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


Item = tuple[int, int]  # a problem of the grid: its pilot and its candidate


def indices(rows: Array | list[int], like: Array) -> Array:
    """Return row numbers as an array of the library of `like`."""
    if not isinstance(rows, list):
        return rows
    return as_array(rows, like, dtype=array_namespace(like).int64)


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

    @property
    def n_candidates(self) -> int:
        """How many rows of radii each pilot of a grid has, one after another."""
        return self.sparse_radius.shape[0] // self.size

    def take(
        self, rows: Array | list[int], *, pilots: Array | list[int] | None = None
    ) -> Problem:
        """Return these rows of the batch, with these rows of the pilots if given."""
        xp = array_namespace(self.pilot)
        which = indices(rows, self.pilot)
        of_pilots = which if pilots is None else indices(pilots, self.pilot)
        names = ("sparse_radius", "low_radius", "sparse_weight", "low_weight")
        taken = {name: xp.take(getattr(self, name), which, axis=0) for name in names}
        return replace(self, pilot=xp.take(self.pilot, of_pilots, axis=0), **taken)

    def of_items(self, items: list[Item]) -> Problem:
        """Return some problems of a grid, each with its pilot."""
        rows = [q * self.n_candidates + g for q, g in items]
        return self.take(rows, pilots=[q for q, _ in items])

    def with_effective_box(self) -> Problem:
        """Reduce radii to what can bind: the same problem in moderate numbers.

        No entry exceeds its matrix's spectral norm, so that a spectral ball is inside
        a sparse one of min b_k / least; this keeps the dual bound finite without a
        box. A spectral ball wider than span·R*(Z) holds zero, and every sparse ball
        that does not hold zero. With unpenalised groups zero may be no solution.
        """
        xp, sparsity = array_namespace(self.pilot), self.sparsity
        reach = xp.repeat(sparsity.dual_norm(self.pilot), self.n_candidates)
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


class ClosedForms:
    """The closed forms of a grid; each pilot and box is looked at once."""

    def __init__(self, grid: Problem):
        self.grid = grid
        self.radii = to_python(grid.sparse_radius)
        self.norms: dict[tuple[int, float], list[float]] = {}
        # All that a closed form asks of a pilot, once the norms are known.
        self.outline = replace(grid, pilot=grid.reach()[:, None])

    def _keys(self, items: list[Item]) -> list[tuple[int, float]]:
        return [(q, self.radii[q * self.grid.n_candidates + g]) for q, g in items]

    def among(self, items: list[Item]) -> list[int]:
        """Return which of some problems have a closed form."""
        keys = self._keys(items)
        new = {
            key: item
            for key, item in zip(keys, items, strict=True)
            if key not in self.norms
        }
        if new:
            norms = self.grid.of_items(list(new.values())).norms_of_clip()
            self.norms |= zip(new, to_python(norms), strict=True)
        known = as_array([self.norms[key] for key in keys], self.grid.pilot)
        some = self.outline.of_items(items)
        closed = to_python(some.is_closed_form(known, some.pilot[:, 0]))
        return [i for i, is_closed in enumerate(closed) if is_closed]

    def solutions(self, items: list[Item]) -> tuple[Result, list[int]]:
        """Return the distinct solutions of some problems, and the row of each one's."""
        keys = self._keys(items)
        first = dict(zip(reversed(keys), reversed(items), strict=True))
        problem = self.grid.of_items(list(first.values()))
        row_of = {key: row for row, key in enumerate(first)}
        solution = exact(problem.thresholded(), problem.sparse_radius)
        return solution, [row_of[key] for key in keys]
