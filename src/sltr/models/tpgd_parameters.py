"""Ranks, cardinalities and budgets of sparse Tucker regression, checked."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from numbers import Integral, Real
from typing import Any

import numpy as np

from sltr.validation import check_count, check_nonnegative

__all__ = ["check_budget", "column_cardinalities", "tucker_ranks"]


def tucker_ranks(ranks: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return one possible Tucker rank for each mode, or say what is wrong.

    r_m cannot exceed the mode's size or the product of the other ranks.

    Examples
    --------
    >>> tucker_ranks(4, (9, 8, 3)), tucker_ranks(4, (9,))
    ((4, 4, 3), (1,))
    """
    given = [ranks] if _is_scalar(ranks) else list(ranks)
    whole = all(_is_whole(rank) and rank >= 1 for rank in given)
    if whole and _is_scalar(ranks):
        cut = [min(int(ranks), size) for size in shape]
        for _ in shape:  # a cut in one mode may ask for one in the next
            for mode in range(len(shape)):
                cut[mode] = min(cut[mode], _product_of_others(cut, mode))
        return tuple(cut)
    clean = [int(rank) for rank in given] if whole else []
    if len(clean) != len(shape) or any(
        rank > min(size, _product_of_others(clean, mode))
        for mode, (rank, size) in enumerate(zip(clean, shape, strict=True))
    ):
        msg = (
            f"ranks={ranks!r} was given for samples of shape {shape}; expected a whole "
            "number of at least 1, or one for each mode that exceeds neither the "
            "mode's size nor the product of the other ranks."
        )
        raise ValueError(msg)
    return tuple(clean)


def column_cardinalities(sparsity: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many entries of a column may differ from zero, for each mode.

    Examples
    --------
    >>> column_cardinalities(0.25, (9, 8)), column_cardinalities((3, 1.0), (9, 8))
    ((3, 2), (3, 8))
    """
    scalar = _is_scalar(sparsity)
    given = [sparsity] * len(shape) if scalar else list(sparsity)
    largest = max(shape)
    counts = [
        _cardinality(value, size, largest if scalar else size)
        for value, size in zip(given, shape, strict=False)
    ]
    if len(given) != len(shape) or 0 in counts:
        msg = (
            f"sparsity={sparsity!r} was given for samples of shape {shape}; expected a "
            "number of entries from 1 to a mode's size or a fraction in (0, 1], or "
            "one of them for each mode."
        )
        raise ValueError(msg)
    return tuple(counts)


def check_budget(tol: Any, max_iter: Any) -> tuple[float, int]:
    """Return a clean tolerance and number of steps, or say what is wrong."""
    return check_nonnegative(tol, "tol"), check_count(max_iter, "max_iter")


def _cardinality(value: Any, size: int, most: int) -> int:
    """Return a number of entries from 1 to `size`, or 0 if `value` is none."""
    if _is_whole(value):
        return min(int(value), size) if 1 <= value <= most else 0
    fraction = float(value) if isinstance(value, Real) else 0.0
    if isinstance(value, bool) or not 0.0 < fraction <= 1.0:
        return 0
    return max(1, ceil(fraction * size - 1e-9))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Sequence | np.ndarray) or isinstance(value, str)


def _product_of_others(ranks: list[int], mode: int) -> int:
    return prod(ranks[:mode] + ranks[mode + 1 :])
