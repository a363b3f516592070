"""Samples from whatever the user has: files of arrays, images, or films."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.files import (
    AnyPath,
    existing_file,
    load_csv,
    load_data,
    read_responses,
    require_names,
)
from sltr.datasets.nifti import load_nifti
from sltr.datasets.video import load_video_folder
from sltr.samples.check import check_plain


def load_samples(
    paths: Sequence[AnyPath],
    *,
    y: AnyPath | None = None,
    target: str | None = "y",
    groups: str | None = None,
    covariates: Sequence[str] = (),
    mask: AnyPath | None = None,
    largest: int | None = None,
) -> Bunch:
    """Read samples, responses, groups and covariates, as the files given allow.

    Parameters
    ----------
    paths : sequence of paths
        One file of `load_data`; several NIfTI images, one sample each or more; or
        a folder with one sub-folder of films for each class, ordered by name.
    y : path, optional
        A ``.npy`` file or ``.csv`` table of responses, one row for each sample; for
        films in place of the names of their folders.
    target : str or None
        The name of the responses in the file or table; None: there need not be any.
    groups : str, optional
        The column (or array) that says which samples belong together and must not
        be split.
    covariates : sequence of str
        Columns (or arrays) of numbers.
    mask : path, optional
        Voxels to keep, for NIfTI images alone.
    largest : int, optional
        As for `load_data`: more bytes of samples than this stay in their file.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,), `groups` (n,) and `covariates` (n, q), None
        where there are none; `coef`, if the file holds the true one.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "data.npz"
    ...     np.savez(file, X=np.zeros((5, 4, 3)), y=np.arange(5.0))
    ...     data = load_samples([file])
    >>> data.X.shape, data.groups is None
    ((5, 4, 3), True)
    """
    files = _existing_files(paths)
    source = files[0] if y is None else existing_file(y)
    data = _read(files, y, target, mask, largest)
    columns = _columns(data, y, target)
    names = [*covariates, *([] if groups is None else [groups])]
    require_names(names, columns, source)
    together = data.get("groups") if groups is None else columns[groups]
    others = [(name, columns[name]) for name in covariates]
    rows = [("y", data["y"]), ("groups", together), *others]
    _check_lengths(rows, data["X"].shape[0], source)
    return Bunch(
        X=data["X"],
        y=_one_axis(data["y"]),
        groups=together,
        covariates=_as_numbers(columns, covariates, source),
        coef=data.get("coef"),
    )


def _one_axis(values: Any) -> Any:
    """Return responses that were stored as a column, (n, 1), as the vector they are."""
    column = values is not None and np.shape(values)[1:] == (1,)
    return np.reshape(values, (-1,)) if column else values


def _existing_files(paths: Sequence[AnyPath]) -> list[Path]:
    # A text is a sequence too: of letters.
    alone = isinstance(paths, str | PathLike)
    files = [] if alone else [existing_file(path) for path in paths]
    if not files:
        msg = f"paths={paths!r} was given; expected a list of one path or more."
        raise ValueError(msg)
    return files


def _read(
    files: list[Path], y: Any, target: str | None, mask: Any, largest: int | None
) -> Bunch:
    # A table may be there for its other columns.
    y = None if target is None else y
    images = all(file.name.endswith((".nii", ".nii.gz")) for file in files)
    if mask is not None and not images:
        msg = (
            f"mask={str(mask)!r} was given with {files[0]}; expected NIfTI images "
            "alone, the others have no voxels. Leave the mask out."
        )
        raise ValueError(msg)
    if images:
        responses = None if y is None else read_responses(y, target)
        data = Bunch(**load_nifti(files, mask=mask), y=responses)
    elif len(files) > 1:
        msg = (
            f"{len(files)} files were given, the first is {files[0]}; expected one "
            "file of arrays, NIfTI images, or one folder of films."
        )
        raise ValueError(msg)
    elif files[0].is_dir() and files[0].suffix != ".zarr":
        data = _read_films(files[0], y, target)
    else:
        data = load_data(files[0], y, target=target, largest=largest)
    if target is not None and data.y is None:
        msg = (
            f"{files[0]} holds samples alone; expected responses as well. Name a .npy "
            "file or a .csv table of them as y."
        )
        raise ValueError(msg)
    return data


def _read_films(folder: Path, y: Any, target: str | None) -> Bunch:
    """Return films, with the names of their folders as labels unless y is given."""
    if y is None and target not in (None, "y"):
        msg = (
            f"target={target!r} was given with {folder}, where the sub-folders name "
            "the labels; expected a table as y to find it in. Name one, or leave the "
            "target out."
        )
        raise ValueError(msg)
    responses = None if y is None else read_responses(y, target)
    films = load_video_folder(folder)
    labels = films.target_names[films.target] if responses is None else responses
    return Bunch(X=films.X, y=labels, groups=films.groups)


def _columns(data: Bunch, y: Any, target: str | None) -> dict[str, np.ndarray]:
    """Return all that can be named: arrays beside X, and columns of the table."""
    # Under another target, data.y is that and no array or column called y.
    unnamed = ("X",) if target in (None, "y") else ("X", "y")
    arrays = {
        name: item
        for name, item in data.items()
        if name not in unnamed and item is not None
    }
    if y is not None and Path(y).suffix == ".csv":
        arrays |= load_csv(y, target=None).columns
    return arrays


def _as_numbers(
    columns: dict[str, np.ndarray], names: Sequence[str], source: Path
) -> np.ndarray | None:
    try:
        plain = [check_plain(columns[name], name) for name in names]
        values = [np.asarray(column, float) for column in plain]
    except (TypeError, ValueError) as error:
        msg = f"The covariates {list(names)} of {source} are not all numbers: {error}."
        raise ValueError(msg) from error
    return np.column_stack(values) if values else None


def _check_lengths(rows: list[tuple[str, Any]], n_samples: int, source: Path) -> None:
    for name, values in rows:
        if values is not None and np.shape(values)[:1] != (n_samples,):
            msg = (
                f"There are {n_samples} samples, and {name!r} with {source} has shape "
                f"{np.shape(values)}; expected one for each sample. Check both."
            )
            raise ValueError(msg)
