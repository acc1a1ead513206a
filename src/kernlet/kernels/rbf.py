"""The Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist

from kernlet.kernels.kernel import FLOAT32_LARGEST, Floats, Kernel, Slopes, least_exponent

_ENOUGH_DIGITS = 1e6  # gamma |x|^2 below this leaves ten digits of k in float64


@dataclass(frozen=True)
class RBF(Kernel):
    """k(x, z) = exp(-gamma |x - z|^2).

    Examples
    --------
    >>> from kernlet.kernels import RBF
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
