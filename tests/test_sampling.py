import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernlet.sampling import derive_seed, hold_out, stratified_sample

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


def test_rows_without_classes_are_held_out_too():
    kept, held_out = hold_out(np.linspace(0, 1, 10), 0.25, np.random.RandomState(0), stratify=False)
    assert sorted([*kept, *held_out]) == list(range(10))
    assert len(held_out) == 2
    assert len(hold_out(np.zeros(2), 0.9, np.random.RandomState(0), stratify=False)[0]) == 1


def test_samples_keep_the_shares_of_the_classes():
    y = np.repeat([0, 1], [300, 100])
    sample = stratified_sample(y, np.arange(400), 40, np.random.RandomState(0))
    assert np.bincount(y[sample]).tolist() == [30, 10]


@pytest.mark.parametrize("other", [(1, 2), (2, 1, 3), (1, 2, 4)])
def test_seeds_differ_by_part_and_not_by_chance(other):
    assert derive_seed(1, 2, 3) == derive_seed(1, 2, 3)
    assert derive_seed(1, 2, 3) != derive_seed(*other)
