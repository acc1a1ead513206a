"""What every kernel offers."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from kernlet._typing import Floats

#: Numbers below this keep three digits behind the point in float32.
FLOAT32_LARGEST = 1e3


class Slopes(NamedTuple):
    """Values k of a kernel, dk / d(x.z) and dk / d(|x|^2), each of shape (n_x, n_z)."""

    values: Floats
    by_product: Floats
    by_norm: Floats | float


class Kernel:
    """A kernel k(x, z), as a frozen value.

    A subclass states its formula once, in :meth:`of_products`, in terms of the inner
    products x.z and the squared norms |x|^2 and |z|^2. A kernel that is no function
    of these (a Laplacian kernel, say) overrides :meth:`evaluate` instead.

    Blocks of kernel values are never formed here: :mod:`kernlet.kernels.gram` does that.
    """

    #: Whether every Gram matrix of the kernel is positive semi-definite.
    is_mercer: ClassVar[bool] = True
    #: Whether k(x + a, z + a) = k(x, z) for every a. Such kernels are evaluated about
    #: the median of the points, which keeps float32 right far from the origin.
    is_translation_invariant: ClassVar[bool] = False

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """Kernel values from inner products.

        Parameters
        ----------
        products : ndarray of shape (n_x, n_z)
            Inner products x.z; may be overwritten with the answer.
        x_norms : ndarray of shape (n_x, 1)
            Squared norms of the x.
        z_norms : ndarray of shape (1, n_z)
            Squared norms of the z.

        Returns
        -------
        values : ndarray of shape (n_x, n_z)
        """
        raise TypeError(f"{type(self).__name__} must define of_products or evaluate.")

    def slopes(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Slopes:
        """Kernel values with their derivatives by x.z and by |x|^2; the arguments are kept.

        The gradient of k(x, z) by x is by_product z + 2 by_norm x.
        """
        raise TypeError(f"{type(self).__name__} does not say its derivatives: define slopes.")

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether float32 gives about three digits of k for points of this squared norm.

        False, which is always safe, unless a kernel knows better.
        """
        return False

    def evaluate(self, X: Any, Z: Any, x_norms: Floats, z_norms: Floats) -> Floats:
        """Kernel values for two small sets of points, dense or sparse."""
        return self.of_products(_inner_products(X, Z), x_norms, z_norms)

    def __call__(self, X: Any, Z: Any) -> Floats:
        """Kernel matrix between the rows of X and the rows of Z."""
        from kernlet.kernels.gram import kernel_matrix

        return kernel_matrix(self, X, Z)


def least_exponent(dtype: Any) -> float:
    """The least exponent whose exponential, times what it meets, has all its digits.

    Processors are up to a hundred times slower with smaller numbers: 1e-26 is taken for less in
    float32, 1e-300 in float64.
    """
    return -60.0 if dtype == np.float32 else -690.0


def require_mercer(kernel: Kernel, what: str) -> None:
    """Refuse a kernel that has no feature space where a method rests on one.

    Parameters
    ----------
    kernel : Kernel
    what : str
        What needs it, as the subject of a sentence.

    Examples
    --------
    >>> from kernlet.kernels.sigmoid import Sigmoid
    >>> from kernlet.kernels.base import require_mercer
    >>> require_mercer(Sigmoid(1.0), "A norm in feature space")
    Traceback (most recent call last):
        ...
    ValueError: A norm in feature space needs a positive semi-definite kernel, ...
    """
    if not kernel.is_mercer:
        raise ValueError(
            f"{what} needs a positive semi-definite kernel, which {kernel!r} is not. Use "
            "another kernel, such as rbf."
        )


def _inner_products(X: Any, Z: Any) -> Floats:
    """X Z' as a dense array, whichever of the two is sparse."""
    if isinstance(X, np.ndarray) and not isinstance(Z, np.ndarray):
        return np.asarray((Z @ X.T).T)
    products = X @ Z.T
    return products if isinstance(products, np.ndarray) else products.toarray()


def evaluate_slopes(kernel: Kernel, X: Floats, Z: Floats) -> Slopes:
    """Kernel values and slopes between two small dense sets of points."""
    x_norms, z_norms = (np.einsum("ij,ij->i", A, A) for A in (X, Z))
    return kernel.slopes(X @ Z.T, x_norms[:, None], z_norms[None, :])


def gradient(slopes: Slopes, weights: Floats, X: Floats, Z: Floats) -> Floats:
    """sum_j weights[i, j] dk(x_i, z_j)/dx_i, one row for each x_i.

    Parameters
    ----------
    slopes : Slopes
        Of (X, Z).
    weights : ndarray of shape (n_x, n_z)
    X, Z : ndarray of shapes (n_x, n_features) and (n_z, n_features)

    Returns
    -------
    gradient : ndarray of shape (n_x, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.linear import Linear
    >>> from kernlet.kernels.base import evaluate_slopes, gradient
    >>> X, Z = np.array([[1.0, 0.0]]), np.array([[2.0, 3.0]])
    >>> gradient(evaluate_slopes(Linear(), X, Z), np.array([[10.0]]), X, Z)
    array([[20., 30.]])
    """
    pulled: Any = (weights * slopes.by_product) @ Z
    by_norm = np.sum(weights * slopes.by_norm, axis=1, keepdims=True)
    return pulled + 2.0 * by_norm * X
