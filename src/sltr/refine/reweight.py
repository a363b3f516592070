"""The pilot again, in the metric of the coefficient's own modes.

A ridge estimate treats all directions alike. Given a coefficient W with
unfoldings W_(m), the next one is

    argmin_V  ‖y − A·vec(V)‖² + ridge · s · vec(V)ᵀ(Σ_1 ⊗ … ⊗ Σ_M)⁻¹vec(V),

    Σ_m = (p_m · W_(m)W_(m)ᵀ / ‖W‖² + δI)^½,

s the mean eigenvalue of A(Σ_1 ⊗ … ⊗ Σ_M)Aᵀ: directions that the modes of W use
are penalised less, and no rank is chosen. Each step is one n × n system. Early
steps regularise more, so the number of steps is what is tuned.
"""

from __future__ import annotations

from collections.abc import Iterator

from sltr._array import Array, array_namespace, clip, device, eigh, positive_solver
from sltr.tensor import flatten, mode_product, unfold

__all__ = ["STEPS", "reweighted"]

# The steps whose coefficients are worth a look; the last starts low-rank refits.
STEPS = (2, 3, 4, 6, 10)
RIDGE = 1.0
FLOOR = 0.01  # δ


def reweighted(A: Array, y: Array, start: Array) -> Iterator[tuple[int, Array]]:
    """Reweight a coefficient, step by step.

    Parameters
    ----------
    A : array of shape (n, p1, …, pM)
        Weighted, centred samples.
    y : array of shape (n,)
        Weighted, centred responses.
    start : array of shape (p1, …, pM)
        Whose modes give the first metric; not zero.

    Yields
    ------
    step : int
        Those in `STEPS`.
    coef : array of shape (p1, …, pM)
    """
    A, y = _compressed(A, y)
    coef = start
    for step in range(1, max(STEPS) + 1):
        roots = _metric_roots(coef)
        coef = _ridge_in_metric(A, y, roots)
        if step in STEPS:
            yield step, coef


def _compressed(A: Array, y: Array) -> tuple[Array, Array]:
    """Return data of the same least squares with at most P rows."""
    xp = array_namespace(A)
    flat = flatten(A)
    if flat.shape[0] <= flat.shape[1]:
        return A, y
    basis, triangle = xp.linalg.qr(flat)
    rows = (triangle.shape[0], *A.shape[1:])
    return xp.reshape(triangle, rows), xp.matrix_transpose(basis) @ y


def _metric_roots(coef: Array) -> list[Array]:
    """Return Σ_m^½ for every mode, each (p_m, p_m)."""
    xp = array_namespace(coef)
    roots = []
    for mode, size in enumerate(coef.shape):
        rows = unfold(coef[None, ...], mode)[0, ...]
        second = rows @ xp.matrix_transpose(rows)
        energy = xp.linalg.trace(second)
        values, vectors = eigh(second / xp.where(energy > 0, energy, 1.0))
        values = (size * clip(values, 0.0, None) + FLOOR) ** 0.25
        roots.append((vectors * values) @ xp.matrix_transpose(vectors))
    return roots


def _ridge_in_metric(A: Array, y: Array, roots: list[Array]) -> Array:
    xp = array_namespace(A)
    for mode, root in enumerate(roots):
        A = mode_product(A, root, mode)
    flat = flatten(A)
    kernel = flat @ xp.matrix_transpose(flat)
    n_rows = kernel.shape[0]
    scale = float(xp.linalg.trace(kernel)) / n_rows
    if not scale > 0:  # no sample differs from the mean
        return 0.0 * A[0, ...]
    identity = xp.eye(n_rows, dtype=kernel.dtype, device=device(kernel))
    dual = positive_solver(kernel + RIDGE * scale * identity)(y[:, None])
    coef = xp.reshape(xp.matrix_transpose(dual) @ flat, (1, *A.shape[1:]))
    for mode, root in enumerate(roots):
        coef = mode_product(coef, root, mode)
    return coef[0, ...]
