"""Smooth modes: which neighbours along a mode should have similar coefficients.

A mode of size p gets a symmetric p × p matrix L with wᵀLw ≥ 0, small where w changes
little from neighbour to neighbour. The ridge of a coefficient W is then

    ε·vec(W)ᵀ (S_1 ⊗ … ⊗ S_M) vec(W),   S_m = I + s_m·L_m,

which is the plain ridge of w = W times every S_m^{1/2} along its mode, on samples times
every S_m^{-1/2}. So smoothness is a p_m × p_m transform of the samples.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Integral
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.parameters import (
    check_choice,
    check_nonnegative,
    check_sequence,
    one_or_more,
    refuse,
    unmasked,
)
from sltr.samples.labelled import Labels

SOURCES = ("coords", "positions", "laplacian")  # of what entries are neighbours
OPTIONS = ("strength", "order", "periodic", *SOURCES)
# Steps of the strengths that "auto" tries, from a quarter up to where the smoothest
# patterns alone are left.
FIRST_STRENGTH, STEP = 0.25, 4.0
# Of a strength times L: beyond this, the flat patterns alone have been left for long.
LARGEST = 1e100
# How many nearest sites are neighbours: those of a grid in two and three dimensions.
NEIGHBOURS = 6


@dataclass(frozen=True, eq=False)
class SmoothMode:
    """A mode's L by its eigenvalues and eigenvectors, and the strengths to try."""

    mode: int
    strengths: tuple[float, ...]  # one if it is given, else 0 and others
    values: np.ndarray  # (p,)
    vectors: np.ndarray  # (p, p)

    def root(self, strength: float) -> np.ndarray:
        """Return (I + s·L)^{-1/2}, the symmetric one: it blurs about each entry."""
        scale = 1.0 / np.sqrt(1.0 + strength * self.values)
        return (self.vectors * scale) @ self.vectors.T


def smooth_modes(
    smooth: Any, shape: tuple[int, ...], labels: Labels | None = None
) -> list[SmoothMode]:
    """Return the modes that a user's `smooth` asks for, checked.

    Samples may know the names of their modes, and the coordinates of their entries.

    Examples
    --------
    >>> [mode] = smooth_modes({-1: 2.0}, (5, 3))
    >>> mode.mode, mode.strengths, mode.values.round(6).tolist()
    (1, (2.0,), [0.0, 1.0, 3.0])
    >>> smooth_modes({"time": 1.0}, (5, 3))
    Traceback (most recent call last):
    ...
    ValueError: smooth names the mode 'time'; expected one of 0 to 1. ...
    """
    if not isinstance(smooth, Mapping):
        modes_given = one_or_more(smooth, "smooth")
        if not all(_may_name(mode) for mode in modes_given):
            refuse("smooth", smooth, "a dictionary of modes and strengths, or modes")
        smooth = {mode: "auto" for mode in modes_given}
    known = labels is not None and len(labels.names) == len(shape)
    names, coords = (labels.names, labels.coords) if labels and known else ((), ())
    modes: dict[int, SmoothMode] = {}
    for name, asked in smooth.items():
        mode = mode_number(name, shape, names)
        if mode in modes:
            refuse("smooth", smooth, f"mode {mode} once")
        options = dict(asked) if isinstance(asked, Mapping) else {"strength": asked}
        if coords and all(options.get(n) is None for n in SOURCES):
            options["coords"] = coords[mode]
        modes[mode] = _smooth_mode(mode, options, shape[mode])
    return list(modes.values())


def _may_name(mode: Any) -> bool:
    return isinstance(mode, Hashable) and not isinstance(mode, float | None)


def mode_number(
    name: Any, shape: tuple[int, ...], names: Sequence[str], asked: str = "smooth"
) -> int:
    """Return the number of a mode that is `asked` for by its number or its name."""
    if name in names:
        return list(names).index(name)
    whole = isinstance(name, Integral) and not isinstance(name, bool)
    if whole and -len(shape) <= name < len(shape):
        return int(name) % len(shape)
    known = f" or {', '.join(map(repr, names))}" if names else ""
    msg = (
        f"{asked} names the mode {name!r}; expected one of 0 to {len(shape) - 1}"
        f"{known}. Modes count from 0, without the samples; samples without names have "
        "numbers alone."
    )
    raise ValueError(msg)


def _smooth_mode(mode: int, options: dict, size: int) -> SmoothMode:
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        refuse(f"smooth[{mode}]", options, f"options among {', '.join(OPTIONS)}")
    if size < 2:
        msg = (
            f"smooth asks for mode {mode}, which has one entry; expected at least two. "
            "Leave it out."
        )
        raise ValueError(msg)
    laplacian = _laplacian(mode, size, options)
    values, vectors = np.linalg.eigh(laplacian)
    values = np.where(values > 1e-12 * max(values[-1], 1e-300), values, 0.0)
    return SmoothMode(mode, _strengths(mode, options, values), values, vectors)


def _strengths(mode: int, options: dict, values: np.ndarray) -> tuple[float, ...]:
    """Return the strengths to try; 0 is always one of several."""
    strength, name = options.get("strength", "auto"), f"smooth[{mode}]"
    if isinstance(strength, str):
        check_choice(name, strength, ("auto",))
        some = values[values > 0]
        # At the last one even the smoothest pattern but the flat ones is held back.
        last = 10.0 / some[0] if len(some) else 0.0
        found, next_one = [0.0], FIRST_STRENGTH
        while next_one <= last:
            found.append(next_one)
            next_one *= STEP
        return tuple(found)
    single = np.ndim(strength) == 0
    asked = [strength] if single else check_sequence(strength, name)
    given = {check_nonnegative(s, name) for s in asked}
    if max(given) > LARGEST / max(float(values[-1]), 1.0):
        refuse(name, strength, f"strengths whose product with L is below {LARGEST:g}")
    return tuple(given) if single else tuple(sorted({0.0, *given}))


def _laplacian(mode: int, size: int, options: dict) -> np.ndarray:
    """Return L of one mode, from what is known of its entries."""
    sources = [name for name in SOURCES if options.get(name) is not None]
    ordered = [name for name in ("order", "periodic") if options.get(name)]
    if len(sources) > 1 or (sources and sources != ["coords"] and ordered):
        refuse(
            f"smooth[{mode}]",
            {name: "…" for name in (*sources, *ordered)},
            "coords with order and periodic, or positions, or laplacian",
        )
    if sources == ["laplacian"]:
        return _given_laplacian(mode, size, options["laplacian"])
    if sources == ["positions"]:
        return _site_laplacian(mode, size, options["positions"])
    order = options.get("order", 1)
    if order not in (1, 2) or isinstance(order, bool):
        refuse(f"order of smooth[{mode}]", order, "1 or 2")
    coords = _coords(mode, size, options.get("coords"))
    return difference_penalty(coords, order, _last_gap(mode, coords, options))


def _coords(mode: int, size: int, coords: Any) -> np.ndarray:
    """Return the places of a mode's entries, in this order; 0, 1, … by default."""
    if coords is None:
        return np.arange(float(size))
    given = np.asarray(to_numpy(unmasked(coords, "coords")))
    if given.dtype.kind in "mM":  # times count in their own units
        given = (given - given.flat[0]).astype(float)
    if given.dtype.kind not in "biuf":
        msg = (
            f"coords of smooth[{mode}] hold {given.dtype}; expected numbers in order. "
            "For entries without an order give positions or laplacian."
        )
        raise ValueError(msg)
    given = given.astype(float)
    steps = np.diff(given) if given.ndim == 1 else np.zeros(1)
    if steps.size and steps.max() < 0:  # falling ones, such as voltages
        given, steps = -given, -steps
    if given.shape != (size,) or not np.isfinite(given).all() or steps.min() <= 0:
        msg = (
            f"coords of smooth[{mode}] have shape {given.shape} and a smallest step "
            f"of {steps.min():g}; expected {size} finite numbers that only rise or "
            "only fall. Sort the mode, or leave coords out."
        )
        raise ValueError(msg)
    return given


def _last_gap(mode: int, coords: np.ndarray, options: dict) -> float:
    """Return the way from the last entry back to the first; infinite without one."""
    periodic, length = options.get("periodic", False), coords[-1] - coords[0]
    if periodic is None or periodic is False:
        return inf
    if periodic is True:
        return float(length / (len(coords) - 1))
    gap = check_nonnegative(periodic, f"periodic of smooth[{mode}]") - length
    if gap <= 0:
        expected = f"True, or a period above {length:g}, the length of the coords"
        refuse(f"periodic of smooth[{mode}]", periodic, expected)
    return float(gap)


def difference_penalty(
    coords: np.ndarray, order: int = 1, last_gap: float = inf
) -> np.ndarray:
    """Return L with wᵀLw the integral of the squared derivative, spacing one.

    Differences are divided by the distances of their entries, in units of their mean;
    the mode is a circle if `last_gap` is finite.

    Examples
    --------
    >>> difference_penalty(np.arange(3.0))
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    circle, n = np.isfinite(last_gap), len(coords)
    gaps = np.append(np.diff(coords), [last_gap] if circle else [])
    gaps = gaps / gaps.mean()
    slopes = (np.roll(np.eye(n), 1, axis=1) - np.eye(n))[: len(gaps)] / gaps[:, None]
    if order == 1:
        return slopes.T @ (gaps[:, None] * slopes)
    bends = np.roll(slopes, -1, axis=0) - slopes
    spans = (np.roll(gaps, -1) + gaps) / 2.0
    if not circle:
        bends, spans = bends[:-1], spans[:-1]
    return bends.T @ (bends / spans[:, None])


def _site_laplacian(mode: int, size: int, positions: Any) -> np.ndarray:
    """Return the graph Laplacian of sites, each joined to its nearest ones.

    Weights fall with the squared distance, in units of the median distance to the
    nearest site; a site that is far from all others is joined all the same.
    """
    sites = np.asarray(to_numpy(unmasked(positions, "positions")), dtype=float)
    sites = sites[:, None] if sites.ndim == 1 else sites
    if sites.ndim != 2 or len(sites) != size or not np.isfinite(sites).all():
        msg = (
            f"positions of smooth[{mode}] have shape {sites.shape}; expected finite "
            f"numbers, one row for each of {size} sites."
        )
        raise ValueError(msg)
    distance = np.sqrt(((sites[:, None, :] - sites[None, :, :]) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    unit = np.median(distance.min(axis=1))
    unit = unit if unit > 0 else 1.0
    # As many as are at the same distance as the last of the nearest.
    k = min(NEIGHBOURS, size - 1)
    reach = np.sort(distance, axis=1)[:, k - 1] * (1.0 + 1e-9)
    near = distance <= np.minimum(reach, 2.0 * distance.min(axis=1))[:, None]
    weight = np.where(near | near.T, np.exp(0.5 - 0.5 * (distance / unit) ** 2), 0.0)
    weight = np.where(near | near.T, np.maximum(weight, 1e-2), 0.0)
    return np.diag(weight.sum(axis=1)) - weight


def _given_laplacian(mode: int, size: int, laplacian: Any) -> np.ndarray:
    matrix = np.asarray(to_numpy(unmasked(laplacian, "laplacian")), dtype=float)
    right = matrix.shape == (size, size) and bool(np.isfinite(matrix).all())
    scale = np.abs(matrix).max() if right else 0.0
    right = right and np.abs(matrix - matrix.T).max() <= 1e-8 * scale
    if not right or np.linalg.eigvalsh(matrix)[0] < -1e-8 * max(scale, 1e-300):
        msg = (
            f"laplacian of smooth[{mode}] has shape {matrix.shape}; expected a "
            f"symmetric {size} × {size} matrix of finite numbers without negative "
            "eigenvalues, such as degrees less adjacencies."
        )
        raise ValueError(msg)
    return (matrix + matrix.T) / 2.0
