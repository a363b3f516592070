"""Fills of missing entries."""

import numpy as np

from sltr.samples.missing import low_rank_fill, mean_fill


def test_means_are_weighted_and_of_what_was_measured(xp):
    X = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, 7.0]])
    weight = np.array([1.0, 3.0, 1.0])
    fill = mean_fill(xp.array(X), xp.array(weight))
    expected = [[1.0, 5.5], [3.0, 5.0], [2.5, 7.0]]
    np.testing.assert_allclose(xp.numpy(fill(xp.array(X))), expected)


def test_low_rank_restores_missed_visits_and_means_do_not(xp, rng):
    scores = rng.normal(size=(60, 2))
    whole = np.einsum("nr,rij->nij", scores, rng.normal(size=(2, 5, 8)))
    whole += 0.05 * rng.normal(size=whole.shape) + 10.0
    X = whole.copy()
    X[np.arange(0, 60, 2), :, rng.integers(0, 8, size=30)] = np.nan
    gaps = np.isnan(X)
    errors = []
    for learn in (mean_fill, low_rank_fill):
        filled = xp.numpy(learn(xp.array(X), xp.array(np.ones(60)))(xp.array(X)))
        np.testing.assert_array_equal(filled[~gaps], X[~gaps])
        errors.append(np.mean((filled - whole)[gaps] ** 2))
    assert errors[1] < 0.02 * errors[0]


def test_without_structure_low_rank_is_the_mean(rng):
    X = rng.normal(size=(40, 30))
    X[rng.random(X.shape) < 0.1] = np.nan
    assert low_rank_fill(X, np.ones(40)).loadings.shape[0] == 0


def test_entries_that_never_vary_have_no_part_in_the_factors(rng):
    X = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 8))
    X[:, :3] = 0.0
    X[rng.random(X.shape) < 0.1] = np.nan
    weight, shift = rng.random(12) + 0.1, rng.normal(size=8)
    one, other = low_rank_fill(X, weight), low_rank_fill(X + shift, weight)
    np.testing.assert_allclose(other(X + shift) - shift, one(X), atol=1e-8)


def test_the_mean_of_an_entry_that_never_varies_is_that_entry(xp, rng):
    X = np.repeat(rng.normal(size=(1, 50)), 9, axis=0)
    gaps = rng.random(X.shape) < 0.3
    gaps[0] = False
    weight = rng.random(9) + 0.1
    given = xp.array(np.where(gaps, np.nan, X))
    filled = xp.numpy(mean_fill(given, xp.array(weight))(given))
    np.testing.assert_array_equal(filled, np.asarray(X, filled.dtype))
