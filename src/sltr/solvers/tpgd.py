"""Sparse Tucker regression by projected gradient steps (TPGD)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sltr._array import Array, array_namespace, as_array, to_numpy
from sltr.solvers.sparse_components import sparse_components
from sltr.tensor import mode_product, unfold

__all__ = ["SparseTucker", "largest_eigenvalue", "sparse_tucker", "tpgd"]


@dataclass(frozen=True, eq=False)
class SparseTucker:
    """A coefficient G ×₁ U₁ … ×_M U_M and how far it can be trusted.

    Attributes
    ----------
    coef : array of shape (p1, …, pM)
    core : array of shape (r1, …, rM)
    factors : list of arrays of shape (p_m, r_m)
        Columns of unit length with at most s_m entries that are not zero.
    objective_path : list of float
        ½‖A·vec W − y‖² at the start and after every step; it never rises.
    n_iter : int
    residual : float
        Decrease of the objective in the last step, relative to ½‖y‖².
    converged : bool
    """

    coef: Array
    core: Array
    factors: list[Array]
    objective_path: list[float]
    n_iter: int
    residual: float
    converged: bool


def tpgd(
    A: Array,
    y: Array,
    shape: Sequence[int],
    ranks: Sequence[int],
    sparsity: Sequence[int],
    *,
    step: float | None = None,
    tol: float = 1e-7,
    max_iter: int = 1000,
    callback: Callable[[int, Array], None] | None = None,
) -> SparseTucker:
    r"""Minimise the squared error over sparse Tucker coefficients.

    .. math::

       \min_W \tfrac12\|A\,\mathrm{vec}\,W - y\|^2 \quad\text{s.t.}\quad
       W = G\times_1 U_1\cdots\times_M U_M,\; \|U_m e_r\|_0 \le s_m.

    A step is W ← H(W − μ∇), where H takes the first r_m sparse principal
    components of every unfolding and projects onto their spans. A small μ keeps
    the supports it starts with, so μ begins long, at the best step within the
    present spans, and is halved down to 1/‖A‖₂² until the objective falls. H is
    no exact projection: if none of them serves, the best step within the present
    spans, which cannot raise the objective, is taken instead. The iteration
    stops once a step lowers the objective by less than `tol` × ½‖y‖², that is
    raises the share of y it explains by less than `tol`.

    Parameters
    ----------
    A : array of shape (n, P)
        Samples, one row each, centred.
    y : array of shape (n,)
    shape : sequence of int
        (p1, …, pM), product P.
    ranks, sparsity : sequence of int
        r_m and s_m.
    step : float, optional
        The shortest μ; None is 1/‖A‖₂², by the power method.
    tol : float
    max_iter : int
    callback : callable, optional
        ``callback(n_iter, coef)`` after every step.

    References
    ----------
    .. [1] Ahmed, Raja, Bajwa. Tensor regression using low-rank and sparse Tucker
       decompositions. SIAM J. Math. Data Sci. 2(4), 2020.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4, 3))
    >>> y = 2 * X[:, 1, 2]
    >>> fit = tpgd(X.reshape(60, 12), y, (4, 3), (1, 1), (1, 1))
    >>> np.round(fit.coef[1], 3)
    array([0., 0., 2.])
    """
    loss = _Loss(A, y, tuple(shape))
    shortest = (1.0 / (largest_eigenvalue(A) or 1.0)) if step is None else step
    length = float("inf")
    point = _start(loss, ranks, sparsity)
    objective = [point.value]
    whole = 0.5 * float(array_namespace(y).sum(y**2))
    n_iter, decrease = 0, float("inf")
    while n_iter < max_iter and decrease > tol and point.value > 0.0:
        slope = loss.gradient(point.error)
        best = loss.line_search(_project(slope, point.tucker.factors).coef)
        length = max(shortest, min(best, 2.0 * length))
        new = loss.at(sparse_tucker(point.coef - length * slope, ranks, sparsity))
        while new.value > point.value and length > shortest:
            length = max(shortest, 0.5 * length)
            new = loss.at(sparse_tucker(point.coef - length * slope, ranks, sparsity))
        if new.value > point.value:
            new = loss.at(_project(point.coef - best * slope, point.tucker.factors))
        decrease = (point.value - new.value) / whole
        # At the floor, rounding may still raise it by a hair: stay.
        point = new if decrease >= 0.0 else point
        objective.append(point.value)
        n_iter += 1
        if callback is not None:
            callback(n_iter, point.coef)
    return SparseTucker(
        point.coef,
        point.tucker.core,
        point.tucker.factors,
        objective,
        n_iter,
        max(decrease, 0.0) if n_iter else 0.0,
        converged=decrease <= tol or point.value == 0.0,
    )


@dataclass(frozen=True, eq=False)
class _Tucker:
    coef: Array
    core: Array
    factors: list[Array]


@dataclass(frozen=True, eq=False)
class _Point:
    tucker: _Tucker
    error: Array
    value: float

    @property
    def coef(self) -> Array:
        return self.tucker.coef


@dataclass(frozen=True, eq=False)
class _Loss:
    """½‖A·vec W − y‖² and its products with A."""

    A: Array
    y: Array
    shape: tuple[int, ...]

    def fitted(self, coef: Array) -> Array:
        xp = array_namespace(coef)
        return self.A @ xp.reshape(coef, (-1,))

    def gradient(self, error: Array) -> Array:
        xp = array_namespace(error)
        return xp.reshape(xp.matrix_transpose(self.A) @ error, self.shape)

    def at(self, tucker: _Tucker) -> _Point:
        error = self.fitted(tucker.coef) - self.y
        xp = array_namespace(error)
        return _Point(tucker, error, 0.5 * float(xp.sum(error**2)))

    def line_search(self, direction: Array) -> float:
        """Return the best step along a projected gradient."""
        xp = array_namespace(direction)
        energy = float(xp.sum(self.fitted(direction) ** 2))
        return float(xp.sum(direction**2)) / energy if energy > 0.0 else 0.0


def _start(loss: _Loss, ranks: Sequence[int], sparsity: Sequence[int]) -> _Point:
    """Return H(Aᵀy), scaled to fit y best."""
    xp = array_namespace(loss.y)
    tucker = sparse_tucker(loss.gradient(loss.y), ranks, sparsity)
    prediction = loss.fitted(tucker.coef)
    energy = float(xp.sum(prediction**2))
    scale = float(xp.sum(prediction * loss.y)) / energy if energy > 0.0 else 0.0
    return loss.at(_Tucker(scale * tucker.coef, scale * tucker.core, tucker.factors))


def sparse_tucker(
    tensor: Array, ranks: Sequence[int], sparsity: Sequence[int]
) -> _Tucker:
    """Return H(tensor): sparse components of every unfolding, core by projection.

    Examples
    --------
    >>> import numpy as np
    >>> sparse_tucker(np.diag([3.0, 2.0, 1.0]), (2, 2), (1, 1)).coef
    array([[3., 0., 0.],
           [0., 2., 0.],
           [0., 0., 0.]])
    """
    factors = []
    for mode, (rank, cardinality) in enumerate(zip(ranks, sparsity, strict=True)):
        # A matrix the size of one mode, and many scalar decisions: on the host.
        matrix = to_numpy(unfold(tensor[None, ...], mode)[0, ...])
        factor = sparse_components(matrix, rank, cardinality)
        factors.append(as_array(factor, tensor))
    return _project(tensor, factors)


def _project(tensor: Array, factors: list[Array]) -> _Tucker:
    """Project orthogonally onto the spans of the factors' columns."""
    core = tensor[None, ...]
    for mode, factor in enumerate(factors):
        inverse = np.linalg.pinv(to_numpy(factor))
        core = mode_product(core, as_array(inverse, tensor), mode)
    coef = core
    for mode, factor in enumerate(factors):
        coef = mode_product(coef, factor, mode)
    return _Tucker(coef[0, ...], core[0, ...], factors)


def largest_eigenvalue(A: Array, *, tol: float = 1e-6, max_iter: int = 500) -> float:
    """Return ‖A‖₂² by the power method, to about the root of `tol`.

    The start is deterministic.

    Examples
    --------
    >>> import numpy as np
    >>> round(largest_eigenvalue(np.diag([1.0, 3.0])), 3)
    9.0
    """
    xp = array_namespace(A)
    transposed = xp.matrix_transpose(A)
    # Norms of the rows: positive, and of no symmetry the data do not have.
    u = xp.sqrt(xp.sum(A**2, axis=1))
    u = u * as_array(1.0 + 0.1 * np.cos(np.arange(A.shape[0])), A)
    norm = float(xp.sqrt(xp.sum(u**2)))
    value, change = 0.0, 1.0
    n_iter = 0
    while n_iter < max_iter and change > tol and norm > 0.0:
        u = A @ (transposed @ (u / norm))
        norm = float(xp.sqrt(xp.sum(u**2)))
        change = abs(norm - value) / norm if norm > 0.0 else 0.0
        value, n_iter = norm, n_iter + 1
    return value
