"""The pilot by itself, and the pilot thresholded: SLTR's two elementary parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from sltr.arrays import Array, array_namespace, as_array, to_numpy, to_python
from sltr.core.estimate import Settings
from sltr.core.prox import soft_threshold
from sltr.core.tensor import numerical_ranks
from sltr.estimators.base import predict_linear, unchanged_on_failure
from sltr.parameters import check_nonnegative
from sltr.ridge import ridge_system
from sltr.ridge.penalty import choose_epsilon
from sltr.samples.check import check_samples
from sltr.samples.front import Centring
from sltr.samples.samples import Samples
from sltr.tuning.choose import best_index, cv_table
from sltr.tuning.folds import Folds, Split
from sltr.tuning.scores import default_metric, fold_scores
from sltr.tuning.task import Pilots, Task, ridge_pilots


class TensorRidge(RegressorMixin, BaseEstimator):
    """Ridge regression on tensors: SLTR's pilot as a model of its own.

    Solves min_W ‖y − A·vec(W)‖² + ε‖W‖², the intercept unpenalised.

    Parameters
    ----------
    epsilon : float or "loo"
        The penalty; "loo" takes the one of least leave-one-out error.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    epsilon_ : float
    shape_in_, n_features_in_

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4).reshape(4, 2, 2); y = np.arange(4.0)
    >>> TensorRidge(epsilon=1.0, fit_intercept=False).fit(X, y).coef_
    array([[0. , 0.5],
           [1. , 1.5]])
    """

    def __init__(
        self,
        epsilon: float | str = "loo",
        *,
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ):
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TensorRidge:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        self.coef_ = _pilot(self, samples)
        _set_intercept(self, samples)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,) for samples of the fitted shape."""
        return predict_linear(self, X)


class ElemRidge(RegressorMixin, BaseEstimator):
    """The elementary estimator: the ridge pilot, soft-thresholded.

    Solves min_W ‖W‖₁ s.t. ‖W − W̃‖_∞ ≤ λ, with W̃ the ridge estimate: SLTR
    without its low-rank half, in closed form S_λ(W̃).

    Parameters
    ----------
    epsilon : float or "loo"
        Penalty of the pilot.
    lambda_sparse : float
        The radius λ.
    radius : {"relative", "absolute"}
        "relative": a fraction of the pilot's largest entry.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into.

    Attributes
    ----------
    coef_, pilot_ : arrays of shape (p1, …, pM)
    intercept_ : float
    epsilon_ : float
    ranks_ : tuple of int
    shape_in_, n_features_in_

    References
    ----------
    Yang, Lozano, Ravikumar. Elementary estimators for high-dimensional linear
    regression. ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4).reshape(4, 2, 2); y = np.arange(4.0)
    >>> ElemRidge(1.0, 0.5, radius="absolute", fit_intercept=False).fit(X, y).coef_
    array([[0. , 0. ],
           [0.5, 1. ]])
    """

    def __init__(
        self,
        epsilon: float | str = "loo",
        lambda_sparse: float = 0.1,
        *,
        radius: str = "relative",
        fit_intercept: bool = True,
        feature_shape: tuple[int, ...] | None = None,
    ):
        self.epsilon = epsilon
        self.lambda_sparse = lambda_sparse
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.feature_shape = feature_shape

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ElemRidge:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        threshold = check_nonnegative(self.lambda_sparse, "lambda_sparse")
        self.pilot_ = _pilot(self, samples)
        if self.radius == "relative":
            xp = array_namespace(samples.X)
            threshold = threshold * float(xp.max(xp.abs(self.pilot_)))
        elif self.radius != "absolute":
            msg = (
                f"radius={self.radius!r} was given; expected 'relative' or 'absolute'."
            )
            raise ValueError(msg)
        self.coef_ = soft_threshold(self.pilot_, threshold)
        self.ranks_ = numerical_ranks(self.coef_)
        _set_intercept(self, samples)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,) for samples of the fitted shape."""
        return predict_linear(self, X)


def _pilot(model: Any, samples: Samples) -> Array:
    xp = array_namespace(samples.X)
    Y = samples.y[:, None]
    system = ridge_system(
        samples.flat, Y, samples.weight, fit_intercept=model.fit_intercept
    )
    model.epsilon_ = choose_epsilon(system, model.epsilon, samples.X)
    penalty = as_array([model.epsilon_], samples.X)
    everyone = (samples.weight > 0)[None, :]
    return xp.reshape(system.coefs(everyone, penalty), samples.shape)


def _set_intercept(model: Any, samples: Samples) -> None:
    model.intercept_ = 0.0
    if model.fit_intercept:
        xp = array_namespace(samples.X)
        share = Centring(samples.weight, True).share
        mean = xp.sum((share @ samples.flat) * xp.reshape(model.coef_, (-1,)))
        model.intercept_ = float(xp.sum(share * samples.y) - mean)


# Over the mean eigenvalue, the largest first: of equally good ones it is taken.
FACTORS = tuple(10.0 ** (k / 3) for k in range(15, -19, -1))
# Pilots of so many penalties are held at a time.
CHUNK = 4


def loo_parameters(model: Any) -> list[str]:
    """Return the penalties of a model that leave-one-out chooses.

    Also those of the one inside a search, or of one for each class: these see the
    samples as they are, a step of a pipeline does not.

    Examples
    --------
    >>> loo_parameters(TensorRidge()), loo_parameters(TensorRidge(epsilon=1.0))
    (['epsilon'], [])
    """
    params = model.get_params()
    return [
        name
        for name in ("epsilon", "estimator__epsilon")
        if isinstance(params.get(name), str)
    ]


def set_penalties(model: Any, X: Any, Y: Any, splits: Sequence[Split]) -> Any:
    """Give a model, and those inside it, the penalty of ridge that folds choose.

    Changed are parameters `epsilon` that leave-one-out would choose. It knows no
    groups: beside a near-copy of itself a sample asks for hardly any penalty.

    Parameters
    ----------
    model : estimator
        Ridge itself also gets `best_score_`, `cv_results_` and so on.
    X : array of shape (n, p1, …, pM)
    Y : array of shape (n,) or (n, K)
        For several responses one penalty is chosen.
    splits : sequence of pairs (training rows, test rows)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(rng.normal(size=(10, 4, 3)), 2, axis=0)
    >>> y = np.repeat(rng.normal(size=10), 2)  # noise: ridge can predict nothing
    >>> rows = np.arange(20)
    >>> halves = [(rows[:10], rows[10:]), (rows[10:], rows[:10])]
    >>> model = set_penalties(TensorRidge(), X, y, halves)
    >>> bool(model.epsilon > 1e3 * TensorRidge().fit(X, y).epsilon_)
    True
    """
    names = loo_parameters(model)
    if not names:
        return model
    intercept = model.get_params()[names[0].replace("epsilon", "fit_intercept")]
    penalties, scores = _scored(_task(X, Y, bool(intercept)), splits)
    best = best_index(scores)
    model.set_params(**dict.fromkeys(names, penalties[best]))
    if isinstance(model, TensorRidge):
        model.best_score_ = float(scores[:, best].mean())
        model.best_index_ = best
        model.scored_by_ = default_metric(test for _, test in splits)
        model.cv_results_ = cv_table({"epsilon": penalties}, scores)
    return model


def loo_score(model: TensorRidge, X: Any, y: Any) -> float:
    """Return R² of a ridge's predictions for each sample, fitted to all others.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> round(loo_score(TensorRidge().fit(X, X[:, 0]), X, X[:, 0]), 3)
    1.0
    """
    task = _task(X, y, bool(model.fit_intercept))
    penalty = as_array([model.epsilon_], task.Y)
    (error,) = to_python(task.system.loo(penalty))
    variance = float(np.var(to_numpy(task.Y)))
    return 1.0 - error / variance if variance > 0 else 0.0


def _task(X: Any, Y: Any, fit_intercept: bool) -> Task:
    columns = Y if Y.ndim == 2 else Y[:, None]
    samples = check_samples(TensorRidge(), X, columns[:, 0])
    responses = as_array(columns, samples.X, dtype=samples.X.dtype)
    system = ridge_system(
        samples.flat, responses, samples.weight, fit_intercept=fit_intercept
    )
    return Task(samples, responses, system, fit_intercept, "relative", Settings())


def _scored(task: Task, splits: Sequence[Split]) -> tuple[list[float], np.ndarray]:
    """Return penalties, and the scores of ridge with each on each fold: (F, E)."""
    # The mean eigenvalue is zero if all samples are equal: any penalty will do.
    scale = task.system.mean_eigenvalue() or 1.0
    xp = array_namespace(task.Y)
    # In single precision smaller ones drown in rounding.
    floor = 1e4 * float(xp.finfo(task.Y.dtype).eps)
    penalties = [scale * factor for factor in FACTORS if factor > floor]
    folds = Folds.of(task, splits)
    scores = []
    for start in range(0, len(penalties), CHUNK):
        pilots = ridge_pilots(task, folds.training, penalties[start : start + CHUNK])
        scores.append(list(_fold_scores(task, folds, pilots)))
    return penalties, np.concatenate(scores, axis=1)


def _fold_scores(task: Task, folds: Folds, pilots: Pilots) -> Iterator[np.ndarray]:
    """Yield each fold's scores of its pilots, (E,), the mean over responses."""
    xp = array_namespace(pilots.coef)
    Y, metric = to_numpy(task.Y), default_metric(folds.rows)
    for f, rows in enumerate(folds.rows):
        n_penalties, n_responses, n_entries = pilots.coef[f, ...].shape
        flat = xp.reshape(pilots.coef[f, ...], (n_penalties * n_responses, n_entries))
        values = folds.predictions(task, f, flat, pilots.x_mean[f, ...])
        values = values.reshape(-1, n_penalties, n_responses) + folds.y_mean[f]
        each = [
            fold_scores(None, Y[rows, k], values[:, :, k], default=metric)
            for k in range(n_responses)
        ]
        yield np.mean(each, axis=0)
