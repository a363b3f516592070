"""Refits of a task's subsets: from a starting setting to refitted coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sltr._array import Array, array_namespace, as_array, to_python
from sltr.estimate import absolute_radii, estimate_path
from sltr.models.candidates import Candidate, largest_rank
from sltr.models.folds import Task
from sltr.refine import (
    Refit,
    Subsets,
    Sweeps,
    always,
    cp_refits,
    feature_variance,
    lasso,
    refit_on_support,
    reweighted,
    tucker_refits,
    tucker_refits_of_rank,
    unfoldings,
)

__all__ = [
    "low_rank_fits",
    "low_rank_seeds",
    "or_pilots",
    "reweighted_fits",
    "sparse_fits",
    "start_estimates",
    "sweeps",
]

# The reweighting steps whose coefficients seed low-rank refits.
SEED_STEPS = (4, 10)


def start_estimates(
    task: Task,
    pilots: Array,
    start: Candidate,
    known: Sequence[Array | None] = (),
) -> Array:
    """Return the estimates refits start from, (S, K, p1, …, pM).

    `pilots` has shape (S, K, P), and so have those that are `known`, end to end; if
    any is not, they are solved for.
    """
    shape = task.samples.shape
    xp = array_namespace(pilots)
    parts = [part for part in known if part is not None]
    if not parts or len(parts) < len(known):
        flat = xp.reshape(pilots, (-1, *shape))
        sparse, low = (as_array([radius], flat) for radius in start.radii)
        radii = absolute_radii(flat, sparse, low, task.radius)
        [(_, found)] = estimate_path(flat, *radii, task.settings)
        parts = [found.coef[:, 0, ...]]
    first = xp.reshape(xp.concat(parts, axis=0), (*pilots.shape[:2], *shape))
    return or_pilots(first, pilots)


def or_pilots(estimates: Array, pilots: Array) -> Array:
    """Return estimates (S, K, p1, …, pM), or the pilots of those that vanished.

    A start that vanished has no components.
    """
    xp = array_namespace(estimates)
    modes = tuple(range(2, estimates.ndim))
    size = xp.max(xp.abs(estimates), axis=modes, keepdims=True)
    return xp.where(size > 0, estimates, xp.reshape(pilots, estimates.shape))


def reweighted_fits(task: Task, subsets: Array, starts: Array) -> dict[int, Array]:
    """Return coefficients (S, K, p1, …, pM) by the number of reweighting steps."""
    xp = array_namespace(task.Y)
    first = xp.reshape(starts, (-1, *task.samples.shape))
    steps = reweighted(task.samples.flat, _items(task, subsets), first)
    return {step: xp.reshape(coef, starts.shape) for step, coef in steps}


def sweeps(task: Task, subsets: Array) -> Sweeps:
    """Prepare low-rank refits; items of a batch are subsets × responses."""
    items = _items(task, subsets)
    flat = task.samples.flat
    variance = feature_variance(flat, items.weight, task.fit_intercept)
    return Sweeps(unfoldings(task.samples.X), items, variance)


def low_rank_seeds(estimates: Array, steps: Mapping[int, Array] | None) -> list[Array]:
    """Return what low-rank refits start from, (S, K, p1, …, pM) each.

    SLTR's estimates, and these reweighted, where they have modes to weigh; once, if
    steps have not changed them any more. Of matrices, which have fewer local minima,
    the last alone.
    """
    seeds = [estimates]
    for seed in [steps[step] for step in SEED_STEPS] if steps is not None else []:
        if bool(array_namespace(seed).any(seed != seeds[-1])):
            seeds.append(seed)
    return seeds[-1:] if estimates.ndim == 4 else seeds


def low_rank_fits(
    task: Task,
    problem: Sweeps,
    start: Candidate,
    kind: str,
    seeds: Sequence[Array],
    *,
    ranks: Iterable[tuple[int, ...]] | None = None,
    goes_on: Callable[[Array], bool] = always,
) -> Iterator[dict[Candidate, Refit]]:
    """Refit a problem's subsets, rank after rank; yields a rank's settings and refits.

    Ranks of "tucker" are found on the way unless they are given. `goes_on` says from
    the fitted values of a rank whether ridges below the first are worth trying.
    """
    xp = array_namespace(task.Y)
    shape = task.samples.shape
    flat = [xp.reshape(seed, (-1, *shape)) for seed in seeds]
    largest = largest_rank(kind, shape)
    if kind == "cp":
        refits = cp_refits(problem, flat, largest, goes_on)
    elif ranks is None:
        refits = tucker_refits(problem, flat, largest, goes_on)
    else:
        refits = (tucker_refits_of_rank(problem, flat, rank) for rank in ranks)
    base = (start.epsilon, start.lambda_sparse, start.lambda_low)
    for one_rank in refits:
        yield {
            Candidate(*base, kind, refit.rank, refit.ridge): refit for refit in one_rank
        }


def sparse_fits(
    task: Task,
    subsets: Array,
    epsilon: float,
    radii: Sequence[float],
    ridges: Sequence[float | None],
) -> Iterator[tuple[Candidate, Array]]:
    """Fit the Lasso on all subsets for all radii; yields coefficients (S, K, P).

    Each also refitted by ridge on its support. A radius is relative to the largest
    threshold that leaves an entry, or in the coefficients' units, as if features were
    uncorrelated. `epsilon` names the candidates, no more.
    """
    xp = array_namespace(task.Y)
    samples, n_responses = task.samples, task.Y.shape[1]
    items = _items(task, subsets)
    variance = feature_variance(samples.flat, items.weight, task.fit_intercept)
    if task.radius == "relative":
        unit = xp.max(xp.abs(items.cross(samples.flat)), axis=1)
    else:
        unit = variance * xp.sum(items.weight, axis=1)
    fractions = as_array(list(radii), samples.X)
    found = lasso(samples.flat, items, unit[:, None] * fractions)
    scales = to_python(variance)
    for i, radius in enumerate(radii):
        for ridge in ridges:
            coefs = [found[b, i, :] for b in range(len(scales))]
            if ridge is not None:
                coefs = [
                    refit_on_support(
                        samples.flat, items.take([b]), coef, ridge * scales[b]
                    )
                    for b, coef in enumerate(coefs)
                ]
            candidate = Candidate(epsilon, radius, 0.0, "sparse", ridge=ridge)
            shape = (subsets.shape[0], n_responses, -1)
            yield candidate, xp.reshape(xp.stack(coefs, axis=0), shape)


def _items(task: Task, subsets: Array) -> Subsets:
    """Return a batch of subsets × responses."""
    xp = array_namespace(task.Y)
    n_subsets, n_responses = subsets.shape[0], task.Y.shape[1]
    weight = xp.where(subsets, task.samples.weight, 0.0)
    each = [s for s in range(n_subsets) for _ in range(n_responses)]
    return Subsets(
        xp.concat([xp.matrix_transpose(task.Y)] * n_subsets, axis=0),
        xp.take(weight, as_array(each, task.Y, dtype=xp.int64), axis=0),
        task.fit_intercept,
    )
