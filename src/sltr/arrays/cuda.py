"""Kernels for CUDA devices, where CuPy is installed to compile them.

They are written in `cuda.cu`, serve arrays of PyTorch and CuPy alike, are compiled
at first use and kept on disk by CuPy. The portable code does all of it as well, slower.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

Array = Any

# The longest short sides for which the matrices fit into shared memory; of the QR
# decomposition, the number of entries that do.
LARGEST_EIGH, LARGEST_ITERATE, LARGEST_SOLVE, LARGEST_QR = 64, 40, 196, 6000
# Types of the two libraries by name, and what they are called in C.
_REALS = {
    prefix + name: real
    for prefix in ("", "torch.")
    for name, real in (("float32", "float"), ("float64", "double"))
}


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
    return str(x.dtype) in _REALS and _is_able(_device_index(x))


def _is_on_device(x: Array) -> bool:
    return x.is_cuda if is_torch_array(x) else is_cupy_array(x)


def _device_index(x: Array) -> int:
    return x.device.index if is_torch_array(x) else x.device.id


@cache
def _is_able(index: int) -> bool:
    """Say whether the device multiplies tiles of doubles fast, and kernels compile."""
    device = cupy().cuda.Device(index)
    slowdown = device.attributes["SingleToDoublePrecisionPerfRatio"]
    if int(device.compute_capability) < 80 or slowdown > 4:
        return False
    try:
        _kernel("eigh", "double", LARGEST_EIGH // 8, index)
    except Exception as error:  # whatever is wrong with compiler or driver
        warnings.warn(
            f"CuPy cannot compile here ({error}); computing without kernels, slower.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


@dataclass(frozen=True)
class _Stream:
    """Another library's stream, as CuPy's two ways to take one want it."""

    ptr: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


def _torch_stream(x: Array) -> _Stream:
    return _Stream(import_module("torch").cuda.current_stream(x.device).cuda_stream)


@contextmanager
def on_torch_stream(x: Array) -> Iterator[None]:
    """Let CuPy work on the device and the current stream of a torch array."""
    stream, cuda = _torch_stream(x), cupy().cuda
    with cuda.Device(x.device.index):
        if hasattr(cuda.Stream, "from_external"):
            taken = cuda.Stream.from_external(stream)
        else:  # before CuPy 14
            taken = cuda.ExternalStream(stream.ptr)
        with taken:
            yield


@cache
def _kernel(name: str, real: str, tiles: int, index: int) -> Callable[..., None]:
    """Compile a kernel; return what runs it: blocks, arguments and stream are given."""
    warps = 16 if tiles <= 2 else 8
    options = (f"-DREAL={real}", f"-DTILES={tiles}", f"-DWARPS={warps}")
    code = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    if name == "qr":
        shared = 8 * LARGEST_QR
    elif name == "solve":
        shared = 8 * LARGEST_SOLVE * (LARGEST_SOLVE + 7) // 2
    else:
        side = 8 * tiles
        copies, matrices = {"eigh": (1, 2), "iterate": (2, 3)}[name]
        shared = 8 * (8 * warps + copies * side * (3 + matrices * (side + 4)))
    with cupy().cuda.Device(index):
        kernel = cupy().RawModule(code=code, options=options).get_function(name)
        kernel.max_dynamic_shared_size_bytes = shared
        function = kernel.kernel

    def run(blocks: int, arguments: tuple, stream: _Stream | None) -> None:
        function((blocks,), (32 * warps,), arguments, shared, stream)

    return run


def _launch(name: str, x: Array, blocks: int, side: int, *given: Any) -> None:
    """Run a kernel where `x` is, with a thread block for each problem."""
    if blocks == 0:
        return
    index = _device_index(x)
    kernel = _kernel(name, _REALS[str(x.dtype)], -(-side // 8), index)
    arguments = tuple(_argument(value) for value in given)
    stream = _torch_stream(x) if is_torch_array(x) else None
    if cupy().cuda.runtime.getDevice() == index:
        kernel(blocks, arguments, stream)
    else:
        with cupy().cuda.Device(index):
            kernel(blocks, arguments, stream)


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
    columns = xp.empty((*batch, n, n), **place) if vectors else None
    _launch("eigh", matrices, prod(batch), n, n, matrices, values, columns)
    return values, columns


def qr(matrices: Array) -> tuple[Array, Array]:
    """Return orthonormal (…, m, k) and triangular (…, k, r) ones, k the lesser side."""
    xp = array_api_compat.array_namespace(matrices)
    matrices = in_c_order(matrices)
    *batch, m, r = matrices.shape
    place = {"dtype": matrices.dtype, "device": matrices.device}
    basis = xp.empty((*batch, m, min(m, r)), **place)
    triangle = xp.empty((*batch, min(m, r), r), **place)
    _launch("qr", matrices, prod(batch), 8, m, r, matrices, basis, triangle)
    return basis, triangle


def solve(matrices: Array, beside: Array, shift: Array, scale: Array | None) -> Array:
    """Return the solutions (B, d) of `sltr.arrays.ridge_solve`."""
    xp = array_api_compat.array_namespace(matrices)
    n_items, d, n_beside = beside.shape
    place = {"dtype": matrices.dtype, "device": matrices.device}
    found = xp.empty((n_items, d), **place)
    given = [in_c_order(array) for array in (matrices, beside, shift)]
    scale = None if scale is None else in_c_order(scale)
    sizes = (8, d, (n_beside - 1) // 2)  # the side is that of a block's threads
    _launch("solve", matrices, n_items, *sizes, *given, scale, found)
    return found


def repeated(
    step: Callable[..., tuple[Array, ...]],
    state: tuple[Array, ...],
    *,
    record: bool = True,
) -> Callable[..., tuple[Array, ...]]:
    """Return what takes so many more steps, and tells where they lead.

    From the state first, then from where the last ones ended, or from another state of
    such arrays if one is given. A step takes the arrays of a state and returns new
    ones. PyTorch's on CUDA is recorded and replayed, so that its many small kernels are
    launched as one: unless told not to `record` it, it must not wait for the device,
    and be the same function of nothing but the state. The arrays that are returned
    belong to the next steps.
    """
    held = list(state)

    def taken(
        n_steps: int, state: tuple[Array, ...] | None = None
    ) -> tuple[Array, ...]:
        held[:] = held if state is None else state
        for _ in range(n_steps):
            held[:] = step(*held)
        return tuple(held)

    if not (record and is_torch_array(state[0]) and state[0].is_cuda):
        return taken
    replay: Any = None
    is_loaded = False

    def replayed(
        n_steps: int, state: tuple[Array, ...] | None = None
    ) -> tuple[Array, ...]:
        nonlocal replay, is_loaded
        if not is_loaded:
            # The first step is not recorded: kernels are loaded, constants computed.
            taken(1, state)
            is_loaded, state, n_steps = True, None, n_steps - 1
        if n_steps and replay is None:
            held[:] = [x.clone() for x in (held if state is None else state)]
            replay = _recording(step, tuple(held))
        elif state is not None:
            for place, value in zip(held, state, strict=True):
                place.copy_(value)
        for _ in range(n_steps):
            replay()
        return tuple(held)

    return replayed


def _recording(
    step: Callable[..., tuple[Array, ...]], places: tuple[Array, ...]
) -> Callable[[], None]:
    """Record a step that leaves its results where it found its arguments."""
    torch, device = import_module("torch"), places[0].device
    now = torch.cuda.current_stream(device)
    aside, pool, _ = _workshop(device.index, now.cuda_stream)
    graph = torch.cuda.CUDAGraph()
    aside.wait_stream(now)
    collects = gc.isenabled()
    gc.disable()  # an old recording that is collected meanwhile would spoil this one
    try:
        with torch.cuda.stream(aside):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                for place, value in zip(places, step(*places), strict=True):
                    place.copy_(value)
            finally:
                graph.capture_end()
    finally:
        if collects:
            gc.enable()
    now.wait_stream(aside)
    return graph.replay


@cache
def _workshop(index: int, stream: int) -> tuple[Any, Any, Any]:
    """Return a stream to record on, and memory that recordings of a stream share.

    They run one after another, and leave nothing there. Memory of their own would have
    to be asked for each time. A first recording, of nothing, keeps it.
    """
    torch = import_module("torch")
    aside, pool = torch.cuda.Stream(index), torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(aside):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        torch.zeros(1, device=aside.device)
        graph.capture_end()
    return aside, pool, graph


def recorded(
    step: Callable[..., tuple[Array, ...]],
) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
    """Return what takes a step from a state, `repeated` from the first one on.

    All states it is given have arrays of the same shapes.
    """
    further: Callable[..., tuple[Array, ...]] | None = None
    last: tuple[Array, ...] = ()

    def taken(state: tuple[Array, ...]) -> tuple[Array, ...]:
        nonlocal further, last
        if further is None:
            further = repeated(step, state)
            last = further(1)
        else:
            goes_on = all(a is b for a, b in zip(state, last, strict=True))
            last = further(1, None if goes_on else state)
        return last

    return taken


def iterate(
    problem: tuple[Array, ...],
    state: tuple[Array, ...],
    check_below: Array,
    done: Array,
    *,
    check_every: int,
    adapt_until: int,
    certify_every: int,
    last: int,
    relax: float,
) -> Array:
    """Run the splitting of `sltr.core.admm`, changing `state` in place.

    `problem`: pilots (G, n, q), entrywise radii and weights (G,), spectral radii and
    weights (G, 1). `state`: points (G, n, q); copies, their dual parts and room to
    work in, each (G, 2, n, q); steps (G, 2); iterations done (G,), 64-bit.

    A problem pauses when its copies differ by at most `check_below` (G,), relative to
    the point, and in any case every `certify_every` iterations; those `done` are left
    alone. Agreement is checked every `check_every` iterations, before which steps are
    adapted up to iteration `adapt_until`; `last` is the last iteration. Returns how
    far apart the copies are (G,), zero for problems that were done.
    """
    xp = array_api_compat.array_namespace(check_below)
    problem = tuple(in_c_order(value) for value in problem)
    n_problems, n, q = problem[0].shape
    apart = xp.zeros_like(check_below)
    *arrays, n_iter = state
    schedule = (check_every, adapt_until, certify_every, last)
    limits = (in_c_order(check_below), apart, n_iter, in_c_order(done))
    given = (n, q, *problem, *arrays, *limits, *schedule, float(relax))
    _launch("iterate", check_below, n_problems, n, *given)
    return apart
