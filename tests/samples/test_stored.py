"""Products of samples that stay in a file equal those in memory."""

import numpy as np
import pytest
from oracles import assert_close
from sklearn.base import clone, is_classifier

from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.samples.check import fits_in_memory, is_left_in_place
from sltr.samples.mapped import lazy_samples
from sltr.samples.stored import Budget

zarr = pytest.importorskip("zarr")

SHAPE = (23, 6, 5, 4)
CHUNKS = [(23, 6, 5, 4), (5, 6, 5, 4), (23, 2, 5, 4), (7, 3, 2, 4), (4, 4, 4, 3)]


class Sliceable:
    """The least that samples in a file have to be; counts what is read."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.read = 0
        self.largest = 0

    def __getitem__(self, index):
        found = self.values[index].copy()
        self.read += found.size
        self.largest = max(self.largest, found.size)
        return found


@pytest.fixture
def X(rng):
    return rng.normal(size=SHAPE) + 10.0


# Blocks of 200 entries, a few rows and columns each; strips of few rows.
TIGHT = Budget(200 * 8, block_share=1, strip_rows=3, product_rows=4)


def as_zarr(X, chunks, path=None):
    found = zarr.create_array(
        zarr.storage.MemoryStore() if path is None else str(path),
        shape=X.shape,
        chunks=chunks,
        dtype=X.dtype,
    )
    found[...] = X
    return found


def lazy(source, **options):
    return lazy_samples(source, tuple(source.shape[1:]), TIGHT, **options)


def centred(matrix):
    """Remove means of rows and columns: what every user of a Gram matrix does."""
    matrix = matrix - matrix.mean(axis=0)
    return matrix - matrix.mean(axis=1, keepdims=True)


def check_products(found, X, rng):
    flat = X.reshape(len(X), -1)
    C, W = rng.normal(size=(2, len(X))), rng.normal(size=(3, flat.shape[1]))
    assert_close(found.gram(), flat @ flat.T, scale=1e4)
    shifted = flat - flat.mean(axis=0)
    gram = centred(found.gram(centred=True))
    assert_close(gram, shifted @ shifted.T, scale=1e3)
    assert_close(found.combine(C), C @ flat, scale=100)
    assert_close(found.inner(W), flat @ W.T, scale=100)
    groups = [(np.array([1, 0, len(X) - 1]), W), (np.arange(2, 5), W[:1])]
    for (rows, own), values in zip(groups, found.inner_groups(groups), strict=True):
        assert_close(values, flat[rows] @ own.T, scale=100)
    parts = list(found.map_rows(np.multiply, [C[0][:, None]]))
    assert_close(np.concatenate(parts), flat * C[0][:, None], scale=100)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_products_of_zarr_arrays(X, rng, chunks):
    check_products(lazy(as_zarr(X, chunks)), X, rng)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_a_centred_gram_matrix_keeps_no_mean(X, chunks):
    gram = lazy(as_zarr(X, chunks)).gram(centred=True)
    assert np.abs(gram).max() < 10 * 120  # with the mean of 10 it is over 10,000


def test_products_of_memmaps(X, rng, tmp_path):
    np.save(tmp_path / "X.npy", X)
    check_products(lazy(np.load(tmp_path / "X.npy", mmap_mode="r")), X, rng)


def test_what_was_written_to_a_private_memmap_stays(X, rng, tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="c")
    mapped[0] = 1.0
    check_products(lazy(mapped), np.concatenate([np.ones_like(X[:1]), X[1:]]), rng)


def test_products_of_anything_that_can_be_sliced(X, rng):
    check_products(lazy(Sliceable(X)), X, rng)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 9], list(range(3, 20)), [22], [0, 22]])
def test_products_of_some_rows(X, rng, rows):
    source = Sliceable(X)
    found = lazy(source).take(np.array(rows))
    flat = X[rows].reshape(len(rows), -1)
    W = rng.normal(size=(3, flat.shape[1]))
    assert found.shape == flat.shape
    assert_close(found.gram(), flat @ flat.T, scale=1e4)
    assert_close(found.inner(W), flat @ W.T, scale=100)
    again = found.take(np.arange(len(rows) - 1, len(rows)))
    assert_close(again.inner(W), flat[-1:] @ W.T, scale=100)


def test_each_product_is_one_pass_in_bounded_blocks(X, rng):
    source = Sliceable(X)
    found = lazy(source)
    W, C = rng.normal(size=(3, 120)), rng.normal(size=(2, 23))
    for product in (
        lambda: found.gram(centred=True),
        lambda: found.combine(C),
        lambda: found.inner(W),
        lambda: found.inner_groups([(np.arange(9), W), (np.arange(9, 23), W)]),
    ):
        source.read = 0
        product()
        assert source.read == X.size
    assert source.largest <= 200


def test_predictions_for_some_rows_read_their_blocks_alone(X, rng):
    source = Sliceable(X)
    lazy(source).inner_groups([(np.array([1]), rng.normal(size=(1, 120)))])
    assert source.read == 5 * 120


def test_chunks_too_wide_to_hold_all_samples_are_read_panel_by_panel(X):
    """Panels of one sample: its own read, then every later one."""
    source = Sliceable(X)
    source.chunks = (1, 6, 5, 4)
    lazy(source).gram()
    assert source.read == 120 * 23 * 24 / 2


def test_whole_numbers_become_doubles_and_singles_stay(X, rng):
    counts = rng.integers(0, 255, size=SHAPE, dtype=np.uint8)
    check_products(lazy(Sliceable(counts)), counts.astype(float), rng)
    single = lazy(Sliceable(X.astype(np.float32)))
    assert single.gram().dtype == np.float32


def test_progress_counts_the_blocks_of_each_pass(X):
    seen = []
    found = lazy(Sliceable(X), progress=lambda done, total: seen.append((done, total)))
    found.gram()
    total = seen[0][1]
    assert total > 1
    assert seen == [(k + 1, total) for k in range(total)]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_found_and_named(X, value):
    X[13, 4, 2, 1] = value
    with pytest.raises(ValueError, match="first in sample 13"):
        lazy(Sliceable(X)).gram()


def test_a_sample_is_named_by_its_place_in_the_file(X):
    X[13, 4, 2, 1] = np.nan
    kept = np.setdiff1d(np.arange(len(X)), [2, 3, 11, 12])
    with pytest.raises(ValueError, match="first in sample 13"):
        lazy(Sliceable(X)).take(kept).gram()


def test_values_whose_sum_overflows_are_still_finite():
    X = np.full((3, 4), 1e308)
    assert_close(lazy(Sliceable(X)).inner(np.eye(4)[:1]), X[:, :1])


def test_a_chunk_that_cannot_be_read_is_named(X, tmp_path):
    source = as_zarr(X, (5, 6, 5, 4), tmp_path / "X.zarr")
    (tmp_path / "X.zarr" / "c" / "2" / "0" / "0" / "0").write_bytes(b"not a chunk")
    with pytest.raises(OSError, match=r"samples 10:1\d and entries \[.*nothing was"):
        lazy(source).combine(np.ones((1, 23)))


def test_a_missing_chunk_ends_a_fit_unless_fill_values_are_meant(
    X, tmp_path, monkeypatch
):
    source = as_zarr(X, (5, 6, 5, 4), tmp_path / "X.zarr")
    model = SLTRRegressor(1.0).fit(source, X[:, 0, 0, 0])
    (tmp_path / "X.zarr" / "c" / "2" / "0" / "0" / "0").unlink()
    with pytest.raises(
        OSError, match=r"chunk 'c/2/0/0/0', .* \[10, 0, 0, 0\], is miss"
    ):
        SLTRRegressor(1.0).fit(source, X[:, 0, 0, 0])
    with pytest.raises(OSError, match="chunk 'c/2/0/0/0'"):
        model.predict(source)
    monkeypatch.setenv("SLTR_MISSING_CHUNKS", "fill")
    X[10:15] = 0.0
    assert_close(model.predict(source), model.predict(X))


def test_a_source_that_gives_too_little_is_refused(X):
    class Short(Sliceable):
        def __getitem__(self, index):
            return super().__getitem__(index)[:1]

    with pytest.raises(OSError, match="expected"):
        lazy(Short(X)).gram()


def test_only_what_is_no_array_in_memory_stays_where_it_is(X, tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((3000, 100)))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert is_left_in_place(as_zarr(X, SHAPE))
    assert is_left_in_place(Sliceable(X))
    assert is_left_in_place(mapped, "1MB")
    assert not is_left_in_place(mapped, "1GB")
    for value in (X, [[1.0]], X.tolist(), None, "text", {"a": 1}):
        assert not is_left_in_place(value)


def test_tables_and_sparse_matrices_do_not():
    sparse = pytest.importorskip("scipy.sparse")
    assert not is_left_in_place(sparse.csr_matrix(np.eye(3)))
    assert not is_left_in_place(sparse.csr_array(np.eye(3)))


def test_whole_numbers_count_as_the_floats_they_become(tmp_path):
    np.save(tmp_path / "films.npy", np.zeros((50, 60, 60), dtype=np.uint8))
    films = np.load(tmp_path / "films.npy", mmap_mode="r")
    assert is_left_in_place(films, "1MB")  # 0.18 MB in the file, 1.44 in memory
    assert not is_left_in_place(films, "2MB")


def kept_as(X, kind, folder):
    """Return samples as another library holds them."""
    if kind == "zarr":
        return as_zarr(X, (10, 4, 3, 2))
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(X, chunks=(10, 4, 3, 1))
    if kind == "xarray":
        names = ("sample", "row", "column", "time")
        return pytest.importorskip("xarray").DataArray(X, dims=names)
    if kind == "hdf5":
        file = pytest.importorskip("h5py").File(folder / "X.h5", "w")
        return file.create_dataset("X", data=X, chunks=(10, 4, 3, 1))
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", ["zarr", "dask", "xarray", "hdf5", "memmap"])
@pytest.mark.parametrize(
    "model",
    [SLTRRegressor(), SLTRRegressorCV(), SLTRClassifier(), SLTRClassifierCV()],
    ids=lambda model: type(model).__name__,
)
def test_what_fits_is_loaded_and_gets_the_answer_of_memory(rng, model, kind, tmp_path):
    X = rng.normal(size=(30, 4, 3, 2))
    y = X[:, 0, 0, 0] + 0.1 * rng.normal(size=30)
    y = np.where(y > 0, "up", "down") if is_classifier(model) else y
    there = clone(model).fit(kept_as(X, kind, tmp_path), y)
    here = clone(model).fit(X, y)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    assert there.n_passes_ == 0
    if hasattr(model, "cv"):
        assert set(there.cv_results_["param_refine"]) > {"cp", "tucker"}


def test_a_broken_chunk_of_samples_that_are_loaded_is_named(X, tmp_path):
    source = as_zarr(X, (5, 6, 5, 4), tmp_path / "X.zarr")
    (tmp_path / "X.zarr" / "c" / "2" / "0" / "0" / "0").write_bytes(b"not a chunk")
    with pytest.raises(OSError, match=r"samples \d+:\d+ and entries \[.*nothing was"):
        SLTRRegressor().fit(source, X[:, 0, 0, 0])


def test_what_does_not_fit_with_room_to_work_stays(rng):
    X = rng.normal(size=(30, 20, 10, 10))  # 0.48 MB
    assert fits_in_memory(X, 4 * X.nbytes)
    assert not fits_in_memory(X, 4 * X.nbytes - 1)
    model = SLTRRegressorCV(cv=3, memory_limit="1.5MB", refine=(None, "scale"))
    model.fit(as_zarr(X, (10, 20, 10, 10)), X[:, 0, 0, 0])
    assert model.n_passes_ > 0
