"""The map in front of a fit, and back: mask, units of entries, smooth modes.

It is one linear map, which samples go through before everything else, and coefficients
afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.arrays.resources import row_ranges
from sltr.core.tensor import mode_product
from sltr.samples.centring import Centring
from sltr.samples.samples import Samples, is_lazy

if TYPE_CHECKING:
    from sltr.samples.smooth import SmoothMode

# Where the mask leaves fewer entries than this share, products skip the others.
SPARSE_MASK = 0.75


@dataclass(frozen=True, eq=False)
class Front:
    """A linear map of samples, and the map of coefficients back: ⟨W, x⟩ = ⟨w, map x⟩.

    Entries outside the mask become zero, and slices that lie outside are left out;
    the rest is divided by its scale, then multiplied by a symmetric matrix along each
    smooth mode. Coefficients of the mapped samples take the same way back.
    """

    shape: tuple[int, ...]  # of a sample as it was given
    kept: np.ndarray | None = None  # of this shape, true inside the mask
    scale: Array | None = None  # of the shape in front
    strengths: Mapping[int, float] = field(default_factory=dict)
    roots: Mapping[int, np.ndarray] = field(default_factory=dict)
    standardize: str | None = None
    modes: tuple[int, ...] = ()  # smooth ones, which keep all slices
    varies: bool = True  # else the samples say nothing, and become zero
    cuts: bool = True  # else slices outside the mask stay, as zeros

    @cached_property
    def slices(self) -> dict[int, np.ndarray]:
        """The slices that are kept, of the modes that lose some."""
        if self.kept is None or not self.cuts:
            return {}
        found = {}
        for mode, size in enumerate(self.shape):
            others = tuple(m for m in range(len(self.shape)) if m != mode)
            used = np.flatnonzero(self.kept.any(axis=others))
            if 0 < len(used) < size and mode not in self.modes:
                found[mode] = used
        return found

    @cached_property
    def inverses(self) -> dict[int, np.ndarray]:
        """The inverses of the roots."""
        return {mode: np.linalg.inv(root) for mode, root in self.roots.items()}

    def samples(self, samples: Samples) -> Samples:
        """Return the samples in front of which this map stands, mapped."""
        if not self.varies:
            return replace(samples, X=0.0 * self.cut(samples.X))
        if self.kept is None and self.scale is None and not self.roots:
            return samples
        if is_lazy(samples.X):
            from sltr.samples.mapped import in_place

            return replace(samples, X=in_place(samples.X, self))
        X = self.cut(samples.X)
        xp = array_namespace(X)
        if self.scale is not None:
            X = X / self.scale
        for mode, root in self.roots.items():
            X = mode_product(X, as_array(root, X), mode)
        support = None
        if self.kept is not None and not self.roots:
            inside = self.in_front(self.kept)
            if inside.mean() < SPARSE_MASK:
                support = as_array(np.flatnonzero(inside), X, dtype=xp.int64)
        return replace(samples, X=X, support=support)

    def cut(self, X: Array) -> Array:
        """Return samples (n, p1, …, pM) with zeros outside the mask, and cut."""
        if self.kept is None:
            return X
        xp = array_namespace(X)
        X = xp.where(as_array(self.kept, X, dtype=xp.bool), X, 0.0)
        for mode, rows in self.slices.items():
            X = xp.take(X, as_array(rows, X, dtype=xp.int64), axis=mode + 1)
        return X

    def scale_of_given(self) -> np.ndarray | None:
        """Return what entries of samples as they were given are divided by, if any."""
        if self.scale is None:
            return None
        every = (np.arange(size) for size in self.shape)
        rows = [self.slices.get(mode, all_) for mode, all_ in enumerate(every)]
        scale = np.ones(self.shape)
        scale[np.ix_(*rows)] = to_numpy(self.scale)
        return scale

    def in_front(self, values: np.ndarray) -> np.ndarray:
        """Return what belongs to the entries of a sample, cut as samples are."""
        for mode, rows in self.slices.items():
            values = np.take(values, rows, axis=mode)
        return values

    def unsmoothed(self, coef: Array) -> Array:
        """Return coefficients (S, K, …) of the samples before modes were smoothed.

        Smooth modes mix entries: only these have zeros where the given entries do.
        """
        for mode, root in self.roots.items():
            coef = mode_product(coef, as_array(root, coef), mode + 1)
        return coef

    def smoothed(self, coef: Array) -> Array:
        """Undo `unsmoothed`: return coefficients (S, K, …) of the mapped samples."""
        for mode, inverse in self.inverses.items():
            coef = mode_product(coef, as_array(inverse, coef), mode + 1)
        return coef

    def of_given(self, coef: Array) -> Array:
        """Return `unsmoothed` coefficients (S, K, …) for samples as they were given."""
        xp = array_namespace(coef)
        if self.scale is not None:
            coef = coef / as_array(self.scale, coef)
        if self.kept is None:
            return coef
        for mode, rows in self.slices.items():
            # Slices that were left out take the slice of zeros at the end.
            axis, first = mode + 2, as_array([0], coef, dtype=xp.int64)
            nothing = 0.0 * xp.take(coef, first, axis=axis)
            padded = xp.concat([coef, nothing], axis=axis)
            index = np.full(self.shape[mode], len(rows))
            index[rows] = np.arange(len(rows))
            coef = xp.take(padded, as_array(index, coef, dtype=xp.int64), axis=axis)
        return xp.where(as_array(self.kept, coef, dtype=xp.bool), coef, 0.0)


@dataclass(frozen=True, eq=False)
class FrontPlan:
    """The maps that may stand in front of a fit: what is known before one is chosen."""

    plain: Front  # the mask alone
    scales: Mapping[str | None, Array | None]  # of entries in front: one, or several
    modes: tuple[SmoothMode, ...]

    def front(self, standardize: str | None, strengths: Mapping[int, float]) -> Front:
        """Return the map with these units and strengths."""
        some = {mode: s for mode, s in strengths.items() if s > 0}
        by_mode = {smooth.mode: smooth for smooth in self.modes}
        return replace(
            self.plain,
            scale=self.scales[standardize],
            standardize=standardize,
            strengths=dict(strengths),
            roots={mode: by_mode[mode].root(s) for mode, s in some.items()},
        )

    @property
    def several(self) -> bool:
        """Whether there is a choice."""
        return len(self.scales) > 1 or any(len(m.strengths) > 1 for m in self.modes)

    @property
    def first(self) -> Front:
        """The map nearest to none: the given units and strengths, or none and zero."""
        strengths = {smooth.mode: smooth.strengths[0] for smooth in self.modes}
        return self.front(next(iter(self.scales)), strengths)


def front_plan(
    samples: Samples,
    *,
    fit_intercept: bool = True,
    standardize: Any = None,
    smooth: Any = None,
) -> FrontPlan:
    """Return the maps that these settings allow for some samples, filled and masked.

    Entries that never vary are outside the mask, and so are those that covariates
    explain: beside these, and an intercept, they say nothing. Responses are not looked
    at, and samples that stay in a file or on a cluster only for their deviations.
    """
    modes: tuple[SmoothMode, ...] = ()
    if smooth is not None:
        from sltr.samples.smooth import smooth_modes

        modes = tuple(smooth_modes(smooth, samples.shape, samples.labels))
    lazy = is_lazy(samples.X)
    # To find what never varies would take a pass; it has a coefficient of zero anyway.
    kept, varies = samples.kept, True
    if not lazy:
        varying = _varying(samples, fit_intercept)
        varies = bool(varying.any())
        kept = varying if varies and not varying.all() else kept
    # Slices of a file are not cut out: what is left would not lie in whole chunks.
    smoothed = tuple(smooth.mode for smooth in modes)
    plain = Front(samples.shape, kept, modes=smoothed, varies=varies, cuts=not lazy)
    return FrontPlan(plain, _scales(plain, samples, standardize, fit_intercept), modes)


def _scales(
    plain: Front, samples: Samples, standardize: str | None, fit_intercept: bool
) -> dict[str | None, Array | None]:
    """Return what entries may be divided by, the first choice first."""
    if standardize is None:
        return {None: None}
    if is_lazy(samples.X):
        found = _stored_deviation(plain.samples(samples), fit_intercept)
    else:
        found = _deviation(plain, samples, fit_intercept)
    names = ("slices", "entries") if standardize == "auto" else (standardize,)
    return {name: SCALES[name](*found) for name in names}


def _varying(samples: Samples, fit_intercept: bool) -> np.ndarray:
    """Return which entries are inside the mask and vary."""
    xp, X = array_namespace(samples.X), samples.X
    first = X[:1, ...] if fit_intercept else 0.0
    varies = xp.any(first != X, axis=0)
    if samples.covariates is not None:
        centring = Centring(samples.weight, fit_intercept, samples.covariates)
        rest = centring.gather(samples.flat)
        varies = varies & xp.reshape(xp.any(rest != 0.0, axis=0), samples.shape)
    varies = to_numpy(varies)
    return varies if samples.kept is None else varies & samples.kept


LEAST_DEVIATION = 0.01  # of the largest value in an entry's slice
# Of the spread of a slice, what its entries are divided by. All of it would make noise
# as large as signal, and none of it leaves the answer to the units.
SLICE_POWER = 1.0 / 3.0
# Of the largest spread of a mode: slices below count as this large. Else a channel that
# hardly ever moves among the training samples would be far off when it does.
LEAST_SPREAD = 0.01
BLOCK_ENTRIES = 2_000_000  # of samples that are looked at together


def _deviation(plain: Front, samples: Samples, about_mean: bool) -> tuple[Array, Array]:
    """Return the standard deviation of each entry, and its largest size."""
    X, weight = samples.X, samples.weight
    xp = array_namespace(X)
    share = xp.reshape(weight / xp.sum(weight), (-1, *([1] * (X.ndim - 1))))
    first = plain.cut(X[:1, ...]) if about_mean else 0.0
    mean, variance, size = 0.0, 0.0, 0.0
    # Some rows at a time: a copy of all of them may not fit.
    parts = row_ranges(X.shape[0], BLOCK_ENTRIES // prod(X.shape[1:]))
    if about_mean:
        for rows in parts:
            rest = plain.cut(X[rows, ...]) - first
            mean = mean + xp.sum(share[rows, ...] * rest, axis=0)
    for rows in parts:
        part = plain.cut(X[rows, ...])
        rest = (part - first) - mean
        variance = variance + xp.sum(share[rows, ...] * rest**2, axis=0)
        largest = xp.max(xp.abs(part), axis=0)
        size = xp.maximum(largest, size + 0.0 * largest)
    return xp.sqrt(variance), size


def _stored_deviation(
    samples: Samples, about_mean: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Do what `_deviation` does, in one pass over samples that stay where they are."""
    from sltr.samples.check import check_squares

    X, weight = samples.X, samples.weight
    [first] = X.take(np.array([0])).map_rows(np.array, ())
    first = first[0] if about_mean else 0.0 * first[0]
    found = X.reduce_rows(_sums_about, _merged_sums, [weight], [first])
    # Nothing has looked at them before.
    check_squares(float(found[2].max()), weight, "X")
    mean, square = found[0] / weight.sum(), found[1] / weight.sum()
    variance = np.maximum(square - mean**2 if about_mean else square, 0.0)
    pair = np.stack([np.sqrt(variance), found[2]]).astype(X.dtype)
    deviation, size = pair.reshape(2, *samples.shape)
    return deviation, size


def _sums_about(X: np.ndarray, weight: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return weighted sums of X − row and its squares, and the largest |X|, (3, P)."""
    with np.errstate(over="ignore", invalid="ignore"):  # the largest one says why
        rest = X.astype(float) - row
        return np.stack([weight @ rest, weight @ rest**2, np.abs(X).max(axis=0)])


def _merged_sums(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        sums = one[:2] + other[:2]
    return np.stack([*sums, np.maximum(one[2], other[2])])


def _more_than_rounding(deviation: Array, size: Array) -> Array:
    return deviation > 10.0 * float(array_namespace(size).finfo(size.dtype).eps) * size


def _entry_scale(deviation: Array, size: Array) -> Array:
    """Return the standard deviation of each entry; one where it is but rounding.

    An entry that varies by less than a per cent of what its slices hold counts as
    varying by that much. Else a set point that one new sample misses, or a sensor that
    is off in all but one, were a thousand deviations off.
    """
    xp = array_namespace(deviation)
    least = xp.maximum(deviation, LEAST_DEVIATION * _slice_size(size))
    return xp.where(_more_than_rounding(deviation, size), least, 1.0)


def _slice_size(size: Array) -> Array:
    """Return the largest value in the slices of each entry, the smallest over modes.

    Units belong to slices: to sensors, channels or antigens.
    """
    xp = array_namespace(size)
    found = []
    for mode in range(size.ndim):
        others = tuple(m for m in range(size.ndim) if m != mode)
        found.append(xp.max(size, axis=others, keepdims=True) if others else size)
    least = 0.0 * size + found[0]
    for other in found[1:]:
        least = xp.minimum(least, 0.0 * size + other)
    return least


def _slice_scale(deviation: Array, size: Array) -> Array:
    """Return a product over modes: of the spread of an entry's slices, the cube roots.

    The spread of a slice is the root mean variance of its entries that vary, relative
    to the largest along its mode. A product of factors along modes keeps ranks and
    zeros as they are.
    """
    xp = array_namespace(deviation)
    varies = _more_than_rounding(deviation, size)
    # Squares of what is tiny may vanish.
    unit = _or_one(xp.max(xp.where(varies, deviation, 0.0)))
    variance = xp.where(varies, deviation / unit, 0.0) ** 2
    varies = xp.astype(varies, deviation.dtype)
    scale = xp.ones_like(deviation)
    for mode in range(deviation.ndim):
        others = tuple(m for m in range(deviation.ndim) if m != mode)
        count = xp.sum(varies, axis=others, keepdims=True)
        spread = xp.sqrt(xp.sum(variance, axis=others, keepdims=True))
        spread = spread / xp.sqrt(xp.where(count > 0, count, 1.0))
        # Slices that never vary say nothing, and keep their units.
        spread = xp.maximum(
            spread / _or_one(xp.max(spread)), LEAST_SPREAD + 0.0 * spread
        )
        scale = scale * xp.where(count > 0, spread, 1.0) ** SLICE_POWER
    return scale


def _or_one(x: Array) -> Array:
    return array_namespace(x).where(x > 0, x, 1.0)


SCALES = {"slices": _slice_scale, "entries": _entry_scale}
