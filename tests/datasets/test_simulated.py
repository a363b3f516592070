import itertools

import numpy as np
import pytest

from sltr.core.tensor import numerical_ranks
from sltr.datasets import make_tensor_classification, make_tensor_regression
from sltr.datasets.simulated import TRUTHS

SHAPE = (7, 6, 5)


def is_box(support):
    """Say whether the support is the product of one interval in each mode."""
    box = np.ix_(*[np.arange(i.min(), i.max() + 1) for i in np.nonzero(support)])
    return support[box].all()


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("shape", [(9,), (5, 1), (6, 5), SHAPE, (4, 3, 2, 3)])
def test_every_truth_draws_finite_data_of_the_shape(truth, shape):
    data = make_tensor_regression(shape, 11, truth=truth, random_state=0)
    assert data.X.shape == (11, *shape)
    assert data.y.shape == data.signal.shape == (11,)
    assert data.coef.shape == shape
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()
    assert np.any(data.coef != 0)


@pytest.mark.parametrize("truth", TRUTHS)
def test_signal_is_the_inner_product(truth):
    data = make_tensor_regression(SHAPE, 9, truth=truth, noise=0.0, random_state=1)
    expected = [
        sum(data.coef[i] * x[i] for i in itertools.product(*map(range, SHAPE)))
        for x in data.X
    ]
    np.testing.assert_allclose(data.y, expected, atol=1e-10)


def test_same_seed_gives_the_same_data_and_another_seed_does_not():
    one, two, other = (
        make_tensor_regression(SHAPE, 5, missing=0.2, random_state=s) for s in (3, 3, 4)
    )
    for name in ("X", "y", "coef"):
        np.testing.assert_array_equal(one[name], two[name])
        assert not np.array_equal(one[name], other[name], equal_nan=True)


def test_coefficient_does_not_depend_on_samples_noise_or_design():
    one = make_tensor_regression(SHAPE, 5, random_state=3)
    two = make_tensor_regression(SHAPE, 50, snr=2, correlation=0.5, random_state=3)
    np.testing.assert_array_equal(one.coef, two.coef)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_random_state_objects_are_accepted_and_advance(kind):
    one, two = (make_tensor_regression(SHAPE, 5, random_state=kind(0)) for _ in "ab")
    np.testing.assert_array_equal(one.y, two.y)
    rng = kind(0)
    first, second = (make_tensor_regression(SHAPE, 5, random_state=rng) for _ in "ab")
    assert not np.array_equal(first.y, second.y)


def test_cp_truth_has_its_rank_and_sparse_factors():
    data = make_tensor_regression(
        (12, 10, 8), 2, truth="cp", rank=3, sparsity=0.25, random_state=0
    )
    assert numerical_ranks(data.coef, rtol=1e-6) == (3, 3, 3)
    single = make_tensor_regression(
        (12, 10, 8), 2, truth="cp", rank=1, sparsity=0.5, random_state=0
    )
    assert np.count_nonzero(single.coef) == 6 * 5 * 4


def test_tucker_truth_has_the_ranks_asked_for_and_zero_slices():
    data = make_tensor_regression(
        (12, 10, 8), 2, truth="tucker", rank=(3, 2, 4), sparsity=0.5, random_state=0
    )
    assert numerical_ranks(data.coef, rtol=1e-6) == (3, 2, 4)
    for mode, kept in enumerate((6, 5, 4)):
        others = tuple(m for m in range(3) if m != mode)
        assert np.count_nonzero(np.any(data.coef != 0, axis=others)) == kept


def test_block_truth_is_a_constant_box():
    data = make_tensor_regression(
        (12, 10, 8), 2, truth="block", rank=1, sparsity=0.9, random_state=0
    )
    assert set(np.unique(data.coef)) == {0.0, 1.0}
    assert is_box(data.coef == 1.0)
    assert abs(np.mean(data.coef == 0) - 0.9) < 0.05


def test_blob_truth_is_smooth_with_one_peak():
    data = make_tensor_regression((15, 15), 2, truth="blob", rank=1, random_state=0)
    peak = np.unravel_index(np.argmax(data.coef), data.coef.shape)
    steps = np.diff(data.coef[:, peak[1]])
    assert np.all(steps[: peak[0]] > 0)
    assert np.all(steps[peak[0] :] < 0)
    sparse = make_tensor_regression(
        (15, 15), 2, truth="blob", rank=1, sparsity=0.8, random_state=0
    )
    assert np.mean(sparse.coef == 0) == 0.8
    np.testing.assert_array_equal(sparse.coef[peak], data.coef[peak])


@pytest.mark.parametrize(
    ("truth", "zeros"), [("sparse", 0.9), ("paper", 0.8), ("paper_code", 0.8)]
)
def test_unstructured_truths_have_exactly_their_share_of_zeros(truth, zeros):
    data = make_tensor_regression((10, 10, 5), 2, truth=truth, random_state=0)
    assert np.mean(data.coef == 0) == zeros


def test_paper_truth_is_normal_and_the_released_code_uniform():
    text = make_tensor_regression((40, 40, 5), 2, truth="paper", random_state=0)
    code = make_tensor_regression((40, 40, 5), 2, truth="paper_code", random_state=0)
    normal, uniform = text.coef[text.coef != 0], code.coef[code.coef != 0]
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    assert uniform.min() > 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.05
    assert text.noise == code.noise == pytest.approx(0.1 * 0.1**0.5)


@pytest.mark.parametrize("correlation", [0.0, 0.7, (0.9, -0.5, 0.0)])
def test_snr_is_the_ratio_of_variances(correlation):
    data = make_tensor_regression(
        (4, 3, 2), 40000, snr=5.0, correlation=correlation, random_state=0
    )
    ratio = data.signal.var() / (data.y - data.signal).var()
    assert abs(ratio / 5.0 - 1) < 0.06


def test_correlated_design_is_autoregressive_along_each_mode():
    data = make_tensor_regression(
        (4, 3), 40000, correlation=(0.8, -0.4), random_state=0
    )
    measured = np.cov(data.X.reshape(len(data.X), -1), rowvar=False)
    for i, j in itertools.product(range(12), repeat=2):
        (a, b), (c, d) = divmod(i, 3), divmod(j, 3)
        assert abs(measured[i, j] - 0.8 ** abs(a - c) * (-0.4) ** abs(b - d)) < 0.03


def test_missing_entries_are_nan_and_leave_the_response_alone():
    data = make_tensor_regression(SHAPE, 400, missing=0.3, random_state=0)
    whole = make_tensor_regression(SHAPE, 400, random_state=0)
    gone = np.isnan(data.X)
    assert abs(gone.mean() - 0.3) < 0.01
    np.testing.assert_array_equal(data.X[~gone], whole.X[~gone])
    np.testing.assert_array_equal(data.y, whole.y)


def test_labels_follow_the_log_odds():
    data = make_tensor_classification((4, 3), 40000, strength=2.0, random_state=0)
    score = data.X.reshape(len(data.X), -1) @ data.coef.ravel()
    assert abs(score.std() - 2.0) < 0.05
    np.testing.assert_allclose(data.proba, 1 / (1 + np.exp(-score)), atol=1e-12)
    for low in (0.1, 0.4, 0.8):
        chosen = (data.proba > low) & (data.proba < low + 0.1)
        assert abs(data.y[chosen].mean() - data.proba[chosen].mean()) < 0.04


def test_infinite_strength_gives_the_sign():
    data = make_tensor_classification(SHAPE, 50, strength=np.inf, random_state=0)
    score = data.X.reshape(50, -1) @ data.coef.ravel()
    np.testing.assert_array_equal(data.y, score > 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"truth": "banana"}, "truth='banana' was given; expected one of"),
        ({"rank": 0}, "rank=0"),
        ({"truth": "cp", "rank": (2, 2, 2)}, "expected one integer"),
        ({"truth": "tucker", "rank": (2, 2)}, "one rank for each mode"),
        ({"truth": "tucker", "rank": (2, 0, 2)}, "one rank for each mode"),
        ({"truth": "tucker", "rank": (7, 1, 1)}, "one rank for each mode"),
        ({"truth": "tucker", "rank": (2.7, 2, 2)}, "one rank for each mode"),
        ({"truth": "tucker", "rank": None}, "rank=None"),
        ({"sparsity": 1.0}, "sparsity=1.0"),
        ({"sparsity": -0.1}, "sparsity=-0.1"),
        ({"noise": -1.0}, "noise=-1.0"),
        ({"noise": np.nan}, "noise=nan"),
        ({"snr": 0.0}, "snr=0.0"),
        ({"noise": 1.0, "snr": 1.0}, "expected one of them"),
        ({"correlation": 1.0}, "correlation=1.0"),
        ({"correlation": (0.1, 0.2)}, "one for each mode"),
        ({"correlation": {}}, "correlation={}"),
        ({"missing": 1.5}, "missing=1.5"),
        ({"shape": ()}, "shape=()"),
        ({"shape": (3, 0)}, r"shape=\(3, 0\)"),
        ({"shape": (3.5, 2)}, "integers"),
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_samples": 4.5}, "n_samples=4.5 .* whole number"),
    ],
)
def test_bad_options_are_named(options, words):
    arguments = {"shape": SHAPE, "n_samples": 4, "random_state": 0} | options
    with pytest.raises(ValueError, match=words):
        make_tensor_regression(**arguments)


def test_bad_strength_is_named():
    with pytest.raises(ValueError, match="strength=-1"):
        make_tensor_classification(SHAPE, 4, strength=-1)
