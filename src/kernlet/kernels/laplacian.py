"""The Laplacian kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Array, Floats, Matrix
from kernlet.devices import Device, array_namespace, is_sparse
from kernlet.kernels.base import FLOAT32_LARGEST, LARGEST_PARAMETER, LEAST_EXPONENT, Kernel
from kernlet.kernels.gram import slices_of, sums_over_features, used_columns

# In C sums above 3.4e38 are infinite. With a gamma below this they are limited to it: 0 times
# infinity is NaN, and exp(-gamma 3.4e38) is not yet 0.
_LEAST_GAMMA_C = 3e-37
# Differences x_i - z_i per row that an ONNX graph holds at once: 16 kB.
_ONNX_DIFFERENCES = 4096


@dataclass(frozen=True)
class Laplacian(Kernel):
    """Laplacian kernel, ``k(x, z) = exp(-gamma sum_i |x_i - z_i|)``.

    Parameters
    ----------
    gamma : float
        Inverse of the width.

    Notes
    -----
    The kernel is a product over the features of functions with a cusp at x_i = z_i, so that it
    follows boundaries along the axes more closely than a Gaussian does. Distances are not a matrix
    product: values take twice (tens of features) to nine times (hundreds) as long as Gaussian ones.

    Examples
    --------
    >>> from kernlet.kernels.laplacian import Laplacian
    >>> Laplacian(gamma=0.5)([[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0]]).round(3)
    array([[1.   ],
           [0.368]])
    """

    gamma: float
    name: ClassVar[str] = "laplacian"
    limits: ClassVar[dict[str, tuple[float, float]]] = {"gamma": (0.0, LARGEST_PARAMETER)}
    is_translation_invariant: ClassVar[bool] = True
    c_term: ClassVar[str] = "(float)fabsf(t)"  # a double in old libraries of AVR
    js_term: ClassVar[str] = "Math.abs(t)"

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """exp(-gamma |x - z|_1); distances are float64, values in the precision of the norms.

        Values that would be slow to compute with are taken as the least that are not.
        """
        exponents = l1_distances(X, Z)
        # a gamma of 0 times infinity is NaN, which callers refuse
        with np.errstate(over="ignore", invalid="ignore"):
            exponents *= -self.gamma
        exponents = exponents.astype(x_norms.dtype, copy=False)
        np.maximum(exponents, LEAST_EXPONENT[exponents.dtype], out=exponents)
        return np.exp(exponents, out=exponents)

    def values_and_gradient(self, X: Floats, Z: Floats) -> tuple[Floats, Callable[..., Floats]]:
        """The gradient by x is -gamma k sign(x - z); at a cusp, where x_i = z_i, it is 0."""
        values = self(X, Z)

        def gradient(weights: Floats) -> Floats:
            pull = -self.gamma * weights * values
            # row by row: signs of all pairs and features would not fit into memory
            rows = [w @ np.sign(x - Z) for w, x in zip(pull, X, strict=True)]
            return np.reshape(rows, X.shape)

        return values, gradient

    def smoothed(self, width: float) -> Kernel:
        """The kernel with rounded cusps."""
        return _RoundedLaplacian(self.gamma, width)

    def log_factor(self, differences: Floats) -> Floats:
        """-gamma |x_i - z_i|."""
        return np.abs(differences) * -self.gamma

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma |x - z|_1 stays small."""
        # Numbers beyond 1e30 would overflow, and where gamma is one the norms may underflow.
        is_small = self.gamma * np.sqrt(largest_norm) < FLOAT32_LARGEST
        return bool(is_small) and max(self.gamma, largest_norm) < 1e30

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """Gamma |x - z|_1 = (gamma step) |x / step - z / step|_1."""
        return Laplacian(self.gamma * abs(step)), 1.0

    def on(self, device: Device, X: Array, Z: Array) -> Array:
        """Values on a device, feature by feature: nothing larger than the result is formed."""
        xp = array_namespace(X)
        distances = xp.zeros_like(X[:, :1]) + xp.zeros_like(Z[:, 0])
        for feature in range(X.shape[1]):
            distances = distances + xp.abs(X[:, feature, None] - Z[:, feature])
        return xp.exp(xp.clip(-self.gamma * distances, LEAST_EXPONENT[np.dtype(np.float32)], None))

    def c_code(self, s: str) -> str:
        """The exponential; EXP is expf, or a polynomial that needs no library."""
        if self.gamma < _LEAST_GAMMA_C:
            s = f"({s} > 3.4e38f ? 3.4e38f : {s})"
        return f"return EXP(-{self.c_parameter('gamma')} * {s});"

    def js_code(self, s: str) -> str:
        """The exponential, of at least the exponent that :meth:`evaluate` takes."""
        least = LEAST_EXPONENT[np.dtype(np.float64)]
        return f"Math.exp(Math.max({least}, -({self.js_parameter('gamma')} * {s})))"

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """exp(-gamma sum_i |x_i - z_i|), a few features at once: ONNX has no such distance."""
        rows, distances = graph.node("Unsqueeze", x, graph.integers([1])), ""
        for part in slices_of(centers.shape[1], max(1, _ONNX_DIFFERENCES // max(1, len(centers)))):
            ends = (graph.integers([end]) for end in (part.start, part.stop, 2))
            some = graph.node("Slice", rows, *ends)
            differences = graph.node("Sub", some, graph.floats(centers[None, :, part]))
            sizes = graph.node("Abs", differences)
            sums = graph.node("ReduceSum", sizes, graph.integers([2]), keepdims=0)
            distances = graph.node("Add", distances, sums) if distances else sums
        exponents = graph.node("Mul", distances, graph.scalar(-self.gamma))
        least = graph.scalar(LEAST_EXPONENT[np.dtype(np.float32)])
        return str(graph.node("Exp", graph.node("Max", exponents, least)))


@dataclass(frozen=True)
class _RoundedLaplacian(Kernel):
    """exp(-gamma sum_i (sqrt((x_i - z_i)^2 + width^2) - width)), a smooth Mercer kernel."""

    gamma: float
    width: float
    is_translation_invariant: ClassVar[bool] = True

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """Row by row: differences of all pairs and features would not fit into memory."""
        sums = [self._roots(x - Z).sum(axis=1) for x in X]
        return np.exp(-self.gamma * (np.reshape(sums, (len(X), len(Z))) - X.shape[1] * self.width))

    def _roots(self, differences: Floats) -> Floats:
        return np.sqrt(np.square(differences) + self.width**2)

    def values_and_gradient(self, X: Floats, Z: Floats) -> tuple[Floats, Callable[..., Floats]]:
        """The sign of the Laplacian kernel's gradient becomes t / sqrt(t^2 + width^2)."""
        values = self(X, Z)

        def gradient(weights: Floats) -> Floats:
            pull = -self.gamma * weights * values
            rows = [w @ ((x - Z) / self._roots(x - Z)) for w, x in zip(pull, X, strict=True)]
            return np.reshape(rows, X.shape)

        return values, gradient


def l1_distances(X: Matrix, Z: Matrix) -> Floats:
    """Sums of absolute differences in float64, of dense or sparse points."""
    if not (is_sparse(X) or is_sparse(Z)):
        return sums_over_features(X, Z, "cityblock")
    from scipy import sparse
    from sklearn.metrics.pairwise import manhattan_distances

    X, Z = used_columns(sparse.csr_array(X), sparse.csr_array(Z))
    if 0 in (*X.shape, *Z.shape):  # no points, or points of zeros only
        return np.zeros((X.shape[0], Z.shape[0]))
    # scikit-learn merges the sorted entries of two sparse rows: nothing is filled in
    return np.asarray(manhattan_distances(*(_with_int32_indices(A) for A in (X, Z))))


def _with_int32_indices(X: Any) -> Any:
    """A CSR matrix whose indices are of the type that scikit-learn's distances take."""
    from scipy import sparse

    indices, starts = (a.astype(np.int32, copy=False) for a in (X.indices, X.indptr))
    return sparse.csr_array((X.data, indices, starts), shape=X.shape)
