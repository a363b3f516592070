"""TPGD: a low-rank, sparse Tucker coefficient by projected gradient steps.

The projection takes sparse principal components of every unfolding. They are of one
mode's size and need many scalar decisions, so they are found on the host, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from math import ceil, prod
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from sltr.arrays import Array, array_namespace, as_array, to_numpy
from sltr.core.tensor import flatten, mode_product, unfold
from sltr.estimators.fitted import PlainRegressor, linear_scores, unchanged_on_failure
from sltr.parameters import check_count, check_nonnegative, check_sequence, warn_caller
from sltr.peers.search import LinearTrials, search
from sltr.peers.units import centre
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples
from sltr.tuning.choose import check_rule
from sltr.tuning.folds import weighted_splits

# A projection of a gradient is known up to this many roundings of the gradient.
ROUNDINGS = 100.0
# Supports that are tried for a component; usually a few are.
MOST_SUPPORTS = 50


@dataclass(frozen=True, eq=False)
class SparseTucker:
    """A coefficient G ×₁ U₁ … ×_M U_M and how far it can be trusted."""

    coef: Array  # (p1, …, pM)
    core: Array  # (r1, …, rM)
    factors: list[Array]  # (p_m, r_m), unit columns with at most s_m entries
    objective_path: list[float]  # at the start and after every step; never rises
    n_iter: int
    residual: float  # decrease of the objective in the last step, over ½‖y‖²
    converged: bool


def tpgd(
    A: Array,
    y: Array,
    shape: Sequence[int],
    ranks: Sequence[int],
    sparsity: Sequence[int],
    *,
    step: float | None = None,
    tol: float = 1e-7,
    max_iter: int = 1000,
    callback: Callable[[int, Array], None] | None = None,
) -> SparseTucker:
    r"""Minimise the squared error of centred A (n, P), y (n,) over sparse Tuckers.

    .. math::

       \min_W \tfrac12\|A\,\mathrm{vec}\,W - y\|^2 \quad\text{s.t.}\quad
       W = G\times_1 U_1\cdots\times_M U_M,\; \|U_m e_r\|_0 \le s_m.

    A step is W ← H(W − μ∇), where H takes the first r_m sparse principal
    components of every unfolding and projects onto their spans. A small μ keeps
    the supports it starts with, so μ begins long, at the best step within the
    present spans, and is halved down to `step`, 1/‖A‖₂² by default, until the
    objective falls. H is no exact projection: if no step serves, the best one within
    the present spans, which cannot raise the objective, is taken instead. The
    iteration stops once a step lowers the objective by less than `tol` × ½‖y‖², that
    is raises the share of y it explains by less than `tol`.

    References
    ----------
    .. [1] Ahmed, Raja, Bajwa. Tensor regression using low-rank and sparse Tucker
       decompositions. SIAM J. Math. Data Sci. 2(4), 2020.
    """
    # In double precision: steps are compared by the objective, whose rounding in single
    # precision would choose among them, by the order of the samples.
    xp, dtype = array_namespace(A), A.dtype
    A, y = (xp.astype(a, xp.float64) for a in (A, y))
    loss = _Loss(A, y, tuple(shape))
    shortest = (1.0 / (largest_eigenvalue(A) or 1.0)) if step is None else step
    length = float("inf")
    point = _start(loss, ranks, sparsity)
    objective = [point.value]
    whole = 0.5 * float(xp.sum(y**2))
    n_iter, decrease = 0, float("inf")
    while n_iter < max_iter and decrease > tol and point.value > 0.0:
        slope = loss.gradient(point.error)
        best = loss.line_search(slope, point.tucker.factors)
        length = max(shortest, min(best, 2.0 * length))
        new = loss.at(sparse_tucker(point.coef - length * slope, ranks, sparsity))
        while new.value > point.value and length > shortest:
            length = max(shortest, 0.5 * length)
            new = loss.at(sparse_tucker(point.coef - length * slope, ranks, sparsity))
        if new.value > point.value:
            new = loss.at(_project(point.coef - best * slope, point.tucker.factors))
        decrease = (point.value - new.value) / whole
        # Near the minimum rounding may still raise the objective: stay.
        point = new if decrease >= 0.0 else point
        objective.append(point.value)
        n_iter += 1
        if callback is not None:
            callback(n_iter, point.coef)
    return SparseTucker(
        xp.astype(point.coef, dtype),
        xp.astype(point.tucker.core, dtype),
        [xp.astype(factor, dtype) for factor in point.tucker.factors],
        objective,
        n_iter,
        max(decrease, 0.0) if n_iter else 0.0,
        converged=decrease <= tol or point.value == 0.0,
    )


@dataclass(frozen=True, eq=False)
class _Tucker:
    coef: Array
    core: Array
    factors: list[Array]


@dataclass(frozen=True, eq=False)
class _Point:
    tucker: _Tucker
    error: Array
    value: float

    @property
    def coef(self) -> Array:
        return self.tucker.coef


@dataclass(frozen=True, eq=False)
class _Loss:
    """½‖A·vec W − y‖² and its products with A."""

    A: Array
    y: Array
    shape: tuple[int, ...]

    def fitted(self, coef: Array) -> Array:
        xp = array_namespace(coef)
        return self.A @ xp.reshape(coef, (-1,))

    def gradient(self, error: Array) -> Array:
        xp = array_namespace(error)
        return xp.reshape(xp.matrix_transpose(self.A) @ error, self.shape)

    def at(self, tucker: _Tucker) -> _Point:
        error = self.fitted(tucker.coef) - self.y
        xp = array_namespace(error)
        return _Point(tucker, error, 0.5 * float(xp.sum(error**2)))

    def line_search(self, slope: Array, factors: list[Array]) -> float:
        """Return the best step along the gradient within the factors' spans.

        It is 0 where nothing but rounding is left of the gradient, as within the
        spans of a start that is scaled to fit best.
        """
        direction = _project(slope, factors).coef
        xp = array_namespace(direction)
        size, whole = (float(xp.sum(part**2)) for part in (direction, slope))
        energy = float(xp.sum(self.fitted(direction) ** 2))
        rounding = ROUNDINGS * float(xp.finfo(slope.dtype).eps)
        return size / energy if energy > 0.0 and size > rounding**2 * whole else 0.0


def _start(loss: _Loss, ranks: Sequence[int], sparsity: Sequence[int]) -> _Point:
    """Return H(Aᵀy), scaled to fit y best."""
    xp = array_namespace(loss.y)
    tucker = sparse_tucker(loss.gradient(loss.y), ranks, sparsity)
    prediction = loss.fitted(tucker.coef)
    energy = float(xp.sum(prediction**2))
    scale = float(xp.sum(prediction * loss.y)) / energy if energy > 0.0 else 0.0
    return loss.at(_Tucker(scale * tucker.coef, scale * tucker.core, tucker.factors))


def sparse_tucker(
    tensor: Array, ranks: Sequence[int], sparsity: Sequence[int]
) -> _Tucker:
    """Return H(tensor): sparse components of every unfolding, core by projection."""
    factors = []
    for mode, (rank, cardinality) in enumerate(zip(ranks, sparsity, strict=True)):
        matrix = to_numpy(unfold(tensor[None, ...], mode)[0, ...])
        factor = sparse_components(matrix, rank, cardinality)
        factors.append(as_array(factor, tensor))
    return _project(tensor, factors)


def _project(tensor: Array, factors: list[Array]) -> _Tucker:
    """Project orthogonally onto the spans of the factors' columns."""
    core = tensor[None, ...]
    for mode, factor in enumerate(factors):
        inverse = np.linalg.pinv(to_numpy(factor))
        core = mode_product(core, as_array(inverse, tensor), mode)
    coef = core
    for mode, factor in enumerate(factors):
        coef = mode_product(coef, factor, mode)
    return _Tucker(coef[0, ...], core[0, ...], factors)


def sparse_components(matrix: np.ndarray, rank: int, cardinality: int) -> np.ndarray:
    """Return `rank` sparse principal directions of (p, q) columns, shape (p, rank).

    Each maximises ‖Bᵀv‖ over unit vectors v with at most `cardinality` entries,
    by truncated power iteration; B is then deflated by the part of v that is
    new. Deterministic: the iteration starts from the leading singular vector and
    from the largest row, and the better result is kept. Where nothing remains,
    the other columns are zero.

    References
    ----------
    .. [1] Yuan, Zhang. Truncated power method for sparse eigenvalue problems.
       JMLR 14, 2013.
    """
    remaining = _short(matrix.astype(np.float64))
    directions = np.zeros((remaining.shape[0], rank))
    basis = np.zeros((remaining.shape[0], rank))
    # Square roots of a Gram matrix's eigenvalues carry half the digits.
    smallest = 1e-7 * np.linalg.norm(remaining)
    for number in range(rank):
        if np.linalg.norm(remaining) <= smallest:
            break
        v = _direction(remaining, cardinality)
        new = v - basis @ (basis.T @ v)
        new /= np.linalg.norm(new)
        remaining = remaining - np.outer(new, new @ remaining)
        directions[:, number], basis[:, number] = v, new
    return directions


def _short(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix with the same M·Mᵀ and no more columns than rows."""
    if matrix.shape[1] <= matrix.shape[0]:
        return matrix
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    return vectors * np.sqrt(np.clip(values, 0.0, None))


def _direction(matrix: np.ndarray, cardinality: int) -> np.ndarray:
    """Return the best sparse direction of both starts, its largest entry positive."""
    leading, _ = _leading(matrix)
    largest = matrix @ matrix[int(np.argmax(np.einsum("ij,ij->i", matrix, matrix)))]
    starts = [leading] if cardinality == len(matrix) else [leading, largest]
    results = [_truncated_power(matrix, start, cardinality) for start in starts]
    v = max(results, key=lambda pair: pair[1])[0]
    return v if v[int(np.argmax(np.abs(v)))] > 0 else -v


def _leading(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the leading left singular vector and its squared singular value."""
    n_rows, n_columns = matrix.shape
    if n_rows <= n_columns:
        values, vectors = np.linalg.eigh(matrix @ matrix.T)
        return vectors[:, -1], float(values[-1])
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    image = matrix @ vectors[:, -1]
    norm = np.linalg.norm(image)
    return image / (norm if norm > 0.0 else 1.0), float(values[-1])


def _truncated_power(
    matrix: np.ndarray, v: np.ndarray, cardinality: int
) -> tuple[np.ndarray, float]:
    """Move to the support of the largest entries of B·Bᵀv while that pays.

    On each support v is the best direction there is, not one power step: the
    support settles in a few rounds.
    """
    support = _largest(v, cardinality)
    within, value = _leading(matrix[support])
    for _ in range(MOST_SUPPORTS):
        new_support = _largest(matrix @ (matrix[support].T @ within), cardinality)
        if np.array_equal(new_support, support):
            break
        new_within, new_value = _leading(matrix[new_support])
        if new_value <= value:
            break
        support, within, value = new_support, new_within, new_value
    result = np.zeros(len(matrix))
    result[support] = within
    return result, value


def _largest(vector: np.ndarray, count: int) -> np.ndarray:
    """Return the rows of the largest entries, ascending; ties to the first."""
    order = np.argsort(-np.abs(vector), kind="stable")
    return np.sort(order[:count])


def largest_eigenvalue(A: Array, *, tol: float = 1e-6, max_iter: int = 500) -> float:
    """Return ‖A‖₂² by the power method, to about the root of `tol`."""
    xp = array_namespace(A)
    transposed = xp.matrix_transpose(A)
    # Norms of the columns: positive, of no symmetry the data do not have, and the
    # same in whichever order the samples come.
    v = xp.sqrt(xp.sum(A**2, axis=0))
    v = v * as_array(1.0 + 0.1 * np.cos(np.arange(A.shape[1])), A)
    norm = float(xp.sqrt(xp.sum(v**2)))
    value, change = 0.0, 1.0
    n_iter = 0
    while n_iter < max_iter and change > tol and norm > 0.0:
        v = transposed @ (A @ (v / norm))
        norm = float(xp.sqrt(xp.sum(v**2)))
        change = abs(norm - value) / norm if norm > 0.0 else 0.0
        value, n_iter = norm, n_iter + 1
    return value


def tucker_ranks(ranks: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return one possible Tucker rank for each mode, or say what is wrong.

    r_m cannot exceed the mode's size or the product of the other ranks. One number
    is cut to what each mode allows.
    """
    given = [ranks] if _is_scalar(ranks) else list(ranks)
    whole = all(_is_whole(rank) and rank >= 1 for rank in given)
    if whole and _is_scalar(ranks):
        cut = [min(int(ranks), size) for size in shape]
        for _ in shape:  # a cut in one mode may ask for one in the next
            for mode in range(len(shape)):
                cut[mode] = min(cut[mode], _product_of_others(cut, mode))
        return tuple(cut)
    clean = [int(rank) for rank in given] if whole else []
    if len(clean) != len(shape) or any(
        rank > min(size, _product_of_others(clean, mode))
        for mode, (rank, size) in enumerate(zip(clean, shape, strict=True))
    ):
        msg = (
            f"ranks={ranks!r} was given for samples of shape {shape}; expected a whole "
            "number of at least 1, or one for each mode that exceeds neither the "
            "mode's size nor the product of the other ranks."
        )
        raise ValueError(msg)
    return tuple(clean)


def column_cardinalities(sparsity: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many entries of a column may differ from zero, for each mode."""
    scalar = _is_scalar(sparsity)
    given = [sparsity] * len(shape) if scalar else list(sparsity)
    largest = max(shape)
    counts = [
        _cardinality(value, size, largest if scalar else size)
        for value, size in zip(given, shape, strict=False)
    ]
    if len(given) != len(shape) or 0 in counts:
        msg = (
            f"sparsity={sparsity!r} was given for samples of shape {shape}; expected a "
            "number of entries from 1 to a mode's size or a fraction in (0, 1], or "
            "one of them for each mode."
        )
        raise ValueError(msg)
    return tuple(counts)


def _cardinality(value: Any, size: int, most: int) -> int:
    """Return a number of entries from 1 to `size`, or 0 if `value` is none."""
    if _is_whole(value):
        return min(int(value), size) if 1 <= value <= most else 0
    fraction = float(value) if isinstance(value, Real) else 0.0
    if isinstance(value, bool) or not 0.0 < fraction <= 1.0:
        return 0
    return max(1, ceil(fraction * size - 1e-9))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Sequence | np.ndarray) or isinstance(value, str)


def _product_of_others(ranks: list[int], mode: int) -> int:
    return prod(ranks[:mode] + ranks[mode + 1 :])


# Ranks and cardinalities, one number for each mode.
Candidate = tuple[tuple[int, ...], tuple[int, ...]]


class _TPGD(BaseEstimator):
    """What `TPGDRegressor` and its tuned version share: fits of any candidates."""

    tol: float
    max_iter: int
    fit_intercept: bool

    def _budget(self) -> dict[str, Any]:
        return {
            "tol": check_nonnegative(self.tol, "tol"),
            "max_iter": check_count(self.max_iter, "max_iter"),
        }

    def _fit_one(self, samples: Samples, candidate: Candidate, budget: Any) -> Any:
        """Fit one pair of ranks and cardinalities, and remember it."""
        centred = centre(samples, self.fit_intercept)
        result = tpgd(centred.A, centred.y, samples.shape, *candidate, **budget)
        unit = centred.coef_unit
        self.coef_ = result.coef * unit
        self.core_, self.factors_ = result.core * unit, result.factors
        self.intercept_ = float(centred.intercept(flatten(self.coef_[None, ...]))[0])
        self.objective_path_ = np.array(result.objective_path) * centred.y_unit**2
        self.residual_, self.n_iter_ = result.residual, result.n_iter
        if not result.converged:
            warn_caller(
                f"After {result.n_iter} steps the explained share of y still rose by "
                f"{result.residual:.2g} in one step (tol={self.tol:.2g}). "
                "Increase max_iter or tol, or lower ranks.",
                ConvergenceWarning,
            )
        return self

    def _fit_all(
        self, samples: Samples, candidates: list[Candidate], budget: Any
    ) -> LinearTrials:
        """Fit all candidates, which share the shortest step."""
        centred = centre(samples, self.fit_intercept)
        A, y = centred.A, centred.y
        step = 1.0 / (largest_eigenvalue(A) or 1.0)
        fits = [tpgd(A, y, samples.shape, *c, step=step, **budget) for c in candidates]
        coef = array_namespace(A).stack([fit.coef for fit in fits]) * centred.coef_unit
        return LinearTrials.of_one_response(coef, centred)

    def predict(self, X: Any) -> Array:
        """Return predictions of shape (n,)."""
        return linear_scores(self, X)


@dataclass(eq=False, repr=False)
class TPGDRegressor(PlainRegressor, _TPGD):
    r"""Regression with a low-rank, sparse Tucker coefficient (TPGD).

    Solves, by projected gradient steps,

    .. math::

       \min_{W,b} \tfrac12\sum_i (y_i - \langle X_i, W\rangle - b)^2
       \quad\text{s.t.}\quad W = G\times_1 U_1\cdots\times_M U_M,\;
       \|U_m e_r\|_0 \le s_m .

    The projection takes sparse principal components of every unfolding, found by
    truncated power iteration. The problem is not convex: the result is a good
    point, not a certified optimum; the objective never rises on the way.

    Parameters
    ----------
    ranks : int or sequence of int, default=2
        Tucker rank of each mode. One number serves all modes and is cut to what
        a mode allows; a sequence must be possible as it stands.
    sparsity : int, float or sequence of these, default=0.5
        How many entries of a factor's column may differ from zero: an int is
        their number, a float in (0, 1] a fraction of the mode's size, rounded
        up. One int serves all modes and is cut to their sizes.
    tol : float, default=1e-5
        Stop once a step raises the explained share of y (the training R²) by less
        than this.
    max_iter : int, default=1000
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    intercept_ : float
    core_ : array of shape (r1, …, rM)
    factors_ : list of arrays of shape (p_m, r_m)
    objective_path_ : array of shape (n_iter + 1,)
    residual_ : float
        Gain of the last step, in the units of `tol`.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    .. [1] Ahmed, Raja, Bajwa. Tensor regression using low-rank and sparse Tucker
       decompositions. SIAM J. Math. Data Sci. 2(4), 2020.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> model = TPGDRegressor(1, sparsity=2).fit(X, X[:, 2, 3] + X[:, 2, 4])
    >>> np.round(model.coef_[2], 2)
    array([0., 0., 0., 1., 1.])
    """

    ranks: int | Sequence[int] = 2
    _: KW_ONLY
    sparsity: float | Sequence[float] = 0.5
    tol: float = 1e-5
    max_iter: int = 1000
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None

    @unchanged_on_failure
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TPGDRegressor:
        """Fit to samples of shape (n, p1, …, pM) and responses of shape (n,).

        A weight of 2 is the same as giving the sample twice.
        """
        samples = check_samples(self, X, y, sample_weight)
        ranks = tucker_ranks(self.ranks, samples.shape)
        sparsity = column_cardinalities(self.sparsity, samples.shape)
        return self._fit_one(samples, (ranks, sparsity), self._budget())


@dataclass(eq=False, repr=False)
class TPGDRegressorCV(PlainRegressor, _TPGD):
    """Sparse Tucker regression (TPGD) tuned by cross-validation.

    Parameters
    ----------
    ranks : sequence, default=(1, 2, 3)
        Values of `ranks` to consider, as in :class:`TPGDRegressor`.
    sparsities : sequence, default=(0.1, 0.25, 0.5, 1.0)
        Values of `sparsity` to consider.
    tol : float, default=1e-5
    max_iter : int, default=1000
    cv : int, splitter or iterable, default=5
    scoring : str or callable, default=None
        As in scikit-learn; None is R².
    rule : {"best", "1se"}, default="best"
        "1se": the fewest free parameters within one standard error of the best.
    n_jobs : int, default=None
        Folds fitted at the same time.
    fit_intercept : bool, default=True
    feature_shape : tuple of int, default=None
        Folds flat rows into tensors of this shape.

    Attributes
    ----------
    coef_, intercept_, core_, factors_, objective_path_, residual_, n_iter_, …
        As in :class:`TPGDRegressor`, of the winner fitted to all samples.
    ranks_, sparsity_ : tuple of int
        The winner, one number for each mode.
    best_score_ : float
    cv_results_ : dict
        scikit-learn's keys, one row for each candidate; settings that mean the
        same for the shape of the samples are one candidate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 6, 5))
    >>> y = X[:, 2, 3] + X[:, 2, 4] + 0.1 * X[:, 0, 0]
    >>> TPGDRegressorCV((1, 2), sparsities=(2, 5)).fit(X, y).sparsity_
    (2, 2)
    """

    ranks: Sequence = (1, 2, 3)
    _: KW_ONLY
    sparsities: Sequence = (0.1, 0.25, 0.5, 1.0)
    tol: float = 1e-5
    max_iter: int = 1000
    cv: Any = 5
    scoring: str | Callable | None = None
    rule: str = "best"
    n_jobs: int | None = None
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> TPGDRegressorCV:
        """Choose a candidate by cross-validation, then fit it to all samples.

        Weights serve fits and scores; `groups` are passed to the splitter.
        """
        check_rule(self.rule)
        samples = check_samples(self, X, y, sample_weight)
        budget = self._budget()
        candidates = _candidates(self.ranks, self.sparsities, samples.shape)
        ranks, sparsity = zip(*candidates, strict=True)
        searched = search(
            self,
            samples,
            weighted_splits(self.cv, y, sample_weight, groups=groups),
            {"ranks": ranks, "sparsity": sparsity},
            lambda rows: self._fit_all(samples.take(rows), candidates, budget),
            scoring=self.scoring,
            rule=self.rule,
            complexity=np.array([_n_parameters(*c) for c in candidates]),
            weighted=sample_weight is not None,
            n_jobs=self.n_jobs,
        )
        self.best_score_, self.cv_results_ = searched.best_score, searched.table
        self.scored_by_ = searched.scored_by
        self.ranks_, self.sparsity_ = candidates[searched.index]
        return self._fit_one(samples, candidates[searched.index], budget)


def _candidates(
    ranks: Sequence, sparsities: Sequence, shape: tuple[int, ...]
) -> list[Candidate]:
    """Return all combinations, each meaning once, simplest first as given."""
    grid = product(
        [tucker_ranks(value, shape) for value in check_sequence(ranks, "ranks")],
        [
            column_cardinalities(value, shape)
            for value in check_sequence(sparsities, "sparsities")
        ],
    )
    return list(dict.fromkeys(grid))


def _n_parameters(ranks: tuple[int, ...], sparsity: tuple[int, ...]) -> int:
    core = int(np.prod(ranks))
    return core + sum(r * s for r, s in zip(ranks, sparsity, strict=True))
