"""Checks for responses that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_numbers"]


def check_numbers(y: Any) -> None:
    """Refuse words as responses, and several for each sample; say what is for them."""
    values = np.asarray(y)
    words = []
    if values.dtype.kind in "USO":
        words = [one for one in values.ravel().tolist() if _is_word(one)]
    if words:
        msg = (
            f"y holds words, such as {str(words[0])!r}; expected numbers. For labels "
            "use a classifier, for example SLTRClassifierCV."
        )
        raise ValueError(msg)
    if values.ndim > 1 and values.shape[1:] != (1,):
        msg = (
            f"y has shape {values.shape}; expected one number for each sample. Fit a "
            "model for each response, for example by MultiOutputRegressor on flat rows."
        )
        raise ValueError(msg)


def _is_word(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False
