import numpy as np
import pytest
from scipy import sparse

import naive
from kernlet import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import Gram


def _laplacian(X, Z):
    return np.exp(-np.abs(X[:, None, :] - Z[None, :, :]).sum(axis=-1))


class Laplacian(Kernel):
    """A kernel that is no function of inner products."""

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
