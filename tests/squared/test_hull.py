"""The hull's products against loops."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import naive
from kernlet.kernels.gram import Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.sigmoid import Sigmoid
from kernlet.squared.problem import Hull
from support.hulls import overlapping, whole_matrix


def test_products_are_the_formula():
    hull = overlapping(30)
    X = hull.gram.x.X
    K = naive.gram(lambda x, z: naive.rbf(x, z, 0.3), X, X)
    expected = naive.hull_products(K, hull.signs, hull.costs)
    np.testing.assert_allclose(whole_matrix(hull), expected, atol=1e-14)
    np.testing.assert_allclose(hull.diagonal, np.diagonal(expected), atol=1e-14)


def test_a_block_of_some_columns_and_rows():
    hull = overlapping(30)
    numbers, rows = np.array([4, 9, 2]), np.array([0, 2, 4, 28])
    np.testing.assert_allclose(
        hull.columns(numbers, rows), whole_matrix(hull)[np.ix_(numbers, rows)], atol=1e-14
    )


def test_margins_and_norm():
    hull = overlapping(30)
    alpha = np.zeros(30)
    alpha[[3, 7, 11]] = 0.5, 0.3, 0.2
    margins = hull.margins(alpha)
    np.testing.assert_allclose(margins, whole_matrix(hull) @ alpha, atol=1e-14)
    assert hull.squared_norm(alpha, margins) == pytest.approx(alpha @ whole_matrix(hull) @ alpha)
    assert hull.squared_norm(alpha, -margins) == hull.ridge @ alpha**2


def test_a_subset_is_the_block():
    hull = overlapping(30)
    rows = np.array([1, 5, 6, 20])
    np.testing.assert_allclose(
        whole_matrix(hull.subset(rows)), whole_matrix(hull)[np.ix_(rows, rows)], atol=1e-14
    )


def test_equal_rows_are_two():
    X = np.ones((2, 1))
    hull = Hull(Gram(Linear(), X), np.ones(2), np.full(2, 0.5))
    assert whole_matrix(hull).tolist() == [[3.0, 2.0], [2.0, 3.0]]


@pytest.mark.parametrize("place", [np.asarray, csr_array])
def test_other_kernels_and_sparse_rows(place):
    X = np.random.RandomState(0).randn(70, 3)
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    hull = Hull(Gram(Polynomial(0.5, 2, 1.0), place(X)), signs, np.ones(70))
    K = naive.gram(lambda x, z: naive.polynomial(x, z, 0.5, 2, 1.0), X, X)
    expected = naive.hull_products(K, signs, np.ones(70))
    np.testing.assert_allclose(whole_matrix(hull), expected, atol=1e-10)
    np.testing.assert_allclose(hull.diagonal, np.diagonal(expected), atol=1e-10)


@pytest.mark.parametrize(
    ("kernel", "Z", "n_signs", "cost", "sentence"),
    [
        (Sigmoid(1.0), None, 3, 1.0, "positive semi-definite"),
        (Linear(), np.ones((2, 1)), 3, 1.0, "other columns than rows"),
        (Linear(), None, 2, 1.0, "3 rows, 2 signs"),
        (Linear(), None, 3, 0.0, "leave rows of no weight out"),
        (Linear(), None, 3, -1.0, "not positive"),
        (Linear(), None, 3, np.inf, "not positive"),
        (Linear(), None, 3, 1e-310, "not finite"),
    ],
)
def test_bad_input_gets_a_sentence(kernel, Z, n_signs, cost, sentence):
    with pytest.raises(ValueError, match=sentence):
        Hull(Gram(kernel, np.ones((3, 1)), Z), np.ones(n_signs), np.full(3, cost))
