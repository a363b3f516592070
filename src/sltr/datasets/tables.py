"""Tables of text, and which of their rows belongs to which sample."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path, PurePosixPath

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.reading import (
    AnyPath,
    check_expansion,
    existing_file,
    few,
    reading,
    require_names,
    text_bytes,
)

# How a table's file ends, and what stands between its cells.
DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Columns that are called like this are meant to name samples.
NAMING = (
    *("participant_id", "filename", "file", "path", "image", "scan", "film", "clip"),
    *("sample", "sample_id", "subject", "subject_id", "participant", "id", "ids"),
)
_PARTICIPANTS = ("participant_id", "participant", "subject", "subject_id", "id")


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file of text, as they are written and as numbers."""

    file: Path
    cells: dict[str, list[str]]  # stripped; empty where nothing is known
    columns: dict[str, np.ndarray]  # floats if all cells are numbers, else texts


@dataclass(frozen=True, eq=False)
class Match:
    """The row of a table for each sample, and how it was found."""

    rows: np.ndarray  # (n,)
    column: str | None  # what names the samples; None: they are taken by position
    participants: np.ndarray | None  # (n,), where several samples share a row
    note: str  # the same, for people


def is_table(path: object) -> bool:
    """Say whether this is the path of a table."""
    return Path(str(path)).suffix in DELIMITERS


def load_csv(
    path: AnyPath,
    *,
    target: str | None = "y",
    covariates: Sequence[str] | None = None,
    delimiter: str | None = None,
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
    delimiter : str, optional
        Default: a tab in files that end in ``.tsv``, else a comma. In ``.tsv`` files
        ``n/a`` stands for an empty cell, as in BIDS.

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
    table = read_table(path, delimiter)
    file, columns = table.file, table.columns
    numeric = {name: None for name, found in columns.items() if found.dtype.kind == "f"}
    chosen = list(covariates or ())
    if covariates is None:
        chosen = [name for name in numeric if name != target]
    require_names([*chosen, *([] if target is None else [target])], columns, file)
    if target is not None:
        require_labels(columns[target], target, file)
    text = [name for name in chosen if name not in numeric]
    if text:
        msg = (
            f"The covariates {few(text)} of {file} are not numbers; encode them first."
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


def require_labels(labels: np.ndarray, target: str, file: Path) -> None:
    """Refuse empty cells among labels: they would become a class of their own."""
    empty = [] if labels.dtype.kind == "f" else np.flatnonzero(labels == "").tolist()
    if empty:
        msg = (
            f"The column {target!r} of {file} is empty in {len(empty)} rows, first in "
            f"row {empty[0] + 1}; expected a label in each. Fill in or remove these."
        )
        raise ValueError(msg)


def read_table(path: AnyPath, delimiter: str | None = None) -> Table:
    """Read all columns of a table; its suffix says how."""
    file = existing_file(path)
    if delimiter is None:
        delimiter = DELIMITERS.get(file.suffix, ",")
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
        msg = f"{file} has several columns {few(twice)}; expected each name once."
        raise ValueError(msg)
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            msg = (
                f"Row {number} of {file} has {len(row)} cells; expected {len(header)}, "
                "one for each column name. Check the delimiter and the row."
            )
            raise ValueError(msg)
    unknown = "n/a" if file.suffix == ".tsv" else ""
    cells = {
        name: ["" if cell.strip() == unknown else cell.strip() for cell in column]
        for name, column in zip(header, zip(*rows[1:], strict=True), strict=True)
    }
    numbers = {name for name, column in cells.items() if _are_numbers(column)}
    texts = [column for name, column in cells.items() if name not in numbers]
    check_expansion(file, sum(map(text_bytes, texts)))
    columns = {
        name: _floats(column) if name in numbers else np.array(column)
        for name, column in cells.items()
    }
    return Table(file, cells, columns)


def _floats(cells: list[str]) -> np.ndarray:
    return np.array([float(cell) if cell else np.nan for cell in cells])


def _are_numbers(cells: list[str]) -> bool:
    return all(_is_number(cell) for cell in cells if cell)


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


def match_rows(table: Table, names: Sequence[str] | None, n_samples: int) -> Match:
    """Find the row of each sample by the column that names it, else by position.

    A cell names a file by its name, with or without folders and suffix, or by its BIDS
    participant; other samples by their identifier. Rows without a sample are left out.
    A sample without a row, or with two, is an error.
    """
    file, n_rows = table.file, len(next(iter(table.cells.values())))
    unique = names is not None and len(set(names)) == len(names)
    found = _best(table, list(names)) if names is not None and unique else None
    if found is None:
        why = (
            "the samples have no names of their own"
            if not unique
            else f"no column of {file} names them"
        )
        if n_rows != n_samples:
            msg = (
                f"X has {n_samples} samples and {file} {n_rows} rows; expected one row "
                f"for each sample, in their order, since {why}. Check both, or add a "
                "column of file names or identifiers."
            )
            raise ValueError(msg)
        note = f"Rows of {file} belong to samples by position: {why}."
        return Match(np.arange(n_samples), None, None, note)
    _check_found(found, table, list(names or ()))
    rows = np.array([places[0] for places in found.rows])
    left = n_rows - len(set(rows.tolist()))
    order = "" if np.all(np.diff(rows) >= 0) else ", in another order"
    rest = f"; {left} rows without a sample are left out" if left else ""
    shared = len(set(rows.tolist())) < len(rows)
    if shared:
        rest += "; samples of one participant share a row and stay together in folds"
    note = f"Rows of {file} belong to samples by its column {found.column!r}"
    participants = np.array(table.cells[found.column])[rows] if shared else None
    return Match(rows, found.column, participants, f"{note}{order}{rest}.")


@dataclass(frozen=True)
class _Found:
    """The rows that a column has for each sample."""

    column: str
    rows: list[list[int]]  # for each sample

    @property
    def n_samples(self) -> int:
        return sum(1 for places in self.rows if places)

    @property
    def n_doubts(self) -> int:
        return sum(1 for places in self.rows if len(places) > 1)


def _best(table: Table, names: list[str]) -> _Found | None:
    """Return the column that names most samples; None if none seems to."""
    found = []
    for column, cells in table.cells.items():
        # Numbers may be equal by accident, unless the column says what it is.
        if table.columns[column].dtype.kind == "f" and column.lower() not in NAMING:
            continue
        for rule in (_by_file, _by_stem, _by_participant):
            rows = rule(column, cells, names)
            participants = rule is _by_participant and any(map(_participant, names))
            # Participants of another study are no reason to go by position.
            if any(rows) or (participants and column.lower() == "participant_id"):
                found.append(_Found(column, rows))
    return max(
        found,
        key=lambda f: (f.n_samples - f.n_doubts, f.column.lower() in NAMING),
        default=None,
    )


def _check_found(found: _Found, table: Table, names: list[str]) -> None:
    """Name samples without a row, and those with several."""
    file, column = table.file, found.column
    without = [name for name, rows in zip(names, found.rows, strict=True) if not rows]
    if without:
        msg = (
            f"{len(without)} of {len(names)} samples have no row in the column "
            f"{column!r} of {file}: {few(without)}. Expected one for each. Add these "
            "rows, or leave these samples out."
        )
        raise ValueError(msg)
    for name, rows in zip(names, found.rows, strict=True):
        if len(rows) > 1:
            msg = (
                f"{name} has {len(rows)} rows, {few([str(r + 1) for r in rows])}, in "
                f"the column {column!r} of {file}; expected one. Remove the others, or "
                "add a column of file names."
            )
            raise ValueError(msg)


def _by_file(column: str, cells: list[str], names: list[str]) -> list[list[int]]:
    return _by_path(cells, names, lambda path: path)


def _by_stem(column: str, cells: list[str], names: list[str]) -> list[list[int]]:
    return _by_path(cells, names, _without_suffix)


def _by_path(
    cells: list[str], names: list[str], shorten: Callable[[str], str]
) -> list[list[int]]:
    """Find cells that are the end of a sample's path, or end in all of it."""
    ends: dict[str, set[int]] = {}
    for place, name in enumerate(names):
        for end in _ends(shorten(name)):
            ends.setdefault(end, set()).add(place)
    whole = {_plain(shorten(name)): place for place, name in enumerate(names)}
    rows: list[list[int]] = [[] for _ in names]
    for row, cell in enumerate(cells):
        path = _plain(cell)
        places = ends.get(path, set()) if path else set()
        if not places:
            places = {whole[end] for end in _ends(path) if end in whole}
        # The name of several files names none of them.
        if len(places) == 1:
            rows[min(places)].append(row)
    return rows


def _by_participant(column: str, cells: list[str], names: list[str]) -> list[list[int]]:
    """Find the BIDS participant of each file, written with or without its sub-."""
    if column.lower() not in _PARTICIPANTS:
        return [[] for _ in names]
    rows: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        if cell:
            rows.setdefault(f"sub-{cell.removeprefix('sub-')}", []).append(row)
    return [rows.get(_participant(name), []) for name in names]


def _participant(name: str) -> str:
    parts = reversed(_plain(name).split("/"))
    hits = (re.match(r"(sub-[A-Za-z0-9+]+)(?=[_./]|$)", part) for part in parts)
    return next((hit[1] for hit in hits if hit), "")


def _plain(path: str) -> str:
    return str(PurePosixPath(path.replace("\\", "/"))) if path else ""


def _ends(path: str) -> list[str]:
    parts = _plain(path).split("/")
    return ["/".join(parts[k:]) for k in range(len(parts))]


def _without_suffix(path: str) -> str:
    return re.sub(r"(\.nii)?\.[A-Za-z]\w*$", "", path)
