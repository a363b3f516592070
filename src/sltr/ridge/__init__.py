"""The pilot: ridge regression for any penalty and any subset of the samples.

With A the weighted, centred samples of a subset as rows, the pilot is

    w = (AᵀA + εI)⁻¹Aᵀy = Aᵀ(AAᵀ + εI)⁻¹y.

Three systems compute it. They differ in what is made once and then serves
every penalty, subset and response: the Gram matrix of the samples (n ≤ P), the
moments of the features (P < n), or a sketch (conjugate gradients, when neither
fits). Centring a subset needs no second pass: with C the map that scales by
root weights and removes the weighted mean, and what covariates explain,
A = Cᵀ(X − shift) for any shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sltr.arrays import Array
from sltr.ridge.conjugate_gradients import Unconverged, cg_ridge
from sltr.ridge.gram import gram_ridge
from sltr.ridge.moments import moment_ridge
from sltr.samples.samples import as_design


@dataclass(frozen=True)
class RidgeLimits:
    """When a factorisation is too large, and what conjugate gradients may take."""

    # Above this short side a factorisation takes hours, and 3 GB for each matrix.
    largest_side: int = 20_000
    # Matrices of the short side's size that a factorisation holds at its peak.
    matrices_held: int = 8
    # Columns of the sketch: n of their numbers each are held, P for a while.
    sketch_rank: int = 100
    # The sketch may take one part in so many of the memory limit.
    sketch_share: int = 4
    max_iter: int = 2000


DEFAULT_LIMITS = RidgeLimits()


class RidgeSystem(Protocol):
    """Ridge estimates for many subsets and penalties from one preparation."""

    @property
    def method(self) -> str:
        """Which one: "dual", "primal" or "cg"."""

    def with_responses(self, Y: Array) -> RidgeSystem:
        """Return the system of the same samples with other responses (n, K)."""

    def coefs_and_means(self, subsets: Array, epsilons: Array) -> tuple[Array, Array]:
        """Return pilots (S, E, K, P) and what was removed from the samples, (S, b, P).

        That is the regression of the subsets' samples on the basis of `Centring`: the
        weighted mean first, then the slopes of covariates. `subsets` (S, n) is true
        where a sample takes part; `epsilons` is (E,).
        """

    def loo_losses(self, epsilons: Array) -> Array:
        """Return squared leave-one-out errors for each penalty, (E, n)."""

    def mean_eigenvalue(self) -> float:
        """Return the mean non-trivial eigenvalue of AAᵀ, all samples taken."""


def cheapest_method(
    n_samples: int,
    n_features: int,
    *,
    itemsize: int = 8,
    memory: int | None = None,
    limits: RidgeLimits = DEFAULT_LIMITS,
) -> str:
    """Return the system of least cost among those that fit into some bytes of memory.

    A factorisation costs n·P·m for the products and m³ for each solve, m the
    shorter side. Moments are in double precision, whatever the samples' `itemsize`.

    Examples
    --------
    >>> cheapest_method(100, 5000), cheapest_method(10**5, 500)
    ('dual', 'primal')
    >>> cheapest_method(5000, 6000, memory=10**9)
    'cg'
    """
    short = min(n_samples, n_features)
    method = "dual" if n_samples <= n_features else "primal"
    held = limits.matrices_held * (itemsize if method == "dual" else 8) * short**2
    too_large = short > limits.largest_side or (memory is not None and held > memory)
    return "cg" if too_large else method


def ridge_system(
    X: Any,
    Y: Array,
    weight: Array,
    *,
    fit_intercept: bool,
    covariates: Array | None = None,
    method: str = "auto",
    loo: bool = False,
    memory: int | None = None,
    limits: RidgeLimits = DEFAULT_LIMITS,
    unconverged: Unconverged | None = None,
) -> RidgeSystem:
    """Prepare the cheapest of the three systems for these samples.

    X is a design or an array (n, P), Y is (n, K) and the weights (n,) are positive.
    Covariates (n, q) are not penalised.
    `loo` says that leave-one-out errors will be asked for, and `memory` how many
    bytes to keep to. `unconverged` is called with the relative residual reached and
    the number of iterations, if conjugate gradients run out of theirs.
    """
    X = as_design(X)
    if method == "auto":
        itemsize = 4 if "32" in str(weight.dtype) else 8
        # What covariates explain of the samples is not fitted by the others.
        n_samples = X.shape[0] - (0 if covariates is None else covariates.shape[1])
        method = cheapest_method(
            n_samples, X.shape[1], itemsize=itemsize, memory=memory, limits=limits
        )
    if method == "primal":
        return moment_ridge(X, Y, weight, fit_intercept, covariates)
    if method == "dual":
        system = gram_ridge(X, Y, weight, fit_intercept, covariates)
        return system.with_spectrum() if loo else system
    rank = limits.sketch_rank
    if memory is not None:
        room = memory // limits.sketch_share
        rank = max(1, min(rank, room // (8 * sum(X.shape))))
    return cg_ridge(
        X,
        Y,
        weight,
        fit_intercept,
        covariates,
        rank=rank,
        max_iter=limits.max_iter,
        unconverged=unconverged,
    )
