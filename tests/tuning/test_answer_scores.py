"""Scores of the answer itself on the samples that folds leave out."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV

SETTINGS = {"epsilons": [1.0], "lambdas_sparse": [0.2], "lambdas_low": [0.1]}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 4, 3))
    return X, X[:, :2, :2].sum(axis=(1, 2)) + rng.normal(size=60)


def test_one_candidate_scores_as_a_loop_over_folds(data):
    X, y = data
    cv = KFold(4)
    # Units of slices are learnt once, and not fold by fold as in this loop.
    model = SLTRRegressorCV(
        **SETTINGS, refine=[None], cv=cv, tol=1e-6, standardize=None
    ).fit(X, y)
    plain = SLTRRegressor(1.0, 0.2, 0.1, tol=1e-6)
    expected = [
        r2_score(y[test], plain.fit(X[train], y[train]).predict(X[test]))
        for train, test in cv.split(X)
    ]
    np.testing.assert_allclose(model.held_out_scores_["r2"], expected, atol=1e-4)
    np.testing.assert_allclose(model.best_score_, np.mean(expected), atol=1e-4)
    alone = SLTRRegressorCV(**SETTINGS, refine=[None], cv=LeaveOneOut()).fit(X, y)
    assert list(alone.held_out_scores_) == ["neg_mean_squared_error"]


@pytest.mark.parametrize("edges", [[0.0], [-1.0, 1.0]])
def test_labels_have_an_area_and_an_accuracy(data, edges):
    X, y = data[0], np.digitize(data[1], edges)
    cv = StratifiedKFold(3)
    model = SLTRClassifierCV(**SETTINGS, refine=[None], cv=cv, tol=1e-6).fit(X, y)
    found = model.held_out_scores_
    plain = SLTRRegressor(1.0, 0.2, 0.1, tol=1e-6)
    for fold, (train, test) in enumerate(cv.split(X, y)):
        scores = np.column_stack(
            [
                plain.fit(X[train], (y[train] == label).astype(float)).predict(X[test])
                for label in model.classes_
            ]
        )
        accuracy = accuracy_score(y[test], scores.argmax(axis=1))
        areas = [
            roc_auc_score(y[test] == label, scores[:, k])
            for k, label in enumerate(model.classes_)
        ]
        assert found["accuracy"][fold] == pytest.approx(accuracy)
        assert found["roc_auc"][fold] == pytest.approx(np.mean(areas), abs=0.01)
