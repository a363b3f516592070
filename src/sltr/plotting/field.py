"""Coefficients as their field draws them: brains, heads, films.

A model fitted to samples of a reader knows where its voxels or sensors are, and which
modes of a film are its width and height.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.coefficients import UPRIGHT, coef_array, target_index, target_name
from sltr.datasets.nifti import coef_img
from sltr.parameters import import_optional
from sltr.plotting.coefficient import plot_coef
from sltr.plotting.modes import Modes, drawn_coef, even_slices, strongest_slice
from sltr.plotting.style import (
    DIVERGING,
    colour_bar,
    diverging_limit,
    image,
    image_over,
    new_figure,
)


def plot_model(model: Any, *, target: Any = None) -> Any:
    """Draw the coefficient of a model as its field does.

    Images become a glass brain, sensors topographies, films frames; everything else is
    drawn by `plot_coef`.

    Parameters
    ----------
    model : fitted model
    target
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure

    See Also
    --------
    plot_brain, plot_topographies, plot_film, plot_coef : what it chooses from.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressor
    >>> X = np.random.default_rng(0).normal(size=(30, 4, 3))
    >>> fig = plot_model(SLTRRegressor().fit(X, X[:, 0, 0]))
    """
    kind = str(getattr(model, "space_", {}).get("kind"))
    draw: dict[str, Callable[..., Any]] = {
        "voxels": plot_brain,
        "sensors": plot_topographies,
        "film": plot_film,
    }
    return draw.get(kind, plot_coef)(model, target=target)


def plot_brain(
    model: Any,
    *,
    kind: str = "glass",
    background: Any = None,
    threshold: float = 0.1,
    label: str = "coefficient",
    target: Any = None,
    fig: Any = None,
) -> Any:
    """Draw the coefficient of images in a glass brain, or over slices, by nilearn.

    Parameters
    ----------
    model : model fitted to samples of `load_nifti`
    kind : {"glass", "slices"}
        "glass": the entry of largest magnitude along each line of sight, from left,
        right, behind and above; "slices": cuts through the largest cluster.
    background : image or path, optional
        What lies under slices. Default: the MNI152 template, which fits images that
        were brought to that space.
    threshold : float
        Coefficients of magnitude up to this fraction of the largest are left out.
    label : str
        What the colours are, with its unit.
    target, fig
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure
    """
    plotting = import_optional(
        "nilearn.plotting", "Pictures of brains need nilearn", "'sltr[neuro]'"
    )
    if kind not in ("glass", "slices"):
        msg = f"kind={kind!r} was given; expected 'glass' or 'slices'."
        raise ValueError(msg)
    coef, whose = coef_array(model, target), target_name(model, target)
    picture, limit = coef_img(model), diverging_limit(coef)
    index = target_index(model, target)
    picture = picture if index is None else picture.slicer[..., index]
    fig = fig or new_figure(9.0, 2.6, constrained=False)
    options = {
        "figure": fig,
        "axes": (0.0, 0.0, 0.95, 1.0),
        "threshold": min(threshold, 1.0) * limit or None,
        "cmap": DIVERGING,
        "vmin": -limit,
        "vmax": limit,
        "colorbar": True,
        "title": whose or None,
        "black_bg": False,
    }
    with warnings.catch_warnings():
        # Said of a coefficient without entries, whose brain is empty.
        warnings.filterwarnings("ignore", "empty mask|Given img is empty")
        if kind == "glass":
            display = plotting.plot_glass_brain(
                picture, display_mode="lyrz", plot_abs=False, **options
            )
        else:
            under = {} if background is None else {"bg_img": background}
            display = plotting.plot_stat_map(picture, **under, **options)
    display._cbar.set_label(label)
    return fig


def plot_topographies(
    model: Any,
    *,
    times: Sequence[float] | None = None,
    n_times: int = 6,
    channel_type: str | None = None,
    label: str = "coefficient",
    target: Any = None,
    fig: Any = None,
) -> Any:
    """Draw the coefficient of channels on the head, over time, by MNE.

    Parameters
    ----------
    model : model fitted to samples of `load_epochs`
    times : sequence of float, optional
        In the units of the time mode. Default: `n_times` of them, evenly spaced, the
        strongest among them.
    n_times : int
    channel_type : str, optional
        As "eeg", "mag" or "grad"; the first that there is if not given.
    label, target, fig
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure
    """
    mne = import_optional("mne", "Topographies need mne", "'sltr[eeg]'")
    space = getattr(model, "space_", {})
    if space.get("kind") != "sensors":
        msg = (
            f"{type(model).__name__} does not know where its channels are; expected a "
            "model fitted to samples of load_epochs, which also takes arrays as "
            "mne.EpochsArray. For other pictures use plot_coef."
        )
        raise ValueError(msg)
    coef, modes, whose = drawn_coef(model, target)
    types = np.asarray(space["types"])
    kind = str(types[0]) if channel_type is None else channel_type
    rows = np.flatnonzero(types == kind)
    if not len(rows):
        known = ", ".join(dict.fromkeys(types.tolist()))
        msg = f"channel_type={channel_type!r} was given; expected one of {known}."
        raise ValueError(msg)
    positions = np.asarray(space["positions"], float)[rows]
    if not np.isfinite(positions).all() or not positions.any():
        msg = (
            "The channels have no positions; expected those of a montage. Call "
            "epochs.set_montage before load_epochs, or use plot_coef."
        )
        raise ValueError(msg)
    flat = coef.reshape(coef.shape[0], coef.shape[1] if coef.ndim > 1 else 1, -1)
    # Further modes, as frequencies, are cut where the coefficient is strongest.
    flat = flat[:, :, strongest_slice(flat, 2)]
    chosen = _time_indices(times, modes, flat, n_times) if coef.ndim > 1 else [0]
    limit = diverging_limit(flat)
    # The same lines on all heads: else those of noise would look like a signal.
    lines = [share * limit for share in (-0.75, -0.5, -0.25, 0.25, 0.5, 0.75)]
    info = _info(mne, np.asarray(model.coords_[0])[rows], positions, kind)
    fig = fig or new_figure(1.7 * len(chosen) + 1.2, 2.1)
    axes = fig.subplots(1, len(chosen), squeeze=False)[0]
    for ax, index in zip(axes, chosen, strict=True):
        drawn, _ = mne.viz.plot_topomap(
            flat[rows, index],
            info,
            axes=ax,
            show=False,
            cmap=DIVERGING,
            vlim=(-limit, limit),
            contours=lines,
        )
        if coef.ndim > 1:
            ax.set_title(_time_text(modes, index), fontsize=9)
    if whose:
        fig.suptitle(whose, fontsize=10)
    fig.colorbar(drawn, ax=axes, label=label, shrink=0.8, aspect=15)
    return fig


def _time_text(modes: Modes, index: int) -> str:
    values, unit = modes.coords[1], modes.units[1]
    if values is None:
        return modes.at(1, index)
    if unit == "s":
        return f"{1000 * float(values[index]):.0f} ms".replace("-", "−")
    return f"{values[index]:.4g} {unit}".rstrip().replace("-", "−")


def _time_indices(
    times: Sequence[float] | None, modes: Modes, coef: np.ndarray, n_times: int
) -> list[int]:
    if times is None:
        return even_slices(coef, 1, n_times)
    values = modes.coords[1]
    places = np.arange(coef.shape[1]) if values is None else np.asarray(values, float)
    wanted = np.atleast_1d(np.asarray(times, float))
    if np.any((wanted < places.min()) | (wanted > places.max())):
        msg = (
            f"times={times!r} was given; expected numbers from {places.min():g} to "
            f"{places.max():g}."
        )
        raise ValueError(msg)
    return [int(np.argmin(np.abs(places - one))) for one in wanted]


def _info(mne: Any, names: np.ndarray, positions: np.ndarray, kind: str) -> Any:
    info = mne.create_info([str(name) for name in names], 1.0, kind, verbose="error")
    for channel, place in zip(info["chs"], positions, strict=True):
        channel["loc"][:3] = place
    return info


def plot_film(
    model: Any,
    sample: Any = None,
    *,
    frames: Sequence[int] | None = None,
    n_frames: int = 5,
    threshold: float = 0.1,
    label: str = "coefficient",
    target: Any = None,
    fig: Any = None,
) -> Any:
    """Draw frames of a film's coefficient upright, over a sample if one is given.

    Parameters
    ----------
    model : model fitted to films, or array of shape (frames, width, height[, 3])
        Colours are summed. Modes of a model that are called "height" and "width", or
        "row" and "column", may be in this order.
    sample : array of the shape of a sample, optional
        A film, or the mean of some, drawn in grey below.
    frames : sequence of int, optional
        Which frames. Default: `n_frames`, evenly spaced, the strongest among them.
    n_frames : int
    threshold : float
        Over a sample, coefficients of magnitude up to this fraction of the largest are
        left out.
    label, target, fig
        As in `plot_coef`.

    Returns
    -------
    matplotlib figure

    See Also
    --------
    animate_film : the same, moving.

    Examples
    --------
    >>> import numpy as np
    >>> fig = plot_film(np.ones((15, 32, 24)), frames=[0, 7])
    >>> fig.axes[0].images[0].get_array().shape  # height, width
    (24, 32)
    """
    film, under, titles, whose = _film(model, sample, target)
    n = len(film)
    chosen = even_slices(film, 0, n_frames) if frames is None else list(frames)
    if not chosen or any(not 0 <= k < n for k in chosen):
        msg = f"frames={frames!r} was given; expected numbers from 0 to {n - 1}."
        raise ValueError(msg)
    height = 1.9 * film.shape[1] / film.shape[2]
    fig = fig or new_figure(1.9 * len(chosen) + 1.2, height + 0.6)
    axes = fig.subplots(1, len(chosen), squeeze=False)[0]
    limit = diverging_limit(film)
    for ax, k in zip(axes, chosen, strict=True):
        _frame(ax, film, under, k, limit, threshold)
        ax.set_title(titles[k], fontsize=9)
    if whose:
        fig.suptitle(whose, fontsize=10)
    colour_bar(fig, axes, limit, label, shrink=0.9, aspect=15)
    return fig


def animate_film(
    model: Any,
    sample: Any = None,
    *,
    interval: int = 200,
    threshold: float = 0.1,
    label: str = "coefficient",
    target: Any = None,
) -> Any:
    """Return a film's coefficient as an animation, upright, over a sample if given.

    Parameters
    ----------
    model, sample, threshold, label, target
        As in `plot_film`.
    interval : int
        Milliseconds for each frame.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        ``.save("film.gif")`` writes it; in Jupyter, ``.to_jshtml()`` shows it.
    """
    film, under, titles, whose = _film(model, sample, target)
    fig = new_figure(5.2, 3.4 * film.shape[1] / film.shape[2] + 0.8)
    from matplotlib.animation import FuncAnimation

    ax, limit = fig.add_subplot(), diverging_limit(film)

    def draw(k: int) -> list[Any]:
        ax.clear()
        _frame(ax, film, under, k, limit, threshold)
        ax.set_title(", ".join(filter(None, [whose, titles[k]])), fontsize=10)
        return list(ax.images)

    colour_bar(fig, [ax], limit, label, shrink=0.9, aspect=15)
    draw(0)
    return FuncAnimation(fig, draw, frames=len(film), interval=interval)


def _film(
    model: Any, sample: Any, target: Any
) -> tuple[np.ndarray, np.ndarray | None, list[str], str]:
    """Return coefficient and sample as frames × height × width, colours merged.

    Then the frames' titles and the target's name.
    """
    whose, coef = target_name(model, target), coef_array(model, target)
    if coef.ndim not in (3, 4):
        msg = (
            f"A coefficient of shape {coef.shape} was given; expected frames × width × "
            "height, with or without colours."
        )
        raise ValueError(msg)
    under = None
    if sample is not None:
        under = np.asarray(to_numpy(sample), float)
        if under.shape != coef.shape:
            msg = (
                f"A sample of shape {under.shape} was given; expected {coef.shape}, "
                "that of the coefficient."
            )
            raise ValueError(msg)
        under = under.mean(axis=3) if under.ndim == 4 else under
    modes = Modes.of(coef.shape, model=model)
    known = modes.names[0] != "mode 0"
    titles = [modes.at(0, k) if known else f"frame {k}" for k in range(len(coef))]
    coef = coef.sum(axis=3) if coef.ndim == 4 else coef
    if modes.names[1:3] in UPRIGHT:
        return coef, under, titles, whose
    turned = None if under is None else np.swapaxes(under, 1, 2)
    return np.swapaxes(coef, 1, 2), turned, titles, whose


def _frame(
    ax: Any,
    film: np.ndarray,
    under: np.ndarray | None,
    k: int,
    limit: float,
    threshold: float,
) -> None:
    if under is None:
        image(ax, film[k], limit)
    else:
        # One contrast for all frames: else the film would flicker.
        low, high = np.nanpercentile(under, (0.5, 99.5))
        grey = {"cmap": "gray", "vmin": low, "vmax": max(high, low + 1e-6)}
        ax.imshow(under[k], interpolation="nearest", **grey)
        image_over(ax, film[k], limit, threshold)
    ax.set(xticks=[], yticks=[])
