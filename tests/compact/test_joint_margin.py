"""The joint loss: its gradients against finite differences, and its value in other ways."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.affine import AffineMap
from kernlet.compact.network import (
    CrossEntropy,
    Huber,
    JointMargin,
    Machine,
    SquaredError,
    SquaredHingeLoss,
)
from kernlet.expansion import KernelExpansion
from kernlet.kernels.rbf import RBF

LOSSES = [CrossEntropy(0.0), CrossEntropy(0.2), SquaredHingeLoss(), SquaredError(), Huber(0.7)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_form = pytest.mark.parametrize(
    ("widths", "projected"),
    [("one", False), ("many", False), ("one", True), ("many", True)],
    ids=["plain", "widths", "projected", "projected widths"],
)
N_ROWS, N_CENTERS, N_FEATURES = 9, 4, 5


def make(loss, seed, n_outputs=3, widths="many", projected=True):
    random = np.random.default_rng(seed)
    rank = 3 if projected else N_FEATURES
    machine = Machine(
        random.normal(size=(N_CENTERS, rank)),
        random.normal(size=(n_outputs, N_CENTERS)),
        random.normal(size=n_outputs),
        random.uniform(-2, 0, N_CENTERS if widths == "many" else 1),
        random.normal(size=(rank, N_FEATURES)) / 2 if projected else None,
    )
    X = random.normal(size=(N_ROWS, N_FEATURES))
    targets = random.normal(size=(N_ROWS, n_outputs))
    if hasattr(loss, "target_table"):
        table = loss.target_table(max(2, n_outputs))
        targets = table[random.integers(len(table), size=N_ROWS)]
    return machine, X, targets, random.uniform(0.1, 2, N_ROWS)


def converted(machine, convert):
    return Machine(**{name: convert(array) for name, array in machine.arrays().items()})


@every_loss
@every_form
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), n_outputs=st.sampled_from([1, 3]))
def test_gradient_of_every_array_against_finite_differences(
    loss, widths, projected, seed, n_outputs
):
    problem = JointMargin(loss)
    machine, *data = make(loss, seed, n_outputs, widths, projected)
    _, gradient = problem.value_and_gradient(machine, *data)
    assert gradient.arrays().keys() == machine.arrays().keys()
    for name, array in machine.arrays().items():
        direction = np.random.default_rng(seed).normal(size=array.shape)
        values = []
        for sign in (1, -1):
            moved = Machine(**{**machine.arrays(), name: array + sign * 1e-6 * direction})
            values.append(problem.value_and_gradient(moved, *data)[0])
        slope = (values[0] - values[1]) / 2e-6
        assert gradient.arrays()[name].shape == array.shape
        along = np.sum(gradient.arrays()[name] * direction)
        assert slope == pytest.approx(along, rel=1e-4, abs=1e-5)


@every_form
def test_outputs_are_those_of_the_expansion(widths, projected):
    machine, X, *_ = make(SquaredError(), 0, 3, widths, projected)
    gamma = np.exp(machine.log_gamma)
    expansion = KernelExpansion(
        RBF(float(gamma[0]) if widths == "one" else gamma),
        machine.centers,
        machine.weights,
        machine.intercept,
        AffineMap(0.0, 1.0, machine.projection),
    )
    np.testing.assert_allclose(
        JointMargin(SquaredError()).outputs(machine, X), expansion.decision_values(X), rtol=1e-10
    )


@every_loss
def test_value_is_the_weighted_mean_of_the_losses(loss):
    problem = JointMargin(loss)
    machine, X, targets, weights = make(loss, 1)
    losses, _ = loss.value_and_pull(problem.outputs(machine, X), targets)
    value, _ = problem.value_and_gradient(machine, X, targets, weights)
    assert value == pytest.approx(np.mean(weights * losses))


@every_loss
@every_form
def test_a_weight_of_two_is_the_row_twice(loss, widths, projected):
    machine, X, targets, _ = make(loss, 3, 3, widths, projected)
    weights = np.where(np.arange(N_ROWS) < 4, 2.0, 1.0)
    twice = np.r_[np.arange(N_ROWS), np.arange(4)]
    problem = JointMargin(loss)
    heavy = problem.value_and_gradient(machine, X, targets, weights)
    ones = np.full(N_ROWS + 4, (N_ROWS + 4) / N_ROWS)  # of the same weight in all
    doubled = problem.value_and_gradient(machine, X[twice], targets[twice], ones)
    assert heavy[0] == pytest.approx(doubled[0])
    for name, array in heavy[1].arrays().items():
        np.testing.assert_allclose(array, doubled[1].arrays()[name], rtol=1e-9, atol=1e-13)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_derivative_by_one_width_is_the_sum_of_those_by_equal_widths(seed):
    problem = JointMargin(SquaredError())
    machine, *data = make(SquaredError(), seed, widths="one")
    many = Machine(**{**machine.arrays(), "log_gamma": np.tile(machine.log_gamma, N_CENTERS)})
    one, each = (problem.value_and_gradient(m, *data)[1].log_gamma for m in (machine, many))
    np.testing.assert_allclose(one, [each.sum()], rtol=1e-10, atol=1e-13)


@every_loss
@every_form
def test_float32_stays_float32(loss, widths, projected):
    machine, *data = make(loss, 4, 3, widths, projected)
    short = converted(machine, lambda a: a.astype(np.float32))
    data = [a.astype(np.float32) for a in data]
    value, gradient = JointMargin(loss).value_and_gradient(short, *data)
    assert value.dtype == np.float32
    assert {a.dtype for a in gradient.arrays().values()} == {np.dtype(np.float32)}


def test_nothing_given_is_changed():
    machine, *data = make(SquaredError(), 5)
    before = [a.copy() for a in [*machine.arrays().values(), *data]]
    JointMargin(SquaredError()).value_and_gradient(machine, *data)
    for array, copy in zip([*machine.arrays().values(), *data], before, strict=True):
        np.testing.assert_array_equal(array, copy)


@every_loss
@every_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_arrays_give_the_value_and_gradient_of_numpy(loss, widths, projected, dtype):
    problem = JointMargin(loss)
    machine, *data = make(loss, 6, 3, widths, projected)
    machine, data = converted(machine, lambda a: a.astype(dtype)), [a.astype(dtype) for a in data]
    value, gradient = problem.value_and_gradient(machine, *data)
    strict_value, strict_gradient = problem.value_and_gradient(
        converted(machine, array_api_strict.asarray), *(array_api_strict.asarray(a) for a in data)
    )
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype is np.float32 else {"rtol": 1e-12}
    np.testing.assert_allclose(float(strict_value), value, **tolerance)
    for name, array in strict_gradient.arrays().items():
        assert isinstance(array, type(array_api_strict.ones(1)))
        np.testing.assert_allclose(np.from_dlpack(array), gradient.arrays()[name], **tolerance)


def test_torch_gives_the_value_and_gradient_of_numpy():
    torch = pytest.importorskip("torch")
    problem = JointMargin(CrossEntropy())
    machine, *data = make(CrossEntropy(), 7)
    value, gradient = problem.value_and_gradient(machine, *data)
    torch_value, torch_gradient = problem.value_and_gradient(
        converted(machine, torch.asarray), *(torch.asarray(a) for a in data)
    )
    np.testing.assert_allclose(float(torch_value), value, rtol=1e-12)
    for name, array in torch_gradient.arrays().items():
        np.testing.assert_allclose(array.numpy(), gradient.arrays()[name], rtol=1e-10, atol=1e-14)
