"""The joint loss: its gradients against finite differences, and its formulas by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernlet.expansion import KernelExpansion
from kernlet.kernels import RBF
from kernlet.problems.joint_margin import JointMargin, Machine

PROBLEMS = [
    JointMargin("cross_entropy", 0.0),
    JointMargin("cross_entropy", 0.2),
    JointMargin("squared_hinge"),
]


def make(seed, n_outputs, n_rows=9, n_centers=4, n_features=3):
    random = np.random.default_rng(seed)
    machine = Machine(
        random.normal(size=(n_centers, n_features)),
        random.normal(size=(n_outputs, n_centers)),
        random.normal(size=n_outputs),
        np.array([random.uniform(-2, 0)]),
    )
    codes = random.integers(max(2, n_outputs), size=n_rows)
    return machine, random.normal(size=(n_rows, n_features)), codes, random.uniform(0.1, 2, n_rows)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n_outputs=st.sampled_from([1, 3]))
def test_gradient_of_every_array_against_finite_differences(problem, seed, n_outputs):
    machine, *data = make(seed, n_outputs)
    _, gradient = problem.value_and_gradient(machine, *data)
    for name, array in machine.arrays().items():
        direction = np.random.default_rng(seed).normal(size=array.shape)
        values = []
        for sign in (1, -1):
            moved = Machine(**{**machine.arrays(), name: array + sign * 1e-6 * direction})
            values.append(problem.value_and_gradient(moved, *data)[0])
        slope = (values[0] - values[1]) / 2e-6
        along = np.sum(gradient.arrays()[name] * direction)
        assert slope == pytest.approx(along, rel=1e-4, abs=1e-7)


def test_outputs_are_those_of_the_expansion():
    machine, X, *_ = make(0, 3)
    kernel = RBF(float(np.exp(machine.log_gamma[0])))
    expansion = KernelExpansion(kernel, machine.centers, machine.weights, machine.intercept)
    np.testing.assert_allclose(JointMargin().outputs(machine, X), expansion.decision_values(X))


def test_cross_entropy_by_hand():
    machine, X, codes, weights = make(1, 3)
    outputs = JointMargin().outputs(machine, X)
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    q = 0.9 * np.eye(3)[codes] + 0.1 / 3
    expected = np.average(-np.sum(q * np.log(p), axis=1), weights=weights)
    value, _ = JointMargin(smoothing=0.1).value_and_gradient(machine, X, codes, weights)
    assert value == pytest.approx(expected)


def test_one_output_is_two_classes_with_the_first_at_zero():
    machine, X, codes, weights = make(2, 1)
    both = Machine(
        machine.centers,
        np.vstack([np.zeros_like(machine.weights), machine.weights]),
        np.append(0.0, machine.intercept),
        machine.log_gamma,
    )
    one, two = (JointMargin().value_and_gradient(m, X, codes, weights)[0] for m in (machine, both))
    assert one == pytest.approx(two)


def test_a_weight_of_two_is_the_row_twice():
    machine, X, codes, _ = make(3, 3)
    weights = np.where(np.arange(9) < 4, 2.0, 1.0)
    twice = np.r_[np.arange(9), np.arange(4)]
    heavy = JointMargin().value_and_gradient(machine, X, codes, weights)[0]
    assert heavy == pytest.approx(
        JointMargin().value_and_gradient(machine, X[twice], codes[twice], np.ones(13))[0]
    )


def test_float32_stays_float32():
    machine, X, codes, weights = make(4, 3)
    short = Machine(**{name: a.astype(np.float32) for name, a in machine.arrays().items()})
    _, gradient = JointMargin().value_and_gradient(short, X.astype(np.float32), codes, weights)
    assert {a.dtype for a in gradient.arrays().values()} == {np.dtype(np.float32)}
