"""What all questions of this room need of a model and its samples before they fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from sltr.arrays import Array, as_array, is_array_api
from sltr.estimators.labels import label_indicators, label_shift
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.parameters import refuse
from sltr.samples.samples import Samples, take_rows


@dataclass(frozen=True, eq=False)
class Targets:
    """Responses as regressions see them."""

    Y: Array  # (n, K); of labels, indicators
    classes: np.ndarray | None = None  # of labels
    shift: float = 0.0  # what regressions of labels subtract from them

    @classmethod
    def of(cls, samples: Samples, labels: bool, fit_intercept: bool) -> Targets:
        """Return the responses of samples, or indicators of their labels."""
        if not labels:
            return cls(samples.Y)
        classes, indicators = label_indicators(samples.y)
        shift = label_shift(indicators.shape[1], fit_intercept)
        return cls(as_array(indicators, samples.weight), classes, shift)


def unwatched(model: Any) -> Any:
    """Return a copy that is not fitted, and tells nobody how far a fit is."""
    model = clone(model)
    return model.set_params(progress=None) if hasattr(model, "progress") else model


def refuse_missing(samples: Samples) -> None:
    """Refuse responses that were not measured."""
    if samples.measured is not None:
        refuse("y", "responses that are missing", "a number for each")


def fits_subsets_at_once(model: Any) -> bool:
    """Say whether one tuning of this model can be fitted to many subsets."""
    ours = isinstance(model, SLTRRegressorCV | SLTRClassifierCV)
    return ours and model.family is None


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some samples of an array or a table."""
    return take_rows(X, rows) if is_array_api(X) else X[rows]
