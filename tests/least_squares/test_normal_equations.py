"""What the solver promises beyond the problem's own tests."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naive
from kernlet.kernels.gram import RowFeatures
from kernlet.least_squares.normal_equations import (
    NormalEquations,
    _largest_ratio,
    collect,
    one_against_rest,
)


def test_the_residual_is_that_of_the_equations():
    random = np.random.RandomState(0)
    X, codes = random.normal(50.0, 1.0, (80, 5)), random.randint(3, size=80)
    problem = NormalEquations(collect(RowFeatures(X), codes, 3), 1.0, one_against_rest(3))
    solution = problem.solve()
    H = np.hstack([X, np.ones((80, 1))])
    answers = np.hstack([solution.coef, solution.intercept[:, None]])
    signs = np.where(codes == np.arange(3)[:, None], 1.0, -1.0)
    left = (np.eye(6) + H.T @ H) @ answers.T - H.T @ signs.T
    assert np.abs(left).max() < 1e-9 * np.abs(H.T @ H).max()
    assert solution.residual < 1e-13


def test_no_columns_worth_a_weight():
    X, codes = np.zeros((4, 2)), np.array([0, 0, 0, 1])
    solution = NormalEquations(collect(RowFeatures(X), codes, 2), 1e6, one_against_rest(2)).solve()
    np.testing.assert_array_equal(solution.coef, 0.0)
    np.testing.assert_allclose(solution.intercept, [0.5, -0.5], atol=1e-5)
    assert solution.residual < 1e-14


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("far", [0.0, 1e5, 1e9])
def test_rows_far_from_the_origin_keep_their_digits(C, far):
    random = np.random.RandomState(0)
    X, codes = random.normal(size=(20, 3)), np.arange(20) % 2
    X = X + codes[:, None] + far * np.array([1.0, -2.0, 0.5])
    signs = one_against_rest(2, [1])
    solution = NormalEquations(collect(RowFeatures(X), codes, 2), C, signs).solve()
    assert solution.residual < 1e-12
    values = X @ solution.coef[0] + solution.intercept[0]
    expected = naive.proximal_values_exact(X, 2.0 * codes - 1, np.ones(20), C)
    np.testing.assert_allclose(values, expected, atol=1e-9 + 1e-15 * far)


def test_the_penalty_on_the_intercept_counts_where_columns_are_dependent():
    X = np.random.RandomState(0).normal(size=(30, 1)).round(3)
    codes = (X[:, 0] > 0.2).astype(int)
    X = np.hstack([X + 2.0**20, X + 2.0**21, X])
    problem = NormalEquations(collect(RowFeatures(X), codes, 2), 1e12, one_against_rest(2, [1]))
    solution = problem.solve()
    assert solution.residual < 1e-10
    assert abs(solution.intercept[0]) < 1e-3  # w can bear it in its place
    values = X @ solution.coef[0] + solution.intercept[0]
    expected = naive.proximal_values_exact(X, 2.0 * codes - 1, np.ones(30), 1e12)
    np.testing.assert_allclose(values, expected, atol=1e-7)


def test_sums_of_no_rows_are_refused():
    X, codes = np.random.RandomState(0).normal(size=(10, 2)), np.arange(10) % 2
    for wrong in (-1e6, np.nan):
        sums = collect(RowFeatures(X), codes, 2)
        sums.products[0, 1, 1] = wrong
        with pytest.raises(ValueError, match="not those of any rows"):
            NormalEquations(sums, 1.0, one_against_rest(2)).solve()


def test_what_is_not_solved_is_warned_of():
    X, codes = np.random.RandomState(0).normal(size=(10, 2)), np.arange(10) % 2
    sums = collect(RowFeatures(X), codes, 2)
    sums.products[:] = [[1.0, 1.0], [1.0, 1.0]]
    with pytest.warns(ConvergenceWarning, match="residual"):
        solution = NormalEquations(sums, 1e300, one_against_rest(2)).solve()
    assert solution.residual > 1e-6


def test_no_number_is_no_residual():
    assert np.isnan(_largest_ratio(np.full((2, 1), np.nan), np.ones((2, 1))))
    assert np.isnan(_largest_ratio(np.ones((2, 1)), np.full((2, 1), np.nan)))
    assert _largest_ratio(np.zeros((2, 1)), np.zeros((2, 1))) == 0.0
