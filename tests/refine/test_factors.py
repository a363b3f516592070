"""CP and Tucker structures: designs, balance, starts; fits of their blocks."""

from dataclasses import dataclass

import numpy as np
import pytest

from sltr.core.families import FAMILIES
from sltr.core.tensor import cp_to_tensor
from sltr.peers.trr import fit_with_groups
from sltr.refine.factors import CP, Form, Tucker, Unfoldings, sweep
from sltr.refine.glm import TensorGLM, fit_blocks, glm_starts

SHAPES = [(5,), (4, 3), (4, 3, 2), (2, 3, 2, 3), (2, 2, 3, 2, 2)]


def _forms():
    for shape in SHAPES:
        yield Form(CP, shape, 1 if len(shape) == 1 else 2)
        yield Form(Tucker, shape, tuple(min(p, 1 + m) for m, p in enumerate(shape)))


def _name(form):
    return f"{form.kind.__name__}{form.shape}"


@dataclass(frozen=True)
class _State:
    structure: object


@pytest.mark.parametrize("form", list(_forms()), ids=_name)
@pytest.mark.parametrize("normalised", [False, True])
def test_every_design_gives_the_tensor_inner_product(form, normalised):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, *form.shape))
    structure = form.kind.random(form.shape, form.rank, rng, X)
    if normalised:
        # Orthonormal factors need ranks that a tensor can have.
        ranks = tuple(min(p, 2 if len(form.shape) > 1 else 1) for p in form.shape)
        cp, tensor = form.kind is CP, X[:1]
        structure = CP.start(tensor) if cp else Tucker.truncated(tensor, ranks)
    visited = []

    def solve(state, index, design):
        vector = rng.standard_normal(design.shape[:2])
        after = state.structure.with_block(index, vector)
        expected = X.reshape(6, -1) @ after.coef().ravel()
        np.testing.assert_allclose(vector[0] @ design[0], expected)
        if not normalised:
            found = after.vector(index, after.blocks[index])
            np.testing.assert_array_equal(found, vector)
            assert vector.size <= form.kind.largest_block(form.shape, form.rank)
        visited.append(index)
        return _State(after)

    samples = Unfoldings.of(X, np.ones(6))
    sweep(samples, 6, _State(structure), solve)
    assert visited == [*samples.order, *range(len(form.shape), len(structure.blocks))]


@pytest.mark.parametrize("form", list(_forms()), ids=_name)
def test_balance_keeps_the_tensor_and_lowers_the_ridge(form):
    rng = np.random.default_rng(2)
    structure = form.kind.random(form.shape, form.rank, rng, np.zeros(1))
    for index, block in enumerate(structure.blocks):
        vector = structure.vector(index, (10.0 ** (index - 1)) * block)
        structure = structure.with_block(index, vector)
    balanced = structure.balanced()
    np.testing.assert_allclose(balanced.coef(), structure.coef())
    norms = [sum(np.sum(b**2) for b in s.blocks) for s in (balanced, structure)]
    assert norms[0] <= norms[1] * (1 + 1e-12)


def test_spectral_starts_recover_low_rank_tensors():
    rng = np.random.default_rng(3)
    basis = [np.linalg.qr(rng.standard_normal((p, 2)))[0] for p in (6, 5, 4)]
    orthogonal = cp_to_tensor([basis[0] * [3.0, 2.0], *basis[1:]])[None]
    vectors = CP.spectral(orthogonal, 2).factors
    for m in range(3):
        np.testing.assert_allclose(
            np.abs(vectors[m][0].T @ basis[m]), np.eye(2), atol=1e-6
        )
    found = Tucker.spectral(orthogonal, (2, 2, 2)).coef()
    np.testing.assert_allclose(found, orthogonal, atol=1e-10)


@pytest.mark.parametrize("shape", [(90, 3), (90, 2, 2)])
def test_a_long_mode_is_truncated_as_others_are(shape):
    rng = np.random.default_rng(3)
    tensor = rng.standard_normal((2, *shape))
    for ranks in [(2,) * len(shape), (4,) + (2,) * (len(shape) - 1)]:
        structure = Tucker.truncated(tensor, ranks)
        for item in range(2):
            factor = structure.factors[0][item]
            np.testing.assert_allclose(factor.T @ factor, np.eye(ranks[0]), atol=1e-10)
            left = np.linalg.svd(tensor[item].reshape(90, -1))[0][:, :2]
            np.testing.assert_allclose(factor @ (factor.T @ left), left, atol=1e-8)


def _problem(family="normal", n=150, shape=(6, 5, 4), noise=0.1):
    rng = np.random.default_rng(4)
    coef = cp_to_tensor([rng.standard_normal((p, 2)) for p in shape])
    X = rng.standard_normal((n, *shape))
    eta = X.reshape(n, -1) @ coef.ravel() / np.linalg.norm(coef)
    if family == "normal":
        y = eta + noise * rng.standard_normal(n)
    elif family == "binomial":
        y = (eta + 0.3 * rng.logistic(size=n) > 0).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    ones = np.ones((n, 1))
    samples = Unfoldings.of(X, ones[:, 0])
    return TensorGLM(samples, y, ones[:, 0], ones, FAMILIES[family]), X, coef


@pytest.mark.parametrize("family", ["normal", "binomial", "poisson"])
@pytest.mark.parametrize(
    ("form", "l1"),
    [
        (Form(CP, (6, 5, 4), 2), 0.0),
        (Form(CP, (6, 5, 4), 2), 1.0),
        (Form(Tucker, (6, 5, 4), (2, 3, 2)), 0.0),
    ],
    ids=["cp", "sparse cp", "tucker"],
)
def test_objective_never_rises_and_is_what_it_says(family, form, l1):
    problem, X, _ = _problem(family)
    starts = glm_starts(problem, form, 3, np.random.default_rng(0), ridge=1.0, l1=l1)
    assert len(starts) == 3
    found = fit_blocks(problem, starts, ridge=1.0, l1=l1)
    path = np.array(found.path)
    assert np.all(np.diff(path) <= 1e-9 * path[0])
    eta = X.reshape(len(X), -1) @ found.structure.coef().ravel()
    deviance = problem.weight @ problem.family.deviance(problem.y, eta + found.gamma[0])
    penalty = sum(np.sum(b**2) + l1 * np.sum(np.abs(b)) for b in found.blocks)
    assert deviance + penalty == pytest.approx(path[-1], rel=1e-8)


def test_group_penalty_prunes_to_the_true_rank_and_never_rises():
    problem, X, coef = _problem(n=200)
    start = CP.random((6, 5, 4), 6, np.random.default_rng(0), X)
    found = fit_with_groups(problem, start, strength=2.0)
    path = np.array(found.path)
    assert np.all(np.diff(path) <= 1e-9 * path[0])
    assert found.structure.rank == 2
    estimate = found.structure.coef()[0]
    cosine = np.sum(estimate * coef) / np.linalg.norm(estimate) / np.linalg.norm(coef)
    assert cosine > 0.99
    # The path's last value is the objective of the paper at the point returned.
    stacked = np.concatenate(found.blocks)
    penalty = 2.0 * np.sum(np.linalg.norm(stacked, axis=0)) ** 2
    assert found.deviance + penalty == pytest.approx(path[-1], rel=1e-6)
