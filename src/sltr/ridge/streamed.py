"""Ridge from moments alone, when the samples have gone by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sltr._array import Array, array_namespace, clip, eigh
from sltr.ridge.moments import Moments
from sltr.ridge.solves import mean_eigenvalue, penalised_solves

__all__ = ["StreamedRidge"]


@dataclass(frozen=True, eq=False)
class StreamedRidge:
    """Ridge of samples of which only the moments were kept: one subset, all of them.

    Leave-one-out errors need every sample's residual. In their place `loo` gives
    generalised cross-validation, which needs only the residuals' sum of squares:

        GCV(ε) = n·RSS(ε) / (n − df(ε))²,   df(ε) = Σ λ_i/(λ_i + ε),

    n the number of samples (one of weight 2 counts as two), λ_i the eigenvalues of
    AᵀA; the intercept counts one.

    References
    ----------
    Golub, Heath, Wahba (1979). Generalized cross-validation as a method for choosing
    a good ridge parameter.
    """

    method: ClassVar[str] = "primal"

    moments: Moments
    fit_intercept: bool

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (1, E, K, P)."""
        return self.coefs_and_means(subsets, epsilons)[0]

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and the mean sample (1, P)."""
        xp = array_namespace(self.moments.second)
        normal, cross = self.moments.normal(self.fit_intercept)
        found = penalised_solves(normal, cross, epsilons)
        pilots, mean = xp.matrix_transpose(found), self.moments.x_mean
        dtype = self.moments.dtype
        return xp.astype(pilots, dtype)[None, ...], xp.astype(mean, dtype)[None, :]

    def loo(self, epsilons: Array) -> Array:
        """Return generalised cross-validation's error for each penalty, (E,)."""
        xp = array_namespace(self.moments.second)
        kept, total = self.moments, self.moments.weight
        normal, cross = kept.normal(self.fit_intercept)
        y_size = xp.linalg.trace(kept.y_second)
        if not self.fit_intercept:
            y_size = y_size + total * xp.sum(kept.y_mean**2)
        values, vectors = eigh(normal)
        values = clip(values, 0.0, None)
        energy = xp.sum((xp.matrix_transpose(vectors) @ cross) ** 2, axis=1)  # (P,)
        shifted = values + epsilons[:, None]  # (E, P)
        explained = xp.sum(energy * (2.0 * shifted - values) / shifted**2, axis=1)
        freedom = xp.sum(values / shifted, axis=1) + float(self.fit_intercept)
        floor = float(xp.finfo(values.dtype).eps)
        residual = clip(y_size - explained, floor * float(y_size), None)
        rest = clip(kept.count - freedom, 1e-6 * float(kept.count), None)
        return kept.count * residual / rest**2

    def mean_eigenvalue(self) -> float:
        """Return trace(AᵀA) over the smaller of the total weight and P."""
        xp = array_namespace(self.moments.second)
        normal, _ = self.moments.normal(self.fit_intercept)
        weight = xp.reshape(self.moments.weight, (1,))
        return mean_eigenvalue(xp.linalg.trace(normal), weight, normal.shape[0])
