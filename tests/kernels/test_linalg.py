import numpy as np
import pytest

from kernlet.kernels.linalg import jittered_solve


def test_a_definite_system_is_solved():
    root = np.random.default_rng(0).normal(size=(6, 6))
    matrix, right = root @ root.T + np.eye(6), np.arange(12.0).reshape(6, 2)
    np.testing.assert_allclose(matrix @ jittered_solve(matrix, right, 1e-14), right, atol=1e-10)


def test_rounding_below_zero_is_forgiven():
    matrix = np.diag([1.0, -1e-12])
    assert np.isfinite(jittered_solve(matrix, np.ones(2), 1e-14)).all()


def test_a_matrix_that_is_not_definite_is_refused():
    with pytest.raises(ValueError, match="not positive semi-definite"):
        jittered_solve(np.diag([1.0, -1e6]), np.ones(2), 1e-14)


def test_kernel_matrices_that_overflow_get_a_sentence():
    with pytest.raises(ValueError, match="overflows at the centers"):
        jittered_solve(np.full((2, 2), np.inf), np.ones((2, 1)), 1e-10)
