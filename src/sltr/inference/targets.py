"""What all questions of this room need of a model and its samples before they fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from sltr.arrays import is_array_api
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.samples.samples import Samples, take_rows


def unwatched(model: Any) -> Any:
    """Return a copy that is not fitted, and tells nobody how far a fit is."""
    model = clone(model)
    return model.set_params(progress=None) if hasattr(model, "progress") else model


def refuse_missing(samples: Samples) -> None:
    """Refuse responses that were not measured."""
    if samples.measured is not None:
        msg = (
            "y has responses that are missing; expected a number for each, also with "
            "missing_y='ridge'. Leave these samples out."
        )
        raise ValueError(msg)


def fits_subsets_at_once(model: Any) -> bool:
    """Say whether one tuning of this model can be fitted to many subsets."""
    ours = isinstance(model, SLTRRegressorCV | SLTRClassifierCV)
    return ours and model.family is None


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some samples of an array or a table."""
    return take_rows(X, rows) if is_array_api(X) else X[rows]
