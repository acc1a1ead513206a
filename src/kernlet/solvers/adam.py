"""Adam with warm-up and cosine decay, on named arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.kernel import Floats

Arrays = dict[str, Floats]


@dataclass(frozen=True)
class Schedule:
    """Learning rates over a number of steps: up in a line, then down along a cosine.

    Parameters
    ----------
    n_steps : int
    warm_up : float
        Share of the steps in which the rate rises.
    """

    n_steps: int
    warm_up: float = 0.05

    def factor(self, step: int) -> float:
        """What the rates are multiplied by at a step, counted from 0."""
        rising = max(1, round(self.warm_up * self.n_steps))
        if step < rising:
            return (step + 1) / rising
        progress = (step - rising) / max(1, self.n_steps - rising)
        return 0.5 * (1.0 + float(np.cos(np.pi * progress)))


class Adam:
    """Adam (Kingma and Ba, 2015) with a rate of its own for each array.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Starting values; they are copied.
    rates : dict of str to float
    schedule : Schedule

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.solvers.adam import Adam, Schedule
    >>> search = Adam({"x": np.array([3.0])}, {"x": 0.3}, Schedule(200))
    >>> for _ in range(200):
    ...     search.step({"x": 2 * search.arrays["x"]})
    >>> bool(abs(search.arrays["x"][0]) < 1e-3)
    True
    """

    def __init__(self, arrays: Arrays, rates: dict[str, float], schedule: Schedule) -> None:
        self.arrays = {name: array.copy() for name, array in arrays.items()}
        self.rates, self.schedule = rates, schedule
        self.step_number = 0
        self._mean = {name: np.zeros_like(array) for name, array in arrays.items()}
        self._square = {name: np.zeros_like(array) for name, array in arrays.items()}

    def step(self, gradient: Arrays) -> None:
        """Go one step against a gradient, which has an entry for each array."""
        factor = self.schedule.factor(self.step_number)
        self.step_number += 1
        bias = np.sqrt(1 - 0.999**self.step_number) / (1 - 0.9**self.step_number)
        for name, slope in gradient.items():
            mean, square = self._mean[name], self._square[name]
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            size = np.asarray(self.rates[name] * factor * bias, dtype=mean.dtype)
            self.arrays[name] -= size * mean / (np.sqrt(square) + np.float32(1e-8))


def batches(
    n_rows: int, batch_size: int, n_epochs: int, random: np.random.RandomState
) -> Iterator[Indices]:
    """Row numbers of each batch, the rows shuffled anew in every epoch."""
    for _ in range(n_epochs):
        order = random.permutation(n_rows)
        for start in range(0, n_rows, batch_size):
            yield order[start : start + batch_size]


def n_batches(n_rows: int, batch_size: int) -> int:
    """Batches of an epoch."""
    return -(-n_rows // batch_size)
