from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("sltr", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("sltr")


@dataclass(frozen=True)
class Library:
    """An array library on a device, and the two ways across to NumPy."""

    name: str
    namespace: ModuleType
    device: str | None = None

    def array(self, values, dtype=None):
        values = np.asarray(values, dtype=dtype)
        if self.name == "numpy":
            return values.copy()
        if self.name == "cupy":
            return self.namespace.asarray(values)
        return self.namespace.asarray(values, device=self.device)

    def numpy(self, array):
        if self.name == "numpy":
            assert type(array) is np.ndarray
            return array
        if self.name.startswith("torch"):
            assert str(array.device).startswith(self.device)
            return array.cpu().numpy()
        return array.get() if self.name == "cupy" else np.asarray(array)


def _library(name: str) -> Library:
    if name == "numpy":
        return Library(name, np)
    if name == "array-api-strict":
        return Library(name, pytest.importorskip("array_api_strict"))
    if name == "cupy":
        cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
        if cupy.cuda.runtime.getDeviceCount() == 0:
            pytest.skip("no CUDA device")
        return Library(name, cupy)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if name == "torch-cuda":
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        return Library(name, torch, "cuda")
    return Library(name, torch, "cpu")


FOREIGN = [
    "array-api-strict",
    "torch",
    pytest.param("torch-cuda", marks=pytest.mark.gpu),
    pytest.param("cupy", marks=pytest.mark.gpu),
]


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small problems gain nothing from BLAS threads and lose much to each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture(params=["numpy", *FOREIGN])
def xp(request):
    """Every array library; NumPy is the reference."""
    return _library(request.param)


@pytest.fixture(params=FOREIGN)
def foreign(request):
    """Every array library but NumPy."""
    return _library(request.param)


@pytest.fixture
def samples_stay(monkeypatch):
    """Leave small samples in their file or on their cluster, as large ones are."""
    monkeypatch.setattr("sltr.samples.check.fits_in_memory", lambda X, limit: False)
