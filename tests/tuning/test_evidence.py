"""Whether anything was found."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold

from sltr import SLTRRegressorCV
from sltr.samples.check import check_samples
from sltr.samples.covariates import with_covariates
from sltr.tuning.evidence import PENALTIES, association, is_found, pilot_p_value
from sltr.tuning.folds import Folds, splits


def test_association_is_the_correlation_in_standard_errors(rng):
    f, y = rng.normal(size=(50, 1)), rng.normal(size=(50, 1))
    rows, weight = np.arange(50), np.ones(50)
    correlation = (f * y).sum() / np.sqrt((f**2).sum() * (y**2).sum())
    found = association(f, y, rows, weight)
    assert found == pytest.approx(np.sqrt(47) * np.arctanh(correlation))
    # Units, repeated folds and samples that count twice.
    assert association(1e-200 * f, 1e200 * y, rows, weight) == pytest.approx(found)
    twice = [np.concatenate([a, a]) for a in (f, y, rows, weight)]
    assert association(*twice) == pytest.approx(found)
    doubled = association(f, y, rows, 2 * weight)
    assert doubled == pytest.approx(np.sqrt(97 / 47) * found)
    assert association(0 * f, y, rows, weight) == 0.0


def test_association_of_noise_has_unit_variance_for_any_number_of_responses(rng):
    mixed = rng.normal(size=(4, 4))
    found = []
    for _ in range(400):
        f, y = rng.normal(size=(60, 4)), rng.normal(size=(60, 4)) @ mixed
        found.append(association(f, y, np.arange(60), np.ones(60)))
    assert abs(np.mean(found)) < 0.15
    assert 0.9 < np.std(found) < 1.1


def test_association_knows_that_samples_of_a_group_resemble_each_other(rng):
    mixed, groups = rng.normal(size=(2, 2)), np.repeat(np.arange(15), 6)
    rows, weight, found, without = np.arange(90), np.ones(90), [], []
    for _ in range(300):
        f, y = (
            rng.normal(size=(15, 2))[groups] + 0.5 * rng.normal(size=(90, 2))
            for _ in range(2)
        )
        found.append(association(f, y @ mixed, rows, weight, groups))
        without.append(association(f, y @ mixed, rows, weight))
    assert np.std(without) > 1.7
    assert 0.85 < np.std(found) < 1.15
    # Groups of one sample each are none; rows that two folds leave out are one sample.
    same = association(f, y, rows, weight, rows)
    assert same == pytest.approx(association(f, y, rows, weight))
    twice = [np.concatenate([a, a]) for a in (f, y, rows, weight, groups)]
    assert association(*twice) == pytest.approx(association(f, y, rows, weight, groups))


def test_responses_of_groups_change_places_as_a_whole(rng):
    groups = np.repeat(np.arange(12), 5)
    X = rng.normal(size=(12, 4, 3))[groups] + 0.1 * rng.normal(size=(60, 4, 3))
    folds = GroupKFold(4).split(X, groups=groups)
    task, folds = prepared(X, rng.normal(size=12)[groups], list(folds))
    p_values = []
    for _ in range(40):
        y = rng.normal(size=12)[groups]
        again = task.with_responses(y[:, None])
        known = replace(folds, groups=groups)
        p_values.append(pilot_p_value(again, known, 39))
    assert np.mean(np.array(p_values) <= 0.1) < 0.3
    assert 0.3 < np.mean(p_values) < 0.7


def prepared(X, y, cv=4, covariates=None, weight=None):
    model = SLTRRegressorCV(standardize=None)  # scikit-learn's ridge in units of X
    samples = check_samples(model, X, y, weight, tensors=True)
    samples = with_covariates(samples, covariates, weight, fit_intercept=True)
    task = model._task(samples, samples.Y, 0.0)
    return task, Folds.of(task, splits(cv, y) if isinstance(cv, int) else cv)


def by_loops(X, y, folds, n):
    """Return the p-value by fitting scikit-learn's ridge to each permutation.

    Without each fold that keeps groups whole, or else without each sample.
    """
    left_out = folds.rows if folds.groups is not None else [[i] for i in range(len(y))]
    flat, rng = X.reshape(len(X), -1), np.random.RandomState(0)
    centred = flat - flat.mean(axis=0)
    unit = np.sum(centred**2) / min(centred.shape)
    ridge = Ridge(alpha=PENALTIES[-1] * unit)
    values = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        known = ridge.fit(flat[rest], y[rest]).predict(flat[i : i + 1])[0]
        values.append(abs(known - y[rest].mean()))
    ranked, scores, sizes = np.argsort(values), [], []
    for b in range(n + 1):
        order = np.arange(len(y))
        if b:
            order[ranked] = ranked[rng.permutation(len(y))]
        again, best = y[order], -1.0
        for factor in PENALTIES:
            f, t = [], []
            for rows in left_out:
                train = np.setdiff1d(np.arange(len(y)), rows)
                mean = again[train].mean()
                ridge = Ridge(alpha=factor * unit).fit(flat[train], again[train])
                f.append(ridge.predict(flat[rows]) - mean)
                t.append(again[rows] - mean)
            f, t = np.concatenate(f), np.concatenate(t)
            best = max(best, f @ t / np.sqrt((f @ f) * (t @ t)))
        scores.append(best)
        ridge = Ridge(alpha=PENALTIES[-1] * unit).fit(flat, again)
        sizes.append(np.linalg.norm(ridge.coef_.reshape(X.shape[1:]), 2))
    scores = np.array(scores) / np.std(scores) + np.array(sizes) / np.std(sizes)
    return (1 + sum(s >= scores[0] - 1e-9 for s in scores[1:])) / (1 + n)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("n_samples", [20, 60])  # the Gram matrix, and moments
def test_the_p_value_of_the_pilot_is_that_of_a_loop_of_ridge_fits(
    rng, n_samples, grouped
):
    X = rng.normal(size=(n_samples, 6, 5))
    y = X[:, :2, :2].sum(axis=(1, 2)) + 4.0 * rng.normal(size=n_samples)
    task, folds = prepared(X, y)
    if grouped:  # in one group all orders are allowed
        folds = replace(folds, groups=np.zeros(n_samples, int))
    found = pilot_p_value(task, folds, 19)
    assert found == pytest.approx(by_loops(X, y, folds, 19))


def test_the_order_of_samples_does_not_change_the_p_value(rng):
    X = rng.normal(size=(30, 6, 5))
    y = X[:, 0, 0] + 2.0 * rng.normal(size=30)
    task, folds = prepared(X, y)
    order = rng.permutation(30)
    place = np.argsort(order)
    moved = [
        (place[np.setdiff1d(np.arange(30), rows)], place[rows]) for rows in folds.rows
    ]
    again = prepared(X[order], y[order], moved)
    assert pilot_p_value(*again, 99) == pytest.approx(pilot_p_value(task, folds, 99))


def test_rounding_of_refits_draws_no_other_permutations(rng):
    X = rng.normal(size=(40, 6, 5))
    y = X[:, 0, 0] + 2.0 * rng.normal(size=40)
    task, folds = prepared(X, y)
    # The permutations decide, and their p-value is near the level.
    near = pilot_p_value(task, folds, 39)
    policy = replace(task.policy, found_errors=np.inf, found_permutations=39)
    task = replace(task, policy=replace(policy, found_level=near))
    answer = [0.5 * X[rows, 0, :1] for rows in folds.rows]
    found = []
    for _ in range(20):
        rounded = [p * (1.0 + 1e-3 * rng.normal(size=p.shape)) for p in answer]
        found.append(is_found(task, folds, rounded, answer))
    assert all(found)


def test_covariates_that_explain_everything_leave_nothing_to_the_pilot(rng):
    X, z = rng.normal(size=(40, 5, 4)), rng.normal(size=(40, 1))
    X = X + 2.0 * z[:, :, None]
    y = 3.0 * z[:, 0] + 0.3 * rng.normal(size=40)
    without, with_covariates = (
        pilot_p_value(task, folds, 99)
        for task, folds in (prepared(X, y), prepared(X, y, covariates=z))
    )
    assert without == 0.01
    assert with_covariates > 0.05


def test_p_values_of_noise_are_uniform(rng):
    p_values = []
    for _ in range(60):
        X, y = rng.normal(size=(24, 6, 5)), rng.normal(size=24)
        task, folds = prepared(X, y)
        p_values.append(pilot_p_value(task, folds, 39))
    assert 0.38 < np.mean(p_values) < 0.62
    assert np.mean(np.array(p_values) <= 0.2) < 0.4


@pytest.mark.parametrize("n_samples", [20, 60])
def test_libraries_agree_on_the_p_value(xp, rng, n_samples):
    X = rng.normal(size=(n_samples, 6, 5))
    y = X[:, 0, 0] + 3.0 * rng.normal(size=n_samples)
    task, folds = prepared(X, y)
    pairs = [(np.setdiff1d(np.arange(n_samples), rows), rows) for rows in folds.rows]
    again = prepared(xp.array(X), xp.array(y), pairs)
    found = pilot_p_value(*again, 39)
    assert found == pytest.approx(pilot_p_value(task, folds, 39))


def test_responses_that_were_not_measured_hide_no_evidence(rng):
    X = rng.normal(size=(60, 3, 4))
    Y = X[:, 0, :2] + 0.5 * rng.normal(size=(60, 2))
    task, folds = prepared(X, Y)
    # No p-value is small enough: only the correlation may say yes.
    task = replace(task, policy=replace(task.policy, found_level=0.0))
    answer = [0.5 * X[rows, 0, :2] for rows in folds.rows]
    noise = [0.01 * rng.normal(size=part.shape) for part in answer]
    for target in folds.targets:
        target[0, 0] = np.nan
    assert is_found(task, folds, answer, answer)
    assert not is_found(task, folds, noise, answer)
