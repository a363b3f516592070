"""The pilot of a likelihood, against scikit-learn, statsmodels and its own gradient."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from sltr.core.families import FAMILIES
from sltr.ridge import ridge_system
from sltr.ridge.likelihood import free_coefs, likelihood_pilots

SIZES = [(40, 60), (120, 15)]  # by the Gram matrix, and by the features
NAMES = ["binomial", "poisson", "multinomial"]


def drawn(name, n, p, rng):
    """Return samples that are not centred, responses (n, K) and weights."""
    X = rng.normal(size=(n, p)) + 2.0
    eta = (X - 2.0) @ rng.normal(size=(p, 3)) / p**0.5
    if name == "poisson":
        Y = rng.poisson(np.exp(1.0 + eta[:, :1])).astype(float)
    elif name == "binomial":
        Y = (rng.random((n, 1)) < 1.0 / (1.0 + np.exp(-2.0 * eta[:, :1]))).astype(float)
    else:
        chosen = (2.0 * eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
        Y = (chosen[:, None] == np.arange(3)).astype(float)
    return X, Y, rng.uniform(0.5, 2.0, n)


def pilot_of(X, Y, weight, name, subset, epsilon, **options):
    """Return a pilot, and its coefficient (K, P)."""
    system = ridge_system(X, Y, weight, fit_intercept=True, **options)
    found = likelihood_pilots(system, FAMILIES[name], subset[None], [epsilon])
    pilot = found[0][0]
    dual = system.method == "dual"
    return pilot, pilot.shares.T @ X if dual else pilot.shares.T


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", [0.3, 30.0])
def test_pilot_is_scikit_learns_penalised_likelihood(name, size, epsilon, rng):
    X, Y, weight = drawn(name, *size, rng)
    subset = np.arange(len(X)) % 4 > 0
    pilot, coef = pilot_of(X, Y, weight, name, subset, epsilon)
    rows, w = X[subset], weight[subset]
    if name == "poisson":
        model = PoissonRegressor(alpha=epsilon / w.sum(), tol=1e-9, max_iter=10_000)
        model.fit(rows, Y[subset, 0], sample_weight=w)
    else:
        y = Y[:, 0] if name == "binomial" else Y.argmax(axis=1)
        model = LogisticRegression(C=1.0 / epsilon, tol=1e-9, max_iter=10_000)
        model.fit(rows, y[subset], sample_weight=w)
    expected = np.atleast_2d(model.coef_)
    # As exact as scikit-learn is with the oldest SciPy.
    np.testing.assert_allclose(coef, expected, atol=5e-5 * np.abs(expected).max())
    # Of samples that are left out too.
    mean = FAMILIES[name].mean(pilot.eta)
    known = model.predict(X)[:, None] if name == "poisson" else model.predict_proba(X)
    known = known[:, 1:] if name == "binomial" else known
    np.testing.assert_allclose(mean, known, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_residual_is_the_relative_gradient(name, size, rng):
    X, Y, weight = drawn(name, *size, rng)
    Z = rng.normal(size=(len(X), 2))
    everyone = np.ones(len(X), dtype=bool)
    pilot, coef = pilot_of(X, Y, weight, name, everyone, 1.0, covariates=Z)
    mean = FAMILIES[name].mean(pilot.eta)
    excess = weight[:, None] * (Y - mean)
    gradient = coef.T - X.T @ excess
    basis = np.column_stack([np.ones(len(X)), Z])
    null = free_coefs(FAMILIES[name], Y, weight, basis, np.zeros((1, *Y.shape)))[0]
    alone = weight[:, None] * (Y - FAMILIES[name].mean(basis @ null))
    scale = np.linalg.norm((X - X.mean(axis=0)).T @ alone)
    assert pilot.residual < 1e-6
    assert np.linalg.norm(gradient) < 1e-5 * scale
    assert np.linalg.norm(basis.T @ excess) < 1e-5 * scale


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_units_change_no_step(name, size, rng):
    X, Y, weight = drawn(name, *size, rng)
    Z = rng.normal(size=(len(X), 1))
    everyone, unit = np.ones(len(X), dtype=bool), 2.0**-27
    one, coef = pilot_of(X, Y, weight, name, everyone, 1e-4, covariates=Z)
    other, small = pilot_of(
        unit * X, Y, weight, name, everyone, 1e-4 * unit**2, covariates=Z
    )
    assert other.n_iter == one.n_iter
    np.testing.assert_allclose(unit * small, coef, rtol=1e-12)
    np.testing.assert_allclose(other.eta, one.eta, rtol=1e-12)


def test_few_steps_leave_an_honest_residual(rng):
    X, Y, weight = drawn("binomial", 40, 60, rng)
    system = ridge_system(X, Y, weight, fit_intercept=True)
    everyone, family = np.ones((1, 40), dtype=bool), FAMILIES["binomial"]
    [[one]] = likelihood_pilots(system, family, everyone, [0.01], max_steps=1)
    [[more]] = likelihood_pilots(system, family, everyone, [0.01])
    assert one.n_iter == 1
    assert one.residual > 1e-3 > 1e-6 > more.residual


@pytest.mark.parametrize("name", ["binomial", "poisson"])
def test_intercept_and_covariates_are_those_of_statsmodels(name, rng):
    sm = pytest.importorskip("statsmodels.api")
    X, Y, weight = drawn(name, 80, 5, rng)
    basis = np.column_stack([np.ones(80), X[:, :2]])
    offsets = rng.normal(size=(3, 80, 1))
    found = free_coefs(FAMILIES[name], Y, weight, basis, offsets)
    kind = {"binomial": sm.families.Binomial, "poisson": sm.families.Poisson}[name]
    for offset, gamma in zip(offsets, found, strict=True):
        glm = sm.GLM(
            Y[:, 0], basis, family=kind(), offset=offset[:, 0], freq_weights=weight
        )
        expected = glm.fit(tol=1e-12).params
        np.testing.assert_allclose(gamma[:, 0], expected, rtol=1e-6, atol=1e-8)


def test_intercepts_of_classes_leave_no_gradient(rng):
    X, Y, weight = drawn("multinomial", 80, 5, rng)
    family, offsets = FAMILIES["multinomial"], 3.0 * rng.normal(size=(2, 80, 3))
    basis = np.column_stack([np.ones(80), X[:, :2]])
    gamma = free_coefs(family, Y, weight, basis, offsets)
    mean = family.mean(offsets + basis @ gamma)
    assert np.abs(basis.T @ (weight[:, None] * (Y - mean))).max() < 1e-6


@pytest.mark.parametrize("far", [-40.0, 40.0])
@pytest.mark.parametrize("name", ["binomial", "poisson"])
def test_an_intercept_is_found_from_afar(name, far, rng):
    _, Y, weight = drawn(name, 60, 5, rng)
    ones = np.ones((60, 1))
    gamma = free_coefs(FAMILIES[name], Y, weight, ones, np.full((1, 60, 1), far))
    mean = FAMILIES[name].mean(far + gamma[0, 0, 0])
    assert mean == pytest.approx(weight @ Y[:, 0] / weight.sum(), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_other_libraries_find_the_same_pilot(name, foreign, rng):
    X, Y, weight = drawn(name, 30, 40, rng)
    everyone = np.ones((1, 30), dtype=bool)
    arrays = [foreign.array(a) for a in (X, Y, weight, everyone)]
    family = FAMILIES[name]
    etas = []
    for A, B, w, subsets in ((X, Y, weight, everyone), arrays):
        system = ridge_system(A, B, w, fit_intercept=True)
        [[pilot]] = likelihood_pilots(system, family, subsets, [1.0])
        etas.append(pilot.eta)
    np.testing.assert_allclose(foreign.numpy(etas[1]), etas[0], rtol=1e-7, atol=1e-9)
