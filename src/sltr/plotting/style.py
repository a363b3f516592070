"""Colours and axes that all figures share."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sltr.parameters import import_optional

# Okabe and Ito's palette: told apart with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS = "osD^vPX"
DIVERGING = "RdBu_r"
OUTSIDE = "0.85"  # the colour of entries outside a mask: not that of zero
SEQUENTIAL = "cividis"


def new_figure(width: float, height: float, *, constrained: bool = True) -> Any:
    """Return an empty figure whose parts do not overlap.

    In Jupyter a figure is shown at the end of its cell, and again if it is the value
    of the last line. Ours leaves the list of open figures when it is shown, so that it
    is shown once.
    """
    plt = import_optional(
        "matplotlib.pyplot", "Figures need matplotlib", "'sltr[report]'"
    )
    layout = "constrained" if constrained else None
    fig = plt.figure(figsize=(width, height), layout=layout)
    vars(fig)["_ipython_display_"] = partial(_show_once, fig)
    return fig


def _show_once(fig: Any) -> None:
    """Show a figure in Jupyter, and take it from the list of open ones."""
    import matplotlib.pyplot as plt
    from IPython.core.pylabtools import print_figure
    from IPython.display import Image, display

    plt.close(fig)
    display(Image(print_figure(fig, "png"), format="png"))


def close_figure(fig: Any) -> None:
    """Take a figure that was written to a file from the list of open ones."""
    import matplotlib.pyplot as plt

    plt.close(fig)


def new_axes(ax: Any, width: float = 5.0, height: float = 3.6) -> Any:
    """Return `ax`, or the axes of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def diverging_limit(values: np.ndarray) -> float:
    """Return the largest magnitude, or 1 where all are zero."""
    return float(np.max(np.abs(values))) or 1.0


def image(ax: Any, matrix: np.ndarray, limit: float) -> Any:
    """Draw a matrix about zero, rows downwards, NaN in grey, and return the image."""
    shape = matrix.shape
    aspect = "equal" if max(shape) <= 6 * min(shape) else "auto"
    import matplotlib as mpl

    return ax.imshow(
        matrix,
        cmap=mpl.colormaps[DIVERGING].with_extremes(bad=OUTSIDE),
        vmin=-limit,
        vmax=limit,
        aspect=aspect,
        interpolation="nearest",
    )


def image_over(
    ax: Any, matrix: np.ndarray, limit: float, threshold: float, opacity: float = 0.85
) -> None:
    """Draw a matrix over what is there; small entries are transparent."""
    picture = image(ax, matrix, limit)
    share = np.abs(matrix) / limit
    picture.set_alpha(np.where(share > threshold, opacity * np.sqrt(share), 0.0))


def colour_bar(fig: Any, axes: Any, limit: float, label: str, **options: Any) -> None:
    """Draw the bar of colours about zero beside axes, whatever is drawn in them."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = ScalarMappable(norm=Normalize(-limit, limit), cmap=DIVERGING)
    fig.colorbar(bar, ax=axes, label=label, **options)


def tidy(ax: Any) -> Any:
    """Take away the frame's top and right, add a light grid, and return `ax`."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax
