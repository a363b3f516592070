import numpy as np
import pytest
from sklearn.metrics import f1_score

from sltr.metrics import error_bound, estimation_error, rank_error, support_f1


def test_estimation_error_is_relative(rng):
    truth = rng.standard_normal((4, 3, 2))
    assert estimation_error(truth, truth) == 0.0
    assert estimation_error(0 * truth, truth) == pytest.approx(1.0)
    assert estimation_error(3 * truth, truth) == pytest.approx(2.0)


def test_estimation_error_of_a_zero_truth_is_the_norm(rng):
    coef = rng.standard_normal((4, 3))
    assert estimation_error(coef, 0 * coef) == pytest.approx(np.linalg.norm(coef))


def test_support_f1_is_that_of_scikit_learn(rng):
    coef = rng.standard_normal((5, 4, 3)) * (rng.random((5, 4, 3)) < 0.4)
    truth = rng.standard_normal((5, 4, 3)) * (rng.random((5, 4, 3)) < 0.3)
    expected = f1_score(truth.ravel() != 0, coef.ravel() != 0)
    assert support_f1(coef, truth) == pytest.approx(expected)


def test_support_ignores_dust_and_scale(rng):
    truth = np.array([[1.0, 0.0], [0.0, 2.0]])
    assert support_f1(1e-9 * truth + 1e-17, truth) == 1.0
    assert support_f1(truth + 0.1, truth, rtol=0.2) == 1.0
    assert support_f1(truth + 0.1, truth, rtol=0.0) == pytest.approx(4 / 6)


def test_empty_supports():
    zero, one = np.zeros((2, 2)), np.ones((2, 2))
    assert support_f1(zero, zero) == 1.0
    assert support_f1(zero, one) == support_f1(one, zero) == 0.0


def test_rank_error_counts_per_mode(rng):
    truth = np.einsum("i,j,k->ijk", *(rng.standard_normal(p) for p in (5, 4, 3)))
    coef = rng.standard_normal((5, 4, 3))
    ranks = [
        np.linalg.matrix_rank(np.moveaxis(coef, m, 0).reshape(p, -1))
        for m, p in enumerate((5, 4, 3))
    ]
    assert rank_error(coef, truth) == pytest.approx(np.mean(np.array(ranks) - 1))
    assert rank_error(truth, truth) == 0.0


def test_bound_is_theorem_one():
    expected = 4 * 2**0.5 * (0.3 * 60**0.5 + 0.7 * 5**0.5)
    assert error_bound((5, 4, 3), 0.3, 0.7, 5) == pytest.approx(expected)
    assert error_bound((5, 4), 0.0, 0.0, 5) == 0.0


@pytest.mark.parametrize(
    ("ranks", "square"),
    [((2, 2, 2), 4), ((1, 1, 1), 1), ((4, 3, 2), 8), ((2, 3, 4), 8), ((1, 4, 4), 4)],
)
def test_order_three_bound_is_the_corollary(ranks, square):
    expected = 4 * (2 * square) ** 0.5
    assert error_bound((4, 4, 4), 0.0, 1.0, ranks) == pytest.approx(expected)


def test_soft_thresholded_pilot_obeys_the_bound(rng):
    """The estimate is S_a(pilot) where ‖clip(pilot, −a, a)‖₂ ≤ λ_low."""
    truth = np.zeros((6, 5))
    truth[:2, :2] = 3.0
    noise = rng.uniform(-0.2, 0.2, size=truth.shape)
    pilot = truth + noise
    low = max(np.linalg.norm(noise, 2), np.linalg.norm(np.clip(pilot, -0.2, 0.2), 2))
    estimate = np.sign(pilot) * np.maximum(np.abs(pilot) - 0.2, 0.0)
    assert np.linalg.norm(estimate - truth) <= error_bound((6, 5), 0.2, low, 1)


@pytest.mark.parametrize("metric", [estimation_error, support_f1, rank_error])
def test_shapes_must_agree(metric):
    with pytest.raises(ValueError, match="expected equal shapes"):
        metric(np.zeros((2, 3)), np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (((), 1.0, 1.0, 1), "shape="),
        (((3, 0), 1.0, 1.0, 1), "shape="),
        (((3, 3.7), 1.0, 1.0, 1), "shape="),
        (((3, 3), -1.0, 1.0, 1), "lambda_sparse=-1.0"),
        (((3, 3), 1.0, float("inf"), 1), "lambda_low=inf"),
        (((3, 3), 1.0, 1.0, -1), "ranks=-1"),
        (((3, 3), 1.0, 1.0, (1, 1, 1)), "tensor of order 3"),
        (((3, 3, 3), 1.0, 1.0, (1, 1)), "expected three"),
        (((3, 3, 3), 1.0, 1.0, (1, 1, 4)), "at most its mode's size"),
    ],
)
def test_bad_arguments_are_named(arguments, match):
    with pytest.raises(ValueError, match=match):
        error_bound(*arguments)


def test_ranks_of_a_bound_may_be_an_array():
    ranks = np.array([2, 1, 3])
    expected = error_bound((4, 4, 4), 0.1, 1.0, (2, 1, 3))
    assert error_bound((4, 4, 4), 0.1, 1.0, ranks) == expected


def test_torch_input():
    torch = pytest.importorskip("torch")
    coef, truth = torch.eye(3), torch.ones((3, 3))
    assert estimation_error(coef, truth) == pytest.approx((6 / 9) ** 0.5)
    assert support_f1(coef, truth) == pytest.approx(0.5)
    assert rank_error(coef, truth) == 2.0
