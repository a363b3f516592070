"""Nested comparison of methods on a user's data, and how one method is tuned.

`compare` tunes every method inside the same outer folds. `tune` chooses the settings
of a single method. Both fit by `fit_tuned`, which keeps groups whole in every choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from html import escape
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    RegressorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.metrics import (
    accuracy_score,
    d2_log_loss_score,
    d2_tweedie_score,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
    cross_val_predict,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import has_fit_parameter

from sltr.estimators.fitted import TensorResponses
from sltr.estimators.labels import label_indicators
from sltr.parameters import import_optional, printable, refuse, unmasked
from sltr.peers.elementary import TensorRidge, loo_parameters, loo_score, set_penalties
from sltr.peers.registry import METHODS, Method, method
from sltr.samples.check import check_plain
from sltr.samples.covariates import encoded
from sltr.tuning.folds import check_folds, group_folds
from sltr.tuning.scores import label_scores

Row = dict[str, Any]

# What every other method has to beat.
ALWAYS = ("null", "ridge")
SHOWN = {
    "regression": ("r2", "mse"),
    "binary": ("auroc", "accuracy"),
    "multi-class": ("accuracy",),
}


class Table(list[Row]):
    """A list of rows, each a dict, that prints as a table.

    Examples
    --------
    >>> Table([{"method": "ridge", "r2": 0.51234}, {"method": "null", "r2": None}])
    method     r2
    ridge   0.512
    null        –
    """

    def columns(self) -> dict[str, list[Any]]:
        """Return values by column; metrics are columns of their own."""
        flat = [{**row, **row.get("metrics", {})} for row in self]
        names = list(dict.fromkeys(name for row in flat for name in row))
        names = [name for name in names if name != "metrics"]
        # Errors take much room, and seldom are there any.
        if not any(row.get("error") for row in flat):
            names = [name for name in names if name != "error"]
        return {name: [row.get(name) for row in flat] for name in names}

    def to_pandas(self) -> Any:
        """Return the table as a data frame."""
        pandas = import_optional("pandas", "A data frame needs pandas", "pandas")
        return pandas.DataFrame(self.columns())

    def _cells(self) -> list[list[str]]:
        columns = self.columns()
        texts = [[_cell(value) for value in values] for values in columns.values()]
        body = zip(*texts, strict=True)
        return [[printable(name) for name in columns], *map(list, body)]

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        words = [
            any(isinstance(v, str) for v in values)
            for values in self.columns().values()
        ]
        lines = [
            "  ".join(
                text.ljust(width) if word else text.rjust(width)
                for text, width, word in zip(row, widths, words, strict=True)
            ).rstrip()
            for row in cells
        ]
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        head, *body = [[escape(text) for text in row] for row in self._cells()]
        rows = "".join(
            f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in body
        )
        titles = "".join(f"<th>{text}</th>" for text in head)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else printable(str(value))


def compare(
    X: Any,
    y: Any,
    methods: str | Sequence[str] = ("sltr",),
    *,
    folds: int | None = None,
    groups: Any = None,
    covariates: Any = None,
    classification: bool | None = None,
    family: str | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> Table:
    """Tune every method inside the same outer folds and score it on what they hold out.

    No held-out sample has a part in any choice. The null model and ridge are
    always among the methods. A method without a classifier regresses labels 0 and
    1, and of more than two classes each against the rest. Responses may be tensors, y
    of shape (n, q1, …): R² is their mean, and a method that takes a single number is
    tuned for each of them.

    Parameters
    ----------
    X, y : arrays of shapes (n, p1, …, pM) and (n,), or (n, q1, …)
    methods : str or sequence of str
        Names in `sltr.peers.registry.METHODS`; one may be given by itself.
    folds : int, optional
        Outer folds; samples are shuffled, labels keep their shares. Default: 5, or
        the number of groups if there are fewer.
    groups : array of shape (n,), optional
        Samples that belong together and stay on one side, tuning included: methods
        choose on folds of groups, ridge its penalty too.
    covariates : array or table of n rows, optional
        Numbers and categories that every method knows, without a penalty. Methods
        that take none are fitted to what least squares on the training samples leaves
        of X and y; of two labels these regress 0 and 1. Not for more classes.
    classification : bool, optional
        Default: as `is_classification` finds.
    family : {"binomial", "multinomial", "poisson"}, optional
        A likelihood instead of least squares, for the methods that have it: of two
        labels, of more, or of counts. The table then has D² too, the share of the
        deviance that is explained; of labels where a method has probabilities, and
        means of counts are taken as a hundredth of the mean count at least.
    random_state : int
    n_jobs : int, optional
        For the methods that take it.
    progress : callable, optional
        Called as ``progress(done, total, what)``.

    Returns
    -------
    Table
        A list of dicts, one for each method and fold: `method`, `title`, `fold`,
        `metrics`, `fit_seconds` (tuning included), `error`. It prints as a table, in
        Jupyter too; `to_pandas` makes a data frame of it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 4, 3))
    >>> rows = compare(X, X[:, 0, 0], methods=(), folds=2)
    >>> [(row["method"], row["fold"]) for row in rows]
    [('null', 0), ('ridge', 0), ('null', 1), ('ridge', 1)]
    """
    X, y = np.asarray(check_plain(X, "X")), np.asarray(check_plain(y, "y"))
    y, groups = y[:, 0] if y.shape[1:] == (1,) else y, unmasked(groups, "groups")
    covariates = check_plain(covariates, "covariates")
    _check_lengths(X, y=y, groups=groups, covariates=covariates)
    names = (methods,) if isinstance(methods, str) else methods
    entries = [method(name) for name in dict.fromkeys((*ALWAYS, *names))]
    kind = response_kind(y, classification)
    labels = kind != "regression"
    if family is not None:
        _check_family(family, kind, y)
    shown = SHOWN[kind] if family is None else (*SHOWN[kind], "d2")
    if covariates is not None and kind == "multi-class":
        msg = (
            "covariates were given with more than two classes; expected numbers or two "
            "labels. Compare one class with the rest, or leave the covariates out."
        )
        raise ValueError(msg)
    codes = np.unique(y, return_inverse=True)[1] if labels else y.astype(float)
    if folds is None:
        folds = 5 if groups is None else max(2, min(5, len(np.unique(groups))))
    splits = _outer_folds(codes, folds, groups, labels, random_state)
    groups = None if groups is None else np.asarray(groups)
    given = _Given(X, codes, kind, family, groups, covariates)
    total = len(splits) * len(entries)
    rows: list[Row] = []
    for fold, (train, test) in enumerate(splits):
        for entry in entries:
            if progress is not None:
                progress(len(rows), total, f"{entry.title}, fold {fold + 1}")
            row: Row = {"method": entry.name, "title": entry.title, "fold": fold}
            row |= {"metrics": {}, "fit_seconds": None, "error": None}
            try:
                model, row["fit_seconds"] = _fitted(entry, given, train, n_jobs)
                row["metrics"] = _scores(model, given, test, shown)
            except Exception as error:  # one method must not stop the others
                row["error"] = f"{type(error).__name__}: {error}"
            rows.append(row)
    if progress is not None:
        progress(total, total, "")
    return Table(rows)


@dataclass(frozen=True, eq=False)
class _Given:
    """What all methods of a comparison are fitted to, fold by fold."""

    X: np.ndarray
    y: np.ndarray  # of labels, their places among the classes
    kind: str
    family: str | None
    groups: np.ndarray | None
    covariates: Any

    @property
    def labels(self) -> bool:
        """Whether responses are labels."""
        return self.kind != "regression"


def _fitted(
    entry: Method, given: _Given, train: np.ndarray, n_jobs: int | None
) -> tuple[Any, float]:
    """Return a method's estimator, tuned on some samples, and the seconds it took."""
    model = tuned_model(entry, kind=given.kind, n_jobs=n_jobs, family=given.family)
    if given.y.ndim > 1 and not isinstance(model, TensorResponses):
        model = _EachResponse(model)
    beside = {}
    if given.covariates is not None:
        beside["covariates"] = _rows_of(given.covariates, train)
        if not has_fit_parameter(model, "covariates"):
            if given.labels:
                model = tuned_model(entry, kind="regression", n_jobs=n_jobs)
            model = _BesideCovariates(model)
    groups = None if given.groups is None else given.groups[train]
    start = perf_counter()
    X, y = given.X[train], given.y[train]
    fit_tuned(model, X, y, groups=groups, labels=given.labels, **beside)
    return model, perf_counter() - start


def _scores(
    model: Any, given: _Given, test: np.ndarray, names: Sequence[str]
) -> dict[str, float]:
    """Return scores of a fitted model on held-out samples."""
    if given.covariates is not None:
        model = _given_covariates(model, _rows_of(given.covariates, test))
    # Regressions of labels have no probabilities, and so no deviance.
    can = hasattr(model, "predict_proba") or not given.labels
    return {
        name: float(SCORES[name](model, given.X[test], given.y[test]))
        for name in names
        if can or name != "d2"
    }


def _check_family(family: Any, kind: str, y: np.ndarray) -> None:
    """Refuse a family that does not go with the kind of response."""
    known = {"binary": "binomial", "multi-class": "multinomial"}.get(kind, "poisson")
    if family != known:
        refuse("family", family, f"None, or {known!r} for these responses")
    if family == "poisson" and (y.ndim > 1 or (y < 0).any()):
        found = f"of shape {y.shape}" if y.ndim > 1 else f"of {y.min()}"
        msg = (
            f"family='poisson' was given with a response {found}; expected one count "
            "of at least 0 for each sample. Leave the family out."
        )
        raise ValueError(msg)


def _rows_of(table: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, a list or a table."""
    if isinstance(table, list | tuple):
        return [table[row] for row in rows]
    return table.iloc[rows] if hasattr(table, "iloc") else np.asarray(table)[rows]


def _given_covariates(model: Any, covariates: Any) -> Any:
    """Return a model that predicts from samples alone, beside these covariates."""
    bound = copy(model)
    for name in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, name):
            ask = partial(getattr(model, name), covariates=covariates)
            setattr(bound, name, ask)
    return bound


@dataclass(eq=False, repr=False)
class _BesideCovariates(RegressorMixin, BaseEstimator):
    """A regressor that takes no covariates, on what they do not explain.

    X and y lose their least squares on an intercept and the covariates. For a model
    that is least squares with a penalty on X alone, this is the joint fit.
    """

    model: Any

    def fit(self, X: Any, y: Any, covariates: Any, groups: Any = None) -> Any:
        """Fit the slopes, then the model to the residuals."""
        encoding, Z = encoded(covariates, len(X))
        self.encoding_, basis = encoding, np.column_stack([np.ones(len(X)), Z])
        flat = np.reshape(X, (len(X), -1))
        self.X_slopes_ = np.linalg.lstsq(basis, flat, rcond=None)[0]
        responses = np.reshape(y, (len(X), -1))
        self.y_slopes_ = np.linalg.lstsq(basis, responses, rcond=None)[0]
        rest = np.reshape(flat - basis @ self.X_slopes_, np.shape(X))
        left = np.reshape(responses - basis @ self.y_slopes_, np.shape(y))
        fit_tuned(self.model, rest, left, groups=groups)
        return self

    def predict(self, X: Any, covariates: Any) -> np.ndarray:
        """Return what covariates and residuals predict."""
        Z = self.encoding_.encode(covariates, len(X))
        basis = np.column_stack([np.ones(len(X)), Z])
        explained = np.reshape(basis @ self.X_slopes_, np.shape(X))
        found = self.model.predict(X - explained)
        return np.reshape(basis @ self.y_slopes_, np.shape(found)) + found


@dataclass(eq=False, repr=False)
class _EachResponse(RegressorMixin, BaseEstimator):
    """A regressor of single numbers, tuned for each of the responses."""

    model: Any

    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Fit to responses y of shape (n, q1, …)."""
        self.shape_out_ = np.shape(y)[1:]
        columns = np.reshape(y, (len(X), -1)).T
        self.models_ = [
            fit_tuned(clone(self.model), X, column, groups=groups) for column in columns
        ]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions of shape (n, q1, …)."""
        found = np.stack([model.predict(X) for model in self.models_], axis=1)
        return np.reshape(found, (len(X), *self.shape_out_))


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


def summary(rows: Sequence[Row]) -> Table:
    """Return one row for each method: means and standard errors over the folds.

    The table is a list of dicts that prints well, as that of `compare`.

    Examples
    --------
    >>> row = {"method": "null", "title": "Null", "fit_seconds": 1.0, "error": None}
    >>> found = summary([row | {"metrics": {"r2": value}} for value in (0.0, 0.5)])
    >>> found[0]["r2"], found[0]["r2_se"], found[0]["fit_seconds"]
    (0.25, 0.25, 1.0)
    """
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        of_method = [row for row in rows if row["method"] == name]
        good = [row for row in of_method if row["error"] is None]
        line: dict[str, Any] = {"method": name, "title": of_method[0]["title"]}
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
        line["error"] = next((row["error"] for row in of_method if row["error"]), None)
        lines.append(line)
    return Table(lines)


def _mse(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


def _r2(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """R²; of several responses the mean."""
    rows = (len(y), -1)
    return r2_score(np.reshape(y, rows), np.reshape(model.predict(X), rows))


def _accuracy(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of right labels; a regression of the labels 0, 1 is cut at one half."""
    predicted = model.predict(X)
    return accuracy_score(y, predicted > 0.5 if is_regressor(model) else predicted)


def _auroc(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Area under the curve of the decision, or of a regression of the labels 0, 1."""
    if hasattr(model, "decision_function"):
        return roc_auc_score(y, model.decision_function(X))
    if hasattr(model, "predict_proba"):
        return roc_auc_score(y, model.predict_proba(X)[:, 1])
    return roc_auc_score(y, model.predict(X))


def _d2(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of the deviance explained: of labels, or of counts."""
    if hasattr(model, "predict_proba"):
        return d2_log_loss_score(y, model.predict_proba(X), labels=model.classes_)
    mean = np.maximum(model.predict(X), 0.01 * np.mean(y))
    return d2_tweedie_score(y, mean, power=1)


SCORES: dict[str, Callable[[Any, np.ndarray, np.ndarray], float]] = {
    "mse": _mse,
    "r2": _r2,
    "accuracy": _accuracy,
    "auroc": _auroc,
    "d2": _d2,
}


def is_classification(y: Any) -> bool:
    """Say whether responses are labels: words, truth values, or just two values.

    Tensors never are.
    """
    values = np.asarray(y)
    if values.ndim > 1:
        return False
    return values.dtype.kind not in "iuf" or len(np.unique(values)) <= 2


def response_kind(y: Any, classification: bool | None = None) -> str:
    """Return "regression", "binary" or "multi-class"; None: as the values tell."""
    if classification and np.ndim(y) > 1:
        msg = (
            f"Labels of shape {np.shape(y)} were given; expected one for each sample. "
            "Compare one column after another, or regress."
        )
        raise ValueError(msg)
    labels = is_classification(y) if classification is None else classification
    if not labels:
        return "regression"
    classes = np.unique(np.asarray(y))
    if len(classes) < 2:
        msg = f"All labels are {str(classes[0])!r}; expected at least two classes."
        raise ValueError(msg)
    return "binary" if len(classes) == 2 else "multi-class"


def tune(
    entry: Method,
    X: Any,
    y: Any,
    *,
    kind: str,
    groups: Any = None,
    folds: int | None = None,
    covariates: Any = None,
    n_jobs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[..., object] | None = None,
) -> Any:
    """Return a method's estimator with its settings chosen, and the scores they had.

    `settings` are parameters of the estimator that tunes itself. Without `groups` and
    `folds` a method has its usual folds, and ridge leaves out one sample at a time.
    Covariates that the method would ignore are refused, and so is a single group.
    """
    if groups is not None and len(np.unique(groups)) < 2:
        msg = (
            "All samples are of one group; expected at least two, for folds that leave "
            "whole groups out. Leave the groups out, or choose another column."
        )
        raise ValueError(msg)
    settings = dict(settings or {}, progress=progress)
    model = tuned_model(entry, kind=kind, folds=folds, n_jobs=n_jobs, **settings)
    if np.ndim(y) > 1 and not isinstance(model, TensorResponses):
        able = [n for n in METHODS if _takes_tensors(METHODS[n])]
        msg = (
            f"{entry.title} takes one number for each sample, and y has shape "
            f"{np.shape(y)}; expected one of the methods {', '.join(able)}. Choose one "
            "of these, or tune each response by itself."
        )
        raise ValueError(msg)
    # A search could fit with covariates, but not score with them.
    if covariates is not None and not has_fit_parameter(model, "covariates"):
        name = type(getattr(model, "estimator", model)).__name__
        msg = (
            f"{name} takes no covariates here; expected sltr, or, for responses that "
            "are numbers, cp or tucker. Leave them out, or choose another method."
        )
        raise ValueError(msg)
    given = {} if covariates is None else {"covariates": covariates}
    labels = kind != "regression" and entry.make_classifier is not None
    fit_tuned(model, X, y, groups=groups, folds=folds, labels=labels, **given)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=None)
    return _with_scores(model, X, y, groups)


def _takes_tensors(entry: Method) -> bool:
    made = entry.make_regressor
    return isinstance(made, type) and issubclass(made, TensorResponses)


def _with_scores(model: Any, X: Any, y: Any, groups: Any) -> Any:
    """Return the best estimator of a search, or ridge, with the scores it had."""
    best = copy(getattr(model, "best_estimator_", model))
    if hasattr(model, "best_estimator_"):
        names = ("best_params_", "best_score_", "best_index_", "cv_results_")
        vars(best).update({name: getattr(model, name) for name in names})
        if is_classifier(best):
            vars(best).update(held_out_scores_=_label_scores(model, X, y, groups))
    elif isinstance(model, TensorRidge) and not hasattr(model, "best_score_"):
        vars(best).update(best_score_=loo_score(model, X, y))
    return best


def _label_scores(model: Any, X: Any, y: Any, groups: Any) -> dict[str, np.ndarray]:
    """Return area and accuracy of a search's best classifier on each of its folds."""
    best = model.best_estimator_
    folds = list(check_cv(model.cv, y, classifier=True).split(X, y, groups))
    decisions = cross_val_predict(best, X, y, cv=folds, method="decision_function")
    _, indicators = label_indicators(y)
    found = [
        label_scores(indicators[test], decisions[test, None] + 0.5) for _, test in folds
    ]
    return {name: np.array([fold[name] for fold in found]) for name in found[0]}


def tuned_model(
    entry: Method,
    *,
    kind: str,
    folds: int | None = None,
    n_jobs: int | None = None,
    **settings: Any,
) -> Any:
    """Return the method's estimator that tunes itself, for the kind of response.

    `kind` is "regression", "binary" or "multi-class". Where a method has no classifier,
    labels 0 and 1 are regressed, and of more than two classes each against the rest:
    the largest prediction wins. What the estimator does not take is left out, and a
    `family` of None.
    """
    classifier = None if kind == "regression" else entry.make_classifier
    model = (classifier or entry.make_regressor)()
    settings |= {"n_jobs": n_jobs} if folds is None else {"n_jobs": n_jobs, "cv": folds}
    regresses_labels = kind != "regression" and classifier is None
    if settings.get("family") is None or regresses_labels:
        settings.pop("family", None)
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in settings.items() if k in known})
    one_by_one = kind == "multi-class" and classifier is None
    return OneVsRestClassifier(model) if one_by_one else model


def fit_tuned(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    folds: int | None = None,
    labels: bool = False,
    **given: Any,
) -> Any:
    """Fit a model that tunes itself, and make its every choice on the same folds.

    With `groups` its number of folds, or that of one for each class, becomes as many
    folds of whole groups. Ridge penalties that leave-one-out would choose are chosen on
    these, or on the number of `folds` asked for. With `labels`, folds of groups keep
    the shares of classes. What is `given` goes to the model's `fit`.
    """
    each = isinstance(model, OneVsRestClassifier)
    name = "estimator__cv" if each else "cv"
    cv = model.get_params().get(name, "none of its own")
    cv = 5 if cv is None else cv  # scikit-learn's default
    has_folds, by_loo = isinstance(cv, int), bool(loo_parameters(model))
    takes_groups = has_fit_parameter(model, "groups") or isinstance(model, GridSearchCV)
    splitter: Any = None
    # Of a single group there are no folds, and ridge is left to itself.
    if groups is not None and (has_folds or (by_loo and len(np.unique(groups)) > 1)):
        splitter = group_folds(groups, cv if has_folds else folds or 5, labels=labels)
    elif groups is None and folds is not None and by_loo:
        splitter = KFold(folds)
    if splitter is not None:
        needs_rows = by_loo or not takes_groups
        samples = np.zeros(len(y)), y if labels else None, groups
        splits = list(splitter.split(*samples)) if needs_rows else []
        if has_folds:
            model.set_params(**{name: splitter if takes_groups else splits})
        if by_loo:
            set_penalties(model, X, label_indicators(y)[1] if each else y, splits)
    if groups is not None and takes_groups:
        given["groups"] = groups
    return model.fit(X, y, **given)
