"""The tasks: data, kernel width and C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.datasets import load
from kernlet.kernels.bandwidth import resolve_gamma
from papers.generators import make_shifted_digits


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


SMALL = ("optdigits", "satimage", "pendigits")


def official(name: str, n_rows: int | None = None) -> Task:
    """A set as it is (mnist in [0, 1]), with the paper's width: the mean squared distance."""
    data = load(name)
    scale = 255.0 if name == "mnist" else 1.0
    X, X_test = (np.asarray(A, dtype=float) / scale for A in (data.X[:n_rows], data.X_test))
    gamma = resolve_gamma("mean_distance", X)
    return Task(X, data.y[:n_rows], X_test, data.y_test, gamma=gamma, C=1.0)


def covertype(n_rows: int | None = None) -> Task:
    """Class 2 against the rest, measurements standardised; 20,000 random rows for testing."""
    data = load("covertype")
    X = np.asarray(data.X, dtype=np.float32)
    order = np.random.RandomState(0).permutation(len(X))
    test, train = order[:20_000], order[20_000:][:n_rows]
    mean, deviation = X[train, :10].mean(axis=0), X[train, :10].std(axis=0)
    X[:, :10] = (X[:, :10] - mean) / deviation
    gamma = resolve_gamma("mean_distance", X[train])
    return Task(X[train], data.y[train] == 2, X[test], data.y[test] == 2, gamma=gamma, C=1.0)


def extended_usps(part: str = "all") -> Task:
    """Shifted zeros and ones; ``part="validation"`` holds every fifth image out and no test row."""
    digits = make_shifted_digits()
    if part == "all":
        X, y, X_test, y_test = digits.X, digits.y, digits.X_test, digits.y_test
    else:
        image = np.arange(len(digits.y)) // 121
        held = image % 5 == 0
        X, y = digits.X[np.flatnonzero(~held)], digits.y[~held]
        X_test, y_test = digits.X[np.flatnonzero(held)[::3]], digits.y[held][::3]
    X, X_test = np.asarray(X), np.asarray(X_test)
    gamma = resolve_gamma("mean_distance", X)
    return Task(X, y, X_test, y_test, gamma=gamma, C=1.0)


def n_classes(task: Any) -> int:
    """Different labels."""
    return len(np.unique(task.y))
