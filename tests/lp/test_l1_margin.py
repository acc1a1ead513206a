from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import naive
from kernlet.kernels.gram import Gram
from kernlet.kernels.rbf import RBF
from kernlet.lp.problem import L1Margin

GAMMA = 0.5


def _problem(seed, n_rows=8, n_candidates=5):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n_rows, 2)), rng.normal(size=(n_candidates, 2))
    problem = L1Margin(
        gram=Gram(RBF(GAMMA), X, Z),
        signs=rng.choice([-1.0, 1.0], size=n_rows),
        error_weights=rng.uniform(0.0, 3.0, size=n_rows),
        coef_weights=rng.uniform(0.1, 2.0, size=n_candidates),
    )
    return problem, naive.gram(lambda x, z: naive.rbf(x, z, GAMMA), X, Z), rng


def _naive_objective(problem, K, beta, intercept):
    total = 0.0
    for row, sign, nu in zip(K, problem.signs, problem.error_weights, strict=True):
        total += nu * max(0.0, 1 - sign * (row @ beta + intercept))
    return total + sum(c * abs(b) for c, b in zip(problem.coef_weights, beta, strict=True))


def _objective(problem, beta, intercept):
    values = problem.gram.dot(beta) + intercept
    return problem.objective(problem.slacks(values), np.abs(beta))


def _bound(problem, t):
    return problem.bound(t, problem.gram.T.dot(problem.signs * t))


seeds = st.integers(0, 10_000)
scales = st.floats(0.01, 100)
quickly = settings(max_examples=60, deadline=None)


@quickly
@given(seed=seeds, scale=scales)
def test_objective_is_errors_plus_coefficients(seed, scale):
    problem, K, rng = _problem(seed)
    beta, intercept = scale * rng.normal(size=5), scale * rng.normal()
    expected = _naive_objective(problem, K, beta, intercept)
    assert _objective(problem, beta, intercept) == pytest.approx(expected, rel=1e-10)


@quickly
@given(seed=seeds, scale=scales)
def test_slacks_are_the_smallest_feasible_errors(seed, scale):
    problem, _, rng = _problem(seed)
    values = scale * rng.normal(size=8)
    y = problem.slacks(values)
    room = problem.signs * values + y - 1
    tolerance = 1e-12 * (1 + scale)
    assert y.min() >= 0
    assert room.min() >= -tolerance
    np.testing.assert_allclose(np.minimum(y, room), 0, atol=tolerance)  # one of the two is tight


@quickly
@given(seed=seeds, scale=scales)
def test_balanced_duals_are_feasible_and_never_larger(seed, scale):
    problem, _, rng = _problem(seed)
    duals = scale * rng.normal(size=8)
    before = duals.copy()
    t = problem.balanced(duals)
    assert t.min() >= 0
    assert np.all(t <= problem.error_weights)
    assert np.all(t <= np.maximum(duals, 0))
    assert problem.signs @ t == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(duals, before)


@quickly
@given(seed=seeds)
def test_balancing_takes_from_the_heavier_side_only(seed):
    problem, _, rng = _problem(seed)
    duals = rng.uniform(0, 1, size=8) * problem.error_weights
    t = problem.balanced(duals)
    totals = [duals[problem.signs == sign].sum() for sign in (1, -1)]
    assert t.sum() == pytest.approx(2 * min(totals))


@quickly
@given(seed=seeds)
def test_balancing_twice_is_balancing_once(seed):
    problem, _, rng = _problem(seed)
    t = problem.balanced(rng.uniform(0, 3, size=8))
    np.testing.assert_allclose(problem.balanced(t), t, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_class_alone_balances_to_zero(sign):
    problem, _, _ = _problem(0)
    alone = L1Margin(problem.gram, np.full(8, sign), problem.error_weights, problem.coef_weights)
    np.testing.assert_array_equal(alone.balanced(np.ones(8)), 0)


@settings(max_examples=150, deadline=None)
@given(seed=seeds, primal=scales, dual=scales)
def test_weak_duality(seed, primal, dual):
    problem, _, rng = _problem(seed)
    beta, intercept = primal * rng.normal(size=5), primal * rng.normal()
    t = problem.balanced(dual * rng.normal(size=8))
    objective = _objective(problem, beta, intercept)
    assert 0 <= _bound(problem, t) <= objective * (1 + 1e-12)


@quickly
@given(seed=seeds, dual=scales)
def test_bound_is_the_value_of_a_feasible_dual(seed, dual):
    problem, K, rng = _problem(seed)
    t = problem.balanced(dual * rng.normal(size=8))
    shrink = _bound(problem, t) / t.sum() if t.any() else 1.0
    assert shrink <= 1 + 1e-12
    correlations = K.T @ (problem.signs * t * shrink)
    assert np.all(np.abs(correlations) <= problem.coef_weights * (1 + 1e-9))


def test_feasible_duals_are_not_shrunk():
    problem, _, rng = _problem(1)
    t = 1e-3 * problem.balanced(rng.uniform(0, 1, size=8))
    assert t.any()
    assert _bound(problem, t) == t.sum()


def _solve(problem, K):
    """Optimum and duals of the linear program as the docstring writes it, beta = p - q."""
    m, n = K.shape
    DK = problem.signs[:, None] * K
    solution = linprog(
        np.concatenate([problem.coef_weights, problem.coef_weights, [0.0], problem.error_weights]),
        A_ub=-np.hstack([DK, -DK, problem.signs[:, None], np.eye(m)]),
        b_ub=-np.ones(m),
        bounds=[(0, None)] * (2 * n) + [(None, None)] + [(0, None)] * m,
    )
    return solution.x[:n] - solution.x[n : 2 * n], solution.x[2 * n], -solution.ineqlin.marginals


@pytest.mark.parametrize("seed", range(5))
def test_objective_and_bound_meet_at_the_optimum(seed):
    problem, K, _ = _problem(seed, n_rows=20, n_candidates=10)
    beta, intercept, t = _solve(problem, K)
    bound = _bound(problem, problem.balanced(t))
    assert bound > 0
    assert _objective(problem, beta, intercept) == pytest.approx(bound, rel=1e-8)


def test_no_candidates_leave_the_duals_as_they_are():
    problem, _, rng = _problem(2)
    t = problem.balanced(rng.uniform(0, 3, size=8))
    empty = L1Margin(problem.gram, problem.signs, problem.error_weights, np.empty(0))
    assert empty.bound(t, np.empty(0)) == t.sum()


def test_problem_is_frozen():
    with pytest.raises(FrozenInstanceError):
        _problem(0)[0].signs = None
