"""The structure of a coefficient: spectra, factors, where its weight lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sltr.core.tensor import numerical_ranks, unfold
from sltr.plotting.modes import Coords, Modes, drawn_coef, plain
from sltr.plotting.style import COLOURS, MARKERS, new_axes, new_figure, tidy


def plot_spectrum(
    coef: Any,
    *,
    mode_names: Sequence[str] | None = None,
    target: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the singular values of every unfolding, relative to the largest.

    Modes of equal values share a line, as both of a matrix do. Values below 1e-4 are
    left out.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    mode_names : sequence of str, optional
    target
        As in `plot_coef`.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> ax = plot_spectrum(np.eye(3))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['mode 0, mode 1: rank 3 of 3']
    """
    coef, modes, whose = drawn_coef(coef, target, mode_names)
    ranks = numerical_ranks(coef)
    ax = tidy(new_axes(ax))
    drawn = []
    for together, values in _spectra(coef):
        first = together[0]
        shown = values[values > 1e-4]
        ax.plot(
            np.arange(1, shown.size + 1),
            shown,
            marker=MARKERS[first % len(MARKERS)],
            markersize=4.5,
            linewidth=1.2,
            color=COLOURS[first % len(COLOURS)],
            label=plain(", ".join(modes.names[m] for m in together))
            + f": rank {ranks[first]} of {values.size}",
        )
        drawn.append(shown)
    ax.set_yscale("log")
    ax.set_ylim(min(0.5, np.concatenate(drawn).min(initial=1.0) / 1.5), 1.5)
    ax.set_xlim(0.5, max(3, *(shown.size for shown in drawn)) + 0.5)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="number", ylabel="singular value / largest")
    ax.set_title(whose, fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _spectra(coef: np.ndarray) -> list[tuple[list[int], np.ndarray]]:
    """Return singular values of unfoldings over the largest, and the modes of each."""
    spectra: list[tuple[list[int], np.ndarray]] = []
    for mode in range(coef.ndim):
        values = np.linalg.svd(unfold(coef[None], mode)[0], compute_uv=False)
        values = values / (values[0] or 1.0)
        for together, known in spectra:
            if known.size == values.size and np.allclose(known, values, atol=1e-6):
                together.append(mode)
                break
        else:
            spectra.append(([mode], values))
    return spectra


def plot_factors(
    coef: Any,
    *,
    n_factors: int = 2,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    target: Any = None,
    fig: Any = None,
    coords: Coords | None = None,
) -> Any:
    """Draw the leading left singular vectors of every unfolding, mode by mode.

    The sign is chosen so that the largest entry of each vector is positive. The
    legend says which share of ‖coef‖² a vector stands for.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    n_factors : int
        The most vectors drawn for a mode.
    mode_names, units : sequences of str, optional
    target, fig, coords
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure
    """
    coef, modes, whose = drawn_coef(coef, target, mode_names, units, coords)
    fig = fig or new_figure(min(3.4 * coef.ndim + 0.4, 14.0), 3.0)
    axes = _axes_of_modes(fig, modes, "singular vector", whose)
    for mode, ax in enumerate(axes):
        left, values, _ = np.linalg.svd(unfold(coef[None], mode)[0], False)
        total = float(np.sum(values**2)) or 1.0
        ax.axhline(0.0, color="0.4", linewidth=0.8)
        for k in range(min(n_factors, values.size)):
            vector = left[:, k]
            vector = vector * np.sign(vector[np.argmax(np.abs(vector))] or 1.0)
            # Names have no order that a line could follow.
            named = modes.is_nominal(mode)
            ax.plot(
                vector,
                color=COLOURS[k % len(COLOURS)],
                linestyle="" if named else ("-", "--", ":", "-.")[k % 4],
                marker=MARKERS[k % len(MARKERS)] if named else "",
                markersize=5,
                label=f"no. {k + 1}: {100 * values[k] ** 2 / total:.0f} %",
            )
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
        ax.legend(frameon=False, fontsize=9, **place)
    return fig


def _axes_of_modes(fig: Any, modes: Modes, label: str, title: str) -> Any:
    """Return axes side by side, one for each mode, over its slices."""
    axes = fig.subplots(1, len(modes.names), squeeze=False)[0]
    for mode, ax in enumerate(axes):
        tidy(ax).set_xlabel(modes.label(mode))
        ax.xaxis.get_major_locator().set_params(integer=True)
        modes.tick(ax.xaxis, mode, 5)
    axes[0].set_ylabel(label)
    if title:
        fig.suptitle(title, fontsize=10)
    return axes


def mode_weights(coef: np.ndarray) -> list[np.ndarray]:
    """Return for every mode the share of ‖coef‖² that each slice holds."""
    squares = coef**2
    total = float(squares.sum()) or 1.0
    order = range(coef.ndim)
    return [squares.sum(axis=tuple(k for k in order if k != m)) / total for m in order]


def plot_mode_importance(
    coef: Any,
    *,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    target: Any = None,
    fig: Any = None,
    coords: Coords | None = None,
) -> Any:
    """Draw the share of ‖coef‖² that each slice of each mode holds.

    Parameters
    ----------
    coef : array of shape (p1, …, pM) or fitted model
    mode_names, units : sequences of str, optional
    target, fig, coords
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure
    """
    coef, modes, whose = drawn_coef(coef, target, mode_names, units, coords)
    fig = fig or new_figure(min(3.4 * coef.ndim + 0.4, 14.0), 2.8)
    axes = _axes_of_modes(fig, modes, "share of ‖W‖² (%)", whose)
    for ax, share in zip(axes, mode_weights(coef), strict=True):
        ax.bar(np.arange(share.size), 100 * share, 0.9, color=COLOURS[0])
        ax.set_xlim(-0.6, share.size - 0.4)
    return fig
