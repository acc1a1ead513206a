from functools import partial

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernlet.kernels.rbf import augment_centers, augment_rows, gaussian_matmul


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


def test_product_of_the_lifted_points_is_the_exponent():
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
