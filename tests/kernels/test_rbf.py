import warnings
from functools import partial

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet import KernelExpansion
from kernlet.kernels.gram import Gram, kernel_matrix
from kernlet.kernels.rbf import RBF, augment_centers, augment_rows, gaussian_matmul


def make(seed, n_rows=6, n_centers=4, n_features=3):
    random = np.random.default_rng(seed)
    X, Z = (random.normal(size=(n, n_features)) for n in (n_rows, n_centers))
    return X, Z, random.uniform(0.1, 2.0, n_centers)


def values(X, Z, gamma):
    return gaussian_matmul(augment_rows(X), augment_centers(Z, gamma))


def test_one_width_is_the_rbf_kernel():
    X, Z, _ = make(0)
    expected = naive.gram(partial(naive.rbf, gamma=0.7), X, Z)
    np.testing.assert_allclose(values(X, Z, np.array([0.7])), expected, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_center_has_its_own_width(seed):
    X, Z, gamma = make(seed)
    expected = [[naive.rbf(x, z, g) for z, g in zip(Z, gamma, strict=True)] for x in X]
    floor = np.exp(-60.0)  # smaller values are taken as this one
    np.testing.assert_allclose(values(X, Z, gamma), np.maximum(expected, floor), rtol=1e-11)


def test_product_of_the_augmented_points_is_the_exponent():
    X, Z, gamma = make(1)
    rows, centers = augment_rows(X), augment_centers(Z, gamma)
    assert (rows.shape, centers.shape) == ((6, 5), (4, 5))
    expected = -gamma * naive.gram(naive.squared_distance, X, Z)
    np.testing.assert_allclose(rows @ centers.T, expected, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), distance=st.sampled_from([0.0, 10.0, 1000.0]))
def test_rounding_never_lifts_a_value_above_one(seed, distance):
    X = (make(seed)[0] + distance).astype(np.float32)
    K = values(X, X, np.array([0.5], dtype=np.float32))
    assert K.max() <= 1.0
    assert K.min() >= 0.0


def test_float32_stays_float32():
    assert values(*(a.astype(np.float32) for a in make(2))).dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 4), (6, 0)])
def test_sets_of_no_points_have_no_values(shape):
    X, Z = np.ones((shape[0], 2)), np.ones((shape[1], 2))
    assert values(X, Z, np.array([1.0])).shape == shape


def test_strict_arrays_give_the_values_of_numpy():
    parts = make(3)
    strict = values(*(array_api_strict.asarray(a) for a in parts))
    np.testing.assert_allclose(np.from_dlpack(strict), values(*parts), rtol=1e-14)


CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]
RNG = np.random.default_rng(6)
X, Z = RNG.normal(size=(7, 3)), RNG.normal(size=(4, 3))
GAMMA = np.array([0.1, 0.5, 1.0, 2.0])
BY_HAND = np.array([[naive.rbf(x, z, g) for z, g in zip(Z, GAMMA, strict=True)] for x in X])


@pytest.mark.parametrize("of_x", CONTAINERS)
@pytest.mark.parametrize("of_z", CONTAINERS)
def test_every_column_has_its_own_width(of_x, of_z):
    np.testing.assert_allclose(RBF(GAMMA)(of_x(X), of_z(Z)), BY_HAND, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_widths_are_the_rbf_kernel(dtype):
    equal = kernel_matrix(RBF(np.full(4, 0.7)), X, Z, dtype=dtype)
    assert equal.dtype == dtype
    np.testing.assert_allclose(equal, kernel_matrix(RBF(0.7), X, Z, dtype=dtype), rtol=1e-6)


def test_float32_values_are_nearly_right():
    values = kernel_matrix(RBF(GAMMA), X, Z, dtype=np.float32)
    np.testing.assert_allclose(values, BY_HAND, rtol=1e-5, atol=1e-6)


def test_values_far_from_the_origin_keep_their_digits():
    near, centers = (np.round(A * 256) / 256 for A in (X, Z))
    far = kernel_matrix(
        RBF(GAMMA), (near + 1e4).astype("f4"), (centers + 1e4).astype("f4"), dtype="f4"
    )
    np.testing.assert_allclose(far, RBF(GAMMA)(near, centers), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_centers", [1, 3, 5])
def test_another_number_of_centers_is_refused(n_centers):
    with pytest.raises(ValueError, match=f"widths of 4 centers; there are {n_centers}"):
        RBF(GAMMA)(X, np.ones((n_centers, 3)))


def test_some_of_the_centers_are_refused():
    with pytest.raises(ValueError, match="widths of 4 centers; there are 2"):
        Gram(RBF(GAMMA), X, Z).block(slice(None), slice(2))


def test_wide_gaussians_at_large_norms_do_not_fit_float32():
    kernel = RBF(GAMMA)
    assert kernel.fits_float32(100.0)
    assert not kernel.fits_float32(1e3)
    assert not RBF(np.array([1e-30])).fits_float32(1e31)


def test_there_is_no_feature_space():
    machine = KernelExpansion(RBF(GAMMA), Z, np.ones((1, 4)), np.zeros(1))
    with pytest.raises(ValueError, match="needs a positive semi-definite kernel"):
        machine.feature_norms()


def test_repr_gives_the_range_and_not_every_width():
    assert repr(RBF(GAMMA)) == "RBF(4 widths, gamma 0.1 to 2)"


def test_no_warning_where_gamma_is_zero_and_distances_are_infinite():
    X = np.array([[1e200], [-1e200]])
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("error")
        RBF(0.0).evaluate(X, X, *np.full((2, 1, 2), np.inf))
