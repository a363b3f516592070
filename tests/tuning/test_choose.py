import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sltr.tuning.choose import (
    agreement_weights,
    best_index,
    close_to,
    cv_table,
    weights_by_kind,
)


def test_votes_fall_with_the_excess_in_standard_errors(rng):
    losses = rng.normal(size=(400, 1)) ** 2 + np.array([0.0, 0.05, 0.4, -0.1, 9.0])
    losses += 0.5 * rng.normal(size=losses.shape)
    weight = np.ones(400)
    found = agreement_weights(0, losses, weight, overlap=1.25, smallest=0.1)
    excess = losses - losses[:, :1]
    steps = excess.mean(axis=0)[1:3] / (1.5 * excess.std(axis=0)[1:3] / 20.0)
    expected = (np.exp(-0.5 * steps[0] ** 2) - 0.1) / 0.9
    np.testing.assert_allclose(found[1], expected)
    assert found[0] == found[3] == 1.0
    assert found[2] == found[4] == 0.0  # too little to count
    assert steps[1] > 2.2
    # What is as good as the best by one standard error has most of a vote.
    assert (found[close_to(0, losses, weight)] > 0.8).all()


def test_votes_of_equal_and_of_broken_candidates():
    losses = np.array([[1.0, 1.0, 2.0, np.nan], [3.0, 3.0, 4.0, 1.0]])
    found = agreement_weights(0, losses, np.ones(2), overlap=1.0, smallest=0.1)
    assert found.tolist() == [1.0, 1.0, 0.0, 0.0]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.floats(0.1, 1.0)), min_size=1, max_size=8
    )
)
def test_shares_sum_to_one_and_kinds_have_their_best_vote(pairs):
    kinds, own = zip(*pairs, strict=True)
    shares = weights_by_kind(kinds, np.array(own))
    assert shares.sum() == pytest.approx(1.0)
    best = {k: max(v for other, v in pairs if other == k) for k in kinds}
    for kind, vote in best.items():
        total = sum(s for k, s in zip(kinds, shares, strict=True) if k == kind)
        assert total == pytest.approx(vote / sum(best.values()))


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
