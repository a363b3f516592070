"""Units in which squares neither vanish nor overflow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor, log2

from sltr.arrays import Array, array_namespace
from sltr.samples.samples import Samples, column_means


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


# Up to here, and down to its inverse, squares of squares are harmless in every
# precision, and a copy is not free.
ORDINARY = 2.0**8


def of_unit_size(x: Array) -> tuple[Array, float]:
    """Return an array divided by its size, a power of two, and that size.

    An array of ordinary size stays as it is. The division is exact.

    Examples
    --------
    >>> import numpy as np
    >>> divided, unit = of_unit_size(np.array([2.0**600, -(2.0**599)]))
    >>> divided.tolist(), unit == 2.0**600
    ([1.0, -0.5], True)
    >>> of_unit_size(np.array([3.0, -1.0]))
    (array([ 3., -1.]), 1.0)
    """
    size = _size(x)
    if size == 0.0 or 1.0 / ORDINARY <= size <= ORDINARY:
        return x, 1.0
    unit = 2.0 ** floor(log2(size))
    return x / unit, unit


def in_original_units(coef: Array, unit: float) -> Array:
    """Return a coefficient times its unit, or say that its precision has none such.

    Examples
    --------
    >>> import numpy as np
    >>> in_original_units(np.array([3.0, -1.0]), 0.5)
    array([ 1.5, -0.5])
    """
    size = _size(coef)
    if unit == 1.0 or size == 0.0:
        return coef
    limits = array_namespace(coef).finfo(coef.dtype)
    vanishes = size * unit < float(limits.smallest_normal)
    # What is but rounding may vanish.
    if size * unit > float(limits.max) or (vanishes and size > float(limits.eps)):
        msg = (
            f"X and y were given whose coefficient is of size {size:.1g}·{unit:.0e}, "
            f"which {coef.dtype} does not have. Divide X and y by their largest "
            "entries."
        )
        raise ValueError(msg)
    return coef * unit


def check_squares(y: Array) -> None:
    """Refuse responses whose squared errors the precision cannot hold."""
    _, unit = of_unit_size(y)
    limits = array_namespace(y).finfo(y.dtype)
    # Errors may be a few times as large as the responses.
    if not float(limits.smallest_normal) <= unit * unit <= float(limits.max) / 64.0:
        msg = (
            f"Responses of about {unit:.0e} were given, whose squared errors {y.dtype} "
            "does not have. Divide y by its largest entry."
        )
        raise ValueError(msg)


def _size(x: Array) -> float:
    """Return the largest absolute value, without a copy."""
    xp = array_namespace(x)
    return max(float(xp.max(x)), -float(xp.min(x)))


@dataclass(frozen=True, eq=False)
class Centring:
    """The map C of a subset: A = Cᵀ·X, its columns orthogonal to √weight.

    `weight` has shape (…, n), zero for samples that are left out; vectors are
    columns of arrays of shape (…, n, k).
    """

    weight: Array
    fit_intercept: bool

    @cached_property
    def _root(self) -> Array:
        return array_namespace(self.weight).sqrt(self.weight)[..., None]

    @cached_property
    def _total(self) -> Array:
        xp = array_namespace(self.weight)
        return xp.sum(self.weight, axis=-1, keepdims=True)[..., None]

    def spread(self, v: Array) -> Array:
        """Return C·v: sample coefficients of the combination Aᵀv."""
        xp = array_namespace(v)
        scaled = self._root * v
        if not self.fit_intercept:
            return scaled
        mean = xp.sum(scaled, axis=-2, keepdims=True) / self._total
        return scaled - self.weight[..., None] * mean

    def gather(self, t: Array) -> Array:
        """Return Cᵀ·t: centred by the weighted mean, scaled by root weights."""
        xp = array_namespace(t)
        if self.fit_intercept:
            weighted = self.weight[..., None] * t
            t = t - xp.sum(weighted, axis=-2, keepdims=True) / self._total
        return self._root * t

    def both(self, matrix: Array) -> Array:
        """Return Cᵀ·matrix·C for a symmetric (n, n) matrix."""
        xp = array_namespace(matrix)
        return self.gather(xp.matrix_transpose(self.gather(matrix)))


def subset_shares(subsets: Array, weight: Array) -> Array:
    """Return each sample's share of its subset's weight, (S, n): means are shares·X."""
    xp = array_namespace(weight)
    own = xp.where(subsets, weight, 0.0)
    return own / xp.sum(own, axis=1, keepdims=True)
