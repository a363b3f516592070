"""The benchmark of labels compares what the estimators do."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from sltr import SLTRClassifierCV
from sltr.comparison import Trial
from sltr.datasets import make_tensor_classification

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def labels():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield import_module("labels")


@pytest.fixture(scope="module")
def trial():
    data = make_tensor_classification((5, 4), 90, random_state=0)
    return Trial(data.X[:50], data.y[:50], data.X[50:], data.y[50:])


@pytest.fixture(scope="module")
def folds(trial):
    return list(StratifiedKFold(3).split(trial.y, trial.y))


@pytest.fixture(scope="module")
def candidates(labels, trial, folds):
    return labels.Candidates(trial, folds)


@pytest.mark.parametrize(
    ("rule", "scoring"),
    [("vote", None), ("vote", "roc_auc"), ("average", "roc_auc"), ("best", None)],
)
def test_rules_are_those_of_the_estimator(
    labels, trial, folds, candidates, rule, scoring
):
    shares = getattr(labels, rule)(candidates, scoring or "r2")
    held, test = candidates.answer(shares)
    odds = labels._log_odds(held, candidates.y, test)
    model = SLTRClassifierCV(rule=rule, scoring=scoring, cv=folds)
    model.fit(trial.X, trial.y)
    np.testing.assert_allclose(shares, model.weights_, atol=1e-12)
    np.testing.assert_allclose(odds, model.decision_function(trial.X_test), atol=1e-3)


def test_the_logistic_stack_is_scikit_learns_where_no_weight_vanishes(labels, rng):
    Z = rng.normal(size=(200, 3))
    y = (Z @ [1.0, 0.5, 0.7] + rng.logistic(size=200) > 0).astype(float)
    expected = LogisticRegression(C=0.25, tol=1e-10).fit(Z, y).coef_[0]
    assert expected.min() > 0
    found = labels._nonnegative_logistic(Z, y, 4.0)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_score_that_speaks_against_the_label_gets_no_weight(labels, rng):
    good = rng.normal(size=200)
    y = (good + 0.5 * rng.normal(size=200) > 0).astype(float)
    weights = labels._nonnegative_logistic(np.column_stack([good, -good]), y, 1.0)
    assert weights[0] > 0.1
    assert weights[1] == 0.0
