import numpy as np
import pytest
from oracles import assert_close

from sltr.samples import samples as design


@pytest.fixture
def narrow(monkeypatch):
    """Blocks of a few columns, so that several are needed."""
    monkeypatch.setattr(design, "BLOCK_ENTRIES", 20)


def test_blocks_cover_the_columns_once(narrow):
    X = np.zeros((6, 17))
    blocks = list(design.column_blocks(X))
    columns = [c for block in blocks for c in range(17)[block]]
    assert columns == list(range(17))
    assert max(b.stop - b.start for b in blocks) * 6 <= 20


def test_a_block_holds_at_least_one_column(narrow):
    assert len(list(design.column_blocks(np.zeros((50, 3))))) == 3


def test_products_in_blocks_are_the_whole_products(xp, rng, narrow):
    X = rng.normal(size=(6, 17)) + 3.0
    C, W, weight = rng.normal(size=(2, 6)), rng.normal(size=(3, 17)), rng.random(6)
    given = xp.array(X)
    assert_close(xp.numpy(design.gram(given)), X @ X.T)
    centred = X - X.mean(axis=0)
    assert_close(xp.numpy(design.gram(given, centred=True)), centred @ centred.T)
    assert_close(xp.numpy(design.combine(xp.array(C), given)), C @ X)
    assert_close(xp.numpy(design.inner(given, xp.array(W))), X @ W.T)
    means = xp.numpy(design.column_means(given, xp.array(weight)))
    assert_close(means, np.average(X, axis=0, weights=weight))
    found = xp.numpy(design.squares(given, xp.array(means)))
    assert_close(found, ((X - means) ** 2).sum(axis=1))


def test_rows_are_mapped_and_reduced_in_order(xp, rng, narrow):
    X, y = rng.normal(size=(9, 7)), rng.normal(size=9)
    given = xp.array(X), [xp.array(y)]

    def scaled(part, own, factor):
        return factor * part * own[:, None]

    parts = list(design.map_rows(given[0], scaled, given[1], [2.0]))
    assert len(parts) > 1
    assert_close(np.concatenate([xp.numpy(p) for p in parts]), 2 * X * y[:, None])

    def summed(part, own):
        return own @ part

    def added(a, b):
        return a + b

    found = design.reduce_rows(given[0], summed, added, given[1])
    assert_close(xp.numpy(found), y @ X)


@pytest.mark.parametrize(
    "limit", ["much", "1 PB", "1.2.3GB", -5, 0, 10, 1.5, True, [1], ""]
)
def test_limits_that_are_none_are_refused(limit):
    with pytest.raises(ValueError, match="memory_limit="):
        design.memory_bytes(limit)


def test_without_a_limit_some_memory_is_taken():
    assert design.memory_bytes() >= 1_000_000
