"""Forward patterns, against regressions entry by entry."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sltr import CPRegressor, SLTRClassifier, SLTRRegressor
from sltr.inference import patterns


def test_pattern_is_the_regression_of_each_entry_on_the_score(rng):
    X = rng.normal(size=(40, 4, 3)) + 100.0
    model = SLTRRegressor().fit(X, X[:, 0, 0] - X[:, 1, 1])
    score = model.predict(X)
    found = patterns(model, X)
    slopes = [np.polyfit(score, column, 1)[0] for column in X.reshape(40, -1).T]
    np.testing.assert_allclose(found.pattern.ravel(), slopes, atol=1e-8)
    assert found.score_std == pytest.approx(score.std())


def test_signal_is_seen_where_the_coefficient_cancels_noise(rng):
    signal, noise = rng.normal(size=(2, 400))
    X = np.stack([signal + noise, noise], axis=1)
    model = SLTRRegressor(lambda_sparse=0, lambda_low=0).fit(X, signal)
    assert abs(model.coef_[1]) > 0.9
    assert abs(patterns(model, X).pattern[1]) < 0.1


def test_each_class_has_its_own_pattern(rng):
    X = rng.normal(size=(60, 4, 3))
    model = SLTRClassifier().fit(X, np.arange(60) % 3)
    found = patterns(model, X)
    assert found.pattern.shape == model.coef_.shape
    alone = X.reshape(60, -1) @ model.coef_[1].ravel()
    slope = np.polyfit(alone, X[:, 2, 1], 1)[0]
    assert found.pattern[1, 2, 1] == pytest.approx(slope)


def test_zeros_have_a_pattern_of_zeros(rng):
    X = rng.normal(size=(20, 4, 3))
    model = SLTRRegressor(lambda_sparse=1.0, lambda_low=1.0).fit(X, X[:, 0, 0])
    assert not model.coef_.any()
    assert not patterns(model, X).pattern.any()


def test_same_pattern_in_every_library(xp, rng):
    X = rng.normal(size=(30, 4, 3))
    model = SLTRRegressor().fit(X, X[:, 0, 0])
    other = patterns(model, xp.array(X)).pattern
    np.testing.assert_allclose(xp.numpy(other), patterns(model, X).pattern, atol=1e-10)


def test_peers_have_patterns_too(rng):
    X = rng.normal(size=(30, 4, 3))
    model = CPRegressor(rank=1).fit(X, X[:, 0, 0])
    assert patterns(model, X).pattern.shape == (4, 3)


def test_a_model_that_is_not_fitted_is_refused(rng):
    with pytest.raises(NotFittedError):
        patterns(SLTRRegressor(), rng.normal(size=(5, 2, 2)))


def test_each_response_of_a_tensor_has_its_own_pattern(rng):
    X, Y = rng.normal(size=(40, 3, 2)), rng.normal(size=(40, 2, 2))
    model = SLTRRegressor(responses="separate").fit(X, Y)
    found = patterns(model, X)
    assert found.pattern.shape == model.coef_.shape
    for k in np.ndindex(2, 2):
        score = np.einsum("nij,ij->n", X, model.coef_[..., *k])
        centred = score - score.mean()
        slope = np.einsum("nij,n->ij", X, centred) / (centred @ centred)
        np.testing.assert_allclose(found.pattern[..., *k], slope, atol=1e-12)
        assert found.score_std[k] == pytest.approx(score.std())
