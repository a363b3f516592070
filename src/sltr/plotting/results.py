"""Results of several methods side by side: points or lines with standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from sltr.plotting.style import COLOURS, MARKERS, new_figure, tidy


@dataclass(frozen=True)
class Panel:
    """One axes of `plot_results`.

    Parameters
    ----------
    title : str
    label : str
        Of the values.
    series : mapping from name to sequence of (mean, standard error) or None
        One value for each place; None leaves it out.
    """

    title: str
    label: str
    series: Mapping[str, Sequence[tuple[float, float] | None]]


def plot_results(
    panels: Sequence[Panel],
    places: Sequence[Any],
    *,
    place_label: str = "",
    log: bool = False,
    log_places: bool = False,
    styles: Sequence[str] | None = None,
) -> Any:
    """Draw panels that share their places and one legend.

    Numbers as places make lines, names make points in rows. A name has the same
    colour and marker in all panels.

    Parameters
    ----------
    panels : sequence of Panel
    places : sequence of float or str
        Conditions: numbers on the horizontal axis, or names down the vertical one.
    place_label : str
    log, log_places : bool
        Whether values, or places, are on a log scale.
    styles : sequence of str, optional
        All names, in the order of their colours; default: as they appear.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> series = {"null": [(1.0, 0.0), (1.0, 0.0)], "ridge": [(0.9, 0.1), None]}
    >>> fig = plot_results([Panel("fair", "relative MSE", series)], [50, 100])
    >>> fig.axes[0].get_ylabel()
    'relative MSE'
    """
    named = [name for panel in panels for name in panel.series]
    order = list(styles) if styles is not None else list(dict.fromkeys(named))
    shown = [name for name in order if name in named]
    numeric = not any(isinstance(place, str) for place in places)
    height = 3.3 if numeric else 1.2 + 0.12 * len(places) * (len(shown) + 1.5)
    width = 3.6 * len(panels) + (0.6 if numeric else 1.6)
    width = max(width, 5.2)
    # A name takes about 0.07 inches for a letter, and its mark half an inch.
    room = int(width / (0.07 * max(map(len, shown), default=1) + 0.5))
    n_columns = max(1, min(room, len(shown)))
    fig = new_figure(width, height + 0.25 * ceil(len(shown) / n_columns))
    axes = fig.subplots(1, len(panels), squeeze=False, sharey=not numeric)[0]
    for ax, panel in zip(axes, panels, strict=True):
        tidy(ax).set_title(panel.title, fontsize=10)
        if numeric:
            _lines(ax, panel, places, order)
            ax.set(xlabel=place_label, ylabel=panel.label)
            _scale(ax, "x", log_places)
        else:
            _rows(ax, panel, places, order, shown)
            ax.set(xlabel=panel.label)
        _scale(ax, "y" if numeric else "x", log)
    if not numeric:
        axes[0].set_yticks(range(len(places)), places)
    _share_limits(axes, [panel.label for panel in panels], "y" if numeric else "x")
    handles = {
        name: handle
        for ax in axes
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    fig.legend(
        [handles[name] for name in shown if name in handles],
        [name for name in shown if name in handles],
        loc="outside lower center",
        ncols=n_columns,
        frameon=False,
        fontsize=9,
    )
    return fig


def _lines(ax: Any, panel: Panel, places: Sequence[Any], order: list[str]) -> None:
    for name, values in panel.series.items():
        known = [(x, *v) for x, v in zip(places, values, strict=True) if v is not None]
        if known:
            x, mean, error = np.array(known, float).T
            ax.errorbar(x, mean, error, linewidth=1.3, **_style(name, order))


def _rows(
    ax: Any, panel: Panel, places: Sequence[Any], order: list[str], shown: list[str]
) -> None:
    for row in range(len(places)):
        ax.axhspan(row - 0.5, row + 0.5, color="0.96" if row % 2 else "1.0", zorder=0)
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.grid(False, axis="y")
    step = 0.8 / max(len(shown), 1)
    for name, values in panel.series.items():
        shift = (shown.index(name) - (len(shown) - 1) / 2) * step
        known = [(y, *v) for y, v in enumerate(values) if v is not None]
        if known:
            y, mean, error = np.array(known, float).T
            style = _style(name, order) | {"linestyle": "none"}
            ax.errorbar(mean, y + shift, xerr=error, **style)


def _share_limits(axes: Sequence[Any], labels: list[str], axis: str) -> None:
    """Give panels of the same quantity the same limits, so that they compare."""
    for label in set(labels):
        group = [ax for ax, shown in zip(axes, labels, strict=True) if shown == label]
        limits = np.array([getattr(ax, f"get_{axis}lim")() for ax in group])
        for ax in group:
            getattr(ax, f"set_{axis}lim")(limits[:, 0].min(), limits[:, 1].max())


def _scale(ax: Any, axis: str, log: bool) -> None:
    if log:
        getattr(ax, f"set_{axis}scale")("log")


def _style(name: str, order: list[str]) -> dict[str, Any]:
    place = order.index(name)
    colour = COLOURS[place % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKERS[(place + place // len(COLOURS)) % len(MARKERS)],
        # Names beyond the palette repeat its colours with open markers.
        "markerfacecolor": colour if place < len(COLOURS) else "white",
        "markersize": 5,
        "capsize": 2,
        "elinewidth": 1.0,
        "label": name,
    }
