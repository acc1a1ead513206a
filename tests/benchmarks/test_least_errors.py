"""Fewest errors of one and two centers, against all splits by brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from benchmarks import least_errors


def data(seed, n, decimals=None):
    random = np.random.RandomState(seed)
    points = random.normal(size=(n, 2))
    if decimals is not None:
        points = np.round(points, decimals)
    return points, np.where(random.uniform(size=n) < 0.5, 1.0, -1.0)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 12))
def test_a_threshold(seed, n):
    points, signs = data(seed, n, decimals=0)
    values = points[:, 0]
    thresholds = [values.min() - 1, *((a + b) / 2 for a, b in combinations(np.unique(values), 2))]
    expected = min(
        np.count_nonzero(np.where(values > t, o, -o) != signs) for t in thresholds for o in (1, -1)
    )
    assert least_errors.of_threshold(values, signs) == expected


@given(seed=st.integers(0, 10_000), n=st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_a_line(seed, n):
    points, signs = data(seed, n)
    errors, (a, b, c) = least_errors.of_line(*points.T, signs)
    assert errors == naive.fewest_linear_errors(points, signs)
    assert np.count_nonzero((a * points[:, 0] + b * points[:, 1] + c) * signs <= 0) == errors


@given(seed=st.integers(0, 10_000), n=st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_a_line_with_ties_never_counts_too_many(seed, n):
    points, signs = data(seed, n, decimals=0)
    assert least_errors.of_line(*points.T, signs)[0] <= naive.fewest_linear_errors(points, signs)


@pytest.mark.parametrize("seed", range(3))
def test_two_centers_and_more(seed):
    random = np.random.RandomState(seed)
    K, signs = random.normal(size=(30, 5)), np.where(random.uniform(size=30) < 0.5, 1.0, -1.0)
    one, (two, coef, intercept) = (
        least_errors.of_one_center(K, signs),
        least_errors.of_two_centers(K, signs),
    )
    assert two <= one <= least_errors.of_constant(signs)
    assert np.count_nonzero((K @ coef + intercept) * signs <= 0) == two
    coef, intercept = least_errors.add_centers(K, signs, coef, intercept, 0, 4)
    assert np.count_nonzero((K @ coef + intercept) * signs <= 0) <= two
    assert np.count_nonzero(coef) <= 4
