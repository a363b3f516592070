"""The block solver against closed forms and statsmodels."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sltr.core.families import FAMILIES
from sltr.refine.glm import TensorGLM, solve_block

sm = pytest.importorskip("statsmodels.api")


def _problem(family, rng, n=60, k=4, q=1):
    design = rng.standard_normal((n, k))
    covariates = np.column_stack([np.ones(n), rng.standard_normal((n, q - 1))])
    eta = design @ np.linspace(-0.5, 0.5, k)
    y = {
        "normal": eta + rng.standard_normal(n),
        "binomial": (eta + rng.logistic(size=n) > 0).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
    }[family]
    weight = rng.uniform(0.5, 2.0, n)
    return TensorGLM([], y, weight, covariates, FAMILIES[family]), design


def _solve(problem, design, ridge, **how):
    k, q = design.shape[1], problem.covariates.shape[1]
    return solve_block(
        problem, design.T, np.zeros(k), np.zeros(q), np.full(k, ridge), **how
    )


@pytest.mark.parametrize("family", ["normal", "binomial", "poisson"])
def test_unpenalised_block_is_statsmodels_glm(family):
    problem, design = _problem(family, np.random.default_rng(0), q=2)
    coef, gamma, deviance = _solve(problem, design, 0.0, max_iter=30)
    kind = {"normal": "Gaussian", "binomial": "Binomial", "poisson": "Poisson"}[family]
    reference = sm.GLM(
        problem.y,
        np.column_stack([design, problem.covariates]),
        family=getattr(sm.families, kind)(),
        freq_weights=problem.weight,
    ).fit(tol=1e-12)
    np.testing.assert_allclose(
        np.concatenate([coef, gamma]), reference.params, atol=1e-5
    )
    assert deviance == pytest.approx(reference.deviance, rel=1e-8)


@pytest.mark.parametrize("family", ["normal", "binomial", "poisson"])
def test_wide_block_equals_the_direct_minimum(family):
    rng = np.random.default_rng(1)
    problem, design = _problem(family, rng, n=12, k=20)
    ridge = rng.uniform(0.5, 2.0, 20)
    coef, gamma, _ = solve_block(
        problem, design.T, np.zeros(20), np.zeros(1), ridge, max_iter=50
    )

    def objective(theta):
        eta = design @ theta[:20] + theta[20]
        deviance = problem.weight @ problem.family.deviance(problem.y, eta)
        return deviance + ridge @ theta[:20] ** 2

    best = minimize(objective, np.zeros(21), method="BFGS", options={"gtol": 1e-7})
    found = objective(np.concatenate([coef, gamma]))
    assert found <= best.fun + 1e-5
    np.testing.assert_allclose(coef, best.x[:20], atol=1e-3)


@pytest.mark.parametrize("family", ["normal", "binomial", "poisson"])
def test_l1_block_satisfies_the_optimality_conditions(family):
    problem, design = _problem(family, np.random.default_rng(2), k=6)
    l1, ridge = (60.0 if family == "normal" else 20.0), 0.5
    coef, gamma, _ = _solve(problem, design, ridge, l1=l1, max_iter=50)
    residual = problem.weight * (
        problem.y - problem.family.mean(design @ coef + problem.covariates @ gamma)
    )
    slope = 2.0 * design.T @ residual - 2.0 * ridge * coef
    active = coef != 0.0
    assert 0 < active.sum() < 6
    np.testing.assert_allclose(slope[active], l1 * np.sign(coef[active]), atol=0.05)
    assert np.all(np.abs(slope[~active]) <= l1 + 1e-3)
    assert abs(problem.covariates.T @ residual).max() < 0.05


def test_far_start_does_not_raise_the_objective():
    rng = np.random.default_rng(3)
    problem, design = _problem("poisson", rng)
    start = 3.0 * rng.standard_normal(4)
    ridge = np.ones(4)
    before = problem.weight @ problem.family.deviance(problem.y, design @ start)
    coef, _, deviance = solve_block(problem, design.T, start, np.zeros(1), ridge)
    assert deviance + coef @ coef < before + start @ start


def test_separable_labels_stay_finite():
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    y = (x[:, 0] > 0).astype(float)
    problem = TensorGLM([], y, np.ones(20), np.ones((20, 1)), FAMILIES["binomial"])
    coef, _, deviance = _solve(problem, x, 0.0, max_iter=100)
    assert np.isfinite(coef).all()
    assert 0.0 <= deviance < 1e-3


def test_flat_minima_are_found_in_single_precision():
    # Labels that a plane separates: along it the deviance hardly changes.
    rng = np.random.default_rng(4)
    design = rng.standard_normal((6, 3))
    y = (design @ np.ones(3) > 0).astype(float)
    found = []
    for dtype in (np.float64, np.float32):
        X, labels, ones = (a.astype(dtype) for a in (design, y, np.ones((6, 1))))
        problem = TensorGLM([], labels, ones[:, 0], ones, FAMILIES["binomial"])
        start, ridge = np.zeros(3, dtype), np.full(3, 0.01, dtype)
        coef, gamma, _ = solve_block(problem, X.T, start, ones[0], ridge, max_iter=50)
        assert coef.dtype == dtype
        found.append(np.concatenate([coef, gamma]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
