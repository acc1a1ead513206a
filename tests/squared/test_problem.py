"""The squared-hinge problem against its formulas."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import naive
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.squared.problem import SquaredMargin, certified_gap
from support.squared_problems import dual_matrix, kernel_matrix_of, overlapping


def test_products_of_the_hull_are_the_formula():
    problem = overlapping(30)
    X = problem.gram.x.X
    K = naive.gram(lambda x, z: naive.rbf(x, z, 0.3), X, X)
    expected = naive.hull_products(K, problem.signs, problem.costs / 2)
    np.testing.assert_allclose(dual_matrix(problem), expected, atol=1e-14)
    np.testing.assert_allclose(problem.diagonal, np.diagonal(expected), atol=1e-14)


def test_a_block_of_some_columns_and_rows():
    problem = overlapping(30)
    numbers, rows = np.array([4, 9, 2]), np.array([0, 2, 4, 28])
    np.testing.assert_allclose(
        problem.products(numbers, rows), dual_matrix(problem)[np.ix_(numbers, rows)], atol=1e-14
    )


def test_margins_and_norm():
    problem = overlapping(30)
    alpha = np.zeros(30)
    alpha[[3, 7, 11]] = 0.5, 0.3, 0.2
    margins = problem.margins(alpha)
    np.testing.assert_allclose(margins, dual_matrix(problem) @ alpha, atol=1e-14)
    assert problem.squared_norm(alpha, margins) == pytest.approx(
        alpha @ dual_matrix(problem) @ alpha
    )
    assert problem.squared_norm(alpha, -margins) == problem.ridge @ alpha**2


def test_a_subset_is_the_block():
    problem = overlapping(30)
    rows = np.array([1, 5, 6, 20])
    np.testing.assert_allclose(
        dual_matrix(problem.subset(rows)), dual_matrix(problem)[np.ix_(rows, rows)], atol=1e-14
    )


def test_equal_rows_are_two():
    X = np.ones((2, 1))
    problem = SquaredMargin(Gram(Linear(), X), np.ones(2), np.ones(2))
    assert dual_matrix(problem).tolist() == [[3.0, 2.0], [2.0, 3.0]]


@pytest.mark.parametrize("place", [np.asarray, csr_array])
def test_other_kernels_and_sparse_rows(place):
    X = np.random.RandomState(0).randn(70, 3)
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = SquaredMargin(Gram(Polynomial(0.5, 2, 1.0), place(X)), signs, np.ones(70))
    K = naive.gram(lambda x, z: naive.polynomial(x, z, 0.5, 2, 1.0), X, X)
    expected = naive.hull_products(K, signs, np.ones(70) / 2)
    np.testing.assert_allclose(dual_matrix(problem), expected, atol=1e-10)
    np.testing.assert_allclose(problem.diagonal, np.diagonal(expected), atol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "Z", "n_signs", "cost", "sentence"),
    [
        (Sigmoid(1.0), None, 3, 1.0, "positive semi-definite"),
        (Linear(), np.ones((2, 1)), 3, 1.0, "other columns than rows"),
        (Linear(), None, 2, 1.0, "3 rows, 2 signs"),
        (Linear(), None, 3, 0.0, "leave rows of zero weight out"),
        (Linear(), None, 3, -1.0, "not positive"),
        (Linear(), None, 3, np.inf, "not positive"),
        (Linear(), None, 3, 1e-310, "not finite"),
    ],
)
def test_bad_rows_get_a_sentence(kernel, Z, n_signs, cost, sentence):
    with pytest.raises(ValueError, match=sentence):
        SquaredMargin(Gram(kernel, np.ones((3, 1)), Z), np.ones(n_signs), np.full(3, cost))


@pytest.mark.parametrize("n_directions", [0, 2])
def test_products_with_earlier_features_are_the_formula(n_directions):
    problem = overlapping(12, n_directions=n_directions)
    everything = np.arange(12)
    Q = problem.products(everything, everything)
    K = naive.gram(naive.twin(problem.gram.kernel), problem.gram.x.X, problem.gram.x.X)
    for i in range(12):
        for j in range(12):
            taken = 0.0 if problem.features is None else problem.features[i] @ problem.features[j]
            value = problem.signs[i] * problem.signs[j] * (K[i, j] + 1 - taken)
            assert Q[i, j] == pytest.approx(value + (i == j) / problem.costs[i], abs=1e-12)
    some, others = np.array([3, 5]), np.array([5, 1, 3])
    np.testing.assert_allclose(problem.products(some, others), Q[np.ix_(some, others)], atol=1e-12)


def test_distances_are_those_of_the_points_before_directions_are_taken_off():
    """In explicit coordinates: (d phi, d, e / sqrt(c)), center orthogonal to u."""
    random = np.random.RandomState(0)
    Phi = random.randn(10, 4)
    signs = np.where(random.rand(10) > 0.5, 1.0, -1.0)
    u = random.randn(4, 1)
    u /= np.linalg.norm(u)
    costs = np.full(10, 3.0)
    Phi /= np.linalg.norm(Phi, axis=1)[:, None]
    problem = SquaredMargin(Gram(Linear(), Phi), signs, costs, Phi @ u)
    points = np.hstack([signs[:, None] * Phi, signs[:, None], np.eye(10) / np.sqrt(3.0)])
    alpha = random.dirichlet(np.ones(10))
    center = alpha @ points
    center[:4] -= u[:, 0] * (u[:, 0] @ center[:4])
    Q = problem.products(np.arange(10), np.arange(10))
    g, n2 = Q @ alpha, alpha @ Q @ alpha
    distances = ((points - center) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, n2 - 2 * g + problem.kappa, atol=1e-12)
    assert problem.kappa == pytest.approx(1 + 1 + 1 / 3)
    radius = np.sqrt(problem.kappa - n2)
    assert problem.ball_gap(n2, g.min()) == pytest.approx(np.sqrt(distances.max()) / radius - 1)


def test_the_objective_is_the_sum_as_written():
    problem = overlapping(15)
    values = np.linspace(-2, 2, 15)
    slacks = [max(0.0, 1 - s * v) for s, v in zip(problem.signs, values, strict=True)]
    wanted = 0.5 * 7.0 + 0.5 * sum(c * x * x for c, x in zip(problem.costs, slacks, strict=True))
    assert problem.objective(7.0, values) == pytest.approx(wanted)


def test_bad_input_gets_a_sentence():
    X = np.zeros((3, 2))
    ones = np.ones(3)
    with pytest.raises(ValueError, match="positive semi-definite"):
        SquaredMargin(Gram(Sigmoid(1.0, 0.0), X), ones, ones)
    with pytest.raises(ValueError, match="other columns"):
        SquaredMargin(Gram(RBF(1.0), X, X[:1]), ones, ones)
    with pytest.raises(ValueError, match="one of each"):
        SquaredMargin(Gram(RBF(1.0), X), ones[:2], ones)
    with pytest.raises(ValueError, match="nearer to 1"):
        SquaredMargin(Gram(RBF(1.0), X), ones, np.array([1.0, 0.0, 1.0]))


def test_the_matrix_helper_is_the_kernel():
    assert kernel_matrix_of(overlapping(5)).shape == (5, 5)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(0.5, 3, 1.0), RBF(0.3)], ids=str)
def test_round_off_of_values_stays_below_its_bound(kernel):
    random = np.random.RandomState(0)
    X, coef = 1e3 * random.randn(40, 3), random.randn(40)
    problem = SquaredMargin(Gram(kernel, X), np.ones(40), np.ones(40))
    values = problem.gram.dot(coef) + coef.sum()
    rows = X.astype(np.longdouble)
    products = rows @ rows.T
    if isinstance(kernel, Linear):
        exact = products
    elif isinstance(kernel, Polynomial):
        exact = (products / 2 + 1) ** 3
    else:
        squares = np.square(rows[:, None, :] - rows[None, :, :]).sum(axis=2)
        exact = np.exp(-np.longdouble(0.3) * squares)
    errors = np.abs(values - ((exact + 1) @ coef.astype(np.longdouble)).astype(float))
    bounds = problem.value_errors(np.arange(40), coef)
    assert (errors <= bounds).all()
    assert (bounds <= 1e-12 * np.abs(coef).sum() * problem.squared_lengths.max()).all()


def test_kernel_values_that_are_not_finite_are_refused():
    X = np.array([[1e200], [1.0]])
    problem = SquaredMargin(Gram(Linear(), X), np.array([1.0, -1.0]), np.ones(2))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow"):
        problem.diagonal  # noqa: B018
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow"):
        problem.squared_norm(np.array([1.0, 0.0]), np.array([1.0, np.inf]))


def test_a_ball_whose_radius_is_round_off_has_a_finite_gap():
    X = np.array([[1e9], [1e9]])
    problem = SquaredMargin(Gram(Linear(), X), np.array([1.0, -1.0]), np.ones(2))
    assert np.isfinite(problem.ball_gap(problem.kappa, problem.kappa))


def test_a_gap_includes_round_off_that_is_worth_a_warning():
    assert certified_gap(1e-3, 1e-3 + 1e-9) == 1e-3
    assert certified_gap(1e-3, 2e-3) == 2e-3
    assert np.isnan(certified_gap(0.0, np.nan))
