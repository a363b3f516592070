"""Pilots, radii and choices as a user gives them, or an error that says what."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NoReturn

from sltr._array import (
    Array,
    array_namespace,
    as_array,
    has_real_numbers,
    is_array_api,
    real_dtype,
)

__all__ = ["check_choice", "checked_pilot", "equal_lengths", "is_scalar", "refuse"]


def checked_pilot(pilot: Array) -> Array:
    """Return the pilot in floating point, or say what is wrong with it."""
    expected = "an array of real numbers with at least one mode and one entry"
    if not is_array_api(pilot) or pilot.ndim < 1 or prod(pilot.shape) == 0:
        shape = tuple(getattr(pilot, "shape", ()))
        refuse("pilot", f"{type(pilot).__name__} of shape {shape}", expected)
    xp = array_namespace(pilot)
    if not has_real_numbers(pilot):
        refuse("pilot", f"array of dtype {pilot.dtype}", expected)
    pilot = xp.astype(pilot, real_dtype(pilot), copy=False)
    if not bool(xp.all(xp.isfinite(pilot))):
        refuse("pilot", "array with NaN or infinity", "finite numbers")
    return pilot


def equal_lengths(sparse: Any, low: Any, pilot: Array) -> tuple[Array, Array]:
    """Return both radii as arrays of one length, of the library of the pilot."""
    xp = array_namespace(pilot)
    columns = []
    for name, values in (("lambda_sparse", sparse), ("lambda_low", low)):
        column = xp.reshape(as_array(values, pilot), (-1,))
        if not bool(xp.all(xp.isfinite(column) & (column >= 0.0))):
            refuse(name, values, "finite radii of at least 0")
        columns.append(column)
    length = max(column.shape[0] for column in columns)
    if any(column.shape[0] not in (1, length) for column in columns):
        refuse(
            "lambda_sparse and lambda_low",
            tuple(column.shape[0] for column in columns),
            "equal numbers of radii, or one of them a single number",
        )
    zeros = as_array([0.0] * length, pilot)
    return columns[0] + zeros, columns[1] + zeros


def is_scalar(value: Any) -> bool:
    """Say whether a radius is one number."""
    return not isinstance(value, list | tuple) and getattr(value, "ndim", 0) == 0


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse what is not one of the choices."""
    if value not in tuple(choices):
        refuse(name, value, "one of " + ", ".join(map(repr, choices)))


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    """Raise the error for a value that is not what was expected."""
    msg = f"{name}={value!r} was given; expected {expected}."
    raise ValueError(msg)
