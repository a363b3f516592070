"""Simulated samples and responses, from coefficients of several kinds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.core.tensor import contract, cp_to_tensor, mode_product

Shape = tuple[int, ...]
Ranks = int | Sequence[int]
Rng = np.random.Generator


def make_tensor_regression(
    shape: Sequence[int],
    n_samples: int,
    *,
    truth: str = "cp",
    rank: Ranks = 2,
    sparsity: float | None = None,
    noise: float | None = None,
    snr: float | None = None,
    correlation: float | Sequence[float] = 0.0,
    missing: float = 0.0,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> Bunch:
    """Simulate y_i = ⟨W, X_i⟩ + noise with a structured coefficient W.

    The samples are Gaussian with mean 0 and variance 1. The coefficient depends
    on `random_state`, `shape` and the options of the truth alone: more samples,
    other noise or another correlation leave it as it is.

    Parameters
    ----------
    shape : sequence of int
        Shape (p1, …, pM) of a sample.
    n_samples : int
    truth : {"cp", "tucker", "block", "blob", "sparse", "paper", "paper_code"}
        "cp": a sum of `rank` outer products of sparse normal factors;
        "tucker": a normal core of size `rank` and normal factors with zero rows;
        "block": a sum of `rank` boxes of constant value 1;
        "blob": a sum of `rank` smooth Gaussian bumps of height 1;
        "sparse": normal entries, most of them zero, no further structure;
        "paper": the same as the text of [1]_ states it, 80 % zeros;
        "paper_code": as in the code released with [1]_, uniform on [0, 1] in
        place of normal.
    rank : int or sequence of int
        The number of terms; for "tucker" the ranks of the modes (one number
        stands for all of them, as far as the mode is long enough). Not used by
        the unstructured truths.
    sparsity : float in [0, 1), optional
        Fraction of zeros: in each factor for "cp" (default 0.5) and "tucker"
        (rows, default 0.5), in the coefficient for the others ("block": about,
        for boxes that do not overlap; defaults: "block" 0.9, "blob" 0, "sparse"
        0.9, "paper" and "paper_code" 0.8).
    noise : float, optional
        Standard deviation of the noise. Default: 0.1; 0.1·√0.1 for "paper" and
        "paper_code", where the text has 0.1·N(0, 0.1), read as a variance of 0.1.
    snr : float, optional
        In place of `noise`: the variance of ⟨W, X_i⟩, as the population has it,
        over that of the noise.
    correlation : float or sequence of float
        Autocorrelation ρ along each mode (or one for all): entries i and j of a
        mode have correlation ρ^|i−j|, and modes multiply.
    missing : float in [0, 1)
        Probability that an entry of X is replaced by NaN (after y is computed).
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,), `coef` (p1, …, pM), `signal` (n,), the
        responses without noise, and `noise`, the standard deviation used.

    References
    ----------
    .. [1] Zhang, Cai, Wang, Wang, "Sparse and Low-Rank High-Order Tensor
       Regression via Parallel Proximal Method", section "Simulated Data".

    Examples
    --------
    >>> data = make_tensor_regression((8, 6, 4), 50, truth="block", random_state=0)
    >>> data.X.shape, data.y.shape, data.coef.shape
    ((50, 8, 6, 4), (50,), (8, 6, 4))
    >>> paper = make_tensor_regression((10, 10, 5), 40, truth="paper", random_state=0)
    >>> float((paper.coef == 0).mean())
    0.8
    """
    if noise is not None and snr is not None:
        msg = f"noise={noise!r} and snr={snr!r} were given; expected one of them."
        raise ValueError(msg)
    rngs = _generator(random_state).spawn(4)
    coef = draw_coef(shape, truth, rank, sparsity, rngs[0])
    X, roots = _draw_samples(coef.shape, n_samples, correlation, rngs[1])
    signal = contract(X, coef[None])[:, 0]
    if snr is not None:
        ratio = check_number("snr", snr, 0.0, strict=True)
        level = _signal_sd(coef, roots) / sqrt(ratio)
    else:
        usual = TRUTHS[truth].noise
        level = check_number("noise", usual if noise is None else noise, 0.0)
    y = signal + level * rngs[2].standard_normal(len(signal))
    X = _drop_entries(X, missing, rngs[3])
    return Bunch(X=X, y=y, coef=coef, signal=signal, noise=level)


def make_tensor_classification(
    shape: Sequence[int],
    n_samples: int,
    *,
    truth: str = "cp",
    rank: Ranks = 2,
    sparsity: float | None = None,
    strength: float = 5.0,
    correlation: float | Sequence[float] = 0.0,
    missing: float = 0.0,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> Bunch:
    """Simulate labels with log-odds ⟨W, X_i⟩, W structured.

    Samples and coefficient are those of `make_tensor_regression`; the coefficient
    is then scaled so that the log-odds have standard deviation `strength`.

    Parameters
    ----------
    shape, n_samples, truth, rank, sparsity, correlation, missing, random_state
        As in `make_tensor_regression`.
    strength : float
        Infinity makes the label the sign of the score, without noise (and leaves
        the coefficient unscaled).

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,) of 0 and 1, `coef` (p1, …, pM) and `proba`
        (n,), the probability of label 1.

    Examples
    --------
    >>> data = make_tensor_classification((6, 5), 30, random_state=0)
    >>> sorted(set(data.y.tolist()))
    [0, 1]
    """
    rngs = _generator(random_state).spawn(4)
    coef = draw_coef(shape, truth, rank, sparsity, rngs[0])
    X, roots = _draw_samples(coef.shape, n_samples, correlation, rngs[1])
    strength = check_number("strength", strength, 0.0, largest=inf)
    if strength < inf:
        coef = coef * (strength / _signal_sd(coef, roots))
    score = contract(X, coef[None])[:, 0]
    if strength < inf:
        proba = 0.5 * (1.0 + np.tanh(0.5 * score))
    else:
        proba = (score > 0).astype(float)
    y = (rngs[2].random(len(score)) < proba).astype(np.int64)
    return Bunch(X=_drop_entries(X, missing, rngs[3]), y=y, coef=coef, proba=proba)


def _draw_samples(
    shape: Shape,
    n_samples: int,
    correlation: float | Sequence[float],
    rng: Rng,
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """Return samples and, per mode, the root L of its correlation (None: identity)."""
    n_rows = int(check_number("n_samples", n_samples, 1.0, whole=True))
    try:
        rhos = np.broadcast_to(np.asarray(correlation, float), (len(shape),))
    except (TypeError, ValueError):
        rhos = np.array([np.nan])
    if not np.all(np.abs(rhos) < 1.0):
        msg = (
            f"correlation={correlation!r} was given for samples of shape {shape}; "
            "expected a number between −1 and 1, or one for each mode."
        )
        raise ValueError(msg)
    X = rng.standard_normal((n_rows, *shape))
    roots = [_ar1_root(p, rho) for p, rho in zip(shape, rhos, strict=True)]
    for mode, root in enumerate(roots):
        X = X if root is None else mode_product(X, root, mode)
    return np.ascontiguousarray(X), roots


def _ar1_root(size: int, rho: float) -> np.ndarray | None:
    if rho == 0.0:
        return None
    place = np.arange(size)
    return np.linalg.cholesky(rho ** np.abs(place[:, None] - place))


def _signal_sd(coef: np.ndarray, roots: list[np.ndarray | None]) -> float:
    """Return the standard deviation of ⟨W, X⟩: the norm of W times the roots."""
    tensor = coef[None]
    for mode, root in enumerate(roots):
        tensor = tensor if root is None else mode_product(tensor, root.T, mode)
    return float(np.linalg.norm(tensor))


def _drop_entries(X: np.ndarray, missing: float, rng: Rng) -> np.ndarray:
    share = check_number("missing", missing, 0.0, below=1.0)
    return X if share == 0.0 else np.where(rng.random(X.shape) < share, np.nan, X)


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**32, dtype=np.uint64))
    return np.random.default_rng(random_state)


@dataclass(frozen=True)
class Truth:
    """How to draw a coefficient, and the defaults that go with it."""

    draw: Callable[[Shape, Ranks, float, np.random.Generator], np.ndarray]
    sparsity: float
    noise: float = 0.1


def draw_coef(
    shape: Sequence[int], truth: str, rank: Ranks, sparsity: float | None, rng: Rng
) -> np.ndarray:
    """Draw a coefficient of `shape`; without `sparsity` the truth's own is used."""
    if truth not in TRUTHS:
        msg = f"truth={truth!r} was given; expected one of {sorted(TRUTHS)}."
        raise ValueError(msg)
    sizes = _whole(shape)
    if not sizes or min(sizes) < 1:
        msg = f"shape={shape!r} was given; expected integers (p1, …, pM) above 0."
        raise ValueError(msg)
    kind = TRUTHS[truth]
    zeros = kind.sparsity if sparsity is None else sparsity
    return kind.draw(sizes, rank, check_number("sparsity", zeros, 0.0, below=1.0), rng)


def _cp(shape: Shape, rank: Ranks, sparsity: float, rng: Rng) -> np.ndarray:
    factors = []
    for size in shape:
        factor = rng.standard_normal((size, _n_terms(rank)))
        n_zeros = min(round(sparsity * size), size - 1)
        for column in factor.T:
            column[rng.permutation(size)[:n_zeros]] = 0.0
        factors.append(factor)
    return cp_to_tensor(factors)


def _tucker(shape: Shape, rank: Ranks, sparsity: float, rng: Rng) -> np.ndarray:
    ranks = _tucker_ranks(shape, rank)
    tensor = rng.standard_normal((1, *ranks))
    for mode, (size, mode_rank) in enumerate(zip(shape, ranks, strict=True)):
        factor = rng.standard_normal((size, mode_rank))
        # As many rows as the rank stay, so that the factor keeps its rank.
        n_zeros = min(round(sparsity * size), size - mode_rank)
        factor[rng.permutation(size)[:n_zeros]] = 0.0
        tensor = mode_product(tensor, factor, mode)
    return tensor[0]


def _block(shape: Shape, rank: Ranks, sparsity: float, rng: Rng) -> np.ndarray:
    n_boxes = _n_terms(rank)
    share = ((1.0 - sparsity) / n_boxes) ** (1.0 / len(shape))
    factors = []
    for size in shape:
        length = max(1, round(share * size))
        start = rng.integers(0, size - length + 1, n_boxes)
        place = np.arange(size)[:, None]
        factors.append(((place >= start) & (place < start + length)).astype(float))
    return cp_to_tensor(factors)


def _blob(shape: Shape, rank: Ranks, sparsity: float, rng: Rng) -> np.ndarray:
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


def _normal(shape: Shape, rank: Ranks, sparsity: float, rng: Rng) -> np.ndarray:
    return _zeroed(rng.standard_normal(shape), sparsity, rng)


def _uniform(shape: Shape, rank: Ranks, sparsity: float, rng: Rng) -> np.ndarray:
    return _zeroed(rng.random(shape), sparsity, rng)


def _zeroed(coef: np.ndarray, sparsity: float, rng: Rng) -> np.ndarray:
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
