"""The checkerboard: a small problem that no linear machine can solve."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

from kernlet.datasets.dataset import Dataset, Labels

GRID_STEPS = 200


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_squares": [Interval(Integral, 2, None, closed="left")],
        "noise": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_checkerboard(
    n_samples: int = 1000,
    *,
    n_squares: int = 4,
    noise: float = 0.0,
    random_state: Any = None,
) -> Dataset:
    """Points on a checkerboard, and a grid to test on.

    Training points are uniform on [-1, 1]^2. The board has ``n_squares`` columns and as many
    rows of squares; a point has class (column + row) mod 2, and a point on a line between
    squares belongs to the square on its right or above it. The test part is the grid of
    199 x 199 points g / 100 - 1, g = 1, ..., 199, with their true classes.

    Parameters
    ----------
    n_samples : int, default=1000
        Training points. From two points on, both classes occur (before noise): a draw
        with one class alone is drawn again.
    n_squares : int, default=4
        Squares along each side.
    noise : float, default=0.0
        Fraction of training labels to flip: exactly ``round(noise * n_samples)`` of them.
        Test labels are never flipped.
    random_state : int, RandomState instance or None, default=None
        Draws the points and the labels to flip; None takes numpy's global generator, as in
        scikit-learn.

    Returns
    -------
    board : Dataset
        Labels are 0 and 1; the test part has 39,601 rows.

    Examples
    --------
    >>> from kernlet.datasets import make_checkerboard
    >>> board = make_checkerboard(random_state=0)
    >>> board
    Dataset('checkerboard', 1000 rows x 2 features, 2 classes, 39601 test rows)
    >>> noisy = make_checkerboard(noise=0.1, random_state=0)
    >>> int((noisy.y != board.y).sum())
    100
    """
    random_state = check_random_state(random_state)
    X, y = _draw(n_samples, n_squares, random_state)
    flipped = random_state.choice(n_samples, round(noise * n_samples), replace=False)
    y[flipped] = 1 - y[flipped]
    return Dataset("checkerboard", X, y, *_grid(n_squares))


def _draw(
    n_samples: int, n_squares: int, random_state: np.random.RandomState
) -> tuple[NDArray[np.float64], Labels]:
    """Uniform points with both classes among them, if there are two points at least."""
    while True:
        X = random_state.uniform(-1.0, 1.0, (n_samples, 2))
        y = _classes(np.floor((X + 1.0) * n_squares / 2.0))
        if n_samples == 1 or y.min() < y.max():
            return X, y


def _grid(n_squares: int) -> tuple[NDArray[np.float64], Labels]:
    """The inner points of the test lattice, the second coordinate running fastest."""
    steps = np.arange(1, GRID_STEPS)
    lattice = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    # Whole numbers place the points that lie on a line between squares without rounding.
    return lattice * 2 / GRID_STEPS - 1.0, _classes(lattice * n_squares // GRID_STEPS)


def _classes(squares: NDArray[Any]) -> Labels:
    """(column + row) mod 2 of squares given by column and row."""
    return squares.sum(axis=1).astype(np.int64) % 2
