"""What the simulated tables share: the protocols, given their conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sltr.experiments.spec import Condition, Experiment
from sltr.experiments.study import Column, Part

__all__ = ["FAIR_METHODS", "columns", "protocols"]

FAIR_METHODS = (
    *("null", "ridge", "lasso", "elastic_net", "elem_ridge", "sltr_paper", "sltr"),
    *("remurs", "sturm", "surf", "cp", "tucker", "ortrr", "tpgd"),
)
_FAIR = ("relative_mse", "r2", "estimation_error", "support_f1", "rank_error")
_QUICK = ("null", "ridge", "lasso", "sltr_paper", "sltr")
_TENSOR = ("null", "ridge", "sltr_paper", "remurs", "surf")
_LINEAR = ("null_last_fifth", "lasso", "elastic_net")
_QUICK_TENSOR = ("null", "ridge", "sltr_paper")


def protocols(
    name: str,
    conditions: tuple[Condition, ...],
    fair: tuple[Condition, ...] | None = None,
) -> tuple[Part, ...]:
    """Return the released protocol with and without its fault, and the fair one.

    Parameters
    ----------
    name : str
    conditions : tuple of Condition
        Of simulated data. The released protocol draws W as the released code does,
        the fair one as the paper's text.
    fair : tuple of Condition, optional
        More conditions of the fair protocol.
    """
    released = tuple(_with(c, {"truth": "paper_code", "n_test": 1}) for c in conditions)
    # Cheap for three modes: the quick version has all of them.
    linear = tuple(replace(c, quick=len(c.options["shape"]) == 3) for c in released)
    faulty = tuple(_with(c, {"fault": True}) for c in linear)
    text = tuple(_with(c, {"truth": "paper"}) for c in conditions)
    return (
        Part(
            Experiment(
                f"{name}_released_fault",
                faulty,
                _TENSOR,
                ("released_mse",),
                scored_on="train",
            ),
            "released",
            _QUICK_TENSOR,
            quick_repetitions=10,
        ),
        Part(
            Experiment(
                f"{name}_released",
                released,
                _TENSOR,
                ("released_mse",),
                scored_on="train",
            ),
            "released",
            _QUICK_TENSOR,
        ),
        Part(
            Experiment(
                f"{name}_released_linear",
                linear,
                _LINEAR,
                ("released_mse",),
                scored_on="train",
            ),
            "released",
            quick_repetitions=10,
        ),
        Part(
            Experiment(f"{name}_fair", (*text, *(fair or ())), FAIR_METHODS, _FAIR),
            "regressors",
            _QUICK,
        ),
    )


def columns(name: str) -> tuple[Column, ...]:
    """Return the columns of a table made by `protocols`."""
    linear, fair = f"{name}_released_linear", (f"{name}_fair",)
    return (
        Column(
            "released, with its fault: ‖ŷ−y‖₂/n",
            "released_mse",
            (f"{name}_released_fault", linear),
            panel=True,
        ),
        Column(
            "released, without the fault: ‖ŷ−y‖₂/n",
            "released_mse",
            (f"{name}_released", linear),
            panel=True,
        ),
        Column("fair: relative MSE", "relative_mse", fair, panel=True),
        Column("fair: R²", "r2", fair),
        Column("fair: estimation error", "estimation_error", fair),
        Column("fair: support F1", "support_f1", fair),
        Column("fair: rank error", "rank_error", fair, digits=1),
    )


def _with(condition: Condition, options: Mapping[str, Any]) -> Condition:
    return replace(condition, options={**condition.options, **options})
