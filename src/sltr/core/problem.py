"""What every iterative solver returns."""

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

    Attributes
    ----------
    x : array
        The solution.
    n_iter : int or array of int
        Iterations used, for each problem of a batch.
    residual : float or array
        The optimality measure the solver stops on, named in its docstring.
    converged : bool or array of bool
        Whether the residual reached the tolerance. Callers decide whether to warn.
    """

    x: Array
    n_iter: int | Array
    residual: float | Array
    converged: bool | Array


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
    """Return answers known without iterating: no steps and no gap, like `like` (G,)."""
    xp = array_namespace(x)
    gap = xp.astype(0.0 * like, xp.float64)
    return Result(x, xp.astype(gap, xp.int64), gap, gap == 0.0)


def spread_over(values: Array, like: Array) -> Array:
    """Give values of shape (G,) trailing axes, so that they broadcast over a batch."""
    return values[(slice(None), *([None] * (like.ndim - 1)))]


def is_within(size: Array, radius: Array) -> Array:
    """Say whether a computed norm is at most a radius, to the rounding of norms.

    A radius equal to the largest singular value must count as reaching it.
    """
    xp = array_namespace(size)
    return size <= radius * (1.0 + 16.0 * float(xp.finfo(size.dtype).eps))


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch of G problems that share shape and modes.

    Attributes
    ----------
    pilot : array of shape (G, p1, …, pM)
    sparse_radius, sparse_weight : arrays of shape (G,)
        a and α.
    low_radius, low_weight : arrays of shape (G, K)
        b_k and β_k, one column for each of `modes`.
    modes : tuple of int
        Modes whose unfoldings carry a nuclear norm and a spectral ball.
    """

    pilot: Array
    sparse_radius: Array
    low_radius: Array
    sparse_weight: Array
    low_weight: Array
    modes: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of problems in the batch."""
        return self.pilot.shape[0]

    def take(self, indices: Array) -> Problem:
        """Return the problems at these places of the batch."""
        xp = array_namespace(self.pilot)
        taken = {
            name: xp.take(getattr(self, name), indices, axis=0)
            for name in (
                "pilot",
                "sparse_radius",
                "low_radius",
                "sparse_weight",
                "low_weight",
            )
        }
        return replace(self, **taken)

    def candidate(self, g: int) -> Problem:
        """Return candidate g of a grid whose candidates share one pilot."""
        names = ("sparse_radius", "low_radius", "sparse_weight", "low_weight")
        picked = {name: getattr(self, name)[g : g + 1, ...] for name in names}
        return replace(self, **picked)

    def with_effective_box(self) -> Problem:
        """Cut radii to what can bind: the same problem in tame numbers.

        No entry exceeds its matrix's spectral norm, so min(a, min b_k) poses the
        same problem; it also keeps the dual bound finite without a box. A ball
        wider than √P·max|Z| holds zero, and every box that does not hold zero.
        """
        xp = array_namespace(self.pilot)
        axes = tuple(range(1, self.pilot.ndim))
        largest = xp.max(xp.abs(self.pilot), axis=axes)
        reach = 1.01 * prod(self.pilot.shape[1:]) ** 0.5 * largest
        low = xp.where(
            (self.low_radius > reach[:, None]) & (reach[:, None] > 0.0),
            reach[:, None] + 0.0 * self.low_weight,
            self.low_radius,
        )
        box = xp.minimum(self.sparse_radius, xp.min(low, axis=1))
        return replace(self, sparse_radius=box, low_radius=low)

    def thresholded(self) -> Array:
        """Return S_a(Z), the answer wherever `is_closed_form` holds."""
        return soft_threshold(self.pilot, spread_over(self.sparse_radius, self.pilot))

    def is_closed_form(self) -> Array:
        """Say, for each problem, whether S_a(Z) is certainly the answer: (G,).

        It is when clip(Z, −a, a) fits into the spectral balls and α ≥ Σβ_k: a
        nuclear subgradient has no entry above its spectral norm, which is at most
        β_k, and so the entrywise norm absorbs it. Where S_a(Z) = 0 no weight
        matters.
        """
        xp = array_namespace(self.pilot)
        radius = spread_over(self.sparse_radius, self.pilot)
        moved = clip_entries(self.pilot, radius)
        axes = tuple(range(1, self.pilot.ndim))
        vanishes = xp.max(xp.abs(self.pilot), axis=axes) <= self.sparse_radius
        fits = vanishes | (self.sparse_weight >= xp.sum(self.low_weight, axis=1))
        for k, mode in enumerate(self.modes):
            fits = fits & is_within(
                spectral_norm(unfold(moved, mode)), self.low_radius[:, k]
            )
        return fits | (self.sparse_radius == 0.0)

    def certificate(
        self,
        x: Array,
        nuclear: list[Array],
        spectral: list[Array],
        *,
        exact: bool = False,
    ) -> tuple[Array, Array]:
        """Return the relative duality gap and the spectral excess of `x`, both (G,).

        Parameters
        ----------
        x : array of shape (G, p1, …, pM)
            A point inside the box.
        nuclear, spectral : lists of arrays shaped like `x`, one for each mode
            Multipliers V_k of the nuclear norms and S_k of the spectral balls. Any
            arrays give a valid bound: V_k is scaled into its ball first.
        exact : bool
            Whether to spend a full SVD; needed for gaps below 1e-7.

        Notes
        -----
        The lower bound is ⟨Z, U+ΣV_k⟩ − a‖U+ΣV_k+ΣS_k‖₁ − Σb_k‖S_k‖_* with the best
        U of entries at most α. The upper bound is the objective at the point of the
        segment from Z to `x` that is inside all balls. The excess is the largest
        ‖x_(k) − Z_(k)‖₂ / b_k − 1, at least zero. All in double precision.
        """
        xp = array_namespace(x)
        x, Z = to_float64(x), to_float64(self.pilot)
        a, alpha = to_float64(self.sparse_radius), to_float64(self.sparse_weight)
        b, beta = to_float64(self.low_radius), to_float64(self.low_weight)
        axes = tuple(range(1, Z.ndim))

        moved, reach = x - Z, xp.where(b > 0, b, 1.0)
        pull: Array | float = 0.0
        rest, dual_cost, ratio = 0.0, 0.0, 1.0 + 0.0 * a
        for k, mode in enumerate(self.modes):
            V, S = to_float64(nuclear[k]), to_float64(spectral[k])
            # One decomposition for all three: small ones cost their calls.
            values = singular_values(unfold(xp.concat([V, moved, S]), mode))
            largest, of_S = xp.max(values, axis=-1), values[2 * self.size :, :]
            size, away = largest[: self.size], largest[self.size : 2 * self.size]
            shrink = clip(beta[:, k] / clip(size, 1e-150, None), None, 1.0)
            pull = pull + V * spread_over(shrink, V)
            rest = rest + S
            if exact:
                of_S = singular_values(unfold(S, mode), exact=True)
            dual_cost = dual_cost + b[:, k] * xp.sum(of_S, axis=-1)
            ratio = xp.maximum(ratio, away / reach[:, k])
        rest = rest + pull
        most, box = spread_over(alpha, Z), spread_over(a, Z)
        U = xp.where(xp.abs(Z) <= box, clip_entries(-rest, most), most * xp.sign(Z))
        lower = (
            xp.sum(Z * (U + pull), axis=axes)
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
