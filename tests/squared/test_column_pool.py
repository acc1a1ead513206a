"""Columns under a limit of memory."""

import numpy as np
import pytest

from kernlet.squared.mdm import ColumnPool


def filled(Q, numbers, max_columns):
    pool = ColumnPool(len(Q), 8 * len(Q) * max_columns)
    for number in numbers:
        pool.put(np.array([number]), Q[[number]])
    return pool


@pytest.fixture
def Q():
    return np.random.RandomState(0).randn(12, 12)


def test_the_least_recently_used_gives_way(Q):
    pool = filled(Q, [0, 1, 2], 3)
    assert np.array_equal(pool.get(0), Q[0])
    pool.put(np.array([5]), Q[[5]])
    assert pool.get(1) is None
    assert all(number in pool for number in (0, 2, 5))
    assert pool.nbytes == 3 * 12 * 8
    assert pool.n_computed == 4


def test_the_first_of_several_stays_longest(Q):
    pool = filled(Q, [], 2)
    pool.put(np.array([3, 4, 5]), Q[[3, 4, 5]])
    assert [number in pool for number in (3, 4, 5)] == [True, True, False]


def test_fewer_rows_make_room_for_more_columns(Q):
    pool = filled(Q, [7, 0, 3, 9], 4)
    pool.get(7)
    kept = np.array([0, 3, 5, 7])
    pool.keep_rows(kept)
    assert len(pool) == 3
    assert pool.capacity == 12
    for number, old in enumerate(kept):
        if old != 5:
            assert np.array_equal(pool.get(number), Q[old, kept])


@pytest.mark.parametrize("max_columns", [3, 12])
def test_rows_that_come_back(Q, max_columns):
    kept, all_of_them = np.array([0, 3, 5, 7, 9, 11]), np.arange(12)
    pool = filled(Q, [7, 0, 3], max_columns)
    pool.keep_rows(kept)
    small = Q[np.ix_(kept, kept)]
    for number in (4, 5):
        pool.put(np.array([number]), small[[number]])
    before = [kept[number] for number in range(6) if number in pool]
    new = np.setdiff1d(all_of_them, kept)
    pool.add_rows(kept, 12, lambda numbers: Q[np.ix_(numbers, new)])
    held = [number for number in range(12) if number in pool]
    assert len(held) == min(len(before), max_columns)
    for number in held:
        assert np.array_equal(pool.get(number), Q[number])


def test_there_is_room_for_two_in_any_case():
    assert ColumnPool(100, 1).capacity == 2
