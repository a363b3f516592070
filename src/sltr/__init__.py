"""Sparse and low-rank regression on tensors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sltr import datasets, inference, metrics
    from sltr import plotting as plotting
    from sltr.comparison import compare
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
    from sltr.peers.multi_response import (
        ReducedRankRegressorCV,
        TensorMultiTaskLassoCV,
        TensorOnTensorRegressorCV,
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
    from sltr.reporting import report as report

__all__ = [
    "CPClassifier",
    "CPRegressor",
    "CPRegressorCV",
    "ElemRidge",
    "Estimate",
    "HRTRRRegressor",
    "ORTRRRegressor",
    "ReducedRankRegressorCV",
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
    "TensorMultiTaskLassoCV",
    "TensorOnTensorRegressorCV",
    "TensorRidge",
    "TuckerRegressor",
    "TuckerRegressorCV",
    "compare",
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

# Names are loaded when they are first used: `import sltr` costs next to nothing, and a
# program pays for the rooms it enters.
_MODULES = ("datasets", "inference", "metrics", "plotting")
_PLACES = {
    "Estimate": "core.estimate",
    "estimate": "core.estimate",
    "SLTRPath": "estimators.path",
    "sltr_path": "estimators.path",
    "SLTRClassifier": "estimators.sltr",
    "SLTRRegressor": "estimators.sltr",
    "SLTRClassifierCV": "estimators.sltr_cv",
    "SLTRRegressorCV": "estimators.sltr_cv",
    "error_bound": "metrics",
    "CPClassifier": "peers.cp",
    "CPRegressor": "peers.cp",
    "CPRegressorCV": "peers.cp",
    "ElemRidge": "peers.elementary",
    "TensorRidge": "peers.elementary",
    "TensorElasticNet": "peers.lasso",
    "TensorElasticNetCV": "peers.lasso",
    "TensorLasso": "peers.lasso",
    "TensorLassoCV": "peers.lasso",
    "ReducedRankRegressorCV": "peers.multi_response",
    "TensorMultiTaskLassoCV": "peers.multi_response",
    "TensorOnTensorRegressorCV": "peers.multi_response",
    "RemursClassifier": "peers.remurs",
    "RemursClassifierCV": "peers.remurs",
    "RemursRegressor": "peers.remurs",
    "RemursRegressorCV": "peers.remurs",
    "SturmRegressor": "peers.sturm",
    "SturmRegressorCV": "peers.sturm",
    "SURFRegressor": "peers.surf",
    "SURFRegressorCV": "peers.surf",
    "TPGDRegressor": "peers.tpgd",
    "TPGDRegressorCV": "peers.tpgd",
    "HRTRRRegressor": "peers.trr",
    "ORTRRRegressor": "peers.trr",
    "TuckerRegressor": "peers.tucker",
    "TuckerRegressorCV": "peers.tucker",
    "load": "persistence",
    "save": "persistence",
    "export": "persistence.export",
    "compare": "comparison",
    "report": "reporting",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"sltr.{name}")
    if name not in _PLACES:
        msg = f"module 'sltr' has no attribute {name!r}"
        raise AttributeError(msg)
    found = getattr(import_module(f"sltr.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    # What needs an extra is not in __all__.
    return sorted([*__all__, "plotting", "report", "__version__"])
