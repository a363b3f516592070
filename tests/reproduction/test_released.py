import numpy as np
import pytest
from sklearn.linear_model import Lasso

from sltr.datasets import make_tensor_regression
from sltr.reproduction.data import Trial
from sltr.reproduction.released import (
    AllSamples,
    ReleasedLinear,
    ReleasedNull,
    ReleasedSLTR,
    literal_estimate,
    literal_pilot,
)
from sltr.reproduction.run import METRICS


@pytest.fixture
def trial():
    data = make_tensor_regression((5, 4, 2), 30, truth="cp", rank=1, random_state=0)
    return Trial(data.X, data.y, data.X, data.y, coef=data.coef)


def test_null_is_scored_on_all_or_the_last_fifth(trial):
    everything = ReleasedNull().fit(trial.X, trial.y)
    tail = ReleasedNull(last_fifth=True).fit(trial.X, trial.y)
    metric = METRICS["released_mse"]
    assert metric(everything, trial.X, trial.y, trial) == pytest.approx(
        np.sum(trial.y**2) ** 0.5 / 30
    )
    assert metric(tail, trial.X, trial.y, trial) == pytest.approx(
        np.sum(trial.y[24:] ** 2) ** 0.5 / 6
    )


def test_linear_sees_the_first_80_percent_and_chooses_on_the_rest(trial):
    model = ReleasedLinear(n_alphas=8).fit(trial.X, trial.y)
    A = trial.X.reshape(30, -1)
    centred = A[:24] - A[:24].mean(axis=0)
    largest = np.abs(centred.T @ (trial.y[:24] - trial.y[:24].mean())).max() / 24
    alphas = np.geomspace(largest, 0.01 * largest, 8)
    errors = [
        np.linalg.norm(
            Lasso(alpha=a, tol=1e-8, max_iter=10_000)
            .fit(A[:24], trial.y[:24])
            .predict(A[24:])
            - trial.y[24:]
        )
        for a in alphas
    ]
    found = METRICS["released_mse"](model, trial.X, trial.y, trial)
    assert found == pytest.approx(min(errors) / 6, rel=1e-2)


def test_sltr_takes_the_pair_of_least_error(trial):
    lambdas = (0.001, 0.05, 5.0)
    model = ReleasedSLTR(lambdas, n_folds=None).fit(trial.X, trial.y)
    pilot = literal_pilot(trial.X, trial.y, 1.0)
    errors = {
        (a, b): np.linalg.norm(
            np.einsum(
                "nijk,ijk->n",
                trial.X,
                literal_estimate(pilot, a, b, variant="released").x,
            )
            - trial.y
        )
        for a in lambdas
        for b in lambdas
    }
    assert (model.lambda_sparse_, model.lambda_low_) == min(errors, key=errors.get)
    assert len(model.cv_results_["params"]) == 9
    np.testing.assert_allclose(
        np.linalg.norm(model.predict(trial.X) - trial.y), min(errors.values())
    )


def test_radius_zero_is_the_pilot(trial):
    model = ReleasedSLTR((0.0,)).fit(trial.X, trial.y)
    np.testing.assert_allclose(model.coef_, literal_pilot(trial.X, trial.y, 1.0))


def test_all_samples_train_and_validate():
    ((train, test),) = AllSamples().split(np.zeros((4, 2)))
    assert train.tolist() == test.tolist() == [0, 1, 2, 3]
    assert AllSamples().get_n_splits() == 1


def test_theorem_bounds_the_error(trial):
    model = ReleasedSLTR((0.0,)).fit(trial.X, trial.y)
    error, bound = (
        METRICS[f"theorem_{name}"](model, trial.X, trial.y, trial)
        for name in ("error", "bound")
    )
    assert 0 < error < bound
    null = ReleasedNull().fit(trial.X, trial.y)
    assert np.isnan(METRICS["theorem_error"](null, trial.X, trial.y, trial))
    assert METRICS["estimation_error"](null, trial.X, trial.y, trial) == 1.0
