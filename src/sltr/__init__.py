"""Sparse and low-rank regression on tensors."""

from importlib import import_module
from typing import Any

from sltr import datasets, inference, metrics
from sltr.core.estimate import Estimate, estimate
from sltr.estimators.path import SLTRPath, sltr_path
from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.metrics import error_bound
from sltr.peers.cp import CPClassifier, CPRegressor, CPRegressorCV
from sltr.peers.elementary import ElemRidge, TensorRidge
from sltr.peers.lasso import (
    TensorElasticNet,
    TensorElasticNetCV,
    TensorLasso,
    TensorLassoCV,
)
from sltr.peers.remurs import (
    RemursClassifier,
    RemursClassifierCV,
    RemursRegressor,
    RemursRegressorCV,
)
from sltr.peers.sturm import SturmRegressor, SturmRegressorCV
from sltr.peers.surf import SURFRegressor, SURFRegressorCV
from sltr.peers.tpgd import TPGDRegressor, TPGDRegressorCV
from sltr.peers.trr import HRTRRRegressor, ORTRRRegressor
from sltr.peers.tucker import TuckerRegressor, TuckerRegressorCV
from sltr.persistence import load, save
from sltr.persistence.export import export

__all__ = [
    "CPClassifier",
    "CPRegressor",
    "CPRegressorCV",
    "ElemRidge",
    "Estimate",
    "HRTRRRegressor",
    "ORTRRRegressor",
    "RemursClassifier",
    "RemursClassifierCV",
    "RemursRegressor",
    "RemursRegressorCV",
    "SLTRClassifier",
    "SLTRClassifierCV",
    "SLTRPath",
    "SLTRRegressor",
    "SLTRRegressorCV",
    "SURFRegressor",
    "SURFRegressorCV",
    "SturmRegressor",
    "SturmRegressorCV",
    "TPGDRegressor",
    "TPGDRegressorCV",
    "TensorElasticNet",
    "TensorElasticNetCV",
    "TensorLasso",
    "TensorLassoCV",
    "TensorRidge",
    "TuckerRegressor",
    "TuckerRegressorCV",
    "datasets",
    "error_bound",
    "estimate",
    "export",
    "inference",
    "load",
    "metrics",
    "save",
    "sltr_path",
]


__version__ = "0.1.0"

# What needs an extra is loaded when asked for, and not in __all__.
_LAZY = ("plotting", "report")


def __getattr__(name: str) -> Any:
    if name == "plotting":
        return import_module("sltr.plotting")
    if name == "report":
        return import_module("sltr.reporting").report
    msg = f"module 'sltr' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY, "__version__"])
