"""Clean samples, and their least-squares problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sltr._array import Array, array_namespace, as_array, is_numpy
from sltr.design import as_matrix, column_means, sample_shape

__all__ = ["Centred", "Samples", "centre"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Clean training data: tensors, responses (or labels), positive weights.

    Lazy samples (`sltr.design`) are read by products only.
    """

    X: Any
    y: Array
    weight: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return sample_shape(self.X)

    @property
    def flat(self) -> Any:
        """The samples as a matrix, one row each."""
        return as_matrix(self.X)

    def take(self, rows: Any) -> Samples:
        """Return the samples in these rows."""
        xp = array_namespace(self.X)
        index = as_array(rows, self.X, dtype=xp.int64)
        X, weight = (xp.take(x, index, axis=0) for x in (self.X, self.weight))
        # Labels may be of any type that NumPy has.
        y = self.y[rows] if is_numpy(self.y) else xp.take(self.y, index, axis=0)
        return Samples(X, y, weight)


@dataclass(frozen=True, eq=False)
class Centred:
    """Weighted, centred least-squares data: ‖y − A·w‖² is the weighted loss."""

    A: Array
    y: Array
    X_mean: Array
    y_mean: Array

    def intercept(self, coef: Array) -> float:
        """Return the intercept that belongs to `coef`, in the original units."""
        xp = array_namespace(coef)
        return float(self.y_mean - xp.sum(self.X_mean * xp.reshape(coef, (-1,))))


def centre(samples: Samples, fit_intercept: bool) -> Centred:
    """Return weighted, centred least-squares data; makes one copy of X."""
    xp = array_namespace(samples.X)
    flat, y, weight = samples.flat, samples.y, samples.weight
    if fit_intercept:
        X_mean = column_means(flat, weight)
        y_mean = xp.sum(weight * y) / xp.sum(weight)
    else:
        X_mean, y_mean = 0.0 * flat[0, :], 0.0 * y[0]
    root = xp.sqrt(weight)
    return Centred(root[:, None] * (flat - X_mean), root * (y - y_mean), X_mean, y_mean)
