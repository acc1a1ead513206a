import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF
from kernlet.squared.newton import solve_squared_hinge
from kernlet.squared.problem import SquaredHinge

quickly = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**31)


def _problem(seed=0, n_rows=60, n_centers=8, cost=3.0, weighted=False):
    """A noisy two-class problem in the plane that no line separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_rows) > 0, 1.0, -1.0)
    Z = rng.normal(size=(n_centers, 2))
    costs = cost * (rng.uniform(0.0, 2.0, n_rows) if weighted else np.ones(n_rows))
    penalty = kernel_matrix(RBF(0.7), Z, Z) + 1e-8 * np.eye(n_centers)
    return SquaredHinge(kernel_matrix(RBF(0.7), X, Z), penalty, signs, costs)


def _point(solution):
    return np.append(solution.weights, solution.intercept)


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
    solution = solve_squared_hinge(problem, tol=1e-6)
    slope = np.abs(problem.gradient(_point(solution))).max()
    at_zero = np.abs(problem.gradient(np.zeros(n_centers + 1))).max()
    assert slope <= 1e-6 * at_zero
    assert solution.gradient_norm == pytest.approx(slope / at_zero)
    assert solution.objective == problem.objective(_point(solution))


@quickly
@given(seed=seeds, cost=st.sampled_from([0.1, 3.0, 30.0]), weighted=st.booleans())
def test_no_other_point_does_better(seed, cost, weighted):
    problem = _problem(seed, cost=cost, weighted=weighted)
    solution = solve_squared_hinge(problem)
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
    solution = solve_squared_hinge(problem)
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
    solution = solve_squared_hinge(SquaredHinge(X, np.eye(4), signs, np.full(160, 2 * 0.3)))
    np.testing.assert_allclose(solution.weights, other.coef_[0], rtol=1e-5)
    assert solution.intercept == pytest.approx(0.0, abs=1e-8)


def test_few_steps_are_enough():
    assert solve_squared_hinge(_problem()).n_iter <= 20


def test_objective_never_increases_with_more_steps():
    problem = _problem(n_rows=200, cost=100.0)
    objectives = [solve_squared_hinge(problem, max_iter=n).objective for n in range(8)]
    assert objectives[0] == pytest.approx(100.0 * 200 / 2)
    assert np.all(np.diff(objectives) <= 1e-12)


def test_a_search_cut_short_is_honest():
    problem = _problem(cost=30.0)
    solution = solve_squared_hinge(problem, max_iter=1)
    assert solution.n_iter == 1
    assert solution.gradient_norm > 1e-8
    slope = problem.gradient(_point(solution)), problem.gradient(np.zeros(9))
    assert solution.gradient_norm == pytest.approx(np.abs(slope[0]).max() / np.abs(slope[1]).max())


def test_drop_zero_cost_nothing_leave_the_zero_machine():
    problem = _problem(cost=0.0)
    solution = solve_squared_hinge(problem)
    assert solution.n_iter == 0
    assert solution.objective == 0.0
    np.testing.assert_array_equal(_point(solution), 0.0)


def test_rows_of_one_sign_need_only_the_intercept():
    problem = _problem()
    same = SquaredHinge(problem.features, problem.penalty, np.ones(60), problem.error_weights)
    solution = solve_squared_hinge(same)
    assert solution.objective == pytest.approx(0.0, abs=1e-8)
    assert solution.intercept == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(solution.weights, 0.0, atol=1e-3)


def test_separable_rows_with_dear_errors_reach_the_margin():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    problem = SquaredHinge(X, np.eye(1), np.sign(X[:, 0]), np.full(4, 1e4))
    solution = solve_squared_hinge(problem)
    assert solution.weights[0] == pytest.approx(1.0, abs=1e-3)
    assert solution.intercept == pytest.approx(0.0, abs=1e-6)
