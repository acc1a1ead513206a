import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.compression.synthetic import ReducedSet
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

MERCER = [
    Linear(),
    RBF(0.4),
    RBF(0.05),
    Polynomial(0.5, 1, 0.3),
    Polynomial(0.5, 2),
    Polynomial(0.5, 3, 1.0),
]
mercer_kernels = pytest.mark.parametrize("kernel", MERCER, ids=repr)
outputs = pytest.mark.parametrize("n_outputs", [1, 3])
quickly = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**31)


def _case(kernel, n_outputs, seed=0, n_points=2, n_centers=9, n_features=3):
    """A problem, and points and coefficients to try on it."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_centers, n_features))
    problem = ReducedSet(kernel, centers, rng.normal(size=(n_outputs, n_centers)))
    return problem, rng.normal(size=(n_points, n_features)), rng.normal(size=(n_outputs, n_points))


def _naive_squared(problem, Z, W):
    near = naive.squared_distance_in_feature_space(
        problem.kernel, problem.centers, problem.coef, Z, W
    )
    return near / naive.squared_norm(problem.kernel, problem.centers, problem.coef)


@mercer_kernels
@outputs
def test_total_is_the_norm_by_a_double_sum(kernel, n_outputs):
    problem, _, _ = _case(kernel, n_outputs)
    expected = naive.squared_norm(kernel, problem.centers, problem.coef)
    assert problem.total == pytest.approx(expected, rel=1e-10)


@mercer_kernels
@outputs
@quickly
@given(seed=seeds)
def test_residual_is_the_distance_by_a_double_sum(kernel, n_outputs, seed):
    problem, Z, W = _case(kernel, n_outputs, seed)
    squared = _naive_squared(problem, Z, W)
    assert problem.residual(Z, W) ** 2 == pytest.approx(squared, rel=1e-9, abs=1e-12)
    assert problem.joint(Z, W)[0] == pytest.approx(squared, rel=1e-9, abs=1e-12)


@mercer_kernels
@outputs
def test_residual_of_nothing_is_one_and_of_the_machine_itself_zero(kernel, n_outputs):
    problem, Z, W = _case(kernel, n_outputs)
    assert problem.residual(Z, 0 * W) == 1.0
    assert problem.residual(problem.centers, problem.coef) < 1e-7


@mercer_kernels
@outputs
def test_best_coefficients_are_the_least_squares(kernel, n_outputs):
    problem, Z, _ = _case(kernel, n_outputs)
    k = naive.twin(kernel)
    right = naive.gram(k, Z, problem.centers) @ problem.coef.T
    expected = np.linalg.lstsq(naive.gram(k, Z, Z), right, rcond=None)[0].T
    found = problem.best_coef(Z)
    assert found.shape == (n_outputs, len(Z))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@mercer_kernels
@outputs
@quickly
@given(seed=seeds)
def test_no_other_coefficients_do_better(kernel, n_outputs, seed):
    problem, Z, W = _case(kernel, n_outputs, seed)
    best = problem.best_coef(Z)
    at_best = problem.residual(Z, best) ** 2
    for length in (1e-3, 1.0):
        assert at_best <= problem.residual(Z, best + length * W) ** 2 + 1e-9


@mercer_kernels
@outputs
def test_outputs_are_projected_each_for_itself(kernel, n_outputs):
    problem, Z, _ = _case(kernel, n_outputs)
    alone = [ReducedSet(kernel, problem.centers, row[None]).best_coef(Z) for row in problem.coef]
    np.testing.assert_allclose(problem.best_coef(Z), np.vstack(alone), rtol=1e-10)


@mercer_kernels
@outputs
@quickly
@given(seed=seeds)
def test_projected_gradient_is_the_derivative(kernel, n_outputs, seed):
    problem, Z, _ = _case(kernel, n_outputs, seed)
    # apart and away from the origin, where W and with it the ridge's part stay small
    Z = 0.2 * np.clip(Z, -2, 2) + np.array([[1.5, 0, 0], [0, 1.5, 0]])
    _, slope = problem.projected(Z)
    expected = naive.derivative(lambda A: problem.projected(A)[0], Z)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6 * scale)


@mercer_kernels
@outputs
@quickly
@given(seed=seeds)
def test_joint_gradients_are_the_derivatives(kernel, n_outputs, seed):
    problem, Z, W = _case(kernel, n_outputs, seed)
    _, by_points, by_coef = problem.joint(Z, W)
    expected = naive.derivative(lambda A: problem.joint(A, W)[0], Z)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(by_points, expected, rtol=1e-5, atol=1e-6 * scale)
    expected = naive.derivative(lambda A: problem.joint(Z, A)[0], W)
    np.testing.assert_allclose(by_coef, expected, rtol=1e-5, atol=1e-6 * scale)


@mercer_kernels
@outputs
def test_projected_is_joint_at_the_best_coefficients(kernel, n_outputs):
    problem, Z, _ = _case(kernel, n_outputs)
    value, slope = problem.projected(Z)
    joint, by_points, by_coef = problem.joint(Z, problem.best_coef(Z))
    assert value == pytest.approx(joint, abs=1e-6)
    np.testing.assert_allclose(slope, by_points, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_coef, 0.0, atol=1e-6)


@mercer_kernels
def test_values_are_relative(kernel):
    problem, Z, W = _case(kernel, 2)
    larger = ReducedSet(kernel, problem.centers, 100 * problem.coef)
    assert larger.residual(Z, 100 * W) == pytest.approx(problem.residual(Z, W), rel=1e-9)
    np.testing.assert_allclose(larger.projected(Z)[1], problem.projected(Z)[1], rtol=1e-8)


@pytest.mark.parametrize("kernel", [RBF(0.4), Polynomial(0.5, 3, 1.0)], ids=repr)
def test_points_that_coincide_share_their_weight(kernel):
    problem, Z, _ = _case(kernel, 2)
    once, twice = problem.best_coef(Z), problem.best_coef(np.vstack([Z, Z]))
    np.testing.assert_allclose(twice[:, :2] + twice[:, 2:], once, rtol=1e-5)
    assert np.all(np.isfinite(problem.projected(np.vstack([Z, Z]))[1]))


@pytest.mark.parametrize("kernel", [Sigmoid(0.3, 0.1), Polynomial(0.5, 2, -1.0)], ids=repr)
def test_a_kernel_without_a_feature_space_is_refused(kernel):
    with pytest.raises(ValueError, match="A reduced set needs a positive semi-definite kernel"):
        ReducedSet(kernel, np.zeros((2, 1)), np.ones((1, 2)))
