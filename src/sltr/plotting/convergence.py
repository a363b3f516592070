"""How far a solution can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.core.estimate import Settings, absolute_radii, estimate_path
from sltr.plotting.style import COLOURS, new_axes, tidy
from sltr.samples.front import Front

# What fitted models call the measures they keep.
_HISTORIES = {
    "objective_path_": "objective above its lowest",
    "deviance_path_": "deviance above its lowest",
}
_LAST = {"dual_gap_": "relative duality gap", "residual_": "residual"}


def convergence_history(model: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """Return iterations, the measure at them, and the measure's name.

    `model` may be the history itself, of shape (T,). A model that keeps only the last
    value has a single point.
    """
    for attribute, name in _HISTORIES.items():
        if hasattr(model, attribute):
            values = np.ravel(to_numpy(np.asarray(getattr(model, attribute), float)))
            return np.arange(1, values.size + 1), values - values.min(), name
    certified = certified_value(model)
    if certified is not None:
        n_iter = int(np.max(np.asarray(getattr(model, "n_iter_", 1))))
        return np.array([n_iter]), np.array([certified[0]]), certified[1]
    try:
        values = np.ravel(np.asarray(model, dtype=float))
    except (TypeError, ValueError):
        msg = (
            f"{type(model).__name__} was given; expected a history, or a fitted "
            f"model with one of {', '.join([*_HISTORIES, *_LAST])}."
        )
        raise ValueError(msg) from None
    return np.arange(1, values.size + 1), values, "gap"


def certified_value(model: Any) -> tuple[float, str] | None:
    """Return the last value of the measure a model's tolerance bounds, and its name.

    None if the model keeps no such measure: how far an objective has fallen says
    nothing about how far it could still fall.
    """
    for attribute, name in _LAST.items():
        if hasattr(model, attribute):
            values = np.asarray(to_numpy(np.asarray(getattr(model, attribute))))
            return float(np.max(values)), name
    return None


def gap_history(model: Any, n_points: int = 20) -> tuple[np.ndarray, np.ndarray] | None:
    """Return iterations and the gaps after them, of the problem about a model's pilot.

    The problem is solved again with growing budgets, since models keep only their last
    gap. None if the model has no such problem, or one that a closed form, units of
    entries, smooth modes or a structure of its zeros change.
    """
    changed = any(
        getattr(model, name, None)
        for name in ("smooth_", "standardize_", "_has_structure")
    )
    n_iter = int(np.max(np.asarray(getattr(model, "n_iter_", 1))))
    closed = getattr(model, "sparse_radius_", None) is not None
    refine = getattr(model, "refine_", getattr(model, "refine", None))
    closed = closed or refine not in (None, "scale")
    if not hasattr(model, "pilot_") or changed or closed or n_iter < 3:
        return None
    pilot = np.asarray(to_numpy(model.pilot_))
    single = pilot.ndim == len(model.shape_in_)
    kept = getattr(model, "mask_", None)
    pilots = Front(model.shape_in_, kept).cut(pilot[None] if single else pilot)
    sparse, low = (
        np.array([float(getattr(model, f"{name}_", getattr(model, name, 0.0)))])
        for name in ("lambda_sparse", "lambda_low")
    )
    radii = absolute_radii(pilots, sparse, low, model.radius)
    budgets = np.unique(np.geomspace(1, n_iter, n_points).round().astype(int))
    gaps = []
    for budget in budgets.tolist():
        settings = Settings(
            model.coupling, model.weights, model.solver, model.tol, budget, None
        )
        ((_, solved),) = estimate_path(pilots, *radii, settings)
        gaps.append(float(np.max(solved.gap)))
    return budgets, np.array(gaps)


def plot_convergence(
    model: Any, *, tol: float | None = None, name: str | None = None, ax: Any = None
) -> Any:
    """Draw the measure a solver stops on against its iterations.

    Of an SLTR model this is the duality gap of the problem about its pilot, which is
    solved again with growing budgets. A model that keeps only its last gap has no line
    to draw, which is an error: read `dual_gap_` and `n_iter_`.

    Parameters
    ----------
    model : array of shape (T,) or fitted model
    tol : float, optional
        The tolerance asked for; the model's own if not given, where it bounds what
        is drawn.
    name : str, optional
        What the measure is.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> ax = plot_convergence([1.0, 0.1, 0.01], tol=0.05)
    >>> ax.get_yscale()
    'log'
    """
    iterations, values, measure = convergence_history(model)
    again = gap_history(model) if values.size == 1 else None
    if again is not None:
        iterations, values = again
    if values.size < 2:
        msg = (
            f"A {measure} of {values[-1]:.2g} after {iterations[-1]} iterations is all "
            "that is known; expected two points or more, to draw a line. Read it, or "
            "give a history."
        )
        raise ValueError(msg)
    if tol is None and "lowest" not in measure:
        tol = getattr(model, "tol", None)
    ax = tidy(new_axes(ax))
    positive = values > 0
    style = "o-" if values.size <= 40 else "-"
    ax.plot(iterations[positive], values[positive], style, color=COLOURS[0], ms=4)
    if positive.any() or tol:
        ax.set_yscale("log")
    if tol:
        ax.axhline(
            tol, color=COLOURS[1], linestyle="--", linewidth=1.2, label="tolerance"
        )
        ax.legend(frameon=False)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="iteration", ylabel=name or measure)
    return ax
