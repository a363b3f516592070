"""Least squares in coordinates that make every step size cheap."""

from __future__ import annotations

from dataclasses import dataclass

from sltr._array import Array, array_namespace, eigh, to_float64
from sltr.design import combine, gram

__all__ = ["LeastSquares", "rotate"]


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """½‖y − A·w‖², turned so that A·Aᵀ is diagonal.

    Attributes
    ----------
    design : array of shape (r, P)
        B with Bᵀ·B = Aᵀ·A and B·Bᵀ = diag(spectrum), r = min(n, P).
    spectrum : array of shape (r,)
    target : array of shape (G, r)
        One row t for each problem: ‖y − A·w‖² = ‖t − B·w‖² + rest.
    pull : array of shape (G, P)
        Bᵀ·t = Aᵀ·y.
    rest : array of shape (G,)
    """

    design: Array
    spectrum: Array
    target: Array
    pull: Array
    rest: Array

    @property
    def null(self) -> Array:
        """The objective ½‖y‖² of the coefficient zero, shape (G,)."""
        xp = array_namespace(self.target)
        return 0.5 * (xp.sum(self.target**2, axis=1) + self.rest)

    @property
    def scale(self) -> Array:
        """The mean of the eigenvalues that are not zero, or one if all are.

        Repeating samples, as weights do, adds zeros only.
        """
        xp = array_namespace(self.spectrum)
        floor = xp.max(self.spectrum) * xp.finfo(self.spectrum.dtype).eps ** 0.5
        n_above = xp.sum(xp.astype(self.spectrum > floor, self.spectrum.dtype))
        mean = xp.sum(self.spectrum) / xp.clip(n_above, 1.0, None)
        return xp.where(mean > 0.0, mean, xp.ones_like(mean))

    def take(self, rows: Array) -> LeastSquares:
        """Return the problems of some rows; a row may be taken many times."""
        xp = array_namespace(self.target)
        return LeastSquares(
            self.design,
            self.spectrum,
            xp.take(self.target, rows, axis=0),
            xp.take(self.pull, rows, axis=0),
            xp.take(self.rest, rows, axis=0),
        )


def rotate(A: Array, y: Array) -> LeastSquares:
    """Factorise A once, through the Gram matrix of its short side.

    Parameters
    ----------
    A : array of shape (n, P)
    y : array of shape (n,), or (G, n) for several responses

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A, y, w = rng.normal(size=(4, 9)), rng.normal(size=4), rng.normal(size=9)
    >>> problem = rotate(A, y)
    >>> turned = np.sum((problem.target[0] - problem.design @ w) ** 2)
    >>> bool(np.isclose(turned + problem.rest[0], np.sum((y - A @ w) ** 2)))
    True
    """
    xp = array_namespace(A)
    y = y[None, :] if y.ndim == 1 else y
    n_samples, n_features = A.shape
    if n_samples <= n_features:
        values, vectors = eigh(to_float64(gram(A)))
        vectors = xp.astype(vectors, A.dtype, copy=False)
        design, target = combine(xp.matrix_transpose(vectors), A), y @ vectors
        rest = xp.zeros_like(target[:, 0])
    else:
        values, vectors = eigh(to_float64(xp.matrix_transpose(A) @ A))
        vectors = xp.astype(vectors, A.dtype, copy=False)
        floor = xp.max(values) * xp.finfo(A.dtype).eps * n_features
        kept = values > floor
        root = xp.sqrt(xp.where(kept, values, xp.ones_like(values)))
        root = xp.astype(root, A.dtype, copy=False)
        zero = xp.zeros_like(root)
        design = xp.where(kept, root, zero)[:, None] * xp.matrix_transpose(vectors)
        target = xp.where(kept, 1.0 / root, zero) * ((y @ A) @ vectors)
        rest = xp.sum(y**2, axis=1) - xp.sum(target**2, axis=1)
        rest = xp.clip(rest, 0.0, None)
    values = xp.clip(xp.astype(values, A.dtype, copy=False), 0.0, None)
    return LeastSquares(design, values, target, target @ design, rest)
