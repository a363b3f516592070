"""Files of other programs: HDF5, MATLAB, netCDF, and recordings of MNE.

Apart from `files.py` because each needs a library of its own, and says more of its
arrays than that they are there.
"""

from __future__ import annotations

from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.arrays.resources import working_bytes
from sltr.datasets.reading import check_expansion, reading
from sltr.samples.labelled import LabelledArray, Labels, unlabelled
from sltr.samples.stored import check_chunks

_ADVICE = "Expected plain arrays; check the file, or save them as .npz."


def read_hdf5(file: Path, largest: int | None) -> Bunch:
    """Read all arrays of an HDF5 file; `dims` and `units` are those of X's axes.

    Samples of more than `largest` bytes stay in the file, which stays open.
    """
    h5py = _library("h5py", "HDF5 files", "h5py")
    with reading(f"{file} cannot be read as HDF5", _ADVICE):
        handle = h5py.File(file, "r")
        arrays = {n: a for n, a in handle.items() if isinstance(a, h5py.Dataset)}
        most = inf if largest is None else largest
        stays = "X" in arrays and working_bytes(arrays["X"]) > most
        read = [a for n, a in arrays.items() if not (stays and n == "X")]
    check_expansion(file, sum(map(_hdf5_bytes, read)))
    data = Bunch()
    for name, array in arrays.items():
        with reading(f"{file} cannot be read: the array {name!r}", _ADVICE):
            check_chunks(array)
            data[name] = array if stays and name == "X" else _hdf5_values(array)
    if "X" in arrays:
        data.dims, data.units = _scales(arrays["X"], data)
    if not stays:
        handle.close()
    return data


def _hdf5_bytes(array: Any) -> int:
    """Return the bytes that reading takes: a chunk is read as a whole."""
    return max(prod(array.shape), prod(array.chunks or ())) * array.dtype.itemsize


def _hdf5_values(array: Any) -> np.ndarray:
    values = np.asarray(array[()])
    if values.dtype.kind != "O":
        return values
    return np.array([v.decode() if isinstance(v, bytes) else str(v) for v in values])


def _scales(X: Any, data: Bunch) -> tuple[list[str], dict[str, str]]:
    """Return the names of all axes, and the units of their scales, which are read."""
    names, units = [], {}
    for axis in X.dims:
        scale = axis[0] if len(axis) else None
        own = "" if scale is None else scale.name.rpartition("/")[2]
        names.append(str(axis.label or own))
        if scale is not None and names[-1]:
            data.setdefault(names[-1], _hdf5_values(scale))
            unit = scale.attrs.get("units", "")
            units[names[-1]] = unit.decode() if isinstance(unit, bytes) else str(unit)
    return names, units


def read_matlab(file: Path) -> Bunch:
    """Read numbers and texts of a MATLAB file, of version 5 (SciPy) or 7.3 (HDF5)."""
    with file.open("rb") as stream:
        newer = stream.read(19)[:19].startswith(b"MATLAB 7.3")
    if newer or _is_hdf5(file):
        return _read_newer(file)
    from scipy.io import loadmat, whosmat

    with reading(f"{file} cannot be read as a MATLAB file", _ADVICE):
        sizes = [prod(shape) for _, shape, kind in whosmat(file) if kind != "unknown"]
    check_expansion(file, 8 * sum(sizes))
    with reading(f"{file} cannot be read as a MATLAB file", _ADVICE):
        found = loadmat(file, chars_as_strings=True)
    return Bunch(
        **{
            name: _matlab_texts(value)
            for name, value in found.items()
            if not name.startswith("__")
            and isinstance(value, np.ndarray)
            and value.dtype.names is None
        }
    )


def _matlab_texts(value: np.ndarray) -> np.ndarray:
    """Return a cell array of texts as an array of them; the rest as it is."""
    if value.dtype.kind != "O":
        return value
    return np.array([str(np.squeeze(cell)) for cell in value.ravel()])


def _is_hdf5(file: Path) -> bool:
    # MATLAB puts a header of 512 bytes before what HDF5 begins with.
    with file.open("rb") as stream:
        head = stream.read(520)
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def _read_newer(file: Path) -> Bunch:
    h5py = _library("h5py", "MATLAB files of version 7.3", "h5py")
    data = Bunch()
    with reading(f"{file} cannot be read as a MATLAB file", _ADVICE):
        handle = h5py.File(file, "r")
    with handle:
        arrays = {n: a for n, a in handle.items() if isinstance(a, h5py.Dataset)}
        check_expansion(file, sum(map(_hdf5_bytes, arrays.values())))
        for name, array in arrays.items():
            with reading(f"{file} cannot be read: the array {name!r}", _ADVICE):
                check_chunks(array)
                # MATLAB counts the first axis fastest, HDF5 the last.
                values = array[()].T
                kind = array.attrs.get("MATLAB_class", b"")
                if kind == b"char":
                    values = np.array(["".join(map(chr, values.ravel()))])
                elif kind == b"cell":
                    cells = [handle[cell][()].T.ravel() for cell in values.ravel()]
                    values = np.array(["".join(map(chr, cell)) for cell in cells])
                data[name] = values
    return data


def read_netcdf(file: Path) -> Bunch:
    """Read all variables of a netCDF file by xarray; X knows its dimensions."""
    xarray = _library("xarray", "netCDF files", "xarray")
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
    mne = _library("mne", "Epochs", "eeg")
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


def _library(name: str, what: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        pip = f"'sltr[{extra}]'" if extra == "eeg" else extra
        msg = f"{what} need {name}. Install it with: pip install {pip}"
        raise ImportError(msg) from error
