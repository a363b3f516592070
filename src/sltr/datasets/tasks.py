"""Real data as tasks: samples, responses, and the folds to judge a method by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

__all__ = ["as_task", "choose_classes"]


def as_task(
    X: np.ndarray,
    y: np.ndarray,
    *,
    task: str,
    cv: Any,
    description: str,
    groups: np.ndarray | None = None,
    target_names: Sequence[str] | None = None,
) -> Bunch:
    """Return data with its outer folds.

    Parameters
    ----------
    X : array of shape (n, p1, …, pM)
    y : array of shape (n,)
    task : {"regression", "classification"}
    cv : scikit-learn splitter, or a list of pairs (train rows, test rows)
    description : str
    groups : array of shape (n,), optional
        Samples that belong together and must not be split, tuning included.
    target_names : sequence of str, optional
        What the labels 0, 1, … mean.

    Returns
    -------
    Bunch
        With `cv` as a list of pairs, so that ``cross_val_score(model, X, y, cv=cv)``
        uses the same folds for all methods.
    """
    try:
        folds = list(cv.split(X, y, groups)) if hasattr(cv, "split") else cv
    except ValueError as error:
        msg = (
            f"The {len(y)} samples of {target_names} are too few for the folds of "
            f"{cv}: {error} Choose classes with more samples."
        )
        raise ValueError(msg) from error
    return Bunch(
        X=X,
        y=y,
        groups=groups,
        cv=folds,
        task=task,
        target_names=None if target_names is None else list(target_names),
        description=description,
    )


def choose_classes(
    labels: np.ndarray, classes: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with one of the classes, and their labels 0, 1, ….

    Examples
    --------
    >>> import numpy as np
    >>> choose_classes(np.array(["cat", "dog", "owl", "cat"]), ["owl", "cat"])
    (array([0, 2, 3]), array([1, 0, 1]))
    """
    there = sorted(set(labels.tolist()))
    absent = [name for name in classes if name not in there]
    if absent or len(set(classes)) < 2 or len(set(classes)) < len(classes):
        msg = f"classes={list(classes)} was given; expected two or more of {there}."
        raise ValueError(msg)
    rows = np.flatnonzero(np.isin(labels, list(classes)))
    number = {name: k for k, name in enumerate(classes)}
    return rows, np.array([number[name] for name in labels[rows].tolist()])
