import numpy as np
import pytest
from oracles import assert_close

from sltr.arrays import (
    as_array,
    clip,
    eigh,
    eigvalsh,
    has_real_numbers,
    is_array_api,
    is_numpy,
    positive_solver,
    qr,
    real_dtype,
    recorded,
    repeated,
    ridge_solve,
    singular_values,
    spectral_norm,
    to_float64,
    to_numpy,
    to_python,
)


def test_values_cross_between_libraries(xp, rng):
    x = rng.normal(size=(2, 3))
    given = xp.array(x)
    assert is_array_api(given)
    assert is_numpy(given) == (xp.name == "numpy")
    assert np.array_equal(to_numpy(given), x)
    assert to_python(given) == x.tolist()
    for values in (x, x.tolist(), given):
        found = as_array(values, xp.array(x, "float32"))
        assert xp.numpy(found).dtype == np.float32
        np.testing.assert_allclose(xp.numpy(found), x, rtol=1e-6)
    assert is_numpy(as_array(given, x))


def test_lists_are_no_arrays():
    assert not is_array_api([1.0])
    assert not is_array_api("word")


@pytest.mark.parametrize(
    ("dtype", "real"),
    [("float32", "float32"), ("float64", "float64"), ("int64", "float64")],
)
def test_single_precision_is_the_only_other_precision(xp, dtype, real):
    x = xp.array(np.ones(2), dtype)
    found = as_array([1.5], x, dtype=real_dtype(x))
    assert xp.numpy(found).dtype == real
    if dtype != "int64":
        assert xp.numpy(to_float64(x)).dtype == np.float64


def test_real_numbers_are_told_from_others(xp):
    for dtype in ("bool", "int64", "float32"):
        assert has_real_numbers(xp.array(np.ones(2), dtype))
    assert not has_real_numbers(xp.array(np.ones(2), "complex128"))
    assert not has_real_numbers(np.array(["a"]))


def test_decompositions_agree_with_numpy(xp, rng):
    x = rng.normal(size=(2, 3, 5))
    gram = x @ np.swapaxes(x, 1, 2)
    values, vectors = (xp.numpy(v) for v in eigh(xp.array(gram)))
    assert_close((vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2), gram)
    expected = np.linalg.svd(x, compute_uv=False)
    for given in (x, np.swapaxes(x, 1, 2).copy()):
        fast = xp.numpy(singular_values(xp.array(given)))
        exact = xp.numpy(singular_values(xp.array(given), exact=True))
        assert_close(np.sort(fast)[:, ::-1], expected)
        assert_close(exact, expected)
        assert_close(xp.numpy(spectral_norm(xp.array(given))), expected[:, 0])
    rhs = rng.normal(size=(3, 2))
    found = xp.numpy(positive_solver(xp.array(gram[0]))(xp.array(rhs)))
    assert_close(found, np.linalg.solve(gram[0], rhs))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("side", [1, 2, 7, 8, 31, 64, 65])
def test_eigenpairs_of_any_side_and_spectrum(xp, rng, side, dtype):
    """Full rank, rank one, zero, equal eigenvalues, and no diagonal at all."""
    x = rng.normal(size=(side, 2 * side))
    off = np.full((side, side), 1e-3) - 1e-3 * np.eye(side)
    given = np.stack(
        [x @ x.T, np.outer(x[:, 0], x[:, 0]), 0 * off, 7 * np.eye(side), off]
    ).astype(dtype)
    values, vectors = (xp.numpy(v) for v in eigh(xp.array(given)))
    assert values.dtype == vectors.dtype == dtype
    limit = 30 * np.sqrt(side) * np.finfo(dtype).eps
    for g, matrix in enumerate(given):
        size = np.linalg.norm(matrix, 2) + (g == 2)
        v, vec = values[g].astype(float), vectors[g].astype(float)
        assert np.all(np.diff(v) >= 0)
        assert np.abs((vec * v) @ vec.T - matrix).max() <= limit * size
        assert np.abs(vec.T @ vec - np.eye(side)).max() <= limit
        alone = xp.numpy(eigvalsh(xp.array(given)))[g]
        assert np.abs(alone - v).max() <= limit * size


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (33, 4), (96, 40)])
def test_bases_of_any_matrix_are_orthonormal(xp, rng, shape, dtype):
    """Of full rank, of rank one, of zeros, and with a column that is zero."""
    x = rng.normal(size=shape)
    gap = np.where(np.arange(shape[1]) == 0, 0.0, x)
    given = np.stack([x, np.ones(shape), 0.0 * x, gap]).astype(dtype)
    basis, triangle = (xp.numpy(part) for part in qr(xp.array(given)))
    k, limit = min(shape), 30 * np.sqrt(max(shape)) * np.finfo(dtype).eps
    assert basis.shape == (4, shape[0], k)
    assert triangle.shape == (4, k, shape[1])
    assert basis.dtype == triangle.dtype == dtype
    assert np.all(triangle == np.triu(triangle))
    assert np.abs(np.swapaxes(basis, 1, 2) @ basis - np.eye(k)).max() <= limit
    assert np.abs(basis @ triangle - given).max() <= limit * max(shape)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("d", "b"), [(1, 1), (7, 0), (33, 3), (96, 1), (196, 1), (200, 0)]
)
def test_ridge_solves_are_those_of_the_whole_matrix(xp, rng, d, b, dtype):
    """Items of full rank, of rank one, and of zeros, under a penalty or none."""
    x = rng.normal(size=(3, d, 2 * d))
    x[1] = x[1, :1]
    x[2] = 0.0
    beside = rng.normal(size=(3, d, 1 + 2 * b))
    beside[:, :, 1 + b :] = 0.1 * beside[:, :, 1 : 1 + b]
    less = beside[:, :, 1 : 1 + b] @ np.swapaxes(beside[:, :, 1 + b :], 1, 2)
    matrices, shift = x @ np.swapaxes(x, 1, 2) + less, np.array([3.0, 0.5, 0.0])
    for scale in (None, rng.uniform(0.5, 2.0, size=(3, d))):
        given = [xp.array(a, dtype) for a in (matrices, beside, shift)]
        own = None if scale is None else xp.array(scale, dtype)
        found = xp.numpy(ridge_solve(*given, own))
        assert found.dtype == dtype
        s = np.ones((3, d)) if scale is None else scale
        inner = s[:, :, None] * (matrices - less) * s[:, None, :]
        inner = inner + np.array([3.0, 0.5, 1.0])[:, None, None] * np.eye(d)
        rhs = (s * beside[:, :, 0])[:, :, None]
        expected = s * np.linalg.solve(inner, rhs)[:, :, 0]
        condition = np.linalg.cond(inner).max()
        limit = 10 * condition * np.finfo(dtype).eps
        assert np.abs(found - expected).max() <= limit * np.abs(expected).max()


def test_a_recorded_step_follows_the_state_it_is_given(xp):
    take = recorded(lambda x, rate: (rate * x, rate))
    for start, rate in ((1.0, 0.5), (3.0, 0.25), (2.0, 2.0)):
        state = xp.array(np.full(4, start)), xp.array(np.full(4, rate))
        for n_steps in range(1, 5):
            state = take(state)
            np.testing.assert_allclose(xp.numpy(state[0]), start * rate**n_steps)


def test_steps_are_repeated_and_go_on_where_they_ended(xp):
    rate = xp.array(np.array([[0.5, 0.25]]))

    def step(x, total):
        return rate * x, total + x

    start = xp.array(np.ones((3, 2))), xp.array(np.zeros((3, 2)))
    further = repeated(step, start)
    for n_steps in (3, 7):
        x, total = (xp.numpy(part) for part in further(n_steps - 3 * (n_steps > 3)))
        rates = np.array([0.5, 0.25])
        np.testing.assert_allclose(x, np.tile(rates**n_steps, (3, 1)))
        sums = (1 - rates**n_steps) / (1 - rates)
        np.testing.assert_allclose(total, np.tile(sums, (3, 1)))
    assert np.all(xp.numpy(start[0]) == 1.0)


def test_clip_takes_numbers_arrays_and_no_bound(xp, rng):
    x = rng.normal(size=(4, 3))
    low = -np.abs(rng.normal(size=(4, 1)))
    given = xp.array(x)
    assert np.array_equal(xp.numpy(clip(given, -0.5, 0.5)), np.clip(x, -0.5, 0.5))
    assert np.array_equal(xp.numpy(clip(given, None, 0.5)), np.minimum(x, 0.5))
    assert np.array_equal(xp.numpy(clip(given, 0.0, None)), np.maximum(x, 0.0))
    found = xp.numpy(clip(given, xp.array(low), xp.array(-low)))
    assert np.array_equal(found, np.clip(x, low, -low))


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_matrix_that_rounding_made_indefinite_is_still_solved(name):
    xp = pytest.importorskip(name)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    matrix = rows @ rows.T - 1e-13 * np.eye(5)
    rhs = rows @ np.ones((3, 1))
    found = np.asarray(positive_solver(xp.asarray(matrix))(xp.asarray(rhs)))
    np.testing.assert_allclose(matrix @ found, rhs, atol=1e-8)


@pytest.mark.parametrize("shape", [(1, 0, 3), (0, 2), (2, 3)])
def test_arrays_of_nothing_keep_their_shape_in_another_library(shape):
    torch = pytest.importorskip("torch")
    assert tuple(as_array(np.zeros(shape), torch.zeros(1)).shape) == shape
