"""What is installed, and what it can use."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

__all__ = ["environment", "sltr_version"]

_REQUIRED = ("numpy", "scipy", "scikit-learn", "joblib", "array-api-compat")
_EXTRAS = {
    "gpu": ("torch",),
    "dask": ("dask", "distributed", "zarr"),
    "video": ("av",),
    "neuro": ("nibabel", "nilearn"),
    "models": ("safetensors",),
    "report": ("matplotlib", "jinja2"),
    "cli": ("typer", "rich"),
}


def environment() -> dict[str, dict[str, Any]]:
    """Return versions, devices and optional packages, by topic.

    Examples
    --------
    >>> sorted(environment())
    ['devices', 'optional packages', 'versions']
    """
    return {
        "versions": {
            "sltr": sltr_version(),
            "Python": platform.python_version(),
            **{name: _version(name) for name in _REQUIRED},
        },
        "devices": {
            "machine": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            **_accelerators(),
        },
        "optional packages": {
            name: _version(name) or f"not there: pip install 'sltr[{extra}]'"
            for extra, names in _EXTRAS.items()
            for name in names
        }
        | {"cupy": _cupy_version() or "not there: pip install cupy-cuda12x"},
    }


def sltr_version() -> str:
    """Return the version of `sltr`."""
    import sltr

    return sltr.__version__


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cupy_version() -> str | None:
    """Return the version of CuPy, which is distributed by version of CUDA."""
    wheels = ("cupy", *(f"cupy-cuda{number}x" for number in (11, 12, 13)))
    return next(filter(None, map(_version, wheels)), None)


def _accelerators() -> dict[str, Any]:
    if find_spec("torch") is None:
        return {"GPU": "not looked for: PyTorch is not installed"}
    import torch

    count = torch.cuda.device_count()
    names = [torch.cuda.get_device_name(k) for k in range(count)]
    return {"GPU": ", ".join(names) or "none that PyTorch can use"}
