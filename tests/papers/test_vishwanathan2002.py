"""Levels and thresholds that remove the paper's numbers of rows, found on training rows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kernlet import TypicalCondenser
from papers.tasks import Task
from papers.vishwanathan2002 import _both, _level, _result, _threshold, _typical, _typical_share

X, Y = load_digits(return_X_y=True)


def removed(condense, n_rows=900):
    return n_rows - len(condense(X[:n_rows], Y[:n_rows], 0)[1])


@pytest.mark.parametrize("count", [400, 600, 800])
def test_the_largest_level_that_removes_enough(count):
    level = _level(X[:900], Y[:900], 1.0, count / 900)
    assert removed(_typical(1.0, level)) >= count > removed(_typical(1.0, level + 0.001))
    assert level == round(level, 3)
    condenser = TypicalCondenser(1.0, level=level, class_weight="normalized")
    rows, _ = condenser.fit_resample(X[:900], Y[:900])
    np.testing.assert_array_equal(rows, _typical_share(1.0, count / 900)(X[:900], Y[:900], 0)[0])


@pytest.mark.slow
@pytest.mark.parametrize("first", ["typical", "boundary"])
def test_the_smallest_threshold_that_removes_enough(first):
    threshold = _threshold(X[:900], Y[:900], 1.0, 0.5, first)
    assert threshold % 10 == 0
    assert removed(_both(1.0, threshold, first)) >= 450
    assert removed(_both(1.0, threshold - 10, first)) < 450


def test_k_is_chosen_without_test_rows():
    task = Task(X[:900], Y[:900], X[900:], Y[900:])
    scrambled = Task(X[:900], Y[:900], X[900:], np.random.RandomState(0).permutation(Y[900:]))
    rule = _typical(1.0, 0.8)
    one, other = _result(task, rule), _result(scrambled, rule)
    assert one["k"] == other["k"]
    assert one["validated"] == other["validated"]
    assert one["accuracy"] > 90 > 50 > other["accuracy"]
