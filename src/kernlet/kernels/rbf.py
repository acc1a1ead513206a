"""The Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernlet._typing import Array, Floats, Matrix
from kernlet.devices import Device, array_namespace
from kernlet.kernels.base import (
    FLOAT32_LARGEST,
    LARGEST_PARAMETER,
    LEAST_EXPONENT,
    Derivatives,
    Kernel,
)
from kernlet.kernels.gram import as_dense, inner_products, sums_over_features, used_columns

#: |x|^2 + |z|^2 - 2 x.z carries a rounding error of 1e-16 times the norms, which the exponential
#: turns into a relative error of gamma |x|^2 1e-16: ten digits of k are right below this.
ENOUGH_DIGITS = 1e6
#: As LEAST_EXPONENT of float32.
LEAST_EXPONENT_MATMUL = -60.0
#: In C sums of squares above 3.4e38 are infinite. With a gamma below this they are limited to it:
#: 0 times infinity is NaN, and exp(-gamma 3.4e38) is not yet 0.
LEAST_GAMMA_C = 3e-37


@dataclass(frozen=True, repr=False)
class RBF(Kernel):
    """Gaussian kernel, ``k(x, z) = exp(-gamma |x - z|^2)``.

    Parameters
    ----------
    gamma : float or ndarray of shape (n_centers,)
        One width, or one for each center z. The latter is not a kernel in the strict sense, for it
        depends on the number of the center: the centers have a fixed order, and there is no
        feature space.

    Examples
    --------
    >>> from kernlet.kernels.rbf import RBF
    >>> RBF(gamma=1.0)([[0.0], [1.0]], [[0.0]]).round(3)
    array([[1.   ],
           [0.368]])
    >>> RBF(np.array([1.0, 0.0]))([[1.0]], [[0.0], [0.0]]).round(3)
    array([[0.368, 1.   ]])
    """

    gamma: float | Floats
    name: ClassVar[str] = "rbf"
    limits: ClassVar[dict[str, tuple[float, float]]] = {"gamma": (0.0, LARGEST_PARAMETER)}
    is_translation_invariant: ClassVar[bool] = True

    @property
    def is_mercer(self) -> bool:  # type: ignore[override]
        """Whether there is one width for all centers."""
        return np.ndim(self.gamma) == 0

    def of_products(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Floats:
        """exp(-gamma (|x|^2 + |z|^2 - 2 x.z)), a rounded negative distance taken as 0.

        Values that would be slow to compute with are taken as the least that are not.
        """
        gamma = widths_of_centers(self.gamma, products)
        products *= -2
        products += x_norms
        products += z_norms
        products *= -gamma
        np.clip(products, LEAST_EXPONENT[products.dtype], 0, out=products)
        return np.exp(products, out=products)

    def evaluate(self, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats) -> Floats:
        """Values by inner products, or by differences where these would lose the digits."""
        distances = distances_by_differences(self.gamma, X, Z, x_norms, z_norms)
        if distances is None:
            return self.of_products(inner_products(X, Z), x_norms, z_norms)
        # exp(-inf) is 0; a gamma of 0 times infinity is NaN, which callers refuse
        with np.errstate(over="ignore", invalid="ignore"):
            distances *= -widths_of_centers(self.gamma, distances)
            return np.exp(distances, out=distances).astype(x_norms.dtype, copy=False)

    def derivatives(self, products: Floats, x_norms: Floats, z_norms: Floats) -> Derivatives:
        """k, 2 gamma k and -gamma k."""
        values = self.of_products(products.copy(), x_norms, z_norms)
        return Derivatives(values, 2 * self.gamma * values, -self.gamma * values)

    def log_factor(self, differences: Floats) -> Floats:
        """-gamma (x_i - z_i)^2."""
        gamma: Floats = np.atleast_1d(np.asarray(self.gamma, dtype=np.float64))
        return np.square(differences) * -gamma[:, None]

    def fits_float32(self, largest_norm: float) -> bool:
        """Whether the rounding of gamma |x - z|^2 stays small."""
        gamma = float(np.max(self.gamma))
        # Numbers beyond 1e30 would overflow, and where gamma is one the norms may underflow.
        return gamma * largest_norm < FLOAT32_LARGEST and max(gamma, largest_norm) < 1e30

    def scaled(self, step: float) -> tuple[Kernel, float]:
        """Gamma |x - z|^2 = (gamma step^2) |x / step - z / step|^2."""
        return RBF(self.gamma * step**2), 1.0

    def c_code(self, s: str) -> str:
        """The exponential; EXP is expf, or a polynomial that needs no library."""
        if np.min(self.gamma) < LEAST_GAMMA_C:
            s = f"({s} > 3.4e38f ? 3.4e38f : {s})"
        return f"return EXP(-{self.c_parameter('gamma')} * {s});"

    def js_code(self, s: str) -> str:
        """The exponential, of at least the exponent that :meth:`of_products` takes."""
        least = LEAST_EXPONENT[np.dtype(np.float64)]
        return f"Math.exp(Math.max({least}, -({self.js_parameter('gamma')} * {s})))"

    def onnx_nodes(self, graph: Any, x: str, centers: Floats) -> str:
        """exp(min(0, 2 gamma x.z - gamma |z|^2 - gamma |x|^2))."""
        gamma: Floats = np.atleast_1d(self.gamma).astype(float)
        squares = np.einsum("ij,ij->i", centers, centers)
        products = graph.node(
            "Gemm", x, graph.floats(2 * gamma * centers.T), graph.floats(-gamma * squares)
        )
        norms = graph.node("ReduceSum", graph.node("Mul", x, x), graph.integers([1]), keepdims=1)
        exponents = graph.node("Sub", products, graph.node("Mul", norms, graph.floats(gamma)))
        least = graph.scalar(LEAST_EXPONENT_MATMUL)
        return str(graph.node("Exp", graph.node("Clip", exponents, least, graph.scalar(0.0))))

    def onnx_of_distances(self, graph: Any, distances: str) -> str:
        """The same of squared distances that are not negative."""
        gamma = graph.floats(-np.atleast_1d(self.gamma).astype(float))
        exponents = graph.node("Mul", distances, gamma)
        least = graph.scalar(LEAST_EXPONENT_MATMUL)
        return str(graph.node("Exp", graph.node("Clip", exponents, least, graph.scalar(0.0))))

    def on(self, device: Device, X: Array, Z: Array) -> Array:
        """Values on a device, as one matrix product and one exponential."""
        gamma = device.send(np.atleast_1d(self.gamma))
        return gaussian_matmul(augment_rows(X), augment_centers(Z, gamma))

    def __repr__(self) -> str:
        if not isinstance(self.gamma, np.ndarray):
            return f"RBF(gamma={self.gamma!r})"
        low, high = self.gamma.min(), self.gamma.max()
        return f"RBF({len(self.gamma)} widths, gamma {low:.3g} to {high:.3g})"

    def __eq__(self, other: object) -> bool:
        return type(other) is RBF and np.array_equal(self.gamma, other.gamma)

    def __hash__(self) -> int:
        return hash(np.asarray(self.gamma, dtype=np.float64).tobytes())


def distances_by_differences(
    gamma: float | Floats, X: Matrix, Z: Matrix, x_norms: Floats, z_norms: Floats
) -> Floats | None:
    """Squared distances where inner products would lose their digits; None where not."""
    largest = max(x_norms.max(initial=0.0), z_norms.max(initial=0.0))
    with np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are not enough
        has_enough_digits = np.max(gamma) * largest < ENOUGH_DIGITS
    if has_enough_digits:
        return None
    X, Z = used_columns(X, Z)
    return sums_over_features(as_dense(X), as_dense(Z), "sqeuclidean")


def widths_of_centers(gamma: float | Floats, values: Floats) -> Any:
    """Gamma, of all centers or of each, in the precision of kernel values (n_rows, n_centers)."""
    if not isinstance(gamma, np.ndarray):
        return gamma
    if values.shape[1] != len(gamma):
        raise ValueError(
            f"gamma has the widths of {len(gamma)} centers; there are {values.shape[1]}."
        )
    return gamma.astype(values.dtype)


# The Gaussian as one matrix product and one exponential, for arrays of any library. The exponent
# -gamma |x - z|^2 = 2 gamma x.z - gamma |x|^2 - gamma |z|^2 is the inner product of the augmented
# vectors (x, |x|^2, 1) and (2 gamma z, -gamma, -gamma |z|^2): nothing of shape (n_x, n_z) is formed
# but the exponent itself, which is what a GPU is good at. Leading dimensions stack several
# problems of the same shape.


def row_products(A: Array, B: Array) -> Array:
    """Inner products of the rows of A with those of B."""
    xp = array_namespace(A)
    if isinstance(A, np.ndarray):
        return xp.vecdot(A, B)
    return xp.sum(A * B, axis=-1)  # torch's vecdot would form a matrix product for every pair


def row_sums(A: Array) -> Array:
    """Sums of the rows of A; those of its columns are the row sums of A.mT."""
    if isinstance(A, np.ndarray):  # numpy reduces short rows slowly
        return A @ np.ones(A.shape[-1], A.dtype)
    return array_namespace(A).sum(A, axis=-1)


def augment_rows(X: Array) -> Array:
    """(x, |x|^2, 1) of every row x."""
    rows = _with_two_columns(X)
    rows[..., -2] = row_products(X, X)
    rows[..., -1] = 1.0
    return rows


def augment_centers(Z: Array, gamma: Array) -> Array:
    """(2 gamma z, -gamma, -gamma |z|^2) of every center z; gamma of shape (1,) or (n_centers,)."""
    scaled = (2 * gamma)[..., None] * Z
    centers = _with_two_columns(scaled)
    centers[..., -2] = -gamma
    centers[..., -1] = -0.5 * row_products(scaled, Z)
    return centers


def _with_two_columns(A: Array) -> Array:
    """A copy of A with two more columns, which are not set."""
    shape = (*A.shape[:-1], A.shape[-1] + 2)
    wider = array_namespace(A).empty(shape, dtype=A.dtype, device=A.device)
    wider[..., :-2] = A
    return wider


def gaussian_matmul(rows: Array, centers: Array) -> Array:
    """exp(rows centers') of augmented rows and centers, the exponent clipped to [-60, 0]."""
    xp = array_namespace(rows)
    exponents = rows @ centers.mT
    if isinstance(exponents, np.ndarray):  # in place, so that a batch stays in the cache
        np.clip(exponents, LEAST_EXPONENT_MATMUL, 0.0, out=exponents)
        return np.exp(exponents, out=exponents)
    return xp.exp(xp.clip(exponents, LEAST_EXPONENT_MATMUL, 0.0))
