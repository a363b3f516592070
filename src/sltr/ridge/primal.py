"""Ridge through the moments of the features, for P < n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sltr._array import (
    Array,
    array_namespace,
    clip,
    eigh,
    to_numpy,
)
from sltr.design import map_rows, reduce_rows, take_rows
from sltr.ridge.moments import Moments, merge, moments, without
from sltr.ridge.solves import (
    leave_one_out,
    mean_eigenvalue,
    penalised_solves,
)

__all__ = ["MomentRidge", "moment_ridge"]


@dataclass(frozen=True, eq=False)
class MomentRidge:
    """Ridge through the P × P moments; a fold's are the total less its own."""

    method: ClassVar[str] = "primal"

    X: Any
    Y: Array
    weight: Array
    fit_intercept: bool
    total: Moments

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P)."""
        return self.coefs_and_means(subsets, epsilons)[0]

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and the subsets' means (S, P); reads what is left out."""
        xp = array_namespace(self.weight)
        found, means = [], []
        for s in range(subsets.shape[0]):
            own = self._of(subsets[s, :])
            found.append(penalised_solves(*own.normal(self.fit_intercept), epsilons))
            means.append(own.x_mean)
        pilots, dtype = xp.matrix_transpose(xp.stack(found, axis=0)), self.total.dtype
        return xp.astype(pilots, dtype), xp.astype(xp.stack(means, axis=0), dtype)

    def _of(self, subset: Array) -> Moments:
        """Return the moments of a subset: the total less what is left out."""
        xp = array_namespace(self.weight)
        out = xp.nonzero(~subset)[0]
        if out.shape[0] == 0:
            return self.total
        own = [xp.take(values, out, axis=0) for values in (self.Y, self.weight)]
        rest = take_rows(self.X, to_numpy(out))
        return without(self.total, reduce_rows(rest, moments, merge, own))

    def loo(self, epsilons: Array) -> Array:
        """Return the mean squared leave-one-out error for each penalty, (E,)."""
        xp = array_namespace(self.weight)
        normal, cross = self.total.normal(self.fit_intercept)
        values, vectors = eigh(normal)
        inverse = 1.0 / (clip(values, 0.0, None) + epsilons[:, None])  # (E, P)
        coef = inverse[:, :, None] * (xp.matrix_transpose(vectors) @ cross)
        shift, y_shift = self.total.x_mean, self.total.y_mean
        if not self.fit_intercept:
            shift, y_shift = 0.0 * shift, 0.0 * y_shift
        # The pass over the samples is in their own precision.
        constants = [
            xp.astype(part, self.total.dtype)
            for part in (shift, vectors, inverse, coef)
        ]
        parts = list(map_rows(self.X, _row_fits, (), constants))
        fitted = xp.concat([part[0] for part in parts], axis=1)  # (E, n, K)
        leverage = xp.concat([part[1] for part in parts], axis=1) * self.weight
        residuals = (self.Y - y_shift - fitted) * xp.sqrt(self.weight)[:, None]
        return leave_one_out(residuals, leverage, self.weight, self.fit_intercept)

    def mean_eigenvalue(self) -> float:
        """Return trace(AAᵀ) over the smaller of the total weight and P."""
        normal, _ = self.total.normal(self.fit_intercept)
        trace = array_namespace(normal).linalg.trace(normal)
        return mean_eigenvalue(trace, self.weight, self.X.shape[1])


def moment_ridge(X: Any, Y: Array, weight: Array, fit_intercept: bool) -> MomentRidge:
    """Make the moments: the one product that is quadratic in P."""
    total = reduce_rows(X, moments, merge, [Y, weight])
    return MomentRidge(X, Y, weight, fit_intercept, total)


def _row_fits(
    X: Array, shift: Array, vectors: Array, inverse: Array, coef: Array
) -> tuple[Array, Array]:
    """Return fitted values (E, R, K) and leverages (E, R) of a block of samples."""
    scores = (X - shift) @ vectors
    xp = array_namespace(scores)
    return scores @ coef, inverse @ xp.matrix_transpose(scores**2)
