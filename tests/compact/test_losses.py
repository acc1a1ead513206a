"""Losses: their derivatives against finite differences, and their formulas by hand."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.compact.network import CrossEntropy, Huber, SquaredError, SquaredHingeLoss

LOSSES = [CrossEntropy(0.0), CrossEntropy(0.2), SquaredHingeLoss(), SquaredError(), Huber(0.7)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def make(loss, seed, n_outputs, n_rows=5):
    random = np.random.default_rng(seed)
    outputs = 2 * random.normal(size=(n_rows, n_outputs))
    if not hasattr(loss, "target_table"):
        return outputs, random.normal(size=(n_rows, n_outputs))
    table = loss.target_table(max(2, n_outputs))
    return outputs, table[random.integers(len(table), size=n_rows)]


@every_loss
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_outputs=st.sampled_from([1, 3, 4]))
def test_derivative_against_finite_differences(loss, seed, n_outputs):
    outputs, targets = make(loss, seed, n_outputs)
    _, pull = loss.value_and_pull(outputs, targets)
    slope = naive.derivative(lambda f: loss.value_and_pull(f, targets)[0].sum(), outputs)
    np.testing.assert_allclose(pull, slope, rtol=1e-4, atol=2e-5)


@every_loss
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_outputs_stay_finite_and_in_their_precision(loss, n_outputs, dtype, size):
    outputs, targets = (a.astype(dtype) for a in make(loss, 0, n_outputs))
    outputs[:, 0] = size
    outputs[1:3] = size
    values, pull = loss.value_and_pull(outputs, targets)
    assert values.shape == (5,)
    assert (values.dtype, pull.dtype) == (dtype, dtype)
    assert np.isfinite(values).all()
    assert np.isfinite(pull).all()


@every_loss
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_strict_arrays_give_the_values_of_numpy(loss, n_outputs):
    parts = make(loss, 1, n_outputs)
    strict = loss.value_and_pull(*(array_api_strict.asarray(a) for a in parts))
    for theirs, ours in zip(strict, loss.value_and_pull(*parts), strict=True):
        np.testing.assert_allclose(np.from_dlpack(theirs), ours, rtol=1e-13, atol=1e-15)


@every_loss
def test_outputs_and_targets_are_left_alone(loss):
    outputs, targets = make(loss, 2, 3)
    before = outputs.copy(), targets.copy()
    loss.value_and_pull(outputs, targets)
    np.testing.assert_array_equal(outputs, before[0])
    np.testing.assert_array_equal(targets, before[1])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), smoothing=st.floats(0, 0.9))
def test_one_output_is_two_with_the_first_at_zero(seed, smoothing):
    loss = CrossEntropy(smoothing)
    outputs, targets = make(loss, seed, 1)
    both = np.hstack([np.zeros_like(outputs), outputs]), np.hstack([1 - targets, targets])
    one, two = loss.value_and_pull(outputs, targets), loss.value_and_pull(*both)
    np.testing.assert_allclose(one[0], two[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one[1][:, 0], two[1][:, 1], rtol=1e-12, atol=1e-14)


def test_cross_entropy_by_hand():
    outputs, targets = make(CrossEntropy(0.2), 3, 4)
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    values, _ = CrossEntropy(0.2).value_and_pull(outputs, targets)
    np.testing.assert_allclose(values, -np.sum(targets * np.log(p), axis=1))


def test_smoothed_targets_by_hand():
    np.testing.assert_allclose(
        CrossEntropy(0.3).target_table(3), [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    )
    np.testing.assert_allclose(CrossEntropy(0.2).target_table(2), [[0.1], [0.9]])


def test_targets_of_the_hinge_are_signs():
    np.testing.assert_array_equal(
        SquaredHingeLoss().target_table(3), [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    )
    np.testing.assert_array_equal(SquaredHingeLoss().target_table(2), [[-1], [1]])


def test_squared_hinge_by_hand():
    outputs, targets = np.array([[0.5, -2.0], [3.0, 0.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    values, pull = SquaredHingeLoss().value_and_pull(outputs, targets)
    np.testing.assert_allclose(values, [0.5**2 / 2, (4.0**2 + 1.0) / 2])
    np.testing.assert_allclose(pull, [[-0.5, 0.0], [4.0, -1.0]])


def test_squared_error_by_hand():
    values, pull = SquaredError().value_and_pull(np.array([[1.0, 4.0]]), np.array([[0.0, 2.0]]))
    np.testing.assert_allclose(values, [(1 + 4) / 2])
    np.testing.assert_allclose(pull, [[1.0, 2.0]])


def test_huber_is_the_squared_error_inside_and_a_line_beyond():
    outputs = np.array([[0.5], [2.0], [-10.0]])
    values, pull = Huber(2.0).value_and_pull(outputs, np.zeros((3, 1)))
    np.testing.assert_allclose(values, [0.5**2 / 2, 2.0**2 / 2, 2.0 * (10 - 1)])
    np.testing.assert_allclose(pull, [[0.5], [2.0], [-2.0]])
