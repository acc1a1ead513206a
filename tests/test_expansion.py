from dataclasses import FrozenInstanceError

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

import naive
from kernlet import KernelExpansion
from kernlet.affine import AffineMap
from kernlet.expansion import distinct_rows
from kernlet.kernels import gram as gram_module
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]
every_container = pytest.mark.parametrize("container", CONTAINERS)

GAMMA = 0.5
RNG = np.random.default_rng(8)
ROWS = RNG.normal(loc=1.0, size=(7, 3)) * (RNG.random((7, 3)) < 0.7)
CENTERS = RNG.normal(loc=1.0, size=(4, 3)) * (RNG.random((4, 3)) < 0.7)
COEF = RNG.normal(size=(2, 4))
INTERCEPT = np.array([0.5, -2.0])


def _expansion(centers=CENTERS):
    return KernelExpansion(RBF(GAMMA), centers, COEF, INTERCEPT)


def _naive_values(X=ROWS, centers=CENTERS):
    return naive.gram(lambda x, z: naive.rbf(x, z, GAMMA), X, centers) @ COEF.T + INTERCEPT


@pytest.mark.parametrize("of_centers", CONTAINERS)
@pytest.mark.parametrize("of_rows", CONTAINERS)
def test_decision_values_are_the_sum(of_rows, of_centers):
    values = _expansion(of_centers(CENTERS)).decision_values(of_rows(ROWS))
    assert values.shape == (7, 2)
    np.testing.assert_allclose(values, _naive_values(), rtol=1e-12)


def test_decision_values_by_small_blocks(monkeypatch):
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 1)
    np.testing.assert_allclose(_expansion().decision_values(ROWS), _naive_values(), rtol=1e-12)


@every_container
def test_float32_rows_give_nearly_the_values_of_float64_rows(container):
    values = _expansion().decision_values(container(ROWS.astype(np.float32)))
    np.testing.assert_allclose(values, _naive_values(), rtol=1e-5, atol=1e-5)


def test_float32_rows_are_computed_in_float32():
    seen = []

    class Spy(RBF):
        def of_products(self, products, x_norms, z_norms):
            seen.append(products.dtype)
            return super().of_products(products, x_norms, z_norms)

    f = KernelExpansion(Spy(GAMMA), CENTERS, COEF, INTERCEPT)
    f.decision_values(ROWS.astype(np.float32))
    f.decision_values(ROWS)
    assert seen == [np.float32, np.float64]


def test_float32_rows_far_from_the_origin_keep_their_decision_values():
    rows, centers = (np.round(A * 256) / 256 for A in (ROWS, CENTERS))  # exact after the shift
    values = _expansion(centers + 1e4).decision_values((rows + 1e4).astype(np.float32))
    np.testing.assert_allclose(values, _naive_values(rows, centers), rtol=1e-5, atol=1e-5)


def test_whole_numbers_are_rows_too():
    X = np.array([[0, 1, 2], [3, 0, 1]])
    np.testing.assert_allclose(_expansion().decision_values(X), _naive_values(X), rtol=1e-12)


def test_one_output():
    f = KernelExpansion(Polynomial(1.0, 2, 1.0), np.array([[1.0], [2.0]]), np.ones((1, 2)), [-3.0])
    x = 2.0
    expected = (x + 1) ** 2 + (2 * x + 1) ** 2 - 3
    np.testing.assert_allclose(f.decision_values(np.array([[x]])), [[expected]])


@every_container
def test_without_centers_every_row_has_the_intercept(container):
    f = KernelExpansion(RBF(1.0), container(np.empty((0, 3))), np.empty((2, 0)), INTERCEPT)
    assert (f.n_centers, f.n_outputs, f.n_features) == (0, 2, 3)
    np.testing.assert_array_equal(f.decision_values(container(ROWS)), np.tile(INTERCEPT, (7, 1)))


@every_container
def test_no_rows_have_no_decision_values(container):
    assert _expansion().decision_values(container(np.empty((0, 3)))).shape == (0, 2)


def test_rows_of_one_column_are_refused_by_centers_of_more():
    with pytest.raises(ValueError):  # noqa: PT011
        _expansion().decision_values(ROWS[:, :1])


def test_counts():
    f = _expansion()
    assert (f.n_centers, f.n_outputs, f.n_features) == (4, 2, 3)


@pytest.mark.parametrize("shape", [(4, 2), (2, 3), (1, 4), (4,)])
def test_coef_of_the_wrong_shape_is_refused_with_a_sentence(shape):
    with pytest.raises(ValueError, match=r"2 intercepts and 4 centers need \(2, 4\)\."):
        KernelExpansion(RBF(1.0), CENTERS, np.zeros(shape), INTERCEPT)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nbytes_counts_every_number_held(dtype):
    centers, coef, intercept = (A.astype(dtype) for A in (CENTERS, COEF, INTERCEPT))
    f = KernelExpansion(RBF(1.0), centers, coef, intercept)
    assert f.nbytes == np.dtype(dtype).itemsize * (4 * 3 + 2 * 4 + 2)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
def test_nbytes_of_sparse_centers_counts_values_and_places(container):
    centers = container(CENTERS)
    tables = COEF.nbytes + INTERCEPT.nbytes
    places = centers.nnz * centers.indices.itemsize + (4 + 1) * centers.indptr.itemsize
    assert _expansion(centers).nbytes == tables + 8 * centers.nnz + places


@pytest.mark.parametrize("name", ["kernel", "centers", "coef", "intercept", "nbytes"])
def test_expansion_is_frozen(name):
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(_expansion(), name, None)


def test_decision_values_change_no_table():
    before = [A.copy() for A in (CENTERS, COEF, INTERCEPT, ROWS)]
    _expansion().decision_values(ROWS)
    for A, copy in zip((CENTERS, COEF, INTERCEPT, ROWS), before, strict=True):
        np.testing.assert_array_equal(A, copy)


# Groups of equal rows

few_values = arrays(
    np.float64,
    st.tuples(st.integers(0, 8), st.integers(1, 3)),
    elements=st.sampled_from([-1.0, -0.0, 0.0, 2.0]),
)


@settings(max_examples=60, deadline=None)
@given(X=few_values)
@every_container
def test_groups_are_the_distinct_rows_in_order_of_appearance(container, X):
    group, first = distinct_rows(container(X))
    assert len(first) == len(np.unique(X, axis=0))
    np.testing.assert_array_equal(X[first][group], X)
    assert np.all(np.diff(first) > 0)
    np.testing.assert_array_equal(group[first], np.arange(len(first)))


@every_container
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_groups_in_other_types(container, dtype):
    X = container(np.array([[1, 0], [0, 1], [1, 0], [0, 0], [0, 0]], dtype=dtype))
    group, first = distinct_rows(X)
    assert group.tolist() == [0, 1, 0, 2, 2]
    assert first.tolist() == [0, 1, 3]


def test_rows_that_share_values_but_not_places_differ():
    X = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    assert distinct_rows(X)[0].tolist() == [0, 1, 2]


# Two equal rows, each stored in another way.
SAME_ROWS = {
    "unsorted indices": ([1.0, 2.0, 2.0, 1.0], [0, 1, 1, 0], [0, 2, 4]),
    "explicit zero": ([0.0, 1.0, 1.0], [0, 1, 1], [0, 2, 3]),
    "negative zero": ([-0.0, 1.0, 0.0, 1.0], [0, 1, 0, 1], [0, 2, 4]),
    "entry stored twice": ([1.0, 1.0, 2.0], [0, 0, 0], [0, 2, 3]),
}


@pytest.mark.parametrize(
    "parts",
    [pytest.param(parts, id=name) for name, parts in SAME_ROWS.items()],
)
def test_equal_sparse_rows_are_one_group_however_stored(parts):
    group, first = distinct_rows(sparse.csr_array(parts, shape=(2, 2)))
    assert group.tolist() == [0, 0]
    assert first.tolist() == [0]


def test_grouping_leaves_sparse_rows_alone():
    X = sparse.csr_array(SAME_ROWS["unsorted indices"], shape=(2, 2))
    before = X.indices.copy()
    distinct_rows(X)
    np.testing.assert_array_equal(X.indices, before)


@pytest.mark.parametrize("of_centers", [np.asarray, sparse.csr_array])
def test_feature_norms_are_those_of_the_linear_machine(of_centers):
    """With the linear kernel an output is w.x, and its norm is that of w."""
    random = np.random.default_rng(0)
    centers, coef = random.normal(size=(5, 3)), random.normal(size=(2, 5))
    machine = KernelExpansion(Linear(), of_centers(centers), coef, np.zeros(2))
    np.testing.assert_allclose(machine.feature_norms(), np.linalg.norm(coef @ centers, axis=1))


def test_feature_norms_of_no_centers_are_zero():
    machine = KernelExpansion(RBF(1.0), np.empty((0, 3)), np.empty((2, 0)), np.ones(2))
    np.testing.assert_array_equal(machine.feature_norms(), [0.0, 0.0])


def test_a_kernel_without_a_feature_space_has_no_norms():
    machine = KernelExpansion(Sigmoid(1.0), np.ones((1, 2)), np.ones((1, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="needs a positive semi-definite kernel, which Sigmoid"):
        machine.feature_norms()


# An input map

WIDE = RNG.normal(size=(7, 5)) * (RNG.random((7, 5)) < 0.6)
INPUT_MAPS = {
    "numbers": AffineMap(0.5, 2.0),
    "rows": AffineMap(np.array([0.5, 1.0, -1.0]), np.array([2.0, 0.5, 1.0])),
    "matrix": AffineMap(0.5, 0.7, RNG.normal(size=(3, 5)) / 2),
    "all": AffineMap(RNG.normal(size=5), RNG.uniform(0.5, 1, 5), RNG.normal(size=(3, 5)) / 2),
}
every_map = pytest.mark.parametrize("name", INPUT_MAPS)


def _fronted(name, kernel=None, centers=CENTERS):
    machine = KernelExpansion(kernel or RBF(GAMMA), centers, COEF, INTERCEPT, INPUT_MAPS[name])
    return machine, (ROWS if INPUT_MAPS[name].matrix is None else WIDE)


@every_map
@every_container
@pytest.mark.parametrize("of_centers", CONTAINERS)
def test_map_in_front_is_applied_to_the_rows_first(name, container, of_centers):
    machine, X = _fronted(name, centers=of_centers(CENTERS))
    expected = _naive_values(INPUT_MAPS[name](X))
    np.testing.assert_allclose(machine.decision_values(container(X)), expected, rtol=1e-10)


@every_map
@every_container
def test_map_in_front_of_float32_rows(name, container):
    machine, X = _fronted(name)
    values = machine.decision_values(container(X.astype(np.float32)))
    np.testing.assert_allclose(values, _naive_values(INPUT_MAPS[name](X)), rtol=1e-5, atol=1e-5)


def test_map_in_front_by_small_blocks(monkeypatch):
    machine, X = _fronted("all")
    expected = machine.decision_values(X)
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 1)
    np.testing.assert_allclose(machine.decision_values(X), expected, rtol=1e-12)


def test_map_in_front_works_for_any_kernel():
    machine, X = _fronted("all", kernel=Polynomial(0.5, 2, 1.0))
    plain = KernelExpansion(machine.kernel, CENTERS, COEF, INTERCEPT)
    expected = plain.decision_values(INPUT_MAPS["all"](X))
    np.testing.assert_allclose(machine.decision_values(X), expected, rtol=1e-10)


def test_features_are_those_that_the_matrix_takes():
    assert _fronted("matrix")[0].n_features == 5
    assert _fronted("numbers")[0].n_features == 3
    with pytest.raises(ValueError, match="X has 3 features, but the machine was made for 5"):
        _fronted("matrix")[0].decision_values(ROWS)


def test_matrix_to_another_width_is_refused():
    with pytest.raises(ValueError, match="gives 2 numbers per row, but the centers have 3"):
        KernelExpansion(RBF(1.0), CENTERS, COEF, INTERCEPT, AffineMap(0.0, 1.0, np.ones((2, 5))))


@every_map
def test_nbytes_counts_the_map(name):
    assert _fronted(name)[0].nbytes == _expansion().nbytes + INPUT_MAPS[name].nbytes


# Rows of another library


def _library(name):
    return array_api_strict if name == "strict" else pytest.importorskip("torch")


every_library = pytest.mark.parametrize("library", ["strict", "torch"])
every_gaussian = pytest.mark.parametrize(
    "kernel", [RBF(GAMMA), RBF(np.array([0.1, 0.3, 0.5, 0.7]))], ids=["rbf", "widths"]
)


def _assert_alike(machine, X, library):
    xp = _library(library)
    rows = xp.asarray(X)
    values = machine.decision_values(rows)
    assert type(values) is type(rows)
    assert values.dtype == xp.float32
    expected = machine.decision_values(X.astype(np.float32))
    np.testing.assert_allclose(np.from_dlpack(values), expected, rtol=1e-5, atol=1e-5)


@every_library
@every_gaussian
@every_map
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_foreign_rows_give_the_values_of_float32_rows(library, kernel, name, dtype):
    machine, X = _fronted(name, kernel)
    _assert_alike(machine, X.astype(dtype), library)


@every_library
@every_gaussian
def test_foreign_rows_without_a_map(library, kernel, monkeypatch):
    machine = KernelExpansion(kernel, CENTERS, COEF, INTERCEPT)
    _assert_alike(machine, ROWS, library)
    monkeypatch.setattr(gram_module, "BLOCK_BYTES", 1)
    _assert_alike(machine, ROWS, library)


@every_library
def test_foreign_rows_far_from_the_origin(library):
    rows, centers = (np.round(A * 256) / 256 + 1e4 for A in (ROWS, CENTERS))
    _assert_alike(_expansion(centers), rows, library)


@every_library
def test_foreign_rows_without_centers_have_the_intercept(library):
    machine = KernelExpansion(RBF(1.0), np.empty((0, 3)), np.empty((2, 0)), INTERCEPT)
    _assert_alike(machine, ROWS, library)


@pytest.mark.parametrize(
    "library",
    [
        "strict",
        "torch",
    ],
)
def test_no_foreign_rows_have_no_values(library):
    _assert_alike(_expansion(), np.empty((0, 3)), library)


@every_library
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(1.0), Sigmoid(1.0)], ids=repr)
def test_other_kernels_refuse_foreign_rows(library, kernel):
    rows = _library(library).asarray(ROWS)
    with pytest.raises(TypeError, match="computes with numpy only: convert the rows first"):
        KernelExpansion(kernel, CENTERS, COEF, INTERCEPT).decision_values(rows)


@every_library
def test_sparse_centers_refuse_foreign_rows(library):
    rows = _library(library).asarray(ROWS)
    with pytest.raises(TypeError, match="computes with numpy only"):
        _expansion(sparse.csr_array(CENTERS)).decision_values(rows)


@every_library
@pytest.mark.parametrize("shape", [(7, 2), (3,), (1, 7, 3)])
def test_foreign_rows_of_another_shape_are_refused(library, shape):
    with pytest.raises(ValueError, match="but the machine was made for rows of 3 features"):
        _expansion().decision_values(_library(library).ones(shape))


def test_many_rows_are_predicted_on_one_thread(monkeypatch):
    seen = []
    dot = gram_module.Gram.dot
    monkeypatch.setattr(
        gram_module.Gram,
        "dot",
        lambda self, coef: seen.append(threadpool_info()) or dot(self, coef),
    )
    random = np.random.RandomState(0)
    machine = KernelExpansion(RBF(1.0), random.randn(50, 4), random.randn(1, 50), np.zeros(1))
    with threadpool_limits(2):
        machine.decision_values(random.randn(10_000, 4))
        limited = seen.pop()
        machine.decision_values(random.randn(3, 4))  # too few for BLAS to start threads
        left_alone = seen.pop()
    assert {pool["num_threads"] for pool in limited} == {1}
    assert max(pool["num_threads"] for pool in left_alone) == 2
