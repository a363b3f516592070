"""The pilot by itself, and the pilot thresholded: SLTR's two elementary parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sltr.arrays import Array, array_namespace, as_array, to_numpy, to_python
from sltr.core.prox import soft_threshold
from sltr.core.tensor import numerical_ranks
from sltr.estimators.fitted import (
    PlainRegressor,
    TensorResponses,
    linear_scores,
    tensor_predictions,
    unchanged_on_failure,
)
from sltr.parameters import check_nonnegative
from sltr.peers.search import LinearTrials, Searched, search
from sltr.ridge import (
    RidgeSystem,
    choose_epsilon,
    mean_loss,
    penalty_ladder,
    ridge_system,
)
from sltr.samples.centring import Centring
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.folds import Split


@dataclass(eq=False, repr=False)
class TensorRidge(TensorResponses, BaseEstimator):
    """Ridge regression on tensors: SLTR's pilot as a model of its own.

    Solves min_W ‖y − A·vec(W)‖² + ε‖W‖², the intercept unpenalised. Several responses
    have one penalty, for which each is divided by its standard deviation.

    Parameters
    ----------
    epsilon : float or "loo"
        The penalty; "loo" takes the one of least leave-one-out error.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM), or (p1, …, pM, q1, …, qQ)
    intercept_ : float, or array of shape (q1, …, qQ)
    epsilon_ : float
    shape_in_, shape_out_, n_features_in_

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(4).reshape(4, 2, 2); y = np.arange(4.0)
    >>> TensorRidge(epsilon=1.0, fit_intercept=False).fit(X, y).coef_
    array([[0. , 0.5],
           [1. , 1.5]])
    """

    epsilon: float | str = "loo"
    _: KW_ONLY
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TensorRidge:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,).

        Or to responses that are tensors, y of shape (n, q1, …, qQ).
        """
        samples = check_samples(self, X, y, sample_weight, tensors=True)
        self.epsilon_, coef = _pilot(samples, self.epsilon, self.fit_intercept)
        intercept = _intercepts(samples, coef, self.fit_intercept)
        xp, shape_out = array_namespace(coef), self.shape_out_
        shape = (*samples.shape, *shape_out)
        # Flat first, so that entries are in order, and a loaded model gives the same.
        flat = xp.reshape(xp.moveaxis(coef, 0, -1), (-1,))
        self.coef_ = xp.reshape(flat, shape)
        self.intercept_ = float(intercept[0])
        if shape_out:
            self.intercept_ = xp.reshape(intercept, shape_out)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,), or (n, q1, …, qQ)."""
        return tensor_predictions(self, X)

    def _remember(self, searched: Searched) -> None:
        """Keep how the penalty was chosen on folds."""
        self.best_index_, self.best_score_ = searched.index, searched.best_score
        self.cv_results_, self.scored_by_ = searched.table, searched.scored_by


@dataclass(eq=False, repr=False)
class ElemRidge(PlainRegressor, BaseEstimator):
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

    epsilon: float | str = "loo"
    lambda_sparse: float = 0.1
    _: KW_ONLY
    radius: str = "relative"
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ElemRidge:
        """Fit to samples X of shape (n, p1, …, pM) and responses y of shape (n,)."""
        samples = check_samples(self, X, y, sample_weight)
        threshold = check_nonnegative(self.lambda_sparse, "lambda_sparse")
        self.epsilon_, pilots = _pilot(samples, self.epsilon, self.fit_intercept)
        self.pilot_ = pilots[0, ...]
        xp = array_namespace(samples.X)
        largest = float(xp.max(xp.abs(self.pilot_)))
        if self.radius == "relative":
            threshold = threshold * largest
        elif self.radius != "absolute":
            msg = (
                f"radius={self.radius!r} was given; expected 'relative' or 'absolute'."
            )
            raise ValueError(msg)
        # A larger threshold may be more than single precision has.
        self.coef_ = soft_threshold(self.pilot_, min(threshold, largest))
        self.ranks_ = numerical_ranks(self.coef_)
        coefs = self.coef_[None, ...]
        self.intercept_ = float(_intercepts(samples, coefs, self.fit_intercept)[0])
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,) for samples of the fitted shape."""
        return linear_scores(self, X)


def _pilot(
    samples: Samples, epsilon: float | str, fit_intercept: bool
) -> tuple[float, Array]:
    """Return the penalty, chosen if need be, and the ridge estimates (K, …) for it."""
    Y, unit = _in_units(samples, fit_intercept)
    system = ridge_system(
        samples.flat,
        Y,
        samples.weight,
        fit_intercept=fit_intercept,
        loo=isinstance(epsilon, str),
    )
    penalty = choose_epsilon(system, epsilon, samples.weight)
    everyone = (samples.weight > 0)[None, :]
    coef, _ = system.coefs_and_means(everyone, as_array([penalty], samples.X))
    xp = array_namespace(coef)
    coef = coef[0, 0, ...] * unit[:, None]
    return penalty, xp.reshape(coef, (-1, *samples.shape))


def _in_units(samples: Samples, fit_intercept: bool) -> tuple[Array, Array]:
    """Return responses (n, K) less their means, and units (K,) they are divided by.

    A single response has a unit of one.
    """
    xp, weight, Y = array_namespace(samples.weight), samples.weight, samples.Y
    share = xp.astype(weight / xp.sum(weight), Y.dtype, copy=False)
    Y = Y - xp.mean(Y, axis=0) if fit_intercept else Y
    mean = share @ Y if fit_intercept else 0.0
    unit = xp.sqrt(share @ (Y - mean) ** 2)
    unit = xp.where((unit > 0) & (Y.shape[1] > 1), unit, 1.0)
    return (
        xp.astype(Y / unit, weight.dtype, copy=False),
        xp.astype(unit, weight.dtype, copy=False),
    )


def _intercepts(samples: Samples, coef: Array, fit_intercept: bool) -> Array:
    """Return the weighted means of Y − ⟨coef, x⟩ for coefficients (K, …), (K,)."""
    xp, Y = array_namespace(coef), samples.Y
    rows = xp.reshape(coef, (coef.shape[0], -1))
    if not fit_intercept:
        return 0.0 * Y[0, :]
    share = Centring(samples.weight, True).share[0, :]
    mean = xp.sum((share @ samples.flat) * rows, axis=1)
    y_mean = xp.astype(share, Y.dtype, copy=False) @ Y
    return y_mean - xp.astype(mean, Y.dtype, copy=False)


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
    groups: beside a near-copy of itself a sample asks for hardly any penalty. For
    several responses, Y of shape (n, K), one penalty is chosen.

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
    searched = _search_penalties(X, Y, splits, bool(intercept))
    model.set_params(**dict.fromkeys(names, searched.params["epsilon"]))
    if isinstance(model, TensorRidge):
        model._remember(searched)
    return model


def _search_penalties(
    X: Any, Y: Any, splits: Sequence[Split], fit_intercept: bool
) -> Searched:
    """Score penalties on folds; one preparation of the samples serves all folds."""
    samples, responses, system = _prepare(X, Y, fit_intercept)
    xp = array_namespace(responses)
    # The mean eigenvalue is zero if all samples are equal: any penalty will do.
    scale = system.mean_eigenvalue() or 1.0
    # The largest first: of equally good ones it is taken.
    penalties = penalty_ladder(scale, responses, 3)[::-1]

    def fit_all(rows: np.ndarray) -> LinearTrials:
        subset = as_array(np.isin(np.arange(len(Y)), rows), responses, dtype=xp.bool)
        pilots, means = system.coefs_and_means(
            subset[None, :], as_array(penalties, responses)
        )
        share = xp.where(subset, samples.weight, 0.0)
        y_mean = float(fit_intercept) * (share @ responses) / xp.sum(share)
        offset = xp.sum(pilots[0, :, :, None, :] * means[0, ...], axis=(-2, -1))
        coef = xp.reshape(pilots, (*pilots.shape[1:3], *samples.shape))
        return LinearTrials(coef, y_mean - offset)

    return search(
        TensorRidge(),
        samples,
        splits,
        {"epsilon": penalties},
        fit_all,
        scoring=None,
        truth=to_numpy(responses),
    )


def _prepare(X: Any, Y: Any, fit_intercept: bool) -> tuple[Samples, Array, RidgeSystem]:
    """Return samples, responses (n, K) and the ridge system of both."""
    columns = Y.reshape(len(Y), -1)
    samples = check_samples(TensorRidge(), X, columns[:, 0])
    responses = as_array(columns, samples.X, dtype=samples.X.dtype)
    system = ridge_system(
        samples.flat, responses, samples.weight, fit_intercept=fit_intercept
    )
    return samples, responses, system


def loo_score(model: TensorRidge, X: Any, y: Any) -> float:
    """Return R² of a ridge's predictions for each sample, fitted to all others.

    Of several responses the mean.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> round(loo_score(TensorRidge().fit(X, X[:, 0]), X, X[:, 0]), 3)
    1.0
    """
    columns = to_numpy(y).reshape(len(y), -1)
    scale = columns.std(axis=0)
    varies = scale > 0
    if not varies.any():
        return 0.0
    # Each in units of its variance; those that do not vary count as zero.
    columns = columns[:, varies] / scale[varies]
    samples, responses, system = _prepare(X, columns, bool(model.fit_intercept))
    losses = system.loo_losses(as_array([model.epsilon_], responses))
    (error,) = to_python(mean_loss(losses, samples.weight))
    return (int(varies.sum()) - error) / len(scale)
