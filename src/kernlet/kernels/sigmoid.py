"""The sigmoid kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Floats
from kernlet.kernels.base import FLOAT32_LARGEST, LARGEST_PARAMETER, Derivatives, Kernel


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """Sigmoid kernel, ``k(x, z) = tanh(gamma x.z + coef0)``.

    Its Gram matrix is not positive semi-definite in general. Methods that need a feature space
    refuse it; the linear-programming machines, which need none, accept it.

    Parameters
    ----------
    gamma : float
        Factor of the inner product.
    coef0 : float, default=0.0
        What is added to the inner product.

    Examples
    --------
    >>> from kernlet.kernels.sigmoid import Sigmoid
    >>> Sigmoid(gamma=1.0)([[1.0]], [[0.5]]).round(3)
    array([[0.462]])
    """

    gamma: float
    coef0: float = 0.0
    name: ClassVar[str] = "sigmoid"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "gamma": (-LARGEST_PARAMETER, LARGEST_PARAMETER),
        "coef0": (-LARGEST_PARAMETER, LARGEST_PARAMETER),
    }
    is_mercer: ClassVar[bool] = False

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """tanh(gamma x.z + coef0)."""
        products *= self.gamma
        products += self.coef0
        return np.tanh(products, out=products)

    def derivatives(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Derivatives:
        """k, gamma (1 - k^2) and 0."""
        values = np.tanh(self.gamma * products + self.coef0)
        return Derivatives(values, self.gamma * (1 - values**2), 0.0)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma x.z stays small."""
        return max(1.0, abs(self.gamma)) * largest_norm < FLOAT32_LARGEST

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """Gamma x.z = (gamma step) x.(z / step)."""
        return replace(self, gamma=self.gamma * step), 1.0

    def c_code(self, s: str) -> str:
        """hyperbolic_tangent is part of the C template: tanhf by way of EXP."""
        gamma, coef0 = self.c_parameter("gamma"), self.c_parameter("coef0")
        return f"return hyperbolic_tangent({gamma} * {s} + {coef0});"

    def js_code(self, s: str) -> str:
        """tanh(gamma x.z + coef0)."""
        gamma, coef0 = self.js_parameter("gamma"), self.js_parameter("coef0")
        return f"Math.tanh({gamma} * {s} + {coef0})"

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """tanh(gamma X Z' + coef0)."""
        scaled = graph.floats(self.gamma * centers.T)
        q = graph.node("Gemm", x, scaled, graph.floats(np.full(len(centers), self.coef0)))
        return str(graph.node("Tanh", q))
