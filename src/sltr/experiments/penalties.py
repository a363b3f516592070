"""Penalties of ridge chosen on folds, where leave-one-out would part groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sltr._array import Array, array_namespace, as_array, to_numpy, to_python
from sltr.estimate import Settings
from sltr.models.elementary import TensorRidge
from sltr.models.folds import Fold, Task, with_pilots
from sltr.models.scoring import default_metric, fold_scores
from sltr.models.selection import Split, best_index, cv_table
from sltr.ridge import ridge_system
from sltr.validation import check_samples

__all__ = ["loo_parameters", "loo_score", "set_penalties"]

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
    folds = [Fold.of(task, train, test) for train, test in splits]
    found = []
    for start in range(0, len(penalties), CHUNK):
        known, pilots = with_pilots(task, folds, penalties[start : start + CHUNK])
        found.append(list(_fold_scores(task, known, pilots)))
    return penalties, np.concatenate(found, axis=1)


def _fold_scores(
    task: Task, folds: Sequence[Fold], pilots: Array
) -> Iterator[np.ndarray]:
    """Yield each fold's scores of its pilots (E, K, P), the mean over responses."""
    xp = array_namespace(pilots)
    Y, metric = to_numpy(task.Y), default_metric(fold.rows for fold in folds)
    for f, fold in enumerate(folds):
        n_penalties, n_responses, n_entries = pilots[f, ...].shape
        flat = xp.reshape(pilots[f, ...], (n_penalties * n_responses, n_entries))
        values = fold.centred_predictions(task, flat)
        values = values.reshape(-1, n_penalties, n_responses) + fold.y_mean
        scores = [
            fold_scores(None, Y[fold.rows, k], values[:, :, k], default=metric)
            for k in range(n_responses)
        ]
        yield np.mean(scores, axis=0)
