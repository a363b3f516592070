"""Refits of a task's subsets: from a starting setting to refitted coefficients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sltr._array import Array, array_namespace, as_array
from sltr.estimate import absolute_radii, estimate_path
from sltr.models.candidates import Candidate, largest_rank
from sltr.models.folds import Task
from sltr.refine import (
    Refit,
    Subsets,
    Sweeps,
    feature_variance,
    grown_refits,
    iterate_pilot,
    refit_on_support,
    reweighted,
    seeded_refits,
    unfoldings,
)

__all__ = ["low_rank_fits", "reweighted_fits", "sparse_fits", "start_estimates"]


def start_estimates(task: Task, subsets: Array, start: Candidate) -> Array:
    """Return the estimates refits start from, shape (S, K, p1, …, pM)."""
    samples = task.samples
    xp = array_namespace(task.Y)
    penalty = as_array([start.epsilon], samples.X)
    pilots = task.system.coefs(subsets, penalty)[:, 0, ...]
    flat = xp.reshape(pilots, (-1, *samples.shape))
    sparse, low = (
        as_array([value], flat) for value in (start.lambda_sparse, start.lambda_low)
    )
    radii = absolute_radii(flat, sparse, low, task.radius)
    [(_, found)] = estimate_path(flat, *radii, task.settings)
    first = found.coef[:, 0, ...]
    # A start that vanished has no components: the pilot's own take its place.
    size = xp.max(xp.abs(first), axis=tuple(range(1, first.ndim)), keepdims=True)
    first = xp.where(size > 0, first, flat)
    return xp.reshape(first, (subsets.shape[0], -1, *samples.shape))


def reweighted_fits(task: Task, subset: Array, starts: Array) -> dict[int, Array]:
    """Return coefficients (K, p1, …, pM) by the number of reweighting steps."""
    xp = array_namespace(task.Y)
    samples = task.samples
    rows = xp.nonzero(subset)[0]
    X, Y, weight = (
        xp.take(values, rows, axis=0)
        for values in (samples.flat, task.Y, samples.weight)
    )
    data = Subsets(xp.matrix_transpose(Y), weight[None, :], task.fit_intercept)
    root = xp.sqrt(weight)
    A = root[:, None] * data.centred(X[None, ...])[0, ...]
    A = xp.reshape(A, (-1, *samples.shape))
    found: dict[int, list[Array]] = {}
    for k in range(Y.shape[1]):
        y = root * data.centred(Y[:, k][None, :])[0, :]
        for step, coef in reweighted(A, y, starts[k, ...]):
            found.setdefault(step, []).append(coef)
    return {step: xp.stack(coefs, axis=0) for step, coefs in found.items()}


def low_rank_fits(
    task: Task,
    subsets: Array,
    start: Candidate,
    kind: str,
    starts: Mapping[str, Array],
) -> Iterator[Refit]:
    """Refit on several subsets; items of a batch are subsets × responses.

    `starts` holds coefficients (S, K, p1, …, pM) by their name in `STARTS`: those
    of "estimate" grow from rank to rank, those of "reweight" seed every rank. The
    order is that of `refined`.
    """
    xp = array_namespace(task.Y)
    samples = task.samples
    n_subsets, n_responses = subsets.shape[0], task.Y.shape[1]
    weight = xp.where(subsets, samples.weight, 0.0)
    variance = feature_variance(samples.flat, weight, task.fit_intercept)
    each = [s for s in range(n_subsets) for _ in range(n_responses)]
    items = as_array(each, samples.X, dtype=xp.int64)
    shape = (len(each), *samples.shape)

    problem = Sweeps(
        unfoldings(samples.X),
        Subsets(
            xp.concat([xp.matrix_transpose(task.Y)] * n_subsets, axis=0),
            xp.take(weight, items, axis=0),
            task.fit_intercept,
        ),
        xp.take(variance, items, axis=0),
    )
    largest = largest_rank(kind, samples.shape)
    if "estimate" in starts:
        resolvents = [
            task.system.resolvent(subsets[s, :], max(start.epsilon, 1e-12))
            for s in range(n_subsets)
        ]

        def pilot_of(residuals: Array) -> Array:
            rows = [resolvents[s](residuals[i, :][:, None]) for i, s in enumerate(each)]
            return xp.reshape(xp.concat(rows, axis=0), shape)

        first = xp.reshape(starts["estimate"], shape)
        yield from grown_refits(
            problem, first, pilot_of, kind=kind, largest_rank=largest
        )
    if "reweight" in starts:
        seeds = xp.reshape(starts["reweight"], shape)
        yield from seeded_refits(problem, seeds, kind=kind, largest_rank=largest)


def sparse_fits(
    task: Task, subset: Array, wanted: Sequence[Sequence[Candidate]]
) -> list[list[Array]]:
    """Return coefficients (K, P) for candidates grouped by their threshold.

    All share one penalty; a group's candidates differ in the ridge on the support.
    """
    xp = array_namespace(task.Y)
    samples = task.samples
    epsilon = max(wanted[0][0].epsilon, 1e-12)
    resolvent = task.system.resolvent(subset, epsilon)
    weight = xp.where(subset, samples.weight, 0.0)
    variance = float(
        feature_variance(samples.flat, weight[None, :], task.fit_intercept)[0]
    )
    sparse = as_array([group[0].lambda_sparse for group in wanted], samples.X)
    columns: list[list[list[Array]]] = [[[] for _ in group] for group in wanted]
    for k in range(task.Y.shape[1]):
        y = task.Y[:, k]
        thresholds = sparse
        if task.radius == "relative":
            thresholds = sparse * xp.max(xp.abs(resolvent(y[:, None])))
        found = iterate_pilot(resolvent, samples.flat, y, thresholds)
        for g, group in enumerate(wanted):
            for i, candidate in enumerate(group):
                coef = found[g, :]
                if candidate.ridge is not None:
                    coef = refit_on_support(
                        samples.flat,
                        y,
                        weight,
                        coef,
                        candidate.ridge,
                        variance=variance,
                        fit_intercept=task.fit_intercept,
                    )
                columns[g][i].append(coef)
    return [[xp.stack(rows, axis=0) for rows in group] for group in columns]
