"""Coefficients of several methods over the frames of a video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sltr.plotting.style import diverging_limit, image, new_figure

__all__ = ["plot_heat_maps"]


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
