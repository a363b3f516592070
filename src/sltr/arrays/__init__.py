"""The one place that knows array libraries."""

from array_api_compat import device

from sltr.arrays.libraries import (
    Array,
    array_namespace,
    as_array,
    clip,
    detached,
    has_real_numbers,
    is_array_api,
    is_numpy,
    materialise,
    on_device,
    real_dtype,
    to_float64,
    to_numpy,
    to_python,
)
from sltr.arrays.linalg import (
    adjoint,
    can_iterate_splitting,
    eigh,
    eigvalsh,
    in_c_order,
    iterate_splitting,
    positive_solver,
    singular_values,
    spectral_norm,
)
from sltr.arrays.resources import (
    explained_memory,
    fitting_threads,
    free_entries,
    one_blas_thread,
)

__all__ = [
    "Array",
    "adjoint",
    "array_namespace",
    "as_array",
    "can_iterate_splitting",
    "clip",
    "detached",
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
    "positive_solver",
    "real_dtype",
    "singular_values",
    "spectral_norm",
    "to_float64",
    "to_numpy",
    "to_python",
]
