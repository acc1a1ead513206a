import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive
from kernlet.squared.problem import SquaredHinge

N_ROWS, N_CENTERS = 8, 3
quickly = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**31)
solutions = arrays(np.float64, N_CENTERS + 1, elements=st.floats(-3, 3, allow_subnormal=False))


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(N_CENTERS, N_CENTERS))
    return SquaredHinge(
        features=rng.normal(size=(N_ROWS, N_CENTERS)),
        penalty=A @ A.T + 0.1 * np.eye(N_CENTERS),
        signs=rng.choice([-1.0, 1.0], size=N_ROWS),
        error_weights=rng.uniform(0.0, 3.0, size=N_ROWS),
    )


@quickly
@given(seed=seeds, point=solutions)
def test_objective_is_the_formula(seed, point):
    problem = _problem(seed)
    expected = naive.squared_hinge(
        problem.features,
        problem.penalty,
        problem.signs,
        problem.error_weights,
        point[:-1],
        point[-1],
    )
    assert problem.objective(point) == pytest.approx(expected, rel=1e-10)


@quickly
@given(seed=seeds, point=solutions)
def test_gradient_is_the_derivative(seed, point):
    problem = _problem(seed)
    expected = naive.derivative(problem.objective, point, h=1e-6)
    # at a kink the second derivative jumps, and the difference errs by about its size times h
    np.testing.assert_allclose(problem.gradient(point), expected, rtol=1e-5, atol=1e-4)


@quickly
@given(seed=seeds, a=solutions, b=solutions, share=st.floats(0, 1))
def test_objective_is_convex(seed, a, b, share):
    problem = _problem(seed)
    chord = share * problem.objective(a) + (1 - share) * problem.objective(b)
    assert problem.objective(share * a + (1 - share) * b) <= chord * (1 + 1e-10) + 1e-10


@quickly
@given(seed=seeds, a=solutions, b=solutions)
def test_tangent_lies_below(seed, a, b):
    problem = _problem(seed)
    tangent = problem.objective(a) + problem.gradient(a) @ (b - a)
    assert problem.objective(b) >= tangent - 1e-9 * (1 + abs(tangent))


def test_rows_beyond_the_margin_have_no_error_and_no_pull():
    features, signs = np.array([[2.0], [-3.0], [0.25]]), np.array([1.0, -1.0, 1.0])
    problem = SquaredHinge(features, np.zeros((1, 1)), signs, np.ones(3))
    point = np.array([1.0, 0.0])
    np.testing.assert_allclose(problem.errors(point), [0.0, 0.0, 0.75])
    assert problem.objective(point) == pytest.approx(0.75**2 / 2)
    np.testing.assert_allclose(problem.gradient(point), [-0.75 * 0.25, -0.75])


def test_nothing_costs_half_the_weights():
    problem = _problem()
    at_zero = problem.objective(np.zeros(N_CENTERS + 1))
    assert at_zero == pytest.approx(problem.error_weights.sum() / 2)


def test_a_row_of_weight_two_is_two_rows():
    problem, point = _problem(), np.array([0.3, -0.2, 0.5, 0.1])
    times = np.arange(N_ROWS) % 3
    weighted = SquaredHinge(
        problem.features, problem.penalty, problem.signs, times.astype(np.float64)
    )
    repeated = SquaredHinge(
        np.repeat(problem.features, times, axis=0),
        problem.penalty,
        np.repeat(problem.signs, times),
        np.ones(times.sum()),
    )
    assert weighted.objective(point) == pytest.approx(repeated.objective(point), rel=1e-12)
    np.testing.assert_allclose(weighted.gradient(point), repeated.gradient(point), rtol=1e-12)
