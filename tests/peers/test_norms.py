"""Low-rank norms of tensors: against slow, obvious versions."""

import numpy as np
import pytest

from sltr.peers.penalised import ModeNuclear, mode_norms, zeroing_weight
from sltr.peers.sturm import Tubal

SHAPES = [(5, 4, 3), (3, 5, 4), (4, 2, 6), (3, 2, 4, 5), (4, 3), (6,)]


def block_circulant(W):
    """Return the block-circulant matrix of the frontal slices W[:, :, k]."""
    p3 = W.shape[2]
    return np.block([[W[:, :, (i - j) % p3] for j in range(p3)] for i in range(p3)])


def norms_for(shape):
    return [*mode_norms(len(shape)), *(Tubal(m) for m in range(len(shape)))]


@pytest.mark.parametrize("p3", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("tube_mode", [0, 1, 2, -1])
def test_tubal_norm_is_that_of_the_block_circulant_matrix(p3, tube_mode):
    W = np.random.default_rng(p3).normal(size=(4, 3, p3))
    expected = np.linalg.norm(block_circulant(W), "nuc") / p3
    tensor = np.moveaxis(W, 2, tube_mode)
    np.testing.assert_allclose(Tubal(tube_mode).value(tensor[None]), [expected])


@pytest.mark.parametrize("tubes", [(3, 4), (2, 3), (4, 5)])
def test_tubal_norm_of_order_four_is_the_mean_over_all_transformed_slices(tubes):
    W = np.random.default_rng(0).normal(size=(4, 3, *tubes))
    slices = np.moveaxis(np.fft.fftn(W, axes=(2, 3)), (0, 1), (2, 3))
    expected = np.linalg.svd(slices, compute_uv=False).sum() / np.prod(tubes)
    np.testing.assert_allclose(Tubal(-1).value(W[None]), [expected])


def test_tubal_norm_of_matrix_and_vector_are_nuclear_and_euclidean():
    W = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_allclose(Tubal().value(W[None]), [np.linalg.norm(W, "nuc")])
    np.testing.assert_allclose(Tubal().value(W[None, 0]), [np.linalg.norm(W[0])])


@pytest.mark.parametrize("shape", SHAPES)
def test_prox_satisfies_the_optimality_conditions(shape):
    """V = prox(Y) iff Y − V has dual norm ≤ step and ⟨Y − V, V⟩ = step·‖V‖."""
    Y = np.random.default_rng(1).normal(size=(2, *shape))
    step = np.array([0.5, 1.5])
    axes = tuple(range(1, Y.ndim))
    for norm in norms_for(shape):
        V = norm.prox(Y, step)
        assert V.shape == Y.shape
        assert np.all(norm.dual(Y - V) <= step * (1 + 1e-6))
        np.testing.assert_allclose(
            np.sum((Y - V) * V, axis=axes), step * norm.value(V), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_dual_norm_bounds_inner_products(shape):
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(50, *shape)), rng.normal(size=(50, *shape))
    products = np.abs(np.sum(x * z, axis=tuple(range(1, x.ndim))))
    for norm in norms_for(shape):
        assert np.all(products <= norm.value(x) * norm.dual(z) * (1 + 1e-8))


def test_prox_keeps_single_precision():
    Y = np.random.default_rng(0).normal(size=(1, 4, 3, 5)).astype(np.float32)
    step = np.ones(1, dtype=np.float32)
    assert Tubal().prox(Y, step).dtype == np.float32
    assert ModeNuclear(1).prox(Y, step).dtype == np.float32


def test_zeroing_weight_of_one_norm_is_its_dual_norm():
    pull = np.random.default_rng(0).normal(size=(2, 4, 3, 5))
    np.testing.assert_allclose(zeroing_weight([Tubal()], pull), Tubal().dual(pull))


def test_zeroing_weight_of_nothing_is_zero():
    pull = np.random.default_rng(0).normal(size=(2, 4, 3, 5, 2))
    pull[0] = 0.0
    first, second = zeroing_weight(mode_norms(4), pull)
    assert first == 0.0
    assert second > 0.0
