"""Samples and responses from files of arrays, and from tables of text."""

from __future__ import annotations

import csv
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.nifti import load_nifti
from sltr.samples.budget import working_bytes

AnyPath = str | PathLike[str]
SUFFIXES = (".nii", ".nii.gz", ".npy", ".npz", ".zarr")

# What NumPy and zipfile raise at damaged, encrypted or foreign files.
_READ_ERRORS = (
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
    else:
        data = Bunch(**load_nifti(file), y=None)
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
    except (*_READ_ERRORS, AttributeError) as error:  # no `files`: one array
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
        except _READ_ERRORS as error:
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
    except (*_READ_ERRORS, AttributeError, LookupError, TypeError) as error:
        raise ValueError(_unreadable(file, error)) from error
    return _with_response(data, file, target)


def _read_npy(file: Path) -> np.ndarray:
    try:
        with file.open("rb") as handle:
            return np.lib.format.read_array(handle, allow_pickle=False)
    except _READ_ERRORS as error:
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


def load_csv(
    path: AnyPath,
    *,
    target: str | None = "y",
    covariates: Sequence[str] | None = None,
    delimiter: str = ",",
) -> Bunch:
    r"""Read a table of responses and covariates; its first line names the columns.

    Parameters
    ----------
    path : path
        A file in UTF-8.
    target : str or None
        The column of the responses: numbers or labels.
    covariates : sequence of str, optional
        Columns of numbers. Default: all columns of numbers but the target.
    delimiter : str

    Returns
    -------
    Bunch
        `y` (n,), or None without `target`; `covariates` (n, q) and
        `covariate_names`; `columns`, every column by its name (an empty cell among
        numbers is NaN; a column with a whole number that a float would round, or
        with an underscore, stays text).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "people.csv"
    ...     _ = file.write_text("id,age,label\na,61,patient\nb,48,control\n")
    ...     table = load_csv(file, target="label")
    >>> table.y.tolist(), table.covariates.tolist(), table.covariate_names
    (['patient', 'control'], [[61.0], [48.0]], ['age'])
    """
    file = existing_file(path)
    columns = _read_columns(file, delimiter)
    numeric = [name for name, values in columns.items() if values.dtype.kind == "f"]
    chosen = list(covariates or ())
    if covariates is None:
        chosen = [name for name in numeric if name != target]
    require_names([*chosen, *([] if target is None else [target])], columns, file)
    if target is not None:
        _require_labels(columns[target], target, file)
    text = [name for name in chosen if name not in numeric]
    if text:
        msg = f"The covariates {text} of {file} are not numbers; encode them first."
        raise ValueError(msg)
    n_rows = len(next(iter(columns.values())))
    values = np.array([columns[name] for name in chosen]).reshape(len(chosen), n_rows)
    return Bunch(
        y=None if target is None else columns[target],
        covariates=values.T,
        covariate_names=chosen,
        columns=columns,
    )


def existing_file(path: AnyPath) -> Path:
    """Return the path, or say that nothing is there."""
    file = Path(path)
    if not file.exists():
        msg = f"{file} does not exist; expected a file of data. Check the path."
        raise FileNotFoundError(msg)
    return file


def require_names(names: Iterable[str], there: Iterable[str], file: Path) -> None:
    """Say which arrays or columns a file lacks, and which it has."""
    has = sorted(there)
    absent = [name for name in names if name not in has]
    if absent:
        msg = f"{file} has no {absent}; it holds {has}. Name one of these."
        raise ValueError(msg)


def _require_labels(labels: np.ndarray, target: str, file: Path) -> None:
    """Refuse empty cells among labels: they would become a class of their own."""
    empty = [] if labels.dtype.kind == "f" else np.flatnonzero(labels == "").tolist()
    if empty:
        msg = (
            f"The column {target!r} of {file} is empty in {len(empty)} rows, first in "
            f"row {empty[0] + 1}; expected a label in each. Fill in or remove these."
        )
        raise ValueError(msg)


def _read_columns(file: Path, delimiter: str) -> dict[str, np.ndarray]:
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        msg = f"delimiter={delimiter!r} was given; expected one character, like ','."
        raise ValueError(msg)
    try:
        with file.open(newline="", encoding="utf-8-sig") as handle:
            rows = [row for row in csv.reader(handle, delimiter=delimiter) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{file} cannot be read as a table: {error}. Save it as CSV in UTF-8."
        raise ValueError(msg) from error
    if len(rows) < 2:
        msg = f"{file} has {len(rows)} lines; expected column names and at least a row."
        raise ValueError(msg)
    header = [name.strip() for name in rows[0]]
    if len(set(header)) < len(header):
        msg = f"{file} has the columns {header}; expected each name once. Rename some."
        raise ValueError(msg)
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            msg = (
                f"Row {number} of {file} has {len(row)} cells; expected {len(header)}, "
                "one for each column name. Check the delimiter and the row."
            )
            raise ValueError(msg)
    cells = zip(*rows[1:], strict=True)
    return {name: _column(column) for name, column in zip(header, cells, strict=True)}


def _column(values: Sequence[str]) -> np.ndarray:
    cells = [value.strip() for value in values]
    if all(_is_number(cell) for cell in cells if cell):
        return np.array([float(cell) if cell else np.nan for cell in cells])
    return np.array(cells)


def _is_number(cell: str) -> bool:
    """Say whether a float stands for this cell: not for the identifiers it merges."""
    try:
        number = float(cell)
    except ValueError:
        return False
    if not cell.lstrip("+-").isdigit():
        return "_" not in cell  # Python reads 1_1 as 11
    return isfinite(number) and int(number) == int(cell)
