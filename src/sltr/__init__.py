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
_ROOMS = {
    "comparison": ("compare",),
    "core.estimate": ("Estimate", "estimate"),
    "estimators.path": ("SLTRPath", "sltr_path"),
    "estimators.sltr": ("SLTRClassifier", "SLTRRegressor"),
    "estimators.sltr_cv": ("SLTRClassifierCV", "SLTRRegressorCV"),
    "metrics": ("error_bound",),
    "peers.cp": ("CPClassifier", "CPRegressor", "CPRegressorCV"),
    "peers.elementary": ("ElemRidge", "TensorRidge"),
    "peers.lasso": (
        "TensorElasticNet",
        "TensorElasticNetCV",
        "TensorLasso",
        "TensorLassoCV",
    ),
    "peers.multi_response": (
        "ReducedRankRegressorCV",
        "TensorMultiTaskLassoCV",
        "TensorOnTensorRegressorCV",
    ),
    "peers.remurs": (
        "RemursClassifier",
        "RemursClassifierCV",
        "RemursRegressor",
        "RemursRegressorCV",
    ),
    "peers.sturm": ("SturmRegressor", "SturmRegressorCV"),
    "peers.surf": ("SURFRegressor", "SURFRegressorCV"),
    "peers.tpgd": ("TPGDRegressor", "TPGDRegressorCV"),
    "peers.trr": ("HRTRRRegressor", "ORTRRRegressor"),
    "peers.tucker": ("TuckerRegressor", "TuckerRegressorCV"),
    "persistence": ("load", "save"),
    "persistence.export": ("export",),
    "reporting": ("report",),
}
_PLACES = {name: room for room, names in _ROOMS.items() for name in names}


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
