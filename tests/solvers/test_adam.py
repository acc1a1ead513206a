import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.solvers.adam import Adam, Schedule

CONSTANT = Schedule(10**9, warm_up=0.0)


def two_arrays():
    return {"x": np.array([[1.0, -2.0], [0.5, 3.0]]), "y": np.array([4.0])}


def test_rates_rise_in_a_line_and_fall_to_nothing():
    schedule = Schedule(100, warm_up=0.1)
    factors = [schedule.factor(step) for step in range(100)]
    np.testing.assert_allclose(factors[:10], np.arange(1, 11) / 10)
    assert factors[10] == 1.0
    assert np.all(np.diff(factors[10:]) < 0)
    assert factors[-1] < 0.01


@settings(max_examples=40, deadline=None)
@given(n_steps=st.integers(1, 300), warm_up=st.floats(0, 1))
def test_factors_are_between_nothing_and_one(n_steps, warm_up):
    schedule = Schedule(n_steps, warm_up)
    assert all(0 <= schedule.factor(step) <= 1 for step in range(n_steps))


def test_steps_are_those_of_the_paper():
    """With a constant schedule: m and v by hand, bias corrected."""
    search = Adam({"x": np.array([1.0, -2.0])}, {"x": 0.1}, CONSTANT)
    x, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for step in range(1, 6):
        slope = 2 * x + 1
        search.step({"x": 2 * search.arrays["x"] + 1})
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        x = x - 0.1 * (m / (1 - 0.9**step)) / np.sqrt(v / (1 - 0.999**step))
        np.testing.assert_allclose(search.arrays["x"], x, rtol=1e-5)


def test_every_array_has_its_own_rate():
    """The first step is the rate, against the sign of the slope."""
    search = Adam(two_arrays(), {"x": 0.1, "y": 2.0}, CONSTANT)
    search.step({"y": np.array([3.0]), "x": np.array([[1.0, -1.0], [5.0, 0.0]])})
    np.testing.assert_allclose(search.arrays["x"], [[0.9, -1.9], [0.4, 3.0]], rtol=1e-6)
    np.testing.assert_allclose(search.arrays["y"], [2.0], rtol=1e-6)


def test_many_arrays_go_as_each_alone():
    start, rates = two_arrays(), {"x": 0.1, "y": 0.3}
    together = Adam(start, rates, Schedule(10))
    alone = {name: Adam({name: start[name]}, rates, Schedule(10)) for name in start}
    for _ in range(10):
        together.step({name: 2 * array for name, array in together.arrays.items()})
        for name, search in alone.items():
            search.step({name: 2 * search.arrays[name]})
    for name, search in alone.items():
        np.testing.assert_array_equal(together.arrays[name], search.arrays[name])


def test_starting_values_are_left_alone():
    start = {"x": np.ones(2)}
    search = Adam(start, {"x": 0.1}, Schedule(5))
    assert not np.shares_memory(search.arrays["x"], start["x"])
    search.step({"x": np.ones(2)})
    np.testing.assert_array_equal(start["x"], np.ones(2))


def test_a_state_once_kept_does_not_change():
    search = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, CONSTANT)
    search.step(two_arrays())
    kept = search.state
    before = [a.copy() for a in (kept.vector, kept.mean, kept.square)]
    for _ in range(3):
        search.step(two_arrays())
    for array, copy in zip((kept.vector, kept.mean, kept.square), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_going_back_to_a_state_goes_the_same_way_again():
    search = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, Schedule(20))
    search.step(two_arrays())
    kept, ways = search.state, []
    for _ in range(2):
        search.state = kept
        for _ in range(3):
            search.step({name: 2 * array for name, array in search.arrays.items()})
        ways.append(search.arrays["x"])
    np.testing.assert_array_equal(*ways)


def test_slowing_down_goes_back_with_smaller_rates_and_the_same_place_in_the_schedule():
    search = Adam(two_arrays(), {"x": 0.1, "y": 0.2}, CONSTANT)
    kept = search.state
    for _ in range(3):
        search.step({"x": np.full((2, 2), np.nan), "y": np.array([np.nan])})
    search.slow_down(kept, 0.5)
    assert search.state.n_steps == 3
    np.testing.assert_array_equal(search.arrays["x"], two_arrays()["x"])
    np.testing.assert_allclose(search.rates, [0.05] * 4 + [0.1])
    assert np.isfinite(search.state.mean).all()
    search.step(two_arrays())
    assert np.isfinite(search.state.vector).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_keep_their_shape_and_precision(dtype):
    start = {name: array.astype(dtype) for name, array in two_arrays().items()}
    search = Adam(start, {"x": 0.1, "y": 0.1}, Schedule(4))
    search.step(start)
    assert {name: a.shape for name, a in search.arrays.items()} == {"x": (2, 2), "y": (1,)}
    assert {a.dtype for a in search.arrays.values()} == {np.dtype(dtype)}


def test_strict_arrays_go_the_way_of_numpy():
    def end(convert):
        start = {name: convert(array) for name, array in two_arrays().items()}
        search = Adam(start, {"x": 0.1, "y": 0.3}, Schedule(8))
        for _ in range(8):
            search.step({name: 2 * array for name, array in search.arrays.items()})
        return search.arrays

    ours, theirs = end(np.asarray), end(array_api_strict.asarray)
    for name, array in theirs.items():
        np.testing.assert_allclose(np.from_dlpack(array), ours[name], rtol=1e-12)
