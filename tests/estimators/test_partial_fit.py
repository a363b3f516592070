"""Chunks of samples that go by give the fit to all of them at once."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sltr import SLTRClassifier, SLTRRegressor, load, save
from sltr.estimators.partial_fit import add_chunk
from sltr.ridge import RidgeLimits
from sltr.ridge.moments import StreamedRidge, merge, moments, without
from sltr.samples.samples import Samples


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 4, 3, 2)) + 100.0
    y = X[:, :2, :2, :].sum(axis=(1, 2, 3)) + 0.3 * rng.normal(size=120) + 50.0
    return X, y, rng.uniform(0.5, 2.0, size=120)


def same(found, expected, tol=1e-8):
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


def chunks(rng, n_samples=120):
    """Return uneven chunks of shuffled rows, one of a single sample."""
    return np.split(rng.permutation(n_samples), [1, 11, 20, 70, 100])


def test_moments_merge_and_part_exactly(xp, rng, data):
    X, y, weight = data
    flat, Y = X.reshape(120, -1), np.stack([y, y**2], axis=1)
    expected = moments(flat, Y, weight)
    split = chunks(rng)
    parts = [
        moments(*(xp.array(values[rows]) for values in (flat, Y, weight)))
        for rows in split
    ]
    total = parts[0]
    for part in parts[1:]:
        total = merge(total, part)
    check_moments(xp, total, expected)
    kept = np.concatenate([rows for i, rows in enumerate(split) if i != 3])
    rest = moments(flat[kept], Y[kept], weight[kept])
    check_moments(xp, without(total, parts[3]), rest)


def check_moments(xp, found, expected):
    assert float(found.weight) == pytest.approx(float(expected.weight))
    for name in ("x_mean", "y_mean", "second", "cross", "y_second"):
        actual, wanted = xp.numpy(getattr(found, name)), getattr(expected, name)
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-6)


def test_a_long_stream_in_single_precision_loses_nothing(xp, data):
    """One more sample is lost in a float32 sum of 2²⁵ of them."""
    X, y, _ = data
    flat, Y = X.reshape(120, -1) - 100.0, y[:, None]
    flat, Y = flat.astype(np.float32), Y.astype(np.float32)
    weight = np.where(np.arange(120) < 60, 2.0**25, 1.0)
    split = [np.arange(60), *np.arange(60, 120)[:, None]]
    parts = [
        moments(*(xp.array(v[rows], "float32") for v in (flat, Y, weight)))
        for rows in split
    ]
    total = parts[0]
    for part in parts[1:]:
        total = merge(total, part)
    rest = without(total, parts[0])
    expected = moments(flat[60:].astype(float), Y[60:].astype(float), np.ones(60))
    assert float(rest.weight) == 60
    np.testing.assert_allclose(xp.numpy(rest.x_mean), expected.x_mean, atol=1e-4)


def test_a_stream_in_single_precision_fits_in_single_precision(xp, rng, data):
    X, y, _ = data
    expected = SLTRRegressor(0.5, 0.3, 0.3).fit(X, y)
    model = SLTRRegressor(0.5, 0.3, 0.3)
    for rows in chunks(rng):
        model.partial_fit(*(xp.array(v[rows], "float32") for v in (X, y)))
    assert xp.numpy(model.coef_).dtype == np.float32
    assert xp.numpy(model.predict(xp.array(X, "float32"))).dtype == np.float32
    same(xp.numpy(model.coef_), expected.coef_, 1e-3)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_shuffled_chunks_equal_one_fit(rng, data, fit_intercept, weighted):
    X, y, weight = data
    weight = weight if weighted else None
    model = SLTRRegressor(0.5, 0.3, 0.3, fit_intercept=fit_intercept)
    whole = clone(model).fit(X, y, weight)
    for _ in range(2):
        parts = chunks(rng)
        streamed = clone(model)
        for rows in parts:
            own = None if weight is None else weight[rows]
            last = rows is parts[-1]
            streamed.partial_fit(X[rows], y[rows], own, solve=last)
        same(streamed.coef_, whole.coef_)
        same(streamed.intercept_, whole.intercept_, 1e-6)
        same(streamed.predict(X), whole.predict(X))
        assert streamed.pilot_method_ == "primal"


def test_weightless_samples_and_another_library(xp, data):
    X, y, weight = data
    weight[40:50] = 0.0
    expected = SLTRRegressor(0.5).fit(*(xp.array(v) for v in (X, y, weight)))
    model = SLTRRegressor(0.5)
    for rows in (slice(0, 60), slice(60, None)):
        model.partial_fit(*(xp.array(v[rows]) for v in (X, y, weight)))
    same(xp.numpy(model.coef_), xp.numpy(expected.coef_))


def test_the_penalty_is_that_of_generalised_cross_validation(data):
    X, y, _ = data
    flat = X.reshape(120, -1)
    kept = moments(flat, y[:, None], np.ones(120))
    for fit_intercept in (True, False):
        A = flat - fit_intercept * flat.mean(axis=0)
        target = y - fit_intercept * y.mean()
        epsilons = np.array([0.1, 30.0])
        found = StreamedRidge(kept, fit_intercept).loo_losses(epsilons)[:, 0]
        for epsilon, value in zip(epsilons, found, strict=True):
            hat = A @ np.linalg.solve(A.T @ A + epsilon * np.eye(24), A.T)
            rss = np.sum((target - hat @ target) ** 2)
            free = 120 - np.trace(hat) - fit_intercept
            assert value == pytest.approx(120 * rss / free**2, rel=1e-4)
    model = SLTRRegressor("loo").partial_fit(X, y)
    assert model.epsilon_ > 0
    assert model.score(X, y) > 0.95


def test_a_saved_model_keeps_no_moments(data, tmp_path):
    X, y, _ = data
    model = SLTRRegressor(0.5).partial_fit(X, y)
    save(model, tmp_path / "model.sltr")
    again = load(tmp_path / "model.sltr")
    same(again.coef_, model.coef_)
    assert not hasattr(again, "_moments")


def test_fits_begin_anew(data):
    X, y, _ = data
    model = SLTRRegressor(0.5).partial_fit(X[:60], y[:60])
    model.fit(X[60:], y[60:]).partial_fit(X[:60], y[:60])
    same(model.coef_, SLTRRegressor(0.5).fit(X[:60], y[:60]).coef_)


def test_chunks_that_do_not_fit_change_nothing(data):
    X, y, _ = data
    model = SLTRRegressor(0.5).partial_fit(X[:60], y[:60])
    before = model.coef_
    for bad in (X[60:, :, :2], X[60:].reshape(60, -1), np.full_like(X[60:], np.nan)):
        with pytest.raises(ValueError, match=r"fitted on|NaN|features"):
            model.partial_fit(bad, y[60:])
    assert model.coef_ is before
    assert model.shape_in_ == (4, 3, 2)
    model.partial_fit(X[60:], y[60:])
    same(model.coef_, SLTRRegressor(0.5).fit(X, y).coef_)


def test_nothing_is_fitted_before_it_is_asked_for(data):
    X, y, _ = data
    model = SLTRRegressor(0.5).partial_fit(X, y, solve=False)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_refits_and_too_many_entries_are_refused(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="keeps no samples"):
        SLTRRegressor(refine="scale").partial_fit(X, y)
    samples = Samples(X, y, np.ones(len(y)))
    with pytest.raises(ValueError, match="24 entries"):
        add_chunk(None, samples, y[:, None], limits=RidgeLimits(largest_side=20))


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", "c")])
def test_classes_come_in_any_order(rng, data, labels):
    X, y, _ = data
    cuts = np.quantile(y, np.linspace(0, 1, len(labels) + 1)[1:-1])
    names = np.array(labels)[np.digitize(y, cuts)]
    order = np.argsort(names, kind="stable")  # one class after the other
    whole = SLTRClassifier(0.5).fit(X, names)
    model = SLTRClassifier(0.5)
    for rows in np.array_split(order, 4):
        model.partial_fit(X[rows], names[rows], classes=labels)
    same(model.coef_, whole.coef_)
    assert (model.predict(X) == names).mean() > 0.8
    shares, expected = model.predict_proba(X), whole.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.corrcoef(shares.ravel(), expected.ravel())[0, 1] > 0.9


def test_probabilities_are_those_of_normal_scores(rng):
    """Two normal classes with equal spread: the log-odds are known."""
    y = rng.random(4000) < 0.3
    X = rng.normal(size=(4000, 3)) + np.where(y, 1.0, 0.0)[:, None] * [1.5, 0.0, 0.0]
    model = SLTRClassifier(1e-6, 0.0, 0.0).partial_fit(X, y, classes=[False, True])
    true = 1.5 * X[:, 0] - 1.5**2 / 2 + np.log(0.3 / 0.7)
    assert np.abs(model.decision_function(X) - true).mean() < 0.15


def test_probabilities_of_more_classes_are_those_of_normal_scores(rng):
    means = np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0], [0.0, 2.0, 0.0]])
    shares = np.array([0.2, 0.3, 0.5])
    y = rng.choice(3, size=6000, p=shares)
    X = rng.normal(size=(6000, 3)) + means[y]
    model = SLTRClassifier(1e-6, 0.0, 0.0).partial_fit(X, y, classes=[0, 1, 2])
    logits = X @ means.T - 0.5 * (means**2).sum(axis=1) + np.log(shares)
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.abs(model.predict_proba(X) - true).mean() < 0.02


def test_bad_labels_are_refused(data):
    X, y, _ = data
    names = np.where(y > np.median(y), "up", "down")
    model = SLTRClassifier(0.5)
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X, names)
    with pytest.raises(ValueError, match="among them"):
        model.partial_fit(X, names, classes=["up", "left"])
    with pytest.raises(ValueError, match="at least two"):
        model.partial_fit(X[:1], names[:1], classes=[names[0]])
    model.partial_fit(X, names, classes=["up", "down"])
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X, names, classes=["up", "left"])


def test_the_penalty_does_not_depend_on_the_scale_of_small_weights(rng):
    X = rng.normal(size=(60, 4, 3))
    y = X[:, 0, 0] + 0.1 * rng.normal(size=60)
    relative = []
    for weight in (1.0, 0.1, 0.01):
        model = SLTRRegressor().partial_fit(X, y, np.full(60, weight))
        relative.append(model.epsilon_ / weight)
    np.testing.assert_allclose(relative, relative[0], rtol=0.7)


def test_probabilities_need_no_intercept(rng):
    X = rng.normal(size=(400, 4, 3)) + 1.0
    y = X[:, :2, :2].sum(axis=(1, 2)) + 0.3 * rng.normal(size=400) > 5.5
    model = SLTRClassifier(fit_intercept=False)
    model.partial_fit(X, y, classes=[False, True])
    assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 0.1


def test_a_new_stream_forgets_the_fit_before_it(data):
    X, y, _ = data
    three = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = SLTRClassifier(2.0).fit(X, y > np.median(y))
    model.partial_fit(X, three, classes=[0, 1, 2], solve=False)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.partial_fit(X[:1], three[:1]).predict_proba(X).shape == (120, 3)
    model = SLTRRegressor(2.0).fit(X, y)
    model.partial_fit(X[:, :2], y, solve=False)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_chunks_of_another_library_are_refused(data):
    torch = pytest.importorskip("torch")
    X, y, _ = data
    model = SLTRRegressor(2.0).partial_fit(torch.asarray(X), torch.asarray(y))
    with pytest.raises(ValueError, match="ndarray was given after chunks of Tensor"):
        model.partial_fit(X, y)
