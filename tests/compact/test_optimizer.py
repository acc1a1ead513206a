"""Adam, and the rounding of parameters with straight-through gradients."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernlet.compact.optimizer import Adam, Rounding, log_step_name, rate_factor

# -- Adam ------------------------------------------------------------------------------------

CONSTANT = {"n_steps": 10**9, "warm_up": 0.0}


def two_arrays():
    return {"x": np.array([[1.0, -2.0], [0.5, 3.0]]), "y": np.array([4.0])}


def test_rates_rise_in_a_line_and_fall_to_nothing():
    factors = [rate_factor(step, 100, warm_up=0.1) for step in range(100)]
    np.testing.assert_allclose(factors[:10], np.arange(1, 11) / 10)
    assert factors[10] == 1.0
    assert np.all(np.diff(factors[10:]) < 0)
    assert factors[-1] < 0.01


@settings(max_examples=40, deadline=None)
@given(n_steps=st.integers(1, 300), warm_up=st.floats(0, 1))
def test_factors_are_between_nothing_and_one(n_steps, warm_up):
    assert all(0 <= rate_factor(step, n_steps, warm_up) <= 1 for step in range(n_steps))


def descend(adam, gradient_of, n_steps, state=None):
    """The state after some steps; gradient_of are a function of the arrays."""
    state = adam.start if state is None else state
    for step in range(n_steps):
        state = adam.update(state, gradient_of(adam.arrays(state.vector)), adam.step_size(step))
    return state


def doubled(arrays):
    return {name: 2 * array for name, array in arrays.items()}


def test_steps_are_those_of_the_paper():
    """With a constant schedule: m and v by hand, bias corrected."""
    adam = Adam({"x": np.array([1.0, -2.0])}, {"x": 0.1}, **CONSTANT)
    x, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    state = adam.start
    for step in range(1, 6):
        gradient = 2 * x + 1
        state = adam.update(state, {"x": 2 * state.vector + 1}, adam.step_size(step - 1))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        x = x - 0.1 * (m / (1 - 0.9**step)) / np.sqrt(v / (1 - 0.999**step))
        np.testing.assert_allclose(state.vector, x, rtol=1e-5)


def test_step_sizes_are_the_schedule_with_the_correction_of_the_paper():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, 50)
    for step in (0, 1, 7, 49):
        bias = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        assert adam.step_size(step) == pytest.approx(rate_factor(step, 50) * bias)


def test_every_array_has_its_own_rate():
    """The first step is the rate, against the sign of the gradient."""
    adam = Adam(two_arrays(), {"x": 0.1, "y": 2.0}, **CONSTANT)
    gradient = {"y": np.array([3.0]), "x": np.array([[1.0, -1.0], [5.0, 0.0]])}
    arrays = adam.arrays(adam.update(adam.start, gradient, adam.step_size(0)).vector)
    np.testing.assert_allclose(arrays["x"], [[0.9, -1.9], [0.4, 3.0]], rtol=1e-6)
    np.testing.assert_allclose(arrays["y"], [2.0], rtol=1e-6)


def test_many_arrays_go_as_each_alone():
    start, rates = two_arrays(), {"x": 0.1, "y": 0.3}
    together = Adam(start, rates, 10)
    arrays = together.arrays(descend(together, doubled, 10).vector)
    for name, array in start.items():
        alone = Adam({name: array}, rates, 10)
        single = alone.arrays(descend(alone, doubled, 10).vector)
        np.testing.assert_array_equal(arrays[name], single[name])


def test_arrays_of_a_vector_are_those_it_was_made_of():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, **CONSTANT)
    for name, array in adam.arrays(adam.start.vector).items():
        np.testing.assert_array_equal(array, two_arrays()[name])


def test_starting_values_are_left_alone():
    start = {"x": np.ones(2)}
    adam = Adam(start, {"x": 0.1}, 5)
    assert not np.shares_memory(adam.start.vector, start["x"])
    descend(adam, doubled, 3)
    np.testing.assert_array_equal(start["x"], np.ones(2))


def test_a_copy_of_a_state_does_not_change():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, **CONSTANT)
    state = descend(adam, doubled, 1)
    kept, before = state.copy(), [array.copy() for array in state]
    descend(adam, doubled, 3, state)
    for array, copy in zip(kept, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_going_back_to_a_state_goes_the_same_way_again():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.1}, 20)
    kept = descend(adam, doubled, 1)
    for one, two in zip(*(descend(adam, doubled, 3, kept.copy()) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_half_the_size_goes_half_as_far_with_the_same_moments():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.2}, **CONSTANT)
    start = adam.start
    whole, half = (adam.update(start.copy(), two_arrays(), size) for size in (1.0, 0.5))
    np.testing.assert_allclose(half.vector - start.vector, (whole.vector - start.vector) / 2)
    np.testing.assert_array_equal(half.mean, whole.mean)
    np.testing.assert_array_equal(half.square, whole.square)


def test_a_size_may_be_an_array_of_no_dimension():
    adam = Adam(two_arrays(), {"x": 0.1, "y": 0.2}, **CONSTANT)
    one, two = (adam.update(adam.start.copy(), two_arrays(), size) for size in (0.7, np.array(0.7)))
    np.testing.assert_array_equal(one.vector, two.vector)


def test_moments_without_gradients_do_not_fade_into_subnormal_numbers():
    start = {"x": np.ones(1, dtype=np.float32)}
    adam = Adam(start, {"x": 0.1}, **CONSTANT)
    state = descend(adam, doubled, 1)
    state = descend(adam, lambda arrays: {"x": 0 * arrays["x"]}, 2000, state)
    assert abs(state.mean[0]) >= np.finfo(np.float32).tiny
    assert state.square[0] >= np.finfo(np.float32).tiny


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_keep_their_shape_and_precision(dtype):
    start = {name: array.astype(dtype) for name, array in two_arrays().items()}
    adam = Adam(start, {"x": 0.1, "y": 0.1}, 4)
    arrays = adam.arrays(descend(adam, doubled, 1).vector)
    assert {name: a.shape for name, a in arrays.items()} == {"x": (2, 2), "y": (1,)}
    assert {a.dtype for a in arrays.values()} == {np.dtype(dtype)}


def test_strict_arrays_go_the_way_of_numpy():
    def end(convert):
        start = {name: convert(array) for name, array in two_arrays().items()}
        adam = Adam(start, {"x": 0.1, "y": 0.3}, 8)
        return adam.arrays(descend(adam, doubled, 8).vector)

    ours, theirs = end(np.asarray), end(array_api_strict.asarray)
    for name, array in theirs.items():
        np.testing.assert_allclose(np.from_dlpack(array), ours[name], rtol=1e-12)


# -- Rounding --------------------------------------------------------------------------------


def quantize(values, log_step, n_levels):
    """One table, rounded."""
    arrays = {"x": values, "x_log_step": log_step}
    return Rounding(arrays, {"x": n_levels}).quantized(arrays)["x"]


def straight_through_grad(grad, values, log_step, n_levels):
    """Gradients by values and log step of one table."""
    arrays = {"x": values, "x_log_step": log_step}
    rounding = Rounding(arrays, {"x": n_levels})
    rounding.quantized(arrays)
    grads = rounding.grad({"x": grad})
    return grads["x"], grads["x_log_step"]


multiples = arrays(np.float64, st.integers(0, 20), elements=st.floats(-12, 12))
log_steps = st.floats(-3, 3).map(lambda number: np.array([number]))


def lsq_by_hand(grad, values, step, n_levels):
    """Equations 3 and 5 of Esser et al. (2020), number by number."""
    grad_values, grad_step = [], 0.0
    for g, value in zip(grad, values, strict=True):
        ratio = value / step
        if ratio < -n_levels:
            grad_values.append(0.0)
            grad_step -= g * n_levels
        elif ratio > n_levels:
            grad_values.append(0.0)
            grad_step += g * n_levels
        else:
            grad_values.append(g)
            grad_step += g * (round(ratio) - ratio)
    return grad_values, grad_step


@settings(max_examples=60, deadline=None)
@given(multiples=multiples, log_step=log_steps, n_levels=st.sampled_from([1, 7]))
def test_quantized_numbers_are_the_nearest_multiples_within_the_levels(
    multiples, log_step, n_levels
):
    step = float(np.exp(log_step[0]))
    values = multiples * step
    codes = quantize(values, log_step, n_levels) / step
    np.testing.assert_allclose(codes, np.round(codes), atol=1e-9)
    assert np.all(np.abs(codes) <= n_levels + 1e-9)
    inside = np.abs(multiples) <= n_levels
    assert np.all(np.abs(codes - multiples)[inside] <= 0.5 + 1e-9)
    np.testing.assert_allclose(np.abs(codes[~inside]), n_levels)


def test_steps_of_columns_round_each_column_alone():
    random = np.random.default_rng(0)
    values, grad = random.normal(size=(2, 3, 6, 4)), random.normal(size=(2, 3, 6, 4))
    log_steps = random.normal(size=(2, 3, 1, 4)) - 1
    rounded = quantize(values, log_steps, 7)
    grads = straight_through_grad(grad, values, log_steps, 7)
    assert grads[1].shape == log_steps.shape
    for place in np.ndindex(2, 3, 4):
        column = (*place[:2], slice(None), slice(place[2], place[2] + 1))
        np.testing.assert_array_equal(
            rounded[column], quantize(values[column], log_steps[column], 7)
        )
        alone = straight_through_grad(grad[column], values[column], log_steps[column], 7)
        np.testing.assert_allclose(grads[0][column], alone[0])
        np.testing.assert_allclose(grads[1][column], alone[1])


@settings(max_examples=60, deadline=None)
@given(multiples=multiples, log_step=log_steps, n_levels=st.sampled_from([1, 7]))
def test_derivatives_are_those_of_learned_step_sizes(multiples, log_step, n_levels):
    step = float(np.exp(log_step[0]))
    values = multiples * step
    grad = np.random.default_rng(0).normal(size=len(values))
    log_step = log_step[:, None]
    grad_values, grad_log_step = straight_through_grad(grad[None], values[None], log_step, n_levels)
    expected, grad_step = lsq_by_hand(grad, values, step, n_levels)
    np.testing.assert_array_equal(grad_values, [expected])
    assert grad_log_step.shape == (1, 1)
    np.testing.assert_allclose(grad_log_step, [[grad_step * step]], rtol=1e-9, atol=1e-12)


def test_derivatives_vanish_beyond_the_last_level_and_the_step_takes_them():
    grad, values = np.array([[1.0, 3.0, 1.0]]), np.array([[0.5, 2.6, -9.0]])
    grad_values, grad_log_step = straight_through_grad(grad, values, np.log([[0.5]]), 3)
    np.testing.assert_array_equal(grad_values, [[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(grad_log_step, [[0.5 * (0.0 + 3 * 3 - 3)]])


def test_derivative_by_the_step_of_numbers_beyond_the_range_is_exact():
    """There the rounded number is n_levels times the step."""
    values, grad, at = np.array([[50.0, -80.0]]), np.array([2.0, 0.3]), 0.4
    _, grad_log_step = straight_through_grad(grad[None], values, np.array([[at]]), 7)
    low, high = (grad @ quantize(values, np.array([[at + h]]), 7)[0] for h in (-1e-6, 1e-6))
    assert grad_log_step[0, 0] == pytest.approx((high - low) / 2e-6, rel=1e-6)


def test_rounding_keeps_float32():
    values, log_step = np.ones((2, 3), dtype=np.float32), np.zeros((1, 1), dtype=np.float32)
    assert quantize(values, log_step, 7).dtype == np.float32
    assert {a.dtype for a in straight_through_grad(values, values, log_step, 7)} == {np.dtype("f4")}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_strict_arrays_is_that_of_numpy(dtype):
    random = np.random.default_rng(1)
    grad, values = (random.normal(size=(4, 3)).astype(dtype) for _ in range(2))
    log_step = np.array([[-1.0]], dtype=dtype)
    theirs = [array_api_strict.asarray(a) for a in (grad, values, log_step)]
    np.testing.assert_array_equal(
        np.from_dlpack(quantize(*theirs[1:], 3)), quantize(values, log_step, 3)
    )
    pairs = zip(
        straight_through_grad(*theirs, 3),
        straight_through_grad(grad, values, log_step, 3),
        strict=True,
    )
    for strict, ours in pairs:
        np.testing.assert_allclose(np.from_dlpack(strict), ours, rtol=1e-6)


def tables_to_round(convert=np.asarray):
    """Three tables, rounded with one step each, one per column, and one per network of a stack."""
    random = np.random.default_rng(0)
    arrays = {
        "x": random.normal(size=(6, 4)),
        "kept": random.normal(size=3),
        "y": random.normal(size=(5, 3)),
        "z": random.normal(size=(2, 3, 4, 2)),
        "x_log_step": np.full((1, 1), -1.0),
        "y_log_step": random.normal(size=(1, 3)) - 1,
        "z_log_step": random.normal(size=(2, 3, 1, 1)) - 1,
    }
    return {name: convert(array) for name, array in arrays.items()}


TABLE_LEVELS = {"x": 1, "y": 7, "z": 3}


def test_tables_rounded_at_once_are_those_rounded_one_by_one():
    arrays = tables_to_round()
    rounding = Rounding(arrays, TABLE_LEVELS)
    rounded = rounding.quantized(arrays)
    assert set(rounded) == {"x", "y", "z", "kept"}
    assert rounded["kept"] is arrays["kept"]
    random = np.random.default_rng(1)
    grad = {name: random.normal(size=array.shape) for name, array in rounded.items()}
    grads = rounding.grad(grad)
    assert grads["kept"] is grad["kept"]
    for name, n_levels in TABLE_LEVELS.items():
        table, log_step = arrays[name], arrays[log_step_name(name)]
        np.testing.assert_allclose(rounded[name], quantize(table, log_step, n_levels))
        expected = straight_through_grad(grad[name], table, log_step, n_levels)
        np.testing.assert_array_equal(grads[name], expected[0])
        np.testing.assert_allclose(grads[log_step_name(name)], expected[1], rtol=1e-9, atol=1e-12)


def test_rounding_of_tables_does_not_change_them():
    arrays, before = tables_to_round(), tables_to_round()
    rounding = Rounding(arrays, TABLE_LEVELS)
    first = {name: array.copy() for name, array in rounding.quantized(arrays).items()}
    rounding.grad(first)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])
    for name, array in rounding.quantized(arrays).items():
        np.testing.assert_array_equal(array, first[name])


def test_strict_tables_are_rounded_like_those_of_numpy():
    def both(convert):
        arrays = tables_to_round(convert)
        rounding = Rounding(arrays, TABLE_LEVELS)
        rounded = rounding.quantized(arrays)
        return {**rounding.grad(rounded), **{f"rounded {name}": rounded[name] for name in rounded}}

    ours, theirs = both(np.asarray), both(array_api_strict.asarray)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(np.from_dlpack(array), ours[name], rtol=1e-12, err_msg=name)
