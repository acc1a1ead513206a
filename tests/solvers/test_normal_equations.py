"""What the solver promises beyond the problem's own tests."""

import numpy as np

from kernlet.kernels.features import RowFeatures
from kernlet.problems.moments import collect
from kernlet.problems.proximal import Proximal, one_against_rest
from kernlet.solvers.normal_equations import solve_proximal


def test_the_residual_is_that_of_the_equations():
    random = np.random.RandomState(0)
    X, codes = random.normal(50.0, 1.0, (80, 5)), random.randint(3, size=80)
    problem = Proximal(collect(RowFeatures(X), codes, 3), 1.0, one_against_rest(3))
    solution = solve_proximal(problem)
    H = np.hstack([X, np.ones((80, 1))])
    answers = np.hstack([solution.weights, solution.intercept[:, None]])
    signs = np.where(codes == np.arange(3)[:, None], 1.0, -1.0)
    left = (np.eye(6) + H.T @ H) @ answers.T - H.T @ signs.T
    assert np.abs(left).max() < 1e-9 * np.abs(H.T @ H).max()
    assert solution.residual < 1e-13


def test_no_columns_worth_a_weight():
    X, codes = np.zeros((4, 2)), np.array([0, 0, 0, 1])
    solution = solve_proximal(Proximal(collect(RowFeatures(X), codes, 2), 1e6, one_against_rest(2)))
    np.testing.assert_array_equal(solution.weights, 0.0)
    np.testing.assert_allclose(solution.intercept, [0.5, -0.5], atol=1e-5)
    assert solution.residual < 1e-14
