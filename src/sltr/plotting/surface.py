"""Scores of a cross-validation over its hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sltr.plotting.candidates import Surface, cv_surface
from sltr.plotting.style import COLOURS, SEQUENTIAL, new_axes, tidy

__all__ = ["plot_cv_surface"]


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
