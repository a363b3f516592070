"""Samples from whatever the user has: files of arrays, images, or films."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.files import Beside, load_data, names_of, read_beside
from sltr.datasets.nifti import images_in, is_image, load_nifti
from sltr.datasets.reading import AnyPath, existing_file, few, require_names
from sltr.datasets.video import load_video_folder
from sltr.samples.check import check_plain


def load_samples(
    paths: Sequence[AnyPath],
    *,
    y: AnyPath | None = None,
    target: str | Sequence[str] | None = "y",
    groups: str | None = None,
    covariates: Sequence[str] = (),
    mask: Any = None,
    largest: int | None = None,
) -> Bunch:
    """Read samples, responses, groups and covariates, as the files given allow.

    Parameters
    ----------
    paths : sequence of paths
        One file of `load_data`; several NIfTI images, one sample each or more; a
        folder of images, at any depth (BIDS: without ``derivatives`` and masks); or a
        folder with one sub-folder of films for each class, ordered by name.
    y : path, optional
        A ``.npy`` file or ``.csv`` or ``.tsv`` table of responses; for films in place
        of the names of their folders. The rows of a table are matched to samples by
        the column that holds the names of their files, with or without folder and
        suffix, or their BIDS participants; by position only where there is none.
        Default for a folder of images: its ``participants.tsv``, if there is one.
    target : str, sequence of str, or None
        The name of the responses in the file or table; several names: columns (or
        arrays) of numbers, one for each response. None: there need not be any.
    groups : str, optional
        The column (or array) that says which samples belong together and must not
        be split.
    covariates : sequence of str
        Columns (or arrays) of numbers.
    mask : path or fitted model, optional
        Voxels to keep, for NIfTI images alone.
    largest : int, optional
        As for `load_data`: more bytes of samples than this stay in their file.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,), or (n, K) for K targets, `groups` (n,) and
        `covariates` (n, q), None where there are none; `coef`, if the file holds the
        true one; `ids` (n,), what the samples are called, or None; `note`, how rows of
        a table were matched.
        Images of one participant are a group, if no other is named.

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
    files = _existing_files(paths, mask)
    y = _participants(paths) if y is None and all(map(is_image, files)) else y
    several: list[str] = []
    if target is not None and not isinstance(target, str):
        several, target = list(target), None
    named = [*several, *covariates, *([] if groups is None else [groups])]
    data = _read(files, target if y is None else None, mask, largest, named)
    n_samples = data.X.shape[0]
    beside = Beside()
    if y is not None:
        beside = read_beside(y, target, names_of(data), n_samples)
    responses = data.y if y is None or target is None else beside.y
    _require_responses(responses, files[0], y, target)
    source = files[0] if y is None else existing_file(y)
    columns = _arrays(data, target) | beside.columns
    absent = [name for name in named if name not in columns]
    require_names(absent, beside.columns or columns, source)
    together = beside.groups if data.get("groups") is None else data.groups
    together = together if groups is None else columns[groups]
    if several:
        responses = _responses(columns, several, source)
    others = [(name, columns[name]) for name in covariates]
    rows = [("y", responses), ("groups", together), *others]
    _check_lengths(rows, n_samples, source)
    return Bunch(
        X=data.X,
        y=_one_axis(responses),
        groups=together,
        covariates=_beside(columns, covariates, source),
        coef=data.get("coef"),
        ids=data.get("ids"),
        note=beside.note,
    )


def _one_axis(values: Any) -> Any:
    """Return responses that were stored as a column, (n, 1), as the vector they are."""
    column = values is not None and np.shape(values)[1:] == (1,)
    return np.reshape(values, (-1,)) if column else values


def _existing_files(paths: Sequence[AnyPath], mask: Any) -> list[Path]:
    """Return the files that were named, and the images in folders of them."""
    # A text is a sequence too: of letters.
    alone = isinstance(paths, str | PathLike)
    given = [] if alone else [existing_file(path) for path in paths]
    if not given:
        msg = f"paths={paths!r} was given; expected a list of one path or more."
        raise ValueError(msg)
    return [file for path in given for file in images_in(path, mask) or [path]]


def _participants(paths: Sequence[AnyPath]) -> Path | None:
    """Return the table of a BIDS folder."""
    table = Path(paths[0]) / "participants.tsv"
    return table if len(paths) == 1 and table.is_file() else None


def _read(
    files: list[Path],
    target: str | None,
    mask: Any,
    largest: int | None,
    named: Sequence[str],
) -> Bunch:
    """Read samples, and the responses that are in the same file."""
    images = all(map(is_image, files))
    if mask is not None and not images:
        msg = (
            f"mask={_mask_name(mask)} was given with {files[0]}; expected NIfTI images "
            "alone, the others have no voxels. Leave the mask out."
        )
        raise ValueError(msg)
    if images:
        return Bunch(**load_nifti(files, mask=mask), y=None)
    if len(files) > 1:
        msg = (
            f"{len(files)} files were given, the first is {files[0]}; expected one "
            "file of arrays, NIfTI images, or one folder of films."
        )
        raise ValueError(msg)
    if files[0].is_dir() and files[0].suffix != ".zarr":
        return _read_films(files[0], target)
    return load_data(files[0], target=target, largest=largest, left_out=named)


def _mask_name(mask: Any) -> str:
    return repr(str(mask) if isinstance(mask, str | PathLike) else type(mask).__name__)


def _require_responses(responses: Any, file: Path, y: Any, target: str | None) -> None:
    if target is not None and responses is None:
        msg = (
            f"{file} holds samples alone; expected responses as well. Name a .npy file "
            "or a .csv or .tsv table of them as y."
        )
        raise ValueError(msg)


def _read_films(folder: Path, target: str | None) -> Bunch:
    """Return films, with the names of their folders as labels."""
    if target not in (None, "y"):
        msg = (
            f"target={target!r} was given with {folder}, where the sub-folders name "
            "the labels; expected a table as y to find it in. Name one, or leave the "
            "target out."
        )
        raise ValueError(msg)
    films = load_video_folder(folder)
    return Bunch(
        X=films.X,
        y=films.target_names[films.target],
        groups=films.groups,
        filenames=films.get("filenames"),
        ids=films.get("filenames"),
    )


# What readers return of images and films, beside samples; it has no rows.
_NO_COLUMNS = ("mask", "box", "affine", "shape", "filenames", "ids", "note")


def _arrays(data: Bunch, target: str | None) -> dict[str, np.ndarray]:
    """Return the arrays beside X that can be named."""
    # Under another target, data.y is that and no array or column called y.
    unnamed = ("X",) if target in (None, "y") else ("X", "y")
    return {
        name: item
        for name, item in data.items()
        if name not in (*unnamed, *_NO_COLUMNS) and item is not None
    }


def _beside(
    columns: dict[str, np.ndarray], names: Sequence[str], source: Path
) -> np.ndarray | None:
    """Return columns of numbers, and of words, which are categories."""
    try:
        values = [_numbers_or_words(check_plain(columns[n], n)) for n in names]
    except (TypeError, ValueError) as error:
        msg = f"The covariates {list(names)} of {source} cannot be used: {error}."
        raise ValueError(msg) from error
    if any(column.dtype == object for column in values):
        values = [column.astype(object) for column in values]
    return np.column_stack(values) if values else None


def _responses(
    columns: dict[str, np.ndarray], names: Sequence[str], source: Path
) -> np.ndarray:
    """Return columns of numbers, side by side, (n, K)."""
    values = [_numbers_or_words(check_plain(columns[n], n)) for n in names]
    words = [n for n, v in zip(names, values, strict=True) if v.dtype == object]
    if words:
        msg = (
            f"The responses {few(words)} of {source} are words; expected numbers, "
            "since there are several. Name one target for labels."
        )
        raise ValueError(msg)
    if any(np.ndim(v) != 1 for v in values):
        msg = (
            f"The responses {list(names)} of {source} have shapes "
            f"{[np.shape(v) for v in values]}; expected one number a sample in each."
        )
        raise ValueError(msg)
    for name, column in zip(names, values, strict=True):
        gaps = np.flatnonzero(np.isnan(column))
        if len(gaps):
            msg = (
                f"The response {name!r} of {source} has no number for {len(gaps)} "
                f"samples, the first is sample {gaps[0] + 1}. Leave these out; in "
                "Python, missing_y='ridge' takes NaN."
            )
            raise ValueError(msg)
    return np.stack(values, axis=1)


def _numbers_or_words(column: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(column, float)
    except (TypeError, ValueError):
        return np.asarray(column, object)


def _check_lengths(rows: list[tuple[str, Any]], n_samples: int, source: Path) -> None:
    for name, values in rows:
        if values is not None and np.shape(values)[:1] != (n_samples,):
            msg = (
                f"There are {n_samples} samples, and {name!r} with {source} has shape "
                f"{np.shape(values)}; expected one for each sample. Check both."
            )
            raise ValueError(msg)
