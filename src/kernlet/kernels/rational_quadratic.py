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
# Gaussians of a mixture: 90 have an error of 1e-11 at alpha = 1. A small alpha, whose tail is
# heavier, needs more.
_MOST_GAUSSIANS, _MOST_GRID_POINTS = 400, 100_000


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Kernel):
    """Rational quadratic kernel, ``k(x, z) = (1 + gamma |x - z|^2 / alpha)^-alpha``.

    A mixture of Gaussians of all widths: near z like ``exp(-gamma |x - z|^2)``, far from it a power
    of the distance. For large alpha it is the Gaussian.

    Parameters
    ----------
    gamma : float or ndarray of shape (n_centers,)
        One width, or one for each center, as in :class:`kernlet.kernels.rbf.RBF`.
    alpha : float, default=1.0
        Half the power of the distance with which the tails fall; large values give the Gaussian.

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

    def as_products(self, tol: float) -> tuple[list[tuple[float, Kernel]], float] | None:
        """A mixture of Gaussians: the integral over widths by the trapezoidal rule.

        (1 + q / alpha)^-alpha = c int exp(alpha (v + 1 - e^v) - e^v q) dv, where q = gamma D and
        c = alpha^alpha e^-alpha / Gamma(alpha). By Poisson's formula, the rule with step h is off
        by at most the kernel times 2 sum_n |Gamma(alpha + 2 pi i n / h)| / Gamma(alpha), and by
        the weights that it leaves out.
        """
        from scipy.special import gammaln, loggamma

        alpha = float(self.alpha)

        def aliasing(step: float) -> float:
            frequencies = 2 * np.pi / step * np.arange(1, 6)  # later terms are round-off
            logs = loggamma(alpha + 1j * frequencies).real - gammaln(alpha)
            return float(2 * np.exp(logs).sum())

        step = 2.0
        while not aliasing(step) <= tol / 4:
            step *= 0.97
        # Stirling's series: the difference of large logarithms would lose the digits
        log_c = alpha * np.log(alpha) - alpha - gammaln(alpha)
        if alpha > 30:
            series = 1 / 12 - 1 / (360 * alpha**2) + 1 / (1260 * alpha**4)
            log_c = np.log(alpha / (2 * np.pi)) / 2 - series / alpha
        log_least = np.log(tol / 1000)
        first, last = (log_least - log_c) / alpha - 1, np.log1p(12 / np.sqrt(alpha) + 60 / alpha)
        if not (last - first) / step <= _MOST_GRID_POINTS:
            return None
        places = step * np.arange(np.floor(first / step), np.ceil(last / step) + 1)
        logs = alpha * (places - np.expm1(places)) + log_c
        places, logs = places[logs > log_least], logs[logs > log_least]
        weights = step * np.exp(logs)
        if len(weights) > _MOST_GAUSSIANS:
            return None
        left_out = abs(1 - float(weights.sum())) + aliasing(step)
        pairs = zip(weights.tolist(), np.exp(places).tolist(), strict=True)
        return [(w, RBF(self.gamma * factor)) for w, factor in pairs], left_out + aliasing(step)

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
