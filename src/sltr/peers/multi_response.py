"""Methods for responses of any shape: what SLTR's shared tensor is compared with.

Reduced-rank ridge regression, the multi-task Lasso of scikit-learn, and CP regression
of tensors on tensors. All see responses in units of their standard deviations, and
choose by the mean R² of all responses on folds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import MultiTaskLasso

from sltr.arrays import Array, as_array, to_numpy
from sltr.estimators.fitted import (
    TensorResponses,
    tensor_predictions,
    unchanged_on_failure,
)
from sltr.parameters import (
    check_count,
    check_nonnegative,
    check_relative,
    check_sequence,
    warn_caller,
)
from sltr.peers.search import search
from sltr.refine.factors import CP, khatri_rao, visiting_order
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.folds import weighted_splits

# Penalties of ridge, relative to the mean eigenvalue of the samples' Gram matrix.
RIDGES = tuple(10.0 ** (k / 2) for k in range(-6, 9))

# Predictions (G, n, K) of all candidates for samples (n, P).
_Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class _Centred:
    """Samples (n, P) and responses (n, K) without their means; responses in units."""

    A: np.ndarray
    Y: np.ndarray
    X_mean: np.ndarray  # (P,)
    Y_mean: np.ndarray  # (K,)
    unit: np.ndarray  # (K,)
    shape: tuple[int, ...]
    shape_out: tuple[int, ...]

    @staticmethod
    def of(samples: Samples, fit_intercept: bool, shape_out: tuple[int, ...]) -> Any:
        """Prepare the samples of a fit, in double precision."""
        X = to_numpy(samples.flat).astype(float)
        Y = to_numpy(samples.Y).astype(float)
        X_mean, Y_mean = X.mean(axis=0), Y.mean(axis=0)
        if not fit_intercept:
            X_mean, Y_mean = 0.0 * X_mean, 0.0 * Y_mean
        rest = Y - Y_mean
        unit = np.sqrt((rest**2).mean(axis=0))
        unit[unit <= 1e-12 * np.abs(Y).max(axis=0, initial=1.0)] = 1.0
        shape = samples.shape
        return _Centred(X - X_mean, rest / unit, X_mean, Y_mean, unit, shape, shape_out)

    @property
    def mean_eigenvalue(self) -> float:
        """Of the samples' Gram matrix; one if all samples are equal."""
        return float((self.A**2).sum()) / min(self.A.shape) or 1.0

    def predictor(self, coefs: Sequence[np.ndarray]) -> _Predict:
        """Return what predicts by coefficients (P, K) that fit `A` and `Y`."""
        return lambda new: np.stack(
            [self.Y_mean + self.unit * ((new - self.X_mean) @ coef) for coef in coefs]
        )


@dataclass(frozen=True, eq=False)
class _Trials:
    """Candidates that predict all responses at once."""

    predict: _Predict
    converged: bool = True
    _known: dict[bytes, np.ndarray] = field(default_factory=dict)

    def predictions(
        self, held_out: Samples, rows: np.ndarray, response: int
    ) -> np.ndarray:
        """Return predictions (n, G) of one response; all are made with the first."""
        key = np.asarray(rows).tobytes()
        if key not in self._known:
            self._known[key] = self.predict(to_numpy(held_out.flat).astype(float))
        return self._known[key][:, :, response].T

    def estimator(self, g: int, model: Any, rows: np.ndarray) -> Any:
        """Refuse: a scorer that needs a model cannot be given."""
        msg = f"Candidate {g} was asked for as a model; expected R² of predictions."
        raise TypeError(msg)


class _MultiResponseCV(TensorResponses):
    """What these methods share: settings, folds, units, the search, predictions."""

    cv: Any
    fit_intercept: bool
    n_jobs: int | None

    @abstractmethod
    def _candidates(self, samples: Samples) -> dict[str, list]:
        """Return each setting of all candidates, in order."""

    @abstractmethod
    def _trials(self, data: _Centred, settings: dict[str, list]) -> _Predict:
        """Fit all candidates; return what predicts (G, n, K) for samples (n, P)."""

    @abstractmethod
    def _best(self, data: _Centred, settings: dict[str, list]) -> np.ndarray:
        """Return the coefficients (P, K) of the last of some candidates."""

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Fit to samples X of shape (n, p1, …, pM) and responses y (n, q1, …, qQ)."""
        samples = check_samples(self, X, y, tensors=True)
        settings, Y = self._candidates(samples), to_numpy(samples.Y)

        def fit_all(rows: np.ndarray) -> _Trials:
            return _Trials(self._trials(self._centred(samples.take(rows)), settings))

        found = search(
            self,
            samples,
            weighted_splits(self.cv, Y, groups=groups),
            settings,
            fit_all,
            scoring=None,
            truth=Y,
            n_jobs=self.n_jobs,
        )
        self.best_score_, self.best_index_ = found.best_score, found.index
        self.cv_results_, self.scored_by_ = found.table, found.scored_by
        for name, value in found.params.items():
            setattr(self, f"{name}_", value)
        data = self._centred(samples)
        upto = {name: values[: found.index + 1] for name, values in settings.items()}
        coef = self._best(data, upto) * data.unit
        intercept = data.Y_mean - data.X_mean @ coef
        shape = (*samples.shape, *self.shape_out_)
        self.coef_ = as_array(coef.reshape(shape), samples.X)
        if not self.shape_out_:
            self.intercept_ = float(intercept[0])
        else:
            self.intercept_ = as_array(intercept.reshape(self.shape_out_), samples.X)
        return self

    def _centred(self, samples: Samples) -> _Centred:
        return _Centred.of(samples, bool(self.fit_intercept), self.shape_out_)

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,), or (n, q1, …, qQ)."""
        return tensor_predictions(self, X)


def _falling(values: Any, name: str) -> list[float]:
    """Return given numbers, each once, the largest first."""
    given = check_sequence(values, name)
    return sorted({check_relative(value, name) for value in given}, reverse=True)


def _rising_ranks(ranks: Sequence[int], most: int) -> list[int]:
    """Return given ranks, each once, as far as there can be."""
    given = check_sequence(ranks, "ranks")
    return sorted({min(check_count(rank, "ranks"), most) for rank in given})


@dataclass(eq=False, repr=False)
class ReducedRankRegressorCV(_MultiResponseCV, BaseEstimator):
    """Reduced-rank ridge regression, penalty and rank chosen by cross-validation.

    Solves min_B ‖Y − A·B‖² + ε‖B‖² over matrices B (P, K) of rank at most r: the ridge
    estimate projected on the r leading eigenvectors of Yᵀ·Ŷ, Ŷ its fitted values.
    Modes of samples and responses do not count.

    Parameters
    ----------
    ranks : sequence of int, optional
        By default 1 to 10, as far as there are responses.
    epsilons : sequence of float
        Penalties, relative to the mean eigenvalue of the samples' Gram matrix.
    cv : int, splitter or iterable
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Shape to fold flat rows into.
    n_jobs : int, optional

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM, q1, …, qQ)
    intercept_ : float, or array of shape (q1, …, qQ)
    rank_, epsilon_ : the chosen ones
    best_score_, best_index_, cv_results_, shape_in_, shape_out_, n_features_in_

    References
    ----------
    Izenman. Reduced-rank regression for the multivariate linear model. Journal of
    Multivariate Analysis 1975. Mukherjee, Zhu. Reduced rank ridge regression and its
    kernel extensions. Statistical Analysis and Data Mining 2011.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4, 3))
    >>> Y = X[:, 0, :1] * [1.0, -2.0, 3.0] + 0.1 * rng.normal(size=(60, 3))
    >>> model = ReducedRankRegressorCV().fit(X, Y)
    >>> model.rank_, model.coef_.shape
    (1, (4, 3, 3))
    """

    ranks: Sequence[int] | None = None
    _: KW_ONLY
    epsilons: Sequence[float] = RIDGES
    cv: Any = 5
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    n_jobs: int | None = None

    def _candidates(self, samples: Samples) -> dict[str, list]:
        asked = range(1, 11) if self.ranks is None else self.ranks
        ranks = _rising_ranks(asked, samples.Y.shape[1])
        pairs = list(product(_falling(self.epsilons, "epsilons"), ranks))
        return {"epsilon": [e for e, _ in pairs], "rank": [r for _, r in pairs]}

    def _trials(self, data: _Centred, settings: dict[str, list]) -> _Predict:
        fits = {e: _reduced_rank(data, e) for e in dict.fromkeys(settings["epsilon"])}

        def predict(new: np.ndarray) -> np.ndarray:
            inner = {e: (new - data.X_mean) @ coef for e, (coef, _) in fits.items()}
            found = []
            for e, rank in zip(settings["epsilon"], settings["rank"], strict=True):
                V = fits[e][1][:, :rank]
                found.append(data.Y_mean + data.unit * (inner[e] @ V @ V.T))
            return np.stack(found)

        return predict

    def _best(self, data: _Centred, settings: dict[str, list]) -> np.ndarray:
        coef, vectors = _reduced_rank(data, settings["epsilon"][-1])
        V = vectors[:, : settings["rank"][-1]]
        return coef @ V @ V.T


def _reduced_rank(data: _Centred, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ridge estimate (P, K) and the directions (K, K) to project it on."""
    A, Y, penalty = data.A, data.Y, epsilon * data.mean_eigenvalue
    if A.shape[0] <= A.shape[1]:
        gram = A @ A.T + penalty * np.eye(len(A))
        coef = A.T @ np.linalg.lstsq(gram, Y, rcond=None)[0]
    else:
        normal = A.T @ A + penalty * np.eye(A.shape[1])
        coef = np.linalg.lstsq(normal, A.T @ Y, rcond=None)[0]
    second = Y.T @ (A @ coef)
    _, vectors = np.linalg.eigh((second + second.T) / 2)
    return coef, vectors[:, ::-1]


@dataclass(eq=False, repr=False)
class TensorMultiTaskLassoCV(_MultiResponseCV, BaseEstimator):
    """scikit-learn's multi-task Lasso on the tensor's entries, tuned.

    Solves min_B ‖Y − A·B‖² / 2n + α Σ_j ‖B_j‖₂ over matrices B (P, K): an entry of the
    samples is used for all responses, or for none.

    Parameters
    ----------
    alphas : sequence of float, optional
        By default `n_alphas` of them, from the smallest that leaves no entry down to
        a hundredth.
    n_alphas : int
    tol : float
    max_iter : int
    cv, fit_intercept, feature_shape, n_jobs
        As for `ReducedRankRegressorCV`.

    Attributes
    ----------
    coef_, intercept_, best_score_, best_index_, cv_results_, shape_in_, shape_out_
        As for `ReducedRankRegressorCV`.
    alpha_ : float
    n_iter_ : int

    References
    ----------
    Obozinski, Taskar, Jordan. Joint covariate selection and joint subspace selection
    for multiple classification problems. Statistics and Computing 2010.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4, 3))
    >>> Y = X[:, 0, :1] * [1.0, -2.0, 3.0] + 0.1 * rng.normal(size=(60, 3))
    >>> model = TensorMultiTaskLassoCV().fit(X, Y)
    >>> model.coef_.shape, bool((model.coef_[2] == 0).any())
    ((4, 3, 3), True)
    """

    alphas: Sequence[float] | None = None
    _: KW_ONLY
    n_alphas: int = 20
    cv: Any = 5
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-3
    max_iter: int = 1000
    n_jobs: int | None = None

    def _candidates(self, samples: Samples) -> dict[str, list]:
        if self.alphas is not None:
            return {"alpha": _falling(self.alphas, "alphas")}
        n_alphas = check_count(self.n_alphas, "n_alphas", largest=10_000)
        data = self._centred(samples)
        rows = np.sqrt(((data.A.T @ data.Y) ** 2).sum(axis=1))
        largest = float(rows.max()) / len(data.A) or 1.0
        return {"alpha": np.geomspace(largest, 0.01 * largest, n_alphas).tolist()}

    def _trials(self, data: _Centred, settings: dict[str, list]) -> _Predict:
        return data.predictor(self._path(data, settings["alpha"])[0])

    def _best(self, data: _Centred, settings: dict[str, list]) -> np.ndarray:
        coefs, self.n_iter_ = self._path(data, settings["alpha"])
        return coefs[-1]

    def _path(
        self, data: _Centred, alphas: Sequence[float]
    ) -> tuple[list[np.ndarray], int]:
        """Return coefficients (P, K) for falling weights, each from the one before."""
        solver = MultiTaskLasso(
            fit_intercept=False,
            tol=check_nonnegative(self.tol, "tol"),
            max_iter=check_count(self.max_iter, "max_iter"),
            warm_start=True,
        )
        A, Y, found = np.asfortranarray(data.A), np.asfortranarray(data.Y), []
        for alpha in alphas:
            solver.set_params(alpha=alpha).fit(A, Y)
            found.append(solver.coef_.T.copy())
        return found, int(np.max(solver.n_iter_))


@dataclass(eq=False, repr=False)
class TensorOnTensorRegressorCV(_MultiResponseCV, BaseEstimator):
    """Regression of tensors on tensors by a CP coefficient, tuned.

    Solves min_B ‖Y − ⟨A, B⟩‖² + α·s·‖B‖² over tensors B (p1, …, pM, q1, …, qQ) of CP
    rank at most r, by alternating least squares from the leading terms of the ridge
    estimate; s is the samples' mean energy, ‖A‖² / P.

    Parameters
    ----------
    ranks : sequence of int
    alphas : sequence of float
        Ridge penalties. All pairs with ranks are tried.
    tol : float
        Sweeps end when the objective falls by less than this share of it.
    max_iter : int
        Largest number of sweeps.
    cv, fit_intercept, feature_shape, n_jobs
        As for `ReducedRankRegressorCV`.

    Attributes
    ----------
    coef_, intercept_, best_score_, best_index_, cv_results_, shape_in_, shape_out_
        As for `ReducedRankRegressorCV`.
    rank_, alpha_ : the chosen ones
    n_iter_ : int

    References
    ----------
    Lock. Tensor-on-tensor regression. Journal of Computational and Graphical
    Statistics 2018.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4, 3))
    >>> Y = X[:, 0, :1] * [1.0, -2.0, 3.0] + 0.1 * rng.normal(size=(60, 3))
    >>> model = TensorOnTensorRegressorCV(ranks=(1, 2)).fit(X, Y)
    >>> model.rank_, bool(model.score(X, Y) > 0.9)
    (1, True)
    """

    ranks: Sequence[int] = (1, 2, 3, 4)
    _: KW_ONLY
    alphas: Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0)
    cv: Any = 5
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    n_jobs: int | None = None

    def _candidates(self, samples: Samples) -> dict[str, list]:
        most = CP.largest_rank((*samples.shape, *self.shape_out_))
        ranks = _rising_ranks(check_sequence(self.ranks, "ranks"), most)
        pairs = list(product(ranks, _falling(self.alphas, "alphas")))
        return {"rank": [r for r, _ in pairs], "alpha": [a for _, a in pairs]}

    def _trials(self, data: _Centred, settings: dict[str, list]) -> _Predict:
        pairs = zip(settings["rank"], settings["alpha"], strict=True)
        return data.predictor([self._terms(data, *pair).coef for pair in pairs])

    def _best(self, data: _Centred, settings: dict[str, list]) -> np.ndarray:
        terms = self._terms(data, settings["rank"][-1], settings["alpha"][-1])
        self.n_iter_ = terms.n_iter
        if not terms.converged:
            warn_caller(
                f"Alternating least squares stopped after {terms.n_iter} sweeps; "
                f"tol={self.tol:g} was not reached. Increase max_iter or tol.",
                UserWarning,
            )
        return terms.coef

    def _terms(self, data: _Centred, rank: int, alpha: float) -> Terms:
        return tensor_on_tensor(
            data.A.reshape(-1, *data.shape),
            data.Y.reshape(-1, *data.shape_out),
            rank,
            alpha * (float((data.A**2).mean()) * len(data.A) or 1.0),
            tol=check_nonnegative(self.tol, "tol"),
            max_iter=check_count(self.max_iter, "max_iter"),
        )


@dataclass(frozen=True, eq=False)
class Terms:
    """A sum of outer products, as `tensor_on_tensor` finds it."""

    factors: list[np.ndarray]  # (p_m, r), then (q_k, r)
    coef: np.ndarray  # (P, K)
    n_iter: int
    converged: bool


def tensor_on_tensor(
    X: np.ndarray,
    Y: np.ndarray,
    rank: int,
    penalty: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 200,
) -> Terms:
    """Minimise ‖Y − ⟨X, B⟩‖² + penalty·‖B‖² over B of some CP rank.

    X is (n, p1, …, pM) and Y (n, q1, …, qQ). Every block solves its own ridge problem
    exactly, so the objective never rises.
    """
    n, shape, out = len(X), X.shape[1:], Y.shape[1:]
    rows, columns = X.reshape(n, -1), Y.reshape(n, -1)
    # (n, p_m, P / p_m) for each mode, so that a block sees one product.
    unfolded = [
        np.moveaxis(X, m + 1, 1).reshape(n, size, -1) for m, size in enumerate(shape)
    ]
    order = visiting_order(X, np.ones(n))
    visits = (*order, *range(len(shape), len(shape) + len(out)))
    factors = _start(rows, columns, (*shape, *out), rank, penalty, visits)
    total = float((columns**2).sum())
    last, n_iter, converged = np.inf, 0, False
    while n_iter < max_iter and not converged:
        for mode in order:
            seen = unfolded[mode] @ _columns(_others(factors[: len(shape)], mode), rank)
            outputs = _columns(factors[len(shape) :], rank)
            factors[mode] = _input_block(
                seen, columns @ outputs, outputs.T @ outputs, factors, mode, penalty
            )
        seen = rows @ _columns(factors[: len(shape)], rank)  # (n, r)
        for k in range(len(out)):
            mode = len(shape) + k
            others = _columns(_others(factors[len(shape) :], k), rank)  # (K / q_k, r)
            target = np.moveaxis(Y, k + 1, 1).reshape(n, out[k], -1)
            rhs = np.einsum("nqk,nr,kr->qr", target, seen, others, optimize=True)
            normal = (seen.T @ seen) * (others.T @ others)
            normal = normal + penalty * _grams(factors, mode)
            factors[mode] = _solved(normal, rhs.T).T
        factors = _balanced(factors)
        seen = rows @ _columns(factors[: len(shape)], rank)
        outputs = _columns(factors[len(shape) :], rank)
        fitted = seen @ outputs.T
        squares = float(_grams(factors, None).sum())
        value = float(((columns - fitted) ** 2).sum()) + penalty * squares
        n_iter += 1
        converged = last - value <= tol * max(value, 1e-12 * total)
        last = value
    inputs = _columns(factors[: len(shape)], rank)
    outputs = _columns(factors[len(shape) :], rank)
    return Terms(factors, inputs @ outputs.T, n_iter, converged)


def _start(
    rows: np.ndarray,
    columns: np.ndarray,
    shape: tuple,
    rank: int,
    penalty: float,
    order: Sequence[int],
) -> list[np.ndarray]:
    """Return factors of the leading terms of a ridge estimate."""
    scale = float((rows**2).sum()) / min(rows.shape) or 1.0
    kernel = rows @ rows.T + (penalty + 0.1 * scale) * np.eye(len(rows))
    pilot = rows.T @ np.linalg.solve(kernel, columns)
    terms = CP.spectral(pilot.reshape(1, *shape), rank, order)
    size = float(np.linalg.norm(pilot)) or 1.0
    return [f[0] * size ** (1.0 / len(shape)) for f in terms.factors]


def _input_block(
    seen: np.ndarray,
    target: np.ndarray,
    inner: np.ndarray,
    factors: list[np.ndarray],
    mode: int,
    penalty: float,
) -> np.ndarray:
    """Solve for the factor (p_m, r) of a mode of the samples.

    Samples are `seen` through the other modes, (n, p_m, r); responses as the `target`
    (n, r) of each term; `inner` are the products of the terms' responses.
    """
    n, size, rank = seen.shape
    design = np.moveaxis(seen, 2, 1).reshape(n, rank * size)
    normal = (design.T @ design).reshape(rank, size, rank, size)
    normal = normal * inner[:, None, :, None]
    normal = normal + penalty * np.einsum(
        "rs,ab->rasb", _grams(factors, mode), np.eye(size)
    )
    rhs = np.einsum("npr,nr->rp", seen, target).reshape(-1, 1)
    found = _solved(normal.reshape(rank * size, -1), rhs)
    return found.reshape(rank, size).T


def _solved(normal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve normal equations; terms that are parallel leave them singular."""
    shift = 1e-12 * float(np.trace(normal)) / len(normal) or 1.0
    return np.linalg.solve(normal + shift * np.eye(len(normal)), rhs)


def _grams(factors: Sequence[np.ndarray], skipped: int | None) -> np.ndarray:
    """Return the products (r, r) of the terms over all modes but one."""
    ones = np.ones((factors[0].shape[1],) * 2)
    kept = [f.T @ f for m, f in enumerate(factors) if m != skipped]
    return np.prod([ones, *kept], axis=0)


def _others(factors: Sequence[np.ndarray], skipped: int) -> list[np.ndarray]:
    return [f for m, f in enumerate(factors) if m != skipped]


def _columns(factors: Sequence[np.ndarray], rank: int) -> np.ndarray:
    """Return the terms over some modes, (∏ p, r); ones for no mode."""
    return khatri_rao([f[None] for f in factors], np.ones((1, 1, rank)))[0]


def _balanced(factors: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Give the factors of each term equal norms, so that none leaves the range."""
    norms = np.array([np.linalg.norm(f, axis=0) for f in factors])
    alive = (norms > 0).all(axis=0)
    logs = np.log(np.where(alive, norms, 1.0))
    scale = np.exp(logs.mean(axis=0) - logs)
    return [f * s for f, s in zip(factors, scale, strict=True)]
