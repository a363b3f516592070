"""Sparse and low-rank regression on tensors."""

from importlib import import_module
from typing import Any

from sltr import datasets, metrics
from sltr.estimate import Estimate, estimate
from sltr.metrics import error_bound
from sltr.models.cp import CPClassifier, CPRegressor
from sltr.models.decomposed_cv import CPRegressorCV, TuckerRegressorCV
from sltr.models.elementary import ElemRidge, TensorRidge
from sltr.models.linear_sparse import TensorElasticNet, TensorLasso
from sltr.models.linear_sparse_cv import TensorElasticNetCV, TensorLassoCV
from sltr.models.path import SLTRPath, sltr_path
from sltr.models.remurs import RemursClassifier, RemursRegressor
from sltr.models.remurs_cv import RemursClassifierCV, RemursRegressorCV
from sltr.models.sltr import SLTRClassifier, SLTRRegressor
from sltr.models.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.models.sturm import SturmRegressor, SturmRegressorCV
from sltr.models.surf import SURFRegressor
from sltr.models.surf_cv import SURFRegressorCV
from sltr.models.tpgd import TPGDRegressor
from sltr.models.tpgd_cv import TPGDRegressorCV
from sltr.models.trr import HRTRRRegressor, ORTRRRegressor
from sltr.models.tucker import TuckerRegressor
from sltr.persistence import load, save

__version__ = "0.1.0"

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
    "load",
    "metrics",
    "save",
    "sltr_path",
]

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
