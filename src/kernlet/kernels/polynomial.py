"""The polynomial kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Floats
from kernlet.kernels.base import FLOAT32_LARGEST, LARGEST_PARAMETER, Derivatives, Kernel


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel, ``k(x, z) = (gamma x.z + coef0)^degree``.

    A Mercer kernel for coef0 >= 0 and whole degrees. The degree is at most 1000, because C computes
    the power by repeated multiplication.

    Parameters
    ----------
    gamma : float
        Factor of the inner product.
    degree : int, default=3
        The power.
    coef0 : float, default=0.0
        What is added to the inner product.

    Examples
    --------
    >>> from kernlet.kernels.polynomial import Polynomial
    >>> Polynomial(gamma=1.0, degree=2, coef0=1.0)([[1.0, 2.0]], [[3.0, 0.0]])
    array([[16.]])
    """

    gamma: float
    degree: int = 3
    coef0: float = 0.0
    name: ClassVar[str] = "poly"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "degree": (1, 1000),
        "gamma": (-LARGEST_PARAMETER, LARGEST_PARAMETER),
        "coef0": (-LARGEST_PARAMETER, LARGEST_PARAMETER),
    }

    @property
    def is_mercer(self) -> bool:  # type: ignore[override]
        """Whether every Gram matrix is positive semi-definite."""
        return self.gamma >= 0 and self.coef0 >= 0 and self.degree == int(self.degree)

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """(gamma x.z + coef0)^degree."""
        products *= self.gamma
        products += self.coef0
        products **= self.degree
        return products

    def derivatives(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Derivatives:
        """q^degree, gamma degree q^(degree - 1) and 0, with q = gamma x.z + coef0."""
        q = self.gamma * products + self.coef0
        below = q ** (self.degree - 1)
        return Derivatives(below * q, self.gamma * self.degree * below, 0.0)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of the largest value stays small."""
        if abs(self.gamma) > 1e30:  # norms may underflow in float32
            return False
        return abs(self.gamma) * largest_norm + abs(self.coef0) < FLOAT32_LARGEST ** (
            1 / self.degree
        )

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """Gamma x.z = (gamma step) x.(z / step)."""
        return replace(self, gamma=self.gamma * step), 1.0

    def c_code(self, s: str) -> str:
        """Repeated multiplication, which needs no library and is exact for small integers."""
        gamma, coef0 = self.c_parameter("gamma"), self.c_parameter("coef0")
        return (
            f"a = {gamma} * {s} + {coef0};\n"
            "b = a;\n"
            f"for (i = 1u; i < {int(self.degree)}u; ++i) {{\n"
            "    b *= a;\n"
            "}\n"
            "return b;"
        )

    def js_code(self, s: str) -> str:
        """(gamma x.z + coef0)^degree."""
        gamma, coef0 = self.js_parameter("gamma"), self.js_parameter("coef0")
        return f"({gamma} * {s} + {coef0}) ** {int(self.degree)}"

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """(gamma X Z' + coef0)^degree."""
        scaled = graph.floats(self.gamma * centers.T)
        q = graph.node("Gemm", x, scaled, graph.floats(np.full(len(centers), self.coef0)))
        return str(graph.node("Pow", q, graph.scalar(float(self.degree))))
