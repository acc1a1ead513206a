"""The Gaussian kernel with a weight for each feature of each center."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Array, Floats, Matrix
from kernlet.devices import Device, array_namespace
from kernlet.kernels.base import FLOAT32_LARGEST, LARGEST_PARAMETER, LEAST_EXPONENT, Kernel
from kernlet.kernels.gram import as_dense
from kernlet.kernels.rbf import (
    ENOUGH_DIGITS,
    LEAST_EXPONENT_MATMUL,
    RBF,
    widths_of_centers,
)


@dataclass(frozen=True, repr=False)
class DiagonalRBF(Kernel):
    """Gaussians of diagonal covariance, ``exp(-gamma_j sum_c weights[j, c] (x_c - z_jc)^2)``.

    Each center is a Gaussian with a diagonal covariance matrix, as in a mixture of them. It is not
    a kernel in the strict sense, for it depends on the number of the center: the centers have a
    fixed order, and there is no feature space.

    Parameters
    ----------
    gamma : float or ndarray of shape (n_centers,)
        One width, or one for each center.
    weights : ndarray of shape (n_centers, n_features)
        Weights of the features of each center, from 1e-30 to 1e30.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.diagonal import DiagonalRBF
    >>> kernel = DiagonalRBF(1.0, np.array([[1.0, 1.0], [4.0, 0.25]]))
    >>> kernel([[0.5, 0.0], [0.0, 2.0]], np.zeros((2, 2))).round(3)
    array([[0.779, 0.368],
           [0.018, 0.368]])
    """

    gamma: float | Floats
    weights: Floats
    name: ClassVar[str] = "diagonal_rbf"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "gamma": (0.0, LARGEST_PARAMETER),
        # positive and finite in float32, so that a weight times infinity is infinity in C
        "weights": (1e-30, 1e30),
    }
    is_mercer: ClassVar[bool] = False
    is_translation_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.weights) != 2:
            raise ValueError("kernel.weights must be one number per center and feature.")

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """Values by inner products, or by differences where these would lose the digits."""
        dtype, Z = x_norms.dtype, as_dense(Z)
        self._require_shape(Z.shape)
        largest = max(x_norms.max(initial=0.0), z_norms.max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are not enough
            has_enough_digits = self._largest_weight * float(largest) < ENOUGH_DIGITS
            if not has_enough_digits:
                return self._by_differences(as_dense(X), Z).astype(dtype, copy=False)
        W = self._widths_and_weights(dtype)
        exponents: Floats = -(_squares(X) @ W.T)
        exponents += X @ (2 * W * Z).T
        exponents -= np.einsum("ij,ij,ij->i", W, Z, Z)
        np.clip(exponents, LEAST_EXPONENT[exponents.dtype], 0, out=exponents)
        return np.exp(exponents, out=exponents)

    def _by_differences(self, X: Floats, Z: Floats) -> Floats:
        """Values in float64, center by center."""
        W = self._widths_and_weights(np.dtype(np.float64))
        values = np.empty((X.shape[0], len(Z)))
        for j, (z, w) in enumerate(zip(Z.astype(np.float64), W, strict=True)):
            values[:, j] = np.exp(-(np.square(X - z) @ w))
        return values

    def _widths_and_weights(self, dtype: Any) -> Floats:
        """Gamma times the weights, of shape (n_centers, n_features)."""
        weights: Floats = self.weights.astype(dtype)
        return np.reshape(widths_of_centers(self.gamma, weights.T), (-1, 1)).astype(dtype) * weights

    @property
    def _largest_weight(self) -> float:
        return float(np.max(self.gamma)) * float(self.weights.max(initial=0.0))

    def _require_shape(self, shape: tuple[int, ...]) -> None:
        if self.weights.shape != shape:
            raise ValueError(
                f"The kernel has weights of shape {self.weights.shape}; the centers have {shape}."
            )

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of the weighted squared distance stays small."""
        largest = self._largest_weight
        return largest * largest_norm < FLOAT32_LARGEST and max(largest, largest_norm) < 1e30

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """Gamma |x - z|^2 = (gamma step^2) |x / step - z / step|^2, in the weighted norm."""
        return DiagonalRBF(self.gamma * step**2, self.weights), 1.0

    def c_code(self, s: str) -> str:
        """That of the Gaussian: the templates multiply the terms of the sum by the weights."""
        return RBF(self.gamma).c_code(s)

    def js_code(self, s: str) -> str:
        """That of the Gaussian: the template multiplies the terms of the sum by the weights."""
        return RBF(self.gamma).js_code(s)

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """exp(min(0, 2 x.(w z) - x^2.w - sum w z^2)) with w = gamma weights."""
        W = self._widths_and_weights(np.dtype(np.float64))
        constant = -np.einsum("ij,ij,ij->i", W, centers, centers)
        products = graph.node("Gemm", x, graph.floats(2 * (W * centers).T), graph.floats(constant))
        norms = graph.node("MatMul", graph.node("Mul", x, x), graph.floats(W.T))
        least, most = graph.scalar(LEAST_EXPONENT_MATMUL), graph.scalar(0.0)
        exponents = graph.node("Sub", products, norms)
        return str(graph.node("Exp", graph.node("Clip", exponents, least, most)))

    def on(self, device: Device, X: Array, Z: Array) -> Array:
        """Values on a device, by two matrix products and one exponential."""
        xp = array_namespace(X)
        W = device.send(self._widths_and_weights(np.dtype(np.float64)))
        constant = xp.sum(W * Z * Z, axis=-1)
        exponents = X @ (2 * W * Z).mT - (X * X) @ W.mT - constant
        return xp.exp(xp.clip(exponents, LEAST_EXPONENT_MATMUL, 0.0))

    def __repr__(self) -> str:
        low, high = self.weights.min(initial=np.inf), self.weights.max(initial=0.0)
        shape = " x ".join(map(str, self.weights.shape))
        return f"DiagonalRBF({RBF(self.gamma)!r}, {shape} weights {low:.3g} to {high:.3g})"

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is DiagonalRBF
            and np.array_equal(self.gamma, other.gamma)
            and np.array_equal(self.weights, other.weights)
        )

    def __hash__(self) -> int:
        numbers = (np.asarray(v, dtype=np.float64) for v in (self.gamma, self.weights))
        return hash(tuple(array.tobytes() for array in numbers))


def _squares(X: Matrix) -> Any:
    """The squares of all numbers of X, dense or sparse."""
    return X.multiply(X) if hasattr(X, "multiply") else np.square(X)
