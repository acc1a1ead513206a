"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass

from kernlet.kernels.kernel import FLOAT32_SAFE, Floats, Kernel


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = x.z.

    Examples
    --------
    >>> from kernlet.kernels import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether x.z stays in range."""
        return largest_norm < FLOAT32_SAFE

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """x.z."""
        return products
