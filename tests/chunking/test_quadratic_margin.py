import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import naive
from kernlet.chunking.stage import QuadraticMargin, weigh_rows
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

KERNELS = [RBF(0.7), Polynomial(0.5, 2, 1.0), Linear(), Sigmoid(0.3, 0.1)]
N_ROWS, N_CANDIDATES = 9, 4
all_kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
quickly = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31)


def _problem(kernel=KERNELS[0], seed=0, square=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 2))
    return QuadraticMargin(
        gram=Gram(kernel, X, None if square else rng.normal(size=(N_CANDIDATES, 2))),
        signs=rng.choice([-1.0, 1.0], size=N_ROWS),
        error_weights=rng.uniform(0.0, 3.0, size=N_ROWS),
        row_weights=rng.choice([0.01, 1.0], size=N_ROWS),
    )


def _objective(problem):
    return lambda point: problem.objective(point[:-1], float(point[-1]))


def _naive_objective(problem, kernel, point):
    K = naive.gram(naive.twin(kernel), problem.gram.x.X, problem.gram.z.X)
    value = float(point @ point)
    for i, row in enumerate(K):
        f = sum(k * u for k, u in zip(row, point[:-1], strict=True)) + point[-1]
        value += problem.error_weights[i] * problem.row_weights[i] * (1 - problem.signs[i] * f)
    return value


@all_kernels
@quickly
@given(seed=seeds)
def test_objective_is_the_formula(kernel, seed):
    problem = _problem(kernel, seed)
    point = np.random.default_rng(seed).normal(size=N_CANDIDATES + 1)
    expected = _naive_objective(problem, kernel, point)
    assert _objective(problem)(point) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@all_kernels
@pytest.mark.parametrize("square", [False, True])
def test_closed_form_is_the_minimum_a_search_finds(kernel, square):
    problem = _problem(kernel, square=square)
    u, b = problem.solve()
    found = minimize(_objective(problem), np.zeros(len(u) + 1), method="BFGS", tol=1e-10)
    np.testing.assert_allclose(np.append(u, b), found.x, rtol=1e-5, atol=1e-6)
    assert problem.objective(u, b) <= found.fun + 1e-9


@all_kernels
@quickly
@given(seed=seeds)
def test_gradient_vanishes_at_the_closed_form(kernel, seed):
    problem = _problem(kernel, seed)
    u, b = problem.solve()
    slope = naive.derivative(_objective(problem), np.append(u, b))
    np.testing.assert_allclose(slope, 0.0, atol=1e-7 * (1 + abs(problem.objective(u, b))))


@all_kernels
@quickly
@given(seed=seeds)
def test_any_other_machine_costs_its_squared_distance_more(kernel, seed):
    problem = _problem(kernel, seed)
    u, b = problem.solve()
    away = np.random.default_rng(seed).normal(size=len(u) + 1)
    other = problem.objective(u + away[:-1], b + away[-1])
    expected = problem.objective(u, b) + away @ away
    assert other == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_rows_without_weight_count_nothing():
    problem = _problem()
    chosen = problem.row_weights == 1.0
    dropped = QuadraticMargin(
        problem.gram, problem.signs, problem.error_weights, chosen.astype(np.float64)
    )
    rest = QuadraticMargin(
        Gram(KERNELS[0], problem.gram.x.X[chosen], problem.gram.z.X),
        problem.signs[chosen],
        problem.error_weights[chosen],
        np.ones(chosen.sum()),
    )
    (u, b), (v, c) = dropped.solve(), rest.solve()
    np.testing.assert_allclose(u, v, rtol=1e-12)
    assert b == pytest.approx(c)


def _hinge_objective(problem, u, b):
    errors = np.maximum(0.0, 1.0 - problem.signs * (problem.gram.dot(u) + b))
    return float(problem.error_weights @ errors + u @ u + b**2)


@quickly
@given(seed=seeds)
def test_row_weights_lead_to_the_machine_with_errors_in_place_of_rewards(seed):
    """The aim that the paper names for model (7): nu |E|_1 + u'u + b^2."""
    problem = _problem(seed=seed)
    found = weigh_rows(problem, n_passes=2000)
    assert np.all((found.row_weights >= 0) & (found.row_weights <= 1))
    u, b = found.solve()
    reached = _hinge_objective(problem, u, b)
    # weak duality: nu'v - (u'u + b^2) is a lower bound for every v in [0, 1]
    bound = problem.error_weights @ found.row_weights - (u @ u + b**2)
    assert bound <= reached + 1e-9
    assert reached - bound <= 0.02 * max(1.0, reached)


def test_one_pass_from_nothing_is_model_six():
    problem = _problem()
    everything = QuadraticMargin(
        problem.gram, problem.signs, problem.error_weights, np.ones(N_ROWS)
    )
    first = weigh_rows(problem, n_passes=1)
    (u, b), (v, c) = first.solve(), everything.solve()
    share = first.row_weights[0]  # all rows are short of the margin of the zero machine
    np.testing.assert_allclose(u, share * v)
    assert b == pytest.approx(share * c)
