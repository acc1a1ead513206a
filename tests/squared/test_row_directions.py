"""Directions stay orthonormal, whatever the coefficients that they come with."""

import numpy as np
import pytest

from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.kernels.linear import Linear
from kernlet.squared.features import ColumnProducts, MatrixProducts, RowDirections

X = np.random.RandomState(0).randn(30, 3)
K = X @ X.T


def columns():
    gram = Gram(Linear(), X, hold=True)
    return ColumnProducts(gram, ColumnCache(gram, 2**20))


@pytest.fixture(params=["matrix", "columns"])
def directions(request):
    return RowDirections(30, MatrixProducts(K) if request.param == "matrix" else columns())


def append(directions, coef):
    taken = directions.images @ (directions.images.T @ coef)
    return directions.append(coef, K @ coef - taken)


def test_directions_stay_orthonormal_and_end_where_nothing_is_left(directions):
    random = np.random.RandomState(1)
    for _ in range(3):
        assert append(directions, random.randn(30))
    inner = directions.coef.T @ K @ directions.coef
    np.testing.assert_allclose(inner, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(directions.images, K @ directions.coef, atol=1e-12)
    assert not append(directions, random.randn(30))
    assert not append(directions, np.zeros(30))


def test_large_coefficients_that_add_up_to_little_do_no_harm(directions):
    random = np.random.RandomState(1)
    nothing = np.linalg.svd(X.T)[2][3:]  # coefficients of the vector 0
    for _ in range(3):
        assert append(directions, random.randn(30) + 1e7 * nothing.T @ random.randn(27))
    inner = directions.coef.T @ K @ directions.coef
    np.testing.assert_allclose(inner, np.eye(3), atol=1e-12)
    assert np.abs(directions.coef).max() < 10
    assert not append(directions, 1e7 * nothing[0])


def test_rounding_is_no_direction(directions):
    coef = np.linalg.svd(X.T)[2][-1]
    assert not directions.append(coef, 1e-15 * coef)
