"""Gaussians of unlike widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernlet.kernels.kernel import FLOAT32_LARGEST, Floats, Kernel, least_exponent


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
    >>> from kernlet.kernels.widths import CenterWidths
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
