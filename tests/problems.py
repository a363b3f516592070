"""Problems that many tests share.

`POSED`: sparse and low-rank problems with the optimum an interior point finds.
`draw`: samples and responses of a coefficient that is known.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from oracles import cvx_solution, feasible, groups_of, objective, unfold_by_loop

from sltr.core.problem import Problem, Sparsity


@dataclass(frozen=True, eq=False)
class Posed:
    """One problem, its radii absolute; `modes` as in `sltr.core.problem`."""

    Z: np.ndarray
    a: float
    bs: tuple[float, ...]
    alpha: float
    betas: tuple[float, ...]
    modes: tuple[int, ...]
    slices: tuple[int, ...] | None = None
    weights: np.ndarray | None = None
    positive: bool = False

    @property
    def groups(self):
        """The groups and their weights; None for single entries of weight one."""
        if self.slices is None and self.weights is None:
            return None
        return groups_of(self.Z.shape, self.slices, self.weights)

    @cached_property
    def solution(self):
        """The optimal value and solution."""
        return cvx_solution(
            self.Z,
            self.a,
            self.bs,
            self.alpha,
            self.betas,
            self.modes,
            self.groups,
            self.positive,
        )

    def upper(self, W):
        """Return the objective at the feasible point towards W."""
        inside = feasible(W, self.Z, self.a, self.bs, self.modes, self.groups)
        return objective(inside, self.alpha, self.betas, self.modes, self.groups)

    def batch(self, array=np.asarray):
        """Return the problem as a batch of one, with its box cut if redundant."""
        problem = Problem(
            array(self.Z[None]),
            array(np.array([self.a])),
            array(np.array([self.bs])),
            array(np.array([self.alpha])),
            array(np.array([self.betas])),
            self.modes,
            Sparsity.of(
                self.Z.shape, self.slices, self.weights, positive=self.positive
            ),
        )
        return problem.with_effective_box()


def posed(
    seed,
    shape,
    sparse,
    low,
    *,
    alpha=1.0,
    beta=1.0,
    modes=(0,),
    rank=2,
    noise=0.2,
    slices=None,
    weights=None,
    positive=False,
):
    """Draw a low-rank, sparse tensor plus noise; radii are fractions of the maxima.

    `weights` are drawn from its values, equal in each slice.
    """
    rng = np.random.default_rng(seed)
    Z = np.zeros(shape)
    for _ in range(rank):
        part = np.ones(())
        for size in shape:
            part = np.multiply.outer(
                part, rng.normal(size=size) * (rng.random(size) < 0.7)
            )
        Z += part
    Z += noise * rng.normal(size=shape)
    Z = np.maximum(Z, 0.0) if positive else Z
    if weights is not None:
        kept = range(len(shape)) if slices is None else slices
        size = [p if m in kept else 1 for m, p in enumerate(shape)]
        weights = np.broadcast_to(rng.choice(weights, size=size), shape) + 0.0
    bs = tuple(low * np.linalg.norm(unfold_by_loop(Z, m), 2) for m in modes)
    betas = (beta / len(modes),) * len(modes)
    a = sparse * np.abs(Z).max()
    return Posed(Z, a, bs, alpha, betas, modes, slices, weights, positive)


# Every kind: ball only, box only, both, weights either way, one mode and joint.
POSED = {
    "both bind": posed(0, (4, 6), 0.2, 0.3),
    "tall": posed(1, (6, 4), 0.15, 0.25),
    "ball only": posed(2, (4, 5), 1.0, 0.4),
    "more weight on rank": posed(3, (4, 6), 0.3, 0.3, alpha=0.2, beta=1.0),
    "more weight on entries": posed(4, (3, 7), 0.3, 0.3, alpha=2.0, beta=0.5),
    "rank alone": posed(5, (4, 5), 0.4, 0.5, alpha=0.0),
    "entries alone": posed(6, (4, 5), 0.4, 0.3, beta=0.0),
    "nearly everything goes": posed(7, (4, 5), 0.95, 0.9, alpha=0.3),
    "joint matrix": posed(8, (3, 5), 0.3, 0.3, modes=(0, 1)),
    "joint tensor": posed(9, (3, 4, 2), 0.3, 0.35, modes=(0, 1, 2)),
    "joint, weight on rank": posed(10, (2, 3, 3), 0.5, 0.4, alpha=0.3, modes=(0, 1, 2)),
    "weights": posed(11, (4, 6), 0.3, 0.3, weights=[0.3, 1.0, 2.0]),
    "some entries free": posed(12, (4, 5), 0.3, 0.4, weights=[0.0, 1.0], modes=(0, 1)),
    "non-negative": posed(13, (4, 6), 0.2, 0.3, positive=True),
    "non-negative, weight on rank": posed(
        14, (4, 5), 0.4, 0.3, alpha=0.2, positive=True
    ),
    "rows": posed(15, (5, 4), 0.2, 0.4, slices=(0,)),
    "columns, ball of columns": posed(16, (4, 6), 0.1, 0.9, slices=(1,)),
    "rows with weights": posed(17, (5, 4), 0.2, 0.4, slices=(0,), weights=[0.0, 1, 2]),
    "slices of a tensor": posed(18, (3, 4, 2), 0.2, 0.4, slices=(1,), modes=(0, 1, 2)),
    "fibres of a tensor": posed(19, (3, 3, 4), 0.2, 0.4, slices=(0, 2), modes=(1,)),
    "non-negative rows": posed(20, (5, 4), 0.2, 0.4, slices=(0,), positive=True),
    "non-negative slices, weights": posed(
        21,
        (3, 4, 2),
        0.15,
        0.5,
        slices=(1,),
        weights=[1, 2],
        positive=True,
        modes=(0, 2),
    ),
}


def block(shape):
    """Return a tensor of zeros with ones in the first half of each mode."""
    coef = np.zeros(shape)
    coef[tuple(slice(0, max(1, size // 2)) for size in shape)] = 1.0
    return coef


def corner(shape, sizes):
    """Return a tensor of zeros with ones in the first entries of the first modes."""
    coef = np.zeros(shape)
    coef[tuple(slice(0, size) for size in sizes)] = 1.0
    return coef


def outer_products(rng, shape, rank):
    """Draw a sum of outer products of normal vectors."""
    coef = np.zeros(shape)
    for _ in range(rank):
        coef += reduce(np.multiply.outer, [rng.normal(size=size) for size in shape])
    return coef


def draw(rng, coef, n, *, noise=0.1, mean=0.0, offset=0.0):
    """Draw normal samples about a mean, and their responses to a coefficient."""
    X = rng.normal(size=(n, *coef.shape)) + mean
    signal = X.reshape(n, -1) @ coef.reshape(-1) + offset
    return X, signal + noise * rng.normal(size=n)
