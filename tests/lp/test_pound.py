import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.lp.problem import L1Margin, PoundLoss

N_ROWS, N_CANDIDATES = 6, 4

losses = st.builds(PoundLoss, mu=st.floats(0, 20), alpha=st.floats(0.01, 20))
sizes = st.floats(0, 10, allow_subnormal=False)
quickly = settings(max_examples=80, deadline=None)


def _nonnegative(n):
    return arrays(np.float64, n, elements=sizes)


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    return L1Margin(
        gram=Gram(Linear(), rng.normal(size=(N_ROWS, 2)), rng.normal(size=(N_CANDIDATES, 2))),
        signs=rng.choice([-1.0, 1.0], size=N_ROWS),
        error_weights=rng.uniform(0.0, 3.0, size=N_ROWS),
        coef_weights=rng.uniform(0.1, 2.0, size=N_CANDIDATES),
    )


@quickly
@given(loss=losses, x=sizes)
def test_value_is_its_formula(loss, x):
    expected = x + loss.mu * (1 - np.exp(-loss.alpha * x))
    assert loss.value(np.array(x)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@quickly
@given(loss=losses)
def test_no_error_costs_nothing(loss):
    assert loss.value(np.zeros(1)) == 0


@quickly
@given(loss=losses, x=st.floats(0.01, 10))
def test_slope_is_the_derivative(loss, x):
    h = 1e-5
    difference = (loss.value(np.array(x + h)) - loss.value(np.array(x - h))) / (2 * h)
    # the central difference errs by h^2 / 6 times the third derivative, and by rounding
    tolerance = h**2 * loss.mu * loss.alpha**3 + 1e-8
    assert loss.slope(np.array(x)) == pytest.approx(difference, rel=1e-8, abs=tolerance)


@quickly
@given(loss=losses, x=sizes, z=sizes, share=st.floats(0, 1))
def test_loss_is_concave(loss, x, z, share):
    between = loss.value(np.array(share * x + (1 - share) * z))
    chord = share * loss.value(np.array(x)) + (1 - share) * loss.value(np.array(z))
    assert between >= chord - 1e-12 * (1 + abs(chord))


@quickly
@given(loss=losses, x=sizes, z=sizes)
def test_larger_errors_cost_no_less_and_at_least_their_size(loss, x, z):
    small, large = loss.value(np.sort(np.array([x, z])))
    assert small <= large * (1 + 1e-12)
    assert min(x, z) <= small <= min(x, z) + loss.mu


def test_steep_loss_is_the_size_plus_a_price():
    x = np.array([0.0, 0.1, 2.0])
    np.testing.assert_allclose(PoundLoss(mu=3.0, alpha=1e4).value(x), x + 3.0 * (x > 0))


def test_tiny_errors_keep_their_digits():
    loss = PoundLoss(mu=2.0, alpha=5.0)
    x = np.array([1e-18])
    np.testing.assert_allclose(loss.value(x), loss.slope(np.zeros(1)) * x, rtol=1e-12)


@quickly
@given(y=_nonnegative(N_ROWS), b=_nonnegative(N_CANDIDATES))
def test_price_zero_is_the_1_norm_machine(y, b):
    problem, loss = _problem(), PoundLoss(mu=0.0, alpha=5.0)
    assert loss.objective(problem, y, b) == pytest.approx(problem.objective(y, b))
    same = loss.linearized(problem, y, b)
    np.testing.assert_array_equal(same.error_weights, problem.error_weights)
    np.testing.assert_array_equal(same.coef_weights, problem.coef_weights)


@quickly
@given(
    loss=losses,
    at=st.tuples(_nonnegative(N_ROWS), _nonnegative(N_CANDIDATES)),
    to=st.tuples(_nonnegative(N_ROWS), _nonnegative(N_CANDIDATES)),
)
def test_linear_program_is_tangent_from_above(loss, at, to):
    problem = _problem()
    linear = loss.linearized(problem, *at)
    value_at, value_to = (loss.objective(problem, *point) for point in (at, to))
    tangent = value_at + linear.objective(*to) - linear.objective(*at)
    assert value_to <= tangent + 1e-10 * (1 + abs(tangent) + linear.objective(*at))


@quickly
@given(loss=losses, y=_nonnegative(N_ROWS), b=_nonnegative(N_CANDIDATES))
def test_descent_of_the_linear_program_is_descent_of_the_objective(loss, y, b):
    problem = _problem()
    linear = loss.linearized(problem, y, b)
    assert linear.objective(y / 2, b / 2) <= linear.objective(y, b)
    assert loss.objective(problem, y / 2, b / 2) <= loss.objective(problem, y, b) * (1 + 1e-12)


def test_linearized_problem_changes_only_costs():
    problem = _problem()
    weights = problem.error_weights.copy(), problem.coef_weights.copy()
    linear = PoundLoss(2.0, 5.0).linearized(problem, np.zeros(N_ROWS), np.ones(N_CANDIDATES))
    assert linear.gram is problem.gram
    assert linear.signs is problem.signs
    np.testing.assert_allclose(linear.error_weights, weights[0] * (1 + 2.0 * 5.0))
    np.testing.assert_array_equal(problem.error_weights, weights[0])
    np.testing.assert_array_equal(problem.coef_weights, weights[1])
    assert np.all(linear.coef_weights > 0)
