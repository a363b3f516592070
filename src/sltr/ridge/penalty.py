"""Penalised solves, leave-one-out errors, and the penalty they choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sltr.arrays import (
    ROUNDINGS,
    Array,
    array_namespace,
    as_array,
    clip,
    device,
    eigh,
    positive_solver,
    to_python,
)
from sltr.parameters import check_nonnegative, refuse
from sltr.samples.front import Centring, check_squares

if TYPE_CHECKING:
    from sltr.ridge import RidgeSystem

# An eigendecomposition costs about as much as this many Cholesky factorisations.
CHOLESKY_PER_EIGH = 25


def penalised_solves(matrix: Array, rhs: Array, epsilons: Array) -> Array:
    """Solve (matrix + εI)·c = rhs for each ε: shape (E, m, K).

    Few penalties take a Cholesky factorisation each, many share one
    eigendecomposition. ε = 0 gives the solution of least norm.
    """
    xp = array_namespace(matrix)
    smallest = float(xp.min(epsilons))
    if epsilons.shape[0] <= CHOLESKY_PER_EIGH and smallest > 0:
        identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
        return xp.stack(
            [
                positive_solver(matrix + epsilons[e] * identity)(rhs)
                for e in range(epsilons.shape[0])
            ]
        )
    values, vectors = eigh(matrix)
    floor = matrix.shape[0] * xp.finfo(matrix.dtype).eps * xp.max(values)
    shifted = xp.where(values > floor, values, 0.0) + epsilons[:, None]
    inverse = xp.where(shifted > 0, 1.0 / xp.where(shifted > 0, shifted, 1.0), 0.0)
    return vectors @ (inverse[:, :, None] * (xp.matrix_transpose(vectors) @ rhs))


def leave_one_out(residuals: Array, free: Array, centring: Centring) -> Array:
    """Return residuals (…, n, K) when one unit of a sample's weight is left out.

    `free` (…, n) is one less the leverages: what of its own response a sample's
    residual keeps. A sample of integer weight counts as that many equal samples of
    which one is left out; one of weight below 1 is left out as a whole. All residuals
    are times the roots of the weights. Where the basis of the centring has a column
    for one sample alone, others say nothing about it, and it nothing about them: its
    residual is zero.
    """
    xp, weight = array_namespace(residuals), centring.weight
    unit = clip(weight, None, 1.0) / weight
    rest = clip((1.0 - unit) + unit * free, 1e-12, None)
    some = 1.0 - unit * centring.leverage > ROUNDINGS * xp.finfo(weight.dtype).eps
    return xp.where(some[:, None], residuals / rest[..., None], 0.0)


def squared_errors(residuals: Array, weight: Array) -> Array:
    """Return squared errors (E, n) of samples of weight one, over all responses."""
    return array_namespace(residuals).sum(residuals**2, axis=2) / weight


def mean_loss(losses: Array, weight: Array) -> Array:
    """Return the weighted mean over samples of losses (E, n)."""
    xp = array_namespace(losses)
    share = weight / xp.sum(weight)
    return losses @ xp.astype(share, losses.dtype, copy=False)


def mean_eigenvalue(trace: Array, weight: Array, n_features: int) -> float:
    """Return trace(AAᵀ) over the smaller of the total weight and P."""
    xp = array_namespace(weight)
    return float(trace) / min(float(xp.sum(weight)), float(n_features))


def penalty_ladder(scale: float, like: Array, n_steps: int = 6) -> list[float]:
    """Return penalties from 1e-6 to 1e5 times a scale, `n_steps` for each decade."""
    # In single precision smaller penalties, or a tenth of them, drown in rounding.
    floor = 1e4 * float(array_namespace(like).finfo(like.dtype).eps)
    factors = [10.0 ** (k / n_steps) for k in range(-6 * n_steps, 5 * n_steps + 1)]
    return [scale * factor for factor in factors if factor > floor]


def choose_epsilon(system: RidgeSystem, epsilon: float | str, weight: Array) -> float:
    """Return a given penalty, or the one of least leave-one-out error."""
    if isinstance(epsilon, str) and epsilon != "loo":
        msg = f"epsilon={epsilon!r} was given; expected a number or 'loo'."
        raise ValueError(msg)
    if not isinstance(epsilon, str):
        penalty = check_nonnegative(epsilon, "epsilon")
        if penalty > float(array_namespace(weight).finfo(weight.dtype).max):
            refuse("epsilon", epsilon, f"a number that {weight.dtype} has")
        return penalty
    scale = system.mean_eigenvalue()
    # Samples that stay in a file have not been read before.
    check_squares(max(scale, 0.0) ** 0.5, weight, "X")
    if not scale > 0:  # all samples are equal: every penalty gives zero
        return 1.0
    penalties = penalty_ladder(scale, weight)
    losses = system.loo_losses(as_array(penalties, weight))
    errors = to_python(mean_loss(losses, weight))
    # Below the noise the error is flat: the largest penalty that is as good.
    good = min(errors) * (1.0 + 1e-3)
    best = max(e for e, error in enumerate(errors) if error <= good)
    return penalties[best]
