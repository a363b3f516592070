"""What a method's name means under each protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.dummy import DummyRegressor

from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.peers.elementary import TensorRidge
from sltr.peers.registry import METHODS
from sltr.peers.remurs import RemursRegressorCV
from sltr.peers.surf import SURFRegressorCV
from sltr.reproduction.released import (
    AllSamples,
    ReleasedLinear,
    ReleasedNull,
    ReleasedSLTR,
)
from sltr.tuning.candidates import PAPER_EPSILONS, PAPER_LAMBDAS

Factories = dict[str, Callable[..., Any]]

TITLES: dict[str, str] = {name: entry.title for name, entry in METHODS.items()} | {
    "sltr": "SLTR, refits tuned",
    "sltr_paper": "SLTR, paper's form",
    "null_last_fifth": "Null model, last 20 %",
}

# As in the code released with the paper. Its Remurs and SURF are replaced by exact
# ones with the same grid: what they are fitted to and scored on is the protocol's.
_RELEASED: Factories = {
    "null": ReleasedNull,
    "ridge": partial(ReleasedSLTR, lambdas=(0.0,)),
    "sltr_paper": ReleasedSLTR,
    "remurs": partial(
        RemursRegressorCV, PAPER_LAMBDAS, PAPER_LAMBDAS, fit_intercept=False
    ),
    "surf": partial(SURFRegressorCV, fit_intercept=False),
    "null_last_fifth": partial(ReleasedNull, last_fifth=True),
    "lasso": ReleasedLinear,
    "elastic_net": partial(ReleasedLinear, l1_ratio=0.5),
}

# The paper's method, tuned on folds.
_PAPER: dict[str, Any] = {"refine": (None,), "rule": "best", "standardize": None}

_REGRESSORS: Factories = {
    name: entry.make_regressor for name, entry in METHODS.items()
} | {
    "sltr_paper": partial(SLTRRegressorCV, **_PAPER),
}

_CLASSIFIERS: Factories = {
    name: entry.make_classifier or entry.make_regressor
    for name, entry in METHODS.items()
} | {"sltr_paper": partial(SLTRClassifierCV, **_PAPER)}

# W = 0 as a coefficient, so that it has an error too.
_PILOTS: Factories = {"null": ReleasedNull, "ridge": TensorRidge}

# Every candidate fitted once to all samples, and the best once more.
_ALL_CANDIDATES: Factories = {
    "null": DummyRegressor,
    "ridge": TensorRidge,
    "sltr_paper": partial(
        SLTRRegressorCV,
        lambdas_sparse=PAPER_LAMBDAS,
        lambdas_low=PAPER_LAMBDAS,
        epsilons=PAPER_EPSILONS,
        radius="absolute",
        cv=AllSamples(),
        **_PAPER,
    ),
    "remurs": partial(RemursRegressorCV, PAPER_LAMBDAS, PAPER_LAMBDAS, cv=AllSamples()),
}

_ALL_CANDIDATES_RELEASED: Factories = {
    "sltr_paper": partial(ReleasedSLTR, epsilons=PAPER_EPSILONS, n_folds=None),
}

FACTORIES: dict[str, Factories] = {
    "released": _RELEASED,
    "regressors": _REGRESSORS,
    "classifiers": _CLASSIFIERS,
    "pilots": _PILOTS,
    "all_candidates": _ALL_CANDIDATES,
    "all_candidates_released": _ALL_CANDIDATES_RELEASED,
}
