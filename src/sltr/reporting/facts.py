"""What a report states in words and numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from sltr.persistence import package_version
from sltr.reporting.answer import Answer, answer_of
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
    *,
    by_search: bool = False,
) -> dict[str, Any]:
    """Return what the page and the methods paragraph state about a fitted model.

    `by_search`: the candidates are those of a search around the model.
    """
    answer, chosen = answer_of(model), {}
    if candidates and (by_search or answer is None):
        row = candidates["rows"][candidates["chosen"]]
        chosen = dict(zip(candidates["names"], map(_short, row), strict=True))
    kinds = _refinements(model, answer)
    return {
        "class_name": type(model).__name__,
        "n_samples": X.shape[0] if hasattr(X, "shape") else len(X),
        "shape": coefs.shape[1:],
        "n_targets": len(coefs),
        "chosen": chosen,
        "answer": answer,
        "best": {k: _short(v) for k, v in answer.settings.items()} if answer else {},
        "refinements": kinds,
        "settings": _settings(model),
        "n_folds": candidates and candidates["nFolds"],
        "n_candidates": candidates and len(candidates["rows"]),
        "cv_score": candidates and candidates["mean"][candidates["chosen"]],
        "cv_error": candidates and candidates["error"][candidates["chosen"]],
        "scoring": candidates and candidates["scoring"],
        "n_nonzero": int(np.count_nonzero(coefs)),
        "n_entries": int(coefs.size),
        "ranks": numerical_ranks(coefs[0]),
        "certificate": _certificate(convergence, kinds),
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


def _refinements(model: Any, answer: Answer | None) -> list[str | None]:
    """Return the kinds of refinement that have a share in the coefficient."""
    if answer is not None:
        return list(answer.kinds)
    given = getattr(model, "refine", None)
    return [given[0] if isinstance(given, tuple | list) else given]


def _certificate(convergence: Mapping[str, Any] | None, kinds: list[str | None]) -> str:
    if convergence is None:
        return ""
    text = f"The solver stopped after {convergence['nIter']} iterations"
    if convergence["value"] is None:
        return f"{text}; the method has no certificate of optimality."
    tol = convergence["tol"]
    bound = "" if tol is None else f" (tolerance {tol:.0e})"
    value = f"{convergence['name']} of {convergence['value']:.1e}{bound}"
    # A refit has no such proof, and the Lasso no part in it.
    before = "" if kinds == [None] else ", of the SLTR estimate before refinement"
    if kinds == ["sparse"]:
        before = ", of an SLTR estimate that has no share in the coefficient"
    return f"{text} at a {value}{before}."


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
