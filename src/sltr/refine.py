"""From coefficients to refitted coefficients.

Where n < P the ridge pilot shrinks the coefficient by about n/P, and so does
everything made from it. A refit undoes this on the structure that was found:

- "tucker" and "cp": alternating ridge sweeps over the modes, started from the
  coefficient's own leading components. In mode m the coefficient is B·Lᵀ with
  loadings L made of the other modes, and B is a ridge estimate on the n × (p·r)
  matrix X_(m)·L. "cp" also reweights its entries, so that small ones vanish.
- "sparse": the pilot iterated on its own residual with soft-thresholding, which
  is a Lasso in the pilot's metric, then a ridge estimate on the support.

Every routine works on a batch: of subsets of the samples, of responses, of
thresholds. Nothing of size P × P is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sltr._array import Array, array_namespace, device
from sltr.design import combine, inner
from sltr.prox import soft_threshold
from sltr.solvers.components import CPComponents, TuckerComponents
from sltr.tensor import fold, unfold

__all__ = [
    "RIDGES",
    "Refit",
    "feature_variance",
    "iterate_pilot",
    "low_rank_refits",
    "refit_on_support",
    "unfoldings",
]

# Ridges of the sweeps, relative to the features' mean energy: from a strong one,
# whose objective has few minima, down to nearly none, each starting from the last.
RIDGES = (1.0, 0.3, 0.1, 0.03, 0.01)
FIRST_SWEEPS, SWEEPS = 6, 4
# The ridge (its place in RIDGES) whose answer the next rank grows from.
GROW_FROM = 2
# Thresholded steps on the residual; a refinement, not a minimisation.
RESIDUAL_STEPS = 30


@dataclass(frozen=True, eq=False)
class Refit:
    """One setting's refit of a batch: fitted values of all samples, and tensors."""

    rank: int
    ridge: float
    fitted: Array  # (B, n), centred: without the intercept
    structure: TuckerComponents | CPComponents

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


def feature_variance(X: Array, weight: Array, fit_intercept: bool) -> Array:
    """Return the features' mean variance in each subset, shape (B,).

    Parameters
    ----------
    X : array of shape (n, P)
    weight : array of shape (B, n)
    """
    xp = array_namespace(X)
    total = xp.sum(weight, axis=1)
    squares = weight @ xp.linalg.vecdot(X, X, axis=-1) / total
    if fit_intercept:
        means = combine(weight / total[:, None], X)
        squares = squares - xp.linalg.vecdot(means, means, axis=-1)
    return squares / X.shape[1]


def low_rank_refits(
    matrices: list[Array],
    y: Array,
    weight: Array,
    start: Array,
    pilot_of: Callable[[Array], Array],
    *,
    kind: str,
    largest_rank: int,
    variance: Array,
    fit_intercept: bool,
    ridges: Sequence[float] = RIDGES,
) -> Iterator[Refit]:
    """Refit a batch of coefficients by alternating ridge sweeps, rank after rank.

    With A the weighted, centred samples, each sweep lowers
    ‖y − A·vec(W)‖² + ridge · variance · Σweight · ‖W‖² over one mode after
    another, W of Tucker rank (at most) r in every mode, or a sum of r outer
    products. Rank one starts from the coefficient's leading term, every further
    rank from the last answer and the leading term of its residual's pilot.

    Parameters
    ----------
    matrices : list of arrays
        `unfoldings` of the samples.
    y : array of shape (B, n)
    weight : array of shape (B, n)
        Zero for samples that take no part; they still get fitted values.
    start : array of shape (B, p1, …, pM)
        Coefficients whose leading term starts the sweeps.
    pilot_of : callable
        From residuals (B, n) to their pilots (B, p1, …, pM).
    kind : {"tucker", "cp"}
    largest_rank : int
        At most the second largest size of a mode, 1 for order one: more is no
        Tucker rank.
    variance : array of shape (B,)
        `feature_variance` of the subsets.
    fit_intercept : bool
    ridges : sequence of float
        In descending order.

    Yields
    ------
    Refit
        For each rank and, within it, each ridge.
    """
    xp = array_namespace(start)
    total = xp.sum(weight, axis=1)
    data = _Data(matrices, y, weight, fit_intercept)
    structure: TuckerComponents | CPComponents = _STARTS[kind](start)
    for rank in range(1, largest_rank + 1):
        for level, ridge in enumerate(ridges):
            penalty = ridge * variance * total
            for _ in range(SWEEPS if level else FIRST_SWEEPS):
                for mode in range(len(matrices)):
                    structure, fitted = _mode_step(data, structure, mode, penalty)
                if isinstance(structure, TuckerComponents):
                    structure, fitted = _core_step(data, structure, penalty)
            yield Refit(rank, ridge, fitted, structure)
            if level == min(GROW_FROM, len(ridges) - 1):
                stem, stem_fitted = structure, fitted
        if rank < largest_rank:
            structure = stem.grown(pilot_of(data.centred(y) - stem_fitted))


@dataclass(frozen=True, eq=False)
class _Data:
    matrices: list[Array]
    y: Array
    weight: Array
    fit_intercept: bool

    def centred(self, values: Array) -> Array:
        """Centre (B, n, …) by each item's weighted mean over the samples."""
        if not self.fit_intercept:
            return values
        xp = array_namespace(values)
        weight = self.weight[(..., *([None] * (values.ndim - 2)))]
        total = xp.sum(weight, axis=1, keepdims=True)
        return values - xp.sum(weight * values, axis=1, keepdims=True) / total


def _mode_step(
    data: _Data, structure: TuckerComponents | CPComponents, mode: int, penalty: Array
) -> tuple[TuckerComponents | CPComponents, Array]:
    """Solve for one mode's block given all others; return it and fitted values."""
    xp = array_namespace(data.y)
    design = _projected(data, structure.loadings(mode), mode)  # (B, n, p, r)
    scale = xp.sqrt(structure.scales[mode])
    block, fitted = _fit_block(data, design * scale[:, None, :, :], penalty)
    return structure.replaced(mode, xp.reshape(block, scale.shape) * scale), fitted


def _core_step(
    data: _Data, structure: TuckerComponents, penalty: Array
) -> tuple[TuckerComponents, Array]:
    """Solve for the core given all factors; return it and fitted values."""
    xp = array_namespace(data.y)
    last = len(structure.factors) - 1
    loadings = xp.ones_like(structure.core[(slice(None), *([0] * (last + 1)))])
    loadings = loadings[:, None, None]
    for factor in structure.factors[:last]:  # Kronecker products, item by item
        loadings = loadings[:, :, None, :, None] * factor[:, None, :, None, :]
        n_items, a, b, c, d = loadings.shape
        loadings = xp.reshape(loadings, (n_items, a * b, c * d))
    design = _projected(data, loadings, last)
    factor = xp.matrix_transpose(structure.factors[last])[:, None, :, :]
    core, fitted = _fit_block(data, factor @ design, penalty)  # rows of the last mode
    shape = tuple(structure.core.shape[1:])
    core = xp.reshape(core, (core.shape[0], shape[last], -1))
    return replace(structure, core=fold(core, last, shape)), fitted


def _projected(data: _Data, loadings: Array, mode: int) -> Array:
    """Return X_(m)·L for every item of a batch in one product: (B, n, p, r)."""
    xp = array_namespace(data.y)
    n_items, rest, rank = loadings.shape
    columns = xp.reshape(xp.permute_dims(loadings, (1, 0, 2)), (rest, -1))
    product = data.matrices[mode] @ columns
    shape = (data.y.shape[1], -1, n_items, rank)
    return xp.permute_dims(xp.reshape(product, shape), (2, 0, 1, 3))


def _fit_block(data: _Data, design: Array, penalty: Array) -> tuple[Array, Array]:
    """Solve the ridge problems of designs (B, n, …): blocks (B, d), fitted (B, n)."""
    xp = array_namespace(design)
    design = data.centred(xp.reshape(design, (*design.shape[:2], -1)))
    block = _weighted_ridge(design, data.centred(data.y), data.weight, penalty)
    return block, (design @ block[:, :, None])[:, :, 0]


def _weighted_ridge(design: Array, y: Array, weight: Array, penalty: Array) -> Array:
    """Solve a batch of ridge problems, (B, d), on the shorter side of each."""
    xp = array_namespace(design)
    weighted = design * weight[:, :, None]
    n_samples, n_columns = design.shape[1:]
    size = min(n_samples, n_columns)
    identity = xp.eye(size, dtype=design.dtype, device=device(design))
    shift = penalty[:, None, None] * identity
    if n_columns <= n_samples:
        normal = xp.matrix_transpose(weighted) @ design
        rhs = xp.matrix_transpose(weighted) @ y[:, :, None]
        return xp.linalg.solve(normal + shift, rhs)[:, :, 0]
    root = xp.sqrt(weight)[:, :, None]
    scaled = root * design
    kernel = scaled @ xp.matrix_transpose(scaled)
    dual = xp.linalg.solve(kernel + shift, root * y[:, :, None])
    return (xp.matrix_transpose(scaled) @ dual)[:, :, 0]


_STARTS: dict[str, Callable[..., TuckerComponents | CPComponents]] = {
    "tucker": TuckerComponents.start,
    "cp": CPComponents.start,
}


def iterate_pilot(
    resolvent: Callable[[Array], Array],
    X: Array,
    y: Array,
    thresholds: Array,
    *,
    n_steps: int = RESIDUAL_STEPS,
) -> Array:
    """Iterate the thresholded pilot on its residual, for all thresholds at once.

    The steps W ← S_t(W + pilot(y − X·W)), accelerated, descend

        ½(y − A·w)ᵀ(AAᵀ + εI)⁻¹(y − A·w) + t‖w‖₁,

    the Lasso in the metric of the pilot, in which a step of length one is safe.

    Parameters
    ----------
    resolvent : callable
        From residuals (n, k) to their pilots (k, P): `RidgeSystem.resolvent`.
    X : array of shape (n, P)
    y : array of shape (n,)
    thresholds : array of shape (G,)
        Absolute.

    Returns
    -------
    array of shape (G, P)
    """
    t = thresholds[:, None]
    coef = soft_threshold(resolvent(y[:, None]), t)
    ahead, momentum = coef, 1.0
    for _ in range(n_steps):
        residual = y[:, None] - inner(X, ahead)
        new = soft_threshold(ahead + resolvent(residual), t)
        grown = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        ahead = new + ((momentum - 1.0) / grown) * (new - coef)
        coef, momentum = new, grown
    return coef


def refit_on_support(
    X: Array,
    y: Array,
    weight: Array,
    coef: Array,
    ridge: float,
    *,
    variance: float,
    fit_intercept: bool,
) -> Array:
    """Return the ridge estimate on the support of one coefficient, shape (P,).

    A support larger than half the number of samples determines nothing; the
    coefficient is then returned as it is.
    """
    xp = array_namespace(coef)
    support = xp.nonzero(coef)[0]
    rows = xp.nonzero(weight > 0)[0]
    n_chosen = support.shape[0]
    if n_chosen == 0 or 2 * n_chosen > rows.shape[0]:
        return coef
    columns = xp.take(xp.take(X, support, axis=1), rows, axis=0)[None, ...]
    data = _Data([], y[rows][None, :], weight[rows][None, :], fit_intercept)
    penalty = ridge * variance * xp.sum(data.weight, axis=1)
    block = _weighted_ridge(
        data.centred(columns), data.centred(data.y), data.weight, penalty
    )
    # Scatter by look-up: each place takes its entry, or the zero at the end.
    padded = xp.concat([block[0, :], 0.0 * block[0, :1]])
    chosen = coef != 0
    count = xp.cumulative_sum(xp.astype(chosen, xp.int64))
    return xp.take(padded, xp.where(chosen, count - 1, n_chosen), axis=0)
