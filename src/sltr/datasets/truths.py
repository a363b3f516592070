"""Coefficients to simulate from, one small function for each kind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import Any

import numpy as np

from sltr.tensor import cp_to_tensor, mode_product

__all__ = ["TRUTHS", "Ranks", "Shape", "Truth", "check_number", "draw_coef"]

Shape = tuple[int, ...]
Ranks = int | Sequence[int]


@dataclass(frozen=True)
class Truth:
    """How to draw a coefficient, and the defaults that go with it."""

    draw: Callable[[Shape, Ranks, float, np.random.Generator], np.ndarray]
    sparsity: float
    noise: float = 0.1


def draw_coef(
    shape: Sequence[int],
    truth: str,
    rank: Ranks,
    sparsity: float | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw a coefficient of `shape`; without `sparsity` the truth's own is used."""
    if truth not in TRUTHS:
        msg = f"truth={truth!r} was given; expected one of {sorted(TRUTHS)}."
        raise ValueError(msg)
    sizes = _check_sizes(shape)
    kind = TRUTHS[truth]
    zeros = kind.sparsity if sparsity is None else sparsity
    return kind.draw(sizes, rank, check_number("sparsity", zeros, 0.0, below=1.0), rng)


def _cp(
    shape: Shape, rank: Ranks, sparsity: float, rng: np.random.Generator
) -> np.ndarray:
    factors = []
    for size in shape:
        factor = rng.standard_normal((size, _n_terms(rank)))
        n_zeros = min(round(sparsity * size), size - 1)
        for column in factor.T:
            column[rng.permutation(size)[:n_zeros]] = 0.0
        factors.append(factor)
    return cp_to_tensor(factors)


def _tucker(
    shape: Shape, rank: Ranks, sparsity: float, rng: np.random.Generator
) -> np.ndarray:
    ranks = _tucker_ranks(shape, rank)
    tensor = rng.standard_normal((1, *ranks))
    for mode, (size, mode_rank) in enumerate(zip(shape, ranks, strict=True)):
        factor = rng.standard_normal((size, mode_rank))
        # As many rows as the rank stay, so that the factor keeps its rank.
        n_zeros = min(round(sparsity * size), size - mode_rank)
        factor[rng.permutation(size)[:n_zeros]] = 0.0
        tensor = mode_product(tensor, factor, mode)
    return tensor[0]


def _block(
    shape: Shape, rank: Ranks, sparsity: float, rng: np.random.Generator
) -> np.ndarray:
    n_boxes = _n_terms(rank)
    share = ((1.0 - sparsity) / n_boxes) ** (1.0 / len(shape))
    factors = []
    for size in shape:
        length = max(1, round(share * size))
        start = rng.integers(0, size - length + 1, n_boxes)
        place = np.arange(size)[:, None]
        factors.append(((place >= start) & (place < start + length)).astype(float))
    return cp_to_tensor(factors)


def _blob(
    shape: Shape, rank: Ranks, sparsity: float, rng: np.random.Generator
) -> np.ndarray:
    factors = []
    for size in shape:
        centre = rng.uniform(0.2, 0.8, _n_terms(rank)) * (size - 1)
        width = max(size / 8.0, 0.5)
        place = np.arange(size)[:, None]
        factors.append(np.exp(-0.5 * ((place - centre) / width) ** 2))
    coef = cp_to_tensor(factors)
    n_zeros = min(round(sparsity * coef.size), coef.size - 1)
    coef.flat[np.argsort(coef, axis=None, kind="stable")[:n_zeros]] = 0.0
    return coef


def _normal(
    shape: Shape, rank: Ranks, sparsity: float, rng: np.random.Generator
) -> np.ndarray:
    return _zeroed(rng.standard_normal(shape), sparsity, rng)


def _uniform(
    shape: Shape, rank: Ranks, sparsity: float, rng: np.random.Generator
) -> np.ndarray:
    return _zeroed(rng.random(shape), sparsity, rng)


def _zeroed(coef: np.ndarray, sparsity: float, rng: np.random.Generator) -> np.ndarray:
    n_zeros = min(round(sparsity * coef.size), coef.size - 1)
    coef.flat[rng.permutation(coef.size)[:n_zeros]] = 0.0
    return coef


_PAPER_NOISE = 0.1 * sqrt(0.1)

TRUTHS: dict[str, Truth] = {
    "cp": Truth(_cp, sparsity=0.5),
    "tucker": Truth(_tucker, sparsity=0.5),
    "block": Truth(_block, sparsity=0.9),
    "blob": Truth(_blob, sparsity=0.0),
    "sparse": Truth(_normal, sparsity=0.9),
    "paper": Truth(_normal, sparsity=0.8, noise=_PAPER_NOISE),
    "paper_code": Truth(_uniform, sparsity=0.8, noise=_PAPER_NOISE),
}


def _check_sizes(shape: Sequence[int]) -> Shape:
    sizes = _whole(shape)
    if not sizes or min(sizes) < 1:
        msg = f"shape={shape!r} was given; expected integers (p1, …, pM) above 0."
        raise ValueError(msg)
    return sizes


def _whole(numbers: Sequence[int]) -> Shape:
    """Return the integers, or none at all where some are not."""
    try:
        return tuple(operator.index(number) for number in numbers)
    except TypeError:
        return ()


def _n_terms(rank: Ranks) -> int:
    if not isinstance(rank, int | np.integer) or rank < 1:
        msg = f"rank={rank!r} was given; expected one integer of at least 1."
        raise ValueError(msg)
    return int(rank)


def _tucker_ranks(shape: Shape, rank: Ranks) -> Shape:
    if isinstance(rank, int | np.integer):
        ranks = tuple(min(_n_terms(rank), size) for size in shape)
        # A mode's rank cannot exceed the product of the others'.
        ranks = tuple(min(r, max(prod(ranks) // r, 1)) for r in ranks)
    else:
        ranks = _whole(rank)
    possible = len(ranks) == len(shape) and min(ranks) >= 1
    possible = possible and all(
        r <= min(size, max(prod(ranks) // r, 1))
        for r, size in zip(ranks, shape, strict=True)
    )
    if not possible:
        msg = (
            f"rank={rank!r} was given for shape {shape}; expected one rank for each "
            "mode, at most its size and the product of the other ranks."
        )
        raise ValueError(msg)
    return ranks


def check_number(
    name: str,
    value: Any,
    smallest: float,
    *,
    below: float = inf,
    largest: float | None = None,
    strict: bool = False,
    whole: bool = False,
) -> float:
    """Return a number in [smallest, below), or say what is wrong with it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    above = number > smallest if strict else number >= smallest
    fits = number.is_integer() or not whole
    if not (fits and above and (number < below or number == largest)):
        kind = "whole number" if whole else "number"
        bound = f"above {smallest}" if strict else f"of at least {smallest}"
        limit = f" and below {below}" if below < inf else ""
        msg = f"{name}={value!r} was given; expected a {kind} {bound}{limit}."
        raise ValueError(msg)
    return number
