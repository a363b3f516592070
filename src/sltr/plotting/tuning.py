"""The candidates of a cross-validation as tables that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sltr.plotting.style import COLOURS, SEQUENTIAL, new_axes, tidy
from sltr.tuning.candidates import own_settings


@dataclass(frozen=True, eq=False)
class Surface:
    """Scores over one or two hyper-parameters, the others fixed."""

    x_name: str
    y_name: str  # empty where only one hyper-parameter varies
    x: list  # distinct values, ascending
    y: list  # [None] without `y_name`
    score: np.ndarray  # (len(y), len(x)), NaN where no candidate was tried
    error: np.ndarray  # standard errors over folds, of the same shape
    chosen: tuple[int, int] | None  # row and column
    fixed: dict[str, Any]  # the other hyper-parameters that vary and apply


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
    """Return scores over two hyper-parameters, others as in the chosen candidate."""
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
    settings = own_settings(centre)
    applying = {name: value for name, value in at.items() if name in settings}
    return Surface(x, y or "", x_values, y_values, score, error, chosen, applying)


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
    different: list = []
    for value in values:
        if not any(_equal(value, other) for other in different):
            different.append(value)
    numbers = [v for v in different if _is_number(v)]
    return sorted(numbers, key=lambda v: (_is_nan(v), v)) + [
        v for v in different if not _is_number(v)
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


def scores_by_fold(results: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the scores of all candidates on each fold."""
    return [
        np.asarray(values, float)
        for key, values in results.items()
        if key.startswith("split") and key.endswith("_test_score")
    ]


def standard_errors(results: Mapping[str, Any]) -> np.ndarray:
    """Return the standard error over folds of every candidate's mean score."""
    folds = scores_by_fold(results)
    if len(folds) < 2:
        return np.full(len(results["params"]), np.nan)
    return np.std(folds, axis=0, ddof=1) / np.sqrt(len(folds))


def plot_cv_surface(
    model: Any,
    *,
    x: str | None = None,
    y: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    label: str = "mean score",
    ax: Any = None,
) -> Any:
    """Draw the mean score over two hyper-parameters and mark the chosen point.

    Where only one hyper-parameter varies, a line with standard errors is drawn.

    Parameters
    ----------
    model : fitted model with `cv_results_`, or such results
    x, y : str, optional
        Names of hyper-parameters. Default: the pair with most candidates of the same
        refinement about the chosen one; among equals `lambda_sparse` and
        `lambda_low`, then numbers.
    fixed : mapping, optional
        Values of other hyper-parameters; the rest are as in the chosen candidate, or
        in the best one with these values.
    label : str
        The name of the score.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> rows = [{"a": a, "b": b} for a in (1, 2) for b in (3, 4)]
    >>> results = {"params": rows, "mean_test_score": [0.1, 0.3, 0.2, 0.0]}
    >>> ax = plot_cv_surface(results)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('a', 'b')
    """
    surface = cv_surface(model, x=x, y=y, fixed=fixed)
    return (_draw_map if surface.y_name else _draw_line)(surface, label, ax)


def _draw_map(surface: Surface, label: str, ax: Any) -> Any:
    n_rows, n_columns = surface.score.shape
    width, height = 2.6 + 0.45 * n_columns, 1.6 + 0.36 * n_rows
    ax = new_axes(ax, min(max(width, 4.8), 11.0), min(max(height, 3.6), 9.0))
    # A few hopeless candidates must not take all the contrast.
    low = np.nanpercentile(surface.score, 10)
    picture = ax.imshow(
        surface.score,
        origin="lower",
        aspect="auto",
        cmap=SEQUENTIAL,
        vmin=low if low < np.nanmax(surface.score) else None,
        interpolation="nearest",
    )
    for ticks, values, axis in (
        (ax.set_xticks, surface.x, "x"),
        (ax.set_yticks, surface.y, "y"),
    ):
        step = max(1, -(-len(values) // 14))
        places = range(0, len(values), step)
        ticks(list(places), [_short(values[i]) for i in places], fontsize=9)
        if axis == "x" and len(places) > 6:
            ax.tick_params(axis="x", rotation=45)
    if surface.chosen:
        row, column = surface.chosen
        for colour, size in (("black", 15), ("white", 11)):
            ax.plot(column, row, "*", color=colour, markersize=size)
    ax.set(xlabel=surface.x_name, ylabel=surface.y_name)
    clipped = bool(np.nanmin(surface.score) < picture.norm.vmin)
    ax.figure.colorbar(
        picture, ax=ax, label=label, extend="min" if clipped else "neither"
    )
    ax.set_title(_fixed_text(surface, ax), fontsize=10)
    return ax


def _draw_line(surface: Surface, label: str, ax: Any) -> Any:
    ax = tidy(new_axes(ax))
    places, score = np.arange(len(surface.x)), surface.score[0]
    error = np.nan_to_num(surface.error[0])
    ax.errorbar(places, score, error, fmt="o-", color=COLOURS[0], capsize=3, ms=4)
    if surface.chosen:
        column = surface.chosen[1]
        ax.plot(column, score[column], "*", color=COLOURS[1], ms=14, label="chosen")
        ax.legend(frameon=False)
    step = max(1, -(-len(surface.x) // 12))
    ax.set_xticks(places[::step], [_short(value) for value in surface.x[::step]])
    if len(places[::step]) > 6:
        ax.tick_params(axis="x", rotation=45)
    ax.set(xlabel=surface.x_name, ylabel=label)
    ax.set_title(_fixed_text(surface, ax), fontsize=10)
    return ax


def _fixed_text(surface: Surface, ax: Any) -> str:
    """Return what is fixed, in lines that are no wider than the axes."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    # A letter of the title takes about 0.08 inches.
    most = max(12.0, inches / 0.08)
    lines = [""]
    for name, value in surface.fixed.items():
        part = f"{name} = {_short(value)}"
        if lines[-1] and len(f"{lines[-1]}, {part}") > most:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += f", {part}" if lines[-1] else part
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)
