"""Predictions against the truth, beside the model that knows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score, roc_curve

from sltr.arrays import to_numpy
from sltr.plotting.style import COLOURS, new_axes, tidy


def plot_predictions(
    y: Any,
    predicted: Any,
    *,
    interval: tuple[Any, Any] | None = None,
    null: float | None = None,
    label: str = "response",
    ax: Any = None,
) -> Any:
    """Draw predictions against the truth, with R² and the null model.

    Parameters
    ----------
    y, predicted : arrays of shape (n,)
    interval : pair of arrays of shape (n,), optional
        Lower and upper ends, as `sltr.inference.intervals` predicts them: drawn as
        bars, in another colour where they miss the truth.
    null : float, optional
        What the null model predicts: the mean of the training responses. The
        mean of `y` if not given.
    label : str
        The response's name, with its unit.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> ax = plot_predictions([1.0, 2.0, 3.0], [1.1, 2.0, 2.9], label="age (years)")
    >>> ax.get_title()
    'R² = 0.990, RMSE 0.0816 (null model 0.816)'
    """
    y, predicted = _pair(y, predicted)
    null = float(np.mean(y)) if null is None else float(null)
    ax = tidy(new_axes(ax, 4.6, 4.4))
    ends = _ends(interval, y.size)
    shown = np.concatenate([y, predicted, *(end[np.isfinite(end)] for end in ends)])
    low, high = shown.min(), shown.max()
    margin = 0.05 * (high - low) or 0.5
    limits = (low - margin, high + margin)
    ax.plot(limits, limits, color="0.4", linewidth=1.0, label="exact")
    ax.axhline(
        null, color=COLOURS[1], linestyle="--", linewidth=1.2, label="null model"
    )
    opacity = float(np.clip(200 / y.size, 0.15, 0.8))
    if ends:
        lower, upper = (np.clip(end, *limits) for end in ends)
        inside = (lower <= y) & (y <= upper)
        parts = {"interval": (inside, COLOURS[5]), "missed": (~inside, COLOURS[4])}
        for name, (rows, colour) in parts.items():
            if rows.any():
                bars = y[rows], lower[rows], upper[rows]
                ax.vlines(*bars, colour, linewidth=1.0, alpha=0.7, label=name, zorder=1)
    ax.scatter(y, predicted, s=22, color=COLOURS[0], alpha=opacity, linewidths=0)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    ax.set(xlabel=f"true {label}", ylabel=f"predicted {label}")
    r2 = r2_score(y, predicted) if y.size > 1 else float("nan")
    rmse, null_rmse = (
        float(np.sqrt(np.mean((y - guess) ** 2))) for guess in (predicted, null)
    )
    ax.set_title(
        f"R² = {r2:.3f}, RMSE {rmse:.3g} (null model {null_rmse:.3g})", fontsize=10
    )
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return ax


def plot_roc(y: Any, score: Any, *, positive: Any = None, ax: Any = None) -> Any:
    """Draw the receiver operating characteristic and its area.

    Parameters
    ----------
    y : array of shape (n,)
        Two classes.
    score : array of shape (n,)
        Higher for the positive class.
    positive : label, optional
        The positive class; the last one in order if not given.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> ax = plot_roc(["no", "yes", "no", "yes"], [0.1, 0.9, 0.4, 0.3])
    >>> ax.get_legend().get_texts()[0].get_text()
    'AUC = 0.750'
    """
    y, score = np.ravel(to_numpy(np.asarray(y))), np.ravel(to_numpy(score))
    classes = np.unique(y)
    if classes.size != 2 or y.shape != score.shape:
        msg = (
            f"{y.size} labels of {classes.size} classes and {score.size} scores were "
            "given; expected two classes and one score for each label."
        )
        raise ValueError(msg)
    if positive is not None and positive not in classes.tolist():
        known = " or ".join(map(repr, classes.tolist()))
        msg = f"positive={positive!r} was given; expected {known}."
        raise ValueError(msg)
    truth = y == (classes[-1] if positive is None else positive)
    false_rate, true_rate, _ = roc_curve(truth, score)
    ax = tidy(new_axes(ax, 4.6, 4.4))
    area = roc_auc_score(truth, score)
    ax.plot(false_rate, true_rate, color=COLOURS[0], label=f"AUC = {area:.3f}")
    ax.plot([0, 1], [0, 1], "--", color=COLOURS[1], linewidth=1.2, label="chance")
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.set(xlabel="false positive rate", ylabel="true positive rate")
    ax.legend(frameon=False, loc="lower right")
    return ax


def _ends(interval: tuple[Any, Any] | None, n: int) -> list[np.ndarray]:
    """Return lower and upper ends as arrays, or nothing."""
    if interval is None:
        return []
    ends = [np.ravel(np.asarray(to_numpy(end), float)) for end in interval]
    if len(ends) != 2 or any(end.size != n for end in ends):
        sizes = [end.size for end in ends]
        msg = (
            f"interval has ends of sizes {sizes}; expected lower and upper ones of "
            f"{n} predictions."
        )
        raise ValueError(msg)
    return ends


def _pair(y: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray]:
    y = np.ravel(np.asarray(to_numpy(y), float))
    predicted = np.ravel(np.asarray(to_numpy(predicted), float))
    if y.shape != predicted.shape or not y.size:
        msg = (
            f"{y.size} responses and {predicted.size} predictions were given; expected "
            "the same number, at least one."
        )
        raise ValueError(msg)
    return y, predicted
