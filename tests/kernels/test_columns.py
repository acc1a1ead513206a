import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet.kernels import gram as columns_module
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import ColumnCache, Gram, as_indices
from kernlet.kernels.linear import Linear
from kernlet.kernels.rbf import RBF

N_ROWS, N_COLUMNS = 7, 11
COLUMN_BYTES = 8 * N_ROWS


class Counting(Kernel):
    """The linear kernel, counting the columns that the store computes."""

    def __init__(self):
        self.n_columns = 0

    def of_products(self, products, x_norms, z_norms):
        self.n_columns += len(products)  # the store computes rows of the transpose
        return products


@pytest.fixture(scope="module")
def XZ():
    rng = np.random.default_rng(6)
    return rng.normal(size=(N_ROWS, 3)), rng.normal(size=(N_COLUMNS, 3))


def _weights(columns, n_sums=2):
    return np.random.default_rng(7).normal(size=(len(columns), n_sums))


def _assert_combines(store, XZ, *names, kernel=naive.linear):
    columns = as_indices(names)
    W = _weights(columns)
    K = naive.gram(kernel, *XZ)
    sums = store.combine(columns, W)
    assert sums.dtype == np.float64
    np.testing.assert_allclose(sums, (K[:, columns] @ W).T, rtol=1e-10, atol=1e-12)


calls = st.lists(st.lists(st.integers(0, N_COLUMNS - 1), unique=True), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(calls=calls, max_bytes=st.integers(0, 12 * COLUMN_BYTES), batch=st.integers(1, 5))
def test_any_calls_under_any_limit_give_the_dense_product(XZ, calls, max_bytes, batch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_CACHE_BATCH_BYTES", batch * COLUMN_BYTES)
        store = ColumnCache(Gram(Linear(), *XZ), max_bytes)
    for names in calls:
        _assert_combines(store, XZ, *names)
        assert 0 <= store.nbytes <= max_bytes


@pytest.mark.parametrize("of_z", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("of_x", [np.asarray, sparse.csr_array])
def test_sparse_points_combine_as_dense_ones(of_x, of_z, XZ):
    X, Z = XZ
    store = ColumnCache(Gram(RBF(0.5), of_x(X), of_z(Z)), 10**6)
    for _ in range(2):
        _assert_combines(store, XZ, 3, 0, 5, kernel=lambda x, z: naive.rbf(x, z, 0.5))


def test_columns_of_a_square_matrix(XZ):
    X, _ = XZ
    store = ColumnCache(Gram(Linear(), X), 10**6)
    _assert_combines(store, (X, X), 6, 2)


def test_each_column_is_computed_once_while_there_is_room(XZ):
    kernel = Counting()
    store = ColumnCache(Gram(kernel, *XZ), N_COLUMNS * COLUMN_BYTES)
    for names in [(0, 1, 2), (2, 1, 0), (2, 3), (0, 3, 4)]:
        _assert_combines(store, XZ, *names)
    assert kernel.n_columns == 5
    assert store.nbytes == 5 * COLUMN_BYTES


def test_columns_no_longer_named_give_way(XZ):
    kernel = Counting()
    store = ColumnCache(Gram(kernel, *XZ), 3 * COLUMN_BYTES)
    _assert_combines(store, XZ, 0, 1, 2)
    _assert_combines(store, XZ, 2, 3, 4)  # 0 and 1 make room, 2 stays
    assert kernel.n_columns == 5
    _assert_combines(store, XZ, 2, 3, 4)
    assert kernel.n_columns == 5
    _assert_combines(store, XZ, 0, 1)  # computed anew, and kept again
    _assert_combines(store, XZ, 0, 1)
    assert kernel.n_columns == 7


def test_no_room_at_all_means_computing_anew(XZ):
    kernel = Counting()
    store = ColumnCache(Gram(kernel, *XZ), 0)
    for n_computed in (3, 6):
        _assert_combines(store, XZ, 4, 5, 6)
        assert kernel.n_columns == n_computed
    assert store.nbytes == 0


def test_room_is_used_by_as_many_columns_as_fit(XZ):
    store = ColumnCache(Gram(Linear(), *XZ), 3 * COLUMN_BYTES)
    _assert_combines(store, XZ, 0, 1, 2, 3)
    assert store.nbytes == 3 * COLUMN_BYTES


def test_no_columns_make_zero_sums(XZ):
    store = ColumnCache(Gram(Linear(), *XZ), 10**6)
    nothing = store.combine(as_indices([]), np.empty((0, 2)))
    np.testing.assert_array_equal(nothing, np.zeros((2, N_ROWS)))
    _assert_combines(store, XZ, 1, 2)
    np.testing.assert_array_equal(store.combine(as_indices([]), np.empty((0, 2))), nothing)


def test_columns_of_weight_zero_are_kept_but_add_nothing(XZ):
    kernel = Counting()
    store = ColumnCache(Gram(kernel, *XZ), 10**6)
    sums = store.combine(as_indices([0, 1]), np.zeros((2, 1)))
    np.testing.assert_array_equal(sums, np.zeros((1, N_ROWS)))
    _assert_combines(store, XZ, 0, 1)
    assert kernel.n_columns == 2


def test_float32_columns_take_half_the_room(XZ):
    store = ColumnCache(Gram(Linear(), *XZ, dtype=np.float32), 10**6)
    columns = as_indices([0, 4])
    W = _weights(columns)
    sums = store.combine(columns, W)
    assert sums.dtype == np.float64
    assert store.nbytes == 2 * COLUMN_BYTES // 2
    expected = (naive.gram(naive.linear, *XZ)[:, columns] @ W).T
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)


def test_weights_and_columns_are_left_alone(XZ):
    store = ColumnCache(Gram(Linear(), *XZ), 10**6)
    columns = as_indices([5, 3])
    W = _weights(columns)
    before = columns.copy(), W.copy()
    store.combine(columns, W)
    np.testing.assert_array_equal(columns, before[0])
    np.testing.assert_array_equal(W, before[1])


def test_indices_of_an_empty_list_can_index():
    assert np.arange(3)[as_indices([])].shape == (0,)
