"""The public names: what is there, what it needs, and that it is documented."""

import ast
import doctest
import inspect
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from sklearn.base import BaseEstimator, clone

import sltr

NAMES = [
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
ESTIMATORS = [
    thing
    for thing in (getattr(sltr, name) for name in sltr.__all__)
    if inspect.isclass(thing) and issubclass(thing, BaseEstimator)
]


def test_all_is_exact():
    assert sltr.__all__ == NAMES
    assert set(dir(sltr)) == {*NAMES, "plotting", "report", "__version__"}


def test_every_name_is_loaded_from_where_type_checkers_look_for_it():
    source = Path(sltr.__file__).read_text(encoding="utf-8")
    (block,) = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    written = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(written) == {*NAMES, "plotting", "report"}
    for name, module in written.items():
        thing = getattr(sltr, name)
        if module == "sltr":
            assert thing is sys.modules[f"sltr.{name}"]
        else:
            assert thing is getattr(sys.modules[module], name)


def test_every_estimator_of_the_models_is_public():
    written = {
        thing
        for name, module in list(sys.modules.items())
        if name.startswith(("sltr.estimators.", "sltr.peers."))
        for thing in vars(module).values()
        if inspect.isclass(thing)
        and issubclass(thing, BaseEstimator)
        and thing.__module__.startswith("sltr.")
        and hasattr(thing, "fit")
        and not thing.__name__.startswith("_")
    }
    assert written == set(ESTIMATORS)


@pytest.mark.parametrize(
    "thing",
    [sltr.estimate, sltr.error_bound, sltr.sltr_path, *ESTIMATORS],
    ids=lambda t: t.__name__,
)
def test_documented_with_an_example(thing):
    doc = inspect.getdoc(thing)
    for section in ("Parameters", "Examples"):
        assert f"\n{section}\n-----" in doc
    assert doctest.DocTestParser().get_examples(doc)
    owner = thing.__init__ if inspect.isclass(thing) else thing
    parameters = [
        name for name in inspect.signature(owner).parameters if name != "self"
    ]
    described = doc.partition("\nParameters\n")[2].partition("\n\n")[0]
    words = set(described.replace(",", " ").replace("\\", " ").split())
    inherited = "As for" in described or "As in" in described
    assert inherited or set(parameters) <= words


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_clone_and_parameters(Model):
    model = Model()
    params = model.get_params()
    assert clone(model).get_params() == params
    assert set(params) == set(inspect.signature(Model).parameters)
    assert "feature_shape" in params
    assert "fit_intercept" in params


def test_plotting_is_loaded_when_asked_for(monkeypatch):
    plotting = ModuleType("sltr.plotting")
    monkeypatch.setitem(sys.modules, "sltr.plotting", plotting)
    monkeypatch.delitem(vars(sltr), "plotting", raising=False)
    assert sltr.plotting is plotting
    assert "plotting" in dir(sltr)
    with pytest.raises(AttributeError, match="has no attribute 'plot'"):
        sltr.plot  # noqa: B018


def test_report_is_the_function_even_after_its_package_is_loaded():
    import sltr.reporting

    assert sltr.report is sltr.reporting.report
    assert "report" in dir(sltr)


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import sltr
sltr.SLTRRegressor().fit([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, 2, 3])
sltr.datasets.make_tensor_regression((3, 2), 5)
assert "sltr.plotting" not in sys.modules
"""


def hard_dependencies():
    """Return the distributions that `pip install sltr` brings."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    waiting = tomllib.loads(file.read_text())["project"]["dependencies"]
    found = set()
    while waiting:
        need = Requirement(waiting.pop())
        name = need.name.lower()
        if name not in found and (not need.marker or need.marker.evaluate()):
            found.add(name)
            waiting += [r for r in requires(name) or [] if "extra ==" not in r]
    return found


def test_import_needs_the_hard_dependencies_only():
    allowed = hard_dependencies()
    assert "numpy" in allowed
    absent = sorted(
        package
        for package, owners in packages_distributions().items()
        if not {owner.lower() for owner in owners} & (allowed | {"sltr"})
    )
    assert {"matplotlib", "torch", "av"} <= set(absent)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *absent], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
