"""Classification tasks of papers and benchmarks: data, kernel width and C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernlet.datasets import load
from kernlet.kernels.bandwidth import resolve_gamma
from papers.generators import make_shifted_digits

SHIFTS = 121  # rows per image of the extended USPS, one after the other


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test rows, with the parameters they are used with.

    ``groups`` and ``test_groups`` number what rows were made of, such as the image that a shifted
    one shows; None where rows are independent.
    """

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    gamma: float = 1.0
    C: float = 1.0
    groups: Any = None
    test_groups: Any = None

    @property
    def signs(self) -> Any:
        """+1 for the second class, -1 for the first."""
        return np.where(self.y == np.unique(self.y)[1], 1.0, -1.0)

    @property
    def n_classes(self) -> int:
        """Number of different labels."""
        return len(np.unique(self.y))


def fold(task: Task, number: int, n_folds: int = 5, most: int = 5000) -> Task:
    """One of the folds of at most ``most`` random training rows as test rows, the others to train.

    A group of rows is in one fold.
    """
    rows = np.random.RandomState(0).permutation(len(task.y))[:most]
    groups = rows if task.groups is None else task.groups[rows]
    names, places = np.unique(groups, return_inverse=True)
    is_test = np.random.RandomState(1).permutation(len(names))[places] % n_folds == number
    train, test = rows[~is_test], rows[is_test]
    return Task(task.X[train], task.y[train], task.X[test], task.y[test], task.gamma, task.C)


def cluster_error(is_correct: Any, groups: Any) -> float:
    """Standard error of an accuracy in percentage points, where only groups are independent.

    >>> cluster_error([True, True, False, False], [0, 0, 1, 1])
    50.0
    """
    _, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    sums = np.bincount(places, weights=np.asarray(is_correct, dtype=float))
    # Of a ratio of two sums over the groups, which may differ in size.
    excess = sums - sums.sum() / sizes.sum() * sizes
    n = len(sizes)
    return float(100 * np.sqrt(n / (n - 1) * np.square(excess).sum()) / sizes.sum())


def pool_error(rows: Any, is_right: Any) -> float:
    """Standard error of a mean accuracy that comes from test rows shared by runs, in points.

    Runs that draw test rows from one pool share most of them. The two-way clustered variance of
    the mean, with clusters by row and by run, is rows + runs - cells. The middle term is the
    deviation over the runs; this is the root of the others, the covariance of runs on the same
    row:: sum_i sum_{r != s} e_ri e_si / n^2, e = is_right - mean, n cells in all. These are
    R (R - 1) pairs of R runs, where the variance has R^2: the square needs a factor R / (R - 1).

    >>> round(pool_error(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0])), 2)
    25.0
    """
    e = is_right - np.mean(is_right)
    by_row = np.bincount(np.unique(rows, return_inverse=True)[1], weights=e)
    variance = (by_row @ by_row - e @ e) / len(e) ** 2
    return 100 * float(np.sqrt(max(0.0, variance)))


def checkerboard(n_rows: int = 1000) -> Task:
    """The 4 x 4 board, scaled to [-1, 1]."""
    board: Any = load("checkerboard_generated")
    X, X_test = (A / 100.0 - 1.0 for A in (board.X[:n_rows], board.X_test))
    return Task(X, board.y[:n_rows], X_test, board.y_test, gamma=4.0, C=100.0)


def usps(n_rows: int | None = None, C: float = 0.9) -> Task:
    """USPS, ten classes, pixels in [-1, 1]."""
    digits = load("usps")
    X, X_test = (2.0 * np.asarray(A, dtype=float) - 1.0 for A in (digits.X[:n_rows], digits.X_test))
    return Task(X, digits.y[:n_rows], X_test, digits.y_test, gamma=1 / 128, C=C)


def usps_eight(n_rows: int | None = None) -> Task:
    """USPS, 8 against the rest, pixels in [-1, 1]."""
    task = usps(n_rows)
    return Task(task.X, task.y == 8, task.X_test, task.y_test == 8, gamma=1 / 128, C=1.4)


def mnist_eight(n_rows: int | None = None) -> Task:
    """MNIST, 8 against the rest, pixels in [0, 1]."""
    digits = load("mnist")
    X, X_test = (np.asarray(A, dtype=float) / 255.0 for A in (digits.X[:n_rows], digits.X_test))
    return Task(X, digits.y[:n_rows] == 8, X_test, digits.y_test == 8, gamma=0.02, C=0.3)


def official(name: str, n_rows: int | None = None, n_test: int | None = None) -> Task:
    """An official split, unscaled (mnist in [0, 1]), gamma = 1 / mean squared distance.

    ``n_rows`` and ``n_test`` are random rows of it: some training sets are sorted by class.
    """
    data: Any = load(name)
    scale = 255.0 if name == "mnist" else 1.0
    train, test = _drawn(data.y, n_rows), _drawn(data.y_test, n_test)
    X = np.asarray(data.X[train], dtype=float) / scale
    X_test = np.asarray(data.X_test[test], dtype=float) / scale
    return Task(X, data.y[train], X_test, data.y_test[test], resolve_gamma("mean_distance", X))


def _drawn(y: Any, n_rows: int | None) -> Any:
    return slice(None) if n_rows is None else np.random.RandomState(0).permutation(len(y))[:n_rows]


def covertype(n_rows: int | None = None) -> Task:
    """Class 2 against the rest, measurements standardised; 20,000 random rows for testing."""
    data = load("covertype")
    X = np.asarray(data.X, dtype=np.float32)
    order = np.random.RandomState(0).permutation(len(X))
    test, train = order[:20_000], order[20_000:][:n_rows]
    # The first ten columns are measurements, the others indicators.
    mean, deviation = X[train, :10].mean(axis=0), X[train, :10].std(axis=0)
    X[:, :10] = (X[:, :10] - mean) / deviation
    gamma = resolve_gamma("mean_distance", X[train])
    return Task(X[train], data.y[train] == 2, X[test], data.y[test] == 2, gamma)


def extended_usps(every: int = 1) -> Task:
    """Shifted zeros and ones of USPS; only every ``every``-th row."""
    digits: Any = make_shifted_digits()
    # As a whole they are made block by block, which takes less memory than slicing.
    rows = (A if every == 1 else A[::every] for A in (digits.X, digits.X_test))
    X, X_test = (np.asarray(A, np.float32) for A in rows)
    gamma = resolve_gamma("mean_distance", X)
    groups, test_groups = (np.arange(len(y))[::every] // SHIFTS for y in (digits.y, digits.y_test))
    return Task(
        *(X, digits.y[::every], X_test, digits.y_test[::every], gamma),
        groups=groups,
        test_groups=test_groups,
    )


def extended_usps_validation() -> Task:
    """Every fifth image held out of the shifted training digits, a third of its shifts to test."""
    digits = make_shifted_digits()
    held_out = np.arange(len(digits.y)) // SHIFTS % 5 == 0
    train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)[::3]
    X, X_test = digits.X[train], digits.X[test]
    gamma = resolve_gamma("mean_distance", X)
    return Task(X, digits.y[train], X_test, digits.y[test], gamma)
