"""The notebook's view of a model: scikit-learn's diagram and the coefficient."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone

from sltr.coefficients import coef_thumbnail
from sltr.estimators.base import diagram_with_coef
from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5, 4))
    return SLTRRegressor().fit(X, X[:, 0, 0])


def test_fitted_model_shows_diagram_and_its_own_coefficient(fitted):
    html = fitted._repr_mimebundle_()["text/html"]
    assert "sk-top-container" in html
    assert coef_thumbnail(fitted.coef_) in html
    assert fitted._repr_html_().count("<img") == 1


def test_model_without_fit_shows_the_diagram_alone(fitted):
    html = clone(fitted)._repr_html_()
    assert "sk-top-container" in html
    assert "<img" not in html


def test_text_display_keeps_working(fitted):
    with sklearn.config_context(display="text"):
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}


@pytest.mark.parametrize(
    "cls", [SLTRRegressor, SLTRClassifier, SLTRRegressorCV, SLTRClassifierCV]
)
def test_every_sltr_estimator_shows_its_coefficient(cls):
    assert cls._html_repr is diagram_with_coef


def test_several_classes_show_the_first_coefficient():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4, 3))
    model = SLTRClassifier().fit(X, np.array(["a<b", "c", "d"])[np.arange(60) % 3])
    assert coef_thumbnail(model.coef_[0]) in diagram_with_coef(model)
    assert "coef_ of class a&lt;b, 4 × 3" in diagram_with_coef(model)
