"""The Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from scipy.sparse import issparse
from scipy.spatial.distance import cdist

from kernlet._typing import Array, Floats
from kernlet.kernels.base import FLOAT32_LARGEST, Kernel, Slopes, least_exponent

_ENOUGH_DIGITS = 1e6  # gamma |x|^2 below this leaves ten digits of k in float64


@dataclass(frozen=True)
class RBF(Kernel):
    """k(x, z) = exp(-gamma |x - z|^2).

    Examples
    --------
    >>> from kernlet.kernels.rbf import RBF
    >>> RBF(gamma=1.0)([[0.0], [1.0]], [[0.0]]).round(3)
    array([[1.   ],
           [0.368]])
    """

    gamma: float
    is_translation_invariant: ClassVar[bool] = True

    def slopes(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Slopes:
        """k, 2 gamma k and -gamma k."""
        values = self.of_products(products.copy(), x_norms, z_norms)
        return Slopes(values, 2 * self.gamma * values, -self.gamma * values)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma |x - z|^2 stays small."""
        return self.gamma * largest_norm < FLOAT32_LARGEST and largest_norm < 1e30

    def evaluate(self, X: Any, Z: Any, x_norms: Floats, z_norms: Floats) -> Floats:
        """Values by inner products, or by differences where these would lose the digits."""
        largest = max(x_norms.max(initial=0.0), z_norms.max(initial=0.0))
        if self.gamma * largest < _ENOUGH_DIGITS:
            return super().evaluate(X, Z, x_norms, z_norms)
        X, Z = (A.toarray() if issparse(A) else A for A in (X, Z))
        return np.exp(-self.gamma * cdist(X, Z, "sqeuclidean")).astype(x_norms.dtype, copy=False)

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """exp(-gamma (|x|^2 + |z|^2 - 2 x.z)), a rounded negative distance taken as 0.

        Values too small for fast arithmetic are taken as the least that is not.
        """
        products *= -2
        products += x_norms
        products += z_norms
        products *= -self.gamma
        np.clip(products, least_exponent(products.dtype), 0, out=products)
        return np.exp(products, out=products)


#: An array of any library that follows the array API standard: numpy, torch and others.

_LEAST = -60.0


def row_products(A: Array, B: Array) -> Array:
    """Inner products of the rows of A with those of B."""
    xp = array_namespace(A)
    if is_numpy_array(A):
        return xp.vecdot(A, B)
    return xp.sum(A * B, axis=1)  # torch would make a product of matrices of every pair


def lifted_rows(U: Array) -> Array:
    """(u, |u|^2, 1) of every row u."""
    xp = array_namespace(U)
    squares = row_products(U, U)[:, None]
    return xp.concat([U, squares, xp.ones_like(squares)], axis=1)


def lifted_centers(Z: Array, gamma: Array) -> Array:
    """(2 gamma z, -gamma, -gamma |z|^2) of every center z, for one gamma or one a center."""
    xp = array_namespace(Z)
    squares = row_products(Z, Z)[:, None]
    gamma = gamma[:, None] * xp.ones_like(squares)
    return xp.concat([2 * gamma * Z, -gamma, -gamma * squares], axis=1)


def gaussian(rows: Array, centers: Array) -> Array:
    """Kernel values between lifted rows and lifted centers.

    An exponent that was rounded to more than 0 is taken as 0. One below -60 is taken as -60:
    smaller values of float32 soon have less than all their digits, and products with those are
    a hundred times slower.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import gaussian, lifted_centers, lifted_rows
    >>> rows, centers = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> gaussian(lifted_rows(rows), lifted_centers(centers, np.array([1.0]))).round(3)
    array([[1.   ],
           [0.368]])
    """
    xp = array_namespace(rows)
    return xp.exp(xp.clip(rows @ centers.T, _LEAST, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class CenterWidths(Kernel):
    """k(x, z_j) = exp(-gamma_j |x - z_j|^2): a width of its own for every center.

    No kernel in the strict sense, since it depends on the number of the center and not on where
    it lies alone: the centers cannot be taken in another order, and there is no feature space.

    Parameters
    ----------
    gamma : ndarray of shape (n_centers,)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.rbf import CenterWidths
    >>> CenterWidths(np.array([1.0, 0.0]))([[1.0]], [[0.0], [0.0]]).round(3)
    array([[0.368, 1.   ]])
    """

    gamma: Floats
    is_mercer: ClassVar[bool] = False
    is_translation_invariant: ClassVar[bool] = True

    def __repr__(self) -> str:
        low, high = (f"{value:.3g}" for value in (self.gamma.min(), self.gamma.max()))
        return f"CenterWidths({len(self.gamma)} widths, gamma {low} to {high})"

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma |x - z|^2 stays small."""
        return float(self.gamma.max()) * largest_norm < FLOAT32_LARGEST and largest_norm < 1e30

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """exp(-gamma_j (|x|^2 + |z|^2 - 2 x.z)), a rounded negative distance taken as 0."""
        if products.shape[1] != len(self.gamma):
            raise ValueError(
                f"These are the widths of {len(self.gamma)} centers; there are {products.shape[1]}."
            )
        products *= -2
        products += x_norms
        products += z_norms
        products *= -self.gamma.astype(products.dtype)
        np.clip(products, least_exponent(products.dtype), 0, out=products)
        return np.exp(products, out=products)
