"""Blocks, samples and sums of rows in memory."""

import weakref

import numpy as np
import pytest
from scipy import sparse

from kernlet.rows import source
from kernlet.rows.source import ArrayRows, BlockCache


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(source, "BLOCK_BYTES", 8 * 3 * 16)
    monkeypatch.setattr(source, "_FEWEST_ROWS", 4)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_blocks_cover_all_rows_in_order(make):
    X = np.random.RandomState(0).randn(45, 3)
    rows = ArrayRows(make(X))
    assert [len(range(*r.indices(45))) for r in rows.slices()] == [16, 16, 13]
    back = np.vstack([b.toarray() if sparse.issparse(b) else b for _, b in rows.blocks()])
    np.testing.assert_array_equal(back, X)


def test_rows_by_number_come_in_the_order_asked_for():
    X = np.arange(90.0).reshape(45, 2)
    numbers = np.array([40, 3, 3, 17, 0])
    np.testing.assert_array_equal(ArrayRows(X).take(numbers), X[numbers])
    np.testing.assert_array_equal(source.RowSource.take(ArrayRows(X), numbers), X[numbers])
    assert source.RowSource.take(ArrayRows(X), numbers[:0]).shape == (0, 2)


def test_map_reduce_goes_in_block_order_with_the_parts_of_row_arrays():
    X, w = np.arange(45.0)[:, None], np.arange(45.0)
    total = ArrayRows(X).map_reduce(
        lambda block, weights, factor: [(factor * block[:, 0] @ weights, len(block))],
        lambda total, value: total + value,
        by_row=(w,),
        shared=(2.0,),
    )
    assert sum(value for value, _ in total) == pytest.approx(2 * w @ w)
    assert [count for _, count in total] == [45] or len(total) > 1
    assert ArrayRows(X[:0]).map_reduce(len, max) is None


class _Block:
    def __init__(self, X):
        self.X, self.nbytes = X, X.nbytes

    def materialised(self):
        return self


def test_prepared_blocks_are_kept_where_there_is_room():
    X = np.random.RandomState(0).randn(45, 3)
    made = []

    def prepare(block):
        made.append(len(block))
        return _Block(block)

    cache = BlockCache(2 * 16 * 3 * 8)
    for _ in range(2):
        total = ArrayRows(X).map_reduce(
            lambda block: block.X.sum(), lambda a, b: a + b, prepare=prepare, cache=cache
        )
        assert total == pytest.approx(X.sum())
    assert made == [16, 16, 13, 13]


def test_one_prepared_block_at_a_time_is_in_memory(monkeypatch):
    monkeypatch.setattr(source.RowSource, "block_rows", 2)
    alive, most = weakref.WeakSet(), []

    class Prepared:
        def __init__(self, block):
            alive.add(self)
            most.append(len(alive))

    rows = ArrayRows(np.arange(12.0).reshape(6, 2))
    assert rows.map_reduce(lambda block: 1, int.__add__, prepare=Prepared) == 3
    assert most == [1, 1, 1]


def test_whole_numbers_become_float64_and_float32_stays():
    assert ArrayRows(np.ones((2, 2), int)).read(slice(0, 2)).dtype == np.float64
    assert ArrayRows(np.ones((2, 2), np.float32)).read(slice(0, 2)).dtype == np.float32
