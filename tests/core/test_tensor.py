import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_close, fold_by_loop, unfold_by_loop

from sltr.core.tensor import (
    contract,
    cp_to_tensor,
    flatten,
    fold,
    mode_product,
    numerical_ranks,
    unfold,
)

SHAPES = [(5,), (3, 4), (2, 3, 4), (3, 1, 2, 2), (2, 2, 1, 3, 2)]
MODES = [(shape, mode) for shape in SHAPES for mode in range(len(shape))]


@pytest.mark.parametrize(("shape", "mode"), MODES)
def test_unfolding_places_every_entry(xp, rng, shape, mode):
    x = rng.normal(size=(2, *shape))
    found = xp.numpy(unfold(xp.array(x), mode))
    assert np.array_equal(found, [unfold_by_loop(tensor, mode) for tensor in x])


@pytest.mark.parametrize(("shape", "mode"), MODES)
def test_folding_places_every_entry(xp, rng, shape, mode):
    rows = shape[mode]
    matrix = rng.normal(size=(2, rows, int(np.prod(shape)) // rows))
    found = xp.numpy(fold(xp.array(matrix), mode, shape))
    assert np.array_equal(found, [fold_by_loop(m, mode, shape) for m in matrix])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_fold_inverts_unfold(sizes, mode, n_tensors):
    shape, mode = tuple(sizes), mode % len(sizes)
    x = np.random.default_rng(0).normal(size=(n_tensors, *shape))
    assert np.array_equal(fold(unfold(x, mode), mode, shape), x)


def test_flatten_keeps_c_order(xp, rng):
    x = rng.normal(size=(3, 2, 4, 2))
    assert np.array_equal(xp.numpy(flatten(xp.array(x))), x.reshape(3, -1))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_mode_product_multiplies_fibres(xp, rng, mode):
    x, matrix = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3 + mode))
    found = xp.numpy(mode_product(xp.array(x), xp.array(matrix), mode))
    expected = np.moveaxis(np.tensordot(x, matrix, (mode + 1, 1)), -1, mode + 1)
    assert_close(found, expected)


def test_contract_is_the_inner_product_of_every_pair(xp, rng):
    samples, coef = rng.normal(size=(4, 2, 3)), rng.normal(size=(2, 2, 3))
    found = xp.numpy(contract(xp.array(samples), xp.array(coef)))
    expected = [[np.sum(s * c) for c in coef] for s in samples]
    assert_close(found, expected)


def test_cp_to_tensor_sums_outer_products(xp, rng):
    factors = [rng.normal(size=(size, 2)) for size in (3, 4, 2)]
    found = xp.numpy(cp_to_tensor([xp.array(f) for f in factors]))
    expected = np.zeros((3, 4, 2))
    for r in range(2):
        for place in np.ndindex(3, 4, 2):
            terms = zip(factors, place, strict=True)
            expected[place] += np.prod([f[i, r] for f, i in terms])
    assert_close(found, expected)


def test_numerical_ranks_are_those_of_the_construction(xp, rng):
    core = rng.normal(size=(1, 2, 3, 2))
    tensor = core
    for mode, size in enumerate((6, 5, 4)):
        factor = np.linalg.qr(rng.normal(size=(size, size)))[0][
            :, : core.shape[mode + 1]
        ]
        tensor = mode_product(tensor, factor, mode)
    assert numerical_ranks(xp.array(tensor[0])) == (2, 3, 2)
    assert numerical_ranks(xp.array(np.zeros((3, 2)))) == (0, 0)
