import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.compact.train import Adam, Schedule

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


def walk(adam, slopes, n_steps, state=None):
    """The state after some steps; slopes are a function of the arrays."""
    state = adam.start if state is None else state
    for step in range(n_steps):
        state = adam.moved(state, slopes(adam.arrays(state.vector)), adam.size(step))
    return state


def doubled(arrays):
    return {name: 2 * array for name, array in arrays.items()}


def test_steps_are_those_of_the_paper():
    """With a constant schedule: m and v by hand, bias corrected."""
    adam = Adam({"x": np.array([1.0, -2.0])}, {"x": 0.1}, CONSTANT)
    x, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    state = adam.start
    for step in range(1, 6):
        slope = 2 * x + 1
        state = adam.moved(state, {"x": 2 * state.vector + 1}, adam.size(step - 1))
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        x = x - 0.1 * (m / (1 - 0.9**step)) / np.sqrt(v / (1 - 0.999**step))
        np.testing.assert_allclose(state.vector, x, rtol=1e-5)


def test_sizes_are_the_schedule_with_the_correction_of_the_paper():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, Schedule(50))
    for step in (0, 1, 7, 49):
        bias = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        assert adam.size(step) == pytest.approx(Schedule(50).factor(step) * bias)


def test_every_array_has_its_own_rate():
    """The first step is the rate, against the sign of the slope."""
    adam = Adam(two_arrays(), {"x": 0.1, "y": 2.0}, CONSTANT)
    gradient = {"y": np.array([3.0]), "x": np.array([[1.0, -1.0], [5.0, 0.0]])}
    arrays = adam.arrays(adam.moved(adam.start, gradient, adam.size(0)).vector)
    np.testing.assert_allclose(arrays["x"], [[0.9, -1.9], [0.4, 3.0]], rtol=1e-6)
    np.testing.assert_allclose(arrays["y"], [2.0], rtol=1e-6)


def test_many_arrays_go_as_each_alone():
    start, rates = two_arrays(), {"x": 0.1, "y": 0.3}
    together = Adam(start, rates, Schedule(10))
    arrays = together.arrays(walk(together, doubled, 10).vector)
    for name, array in start.items():
        alone = Adam({name: array}, rates, Schedule(10))
        found = alone.arrays(walk(alone, doubled, 10).vector)
        np.testing.assert_array_equal(arrays[name], found[name])


def test_arrays_of_a_vector_are_those_it_was_made_of():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, CONSTANT)
    for name, array in adam.arrays(adam.start.vector).items():
        np.testing.assert_array_equal(array, two_arrays()[name])


def test_starting_values_are_left_alone():
    start = {"x": np.ones(2)}
    adam = Adam(start, {"x": 0.1}, Schedule(5))
    assert not np.shares_memory(adam.start.vector, start["x"])
    walk(adam, doubled, 3)
    np.testing.assert_array_equal(start["x"], np.ones(2))


def test_a_copy_of_a_state_does_not_change():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, CONSTANT)
    state = walk(adam, doubled, 1)
    kept, before = state.copy(), [array.copy() for array in state]
    walk(adam, doubled, 3, state)
    for array, copy in zip(kept, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_going_back_to_a_state_goes_the_same_way_again():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, Schedule(20))
    kept = walk(adam, doubled, 1)
    for one, two in zip(*(walk(adam, doubled, 3, kept.copy()) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_half_the_size_goes_half_as_far_with_the_same_moments():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.2}, CONSTANT)
    start = adam.start
    whole, half = (adam.moved(start.copy(), two_arrays(), size) for size in (1.0, 0.5))
    np.testing.assert_allclose(half.vector - start.vector, (whole.vector - start.vector) / 2)
    np.testing.assert_array_equal(half.mean, whole.mean)
    np.testing.assert_array_equal(half.square, whole.square)


def test_a_size_may_be_an_array_of_no_dimension():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.2}, CONSTANT)
    one, two = (adam.moved(adam.start.copy(), two_arrays(), size) for size in (0.7, np.array(0.7)))
    np.testing.assert_array_equal(one.vector, two.vector)


def test_moments_without_slopes_do_not_fade_into_subnormal_numbers():
    start = {"x": np.ones(1, dtype=np.float32)}
    adam = Adam(start, {"x": 0.1}, CONSTANT)
    state = walk(adam, doubled, 1)
    state = walk(adam, lambda arrays: {"x": 0 * arrays["x"]}, 2000, state)
    assert abs(state.mean[0]) >= np.finfo(np.float32).tiny
    assert state.square[0] >= np.finfo(np.float32).tiny


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_keep_their_shape_and_precision(dtype):
    start = {name: array.astype(dtype) for name, array in two_arrays().items()}
    adam = Adam(start, {"x": 0.1, "y": 0.1}, Schedule(4))
    arrays = adam.arrays(walk(adam, doubled, 1).vector)
    assert {name: a.shape for name, a in arrays.items()} == {"x": (2, 2), "y": (1,)}
    assert {a.dtype for a in arrays.values()} == {np.dtype(dtype)}


def test_strict_arrays_go_the_way_of_numpy():
    def end(convert):
        start = {name: convert(array) for name, array in two_arrays().items()}
        adam = Adam(start, {"x": 0.1, "y": 0.3}, Schedule(8))
        return adam.arrays(walk(adam, doubled, 8).vector)

    ours, theirs = end(np.asarray), end(array_api_strict.asarray)
    for name, array in theirs.items():
        np.testing.assert_allclose(np.from_dlpack(array), ours[name], rtol=1e-12)
