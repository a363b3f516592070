"""Figures of coefficients, tuning and predictions; matplotlib is needed to draw.

Every function takes arrays or a fitted model, draws into axes or a figure that
is given or made, and returns what it drew into. Maps of coefficients diverge
from zero with symmetric limits; colours are safe for colour-blind readers.
"""

from sltr.coefficients import coef_thumbnail
from sltr.plotting.coefficient import plot_coef, plot_heat_maps, plot_overlay
from sltr.plotting.convergence import plot_convergence
from sltr.plotting.field import (
    animate_film,
    plot_brain,
    plot_film,
    plot_model,
    plot_topographies,
)
from sltr.plotting.inference import (
    plot_intervals,
    plot_pattern,
    plot_permutation_test,
    plot_significant,
    plot_stability,
)
from sltr.plotting.path import plot_path
from sltr.plotting.prediction import plot_predictions, plot_roc
from sltr.plotting.results import Panel, plot_results
from sltr.plotting.structure import plot_factors, plot_mode_importance, plot_spectrum
from sltr.plotting.tuning import plot_cv_surface

__all__ = [
    "Panel",
    "animate_film",
    "coef_thumbnail",
    "plot_brain",
    "plot_coef",
    "plot_convergence",
    "plot_cv_surface",
    "plot_factors",
    "plot_film",
    "plot_heat_maps",
    "plot_intervals",
    "plot_mode_importance",
    "plot_model",
    "plot_overlay",
    "plot_path",
    "plot_pattern",
    "plot_permutation_test",
    "plot_predictions",
    "plot_results",
    "plot_roc",
    "plot_significant",
    "plot_spectrum",
    "plot_stability",
    "plot_topographies",
]
