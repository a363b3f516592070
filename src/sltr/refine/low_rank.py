"""Low-rank refits by alternating ridge sweeps over the modes.

In mode m the coefficient is B·Lᵀ with loadings L made of the other modes, and B is
a ridge estimate on the n × (p·r) matrix X_(m)·L. "cp" also reweights its entries,
and those that become small are zero. Every routine works on a batch of subsets and
responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sltr._array import Array, array_namespace
from sltr.refine.subset import Subsets, weighted_ridge
from sltr.solvers.components import CPComponents, TuckerComponents
from sltr.tensor import fold, unfold

__all__ = ["RIDGES", "Refit", "Sweeps", "grown_refits", "seeded_refits", "unfoldings"]

# Ridges of the sweeps, relative to the features' mean energy: from a strong one,
# whose objective has few minima, down to nearly none, each starting from the last.
RIDGES = (0.3, 0.1, 0.03)
FIRST_SWEEPS, NEXT_SWEEPS = 4, 3
# The ridge (its place in RIDGES) whose answer the next rank grows from.
GROW_FROM = 1

Structure = TuckerComponents | CPComponents


@dataclass(frozen=True, eq=False)
class Refit:
    """One setting's refit of a batch: fitted values of all samples, and tensors."""

    rank: int
    ridge: float
    fitted: Array  # (B, n), centred: without the intercept
    structure: Structure

    def coef(self) -> Array:
        """Return the refitted coefficients, shape (B, p1, …, pM)."""
        return self.structure.coef()


def unfoldings(X: Array) -> list[Array]:
    """Return the samples' unfoldings, each (n · p_m, P / p_m); mode 0 is a view."""
    xp = array_namespace(X)
    found = []
    for mode in range(X.ndim - 1):
        matrix = unfold(X, mode)
        found.append(xp.reshape(matrix, (-1, matrix.shape[2])))
    return found


@dataclass(frozen=True, eq=False)
class Sweeps:
    """The problem that sweeps lower, one mode after another, for a batch.

    With A the weighted, centred samples it is

        ‖y − A·vec(W)‖² + ridge · variance · Σweight · ‖W‖²,

    W of Tucker rank (at most) r in every mode, or a sum of r outer products.
    Samples of weight zero take no part, but get fitted values.
    """

    matrices: list[Array]  # `unfoldings` of the samples
    subsets: Subsets
    variance: Array  # (B,), `feature_variance` of the subsets
    ridges: Sequence[float] = RIDGES  # descending

    def refits(self, structure: Structure, rank: int) -> Iterator[Refit]:
        """Yield the refits of one rank, ridge after ridge."""
        xp = array_namespace(self.variance)
        total = xp.sum(self.subsets.weight, axis=1)
        for level, ridge in enumerate(self.ridges):
            penalty = ridge * self.variance * total
            for _ in range(NEXT_SWEEPS if level else FIRST_SWEEPS):
                for mode in range(len(self.matrices)):
                    structure, fitted = _mode_step(self, structure, mode, penalty)
                if isinstance(structure, TuckerComponents):
                    structure, fitted = _core_step(self, structure, penalty)
            yield Refit(rank, ridge, fitted, structure)


def grown_refits(
    problem: Sweeps,
    start: Array,
    pilot_of: Callable[[Array], Array],
    *,
    kind: str,
    largest_rank: int,
) -> Iterator[Refit]:
    """Refit a batch of coefficients, growing from rank to rank.

    Rank one starts from the coefficient's leading term, every further rank from the
    last answer and the leading term of its residual's pilot.

    Parameters
    ----------
    problem : Sweeps
    start : array of shape (B, p1, …, pM)
    pilot_of : callable
        From residuals (B, n) to their pilots (B, p1, …, pM).
    kind : {"tucker", "cp"}
    largest_rank : int
        At most the second largest size of a mode, 1 for order one: more is no
        Tucker rank.

    Yields
    ------
    Refit
        For each rank and, within it, each ridge.
    """
    subsets = problem.subsets
    structure = _STARTS[kind](start)
    for rank in range(1, largest_rank + 1):
        for level, refit in enumerate(problem.refits(structure, rank)):
            yield refit
            if level == min(GROW_FROM, len(problem.ridges) - 1):
                stem = refit
        if rank < largest_rank:
            residual = subsets.centred(subsets.y) - stem.fitted
            structure = stem.structure.grown(pilot_of(residual))


def seeded_refits(
    problem: Sweeps, start: Array, *, kind: str, largest_rank: int
) -> Iterator[Refit]:
    """Refit a batch of coefficients, each rank from their own leading terms.

    Parameters and results are those of `grown_refits`.
    """
    structure = _STARTS[kind](start)
    for rank in range(1, largest_rank + 1):
        yield from problem.refits(structure, rank)
        if rank < largest_rank:
            structure = structure.grown(start - structure.coef())


def _mode_step(
    data: Sweeps, structure: Structure, mode: int, penalty: Array
) -> tuple[Structure, Array]:
    """Solve for one mode's block given all others; return it and fitted values."""
    xp = array_namespace(data.subsets.y)
    design = _projected(data, structure.loadings(mode), mode)  # (B, n, p, r)
    scale = xp.sqrt(structure.scales[mode])
    design = _flat_centred(data, design)
    scaled = design * xp.reshape(scale, (scale.shape[0], 1, -1))
    block = xp.reshape(_fit_block(data, scaled, penalty), scale.shape) * scale
    block = structure.pruned(block)
    fitted = design @ xp.reshape(block, (block.shape[0], -1, 1))
    return structure.replaced(mode, block), fitted[:, :, 0]


def _core_step(
    data: Sweeps, structure: TuckerComponents, penalty: Array
) -> tuple[TuckerComponents, Array]:
    """Solve for the core given all factors; return it and fitted values."""
    xp = array_namespace(data.subsets.y)
    last = len(structure.factors) - 1
    loadings = xp.ones_like(structure.core[(slice(None), *([0] * (last + 1)))])
    loadings = loadings[:, None, None]
    for factor in structure.factors[:last]:  # Kronecker products, item by item
        loadings = loadings[:, :, None, :, None] * factor[:, None, :, None, :]
        n_items, a, b, c, d = loadings.shape
        loadings = xp.reshape(loadings, (n_items, a * b, c * d))
    design = _projected(data, loadings, last)
    factor = xp.matrix_transpose(structure.factors[last])[:, None, :, :]
    design = _flat_centred(data, factor @ design)
    core = _fit_block(data, design, penalty)  # rows of the last mode
    fitted = (design @ core[:, :, None])[:, :, 0]
    shape = tuple(structure.core.shape[1:])
    core = xp.reshape(core, (core.shape[0], shape[last], -1))
    return replace(structure, core=fold(core, last, shape)), fitted


def _projected(data: Sweeps, loadings: Array, mode: int) -> Array:
    """Return X_(m)·L for every item of a batch in one product: (B, n, p, r)."""
    xp = array_namespace(data.subsets.y)
    n_items, rest, rank = loadings.shape
    columns = xp.reshape(xp.permute_dims(loadings, (1, 0, 2)), (rest, -1))
    product = data.matrices[mode] @ columns
    shape = (data.subsets.y.shape[1], -1, n_items, rank)
    return xp.permute_dims(xp.reshape(product, shape), (2, 0, 1, 3))


def _flat_centred(data: Sweeps, design: Array) -> Array:
    xp = array_namespace(design)
    return data.subsets.centred(xp.reshape(design, (*design.shape[:2], -1)))


def _fit_block(data: Sweeps, design: Array, penalty: Array) -> Array:
    """Solve the ridge problems of centred designs (B, n, d): blocks (B, d)."""
    subsets = data.subsets
    return weighted_ridge(design, subsets.centred(subsets.y), subsets.weight, penalty)


_STARTS: dict[str, Callable[[Array], Structure]] = {
    "tucker": TuckerComponents.start,
    "cp": CPComponents.start,
}
