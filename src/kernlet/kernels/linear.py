"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernlet._typing import Floats
from kernlet.kernels.base import FLOAT32_LARGEST, Kernel, Slopes


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = x.z.

    Examples
    --------
    >>> from kernlet.kernels.linear import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def slopes(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Slopes:
        """x.z, 1 and 0."""
        return Slopes(products, np.ones_like(products), 0.0)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of x.z stays small."""
        return largest_norm < FLOAT32_LARGEST

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """x.z."""
        return products
