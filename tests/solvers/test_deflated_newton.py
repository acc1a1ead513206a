"""The exact machine, against nonnegative least squares."""

import numpy as np
import pytest

import naive
from balls import matrix, overlapping
from kernlet.solvers.deflated_newton import solve_deflated
from kernlet.solvers.row_directions import RowDirections


@pytest.mark.parametrize("n_directions", [0, 1, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
def test_it_is_the_optimum_and_says_so(n_directions, C):
    ball = overlapping(90, C=C, n_directions=n_directions)
    images = np.zeros((90, 0)) if ball.images is None else ball.images
    K = matrix(ball)
    found = solve_deflated(K, ball.signs, ball.costs, images)
    assert found.gap <= 1e-8
    wanted = naive.margin_feature(K, ball.signs, ball.costs, images)
    assert found.objective == pytest.approx(wanted.sum() / 2, rel=1e-7)
    kernel = K + 1 - images @ images.T
    np.testing.assert_allclose(found.values, kernel @ found.coef, atol=1e-9 * max(1, C))


def test_directions_stay_orthonormal_and_end_where_nothing_is_left():
    X = np.random.RandomState(0).randn(30, 3)
    K = X @ X.T
    directions = RowDirections(30)
    random = np.random.RandomState(1)
    for _ in range(3):
        coef = random.randn(30)
        image = K @ coef - directions.images @ (directions.images.T @ coef)
        assert directions.append(coef, image)
    inner = directions.coef.T @ K @ directions.coef
    np.testing.assert_allclose(inner, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(directions.images, K @ directions.coef, atol=1e-10)
    coef = random.randn(30)
    image = K @ coef - directions.images @ (directions.images.T @ coef)
    assert not directions.append(coef, image)
    assert not directions.append(np.zeros(30), np.zeros(30))
