"""Networks of kernels over trained centers: losses, parameters and gradient.

f_c(x) = sum_j weights[c, j] k_j(P h(x)) + intercept[c]

Arrays may be those of numpy or of any library that follows the array API standard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kernlet._typing import Array, Floats
from kernlet.devices import array_namespace
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import dense_centers
from kernlet.kernels.rbf import (
    augment_centers,
    augment_rows,
    gaussian_matmul,
    row_products,
    row_sums,
)
from kernlet.quantization import QuantizedExpansion, SparsePackedArray

Arrays = dict[str, Array]

# -- Losses ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossEntropy:
    """-sum_c t_c log p_c with p the softmax of the outputs (with one output, of (0, f)).

    ``smoothing`` is the share of the uniform distribution in the targets t, which add up to 1.
    """

    smoothing: float = 0.1

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = (1 - self.smoothing) * np.eye(n_classes) + self.smoothing / n_classes
        return table if n_classes > 2 else table[:, 1:]

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Values log sum exp(f) - t.f, with gradient p - t."""
        xp = array_namespace(outputs)
        if outputs.shape[-1] == 1:
            # log(1 + exp(f)) and the sigmoid by exp(-|f|), which cannot overflow
            small = xp.exp(-xp.abs(outputs))
            positive = xp.where(outputs > 0, outputs, xp.zeros_like(outputs))
            values = positive + xp.log1p(small) - targets * outputs
            probability = xp.where(outputs > 0, 1 / (1 + small), small / (1 + small))
            return values[..., 0], probability - targets
        logits = outputs - xp.max(outputs, axis=-1, keepdims=True)
        powers = xp.exp(logits)
        sums = row_sums(powers)
        values = xp.log(sums) - row_sums(targets * logits)
        powers /= sums[..., None]
        powers -= targets
        return values, powers


@dataclass(frozen=True)
class SquaredHingeLoss:
    """The sum over outputs of max(0, 1 - t_c f_c)^2 / 2, the targets being signs."""

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = 2.0 * np.eye(n_classes) - 1.0
        return table if n_classes > 2 else table[:, 1:]

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs."""
        xp = array_namespace(outputs)
        errors = 1 - targets * outputs
        errors = xp.where(errors > 0, errors, xp.zeros_like(errors))
        return xp.sum(errors * errors, axis=-1) / 2, -targets * errors


@dataclass(frozen=True)
class SquaredError:
    """The sum over outputs of (f_c - t_c)^2 / 2."""

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs."""
        errors = outputs - targets
        return array_namespace(outputs).sum(errors * errors, axis=-1) / 2, errors


@dataclass(frozen=True)
class Huber:
    """The squared error up to ``delta``, linear beyond, in the units of the targets."""

    delta: float = 1.0

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs."""
        xp = array_namespace(outputs)
        errors = outputs - targets
        grad = xp.clip(errors, -self.delta, self.delta)
        return xp.sum(grad * (errors - grad / 2), axis=-1), grad


@dataclass(frozen=True)
class Pinball:
    """The sum over outputs of q_c (t_c - f_c) where that is positive, else (1 - q_c) (f_c - t_c).

    Its mean is least where output c is the q_c-quantile of the targets.
    """

    quantiles: tuple[float, ...]

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs: 1 - q above the target, else -q."""
        xp = array_namespace(outputs)
        one = outputs[..., :1, :1]
        levels = xp.concat([xp.full_like(one, level) for level in self.quantiles], axis=-1)
        errors = outputs - targets
        grad = xp.where(errors > 0, 1 - levels, -levels)
        return xp.sum(grad * errors, axis=-1), grad


#: A loss of outputs f and targets t, both of shape (..., n_rows, n_outputs).
Loss = CrossEntropy | SquaredHingeLoss | SquaredError | Huber | Pinball


def column_major(A: Array) -> Array:
    """A with contiguous columns, if it is a numpy array."""
    return np.ascontiguousarray(A.mT).mT if isinstance(A, np.ndarray) else A


# -- The network -----------------------------------------------------------------------------

# How this works
# --------------
# A batch passes through three layers, and its gradient back through the same three.
#
# Inputs. Rows are [u | S]: scaled features, and one column of zeros and ones per step of the step
# map, [u_d > t]. With M the 0/1 matrix of the features of the steps, h = s * (u + S (v M)), where
# jumps v and feature scales s are trained; then comes the projection P.
#
# Kernel. The exponents of a batch are one matrix product, and so is their gradient:
#   -gamma_j |h - z_j|^2 = a.c_j with a   = (h, |h|^2, 1)
#                               and   c_j = (2 gamma_j z_j, -gamma_j, -gamma_j |z_j|^2).
# With K_ij = exp(a_i.c_j) and E = K * (dL/df @ weights), the gradient by all c_j is E.T @ a,
# and the chain rule from c_j to centers and widths touches arrays of n_centers rows only; as c_j
# is gamma_j times a vector, the gradient by log gamma_j is c_j times that by c_j.
# Beside the products a batch is traversed twice: for the exponential and for E. The rational
# quadratic kernel has the same product with gamma / alpha in place of gamma.
#
# Missing features (NaN in u) that are left out of distances: with m the 0/1 vector of those present
# and r = d / |m|, the same product has a = r (m h, |m h|^2, m) and
# c_j = (2 gamma_j z_j, -gamma_j, -gamma_j z_j^2), the squares feature by feature.
#
# A box kernel, a product of two logistic functions per feature, was tried and left out: on thyroid
# 12 of them (8 bits, behind asinh) reached 99.4 % of held-out training rows in 772 bytes, 12
# Gaussians behind 6 steps 99.6 % in 426 bytes and a fifth of the time; likewise on a checkerboard.
#
# Outputs are linear in the kernel values.

_LEAST_VALUE = 1e-26  # of a kernel: smaller ones become subnormal, which are slow
#: Fields of a network that are not trained.
_CONSTANTS = ("mask", "step_matrix", "skips_missing")


@dataclass(frozen=True, eq=False)
class KernelNetwork:
    """The parameters of f_c(x) = sum_j weights[c, j] k_j(x) + intercept[c].

    The kernel is the rational quadratic one where there is ``log_alpha`` (1,), else the Gaussian.
    ``log_gamma`` has shape (1,) or (n_centers,), ``projection`` (rank, n_features),
    ``log_feature_scales`` (n_features,), ``jumps`` (n_steps,). All may have the same leading
    dimensions, of several networks that are computed at once.

    Constants: ``step_matrix`` (n_steps, n_features) has a 1 at the feature of each step; ``mask``
    (n_outputs, n_centers) is 0 where weights are fixed at zero. With ``skips_missing``, features
    that are NaN are left out of distances, as in :class:`~kernlet.KernelExpansion`.
    """

    centers: Array
    weights: Array
    intercept: Array
    log_gamma: Array
    projection: Array | None = None
    log_feature_scales: Array | None = None
    jumps: Array | None = None
    log_alpha: Array | None = None
    mask: Array | None = None
    step_matrix: Array | None = None
    skips_missing: bool = False

    @classmethod
    def from_expansion(
        cls, expansion: KernelExpansion, shift: float = 0.0, scale: float = 1.0
    ) -> KernelNetwork:
        """The network of an rbf expansion, for inputs (x - shift) / scale.

        A quantized expansion of any kind carries its own input map.
        """
        coef, intercept = expansion.coef, expansion.intercept
        if isinstance(expansion, QuantizedExpansion):
            return cls(expansion.centers, coef, intercept, **_stored_parameters(expansion))
        gamma = expansion.kernel.gamma * scale**2  # type: ignore[attr-defined]
        centers = (dense_centers(expansion.centers) - shift) / scale
        return cls(centers, coef, intercept, np.log(np.array([gamma])))

    def arrays(self) -> Arrays:
        """The parameters by name, without missing ones."""
        names = [field.name for field in fields(self) if field.name not in _CONSTANTS]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def with_arrays(self, arrays: Arrays) -> KernelNetwork:
        """The network with other parameters."""
        constants = {name: getattr(self, name) for name in _CONSTANTS}
        return KernelNetwork(**arrays, **constants)

    def map(self, function: Callable[[Array], Array]) -> KernelNetwork:
        """The network with a function applied to each array, such as a move to a device."""
        names = [*self.arrays(), "mask", "step_matrix"]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        mapped = {name: function(array) for name, array in given.items()}
        return KernelNetwork(**mapped, skips_missing=self.skips_missing)

    def outputs(self, X: Array) -> Array:
        """Outputs of shape (..., n_rows, n_outputs)."""
        return self._outputs(self.kernel_values(X))

    def kernel_values(self, X: Array) -> Array:
        """Kernel values with the centers, of shape (..., n_rows, n_centers)."""
        return self._kernel(self.positions(X)).values

    def positions(self, X: Array) -> Array:
        """Rows in the space of the centers."""
        return self._projected(self._features(X))

    def value_and_grad(
        self, loss: Loss, X: Array, targets: Array, row_weights: Array
    ) -> tuple[Array, Arrays]:
        """The weighted mean loss of a batch, and its gradient by each parameter.

        ``row_weights`` have mean 1 over all rows, so that a batch of heavy rows counts for more.
        Time is about 4 n_rows n_centers rank, plus 4 n_rows rank n_features with a projection.
        """
        shares = row_weights / X.shape[-2]
        features = self._features(X)
        kernel = self._kernel(self._projected(features))
        losses, grad_outputs = loss.value_and_grad(self._outputs(kernel.values), targets)
        grad_outputs = grad_outputs * shares[..., None]
        grad = {"weights": grad_outputs.mT @ kernel.values}
        grad["intercept"] = row_sums(grad_outputs.mT)
        grad |= kernel.grad(grad_outputs @ self.weights)
        layer = (self.projection, self.log_feature_scales, self.jumps)
        if any(array is not None for array in layer):
            grad |= self._input_grad(X, features, kernel.grad_rows())
        return row_products(shares, losses), grad

    def _outputs(self, K: Array) -> Array:
        # Columns contiguous, for numpy is slow with reductions along rows of a few numbers.
        outputs = column_major(K @ self.weights.mT)
        outputs += self.intercept[..., None, :]
        return outputs

    def _kernel(self, H: Array) -> _Gaussian:
        return _Gaussian(self, H) if self.log_alpha is None else _RationalQuadratic(self, H)

    def _features(self, X: Array) -> Array:
        """The features h of rows [u | S], before the projection."""
        if self.jumps is not None:
            n_features = X.shape[-1] - self.jumps.shape[-1]
            U, S = X[..., :n_features], X[..., n_features:]
            X = U + S @ (self.jumps[..., None] * self.step_matrix)
        if self.log_feature_scales is not None:
            X = X * array_namespace(X).exp(self.log_feature_scales)[..., None, :]
        return X

    def _projected(self, H: Array) -> Array:
        return H if self.projection is None else H @ self.projection.mT

    def _input_grad(self, X: Array, features: Array, grad_rows: Array) -> Arrays:
        """Gradients by projection, feature scales and jumps, from that by the projected rows."""
        xp = array_namespace(X)
        if self.skips_missing:  # whose gradient is 0
            features = xp.where(xp.isnan(features), xp.zeros_like(features), features)
        grad = {}
        if self.projection is not None:
            grad["projection"] = grad_rows.mT @ features
            if self.log_feature_scales is None and self.jumps is None:
                return grad
            grad_rows = grad_rows @ self.projection
        if self.log_feature_scales is not None:
            grad["log_feature_scales"] = xp.sum(grad_rows * features, axis=-2)
            grad_rows = grad_rows * xp.exp(self.log_feature_scales)[..., None, :]
        if self.jumps is not None:
            S = X[..., -self.jumps.shape[-1] :]
            grad["jumps"] = xp.sum((S.mT @ grad_rows) * self.step_matrix, axis=-1)
        return grad


def _stored_parameters(expansion: QuantizedExpansion) -> dict[str, Any]:
    """What a compact machine has beside centers, weights and intercept."""
    packed = {name: array for name, array in expansion.packed.items() if array is not None}
    if "log_weights" in packed:
        raise ValueError(
            "A machine with weights of the features of each center cannot be trained by gradients: "
            "start afresh."
        )
    parameters: dict[str, Any] = {
        "log_gamma": np.log(expansion.gamma),
        "skips_missing": expansion.skips_missing,
    }
    if expansion.alpha is not None:
        parameters["log_alpha"] = np.log(np.array([expansion.alpha], dtype=np.float32))
    if "projection" in packed:
        parameters["projection"] = packed["projection"].decoded()
    if expansion.steps is not None:
        inner = parameters["projection"] if "projection" in packed else expansion.centers
        n_inputs = int(inner.shape[1])
        parameters["jumps"] = expansion.steps.jumps.decoded()
        parameters["step_matrix"] = step_matrix(expansion.steps.features, n_inputs)
    if isinstance(packed["coef"], SparsePackedArray):
        mask: Floats = np.zeros(packed["coef"].shape[::-1], dtype=np.float32)
        np.put_along_axis(mask, packed["coef"].outputs(), 1.0, axis=1)
        parameters["mask"] = mask.T
    return parameters


def step_matrix(features: Any, n_features: int) -> Floats:
    """The 0/1 matrix of the features of steps."""
    return np.eye(n_features, dtype=np.float32)[np.asarray(features, dtype=np.intp)]


class _Gaussian:
    """K = exp(-gamma_j |h - z_j|^2) of a batch; its gradient overwrites the values."""

    def __init__(self, network: KernelNetwork, H: Array) -> None:
        self.Z, self.gamma = network.centers, array_namespace(H).exp(network.log_gamma)
        self._augment(network, H)
        self.values = gaussian_matmul(self.rows, self.centers)

    def _augment(self, network: KernelNetwork, H: Array) -> None:
        """Rows and centers whose inner products are the exponents."""
        self.present: Array | None = None
        if not network.skips_missing:
            self.rows, self.centers = augment_rows(H), augment_centers(self.Z, self.gamma)
            return
        self.rows, self.present, self.ratios = _present_rows(H)
        xp, scaled = array_namespace(H), (2 * self.gamma)[..., None] * self.Z
        minus_gamma = xp.zeros_like(scaled[..., :1]) - self.gamma[..., None]
        self.centers = xp.concat([scaled, minus_gamma, -0.5 * scaled * self.Z], axis=-1)

    def grad(self, grad_values: Array) -> Arrays:
        """Gradients by centers and log gamma, from that by the kernel values."""
        self.values *= grad_values  # now the gradient by the exponents
        return self._grad_centers(self.values.mT @ self.rows)

    def _grad_centers(self, grad_augmented: Array) -> Arrays:
        """Gradients by centers and log gamma, from the gradient by the augmented centers."""
        n_features = self.Z.shape[-1]
        products, squares = grad_augmented[..., :n_features], grad_augmented[..., n_features + 1 :]
        grad_centers = products - squares * self.Z
        grad_centers *= 2 * self.gamma[..., None]
        grad_log_gamma = row_products(grad_augmented, self.centers)
        if self.gamma.shape[-1] == 1:
            xp = array_namespace(grad_log_gamma)
            grad_log_gamma = xp.sum(grad_log_gamma, axis=-1, keepdims=True)
        return {"centers": grad_centers, "log_gamma": grad_log_gamma}

    def grad_rows(self) -> Array:
        """The gradient by h, after the others."""
        # Two products: numpy is slow with parts of short rows.
        n_features = self.Z.shape[-1]
        grad_norms = self.values @ self.centers[..., n_features : n_features + 1]
        grad_rows = self.values @ self.centers[..., :n_features]
        if self.present is not None:
            grad_rows *= self.ratios
        grad_rows += 2 * grad_norms * self.rows[..., :n_features]
        if self.present is not None:
            xp = array_namespace(grad_rows)
            grad_rows = xp.where(self.present, grad_rows, xp.zeros_like(grad_rows))
        return grad_rows


def _present_rows(H: Array) -> tuple[Array, Array, Array]:
    """Rows r (m h, |m h|^2, m), which features are present, and r = d / |m|."""
    xp = array_namespace(H)
    present = ~xp.isnan(H)
    H = xp.where(present, H, xp.zeros_like(H))
    # A row without any present feature counts as one of zeros.
    counted = present | ~xp.any(present, axis=-1, keepdims=True)
    M = xp.astype(counted, H.dtype)
    ratios = H.shape[-1] / row_sums(M)[..., None]
    rows = xp.concat([H, row_products(H, H)[..., None], M], axis=-1)
    rows *= ratios
    return rows, present, ratios


class _RationalQuadratic(_Gaussian):
    """K = (1 + gamma_j |h - z_j|^2 / alpha)^-alpha of a batch."""

    def __init__(self, network: KernelNetwork, H: Array) -> None:
        xp = array_namespace(H)
        self.alpha = xp.exp(network.log_alpha)
        self.Z, self.gamma = network.centers, xp.exp(network.log_gamma) / self.alpha
        self._augment(network, H)
        self.bases = xp.clip(self.rows @ -self.centers.mT, 0.0, 1e30)
        self.bases += 1
        self.logs = xp.log(self.bases)
        least = math.log(_LEAST_VALUE)
        self.values = xp.exp(xp.clip(-self.alpha[..., None] * self.logs, least, 0.0))

    def grad(self, grad_values: Array) -> Arrays:
        """Gradients by centers, log gamma and log alpha."""
        xp = array_namespace(grad_values)
        self.values *= grad_values  # the gradient by log K
        flat = (*self.values.shape[:-2], -1)
        by_power = row_products(xp.reshape(self.values, flat), xp.reshape(self.logs, flat))
        self.values *= self.alpha[..., None] / self.bases  # by -gamma |h - z|^2 / alpha
        grad = self._grad_centers(self.values.mT @ self.rows)
        by_ratio = xp.sum(grad["log_gamma"], axis=-1, keepdims=True)
        return {**grad, "log_alpha": -by_ratio - self.alpha * by_power[..., None]}
