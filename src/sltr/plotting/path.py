"""How the coefficient changes along a hyper-parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.core.tensor import numerical_ranks
from sltr.estimators.path import SLTRPath
from sltr.plotting.modes import Modes, plain
from sltr.plotting.style import COLOURS, MARKERS, new_figure, tidy

# What may vary along a path of `sltr_path`, the first that does by default.
_AXES = ("lambda_sparse", "lambda_low", "epsilon")


def check_path(values: Any, coefs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return values (G,), ascending, and their coefficients (G, p1, …, pM)."""
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
    values, coefs = values[order], coefs[order]
    twice = values[1:][np.diff(values) == 0]
    if twice.size:
        msg = (
            f"Several coefficients for the value {twice[0]:.4g} were given; expected "
            "one for each. Of a whole grid, choose those along one hyper-parameter, or "
            "give plot_path what sltr_path returned."
        )
        raise ValueError(msg)
    return values, coefs


def path_along(
    path: SLTRPath, along: str | None = None, fixed: Mapping[str, float] | None = None
) -> tuple[str, np.ndarray, np.ndarray, dict[str, float]]:
    """Return a hyper-parameter, its values, their coefficients, and what is fixed."""
    columns = {name: np.asarray(to_numpy(getattr(path, name)), float) for name in _AXES}
    varying = [name for name in _AXES if np.unique(columns[name]).size > 1]
    wanted = dict(fixed or {})
    name = along or next((n for n in varying if n not in wanted), _AXES[0])
    others = [other for other in _AXES if other != name]
    if name not in _AXES or not set(wanted) <= set(others):
        msg = (
            f"along={along!r}, fixed={fixed!r} was given; expected one of "
            f"{', '.join(_AXES)} along, and values of others of them."
        )
        raise ValueError(msg)
    at = {other: _level(other, columns[other], wanted.get(other)) for other in others}
    keep = np.all([columns[other] == at[other] for other in others], axis=0)
    coefs = np.asarray(to_numpy(path.coef))[keep]
    fixed_values = {other: at[other] for other in others if other in varying}
    return name, columns[name][keep], coefs, fixed_values


def _level(name: str, column: np.ndarray, wanted: float | None) -> float:
    """Return the value of a grid that is wanted, or the one in its middle."""
    levels = np.unique(column)
    if wanted is None:
        return float(levels[(levels.size - 1) // 2])
    # Radii asked for in double precision, of a path in single precision.
    near = levels[np.isclose(levels, wanted, rtol=1e-5)]
    if near.size != 1:
        known = ", ".join(f"{level:.4g}" for level in levels)
        msg = f"fixed[{name!r}]={wanted!r} was given; expected one of {known}."
        raise ValueError(msg)
    return float(near[0])


def strongest_entries(coefs: np.ndarray, n_entries: int) -> np.ndarray:
    """Return the entries with the largest magnitude anywhere on a path, flat."""
    largest = np.max(np.abs(coefs.reshape(len(coefs), -1)), axis=0)
    order = np.argsort(-largest, kind="stable")[:n_entries]
    return order[largest[order] > 0]


def plot_path(
    values: Any,
    coefs: Any = None,
    *,
    chosen: float | None = None,
    n_entries: int = 30,
    name: str | None = None,
    mode_names: Sequence[str] | None = None,
    fig: Any = None,
    along: str | None = None,
    fixed: Mapping[str, float] | None = None,
) -> Any:
    """Draw a regularisation path: entries, how many are not zero, and ranks.

    Parameters
    ----------
    values : array of shape (G,), or SLTRPath
        The hyper-parameter; or what `sltr_path` returned.
    coefs : array of shape (G, p1, …, pM), optional
        The coefficient for each value; those of the SLTRPath if that was given.
    chosen : float, optional
        The value to mark.
    n_entries : int
        How many of the strongest entries are drawn.
    name : str
        The hyper-parameter's name; "λ" if not given, or `along`.
    mode_names : sequence of str, optional
    fig : matplotlib figure or subfigure, optional
    along : {"lambda_sparse", "lambda_low", "epsilon"}, optional
        What varies along an SLTRPath; the first of these that does if not given.
    fixed : mapping, optional
        Values of an SLTRPath's other hyper-parameters; the middle of their grids if
        not given.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> fig = plot_path([0.1, 1.0], np.stack([np.eye(3), np.zeros((3, 3))]))
    >>> [ax.get_ylabel() for ax in fig.axes]
    ['coefficient', 'entries not zero', 'rank']

    All radii of a grid, along one of them:

    >>> from sltr import sltr_path
    >>> X = np.random.default_rng(0).normal(size=(60, 5, 4))
    >>> radii = {"lambdas_sparse": [0.0, 0.5, 1.0], "lambdas_low": [0.3, 1.0]}
    >>> path = sltr_path(X, X[:, 0, 0], epsilons=[1.0], **radii)
    >>> fig = plot_path(path, along="lambda_sparse", fixed={"lambda_low": 1.0})
    >>> fig.axes[-1].get_xlabel(), fig.axes[0].lines[0].get_xdata()
    ('lambda_sparse', array([0. , 0.5, 1. ]))
    """
    at: dict[str, float] = {}
    if isinstance(values, SLTRPath):
        if mode_names is None and values.labels is not None:
            mode_names = values.labels.names
        varied, values, coefs, at = path_along(values, along, fixed)
        name = name or varied
    elif coefs is None or along or fixed:
        msg = (
            f"{type(values).__name__} was given; expected values and coefs, or a path "
            "of sltr_path, of which alone `along` and `fixed` speak."
        )
        raise ValueError(msg)
    name = name or "λ"
    values, coefs = check_path(values, coefs)
    modes = Modes.of(coefs.shape[1:], mode_names)
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
    held = ", ".join(f"{other} = {value:.3g}" for other, value in at.items())
    axes[0].set_title(f"{title}\n{held}" if held else title, fontsize=10)
    axes[1].plot(values, np.count_nonzero(flat, axis=1), "o-", color=COLOURS[0], ms=4)
    _draw_ranks(axes[2], values, coefs, modes)
    for ax, label in zip(
        axes, ("coefficient", "entries not zero", "rank"), strict=True
    ):
        tidy(ax).set_ylabel(label)
        if chosen is not None:
            ax.axvline(chosen, color="0.3", linestyle="--", linewidth=1.0)
    for ax in axes[1:]:
        ax.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    _scale(axes[-1], values)
    axes[-1].set_xlabel(name if chosen is None else f"{name} (dashed: chosen)")
    return fig


def _draw_ranks(ax: Any, values: np.ndarray, coefs: np.ndarray, modes: Modes) -> None:
    ranks = np.array([numerical_ranks(coef) for coef in coefs])
    for mode in range(ranks.shape[1]):
        ax.plot(
            values,
            ranks[:, mode],
            marker=MARKERS[mode % len(MARKERS)],
            color=COLOURS[mode % len(COLOURS)],
            markersize=4,
            linewidth=1.2,
            label=plain(modes.names[mode]),
        )
    ax.legend(frameon=False, fontsize=8, ncols=3)


def _scale(ax: Any, values: np.ndarray) -> None:
    positive = values[values > 0]
    if positive.size < 3 or positive[-1] < 20 * positive[0]:
        return
    if positive.size == values.size:
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=positive[0])
