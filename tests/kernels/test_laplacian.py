"""The Laplacian kernel: numerics, gradients, sparse rows, and the rounded form of its searches."""

import tracemalloc

import array_api_strict
import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import naive
from kernlet import KernelExpansion, to_onnx
from kernlet.affine import AffineMap
from kernlet.kernels import Laplacian, laplacian
from kernlet.kernels.base import LEAST_EXPONENT
from kernlet.kernels.gram import Gram, kernel_matrix

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_array]


@pytest.fixture
def XZ():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 4)), rng.normal(size=(5, 4))


def rounded(x, z, gamma, width):
    """A slow twin of the kernel with rounded cusps."""
    roots = [np.hypot(a - b, width) - width for a, b in zip(x, z, strict=True)]
    return np.exp(-gamma * sum(roots))


def test_rounded_cusps_are_their_formula_and_tend_to_the_kernel(XZ):
    smooth = Laplacian(0.7).smoothed(0.3)
    assert_allclose(smooth(*XZ), naive.gram(lambda x, z: rounded(x, z, 0.7, 0.3), *XZ), rtol=1e-12)
    errors = [np.abs(Laplacian(0.7).smoothed(w)(*XZ) - Laplacian(0.7)(*XZ)).max() for w in (0.1, 0)]
    assert 0.01 < errors[0] < 0.3
    assert errors[1] < 1e-15


def test_rounded_kernel_is_positive_semidefinite():
    rng = np.random.default_rng(1)
    for width in (0.01, 0.3, 3.0):
        X = rng.normal(size=(60, 2))
        assert np.linalg.eigvalsh(Laplacian(0.7).smoothed(width)(X, X)).min() > -1e-12


@pytest.mark.parametrize("kernel", [Laplacian(0.7), Laplacian(0.7).smoothed(0.2)], ids=repr)
@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_that_of_the_weighted_sum(kernel, seed):
    rng = np.random.default_rng(seed)  # no two coordinates are within 1e-5 of each other: no cusp
    X, Z, weights = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 4))
    values, gradient = kernel.values_and_gradient(X, Z)
    assert_allclose(values, kernel(X, Z), rtol=1e-14)
    expected = naive.derivative(lambda A: float(np.sum(weights * kernel(A, Z))), X)
    assert_allclose(gradient(weights), expected, rtol=1e-6, atol=1e-8)


def test_gradient_at_a_cusp_is_the_mean_of_both_sides():
    X = np.array([[0.0, 1.0]])
    values, gradient = Laplacian(2.0).values_and_gradient(X, X)
    assert_array_equal(values, 1.0)
    assert_array_equal(gradient(np.ones((1, 1))), 0.0)
    _, gradient = Laplacian(2.0).values_and_gradient(X, np.array([[0.0, 0.5]]))
    assert_allclose(gradient(np.ones((1, 1))), [[0.0, -2.0 * np.exp(-1.0)]])


def test_gradient_of_no_points(XZ):
    X, Z = XZ
    values, gradient = Laplacian(1.0).values_and_gradient(X[:0], Z)
    assert gradient(values).shape == (0, 4)


@pytest.mark.parametrize("of_z", CONTAINERS)
@pytest.mark.parametrize("of_x", CONTAINERS)
def test_sparse_points_have_the_same_values(of_x, of_z):
    rng = np.random.default_rng(3)
    X, Z = (rng.normal(size=(m, 5)) * (rng.random((m, 5)) < 0.4) for m in (9, 7))
    X[2] = Z[1] = 0.0
    expected = naive.gram(lambda x, z: naive.laplacian(x, z, 0.6), X, Z)
    assert_allclose(Laplacian(0.6)(of_x(X), of_z(Z)), expected, rtol=1e-12)
    assert_allclose(Laplacian(0.6)(of_x(0 * X), of_z(0 * Z)), 1.0)


def test_wide_sparse_rows_with_long_indices_take_little_memory():
    rng = np.random.default_rng(0)
    columns = rng.choice(2**40, size=(200, 10))
    columns[:, 0] = 5
    starts = np.arange(0, 2001, 10)
    X = sparse.csr_array((np.ones(2000), np.sort(columns, axis=1).ravel(), starts), (200, 2**40))
    tracemalloc.start()
    K = Laplacian(0.1)(X, X[:20])
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
    assert_allclose(np.diag(K), 1.0)
    assert K[0, 1] == pytest.approx(np.exp(-0.1 * 18))  # one column in common


def test_blocks_have_bounded_memory():
    X = np.random.default_rng(0).normal(size=(400, 200))
    tracemalloc.start()
    Laplacian(0.1)(X, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 8 * 400 * 400  # not 400 x 400 x 200


def test_gram_of_the_same_points_is_exactly_symmetric():
    X = np.random.default_rng(0).normal(size=(30, 7))
    K = kernel_matrix(Laplacian(0.3), X, X)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diag(K), 1.0)


def test_float32_is_accurate_far_from_the_origin(XZ):
    X, Z = (A.astype(np.float32) + np.float32(1000) for A in XZ)
    K = Gram(Laplacian(0.5), X, Z, dtype=np.float32).block(slice(None), slice(None))
    assert K.dtype == np.float32
    assert_allclose(K, Laplacian(0.5)(X.astype(float), Z.astype(float)), rtol=1e-5)


@pytest.mark.parametrize(
    ("gamma", "norm", "fits"),
    [(1.0, 1e5, True), (1.0, 1e7, False), (1e31, 0.0, False), (1e-20, 1e31, False)],
)
def test_float32_is_used_where_it_is_accurate(gamma, norm, fits):
    assert Laplacian(gamma).fits_float32(norm) is fits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_value_is_subnormal(dtype):
    X = np.array([[0.0], [1.0], [1e300]], dtype=np.float64)
    K = kernel_matrix(Laplacian(900.0), X[:2], X[:2], dtype=dtype)
    assert K.min() == pytest.approx(np.exp(LEAST_EXPONENT[np.dtype(dtype)]), rel=1e-5)
    assert np.isfinite(Laplacian(1e300)(X, X)).all()


def test_other_units_give_the_same_values(XZ):
    X, Z = XZ
    kernel, factor = Laplacian(0.4).scaled(0.25)
    assert factor == 1.0
    assert_allclose(kernel(X / 0.25, Z / 0.25), Laplacian(0.4)(X, Z), rtol=1e-14)


def test_rows_of_another_library_have_the_same_values(XZ):
    X, Z = XZ
    machine = KernelExpansion(Laplacian(0.5), Z + 10, np.eye(5), np.ones(5))
    values = machine.decision_values(array_api_strict.asarray(X + 10))
    assert values.dtype == array_api_strict.float32
    assert_allclose(np.asarray(values), machine.decision_values(X + 10), atol=1e-5)


def test_one_scale_is_taken_into_the_centers(XZ):
    X, Z = XZ
    map = AffineMap(np.array([1.0]), np.array([2.0]))
    machine = KernelExpansion(Laplacian(0.5), Z, np.eye(5), np.ones(5), map)
    assert machine.unfolded().kernel == Laplacian(1.0)
    assert_allclose(machine.unfolded().decision_values(X), machine.decision_values(X), rtol=1e-12)


@pytest.mark.parametrize("held", [1, 8, 4096])
def test_onnx_holds_few_differences_at_once(held, XZ, monkeypatch):
    monkeypatch.setattr(laplacian, "_ONNX_DIFFERENCES", held)
    X, Z = XZ
    machine = KernelExpansion(Laplacian(0.5), Z + 100, np.eye(5), np.zeros(5))
    graph = to_onnx(machine)
    n_parts = sum(node.op_type == "ReduceSum" for node in graph.graph.node)
    assert n_parts == {1: 4, 8: 4, 4096: 1}[held]
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    (values,) = session.run(None, {"X": np.float32(X + 100)})
    assert_allclose(values, machine.decision_values(X + 100), atol=1e-4)


def test_negative_and_infinite_widths_are_refused():
    for gamma in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"kernel\.gamma must be from 0"):
            Laplacian(gamma)
