"""Covariates beside the samples: numbers and categories as columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sltr.arrays import as_array, to_numpy
from sltr.samples.check import check_plain
from sltr.samples.samples import Samples

LARGEST = 1e100  # of a covariate: its squares, and sums of them, are numbers


@dataclass(frozen=True, eq=False)
class Encoding:
    """How q given columns become b numbers: categories have a column for each level.

    The first level, the reference, has none: beside an intercept it would say nothing.
    """

    columns: tuple[str, ...]  # names, or numbers as texts
    levels: Mapping[int, tuple] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the encoded columns."""
        found = []
        for place, name in enumerate(self.columns):
            levels = self.levels.get(place)
            found += [name] if levels is None else [f"{name}={v}" for v in levels[1:]]
        return found

    def encode(self, covariates: Any, n_samples: int) -> np.ndarray:
        """Return covariates like those of the fit as numbers, (n, b)."""
        names, columns = _columns(covariates, n_samples)
        if len(columns) != len(self.columns):
            shape = (n_samples, len(columns))
            msg = (
                f"covariates of shape {shape} were given; the model was fitted with "
                f"{len(self.columns)} columns, {list(self.columns)}. Give as many."
            )
            raise ValueError(msg)
        if all(map(_is_name, [*names, *self.columns])) and names != self.columns:
            msg = (
                f"covariates {list(names)} were given; expected those of the fit, "
                f"{list(self.columns)}, in this order."
            )
            raise ValueError(msg)
        parts = [np.zeros((n_samples, 0))]
        for place, values in enumerate(columns):
            if place in self.levels:
                parts.append(self._indicators(place, values))
            else:
                parts.append(_numbers(values, self.columns[place])[:, None])
        return np.concatenate(parts, axis=1)

    def _indicators(self, place: int, values: np.ndarray) -> np.ndarray:
        levels = self.levels[place]
        values = _words(values)
        unseen = [value for value in values.tolist() if value not in levels]
        if unseen:
            msg = (
                f"The covariate {self.columns[place]!r} is {unseen[0]!r} for some "
                f"sample; samples of the fit had {', '.join(map(repr, levels))}. Drop "
                "these samples, or fit with some of them."
            )
            raise ValueError(msg)
        return (values[:, None] == np.array(levels[1:], object)).astype(float)

    def example(self) -> np.ndarray | None:
        """Return a row of covariates that can be encoded; None where there are none."""
        row = np.zeros((1, len(self.columns)), object)
        for place, levels in self.levels.items():
            row[0, place] = levels[0]
        return row if self.columns else None


def learn_encoding(covariates: Any, n_samples: int) -> Encoding:
    """Return how to encode the covariates of a fit; None has no columns.

    Examples
    --------
    >>> encoding = learn_encoding([[1.5, "b"], [2.0, "a"], [0.0, "c"]], 3)
    >>> encoding.names
    ['0', '1=b', '1=c']
    >>> encoding.encode([[1.0, "c"]], 1).tolist()
    [[1.0, 0.0, 1.0]]
    """
    names, columns = _columns(covariates, n_samples)
    levels = {
        place: tuple(sorted(set(_words(values).tolist())))
        for place, values in enumerate(columns)
        if _is_category(values)
    }
    return Encoding(names, levels)


def _columns(
    covariates: Any, n_samples: int
) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Return the names and values of given columns, one value for each sample."""
    covariates = check_plain(covariates, "covariates")
    if covariates is None:
        return (), []
    if hasattr(covariates, "columns"):  # a table
        names = tuple(map(str, covariates.columns))
        columns = [np.asarray(covariates[name]) for name in covariates.columns]
    else:
        name = getattr(covariates, "name", None)
        values = to_numpy(covariates) if hasattr(covariates, "shape") else covariates
        if isinstance(values, list | tuple):
            values = _array_of(values)
        values = np.asarray(values)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2:
            msg = (
                f"covariates of shape {values.shape} were given; expected (n,) or "
                "(n, q), one row for each sample."
            )
            raise ValueError(msg)
        columns = list(values.T)
        names = tuple(map(str, range(len(columns))))
        names = (name,) if isinstance(name, str) and len(columns) == 1 else names
    if any(len(values) != n_samples for values in columns):
        shape = (len(columns[0]), len(columns))
        msg = (
            f"covariates of shape {shape} were given for {n_samples} samples; expected "
            "one row for each sample."
        )
        raise ValueError(msg)
    return names, columns


def _array_of(rows: Sequence) -> np.ndarray:
    """Return rows of numbers and words as an array that keeps both apart."""
    plain = np.asarray(rows, dtype=object)
    try:
        return plain.astype(float)
    except (TypeError, ValueError, ArithmeticError):
        return plain


def _is_name(name: str) -> bool:
    return not name.isdigit()


def _is_category(values: np.ndarray) -> bool:
    """Say whether a column holds words; numbers written as texts are numbers."""
    if values.dtype.kind in "biufc":
        return False
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return True
    except OverflowError:  # a number, which will be refused
        return False
    return False


def _words(values: np.ndarray) -> np.ndarray:
    """Return categories as texts; refuse missing ones."""
    gaps = [value for value in values.tolist() if _is_gap(value)]
    if gaps:
        msg = (
            f"A covariate is {gaps[0]} for some sample; expected a category for each. "
            "Name one for those unknown, or drop them."
        )
        raise ValueError(msg)
    return np.array([str(value) for value in values.tolist()], dtype=object)


def _is_gap(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas does not say whether its NA is itself
        return True


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype.kind in "mMc":
        what = "complex numbers" if values.dtype.kind == "c" else "dates or times"
        msg = f"The covariate {name!r} holds {what}; expected real numbers."
        raise ValueError(msg)
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError, ArithmeticError):
        numbers = np.full(len(values), np.nan)
    clear = np.abs(numbers) <= LARGEST
    if not clear.all():
        place = int(np.flatnonzero(~clear)[0])
        shown = repr(values[place])
        shown = shown if len(shown) < 40 else f"{shown[:40]}…"
        msg = (
            f"The covariate {name!r} of sample {place} is {shown}; expected a finite "
            f"number of at most {LARGEST:g}. Fill it in, divide the column by a unit, "
            "or drop the sample."
        )
        raise ValueError(msg)
    return numbers


@dataclass(frozen=True, eq=False)
class Covariates:
    """Encoded covariates of a fit, in units near one: (given − centre) / scale."""

    encoding: Encoding
    centre: np.ndarray  # (b,)
    scale: np.ndarray  # (b,)


def with_covariates(
    samples: Samples, covariates: Any, sample_weight: Any, *, fit_intercept: bool
) -> Samples:
    """Return samples with clean covariates, and how these came about.

    `covariates` and `sample_weight` are of all samples, also those of weight zero.
    Columns that others explain, or an intercept, are refused.
    """
    if covariates is None:
        return samples
    encoding, Z = encoded(covariates, samples.weight.shape[0], sample_weight)
    none = np.zeros(Z.shape[1])
    if Z.shape[1] == 0:
        return samples
    # Weighted: a subset with fewer samples than columns has a solution by these units.
    share = np.asarray(to_numpy(samples.weight), float)
    share = share / share.sum()
    centre = share @ Z if fit_intercept else none
    spread = np.sqrt(share @ (Z - centre) ** 2)
    size = np.abs(Z).max(axis=0)
    _check_columns(Z - centre, spread, size, encoding.names, fit_intercept)
    clean = as_array((Z - centre) / spread, samples.weight)
    known = Covariates(encoding, centre, spread)
    return replace(samples, covariates=clean, known=known)


def encoded(
    covariates: Any, n_kept: int, sample_weight: Any = None
) -> tuple[Encoding, np.ndarray]:
    """Return how to encode covariates, and those of samples of positive weight."""
    rows, n_given = np.arange(n_kept), n_kept
    weight = None if sample_weight is None else np.asarray(to_numpy(sample_weight))
    if weight is not None and weight.ndim == 1:
        n_given, rows = len(weight), np.flatnonzero(weight > 0)
    encoding = learn_encoding(covariates, n_given)
    return encoding, encoding.encode(covariates, n_given)[rows]


def encoding_of(model: Any) -> Encoding:
    """Return how a fitted model encodes its covariates.

    Models of earlier versions know only how many there are, all of them numbers.
    """
    n_columns = getattr(model, "n_covariates_in_", 0)
    columns = getattr(model, "covariate_columns_", None)
    columns = map(str, range(n_columns)) if columns is None else columns
    return Encoding(tuple(columns), getattr(model, "covariate_levels_", {}))


def remember_encoding(model: Any, encoding: Encoding) -> None:
    """Set the fitted attributes that encoding covariates needs."""
    model.n_covariates_in_ = len(encoding.columns)
    model.covariate_columns_ = list(encoding.columns)
    model.covariate_levels_ = {k: list(v) for k, v in encoding.levels.items()}
    model.covariate_names_ = encoding.names


def _check_columns(
    Z: np.ndarray,
    spread: np.ndarray,
    size: np.ndarray,
    names: Sequence[str],
    fit_intercept: bool,
) -> None:
    """Refuse columns that are constant, or follow from those before them."""
    n_samples, n_columns = Z.shape
    if n_columns + fit_intercept >= n_samples:
        msg = (
            f"{n_columns} columns of covariates were given for {n_samples} samples; "
            "expected fewer. Leave some out, or merge categories."
        )
        raise ValueError(msg)
    flat = [n for n, s, m in zip(names, spread, size, strict=True) if s <= 1e-9 * m]
    if flat:
        beside = ", which the intercept is already" if fit_intercept else ""
        msg = (
            f"The covariate {flat[0]!r} is constant{beside}; expected one that varies. "
            "Leave it out."
        )
        raise ValueError(msg)
    triangle = np.linalg.qr(Z / spread, mode="r")
    left = np.abs(np.diag(triangle)) / np.sqrt(n_samples)
    if left.min() < 1e-6:
        name = names[int(np.argmin(left))]
        msg = (
            f"The covariate {name!r} follows from the others; expected columns that "
            "are not collinear. Leave one of them out."
        )
        raise ValueError(msg)
