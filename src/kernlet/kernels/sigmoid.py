"""The sigmoid kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernlet._typing import Floats
from kernlet.kernels.base import FLOAT32_LARGEST, Kernel, Slopes


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """k(x, z) = tanh(gamma x.z + coef0).

    Its Gram matrix is not positive semi-definite in general. Methods that rest on a
    feature space refuse it; the linear-programming machines, which use no such property,
    take it.

    Examples
    --------
    >>> from kernlet.kernels.sigmoid import Sigmoid
    >>> Sigmoid(gamma=1.0)([[1.0]], [[0.5]]).round(3)
    array([[0.462]])
    """

    gamma: float
    coef0: float = 0.0
    is_mercer: ClassVar[bool] = False

    def slopes(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Slopes:
        """k, gamma (1 - k^2) and 0."""
        values = np.tanh(self.gamma * products + self.coef0)
        return Slopes(values, self.gamma * (1 - values**2), 0.0)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma x.z stays small."""
        return max(1.0, abs(self.gamma)) * largest_norm < FLOAT32_LARGEST

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """tanh(gamma x.z + coef0)."""
        products *= self.gamma
        products += self.coef0
        return np.tanh(products, out=products)
