"""Results of `sltr.inference`: tests, patterns, intervals, stable and safe entries."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.inference import Intervals, LabelSets
from sltr.parameters import refuse
from sltr.plotting.coefficient import plot_coef
from sltr.plotting.modes import Coords, plain
from sltr.plotting.prediction import plot_predictions
from sltr.plotting.style import COLOURS, SEQUENTIAL, new_axes, tidy
from sltr.samples.labelled import Labels, remember_labels


def plot_permutation_test(test: Any, *, ax: Any = None) -> Any:
    """Draw the scores of permuted responses, and that of the true ones.

    Parameters
    ----------
    test : PermutationTest
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from sltr.inference import PermutationTest
    >>> null = np.linspace(-0.2, 0.1, 99)
    >>> test = PermutationTest(0.01, 0.4, null, "pilot", "R²", "samples")
    >>> plot_permutation_test(test).get_title()
    'p = 0.01, 99 permutations of samples'
    """
    ax = tidy(new_axes(ax))
    finite = test.null[np.isfinite(test.null)]
    bins = int(np.clip(np.sqrt(finite.size), 5, 40))
    ax.hist(finite, bins=bins, color=COLOURS[5], label="permuted responses")
    ax.axvline(test.score, color=COLOURS[1], linewidth=2.0, label="true responses")
    ax.set(xlabel=test.scored_by, ylabel="permutations")
    ax.set_title(
        f"p = {test.p_value:.2g}, {len(test.null)} permutations of {test.permuted}",
        fontsize=10,
    )
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    ax.margins(y=0.25)  # room for the legend
    return ax


def plot_pattern(
    found: Any,
    *,
    target: int = 0,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    coords: Coords | None = None,
    fig: Any = None,
) -> Any:
    """Draw a forward pattern: the change of samples with the model's score.

    Parameters
    ----------
    found : Patterns
    target : int
        The place of a class, or of a response, that has a pattern of its own.
    mode_names, units, coords, fig
        As for `plot_coef`.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from sltr.inference import Patterns
    >>> fig = plot_pattern(Patterns(np.eye(4), 2.0))
    >>> float(fig.axes[0].images[0].get_array().max())
    2.0
    """
    std = to_numpy(found.score_std) if np.ndim(found.score_std) else found.score_std
    pattern = np.asarray(to_numpy(found.pattern), float)
    if found.shape_out:
        each = pattern.reshape(*pattern.shape[: -len(found.shape_out)], -1)
        pattern, std = each[..., target], np.ravel(std)[target]
    elif np.ndim(std):
        pattern, std = pattern[target], std[target]
    return plot_coef(
        _known(pattern * std, found.labels),
        mode_names=mode_names,
        units=units,
        coords=coords,
        label="samples' change with one SD of the score",
        fig=fig,
    )


def _known(entries: np.ndarray, labels: Labels | None) -> Any:
    """Return a map with the labels of its samples, as a fitted model has them."""
    known = SimpleNamespace(coef_=entries, shape_in_=entries.shape)
    remember_labels(known, labels, entries.ndim)
    return known


def plot_stability(
    found: Any,
    *,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    coords: Coords | None = None,
    fig: Any = None,
) -> Any:
    """Draw how often each entry is selected in halves of the samples.

    Parameters
    ----------
    found : Stability
    mode_names, units, coords, fig
        As for `plot_coef`.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from sltr.inference import Stability
    >>> often = np.eye(4)
    >>> found = Stability(often, often > 0.75, 0.75, 4, 4.0, 1.0, 2.0, 100)
    >>> plot_stability(found).axes[0].images[0].get_clim()
    (0.0, 1.0)
    """
    fig = plot_coef(
        _known(found.frequency, found.labels),
        mode_names=mode_names,
        units=units,
        coords=coords,
        label="selection frequency",
        fig=fig,
    )
    pictures = [picture for ax in fig.axes for picture in ax.images]
    for picture in pictures:
        picture.set(cmap=SEQUENTIAL, clim=(0.0, 1.0))
    bars = [bar for picture in pictures if (bar := picture.colorbar)]
    for bar in bars:
        bar.ax.axhline(found.threshold, color=COLOURS[1], linewidth=2.0)
    if not pictures:
        fig.axes[0].axhline(found.threshold, color=COLOURS[1], linestyle="--")
        fig.axes[0].set_ylim(0.0, 1.05)
    return fig


def plot_significant(
    found: Any,
    *,
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    coords: Coords | None = None,
    fig: Any = None,
) -> Any:
    """Draw Student's t of the entries that a map with error control selects.

    Parameters
    ----------
    found : Significant
    mode_names, units, coords, fig
        As for `plot_coef`.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressorCV
    >>> from sltr.inference import significant
    >>> X = np.random.default_rng(0).normal(size=(50, 4, 3))
    >>> found = significant(SLTRRegressorCV(), X, X[:, 0, 0], n=99, random_state=0)
    >>> fig = plot_significant(found)
    >>> int(np.count_nonzero(fig.axes[0].images[0].get_array()))
    1
    """
    return plot_coef(
        _known(np.where(found.selected, found.statistic, 0.0), found.labels),
        mode_names=mode_names,
        units=units,
        coords=coords,
        label=f"t where selected ({found.control.upper()} {found.level:g})",
        fig=fig,
    )


def plot_intervals(
    found: Intervals | LabelSets,
    X: Any,
    y: Any,
    *,
    level: float = 0.9,
    label: str = "response",
    target: int | tuple[int, ...] | None = None,
    ax: Any = None,
) -> Any:
    """Draw prediction intervals against the truth, or which labels sets hold.

    Parameters
    ----------
    found : Intervals or LabelSets
    X : array of shape (n, p1, …, pM)
        Samples that were not trained on.
    y : array of shape (n,), or (n, q1, …)
        Their responses or labels.
    level : float
    label : str
        The response's name, with its unit.
    target : int, or tuple of int
        Of several responses, which one to draw; the first if not given.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import TensorRidge
    >>> from sltr.inference import intervals
    >>> X = np.random.default_rng(0).normal(size=(60, 3, 2))
    >>> found = intervals(TensorRidge(), X[:40], X[:40, 0, 0])
    >>> ax = plot_intervals(found, X[40:], X[40:, 0, 0])
    >>> ax.get_title().startswith("90 % intervals hold")
    True
    """
    y = to_numpy(y) if hasattr(y, "shape") else np.asarray(y)
    if isinstance(found, LabelSets):
        return _draw_sets(found, X, np.ravel(y), level, ax)
    lower, upper = found.predict(X, level)
    known, which = found.y, ""
    if known.ndim > 1:
        place = _place(target, known.shape[1:])
        if y.shape != lower.shape:
            msg = f"y has shape {y.shape}; expected {lower.shape}, all responses."
            raise ValueError(msg)
        index: Any = (slice(None), *place)
        known, lower, upper, y = (v[index] for v in (known, lower, upper, y))
        which = f"response {place[0] if len(place) == 1 else place}: "
    y = np.ravel(y)
    finite = np.isfinite(lower) & np.isfinite(upper)
    lowest, highest = (np.where(finite, end, 0.0) for end in (lower, upper))
    middle = np.where(finite, 0.5 * (lowest + highest), np.mean(known))
    ax = plot_predictions(
        y,
        middle,
        interval=(lower, upper),
        null=float(np.mean(known)),
        label=label,
        ax=ax,
    )
    share = np.mean((lower <= y) & (y <= upper))
    told = f"{100 * level:g} % intervals hold {100 * share:.0f} % of {y.size} responses"
    ax.set_title(which + told, fontsize=10)
    return ax


def _place(target: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return which of several responses is meant."""
    place = (0,) * len(shape) if target is None else tuple(np.atleast_1d(target))
    inside = [-size <= one < size for one, size in zip(place, shape, strict=False)]
    if len(place) != len(shape) or not all(inside):
        refuse("target", target, f"a place among responses of shape {shape}")
    return tuple(int(one) for one in place)


def _draw_sets(
    found: LabelSets, X: Any, y: np.ndarray, level: float, ax: Any = None
) -> Any:
    """Draw how often the sets of each class's samples hold each label."""
    inside = found.predict(X, level)
    place = np.searchsorted(found.classes, y)
    n_classes = len(found.classes)
    share = np.full((n_classes, n_classes), np.nan)
    for c in np.unique(place):
        share[c] = inside[place == c].mean(axis=0)
    ax = new_axes(ax, 4.6, 4.2)
    picture = ax.imshow(share, cmap=SEQUENTIAL, vmin=0.0, vmax=1.0)
    for c, other in np.ndindex(share.shape):
        if np.isfinite(share[c, other]):
            colour = "white" if share[c, other] < 0.5 else "black"
            text = f"{share[c, other]:.2f}"
            ax.text(other, c, text, ha="center", va="center", color=colour)
    names = [plain(str(name)) for name in found.classes]
    ax.set(xticks=range(n_classes), xticklabels=names, xlabel="label in the set")
    ax.set(yticks=range(n_classes), yticklabels=names, ylabel="true label")
    ax.figure.colorbar(picture, ax=ax, label="share of the samples")
    held = inside[np.arange(len(y)), place].mean()
    size = inside.sum(axis=1).mean()
    ax.set_title(
        f"{100 * level:g} % sets hold {100 * held:.0f} % of true labels,\n"
        f"{size:.2f} labels each",
        fontsize=10,
    )
    return ax
