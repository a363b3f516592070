"""The kind of a response, and a method's estimator tuned for it, groups kept whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import has_fit_parameter

from sltr.experiments.penalties import loo_parameters, set_penalties
from sltr.models.labels import label_indicators
from sltr.models.registry import Method

__all__ = [
    "check_folds",
    "fit_tuned",
    "fit_with_groups",
    "group_folds",
    "is_classification",
    "response_kind",
    "tuned_model",
]


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


def check_folds(folds: int, n_samples: int, groups: Any = None) -> None:
    """Refuse a number of folds that there cannot be.

    Examples
    --------
    >>> check_folds(9, 100, groups=[0, 0, 1, 1])
    Traceback (most recent call last):
    ...
    ValueError: folds=9 was given; expected 2 to 2, the number of groups.
    """
    n_units = n_samples if groups is None else len(np.unique(groups))
    if not 2 <= folds <= n_units:
        what = "samples" if groups is None else "groups"
        msg = f"folds={folds} was given; expected 2 to {n_units}, the number of {what}."
        raise ValueError(msg)


def group_folds(groups: Any, n_folds: int, *, labels: bool) -> Any:
    """Return the splitter of at most so many folds that keep groups together."""
    splitter = StratifiedGroupKFold if labels else GroupKFold
    return splitter(max(2, min(n_folds, len(np.unique(groups)))))


def tuned_model(
    entry: Method,
    *,
    kind: str,
    groups: Any = None,
    folds: int | None = None,
    n_jobs: int | None = None,
) -> Any:
    """Return the method's estimator that tunes itself, for the kind of response.

    Where a method has no classifier, labels 0 and 1 are regressed, and of more than
    two classes each against the rest: the largest prediction wins.

    Parameters
    ----------
    entry : Method
    kind : {"regression", "binary", "multi-class"}
    groups : array of shape (n,), optional
        What its own folds have to keep together; where each class is regressed,
        `fit_with_groups` sees to it.
    folds : int, optional
        Its own number of folds; default: the method's, or 5 of groups.
    n_jobs : int, optional
        For a method that takes it.
    """
    classifier = None if kind == "regression" else entry.make_classifier
    model = (classifier or entry.make_regressor)()
    wanted: dict[str, Any] = {"n_jobs": n_jobs}
    one_by_one = kind == "multi-class" and classifier is None
    if groups is not None and not one_by_one:
        labels = classifier is not None
        wanted["cv"] = group_folds(groups, folds or 5, labels=labels)
    elif folds is not None:
        wanted["cv"] = folds
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in wanted.items() if k in known})
    return OneVsRestClassifier(model) if one_by_one else model


def fit_with_groups(model: Any, X: np.ndarray, y: np.ndarray, groups: Any) -> Any:
    """Fit a model whose every choice keeps samples of a group on one side.

    Its number of folds, or that of one for each class, becomes as many folds of whole
    groups, and so does the leave-one-out choice of a ridge penalty.
    """
    each = isinstance(model, OneVsRestClassifier)
    name = "estimator__cv" if each else "cv"
    cv = model.get_params().get(name, "none of its own")
    cv = 5 if cv is None else cv  # scikit-learn's default
    counts = {name: cv} if isinstance(cv, int) else {}
    # Of a single group there are no folds, and ridge is left to itself.
    several = len(np.unique(groups)) > 1
    if counts or (several and loo_parameters(model)):
        labels = np.issubdtype(y.dtype, np.integer)
        splitter = group_folds(groups, max(counts.values(), default=5), labels=labels)
        splits = list(splitter.split(X, y, groups))
        model.set_params(**dict.fromkeys(counts, splits))
        set_penalties(model, X, label_indicators(y)[1] if each else y, splits)
    given = {"groups": groups} if _takes_groups(model) else {}
    return model.fit(X, y, **given)


def fit_tuned(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    folds: int | None = None,
    covariates: Any = None,
) -> Any:
    """Fit a model of `tuned_model` that was given the same groups and folds.

    Ridge chooses its penalty on such folds too, if there are any. Covariates that the
    model would ignore are refused.
    """
    if groups is not None or folds is not None:
        n_folds = folds or 5
        splitter = (
            KFold(n_folds)
            if groups is None
            else group_folds(groups, n_folds, labels=False)
        )
        splits = list(splitter.split(np.zeros(len(y)), groups=groups))
        set_penalties(model, X, y, splits)
    # A search could fit with covariates, but not score with them.
    if covariates is not None and not has_fit_parameter(model, "covariates"):
        name = type(getattr(model, "estimator", model)).__name__
        msg = (
            f"{name} takes no covariates here; expected cp or tucker, for responses "
            "that are numbers. Leave them out, or choose another method."
        )
        raise ValueError(msg)
    given = {} if covariates is None else {"covariates": covariates}
    if groups is not None and _takes_groups(model):
        given["groups"] = groups
    return model.fit(X, y, **given)


def _takes_groups(model: Any) -> bool:
    return has_fit_parameter(model, "groups") or isinstance(model, GridSearchCV)
