"""How the hyper-parameters of a model came about: given, or chosen by which folds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from inspect import signature
from numbers import Real
from typing import Any

from sltr.models.candidates import SETTINGS

__all__ = [
    "chosen_by_folds",
    "chosen_by_loo",
    "folds_text",
    "given_settings",
    "refinement",
    "short",
]

# Parameters that say how to compute, how to choose or how samples are stored.
_NO_SETTINGS = {
    "tol",
    "max_iter",
    "max_steps",
    "n_alphas",
    "n_jobs",
    "random_state",
    "cv",
    "scoring",
    "verbose",
    "progress",
    "memory_limit",
    "feature_shape",
    "refine",
}


def given_settings(model: Any, tuned: Collection[str] = ()) -> dict[str, str]:
    """Return the settings a user gave: numbers, and what differs from the default.

    Those named in `tuned` were not given, but chosen by a search.

    Examples
    --------
    >>> from sltr import SLTRRegressor
    >>> given_settings(SLTRRegressor(0.5, coupling="joint", refine=("cp", 1, 0.1)))
    {'epsilon': '0.5', 'lambda_sparse': '0.1', 'lambda_low': '0.1', \
'coupling': 'joint', 'rank': '1', 'ridge': '0.1'}
    """
    params, kind = model.get_params(deep=False), refinement(model)
    # The Lasso has a threshold, and needs no estimate to start from.
    idle = {"epsilon", "lambda_low"} if kind == "sparse" else set()
    found = {
        name: params[name]
        for name, parameter in signature(type(model)).parameters.items()
        if name not in {*_NO_SETTINGS, *idle, *tuned}
        and _is_told(params[name], parameter.default)
    }
    if kind and not isinstance(model.refine, str) and "refine" not in tuned:
        found |= _refit_settings(model, model.refine[1:])
    return {name: short(value) for name, value in found.items()}


def chosen_by_loo(model: Any) -> dict[str, str]:
    """Return what a model chose by leave-one-out error: its penalty, if anything."""
    asked = getattr(model, "epsilon", None)
    if not isinstance(asked, str) or not hasattr(model, "epsilon_"):
        return {}
    return {} if refinement(model) == "sparse" else {"epsilon": short(model.epsilon_)}


def chosen_by_folds(model: Any) -> dict[str, str]:
    """Return the settings of a refit of which only the kind was given."""
    if not isinstance(getattr(model, "refine", None), str):
        return {}
    found = _refit_settings(model, getattr(model, "refine_settings_", ()))
    return {name: short(value) for name, value in found.items()}


def refinement(model: Any) -> str | None:
    """Return the kind of a single model's refinement."""
    asked = getattr(model, "refine", None)
    return asked[0] if isinstance(asked, tuple | list) else asked


def folds_text(cv: Any, n_folds: int) -> str:
    """Return a cross-validation in words; a splitter is named.

    Examples
    --------
    >>> from sklearn.model_selection import KFold, LeaveOneGroupOut
    >>> folds_text(5, 5), folds_text(KFold(3), 3)
    ('5-fold cross-validation', '3-fold cross-validation (KFold)')
    >>> folds_text(LeaveOneGroupOut(), 12)
    '12-fold cross-validation (LeaveOneGroupOut: whole groups were left out)'
    """
    plain = f"{n_folds}-fold cross-validation"
    if isinstance(cv, str) or not hasattr(cv, "split"):
        return plain
    name = type(cv).__name__
    how = ": whole groups were left out" if "Group" in name else ""
    return f"{plain} ({name}{how})"


def short(value: Any) -> str:
    """Return a setting as a reader wants it."""
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_told(value: Any, default: Any) -> bool:
    if isinstance(value, Real) and not isinstance(value, bool):
        return True
    return isinstance(value, str | bool | tuple) and value != default


def _refit_settings(model: Any, values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(SETTINGS.get(refinement(model), ()), values, strict=False))
