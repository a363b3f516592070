"""Files of other programs: HDF5, MATLAB, netCDF, and recordings of MNE.

Apart from `files.py` because each needs a library of its own, and says more of its
arrays than that they are there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.arrays.resources import working_bytes
from sltr.datasets.reading import (
    check_expansion,
    check_regular,
    expansion_limit,
    reading,
    text_bytes,
)
from sltr.parameters import import_optional
from sltr.samples.labelled import LabelledArray, Labels, unlabelled
from sltr.samples.stored import check_chunks

# What MATLAB has beside arrays: SciPy need not follow it.
_NO_ARRAYS = ("struct", "object", "function", "opaque", "sparse", "unknown")
# MATLAB's version 5: elements that are arrays or compressed; classes of arrays.
_MATRIX, _COMPRESSED, _CELL, _PLAIN = 14, 15, 1, {4, *range(6, 16)}
_ADVICE = "Expected plain arrays; check the file, or save them as .npz."


def read_hdf5(file: Path, largest: int | None) -> Bunch:
    """Read all arrays of an HDF5 file; `dims` and `units` are those of X's axes.

    Samples of more than `largest` bytes stay in the file, which stays open.
    """
    h5py = import_optional("h5py", "HDF5 files need h5py", "h5py")
    with reading(f"{file} cannot be read as HDF5", _ADVICE):
        handle = h5py.File(file, "r")
        arrays = _hdf5_arrays(handle)
        most = inf if largest is None else largest
        stays = "X" in arrays and working_bytes(arrays["X"]) > most
        dims, units, scales = _scales(arrays["X"]) if "X" in arrays else ([], {}, {})
        arrays = {**scales, **arrays}
        read = [a for n, a in arrays.items() if not (stays and n == "X")]
    check_expansion(file, sum(map(_hdf5_bytes, read)))
    data = Bunch()
    for name, array in arrays.items():
        with reading(f"{file} cannot be read: the array {name!r}", _ADVICE):
            check_chunks(array)
            kept = stays and name == "X"
            data[name] = array if kept else _hdf5_values(array, file, data)
    if "X" in arrays:
        data.dims, data.units = dims, units
    if not stays:
        handle.close()
    return data


def _hdf5_bytes(array: Any) -> int:
    """Return the bytes that reading takes: a chunk is read as a whole."""
    return max(prod(array.shape), prod(array.chunks or ())) * array.dtype.itemsize


def _hdf5_arrays(handle: Any) -> dict[str, Any]:
    """Return the arrays of a file that hold something."""
    import h5py

    for name in handle:
        link = handle.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):  # HDF5 would wait for a pipe
            check_regular(Path(handle.filename).parent / link.filename)
            check_regular(link.filename)
    kinds = {n: a for n, a in handle.items() if isinstance(a, h5py.Dataset)}
    return {n: a for n, a in kinds.items() if a.shape is not None}


def _hdf5_values(array: Any, file: Path, beside: Bunch) -> np.ndarray:
    if array.dtype.kind != "O":
        return np.asarray(array[()])
    texts, n_bytes, limit = [], 0, expansion_limit(file)
    for value in _each_text(array, limit // file.stat().st_size):
        texts.append(value.decode() if isinstance(value, bytes) else str(value))
        n_bytes += len(texts[-1])
        if n_bytes > limit:
            check_expansion(file, n_bytes)
    return _texts(texts, file, beside).reshape(array.shape)


def _each_text(array: Any, most: int) -> Iterator[Any]:
    """Yield texts, so many at a time: all may be one, as long as the file."""
    if not array.shape:
        yield array[()]
        return
    *rows, length = array.shape
    for row in np.ndindex(*rows):
        for start in range(0, length, max(1, most)):
            yield from array[(*row, slice(start, start + max(1, most)))]


def _texts(texts: list[str], file: Path, beside: Bunch) -> np.ndarray:
    """Return texts as an array, within the limit for all that the file holds."""
    arrays = (a for a in beside.values() if isinstance(a, np.ndarray))
    check_expansion(file, text_bytes(texts) + sum(a.nbytes for a in arrays))
    return np.array(texts)


def _scales(X: Any) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Return the names of all axes, the units of their scales, and the scales."""
    names, units, scales = [], {}, {}
    for axis in X.dims:
        scale = axis[0] if len(axis) else None
        own = "" if scale is None else scale.name.rpartition("/")[2]
        names.append(str(axis.label or own))
        if scale is not None and names[-1]:
            scales[names[-1]] = scale
            unit = scale.attrs.get("units", "")
            units[names[-1]] = unit.decode() if isinstance(unit, bytes) else str(unit)
    return names, units, scales


def read_matlab(file: Path) -> Bunch:
    """Read numbers and texts of a MATLAB file, of version 5 (SciPy) or 7.3 (HDF5)."""
    with file.open("rb") as stream:
        newer = stream.read(19)[:19].startswith(b"MATLAB 7.3")
    if newer or _is_hdf5(file):
        return _read_newer(file)
    from scipy.io import loadmat, whosmat

    with reading(f"{file} cannot be read as a MATLAB file", _ADVICE):
        listed = [each for each in whosmat(file) if each[2] not in _NO_ARRAYS]
        cells = any(kind == "cell" for _, _, kind in listed)
    check_expansion(file, 8 * sum(prod(shape) for _, shape, _ in listed))
    with reading(f"{file} cannot be read as a MATLAB file", _ADVICE):
        if cells:
            _check_cells(file)
        names = [name for name, _, _ in listed]
        found = loadmat(file, chars_as_strings=True, variable_names=names)
    data = Bunch()
    for name, value in found.items():
        if name in names and isinstance(value, np.ndarray):
            data[name] = _matlab_texts(value, file, data)
    return data


def _matlab_texts(value: np.ndarray, file: Path, beside: Bunch) -> np.ndarray:
    """Return a cell array of texts as an array of them; the rest as it is."""
    if value.dtype.kind != "O":
        return value
    return _texts([str(np.squeeze(cell)) for cell in value.ravel()], file, beside)


def _check_cells(file: Path) -> None:
    """Refuse cells that hold other cells, or more than the file may take.

    SciPy follows cells within cells until the process ends, and learns how large one
    is when it is there.
    """
    limit, taken = expansion_limit(file), 0
    with file.open("rb") as stream:
        order = "<" if stream.read(128)[126:] == b"IM" else ">"
        while len(tag := stream.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            content = stream.read(min(size, file.stat().st_size))
            if kind == _COMPRESSED:
                inflate = zlib.decompressobj()
                content = inflate.decompress(content, 64)[8:]
                if _class_of(content, order)[0] == _CELL:
                    content += inflate.decompress(inflate.unconsumed_tail, limit // 8)
            if _class_of(content, order)[0] == _CELL:
                # A number may be stored in one byte, and takes eight.
                taken += 8 * len(content)
                check_expansion(file, taken)
                _, _, _, *cells = _elements(content, order)
                if not all(_is_plain(*cell, order) for cell in cells):
                    raise ValueError("its cells hold other things than texts, numbers")


def _is_plain(kind: int, content: bytes, order: str) -> bool:
    """Say whether this is an array of numbers or a text, and nothing is after it."""
    if not content:
        return True
    number, two = _class_of(content, order)
    n_parts = len(list(_elements(content, order)))
    return kind == _MATRIX and number in _PLAIN and n_parts == 4 + two


def _class_of(content: bytes, order: str) -> tuple[int, bool]:
    """Return the class of a MATLAB array, and whether its numbers are complex."""
    flags = struct.unpack_from(f"{order}I", content.ljust(12), 8)[0]
    return flags & 0xFF, bool(flags & 0x800)


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield what an array of MATLAB's version 5 consists of: kinds and contents."""
    at = 0
    while at < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        small = kind >> 16  # up to four bytes, in the tag itself
        start, size = (at + 4, small) if small else (at + 8, size)
        if size > (4 if small else len(content) - start):
            raise ValueError("its elements are cut short")
        yield kind & 0xFFFF, content[start : start + size]
        at = at + 8 if small else start + size + -size % 8


def _is_hdf5(file: Path) -> bool:
    # MATLAB puts a header of 512 bytes before what HDF5 begins with.
    with file.open("rb") as stream:
        head = stream.read(520)
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def _read_newer(file: Path) -> Bunch:
    h5py = import_optional("h5py", "MATLAB files of version 7.3 need h5py", "h5py")
    data = Bunch()
    with reading(f"{file} cannot be read as a MATLAB file", _ADVICE):
        handle = h5py.File(file, "r")
    with handle:
        arrays = _hdf5_arrays(handle)
        check_expansion(file, sum(map(_hdf5_bytes, arrays.values())))
        for name, array in arrays.items():
            with reading(f"{file} cannot be read: the array {name!r}", _ADVICE):
                check_chunks(array)
                _refuse_texts(array)
                # MATLAB counts the first axis fastest, HDF5 the last.
                values = array[()].T
                kind = array.attrs.get("MATLAB_class", b"")
                if kind == b"char":
                    values = np.array([_characters(values)])
                elif kind == b"cell":
                    cells = [handle[cell] for cell in values.ravel()]
                    check_expansion(file, sum(map(_hdf5_bytes, cells)))
                    for cell in cells:
                        _refuse_texts(cell)
                    texts = [_characters(cell[()].T) for cell in cells]
                    values = _texts(texts, file, data)
                data[name] = values
    return data


def _refuse_texts(array: Any) -> None:
    """Refuse what MATLAB does not write: texts as HDF5 has them, of any length."""
    import h5py

    if array.dtype.kind == "O" and h5py.check_ref_dtype(array.dtype) is None:
        raise ValueError("it holds texts that are not MATLAB's")


def _characters(codes: np.ndarray) -> str:
    """Return the text of MATLAB's codes, which are those of UTF-16."""
    if codes.dtype.kind != "u":
        raise ValueError("its texts are no texts")
    return codes.ravel().astype("<u2").tobytes().decode("utf-16-le", "replace")


def read_netcdf(file: Path) -> Bunch:
    """Read all variables of a netCDF file by xarray; X knows its dimensions."""
    xarray = import_optional("xarray", "netCDF files need xarray", "xarray")
    with (
        reading(f"{file} cannot be read as netCDF", _ADVICE),
        xarray.open_dataset(file) as dataset,
    ):
        check_expansion(file, int(dataset.nbytes))
        data = Bunch(**{str(n): np.asarray(v.values) for n, v in dataset.items()})
        if "X" in dataset:
            values, labels = unlabelled(dataset["X"].load())
            if labels is not None:
                data.X, data.ids = LabelledArray(values, labels), labels.ids
    return data


def load_epochs(epochs: Any, *, picks: Any = None, decim: int = 1) -> Bunch:
    """Read epochs of MNE as samples, channel × time.

    Parameters
    ----------
    epochs : mne.Epochs, or path
        Epochs, or a file of them (``-epo.fif``).
    picks : str or list, optional
        Channels, as in MNE. Default: those with data that are not marked as bad.
    decim : int
        Every how many times are kept; filter before, as MNE asks.

    Returns
    -------
    Bunch
        `X` (n, channels, times), which knows the names and positions of its channels
        and its times in seconds; `y` (n,), the name of each event; `events`, the
        names' codes; `ids` (n,).

    Examples
    --------
    >>> import mne, numpy as np
    >>> info = mne.create_info(["Fz", "Cz"], 100.0, "eeg")
    >>> epochs = mne.EpochsArray(np.zeros((4, 2, 50)), info, verbose="error")
    >>> data = load_epochs(epochs)
    >>> data.X.shape, data.X.labels.names, data.y.tolist()
    ((4, 2, 50), ('channel', 'time'), ['1', '1', '1', '1'])
    """
    mne = import_optional("mne", "Epochs need mne", "'sltr[eeg]'")
    if isinstance(epochs, str | Path):
        with reading(f"{epochs} cannot be read as epochs", "Expected a -epo.fif file."):
            epochs = mne.read_epochs(epochs, verbose="error")
    chosen = epochs.copy().pick("data" if picks is None else picks, exclude="bads")
    X = chosen.get_data(copy=True)[:, :, ::decim]
    info, times = chosen.info, np.asarray(chosen.times)[::decim]
    codes = {code: name for name, code in chosen.event_id.items()}
    ids = np.array([f"epoch {k}" for k in chosen.selection])
    space = {
        "kind": "sensors",
        "positions": np.array([channel["loc"][:3] for channel in info["chs"]]),
        "types": np.array(chosen.get_channel_types()),
    }
    labels = Labels(
        ("channel", "time"),
        ("", "s"),
        (np.array(chosen.ch_names), times),
        space=space,
    )
    events = np.asarray(chosen.events)[:, 2]
    return Bunch(
        X=LabelledArray(X, labels),
        y=np.array([codes[code] for code in events.tolist()]),
        events=events,
        ids=ids,
    )
