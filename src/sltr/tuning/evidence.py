"""Whether anything was found: the answer against the null model.

Two tests say yes, and either is enough, if the held-out error is below the null
model's as well.

- The correlation of the answer's held-out predictions with the responses is far from
  zero. It sees what refits find. But the answer is the best of many, so that the bar is
  high, and the same for all samples: on smooth ones, or few, it is higher than it needs
  to be.
  Of several responses, it is the mean whose weights all of them chose together: each
  with weights of its own, they agree with what they chose by, the more so the more
  there are.
- The ridge pilot is linear in the responses. Under permuted responses it costs next to
  nothing, and so its test is exact for these samples. Two things count: how well it
  predicts samples that were left out, and how much of it is one rank-one term. In
  noise they have nothing to do with each other, so that their sum sees weak signals of
  low rank better than either. Each sample is left out by itself, which sees more than a
  few folds do; where samples come in groups, the folds that keep these whole are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.refine.factors import leading_term, visiting_order
from sltr.ridge import GramRidge, leave_one_out
from sltr.samples.samples import is_lazy, take_rows
from sltr.tuning.folds import Folds
from sltr.tuning.task import Task, ridge_pilots

# Penalties of the pilots that are tested, as multiples of the mean eigenvalue of the
# samples' Gram matrix: what is chosen by y would have to be chosen again.
PENALTIES = (0.01, 0.1, 1.0, 10.0)
# Of a correlation: that of one would be beyond all bounds.
LARGEST = 0.999
# Values that differ by rounding, relative to their spread, are equal.
ROUNDING = 1e-6
# Numbers that a batch of permutations may hold.
BATCH_ENTRIES = 4_000_000


def is_found(
    task: Task,
    folds: Folds,
    refined: Sequence[np.ndarray],
    answer: Sequence[np.ndarray],
) -> bool:
    """Say whether an answer predicts anything, as far as one can tell.

    Its held-out predictions, and those of the refined pilot it was made from, are
    (n_rows, K) for each fold, less the baseline. The pilot of a likelihood is tested by
    least squares, its first step from the null model.
    """
    policy, null = task.policy, [0.0] * len(folds.rows)
    if not folds.total(folds.losses(answer)) < folds.total(folds.losses(null)):
        return False
    rows, weight = np.concatenate(folds.rows), np.concatenate(folds.weights)
    target, predicted = np.concatenate(folds.residuals), np.concatenate(refined)
    target = np.where(np.isnan(target), 0.0, target)  # not measured: no evidence
    groups = None if folds.groups is None else folds.groups[rows]
    if association(predicted, target, rows, weight, groups) > policy.found_errors:
        return True
    task, folds = replace(task, family=None), replace(folds, family=None)
    return pilot_p_value(task, folds, policy.found_permutations) <= policy.found_level


def association(
    predicted: np.ndarray,
    target: np.ndarray,
    rows: np.ndarray,
    weight: np.ndarray,
    groups: np.ndarray | None = None,
) -> float:
    """Return how far held-out predictions agree with responses, in standard errors.

    Both (n, K) are less the null model's predictions. With S the mean of y yᵀ,

        z = artanh(r)·√(n − 3),   r = (mean of f·y) / √(mean of fᵀ S f),

    which for one response is Fisher's transform of their correlation about zero: with
    few samples √n·r could not be large, however well they agree. The variance is
    what it would be if predictions had nothing to do with responses: in that of gains
    over the null model, a few large responses that are predicted well would count as
    noise. `rows` (n,) that several folds leave out count once, and a whole weight as
    that many equal samples. Samples of one of the `groups` (n,), whose responses
    resemble each other, add up: with C the mean of y yᵀ over pairs in one group, the
    variance has fᵀ C f of all these pairs, too, as if there were fewer samples.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    >>> round(association(0.5 * y, y, np.arange(4), np.ones(4)), 3)
    3.8
    """
    _, first = np.unique(rows, return_index=True)
    count = np.maximum(weight[first], 1.0).sum()
    share = (weight / weight.sum())[:, None]
    # Units of one, since squares of what is predicted may overflow or vanish.
    unit = [float(np.abs(values).max()) for values in (predicted, target)]
    if not (all(unit) and np.isfinite(unit).all()):
        return 0.0
    f, y = predicted / unit[0], target / unit[1]
    spread = np.sum(share * f * (f @ (y.T @ (share * y))))
    if groups is not None:
        more = max(0.0, _shared_spread(share * f, y, rows, groups))
        count = spread / (spread / count + more)
    correlation = float(np.sum(share * f * y) / np.sqrt(spread))
    bounded = min(max(correlation, -LARGEST), LARGEST)
    return float(np.arctanh(bounded) * np.sqrt(max(0.0, count - 3.0)))


def _shared_spread(
    f: np.ndarray, y: np.ndarray, rows: np.ndarray, groups: np.ndarray
) -> float:
    """Return the variance of Σ f·y that comes from pairs of samples in one group."""
    known, first, number = np.unique(rows, return_index=True, return_inverse=True)
    each, f_each = groups[first], np.zeros((len(known), f.shape[1]))
    np.add.at(f_each, number.ravel(), f)
    sums = np.zeros((2, int(each.max()) + 1, f.shape[1]))
    np.add.at(sums[0], each, f_each)
    np.add.at(sums[1], each, y[first])
    sizes = np.bincount(each)
    n_pairs = float(np.sum(sizes * (sizes - 1)))
    if n_pairs == 0:
        return 0.0
    pairs = (sums[1].T @ sums[1] - y[first].T @ y[first]) / n_pairs
    together = np.sum(sums[0] * (sums[0] @ pairs))
    return float(together - np.sum(f_each * (f_each @ pairs)))


def pilot_p_value(task: Task, folds: Folds, n: int) -> float:
    """Return the permutation p-value of the ridge pilot.

    The statistic is the sum of the held-out correlation, the largest of some penalties,
    and of the size of the leading rank-one term of the pilot under the largest penalty;
    each in units of its spread over all orders, the true one among them. Of samples
    that are left in place only the first is known without reading them again; p is 1
    where even that would read them again and again. Permutations are drawn for
    samples in the order of the sizes of their pilots' predictions: neither the order
    of samples nor that of classes shall matter. Those of refits would not do: their
    rounding would draw other permutations for samples in another order, or library.
    Groups stay what they are, as in `draw_orders`.
    """
    if is_lazy(task.samples.X) and not isinstance(task.system, GramRidge):
        return 1.0
    if task.system.method == "cg":
        return 1.0
    unit = task.system.mean_eigenvalue()
    if not unit > 0:  # all samples are equal
        return 1.0
    if isinstance(task.system, GramRidge) and task.system.spectrum is None:
        task = replace(task, system=task.system.with_spectrum())
    n_samples, n_responses = task.Y.shape
    epsilons = [unit * factor for factor in PENALTIES]
    values = to_numpy(_left_out(task, epsilons[-1:])[0])
    ranked = np.argsort(np.sum(values[0, ...] ** 2, axis=1), kind="stable")
    rng = np.random.RandomState(0)
    groups = None if folds.groups is None else folds.groups[ranked]
    drawn, _ = draw_orders(to_numpy(task.Y)[ranked], groups, n, rng)
    orders = np.empty_like(drawn)
    orders[:, ranked] = ranked[drawn]
    centring = task.centring(task.everyone[0, :])
    rest = task.Y - centring.basis @ (centring.share @ task.Y)
    n_folds = 1 if groups is None else len(folds.rows)
    entries = n_folds * len(epsilons) * n_responses * n_samples
    visited = None
    if not is_lazy(task.samples.X):
        visited = visiting_order(task.samples.X, task.samples.weight)
        # Every mode has an unfolding of the pilots.
        n_entries = n_responses * (1 + len(visited)) * task.samples.design.shape[1]
        entries = max(entries, n_entries)
    # Moments have the products of all responses of a batch, two by two.
    at_once = isqrt(BATCH_ENTRIES) // n_responses
    batch = max(1, min(BATCH_ENTRIES // entries, at_once))
    predictive: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    for first in range(0, n + 1, batch):
        again = task.with_responses(permuted(rest, orders[first : first + batch]))
        if groups is None:
            each = _single_correlations(again, epsilons, n_responses)
        else:
            predicted = _pilot_predictions(again, folds, epsilons)
            each = correlations(again, folds, again.Y, predicted, n_responses)
        predictive.append(each.max(axis=0))
        if visited is not None:
            sizes.append(_leading_sizes(again, epsilons[-1], visited, n_responses))
    scores = _in_spreads(np.concatenate(predictive))
    if sizes:
        scores = scores + _in_spreads(np.concatenate(sizes))
    reached = scores[1:] >= scores[0] - ROUNDING
    return (1 + int(np.count_nonzero(reached))) / (1 + n)


def _in_spreads(values: np.ndarray) -> np.ndarray:
    """Return values of all orders (1 + n,) less their mean, in standard deviations."""
    rest = values - values.mean()
    spread = float(rest.std())
    return rest / spread if spread > ROUNDING * np.abs(values).max() else 0.0 * rest


def _leading_sizes(
    task: Task, epsilon: float, visited: Sequence[int], n_responses: int
) -> np.ndarray:
    """Return the size of the pilots' leading rank-one term, (B,) for B orders."""
    coef = ridge_pilots(task, task.everyone, [epsilon]).coef[0, 0, ...]
    tensors = array_namespace(coef).reshape(coef, (-1, *task.samples.shape))
    each = np.asarray(to_numpy(leading_term(tensors, visited)[1]), float)
    return np.sqrt(np.sum(each.reshape(-1, n_responses) ** 2, axis=1))


def draw_orders(
    y: np.ndarray, groups: np.ndarray | None, n: int, rng: np.random.RandomState
) -> tuple[np.ndarray, str]:
    """Return rows to take responses from, (1 + n, n_samples), the true order first.

    And what changes places.
    """
    own = np.arange(len(y))
    if groups is None:
        drawn = [rng.permutation(own) for _ in range(n)]
        return np.stack([own, *drawn]), "samples"
    members = [np.flatnonzero(groups == g) for g in range(groups.max() + 1)]
    if all((y[rows] == y[rows[0]]).all() for rows in members):
        first = np.array([rows[0] for rows in members])
        drawn = [rng.permutation(first)[groups] for _ in range(n)]
        return np.stack([own, *drawn]), "whole groups"
    orders = np.tile(own, (1 + n, 1))
    for order in orders[1:]:
        for rows in members:
            order[rows] = rng.permutation(rows)
    return orders, "samples within groups"


def permuted(Y: Array, orders: np.ndarray) -> Array:
    """Return responses (n, K) in B orders (B, n), side by side: (n, B·K)."""
    xp, (n_orders, n_samples) = array_namespace(Y), orders.shape
    taken = xp.reshape(take_rows(Y, orders.ravel()), (n_orders, n_samples, -1))
    return xp.reshape(xp.permute_dims(taken, (1, 0, 2)), (n_samples, -1))


def correlations(
    task: Task, folds: Folds, Y: Array, predicted: Sequence[Array], n_responses: int
) -> np.ndarray:
    """Return the correlation of held-out predictions with responses, (C, B).

    `Y` is (n, B·K), and `predicted` (n_rows, C, B·K) for each fold, less its baseline.
    """
    xp, centring = array_namespace(Y), task.centring(folds.training)
    y_coef = centring.share @ Y  # (F, b, B·K)
    cross, size, total = 0.0, 0.0, 0.0
    for f, rows in enumerate(folds.rows):
        basis = take_rows(centring.basis, rows)
        target = take_rows(Y, rows) - basis @ y_coef[f, ...]
        weight = take_rows(task.samples.weight, rows)[:, None]
        total = total + xp.sum(weight * target**2, axis=0)
        weight, target = weight[:, None, :], target[:, None, :]
        cross = cross + xp.sum(weight * target * predicted[f], axis=0)  # (C, B·K)
        size = size + xp.sum(weight * predicted[f] ** 2, axis=0)
    return _of_sums(cross, size, total, n_responses)


def _of_sums(cross: Array, size: Array, total: Array, n_responses: int) -> np.ndarray:
    """Return correlations (C, B) of sums (C, B·K) of products, and (B·K,) of y²."""
    cross, size, total = (
        np.asarray(to_numpy(part), float)
        .reshape(-1, cross.shape[1] // n_responses, n_responses)
        .sum(axis=2)
        for part in (cross, size, total)
    )
    norm = np.sqrt(size * total)
    return np.where(norm > 0, cross / np.where(norm > 0, norm, 1.0), 0.0)


def _single_correlations(
    task: Task, epsilons: Sequence[float], n_responses: int
) -> np.ndarray:
    """Return the correlations (E, B) of pilots that know all samples but one."""
    xp, (predicted, target) = array_namespace(task.Y), _left_out(task, epsilons)
    return _of_sums(
        xp.sum(target * predicted, axis=1),
        xp.sum(predicted**2, axis=1),
        xp.sum(target**2, axis=0),
        n_responses,
    )


def _left_out(task: Task, epsilons: Sequence[float]) -> tuple[Array, Array]:
    """Return what pilots predict for a sample that they do not know, and its response.

    Predictions (E, n, B·K) and responses (n, B·K) are less what the null model says
    without the sample, and times the root of its weight. A residual of the pilot is
    what the null model misses less what the pilot predicts beside it.
    """
    from sltr.ridge.moments import MomentRidge

    assert isinstance(task.system, GramRidge | MomentRidge)
    centring = task.centring(task.everyone[0, :])
    rest = centring.gather(task.Y)
    target = leave_one_out(rest, 1.0 - centring.leverage, centring)
    return target - task.system.loo_residuals(as_array(list(epsilons), task.Y)), target


def _pilot_predictions(
    task: Task, folds: Folds, epsilons: Sequence[float]
) -> list[Array]:
    """Return what pilots of all penalties predict, (n_rows, E, K) for each fold."""
    if isinstance(task.system, GramRidge):
        fitted = task.system.fitted(folds.training, as_array(list(epsilons), task.Y))
        xp = array_namespace(fitted)
        values = xp.permute_dims(fitted, (0, 3, 1, 2))  # (F, n, E, K)
        return [take_rows(values[f, ...], rows) for f, rows in enumerate(folds.rows)]
    pilots = ridge_pilots(task, folds.training, list(epsilons))
    each = range(len(folds.rows))
    return [as_array(v, task.Y) for v in folds.predictions(task, each, *pilots.parts)]
