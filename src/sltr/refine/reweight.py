"""The pilot again, in the metric of the coefficient's own modes.

A ridge estimate treats all directions alike. Given a coefficient W with
unfoldings W_(m), the next one is

    argmin_V  ‖y − A·vec(V)‖² + ridge · s · vec(V)ᵀ(Σ_1 ⊗ … ⊗ Σ_M)⁻¹vec(V),

    Σ_m = (p_m · W_(m)W_(m)ᵀ / ‖W‖² + δI)^½,

s the mean eigenvalue of A(Σ_1 ⊗ … ⊗ Σ_M)Aᵀ: directions that the modes of W use
are penalised less, and no rank is chosen. Each step is one system of the smaller
of the two sides. Early steps regularise more, so their number is what is tuned.
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
    n_rows, n_features = flatten(A).shape
    ridge = _DualRidge(A, y) if n_rows <= n_features else _PrimalRidge(A, y)
    coef = start
    for step in range(1, max(STEPS) + 1):
        coef = ridge.in_metric(_metric_roots(coef))
        if step in STEPS:
            yield step, coef


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


class _DualRidge:
    """Through the samples' products in the metric, n × n."""

    def __init__(self, A: Array, y: Array):
        self.A, self.y = A, y

    def in_metric(self, roots: list[Array]) -> Array:
        """Return the estimate under the penalty of these roots."""
        xp = array_namespace(self.A)
        flat = flatten(_along_all_modes(self.A, roots))
        dual = _penalised_solve(flat @ xp.matrix_transpose(flat), self.y)
        coef = xp.reshape(xp.matrix_transpose(dual) @ flat, (1, *self.A.shape[1:]))
        return _along_all_modes(coef, roots)[0, ...]


class _PrimalRidge:
    """Through the features' products, made once, P × P."""

    def __init__(self, A: Array, y: Array):
        xp = array_namespace(A)
        flat = flatten(A)
        self.shape = tuple(A.shape[1:])
        self.normal = xp.matrix_transpose(flat) @ flat
        self.cross = xp.reshape(y @ flat, (1, *self.shape))

    def in_metric(self, roots: list[Array]) -> Array:
        """Return the estimate under the penalty of these roots."""
        xp = array_namespace(self.normal)
        normal = self.normal
        for _ in range(2):  # from the left, then, transposed, from the right
            rows = xp.reshape(xp.matrix_transpose(normal), (-1, *self.shape))
            normal = flatten(_along_all_modes(rows, roots))
        cross = xp.reshape(_along_all_modes(self.cross, roots), (-1,))
        coef = xp.reshape(_penalised_solve(normal, cross), (1, *self.shape))
        return _along_all_modes(coef, roots)[0, ...]


def _along_all_modes(tensors: Array, roots: list[Array]) -> Array:
    for mode, root in enumerate(roots):
        tensors = mode_product(tensors, root, mode)
    return tensors


def _penalised_solve(matrix: Array, rhs: Array) -> Array:
    """Solve (matrix + RIDGE·s·I)·v = rhs, s the mean eigenvalue: shape (m, 1)."""
    xp = array_namespace(matrix)
    scale = float(xp.linalg.trace(matrix)) / matrix.shape[0]
    if not scale > 0:  # no sample differs from the mean
        return 0.0 * rhs[:, None]
    identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
    return positive_solver(matrix + RIDGE * scale * identity)(rhs[:, None])
