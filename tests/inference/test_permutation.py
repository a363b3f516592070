"""Permutation tests: exact, and the same whatever is shared between permutations."""

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from sltr import (
    CPRegressorCV,
    SLTRClassifierCV,
    SLTRRegressor,
    SLTRRegressorCV,
    TensorRidge,
)
from sltr.inference import permutation_test
from sltr.inference.permutation import PENALTIES, draw_orders

QUICK = SLTRRegressorCV(refine=(None, "scale"))


def drawn(rng, n=40, signal=0.0):
    X = rng.normal(size=(n, 5, 4))
    return X, signal * X[:, :2, :2].sum(axis=(1, 2)) + rng.normal(size=n)


@pytest.mark.parametrize("refine", [(None, "scale"), ("cp", "sparse")])
def test_shared_work_gives_the_scores_of_whole_fits(rng, refine):
    X, y = drawn(rng, signal=0.3)
    model = SLTRRegressorCV(refine=refine)
    test = permutation_test(model, X, y, n=3, random_state=0)
    orders, _ = draw_orders(y, None, 3, np.random.RandomState(0))
    scores = [clone(model).fit(X, y[order]).best_score_ for order in orders]
    np.testing.assert_allclose([test.score, *test.null], scores, rtol=1e-6, atol=1e-8)
    assert not hasattr(model, "coef_")


def test_stratified_folds_follow_the_permuted_labels(rng):
    X, y = drawn(rng, signal=0.5)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    model = SLTRClassifierCV(refine=None)
    test = permutation_test(model, X, labels, n=2, random_state=0)
    orders, _ = draw_orders(labels, None, 2, np.random.RandomState(0))
    scores = [clone(model).fit(X, labels[order]).best_score_ for order in orders]
    np.testing.assert_allclose([test.score, *test.null], scores, rtol=1e-6)


def test_groups_go_to_the_folds_of_the_procedure(rng):
    X, y = drawn(rng, signal=0.3)
    groups = np.repeat(np.arange(10), 4)
    test = permutation_test(QUICK, X, y, groups=groups, n=2, random_state=0)
    assert test.permuted == "samples within groups"
    expected = clone(QUICK).fit(X, y, groups=groups).best_score_
    assert test.score == pytest.approx(expected)


@pytest.mark.parametrize("n_samples", [30, 60])
def test_one_batch_equals_ridge_fits_one_by_one(rng, n_samples):
    X = rng.normal(size=(n_samples, 40))
    y = X[:, 0] + rng.normal(size=n_samples)
    folds = list(KFold(3).split(X))
    test = permutation_test(
        SLTRRegressorCV(cv=folds), X, y, n=4, statistic="pilot", random_state=0
    )
    centred = X - X.mean(axis=0)
    unit = (centred**2).sum() / min(X.shape)
    orders, _ = draw_orders(y, None, 4, np.random.RandomState(0))
    for value, order in zip([test.score, *test.null], orders, strict=True):
        found = []
        for penalty, radius in [*((e, 0.0) for e in PENALTIES), (1.0, 0.3), (1.0, 0.6)]:
            rests, guesses = [], []
            for train, rows in folds:
                ridge = Ridge(alpha=penalty * unit).fit(X[train], y[order][train])
                cut = radius * np.abs(ridge.coef_).max()
                coef = np.sign(ridge.coef_) * np.clip(
                    np.abs(ridge.coef_) - cut, 0, None
                )
                guesses.append((X[rows] - X[train].mean(axis=0)) @ coef)
                rests.append(y[order][rows] - y[order][train].mean())
            rest, guess = np.concatenate(rests), np.concatenate(guesses)
            found.append(rest @ guess / np.sqrt(rest @ rest * (guess @ guess)))
        assert value == pytest.approx(max(found), abs=1e-8)


def test_batches_of_any_size_agree(rng, monkeypatch):
    X, y = drawn(rng)
    args = {"n": 20, "statistic": "pilot", "random_state": 0}
    whole = permutation_test(QUICK, X, y, **args)
    monkeypatch.setattr("sltr.inference.permutation.BATCH_ENTRIES", 3000)
    parts = permutation_test(QUICK, X, y, **args)
    np.testing.assert_allclose(whole.null, parts.null, atol=1e-10)


def test_libraries_agree(xp, rng):
    X, y = drawn(rng)
    args = {"n": 9, "statistic": "pilot", "random_state": 0}
    expected = permutation_test(QUICK, X, y, **args)
    found = permutation_test(QUICK, xp.array(X), xp.array(y), **args)
    np.testing.assert_allclose(found.null, expected.null, atol=1e-6)
    assert found.score == pytest.approx(expected.score, abs=1e-6)


def test_cheap_p_values_are_uniform_when_there_is_nothing(rng):
    p_values = []
    for seed in range(60):
        X, y = drawn(rng, n=24)
        test = permutation_test(QUICK, X, y, n=39, statistic="pilot", random_state=seed)
        p_values.append(test.p_value)
    # Uniform on 1/40, …, 1: half a step less is uniform on (0, 1) as far as KS sees.
    assert kstest(np.array(p_values) - 0.5 / 40, "uniform").pvalue > 0.01


@pytest.mark.parametrize("statistic", ["procedure", "pilot"])
def test_a_signal_is_found(rng, statistic):
    X, y = drawn(rng, n=80, signal=1.0)
    test = permutation_test(QUICK, X, y, n=19, statistic=statistic, random_state=0)
    assert test.p_value == pytest.approx(1 / 20)
    assert f"{test.p_value:.2g} (19 permutations of samples)" in str(test)


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]])
def test_labels_are_tested_too(rng, labels):
    X, y = drawn(rng, n=90, signal=1.5)
    cuts = np.quantile(y, np.linspace(0, 1, len(labels) + 1)[1:-1])
    words = np.array(labels)[np.digitize(y, cuts)]
    model = SLTRClassifierCV()
    test = permutation_test(model, X, words, n=19, statistic="pilot", random_state=0)
    assert test.p_value == pytest.approx(1 / 20)


def test_permutations_stay_within_groups(rng):
    groups = np.repeat(np.arange(5), 6)
    orders, permuted = draw_orders(
        rng.normal(size=30), groups, 8, np.random.RandomState(0)
    )
    assert permuted == "samples within groups"
    assert (groups[orders] == groups).all()
    assert (np.sort(orders, axis=1) == np.arange(30)).all()
    assert (orders[0] == np.arange(30)).all()


def test_whole_groups_change_places_where_a_group_has_one_response():
    groups = np.repeat(np.arange(4), [2, 3, 4, 5])
    y = np.array([10.0, 20.0, 30.0, 40.0])[groups]
    orders, permuted = draw_orders(y, groups, 50, np.random.RandomState(0))
    assert permuted == "whole groups"
    for order in orders:
        values = [np.unique(y[order][groups == g]) for g in range(4)]
        assert all(len(value) == 1 for value in values)
        assert sorted(v.item() for v in values) == [10.0, 20.0, 30.0, 40.0]


def test_a_difference_between_groups_alone_is_not_taken_for_a_signal(rng):
    # Both samples and responses differ between groups; within them there is nothing.
    groups = np.repeat(np.arange(4), 12)
    args = {"n": 39, "statistic": "pilot", "random_state": 0}
    folds = list(KFold(4, shuffle=True, random_state=0).split(groups))
    model, free, within = SLTRRegressorCV(cv=folds), [], []
    for _ in range(8):
        level = rng.normal(size=4)[groups]
        X = rng.normal(size=(48, 5, 4)) + 3.0 * level[:, None, None]
        y = rng.normal(size=48) + 3.0 * level
        free.append(permutation_test(model, X, y, **args).p_value)
        within.append(permutation_test(model, X, y, groups=groups, **args).p_value)
    assert max(free) == pytest.approx(1 / 40)
    assert np.mean(within) > 0.25


@pytest.mark.parametrize("model", [CPRegressorCV(ranks=(1,)), SLTRRegressor()])
def test_any_estimator_has_a_procedure(rng, model):
    X, y = drawn(rng, n=60, signal=1.0)
    test = permutation_test(model, X, y, n=4, random_state=0)
    assert test.p_value == pytest.approx(1 / 5)


def test_processes_give_the_same_values(rng):
    X, y = drawn(rng)
    one = permutation_test(QUICK, X, y, n=4, random_state=0)
    two = permutation_test(QUICK, X, y, n=4, random_state=0, n_jobs=2)
    np.testing.assert_allclose(one.null, two.null, rtol=1e-10)


def test_progress_reaches_the_end(rng):
    X, y = drawn(rng)
    for statistic in ("procedure", "pilot"):
        seen = []
        permutation_test(
            QUICK,
            X,
            y,
            n=4,
            statistic=statistic,
            progress=lambda *at, seen=seen: seen.append(at),
        )
        assert seen[-1] == (5, 5)


def test_equal_responses_have_nothing_to_find(rng):
    X, _ = drawn(rng)
    test = permutation_test(QUICK, X, np.ones(40), n=9, statistic="pilot")
    assert test.p_value == 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 0}, "n=0 was given"),
        ({"statistic": "refit"}, "expected one of 'procedure', 'pilot'"),
        ({"groups": [1, 2]}, "groups="),
    ],
)
def test_what_cannot_be_is_refused(rng, options, said):
    X, y = drawn(rng)
    with pytest.raises(ValueError, match=said):
        permutation_test(TensorRidge(), X, y, **options)


@pytest.mark.parametrize("statistic", ["pilot", "procedure"])
@pytest.mark.parametrize("model", [SLTRRegressorCV(refine=None, cv=3), TensorRidge()])
def test_all_responses_of_a_sample_change_places_together(rng, model, statistic):
    X = rng.normal(size=(40, 4, 3))
    Y = X[:, 0, :2, None] * [1.0, -2.0] + rng.normal(size=(40, 2, 2))
    options = {"n": 19, "statistic": statistic, "random_state": 0}
    assert permutation_test(model, X, Y, **options).p_value == 0.05
    # Two copies of a response say what one says, whatever the units.
    one = permutation_test(TensorRidge(), X, Y[:, 0, 0], **options)
    two = permutation_test(TensorRidge(), X, np.stack([Y[:, 0, 0]] * 2, 1), **options)
    np.testing.assert_allclose(one.null, two.null, atol=1e-8)


def test_missing_responses_are_not_permuted(rng):
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    Y[3, 1] = np.nan
    model = SLTRRegressorCV(missing_y="ridge")
    for statistic in ("procedure", "pilot"):
        with pytest.raises(ValueError, match="also with missing_y='ridge'"):
            permutation_test(model, X, Y, n=3, statistic=statistic)
