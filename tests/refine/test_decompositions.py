"""CP and Tucker structures: designs, balance, starts."""

import numpy as np
import pytest

from sltr.peers.trr import group_relaxation
from sltr.refine.factors import CP, Tucker
from sltr.refine.glm import FAMILIES, Problem
from sltr.refine.sweeps import block_relaxation, starts

SHAPES = [(5,), (4, 3), (4, 3, 2), (2, 3, 2, 3), (2, 2, 3, 2, 2)]


def _structures():
    for shape in SHAPES:
        yield CP(shape, 1 if len(shape) == 1 else 2)
        yield Tucker(shape, tuple(min(p, 1 + m) for m, p in enumerate(shape)))


def _name(structure):
    return f"{type(structure).__name__}{structure.shape}"


@pytest.mark.parametrize("structure", list(_structures()), ids=_name)
def test_every_design_gives_the_tensor_inner_product(structure):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, *structure.shape))
    blocks = structure.random_start(rng, X)
    expected = X.reshape(6, -1) @ structure.tensor(blocks).ravel()
    visited = []
    for index, design in structure.designs(X, blocks):
        np.testing.assert_allclose(design @ blocks[index].ravel(), expected)
        visited.append(index)
    assert sorted(visited) == list(range(len(blocks)))
    assert structure.block_sizes() == [block.size for block in blocks]


@pytest.mark.parametrize("structure", list(_structures()), ids=_name)
def test_designs_see_updated_blocks(structure):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, *structure.shape))
    blocks = structure.random_start(rng, X)
    for index, design in structure.designs(X, blocks):
        blocks[index] = rng.standard_normal(blocks[index].shape)
        eta = X.reshape(6, -1) @ structure.tensor(blocks).ravel()
        np.testing.assert_allclose(design @ blocks[index].ravel(), eta)


@pytest.mark.parametrize("structure", list(_structures()), ids=_name)
def test_balance_keeps_the_tensor_and_lowers_the_ridge(structure):
    rng = np.random.default_rng(2)
    blocks = structure.random_start(rng, np.zeros(1))
    blocks = [(10.0 ** (m - 1)) * block for m, block in enumerate(blocks)]
    balanced = structure.balance(blocks)
    np.testing.assert_allclose(structure.tensor(balanced), structure.tensor(blocks))
    norms = [sum(np.sum(b**2) for b in some) for some in (balanced, blocks)]
    assert norms[0] <= norms[1] * (1 + 1e-12)


def test_spectral_starts_recover_low_rank_tensors():
    rng = np.random.default_rng(3)
    basis = [np.linalg.qr(rng.standard_normal((p, 2)))[0] for p in (6, 5, 4)]
    orthogonal = CP((6, 5, 4), 2).tensor([basis[0] * [3.0, 2.0], *basis[1:]])
    cp = CP((6, 5, 4), 2)
    vectors = cp.spectral_start(orthogonal)
    for m in range(3):
        np.testing.assert_allclose(
            np.abs(vectors[m].T @ basis[m]), np.eye(2), atol=1e-6
        )
    tucker = Tucker((6, 5, 4), (2, 2, 2))
    found = tucker.tensor(tucker.spectral_start(orthogonal))
    np.testing.assert_allclose(found, orthogonal, atol=1e-10)


def _problem(family="normal", n=150, shape=(6, 5, 4), noise=0.1):
    rng = np.random.default_rng(4)
    coef = CP(shape, 2).tensor([rng.standard_normal((p, 2)) for p in shape])
    X = rng.standard_normal((n, *shape))
    eta = X.reshape(n, -1) @ coef.ravel() / np.linalg.norm(coef)
    if family == "normal":
        y = eta + noise * rng.standard_normal(n)
    elif family == "binomial":
        y = (eta + 0.3 * rng.logistic(size=n) > 0).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    problem = Problem(X, y, np.ones(n), np.ones((n, 1)), FAMILIES[family])
    return problem, coef


@pytest.mark.parametrize("family", ["normal", "binomial", "poisson"])
@pytest.mark.parametrize(
    ("structure", "l1"),
    [
        (CP((6, 5, 4), 2), 0.0),
        (CP((6, 5, 4), 2), 1.0),
        (Tucker((6, 5, 4), (2, 3, 2)), 0.0),
    ],
    ids=["cp", "sparse cp", "tucker"],
)
def test_objective_never_rises_and_is_what_it_says(family, structure, l1):
    problem, _ = _problem(family)
    candidates = starts(
        problem, structure, 3, np.random.default_rng(0), ridge=1.0, l1=l1
    )
    assert len(candidates) == 3
    found = block_relaxation(problem, structure, candidates, ridge=1.0, l1=l1)
    path = np.array(found.path)
    assert np.all(np.diff(path) <= 1e-9 * path[0])
    eta = problem.X.reshape(len(problem.y), -1) @ structure.tensor(found.blocks).ravel()
    deviance = problem.family.deviance(problem.y, eta + found.gamma[0], problem.weight)
    penalty = sum(np.sum(b**2) + l1 * np.sum(np.abs(b)) for b in found.blocks)
    assert deviance + penalty == pytest.approx(path[-1], rel=1e-8)


def test_group_penalty_prunes_to_the_true_rank_and_never_rises():
    problem, coef = _problem(n=200)
    start = CP((6, 5, 4), 6).random_start(np.random.default_rng(0), problem.X)
    found = group_relaxation(problem, start, strength=2.0)
    path = np.array(found.path)
    assert np.all(np.diff(path) <= 1e-9 * path[0])
    assert found.blocks[0].shape[1] == 2
    estimate = CP((6, 5, 4), 2).tensor(found.blocks)
    cosine = np.sum(estimate * coef) / np.linalg.norm(estimate) / np.linalg.norm(coef)
    assert cosine > 0.99
    # The path's last value is the objective of the paper at the point returned.
    stacked = np.concatenate(found.blocks)
    penalty = 2.0 * np.sum(np.linalg.norm(stacked, axis=0)) ** 2
    assert found.deviance + penalty == pytest.approx(path[-1], rel=1e-6)
