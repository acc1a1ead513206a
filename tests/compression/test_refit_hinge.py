"""Squared-hinge machines over given features: the problem, and the optimum that Newton finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

import naive
from kernlet.compression.refit import FeatureHinge
from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF

quickly = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**31)

N_ROWS, N_CENTERS = 8, 3
solutions = arrays(np.float64, N_CENTERS + 1, elements=st.floats(-3, 3, allow_subnormal=False))


def _feature_hinge(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(N_CENTERS, N_CENTERS))
    return FeatureHinge(
        features=rng.normal(size=(N_ROWS, N_CENTERS)),
        penalty=A @ A.T + 0.1 * np.eye(N_CENTERS),
        signs=rng.choice([-1.0, 1.0], size=N_ROWS),
        costs=rng.uniform(0.0, 3.0, size=N_ROWS),
    )


@quickly
@given(seed=seeds, point=solutions)
def test_objective_is_the_formula(seed, point):
    problem = _feature_hinge(seed)
    expected = naive.squared_hinge(
        problem.features,
        problem.penalty,
        problem.signs,
        problem.costs,
        point[:-1],
        point[-1],
    )
    assert problem.objective(point) == pytest.approx(expected, rel=1e-10)


@quickly
@given(seed=seeds, point=solutions)
def test_gradient_is_the_derivative(seed, point):
    problem = _feature_hinge(seed)
    expected = naive.derivative(problem.objective, point, h=1e-6)
    # at a kink the second derivative jumps, and the difference errs by about its size times h
    np.testing.assert_allclose(problem.gradient(point), expected, rtol=1e-5, atol=1e-4)


@quickly
@given(seed=seeds, a=solutions, b=solutions, share=st.floats(0, 1))
def test_objective_is_convex(seed, a, b, share):
    problem = _feature_hinge(seed)
    chord = share * problem.objective(a) + (1 - share) * problem.objective(b)
    assert problem.objective(share * a + (1 - share) * b) <= chord * (1 + 1e-10) + 1e-10


@quickly
@given(seed=seeds, a=solutions, b=solutions)
def test_tangent_lies_below(seed, a, b):
    problem = _feature_hinge(seed)
    tangent = problem.objective(a) + problem.gradient(a) @ (b - a)
    assert problem.objective(b) >= tangent - 1e-9 * (1 + abs(tangent))


def test_rows_beyond_the_margin_have_no_error_and_no_pull():
    features, signs = np.array([[2.0], [-3.0], [0.25]]), np.array([1.0, -1.0, 1.0])
    problem = FeatureHinge(features, np.zeros((1, 1)), signs, np.ones(3))
    point = np.array([1.0, 0.0])
    np.testing.assert_allclose(problem.slacks(point), [0.0, 0.0, 0.75])
    assert problem.objective(point) == pytest.approx(0.75**2 / 2)
    np.testing.assert_allclose(problem.gradient(point), [-0.75 * 0.25, -0.75])


def test_nothing_costs_half_the_weights():
    problem = _feature_hinge()
    at_zero = problem.objective(np.zeros(N_CENTERS + 1))
    assert at_zero == pytest.approx(problem.costs.sum() / 2)


def test_a_row_of_weight_two_is_two_rows():
    problem, point = _feature_hinge(), np.array([0.3, -0.2, 0.5, 0.1])
    times = np.arange(N_ROWS) % 3
    weighted = FeatureHinge(
        problem.features, problem.penalty, problem.signs, times.astype(np.float64)
    )
    repeated = FeatureHinge(
        np.repeat(problem.features, times, axis=0),
        problem.penalty,
        np.repeat(problem.signs, times),
        np.ones(times.sum()),
    )
    assert weighted.objective(point) == pytest.approx(repeated.objective(point), rel=1e-12)
    np.testing.assert_allclose(weighted.gradient(point), repeated.gradient(point), rtol=1e-12)


def _problem(seed=0, n_rows=60, n_centers=8, cost=3.0, weighted=False):
    """A noisy two-class problem in the plane that no line separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_rows) > 0, 1.0, -1.0)
    Z = rng.normal(size=(n_centers, 2))
    costs = cost * (rng.uniform(0.0, 2.0, n_rows) if weighted else np.ones(n_rows))
    penalty = kernel_matrix(RBF(0.7), Z, Z) + 1e-8 * np.eye(n_centers)
    return FeatureHinge(kernel_matrix(RBF(0.7), X, Z), penalty, signs, costs)


def _point(solution):
    return np.append(solution.coef, solution.intercept)


@quickly
@given(
    seed=seeds,
    n_rows=st.integers(2, 60),
    n_centers=st.integers(1, 8),
    cost=st.sampled_from([1e-3, 1.0, 30.0]),
    weighted=st.booleans(),
)
def test_gradient_vanishes_and_the_certificate_says_so(seed, n_rows, n_centers, cost, weighted):
    problem = _problem(seed, n_rows, n_centers, cost, weighted)
    solution = problem.minimize(tol=1e-6)
    slope = np.abs(problem.gradient(_point(solution))).max()
    at_zero = np.abs(problem.gradient(np.zeros(n_centers + 1))).max()
    assert slope <= 1e-6 * at_zero
    assert solution.gradient_norm == pytest.approx(slope / at_zero)
    assert solution.objective == problem.objective(_point(solution))


@quickly
@given(seed=seeds, cost=st.sampled_from([0.1, 3.0, 30.0]), weighted=st.booleans())
def test_no_other_point_does_better(seed, cost, weighted):
    problem = _problem(seed, cost=cost, weighted=weighted)
    solution = problem.minimize()
    rng = np.random.default_rng(seed)
    for length in (1e-4, 1e-2, 1.0):
        other = _point(solution) + length * rng.normal(size=9)
        assert solution.objective <= problem.objective(other) * (1 + 1e-10)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cost", [0.1, 10.0])
def test_a_general_search_finds_the_same(seed, cost):
    problem = _problem(seed, cost=cost, weighted=True)
    found = minimize(
        problem.objective,
        np.zeros(9),
        jac=problem.gradient,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9},
    )
    solution = problem.minimize()
    assert solution.objective == pytest.approx(found.fun, rel=1e-7)
    assert solution.objective <= found.fun * (1 + 1e-9)


def test_agrees_with_liblinear_where_the_intercept_is_zero():
    # liblinear's intercept pays a penalty and ours does not: x and -x of other sign need none
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    signs = np.sign(X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=80))
    X, signs = np.vstack([X, -X]), np.append(signs, -signs)
    other = LinearSVC(
        loss="squared_hinge", dual=False, C=0.3, fit_intercept=False, tol=1e-10, max_iter=10000
    ).fit(X, signs)
    solution = FeatureHinge(X, np.eye(4), signs, np.full(160, 2 * 0.3)).minimize()
    np.testing.assert_allclose(solution.coef, other.coef_[0], rtol=1e-5)
    assert solution.intercept == pytest.approx(0.0, abs=1e-8)


def test_few_steps_are_enough():
    assert _problem().minimize().n_iter <= 20


def test_objective_never_increases_with_more_steps():
    problem = _problem(n_rows=200, cost=100.0)
    objectives = [problem.minimize(max_iter=n).objective for n in range(8)]
    assert objectives[0] == pytest.approx(100.0 * 200 / 2)
    assert np.all(np.diff(objectives) <= 1e-12)


def test_a_search_cut_short_is_honest():
    problem = _problem(cost=30.0)
    solution = problem.minimize(max_iter=1)
    assert solution.n_iter == 1
    assert solution.gradient_norm > 1e-8
    slope = problem.gradient(_point(solution)), problem.gradient(np.zeros(9))
    assert solution.gradient_norm == pytest.approx(np.abs(slope[0]).max() / np.abs(slope[1]).max())


def test_drop_zero_cost_nothing_leave_the_zero_machine():
    problem = _problem(cost=0.0)
    solution = problem.minimize()
    assert solution.n_iter == 0
    assert solution.objective == 0.0
    np.testing.assert_array_equal(_point(solution), 0.0)


def test_rows_of_one_sign_need_only_the_intercept():
    problem = _problem()
    same = FeatureHinge(problem.features, problem.penalty, np.ones(60), problem.costs)
    solution = same.minimize()
    assert solution.objective == pytest.approx(0.0, abs=1e-8)
    assert solution.intercept == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(solution.coef, 0.0, atol=1e-3)


def test_separable_rows_with_dear_errors_reach_the_margin():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    problem = FeatureHinge(X, np.eye(1), np.sign(X[:, 0]), np.full(4, 1e4))
    solution = problem.minimize()
    assert solution.coef[0] == pytest.approx(1.0, abs=1e-3)
    assert solution.intercept == pytest.approx(0.0, abs=1e-6)
