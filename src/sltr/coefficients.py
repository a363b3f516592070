"""Which coefficient of a model is meant, and a small picture of it, by NumPy alone."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from sltr.arrays import to_numpy

# ColorBrewer's RdBu, blue (negative) to red (positive).
RED_BLUE = (
    (5, 48, 97),
    (33, 102, 172),
    (67, 147, 195),
    (146, 197, 222),
    (209, 229, 240),
    (247, 247, 247),
    (253, 219, 199),
    (244, 165, 130),
    (214, 96, 77),
    (178, 24, 43),
    (103, 0, 31),
)


def coef_array(coef: Any, target: Any = None) -> np.ndarray:
    """Return the coefficient of a fitted model, or an array, as a NumPy array.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    target : label or int, optional
        Of a model with one coefficient for each class or response: the class, or its
        index where no class is called so; the first if not given. Responses of
        several modes are counted in C order, or given by a tuple.
    """
    if hasattr(coef, "fit") and not hasattr(coef, "coef_"):
        msg = (
            f"{type(coef).__name__} has no coef_; expected an array or a fitted linear "
            "model. Call fit first, or give the last step of a pipeline."
        )
        raise NotFittedError(msg)
    index = target_index(coef, target)
    array = np.asarray(to_numpy(getattr(coef, "coef_", coef)), dtype=float)
    if index is not None and hasattr(coef, "shape_out_") and coef.shape_out_:
        array = array.reshape(*coef.shape_in_, -1)[..., index]
    elif index is not None:
        array = array[index]
    if array.ndim == 0 or array.size == 0:
        msg = f"A coefficient of shape {array.shape} was given; expected (p1, …, pM)."
        raise ValueError(msg)
    if not np.all(np.isfinite(array)):
        msg = "The coefficient holds NaN or infinity; expected finite numbers. Refit."
        raise ValueError(msg)
    return array


def shown_entries(coef: np.ndarray, model: Any) -> np.ndarray:
    """Return a coefficient (…, p1, …, pM) with NaN for entries outside a mask."""
    mask = getattr(model, "mask_", None)
    if mask is None or coef.shape[coef.ndim - mask.ndim :] != mask.shape:
        return coef
    return np.where(mask, coef, np.nan)


def target_labels(model: Any) -> list:
    """Return the classes, or names or numbers of the responses; [] if there is one."""
    shape_in = getattr(model, "shape_in_", None)
    shape: tuple[int, ...] = getattr(getattr(model, "coef_", None), "shape", ())
    shape_out = tuple(getattr(model, "shape_out_", ()))
    if len(shape_out) > 1:
        return list(np.ndindex(shape_out))
    if shape_out:
        names = list(getattr(model, "response_names_", ()))
        return names if len(names) == shape_out[0] else list(range(shape_out[0]))
    if shape_in is None or len(shape) != len(shape_in) + 1:
        return []
    classes = list(getattr(model, "classes_", ()))
    return classes if len(classes) == shape[0] else list(range(shape[0]))


def target_name(model: Any, target: Any = None) -> str:
    """Return which of a model's coefficients is meant; empty if it has but one.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(coef_=np.ones((3, 5)), shape_in_=(5,))
    >>> model.classes_ = np.array(["cat", "dog", "owl"])
    >>> target_name(model, "dog"), target_name(model), target_name(model.coef_)
    ('class dog', 'class cat', '')
    """
    index = target_index(model, target)
    if index is None:
        return ""
    kind = "class" if hasattr(model, "classes_") else "response"
    return f"{kind} {target_labels(model)[index]}"


def target_index(model: Any, target: Any) -> int | None:
    """Return the place of a coefficient among those of a model; None if it has one."""
    labels = target_labels(model)
    if not labels:
        if target is None:
            return None
        msg = (
            f"target={target!r} was given; expected none, because there is only one "
            "coefficient. Leave it out."
        )
        raise ValueError(msg)
    if target is None:
        return 0
    # A label comes before an index: classes 1 to 8 are called by their names.
    if target in labels:
        return labels.index(target)
    whole = isinstance(target, int | np.integer) and not isinstance(target, bool)
    if whole and -len(labels) <= target < len(labels):
        return int(target) % len(labels)
    known = ", ".join(map(str, labels))
    msg = (
        f"target={target!r} was given; expected one of {known}, or a place below "
        f"{len(labels)}."
    )
    raise ValueError(msg)


def largest_modes(shape: Sequence[int]) -> tuple[int, int]:
    """Return the two largest modes, in their order, to be shown as an image."""
    order = sorted(range(len(shape)), key=lambda m: -shape[m])
    return min(order[:2]), max(order[:2])


# Modes that are called so are rows and columns of pictures that stand upright.
UPRIGHT = (
    ("height", "width"),
    ("row", "column"),
    ("y", "x"),
    ("z", "y"),
    ("z", "x"),
)


def upright(names: Sequence[str], shape: Sequence[int]) -> tuple[int, int]:
    """Return which modes are rows and columns of an image.

    Examples
    --------
    >>> upright(("frame", "width", "height"), (15, 32, 24))
    (2, 1)
    >>> upright(("mode 0", "mode 1"), (3, 4))
    (0, 1)
    """
    for rows, columns in UPRIGHT:
        if rows in names and columns in names:
            return names.index(rows), names.index(columns)
    return largest_modes(shape)


def projection(coef: np.ndarray) -> np.ndarray:
    """Return a matrix over the two largest modes: the entries of largest magnitude."""
    if coef.ndim == 1:
        return coef[None, :]
    rows, columns = largest_modes(coef.shape)
    front = np.moveaxis(coef, (rows, columns), (0, 1))
    flat = front.reshape(front.shape[0], front.shape[1], -1)
    strongest = np.argmax(np.abs(flat), axis=2)
    return np.take_along_axis(flat, strongest[..., None], axis=2)[..., 0]


def coef_thumbnail(coef: Any, *, size: int = 96, target: Any = None) -> str:
    """Return a coefficient as a small PNG in a data URI, blue below zero, red above.

    Of the modes that are not shown, the entry of largest magnitude counts.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    size : int
        The longer side in pixels.
    target : label or int, optional
        The class, for a model with one coefficient for each class; the first if not
        given.

    Examples
    --------
    >>> import numpy as np
    >>> coef_thumbnail(np.eye(4))[:26]
    'data:image/png;base64,iVBO'
    """
    matrix = projection(coef_array(coef, target))
    scale = size / max(matrix.shape)
    height, width = (max(8, round(scale * side)) for side in matrix.shape)
    rows = np.arange(height) * matrix.shape[0] // height
    columns = np.arange(width) * matrix.shape[1] // width
    fraction = matrix[rows][:, columns] / (np.max(np.abs(matrix)) or 1.0)
    colour = (fraction + 1.0) / 2.0 * (len(RED_BLUE) - 1)
    knots, table = np.arange(len(RED_BLUE)), np.array(RED_BLUE)
    pixels = np.stack([np.interp(colour, knots, table[:, c]) for c in range(3)], -1)
    png = _png(pixels.round().astype(np.uint8))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _png(pixels: np.ndarray) -> bytes:
    height, width, _ = pixels.shape
    # Each row starts with its filter type, 0: none.
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0))).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
