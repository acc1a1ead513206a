"""The rational quadratic kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Array, Floats, Matrix
from kernlet.devices import Device, array_namespace
from kernlet.kernels.base import (
    FLOAT32_LARGEST,
    LARGEST_PARAMETER,
    Derivatives,
    Kernel,
    c_float,
)
from kernlet.kernels.gram import inner_products
from kernlet.kernels.rbf import (
    LEAST_GAMMA_C,
    RBF,
    augment_centers,
    augment_rows,
    distances_by_differences,
    widths_of_centers,
)

# Beyond this alpha the kernel is the Gaussian in float32: they differ by 0.27 / alpha at most.
_GAUSSIAN_ALPHA = 1e7


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Kernel):
    """k(x, z) = (1 + gamma |x - z|^2 / alpha)^-alpha.

    A mixture of Gaussians of all widths: near z like exp(-gamma |x - z|^2), far from it a power of
    the distance. For large alpha it is the Gaussian.

    Parameters
    ----------
    gamma : float or ndarray of shape (n_centers,)
        One width, or one for each center, as in :class:`kernlet.kernels.rbf.RBF`.
    alpha : float

    Examples
    --------
    >>> from kernlet.kernels.rational_quadratic import RationalQuadratic
    >>> RationalQuadratic(gamma=1.0, alpha=1.0)([[0.0], [1.0]], [[0.0]])
    array([[1. ],
           [0.5]])
    """

    gamma: float | Floats
    alpha: float = 1.0
    name: ClassVar[str] = "rational_quadratic"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "gamma": (0.0, LARGEST_PARAMETER),
        "alpha": (1e-6, LARGEST_PARAMETER),
    }
    is_translation_invariant: ClassVar[bool] = True

    @property
    def is_mercer(self) -> bool:  # type: ignore[override]
        """Whether there is one width for all centers."""
        return np.ndim(self.gamma) == 0

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """exp(-alpha log(1 + gamma D / alpha)), a rounded negative distance D taken as 0."""
        products *= -2
        products += x_norms
        products += z_norms
        np.maximum(products, 0, out=products)
        return self._of_distances(products)

    def _of_distances(self, distances: Floats) -> Floats:
        """Kernel values of squared distances, which are overwritten."""
        distances *= widths_of_centers(self.gamma, distances) / self.alpha
        np.log1p(distances, out=distances)
        distances *= -self.alpha
        return np.exp(distances, out=distances)

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """Values by inner products, or by differences where these would lose the digits."""
        distances = distances_by_differences(self.gamma, X, Z, x_norms, z_norms)
        if distances is None:
            return self.of_products(inner_products(X, Z), x_norms, z_norms)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._of_distances(distances).astype(x_norms.dtype, copy=False)

    def derivatives(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Derivatives:
        """k, and its derivatives -gamma (1 + gamma D / alpha)^(-alpha - 1) by D = |x - z|^2."""
        distances = np.maximum(x_norms + z_norms - 2 * products, 0)
        base = 1 + widths_of_centers(self.gamma, distances) * distances / self.alpha
        values = np.exp(-self.alpha * np.log(base))
        by_distance = -widths_of_centers(self.gamma, distances) * values / base
        return Derivatives(values, -2 * by_distance, by_distance)

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma |x - z|^2 stays small."""
        gamma = float(np.max(self.gamma))
        return gamma * largest_norm < FLOAT32_LARGEST and max(gamma, largest_norm) < 1e30

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """Gamma |x - z|^2 = (gamma step^2) |x / step - z / step|^2."""
        return RationalQuadratic(self.gamma * step**2, self.alpha), 1.0

    def c_code(self, s: str) -> str:
        """The power by way of its logarithm: neither needs a library."""
        if np.min(self.gamma) < LEAST_GAMMA_C:
            s = f"({s} > 3.4e38f ? 3.4e38f : {s})"
        distance = f"{self.c_parameter('gamma')} * {s}"
        if self.alpha > _GAUSSIAN_ALPHA:
            return f"return EXP(-{distance});"
        ratio = f"{distance} * {c_float(1 / self.alpha)}"
        return f"return EXP(-{c_float(self.alpha)} * log_plus_one({ratio}));"

    def js_code(self, s: str) -> str:
        """The power by way of its logarithm, as :meth:`of_products` computes it."""
        gamma, alpha = self.js_parameter("gamma"), self.js_parameter("alpha")
        return f"Math.exp(-{alpha} * Math.log1p({gamma} / {alpha} * {s}))"

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """(1 + max(0, g |z|^2 - 2 g x.z + g |x|^2))^-alpha with g = gamma / alpha."""
        if self.alpha > _GAUSSIAN_ALPHA:
            return RBF(self.gamma).onnx_nodes(graph, x, centers)
        ratio: Floats = np.atleast_1d(self.gamma).astype(float) / self.alpha
        squares = np.einsum("ij,ij->i", centers, centers)
        products = graph.node(
            "Gemm", x, graph.floats(-2 * ratio * centers.T), graph.floats(ratio * squares)
        )
        norms = graph.node("ReduceSum", graph.node("Mul", x, x), graph.integers([1]), keepdims=1)
        ratios = graph.node("Add", products, graph.node("Mul", norms, graph.floats(ratio)))
        base = graph.node("Add", graph.node("Relu", ratios), graph.scalar(1.0))
        return str(graph.node("Pow", base, graph.scalar(-self.alpha)))

    def onnx_of_distances(self, graph: Any, distances: str) -> str:
        """The same of squared distances that are not negative."""
        if self.alpha > _GAUSSIAN_ALPHA:
            return RBF(self.gamma).onnx_of_distances(graph, distances)
        ratio = graph.floats(np.atleast_1d(self.gamma).astype(float) / self.alpha)
        base = graph.node("Add", graph.node("Mul", distances, ratio), graph.scalar(1.0))
        return str(graph.node("Pow", base, graph.scalar(-self.alpha)))

    def on(self, device: Device, X: Array, Z: Array) -> Array:
        """Values on a device, from the exponents -gamma D of the Gaussian."""
        xp = array_namespace(X)
        gamma = device.send(np.atleast_1d(self.gamma))
        exponents = augment_rows(X) @ augment_centers(Z, gamma).mT
        distances = xp.clip(-exponents, 0.0, None)
        return xp.exp(-self.alpha * xp.log1p(distances / self.alpha))

    def __repr__(self) -> str:
        if not isinstance(self.gamma, np.ndarray):
            return f"RationalQuadratic(gamma={self.gamma!r}, alpha={self.alpha!r})"
        low, high = self.gamma.min(), self.gamma.max()
        widths = f"{len(self.gamma)} widths, gamma {low:.3g} to {high:.3g}"
        return f"RationalQuadratic({widths}, alpha={self.alpha!r})"

    def __eq__(self, other: object) -> bool:
        is_same_kind = type(other) is RationalQuadratic and other.alpha == self.alpha
        return is_same_kind and np.array_equal(self.gamma, other.gamma)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((np.asarray(self.gamma, dtype=np.float64).tobytes(), self.alpha))
