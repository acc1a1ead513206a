"""The program over margin rows against one plain call, alone and with rows summed up."""

from dataclasses import replace

import numpy as np
import pytest

import naive
from kernlet.lp.crossover import MarginLP, MarginRows, merge_equal_rows, split_duals
from support.margin_problems import full_kernel, make_problem

FAR_AWAY = 1e6


def make(seed=0, m=120, C=1.0):
    problem = make_problem(seed, m, C=C, n_candidates=15, weighted=True)
    return problem.outputs(0), full_kernel(problem)


def margin_rows(K, signs, weights, far):
    targets = np.ones(len(K))
    return MarginRows(np.arange(len(K)), K, signs, weights, targets, far, np.zeros(len(K)))


def solved(rows, coef, coef_weights, radius):
    program = MarginLP(rows, coef, coef_weights, radius)
    assert program.solve() == "optimal"
    return program


@pytest.mark.parametrize("seed", range(4))
def test_with_all_rows_near_it_is_the_whole_problem(seed):
    problem, K = make(seed)
    near = margin_rows(K, problem.signs, problem.error_weights, np.zeros((2, 16)))
    program = solved(near, np.zeros(16), problem.coef_weights, FAR_AWAY)
    bound, _ = naive.l1_margin_dual(K, problem.signs, problem.error_weights, problem.coef_weights)
    assert program.duals.sum() == pytest.approx(bound, rel=1e-8)
    slacks = problem.slacks(K @ program.coef[:-1] + program.coef[-1])
    assert problem.objective(slacks, np.abs(program.coef[:-1])) == pytest.approx(bound, rel=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_keep_their_side_can_be_summed_up(seed):
    problem, K = make(seed)
    everything = margin_rows(K, problem.signs, problem.error_weights, np.zeros((2, 16)))
    whole = solved(everything, np.zeros(16), problem.coef_weights, FAR_AWAY)
    residuals = 1 - problem.signs * (K @ whole.coef[:-1] + whole.coef[-1])
    near = np.flatnonzero(np.abs(residuals) < 0.3)
    beyond = residuals >= 0.3
    lines = np.hstack([K, np.ones((120, 1))])
    far = np.array(
        [(problem.error_weights * (beyond & (problem.signs == s))) @ lines for s in (1, -1)]
    )
    some = margin_rows(K[near], problem.signs[near], problem.error_weights[near], far)
    start = whole.coef + 1e-3
    program = solved(some, start, problem.coef_weights, FAR_AWAY)
    np.testing.assert_allclose(program.coef, whole.coef, atol=1e-7)
    np.testing.assert_allclose(program.duals, whole.duals[near], atol=1e-7)


def test_a_trust_region_keeps_it_feasible_without_any_near_row():
    problem, K = make()
    nothing = np.zeros(0)
    far = np.zeros((2, 16))
    far[0, -1] = 5.0  # a pull on the intercept that nothing holds
    near = margin_rows(K[:0], nothing, nothing, far)
    program = solved(near, np.zeros(16), problem.coef_weights, 0.25)
    assert program.coef[-1] == pytest.approx(0.25)


def test_equal_rows_become_one():
    problem, K = make(m=30)
    again = np.random.RandomState(0).permutation(np.repeat(np.arange(30), 3))
    nothing = np.zeros((2, 16))
    near = margin_rows(K[again], problem.signs[again], problem.error_weights[again], nothing)
    merged, groups = merge_equal_rows(near)
    assert len(merged.numbers) == 30
    np.testing.assert_array_equal(merged.K[groups], near.K)
    np.testing.assert_array_equal(merged.signs[groups], near.signs)
    one, two = (
        solved(rows, np.zeros(16), problem.coef_weights, FAR_AWAY) for rows in (merged, near)
    )
    duals = split_duals(one.duals, near, merged, groups)
    assert duals.sum() == pytest.approx(two.duals.sum(), rel=1e-9)
    assert (duals <= near.weights * (1 + 1e-12)).all()
    together = np.bincount(groups, duals)
    np.testing.assert_allclose(together, one.duals, atol=1e-12 * near.weights.max())
    between = (duals > 0) & (duals < near.weights)
    assert np.bincount(groups, between).max() <= 1  # of equal rows, at most one


def test_without_an_answer_of_the_simplex_method_it_stays_where_it_is(monkeypatch):
    problem, K = make(m=30)
    near = margin_rows(K, problem.signs, problem.error_weights, np.zeros((2, 16)))
    program = MarginLP(near, np.zeros(16), problem.coef_weights, FAR_AWAY)
    monkeypatch.setattr(program.simplex, "run", lambda max_iter: "failed")  # HiGHS is never asked
    assert program.solve() == "failed"
    np.testing.assert_array_equal(program.coef, np.zeros(16))


def test_rows_that_share_one_kernel_value_keep_their_duals():
    near = margin_rows(np.array([[1.0, 3.0], [1.0, 2.0]]), np.ones(2), np.ones(2), np.zeros((2, 3)))
    merged, groups = merge_equal_rows(near)
    np.testing.assert_array_equal(
        split_duals(np.array([0.2, 0.7]), near, merged, groups), [0.2, 0.7]
    )


def test_equal_rows_of_other_targets_stay_two():
    near = margin_rows(np.ones((4, 2)), np.ones(4), np.ones(4), np.zeros((2, 3)))
    merged, groups = merge_equal_rows(replace(near, targets=np.array([1.0, 2.0, 1.0, 2.0])))
    assert merged.targets.tolist() == [1.0, 2.0]
    assert groups.tolist() == [0, 1, 0, 1]
    assert merged.weights.tolist() == [2.0, 2.0]


def test_equal_rows_of_both_signs_stay_two():
    K = np.ones((4, 2))
    near = margin_rows(K, np.array([1.0, -1, 1, -1]), np.ones(4), np.zeros((2, 3)))
    merged, _ = merge_equal_rows(near)
    assert sorted(merged.signs) == [-1, 1]
