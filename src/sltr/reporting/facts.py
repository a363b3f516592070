"""What a report states in words and numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from sltr.persistence import package_version
from sltr.reporting.scores import Outcome
from sltr.tensor import numerical_ranks

__all__ = ["model_facts", "versions"]


def model_facts(
    model: Any,
    X: Any,
    outcome: Outcome,
    coefs: np.ndarray,
    candidates: Mapping[str, Any] | None,
    convergence: Mapping[str, Any] | None,
    held_out: bool,
) -> dict[str, Any]:
    """Return what the page and the methods paragraph state about a fitted model."""
    chosen = {}
    if candidates:
        row = candidates["rows"][candidates["chosen"]]
        chosen = dict(zip(candidates["names"], map(_short, row), strict=True))
    return {
        "class_name": type(model).__name__,
        "n_samples": X.shape[0] if hasattr(X, "shape") else len(X),
        "shape": coefs.shape[1:],
        "n_targets": len(coefs),
        "chosen": chosen,
        "settings": _settings(model),
        "n_folds": candidates and candidates["nFolds"],
        "n_candidates": candidates and len(candidates["rows"]),
        "cv_score": candidates and candidates["mean"][candidates["chosen"]],
        "cv_error": candidates and candidates["error"][candidates["chosen"]],
        "scoring": candidates and candidates["scoring"],
        "n_nonzero": int(np.count_nonzero(coefs)),
        "n_entries": int(coefs.size),
        "ranks": numerical_ranks(coefs[0]),
        "certificate": _certificate(convergence),
        "n_test": len(outcome.y) if held_out else 0,
        "score": outcome.scores[0],
        "version": package_version(),
    }


def _settings(model: Any) -> dict[str, str]:
    """Return the numbers among a model's parameters that shape its answer."""
    about_computing = {"tol", "max_iter", "n_jobs", "random_state", "cv"}
    params = model.get_params(deep=False)
    found = {"epsilon": model.epsilon_} if hasattr(model, "epsilon_") else {}
    found |= {k: v for k, v in params.items() if k not in {*found, *about_computing}}
    return {
        name: _short(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _certificate(convergence: Mapping[str, Any] | None) -> str:
    if convergence is None:
        return ""
    text = f"The solver stopped after {convergence['nIter']} iterations"
    if convergence["value"] is None:
        return f"{text}; the method has no certificate of optimality."
    tol = convergence["tol"]
    bound = "" if tol is None else f" (tolerance {tol:.0e})"
    return f"{text} at a {convergence['name']} of {convergence['value']:.1e}{bound}."


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the analysis."""
    found = {"sltr": package_version(), "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"system": f"{platform.system()} {platform.machine()}"}
