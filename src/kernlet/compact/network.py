"""A Gaussian RBF network: losses, parameters and gradient.

f_c(x) = sum_j weights[c, j] exp(-gamma_j |P x - centers[j]|^2) + intercept[c]

Arrays may be those of numpy or of any library that follows the array API standard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from kernlet._typing import Array, Floats
from kernlet.devices import array_namespace
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import dense_centers
from kernlet.kernels.rbf import augment_centers, augment_rows, gaussian_matmul, row_products
from kernlet.quantization import (
    QuantizedExpansion,
)

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
        sums = xp.sum(powers, axis=-1, keepdims=True)
        values = xp.log(sums[..., 0]) - xp.sum(targets * logits, axis=-1)
        return values, powers / sums - targets


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


#: A loss of outputs f and targets t, both of shape (..., n_rows, n_outputs).
Loss = CrossEntropy | SquaredHingeLoss | SquaredError | Huber


# -- Rounding --------------------------------------------------------------------------------


def quantize(values: Array, log_step: Array, n_levels: int) -> Array:
    """The nearest multiples of a step, of shape (..., 1, 1), from -n_levels to n_levels of them."""
    xp = array_namespace(values)
    step = xp.exp(log_step)
    return xp.clip(xp.round(values / step), -float(n_levels), float(n_levels)) * step


def straight_through_grad(
    grad: Array, values: Array, log_step: Array, n_levels: int
) -> tuple[Array, Array]:
    """Gradients by values and log step, from the gradient by the quantized values.

    Straight-through estimator: d quantize / d value is 1 inside the range and 0 beyond it. With
    learned steps (LSQ), d quantize / d step is round(v / s) - v / s inside, +-n_levels beyond.
    """
    xp = array_namespace(values)
    step = xp.exp(log_step)
    multiples = values / step
    codes = xp.clip(xp.round(multiples), -float(n_levels), float(n_levels))
    inside = xp.astype(xp.abs(multiples) <= n_levels, values.dtype)
    grad_step = xp.sum(grad * (codes - inside * multiples), axis=(-2, -1), keepdims=True)
    return grad * inside, grad_step * step


# -- The network -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RBFNetwork:
    """The parameters of f_c(x) = sum_j weights[c, j] exp(-gamma_j |P x - z_j|^2) + intercept[c].

    ``log_gamma`` has shape (1,) or (n_centers,), ``projection`` (rank, n_features) or is None. All
    may have the same leading dimensions, of several networks that are computed at once.
    """

    centers: Array
    weights: Array
    intercept: Array
    log_gamma: Array
    projection: Array | None = None

    @classmethod
    def from_expansion(
        cls, expansion: KernelExpansion, shift: float = 0.0, scale: float = 1.0
    ) -> RBFNetwork:
        """The network of an rbf expansion, for inputs (x - shift) / scale.

        A quantized expansion carries its own shift and scale.
        """
        coef, intercept = expansion.coef, expansion.intercept
        if isinstance(expansion, QuantizedExpansion):
            assert expansion.input_map is not None
            log_gamma, projection = np.log(expansion.gamma), expansion.input_map.matrix
            return cls(expansion.centers, coef, intercept, log_gamma, projection)
        gamma = expansion.kernel.gamma * scale**2  # type: ignore[attr-defined]
        centers = (dense_centers(expansion.centers) - shift) / scale
        return cls(centers, coef, intercept, np.log(np.array([gamma])))

    def arrays(self) -> Arrays:
        """The parameters by name, without a missing projection."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    def map(self, function: Callable[[Array], Array]) -> RBFNetwork:
        """The network with a function applied to each parameter, such as a move to a device."""
        return RBFNetwork(**{name: function(array) for name, array in self.arrays().items()})

    def outputs(self, X: Array) -> Array:
        """Outputs of shape (..., n_rows, n_outputs)."""
        return self._outputs(gaussian_matmul(*self._augmented(X)))

    def _outputs(self, K: Array) -> Array:
        return K @ self.weights.mT + self.intercept[..., None, :]

    # The exponents of a batch are one matrix product, and so is their gradient:
    #   -gamma_j |u - z_j|^2 = a.c_j with a   = (u, |u|^2, 1)
    #                               and   c_j = (2 gamma_j z_j, -gamma_j, -gamma_j |z_j|^2).
    # With K_ij = exp(a_i.c_j) and E = K * (dL/df @ weights), the gradient by all c_j is E.T @ a,
    # and the chain rule from c_j to centers and widths touches arrays of n_centers rows only.
    # Beside the products a batch is traversed twice: for the exponential and for E.

    def value_and_grad(
        self, loss: Loss, X: Array, targets: Array, row_weights: Array
    ) -> tuple[Array, Arrays]:
        """The weighted mean loss of a batch, and its gradient by each parameter.

        ``row_weights`` have mean 1 over all rows, so that a batch of heavy rows counts for more.
        Time is about 4 n_rows n_centers rank, plus 4 n_rows rank n_features with a projection.
        """
        xp = array_namespace(X)
        rows, centers = self._augmented(X)
        K = gaussian_matmul(rows, centers)
        losses, grad_outputs = loss.value_and_grad(self._outputs(K), targets)
        shares = row_weights / X.shape[-2]
        grad_outputs = grad_outputs * shares[..., None]
        grad = {"weights": grad_outputs.mT @ K, "intercept": xp.sum(grad_outputs, axis=-2)}
        K *= grad_outputs @ self.weights  # now the gradient by the exponents
        grad["centers"], grad["log_gamma"] = self._grad_centers(K.mT @ rows)
        if self.projection is not None:
            grad_rows = K @ centers
            grad_projected = grad_rows[..., :-2] + 2 * grad_rows[..., -2:-1] * rows[..., :-2]
            grad["projection"] = grad_projected.mT @ X
        return xp.sum(shares * losses, axis=-1), grad

    def _augmented(self, X: Array) -> tuple[Array, Array]:
        """The vectors a of rows and c of centers."""
        U = X if self.projection is None else X @ self.projection.mT
        gamma = array_namespace(X).exp(self.log_gamma)
        return augment_rows(U), augment_centers(self.centers, gamma)

    def _grad_centers(self, grad_augmented: Array) -> tuple[Array, Array]:
        """Gradients by centers and log gamma, from the gradient by the augmented centers."""
        xp = array_namespace(grad_augmented)
        Z, gamma = self.centers, xp.exp(self.log_gamma)
        products, norms, squares = (grad_augmented[..., part] for part in (slice(0, -2), -2, -1))
        grad_centers = products - squares[..., None] * Z
        grad_centers *= 2 * gamma[..., None]
        grad_gamma = 2 * row_products(Z, products) - norms
        grad_gamma = grad_gamma - squares * row_products(Z, Z)
        if gamma.shape[-1] == 1:
            grad_gamma = xp.sum(grad_gamma, axis=-1, keepdims=True)
        return grad_centers, gamma * grad_gamma
