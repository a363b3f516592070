"""Maps with error control: entries near which there is signal, given the rest.

Three steps, of which only the last two look at y:

1. Entries become means over their neighbours along modes in which neighbours are
   correlated: signal there is shared, noise is not.
2. Regions are found one after another: the local mean that goes best with what is
   left of y joins, as long as permutations of the rest do not go with any as well.
3. Each entry's local mean is tested given the regions that are not its own. These
   take their part of y away, as noise of the test. The largest statistic over all
   entries under permutations of the residuals (Freedman and Lane) is the threshold.

Entries within the tolerance, the reach of a local mean and of the samples' own
correlation, share their signal; errors are those farther from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone, is_classifier

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    explained_memory,
    fitting_threads,
    to_numpy,
)
from sltr.core.tensor import mode_product
from sltr.estimators.labels import label_indicators
from sltr.inference.permutation import check_groups, draw_orders
from sltr.parameters import check_count, random_generator, refuse
from sltr.samples.check import check_samples
from sltr.samples.labelled import Labels
from sltr.samples.samples import is_lazy

# Neighbours with this correlation are averaged; below the second, entries are apart.
AVERAGED = 0.5
APART = 0.1
# The largest distance that is looked at.
FARTHEST = 20
# Regions found at most; each takes a degree of freedom.
SHARE_OF_SAMPLES = 0.25
# The part of the level that finding regions has; testing entries has the rest.
FOR_REGIONS = 0.5
# Statistics that a batch of permutations may hold.
BATCH_ENTRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class Significant:
    """A map of entries with error control.

    Attributes
    ----------
    selected : array of bool, shape (p1, …, pM)
        Entries near which there is signal, given the other regions.
    p_value : array of shape (p1, …, pM)
        Corrected for all entries: `selected` where it is at most `level`.
    statistic : array of shape (p1, …, pM)
        Student's t of each entry's local mean; its sign is that of the effect.
    level : float
    control : {"fwer", "fdr"}
    tolerance : tuple of int
        By mode: signal is within so many entries of a selected one.
    regions : array of int, shape (r, M)
        The entries about which regions were found, the strongest first.
    labels : Labels or None
        What the samples know of their modes, for pictures.
    """

    selected: np.ndarray
    p_value: np.ndarray
    statistic: np.ndarray
    level: float
    control: str
    tolerance: tuple[int, ...]
    regions: np.ndarray
    labels: Labels | None = None

    def __str__(self) -> str:
        name = {"fwer": "family-wise error", "fdr": "false-discovery rate"}
        return (
            f"{np.count_nonzero(self.selected):,} of {self.selected.size:,} entries "
            f"at a {name[self.control]} of {self.level:g}; signal is within "
            f"{' × '.join(map(str, self.tolerance))} entries of each"
        )


def significant(
    model: Any,
    X: Any,
    y: Any,
    *,
    fwer: float | None = None,
    fdr: float | None = None,
    groups: Any = None,
    n: int = 1000,
    random_state: Any = None,
) -> Significant:
    """Return the entries near which there is signal, with error control.

    It tests the samples, not the model's coefficient: a coefficient may be non-zero
    by chance, and depends on how much it was shrunk. Signal is linear and given the
    other regions, as in a regression. Where neighbours along a mode are correlated,
    entries share their signal up to `tolerance`; along other modes (channels,
    nominal ones) each entry stands for itself.

    Parameters
    ----------
    model : estimator
        A regressor, or a classifier for two classes; its `feature_shape` is used.
    X : array of shape (n_samples, p1, …, pM)
        In memory, or on a device.
    y : array of shape (n_samples,)
    fwer : float, optional
        Probability of a single false entry; 0.1 if neither this nor `fdr` is given.
    fdr : float, optional
        Expected share of false entries among those selected, instead.
    groups : array of shape (n_samples,), optional
        Residuals are permuted within groups.
    n : int
        Number of permutations.
    random_state : int, RandomState or None

    Returns
    -------
    Significant

    References
    ----------
    Freedman, Lane (1983). A nonstochastic interpretation of reported significance
    levels. Westfall, Young (1993). Resampling-based multiple testing. Chevalier,
    Nguyen, Thirion, Salmon (2022). Spatially relaxed inference on high-dimensional
    linear models: the spatial tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressorCV
    >>> from sltr.inference import significant
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 6, 5))
    >>> y = X[:, 0, 0] - X[:, 3, 2] + 0.3 * rng.normal(size=100)
    >>> found = significant(SLTRRegressorCV(), X, y, random_state=0)
    >>> np.argwhere(found.selected).tolist()
    [[0, 0], [3, 2]]
    """
    if fwer is not None and fdr is not None:
        msg = f"fwer={fwer!r} and fdr={fdr!r} were given; expected one of them."
        raise ValueError(msg)
    control = "fwer" if fdr is None else "fdr"
    level = fdr if fdr is not None else 0.1 if fwer is None else fwer
    if not isinstance(level, float | int) or not 0 < level < 1:
        refuse(control, level, "a number between 0 and 1, such as 0.1")
    n = check_count(n, "n")
    model = clone(model)
    samples = check_samples(model, X, y, labels=is_classifier(model))
    if is_lazy(samples.X):
        msg = "X stays in a file or on a cluster; expected samples in memory. Load it."
        raise ValueError(msg)
    response = _response(model, samples.y)
    numbers = check_groups(groups, len(response))
    rng = random_generator(random_state)
    orders, permuted = draw_orders(response, numbers, n, rng)
    if permuted == "whole groups":
        msg = (
            "All samples of a group have the same response; expected responses that "
            "vary within groups. Average the samples of each group, and give one "
            "response for each."
        )
        raise ValueError(msg)
    shape = samples.shape
    with explained_memory(), fitting_threads(samples.X):
        reach, apart = correlation_reach(samples.X)
        means = local_means(samples.X, reach)  # (n, P), of unit length
        target = as_array(response - response.mean(), means)
        regions = _regions(means, target, orders, FOR_REGIONS * float(level))
        tolerance = tuple(a + b for a, b in zip(reach, apart, strict=True))
        statistic, largest, freedom = _tests(
            means, target, orders, regions, shape, tolerance
        )
    size = np.abs(statistic)
    if control == "fwer":
        order = np.sort(largest)
        reached = len(order) - np.searchsorted(order, size, side="left")
        p_value = (1 + reached) / (1 + n)
        # The regions have had their part of the level.
        p_value = np.minimum(p_value / (1.0 - FOR_REGIONS), 1.0)
    else:
        p_value = _adjusted(2.0 * student.sf(size, freedom))
    return Significant(
        selected=(p_value <= level).reshape(shape),
        p_value=p_value.reshape(shape),
        statistic=statistic.reshape(shape),
        level=float(level),
        control=control,
        tolerance=tolerance,
        regions=np.stack(np.unravel_index(np.array(regions, int), shape), axis=1),
        labels=samples.labels,
    )


def _response(model: Any, y: Any) -> np.ndarray:
    """Return responses as numbers: of labels, which are of the second class."""
    if not is_classifier(model):
        return np.asarray(to_numpy(y), float)
    classes, indicators = label_indicators(y)
    if len(classes) > 2:
        msg = (
            f"y holds {len(classes)} classes; expected two. Compare one class with the "
            "rest, for example y == y[0]."
        )
        raise ValueError(msg)
    return indicators[:, 0]


def correlation_reach(X: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how far entries correlate along each mode: closely, and at all.

    The largest distances up to which the mean correlation of entries is at least
    `AVERAGED`, and `APART`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 12, 10))
    >>> X = X + np.roll(X, 1, axis=1) + np.roll(X, 2, axis=1)  # runs of three
    >>> correlation_reach(X)
    ((1, 0), (2, 0))
    """
    xp = array_namespace(X)
    unit = _unit_columns(X - xp.mean(X, axis=0))
    reach, apart = [], []
    for axis in range(1, X.ndim):
        length = X.shape[axis]
        moved = xp.moveaxis(unit, axis, 0)
        close = far = 0
        for lag in range(1, min(FARTHEST, length - 1) + 1):
            products = xp.sum(moved[lag:, ...] * moved[: length - lag, ...], axis=1)
            value = float(xp.mean(products))
            if value < APART:
                break
            far = lag
            close = lag if value >= AVERAGED and close == lag - 1 else close
        reach.append(close)
        apart.append(far)
    return tuple(reach), tuple(apart)


def local_means(X: Array, reach: tuple[int, ...]) -> Array:
    """Return means over neighbours, centred and of unit length: (n, P)."""
    xp = array_namespace(X)
    for mode, radius in enumerate(reach):
        if radius:
            places = np.arange(X.shape[mode + 1])
            band = np.abs(places[:, None] - places) <= radius
            weights = band / band.sum(axis=1, keepdims=True)
            X = mode_product(X, as_array(weights, X), mode)
    flat = xp.reshape(X, (X.shape[0], -1))
    return _unit_columns(flat - xp.mean(flat, axis=0))


def _unit_columns(columns: Array, shortest: float = 0.0) -> Array:
    """Return columns (n, …) of unit length; no longer than the shortest, zeros."""
    xp = array_namespace(columns)
    size = xp.sqrt(xp.sum(columns**2, axis=0))
    some = size > shortest
    return xp.where(some, columns / xp.where(some, size, 1.0), 0.0)


def _without(columns: Array, basis: Array | None) -> Array:
    """Return columns less their part in an orthonormal basis (n, r)."""
    if basis is None:
        return columns
    xp = array_namespace(columns)
    return columns - basis @ (xp.matrix_transpose(basis) @ columns)


def _basis(means: Array, regions: list[int]) -> Array | None:
    """Return an orthonormal basis of regions' local means, (n, r)."""
    if not regions:
        return None
    xp = array_namespace(means)
    columns = xp.stack([means[:, region] for region in regions], axis=1)
    return xp.linalg.qr(columns).Q


def _regions(
    means: Array, target: Array, orders: np.ndarray, level: float
) -> list[int]:
    """Find regions one after another, until the rest is as good as permuted."""
    xp = array_namespace(means)
    regions: list[int] = []
    most = max(1, int(SHARE_OF_SAMPLES * means.shape[0]))
    while len(regions) < most:
        basis = _basis(means, regions)
        rest = _without(target[:, None], basis)
        columns = _partial(means, basis)
        found = xp.abs(xp.matrix_transpose(columns) @ _unit_columns(rest))[:, 0]
        best = int(xp.argmax(found))
        largest = _largest(columns, rest, basis, orders[1:])
        if not float(found[best]) > np.quantile(largest, 1.0 - level, method="higher"):
            break
        regions.append(best)
    return regions


def _partial(means: Array, basis: Array | None) -> Array:
    """Return what regions leave of local means, of unit length; zero if nothing."""
    return _unit_columns(_without(means, basis), 1e-3)  # of unit length before


def _largest(
    columns: Array, rest: Array, basis: Array | None, orders: np.ndarray
) -> np.ndarray:
    """Return the largest correlation with permuted residuals, one for each order."""
    xp = array_namespace(columns)
    size = max(1, BATCH_ENTRIES // columns.shape[1])
    found = []
    for first in range(0, len(orders), size):
        part = as_array(orders[first : first + size].T.ravel(), rest, dtype=xp.int64)
        moved = xp.reshape(xp.take(rest[:, 0], part, axis=0), (rest.shape[0], -1))
        moved = _unit_columns(_without(moved, basis))
        values = xp.abs(xp.matrix_transpose(columns) @ moved)
        found.append(to_numpy(xp.max(values, axis=0)))
    return np.concatenate(found)


def _tests(
    means: Array,
    target: Array,
    orders: np.ndarray,
    regions: list[int],
    shape: tuple[int, ...],
    tolerance: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test each entry given the regions that are not its own.

    Returns Student's t (P,), the largest of each permutation (n,), and the degrees of
    freedom (P,).
    """
    xp = array_namespace(means)
    n_samples, n_entries = means.shape
    places = np.stack(np.unravel_index(np.arange(n_entries), shape), axis=1)
    own = np.ones((n_entries, len(regions)), dtype=bool)
    for r, region in enumerate(regions):
        distance = np.abs(places - places[region])
        own[:, r] = (distance <= np.array(tolerance)).all(axis=1)
    kinds, kind = np.unique(own, axis=0, return_inverse=True)
    statistic, freedom = np.zeros(n_entries), np.zeros(n_entries)
    largest = np.zeros(len(orders) - 1)
    for k, mine in enumerate(kinds):
        entries = np.flatnonzero(kind.ravel() == k)
        others = [r for r, is_own in zip(regions, mine, strict=True) if not is_own]
        basis = _basis(means, others)
        index = as_array(entries, means, dtype=xp.int64)
        columns = _partial(xp.take(means, index, axis=1), basis)
        rest = _without(target[:, None], basis)
        found = to_numpy(xp.matrix_transpose(columns) @ _unit_columns(rest))[:, 0]
        left = n_samples - 2 - len(others)
        statistic[entries] = _student(found, left)
        freedom[entries] = left
        null = _largest(columns, rest, basis, orders[1:])
        largest = np.maximum(largest, _student(null, left))
    return statistic, largest, freedom


def _student(correlation: np.ndarray, freedom: int) -> np.ndarray:
    """Return Student's t of partial correlations."""
    rest = np.sqrt(np.maximum(1.0 - np.square(correlation, dtype=float), 1e-12))
    return np.asarray(correlation, float) * np.sqrt(freedom) / rest


def _adjusted(p_values: np.ndarray) -> np.ndarray:
    """Return Benjamini and Hochberg's adjusted p-values."""
    order = np.argsort(p_values)
    places = np.arange(1, len(p_values) + 1)
    scaled = p_values[order] * len(p_values) / places
    adjusted = np.minimum.accumulate(scaled[::-1])[::-1]
    result = np.empty_like(p_values)
    result[order] = np.minimum(adjusted, 1.0)
    return result
