"""The tall problem: its outputs, objective and samples."""

import numpy as np
import pytest

from kernlet.kernels.rbf import RBF
from kernlet.lp.problem import PoundLoss, TallMargin
from kernlet.rows.source import ArrayRows

random = np.random.RandomState(0)
X = random.randn(50, 2)
PROBLEM = TallMargin(
    ArrayRows(X),
    RBF(1.0),
    X[:5],
    np.where(random.randn(50, 3) > 0, 1, -1).astype(np.int8),
    random.uniform(0, 2, (50, 3)),
    random.uniform(0.5, 2, (5, 3)),
)


def test_objective_is_that_of_every_output():
    slacks, absolute = random.rand(50, 3), random.rand(5, 3)
    values = PROBLEM.objective(slacks, absolute)
    for number, value in enumerate(values):
        alone = PROBLEM.output(number).objective(slacks[:, number], absolute[:, number])
        assert value == pytest.approx(alone)
    np.testing.assert_allclose(
        PROBLEM.outputs(np.array([2])).objective(slacks[:, [2]], absolute[:, [2]]), values[2]
    )


def test_errors_of_a_sample_weigh_as_much_as_those_of_all_rows():
    numbers = np.array([3, 14, 15])
    sample = PROBLEM.sample(X[numbers], numbers)
    assert sample.shape == (3, 5, 3)
    np.testing.assert_allclose(sample.error_weights.sum(axis=0), PROBLEM.error_weights.sum(axis=0))


def test_costs_are_linearised_for_all_outputs_at_once():
    pound, slacks, absolute = PoundLoss(10.0, 5.0), random.rand(50, 3), random.rand(5, 3)
    linear = pound.linearized(PROBLEM, slacks, absolute)
    np.testing.assert_allclose(linear.error_weights, PROBLEM.error_weights * pound.slope(slacks))
    np.testing.assert_allclose(linear.coef_weights, PROBLEM.coef_weights * pound.slope(absolute))
