"""Fixed-point functions against their scalar forms and against floating point."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernlet.integer.arithmetic import (
    LOGARITHMS,
    POWERS,
    Rescale,
    exp2_neg,
    log2_int,
    mul16,
    square_root,
)
from support import naive_integer as naive

uint32 = st.integers(0, 2**32 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)


def one(value):
    return np.array([value], dtype=np.int64)


def test_tables_are_small_and_fit_in_16_bits():
    assert 2 * len(POWERS) == 2 * len(LOGARITHMS) == 66
    for table in (POWERS, LOGARITHMS):
        assert table.min() >= 0
        assert table.max() == 65535


@given(int32, st.integers(0, 65535))
def test_products_need_no_64_bits(a, multiplier):
    assert mul16(a, multiplier) == naive.mul16(a, multiplier, naive.int32)


@given(uint32, st.integers(5, 31), st.integers(0, 12))
def test_powers_agree_with_the_scalar_form(t, fraction, more):
    assert exp2_neg(one(t), fraction, more)[0] == naive.exp2_neg(t, fraction, more)


@given(st.integers(1, 2**32 - 1))
def test_logarithms_agree_with_the_scalar_form(y):
    assert log2_int(one(y))[0] == naive.log2_int(y)


@given(uint32)
def test_square_roots_are_those_of_integers(y):
    assert square_root(one(y))[0] == math.isqrt(y)


@pytest.mark.parametrize("fraction", [5, 9, 13, 20, 28])
def test_powers_are_exact_to_one_in_ten_thousand(fraction):
    t = np.arange(0, 17 << fraction, max(1, (17 << fraction) // 5000), dtype=np.int64)
    exact = 65535 * 2.0 ** (-t / 2**fraction)
    assert np.abs(exp2_neg(t, fraction) - exact).max() < 0.5 + 1e-4 * 65535
    assert exp2_neg(one(17 << fraction), fraction)[0] == 0


def test_powers_do_not_increase():
    values = exp2_neg(np.arange(18 << 14), 14)
    assert (np.diff(values) <= 0).all()


def test_logarithms_have_the_error_of_their_interpolation():
    y = np.unique(np.logspace(0, 32, 20000, base=2).astype(np.int64))[:-1]
    assert np.abs(log2_int(y) - 65536 * np.log2(y)).max() < 4
    assert (np.diff(log2_int(y)) >= -1).all()


@given(st.floats(1e-6, 1e6), st.integers(-1000, 1000))
def test_rescaling_multiplies_to_16_bits(ratio, a):
    rescale = Rescale.by(ratio)
    assert rescale.ratio == pytest.approx(ratio, rel=2.0**-15)
    assert abs(rescale(a) - a * rescale.ratio) <= max(1.0, 2.0**-rescale.shift)
    assert rescale(a) == naive.rescaled(a, rescale)


def test_ratios_that_leave_nothing():
    assert Rescale.by(1e-15)(2**31 - 1) == 0
