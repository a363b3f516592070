"""What samples know of themselves, and how it stays with them.

Modes have names, units and coordinates; voxels a mask and a place in space; samples
identifiers. `Labels` holds these, and `LabelledArray` is a NumPy array that carries
them into `fit`. It is our own and not xarray's, so that what readers return stays a
NumPy array, whatever is installed; xarray's arrays are understood as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sltr.arrays import detached, to_numpy
from sltr.parameters import printable, unmasked, warn_caller

# Coordinates as users give them: one array for each mode, or some of them by mode.
Coords = Sequence[Any] | Mapping[Any, Any]
# Fitted attributes that hold labels.
FITTED = ("names_", "units_", "coords_", "mask_", "space_", "ids_")
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of samples (n, p1, …, pM)."""

    names: tuple[str, ...]  # of the modes
    units: tuple[str, ...]  # empty where there is none
    coords: tuple[np.ndarray | None, ...]  # (p_m,), numbers or texts
    mask: np.ndarray | None = None  # (p1, …, pM), true where there are data
    space: Mapping[str, Any] | None = None  # the "kind" of things, and where they are
    ids: np.ndarray | None = None  # (n,)

    def at(self, key: Any, ndim: int) -> Labels | None:
        """Return the labels of X[key]; None if it is no longer samples with modes."""
        keys = _keys(key, ndim)
        if keys is None or not _is_part(keys[0]):
            return None
        modes = keys[1:]
        if not all(_is_part(k) or isinstance(k, int | np.integer) for k in modes):
            return None
        left = [m for m, k in enumerate(modes) if _is_part(k)]
        parts = [self.coords[m] for m in left]
        changed = any(not _is_all(k) for k in modes)
        return Labels(
            tuple(self.names[m] for m in left),
            tuple(self.units[m] for m in left),
            tuple(
                c if c is None else c[modes[m]]
                for m, c in zip(left, parts, strict=True)
            ),
            self.mask if self.mask is None or not changed else _cut(self.mask, modes),
            self._space_at(modes),
            None if self.ids is None else self.ids[keys[0]],
        )

    def _space_at(self, modes: Sequence[Any]) -> Mapping[str, Any] | None:
        """Return where things are that are left: of sensors those that are."""
        if self.space is None or all(map(_is_all, modes)):
            return self.space
        if self.space["kind"] != "sensors" or not _is_part(modes[0]):
            return None
        kept = {n: np.asarray(self.space[n])[modes[0]] for n in ("positions", "types")}
        return {**self.space, **kept}


def _keys(key: Any, ndim: int) -> tuple[Any, ...] | None:
    """Return an index for each axis; None for those that are not of single axes."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(k is None or np.ndim(k) > 1 for k in keys if k is not Ellipsis):
        return None
    dots = [place for place, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        return None
    place = dots[0] if dots else len(keys)
    before, after = keys[:place], keys[place + 1 :]
    keys = (*before, *[_ALL] * (ndim - len(before) - len(after)), *after)
    n_lists = sum(not isinstance(k, slice | int | np.integer) for k in keys)
    return keys if n_lists <= 1 else None


def _is_part(key: Any) -> bool:
    return isinstance(key, slice) or np.ndim(key) == 1


def _is_all(key: Any) -> bool:
    return isinstance(key, slice) and key == _ALL


def _cut(mask: np.ndarray, modes: Sequence[Any]) -> np.ndarray:
    return mask[tuple(modes)]


class LabelledArray(np.ndarray):
    """A NumPy array of samples that carries `labels`.

    Choosing samples, or slices of modes, chooses labels; arithmetic that keeps the
    shape keeps them. Whatever else is done returns an array without labels.
    """

    labels: Labels | None

    def __new__(cls, array: Any, labels: Labels) -> LabelledArray:
        """Return a view of an array, with labels."""
        found = np.asarray(array).view(cls)
        found.labels = labels
        return found

    def __array_finalize__(self, source: Any) -> None:
        self.labels = None

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(self)[key]
        labels = None if self.labels is None else self.labels.at(key, self.ndim)
        return found if labels is None else LabelledArray(found, labels)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any):
        """Compute with plain arrays; label what has the same shape."""
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        alike = getattr(result, "shape", None) == self.shape and method == "__call__"
        return _labelled_as(result, self) if alike else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any):
        result = super().__array_function__(function, types, args, kwargs)
        return _plain(result) if getattr(result, "labels", None) is None else result

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """Return the samples, with their labels, in another dtype."""
        return _labelled_as(np.asarray(self).astype(*args, **kwargs), self)

    def copy(self, order: Any = "C") -> Any:
        """Return a copy with the same labels."""
        return _labelled_as(np.asarray(self).copy(order), self)

    def __reduce__(self) -> Any:
        if self.labels is None:
            return np.asarray(self).__reduce__()
        return LabelledArray, (np.asarray(self), self.labels)


@dataclass(frozen=True, eq=False)
class LabelledStore:
    """Samples that stay in a file or on a cluster, and their `labels`.

    It is read by slices, as what it holds is.
    """

    source: Any
    labels: Labels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is stored, (n, p1, …, pM)."""
        return tuple(self.source.shape)

    @property
    def dtype(self) -> Any:
        """The type of what is stored."""
        return self.source.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(self.source[key])
        labels = self.labels.at(key, len(self.shape))
        return found if labels is None else LabelledArray(found, labels)


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, LabelledArray) else value


def _labelled_as(array: np.ndarray, like: LabelledArray) -> np.ndarray:
    return array if like.labels is None else LabelledArray(array, like.labels)


def label(
    X: Any,
    names: Sequence[str] | None = None,
    *,
    coords: Coords | None = None,
    units: Sequence[str | None] | Mapping[str, str] | None = None,
    mask: Any = None,
    ids: Any = None,
) -> Any:
    """Return samples that know the names, coordinates and units of their modes.

    A model fitted to them knows them too: figures, reports and exported files show
    them, and samples to predict for are checked against them.

    Parameters
    ----------
    X : array of shape (n, p1, …, pM)
    names : sequence of str, optional
        One for each mode.
    coords : arrays, one for each mode, or mapping from mode to array, optional
        Where the slices of a mode lie: times, wavelengths, the names of channels.
    units : sequence, or mapping from mode to str, optional
        The units of the coordinates.
    mask : bool array of shape (p1, …, pM), optional
        Where there are data.
    ids : sequence of str, optional
        What the n samples are called.

    Returns
    -------
    array of shape (n, p1, …, pM)
        A NumPy array with the attribute `labels`. Choosing samples, or slices of
        modes, chooses labels as well. Memmaps, zarr and HDF5 arrays are not read, and
        Dask arrays not computed: they come back in a case that models understand.

    Examples
    --------
    >>> import numpy as np
    >>> X = label(
    ...     np.zeros((10, 3, 50)),
    ...     ("channel", "time"),
    ...     coords={"channel": ["Fz", "Cz", "Pz"], "time": np.arange(50) / 100},
    ...     units={"time": "s"},
    ... )
    >>> X[:5, [2, 0]].labels.coords[0].tolist()
    ['Pz', 'Fz']
    """
    stays = isinstance(X, np.memmap) or _is_stored(X)
    values = X if stays else np.asarray(detached(unmasked(X, "X")))
    shape = tuple(values.shape[1:])
    labels = make_labels(shape, names, units, coords)
    if mask is not None:
        mask = np.asarray(unmasked(mask, "mask"), bool)
        if mask.shape != shape:
            msg = (
                f"A mask of shape {mask.shape} was given; expected {shape}, as samples."
            )
            raise ValueError(msg)
    if ids is not None:
        ids = _checked_ids(ids, values.shape[0])
    labels = replace(labels, mask=mask, ids=ids)
    return LabelledStore(X, labels) if stays else LabelledArray(values, labels)


def _checked_ids(ids: Any, n_samples: int) -> np.ndarray:
    texts = np.array([str(one) for one in unmasked(ids, "ids")])
    if texts.shape != (n_samples,) or len(set(texts.tolist())) < n_samples:
        msg = (
            f"{len(texts)} identifiers, {len(set(texts.tolist()))} of them different, "
            f"were given for {n_samples} samples; expected another one for each."
        )
        raise ValueError(msg)
    return texts


def make_labels(
    shape: Sequence[int],
    names: Sequence[str] | None = None,
    units: Any = None,
    coords: Coords | None = None,
) -> Labels:
    """Check what was said of the modes of a tensor, or make plain names."""
    order = len(shape)
    if isinstance(units, Mapping):
        unknown = set(units) - set(names or ())
        if unknown:
            known = list(names or ())
            msg = f"units of {sorted(unknown)} were given; expected of {known}."
            raise ValueError(msg)
        units = [units.get(name) for name in names or ()]
    for given, what in ((names, "mode_names"), (units, "units")):
        if given is not None and (isinstance(given, str) or len(given) != order):
            msg = f"{what}={given!r} was given; expected one for each of {order} modes."
            raise ValueError(msg)
    called = tuple(map(str, names or [f"mode {m}" for m in range(order)]))
    measured = tuple(
        "" if unit is None else str(unit) for unit in units or [""] * order
    )
    return Labels(called, measured, _checked_coords(coords, shape, called))


def mode_number(mode: int | str, names: Sequence[str]) -> int:
    """Return the number of a mode given by number or name."""
    order = len(names)
    if isinstance(mode, str) and mode in names:
        return names.index(mode)
    if not isinstance(mode, str) and -order <= int(mode) < order:
        return int(mode) % order
    msg = f"mode {mode!r} was given; expected one of {', '.join(names)}, or a number "
    raise ValueError(msg + f"below {order}.")


def _checked_coords(
    coords: Coords | None, shape: Sequence[int], names: Sequence[str]
) -> tuple[np.ndarray | None, ...]:
    order = len(shape)
    if coords is None:
        return (None,) * order
    if not isinstance(coords, Mapping):
        sized = hasattr(coords, "__len__") and not isinstance(coords, str)
        if not sized or len(coords) != order:
            msg = (
                f"coords={coords!r} was given; expected an array or None for each "
                f"of {order} modes, or a mapping from modes to arrays."
            )
            raise ValueError(msg)
        coords = dict(enumerate(coords))
    checked: list[np.ndarray | None] = [None] * order
    for mode, given in coords.items():
        if given is None:
            continue
        number = mode_number(mode, names)
        given = unmasked(given, "coords")
        values = np.asarray(to_numpy(given) if hasattr(given, "shape") else given)
        if values.shape != (shape[number],):
            msg = (
                f"coords of {names[number]} of shape {values.shape} were "
                f"given; expected one for each of its {shape[number]} slices."
            )
            raise ValueError(msg)
        checked[number] = values
    return tuple(checked)


def unlabelled(X: Any) -> tuple[Any, Labels | None]:
    """Return samples as an array of their library, and the labels they have."""
    if isinstance(X, LabelledArray):
        return np.asarray(X), X.labels
    if isinstance(X, LabelledStore):
        return X.source, X.labels
    library = type(X).__module__.split(".")[0]
    if library == "xarray" and hasattr(X, "dims"):
        return _from_xarray(X)
    if library == "zarr" and len(getattr(X, "shape", ())) > 1:
        return X, _from_zarr(X)
    if library == "h5py" and len(getattr(X, "shape", ())) > 1:
        return X, _from_hdf5(X)
    return X, None


def _is_stored(X: Any) -> bool:
    return type(X).__module__.split(".")[0] in ("zarr", "h5py", "dask")


def _from_zarr(X: Any) -> Labels | None:
    """Return the names of a zarr array's dimensions, if each has one."""
    names = getattr(X.metadata, "dimension_names", None) or (None,)
    return make_labels(X.shape[1:], names[1:]) if all(names) else None


def _from_hdf5(X: Any) -> Labels | None:
    """Return what an HDF5 dataset's dimensions are called, and their scales."""
    names, modes = [mode.label for mode in X.dims][1:], list(X.dims)[1:]
    if not all(names):
        return None
    coords = {
        m: _as_coords(_texts(mode[0][...])) for m, mode in enumerate(modes) if len(mode)
    }
    return make_labels(X.shape[1:], names, coords=coords)


def _texts(values: np.ndarray) -> np.ndarray:
    """Return what HDF5 keeps as bytes as texts."""
    if values.dtype.kind not in "SO":
        return values
    return np.array([v.decode() if isinstance(v, bytes) else str(v) for v in values])


class _Unread:
    """A DataArray of xarray that is still in its file, as something to slice."""

    def __init__(self, variable: Any):
        self.variable, self.shape = variable, tuple(variable.shape)
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.variable[key].values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.variable.values, dtype=dtype)


def _from_xarray(X: Any) -> tuple[Any, Labels | None]:
    if not hasattr(X, "data_vars"):
        names = tuple(map(str, X.dims[1:]))
        own = [X.coords.get(d) for d in X.dims]
        values = [None if c is None else _as_coords(c.values) for c in own]
        units = tuple(
            "" if c is None else str(c.attrs.get("units", "")) for c in own[1:]
        )
        units = tuple(
            "s" if c is not None and c.dtype.kind == "m" else unit
            for unit, c in zip(units, own[1:], strict=True)
        )
        ids = None if own[0] is None else np.array([str(one) for one in own[0].values])
        # What xarray has opened but not read would be read whole by `data`.
        unread = X.chunks is None and not getattr(X.variable, "_in_memory", True)
        data = _Unread(X.variable) if unread else X.data
        return data, Labels(names, units, tuple(values[1:]), ids=ids)
    msg = (
        f"A Dataset of {', '.join(map(str, X.data_vars))} was given; expected a "
        "DataArray of samples. Choose one of its variables."
    )
    raise TypeError(msg)


def _as_coords(values: np.ndarray) -> np.ndarray:
    """Return coordinates as numbers or texts; durations are seconds."""
    if values.dtype.kind == "m":
        return values / np.timedelta64(1, "s")
    return values if values.dtype.kind in "iufU" else values.astype(str)


def remember_labels(estimator: Any, labels: Labels | None, n_modes: int) -> None:
    """Set the fitted attributes of labels, and forget those of an earlier fit."""
    for name in FITTED:
        estimator.__dict__.pop(name, None)
    if labels is None or len(labels.names) != n_modes:
        return
    estimator.names_, estimator.units_ = labels.names, labels.units
    estimator.coords_ = labels.coords
    for name in ("mask", "space", "ids"):
        if getattr(labels, name) is not None:
            setattr(estimator, f"{name}_", getattr(labels, name))


def labels_of(model: Any) -> Labels | None:
    """Return the labels that a fitted model remembers."""
    if not hasattr(model, "names_"):
        return None
    return Labels(
        model.names_,
        model.units_,
        model.coords_,
        *(getattr(model, f"{name}_", None) for name in ("mask", "space", "ids")),
    )


def aligned(model: Any, X: Any, labels: Labels | None) -> Any:
    """Return samples in the order of modes and names that a model was fitted on.

    What is only in another order is put in order, and a warning says so; what is not
    there, or lies elsewhere, is an error.
    """
    fitted = labels_of(model)
    if fitted is None or labels is None or len(labels.names) != len(fitted.names):
        return X
    if labels.names != fitted.names and set(labels.names) == set(fitted.names):
        order = [labels.names.index(name) for name in fitted.names]
        X = np.transpose(X, [0, *(1 + m for m in order)])
        _say_order("modes", labels.names, fitted.names)
        labels = replace(
            labels,
            names=fitted.names,
            coords=tuple(labels.coords[m] for m in order),
            mask=None if labels.mask is None else np.transpose(labels.mask, order),
        )
    _check_space(labels, fitted, np.shape(X)[1:] == tuple(model.shape_in_))
    for mode, name in enumerate(fitted.names):
        X = _align_mode(X, mode, name, labels.coords[mode], fitted.coords[mode])
    return X


def _align_mode(
    X: Any, mode: int, name: str, given: np.ndarray | None, fitted: np.ndarray | None
) -> Any:
    if given is None or fitted is None:
        return X
    if fitted.dtype.kind not in "iuf" or given.dtype.kind not in "iuf":
        there, wanted = given.astype(str).tolist(), fitted.astype(str).tolist()
        absent = [one for one in wanted if one not in set(there)]
        if absent:
            msg = (
                f"X has no {name} {', '.join(absent[:10])}; the model was fitted with "
                f"{len(wanted)} of them. Give these too, or fit again without."
            )
            raise ValueError(printable(msg))
        if there != wanted:
            _say_order(name, there, wanted)
            rows = np.array([there.index(one) for one in wanted])
            return X[(slice(None),) * (mode + 1) + (rows,)]
        return X
    size = float(np.max(np.abs(fitted), initial=0.0)) or 1.0
    if len(given) == len(fitted) and np.allclose(
        given, fitted, rtol=0, atol=1e-4 * size
    ):
        return X
    msg = (
        f"The {name} of X is {_span(given)}; the model was fitted on {_span(fitted)}. "
        "Cut or resample X to the same."
    )
    raise ValueError(printable(msg))


def _span(values: np.ndarray) -> str:
    if not len(values):
        return "empty"
    return f"{values[0]:.6g} to {values[-1]:.6g} in {len(values)} steps"


def _say_order(what: str, given: Sequence[str], fitted: Sequence[str]) -> None:
    def some(names: Sequence[str]) -> str:
        return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")

    others = ", and others left out" if len(given) > len(fitted) else ""
    warn_caller(
        f"X has the {what} {some(given)}; the model was fitted on {some(fitted)}. They "
        f"are put in the order of the model{others}.",
        UserWarning,
    )


def _check_space(labels: Labels, fitted: Labels, alike: bool) -> None:
    """Refuse images that lie elsewhere, or lack voxels that the model uses."""
    given, known = labels.space, fitted.space
    if given is None or known is None or known["kind"] != "voxels":
        return
    for what in ("affine", "corner"):
        if given["kind"] != "voxels" or not np.allclose(
            given[what], known[what], rtol=1e-4, atol=1e-4
        ):
            msg = (
                f"The images have the {what}\n{given.get(what)}\nthe model was fitted "
                f"on\n{known[what]}\nResample them to the same space, and read them by "
                "load_nifti with mask=model."
            )
            raise ValueError(msg)
    if alike and labels.mask is not None and fitted.mask is not None:
        n_lost = int(np.sum(fitted.mask & ~labels.mask))
        if n_lost:
            msg = (
                f"The mask of the images leaves out {n_lost} voxels that the model "
                "uses. Read them by load_nifti with mask=model."
            )
            raise ValueError(msg)
