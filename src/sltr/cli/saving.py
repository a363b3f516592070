"""The model that a command writes, and what it says about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sltr.cli.output import print_facts, print_json, say

__all__ = ["write_model"]


def write_model(
    model: Any, loaded: Any, out: Path, data: list[Path], json: bool
) -> None:
    """Save a fitted model, print what was found and name the next command."""
    from sltr import save

    save(model, out)
    facts: dict[str, Any] = {"model": type(model).__name__, "file": str(out)}
    facts |= {"samples": loaded.X.shape[0], "shape": loaded.X.shape[1:]}
    facts |= _fitted_values(model)
    facts["entries that are not zero"] = int((model.coef_ != 0).sum())
    (print_json if json else print_facts)(facts)
    files = " ".join(map(str, data[:1])) + (" …" if len(data) > 1 else "")
    say(f"Wrote {out}. Next: sltr report {out} {files}")


def _fitted_values(model: Any) -> dict[str, Any]:
    """Return what fitting found or chose, as far as it is a number, word or shape."""
    told = ("shape_in_", "n_features_in_", "best_index_", "n_covariates_in_")
    return {
        name.rstrip("_").replace("_", " "): value
        for name, value in vars(model).items()
        if name.endswith("_")
        and name not in told
        and isinstance(value, int | float | str | tuple)
        and len(str(value)) < 40
    }
