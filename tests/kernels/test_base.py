import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import naive
from kernlet import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram, kernel_matrix
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid


def _laplacian(X, Z):
    return np.exp(-np.abs(X[:, None, :] - Z[None, :, :]).sum(axis=-1))


class Laplacian(Kernel):
    """A kernel that is not a function of inner products."""

    is_translation_invariant = True

    def of_products(self, products, x_norms, z_norms):
        raise AssertionError("never asked for: evaluate is overridden")

    def evaluate(self, X, Z, x_norms, z_norms):
        return _laplacian(X, Z)


class Distance(Kernel):
    """|x - z|^2, which shows the products and norms that a formula receives."""

    def of_products(self, products, x_norms, z_norms):
        assert x_norms.shape == (len(products), 1)
        assert z_norms.shape == (1, products.shape[1])
        return x_norms + z_norms - 2 * products


CONTAINERS = [np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_array]


@pytest.fixture
def XZ():
    rng = np.random.default_rng(1)
    return rng.normal(size=(6, 3)), rng.normal(size=(4, 3))


def test_kernel_that_overrides_evaluate(XZ):
    X, Z = XZ
    K = naive.gram(naive.laplacian, X, Z)
    np.testing.assert_allclose(Laplacian()(X, Z), K)
    np.testing.assert_allclose(Gram(Laplacian(), X, Z).dot(np.ones(4)), K.sum(axis=1))


def test_expansion_over_a_kernel_that_overrides_evaluate(XZ):
    X, Z = XZ
    coef = np.array([[1.0, -2.0, 0.5, 3.0]])
    f = KernelExpansion(Laplacian(), Z, coef, np.array([0.25]))
    expected = naive.gram(naive.laplacian, X, Z) @ coef.T + 0.25
    np.testing.assert_allclose(f.decision_values(X), expected)


def test_kernel_may_override_evaluate_alone_as_the_docstring_says(XZ):
    class EvaluateOnly(Kernel):
        def evaluate(self, X, Z, x_norms, z_norms):
            return _laplacian(X, Z)

    np.testing.assert_allclose(EvaluateOnly()(*XZ), naive.gram(naive.laplacian, *XZ))


def test_kernel_without_a_formula_is_refused():
    class Formless(Kernel):
        pass

    with pytest.raises(TypeError, match="Formless must define of_products or evaluate"):
        Formless()(np.ones((1, 1)), np.ones((1, 1)))


@pytest.mark.parametrize("of_z", CONTAINERS)
@pytest.mark.parametrize("of_x", CONTAINERS)
def test_formula_receives_products_and_norms_from_any_container(of_x, of_z, XZ):
    X, Z = XZ
    values = Distance()(of_x(X), of_z(Z))
    assert type(values) is np.ndarray
    np.testing.assert_allclose(values, naive.gram(naive.squared_distance, X, Z))


KERNELS = [
    Linear(),
    RBF(0.7),
    RBF(0.05),
    RationalQuadratic(0.7, 1.3),
    Polynomial(0.5, 1, 0.3),
    Polynomial(0.5, 2),
    Polynomial(0.5, 3, 1.0),
    Polynomial(0.5, 2, -1.0),
    Sigmoid(0.3, -0.2),
]
all_kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
quickly = settings(max_examples=15, deadline=None)
N_X, N_Z, N_FEATURES = 3, 4, 2


def _numbers(shape, low, high):
    return arrays(np.float64, shape, elements=st.floats(low, high, allow_subnormal=False))


points = st.tuples(_numbers((N_X, N_FEATURES), -2, 2), _numbers((N_Z, N_FEATURES), -2, 2))
weights = _numbers((N_X, N_Z), -3, 3)
# norms and products of no point in particular, but never at the distance 0, where RBF is held
free = st.tuples(
    _numbers((N_X, N_Z), -2, 2), _numbers((N_X, 1), 2.1, 4), _numbers((1, N_Z), 2.1, 4)
)


def _weighted_sum(kernel, weights, X, Z):
    return float(np.sum(weights * naive.gram(naive.twin(kernel), X, Z)))


@all_kernels
@quickly
@given(XZ=points)
def test_values_are_the_formula(kernel, XZ):
    expected = naive.gram(naive.twin(kernel), *XZ)
    np.testing.assert_allclose(kernel.values_and_gradient(*XZ)[0], expected, rtol=1e-10, atol=1e-12)


@all_kernels
@quickly
@given(at=free)
def test_slopes_are_derivatives_by_product_and_by_norm(kernel, at):
    products, x_norms, z_norms = at
    h = 1e-5

    def difference(by_product, by_norm):
        up, down = (
            kernel.of_products(products + s * by_product, x_norms + s * by_norm, z_norms)
            for s in (h, -h)
        )
        return (up - down) / (2 * h)

    derivatives = kernel.derivatives(products, x_norms, z_norms)
    np.testing.assert_allclose(derivatives.by_product, difference(1, 0), rtol=1e-6, atol=1e-7)
    by_norm = np.broadcast_to(derivatives.by_norm, products.shape)
    np.testing.assert_allclose(by_norm, difference(0, 1), rtol=1e-6, atol=1e-7)


@all_kernels
@quickly
@given(at=free)
def test_slopes_keep_their_arguments(kernel, at):
    before = [a.copy() for a in at]
    kernel.derivatives(*at)
    for a, copy in zip(at, before, strict=True):
        np.testing.assert_array_equal(a, copy)


@all_kernels
@quickly
@given(XZ=points, weights=weights)
def test_gradient_is_that_of_the_weighted_sum(kernel, XZ, weights):
    X, Z = XZ
    found = kernel.values_and_gradient(X, Z)[1](weights)
    expected = naive.derivative(lambda A: _weighted_sum(kernel, weights, A, Z), X)
    assert found.shape == X.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@all_kernels
@quickly
@given(X=_numbers((N_X, N_FEATURES), -2, 2), coef=_numbers(N_X, -3, 3))
def test_twice_the_gradient_is_that_of_a_norm(kernel, X, coef):
    weights = np.outer(coef, coef)
    found = 2 * kernel.values_and_gradient(X, X)[1](weights)
    expected = naive.derivative(lambda A: _weighted_sum(kernel, weights, A, A), X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-5)


@all_kernels
def test_rows_without_weight_are_not_pulled(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(N_X, N_FEATURES)), rng.normal(size=(N_Z, N_FEATURES))
    weights = rng.normal(size=(N_X, N_Z))
    weights[1] = 0.0
    found = kernel.values_and_gradient(X, Z)[1](weights)
    np.testing.assert_array_equal(found[1], 0.0)
    assert np.all(found[[0, 2]] != 0)


def test_rbf_is_flat_at_the_point_itself():
    X = np.random.default_rng(0).normal(size=(5, 3))
    found = RBF(2.0).values_and_gradient(X, X)[1](np.eye(5))
    np.testing.assert_allclose(found, 0.0, atol=1e-12)


def test_a_kernel_without_slopes_says_so():
    class Flat(Kernel):
        pass

    with pytest.raises(TypeError, match="Flat has no derivatives: define derivatives"):
        Flat().values_and_gradient(np.zeros((1, 2)), np.zeros((1, 2)))


def test_a_fractional_degree_cannot_be_saved():
    """The degree in a file is an integer: 2.5 must not become 2."""
    with pytest.raises(ValueError, match=r"kernel.degree must be an integer to be saved, not 2.5"):
        Polynomial(1.0, 2.5, 0.0).to_dict()


@pytest.mark.parametrize("kernel", [RBF(1e200), Polynomial(1e200)], ids=str)
def test_widths_that_float32_cannot_hold_need_float64(kernel):
    """The norms of points of 1e-100 are 0 in float32, which would look small enough."""
    assert not kernel.fits_float32(0.0)
    X = 1e-100 * np.random.RandomState(0).randn(30, 2)
    K = kernel_matrix(kernel, X, X, dtype=np.float32)
    assert np.isfinite(K).all()
    assert K.std() > 0
