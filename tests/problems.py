"""Problems that many tests share.

`POSED`: sparse and low-rank problems with the optimum an interior point finds.
`draw`: samples and responses of a coefficient that is known.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from oracles import cvx_solution, feasible, objective, unfold_by_loop

from sltr.core.problem import Problem


@dataclass(frozen=True, eq=False)
class Posed:
    """One problem, its radii absolute; `modes` as in `sltr.core.problem`."""

    Z: np.ndarray
    a: float
    bs: tuple[float, ...]
    alpha: float
    betas: tuple[float, ...]
    modes: tuple[int, ...]

    @cached_property
    def solution(self):
        """The optimal value and solution."""
        return cvx_solution(self.Z, self.a, self.bs, self.alpha, self.betas, self.modes)

    def upper(self, W):
        """Return the objective at the feasible point towards W."""
        inside = feasible(W, self.Z, self.a, self.bs, self.modes)
        return objective(inside, self.alpha, self.betas, self.modes)

    def batch(self, array=np.asarray):
        """Return the problem as a batch of one, with its box cut if redundant."""
        problem = Problem(
            array(self.Z[None]),
            array(np.array([self.a])),
            array(np.array([self.bs])),
            array(np.array([self.alpha])),
            array(np.array([self.betas])),
            self.modes,
        )
        return problem.with_effective_box()


def posed(
    seed, shape, sparse, low, *, alpha=1.0, beta=1.0, modes=(0,), rank=2, noise=0.2
):
    """Draw a low-rank, sparse tensor plus noise; radii are fractions of the maxima."""
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
    bs = tuple(low * np.linalg.norm(unfold_by_loop(Z, m), 2) for m in modes)
    betas = (beta / len(modes),) * len(modes)
    return Posed(Z, sparse * np.abs(Z).max(), bs, alpha, betas, modes)


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
