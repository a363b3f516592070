import numpy as np
import pytest
from oracles import assert_close

from sltr.arrays.resources import memory_bytes
from sltr.samples.samples import InMemory


def narrow(X):
    """Return a design with blocks of a few columns, so that several are needed."""
    return InMemory(X, block_entries=20)


def test_blocks_cover_the_columns_once():
    blocks = narrow(np.zeros((6, 17)))._columns()
    columns = [c for block in blocks for c in range(17)[block]]
    assert columns == list(range(17))
    assert max(b.stop - b.start for b in blocks) * 6 <= 20


def test_a_block_holds_at_least_one_column():
    assert len(narrow(np.zeros((50, 3)))._columns()) == 3


def test_products_in_blocks_are_the_whole_products(xp, rng):
    X = rng.normal(size=(6, 17)) + 3.0
    C, W = rng.normal(size=(2, 6)), rng.normal(size=(3, 17))
    design = narrow(xp.array(X))
    assert_close(xp.numpy(design.gram()), X @ X.T)
    centred = X - X.mean(axis=0)
    assert_close(xp.numpy(design.gram(centred=True)), centred @ centred.T)
    assert_close(xp.numpy(design.combine(xp.array(C))), C @ X)
    assert_close(xp.numpy(design.inner(xp.array(W))), X @ W.T)


def test_rows_are_mapped_and_reduced_in_order(xp, rng):
    X, y = rng.normal(size=(9, 7)), rng.normal(size=9)
    design, rowwise = narrow(xp.array(X)), [xp.array(y)]

    def scaled(part, own, factor):
        return factor * part * own[:, None]

    parts = list(design.map_rows(scaled, rowwise, [2.0]))
    assert len(parts) > 1
    assert_close(np.concatenate([xp.numpy(p) for p in parts]), 2 * X * y[:, None])

    def summed(part, own):
        return own @ part

    def added(a, b):
        return a + b

    found = design.reduce_rows(summed, added, rowwise)
    assert_close(xp.numpy(found), y @ X)


@pytest.mark.parametrize(
    "limit", ["much", "1 PB", "1.2.3GB", -5, 0, 10, 1.5, True, [1], ""]
)
def test_limits_that_are_none_are_refused(limit):
    with pytest.raises(ValueError, match="memory_limit="):
        memory_bytes(limit)


def test_without_a_limit_some_memory_is_taken():
    assert memory_bytes() >= 1_000_000
