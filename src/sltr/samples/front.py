"""What is done to samples before a fit and undone after it: centring and units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor, log2

from sltr.arrays import Array, array_namespace
from sltr.samples.samples import Samples

# Up to this size, and down to its inverse, even the squares of squares are harmless in
# every precision, so that a scaled copy is not worth its memory.
ORDINARY = 2.0**8


@dataclass(frozen=True, eq=False)
class Centring:
    """The map C that weighs samples and removes their weighted mean: A = Cᵀ·X.

    `weight` has shape (…, n), zero for samples that are left out. Vectors are columns
    of arrays of shape (…, n, k). Without an intercept nothing is removed.
    """

    weight: Array
    fit_intercept: bool

    @staticmethod
    def of_subsets(subsets: Array, weight: Array, fit_intercept: bool) -> Centring:
        """Return the centring of each subset (S, n) of samples with these weights."""
        xp = array_namespace(weight)
        return Centring(xp.where(subsets, weight, 0.0), fit_intercept)

    @cached_property
    def root(self) -> Array:
        """The root weights, (…, n, 1)."""
        return array_namespace(self.weight).sqrt(self.weight)[..., None]

    @cached_property
    def share(self) -> Array:
        """Each sample's share of the total weight, (…, n): means are share·X."""
        xp = array_namespace(self.weight)
        return self.weight / xp.sum(self.weight, axis=-1, keepdims=True)

    @cached_property
    def _total(self) -> Array:
        xp = array_namespace(self.weight)
        return xp.sum(self.weight, axis=-1, keepdims=True)[..., None]

    def spread(self, v: Array) -> Array:
        """Return C·v: sample coefficients of the combination Aᵀv."""
        xp = array_namespace(v)
        scaled = self.root * v
        if not self.fit_intercept:
            return scaled
        mean = xp.sum(scaled, axis=-2, keepdims=True) / self._total
        return scaled - self.weight[..., None] * mean

    def gather(self, t: Array) -> Array:
        """Return Cᵀ·t: centred by the weighted mean, scaled by root weights."""
        if self.fit_intercept:
            xp = array_namespace(t)
            # A sum is divided at the end: the mean of a constant is then exact.
            weighted = self.weight[..., None] * t
            t = t - xp.sum(weighted, axis=-2, keepdims=True) / self._total
        return self.root * t

    def both(self, matrix: Array) -> Array:
        """Return Cᵀ·matrix·C for a symmetric (n, n) matrix."""
        xp = array_namespace(matrix)
        return self.gather(xp.matrix_transpose(self.gather(matrix)))

    def residual(self, rows: Array) -> Array:
        """Return rows (…, n) less their weighted means."""
        if not self.fit_intercept:
            return rows
        xp = array_namespace(rows)
        return rows - xp.linalg.vecdot(rows, self.share, axis=-1)[..., None]


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
    weight, centring = samples.weight, Centring(samples.weight, fit_intercept)
    X_mean = centring.share @ flat
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


def largest_entry(x: Array) -> float:
    """Return the largest absolute value, without a copy."""
    xp = array_namespace(x)
    return max(float(xp.max(x)), -float(xp.min(x)))


def check_squares(size: float, like: Array, name: str, count: int = 1) -> None:
    """Refuse a size whose squares, or their sum, the precision of `like` lacks.

    This bounds the units of X, y and weights, so that their products and ratios are
    numbers.
    """
    limits = array_namespace(like).finfo(like.dtype)
    least, most = float(limits.smallest_normal), float(limits.max)
    if size == 0.0 or (least <= size * size and size * size <= most / count):
        return
    what = {"X": "Samples", "y": "Responses", "sample_weight": "Weights"}[name]
    msg = (
        f"{what} of about {size:.0e} were given, whose squared errors {like.dtype} "
        f"does not have. Divide {name} by its largest entry."
    )
    raise ValueError(msg)
