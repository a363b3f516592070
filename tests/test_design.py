import numpy as np
import pytest
from oracles import assert_close

from sltr import design


@pytest.fixture
def narrow(monkeypatch):
    """Blocks of a few columns, so that every product is put together from many."""
    monkeypatch.setattr(design, "BLOCK_ENTRIES", 20)


def test_blocks_cover_every_column_once(narrow):
    X = np.zeros((6, 17))
    blocks = list(design.column_blocks(X))
    assert [j for b in blocks for j in range(b.start, b.stop)] == list(range(17))
    assert max(b.stop - b.start for b in blocks) * 6 <= 20


def test_a_block_holds_at_least_one_column(narrow):
    assert len(list(design.column_blocks(np.zeros((50, 3))))) == 3


def test_products_in_blocks_are_the_whole_products(xp, rng, narrow):
    X, shift = rng.normal(size=(6, 17)), rng.normal(size=17)
    C, W, weight = rng.normal(size=(2, 6)), rng.normal(size=(3, 17)), rng.random(6)
    given = xp.array(X)
    assert_close(xp.numpy(design.gram(given)), X @ X.T)
    centred = X - shift
    assert_close(xp.numpy(design.gram(given, xp.array(shift))), centred @ centred.T)
    assert_close(xp.numpy(design.combine(xp.array(C), given)), C @ X)
    assert_close(xp.numpy(design.inner(given, xp.array(W))), X @ W.T)
    means = xp.numpy(design.column_means(given, xp.array(weight)))
    assert_close(means, np.average(X, axis=0, weights=weight))


def test_lazy_samples_give_eager_products(rng, narrow):
    dask_array = pytest.importorskip("dask.array")
    X, C = rng.normal(size=(6, 17)), rng.normal(size=(2, 6))
    lazy = dask_array.from_array(X, chunks=(3, 5))
    assert_close(design.gram(lazy), X @ X.T)
    assert_close(design.combine(C, lazy), C @ X)
    found = design.inner(lazy, rng.normal(size=(3, 17)))
    assert type(found) is np.ndarray
