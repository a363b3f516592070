"""The candidates of a cross-validation as tables that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sltr.models.candidates import own_settings

__all__ = [
    "Surface",
    "chosen_candidate",
    "cv_candidates",
    "cv_surface",
    "standard_errors",
]


@dataclass(frozen=True, eq=False)
class Surface:
    """Scores over one or two hyper-parameters, the others fixed.

    Attributes
    ----------
    x_name, y_name : str
        `y_name` is empty where only one hyper-parameter varies.
    x, y : list
        Distinct values, ascending; `y` is ``[None]`` without `y_name`.
    score, error : array of shape (len(y), len(x))
        Mean and standard error over folds; NaN where no candidate was tried.
    chosen : (row, column) or None
    fixed : dict
        The values of the other hyper-parameters that vary, as far as they apply.
    """

    x_name: str
    y_name: str
    x: list
    y: list
    score: np.ndarray
    error: np.ndarray
    chosen: tuple[int, int] | None
    fixed: dict[str, Any]


def cv_candidates(model: Any) -> dict[str, Any]:
    """Return `cv_results_` of a model, or the mapping itself, checked."""
    results = getattr(model, "cv_results_", model)
    if not isinstance(results, Mapping) or not {"params", "mean_test_score"} <= set(
        results
    ):
        msg = (
            f"{type(model).__name__} was given; expected a fitted model with "
            "cv_results_, or such results. Fit an estimator whose name ends in CV."
        )
        raise ValueError(msg)
    return dict(results)


def chosen_candidate(model: Any) -> int:
    """Return the candidate a model chose: not the best score under rule='1se'."""
    results = cv_candidates(model)
    index = getattr(model, "best_index_", None)
    if index is not None:
        return int(index)
    scores = np.asarray(results["mean_test_score"], float)
    order = np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")
    for candidate in order:
        params = results["params"][candidate]
        if all(
            hasattr(model, f"{name}_") and _equal(getattr(model, f"{name}_"), value)
            for name, value in params.items()
        ):
            return int(candidate)
    return int(order[0])


def cv_surface(
    model: Any,
    *,
    x: str | None = None,
    y: str | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Surface:
    """Return the scores over two hyper-parameters, others as in the chosen candidate.

    Parameters
    ----------
    model, x, y, fixed
        As for `plot_cv_surface`.

    Examples
    --------
    >>> results = {"params": [{"a": 1}, {"a": 2}], "mean_test_score": [0.1, 0.3]}
    >>> surface = cv_surface(results)
    >>> surface.x_name, surface.x, surface.chosen
    ('a', [1, 2], (0, 1))
    """
    results = cv_candidates(model)
    params, best = results["params"], chosen_candidate(model)
    mean, fixed = np.asarray(results["mean_test_score"], float), dict(fixed or {})
    centre = params[_centre(params, mean, best, fixed)]
    names = _varying(params)
    free = [name for name in names if name not in fixed] or names
    x, y = _axes_names(free, params, x, y, centre)
    if {x, y} & set(fixed):
        msg = f"fixed={fixed!r} was given; expected no values of the axes {x} and {y}."
        raise ValueError(msg)
    at = {name: centre.get(name) for name in names if name not in (x, y)}
    shown = [row for row in params if _agree(row, at)]
    x_values = _distinct([row.get(x) for row in shown])
    y_values = _distinct([row.get(y) for row in shown]) if y else [None]
    shape = (len(y_values), len(x_values))
    score, error = np.full(shape, np.nan), np.full(shape, np.nan)
    spread = standard_errors(results)
    chosen = None
    for g, row in enumerate(params):
        if not _agree(row, at):
            continue
        place = (
            _position(y_values, row.get(y)) if y else 0,
            _position(x_values, row.get(x)),
        )
        if np.isnan(score[place]) or mean[g] > score[place]:
            score[place], error[place] = mean[g], spread[g]
        if g == best:
            chosen = place
    told = {name: value for name, value in at.items() if name in own_settings(centre)}
    return Surface(x, y or "", x_values, y_values, score, error, chosen, told)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    # A NaN that was stored and read is another object.
    return bool(a is b or a == b or (_is_nan(a) and _is_nan(b)))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _agree(row: Mapping[str, Any], at: Mapping[str, Any]) -> bool:
    return all(_equal(row.get(name), value) for name, value in at.items())


def _position(values: list, value: Any) -> int:
    return next(i for i, other in enumerate(values) if _equal(other, value))


def _distinct(values: Sequence) -> list:
    found: list = []
    for value in values:
        if not any(_equal(value, other) for other in found):
            found.append(value)
    numbers = [v for v in found if _is_number(v)]
    return sorted(numbers, key=lambda v: (_is_nan(v), v)) + [
        v for v in found if not _is_number(v)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _varying(params: Sequence[Mapping[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for row in params for name in row))
    return [n for n in names if len(_distinct([row.get(n) for row in params])) > 1] or (
        names[:1]
    )


def _axes_names(
    names: list[str],
    params: Sequence[Mapping],
    x: str | None,
    y: str | None,
    centre: Mapping[str, Any],
) -> tuple[str, str | None]:
    known = list(dict.fromkeys(name for row in params for name in row))
    varying = _varying(params)
    for given in (x, y):
        if given is not None and given not in known:
            msg = f"{given!r} was given; expected one of {', '.join(known)}."
            raise ValueError(msg)
    usual = [name for name in ("lambda_sparse", "lambda_low") if name in names]
    numeric = [n for n in names if all(_is_number(row.get(n)) for row in params)]
    order = list(dict.fromkeys([*usual, *numeric, *names]))
    if x is None and y is None and len(order) > 1:
        # Grids may depend on a choice, as those of a refit do: of all pairs, the
        # one in which most candidates surround the chosen one.
        def n_shown(pair: tuple[str, str]) -> int:
            at = {name: centre.get(name) for name in varying if name not in pair}
            return sum(_agree(row, at) for row in params)

        # Refinements use a name for things of their own, as the Lasso its threshold.
        pairs = list(combinations(order, 2))
        of_one_kind = [pair for pair in pairs if "refine" not in pair]
        best = max(of_one_kind or pairs, key=n_shown)
        return best if n_shown(best) > 1 else max(pairs, key=n_shown)
    if x is None:
        x = next(name for name in [*order, *known] if name != y)
    if y is None:
        y = next((name for name in order if name != x), None)
    return x, y


def _centre(
    params: Sequence[Mapping], mean: np.ndarray, best: int, fixed: Mapping[str, Any]
) -> int:
    """Return the chosen candidate, or the best of those with the values given."""
    for name, value in fixed.items():
        there = _distinct([row[name] for row in params if name in row])
        if not any(_equal(value, other) for other in there):
            known = f"one of {there}" if there else "a name that candidates have"
            msg = f"fixed[{name!r}]={value!r} was given; expected {known}."
            raise ValueError(msg)
    left = [g for g, row in enumerate(params) if _agree(row, fixed)]
    if not left:
        msg = (
            f"fixed={dict(fixed)!r} was given; expected values that one candidate has "
            "together. Fix fewer of them."
        )
        raise ValueError(msg)
    return (
        best
        if best in left
        else max(left, key=lambda g: np.nan_to_num(mean[g], nan=-np.inf))
    )


def standard_errors(results: Mapping[str, Any]) -> np.ndarray:
    """Return the standard error over folds of every candidate's mean score."""
    folds = [
        np.asarray(values, float)
        for key, values in results.items()
        if key.startswith("split") and key.endswith("_test_score")
    ]
    if len(folds) < 2:
        return np.full(len(results["params"]), np.nan)
    return np.std(folds, axis=0, ddof=1) / np.sqrt(len(folds))
