"""The kind of a response, and a method's estimator tuned for it, groups kept whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import column_or_1d, has_fit_parameter

from sltr.core.estimate import estimate
from sltr.core.tensor import numerical_ranks, unfold
from sltr.estimators.labels import label_indicators
from sltr.metrics import error_bound, estimation_error, rank_error, support_f1
from sltr.peers.elementary import loo_parameters, set_penalties
from sltr.peers.registry import Method, method
from sltr.tuning.folds import check_folds, group_folds

Row = dict[str, Any]


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


def score_model(
    model: Any, trial: Trial, metrics: tuple[str, ...], scored_on: str
) -> dict[str, float]:
    """Return the metrics of a fitted model on the test or the training samples."""
    if scored_on not in ("test", "train"):
        msg = f"scored_on={scored_on!r} was given; expected 'test' or 'train'."
        raise ValueError(msg)
    test = scored_on == "test"
    X, y = (trial.X_test, trial.y_test) if test else (trial.X, trial.y)
    return {name: float(METRICS[name](model, X, y, trial)) for name in metrics}


def fitted_coef(model: Any) -> np.ndarray | None:
    """Return the coefficient of a model, or of the best one a search found."""
    return getattr(getattr(model, "best_estimator_", model), "coef_", None)


def _mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


def _relative_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Mean squared error over that of the training mean: the null model has 1."""
    return _mse(model, X, y, trial) / float(np.mean((y - np.mean(trial.y)) ** 2))


def _released_mse(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """‖ŷ − y‖₂ / n: what the code released with the paper reports as its MSE.

    Over the samples the model names in `scored_rows_`, else over all.
    """
    rows = getattr(model, "scored_rows_", slice(None))
    return float(np.linalg.norm(model.predict(X[rows]) - y[rows])) / len(y[rows])


def _r2(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    return r2_score(y, model.predict(X))


def _accuracy(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Share of right labels; a regression of the labels 0, 1 is cut at one half."""
    found = model.predict(X)
    return accuracy_score(y, found > 0.5 if is_regressor(model) else found)


def _auroc(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
    """Area under the curve of the decision, or of a regression of the labels 0, 1."""
    if hasattr(model, "decision_function"):
        return roc_auc_score(y, model.decision_function(X))
    if hasattr(model, "predict_proba"):
        return roc_auc_score(y, model.predict_proba(X)[:, 1])
    return roc_auc_score(y, model.predict(X))


def _of_truth(
    measure: Callable[[np.ndarray, np.ndarray], float],
) -> Callable[[Any, np.ndarray, np.ndarray, Trial], float]:
    """Return a metric of Ŵ and W; not a number where W or Ŵ is not known."""

    def metric(model: Any, X: np.ndarray, y: np.ndarray, trial: Trial) -> float:
        coef = fitted_coef(model)
        if trial.coef is None or coef is None:
            return float("nan")
        return measure(np.reshape(coef, trial.coef.shape), trial.coef)

    return metric


def _theorem_error(pilot: np.ndarray, truth: np.ndarray) -> float:
    """‖Ŵ − W‖_F / ‖W‖_F for SLTR from this pilot, with the least radii admitting W."""
    if not pilot.any():
        return float("nan")
    found = estimate(pilot, *_theorem_radii(pilot, truth))
    return estimation_error(found.coef, truth)


def _theorem_bound(pilot: np.ndarray, truth: np.ndarray) -> float:
    """Return the corollary's bound on `_theorem_error`."""
    if not pilot.any():
        return float("nan")
    ranks = [int(rank) for rank in numerical_ranks(truth)]
    bound = error_bound(truth.shape, *_theorem_radii(pilot, truth), ranks)
    return bound / float(np.linalg.norm(truth))


def _theorem_radii(pilot: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return ‖W̃ − W‖_∞ and the largest ‖(W̃ − W)_(m)‖₂: the theorem needs these."""
    away = (pilot - truth)[None]
    norms = [np.linalg.norm(unfold(away, m)[0], 2) for m in range(truth.ndim)]
    return float(np.abs(away).max()), float(max(norms))


METRICS: dict[str, Callable[[Any, np.ndarray, np.ndarray, Trial], float]] = {
    "mse": _mse,
    "relative_mse": _relative_mse,
    "released_mse": _released_mse,
    "r2": _r2,
    "accuracy": _accuracy,
    "auroc": _auroc,
    "estimation_error": _of_truth(estimation_error),
    "support_f1": _of_truth(support_f1),
    "rank_error": _of_truth(rank_error),
    "theorem_error": _of_truth(_theorem_error),
    "theorem_bound": _of_truth(_theorem_bound),
}


# What every other method has to beat.
ALWAYS = ("null", "ridge")
SHOWN = {
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
        Names in `sltr.peers.registry.METHODS`; one may be given by itself.
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
        row["metrics"] = score_model(model, trial, SHOWN[kind], "test")
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


def fit_on(model: Any, trial: Trial) -> Any:
    """Fit a model to the training samples of a trial.

    Tuning keeps samples of a group on one side, as the outer split does.
    """
    if trial.groups is None:
        return model.fit(trial.X, trial.y)
    return fit_with_groups(model, trial.X, trial.y, trial.groups)


@dataclass(frozen=True, eq=False)
class Trial:
    """Data for one repetition: the same for all methods."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    coef: np.ndarray | None = None
    groups: np.ndarray | None = None
