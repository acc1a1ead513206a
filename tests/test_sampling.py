"""Held-out rows, samples, seeds, and which points may become centers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kernlet import L1KernelClassifier
from kernlet.sampling import (
    choose_candidates,
    choose_landmarks,
    derive_seed,
    hold_out,
    landmark_rows,
    stratified_sample,
)

labels = st.lists(st.integers(0, 3), min_size=1, max_size=60).map(np.array)


@given(y=labels, fraction=st.floats(0.01, 0.99), seed=st.integers(0, 100))
def test_parts_are_apart_and_every_class_keeps_a_row(y, fraction, seed):
    kept, held_out = hold_out(y, fraction, np.random.RandomState(seed))
    assert sorted([*kept, *held_out]) == list(range(len(y)))
    assert set(y[kept]) == set(y)


def test_a_class_of_four_rows_is_held_out_from():
    y = np.repeat([0, 1, 2], [40, 4, 3])
    _, held_out = hold_out(y, 0.1, np.random.RandomState(0))
    assert np.bincount(y[held_out], minlength=3).tolist() == [4, 1, 0]


@given(y=labels, seed=st.integers(0, 100))
def test_samples_have_no_row_twice_and_every_class(y, seed):
    rows = np.arange(len(y))
    sample = stratified_sample(y, rows, max(1, len(y) // 2), np.random.RandomState(seed))
    assert len(set(sample)) == len(sample)
    assert set(y[sample]) == set(y)


def test_samples_keep_the_shares_of_the_classes():
    y = np.repeat([0, 1], [300, 100])
    sample = stratified_sample(y, np.arange(400), 40, np.random.RandomState(0))
    assert np.bincount(y[sample]).tolist() == [30, 10]


@pytest.mark.parametrize("other", [(1, 2), (2, 1, 3), (1, 2, 4)])
def test_seeds_differ_by_part_and_not_by_chance(other):
    assert derive_seed(1, 2, 3) == derive_seed(1, 2, 3)
    assert derive_seed(1, 2, 3) != derive_seed(*other)


ROWS = np.random.RandomState(0).randn(40, 2)
LABELS = ROWS[:, 0] * ROWS[:, 1] > 0


def choose(candidates, rows=ROWS):
    return choose_candidates(candidates, rows, np.random.RandomState(0))


@pytest.mark.parametrize("everything", [None, 40, 1.0])
def test_all_rows(everything):
    chosen = choose(everything)
    assert chosen.points is None
    np.testing.assert_array_equal(chosen.rows, np.arange(40))


@pytest.mark.parametrize(("some", "count"), [(7, 7), (0.25, 10), (0.001, 1), (np.int64(3), 3)])
def test_a_number_or_a_fraction_of_rows(some, count):
    chosen = choose(some)
    assert len(set(chosen.rows)) == count
    np.testing.assert_array_equal(chosen.points, ROWS[chosen.rows])


@pytest.mark.parametrize("points", [[[0.0, 1.0]], sparse.csr_array([[0.0, 1.0]])])
def test_given_points_are_no_rows(points):
    chosen = choose(points)
    assert chosen.rows is None
    np.testing.assert_array_equal(chosen.points, [[0.0, 1.0]])
    assert sparse.issparse(choose(points, sparse.csr_array(ROWS)).points)


@pytest.mark.parametrize("out_of_range", [0, -1, 41, 0.0, -0.5, 1.5])
def test_out_of_range(out_of_range):
    with pytest.raises(ValueError, match=f"candidates={out_of_range} is out of range"):
        L1KernelClassifier(candidates=out_of_range).fit(ROWS, LABELS)


def test_points_of_the_wrong_width():
    with pytest.raises(ValueError, match="candidates has 3 columns, but X has 2 features"):
        L1KernelClassifier(candidates=np.ones((4, 3))).fit(ROWS, LABELS)


def test_points_that_are_no_numbers():
    with pytest.raises(ValueError, match="candidates contains NaN"):
        L1KernelClassifier(candidates=[[np.nan, 0.0]]).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    ("wrong", "sentence"), [(True, "candidates.*Got True instead"), ([1, 2, 3], r"give X\[rows\]")]
)
def test_neither_a_number_nor_points(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        L1KernelClassifier(candidates=wrong).fit(ROWS, LABELS)


def test_centers_come_from_the_candidates():
    points = np.random.RandomState(1).randn(12, 2)
    given = L1KernelClassifier(candidates=points).fit(ROWS, LABELS)
    np.testing.assert_array_equal(given.expansion_.centers, points[given.center_indices_])
    drawn = L1KernelClassifier(candidates=12, random_state=3).fit(ROWS, LABELS)
    np.testing.assert_array_equal(drawn.expansion_.centers, ROWS[drawn.center_indices_])
    assert given.duality_gap_.max() <= 1e-9
    assert drawn.duality_gap_.max() <= 1e-9


def test_equal_landmarks_are_one():
    X = np.array([[1.0], [2.0], [1.0]])
    points = choose_landmarks(500, X, np.random.RandomState(0))
    assert points.ravel().tolist() == [1.0, 2.0]
    assert landmark_rows(np.array([2, 0, 1]), 2, X).tolist() == [0]
