"""Every kernel against its formula: a new kernel is a new row of KERNELS."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import gaussian_process
from sklearn.metrics import pairwise

import naive
from kernlet.kernels.base import Kernel
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid


class Row(NamedTuple):
    kernel: Kernel
    naive: Callable
    sklearn: Callable
    is_mercer: bool


KERNELS = [
    Row(Linear(), naive.linear, pairwise.linear_kernel, True),
    Row(
        RBF(gamma=0.7),
        partial(naive.rbf, gamma=0.7),
        partial(pairwise.rbf_kernel, gamma=0.7),
        True,
    ),
    Row(
        Laplacian(gamma=0.7),
        partial(naive.laplacian, gamma=0.7),
        partial(pairwise.laplacian_kernel, gamma=0.7),
        True,
    ),
    Row(
        RationalQuadratic(gamma=0.7, alpha=1.3),
        partial(naive.rationalquadratic, gamma=0.7, alpha=1.3),
        # scikit-learn's is (1 + |x - z|^2 / (2 alpha l^2))^-alpha
        gaussian_process.kernels.RationalQuadratic(length_scale=(1 / 1.4) ** 0.5, alpha=1.3),
        True,
    ),
    Row(
        Polynomial(gamma=0.5, degree=3, coef0=1.0),
        partial(naive.polynomial, gamma=0.5, degree=3, coef0=1.0),
        partial(pairwise.polynomial_kernel, gamma=0.5, degree=3, coef0=1.0),
        True,
    ),
    Row(
        Polynomial(gamma=0.5, degree=2),
        partial(naive.polynomial, gamma=0.5, degree=2, coef0=0.0),
        partial(pairwise.polynomial_kernel, gamma=0.5, degree=2, coef0=0.0),
        True,
    ),
    Row(
        Polynomial(gamma=0.5, degree=2, coef0=-1.0),
        partial(naive.polynomial, gamma=0.5, degree=2, coef0=-1.0),
        partial(pairwise.polynomial_kernel, gamma=0.5, degree=2, coef0=-1.0),
        False,
    ),
    Row(
        Sigmoid(gamma=0.3, coef0=-0.2),
        partial(naive.sigmoid, gamma=0.3, coef0=-0.2),
        partial(pairwise.sigmoid_kernel, gamma=0.3, coef0=-0.2),
        False,
    ),
]

all_kernels = pytest.mark.parametrize("row", KERNELS, ids=lambda row: repr(row.kernel))
mercer_kernels = pytest.mark.parametrize(
    "row", [row for row in KERNELS if row.is_mercer], ids=lambda row: repr(row.kernel)
)
some_rows = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 4)),
    elements=st.floats(-5, 5, allow_subnormal=False),
)
quickly = settings(max_examples=40, deadline=None)


@pytest.fixture
def XZ():
    rng = np.random.default_rng(0)
    return rng.normal(size=(7, 3)), rng.normal(size=(5, 3))


@all_kernels
def test_values_are_the_formula(row, XZ):
    np.testing.assert_allclose(row.kernel(*XZ), naive.gram(row.naive, *XZ), rtol=1e-12, atol=1e-14)


@all_kernels
def test_values_are_those_of_sklearn(row, XZ):
    np.testing.assert_allclose(row.kernel(*XZ), row.sklearn(*XZ), rtol=1e-12, atol=1e-14)


@all_kernels
def test_arguments_are_left_alone(row, XZ):
    before = [A.copy() for A in XZ]
    row.kernel(*XZ)
    for A, copy in zip(XZ, before, strict=True):
        np.testing.assert_array_equal(A, copy)


@all_kernels
def test_lists_and_whole_numbers_are_taken(row):
    X, Z = [[1, 0], [2, 1]], [[0, 1]]
    np.testing.assert_allclose(row.kernel(X, Z), naive.gram(row.naive, X, Z))


@all_kernels
def test_mercer_flag(row):
    assert row.kernel.is_mercer is row.is_mercer


@mercer_kernels
@quickly
@given(X=some_rows)
def test_mercer_gram_is_symmetric_and_positive_semidefinite(row, X):
    K = row.kernel(X, X)
    scale = max(1.0, np.abs(K).max())
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * scale)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * len(K) * scale


@pytest.mark.parametrize(
    "kernel", [Sigmoid(gamma=1.0, coef0=-1.0), Polynomial(gamma=1.0, degree=1, coef0=-1.0)]
)
def test_a_kernel_not_called_mercer_has_a_gram_with_a_negative_eigenvalue(kernel):
    X = np.array([[0.0], [0.5]])
    assert not kernel.is_mercer
    assert np.linalg.eigvalsh(kernel(X, X)).min() < -0.1


@pytest.mark.parametrize("kernel", [Polynomial(1.0, 1.5, 1.0), Polynomial(-1.0, 3, 0.0)])
def test_polynomial_of_broken_degree_or_negative_gamma_is_not_called_mercer(kernel):
    X = np.linspace(-0.9, 0.9, 7)[:, None]
    assert np.linalg.eigvalsh(kernel(X, X)).min() < -1e-3
    assert not kernel.is_mercer


@quickly
@given(X=some_rows, gamma=st.floats(0.01, 10))
def test_rbf_of_a_point_with_itself_is_one(X, gamma):
    np.testing.assert_allclose(np.diag(RBF(gamma)(X, X)), 1.0, rtol=1e-11)


@quickly
@given(X=some_rows, gamma=st.floats(0.01, 10))
def test_rbf_lies_between_zero_and_one(X, gamma):
    K = RBF(gamma)(X, X)
    assert K.min() >= 0
    assert K.max() <= 1


def test_rbf_of_equal_points_never_exceeds_one_after_rounding():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 30)) * 100, 2, axis=0)
    assert RBF(1e3)(X, X).max() <= 1


@pytest.mark.parametrize(
    ("kernel", "moves"),
    [(RBF(0.5), False), (Laplacian(0.5), False), (Linear(), True), (Polynomial(0.5), True)],
)
def test_only_translation_invariant_kernels_may_be_shifted(kernel, moves, XZ):
    X, Z = XZ
    moved = not np.allclose(kernel(X + 1, Z + 1), kernel(X, Z))
    assert moved is moves
    assert kernel.is_translation_invariant is not moves


@all_kernels
def test_kernels_are_values(row):
    kernel = row.kernel
    same = type(kernel)(**vars(kernel))
    assert same == kernel
    assert hash(same) == hash(kernel)
    for name in vars(kernel):
        with pytest.raises(FrozenInstanceError):
            setattr(kernel, name, 2.0)
