"""The smoothed hinge: above the hinge, near it, convex, and its slope its derivative."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernlet.lp.smoothed import SmoothedHinge


@given(st.floats(1e-6, 10), st.floats(-20, 20))
def test_lies_above_the_hinge_by_an_eighth_of_the_width_at_most(width, r):
    value = SmoothedHinge(width).value(np.array([r]))[0]
    assert -1e-12 <= value - max(0.0, r) <= width / 8 + 1e-12


@given(st.floats(0.1, 10), st.floats(-20, 20))
def test_slope_is_the_derivative(width, r):
    hinge, h = SmoothedHinge(width), 1e-6
    ahead, behind = hinge.value(np.array([r + h])), hinge.value(np.array([r - h]))
    np.testing.assert_allclose(hinge.slope(np.array([r])), (ahead - behind) / (2 * h), atol=1e-4)
