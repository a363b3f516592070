"""Coefficients as files that other programs read: images, netCDF, tables."""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.coefficients import coef_array, target_labels
from sltr.datasets.nifti import coef_img
from sltr.persistence.files import check_destination, write_atomically
from sltr.persistence.values import harmless
from sltr.samples.labelled import Labels, labels_of, make_labels

SUFFIXES = (".nii.gz", ".nii", ".nc", ".csv")


def export(model: Any, path: str | os.PathLike) -> Path:
    """Write the coefficient of a fitted model as a file that other programs read.

    Parameters
    ----------
    model : fitted model
        Fitted to samples that know their modes (those of a reader, of
        `sltr.datasets.label` or of xarray), so that the file knows them too.
    path : path-like
        Ends in ``.nii`` or ``.nii.gz``: an image in the space of the samples, one
        volume for each class or response if there are several; ``.nc``: netCDF, with
        names, coordinates and units, as xarray opens it; ``.csv``: a table with a row
        for each entry inside the mask, where words that a spreadsheet would take for
        a formula get an apostrophe. An existing file is replaced.

    Returns
    -------
    pathlib.Path
        Where the file is.

    See Also
    --------
    save : write the whole model.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from sltr import SLTRRegressor
    >>> from sltr.datasets import label
    >>> X = np.random.default_rng(0).normal(size=(20, 2, 3))
    >>> X = label(X, ("sensor", "time"), coords={"sensor": ["a", "b"]})
    >>> model = SLTRRegressor().fit(X, np.asarray(X)[:, 0, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = export(model, f"{folder}/coef.csv").read_text(encoding="utf-8")
    >>> text.splitlines()[0], len(text.splitlines())
    ('sensor,time,coefficient', 7)
    """
    file = Path(path)
    suffix = next((end for end in SUFFIXES if file.name.endswith(end)), None)
    if suffix is None:
        msg = f"{file} was given; expected a name that ends in one of {list(SUFFIXES)}."
        raise ValueError(msg)
    check_destination(file)
    coefs, targets = _coefficients(model)
    if suffix in (".nii", ".nii.gz"):
        content = coef_img(model).to_bytes()
        content = gzip.compress(content, mtime=0) if suffix == ".nii.gz" else content
    else:
        labels = labels_of(model)
        if labels is None or len(labels.names) != coefs.ndim - 1:
            mask = getattr(model, "mask_", None)
            labels = replace(make_labels(coefs.shape[1:]), mask=mask)
        write = _netcdf if suffix == ".nc" else _table
        content = write(coefs, targets, labels, model)
    return write_atomically(file, content)


def _coefficients(model: Any) -> tuple[np.ndarray, list[str]]:
    """Return coefficients (K, p1, …, pM) and what they are of; [] if there is one."""
    targets = target_labels(model)
    coefs = [coef_array(model, target) for target in targets or [None]]
    return np.stack(coefs), list(map(str, targets))


def _table(coefs: np.ndarray, targets: list[str], labels: Labels, model: Any) -> bytes:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    values = [f"coefficient of {target}" for target in targets] or ["coefficient"]
    table.writerow(map(harmless, [*labels.names, *values]))
    shape = coefs.shape[1:]
    inside = np.ones(shape, bool) if labels.mask is None else labels.mask
    places = np.nonzero(inside)
    columns = [
        place if coords is None else coords[place]
        for place, coords in zip(places, labels.coords, strict=True)
    ]
    entries = [coef[inside] + 0.0 for coef in coefs]  # −0 becomes 0
    cells = [map(harmless, column.tolist()) for column in [*columns, *entries]]
    table.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


def _netcdf(coefs: np.ndarray, targets: list[str], labels: Labels, model: Any) -> bytes:
    from scipy.io import netcdf_file

    content = BytesIO()
    file = netcdf_file(content, "w")
    what = "class" if hasattr(model, "classes_") else "response"
    names = _netcdf_names(labels.names, {"coef", "mask", "intercept", what})
    for name, size in zip(names, coefs.shape[1:], strict=True):
        file.createDimension(name, size)
    for name, unit, coords in zip(names, labels.units, labels.coords, strict=True):
        if coords is not None:
            _write_coords(file, name, coords, unit)
    dims = tuple(names)
    if targets:
        file.createDimension(what, len(targets))
        _write_coords(file, what, np.array(targets), "")
        dims = (what, *dims)
    variable = file.createVariable("coef", "d", dims)
    variable[:] = coefs if targets else coefs[0]
    if labels.mask is not None:
        file.createVariable("mask", "b", tuple(names))[:] = labels.mask
    intercept = np.asarray(
        to_numpy(np.asarray(getattr(model, "intercept_", 0.0))), float
    )
    intercept = intercept.reshape(-1) if targets else intercept
    file.createVariable("intercept", "d", dims[:1] if targets else ())[...] = intercept
    file.model = type(model).__name__
    file.flush()
    return content.getvalue()


def _netcdf_names(names: Sequence[str], taken: set[str]) -> list[str]:
    """Return names as netCDF takes them, no two alike.

    Examples
    --------
    >>> _netcdf_names(["time/s", "a b", "coef", "a_b"], {"coef"})
    ['time_s', 'a_b', 'coef_', 'a_b_']
    """
    found: list[str] = []
    for name in names:
        clean = re.sub(r"[^\w.+@-]", "_", name) or "_"
        clean = clean if re.match(r"\w", clean) else f"_{clean}"
        while clean in taken or clean in found:
            clean += "_"
        found.append(clean)
    return found


def _write_coords(file: Any, name: str, values: np.ndarray, unit: str) -> None:
    """Write coordinates as a variable of their dimension; texts letter by letter."""
    if values.dtype.kind in "iuf":
        variable = file.createVariable(name, "d", (name,))
        variable[:] = values
    else:
        texts = np.char.encode(values.astype(str), "utf-8")
        size = max(1, texts.dtype.itemsize)
        letters = f"{name}_letters"
        file.createDimension(letters, size)
        variable = file.createVariable(name, "c", (name, letters))
        variable[:] = texts.astype(f"S{size}").view("S1").reshape(len(texts), size)
        variable._Encoding = "utf-8"
    if unit:
        variable.units = unit
