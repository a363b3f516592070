"""How fitted models look in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from sklearn.utils import estimator_html_repr

from sltr.thumbnail import coef_array, coef_thumbnail, target_name

__all__ = ["diagram_with_coef"]


def diagram_with_coef(model: Any) -> str:
    """Return scikit-learn's diagram, and below it the coefficient of a fitted model.

    An estimator uses it as its `_html_repr`, which scikit-learn calls.

    Examples
    --------
    >>> from sltr.models.sltr import SLTRRegressor
    >>> "<img" in diagram_with_coef(SLTRRegressor())
    False
    """
    diagram = estimator_html_repr(model)
    if not hasattr(model, "coef_"):
        return diagram
    shape = " × ".join(map(str, coef_array(model).shape))
    name = " of ".join(filter(None, ["coef_", escape(target_name(model))]))
    note = f"{name}, {shape}: blue below zero, red above, the strongest entry in depth"
    return (
        f'{diagram}<figure style="margin:.5em 0"><img src="{coef_thumbnail(model)}" '
        f'alt="{note}" style="image-rendering:pixelated;border:1px solid #999">'
        f'<figcaption style="font-size:85%;opacity:.8">{note}</figcaption></figure>'
    )
