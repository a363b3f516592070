"""The kind of a response, and a method's estimator that tunes itself for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from sltr.models.registry import Method

__all__ = ["group_folds", "is_classification", "response_kind", "tuned_model"]


def is_classification(y: Any) -> bool:
    """Say whether responses are labels: words, truth values, or just two values.

    Examples
    --------
    >>> is_classification(["a", "b"]), is_classification([0, 1, 1])
    (True, True)
    >>> is_classification([0.0, 0.5, 2.0])
    False
    """
    values = np.asarray(y)
    return values.dtype.kind not in "iuf" or len(np.unique(values)) <= 2


def response_kind(y: Any, classification: bool | None = None) -> str:
    """Return "regression", "binary" or "multi-class"; None: as the values tell.

    Examples
    --------
    >>> response_kind([1, 2, 3]), response_kind([1, 2, 3], classification=True)
    ('regression', 'multi-class')
    """
    labels = is_classification(y) if classification is None else classification
    if not labels:
        return "regression"
    classes = np.unique(np.asarray(y))
    if len(classes) < 2:
        msg = f"All labels are {str(classes[0])!r}; expected at least two classes."
        raise ValueError(msg)
    return "binary" if len(classes) == 2 else "multi-class"


def group_folds(groups: Any, n_folds: int, *, labels: bool) -> Any:
    """Return the splitter of at most so many folds that keep groups together."""
    splitter = StratifiedGroupKFold if labels else GroupKFold
    return splitter(max(2, min(n_folds, len(np.unique(groups)))))


def tuned_model(
    entry: Method, *, kind: str, groups: Any = None, n_jobs: int | None = None
) -> Any:
    """Return the method's estimator that tunes itself, for the kind of response.

    Parameters
    ----------
    entry : Method
    kind : {"regression", "binary", "multi-class"}
    groups : array of shape (n,), optional
        What its own folds have to keep together.
    n_jobs : int, optional
        For a method that takes it.
    """
    if kind == "multi-class" and entry.make_classifier is None:
        msg = (
            f"{entry.title} has no classifier and there are more than two classes; "
            "expected two, as labels 0 and 1 to regress."
        )
        raise ValueError(msg)
    classifier = None if kind == "regression" else entry.make_classifier
    labels = classifier is not None
    model = (classifier or entry.make_regressor)()
    wanted: dict[str, Any] = {"n_jobs": n_jobs}
    if groups is not None:
        wanted["cv"] = group_folds(groups, 5, labels=labels)
    known = model.get_params(deep=False)
    return model.set_params(**{k: v for k, v in wanted.items() if k in known})
