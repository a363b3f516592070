"""The samples and the few products with them: the only place that reads X.

A design is a matrix with one row for each sample; its columns are the tensor's entries
in C order. It is an array in memory, of any library (`InMemory`), or stays in a file or
a Dask array (`InPlace`). Every product reads X in blocks, makes no second copy of it,
and is eager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sltr.arrays import Array, array_namespace, as_array, is_numpy
from sltr.arrays.resources import row_ranges

if TYPE_CHECKING:
    from sltr.samples.covariates import Covariates
    from sltr.samples.labelled import Labels
    from sltr.samples.missing import Fill

# How many numbers of X a product in memory handles at a time.
BLOCK_ENTRIES = 4_000_000


class Design(Protocol):
    """Samples as a matrix (n, P), wherever they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape as a matrix: samples, entries of a sample."""

    def take(self, rows: np.ndarray) -> Design:
        """Return the samples of these rows, which ascend; what is in a file stays."""

    def gram(self, *, centred: bool = False) -> Array:
        """Return X·Xᵀ, shape (n, n); `centred`: of X less a row close to its mean.

        Which row does not matter to those who centre afterwards; without it, they
        would lose the digits that the mean takes.
        """

    def combine(self, coefficients: Array) -> Array:
        """Return C·X, shape (k, P): combinations of the samples."""

    def inner(self, coef: Array) -> Array:
        """Return X·Wᵀ, shape (n, k), for coefficients (k, P) of any library."""

    def inner_groups(self, groups: Sequence[tuple[np.ndarray, Array]]) -> list[Array]:
        """Return X[rows]·Wᵀ for each pair (rows, W); files are read once for all."""

    def map_rows(
        self, function: Callable, rowwise: Sequence[Array], constants: Sequence = ()
    ) -> Iterator[Any]:
        """Yield function(block of samples, *their rowwise, *constants), in order.

        The function runs where the samples are: it must be importable.
        """

    def reduce_rows(
        self,
        function: Callable,
        merge: Callable,
        rowwise: Sequence[Array],
        constants: Sequence = (),
    ) -> Any:
        """Return what `map_rows` yields, merged over all blocks.

        `merge` may change and return its first argument.
        """
        return reduce(merge, self.map_rows(function, rowwise, constants))


class InPlace(Design):
    """Samples that stay where they are, in a file or on a cluster.

    They also know the shape of a sample, and the `Budget` of a pass over them.
    """

    def collected(
        self, function: Callable, constants: Sequence, width: int, dtype: Any
    ) -> np.ndarray:
        """Return what `map_rows` yields, rows (R, width), one below another."""
        # Filled as they come: a list of all would be in memory twice.
        found, first = np.empty((self.shape[0], width), dtype), 0
        for rows in self.map_rows(function, [], constants):
            found[first : first + len(rows)] = rows
            first += len(rows)
        return found


@dataclass(frozen=True, eq=False)
class InMemory(Design):
    """A matrix of any array library as a `Design`.

    Columns outside the `support`, if it is known, are zero.
    """

    array: Array
    block_entries: int = BLOCK_ENTRIES
    support: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.array.shape

    def take(self, rows: np.ndarray) -> InMemory:
        """Return a copy of these rows."""
        return replace(self, array=take_rows(self.array, rows))

    def gram(self, *, centred: bool = False) -> Array:
        """Return the Gram matrix, summed over blocks of columns."""
        xp = array_namespace(self.array)
        total = None
        n_columns = self.shape[1] if self.support is None else self.support.shape[0]
        for block in self._columns(n_columns):
            if self.support is None:
                part = self.array[:, block]
            else:
                part = xp.take(self.array, self.support[block], axis=1)
            if centred:
                part = part - xp.mean(part, axis=0, keepdims=True)
            product = part @ xp.matrix_transpose(part)
            total = product if total is None else total + product
        return total

    def combine(self, coefficients: Array) -> Array:
        """Return C·X."""
        xp = array_namespace(coefficients)
        blocks = [coefficients @ self.array[:, block] for block in self._columns()]
        return xp.concat(blocks, axis=1)

    def inner(self, coef: Array) -> Array:
        """Return X·Wᵀ."""
        if not (is_numpy(coef) and is_numpy(self.array)):
            # The samples' library, device and precision; NumPy mixes its own.
            coef = as_array(coef, self.array)
        return self.array @ array_namespace(coef).matrix_transpose(coef)

    def inner_groups(self, groups: Sequence[tuple[np.ndarray, Array]]) -> list[Array]:
        """Return X[rows]·Wᵀ for each pair."""
        return [self.take(rows).inner(coef) for rows, coef in groups]

    def map_rows(
        self, function: Callable, rowwise: Sequence[Array], constants: Sequence = ()
    ) -> Iterator[Any]:
        """Yield function(block, *rowwise, *constants)."""
        height = max(1, self.block_entries // max(1, self.shape[1]))
        for rows in row_ranges(self.shape[0], height):
            parts = [values[rows, ...] for values in rowwise]
            yield function(self.array[rows, :], *parts, *constants)

    def _columns(self, n_columns: int | None = None) -> list[slice]:
        width = max(1, self.block_entries // max(1, self.shape[0]))
        return row_ranges(self.shape[1] if n_columns is None else n_columns, width)


def is_lazy(X: Any) -> bool:
    """Say whether these samples stay where they are."""
    return isinstance(X, InPlace)


def passes_made(X: Any) -> float:
    """Return how often samples that stay where they are were read; 0 in memory."""
    return round(X.budget.read[0], 2) if is_lazy(X) else 0.0


def as_design(X: Any) -> Design:
    """Return samples (n, …) of any kind as a matrix with its products."""
    if isinstance(X, InPlace | InMemory):
        return X
    return InMemory(_as_matrix(X))


@dataclass(frozen=True, eq=False)
class Samples:
    """Clean training data: tensors, responses (or labels), positive weights.

    Samples that stay in a file or on a cluster are read through `design` alone.
    """

    X: Any
    y: Array  # (n,), or (n, K): a row of all responses of a sample
    weight: Array
    covariates: Array | None = None  # (n, q), free of any penalty, in units near one
    known: Covariates | None = None  # how these came about
    kept: np.ndarray | None = None  # entries inside the user's mask, and measured
    fill: Fill | None = None  # what missing entries were replaced by
    labels: Labels | None = None  # what the samples know of themselves
    support: Array | None = None  # columns of `flat` that are not all zero, if known
    measured: np.ndarray | None = None  # (n, K), false where a response is missing

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.X.sample_shape if is_lazy(self.X) else tuple(self.X.shape[1:])

    @property
    def Y(self) -> Array:
        """The responses, (n, K), also where there is one."""
        return self.y[:, None] if self.y.ndim == 1 else self.y

    @property
    def design(self) -> Design:
        """The samples as a matrix with its products."""
        if is_lazy(self.X):
            return self.X
        return InMemory(_as_matrix(self.X), support=self.support)

    @property
    def flat(self) -> Any:
        """The samples as a matrix in memory, or the design that stays where it is."""
        return self.X if is_lazy(self.X) else _as_matrix(self.X)

    def take(self, rows: np.ndarray) -> Samples:
        """Return the samples in these rows."""
        X = self.X.take(rows) if is_lazy(self.X) else take_rows(self.X, rows)
        # Labels may be of any type that NumPy has.
        y = self.y[rows] if is_numpy(self.y) else take_rows(self.y, rows)
        Z = self.covariates
        Z = None if Z is None else take_rows(Z, rows)
        measured = None if self.measured is None else self.measured[rows]
        return replace(
            self,
            X=X,
            y=y,
            weight=take_rows(self.weight, rows),
            covariates=Z,
            measured=measured,
        )


def _as_matrix(X: Array) -> Array:
    return array_namespace(X).reshape(X, (X.shape[0], prod(X.shape[1:])))


def take_rows(array: Array, rows: np.ndarray) -> Array:
    """Return some rows of an array of any library."""
    xp = array_namespace(array)
    return xp.take(array, as_array(rows, array, dtype=xp.int64), axis=0)
