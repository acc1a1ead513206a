"""The tasks: data, kernel width and C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.datasets import load


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task with the parameters it is measured at."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    gamma: float
    C: float

    @property
    def signs(self) -> Any:
        """+1 for the second class, -1 for the first."""
        return np.where(self.y == np.unique(self.y)[1], 1.0, -1.0)


def checkerboard(n_rows: int = 1000) -> Task:
    """The 4 x 4 board, scaled to [-1, 1]."""
    board = load("checkerboard_generated")
    scaled = [X / 100.0 - 1.0 for X in (board.X[:n_rows], board.X_test)]
    return Task(scaled[0], board.y[:n_rows], scaled[1], board.y_test, gamma=4.0, C=100.0)


def usps_eight(n_rows: int = 7291) -> Task:
    """USPS, 8 against the rest, pixels in [-1, 1]."""
    task = usps(n_rows)
    return Task(task.X, task.y == 8, task.X_test, task.y_test == 8, gamma=1 / 128, C=1.4)


def usps(n_rows: int = 7291, C: float = 0.9) -> Task:
    """USPS, ten classes, pixels in [-1, 1]."""
    digits = load("usps")
    X, X_test = (2.0 * np.asarray(A, dtype=float) - 1.0 for A in (digits.X[:n_rows], digits.X_test))
    return Task(X, digits.y[:n_rows], X_test, digits.y_test, gamma=1 / 128, C=C)


def mnist_eight(n_rows: int = 60_000) -> Task:
    """MNIST, 8 against the rest, pixels in [0, 1]."""
    digits = load("mnist")
    X, X_test = (np.asarray(A, dtype=float) / 255.0 for A in (digits.X[:n_rows], digits.X_test))
    return Task(X, digits.y[:n_rows] == 8, X_test, digits.y_test == 8, gamma=0.02, C=0.3)
