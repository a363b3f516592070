"""Selection frequencies over complementary halves, and their bound."""

import numpy as np
import pytest
from sklearn.base import clone

from sltr import ElemRidge, SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV
from sltr.inference import stability
from sltr.inference.subsampling import _halves, _largest, _one_peak


def drawn(rng, n=80, signal=1.0):
    X = rng.normal(size=(n, 6, 5))
    return X, signal * (X[:, 0, 0] - X[:, 3, 2]) + rng.normal(size=n)


def test_frequencies_are_those_of_fits_to_the_halves(rng):
    X, y = drawn(rng, n=41)
    model = ElemRidge(epsilon=1.0, lambda_sparse=0.5)
    found = stability(model, X, y, n_pairs=3, random_state=0)
    halves = _halves(None, 41, 3, np.random.RandomState(0))
    assert found.n_halves == len(halves) == 6
    counts = np.zeros(30)
    for rows in halves:
        size = np.abs(clone(model).fit(X[rows], y[rows]).coef_).ravel()
        least = np.sort(size)[::-1][: found.n_largest].min()
        counts += (size >= least) & (size > 0)
    np.testing.assert_allclose(found.frequency.ravel(), counts / 6)


def test_one_batch_of_halves_equals_fits_one_by_one(rng):
    X, y = drawn(rng)
    settings = {"epsilons": [2.0], "lambdas_sparse": [0.3], "lambdas_low": [0.4]}
    tuned = SLTRRegressorCV(**settings, refine=None, tol=1e-6)
    alone = SLTRRegressor(2.0, 0.3, 0.4, tol=1e-6)
    batch = stability(tuned, X, y, n_pairs=5, random_state=0)
    single = stability(alone, X, y, n_pairs=5, random_state=0)
    np.testing.assert_array_equal(batch.frequency, single.frequency)
    assert batch.max_false == single.max_false
    assert not hasattr(tuned, "coef_")


def test_halves_are_complementary_and_keep_classes():
    labels = np.array(["a"] * 10 + ["b"] * 20)
    halves = _halves(labels, 30, 4, np.random.RandomState(0))
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert sorted([*first, *second]) == list(range(30))
        assert np.count_nonzero(labels[first] == "a") == 5


def test_signal_is_stable_and_noise_is_not(rng):
    X, y = drawn(rng, n=120, signal=2.0)
    found = stability(SLTRRegressorCV(), X, y, n_pairs=10, random_state=0)
    assert found.selected[0, 0]
    assert found.selected[3, 2]
    assert found.selected.sum() <= 3
    assert found.max_false <= 1.0
    assert f"{found.selected.sum()} of 30 entries" in str(found)


def test_few_false_entries_where_there_is_nothing(rng):
    false = []
    for seed in range(12):
        X, y = drawn(rng, n=40, signal=0.0)
        model = ElemRidge(epsilon=1.0, lambda_sparse=0.1)
        found = stability(model, X, y, n_pairs=15, random_state=seed)
        false.append(found.selected.sum())
    assert np.mean(false) <= found.max_false


def test_bound_is_what_was_asked_for(rng):
    X, y = drawn(rng)
    strict = stability(SLTRRegressor(), X, y, n_pairs=4, max_false=0.1, random_state=0)
    loose = stability(SLTRRegressor(), X, y, n_pairs=4, max_false=3, random_state=0)
    assert strict.n_largest < loose.n_largest
    assert strict.max_false <= 0.1 or strict.n_largest == 1
    assert loose.max_false <= 3
    assert strict.max_false <= strict.max_false_worst


@pytest.mark.parametrize("threshold", [0.6, 0.75, 0.8, 0.95, 1.0])
def test_one_peak_bounds_less_than_the_worst_case(threshold):
    values = [_one_peak(threshold, n_pairs) for n_pairs in (5, 50, 5000)]
    assert values[0] >= values[1] >= values[2] > 0
    assert values[2] < 1.0 / (2.0 * threshold - 1.0)


def test_ties_at_the_cut_are_left_out():
    picked = _largest(np.array([3.0, 1.0, 1.0, 0.0]), 2)
    assert picked.tolist() == [True, False, False, False]
    assert _largest(np.array([3.0, 1.0, 0.0]), 5).tolist() == [True, True, False]


def test_labels_and_libraries(xp, rng):
    X, y = drawn(rng, n=60, signal=2.0)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-1, 1])]
    model = SLTRClassifierCV(refine=None, tol=1e-6)
    expected = stability(model, X, labels, n_pairs=3, random_state=0)
    found = stability(model, xp.array(X), labels, n_pairs=3, random_state=0)
    assert expected.frequency.shape == (6, 5)
    np.testing.assert_allclose(found.frequency, expected.frequency)


def test_progress_reaches_the_end(rng):
    X, y = drawn(rng)
    for model in (SLTRRegressor(), SLTRRegressorCV(refine=None)):
        seen = []
        stability(
            model,
            X,
            y,
            n_pairs=2,
            progress=lambda *at, seen=seen: seen.append(at),
        )
        assert seen[-1] == (4, 4)


@pytest.mark.parametrize(
    "options", [{"threshold": 0.5}, {"max_false": 0}, {"n_pairs": 0}], ids=str
)
def test_what_cannot_be_is_refused(rng, options):
    X, y = drawn(rng)
    with pytest.raises(ValueError, match=f"{next(iter(options))}="):
        stability(SLTRRegressor(), X, y, **options)
