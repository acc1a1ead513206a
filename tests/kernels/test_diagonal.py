import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from kernlet import KernelExpansion, compress
from kernlet.kernels.base import Kernel
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.gram import Gram, kernel_matrix
from kernlet.kernels.rbf import RBF
from kernlet.model.model import Model

CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array]


def make(seed=0, n_rows=7, n_centers=4, n_features=3):
    rng = np.random.default_rng(seed)
    X, Z = (rng.normal(size=(n, n_features)) for n in (n_rows, n_centers))
    weights = 2.0 ** rng.integers(-2, 3, size=Z.shape)
    gamma = rng.uniform(0.1, 2.0, n_centers) if seed % 2 else 0.7
    return X, Z, DiagonalRBF(gamma, weights)


def by_hand(X, Z, kernel):
    gamma = np.broadcast_to(kernel.gamma, len(Z))
    centers = list(zip(Z, gamma, kernel.weights, strict=True))
    return np.array([[naive.diagonal_rbf(x, *center) for center in centers] for x in X])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), distance=st.sampled_from([0.0, 10.0, 1e4]))
def test_values_are_the_formula(seed, distance):
    X, Z, kernel = make(seed)
    values = kernel(X + distance, Z + distance)
    np.testing.assert_allclose(
        values, by_hand(X + distance, Z + distance, kernel), rtol=1e-10, atol=1e-290
    )


@pytest.mark.parametrize("of_x", CONTAINERS)
@pytest.mark.parametrize("of_z", CONTAINERS)
@pytest.mark.parametrize("size", [1.0, 1e4])  # the larger by differences
def test_every_container_gives_the_same_values(of_x, of_z, size):
    X, Z, kernel = make(1)
    kernel = kernel.scaled(1 / size)[0]
    values = kernel(of_x(X * size), of_z(Z * size))
    assert type(values) is np.ndarray
    np.testing.assert_allclose(values, by_hand(X * size, Z * size, kernel), rtol=1e-10)


def test_far_points_keep_their_digits_without_a_shift():
    X, Z, kernel = make(1)
    gram = Gram(kernel, X + 1e5, Z + 1e5, shift=None)
    values = gram.block(slice(None), slice(None))
    np.testing.assert_allclose(values, by_hand(X + 1e5, Z + 1e5, kernel), rtol=1e-10)


def test_equal_weights_are_the_rbf_kernel():
    X, Z, _ = make()
    kernel = DiagonalRBF(0.7, np.full(Z.shape, 2.0))
    np.testing.assert_allclose(kernel(X, Z), RBF(1.4)(X, Z), rtol=1e-12)


def test_float32_values_are_nearly_right():
    X, Z, kernel = make(1)
    values = kernel_matrix(kernel, X, Z, dtype=np.float32)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, by_hand(X, Z, kernel), rtol=1e-4, atol=1e-6)
    machine = KernelExpansion(kernel, Z, np.ones((1, 4)), np.zeros(1))
    exact = machine.decision_values(X)
    np.testing.assert_allclose(machine.decision_values(X.astype("f4")), exact, rtol=1e-4)


def test_arrays_of_other_libraries_give_the_same_values():
    X, Z, kernel = make(1)
    machine = KernelExpansion(kernel, Z + 50, np.ones((1, 4)), np.zeros(1))
    strict = machine.decision_values(array_api_strict.asarray(X + 50))
    np.testing.assert_allclose(np.from_dlpack(strict), machine.decision_values(X + 50), rtol=1e-4)


def test_no_rows_have_no_values():
    _, Z, kernel = make()
    assert kernel(np.ones((0, 3)), Z).shape == (0, 4)


def test_kernel_comes_back_from_its_parameters():
    _, _, kernel = make(1)
    again = Kernel.from_dict(kernel.to_dict())
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert again != DiagonalRBF(kernel.gamma, kernel.weights * 2)
    assert kernel != RBF(kernel.gamma)
    assert kernel.describe() == "diagonal_rbf, gamma 0.594185 to 1.72, weights 0.25 to 4"
    assert repr(DiagonalRBF(0.5, kernel.weights)) == (
        "DiagonalRBF(RBF(gamma=0.5), 4 x 3 weights 0.25 to 4)"
    )


@pytest.mark.parametrize(
    "weights", [np.ones(3), np.float64(1.0), np.zeros((4, 3)), -np.ones((4, 3))]
)
def test_other_weights_are_refused(weights):
    with pytest.raises(ValueError, match=r"kernel\.weights must be"):
        DiagonalRBF(1.0, weights)


def test_other_centers_are_refused():
    X, Z, kernel = make()
    with pytest.raises(ValueError, match=r"weights of shape \(4, 3\); the centers have \(2, 3\)"):
        Gram(kernel, X, Z).block(slice(None), slice(2))


def test_there_is_no_feature_space():
    X, Z, kernel = make()
    machine = KernelExpansion(kernel, Z, np.ones((1, 4)), np.zeros(1))
    with pytest.raises(ValueError, match="needs a positive semi-definite kernel"):
        machine.feature_norms()
    with pytest.raises(ValueError, match="needs a positive semi-definite kernel"):
        compress(Model(machine, kind="classifier", classes=np.arange(2)), 2, X=X)


def test_large_weights_do_not_fit_float32():
    _, _, kernel = make()
    assert kernel.fits_float32(100.0)
    assert not kernel.fits_float32(1e3)
