"""Which library an array is of, and ways from one to another."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import device, is_numpy_array, is_torch_array
from array_api_compat import numpy as _numpy_namespace

from sltr.arrays.resources import explained_memory

Array = Any


# Namespaces by type of array: small problems would spend their time on look-ups.
_NAMESPACES: dict[type, Any] = {np.ndarray: _numpy_namespace}


def array_namespace(*arrays: Array) -> Any:
    """Return the array-API namespace of these arrays."""
    kind = type(arrays[0])
    if kind in _NAMESPACES and all(type(x) is kind for x in arrays):
        return _NAMESPACES[kind]
    namespace = array_api_compat.array_namespace(*arrays)
    if is_torch_array(arrays[0]):
        namespace = _torch_namespace()
    if is_torch_array(arrays[0]) or array_api_compat.is_cupy_array(arrays[0]):
        _NAMESPACES.setdefault(kind, namespace)
    return namespace


@cache
def _torch_namespace() -> Any:
    """Return PyTorch's namespace with two functions that launch one kernel each.

    The portable ones launch four and two: `take` counts negative indices from the
    end, which nobody here asks for, and `where` makes an array of every number.
    """
    portable = import_module("array_api_compat.torch")
    torch = import_module("torch")

    def take(x: Array, indices: Array, /, *, axis: int) -> Array:
        return torch.index_select(x, axis, indices)

    def where(condition: Array, x1: Any, x2: Any, /) -> Array:
        one, other = isinstance(x1, torch.Tensor), isinstance(x2, torch.Tensor)
        if one and other:
            return portable.where(condition, x1, x2)
        if one and x1.is_floating_point():
            return torch.where(condition, x1, _number(x2, x1.dtype, x1.device))
        if other and x2.is_floating_point():
            return torch.where(condition, _number(x1, x2.dtype, x2.device), x2)
        return portable.where(condition, x1, x2)

    return SimpleNamespace(**{**vars(portable), "take": take, "where": where})


@cache
def _zero_or_one(value: float, dtype: Any, place: Any) -> Array:
    number = import_module("torch").full((), value, dtype=dtype, device=place)
    float(number)  # it is there before any stream asks for it
    return number


def _number(value: float, dtype: Any, place: Any) -> Array:
    """Return a number as an array without axes: zero and one are made once."""
    if value in (0.0, 1.0):
        return _zero_or_one(value, dtype, place)
    return import_module("torch").full((), value, dtype=dtype, device=place)


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
    if is_array_api(x):  # of any library, perhaps on a device
        try:
            return np.from_dlpack(x, device="cpu")
        except TypeError:  # NumPy knows devices since its version 2.1
            return np.from_dlpack(x)
    return np.asarray(x)


def detached(x: Array) -> Array:
    """Return `x` without what automatic differentiation keeps of it."""
    return x.detach() if is_torch_array(x) else x


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
            # Lists of nothing do not know what they would be lists of.
            shape, listed = values.shape, values.tolist()
            values = xp.asarray(listed, dtype=dtype, device=device(like))
            values = xp.reshape(values, shape)
    return xp.asarray(values, dtype=dtype, device=device(like))


def on_device(x: np.ndarray, device: str) -> Array:
    """Return a NumPy array as a PyTorch tensor on the device of this name."""
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
    single = (xp.float32, getattr(xp, "float16", None))
    return xp.float32 if x.dtype in single else xp.float64


def to_float64(x: Array) -> Array:
    """Return `x` in double precision, the precision of every certificate."""
    xp = array_namespace(x)
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def clip(x: Array, low: float | Array | None, high: float | Array | None) -> Array:
    """Return `x` clipped to [low, high]; a bound of None is no bound."""
    # The portable wrapper costs more than the work. A method makes one array, two calls
    # two: memory that is new to the process costs more than the work as well.
    if type(x) is np.ndarray:
        bounded: Any = x.clip
        return x if low is None and high is None else bounded(low, high)
    if array_api_compat.is_cupy_array(x):
        xp = array_namespace(x)
        x = x if low is None else xp.maximum(x, low)
        return x if high is None else xp.minimum(x, high)
    if is_torch_array(x):  # one kernel where the portable version takes several
        bounds = [bound for bound in (low, high) if bound is not None]
        if len({type(bound) for bound in bounds}) == 1:
            return x.clamp(low, high)
    return array_namespace(x).clip(x, low, high)


def is_dask(x: object) -> bool:
    """Say whether `x` is a Dask array."""
    return bool(array_api_compat.is_dask_array(x))
