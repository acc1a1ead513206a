"""The smoothed hinge, and the interior point method against plain coordinate descent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.lp.smoothed import SmoothedHinge, minimise_l1_quadratic


@given(st.floats(1e-6, 10), st.floats(-20, 20))
def test_lies_above_the_hinge_by_an_eighth_of_the_width_at_most(width, r):
    value = SmoothedHinge(width).value(np.array([r]))[0]
    assert -1e-12 <= value - max(0.0, r) <= width / 8 + 1e-12


@given(st.floats(0.1, 10), st.floats(-20, 20))
def test_slope_is_the_derivative(width, r):
    hinge, h = SmoothedHinge(width), 1e-6
    ahead, behind = hinge.value(np.array([r + h])), hinge.value(np.array([r - h]))
    np.testing.assert_allclose(hinge.slope(np.array([r])), (ahead - behind) / (2 * h), atol=1e-4)


def make(seed, n, scale):
    random = np.random.RandomState(seed)
    A = random.randn(2 * n, n) * scale
    weights = random.uniform(0.1, 2.0, n)
    weights[-1] = 0.0
    return A.T @ A, random.randn(n) * 10 ** random.uniform(-1, 3), weights


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_coordinate_descent(seed):
    H, q, c = make(seed, 6, 10.0 ** (seed - 3))
    z, twin = minimise_l1_quadratic(H, q, c, np.zeros(6)), naive.l1_quadratic(H, q, c)

    def objective(z):
        return z @ H @ z / 2 + q @ z + c @ np.abs(z)

    assert objective(z) == pytest.approx(objective(twin), rel=1e-7)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(-2, 2))
def test_slopes_lie_within_the_weights(seed, n, log_scale):
    H, q, c = make(seed, n, 10.0**log_scale)
    z = minimise_l1_quadratic(H, q, c, np.zeros(n))
    u = -(H @ z + q)
    scale = 1e-5 * (1 + np.abs(q).max())
    assert np.all(np.abs(u) <= c + scale)
    large = np.abs(z) > 1e-3 * np.abs(z).max(initial=0.0)
    np.testing.assert_allclose(u[large], (np.sign(z) * c)[large], atol=scale)


def test_a_singular_matrix_is_no_trouble():
    H = np.ones((3, 3))
    z = minimise_l1_quadratic(H, np.array([-5.0, -5.0, -5.0]), np.ones(3), np.zeros(3))
    assert z.sum() == pytest.approx(4.0, rel=1e-6)
