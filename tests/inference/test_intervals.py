"""CV+ intervals and label sets, against their definition and other packages."""

from math import ceil, floor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from sltr import (
    CPRegressorCV,
    SLTRClassifier,
    SLTRClassifierCV,
    SLTRRegressor,
    SLTRRegressorCV,
    TensorRidge,
)
from sltr.inference import Intervals, LabelSets, intervals

QUICK = {"refine": (None, "scale")}
FOLDS = KFold(5, shuffle=True, random_state=0)  # what five folds stand for


def drawn(rng, n=60, noise=1.0):
    X = rng.normal(size=(n, 5, 4))
    return X, X[:, :2, :2].sum(axis=(1, 2)) + noise * rng.normal(size=n)


def ends_by_definition(model, X, y, x, level, cv):
    """Return the CV+ interval of one sample, by its definition."""
    lower, upper = [], []
    for train, test in cv.split(X, y):
        fit = clone(model).fit(X[train], y[train])
        errors = np.abs(y[test] - fit.predict(X[test]))
        lower += list(fit.predict(x[None])[0] - errors)
        upper += list(fit.predict(x[None])[0] + errors)
    n, alpha = len(y), 1.0 - level
    low, high = floor(alpha * (n + 1)), ceil((1 - alpha) * (n + 1))
    return np.sort(lower)[low - 1], np.sort(upper)[high - 1]


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_ends_are_those_of_the_definition(rng, level):
    X, y = drawn(rng)
    new = rng.normal(size=(3, 5, 4))
    found = intervals(TensorRidge(epsilon=3.0), X, y).predict(new, level)
    for i, x in enumerate(new):
        expected = ends_by_definition(TensorRidge(epsilon=3.0), X, y, x, level, FOLDS)
        assert (found[0][i], found[1][i]) == pytest.approx(expected)


def test_one_batch_of_folds_equals_fits_one_by_one(rng):
    X, y = drawn(rng)
    y = y + 50.0
    settings = {"epsilons": [2.0], "lambdas_sparse": [0.3], "lambdas_low": [0.4]}
    # Units are learnt once for all folds, and in a fit of its own from its fold.
    settings["standardize"] = None
    tuned = SLTRRegressorCV(**settings, refine=None, tol=1e-8)
    alone = SLTRRegressor(2.0, 0.3, 0.4, tol=1e-8)
    new = rng.normal(size=(6, 5, 4))
    batch, single = intervals(tuned, X, y), intervals(alone, X, y)
    np.testing.assert_allclose(batch.held_out, single.held_out, rtol=1e-6)
    np.testing.assert_allclose(batch.predict(new), single.predict(new), rtol=1e-6)
    assert np.array_equal(batch.fold, single.fold)
    assert not hasattr(tuned, "coef_")


def test_held_out_predictions_do_not_see_their_samples(rng):
    X, y = drawn(rng)
    settings = {"epsilons": [2.0], "lambdas_sparse": [0.3], "lambdas_low": [0.4]}
    model = SLTRRegressorCV(**settings, refine=None, tol=1e-8)
    before = intervals(model, X, y)
    first = before.fold == 0
    changed = np.where(first, rng.normal(size=60), y)
    after = intervals(model, X, changed)
    np.testing.assert_allclose(
        before.held_out[first], after.held_out[first], atol=1e-12
    )
    assert np.abs(before.held_out - after.held_out)[~first].max() > 1e-3


def test_new_samples_are_covered(rng):
    shares, widths = [], []
    for _ in range(8):
        X, y = drawn(rng, n=260)
        found = intervals(SLTRRegressorCV(**QUICK), X[:60], y[:60])
        lower, upper = found.predict(X[60:], 0.9)
        shares.append(np.mean((lower <= y[60:]) & (y[60:] <= upper)))
        widths.append(np.mean(upper - lower))
    assert 0.85 < np.mean(shares) < 0.97
    # Normal noise of unit size needs 3.3; the responses alone 7.4.
    assert 3.0 < np.mean(widths) < 6.0


def test_a_higher_level_gives_wider_intervals_until_samples_run_out(rng):
    X, y = drawn(rng, n=30)
    found = intervals(TensorRidge(epsilon=1.0), X, y)
    inner, outer = found.predict(X, 0.5), found.predict(X, 0.9)
    assert (outer[0] <= inner[0]).all()
    assert (inner[1] <= outer[1]).all()
    beyond = found.predict(X, 0.99)
    assert np.isneginf(beyond[0]).all()
    assert np.isposinf(beyond[1]).all()


def sets_by_definition(held_out, own, fold_scores, fold, level):
    n = len(own)
    inside = np.zeros((len(fold_scores), held_out.shape[1]), bool)
    for row, scores in enumerate(fold_scores):
        for c in range(held_out.shape[1]):
            count = sum(scores[fold[i], c] < own[i] for i in range(n))
            inside[row, c] = count < level * (n + 1)
    return inside


@pytest.mark.parametrize("n_classes", [2, 3])
def test_label_sets_are_those_of_the_definition(rng, n_classes):
    X, y = drawn(rng)
    cuts = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
    words = np.array(["a", "b", "c"])[np.digitize(y, cuts)]
    model = SLTRClassifier()
    found = intervals(model, X, words)
    assert isinstance(found, LabelSets)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, words))
    fits = [clone(model).fit(X[train], words[train]) for train, _ in folds]
    new = rng.normal(size=(4, 5, 4))
    scores = np.stack([fit.predict_proba(new) for fit in fits], axis=1)
    held, fold = np.zeros((60, n_classes)), np.zeros(60, int)
    for f, (_, test) in enumerate(folds):
        held[test], fold[test] = fits[f].predict_proba(X[test]), f
    own = held[np.arange(60), np.searchsorted(found.classes, words)]
    for level in (0.6, 0.9):
        expected = sets_by_definition(held, own, scores, fold, level)
        np.testing.assert_array_equal(found.predict(new, level), expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_label_sets_hold_the_true_label(rng, n_classes):
    shares = []
    for _ in range(4):
        X, y = drawn(rng, n=360, noise=0.5)
        cuts = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
        words = np.array(["a", "b", "c"])[np.digitize(y, cuts)]
        found = intervals(SLTRClassifierCV(**QUICK), X[:90], words[:90])
        inside = found.predict(X[90:], 0.8)
        place = np.searchsorted(found.classes, words[90:])
        shares.append(inside[np.arange(270), place].mean())
        assert inside.sum(axis=1).mean() < n_classes - 0.3
    assert 0.74 < np.mean(shares) < 0.92


def test_libraries_agree(xp, rng):
    X, y = drawn(rng)
    # Closely solved: the choice among near equals depends on rounding otherwise.
    model = SLTRRegressorCV(**QUICK, tol=1e-6)
    expected = intervals(model, X, y).predict(X)
    found = intervals(model, xp.array(X), xp.array(y)).predict(xp.array(X))
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_groups_are_left_out_whole(rng):
    X, y = drawn(rng)
    groups = np.repeat(np.arange(12), 5)
    for model in (SLTRRegressorCV(**QUICK), TensorRidge(epsilon=1.0)):
        found = intervals(model, X, y, groups=groups)
        assert all(len(set(found.fold[groups == g])) == 1 for g in range(12))
    with pytest.raises(ValueError, match="groups were given for CPRegressorCV"):
        intervals(CPRegressorCV(), X, y, groups=groups)


@pytest.mark.parametrize("level", [0, 1.0, "high"])
def test_what_is_no_level_is_refused(rng, level):
    X, y = drawn(rng, n=20)
    found = intervals(TensorRidge(epsilon=1.0), X, y)
    assert isinstance(found, Intervals)
    with pytest.raises(ValueError, match="level="):
        found.predict(X, level)


def test_regressors_work_inside_mapie(rng):
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is not installed")
    X, y = drawn(rng, n=160)
    for model in (SLTRRegressorCV(**QUICK), TensorRidge()):
        split = mapie.SplitConformalRegressor(
            clone(model).fit(X[:50], y[:50]), confidence_level=0.9, prefit=True
        )
        split.conformalize(X[50:100], y[50:100])
        bounds = split.predict_interval(X[100:])[1][:, :, 0]
        share = np.mean((bounds[:, 0] <= y[100:]) & (y[100:] <= bounds[:, 1]))
        assert share > 0.7
        cross = mapie.CrossConformalRegressor(model, confidence_level=0.9, cv=5)
        cross.fit_conformalize(X[:100], y[:100])
        assert cross.predict_interval(X[100:])[1].shape == (60, 2, 1)


def test_our_intervals_are_those_of_mapie(rng):
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is not installed")
    X, y = drawn(rng, n=80)
    model = TensorRidge(epsilon=2.0)
    cross = mapie.CrossConformalRegressor(
        model, confidence_level=0.8, method="plus", cv=FOLDS
    )
    cross.fit_conformalize(X[:60], y[:60])
    theirs = cross.predict_interval(X[60:])[1][:, :, 0]
    ours = np.stack(intervals(model, X[:60], y[:60]).predict(X[60:], 0.8), axis=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_classifiers_work_inside_mapie(rng):
    mapie = pytest.importorskip("mapie.classification", reason="MAPIE is not installed")
    X, y = drawn(rng, n=160)
    labels = (y > 0).astype(int)
    model = SLTRClassifierCV(**QUICK).fit(X[:60], labels[:60])
    split = mapie.SplitConformalClassifier(model, confidence_level=0.9, prefit=True)
    split.conformalize(X[60:110], labels[60:110])
    assert split.predict_set(X[110:])[1].shape == (50, 2, 1)


def test_estimators_work_inside_crepes(rng):
    crepes = pytest.importorskip("crepes", reason="crepes is not installed")
    X, y = drawn(rng, n=160)
    wrapped = crepes.WrapRegressor(SLTRRegressorCV(**QUICK))
    wrapped.fit(X[:60], y[:60])
    wrapped.calibrate(X[60:110], y[60:110])
    bounds = wrapped.predict_int(X[110:], confidence=0.9)
    assert np.mean((bounds[:, 0] <= y[110:]) & (y[110:] <= bounds[:, 1])) > 0.7
    labels = (y > 0).astype(int)
    wrapped = crepes.WrapClassifier(SLTRClassifierCV(**QUICK))
    wrapped.fit(X[:60], labels[:60])
    wrapped.calibrate(X[60:110], labels[60:110])
    assert len(wrapped.predict_set(X[110:], confidence=0.9)) == 50


@pytest.mark.parametrize("shape_out", [(2,), (2, 2)])
def test_intervals_of_several_responses(rng, shape_out):
    X = rng.normal(size=(160, 4, 3))
    scale = np.arange(1.0, 1.0 + np.prod(shape_out)).reshape(shape_out)
    signal = X[:, 0, 0].reshape(-1, *[1] * len(shape_out)) * scale
    Y = 5.0 + signal + scale * rng.normal(size=signal.shape)
    for model in (SLTRRegressorCV(refine=None, cv=4), TensorRidge()):
        found = intervals(model, X[:80], Y[:80])
        lower, upper = found.predict(X[80:], level=0.8)
        assert lower.shape == upper.shape == (80, *shape_out)
        covered = np.mean((lower <= Y[80:]) & (Y[80:] <= upper), axis=0)
        assert (covered > 0.65).all()
        assert (covered < 0.95).all()
    # Ridge with a given penalty takes each response by itself.
    both = intervals(TensorRidge(2.0), X[:80], Y[:80]).predict(X[80:])
    one = intervals(TensorRidge(2.0), X[:80], Y[:80].reshape(80, -1)[:, 1])
    for end, alone in zip(both, one.predict(X[80:]), strict=True):
        np.testing.assert_allclose(end.reshape(80, -1)[:, 1], alone, atol=1e-9)
