"""The exact machine, against nonnegative least squares."""

import numpy as np
import pytest

import naive
from kernlet.squared.newton import solve_deflated
from support.balls import matrix, overlapping


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


def test_sums_that_overflow_get_a_sentence():
    ball = overlapping(30, C=1e200)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow"):
        solve_deflated(matrix(ball), ball.signs, ball.costs, np.zeros((30, 0)))
