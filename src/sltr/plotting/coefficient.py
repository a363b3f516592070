"""The coefficient itself: slices, montages, overlays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.coefficients import shown_entries, upright
from sltr.plotting.modes import Coords, Modes, drawn_coef, even_slices, strongest_slice
from sltr.plotting.style import (
    COLOURS,
    colour_bar,
    diverging_limit,
    image,
    image_over,
    new_figure,
    tidy,
)


def plot_coef(
    coef: Any,
    *,
    show: tuple[int | str, int | str] | None = None,
    slices: Mapping[int | str, Any] | None = None,
    max_slices: int = 12,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    label: str = "coefficient",
    target: Any = None,
    fig: Any = None,
    coords: Coords | None = None,
) -> Any:
    """Draw a coefficient of any order.

    Order 1 is a line, order 2 an image, order 3 a montage of slices, and order 4
    or more a table of slices over two modes; modes beyond those stay at the slice
    that holds most of the coefficient. Colours diverge from zero, and all slices
    share one scale. Entries outside a model's mask are grey.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    show : pair of modes, optional
        The rows and columns of each image. Default: "height" and "width", "y" and
        "x", or "z" and one of these, where modes are called so; otherwise the two
        largest modes.
    slices : mapping from mode (number or name) to indices, optional
        Which slices to draw; evenly spaced ones and the strongest if not given.
    max_slices : int
        The most slices drawn without `slices`.
    mode_names, units : sequences of str, optional
        One for each mode.
    label : str
        What the colours (or heights) are, with its unit.
    target : label or int, optional
        The class, for a model with one coefficient for each class: its label, or its
        place where no class is called so; the first if not given.
    fig : matplotlib figure or subfigure, optional
    coords : arrays, one for each mode, or mapping from mode to array, optional
        Where the slices of a mode lie, as times, wavelengths or the names of
        channels: shown at the ticks and above slices. Without them, indices are.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> fig = plot_coef(
    ...     np.eye(4),
    ...     mode_names=("channel", "time"),
    ...     units=("", "ms"),
    ...     coords={"time": [0, 4, 8, 12]},
    ... )
    >>> fig.axes[0].get_xlabel()
    'time (ms)'
    """
    model = coef
    coef, modes, whose = drawn_coef(coef, target, mode_names, units, coords)
    seen = shown_entries(coef, model)
    if coef.ndim == 1:
        return _line(seen, modes, label, whose, fig)
    rows, columns = _shown(modes, show, coef.shape)
    over = [m for m in range(coef.ndim) if m not in (rows, columns)]
    chosen = _choose(seen, over, modes.indices(slices, coef.shape), max_slices)
    panels = _panels(chosen, over)
    grid = _grid(chosen, over)
    first = np.moveaxis(seen, (rows, columns), (0, 1))
    aspect = np.clip(coef.shape[rows] / coef.shape[columns], 0.4, 1.6)
    width = 4.6 if not over else max(4.0, min(2.0 * grid[1], 11.0)) + 0.8
    each = (width - 1.6) / grid[1] * aspect
    named = modes.is_nominal(rows) and coef.shape[rows] <= 40
    if named:  # every name is written, and has to have a place
        each = max(each, 0.125 * coef.shape[rows])
    height = (each + (0.25 if over else 0.0)) * grid[0]
    fig = fig or new_figure(width, min(height + 0.7, 12.0))
    axes = fig.subplots(*grid, squeeze=False)
    limit = diverging_limit(coef)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for place, (ax, at) in enumerate(zip(axes.flat, panels, strict=False)):
        cut: tuple[Any, ...] = (slice(None), slice(None), *at)
        picture = image(ax, first[cut], limit)
        if named:
            ax.set_aspect("auto")
        if over:
            ax.set_title(", ".join(map(modes.at, over[:2], at)), fontsize=9)
        if len(panels) > 1:
            ax.set(xticks=[], yticks=[])
        most = 6 if len(panels) == 1 else 3
        if modes.points_up(rows):
            ax.invert_yaxis()
        if place % grid[1] == 0:
            modes.tick(ax.yaxis, rows, most)
        if place + grid[1] >= len(panels):
            modes.tick(ax.xaxis, columns, most)
    if len(panels) > 1:
        fig.supxlabel(modes.label(columns), fontsize=10)
        fig.supylabel(modes.label(rows), fontsize=10)
    else:
        axes[0, 0].set(xlabel=modes.label(columns), ylabel=modes.label(rows))
    fixed = ", ".join(modes.at(m, chosen[m][0]) for m in over[2:])
    title = "; ".join(filter(None, [whose, fixed and f"at {fixed}"]))
    if title:
        fig.suptitle(title, fontsize=10)
    fig.colorbar(picture, ax=axes, label=label, shrink=0.9, aspect=30)
    return fig


def plot_overlay(
    coef: Any,
    sample: Any,
    *,
    show: tuple[int | str, int | str] | None = None,
    slices: Mapping[int | str, int] | None = None,
    threshold: float = 0.1,
    opacity: float = 0.85,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    label: str = "coefficient",
    target: Any = None,
    fig: Any = None,
    coords: Coords | None = None,
) -> Any:
    """Draw one slice of a coefficient over the same slice of a sample.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    sample : array of shape (p1, …, pM)
        A sample, or the mean of some: drawn in grey.
    show : pair of modes, optional
        Rows and columns; the two largest modes if not given.
    slices : mapping from mode (number or name) to index, optional
        Where the other modes are cut; the strongest slice if not given.
    threshold : float
        Coefficients of magnitude up to this fraction of the largest are left out.
    opacity : float
        Of the largest coefficients; smaller ones are more transparent.
    mode_names, units, label, target, fig, coords
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure
    """
    coef, modes, whose = drawn_coef(coef, target, mode_names, units, coords)
    sample = np.asarray(to_numpy(sample), float)
    if coef.shape != sample.shape or coef.ndim < 2:
        msg = (
            f"A coefficient of shape {coef.shape} and a sample of shape {sample.shape} "
            "were given; expected the same shape, of two modes or more."
        )
        raise ValueError(msg)
    rows, columns = _shown(modes, show, coef.shape)
    over = [m for m in range(coef.ndim) if m not in (rows, columns)]
    chosen = _choose(coef, over, modes.indices(slices, coef.shape), 1)
    at = (slice(None), slice(None), *(chosen[m][0] for m in over))
    top = np.moveaxis(coef, (rows, columns), (0, 1))[at]
    limit = diverging_limit(coef)
    fig = fig or new_figure(5.2, 4.2)
    ax = fig.add_subplot()
    under = np.moveaxis(sample, (rows, columns), (0, 1))[at]
    ax.imshow(under, cmap="gray", interpolation="nearest")
    image_over(ax, top, limit, threshold, opacity)
    ax.set(xlabel=modes.label(columns), ylabel=modes.label(rows))
    modes.tick(ax.xaxis, columns)
    modes.tick(ax.yaxis, rows)
    if modes.points_up(rows):
        ax.invert_yaxis()
    parts = [whose, *(modes.at(m, chosen[m][0]) for m in over)]
    ax.set_title(", ".join(filter(None, parts)), fontsize=10)
    colour_bar(fig, ax, limit, label, shrink=0.9)
    return fig


def _line(coef: np.ndarray, modes: Modes, label: str, title: str, fig: Any) -> Any:
    fig = fig or new_figure(6.4, 3.0)
    ax = tidy(fig.add_subplot())
    ax.axhline(0.0, color="0.4", linewidth=0.8)
    if coef.size <= 60 or modes.is_nominal(0):
        ax.vlines(np.arange(coef.size), 0.0, coef, color=COLOURS[0], linewidth=1.4)
        ax.plot(coef, "o", color=COLOURS[0], markersize=4)
    else:
        ax.plot(coef, color=COLOURS[0], linewidth=1.2)
    ax.set(xlabel=modes.label(0), ylabel=label)
    ax.set_title(title, fontsize=10)
    modes.tick(ax.xaxis, 0)
    return fig


def _shown(modes: Modes, show: Any, shape: Sequence[int]) -> tuple[int, int]:
    if show is None:
        return upright(modes.names, shape)
    several = isinstance(show, Iterable) and not isinstance(show, str)
    chosen = [modes.index(mode) for mode in show] if several else []
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        msg = f"show={show!r} was given; expected two different modes, as (0, 1)."
        raise ValueError(msg)
    return chosen[0], chosen[1]


def _choose(
    coef: np.ndarray, over: list[int], given: dict[int, Any], max_slices: int
) -> dict[int, list[int]]:
    """Return the slices to draw for each mode that is not shown."""
    if not isinstance(max_slices, int | np.integer) or max_slices < 1:
        msg = f"max_slices={max_slices!r} was given; expected a whole number above 0."
        raise ValueError(msg)
    budget = max_slices if len(over) == 1 else max(1, int(sqrt(max_slices)) + 1)
    chosen = {}
    for place, mode in enumerate(over):
        if mode in given:
            chosen[mode] = given[mode]
        elif place >= 2 or max_slices == 1:
            chosen[mode] = [strongest_slice(coef, mode)]
        else:
            chosen[mode] = even_slices(coef, mode, budget)
    return chosen


def _panels(chosen: dict[int, list[int]], over: list[int]) -> list[tuple[int, ...]]:
    """Return where each image is cut, row by row."""
    cuts: list[tuple[int, ...]] = [()]
    for place, mode in enumerate(over):
        indices = chosen[mode] if place < 2 else chosen[mode][:1]
        cuts = [(*cut, index) for cut in cuts for index in indices]
    return cuts


def _grid(chosen: dict[int, list[int]], over: list[int]) -> tuple[int, int]:
    if not over:
        return 1, 1
    n_first = len(chosen[over[0]])
    if len(over) > 1:
        return n_first, len(chosen[over[1]])
    rows = ceil(n_first / ceil(sqrt(1.5 * n_first)))
    return rows, ceil(n_first / rows)


def plot_heat_maps(
    coefs: Mapping[str, np.ndarray],
    *,
    samples: Mapping[str, np.ndarray] | None = None,
    frames: Sequence[int] | None = None,
    n_frames: int = 5,
    title: str = "",
) -> Any:
    """Draw methods down and frames across, below clips they are about.

    Parameters
    ----------
    coefs : mapping from method to array of shape (n_frames, width, height[, 3])
        Each has its own symmetric scale: methods differ by orders of magnitude.
        Colours are summed.
    samples : mapping from name to array of the same shape, optional
        Clips, drawn in grey above the coefficients, each with its own contrast.
    frames : sequence of int, optional
        Which frames; default: `n_frames` of them, evenly spaced.
    n_frames : int
    title : str

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> fig = plot_heat_maps({"SLTR": np.ones((15, 32, 24))}, frames=[0, 7])
    >>> len(fig.axes)  # two frames and a colour bar
    3
    """
    if not coefs:
        msg = "No coefficient was given; expected at least one. Name a method."
        raise ValueError(msg)
    clips = dict(samples or {})
    length = len(next(iter(coefs.values())))
    even = np.linspace(0, length - 1, min(n_frames, length)).round().astype(int)
    chosen = even.tolist() if frames is None else list(frames)
    first = next(iter(coefs.values()))
    width = 1.55 * len(chosen) + 1.9
    each = 1.5 * first.shape[2] / first.shape[1] + 0.08
    n_rows = len(clips) + len(coefs)
    fig = new_figure(width, each * n_rows + (0.65 if title else 0.35))
    ratios = [*[1.0] * len(chosen), 0.06]
    axes = fig.subplots(
        n_rows, len(ratios), squeeze=False, gridspec_kw={"width_ratios": ratios}
    )
    axes, bars = axes[:, :-1], axes[:, -1]
    for bar in bars[: len(clips)]:
        bar.remove()
    for ax, frame in zip(axes[0], chosen, strict=True):
        ax.set_title(f"frame {frame + 1}", fontsize=9)
    for row, (name, clip) in zip(axes, clips.items(), strict=False):
        low, high = np.percentile(clip, [0.5, 99.5])
        for ax, frame in zip(row, chosen, strict=True):
            grey = _upright(clip[frame], np.mean)
            ax.imshow(grey, cmap="gray", vmin=low, vmax=max(high, low + 1e-6))
        _name(row, name)
    below = zip(axes[len(clips) :], bars[len(clips) :], coefs.items(), strict=True)
    for row, place, (name, coef) in below:
        limit = diverging_limit(coef.sum(axis=3) if coef.ndim == 4 else coef)
        for ax, frame in zip(row, chosen, strict=True):
            picture = image(ax, _upright(coef[frame], np.sum), limit)
        _name(row, name)
        bar = fig.colorbar(picture, cax=place)
        bar.set_ticks(
            [-limit, 0.0, limit], labels=[f"−{limit:.3g}", "0", f"{limit:.3g}"]
        )
        bar.ax.tick_params(labelsize=7, length=2)
    if title:
        fig.suptitle(title, fontsize=11)
    return fig


def _upright(frame: np.ndarray, merge: Any) -> np.ndarray:
    """Return height × width, colours merged."""
    grey = merge(frame, axis=2) if frame.ndim == 3 else frame
    return grey.T


def _name(row: Sequence[Any], name: str) -> None:
    for ax in row:
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name, fontsize=9, rotation=0, ha="right", va="center", labelpad=6)
