from importlib import import_module

import numpy as np
import pytest
from problems import block, draw
from sklearn.exceptions import ConvergenceWarning

from sltr.estimators.path import SLTRPath, sltr_path
from sltr.estimators.sltr import SLTRRegressor
from sltr.estimators.sltr_cv import SLTRRegressorCV

engine = import_module("sltr.core.estimate")

TIGHT = {"tol": 1e-5, "max_iter": 50_000}


def planted(rng, shape, n):
    return draw(rng, block(shape), n, noise=0.5, mean=1.0, offset=3.0)


def candidates(path):
    columns = (path.epsilon, path.lambda_sparse, path.lambda_low)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("shape", [(9,), (6, 5), (5, 4, 3), (3, 2, 4, 2)])
@pytest.mark.parametrize(
    ("weighted", "settings"),
    [
        (False, {}),
        (True, {"fit_intercept": False}),
        (True, {"radius": "absolute"}),
        (False, {"coupling": "joint", "weights": "radius"}),
    ],
)
def test_every_candidate_is_a_fit_alone(rng, shape, weighted, settings):
    X, y = planted(rng, shape, 24)
    weight = rng.uniform(0.5, 2.0, size=24) if weighted else None
    path = sltr_path(
        X,
        y,
        epsilons=[0.5, 20.0],
        lambdas_sparse=[0.0, 0.3, 0.7],
        lambdas_low=[0.2, 0.6],
        sample_weight=weight,
        **settings,
        **TIGHT,
    )
    assert path.coef.shape == (12, *shape)
    assert np.all(path.converged)
    assert np.all(path.gap <= TIGHT["tol"])
    for c, triple in enumerate(candidates(path)):
        alone = SLTRRegressor(*triple, **settings, **TIGHT).fit(X, y, weight)
        scale = max(np.abs(alone.pilot_).max(), 1e-12)
        np.testing.assert_allclose(path.coef[c], alone.coef_, atol=2e-3 * scale)
        assert path.intercept[c] == pytest.approx(alone.intercept_, abs=2e-2)


def test_candidates_come_in_the_grids_order(rng):
    X, y = planted(rng, (4, 3), 20)
    grid = {"lambdas_sparse": [0.6, 0.1], "lambdas_low": [0.2, 0.4, 0.0]}
    path = sltr_path(X, y, epsilons=[2.0, 1.0], **grid)
    model = SLTRRegressorCV([2.0, 1.0], refine=None, cv=2, **grid).fit(X, y)
    table = model.cv_results_
    names = ("param_epsilon", "param_lambda_sparse", "param_lambda_low")
    rows = list(zip(*(table[name].tolist() for name in names), strict=True))
    assert candidates(path) == rows


@pytest.mark.parametrize("chunk", [1, 50])
@pytest.mark.parametrize("small", [0, 10**9])
def test_chunks_jobs_and_drivers_change_nothing(rng, monkeypatch, chunk, small):
    X, y = planted(rng, (5, 4, 3), 24)
    # Penalties so close together that their problems start each other.
    grid = {"epsilons": [1.0, 1.001, 1.002, 50.0], **TIGHT}
    grid |= {"lambdas_sparse": [0.2, 0.5], "lambdas_low": [0.2, 0.5, 1.0]}
    expected = sltr_path(X, y, **grid)
    monkeypatch.setattr(engine, "SMALL_ENTRIES", small)
    whole = sltr_path(X, y, **grid)
    monkeypatch.setattr(engine, "CHUNK_ENTRIES", chunk)
    found = sltr_path(X, y, n_jobs=2, **grid)
    np.testing.assert_array_equal(found.coef, whole.coef)
    np.testing.assert_array_equal(found.n_iter, whole.n_iter)
    scale = np.abs(expected.coef).max()
    np.testing.assert_allclose(found.coef, expected.coef, atol=2e-3 * scale)


def test_close_penalties_cost_few_iterations(rng, monkeypatch):
    X, y = planted(rng, (6, 5, 4), 40)
    monkeypatch.setattr(engine, "SMALL_ENTRIES", 0)
    grid = {"lambdas_sparse": (0.1, 0.2, 0.3), "lambdas_low": (0.1, 0.2, 0.3)}
    one = sltr_path(X, y, epsilons=[1.0], **grid)
    three = sltr_path(X, y, epsilons=[1.0, 1.001, 1.002], **grid)
    np.testing.assert_array_equal(three.n_iter[:9], one.n_iter)
    assert three.n_iter[9:].sum() < one.n_iter.sum()
    assert np.all(three.gap <= 1e-4)


def test_the_papers_grid_by_name(rng):
    X, y = planted(rng, (4, 3), 20)
    path = sltr_path(
        X,
        y,
        epsilons="paper",
        lambdas_sparse="paper",
        lambdas_low="paper",
        radius="absolute",
    )
    assert path.coef.shape == (147, 4, 3)


def test_radius_one_is_zero_and_predicts_the_mean(rng):
    X, y = planted(rng, (4, 3), 20)
    path = sltr_path(X, y, lambdas_sparse=[1.0], lambdas_low=[1.0])
    assert isinstance(path, SLTRPath)
    np.testing.assert_array_equal(path.coef, np.zeros((3, 4, 3)))
    np.testing.assert_allclose(path.intercept, y.mean())


def test_a_budget_that_runs_out_is_told(rng):
    X, y = planted(rng, (6, 5, 4), 20)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        path = sltr_path(
            X, y, lambdas_sparse=[0.3], lambdas_low=[0.2], tol=1e-9, max_iter=2
        )
    assert not np.any(path.converged)
    assert np.all(path.gap > 1e-9)


def test_torch_stays_torch(rng):
    torch = pytest.importorskip("torch")
    X, y = planted(rng, (4, 3), 20)
    ours = sltr_path(X, y, epsilons=[1.0], **TIGHT)
    theirs = sltr_path(torch.asarray(X), torch.asarray(y), epsilons=[1.0], **TIGHT)
    assert isinstance(theirs.coef, torch.Tensor)
    np.testing.assert_allclose(theirs.coef.numpy(), ours.coef, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilons": []}, "epsilons="),
        ({"lambdas_low": [-1.0]}, "lambdas_low=-1.0"),
        ({"radius": "absolut"}, "radius='absolut'"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"sample_weight": [1.0]}, "sample_weight"),
    ],
)
def test_bad_settings_are_refused(rng, settings, message):
    X, y = planted(rng, (4, 3), 20)
    with pytest.raises(ValueError, match=message):
        sltr_path(X, y, **settings)
