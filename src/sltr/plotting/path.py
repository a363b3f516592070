"""How the coefficient changes along a hyper-parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sltr._array import to_numpy
from sltr.plotting.modes import Modes
from sltr.plotting.style import COLOURS, MARKERS, new_figure, tidy
from sltr.tensor import numerical_ranks

__all__ = ["check_path", "plot_path", "strongest_entries"]


def check_path(values: Any, coefs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return hyper-parameters (G,), ascending, and their coefficients (G, p1, …, pM).

    Examples
    --------
    >>> values, coefs = check_path([2.0, 1.0], [[0.0, 0.0], [3.0, 4.0]])
    >>> values, coefs[0]
    (array([1., 2.]), array([3., 4.]))
    """
    values = np.asarray(to_numpy(values), float)
    coefs = np.asarray(to_numpy(coefs), float)
    if (
        values.ndim != 1
        or coefs.ndim < 2
        or len(values) != len(coefs)
        or not len(values)
    ):
        msg = (
            f"{values.shape} values, coefficients of shape {coefs.shape} were given; "
            "expected (G,) and (G, p1, …, pM)."
        )
        raise ValueError(msg)
    order = np.argsort(values, kind="stable")
    return values[order], coefs[order]


def strongest_entries(coefs: np.ndarray, n_entries: int) -> np.ndarray:
    """Return the entries with the largest magnitude anywhere on a path, flat."""
    largest = np.max(np.abs(coefs.reshape(len(coefs), -1)), axis=0)
    order = np.argsort(-largest, kind="stable")[:n_entries]
    return order[largest[order] > 0]


def plot_path(
    values: Any,
    coefs: Any,
    *,
    chosen: float | None = None,
    n_entries: int = 30,
    name: str = "λ",
    mode_names: Sequence[str] | None = None,
    fig: Any = None,
) -> Any:
    """Draw a regularisation path: entries, how many are not zero, and ranks.

    Parameters
    ----------
    values : array of shape (G,)
        The hyper-parameter.
    coefs : array of shape (G, p1, …, pM)
        The coefficient for each value.
    chosen : float, optional
        The value to mark.
    n_entries : int
        How many of the strongest entries are drawn.
    name : str
        The hyper-parameter's name.
    mode_names : sequence of str, optional
    fig : matplotlib figure or subfigure, optional

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> fig = plot_path([0.1, 1.0], np.stack([np.eye(3), np.zeros((3, 3))]))
    >>> [ax.get_ylabel() for ax in fig.axes]
    ['coefficient', 'entries not zero', 'rank']
    """
    values, coefs = check_path(values, coefs)
    modes = Modes.of(coefs.ndim - 1, mode_names)
    fig = fig or new_figure(6.4, 7.0)
    axes = fig.subplots(3, 1, sharex=True, height_ratios=(2, 1, 1))
    flat = coefs.reshape(len(coefs), -1)
    entries = strongest_entries(coefs, n_entries)
    for place, entry in enumerate(entries):
        axes[0].plot(
            values, flat[:, entry], color=COLOURS[place % len(COLOURS)], linewidth=1.0
        )
    axes[0].axhline(0.0, color="0.4", linewidth=0.8)
    title = f"the {len(entries)} strongest of {flat.shape[1]} entries"
    axes[0].set_title(title, fontsize=10)
    axes[1].plot(values, np.count_nonzero(flat, axis=1), "o-", color=COLOURS[0], ms=4)
    ranks = np.array([numerical_ranks(coef) for coef in coefs])
    for mode in range(ranks.shape[1]):
        axes[2].plot(
            values,
            ranks[:, mode],
            marker=MARKERS[mode % len(MARKERS)],
            color=COLOURS[mode % len(COLOURS)],
            markersize=4,
            linewidth=1.2,
            label=modes.names[mode],
        )
    axes[2].legend(frameon=False, fontsize=8, ncols=3)
    for ax, label in zip(
        axes, ("coefficient", "entries not zero", "rank"), strict=True
    ):
        tidy(ax).set_ylabel(label)
        if chosen is not None:
            ax.axvline(chosen, color="0.3", linestyle="--", linewidth=1.0)
    _scale(axes[-1], values)
    axes[-1].set_xlabel(name if chosen is None else f"{name} (dashed: chosen)")
    return fig


def _scale(ax: Any, values: np.ndarray) -> None:
    positive = values[values > 0]
    if positive.size < 3 or positive[-1] < 20 * positive[0]:
        return
    if positive.size == values.size:
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=positive[0])
