"""Units in which squares neither vanish nor overflow."""

from __future__ import annotations

from math import floor, log2

from sltr._array import Array, array_namespace

__all__ = ["check_squares", "in_original_units", "of_unit_size"]

# Up to here, and down to its inverse, squares of squares are harmless in every
# precision, and a copy is not free.
ORDINARY = 2.0**8


def of_unit_size(x: Array) -> tuple[Array, float]:
    """Return an array divided by its size, a power of two, and that size.

    An array of ordinary size stays as it is. The division is exact.

    Examples
    --------
    >>> import numpy as np
    >>> divided, unit = of_unit_size(np.array([2.0**600, -(2.0**599)]))
    >>> divided.tolist(), unit == 2.0**600
    ([1.0, -0.5], True)
    >>> of_unit_size(np.array([3.0, -1.0]))
    (array([ 3., -1.]), 1.0)
    """
    size = _size(x)
    if size == 0.0 or 1.0 / ORDINARY <= size <= ORDINARY:
        return x, 1.0
    unit = 2.0 ** floor(log2(size))
    return x / unit, unit


def in_original_units(coef: Array, unit: float) -> Array:
    """Return a coefficient times its unit, or say that its precision has none such.

    Examples
    --------
    >>> import numpy as np
    >>> in_original_units(np.array([3.0, -1.0]), 0.5)
    array([ 1.5, -0.5])
    """
    size = _size(coef)
    if unit == 1.0 or size == 0.0:
        return coef
    limits = array_namespace(coef).finfo(coef.dtype)
    vanishes = size * unit < float(limits.smallest_normal)
    # What is but rounding may vanish.
    if size * unit > float(limits.max) or (vanishes and size > float(limits.eps)):
        msg = (
            f"X and y were given whose coefficient is of size {size:.1g}·{unit:.0e}, "
            f"which {coef.dtype} does not have. Divide X and y by their largest "
            "entries."
        )
        raise ValueError(msg)
    return coef * unit


def check_squares(y: Array) -> None:
    """Refuse responses whose squared errors the precision cannot hold."""
    _, unit = of_unit_size(y)
    limits = array_namespace(y).finfo(y.dtype)
    # Errors may be a few times as large as the responses.
    if not float(limits.smallest_normal) <= unit * unit <= float(limits.max) / 64.0:
        msg = (
            f"Responses of about {unit:.0e} were given, whose squared errors {y.dtype} "
            "does not have. Divide y by its largest entry."
        )
        raise ValueError(msg)


def _size(x: Array) -> float:
    """Return the largest absolute value, without a copy."""
    xp = array_namespace(x)
    return max(float(xp.max(x)), -float(xp.min(x)))
