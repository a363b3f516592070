"""SLTR from chunks of samples that come one after another and are not kept.

Apart from the estimators because only their `partial_fit` needs it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sltr.arrays import Array, array_namespace, to_numpy
from sltr.estimators.labels import SMALLEST_SLOPE, indicators_among
from sltr.ridge import DEFAULT_LIMITS, RidgeLimits
from sltr.ridge.moments import Moments, StreamedRidge, merge, moments
from sltr.samples.check import check_plain
from sltr.samples.front import Front
from sltr.samples.samples import Samples
from sltr.tuning.task import Task

# What a fit may do to its samples beforehand, and what stands for nothing.
MAPS = {
    "mask": None,
    "missing": "error",
    "missing_y": "error",
    "standardize": None,
    "smooth": None,
}


def refuse_maps(model: Any) -> None:
    """Refuse what is learnt from all samples at once."""
    for name, default in MAPS.items():
        value = getattr(model, name, default)
        if value is not None and not (isinstance(value, str) and value == default):
            msg = (
                f"{name} was given; expected {default!r}, since chunks of partial_fit "
                "are not kept. Use fit."
            )
            raise ValueError(msg)


def squares_only(model: Any) -> bool:
    """Say whether a model is of least squares, which needs but moments of samples."""
    if model.family is not None:
        msg = (
            f"family={model.family!r} was given; expected None for partial_fit: a "
            "likelihood has to see all samples again. Use fit."
        )
        raise AttributeError(msg)
    return True


def add_chunk(
    seen: Moments | None,
    samples: Samples,
    Y: Array,
    refine: Any = None,
    limits: RidgeLimits = DEFAULT_LIMITS,
) -> Moments:
    """Return the moments of what was seen before, and of this chunk."""
    if refine is not None:
        msg = (
            f"refine={refine!r} was given; partial_fit keeps no samples to refit "
            "on. Use refine=None, or fit."
        )
        raise ValueError(msg)
    n_features = samples.flat.shape[1]
    if n_features > limits.largest_side:
        msg = (
            f"Samples of {n_features} entries were given; partial_fit keeps a matrix "
            f"of that size squared and takes up to {limits.largest_side}. Use fit with "
            "X in a file, or shrink X."
        )
        raise ValueError(msg)
    new = samples.design.reduce_rows(moments, merge, [Y, samples.weight])
    if seen is None:
        return new
    if type(seen.second) is not type(new.second):
        kinds = [type(part.second).__name__ for part in (new, seen)]
        msg = (
            f"A chunk of {kinds[0]} was given after chunks of {kinds[1]}; expected the "
            "same. Convert it."
        )
        raise ValueError(msg)
    return merge(seen, new)


def task_of_moments(model: Any) -> Task:
    """Return the task of an estimator that has moments in place of samples.

    The fit needs only their mean, with the weight of all of them, as one sample.
    """
    model._check_parameters()
    kept: Moments = model._moments
    front = Front(model.shape_in_)
    xp, unit = array_namespace(kept.second), None
    if kept.y_mean.shape[0] > 1 and not hasattr(model, "classes_"):
        kept, unit = _in_units(kept, bool(model.fit_intercept))
    mean, y_mean, weight = (
        xp.astype(part, kept.dtype) for part in (kept.x_mean, kept.y_mean, kept.weight)
    )
    mean, weight = xp.reshape(mean, (1, *model.shape_in_)), xp.reshape(weight, (1,))
    samples, Y = Samples(mean, y_mean[:1], weight), y_mean[None, :]
    system = StreamedRidge(kept, bool(model.fit_intercept))
    return Task(
        samples,
        Y,
        system,
        system.fit_intercept,
        model.radius,
        model._settings(front),
        front,
        y_unit=1.0 if unit is None else unit,
        shape_out=model._modes_out(Y),
    )


def _in_units(kept: Moments, fit_intercept: bool) -> tuple[Moments, np.ndarray]:
    """Return moments with responses in units of their standard deviations, (K,)."""
    xp = array_namespace(kept.second)
    squares = xp.linalg.diagonal(kept.y_second) / kept.weight
    if not fit_intercept:
        squares = squares + kept.y_mean**2
    unit = xp.where(squares > 0, xp.sqrt(squares), 1.0)
    scaled = replace(
        kept,
        y_mean=kept.y_mean / unit,
        cross=kept.cross / unit,
        y_second=kept.y_second / (unit[:, None] * unit),
    )
    return scaled, to_numpy(unit)


def known_classes(
    fitted: np.ndarray | None, classes: Any, y: Any, *, first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and 0/1 responses of labels that are among them.

    They are those of the first call, which must give them, or of an earlier `fit`.
    """
    classes = check_plain(classes, "classes")
    known = None if first and classes is not None else fitted
    if known is None and classes is None:
        msg = "classes=None was given; the first call of partial_fit needs all labels."
        raise ValueError(msg)
    if known is None:
        known = np.unique(np.asarray(classes))
    elif classes is not None and not np.array_equal(known, np.unique(classes)):
        msg = (
            f"classes={classes!r} was given; expected those of the first call, {known}."
        )
        raise ValueError(msg)
    labels = to_numpy(y)
    if len(known) < 2:
        msg = f"classes={known.tolist()} was given; expected at least two."
        raise ValueError(msg)
    if not np.isin(labels, known).all():
        unknown = np.setdiff1d(labels, known).tolist()
        msg = (
            f"Labels {unknown} were given with classes {known.tolist()}; expected "
            "labels among them."
        )
        raise ValueError(msg)
    return known, indicators_among(known, labels)


def moment_sigmoids(
    kept: Moments, coef: Array, intercept: Array, shift: float
) -> np.ndarray:
    """Return what `fit_sigmoids` does, from moments of the scores.

    With m_k the mean scores of class k, Σ the covariance about these and π_k the share
    of the class, normal scores s have the logits

        (s − m_k/2)ᵀΣ⁻¹m_k + log π_k.

    Of two classes, with one score, their difference is the log-odds. Means are about
    that of all scores.
    """
    xp = array_namespace(coef)
    rows = to_numpy(xp.reshape(coef, (coef.shape[0], -1)))
    second, cross = to_numpy(kept.second), to_numpy(kept.cross)
    middle = rows @ to_numpy(kept.x_mean) + to_numpy(intercept)
    # The responses are the classes' indicators, less a shift.
    weight, shares = float(kept.weight), to_numpy(kept.y_mean) + shift
    if len(rows) == 1:
        shares, cross = np.r_[1.0 - shares, shares], np.hstack([-cross, cross])
    shares = np.clip(shares, 1 / (weight + 2), 1 - 1 / (weight + 2))
    means = (rows @ cross / weight / shares).T  # (classes, scores)
    within = rows @ second @ rows.T / weight - (shares * means.T) @ means
    size = max(float(np.trace(within)) / len(rows), 1e-12)
    # The scores of all classes sum to a constant: one direction has no variance.
    floor = len(rows) / (weight + len(rows)) * size
    lines = np.linalg.solve(within + floor * np.eye(len(rows)), means.T).T
    offsets = np.log(shares) - (0.5 * means * lines).sum(axis=1) - lines @ middle
    found = np.column_stack([lines, offsets])
    if len(rows) > 1:
        return found
    slope, offset = found[1] - found[0]
    least = SMALLEST_SLOPE / size**0.5
    if slope < least:
        slope, offset = least, np.log(shares[1] / shares[0]) - least * middle[0]
    return np.array([[slope, offset]])
