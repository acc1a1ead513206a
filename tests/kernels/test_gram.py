import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csr_array

import naive
from kernlet.kernels import gram as gram_module
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import (
    ColumnCache,
    Gram,
    RowFeatures,
    TileMaker,
    as_indices,
    kernel_matrix,
    round_to_float32,
    row_slices,
)
from kernlet.kernels.laplacian import Laplacian
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
        (Laplacian(0.7), partial(naive.laplacian, gamma=0.7)),
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


def test_a_point_rounded_to_float32():
    point = np.array([1 / 3, 1e100, -2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short = round_to_float32(point)
    np.testing.assert_array_equal(short, [np.float64(np.float32(1 / 3)), 0.0, -2.0])


N_ROWS, N_COLUMNS = 7, 11
COLUMN_BYTES = 8 * N_ROWS


class CountingColumns(Kernel):
    """The linear kernel, counting the columns that the cache computes."""

    def __init__(self):
        self.n_columns = 0

    def of_products(self, products, x_norms, z_norms):
        self.n_columns += len(products)  # the cache computes rows of the transpose
        return products


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(6)
    return rng.normal(size=(N_ROWS, 3)), rng.normal(size=(N_COLUMNS, 3))


def _weights(columns, n_sums=2):
    return np.random.default_rng(7).normal(size=(len(columns), n_sums))


def _assert_combines(cache, points, *names, kernel=naive.linear):
    columns = as_indices(names)
    W = _weights(columns)
    K = naive.gram(kernel, *points)
    sums = cache.combine(columns, W)
    assert sums.dtype == np.float64
    np.testing.assert_allclose(sums, (K[:, columns] @ W).T, rtol=1e-10, atol=1e-12)


calls = st.lists(st.lists(st.integers(0, N_COLUMNS - 1), unique=True), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(calls=calls, max_bytes=st.integers(0, 12 * COLUMN_BYTES), batch=st.integers(1, 5))
def test_any_calls_under_any_limit_give_the_dense_product(points, calls, max_bytes, batch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_module, "_CACHE_BATCH_BYTES", batch * COLUMN_BYTES)
        cache = ColumnCache(Gram(Linear(), *points), max_bytes)
    for names in calls:
        _assert_combines(cache, points, *names)
        assert 0 <= cache.nbytes <= max_bytes


@pytest.mark.parametrize("of_z", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("of_x", [np.asarray, sparse.csr_array])
def test_sparse_points_combine_as_dense_ones(of_x, of_z, points):
    X, Z = points
    cache = ColumnCache(Gram(RBF(0.5), of_x(X), of_z(Z)), 10**6)
    for _ in range(2):
        _assert_combines(cache, points, 3, 0, 5, kernel=lambda x, z: naive.rbf(x, z, 0.5))


def test_columns_of_a_square_matrix(points):
    X, _ = points
    cache = ColumnCache(Gram(Linear(), X), 10**6)
    _assert_combines(cache, (X, X), 6, 2)


def test_each_column_is_computed_once_while_there_is_room(points):
    kernel = CountingColumns()
    cache = ColumnCache(Gram(kernel, *points), N_COLUMNS * COLUMN_BYTES)
    for names in [(0, 1, 2), (2, 1, 0), (2, 3), (0, 3, 4)]:
        _assert_combines(cache, points, *names)
    assert kernel.n_columns == 5
    assert cache.nbytes == 5 * COLUMN_BYTES


def test_columns_no_longer_requested_are_evicted(points):
    kernel = CountingColumns()
    cache = ColumnCache(Gram(kernel, *points), 3 * COLUMN_BYTES)
    _assert_combines(cache, points, 0, 1, 2)
    _assert_combines(cache, points, 2, 3, 4)  # 0 and 1 make room, 2 stays
    assert kernel.n_columns == 5
    _assert_combines(cache, points, 2, 3, 4)
    assert kernel.n_columns == 5
    _assert_combines(cache, points, 0, 1)  # recomputed, and kept again
    _assert_combines(cache, points, 0, 1)
    assert kernel.n_columns == 7


def test_no_room_at_all_means_recomputing(points):
    kernel = CountingColumns()
    cache = ColumnCache(Gram(kernel, *points), 0)
    for n_computed in (3, 6):
        _assert_combines(cache, points, 4, 5, 6)
        assert kernel.n_columns == n_computed
    assert cache.nbytes == 0


def test_room_is_used_by_as_many_columns_as_fit(points):
    cache = ColumnCache(Gram(Linear(), *points), 3 * COLUMN_BYTES)
    _assert_combines(cache, points, 0, 1, 2, 3)
    assert cache.nbytes == 3 * COLUMN_BYTES


def test_no_columns_make_zero_sums(points):
    cache = ColumnCache(Gram(Linear(), *points), 10**6)
    nothing = cache.combine(as_indices([]), np.empty((0, 2)))
    np.testing.assert_array_equal(nothing, np.zeros((2, N_ROWS)))
    _assert_combines(cache, points, 1, 2)
    np.testing.assert_array_equal(cache.combine(as_indices([]), np.empty((0, 2))), nothing)


def test_columns_of_weight_zero_are_kept_but_add_nothing(points):
    kernel = CountingColumns()
    cache = ColumnCache(Gram(kernel, *points), 10**6)
    sums = cache.combine(as_indices([0, 1]), np.zeros((2, 1)))
    np.testing.assert_array_equal(sums, np.zeros((1, N_ROWS)))
    _assert_combines(cache, points, 0, 1)
    assert kernel.n_columns == 2


def test_float32_columns_take_half_the_room(points):
    cache = ColumnCache(Gram(Linear(), *points, dtype=np.float32), 10**6)
    columns = as_indices([0, 4])
    W = _weights(columns)
    sums = cache.combine(columns, W)
    assert sums.dtype == np.float64
    assert cache.nbytes == 2 * COLUMN_BYTES // 2
    expected = (naive.gram(naive.linear, *points)[:, columns] @ W).T
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)


def test_weights_and_columns_are_left_alone(points):
    cache = ColumnCache(Gram(Linear(), *points), 10**6)
    columns = as_indices([5, 3])
    W = _weights(columns)
    before = columns.copy(), W.copy()
    cache.combine(columns, W)
    np.testing.assert_array_equal(columns, before[0])
    np.testing.assert_array_equal(W, before[1])


def test_indices_of_an_empty_list_can_index():
    assert np.arange(3)[as_indices([])].shape == (0,)


X = np.random.RandomState(0).randn(3000, 4)


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear()], ids=repr)
@pytest.mark.parametrize("wrap", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_are_the_kernel_matrix(kernel, wrap, dtype):
    tiles = pickle.loads(pickle.dumps(TileMaker(kernel, wrap(X[:40]), dtype)))(wrap(X))
    values = np.concatenate([tile for _, tile in tiles])
    tolerance = 1e-4 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(values, kernel_matrix(kernel, X, X[:40]), atol=tolerance)
    assert tiles.nbytes == values.nbytes
    kept = np.concatenate([tile for _, tile in tiles.materialised()])
    np.testing.assert_array_equal(kept, values)


def test_all_blocks_are_evaluated_about_the_same_point():
    """A row has the same kernel values whichever block it is in."""
    make = TileMaker(RBF(0.3), X[:40] + 1000, np.float32)
    together = np.concatenate([tile for _, tile in make(X + 1000)])
    apart = np.concatenate([tile for _, tile in make(X[1000:] + 1000)])
    np.testing.assert_allclose(together[1000:], apart, atol=1e-6)


ROWS = np.random.RandomState(0).normal(size=(50, 4))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_themselves(kind):
    features = RowFeatures(kind(ROWS))
    W = np.random.RandomState(1).normal(size=(4, 2))
    np.testing.assert_allclose(features.dot(W), ROWS @ W)
    np.testing.assert_allclose(features.dot(W, np.array([7, 3])), ROWS[[7, 3]] @ W)
    assert features.n_features == 4
    assert len(features) == 50
    assert features.is_sparse == (kind is not np.asarray)


def test_kernel_values_in_blocks(monkeypatch):
    monkeypatch.setattr("kernlet.kernels.gram.BLOCK_BYTES", 300)
    features = RowFeatures(ROWS, RBF(0.5), ROWS[:6])
    assert features.n_features == 6
    assert sum(1 for _ in features.blocks()) > 5
    w = np.arange(6.0)
    np.testing.assert_allclose(features.dot(w), RBF(0.5)(ROWS, ROWS[:6]) @ w)
    assert not features.middle.any()


def test_the_middle_is_near_the_rows():
    np.testing.assert_allclose(RowFeatures(ROWS + 100).middle, ROWS.mean(axis=0) + 100)
    assert not RowFeatures(sparse.csr_array(ROWS)).middle.any()


def test_blocks_of_sparse_rows(monkeypatch):
    few = sparse.random_array((1000, 400), density=0.01, format="csr", random_state=0)
    features = RowFeatures(few)
    assert sum(1 for _ in features.blocks()) == 1  # by their entries, not by their width
    monkeypatch.setattr("kernlet.kernels.gram.BLOCK_BYTES", 2**20)
    parts = [block for _, block in features.blocks(dense=True)]
    assert len(parts) > 10
    np.testing.assert_array_equal(np.vstack(parts), few.toarray())


def test_float32_rows_about_a_point_keep_their_digits_in_float64():
    X = np.array([[5.2, -0.3], [0.1, 4.7], [30.0, 31.0], [30.5, 29.0]], dtype=np.float32)
    values = kernel_matrix(RBF(0.1), X.astype(float), X[2:].astype(float))
    blocks = Gram(RBF(0.1), X, X[2:])
    assert blocks.x.shift is not None
    np.testing.assert_allclose(blocks.block(slice(None), slice(None)), values, rtol=1e-12)


@pytest.mark.slow
def test_centers_of_short_texts_become_dense():
    """Ten words of 100,000 per text are ordinary; a far feature number in a small file is not."""
    words = np.tile(np.arange(0, 100_000, 10_000), 200)
    texts = csr_array((np.ones(2000), words, np.arange(0, 2001, 10)), shape=(200, 100_000))
    assert gram_module.dense_centers(texts).shape == texts.shape
    far = csr_array(([1.0], ([0], [0])), shape=(2, 2**25))
    with pytest.raises(ValueError, match="too wide for a dense array"):
        gram_module.dense_centers(far)


def test_columns_are_left_out_of_very_wide_products_only(monkeypatch):
    """Searching for the columns in use takes longer than the product itself."""
    calls, used = [], gram_module.used_columns
    count = lambda X, Z: calls.append(X.shape) or used(X, Z)  # noqa: E731
    monkeypatch.setattr(gram_module, "used_columns", count)
    for n_features, n_calls in ((100_000, 0), (2**25, 1)):
        X = csr_array(([2.0, 3.0], ([0, 1], [5, n_features - 1])), shape=(2, n_features))
        np.testing.assert_array_equal(gram_module.inner_products(X, X), [[4.0, 0.0], [0.0, 9.0]])
        assert len(calls) == n_calls
