"""SLTR from chunks of samples that come one after another and are not kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit

from sltr.arrays import Array, array_namespace, to_numpy
from sltr.estimators.base import tell_refit, warn_unless_converged
from sltr.estimators.labels import SMALLEST_SLOPE, indicators_among
from sltr.ridge import LARGEST_DIRECT
from sltr.ridge.moments import Moments, StreamedRidge, merge, moments
from sltr.ridge.penalty import choose_epsilon
from sltr.samples.samples import Samples
from sltr.tuning.candidates import own_candidate
from sltr.tuning.final import Member, SubsetFit, fit_subsets
from sltr.tuning.task import Task, solver_settings


def add_chunk(model: Any, samples: Samples, Y: Array) -> Moments:
    """Return the moments of what the model has seen, this chunk included."""
    if model.refine is not None:
        msg = (
            f"refine={model.refine!r} was given; partial_fit keeps no samples to refit "
            "on. Use refine=None, or fit."
        )
        raise ValueError(msg)
    n_features = samples.flat.shape[1]
    if n_features > LARGEST_DIRECT:
        msg = (
            f"Samples of {n_features} entries were given; partial_fit keeps a matrix "
            f"of that size squared and takes up to {LARGEST_DIRECT}. Use fit with X in "
            "a file, or shrink X."
        )
        raise ValueError(msg)
    seen = getattr(model, "_moments", None)
    new = samples.design.reduce_rows(moments, merge, [Y, samples.weight])
    if seen is None:
        _forget_fit(model)
        return new
    if type(seen.second) is not type(new.second):
        kinds = [type(part.second).__name__ for part in (new, seen)]
        msg = (
            f"A chunk of {kinds[0]} was given after chunks of {kinds[1]}; expected the "
            "same. Convert it."
        )
        raise ValueError(msg)
    return merge(seen, new)


def _forget_fit(model: Any) -> None:
    """Drop what an earlier fit found: it is of other samples, or of other classes."""
    seen = {"shape_in_", "n_features_in_", "feature_names_in_", "classes_"}
    for name in [n for n in vars(model) if n.endswith("_") and n not in seen]:
        delattr(model, name)


def fit_moments(model: Any, kept: Moments) -> SubsetFit:
    """Fit from moments: one subset, K responses; sets what a fit finds."""
    # For all that follows the mean, with the weight of everything, is the sample.
    xp = array_namespace(kept.second)
    mean, y_mean, weight = (
        xp.astype(part, kept.dtype) for part in (kept.x_mean, kept.y_mean, kept.weight)
    )
    mean, weight = xp.reshape(mean, (1, *model.shape_in_)), xp.reshape(weight, (1,))
    samples, Y = Samples(mean, y_mean[:1], weight), y_mean[None, :]
    system = StreamedRidge(kept, bool(model.fit_intercept))
    settings = solver_settings(model)
    task = Task(samples, Y, system, system.fit_intercept, model.radius, settings)
    model.epsilon_ = choose_epsilon(system, model.epsilon, weight)
    model.pilot_method_ = system.method
    member = Member(own_candidate(model))
    tell_refit(model, member, Y.shape[1])
    fit = fit_subsets(task, (weight > 0)[None, :], [member])
    converged, gap = to_numpy(fit.converged[0, :]), to_numpy(fit.gap[0, :])
    warn_unless_converged(converged.all(), gap.max(), settings.tol)
    model.dual_gap_, model.n_iter_ = float(gap.max()), int(to_numpy(fit.n_iter).max())
    return fit


def known_indicators(model: Any, y: Any, classes: Any) -> np.ndarray:
    """Return 0/1 responses of labels among the classes of the first call, or fit."""
    known = getattr(model, "classes_", None)
    if classes is not None and not hasattr(model, "_moments"):
        known = None
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
    model.classes_ = known
    return indicators_among(known, labels)


def moment_sigmoids(kept: Moments, coef: Array, intercept: Array) -> np.ndarray:
    """Return slopes and offsets (K, 2) of log-odds, from moments of the scores.

    With m₁ and m₀ the mean scores inside and outside a class, σ² their variance
    about these and π the share of the class, normal scores have the log-odds

        (m₁ − m₀)/σ² · (s − (m₁ + m₀)/2) + log(π/(1 − π)).
    """
    xp = array_namespace(coef)
    rows = to_numpy(xp.reshape(coef, (coef.shape[0], -1)))
    second, cross = to_numpy(kept.second), to_numpy(kept.cross)
    means = rows @ to_numpy(kept.x_mean) + to_numpy(intercept)
    weight, shares = float(kept.weight), to_numpy(kept.y_mean)
    found = []
    for k, row in enumerate(rows):
        share = float(np.clip(shares[k], 1 / (weight + 2), 1 - 1 / (weight + 2)))
        both = share * (1.0 - share)
        # The two classes' means lie about that of all scores.
        step = float(row @ cross[:, k]) / weight / both
        variance = float(row @ second @ row) / weight - both * step**2
        spread = max(variance, 1e-12) ** 0.5
        middle = means[k] + step * (0.5 - share)
        slope = max(step / spread, SMALLEST_SLOPE) / spread
        found.append((slope, float(logit(share)) - slope * middle))
    return np.array(found)
