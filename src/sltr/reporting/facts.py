"""What a report states in words and numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from sltr.persistence import package_version
from sltr.reporting.answer import answer_of
from sltr.reporting.scores import Outcome
from sltr.reporting.settings import (
    chosen_by_folds,
    chosen_by_loo,
    folds_text,
    given_settings,
    refinement,
    short,
)
from sltr.tensor import numerical_ranks

__all__ = ["model_facts", "versions"]


def model_facts(
    model: Any,
    X: Any,
    outcome: Outcome,
    coefs: np.ndarray,
    targets: Sequence[str],
    candidates: Mapping[str, Any] | None,
    convergence: Mapping[str, Any] | None,
    held_out: bool,
    *,
    search: Any,
) -> dict[str, Any]:
    """Return what the page and the methods paragraph state about a fitted model.

    `search` is what the candidates are those of: the model, or a search around it.
    """
    answer, chosen = answer_of(model), {}
    if candidates and (search is not model or answer is None):
        row = candidates["rows"][candidates["chosen"]]
        chosen = dict(zip(candidates["names"], map(short, row), strict=True))
    tuned = {name.rpartition("__")[2] for name in chosen}
    kinds = [refinement(model)] if answer is None else list(answer.kinds)
    ranks = [numerical_ranks(coef) for coef in coefs]
    return {
        "class_name": type(model).__name__,
        "n_samples": X.shape[0] if hasattr(X, "shape") else len(X),
        "shape": coefs.shape[1:],
        "targets": targets,
        "chosen": chosen,
        "answer": answer,
        "best": {k: short(v) for k, v in answer.settings.items()} if answer else {},
        "refinements": kinds,
        "settings": {} if answer else given_settings(model, tuned),
        "by_loo": {} if answer else chosen_by_loo(model),
        "by_folds": {} if answer else chosen_by_folds(model),
        "n_folds": candidates and candidates["nFolds"],
        "folds": candidates
        and folds_text(getattr(search, "cv", None), candidates["nFolds"]),
        "n_candidates": candidates and len(candidates["rows"]),
        "cv_score": candidates and candidates["mean"][candidates["chosen"]],
        "cv_error": candidates and candidates["error"][candidates["chosen"]],
        "scoring": candidates and candidates["scoring"],
        "n_nonzero": int(np.count_nonzero(coefs)),
        "n_entries": int(coefs.size),
        "ranks": ranks,
        "rank_ranges": [_range(mode) for mode in zip(*ranks, strict=True)],
        "certificate": _certificate(convergence, kinds),
        "n_test": len(outcome.y) if held_out else 0,
        "score": outcome.scores[0],
        "version": package_version(),
    }


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"


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


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the analysis."""
    found = {"sltr": package_version(), "Python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"system": f"{platform.system()} {platform.machine()}"}
