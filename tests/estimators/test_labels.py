import numpy as np
import pytest

from sltr.estimators.labels import (
    calibration_folds,
    fit_sigmoids,
    label_indicators,
    probabilities,
    winning_labels,
)


def test_two_classes_have_one_indicator_more_have_one_each():
    classes, indicators = label_indicators(["b", "a", "b"])
    assert classes.tolist() == ["a", "b"]
    assert indicators.tolist() == [[1.0], [0.0], [1.0]]
    classes, indicators = label_indicators(np.array([3, 1, 2, 1]))
    assert indicators.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_foreign_labels_become_classes(foreign):
    classes, _ = label_indicators(foreign.array(np.array([2, 0, 2])))
    assert classes.tolist() == [0, 2]


def test_folds_hold_every_row_once_and_every_class():
    indicators = np.repeat(np.eye(3), [5, 10, 15], axis=0)
    folds = calibration_folds(indicators)
    held_out = [test for _, test in folds]
    assert sorted(np.concatenate(held_out).tolist()) == list(range(30))
    for train, test in folds:
        assert (indicators[test].sum(axis=0) > 0).all()
        assert sorted([*train, *test]) == list(range(30))


def test_small_classes_have_fewer_folds_and_single_members_none():
    assert len(calibration_folds(np.array([[1.0]] * 3 + [[0.0]] * 9))) == 3
    assert calibration_folds(np.array([[1.0]] + [[0.0]] * 9)) == []


def test_a_sigmoid_is_recovered(rng):
    scores = rng.normal(size=(20_000, 1))
    truth = 1 / (1 + np.exp(-(2.0 * scores - 0.5)))
    indicators = (rng.random(scores.shape) < truth).astype(float)
    [(slope, offset)] = fit_sigmoids(scores, indicators, np.ones(len(scores)))
    assert slope == pytest.approx(2.0, abs=0.1)
    assert offset == pytest.approx(-0.5, abs=0.1)


def test_weights_count_as_repetitions(rng):
    scores = rng.normal(size=(40, 1))
    indicators = (scores + rng.normal(size=(40, 1)) > 0).astype(float)
    times = rng.integers(1, 4, size=40)
    weighted = fit_sigmoids(scores, indicators, times.astype(float))
    repeated = fit_sigmoids(
        np.repeat(scores, times, axis=0),
        np.repeat(indicators, times, axis=0),
        np.ones(times.sum()),
    )
    # The scores' spread, by which the regularisation is scaled, differs slightly.
    np.testing.assert_allclose(weighted, repeated, rtol=1e-3)


def test_separable_scores_keep_a_finite_slope():
    scores = np.array([[-1.0], [-0.9], [0.9], [1.0]])
    sigmoids = fit_sigmoids(scores, (scores > 0).astype(float), np.ones(4))
    assert np.isfinite(sigmoids).all()
    assert 0 < sigmoids[0, 0] < 100


def test_scores_never_speak_against_their_class(rng):
    scores = rng.normal(size=(50, 1))
    sigmoids = fit_sigmoids(scores, (scores < 0).astype(float), np.ones(50))
    assert sigmoids[0, 0] > 0
    # Far from zero and of little spread, as intercepts of folds are.
    shifted = 0.3 - 1e-3 * scores
    [(slope, offset)] = fit_sigmoids(shifted, (scores > 0).astype(float), np.ones(50))
    found = 1 / (1 + np.exp(-(slope * shifted + offset)))
    np.testing.assert_allclose(found, np.mean(scores > 0), atol=0.03)
    constant = fit_sigmoids(0.0 * scores, (scores < 0).astype(float), np.ones(50))
    assert np.isfinite(constant).all()


def test_probabilities_sum_to_one_at_any_size(rng):
    for logits in (
        rng.normal(size=7),
        1e4 * rng.normal(size=(7, 3)),
        np.full((2, 3), -1e4),
    ):
        found = probabilities(logits)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert ((found >= 0) & (found <= 1)).all()


def test_labels_are_those_of_the_largest_decision():
    classes = np.array(["a", "b", "c"])
    assert winning_labels(classes[:2], np.array([-1.0, 2.0])).tolist() == ["a", "b"]
    decision = np.array([[0.1, 0.3, 0.2], [3.0, -1.0, 2.0]])
    assert winning_labels(classes, decision).tolist() == ["b", "a"]
