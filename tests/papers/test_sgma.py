"""Sparse greedy matrix approximation against trying every row, and its least squares."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import naive
from kernlet.kernels.gram import kernel_matrix
from kernlet.kernels.rbf import RBF
from papers.sgma import greedy_basis, least_squares


def make_kernel(seed, m=30, gamma=0.5):
    X = np.random.RandomState(seed).randn(m, 3)
    return X, kernel_matrix(RBF(gamma), X, X)


@pytest.mark.parametrize("seed", range(3))
def test_takes_the_rows_that_the_twin_takes(seed):
    _, K = make_kernel(seed)
    basis = greedy_basis(K, 0.0, 8, np.random.RandomState(0), n_tries=len(K))
    rows, residuals = naive.greedy_rows(K, 8)
    np.testing.assert_array_equal(basis.rows, rows)
    np.testing.assert_allclose(basis.residuals, residuals, atol=1e-10)
    inverse = np.linalg.inv(K[np.ix_(rows, rows)])
    projection = K[:, rows] @ inverse @ K[rows]
    np.testing.assert_allclose(basis.factor.T @ basis.factor, projection, atol=1e-10)


def test_random_rows_are_tried_and_the_trace_only_falls():
    _, K = make_kernel(0, m=200)
    basis = greedy_basis(K, 0.0, 40, np.random.RandomState(0))
    again = greedy_basis(K, 0.0, 40, np.random.RandomState(0))
    np.testing.assert_array_equal(basis.rows, again.rows)
    assert len(np.unique(basis.rows)) == 40
    assert np.all(np.diff(basis.residuals) < 0)
    best = greedy_basis(K, 0.0, 40, np.random.RandomState(0), n_tries=200)
    assert best.residuals[-1] <= basis.residuals[-1] <= 1.1 * best.residuals[-1] + 0.02


def test_stops_at_the_share_of_the_trace_and_prefixes_are_shorter_runs():
    _, K = make_kernel(1, m=100)
    whole = greedy_basis(K, 0.01, 100, np.random.RandomState(0))
    assert whole.residuals[-1] <= 0.01 < whole.residuals[-2]
    part = greedy_basis(K, 0.2, 100, np.random.RandomState(0))
    prefix = whole.prefix(0.2, 100)
    np.testing.assert_array_equal(prefix.rows, part.rows)
    np.testing.assert_array_equal(prefix.factor, part.factor)
    assert len(whole.prefix(0.0, 100).rows) == len(whole.rows)
    assert len(whole.prefix(0.0, 5).rows) == 5


def test_equal_rows_end_the_search():
    X = np.repeat([[0.0], [1.0], [5.0]], 4, axis=0)
    basis = greedy_basis(kernel_matrix(RBF(1.0), X, X), 0.0, 12, np.random.RandomState(0))
    assert len(basis.rows) == 3
    assert basis.residuals[-1] < 1e-12


def test_least_squares_on_all_rows_is_kernel_ridge():
    X, K = make_kernel(2)
    signs = np.where(X[:, :2].T > 0, 1.0, -1.0)
    basis = greedy_basis(K, 0.0, len(K), np.random.RandomState(0))
    coef, intercepts = least_squares(basis, signs, 0.1)
    for sign, c, intercept in zip(signs, coef, intercepts, strict=True):
        ridge = KernelRidge(alpha=0.1, kernel="precomputed").fit(K, sign - intercept)
        values = K[:, basis.rows] @ c + intercept
        np.testing.assert_allclose(values, ridge.predict(K) + intercept, atol=1e-6)
        assert np.sum(sign - values) == pytest.approx(0.0, abs=1e-8)  # the intercept is free
