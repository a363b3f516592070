"""Samples and responses from files of arrays, and from tables of text."""

from __future__ import annotations

import csv
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from math import inf, isfinite, prod
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.nifti import load_nifti
from sltr.datasets.reading import check_expansion, reading
from sltr.samples.budget import working_bytes
from sltr.samples.check import check_plain
from sltr.samples.stored import check_chunks

AnyPath = str | PathLike[str]
SUFFIXES = (".nii", ".nii.gz", ".npy", ".npz", ".zarr")
# Names that an error message lists at most.
LISTED = 20
# NumPy reads headers of up to 10,000 characters.
LONGEST_HEADER = 50_000


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
    else:
        data = Bunch(**load_nifti(file), y=None)
    if y is not None:
        data.y = read_responses(y, target)
    _check_shapes(data, file)
    for name in ("X", "y"):
        check_plain(data[name], f"{name} with {file}")
    return data


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
    try:
        import zarr
    except ImportError as error:
        msg = "Zarr files need zarr. Install it with: pip install 'sltr[dask]'"
        raise ImportError(msg) from error
    file = existing_file(path)
    with _reading(file):
        store: Any = zarr.open(str(file), mode="r")
        alone = isinstance(store, zarr.Array)
        arrays: dict[str, Any] = {"X": store} if alone else dict(store.arrays())
        most = inf if largest is None else largest
        large = "X" in arrays and working_bytes(arrays["X"]) > most
        stay = ["X"] if large else []
        read = [array for name, array in arrays.items() if name not in stay]
        n_bytes = sum(prod(array.shape) * array.dtype.itemsize for array in read)
    check_expansion(file, n_bytes)
    data = Bunch()
    for name, array in arrays.items():
        with _reading(file, name):
            _check_codecs(array)
            check_chunks(array)
            data[name] = array if name in stay else np.asarray(array[...])
    if alone:
        data.y = None
        return data
    return _with_response(data, file, target)


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
        return np.asarray(check_plain(y, "y"))
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
    numeric = {name: None for name, found in columns.items() if found.dtype.kind == "f"}
    chosen = list(covariates or ())
    if covariates is None:
        chosen = [name for name in numeric if name != target]
    require_names([*chosen, *([] if target is None else [target])], columns, file)
    if target is not None:
        _require_labels(columns[target], target, file)
    text = [name for name in chosen if name not in numeric]
    if text:
        msg = (
            f"The covariates {_few(text)} of {file} are not numbers; encode them first."
        )
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
    has = set(there)
    absent = [name for name in names if name not in has]
    if absent:
        msg = (
            f"{file} has no {_few(absent)}; it holds {_few(sorted(has))}. Name one of "
            "these."
        )
        raise ValueError(msg)


def _few(names: Sequence[str]) -> str:
    """Return names as a list, the first of them if there are many."""
    if len(names) <= LISTED:
        return str(list(names))
    return f"{list(names[:LISTED])} and {len(names) - LISTED} more"


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
    with (
        reading(f"{file} cannot be read as a table", "Save it as CSV in UTF-8."),
        file.open(newline="", encoding="utf-8-sig") as handle,
    ):
        rows = [row for row in csv.reader(handle, delimiter=delimiter) if row]
    if len(rows) < 2:
        msg = f"{file} has {len(rows)} lines; expected column names and at least a row."
        raise ValueError(msg)
    header = [name.strip() for name in rows[0]]
    if len(set(header)) < len(header):
        twice = sorted(name for name, count in Counter(header).items() if count > 1)
        msg = f"{file} has several columns {_few(twice)}; expected each name once."
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
    # Python refuses to read thousands of digits, even if they are zeros.
    return isfinite(number) and int(abs(number)) == int(cell.lstrip("+-0") or "0")
