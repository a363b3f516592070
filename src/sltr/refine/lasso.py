"""The Lasso for a batch of subsets and many thresholds at once: a refit of its own.

Accelerated proximal steps on the squared loss itself, bounded in number; nothing is
factorised. Of very many entries only few can be other than zero, and all of them
together allow short steps only: then steps are taken on working sets of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    clip,
    is_numpy,
    repeated,
    to_python,
)
from sltr.arrays.resources import row_ranges
from sltr.core.prox import soft_threshold
from sltr.refine.subsets import Subsets

# Steps at most, and the duality gap that ends them, relative to the null model's loss.
MAX_STEPS, TOLERANCE = 200, 2e-2
# Below this fraction of the largest threshold the loss is small, and so is the gap.
SMALL_THRESHOLD = 0.03
# Products that estimate the longest safe step, and what they may fall short of it.
POWER_STEPS, POWER_MARGIN = 8, 1.1
# Between two looks at an accelerator.
STEPS_AT_ONCE = 8
# Of squared lengths, in single precision.
ROUNDING = 1e-3
# Entries of samples that refits on supports copy at once, if one has no more.
REFIT_ENTRIES = 4_000_000
# Beyond this many entries, working sets: at first of this many entries, or of as many
# as there are samples, then of twice as many, so often. Their own gap is this part of
# the bound on the whole one.
LARGE, FIRST_SET, MAX_ROUNDS, INNER_SHARE = 16_384, 64, 8, 0.3


def lasso(
    X: Array,
    subsets: Subsets,
    thresholds: Array,
    *,
    tol: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    large: int = LARGE,
    length: Array | None = None,
    unconverged: Callable[[float], object] | None = None,
) -> Array:
    """Return Lasso estimates of all items and thresholds, shape (B, k, P).

    Accelerated proximal steps on ½‖y − A·w‖² + t‖w‖₁, A and y an item's weighted,
    centred samples. All are taken at once, and each ends by itself, so that no
    answer depends on its company.

    Parameters
    ----------
    X : array of shape (n, P)
    subsets : Subsets
        B items.
    thresholds : array of shape (B, k)
        From max |Aᵀy| upwards nothing is left.
    tol : float
        Bound on the duality gap relative to ½‖y‖²; less, in proportion, for
        thresholds below `SMALL_THRESHOLD`.
    max_steps : int
        Steps after which an item ends with whatever gap it has.
    large : int
        More entries than this are fitted on working sets.
    length : array of shape (B,), optional
        How long steps may be, where X is only some of the columns: then they are taken
        as if it were all. Found by products with X unless given.
    unconverged : callable, optional
        Called with the largest gap of those that ended too early, if any did.
    """
    xp = array_namespace(X)
    n_items, n_thresholds = thresholds.shape
    cross = subsets.cross(X)
    loss = _Loss(X, subsets)
    largest = xp.max(xp.abs(cross), axis=1)[:, None]
    fraction = thresholds / xp.where(largest > 0, largest, 1.0)
    enough = tol * clip(fraction / SMALL_THRESHOLD, None, 1.0)
    items = [b for b in range(n_items) for _ in range(n_thresholds)]
    repeated = loss.of(items)
    thresholds, enough = xp.reshape(thresholds, (-1,)), xp.reshape(enough, (-1,))
    # An accelerator would wait for its many small calls.
    if is_numpy(X) and X.shape[1] > large:
        rows = _by_working_sets(repeated, thresholds, enough, max_steps)
        late = list(range(len(rows)))
    else:
        index = as_array(items, X, dtype=xp.int64)
        length = loss.safe_length(cross) if length is None else length
        length = xp.take(length, index, axis=0)
        state = _State.start(repeated, thresholds, length, enough)
        rows, late = _stepped(state, max_steps)
    found = xp.stack(rows, axis=0)
    if unconverged is not None and late:
        index = as_array(late, X, dtype=xp.int64)
        ended, coef = repeated.of(late), xp.take(found, index, axis=0)
        thresholds, enough = (xp.take(v, index, axis=0) for v in (thresholds, enough))
        residual = ended.subsets.target - ended.fitted(coef)
        gap = _gap(ended, coef, residual, ended.spread(residual), thresholds)
        worst = float(xp.max(xp.where(gap > enough, gap, 0.0)))
        if worst > 0.0:
            unconverged(worst)
    return xp.reshape(found, (n_items, n_thresholds, -1))


def _stepped(state: _State, max_steps: int) -> tuple[list[Array], list[int]]:
    """Return the coefficients (P,) of all items once each is done by itself.

    And which ran out of steps. What is done has a gap that is small enough, by the dual
    point where its last step began; that of its end may say less.
    An accelerator takes several steps before anyone looks: what is done waits there,
    and goes once it is half of the batch.
    """
    n_at_once, share = (1, 0.0) if is_numpy(state.threshold) else (STEPS_AT_ONCE, 0.5)
    places = list(range(state.threshold.shape[0]))
    found: dict[int, Array] = {}
    late: list[int] = []
    further = repeated(state.stepped, state.moving)
    for step in range(0, max_steps, n_at_once):
        moving = further(min(n_at_once, max_steps - step))
        done = to_python(moving[-1])
        if step + n_at_once >= max_steps:
            late = [p for p, over in zip(places, done, strict=True) if not over]
            done = [True] * len(places)
        kept = [i for i, over in enumerate(done) if not over]
        n_done = len(places) - len(kept)
        if n_done == 0 or (kept and n_done <= share * len(places)):
            continue
        coef = moving[0]
        # A copy of each row: a view would keep all of them.
        found |= {p: coef[i, :] + 0.0 for i, p in enumerate(places) if done[i]}
        if not kept:
            break
        places, state = [places[i] for i in kept], state.take(kept, moving)
        further = repeated(state.stepped, state.moving)
    return [found[place] for place in range(len(found))], late


def _by_working_sets(
    loss: _Loss, threshold: Array, enough: Array, max_steps: int
) -> list[Array]:
    """Return the coefficients (P,) of all items, each with its own set of entries.

    A set holds the entries that the loss depends on most. It grows until the duality
    gap over all entries is small enough.
    """
    xp = array_namespace(threshold)
    n_samples, n_entries = loss.X.shape
    rows = []
    for b in range(threshold.shape[0]):
        item, limit = loss.of([b]), threshold[b : b + 1]
        coef = xp.zeros_like(loss.X[:1, :])
        residual, size = item.subsets.target, max(FIRST_SET, n_samples)
        for _ in range(MAX_ROUNDS):
            slope = item.spread(residual)
            if bool(_gap(item, coef, residual, slope, limit)[0] <= enough[b]):
                break
            # What is not zero stays in the set.
            use = xp.where(coef != 0, xp.inf, xp.abs(slope))[0, :]
            least = xp.sort(use)[max(0, n_entries - size)]
            among = (use >= least) & (use > 0)
            chosen = xp.nonzero(among)[0]
            part = _Loss(xp.take(loss.X, chosen, axis=1), item.subsets)
            length = part.safe_length(xp.take(slope, chosen, axis=1))
            inner = INNER_SHARE * enough[b : b + 1]
            [values], _ = _stepped(_State.start(part, limit, length, inner), max_steps)
            coef = _put(values, among)[None, :]
            residual = item.subsets.target - part.fitted(values[None, :])
            size *= 2
        rows.append(coef[0, :])
    return rows


@dataclass(frozen=True, eq=False)
class _Loss:
    """½‖y − A·w‖² of each item."""

    X: Array  # (n, P)
    subsets: Subsets

    def of(self, items: Sequence[int]) -> _Loss:
        """Return the losses of some items, or of the same one several times."""
        return _Loss(self.X, self.subsets.take(items))

    def fitted(self, coef: Array) -> Array:
        """Return centred fitted values (B, n) of coefficients (B, P)."""
        xp = array_namespace(coef)
        fitted = xp.matrix_transpose(self.X @ xp.matrix_transpose(coef))
        return self.subsets.centred(fitted)

    def spread(self, residual: Array) -> Array:
        """Return Aᵀr, (B, P), for centred residuals (B, n)."""
        # Weighted and centred, they sum to zero: samples need no centring.
        return (self.subsets.weight * residual) @ self.X

    def product(self, one: Array, other: Array) -> Array:
        """Return weighted inner products of rows (B, n): (B,)."""
        xp = array_namespace(one)
        return xp.linalg.vecdot(self.subsets.weight * one, other, axis=-1)

    def safe_length(self, start: Array) -> Array:
        """Return how long a step of each item may be, (B,), or nearly.

        Power iterations from directions (B, P) for the largest eigenvalue of AᵀA.
        """
        xp = array_namespace(start)
        vector, size = start, xp.ones_like(start[:, 0])
        for _ in range(POWER_STEPS):
            largest = xp.max(xp.abs(vector), axis=1, keepdims=True)
            vector = vector / xp.where(largest > 0, largest, 1.0)
            norm = xp.linalg.vector_norm(vector, axis=1, keepdims=True)
            vector = vector / xp.where(norm > 0, norm, 1.0)
            image = self.spread(self.fitted(vector))
            size = xp.linalg.vecdot(vector, image, axis=-1)
            vector = image
        bound = POWER_MARGIN * size
        return 1.0 / xp.where(bound > 0, bound, 1.0)


def length_by_gram(gram: Array, subsets: Subsets) -> Array:
    """Return the steps' length (B,) as products with X would find it, by X·Xᵀ alone.

    Directions are Aᵀ times vectors over the samples, (B, n), which stand for them. Of X
    less any row the Gram matrix will do.
    """
    xp = array_namespace(gram)
    weight = xp.astype(subsets.weight, gram.dtype)
    vector = weight * xp.astype(subsets.target, gram.dtype)
    size = xp.ones_like(vector[:, 0])
    for _ in range(POWER_STEPS):
        fitted = vector @ gram
        norm = xp.sqrt(clip(xp.linalg.vecdot(vector, fitted), 0.0, None))[:, None]
        fitted = subsets.centred(fitted / xp.where(norm > 0, norm, 1.0))
        vector = weight * fitted
        size = xp.linalg.vecdot(fitted, vector)
    bound = POWER_MARGIN * xp.astype(size, subsets.weight.dtype)
    return 1.0 / xp.where(bound > 0, bound, 1.0)


@dataclass(frozen=True, eq=False)
class _State:
    """Where the items of a batch are; all arrays have a row for each."""

    loss: _Loss
    threshold: Array  # (B,)
    enough: Array  # (B,), the relative gap that ends an item
    # What a step changes: coefficients (B, P) and fitted values (B, n), both again
    # where the next step starts, momentum (B,), the steps' length (B,), and which
    # items are done (B,).
    moving: tuple[Array, ...]

    @staticmethod
    def start(loss: _Loss, threshold: Array, length: Array, enough: Array) -> _State:
        """Begin at zero."""
        xp = array_namespace(threshold)
        fitted = 0.0 * loss.subsets.target
        coef = xp.zeros_like(loss.X[:1, :]) + 0.0 * threshold[:, None]
        momentum, done = xp.ones_like(threshold), threshold != threshold
        moving = (coef, fitted, coef, fitted, momentum, length, done)
        return _State(loss, threshold, enough, moving)

    def take(self, items: Sequence[int], moving: tuple[Array, ...]) -> _State:
        """Return the state of some items, after steps that led here."""
        xp = array_namespace(self.threshold)
        index = as_array(items, self.threshold, dtype=xp.int64)
        arrays = (self.threshold, self.enough, *moving)
        threshold, enough, *rest = (xp.take(x, index, axis=0) for x in arrays)
        return _State(self.loss.of(items), threshold, enough, tuple(rest))

    def stepped(self, *moving: Array) -> tuple[Array, ...]:
        """Return what a step makes of `moving`. Nothing here waits for a device."""
        coef, fitted, ahead, ahead_fitted, momentum, length, done = moving
        xp, loss = array_namespace(coef), self.loss
        residual = loss.subsets.target - ahead_fitted
        slope, along = loss.spread(residual), length[:, None]
        new = soft_threshold(ahead + along * slope, along * self.threshold[:, None])
        new_fitted = loss.fitted(new)
        moved, bent = new - ahead, new_fitted - ahead_fitted
        curvature, size = loss.product(bent, bent), xp.linalg.vecdot(moved, moved)
        # The step was safe if the loss bends no more than it assumed.
        safe = length * curvature <= (1.0 + ROUNDING) * size
        # A safe step lowers the objective: the gap where it starts bounds its end's.
        gap = _gap(loss, ahead, residual, slope, self.threshold)
        grown = (1.0 + xp.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        pace = ((momentum - 1.0) / grown)[:, None]
        ahead = new + pace * (new - coef)
        ahead_fitted = new_fitted + pace * (new_fitted - fitted)
        now_done = done | (safe & (gap <= self.enough))
        if is_numpy(safe) and bool(xp.all(safe)):  # what is done has left the batch
            return new, new_fitted, ahead, ahead_fitted, grown, length, now_done
        # Others go back to where they were, for shorter steps; what is done stays.
        limit = size / xp.where(curvature > 0, curvature, 1.0)
        row, stays = safe[:, None], (done | ~safe)[:, None]
        return (
            xp.where(stays, coef, new),
            xp.where(stays, fitted, new_fitted),
            xp.where(row, ahead, coef),
            xp.where(row, ahead_fitted, fitted),
            xp.where(safe, grown, 1.0),
            xp.where(safe, length, limit / POWER_MARGIN),
            now_done,
        )


def _gap(
    loss: _Loss, coef: Array, residual: Array, slope: Array, threshold: Array
) -> Array:
    """Return the duality gap of coefficients (B, P), relative to ½‖y‖²: (B,).

    `residual` is y − A·w and `slope` is Aᵀ of it. The dual point is the residual,
    scaled to where |Aᵀr| ≤ t.
    """
    xp, target = array_namespace(residual), loss.subsets.target
    null = 0.5 * loss.product(target, target)
    energy, along = loss.product(residual, residual), loss.product(target, residual)
    primal = 0.5 * energy + threshold * xp.sum(xp.abs(coef), axis=1)
    steepest = xp.max(xp.abs(slope), axis=1)
    most = xp.where(steepest > 0, threshold, 1.0)
    # No scale is near the largest, which a steepness of almost nothing would exceed.
    steepest = xp.maximum(steepest, 1e-20 * most)
    most = most / xp.where(steepest > 0, steepest, 1.0)
    best = along / xp.where(energy > 0, energy, 1.0)
    scale = xp.maximum(-most, xp.minimum(most, best))
    dual = scale * along - 0.5 * scale**2 * energy
    return (primal - dual) / xp.where(null > 0, null, 1.0)


def refit_on_support(
    X: Array,
    subsets: Subsets,
    coefs: Array,
    ridges: Array,
    *,
    entries: int = REFIT_ENTRIES,
) -> Array:
    """Return ridge estimates of B items on the supports of coefficients, (B, P).

    The penalties are `ridges` (B,) for each unit of weight. A support larger than a
    third of the number of samples determines nothing; such a coefficient is returned
    as it is. Designs of as many items as have `entries` are solved for at once.
    """
    xp = array_namespace(coefs)
    sizes = to_python(xp.sum(xp.astype(coefs != 0, xp.int64), axis=1))
    counts = to_python(subsets.count)
    chosen = [b for b, size in enumerate(sizes) if 0 < 3 * size <= counts[b]]
    largest = max((sizes[b] for b in chosen), default=1)
    place, parts = {b: b for b in range(len(sizes))}, [coefs]
    for part in row_ranges(len(chosen), entries // (X.shape[0] * largest)):
        some = chosen[part]
        place |= {b: len(sizes) + chosen.index(b) for b in some}
        index = as_array(some, coefs, dtype=xp.int64)
        found, items = xp.take(coefs, index, axis=0), subsets.take(some)
        penalty = xp.take(ridges, index, axis=0) * xp.sum(items.weight, axis=1)
        parts.append(_refitted(X, items, found, [sizes[b] for b in some], penalty))
    if not chosen:
        return coefs
    index = as_array(list(place.values()), coefs, dtype=xp.int64)
    return xp.take(xp.concat(parts, axis=0), index, axis=0)


def _refitted(
    X: Array, items: Subsets, coefs: Array, sizes: Sequence[int], penalty: Array
) -> Array:
    """Return ridge estimates on supports of these sizes, (B, P), in one batch.

    Smaller supports are filled up by columns of zeros.
    """
    xp, most, support = array_namespace(coefs), max(sizes), coefs != 0
    ends = np.cumsum(sizes)[:, None]
    slots = np.arange(most) + ends - np.array(sizes)[:, None]
    taken = as_array(slots < ends, coefs, dtype=coefs.dtype)
    slots = as_array(np.minimum(slots, ends - 1).ravel(), coefs, dtype=xp.int64)
    columns = xp.take(xp.nonzero(support)[1], slots, axis=0)
    design = xp.reshape(xp.take(X, columns, axis=1), (X.shape[0], *taken.shape))
    design = xp.moveaxis(design, 0, 2) * taken[:, :, None]
    block = items.ridge(design, penalty)
    # Each place looks up its entry, or the zero at the end.
    padded = xp.concat([block, xp.zeros_like(block[:, :1])], axis=1)
    count = xp.cumulative_sum(xp.astype(support, xp.int64), axis=1)
    return xp.take_along_axis(padded, xp.where(support, count - 1, most), axis=1)


def _put(values: Array, where: Array) -> Array:
    """Return a vector with these values, in order, where this is true, else zero."""
    xp = array_namespace(values)
    # Each place looks up its entry, or the zero at the end.
    padded = xp.concat([values, 0.0 * values[:1]])
    count = xp.cumulative_sum(xp.astype(where, xp.int64))
    return xp.take(padded, xp.where(where, count - 1, values.shape[0]), axis=0)
