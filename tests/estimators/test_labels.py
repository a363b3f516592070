import numpy as np
import pytest

from sltr.estimators.labels import (
    MIXING_SIZE,
    OFFSET_SIZE,
    SMALLEST_SLOPE,
    UNKNOWN_SAMPLES,
    calibrated_scores,
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


def _noisy_scores(rng, n_classes, n_samples=60):
    """Return scores (n, K) that tell the classes apart, but not well; indicators."""
    _, indicators = label_indicators(np.arange(n_samples) % n_classes)
    return indicators + 0.5 * rng.normal(size=indicators.shape), indicators


def _calibrated(scores, sigmoids):
    scores = scores[:, 0] if scores.shape[1] == 1 else scores
    return probabilities(calibrated_scores(scores, sigmoids))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_the_most_likely_by_another_solver(rng, n_classes):
    cvxpy = pytest.importorskip("cvxpy")
    scores, indicators = _noisy_scores(rng, n_classes)
    weight = rng.uniform(0.5, 2.0, size=len(scores))
    found = _calibrated(scores, fit_sigmoids(scores, indicators, weight))

    one_hot = indicators
    if n_classes == 2:
        scores, one_hot = np.c_[-scores, scores] / 2, np.c_[1 - indicators, indicators]
    z = scores - np.average(scores, axis=0, weights=weight)
    z = z / np.sqrt(np.average((z**2).mean(axis=1), weights=weight))
    labels = one_hot.argmax(axis=1)
    classes = [labels == k for k in range(n_classes)]
    means = np.stack([np.average(z[c], axis=0, weights=weight[c]) for c in classes])
    z = z - means.mean(axis=0)
    apart = np.diag(means).mean() - means[~np.eye(n_classes, dtype=bool)].mean()
    rest = z - (means - means.mean(axis=0))[labels]
    # Of normal scores that add up to a constant; the rest of K has K − 1 dimensions.
    variance = np.average((rest**2).sum(axis=1), weights=weight) / (n_classes - 1)
    normal = apart / variance
    any_label = UNKNOWN_SAMPLES / (weight.sum() + 2 * UNKNOWN_SAMPLES)
    targets = (1 - any_label) * one_hot + any_label / n_classes
    slope, b = cvxpy.Variable(), cvxpy.Variable((1, n_classes))
    E = cvxpy.Variable((n_classes, n_classes))
    ones = np.ones((len(z), 1))
    prior = np.log(np.average(targets, axis=0, weights=weight))[None, :]
    logits = slope * z + z @ E.T + ones @ (b + prior)
    loss = cvxpy.log_sum_exp(logits, axis=1)
    loss = weight @ (loss - cvxpy.sum(cvxpy.multiply(targets, logits), axis=1))
    penalty = cvxpy.sum_squares(E) / MIXING_SIZE**2
    penalty += cvxpy.sum_squares(b) / OFFSET_SIZE**2
    penalty += 2 * (slope / normal - cvxpy.log(slope))
    limits = [slope >= SMALLEST_SLOPE, *([E == 0] if n_classes == 2 else [])]
    cvxpy.Problem(cvxpy.Minimize(loss + penalty / 2), limits).solve("CLARABEL")
    expected = np.exp(logits.value)
    expected = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_count_as_repetitions(rng, n_classes):
    scores, indicators = _noisy_scores(rng, n_classes)
    times = rng.integers(1, 4, size=len(scores))
    weighted = fit_sigmoids(scores, indicators, times.astype(float))
    repeated = fit_sigmoids(
        np.repeat(scores, times, axis=0),
        np.repeat(indicators, times, axis=0),
        np.ones(times.sum()),
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-5, atol=1e-6)


def test_the_order_of_classes_does_not_matter(rng):
    scores, indicators = _noisy_scores(rng, 4)
    ones, order = np.ones(len(scores)), [2, 0, 3, 1]
    found = _calibrated(scores, fit_sigmoids(scores, indicators, ones))
    scores, indicators = scores[:, order], indicators[:, order]
    other = _calibrated(scores, fit_sigmoids(scores, indicators, ones))
    np.testing.assert_allclose(found[:, order], other, atol=1e-6)
    scores, indicators = _noisy_scores(rng, 2)
    found = _calibrated(scores, fit_sigmoids(scores, indicators, ones))
    scores, indicators = 1.0 - scores, 1.0 - indicators
    other = _calibrated(scores, fit_sigmoids(scores, indicators, ones))
    np.testing.assert_allclose(found[:, ::-1], other, atol=1e-6)


def test_many_small_classes_calibrate_each_other(rng):
    """Probabilities of 20 classes with 5 samples each are nearly the true ones."""

    def draw(n_each):
        indicators = np.repeat(np.eye(20), n_each, axis=0)
        return indicators + 0.4 * rng.normal(size=indicators.shape), indicators

    def log_loss(shares, indicators):
        return -np.mean(np.log(shares[indicators > 0]))

    scores, indicators = draw(5)
    sigmoids = fit_sigmoids(scores, indicators, np.ones(100))
    scores, indicators = draw(100)
    found = log_loss(_calibrated(scores, sigmoids), indicators)
    # Scores of equal spread about the corners: the slope is one over their variance.
    true = log_loss(probabilities(scores / 0.4**2), indicators)
    assert true < found < 1.1 * true + 0.02


def test_models_of_one_sigmoid_a_class_predict_as_they_did(rng):
    scores, lines = rng.normal(size=(5, 3)), rng.uniform(0.5, 2.0, size=(3, 2))
    logits = calibrated_scores(scores, lines)
    each = 1.0 / (1.0 + np.exp(-(scores * lines[:, 0] + lines[:, 1])))
    np.testing.assert_allclose(
        probabilities(logits, own_sigmoids=True), each / each.sum(axis=1)[:, None]
    )


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_few_normal_scores_have_about_the_slope_of_many(rng, share):
    """Classes six deviations apart: there is no overlap that a likelihood could see."""

    def draw(n_samples):
        labels = np.arange(n_samples) < share * n_samples
        return 6.0 * labels[:, None] + rng.normal(size=(n_samples, 1)), labels[:, None]

    def log_loss(line, scores, labels):
        log_odds = line[0] * scores + line[1]
        return np.mean(np.logaddexp(0.0, np.where(labels, -log_odds, log_odds)))

    new = draw(20_000)
    truth = log_loss((6.0, -18.0 + np.log(share / (1.0 - share))), *new)
    losses = []
    for _ in range(20):
        scores, labels = draw(60)
        [line] = fit_sigmoids(scores, labels.astype(float), np.ones(60))
        losses.append(log_loss(line, *new))
    assert truth < np.mean(losses) < truth + 0.01


def test_scores_that_are_equal_within_classes_have_a_finite_slope():
    labels = np.arange(12) % 3
    scores = np.eye(3)[labels]
    for some in (scores, scores[:, :1]):
        found = fit_sigmoids(some, some, np.ones(12))
        assert np.isfinite(found).all()
        assert (_calibrated(some, found).max(axis=1) > 0.8).all()


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
        for own_sigmoids in (False, True):
            found = probabilities(logits, own_sigmoids=own_sigmoids)
            np.testing.assert_allclose(found.sum(axis=1), 1.0)
            assert ((found >= 0) & (found <= 1)).all()


def test_labels_are_those_of_the_largest_decision():
    classes = np.array(["a", "b", "c"])
    assert winning_labels(classes[:2], np.array([-1.0, 2.0])).tolist() == ["a", "b"]
    decision = np.array([[0.1, 0.3, 0.2], [3.0, -1.0, 2.0]])
    assert winning_labels(classes, decision).tolist() == ["b", "a"]
