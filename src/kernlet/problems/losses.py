"""Losses of a machine's outputs, as plain values, for arrays of any namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from array_api_compat import array_namespace

from kernlet.kernels.kernel import Floats
from kernlet.kernels.lifted import Array


class Loss(Protocol):
    """A loss of outputs f and targets t, both of shape (n_rows, n_outputs)."""

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, of shape (n_rows,), and its derivative by the outputs."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """-sum_c t_c log p_c with p the softmax of the outputs (with one output, of (0, f)).

    The targets of a row add up to 1.

    Parameters
    ----------
    smoothing : float
        In [0, 1): the share of the uniform distribution in the targets.
    """

    smoothing: float = 0.1

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = (1 - self.smoothing) * np.eye(n_classes) + self.smoothing / n_classes
        return table if n_classes > 2 else table[:, 1:]

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        xp = array_namespace(outputs)
        if outputs.shape[1] == 1:
            small = xp.exp(-xp.abs(outputs))
            positive = xp.where(outputs > 0, outputs, xp.zeros_like(outputs))
            values = positive + xp.log1p(small) - targets * outputs
            chance = xp.where(outputs > 0, 1 / (1 + small), small / (1 + small))
            return values[:, 0], chance - targets
        logits = outputs - xp.max(outputs, axis=1, keepdims=True)
        powers = xp.exp(logits)
        sums = xp.sum(powers, axis=1, keepdims=True)
        values = xp.log(sums[:, 0]) - xp.sum(targets * logits, axis=1)
        return values, powers / sums - targets


@dataclass(frozen=True)
class SquaredHinge:
    """The sum over outputs of max(0, 1 - t_c f_c)^2 / 2, the targets being signs."""

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = 2.0 * np.eye(n_classes) - 1.0
        return table if n_classes > 2 else table[:, 1:]

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        xp = array_namespace(outputs)
        errors = 1 - targets * outputs
        errors = xp.where(errors > 0, errors, xp.zeros_like(errors))
        return xp.sum(errors * errors, axis=1) / 2, -targets * errors


@dataclass(frozen=True)
class SquaredError:
    """The sum over outputs of (f_c - t_c)^2 / 2."""

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        errors = outputs - targets
        return array_namespace(outputs).sum(errors * errors, axis=1) / 2, errors


@dataclass(frozen=True)
class Huber:
    """The squared error of small errors, and a line beyond ``delta``.

    Parameters
    ----------
    delta : float
        In the units of the targets.
    """

    delta: float = 1.0

    def value_and_pull(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row, and its derivative by the outputs."""
        xp = array_namespace(outputs)
        errors = outputs - targets
        pull = xp.clip(errors, -self.delta, self.delta)
        return xp.sum(pull * (errors - pull / 2), axis=1), pull
