import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernlet.compact.network import rounded, through_rounding

multiples = arrays(np.float64, st.integers(0, 20), elements=st.floats(-12, 12))
log_steps = st.floats(-3, 3).map(lambda number: np.array([number]))


def lsq_by_hand(slopes, values, step, n_levels):
    """Equations 3 and 5 of Esser et al. (2020), number by number."""
    by_values, by_step = [], 0.0
    for slope, value in zip(slopes, values, strict=True):
        ratio = value / step
        if ratio < -n_levels:
            by_values.append(0.0)
            by_step -= slope * n_levels
        elif ratio > n_levels:
            by_values.append(0.0)
            by_step += slope * n_levels
        else:
            by_values.append(slope)
            by_step += slope * (round(ratio) - ratio)
    return by_values, by_step


@settings(max_examples=60, deadline=None)
@given(multiples=multiples, log_step=log_steps, n_levels=st.sampled_from([1, 7]))
def test_rounded_numbers_are_the_nearest_multiples_within_the_levels(multiples, log_step, n_levels):
    step = float(np.exp(log_step[0]))
    values = multiples * step
    codes = rounded(values, log_step, n_levels) / step
    np.testing.assert_allclose(codes, np.round(codes), atol=1e-9)
    assert np.all(np.abs(codes) <= n_levels + 1e-9)
    inside = np.abs(multiples) <= n_levels
    assert np.all(np.abs(codes - multiples)[inside] <= 0.5 + 1e-9)
    np.testing.assert_allclose(np.abs(codes[~inside]), n_levels)


@settings(max_examples=60, deadline=None)
@given(multiples=multiples, log_step=log_steps, n_levels=st.sampled_from([1, 7]))
def test_derivatives_are_those_of_learned_step_sizes(multiples, log_step, n_levels):
    step = float(np.exp(log_step[0]))
    values = multiples * step
    slopes = np.random.default_rng(0).normal(size=len(values))
    by_values, by_log_step = through_rounding(slopes, values, log_step, n_levels)
    expected, by_step = lsq_by_hand(slopes, values, np.exp(log_step)[0], n_levels)
    np.testing.assert_array_equal(by_values, expected)
    assert by_log_step.shape == (1,)
    np.testing.assert_allclose(by_log_step, [by_step * step], rtol=1e-9, atol=1e-12)


def test_derivatives_vanish_beyond_the_last_level_and_the_step_takes_them():
    slopes, values = np.array([1.0, 3.0, 1.0]), np.array([0.5, 2.6, -9.0])
    by_values, by_log_step = through_rounding(slopes, values, np.log([0.5]), 3)
    np.testing.assert_array_equal(by_values, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(by_log_step, [0.5 * (0.0 + 3 * 3 - 3)])


def test_derivative_by_the_step_of_numbers_beyond_the_range_is_exact():
    """There the rounded number is n_levels times the step."""
    values, slopes, at = np.array([50.0, -80.0]), np.array([2.0, 0.3]), 0.4
    _, by_log_step = through_rounding(slopes, values, np.array([at]), 7)
    low, high = (slopes @ rounded(values, np.array([at + h]), 7) for h in (-1e-6, 1e-6))
    assert by_log_step[0] == pytest.approx((high - low) / 2e-6, rel=1e-6)


def test_float32_stays_float32():
    values, log_step = np.ones((2, 3), dtype=np.float32), np.zeros(1, dtype=np.float32)
    assert rounded(values, log_step, 7).dtype == np.float32
    assert {a.dtype for a in through_rounding(values, values, log_step, 7)} == {np.dtype("f4")}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_arrays_give_the_values_of_numpy(dtype):
    random = np.random.default_rng(1)
    slopes, values = (random.normal(size=(4, 3)).astype(dtype) for _ in range(2))
    log_step = np.array([-1.0], dtype=dtype)
    theirs = [array_api_strict.asarray(a) for a in (slopes, values, log_step)]
    np.testing.assert_array_equal(
        np.from_dlpack(rounded(*theirs[1:], 3)), rounded(values, log_step, 3)
    )
    pairs = zip(
        through_rounding(*theirs, 3), through_rounding(slopes, values, log_step, 3), strict=True
    )
    for strict, ours in pairs:
        np.testing.assert_allclose(np.from_dlpack(strict), ours, rtol=1e-6)
