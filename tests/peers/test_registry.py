"""The registry of methods: every entry works, is complete and is documented."""

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor

import sltr
from sltr.peers.registry import METHODS, comparison, method

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4, 3, 2))
    signal = 3.0 * X[:, 0, 0, 0] + 2.0 * X[:, 0, 1, 0]
    return X, signal + 0.3 * rng.standard_normal(40), signal > 0.0


def test_names_are_those_of_the_experiments():
    assert list(METHODS) == [entry.name for entry in METHODS.values()]
    peers = "ridge lasso elastic_net remurs sturm surf cp tucker ortrr hrtrr tpgd"
    assert {"null", "elem_ridge", *peers.split()} <= set(METHODS)
    titles = [entry.title for entry in METHODS.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", METHODS)
def test_regressor_tunes_itself(name, data):
    X, y, _ = data
    made = METHODS[name].make_regressor()
    model = clone(made).fit(X[:30], y[:30])
    assert is_regressor(model)
    assert model.predict(X).shape == (40,)
    if name == "null":
        return
    assert model.score(X[30:], y[30:]) > 0.7
    chosen = getattr(model, "best_estimator_", model)
    assert chosen.coef_.shape == X.shape[1:]
    assert name == "ridge" or len(model.cv_results_["params"]) > 1


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.make_classifier])
def test_classifier_tunes_itself(name, data):
    X, _, labels = data
    model = METHODS[name].make_classifier().fit(X[:30], labels[:30])
    assert is_classifier(model)
    assert name == "null" or model.score(X[30:], labels[30:]) >= 0.8


def test_small_shapes_need_no_other_grids():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 2, 2))
    for entry in METHODS.values():
        entry.make_regressor().fit(X, X[:, 0, 0] + 0.1 * rng.standard_normal(20))
        if entry.make_classifier is not None:
            entry.make_classifier().fit(X, X[:, 0, 0] > 0)


def test_grids_are_arguments():
    assert METHODS["ortrr"].make_regressor(betas=(1.0,)).param_grid == {"beta": (1.0,)}
    elementary = METHODS["elem_ridge"].make_regressor(lambdas_sparse=(0.5,), cv=3)
    assert elementary.param_grid == {"lambda_sparse": (0.5,)}
    assert elementary.cv == 3
    assert METHODS["hrtrr"].make_regressor(ranks=(1,)).n_restarts == 1
    assert isinstance(METHODS["cp"].make_regressor(), sltr.CPRegressorCV)


def test_a_typo_is_answered_with_the_nearest_name():
    assert method("tucker") is METHODS["tucker"]
    with pytest.raises(ValueError, match=r"'tuker' was given; did you mean 'tucker'\?"):
        method("tuker")
    with pytest.raises(ValueError, match="'xyz' was given; expected one of"):
        method("xyz")


def test_entries_are_filled_and_frozen():
    for entry in METHODS.values():
        for field in ("title", "assumes", "cost", "good_for", "reference"):
            text = getattr(entry, field)
            assert text
            assert "|" not in text
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["cp"].title = "other"


def test_the_page_shows_the_registry():
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert comparison() in text, "run: python docs/write_methods.py"
    write = runpy.run_path(str(DOCS / "write_methods.py"))["page"]
    assert write(text) == text
    assert write(text.replace("| Remurs ", "| Other ")) == text
