"""Fits that leave no estimator half changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["unchanged_on_failure"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def unchanged_on_failure(fit: Fit) -> Fit:
    """Make a `fit` that fails or is interrupted leave its estimator as it was."""

    @wraps(fit)
    def guarded(model, *args, **kwargs):
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException:
            vars(model).clear()
            vars(model).update(before)
            raise

    return guarded  # type: ignore[return-value]
