"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Floats
from kernlet.kernels.base import FLOAT32_LARGEST, Derivatives, Kernel


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel, ``k(x, z) = x.z``.

    Examples
    --------
    >>> from kernlet.kernels.linear import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    name: ClassVar[str] = "linear"

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """x.z."""
        return products

    def derivatives(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Derivatives:
        """x.z, 1 and 0."""
        return Derivatives(products, np.ones_like(products), 0.0)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of x.z stays small."""
        return largest_norm < FLOAT32_LARGEST

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """x.z = step x.(z / step)."""
        return self, step

    def c_code(self, s: str) -> str:
        """The inner product itself."""
        return f"return {s};"

    def js_code(self, s: str) -> str:
        """The inner product itself."""
        return s

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """X Z'."""
        return str(graph.node("MatMul", x, graph.floats(centers.T)))
