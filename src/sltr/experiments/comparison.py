"""Methods compared on one data set by nested cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils.validation import column_or_1d

from sltr.experiments.rows import Row
from sltr.experiments.run import fit_on
from sltr.experiments.scores import score_model
from sltr.experiments.trials import Trial
from sltr.experiments.tuned import check_folds, response_kind, tuned_model
from sltr.models.registry import Method, method

__all__ = [
    "ALWAYS",
    "compare",
    "summary",
]

# What every other method has to beat.
ALWAYS = ("null", "ridge")
METRICS = {
    "regression": ("r2", "mse"),
    "binary": ("auroc", "accuracy"),
    "multi-class": ("accuracy",),
}


def compare(
    X: Any,
    y: Any,
    methods: str | Sequence[str] = ("sltr",),
    *,
    folds: int = 5,
    groups: Any = None,
    classification: bool | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> list[Row]:
    """Tune every method inside the same outer folds and score it on what they hold out.

    No held-out sample has a part in any choice. The null model and ridge are
    always among the methods. A method without a classifier regresses labels 0 and
    1, and of more than two classes each against the rest.

    Parameters
    ----------
    X, y : arrays of shapes (n, p1, …, pM) and (n,)
    methods : str or sequence of str
        Names in `sltr.models.registry.METHODS`; one may be given by itself.
    folds : int
        Outer folds; samples are shuffled, labels keep their shares.
    groups : array of shape (n,), optional
        Samples that belong together and stay on one side, tuning included: methods
        choose on folds of groups, ridge its penalty too.
    classification : bool, optional
        Default: as `is_classification` finds.
    random_state : int
    n_jobs : int, optional
        For the methods that take it.
    progress : callable, optional
        Called as ``progress(done, total, what)``.

    Returns
    -------
    list of dict
        One row for each method and fold: `method`, `title`, `fold`, `metrics`,
        `fit_seconds` (tuning included), `error`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 4, 3))
    >>> rows = compare(X, X[:, 0, 0], methods=(), folds=2)
    >>> [(row["method"], row["fold"]) for row in rows]
    [('null', 0), ('ridge', 0), ('null', 1), ('ridge', 1)]
    """
    X, y = np.asarray(X), column_or_1d(np.asarray(y))
    _check_lengths(X, y=y, groups=groups)
    names = (methods,) if isinstance(methods, str) else methods
    entries = [method(name) for name in dict.fromkeys((*ALWAYS, *names))]
    kind = response_kind(y, classification)
    labels = kind != "regression"
    codes = np.unique(y, return_inverse=True)[1] if labels else y.astype(float)
    splits = _outer_folds(codes, folds, groups, labels, random_state)
    groups = None if groups is None else np.asarray(groups)
    rows: list[Row] = []
    for fold, (train, test) in enumerate(splits):
        inside = None if groups is None else groups[train]
        trial = Trial(X[train], codes[train], X[test], codes[test], groups=inside)
        for entry in entries:
            _tell(progress, len(rows), len(splits) * len(entries), entry, fold)
            rows.append(_row(entry, trial, kind, fold, n_jobs))
    _tell(progress, len(rows), len(rows), None, 0)
    return rows


def _check_lengths(X: np.ndarray, **beside: Any) -> None:
    for name, values in beside.items():
        if values is not None and len(values) != len(X):
            msg = (
                f"X has {len(X)} samples and {name} has {len(values)} values; expected "
                "as many. Take the rows that belong together."
            )
            raise ValueError(msg)


def _outer_folds(
    y: np.ndarray, folds: int, groups: Any, classification: bool, random_state: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs (training rows, test rows)."""
    check_folds(folds, len(y), groups)
    if classification:
        rarest = np.unique(y, return_counts=True)[1].min()
        if groups is None and rarest < folds:
            msg = (
                f"The rarest label has {rarest} samples; expected at least one "
                f"for each of {folds} folds. Use fewer folds, or regress."
            )
            raise ValueError(msg)
    kind = {
        (False, False): KFold,
        (False, True): StratifiedKFold,
        (True, False): GroupKFold,
        (True, True): StratifiedGroupKFold,
    }
    splitter = kind[groups is not None, classification](
        n_splits=folds, shuffle=True, random_state=random_state
    )
    return list(splitter.split(np.zeros(len(y)), y, groups))


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return one row for each method: means and standard errors over the folds.

    Examples
    --------
    >>> row = {"method": "null", "title": "Null", "fit_seconds": 1.0, "error": None}
    >>> found = summary([row | {"metrics": {"r2": value}} for value in (0.0, 0.5)])
    >>> found[0]["r2"], found[0]["r2_se"], found[0]["fit_seconds"]
    (0.25, 0.25, 1.0)
    """
    found = []
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        good = [row for row in mine if row["error"] is None]
        line: dict[str, Any] = {"method": name, "title": mine[0]["title"]}
        for metric in good[0]["metrics"] if good else ():
            values = np.array([row["metrics"][metric] for row in good])
            several = len(values) > 1
            line[metric] = float(values.mean())
            line[f"{metric}_se"] = (
                float(values.std(ddof=1) / np.sqrt(len(values))) if several else None
            )
        times = [row["fit_seconds"] for row in good]
        line["fit_seconds"] = float(np.mean(times)) if times else None
        line["n_folds"] = len(good)
        line["error"] = next((row["error"] for row in mine if row["error"]), None)
        found.append(line)
    return found


def _row(entry: Method, trial: Trial, kind: str, fold: int, n_jobs: int | None) -> Row:
    row: Row = {"method": entry.name, "title": entry.title, "fold": fold}
    row |= {"metrics": {}, "fit_seconds": None, "error": None}
    try:
        model = tuned_model(entry, kind=kind, n_jobs=n_jobs)
        start = perf_counter()
        model = fit_on(model, trial)
        row["fit_seconds"] = perf_counter() - start
        row["metrics"] = score_model(model, trial, METRICS[kind], "test")
    except Exception as error:  # one method must not stop the others
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def _tell(
    progress: Callable[[int, int, str], object] | None,
    done: int,
    total: int,
    entry: Method | None,
    fold: int,
) -> None:
    if progress is not None:
        what = "" if entry is None else f"{entry.title}, fold {fold + 1}"
        progress(done, total, what)
