"""What the convex tensor regressions share: fitting, and choosing the weights.

They differ in their low-rank norms only, which arrive here as arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer

from sltr._array import Array, array_namespace, as_array, to_numpy, to_python
from sltr.design import inner
from sltr.models.selection import Split, best_index, cv_table, fold_scores
from sltr.solvers.admm import admm_path
from sltr.solvers.least_squares import LeastSquares, rotate
from sltr.solvers.low_rank import TensorNorm, zeroing_weight
from sltr.tensor import flatten
from sltr.validation import Samples, centre, check_nonnegative

__all__ = [
    "Fits",
    "Weights",
    "convex_fits",
    "select_weights",
    "set_linear",
    "store_fit",
    "weight_grids",
]

# Of the weights that make the coefficient zero: above a half little is left of
# it, and below a thousandth a penalty hardly acts.
FRACTIONS = (0.5, 1e-3)


@dataclass(frozen=True)
class Weights:
    """Candidate weights: every pair of `low` and `sparse`, one `ridge`."""

    low: tuple[float, ...]
    sparse: tuple[float, ...]
    ridge: float = 0.0

    @classmethod
    def checked(cls, low: Any, sparse: Any, ridge: Any) -> Weights:
        """Return clean candidates, or say which of the values cannot be used."""
        return cls(
            _checked(low, "alpha_low"),
            _checked(sparse, "alpha_sparse"),
            check_nonnegative(ridge, "alpha_ridge"),
        )

    @property
    def params(self) -> dict[str, list[float]]:
        """The candidates as columns, in the order in which they are solved."""
        pairs = [(low, sparse) for low in self.low for sparse in self.sparse]
        return {
            "alpha_low": [low for low, _ in pairs],
            "alpha_sparse": [sparse for _, sparse in pairs],
        }


def _checked(values: Any, name: str) -> tuple[float, ...]:
    values = [values] if isinstance(values, str) or np.ndim(values) == 0 else values
    clean = tuple(check_nonnegative(value, name) for value in values)
    if not clean:
        msg = f"No values of {name} were given; expected at least one."
        raise ValueError(msg)
    return clean


@dataclass(frozen=True, eq=False)
class Fits:
    """Fitted candidates: C pairs of weights, K responses.

    Attributes
    ----------
    coef : array of shape (C, K, p1, …, pM)
    intercept : array of shape (C, K)
    n_iter, gap : arrays of shape (C, K)
    converged : bool
    """

    coef: Array
    intercept: Array
    n_iter: Array
    gap: Array
    converged: bool


def convex_fits(
    samples: Samples,
    targets: Array,
    norms: Sequence[TensorNorm],
    weights: Weights,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Fits:
    """Fit every candidate to every response, with one factorisation.

    Parameters
    ----------
    samples : Samples
    targets : array of shape (K, n)
    norms : sequence of TensorNorm
    weights : Weights
    """
    check_nonnegative(tol, "tol")
    if not isinstance(max_iter, int | np.integer) or max_iter < 1:
        msg = f"max_iter={max_iter!r} was given; expected an integer of at least 1."
        raise ValueError(msg)
    problem, X_mean, target_mean = _prepare(samples, targets, fit_intercept)
    path = admm_path(
        problem,
        norms,
        samples.shape,
        weights.low,
        weights.sparse,
        weights.ridge,
        tol=tol,
        max_iter=int(max_iter),
    )
    xp = array_namespace(path.x)
    pairs = (-1, targets.shape[0])
    coef = xp.reshape(path.x, (*pairs, *samples.shape))
    shifts = xp.sum(xp.reshape(coef, (*pairs, X_mean.shape[0])) * X_mean, axis=-1)
    return Fits(
        coef,
        target_mean - shifts,
        xp.reshape(path.n_iter, pairs),
        xp.reshape(path.residual, pairs),
        bool(xp.all(path.converged)),
    )


def _prepare(
    samples: Samples, targets: Array, fit_intercept: bool
) -> tuple[LeastSquares, Array, Array]:
    """Return the factorised problem, the mean sample and the mean responses."""
    xp = array_namespace(targets)
    weight = samples.weight
    data = centre(Samples(samples.X, targets[0, :], weight), fit_intercept)
    target_mean = (targets @ weight) / xp.sum(weight) * float(bool(fit_intercept))
    centred = xp.sqrt(weight) * (targets - target_mean[:, None])
    return rotate(data.A, centred), data.X_mean, target_mean


def weight_grids(
    samples: Samples,
    targets: Array,
    norms: Sequence[TensorNorm],
    fit_intercept: bool,
    n_alphas: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return default grids of (low, sparse) weights, strongest first.

    They are fractions of the weights at which either penalty alone makes the
    coefficient zero, equally spaced on a log scale, and zero: either penalty alone
    is among the candidates.
    """
    if not isinstance(n_alphas, int | np.integer) or n_alphas < 2:
        msg = f"n_alphas={n_alphas!r} was given; expected an integer of at least 2."
        raise ValueError(msg)
    xp = array_namespace(targets)
    data = centre(Samples(samples.X, targets[0, :], samples.weight), fit_intercept)
    # A is centred, so the mean of the responses drops out of Aᵀy.
    pull = (xp.sqrt(samples.weight) * targets) @ data.A
    low = zeroing_weight(norms, xp.reshape(pull, (-1, *samples.shape)))
    fractions = np.append(np.geomspace(*FRACTIONS, n_alphas - 1), 0.0)
    return (
        float(xp.max(low)) * fractions,
        float(xp.max(xp.abs(pull))) * fractions,
    )


def select_weights(
    model: Any,
    samples: Samples,
    targets: Array,
    truth: np.ndarray,
    folds: Sequence[Split],
    norms: Sequence[TensorNorm],
    *,
    weighted: bool,
) -> None:
    """Choose the weights of a CV estimator by its own parameters, and fit it.

    Parameters
    ----------
    model : estimator
        Its parameters say what to try; its fitted attributes are set.
    samples, targets, norms
        As for `convex_fits`.
    truth : array of shape (n,)
        What predictions are scored against: responses, labels or class numbers.
    folds : sequence of (train rows, test rows)
    weighted : bool
        Whether scores use the samples' weights.
    """
    low, sparse = model.alphas_low, model.alphas_sparse
    if low is None or sparse is None:
        grids = weight_grids(
            samples, targets, norms, model.fit_intercept, model.n_alphas
        )
        low, sparse = (
            default if given is None else given
            for default, given in zip(grids, (low, sparse), strict=True)
        )
    weights = Weights.checked(low, sparse, model.alpha_ridge)
    results = Parallel(n_jobs=model.n_jobs)(
        delayed(_score_fold)(
            model, samples, targets, truth, fold, norms, weights, weighted
        )
        for fold in folds
    )
    n_open = sum(not converged for _, converged in results)
    if n_open:
        _warn(f"Paths of {n_open} of {len(folds)} folds", model.tol, model.max_iter)
    scores = np.stack([row for row, _ in results])
    best = best_index(scores)
    params = weights.params
    model.alpha_low_, model.alpha_sparse_ = (
        params[name][best] for name in ("alpha_low", "alpha_sparse")
    )
    model.best_score_ = float(scores[:, best].mean())
    model.cv_results_ = cv_table(params, scores)
    chosen = Weights((model.alpha_low_,), (model.alpha_sparse_,), weights.ridge)
    store_fit(model, _fits_of(model, samples, targets, norms, chosen))


def _fits_of(model, samples, targets, norms, weights) -> Fits:
    return convex_fits(
        samples,
        targets,
        norms,
        weights,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
    )


def _score_fold(
    model, samples, targets, truth, fold, norms, weights, weighted
) -> tuple[np.ndarray, bool]:
    """Return the scores of all candidates on one fold, and whether all converged."""
    train, test = fold
    held = _rows(samples, test)
    fits = _fits_of(
        model, _rows(samples, train), _take(targets, train, axis=1), norms, weights
    )
    default = "accuracy" if is_classifier(model) else "r2"
    scoring = model.scoring
    if targets.shape[0] > 1:  # only two classes are scored for all candidates at once
        scoring = get_scorer(scoring or default)
    scores = fold_scores(
        scoring,
        truth[test],
        to_numpy(inner(held.flat, flatten(fits.coef[:, 0, ...])))
        + to_numpy(fits.intercept[:, 0]),
        weight=to_numpy(held.weight) if weighted else None,
        model=lambda g: _candidate(model, fits, g),
        X=held.X,
        default=default,
    )
    return scores, fits.converged


def _candidate(model: Any, fits: Fits, g: int) -> Any:
    """Return candidate g as a fitted estimator."""
    candidate = clone(model)
    candidate.n_features_in_, candidate.shape_in_ = (
        model.n_features_in_,
        model.shape_in_,
    )
    if is_classifier(model):
        named = not callable(model.scoring)
        candidate.classes_ = np.arange(len(model.classes_)) if named else model.classes_
    set_linear(candidate, fits.coef[g, ...], fits.intercept[g, ...])
    return candidate


def store_fit(model: Any, fits: Fits) -> None:
    """Set the fitted attributes of `model` from the only candidate of `fits`."""
    coef, intercept = fits.coef[0, ...], fits.intercept[0, ...]
    set_linear(model, coef, intercept)
    model.n_iter_ = max(to_python(fits.n_iter[0, ...]))
    model.dual_gap_ = max(to_python(fits.gap[0, ...]))
    if not fits.converged:
        _warn(f"The fit (gap {model.dual_gap_:.1e})", model.tol, model.max_iter)


def set_linear(model: Any, coef: Array, intercept: Array) -> None:
    """Set coefficient and intercept; those of a single response lose their axis.

    A classifier's scores, fitted to 0 and 1, are moved to change sign at ½.
    """
    if is_classifier(model):
        intercept = intercept - 0.5
    single = coef.shape[0] == 1
    model.coef_ = coef[0, ...] if single else coef
    model.intercept_ = float(intercept[0]) if single else intercept


def _warn(what: str, tol: float, max_iter: int) -> None:
    msg = (
        f"{what} did not reach a duality gap of tol={tol} (relative to ½‖y‖²) in "
        f"max_iter={max_iter} iterations. Increase max_iter or tol, or penalise more."
    )
    warnings.warn(msg, ConvergenceWarning, stacklevel=4)


def _rows(samples: Samples, rows: np.ndarray) -> Samples:
    """Return some of the samples; their responses travel apart, as targets."""
    X, weight = _take(samples.X, rows), _take(samples.weight, rows)
    return Samples(X, weight, weight)


def _take(x: Array, rows: np.ndarray, axis: int = 0) -> Array:
    xp = array_namespace(x)
    return xp.take(x, as_array(rows, x, dtype=xp.int64), axis=axis)
