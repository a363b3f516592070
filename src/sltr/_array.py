"""The one place that knows array libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any

import array_api_compat
import numpy as np
import scipy.linalg
from array_api_compat import device, is_numpy_array, is_torch_array
from array_api_compat import numpy as _numpy_namespace
from threadpoolctl import ThreadpoolController

from sltr import _cuda
from sltr._dask import is_dask

Array = Any

__all__ = [
    "Array",
    "adjoint",
    "array_namespace",
    "as_array",
    "can_iterate_splitting",
    "clip",
    "device",
    "eigh",
    "eigvalsh",
    "explained_memory",
    "fitting_threads",
    "free_entries",
    "has_real_numbers",
    "in_c_order",
    "is_array_api",
    "is_numpy",
    "iterate_splitting",
    "materialise",
    "on_device",
    "one_blas_thread",
    "positive_inverse",
    "positive_solver",
    "real_dtype",
    "singular_values",
    "spectral_norm",
    "to_float64",
    "to_numpy",
    "to_python",
]


def array_namespace(*arrays: Array) -> Any:
    """Return the array-API namespace of these arrays."""
    # Small problems are dominated by look-ups: plain NumPy takes a short way.
    if all(type(x) is np.ndarray for x in arrays):
        return _numpy_namespace
    return array_api_compat.array_namespace(*arrays)


def is_array_api(x: object) -> bool:
    """Say whether `x` is an array of a library we can compute with."""
    return bool(array_api_compat.is_array_api_obj(x)) and not is_dask(x)


def is_numpy(x: object) -> bool:
    """Say whether `x` is a NumPy array (of any subclass)."""
    return bool(is_numpy_array(x))


def materialise(x: Array) -> Array:
    """Return `x` as an eager array; a lazy (Dask) one is computed."""
    return x.compute() if is_dask(x) else x


def to_numpy(x: Array) -> np.ndarray:
    """Return `x` as a NumPy array on the host, without a copy where possible."""
    x = materialise(x)
    if is_numpy(x):
        return x
    if is_torch_array(x):
        return x.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(x):
        return x.get()
    return np.asarray(x)


def to_python(x: Array) -> list:
    """Return the values of `x` as (nested) Python lists: waits for the device."""
    return to_numpy(x).tolist()


def as_array(values: Any, like: Array, *, dtype: Any = None) -> Array:
    """Return `values` as an array of the library, device and dtype of `like`."""
    xp = array_namespace(like)
    dtype = like.dtype if dtype is None else dtype
    if not is_array_api(values):
        values = np.asarray(values).tolist()
    elif type(values) is not type(like):
        values = to_numpy(values)
        if not is_numpy(like):
            values = xp.asarray(values.tolist(), dtype=dtype, device=device(like))
    return xp.asarray(values, dtype=dtype, device=device(like))


def on_device(x: np.ndarray, device: str) -> Array:
    """Return a NumPy array as a PyTorch tensor on the device of this name.

    Examples
    --------
    >>> on_device(np.zeros(2), "tpu-9")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: device='tpu-9' was given; ...
    """
    try:
        torch = import_module("torch")
    except ImportError as error:
        msg = (
            f"device={device!r} was given; it needs PyTorch, which is not installed. "
            "Install sltr[gpu], or compute on the CPU."
        )
        raise ValueError(msg) from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        known = ["cpu", *(f"cuda:{k}" for k in range(count))]
        msg = (
            f"device={device!r} was given; expected one PyTorch can use here: "
            f"{', '.join(known)}."
        )
        raise ValueError(msg) from error
    with explained_memory():
        return torch.as_tensor(x).to(device)


def has_real_numbers(x: Array) -> bool:
    """Say whether `x` holds truth values, whole or real numbers."""
    if is_numpy(x):
        return x.dtype.kind in "biuf"
    return bool(
        array_namespace(x).isdtype(x.dtype, ("bool", "real floating", "integral"))
    )


def real_dtype(x: Array) -> Any:
    """Return the floating dtype computations on `x` use: float32 stays float32."""
    xp = array_namespace(x)
    return (
        xp.float32
        if x.dtype in (xp.float32, getattr(xp, "float16", None))
        else (xp.float64)
    )


def to_float64(x: Array) -> Array:
    """Return `x` in double precision, the precision of every certificate."""
    xp = array_namespace(x)
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def clip(x: Array, low: float | Array | None, high: float | Array | None) -> Array:
    """Return `x` clipped to [low, high]; a bound of None is no bound."""
    if type(x) is np.ndarray:  # np.clip and its wrappers cost more than the work
        x = x if low is None else np.maximum(x, low)
        return x if high is None else np.minimum(x, high)
    if is_torch_array(x):  # one kernel where the portable version takes several
        bounds = [bound for bound in (low, high) if bound is not None]
        if len({type(bound) for bound in bounds}) == 1:
            return x.clamp(low, high)
    return array_namespace(x).clip(x, low, high)


def adjoint(x: Array) -> Array:
    """Return the (conjugate) transpose of the last two axes."""
    xp = array_namespace(x)
    transposed = xp.matrix_transpose(x)
    return (
        xp.conj(transposed) if xp.isdtype(x.dtype, "complex floating") else transposed
    )


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


def can_iterate_splitting(matrices: Array) -> bool:
    """Say whether `iterate_splitting` serves (…, n, q) matrices like these."""
    return _cuda.serves(matrices, matrices.shape[-2], _cuda.LARGEST_ITERATE)


in_c_order, iterate_splitting = _cuda.in_c_order, _cuda.iterate


def free_entries(x: Array) -> int:
    """Return how many numbers like those of `x` its device has room for now."""
    if is_torch_array(x) and x.is_cuda:
        torch = import_module("torch")
        stats = torch.cuda.memory_stats(x.device)
        held = (
            stats["reserved_bytes.all.current"] - stats["allocated_bytes.all.current"]
        )
        return (torch.cuda.mem_get_info(x.device)[0] + held) // x.element_size()
    if array_api_compat.is_cupy_array(x):
        pool = _cuda.cupy().get_default_memory_pool()
        return (
            _cuda.cupy().cuda.runtime.memGetInfo()[0] + pool.free_bytes()
        ) // x.itemsize
    return 0


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS uses one thread.

    Products and decompositions of small matrices lose more to waiting threads
    than they gain, up to ten times on a busy machine.
    """
    return _blas().limit(limits=1, user_api="blas")


# Up to this many entries of X nothing is large enough to share among threads.
SMALL_SAMPLES = 5_000_000


def fitting_threads(X: Array) -> AbstractContextManager:
    """Return a context with one BLAS thread for small samples, else as it is."""
    if is_numpy(X) and X.size <= SMALL_SAMPLES:
        return one_blas_thread()
    return nullcontext()


@contextmanager
def explained_memory() -> Iterator[None]:
    """Turn a device's out-of-memory error into one that says what to change."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        msg = (
            "The device ran out of memory. Use float32 samples, a smaller grid or "
            "fewer folds, free other tensors, or fit on the CPU."
        )
        raise MemoryError(msg) from error


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


def positive_inverse(matrix: Array) -> Array:
    """Invert one symmetric positive definite matrix.

    One that rounding made indefinite is inverted on the directions it does have.
    """
    if is_numpy(matrix):  # a third of a general inversion's work
        factorise, invert = scipy.linalg.get_lapack_funcs(("potrf", "potri"), (matrix,))
        lower, failed = factorise(matrix, lower=True)
        if not failed:
            half = np.tril(invert(lower, lower=True)[0])
            return half + np.tril(half, -1).T
    xp = array_namespace(matrix)
    identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
    return positive_solver(matrix)(identity)


def _cholesky_solver(matrix: Array) -> Callable[[Array], Array]:
    if is_numpy(matrix):
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        return lambda rhs: scipy.linalg.cho_solve(factor, rhs, check_finite=False)
    xp = array_namespace(matrix)
    if is_torch_array(matrix):
        lower = xp.linalg.cholesky(matrix)
        return lambda rhs: xp.cholesky_solve(rhs, lower)
    return lambda rhs: xp.linalg.solve(matrix, rhs)
