"""Samples and responses from files of arrays."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.tables import AnyPath, existing_file, load_csv, require_names
from sltr.samples.budget import working_bytes

# What NumPy and zipfile raise at damaged, encrypted or foreign files.
READ_ERRORS = (
    *(ValueError, OSError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)


def load_data(
    path: AnyPath,
    y: Any = None,
    *,
    target: str | None = "y",
    largest: int | None = None,
) -> Bunch:
    """Read samples and responses; the suffix of the file says how.

    Parameters
    ----------
    path : path
        ``.npz`` (arrays named X and `target`), ``.npy`` (samples alone),
        ``.zarr`` (a group like an ``.npz``, or one array), ``.nii`` or
        ``.nii.gz`` (samples along the last axis).
    y : array, path or None
        The responses, if they are not in the same file: values, a ``.npy`` file
        or a ``.csv`` table.
    target : str or None
        The name of the responses, in the file or table; None: there need not be any.
    largest : int, optional
        Bytes of samples to read to memory: more of them, in ``.npy`` and ``.zarr``
        files, stay there, as a memmap or zarr array.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,) or None where there are none, and what else
        the file holds.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "data.npz"
    ...     np.savez(file, X=np.zeros((5, 4, 3)), y=np.arange(5.0))
    ...     data = load_data(file)
    >>> data.X.shape, data.y.shape
    ((5, 4, 3), (5,))
    """
    file = existing_file(path)
    suffix = "".join(file.suffixes[-2:]) if file.suffix == ".gz" else file.suffix
    known = sorted([".npy", ".zarr", *_READERS])
    if suffix not in known:
        msg = f"{file} was given; expected a file that ends in {known}."
        raise ValueError(msg)
    own = None if y is not None else target
    if suffix == ".npy":
        data = load_npy(file, largest=largest)
    elif suffix == ".zarr":
        data = load_zarr(file, target=own, largest=largest)
    else:
        data = _READERS[suffix](file, own)
    if y is not None:
        data.y = read_responses(y, target)
    _check_shapes(data, file)
    return data


def load_npz(path: AnyPath, *, target: str | None = "y") -> Bunch:
    """Read all arrays of an ``.npz`` file; X must be there, and `target` if named.

    Pickled objects are refused.
    """
    file = existing_file(path)
    try:
        # NumPy leaves a file open that it cannot read; ours is closed.
        with file.open("rb") as handle:
            arrays = np.load(handle, allow_pickle=False)
            data = Bunch(**{name: arrays[name] for name in arrays.files})
    except (*READ_ERRORS, AttributeError) as error:  # no `files`: one array
        raise ValueError(_unreadable(file, error)) from error
    return _with_response(data, file, target)


def load_npy(
    path: AnyPath, y: AnyPath | None = None, *, largest: int | None = None
) -> Bunch:
    """Read samples, and responses, from ``.npy`` files; pickles are refused.

    Samples of more than `largest` bytes are mapped to memory, not read.
    """
    responses = None if y is None else _read_npy(existing_file(y))
    file = existing_file(path)
    if largest is not None:
        try:
            mapped = np.lib.format.open_memmap(file, mode="r")
        except READ_ERRORS as error:
            raise ValueError(_unreadable(file, error)) from error
        if working_bytes(mapped) > largest:
            return Bunch(X=mapped, y=responses)
    return Bunch(X=_read_npy(file), y=responses)


def load_zarr(
    path: AnyPath, *, target: str | None = "y", largest: int | None = None
) -> Bunch:
    """Read a Zarr group with arrays X and `target`, or a single array.

    Samples of more than `largest` bytes stay in the file.
    """
    try:
        import zarr
    except ImportError as error:
        msg = "Zarr files need zarr. Install it with: pip install 'sltr[dask]'"
        raise ImportError(msg) from error
    file = existing_file(path)

    def read(name: str, array: Any) -> Any:
        stays = largest is not None and name == "X" and working_bytes(array) > largest
        return array if stays else np.asarray(array[...])

    try:
        store = zarr.open(str(file), mode="r")
        if isinstance(store, zarr.Array):
            return Bunch(X=read("X", store), y=None)
        data = Bunch(**{name: read(name, array) for name, array in store.arrays()})
    # Zarr trusts its metadata: damaged ones meet code that expects others.
    except (*READ_ERRORS, AttributeError, LookupError, TypeError) as error:
        raise ValueError(_unreadable(file, error)) from error
    return _with_response(data, file, target)


def _read_npy(file: Path) -> np.ndarray:
    try:
        with file.open("rb") as handle:
            return np.lib.format.read_array(handle, allow_pickle=False)
    except READ_ERRORS as error:
        raise ValueError(_unreadable(file, error)) from error


def _unreadable(file: Path, error: Exception) -> str:
    return (
        f"{file} cannot be read: {error}. Expected plain arrays; save them again with "
        "numpy.savez, numpy.save or zarr.save, without Python objects."
    )


def _check_shapes(data: Bunch, file: Path) -> None:
    if np.ndim(data.X) < 2:
        msg = (
            f"X of {file} has shape {np.shape(data.X)}; expected (n, p1, …, pM), the "
            "samples along its first axis. Reshape it and save it again."
        )
        raise ValueError(msg)
    if data.y is not None and np.shape(data.y)[:1] != data.X.shape[:1]:
        msg = (
            f"X has {data.X.shape[0]} samples and y shape {np.shape(data.y)}; expected "
            f"one response for each sample. Check {file} and y."
        )
        raise ValueError(msg)


def _with_response(data: Bunch, file: Path, target: str | None) -> Bunch:
    require_names(["X", *([target] if target is not None else [])], data, file)
    data.y = data.get("y") if target is None else data[target]
    return data


def read_responses(y: Any, target: str | None = "y") -> np.ndarray:
    """Return responses given as values, a ``.npy`` file or a ``.csv`` table."""
    if not isinstance(y, str | PathLike):
        return np.asarray(y)
    file = existing_file(y)
    if file.suffix == ".csv":
        return load_csv(file, target=target).y
    if file.suffix == ".npy":
        return _read_npy(file)
    msg = f"y={str(y)!r} was given; expected values, a .npy file or a .csv table."
    raise ValueError(msg)


def _nifti(path: Path, target: str | None) -> Bunch:
    from sltr.datasets.nifti import load_nifti

    return Bunch(**load_nifti(path), y=None)


_READERS: dict[str, Callable[[Path, str | None], Bunch]] = {
    ".npz": lambda path, target: load_npz(path, target=target),
    ".nii": _nifti,
    ".nii.gz": _nifti,
}
