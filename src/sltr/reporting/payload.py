"""The numbers the page's script draws: small, plain, exact where it matters.

Apart from `report` because the script reads these names: both change together.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, roc_curve

from sltr.arrays import to_numpy
from sltr.coefficients import RED_BLUE, projection, upright
from sltr.core.tensor import numerical_ranks
from sltr.plotting.convergence import certified_value, convergence_history
from sltr.plotting.modes import Modes, is_even, strongest_slice
from sltr.plotting.path import check_path, strongest_entries
from sltr.plotting.tuning import (
    chosen_candidate,
    cv_candidates,
    scores_by_fold,
    standard_errors,
)
from sltr.reporting.scores import Outcome
from sltr.tuning.candidates import own_settings

# A page stays below 10 MB: 16 bits an entry for the coefficient, 8 for the sample.
MAX_ENTRIES = 1_500_000
MAX_POINTS = 2_000
OUTSIDE = -32768  # entries outside a mask; numbers end at ±32767


@dataclass(frozen=True, eq=False)
class Map:
    """A picture beside the coefficient: what it shows, of whom, and its entries."""

    measure: str
    target: str
    entries: np.ndarray  # (p1, …, pM), NaN outside a mask


def coefficient_payload(
    coefs: np.ndarray,
    targets: list[str],
    sample: np.ndarray | None,
    modes: Modes,
    beside: Sequence[Map] = (),
    choice: str = "Class",
) -> dict[str, Any]:
    """Return the coefficient, and the maps beside it, for the slice browser.

    `coefs` (K, p1, …, pM) has one coefficient for each of K targets, NaN outside a
    mask; `sample` (p1, …, pM) lies under it. A `choice` is made among classes, whose
    coefficients share their colours, or responses, which may be in different units.
    Each map beside them has its own colours.
    """
    full, n_coefs = coefs.shape[1:], len(coefs)
    measures = ["coefficient"] * n_coefs + [each.measure for each in beside]
    named = zip(measures, [*targets, *(each.target for each in beside)], strict=True)
    names = [f"{what}, {whose}" if whose else what for what, whose in named]
    coefs = np.concatenate([coefs, *(each.entries[None] for each in beside)])
    # Pictures are drawn downwards: directions that point up are turned.
    turned = [m for m in range(len(full)) if modes.points_up(m)]
    coefs = np.flip(coefs, tuple(1 + m for m in turned))
    sample = None if sample is None else np.flip(sample, tuple(turned))
    coords = [
        c[::-1] if c is not None and m in turned else c
        for m, c in enumerate(modes.coords)
    ]
    coefs, sample, steps = _shrink(coefs, sample)
    shape = coefs.shape[1:]
    first, outside = np.nan_to_num(coefs[0]), np.isnan(coefs)
    coefs = np.nan_to_num(coefs)
    largest = np.abs(coefs).reshape(len(coefs), -1).max(axis=1)
    if choice == "Class":
        largest[:n_coefs] = largest[:n_coefs].max()
    limits = np.where(largest > 0, largest, 1.0)
    scale = (32767 / limits).reshape(-1, *[1] * len(shape))
    packed = np.where(outside, OUTSIDE, np.round(coefs * scale))
    rows, columns = upright(modes.names, shape) if len(shape) > 1 else (0, 0)
    return {
        "shape": list(shape),
        "fullShape": list(full),
        "steps": steps,
        "names": list(modes.names),
        # Indices have no unit.
        "units": [
            "" if c is None else unit
            for unit, c in zip(modes.units, coords, strict=True)
        ],
        "coords": [None if c is None else _coordinates(c) for c in coords],
        "targets": names if beside else targets,
        "choice": "Show" if beside else choice,
        "measures": measures,
        "limits": limits.tolist(),
        "data": _pack(packed.astype("<i2")),
        "sample": None if sample is None else _pack(_grey(sample)),
        "show": [rows, columns],
        "at": [strongest_slice(first, m) for m in range(len(shape))],
        "stops": [list(colour) for colour in RED_BLUE],
    }


def candidates_payload(model: Any, scoring: str) -> dict[str, Any] | None:
    """Return the candidates of a cross-validation for the tuning explorer."""
    if not hasattr(model, "cv_results_"):
        return None
    results = cv_candidates(model)
    names = list(dict.fromkeys(name for row in results["params"] for name in row))
    rows = [own_settings(row) for row in results["params"]]
    return {
        "names": names,
        "rows": [[_plain(row[n]) if n in row else "–" for n in names] for row in rows],
        "mean": _numbers(results["mean_test_score"]),
        "error": _numbers(standard_errors(results)),
        "chosen": chosen_candidate(model),
        "nFolds": len(scores_by_fold(results)),
        "scoring": scoring,
    }


def path_payload(
    coef_path: tuple[Any, Any] | None, chosen: Any, name: str
) -> dict[str, Any] | None:
    """Return a regularisation path: strong entries, counts, ranks, small pictures."""
    if coef_path is None:
        return None
    values, coefs = check_path(*coef_path)
    pictures = np.stack([projection(coef) for coef in coefs])
    while pictures.shape[1] * pictures.shape[2] > 4096:
        pictures = pictures[:, ::2, ::2]
    limit = float(np.abs(pictures).max()) or 1.0
    flat = coefs.reshape(len(coefs), -1)
    entries = strongest_entries(coefs, 40)
    return {
        "name": name,
        "values": _numbers(values),
        "chosen": float(chosen) if isinstance(chosen, int | float) else None,
        "traces": [_numbers(flat[:, entry]) for entry in entries],
        "nonzero": np.count_nonzero(flat, axis=1).tolist(),
        "ranks": [list(numerical_ranks(coef)) for coef in coefs],
        "nEntries": int(flat.shape[1]),
        "pictureShape": list(pictures.shape[1:]),
        "pictures": _pack(np.round(pictures * (127 / limit)).astype("i1")),
    }


def convergence_payload(model: Any) -> dict[str, Any] | None:
    """Return the certified value of a model, its tolerance, and its history."""
    try:
        iterations, values, history_name = convergence_history(model)
    except ValueError:
        return None
    certified = certified_value(model)
    tol = getattr(model, "tol", None)
    known = certified is not None and isinstance(tol, int | float | np.number)
    return {
        "name": certified[1] if certified else "",
        "value": _numbers([certified[0]])[0] if certified else None,
        "tol": float(tol) if known and tol is not None else None,
        "nIter": int(iterations[-1]),
        "historyName": history_name,
        "iterations": iterations.tolist(),
        "values": _numbers(values),
        "bounded": certified is not None and certified[1] == history_name,
    }


def outcome_payload(
    outcome: Outcome, label: str, bounds: tuple[np.ndarray, np.ndarray] | None = None
) -> dict[str, Any]:
    """Return predictions, the ROC or the confusion matrix for the score charts.

    `bounds` are the ends of prediction intervals.
    """
    if outcome.classes is None:
        step = max(1, -(-len(outcome.y) // MAX_POINTS))
        return {
            "kind": "regression",
            "label": label,
            "y": _numbers(outcome.y[::step]),
            "predicted": _numbers(outcome.predicted[::step]),
            "null": float(outcome.null),
            "bounds": bounds and [_numbers(end[::step]) for end in bounds],
        }
    counts = confusion_matrix(outcome.y, outcome.predicted, labels=outcome.classes)
    payload: dict[str, Any] = {
        "kind": "classification",
        "classes": [str(label) for label in outcome.classes],
        "counts": counts.tolist(),
    }
    truth = outcome.y == outcome.classes[-1]
    if outcome.decision is not None and truth.any() and not truth.all():
        false_rate, true_rate, _ = roc_curve(truth, outcome.decision)
        step = max(1, -(-len(false_rate) // MAX_POINTS))
        payload["roc"] = [
            _numbers(np.append(rate[:-1:step], 1.0)) for rate in (false_rate, true_rate)
        ]
    return payload


def _shrink(
    coefs: np.ndarray, sample: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, list[int]]:
    """Halve the largest mode until the page stays small; keep the stronger entry."""
    steps = [1] * (coefs.ndim - 1)
    while coefs.size > MAX_ENTRIES and max(coefs.shape[1:]) > 1:
        mode = int(np.argmax(coefs.shape[1:]))
        even, odd = _halves(coefs, mode + 1)
        stronger = np.isnan(even) | (np.abs(odd) > np.abs(even))
        coefs = np.where(stronger, odd, even)
        if sample is not None:
            even, odd = _halves(sample, mode)
            sample = (even + odd) / 2
        steps[mode] *= 2
    return coefs, sample, steps


def _halves(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    size = array.shape[axis]
    even = np.take(array, np.arange(0, size, 2), axis)
    odd = np.take(array, np.minimum(np.arange(1, size + size % 2, 2), size - 1), axis)
    return even, odd


def _grey(sample: np.ndarray) -> np.ndarray:
    """Return a sample as grey levels between its 1st and 99th percentile."""
    low, high = np.nanpercentile(sample, (1, 99))
    scaled = (sample - low) / ((high - low) or 1.0)
    return np.round(255 * np.clip(np.nan_to_num(scaled), 0.0, 1.0)).astype("u1")


def _pack(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _numbers(values: Any) -> list[float | None]:
    """Return numbers of seven digits; what JSON cannot hold becomes null."""
    array = np.ravel(np.asarray(to_numpy(np.asarray(values)), float))
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in array]


def _coordinates(values: np.ndarray) -> dict[str, Any]:
    """Return coordinates as JSON, and whether round numbers may lie between them."""
    even = is_even(values)
    return {
        "even": even,
        "values": _numbers(values) if even else [_plain(value) for value in values],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.7g}") if np.isfinite(value) else str(value)
    return value if type(value) is int else str(value)
