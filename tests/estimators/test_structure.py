"""Slices, weights of entries and signs, as a user asks for them."""

import numpy as np
import pytest
from oracles import assert_close

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV, estimate, load, save
from sltr.datasets import label


@pytest.fixture
def times(rng):
    """Two of eight time points matter, in all five channels."""
    coef = np.zeros((8, 5))
    coef[2:4] = 1.0 + rng.random((2, 5))
    X = rng.normal(size=(120, 8, 5))
    return X, np.einsum("nij,ij->n", X, coef) + 0.3 * rng.normal(size=120), coef


def test_time_points_are_switched_off_as_a_whole(times):
    X, y, coef = times
    model = SLTRRegressor(1.0, 0.4, 0.5, slices=0).fit(X, y)
    off = ~model.coef_.any(axis=1)
    assert off.tolist() == (~coef.any(axis=1)).tolist()
    assert (model.coef_[~off] != 0).all()
    assert model.dual_gap_ <= 1e-4
    named = label(X, names=("time", "channel"))
    same = SLTRRegressor(1.0, 0.4, 0.5, slices="time").fit(named, y)
    assert_close(same.coef_, model.coef_)


def test_the_estimate_is_that_about_the_pilot(times, rng):
    X, y, _ = times
    weights = rng.choice([0.0, 1.0, 2.0], size=X.shape[1:])
    for given in ({"slices": 1}, {"entry_weights": weights}, {"positive": True}):
        model = SLTRRegressor(1.0, 0.3, 0.8, radius="absolute", **given).fit(X, y)
        expected = estimate(model.pilot_, 0.3, 0.8, **given)
        assert_close(model.coef_, expected.coef)
        assert model.dual_gap_ == pytest.approx(expected.gap, abs=1e-12)


def test_no_entry_is_negative_with_masks_units_tuning_and_labels(times):
    X, y, _ = times
    mask = np.ones((8, 5), bool)
    mask[0], mask[1, 2] = False, False
    model = SLTRRegressorCV(positive=True, mask=mask, standardize="entries", cv=3)
    model.fit(X, y - X[:, 5, 0])
    assert model.coef_.min() >= 0.0
    assert not model.coef_[~mask].any()
    assert model.coef_[2:4].min() > 0.5
    assert model.refine_ is None
    labels = np.where(y > 0, "up", "down")
    tuned = SLTRClassifierCV(positive=True, slices=0, cv=3).fit(X, labels)
    assert tuned.coef_.min() >= 0.0
    assert tuned.score(X, labels) > 0.8


def test_relative_radii_of_one_leave_nothing_but_what_is_free(times):
    X, y, _ = times
    for given in ({"slices": 0}, {"positive": True}, {"slices": 1, "positive": True}):
        assert not SLTRRegressor(1.0, 1.0, 1.0, **given).fit(X, y).coef_.any()
    weights = np.ones((8, 5))
    weights[5, 1] = 0.0
    model = SLTRRegressor(1.0, 1.0, 2.0, entry_weights=weights).fit(X, y)
    assert np.flatnonzero(model.coef_).tolist() == [26]
    assert model.coef_[5, 1] == pytest.approx(model.pilot_[5, 1])


def test_structure_is_saved_and_works_in_chunks(times, tmp_path):
    X, y, _ = times
    weights = np.ones((8, 5))
    model = SLTRRegressor(1.0, slices=0, entry_weights=weights, positive=True)
    model.fit(X, y)
    save(model, tmp_path / "model.sltr")
    again = load(tmp_path / "model.sltr")
    assert again.get_params()["slices"] == 0
    assert np.array_equal(again.entry_weights, weights)
    assert np.array_equal(again.coef_, model.coef_)
    chunks = SLTRRegressor(1.0, slices=0, positive=True)
    chunks.partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    np.testing.assert_allclose(chunks.coef_, model.coef_, atol=1e-3)


def test_what_would_not_hold_is_refused(times):
    X, y, _ = times
    with pytest.raises(ValueError, match="refits do not obey"):
        SLTRRegressorCV(slices=0, refine=(None, "cp")).fit(X, y)
    with pytest.raises(ValueError, match="refits do not obey"):
        SLTRRegressor(positive=True, refine=("cp", 1, 0.1)).fit(X, y)
    for given in (
        {"positive": True},
        {"entry_weights": np.ones((8, 5))},
        {"slices": 0},
    ):
        with pytest.raises(ValueError, match="blurred after the sparse step"):
            SLTRRegressor(smooth={0: 1.0}, **given).fit(X, y)
    fine = SLTRRegressor(1.0, 0.4, 0.5, smooth={1: 1.0}, slices=0).fit(X, y)
    assert (~fine.coef_.any(axis=1)).sum() == 6
    with pytest.raises(ValueError, match="slices names the mode 'time'"):
        SLTRRegressor(slices="time").fit(X, y)
    with pytest.raises(ValueError, match=r"in the shape of a sample, \(8, 5\)"):
        SLTRRegressor(entry_weights=np.ones(8)).fit(X, y)


def test_a_time_point_is_off_for_several_responses_at_once(times, rng):
    X, y, coef = times
    Y = np.stack([y, -y, 0.5 * y], axis=1)
    for responses in ("shared", "separate"):
        given = {"slices": 0, "responses": responses}
        model = SLTRRegressor(1.0, 0.4, 0.5, **given).fit(X, Y)
        axes = tuple(m for m in range(model.coef_.ndim) if model.coef_.shape[m] != 8)
        assert (~model.coef_.any(axis=axes)).tolist() == (~coef.any(axis=1)).tolist()
        weights = np.ones((8, 5))
        SLTRRegressor(1.0, entry_weights=weights, responses=responses).fit(X, Y)
