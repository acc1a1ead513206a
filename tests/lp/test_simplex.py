"""The driver of HiGHS: a growing program, warm restarts, limits, and polishing."""

import numpy as np
import pytest
from scipy.optimize import linprog

from kernlet.lp.simplex import LOWER, UPPER, HotSimplex, check_finite, solve_basis

random = np.random.RandomState(0)
A, COSTS = random.uniform(0.1, 1.0, (6, 20)), -random.uniform(0.5, 1.0, 20)
LIMIT = np.full(6, 2.0)


def make(columns=20, rows=6):
    simplex = HotSimplex()
    simplex.add_rows(-LIMIT[:rows], LIMIT[:rows])
    add_columns(simplex, np.arange(columns), rows)
    return simplex


def add_columns(simplex, columns, rows=6):
    n = len(columns)
    entries = np.ascontiguousarray(A[:rows, columns].T)
    assert simplex.add_columns(COSTS[columns], np.zeros(n), np.ones(n), entries)


def optimum(columns=20, rows=6, upper=1.0):
    bounds = [(0, upper)] * columns
    return linprog(COSTS[:columns], A[:rows, :columns], LIMIT[:rows], bounds=bounds).fun


def value(simplex, columns=20):
    return COSTS[:columns] @ np.array(simplex.solution.col_value)


def test_agrees_with_one_plain_call():
    simplex = make()
    assert simplex.run() == "optimal"
    assert value(simplex) == pytest.approx(optimum())


def test_a_program_that_grows_and_shrinks_restarts_from_its_basis():
    simplex = make(columns=12, rows=4)
    assert simplex.run() == "optimal"
    assert value(simplex, 12) == pytest.approx(optimum(12, 4))
    assert simplex.add_rows(-LIMIT[4:], LIMIT[4:], A[4:, :12].copy())
    add_columns(simplex, np.arange(12, 20))
    assert simplex.run() == "optimal"
    assert value(simplex) == pytest.approx(optimum())
    used = simplex.n_iter
    assert simplex.run() == "optimal"
    assert simplex.n_iter == used  # the basis is that of the optimum
    simplex.keep(np.arange(20) < 12, np.arange(6) < 4)
    assert simplex.run() == "optimal"
    assert value(simplex, 12) == pytest.approx(optimum(12, 4))


def test_bounds_can_change():
    simplex = make()
    simplex.run()
    simplex.set_column_bounds(np.zeros(20), np.full(20, 0.1))
    assert simplex.run() == "optimal"
    assert value(simplex) == pytest.approx(optimum(upper=0.1))
    simplex.set_row_bounds(np.arange(6), -LIMIT / 2, LIMIT / 2)
    assert simplex.run() == "optimal"
    assert np.all(A @ np.array(simplex.solution.col_value) <= 1.0 + 1e-9)


def test_columns_start_at_the_bound_that_is_given():
    simplex = HotSimplex()
    simplex.add_rows(-LIMIT, LIMIT)
    simplex.add_diagonal(-np.ones(6), np.zeros(6), np.ones(6), 1.0, UPPER)
    simplex.add_diagonal(np.ones(6), np.zeros(6), np.ones(6), -1.0)
    assert list(simplex.column_status) == [UPPER] * 6 + [LOWER] * 6
    assert simplex.run() == "optimal"
    assert simplex.n_iter == 0  # that basis is the optimum


def test_the_callers_limit_is_kept_to():
    simplex = make()
    assert simplex.run(max_iter=1) == "iteration limit"
    assert simplex.n_iter == 1
    assert simplex.run() == "optimal"


def test_an_impossible_program_fails_after_its_retries():
    simplex = make()
    simplex.set_row_bounds(np.arange(6), np.full(6, 50.0), np.full(6, 60.0))
    assert simplex.run() == "failed"


def test_entries_that_highs_refuses_are_reported():
    simplex = HotSimplex()
    simplex.add_rows(np.zeros(1), np.zeros(1))
    assert not simplex.add_columns(np.ones(1), np.zeros(1), np.ones(1), np.array([[1e20]]))


def test_a_basis_is_solved_both_ways():
    B = random.randn(5, 5)
    x, y = solve_basis(B, np.arange(5.0), np.ones(5))
    np.testing.assert_allclose(B @ x, np.arange(5.0), atol=1e-12)
    np.testing.assert_allclose(B.T @ y, np.ones(5), atol=1e-12)
    assert solve_basis(np.full((2, 2), np.nan), np.ones(2), np.ones(2)) is None


def test_values_that_are_not_finite_are_refused():
    check_finite(np.ones(3))
    with pytest.raises(ValueError, match="NaN or infinite"):
        check_finite(np.array([1.0, np.inf]))
