"""Responses and covariates from tables of text."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from math import isfinite
from os import PathLike
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

AnyPath = str | PathLike[str]


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
