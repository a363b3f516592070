"""The model that a command writes, and what it says about it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from sltr.cli.output import print_facts, print_json, say

__all__ = ["write_model"]


def write_model(
    model: Any,
    loaded: Any,
    out: Path,
    given: tuple[list[Path], dict[str, Any]],
    json: bool,
) -> None:
    """Save a fitted model, print what was found and name the next command.

    `given` are the files and options that the samples were read with.
    """
    from sltr import save
    from sltr.models.scoring import metric_name

    save(model, out)
    facts: dict[str, Any] = {"model": type(model).__name__, "file": str(out)}
    facts |= {"samples": loaded.X.shape[0], "shape": loaded.X.shape[1:]}
    facts |= _fitted_values(model)
    if "best score" in facts:
        alone = "" if hasattr(model, "cv_results_") else ", leave-one-out"
        facts["scored by"] = metric_name(model) + alone
    facts["entries that are not zero"] = int((model.coef_ != 0).sum())
    (print_json if json else print_facts)(facts)
    reported = not getattr(model, "n_covariates_in_", 0)
    hint = f" Next: {_report_command(out, *given)}" if reported else ""
    say(f"Wrote {out}.{hint}")


def _report_command(out: Path, data: list[Path], options: dict[str, Any]) -> str:
    """Return the command that shows this model, as the shell takes it."""
    words = ["sltr", "report", str(out), *map(str, data[:1])]
    chosen = {name: value for name, value in options.items() if value is not None}
    told = [shlex.join((name, str(value))) for name, value in chosen.items()]
    return " ".join([shlex.join(words), *["…"][: len(data) - 1], *told])


def _fitted_values(model: Any) -> dict[str, Any]:
    """Return what fitting found or chose, as far as it is a number, word or shape."""
    told = {"shape_in_", "n_features_in_", "best_index_", "n_covariates_in_"}
    found: dict[str, Any] = {}
    for name, value in vars(model).items():
        if name == "refine_settings_":
            found |= _refit(model)
        elif name == "best_params_":
            found |= {key.replace("_", " "): item for key, item in value.items()}
        elif (
            name.endswith("_")
            and name not in told
            and isinstance(value, int | float | str | tuple)
            and len(str(value)) < 40
        ):
            found[name.rstrip("_").replace("_", " ")] = value
    return found


def _refit(model: Any) -> dict[str, Any]:
    """Return the refit by its settings' names, and how many candidates are averaged."""
    from sltr.models.candidates import SETTINGS

    kind = getattr(model, "refine_", model.refine)
    settings = dict(zip(SETTINGS[kind], model.refine_settings_, strict=True))
    if not hasattr(model, "weights_"):
        return settings
    return settings | {"candidates averaged": int((model.weights_ > 0).sum())}
