"""Kernels for CUDA devices, where CuPy is installed to compile them.

They are written in `_cuda.cu`, serve arrays of PyTorch and CuPy alike, are
compiled at first use and kept on disk by CuPy. Everything they do the portable
code does as well, slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

Array = Any

__all__ = ["cupy", "eigh", "in_c_order", "iterate", "on_stream_of", "serves"]

LARGEST_EIGH, LARGEST_ITERATE = 64, 40


@cache
def cupy() -> Any:
    """Return CuPy, or None where it is not installed."""
    try:
        return import_module("cupy")
    except ImportError:
        return None


def serves(x: Array, side: int, largest: int) -> bool:
    """Say whether there is a kernel for matrices of this side, like those of `x`."""
    if side < 1 or side > largest or not _is_on_device(x) or cupy() is None:
        return False
    return _real(x) is not None and _is_able(_device_index(x))


def _is_on_device(x: Array) -> bool:
    return x.is_cuda if is_torch_array(x) else is_cupy_array(x)


def _device_index(x: Array) -> int:
    return x.device.index if is_torch_array(x) else x.device.id


def _real(x: Array) -> str | None:
    """Return the C name of the array's type, if it is a floating one we know."""
    name = str(x.dtype).removeprefix("torch.")
    return {"float32": "float", "float64": "double"}.get(name)


@cache
def _is_able(index: int) -> bool:
    """Say whether double precision is fast there, with tiles to multiply."""
    device = cupy().cuda.Device(index)
    slowdown = device.attributes["SingleToDoublePrecisionPerfRatio"]
    return int(device.compute_capability) >= 80 and slowdown <= 4


@contextmanager
def on_stream_of(x: Array) -> Iterator[None]:
    """Let CuPy work on the device and, for torch's arrays, on torch's stream."""
    if is_cupy_array(x):
        with x.device:
            yield
        return
    stream = import_module("torch").cuda.current_stream(x.device).cuda_stream
    with cupy().cuda.Device(x.device.index), cupy().cuda.ExternalStream(stream):
        yield


@cache
def _kernel(name: str, real: str, tiles: int, copies: int, _index: int) -> Any:
    """Compile a kernel; return a function of the number of blocks and arguments."""
    warps = 16 if tiles <= 2 else 8
    options = (f"-DREAL={real}", f"-DTILES={tiles}", f"-DWARPS={warps}")
    code = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    kernel = cupy().RawModule(code=code, options=options).get_function(name)
    side = 8 * tiles
    matrices = 2 if name == "eigh" else 3
    shared = 8 * (8 * warps + copies * side * (2 + matrices * (side + 4)))
    kernel.max_dynamic_shared_size_bytes = shared

    def launch(blocks: int, arguments: tuple) -> None:
        kernel((blocks,), (32 * warps,), arguments, shared_mem=shared)

    return launch


def _launch(name: str, x: Array, copies: int, blocks: int, side: int, *given: Any):
    """Run a kernel on the stream of `x`, a block for each problem."""
    if blocks == 0:
        return
    arguments = tuple(_argument(value) for value in given)
    with on_stream_of(x):
        tiles = -(-side // 8)
        _kernel(name, _real(x), tiles, copies, _device_index(x))(blocks, arguments)


def _argument(value: Any) -> Any:
    if isinstance(value, int):
        return np.int32(value)
    return value.data_ptr() if is_torch_array(value) else value


def in_c_order(x: Array, *, copy: bool = False) -> Array:
    """Return `x` with its entries in C order in memory; a copy if asked or needed."""
    if is_torch_array(x):
        dense = x.contiguous()
        return dense.clone() if copy and dense is x else dense
    return cupy().array(x, order="C", copy=True if copy else None)


def eigh(matrices: Array, *, vectors: bool = True) -> tuple[Array, Array | None]:
    """Return eigenvalues (…, n), ascending, and eigenvectors (…, n, n) or None."""
    xp = array_api_compat.array_namespace(matrices)
    matrices = in_c_order(matrices)
    *batch, n, _ = matrices.shape
    place = {"dtype": matrices.dtype, "device": matrices.device}
    values = xp.empty((*batch, n), **place)
    found = xp.empty((*batch, n, n), **place) if vectors else None
    blocks = int(np.prod(batch))
    _launch("eigh", matrices, 1, blocks, n, n, matrices, values, found)
    return values, found


def iterate(
    problem: tuple[Array, ...],
    state: tuple[Array, ...],
    eager: Array,
    done: Array,
    *,
    check_every: int,
    adapt_until: int,
    look_every: int,
    last: int,
    relax: float,
) -> Array:
    """Run the splitting of `sltr.solvers.admm`, changing `state` in place.

    Parameters
    ----------
    problem : tuple of arrays
        Pilots (G, n, q), then entrywise radii and weights (G,) and spectral radii
        and weights (G, 1).
    state : tuple of arrays
        Points (G, n, q); copies, their dual parts and a place to work in, each
        (G, 2, n, q); steps (G, 2); iterations done (G,), 64-bit.
    eager : array of shape (G,)
        A problem pauses when its copies agree so well, relative to the point.
    done : array of bool, shape (G,)
        Problems to leave alone.
    check_every, adapt_until, look_every, last : int
        Iterations at which to check agreement (and to adapt the steps before), up
        to which to adapt, at which to pause in any case, and after which to stop.
    relax : float

    Returns
    -------
    array of shape (G,)
        How far apart the copies are; zero for problems that were done.
    """
    xp = array_api_compat.array_namespace(eager)
    problem = tuple(in_c_order(value) for value in problem)
    n_problems, n, q = problem[0].shape
    apart = xp.zeros_like(eager)
    *arrays, n_iter = state
    schedule = (check_every, adapt_until, look_every, last)
    fixed = (*problem, *arrays, in_c_order(eager), apart, n_iter, in_c_order(done))
    _launch("iterate", eager, 2, n_problems, n, n, q, *fixed, *schedule, float(relax))
    return apart
