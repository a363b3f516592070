"""Decompositions, singular values and solves, by the fastest library there is."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import device, is_torch_array

from sltr.arrays import cuda as _cuda
from sltr.arrays.libraries import Array, array_namespace, clip, is_numpy

# What is left of numbers is known up to this many roundings of their size.
ROUNDINGS = 10.0


def adjoint(x: Array) -> Array:
    """Return the conjugate transpose of the last two axes; Sturm's are complex."""
    xp = array_namespace(x)
    transposed = xp.matrix_transpose(x)
    is_complex = xp.isdtype(x.dtype, "complex floating")
    return xp.conj(transposed) if is_complex else transposed


def eigh(gram: Array) -> tuple[Array, Array]:
    """Eigendecompose (a batch of) Hermitian matrices, ascending eigenvalues."""
    if is_numpy(gram):
        return np.linalg.eigh(gram)
    if _cuda.serves(gram, gram.shape[-1], _cuda.LARGEST_EIGH):
        return _cuda.eigh(gram)
    if _wants_cupy(gram):
        return _through_cupy("eigh", gram)
    result = array_namespace(gram).linalg.eigh(gram)
    return result[0], result[1]


def eigvalsh(gram: Array) -> Array:
    """Return the eigenvalues of (a batch of) symmetric matrices, ascending."""
    if is_numpy(gram):
        return np.linalg.eigvalsh(gram)
    if _cuda.serves(gram, gram.shape[-1], _cuda.LARGEST_EIGH):
        return _cuda.eigh(gram, vectors=False)[0]
    if _wants_cupy(gram):
        return _through_cupy("eigvalsh", gram)
    return array_namespace(gram).linalg.eigvalsh(gram)


def qr(x: Array) -> tuple[Array, Array]:
    """Return an orthonormal basis and a triangle of each matrix, its product."""
    if is_numpy(x):
        return np.linalg.qr(x)
    rows, columns = x.shape[-2:]
    entries = rows * columns + (rows + 3) * min(rows, columns)
    if _cuda.serves(x, entries, _cuda.LARGEST_QR):
        return _cuda.qr(x)
    result = array_namespace(x).linalg.qr(x)
    return result[0], result[1]


def _wants_cupy(gram: Array) -> bool:
    """Say whether to decompose torch's matrices by CuPy.

    On CUDA, torch waits for the device after each decomposition and, above 32 × 32,
    loops over the batch, 300 times slower; CuPy does neither.
    """
    return is_torch_array(gram) and gram.is_cuda and _cuda.cupy() is not None


def _through_cupy(name: str, x: Array) -> Any:
    """Call a cupy.linalg function on torch memory, on torch's own stream."""
    cupy, torch = _cuda.cupy(), import_module("torch")
    with _cuda.on_torch_stream(x):
        result = getattr(cupy.linalg, name)(cupy.from_dlpack(x.detach().contiguous()))
        if isinstance(result, tuple):
            return tuple(torch.from_dlpack(part) for part in result)
        return torch.from_dlpack(result)


def singular_values(x: Array, *, exact: bool = False) -> Array:
    """Return singular values of the last two axes, ascending unless `exact`.

    Without `exact` they come from the Gram matrix of the short side, which is
    much faster and right to about 1e-8 times the largest one.
    """
    xp = array_namespace(x)
    if exact:
        return xp.linalg.svdvals(x)
    if x.shape[-2] > x.shape[-1]:
        x = adjoint(x)
    return xp.sqrt(clip(eigvalsh(x @ adjoint(x)), 0.0, None))


def spectral_norm(x: Array) -> Array:
    """Return the largest singular value of the last two axes."""
    xp = array_namespace(x)
    return xp.max(singular_values(x), axis=-1)


def positive_solver(matrix: Array) -> Callable[[Array], Array]:
    """Factorise one symmetric positive definite matrix; return its solve.

    One that rounding made indefinite is solved on the directions it does have.
    """
    try:
        return _cholesky_solver(matrix)
    except Exception as error:
        if "LinAlgError" not in type(error).__name__:
            raise
    xp = array_namespace(matrix)
    values, vectors = eigh(matrix)
    floor = matrix.shape[0] * xp.finfo(matrix.dtype).eps * xp.max(values)
    kept = values > floor
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, 1.0), 0.0)[:, None]
    return lambda rhs: vectors @ (inverse * (xp.matrix_transpose(vectors) @ rhs))


def _cholesky_solver(matrix: Array) -> Callable[[Array], Array]:
    if is_numpy(matrix):
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        return lambda rhs: scipy.linalg.cho_solve(factor, rhs, check_finite=False)
    xp = array_namespace(matrix)
    if is_torch_array(matrix):
        lower = xp.linalg.cholesky(matrix)
        return lambda rhs: xp.cholesky_solve(rhs, lower)
    return lambda rhs: xp.linalg.solve(matrix, rhs)


def ridge_solve(
    matrices: Array, beside: Array, shift: Array, scale: Array | None = None
) -> Array:
    """Solve (S·(A − L·Rᵀ)·S + shift·I)·v = S·y for S·v, (B, d), S = diag(scale).

    A (B, d, d) less L·Rᵀ is symmetric, and with the shift (B,) positive definite; one
    of zero counts as one. `beside` (B, d, 1 + 2b) is y, L and R side by side; the scale
    is (B, d), or one.
    """
    d, n_beside = beside.shape[1:]
    if _cuda.serves(matrices, d, _cuda.LARGEST_SOLVE):
        return _cuda.solve(matrices, beside, shift, scale)
    xp, b = array_namespace(matrices), (n_beside - 1) // 2
    rhs, left, right = beside[:, :, :1], beside[:, :, 1 : b + 1], beside[:, :, b + 1 :]
    if b:
        matrices = matrices - left @ xp.matrix_transpose(right)
    shift = xp.where(shift > 0, shift, 1.0)[:, None, None]
    shift = shift * xp.eye(d, dtype=matrices.dtype, device=device(matrices))
    if scale is None:
        return xp.linalg.solve(matrices + shift, rhs)[:, :, 0]
    column = scale[:, :, None]
    matrices = column * matrices * scale[:, None, :]
    return (column * xp.linalg.solve(matrices + shift, column * rhs))[:, :, 0]


def solves_at_once(like: Array, d: int) -> bool:
    """Say whether `ridge_solve` for d unknowns has a kernel, which does not wait."""
    return _cuda.serves(like, d, _cuda.LARGEST_SOLVE)


def unless_rounding(rest: Array, given: Array, weight: Array, axis: int) -> Array:
    """Return what a basis leaves of vectors along an axis, or zero if it is rounding.

    A fit would take the rounding for a signal, and divide by its size. Where the
    weight is zero, values do not count, and stay.
    """
    xp = array_namespace(rest)
    inside = weight > 0
    most, size = (
        xp.max(xp.where(inside, xp.abs(values), 0.0), axis=axis, keepdims=True)
        for values in (rest, given)
    )
    explained = most <= ROUNDINGS * xp.finfo(rest.dtype).eps * size
    return xp.where(explained & inside, 0.0, rest)


def can_iterate_splitting(matrices: Array) -> bool:
    """Say whether `iterate_splitting` serves (…, n, q) matrices like these."""
    return _cuda.serves(matrices, matrices.shape[-2], _cuda.LARGEST_ITERATE)


in_c_order, iterate_splitting = _cuda.in_c_order, _cuda.iterate
recorded, repeated = _cuda.recorded, _cuda.repeated


# Times the recursive residual is replaced by the true one.
RESTARTS = 5


def reachable(tol: float, rhs: Array) -> float:
    """Return the tolerance, or what rounding leaves of it."""
    return max(tol, 10.0 * float(array_namespace(rhs).finfo(rhs.dtype).eps))


def iteration(
    apply: Callable[..., Array],
    target: float,
    precondition: Callable[[Array], Array] | None = None,
) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
    """Return what makes one iteration of `conjugate_gradients` of its state.

    Several solves of systems of one shape may share it: it is recorded once.
    """

    def iterate(*state: Array) -> tuple[Array, ...]:
        x, residual, direction, last, recursive, norm, *given = state
        xp = array_namespace(x)
        steered = residual if precondition is None else precondition(residual)
        size = xp.sum(residual * steered, axis=-2, keepdims=True)
        direction = steered + _ratio(size, last) * direction
        image = apply(direction, *given)
        curvature = xp.sum(direction * image, axis=-2, keepdims=True)
        # A system that is solved waits: no answer depends on its company.
        step = xp.where(recursive > target, _ratio(size, curvature), 0.0)
        x, residual = x + step * direction, residual - step * image
        return x, residual, direction, size, _length(residual) / norm, norm, *given

    return recorded(iterate)


def conjugate_gradients(
    apply: Callable[..., Array],
    rhs: Array,
    precondition: Callable[[Array], Array] | None = None,
    *,
    given: tuple[Array, ...] = (),
    iterate: Callable[[tuple[Array, ...]], tuple[Array, ...]] | None = None,
    start: Array | None = None,
    start_image: Array | None = None,
    tol: float,
    max_iter: int,
    verify: bool = True,
) -> tuple[Array, Array, float, int]:
    """Solve a batch of positive definite systems along axis −2, from zero or a start.

    Returns the solutions and their images, the largest true residual relative to the
    right-hand side, and the number of iterations. Unless to `verify`, few iterations
    are made, and their recursive residual is believed. The image of the start is found
    unless given. `apply` takes vectors and what is `given`; `iterate` is an `iteration`
    of them, to half the `reachable` tolerance, if other solves share it.
    """
    xp = array_namespace(rhs)
    target = reachable(tol, rhs)
    iterate = iterate or iteration(apply, 0.5 * target, precondition)
    norm = _length(rhs)
    norm = xp.where(norm > 0, norm, 1.0)
    x, residual, n_iter = 0.0 * rhs, rhs, 0
    if start is not None:
        start_image = apply(start, *given) if start_image is None else start_image
        x, residual = start, rhs - start_image
    reached = _length(residual) / norm
    for _ in range(RESTARTS):
        state = (x, residual, 0.0 * rhs, xp.ones_like(norm), reached, norm, *given)
        while float(xp.max(state[4])) > 0.5 * target and n_iter < max_iter:
            state = iterate(state)
            n_iter += 1
        x, residual = state[0] + 0.0, state[1]  # a copy: the next solve needs the place
        if n_iter == 0 or not verify:
            reached = state[4]
            break
        # Rounding lets the recursive residual drift: stop on the true one.
        before, residual = reached, rhs - apply(x, *given)
        reached = _length(residual) / norm
        worst, last_worst = float(xp.max(reached)), float(xp.max(before))
        if worst <= target or n_iter >= max_iter or worst > 0.5 * last_worst:
            break
    return x, rhs - residual, float(xp.max(reached)), n_iter


def _length(columns: Array) -> Array:
    """Return the lengths of vectors along axis −2, which stays."""
    xp = array_namespace(columns)
    return xp.linalg.vector_norm(columns, axis=-2, keepdims=True)


def _ratio(a: Array, b: Array) -> Array:
    xp = array_namespace(b)
    some = b > 0
    return xp.where(some, a / xp.where(some, b, 1.0), 0.0)


def largest_entry(x: Array) -> float:
    """Return the largest absolute value, without a copy."""
    xp = array_namespace(x)
    return max(float(xp.max(x)), -float(xp.min(x)))
