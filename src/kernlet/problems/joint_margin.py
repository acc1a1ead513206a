"""Centers, weights, intercepts and kernel width of a machine, trained together on rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from kernlet.kernels.kernel import Floats

Loss = Literal["cross_entropy", "squared_hinge"]


@dataclass(frozen=True, eq=False)
class Machine:
    """A Gaussian machine as four arrays, or a gradient by them.

    f_c(x) = sum_j weights[c, j] exp(-exp(log_gamma) |x - centers[j]|^2) + intercept[c].

    Parameters
    ----------
    centers : ndarray of shape (n_centers, n_features)
    weights : ndarray of shape (n_outputs, n_centers)
    intercept : ndarray of shape (n_outputs,)
    log_gamma : ndarray of shape (1,)
    """

    centers: Floats
    weights: Floats
    intercept: Floats
    log_gamma: Floats

    def arrays(self) -> dict[str, Floats]:
        """The four arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class JointMargin:
    """The loss of a machine on a batch of rows, as a plain value.

    ``"cross_entropy"`` is -sum_c q_c log p_c with p the softmax of the outputs (with one output,
    of (0, f)) and q the label, mixed with a share ``smoothing`` of the uniform distribution.
    ``"squared_hinge"`` is the sum over outputs of max(0, 1 - d_c f_c)^2 / 2 with d the sign of the
    label in that output. Both are means over the batch, weighted by ``row_weights``.

    Parameters
    ----------
    loss : {"cross_entropy", "squared_hinge"}
    smoothing : float
        In [0, 1).
    """

    loss: Loss = "cross_entropy"
    smoothing: float = 0.1

    def outputs(self, machine: Machine, X: Floats) -> Floats:
        """Outputs of all rows, of shape (n_rows, n_outputs)."""
        return _kernel(machine, X)[0] @ machine.weights.T + machine.intercept

    def value_and_gradient(
        self, machine: Machine, X: Floats, codes: Floats, row_weights: Floats
    ) -> tuple[float, Machine]:
        """The loss of a batch and its gradient, in the precision of the machine.

        Time is 6 n_rows n_centers n_features; memory a few matrices of n_rows x n_centers.

        Parameters
        ----------
        machine : Machine
        X : ndarray of shape (n_rows, n_features)
        codes : ndarray of shape (n_rows,)
            Class numbers.
        row_weights : ndarray of shape (n_rows,)
            With a positive sum.

        Returns
        -------
        value : float
        gradient : Machine
        """
        K, distances = _kernel(machine, X)
        outputs = K @ machine.weights.T + machine.intercept
        shares = (row_weights / row_weights.sum()).astype(outputs.dtype)
        value, pull = self._loss(outputs, codes, shares)
        by_kernel = pull @ machine.weights
        by_kernel *= K
        gamma = np.exp(machine.log_gamma)
        columns = by_kernel.sum(axis=0)
        by_centers = 2 * gamma * (by_kernel.T @ X - columns[:, None] * machine.centers)
        by_gamma = -np.einsum("ij,ij->", by_kernel, distances)
        return value, Machine(
            by_centers, pull.T @ K, pull.sum(axis=0), (gamma * by_gamma).astype(gamma.dtype)
        )

    def _loss(self, outputs: Floats, codes: Floats, shares: Floats) -> tuple[float, Floats]:
        """The loss, and its derivative by the outputs."""
        if self.loss == "squared_hinge":
            return _squared_hinge(outputs, codes, shares)
        logits = _logits(outputs)
        n_rows, n_classes = logits.shape
        target = np.full_like(logits, self.smoothing / n_classes)
        target[np.arange(n_rows), codes] += 1 - self.smoothing
        logits = logits - logits.max(axis=1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        value = -float(np.sum(shares * np.sum(target * logs, axis=1)))
        pull = shares[:, None] * (np.exp(logs) - target)
        return value, pull if outputs.shape[1] > 1 else pull[:, 1:]


def _kernel(machine: Machine, X: Floats) -> tuple[Floats, Floats]:
    """Kernel values and squared distances between rows and centers."""
    Z = machine.centers
    distances = X @ Z.T
    distances *= -2
    distances += np.einsum("ij,ij->i", X, X)[:, None]
    distances += np.einsum("ij,ij->i", Z, Z)
    np.maximum(distances, 0, out=distances)
    return np.exp(-np.exp(machine.log_gamma) * distances), distances


def _logits(outputs: Floats) -> Floats:
    """One logit a class; with one output, 0 for the first class."""
    if outputs.shape[1] > 1:
        return outputs
    return np.hstack([np.zeros_like(outputs), outputs])


def _squared_hinge(outputs: Floats, codes: Floats, shares: Floats) -> tuple[float, Floats]:
    positives = np.arange(outputs.shape[1]) if outputs.shape[1] > 1 else np.array([1])
    signs = np.where(codes[:, None] == positives, 1, -1).astype(outputs.dtype)
    errors = np.maximum(0, 1 - signs * outputs)
    value = float(np.sum(shares * np.sum(errors**2, axis=1))) / 2
    return value, -shares[:, None] * signs * errors
