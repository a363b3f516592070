"""Checks of parameters, optional packages, and what users are told of a fit."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from difflib import get_close_matches
from importlib import import_module
from math import inf, isfinite
from numbers import Integral
from time import monotonic
from typing import Any, NoReturn

import numpy as np
from sklearn.utils import check_random_state

SECONDS = 2.0  # at least, between two lines of the log


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    """Raise the error for a value that is not what was expected."""
    long = isinstance(value, int) and value.bit_length() > 100
    given = f"an integer of {value.bit_length()} bits" if long else repr(value)
    msg = f"{name}={given} was given; expected {expected}."
    raise ValueError(msg)


def random_generator(random_state: Any) -> np.random.RandomState:
    """Return the generator that a number, None or a generator stands for."""
    if isinstance(random_state, Integral) and not 0 <= int(random_state) < 2**32:
        expected = "None, a whole number from 0 to 4294967295, or a RandomState"
        refuse("random_state", random_state, expected)
    return check_random_state(random_state)


def unmasked(values: Any, name: str) -> Any:
    """Return values without the mask of NumPy; refuse entries that are masked.

    NumPy and scikit-learn would take what is under the mask.
    """
    masked = [p for p in parts_of(values) if isinstance(p, np.ma.MaskedArray)]
    n_masked = sum(int(np.ma.count_masked(part)) for part in masked)
    if n_masked:
        msg = (
            f"{n_masked} entries of {name} are masked; expected a value for each. Fill "
            "them in (numpy.ma.filled), or drop what they belong to."
        )
        raise ValueError(msg)
    return values.data if isinstance(values, np.ma.MaskedArray) else values


def parts_of(values: Any) -> Iterator[Any]:
    """Yield what lists within lists, and arrays of objects, hold; else the values.

    Lists of nothing but Python's own numbers and texts are passed over.

    Examples
    --------
    >>> list(parts_of([[1, 2.0], np.array(["a", None], object)]))
    ['a', None]
    """
    plain = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    if plain and values.dtype.kind == "O":
        values = values.ravel().tolist()
    if not isinstance(values, list | tuple):
        yield values
    elif not {bool, float, int, str}.issuperset(map(type, values)):
        for part in values:
            yield from parts_of(part)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse what is not one of the choices."""
    if not isinstance(value, str) or value not in tuple(choices):
        refuse(name, value, "one of " + ", ".join(map(repr, choices)))


def check_nonnegative(value: Any, name: str, *, largest: float = inf) -> float:
    """Return a finite, non-negative hyper-parameter, or say what is wrong with it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number) or not 0 <= number <= largest:
        limit = f" and at most {largest:g}" if isfinite(largest) else ""
        refuse(name, value, f"a finite number of at least 0{limit}")
    return number


# Products of larger ones leave single precision.
LARGEST_RELATIVE = 1e15


def check_relative(value: Any, name: str) -> float:
    """Return a hyper-parameter in units of the samples, which cannot be that large."""
    return check_nonnegative(value, name, largest=LARGEST_RELATIVE)


# Larger counts do not fit the integers of all array libraries, nor anyone's patience.
LARGEST_COUNT = 2**31 - 1


def check_count(
    value: Any, name: str, *, smallest: int = 1, largest: int = LARGEST_COUNT
) -> int:
    """Return a whole number in the range, or say what is wrong with it."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not smallest <= value <= largest:
        told = (whole and value > largest) or largest < LARGEST_COUNT
        limit = f" and at most {largest}" if told else ""
        refuse(name, value, f"a whole number of at least {smallest}{limit}")
    return int(value)


# A list of more settings is a mistake, which memory would not hold.
LONGEST_LIST = 100_000


def one_or_more(values: Any, name: str) -> list:
    """Return a list of settings, of which a single one may be given by itself.

    Examples
    --------
    >>> one_or_more("cp", "refine"), one_or_more(("cp", None), "refine")
    (['cp'], ['cp', None])
    """
    if _is_scalar_array(values):
        return [values.item()]
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [values]
    if isinstance(values, Sized) and len(values) > LONGEST_LIST:
        refuse(name, values, f"at most {LONGEST_LIST} values")
    return list(values)


def _is_scalar_array(values: Any) -> bool:
    return getattr(values, "ndim", None) == 0


def check_sequence(values: Any, name: str) -> list:
    """Return a parameter's candidates, or say what is wrong with them."""
    if isinstance(values, str):
        refuse(name, values, "a sequence")
    if not isinstance(values, Iterable) or _is_scalar_array(values):
        refuse(name, values, f"a sequence: write [{values!r}]")
    candidates = one_or_more(values, name)
    if not candidates:
        refuse(name, values, "at least one value")
    return candidates


def nearest(value: Any, names: Iterable[str], most: int = 1) -> str:
    """Return how a message goes on: with the nearest names, if some are near.

    Examples
    --------
    >>> nearest("remus", ["remurs", "cp"]), nearest("x", ["remurs", "cp"])
    ("did you mean 'remurs'? Expected", 'expected')
    """
    near = get_close_matches(str(value), list(names), n=most)
    if not near:
        return "expected"
    return f"did you mean {' or '.join(map(repr, near))}? Expected"


def import_optional(name: str, who: str, install: str) -> Any:
    """Return a module of a package that need not be there, or say how to install it.

    Examples
    --------
    >>> import_optional("nolib.io", "Lists need nolib", "nolib")
    Traceback (most recent call last):
    ...
    ImportError: Lists need nolib. Install it with: pip install nolib
    """
    try:
        return import_module(name)
    except ImportError as error:
        msg = f"{who}. Install it with: pip install {install}"
        raise ImportError(msg) from error


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package, where the user called it.

    Names in the message may come from a file: control characters are written out.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("sltr."):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(message, keep="\n"), category, stacklevel=level)


def progress_of(
    estimator: Any, clock: Callable[[], float] = monotonic
) -> Callable[..., None] | None:
    """Return what an estimator tells its progress: its callable, or the log.

    With `verbose` the logger "sltr" has a line every other second, on standard error
    unless the user has set up logging.
    """
    given = getattr(estimator, "progress", None)
    if given is not None or not getattr(estimator, "verbose", 0):
        return given
    logger = verbose_logger()
    name, start, last = type(estimator).__name__, clock(), clock()

    def tell(done: int, total: int, what: str = "") -> None:
        nonlocal last
        if clock() - last < SECONDS and done < total:
            return
        last = clock()
        passed = last - start
        logger.info("%s: %d of %d, %.1f s %s", name, done, total, passed, what)

    return tell


def verbose_logger() -> logging.Logger:
    """Return the logger of the package, which somebody hears."""
    logger = logging.getLogger("sltr")
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    return logger


def printable(text: str, keep: str = "") -> str:
    r"""Return a text whose control characters are written out, as a terminal needs it.

    Examples
    --------
    >>> printable("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
