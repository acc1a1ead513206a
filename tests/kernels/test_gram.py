import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet.kernels import gram as gram_module
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram, kernel_matrix, round_to_float32, row_slices
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]
every_pair_of_containers = pytest.mark.parametrize(
    ("of_x", "of_z"), [(of_x, of_z) for of_x in CONTAINERS for of_z in CONTAINERS]
)
every_kernel = pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (RBF(0.7), partial(naive.rbf, gamma=0.7)),
        (Polynomial(0.5, 3, 1.0), partial(naive.polynomial, gamma=0.5, degree=3, coef0=1.0)),
    ],
)
SELECTIONS = {
    "all": slice(None),
    "slice": slice(1, 4),
    "indices": np.array([3, 0, 2]),
    "repeated": np.array([2, 2]),
    "none": np.array([], dtype=np.intp),
    "empty slice": slice(2, 2),
}
every_selection = pytest.mark.parametrize("rows", SELECTIONS.values(), ids=SELECTIONS.keys())


class Counting(Kernel):
    """The linear kernel, noting the shape of every block."""

    def __init__(self):
        self.shapes = []

    def of_products(self, products, x_norms, z_norms):
        self.shapes.append(products.shape)
        return products


@pytest.fixture
def XZ():
    """Rows with many zeros, far enough from 0 that a shift changes them."""
    rng = np.random.default_rng(3)
    X, Z = (rng.normal(loc=1.0, size=(m, 4)) * (rng.random((m, 4)) < 0.5) for m in (9, 5))
    return X, Z


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Blocks of 100 bytes."""
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 100)


@every_kernel
@every_pair_of_containers
def test_gram_of_any_containers_is_the_naive_one(kernel, formula, of_x, of_z, XZ):
    X, Z = XZ
    values = kernel_matrix(kernel, of_x(X), of_z(Z))
    np.testing.assert_allclose(values, naive.gram(formula, X, Z), rtol=1e-12, atol=1e-14)


@every_kernel
@every_pair_of_containers
@every_selection
def test_block_is_the_part_named(kernel, formula, of_x, of_z, rows, XZ):
    X, Z = XZ
    K = naive.gram(formula, X, Z)
    blocks = Gram(kernel, of_x(X), of_z(Z))
    columns = slice(1, 4)
    for left, right in [(rows, columns), (columns, rows), (rows, rows)]:
        np.testing.assert_allclose(blocks.block(left, right), K[left][:, right], rtol=1e-12)


@every_kernel
@every_pair_of_containers
@every_selection
def test_dot_is_the_full_product(kernel, formula, of_x, of_z, rows, XZ):
    X, Z = XZ
    K = naive.gram(formula, X, Z)[:, rows]
    W = np.random.default_rng(4).normal(size=(K.shape[1], 2))
    blocks = Gram(kernel, of_x(X), of_z(Z))
    np.testing.assert_allclose(blocks.dot(W, rows), K @ W, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(blocks.dot(W[:, 0], rows), K @ W[:, 0], rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("tiny_blocks")
@every_kernel
@every_pair_of_containers
def test_small_blocks_change_nothing(kernel, formula, of_x, of_z, XZ):
    X, Z = XZ
    K = naive.gram(formula, X, Z)
    W = np.random.default_rng(4).normal(size=(len(Z), 2))
    np.testing.assert_allclose(Gram(kernel, of_x(X), of_z(Z)).dot(W), K @ W, rtol=1e-11)
    np.testing.assert_allclose(kernel_matrix(kernel, of_x(X), of_z(Z)), K, rtol=1e-12)


@pytest.mark.usefixtures("tiny_blocks")
def test_blocks_stay_under_the_limit(XZ):
    X, Z = XZ
    kernel = Counting()
    Gram(kernel, X, Z).dot(np.ones(len(Z)))
    assert len(kernel.shapes) > 1
    assert max(8 * rows * columns for rows, columns in kernel.shapes) <= 100
    assert sum(rows for rows, _ in kernel.shapes) == len(X)


@settings(max_examples=60, deadline=None)
@given(n_rows=st.integers(0, 40), row_bytes=st.integers(0, 20), max_bytes=st.integers(0, 60))
def test_row_slices_cover_the_rows_once_within_the_limit(n_rows, row_bytes, max_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_module, "BLOCK_BYTES", max_bytes)
        slices = list(row_slices(n_rows, row_bytes))
    covered = [i for rows in slices for i in range(n_rows)[rows]]
    assert covered == list(range(n_rows))
    lengths = [rows.stop - rows.start for rows in slices]
    assert all(length == 1 or length * row_bytes <= max_bytes for length in lengths)


@every_kernel
@every_pair_of_containers
def test_transpose_exchanges_rows_and_columns(kernel, formula, of_x, of_z, XZ):
    X, Z = XZ
    blocks = Gram(kernel, of_x(X), of_z(Z))
    K = naive.gram(formula, X, Z)
    w = np.arange(len(X), dtype=float)
    assert blocks.T.shape == (len(Z), len(X))
    np.testing.assert_allclose(blocks.T.block(slice(1, 4), np.array([7, 0])), K.T[1:4][:, [7, 0]])
    np.testing.assert_allclose(blocks.T.dot(w), K.T @ w)
    np.testing.assert_allclose(blocks.T.T.dot(np.ones(len(Z))), K.sum(axis=1))


@pytest.mark.parametrize("container", CONTAINERS)
def test_one_set_of_points_makes_a_square_symmetric_matrix(container, XZ):
    X, Z = XZ
    square = Gram(RBF(0.7), container(X))
    assert square.is_square
    assert square.T.is_square
    assert not Gram(RBF(0.7), container(X), container(Z)).is_square
    K = square.block(slice(None), slice(None))
    np.testing.assert_allclose(K, K.T, rtol=1e-13)
    np.testing.assert_allclose(K, kernel_matrix(RBF(0.7), X, X), rtol=1e-12)


@every_pair_of_containers
def test_holding_the_points_changes_nothing(of_x, of_z, XZ):
    X, Z = XZ
    plain, held = (Gram(RBF(0.7), of_x(X), of_z(Z), hold=hold) for hold in (False, True))
    rows = np.array([4, 1])
    np.testing.assert_array_equal(held.block(rows, rows), plain.block(rows, rows))


def test_holding_the_points_leaves_the_data_alone(XZ):
    X, Z = XZ
    before = X.copy(), Z.copy()
    Gram(Polynomial(0.5), X, Z, hold=True).dot(np.ones(len(Z)))
    Gram(RBF(0.7), X, Z, hold=True).dot(np.ones(len(Z)))
    np.testing.assert_array_equal((X, Z)[0], before[0])
    np.testing.assert_array_equal((X, Z)[1], before[1])


@every_kernel
def test_float32_values_are_float32_and_nearly_right(kernel, formula, XZ):
    X, Z = XZ
    values = Gram(kernel, X, Z, dtype=np.float32).block(slice(None), slice(None))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, naive.gram(formula, X, Z), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_is_float64_in_any_precision(dtype, XZ):
    assert Gram(Linear(), *XZ, dtype=dtype).dot(np.ones(5, dtype)).dtype == np.float64


# Points far from the origin. They lie on a grid fine enough to be seen and coarse enough to be
# exact after the shift, so that the kernel values are those of the points before it.

FAR = pytest.mark.parametrize(
    ("dtype", "distance", "grid", "tolerance"),
    [(np.float32, 1e4, 2.0**-8, 1e-6), (np.float64, 1e6, 2.0**-30, 1e-9)],
)


def _points_and_far_copy(dtype, distance, grid):
    X = np.round(np.random.default_rng(5).normal(size=(12, 3)) / grid) * grid
    far = (X + distance).astype(dtype)
    assert np.array_equal(far.astype(float) - distance, X)
    return X, far


def _worst_error(K, X):
    return np.abs(K - naive.gram(partial(naive.rbf, gamma=0.5), X, X)).max()


@FAR
@pytest.mark.parametrize("hold", [False, True])
def test_rbf_keeps_its_digits_far_from_the_origin(dtype, distance, grid, tolerance, hold):
    X, far = _points_and_far_copy(dtype, distance, grid)
    for blocks in [
        Gram(RBF(0.5), far, dtype=dtype, hold=hold),
        Gram(RBF(0.5), far, far[::-1][::-1], dtype=dtype, hold=hold),
    ]:
        assert _worst_error(blocks.block(slice(None), slice(None)), X) < tolerance
        assert _worst_error(blocks.dot(np.eye(len(X), dtype=dtype)), X) < tolerance


@FAR
def test_plain_formula_would_lose_them(dtype, distance, grid, tolerance):
    X, far = _points_and_far_copy(dtype, distance, grid)
    norms = (far**2).sum(axis=1)
    squares = norms[:, None] + norms - 2 * far @ far.T
    assert _worst_error(np.exp(-0.5 * np.maximum(squares, 0)), X) > 1000 * tolerance


def test_sparse_rows_in_float32_are_multiplied_in_float64_far_from_the_origin():
    X, far = _points_and_far_copy(np.float32, 1e4, 2.0**-8)
    rows = sparse.csr_array(far)
    assert _worst_error(kernel_matrix(RBF(0.5), rows, rows, dtype=np.float32), X) < 1e-6


@pytest.mark.parametrize(
    ("of_x", "of_z"), [(np.asarray, sparse.csr_array), (sparse.csr_array, np.asarray)]
)
def test_dense_with_sparse_in_float32_far_from_the_origin(of_x, of_z):
    X, far = _points_and_far_copy(np.float32, 1e4, 2.0**-8)
    assert _worst_error(kernel_matrix(RBF(0.5), of_x(far), of_z(far), dtype=np.float32), X) < 1e-6


# Shapes at the edge


@every_kernel
def test_single_rows(kernel, formula):
    X, Z = np.array([[1.0, 2.0]]), np.array([[0.5, 2.0]])
    np.testing.assert_allclose(kernel_matrix(kernel, X, Z), [[formula(X[0], Z[0])]])


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_sets_of_no_rows_make_an_empty_matrix(shape, container):
    X, Z = (container(np.ones((n, 2))) for n in shape)
    assert kernel_matrix(RBF(1.0), X, Z).shape == shape


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(1.0)])
@pytest.mark.parametrize("width", [1, 2])
def test_points_of_another_width_are_refused(kernel, width):
    with pytest.raises(ValueError):  # noqa: PT011, the sentence is numpy's
        kernel_matrix(kernel, np.ones((4, width)), np.ones((3, 5)))


def test_single_column_is_refused_by_a_translation_invariant_kernel():
    with pytest.raises(ValueError):  # noqa: PT011
        kernel_matrix(RBF(1.0), np.ones((4, 1)), np.ones((3, 5)))


def test_entries_stored_twice_are_added():
    X = sparse.csr_array(([1.0, 1.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    np.testing.assert_allclose(
        kernel_matrix(RBF(0.5), X, X), kernel_matrix(RBF(0.5), X.toarray(), X.toarray())
    )


def test_explicit_zeros_and_unsorted_indices_change_nothing():
    X = sparse.csr_array(([0.0, 1.0, 2.0, 3.0], [0, 1, 1, 0], [0, 2, 4]), shape=(2, 2))
    np.testing.assert_allclose(
        kernel_matrix(RBF(0.5), X, X), kernel_matrix(RBF(0.5), X.toarray(), X.toarray())
    )


def test_a_point_in_few_digits():
    point = np.array([1 / 3, 1e100, -2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short = round_to_float32(point)
    np.testing.assert_array_equal(short, [np.float64(np.float32(1 / 3)), 0.0, -2.0])
