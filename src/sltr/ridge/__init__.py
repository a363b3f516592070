"""The pilot: ridge regression for any penalty and any subset of the samples.

With A the weighted, centred samples of a subset as rows, the pilot is

    w = (AᵀA + εI)⁻¹Aᵀy = Aᵀ(AAᵀ + εI)⁻¹y.

Three systems compute it. They differ in what is made once and then serves
every penalty, subset and response: the Gram matrix of the samples (n ≤ P), the
moments of the features (P < n), or a sketch (conjugate gradients, when neither
fits). Centring a subset needs no second pass: with C the map that scales by
root weights and removes the weighted mean, A = Cᵀ(X − shift) for any shift.
"""

from __future__ import annotations

from typing import Any, Protocol

from sltr.arrays import Array
from sltr.ridge.conjugate_gradients import (
    CGRidge,
    Unconverged,
    cg_ridge,
)
from sltr.ridge.gram import GramRidge, gram_ridge
from sltr.ridge.moments import MomentRidge, moment_ridge
from sltr.ridge.penalty import CHOLESKY_PER_EIGH
from sltr.samples.samples import as_design

__all__ = [
    "CHOLESKY_PER_EIGH",
    "CGRidge",
    "GramRidge",
    "MomentRidge",
    "RidgeSystem",
    "cheapest_method",
    "ridge_system",
]


# Above this short side a factorisation takes hours, and 3 GB for each matrix.
LARGEST_DIRECT = 20_000
# Matrices of the short side's size that a factorisation holds at its peak.
MATRICES_HELD = 8


class RidgeSystem(Protocol):
    """Ridge estimates for many subsets and penalties from one preparation."""

    @property
    def method(self) -> str:
        """Which one: "dual", "primal" or "cg"."""

    def coefs(self, subsets: Array, epsilons: Array) -> Array:
        """Return pilots of shape (S, E, K, P): subsets, penalties, responses.

        `subsets` (S, n) is true where a sample takes part; `epsilons` is (E,).
        """

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots and the subsets' weighted mean samples, (S, P)."""

    def loo(self, epsilons: Array) -> Array:
        """Return the mean squared leave-one-out error for each penalty, (E,)."""

    def mean_eigenvalue(self) -> float:
        """Return the mean non-trivial eigenvalue of AAᵀ, all samples taken."""


def cheapest_method(
    n_samples: int, n_features: int, *, itemsize: int = 8, limit: int | None = None
) -> str:
    """Return the system of least cost among those that fit.

    A factorisation costs n·P·m for the products and m³ for each solve, m the
    shorter side; where `MATRICES_HELD` matrices of that side exceed the limit in
    bytes, or it is beyond `LARGEST_DIRECT`, only conjugate gradients are left.
    Moments are in double precision, whatever the samples' `itemsize`.

    Examples
    --------
    >>> cheapest_method(100, 5000), cheapest_method(10**5, 500)
    ('dual', 'primal')
    >>> cheapest_method(5000, 6000, limit=10**9)
    'cg'
    """
    short = min(n_samples, n_features)
    method = "dual" if n_samples <= n_features else "primal"
    held = MATRICES_HELD * (itemsize if method == "dual" else 8) * short**2
    too_large = short > LARGEST_DIRECT or (limit is not None and held > limit)
    return "cg" if too_large else method


def ridge_system(
    X: Any,
    Y: Array,
    weight: Array,
    *,
    fit_intercept: bool,
    method: str = "auto",
    limit: int | None = None,
    unconverged: Unconverged | None = None,
) -> RidgeSystem:
    """Prepare the cheapest of the three systems for these samples.

    Parameters
    ----------
    X : array of shape (n, P), or lazy samples
    Y : array of shape (n, K)
    weight : array of shape (n,), positive
    fit_intercept : bool
    method : {"auto", "dual", "primal", "cg"}
    limit : int, optional
        Bytes of memory that "auto" keeps to.
    unconverged : callable, optional
        Called with the relative residual reached and the number of iterations, if
        conjugate gradients run out of theirs.
    """
    X = as_design(X)
    if method == "auto":
        itemsize = 4 if "32" in str(weight.dtype) else 8
        method = cheapest_method(*X.shape, itemsize=itemsize, limit=limit)
    if method == "cg":
        return cg_ridge(
            X, Y, weight, fit_intercept, limit=limit, unconverged=unconverged
        )
    if method == "primal":
        return moment_ridge(X, Y, weight, fit_intercept)
    return gram_ridge(X, Y, weight, fit_intercept)
