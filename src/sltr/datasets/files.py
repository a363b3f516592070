"""Samples from files of arrays, and the responses that belong to them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from io import BytesIO
from math import inf, prod
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.utils import Bunch

from sltr.arrays.resources import working_bytes
from sltr.datasets.chunks import decompressed_bytes
from sltr.datasets.nifti import load_nifti
from sltr.datasets.reading import (
    AnyPath,
    check_expansion,
    check_regular,
    existing_file,
    expansion_limit,
    few,
    reading,
    require_names,
)
from sltr.datasets.scientific import load_epochs, read_hdf5, read_matlab, read_netcdf
from sltr.datasets.tables import (
    NAMING,
    Match,
    is_table,
    match_rows,
    read_table,
    require_labels,
)
from sltr.parameters import import_optional
from sltr.samples.check import check_plain
from sltr.samples.labelled import label
from sltr.samples.stored import check_chunks

SUFFIXES = (
    *(".nii", ".nii.gz", ".npy", ".npz", ".zarr", ".h5", ".hdf5", ".mat", ".nc"),
    *(".fif", ".csv", ".tsv"),
)
_ZARR_HEADERS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
# NumPy reads headers of up to 10,000 characters.
LONGEST_HEADER = 50_000


def load_data(
    path: AnyPath,
    y: Any = None,
    *,
    target: str | None = "y",
    largest: int | None = None,
    left_out: Sequence[str] = (),
) -> Bunch:
    """Read samples and responses; the suffix of the file says how.

    Parameters
    ----------
    path : path
        ``.npz`` (arrays named X and `target`), ``.npy`` (samples alone),
        ``.zarr`` (a group like an ``.npz``, or one array), ``.nii`` or
        ``.nii.gz`` (samples along the last axis), ``.h5`` or ``.hdf5``, ``.mat``
        (version 5 or 7.3) and ``.nc`` (all like an ``.npz``), ``.fif`` (epochs of
        MNE; see `load_epochs`), ``.csv`` or ``.tsv`` (X has the columns of numbers
        but the target's).
    y : array, path or None
        The responses, if they are not in the same file: values, a ``.npy`` file
        or a ``.csv`` or ``.tsv`` table. Where a column of the table names the samples
        (an array ``ids`` beside X), rows are matched by it, in any order; otherwise
        by position.
    target : str or None
        The name of the responses, in the file or table; None: there need not be any.
    largest : int, optional
        Bytes of samples to read to memory: more of them, in ``.npy``, ``.zarr`` and
        HDF5 files, stay there, as a memmap, zarr array or dataset.
    left_out : sequence of str
        Columns of a ``.csv`` or ``.tsv`` file that are no part of X.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,) or None where there are none, and what else
        the file holds; with a table, `note` says how its rows were matched.

    Raises
    ------
    ValueError
        If the file is damaged, is not what it says, holds dates in place of numbers,
        lacks a chunk (see `load_zarr`), or would take more memory than a hundred times
        its size (or 256 MB, if that is more) or than is free. The environment
        variable ``SLTR_READ_LIMIT``, a text like ``8GB``, sets another limit. What is
        not compressed has none.

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
    if suffix not in SUFFIXES:
        msg = f"{file} was given; expected a file that ends in {list(SUFFIXES)}."
        raise ValueError(msg)
    in_file = None if y is not None else target
    if suffix == ".npz":
        data = load_npz(file, target=in_file)
    elif suffix == ".npy":
        data = load_npy(file, largest=largest)
    elif suffix == ".zarr":
        data = load_zarr(file, target=in_file, largest=largest)
    elif suffix in (".h5", ".hdf5"):
        data = _with_response(read_hdf5(file, largest), file, in_file)
    elif suffix == ".mat":
        data = _with_response(read_matlab(file), file, in_file)
    elif suffix == ".nc":
        data = _with_response(read_netcdf(file), file, in_file)
    elif suffix == ".fif":
        data = load_epochs(file)
    elif is_table(file):
        data = _table_of_samples(file, in_file, left_out)
    else:
        data = Bunch(**load_nifti(file), y=None)
    data = _labelled(data)
    _check_samples(data, file)
    if y is not None:
        beside = read_beside(y, target, names_of(data), data.X.shape[0])
        data.y, data.note = beside.y, beside.note
    _check_shapes(data, file)
    for name in ("X", "y"):
        check_plain(data[name], f"{name} with {file}")
    return data


def _labelled(data: Bunch) -> Bunch:
    """Let X know the names of its modes, their coordinates and the samples' names.

    A file has the names as X's dimensions, or as an array `names`; the coordinates of
    a mode as an array of that name; and the samples' names as `ids`.
    """
    dims, units = data.pop("dims", None), data.pop("units", {})
    X = data.X
    if type(X) is not np.ndarray:
        return data
    names = [str(name) for name in np.ravel(data.get("names", ()))]
    if dims is not None and all(dims[1:]):
        names = list(dims[1:])
    ids = data.get("ids")
    if len(names) != X.ndim - 1 or len(set(names)) < len(names):
        names = []
    if not names and ids is None:
        return data
    coords = {
        mode: np.ravel(data[name])
        for mode, name in enumerate(names)
        if name in data and np.size(data[name]) == X.shape[1 + mode]
    }
    measured = [str(units.get(name, "")) for name in names]
    named = {"names": names, "units": measured} if names else {}
    data.X = label(
        X, **named, coords=coords, ids=None if ids is None else np.ravel(ids)
    )
    return data


def _table_of_samples(file: Path, target: str | None, left_out: Sequence[str]) -> Bunch:
    """Return the columns of numbers as samples of one mode."""
    table = read_table(file)
    require_names([] if target is None else [target], table.columns, file)
    numbers = [
        name
        for name, column in table.columns.items()
        if column.dtype.kind == "f"
        and name not in (target, *left_out)
        and name.lower() not in NAMING
    ]
    if not numbers:
        msg = f"{file} has no column of numbers beside {target!r}; expected samples."
        raise ValueError(msg)
    X = np.column_stack([table.columns[name] for name in numbers])
    naming = [name for name in table.cells if name.lower() in NAMING]
    ids = table.cells[naming[0]] if naming else None
    unique = ids is not None and len(set(ids)) == len(ids)
    labelled = label(X, ["column"], coords=[numbers], ids=ids if unique else None)
    rest = {n: c for n, c in table.columns.items() if n not in (*numbers, "X", "y")}
    if target is not None:
        require_labels(table.columns[target], target, file)
    return Bunch(
        **rest | {"ids": np.array(ids) if unique else None},
        X=labelled,
        y=None if target is None else table.columns[target],
    )


def load_npz(path: AnyPath, *, target: str | None = "y") -> Bunch:
    """Read all arrays of an ``.npz`` file; X must be there, and `target` if named.

    Pickled objects are refused, and more bytes than `load_data` allows.
    """
    file = existing_file(path)
    with _reading(file):
        archive = zipfile.ZipFile(file)
    data = Bunch()
    with archive:
        members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
        check_expansion(file, sum(member.file_size for member in members))
        for member in members:
            name = member.filename.removesuffix(".npy")
            with _reading(file, name):
                _check_member(member, name in data)
                with archive.open(member) as stream:
                    data[name] = _read_stream(stream, member.file_size)
    return _with_response(data, file, target)


def _check_member(member: zipfile.ZipInfo, seen: bool) -> None:
    if seen:
        msg = "there are two of this name"
        raise ValueError(msg)
    # Only these are decompressed in pieces, so that a small file cannot flood memory.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        msg = f"its compression, number {member.compress_type}, is none of NumPy's"
        raise ValueError(msg)


def load_npy(
    path: AnyPath, y: AnyPath | None = None, *, largest: int | None = None
) -> Bunch:
    """Read samples, and responses, from ``.npy`` files; pickles are refused.

    Samples of more than `largest` bytes are mapped to memory, not read.
    """
    responses = None if y is None else _read_npy(existing_file(y))
    file = existing_file(path)
    if largest is not None:
        with _reading(file):
            with file.open("rb") as stream:
                _check_header(stream, file.stat().st_size)
            mapped = np.lib.format.open_memmap(file, mode="r")
        if working_bytes(mapped) > largest:
            return Bunch(X=mapped, y=responses)
    return Bunch(X=_read_npy(file), y=responses)


def load_zarr(
    path: AnyPath, *, target: str | None = "y", largest: int | None = None
) -> Bunch:
    """Read a Zarr group with arrays X and `target`, or a single array.

    Samples of more than `largest` bytes stay in the file. A chunk that is not there
    is an error; zarr, which leaves out chunks of nothing but fill values as it writes,
    would read it as such. The environment variable ``SLTR_MISSING_CHUNKS=fill`` says
    that these are meant.
    """
    zarr = import_optional("zarr", "Zarr files need zarr", "'sltr[dask]'")
    file = existing_file(path)
    for part in file.rglob("*"):
        if part.name in _ZARR_HEADERS:  # zarr would wait for a pipe
            check_regular(part)
    with _reading(file):
        store: Any = zarr.open(str(file), mode="r")
        alone = isinstance(store, zarr.Array)
        arrays: dict[str, Any] = {"X": store} if alone else dict(store.arrays())
        most = inf if largest is None else largest
        large = "X" in arrays and working_bytes(arrays["X"]) > most
        stay = ["X"] if large else []
        read = [array for name, array in arrays.items() if name not in stay]
        n_bytes = sum(prod(array.shape) * array.dtype.itemsize for array in read)
        n_bytes = max(n_bytes, *(_chunk_bytes(a, file) for a in arrays.values()), 0)
    check_expansion(file, n_bytes)
    data = Bunch()
    for name, array in arrays.items():
        with _reading(file, name):
            _check_codecs(array)
            check_chunks(array)
            data[name] = array if name in stay else np.asarray(array[...])
    data.dims, data.units = _zarr_dimensions(arrays)
    if alone:
        data.y = None
        return data
    return _with_response(data, file, target)


def _chunk_bytes(array: Any, file: Path) -> int:
    """Return the bytes that reading one chunk takes: chunks are read as a whole."""
    declared = prod(array.shards or array.chunks) * array.dtype.itemsize
    return max(declared, decompressed_bytes(array, file, expansion_limit(file)))


def _zarr_dimensions(arrays: dict[str, Any]) -> tuple[list[str] | None, dict[str, str]]:
    """Return the names of X's axes, as xarray and zarr write them, and units."""
    if "X" not in arrays:
        return None, {}
    named = getattr(arrays["X"].metadata, "dimension_names", None)
    named = named or arrays["X"].attrs.get("_ARRAY_DIMENSIONS")
    units = {name: str(a.attrs.get("units", "")) for name, a in arrays.items()}
    return None if named is None else [str(name or "") for name in named], units


def _check_codecs(array: Any) -> None:
    codecs = (*array.filters, *array.compressors)
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        msg = "its chunks are pickled, and to load a pickle can run any code"
        raise ValueError(msg)


def _reading(file: Path, name: str | None = None) -> AbstractContextManager[None]:
    array = "" if name is None else f": the array {name!r}"
    return reading(
        f"{file} cannot be read{array}",
        "Expected plain arrays; save them again with numpy.savez, numpy.save or "
        "zarr.save, without Python objects.",
    )


def _read_npy(file: Path) -> np.ndarray:
    with _reading(file), file.open("rb") as stream:
        return _read_stream(stream, file.stat().st_size)


def _read_stream(stream: Any, size: int) -> np.ndarray:
    _check_header(stream, size)
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _check_header(stream: BinaryIO, size: int) -> None:
    """Refuse an array of `size` bytes whose header asks for more memory, or less."""
    npy = np.lib.format
    # From memory: a header may say that it is longer than all there is.
    head = BytesIO(stream.read(LONGEST_HEADER))
    first = npy.read_magic(head) == (1, 0)
    # The third version differs from the second in the names of fields alone.
    header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
    shape, _, dtype = header(head)
    asked, there = prod(shape) * dtype.itemsize, size - head.tell()
    if not dtype.hasobject and (asked != there or dtype.itemsize == 0):
        msg = (
            f"its header says shape {shape} and dtype {dtype}, {asked} bytes, but "
            f"there are {there}"
        )
        raise ValueError(msg)


def _check_samples(data: Bunch, file: Path) -> None:
    if np.ndim(data.X) < 2:
        msg = (
            f"X of {file} has shape {np.shape(data.X)}; expected (n, p1, …, pM), the "
            "samples along its first axis. Reshape it and save it again."
        )
        raise ValueError(msg)


def _check_shapes(data: Bunch, file: Path) -> None:
    if data.y is not None and np.shape(data.y)[:1] != data.X.shape[:1]:
        msg = (
            f"X has {data.X.shape[0]} samples and y shape {np.shape(data.y)}; expected "
            f"one response for each sample. Check {file} and y."
        )
        raise ValueError(msg)


def _with_response(data: Bunch, file: Path, target: str | None) -> Bunch:
    require_names(["X", *([target] if target is not None else [])], data, file)
    data.y = data.get("y") if target is None else data[target]
    # MATLAB has no vectors: they are matrices of one row or column.
    if data.y is not None and np.ndim(data.y) == 2 and 1 in np.shape(data.y):
        n_samples = data.X.shape[0] if np.ndim(data.X) else 0
        data.y = np.ravel(data.y) if np.size(data.y) == n_samples else data.y
    return data


@dataclass(frozen=True, eq=False)
class Beside:
    """Responses from another place than their samples, and columns beside them."""

    y: np.ndarray | None = None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    groups: np.ndarray | None = None  # where several samples share a row of a table
    note: str = ""  # how rows and samples were matched


def names_of(data: Bunch) -> Sequence[str] | None:
    """Return what samples are called, for a table to name them: files, or `ids`."""
    names = data.get("filenames", data.get("ids"))
    return None if names is None else [str(name) for name in np.ravel(names)]


def read_beside(
    y: Any, target: str | None, names: Sequence[str] | None, n_samples: int
) -> Beside:
    """Return responses given as values, ``.npy`` file or table, in the samples' order.

    Without `target` only the columns of a table are read.
    """
    if not isinstance(y, str | PathLike):
        return Beside(np.asarray(check_plain(y, "y")))
    file = existing_file(y)
    if file.suffix == ".npy":
        return Beside(None if target is None else _read_npy(file))
    if not is_table(file):
        msg = (
            f"y={str(y)!r} was given; expected values, a .npy file, or a .csv or .tsv "
            "table."
        )
        raise ValueError(msg)
    table = read_table(file)
    require_names([] if target is None else [target], table.columns, file)
    match = match_rows(table, names, n_samples)
    columns = {name: column[match.rows] for name, column in table.columns.items()}
    if target is not None:
        require_labels(columns[target], target, file)
        _require_numbers(columns[target], target, file, names, match)
    responses = None if target is None else columns[target]
    return Beside(responses, columns, match.participants, match.note)


def _require_numbers(
    values: np.ndarray,
    target: str,
    file: Path,
    names: Sequence[str] | None,
    match: Match,
) -> None:
    """Refuse samples whose response is not known, and name them."""
    unknown = np.flatnonzero(np.isnan(values)) if values.dtype.kind == "f" else ()
    if len(unknown):
        called = [f"row {row + 1}" for row in match.rows]
        if match.column is not None and names is not None:
            called = list(names)
        rows = [called[k] for k in unknown]
        msg = (
            f"The column {target!r} of {file} has no number for {len(unknown)} "
            f"samples: {few(rows)}. Expected one for each. Fill them in, or leave "
            "these samples out."
        )
        raise ValueError(msg)
