"""The Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernlet.kernels.kernel import FLOAT32_SAFE, Floats, Kernel


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

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma |x - z|^2 stays small."""
        return self.gamma * largest_norm < 1e3 and largest_norm < FLOAT32_SAFE

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """exp(-gamma (|x|^2 + |z|^2 - 2 x.z)), a rounded negative distance taken as 0."""
        products *= -2
        products += x_norms
        products += z_norms
        np.maximum(products, 0, out=products)
        products *= -self.gamma
        return np.exp(products, out=products)
