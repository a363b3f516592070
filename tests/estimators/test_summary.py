"""`summary()`: numbers are those of the fit, and print well."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV, load, save
from sltr.comparison import Table
from sltr.datasets import label


@pytest.fixture(scope="module")
def tuned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5, 4))
    y = X[:, :2, :2].sum(axis=(1, 2)) + rng.normal(size=60) + 10.0
    return SLTRRegressorCV().fit(X, y), X, y


def test_null_score_is_that_of_scikit_learns_dummy(tuned):
    model, X, y = tuned
    folds = KFold(5, shuffle=True, random_state=0)
    expected = cross_val_score(DummyRegressor(), X, y, cv=folds).mean()
    assert model.null_score_ == pytest.approx(expected)
    assert model.summary().null_score == model.null_score_


def test_null_of_labels_is_the_commonest_class(rng):
    X = rng.normal(size=(40, 4, 3))
    y = np.array(["no", "yes"])[(np.arange(40) % 4 == 0).astype(int)]
    model = SLTRClassifierCV(refine=None, scoring="accuracy").fit(X, y)
    assert model.null_score_ == pytest.approx(0.75)


def test_a_scorer_may_warn_of_constants_for_the_null_alone(rng):
    X = rng.normal(size=(40, 4, 3))
    y = (X[:, 0, 0] > 0).astype(int)
    model = SLTRClassifierCV(refine=None, scoring="f1").fit(X, y)
    assert 0 <= model.null_score_ < 1


def test_numbers_are_those_of_the_fit(tuned):
    model, *_ = tuned
    summary = model.summary()
    scores = model.held_out_scores_["r2"]
    assert summary.score == pytest.approx(np.mean(scores))
    assert summary.score_error == pytest.approx(np.std(scores, ddof=1) / 5**0.5)
    assert summary.n_nonzero == np.count_nonzero(model.coef_)
    assert summary.n_entries == 20
    assert summary.chosen["refine"] == model.refine_
    assert summary.dual_gap == model.dual_gap_


def test_a_score_that_was_asked_for_is_that_of_the_best_candidate(rng):
    X = rng.normal(size=(40, 4, 3))
    y = X[:, 0, 0] + rng.normal(size=40)
    model = SLTRRegressorCV(refine=None, scoring="neg_mean_absolute_error").fit(X, y)
    summary = model.summary()
    assert summary.score == pytest.approx(model.best_score_)
    assert summary.scored_by == "neg_mean_absolute_error"
    labels = SLTRClassifierCV(refine=None).fit(X, y > 0)
    summary = labels.summary()
    expected = np.mean(labels.held_out_scores_["roc_auc"])
    assert summary.score == pytest.approx(expected)
    assert (summary.scored_by, summary.null_score) == ("ROC AUC", 0.5)


def test_text_and_notebook_say_the_same(tuned):
    model, *_ = tuned
    summary = model.summary(SimpleNamespace(p_value=0.002, null=np.zeros(499)))
    text, html = str(summary), summary._repr_html_()
    assert text.startswith("SLTRRegressorCV\n")
    for name, value in summary.lines():
        assert name in text
        assert value in text
        assert value in html
    assert "0.002 (499 permutations)" in text
    assert "p-value" not in str(model.summary())


@pytest.mark.parametrize(
    "refine", [None, "scale", "reweight", "sparse", ("cp", 1, 0.1)]
)
def test_given_settings_are_told_and_no_score_is_claimed(rng, refine):
    X = rng.normal(size=(40, 5, 4))
    model = SLTRRegressor(refine=refine).fit(X, X[:, 0, 0])
    summary = model.summary()
    assert summary.score is None
    assert "unknown" in str(summary)
    kind = refine[0] if isinstance(refine, tuple) else refine
    assert summary.chosen["refine"] == kind


def test_a_model_that_is_not_fitted_has_no_summary():
    with pytest.raises(NotFittedError):
        SLTRRegressor().summary()


CLEARS = "\x1b[2J"  # a terminal would clear its screen


def test_control_characters_of_a_model_reach_no_terminal(rng, tmp_path):
    names = (f"a{CLEARS}", f"time{CLEARS}")
    X = label(rng.normal(size=(30, 3, 4)), names, coords={0: ["u", "v", CLEARS]})
    model = SLTRRegressorCV(cv=2, refine=None, smooth={1: 1.0}).fit(X, X[:, 0, 0] * 2.0)
    model.held_out_scores_ = {CLEARS: np.ones(2)}  # as a forged file might say
    model = load(save(model, tmp_path / "model"))
    text = str(model.summary())
    assert r"\x1b[2J" in text
    assert text.replace("\n", "").isprintable()
    with pytest.warns(UserWarning, match="in the order of the model") as caught:
        model.predict(X[:, [2, 0, 1]])
    assert str(caught[0].message).isprintable()
    with pytest.raises(ValueError, match="X has no a") as error:
        model.predict(X[:, :2])
    assert str(error.value).isprintable()
    assert str(Table([{CLEARS: CLEARS}])).replace("\n", "").isprintable()
