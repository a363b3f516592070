import numpy as np
import pytest

from sltr.tuning.candidates import Candidate
from sltr.tuning.choose import (
    agreement_weights,
    average_weights,
    best_index,
    cv_table,
)
from sltr.tuning.folds import Folds, close_to
from sltr.tuning.policy import Policy


def test_weights_fall_with_the_excess_in_standard_errors(rng):
    losses = rng.normal(size=(400, 1)) ** 2 + np.array([0.0, 0.03, 0.4, -0.1, 9.0])
    losses += 0.5 * rng.normal(size=losses.shape)
    weight = np.ones(400)
    found = agreement_weights(losses, weight, smallest=0.1)
    excess = losses - losses[:, :1]
    alike = 0.02 * losses[:, 0].mean()
    steps = excess.mean(axis=0)[1:3] / np.hypot(excess.std(axis=0)[1:3] / 20.0, alike)
    expected = (np.exp(-0.5 * steps[0] ** 2) - 0.1) / 0.9
    np.testing.assert_allclose(found[1], expected)
    assert found[0] == found[3] == 1.0
    assert found[2] == found[4] == 0.0  # too little to count
    assert steps[1] > 2.2
    # What is as good as the best by one standard error has half of its weight.
    assert (found[close_to(0, losses, weight)] > 0.5).all()


def test_weights_of_equal_and_of_broken_candidates():
    losses = np.array([[1.0, 1.0, 2.0, np.nan], [3.0, 3.0, 4.0, 1.0]])
    found = agreement_weights(losses, np.ones(2), smallest=0.1)
    assert found.tolist() == [1.0, 1.0, 0.0, 0.0]


CANDIDATES = [
    Candidate(1.0, 0.0, 0.0),
    Candidate(2.0, 0.0, 0.0),
    Candidate(1.0, 0.3, 0.3),
    Candidate(1.0, 0.3, 0.3, "cp", rank=1, ridge=0.1),
    Candidate(1.0, 0.3, 0.3, "cp", rank=2, ridge=0.1),
]


def known_folds(rng, n, repeats=1):
    rows = [part for _ in range(repeats) for part in np.array_split(np.arange(n), 3)]
    y = rng.normal(size=(n, 1))
    training = np.array([~np.isin(np.arange(n), part) for part in rows])
    return Folds(
        training,
        rows,
        np.zeros((len(rows), 1)),
        [y[part] for part in rows],
        [np.ones(len(part)) for part in rows],
    )


def noisy(rng, folds, sizes):
    return [
        target[:, :, None] + rng.normal(size=(len(target), 1, len(sizes))) * sizes
        for target in folds.targets
    ]


def test_averages_share_among_kinds_and_within_them(rng):
    folds = known_folds(rng, 300)
    predictions = noisy(rng, folds, np.array([0.5, 0.0, 5.0, 0.0, 5.0]))
    for values, target in zip(predictions, folds.targets, strict=True):
        first = values[:, :, 0]  # others that err as the first does, or nearly
        values[:, :, 1] = first
        values[:, :, 3] = first + 1e-3 * (first - target) ** 2
    scores = -np.array([0.25, 0.26, 25.0, 0.26, 25.0])
    weights = average_weights(CANDIDATES, scores, predictions, folds, Policy())
    assert weights.sum() == pytest.approx(1.0)
    assert weights[2] == weights[4] == 0.0  # far worse than the best
    assert weights[0] == pytest.approx(weights[1])
    assert weights[3] > 0.1


def test_simple_kinds_count_more_where_samples_are_few(rng):
    shares = []
    for n in (12, 3000):
        folds = known_folds(rng, n)
        one = [target[:, :, None] + 0.3 for target in folds.targets]
        predictions = [np.repeat(values, 2, axis=2) for values in one]
        pair = [CANDIDATES[0], CANDIDATES[3]]
        shares.append(average_weights(pair, np.zeros(2), predictions, folds, Policy()))
    few = 1.0 + 40.0 / 12.0
    np.testing.assert_allclose(shares[0], [few**2 / (few**2 + 1), 1 / (few**2 + 1)])
    np.testing.assert_allclose(shares[1], [0.5, 0.5], atol=0.01)


def test_repeated_folds_are_no_new_samples(rng):
    folds = known_folds(rng, 40)
    predictions = noisy(rng, folds, np.array([0.5, 0.55, 0.6, 0.6, 0.7]))
    scores = -np.arange(5.0)
    once = average_weights(CANDIDATES, scores, predictions, folds, Policy())
    twice = Folds(
        np.concatenate([folds.training] * 2),
        folds.rows * 2,
        np.zeros((6, 1)),
        folds.targets * 2,
        folds.weights * 2,
    )
    again = average_weights(CANDIDATES, scores, predictions * 2, twice, Policy())
    np.testing.assert_allclose(again, once)


def test_predictions_that_are_not_finite_have_no_share(rng):
    folds = known_folds(rng, 30)
    predictions = noisy(rng, folds, np.ones(5))
    predictions[0][0, 0, 0] = np.inf
    scores = np.array([-np.inf, -1.0, -1.0, -1.0, -1.0])
    weights = average_weights(CANDIDATES, scores, predictions, folds, Policy())
    assert weights[0] == 0.0
    assert weights.sum() == pytest.approx(1.0)
    predictions[0][:] = np.nan
    assert not average_weights(CANDIDATES, scores, predictions, folds, Policy()).any()


def test_the_best_has_the_highest_mean_and_ties_go_to_the_first():
    assert best_index(np.array([[1.0, 3.0, 3.0], [2.0, 3.0, 3.0]])) == 1


def test_candidates_without_a_score_never_win():
    assert best_index(np.array([[np.nan, 1.0, 2.0], [9.0, 1.0, 2.0]])) == 2
    with pytest.raises(ValueError, match="finite score"):
        best_index(np.array([[np.nan], [1.0]]))


def test_one_standard_error_prefers_the_simplest_close_candidate():
    scores = np.array([[1.0, 0.9, 0.2], [0.6, 0.5, 0.1]])  # standard error 0.2
    assert best_index(scores, rule="1se", complexity=np.array([3, 2, 1])) == 1
    assert best_index(scores, rule="1se", complexity=np.array([1, 1, 0])) == 0
    with pytest.raises(ValueError, match="rule"):
        best_index(scores, rule="median")


def test_the_table_has_scikit_learns_keys():
    scores = np.array([[0.1, 0.5, 0.5], [0.3, 0.5, np.nan]])
    table = cv_table({"a": [1, 2, 3], "b": ["x", "y", "z"]}, scores)
    assert table["params"][1] == {"a": 2, "b": "y"}
    assert table["param_a"].tolist() == [1, 2, 3]
    assert table["split1_test_score"][0] == 0.3
    np.testing.assert_allclose(table["mean_test_score"], [0.2, 0.5, np.nan])
    np.testing.assert_allclose(table["std_test_score"][0], 0.1)
    assert table["rank_test_score"].tolist() == [2, 1, 3]


def test_losses_whose_squares_overflow_are_compared():
    rng = np.random.default_rng(0)
    losses, weight = rng.random((20, 6)), rng.random(20)
    for scale in (2.0**-600, 2.0**600):
        found = close_to(2, scale * losses, weight)
        np.testing.assert_array_equal(found, close_to(2, losses, weight))


def test_a_share_of_the_best_loss_is_no_difference():
    losses = np.tile([1.0, 1.01, 1.03], (5, 1))
    assert close_to(0, losses, np.ones(5)).tolist() == [True, False, False]
    assert close_to(0, losses, np.ones(5), alike=0.02).tolist() == [True, True, False]
