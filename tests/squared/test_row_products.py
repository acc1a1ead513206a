"""Sums over rows, by the whole matrix and by columns."""

import numpy as np
import pytest

from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.kernels.rbf import RBF
from kernlet.squared.features import ColumnProducts, MatrixProducts

X = np.random.RandomState(0).randn(100, 2)
X[50:] = X[:50]
K = RBF(1.0)(X, X)
GRAM = Gram(RBF(1.0), X, hold=True)
BOTH = [MatrixProducts(K), ColumnProducts(GRAM, ColumnCache(GRAM, 2**20))]


@pytest.mark.parametrize("products", BOTH)
def test_lengths_and_images_are_those_of_the_matrix(products):
    coef = np.where(np.arange(100) % 7 == 0, 1.0, 0.0)
    np.testing.assert_allclose(products.lengths, 1.0, atol=1e-12)
    np.testing.assert_allclose(products.image(coef), K @ coef, atol=1e-12)


@pytest.mark.parametrize("products", BOTH)
def test_the_shortest_coefficients_make_the_same_vector(products):
    coef = np.zeros(100)
    coef[[3, 7, 53]] = 1e6 + 1.0, 2.0, -1e6
    short = products.shortest(coef)
    np.testing.assert_allclose(K @ short, K @ coef, atol=1e-4)
    assert np.linalg.norm(short) < 4
