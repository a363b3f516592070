"""Samples and responses in units near one, centred, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2

from sltr.arrays import Array, array_namespace, largest_entry
from sltr.samples.centring import Centring
from sltr.samples.samples import Samples

# Up to this size, and down to its inverse, even the squares of squares are harmless in
# every precision, so that a scaled copy is not worth its memory.
ORDINARY = 2.0**8


@dataclass(frozen=True, eq=False)
class Centred:
    """Weighted, centred least-squares data in units near one, and the way back.

    ‖y − A·w‖² is the weighted loss in these units, powers of two. The means are those
    of the samples and responses as they were given.
    """

    A: Array  # (n, P)
    y: Array  # (n,), or (K, n) for several responses
    X_mean: Array  # (P,)
    y_mean: Array  # () or (K,)
    X_unit: float
    y_unit: float

    @property
    def coef_unit(self) -> float:
        """What one entry of a coefficient stands for in the units of X and y."""
        return self.y_unit / self.X_unit

    def intercept(self, coef: Array) -> Array:
        """Return the intercepts of coefficients (…, P) in the original units."""
        xp = array_namespace(coef)
        return self.y_mean - xp.sum(coef * self.X_mean, axis=-1)


def centre(
    samples: Samples, fit_intercept: bool, targets: Array | None = None
) -> Centred:
    """Return weighted, centred data in units near one; makes one copy of X.

    `targets` (K, n) stand in for the responses of the samples.
    """
    xp = array_namespace(samples.X)
    flat, y = samples.flat, samples.y if targets is None else targets
    weight, centring = samples.weight, Centring(samples.weight, True)
    X_mean = (centring.share @ flat)[0, :]
    y_mean = xp.sum(weight * y, axis=-1) / xp.sum(weight)
    if not fit_intercept:
        X_mean, y_mean = 0.0 * X_mean, 0.0 * y_mean
    # The rounding that a constant leaves would be taken for a signal.
    if fit_intercept and bool(xp.all(flat[:1, :] == flat)):
        A = xp.zeros_like(flat)
    else:
        A = centring.root * (flat - X_mean)
    A, X_unit = divide_by_unit(A)
    # Responses may be more precise than samples, until their mean is removed.
    rest = xp.astype(y - y_mean[..., None], flat.dtype, copy=False)
    y, y_unit = divide_by_unit(centring.root[:, 0] * rest)
    return Centred(A, y, X_mean, y_mean, X_unit, y_unit)


def divide_by_unit(x: Array) -> tuple[Array, float]:
    """Return an array divided by its size, a power of two, and that size.

    An array of ordinary size stays as it is. The division is exact.

    Examples
    --------
    >>> import numpy as np
    >>> divided, unit = divide_by_unit(np.array([2.0**60, -(2.0**59)]))
    >>> divided.tolist(), unit == 2.0**60
    ([1.0, -0.5], True)
    >>> divide_by_unit(np.array([3.0, -1.0]))
    (array([ 3., -1.]), 1.0)
    """
    size = largest_entry(x)
    if size == 0.0 or 1.0 / ORDINARY <= size <= ORDINARY:
        return x, 1.0
    unit = 2.0 ** floor(log2(size))
    return x / unit, unit
