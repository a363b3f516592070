"""Inference for models with a mask, missing entries, units and smooth modes."""

import numpy as np
import pytest
from sklearn.base import clone

from sltr import SLTRRegressorCV
from sltr.inference import intervals, patterns, permutation_test, stability
from sltr.inference.permutation import draw_orders


def drawn(rng, n=60):
    X = rng.normal(size=(n, 6, 5)) * np.linspace(1.0, 9.0, 5)
    return X, X[:, 0, 0] - X[:, 3, 2] / 5.0 + 0.5 * rng.normal(size=n)


MASK = np.zeros((6, 5), bool)
MASK[:4, :3] = True
SPARSE = np.zeros((6, 5), bool)
SPARSE[0, 0] = SPARSE[3, 2] = True
MODELS = {
    "mask": {"mask": MASK},
    "sparse mask": {"mask": SPARSE},
    "units": {"standardize": "entries"},
    "units if better": {"standardize": "auto"},
    "smooth": {"smooth": {0: 1.0}},
}
every_map = pytest.mark.parametrize("settings", MODELS.values(), ids=list(MODELS))


@every_map
def test_permuted_scores_are_those_of_whole_fits(rng, settings):
    X, y = drawn(rng)
    model = SLTRRegressorCV(refine=None, **settings)
    test = permutation_test(model, X, y, n=2, random_state=0)
    orders, _ = draw_orders(y, None, 2, np.random.RandomState(0))
    scores = [clone(model).fit(X, y[order]).best_score_ for order in orders]
    np.testing.assert_allclose([test.score, *test.null], scores, rtol=1e-6, atol=1e-8)


@every_map
def test_intervals_predict_as_the_folds_fits_do(rng, settings):
    X, y = drawn(rng)
    found = intervals(SLTRRegressorCV(refine=None, **settings), X, y)
    # A training sample's prediction by its own fold's fit is the held-out one.
    again = found._scores(X)[np.arange(60), found.fold]
    np.testing.assert_allclose(again.ravel(), found.held_out.ravel(), atol=1e-8)


@every_map
def test_maps_have_the_samples_shape(rng, settings):
    X, y = drawn(rng)
    model = SLTRRegressorCV(refine=None, **settings)
    found = stability(model, X, y, n_pairs=2, random_state=0)
    assert found.frequency.shape == (6, 5)
    if "mask" in settings:
        assert not found.frequency[~settings["mask"]].any()
    assert patterns(model.fit(X, y), X).pattern.shape == (6, 5)


@pytest.mark.parametrize("settings", [{"mask": MASK}, {"mask": SPARSE}], ids=str)
def test_cheap_test_sees_the_mask_alone(rng, settings):
    X, y = drawn(rng)
    args = {"n": 9, "statistic": "pilot", "random_state": 0}
    inside = np.where(settings["mask"], X, 0.0)
    given = permutation_test(SLTRRegressorCV(**settings), X, y, **args)
    by_hand = permutation_test(SLTRRegressorCV(), inside, y, **args)
    np.testing.assert_allclose(given.null, by_hand.null, atol=1e-8)


def test_missing_entries_are_filled(rng):
    X, y = drawn(rng)
    X[rng.random(X.shape) < 0.05] = np.nan
    model = SLTRRegressorCV(refine=None, missing="mean")
    lower, upper = intervals(model, X, y).predict(X)
    assert (lower < upper).all()
    args = {"n": 9, "random_state": 0}
    for statistic in ("pilot", "procedure"):
        assert permutation_test(model, X, y, statistic=statistic, **args).p_value < 0.2
    assert stability(model, X, y, n_pairs=2).frequency.shape == (6, 5)
