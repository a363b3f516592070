"""The default answer, on real samples, does not depend on how these are written down.

Folds are given, and follow the samples: those that a number of folds means are drawn
by the places of the samples.
"""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from sltr import SLTRClassifierCV, SLTRRegressorCV
from sltr.datasets import load_sugar
from sltr.peers.registry import METHODS

# Refits are compared in single precision, by which the shares of the mean differ.
TOLERANCE = 5e-3
N = 60


@pytest.fixture(scope="module", params=["numbers", "labels"])
def found(request):
    """Return a tuned fit to some sugar, what it says of it, and how to fit again."""
    sugar = load_sugar()
    rows = np.arange(0, len(sugar.y), len(sugar.y) // N)[:N]
    X, y = np.asarray(sugar.X, float)[rows], np.asarray(sugar.y, float)[rows]
    labels = request.param == "labels"
    y = np.where(y > np.median(y), "dark", "light") if labels else y
    estimator = SLTRClassifierCV if labels else SLTRRegressorCV
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))

    def scores(X, y, folds=folds, **settings):
        model = estimator(cv=folds, **settings).fit(X, y)
        return np.tensordot(X, model.coef_, X.ndim - 1) + model.intercept_

    return X, y, folds, scores


def agree(found, expected):
    np.testing.assert_allclose(found, expected, atol=TOLERANCE * expected.std())


@pytest.fixture(scope="module")
def expected(found):
    X, y, _, scores = found
    answer = scores(X, y)
    assert answer.std() > 0.1 * (1.0 if y.dtype.kind == "U" else y.std())
    return answer


def test_in_another_order_samples_give_the_same(found, expected, rng):
    X, y, folds, scores = found
    order = rng.permutation(len(y))
    places = np.argsort(order)
    alike = [(places[train], places[test]) for train, test in folds]
    agree(scores(X[order], y[order], alike)[places], expected)


@pytest.mark.parametrize("mode", [1, 2])
def test_entries_of_a_mode_may_have_any_order(found, expected, rng, mode):
    X, y, _, scores = found
    agree(scores(X.take(rng.permutation(X.shape[mode]), mode), y), expected)


def test_units_of_samples_do_not_matter(found, expected):
    X, y, _, scores = found
    agree(scores(1000.0 * X, y), expected)


def test_constants_do_not_matter(found, expected, rng):
    X, y, _, scores = found
    agree(scores(X + X.std() * rng.normal(size=X.shape[1:]), y), expected)


def test_units_of_responses_and_names_of_classes_do_not_matter(found, expected):
    X, y, _, scores = found
    if y.dtype.kind == "U":  # now the other class comes first
        agree(1.0 - scores(X, np.where(y == "dark", "z", "a")), expected)
    else:
        agree((scores(X, 3.0 * y + 7.0) - 7.0) / 3.0, expected)


def test_modes_may_have_any_order(found, expected):
    X, y, _, scores = found
    agree(scores(X.transpose(0, 2, 1), y), expected)


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 3, 2, 1), (0, 2, 3, 1)])
def test_modes_of_one_size_may_have_any_order(rng, order):
    X = rng.standard_normal((60, 5, 5, 5))
    coef = np.einsum("i,j,k", *rng.standard_normal((3, 5)))
    y = np.tensordot(X, coef, 3) + rng.standard_normal(60)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    one = SLTRRegressorCV(cv=folds).fit(X, y).coef_
    other = SLTRRegressorCV(cv=folds).fit(X.transpose(order), y).coef_
    back = one.transpose([mode - 1 for mode in order[1:]])
    np.testing.assert_allclose(other, back, atol=TOLERANCE * one.std())


# scikit-learn's coordinate descent ends where the tolerance lets it.
LOOSE = {"lasso", "elastic_net", "multitask_lasso"}


def changed(X, rng, how):
    """Return samples written down in another way."""
    if how == "modes":
        return X.transpose(0, *range(X.ndim - 1, 0, -1))
    if how == "units":
        return 1e3 * X + 7.0
    for mode in range(1, X.ndim):
        X = X.take(rng.permutation(X.shape[mode]), mode)
    return X


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("how", ["modes", "entries", "units"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_at_its_default_is_equivariant(rng, name, how):
    if (name, how) == ("sturm", "modes"):
        pytest.skip("tubes run along one mode, by definition")
    if (name, how) == ("elastic_net", "units"):
        pytest.skip("scikit-learn's two penalties change by different powers")
    X = rng.standard_normal((60, 4, 3, 3))
    y = X[:, :2, :2].reshape(60, -1).sum(axis=1) + 0.5 * rng.standard_normal(60)
    again, method = changed(X, rng, how), METHODS[name]
    one, other = (method.make_regressor().fit(A, y).predict(A) for A in (X, again))
    most = 0.2 if name in LOOSE else 1e-4
    np.testing.assert_allclose(other, one, atol=most * one.std(), rtol=1e-10)
