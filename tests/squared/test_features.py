"""Orthonormal vectors over rows, and sums in feature space."""

import numpy as np
import pytest

from kernlet.kernels.gram import ColumnCache, Gram
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF
from kernlet.squared.features import (
    ColumnProducts,
    LandmarkFeatures,
    MarginData,
    MatrixProducts,
    OrthonormalRows,
    exact_features,
)

X = np.random.RandomState(0).randn(30, 3)
K = X @ X.T


def columns():
    gram = Gram(Linear(), X, hold=True)
    return ColumnProducts(gram, ColumnCache(gram, 2**20))


@pytest.fixture(params=["matrix", "columns"])
def directions(request):
    return OrthonormalRows(30, MatrixProducts(K) if request.param == "matrix" else columns())


def append(directions, coef):
    taken = directions.features @ (directions.features.T @ coef)
    return directions.append(coef, K @ coef - taken)


def test_directions_stay_orthonormal_and_end_where_nothing_is_left(directions):
    random = np.random.RandomState(1)
    for _ in range(3):
        assert append(directions, random.randn(30))
    inner = directions.coef.T @ K @ directions.coef
    np.testing.assert_allclose(inner, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(directions.features, K @ directions.coef, atol=1e-12)
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


TWICE = np.random.RandomState(0).randn(100, 2)
TWICE[50:] = TWICE[:50]
K_TWICE = RBF(1.0)(TWICE, TWICE)
GRAM = Gram(RBF(1.0), TWICE, hold=True)
BOTH = [MatrixProducts(K_TWICE), ColumnProducts(GRAM, ColumnCache(GRAM, 2**20))]


@pytest.mark.parametrize("products", BOTH)
def test_lengths_and_images_are_those_of_the_matrix(products):
    coef = np.where(np.arange(100) % 7 == 0, 1.0, 0.0)
    np.testing.assert_allclose(products.lengths, 1.0, atol=1e-12)
    np.testing.assert_allclose(products.image(coef), K_TWICE @ coef, atol=1e-12)


@pytest.mark.parametrize("products", BOTH)
def test_the_shortest_coefficients_make_the_same_vector(products):
    coef = np.zeros(100)
    coef[[3, 7, 53]] = 1e6 + 1.0, 2.0, -1e6
    short = products.shortest(coef)
    np.testing.assert_allclose(K_TWICE @ short, K_TWICE @ coef, atol=1e-4)
    assert np.linalg.norm(short) < 4


@pytest.mark.parametrize("C", [1.0, 1e3, 1e5])
def test_gaps_with_their_errors_cover_the_distance_to_the_optimum(C):
    # One column: most eigenvalues are too small for the basis, and C makes them matter.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    signs = np.sign(np.sin(3 * X[:, 0]) + rng.normal(size=60))
    data = MarginData(RBF(0.3), X, signs[None], np.full(60, C), 2**20)
    landmarks = LandmarkFeatures(data, 60, 1e-5, np.random.RandomState(0))
    (solution,), (best,) = landmarks.extend(), exact_features(data, 1e-10).extend()
    distance = 1.0 - best.objective / solution.objective
    assert distance <= solution.gap + solution.gap_error < 0.01
    if C == 1e3:
        assert distance > 5 * solution.gap
