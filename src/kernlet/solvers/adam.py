"""Adam with warm-up and cosine decay, on named arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from array_api_compat import array_namespace

from kernlet.kernels.lifted import Array

Arrays = dict[str, Array]

# Keeps the moments of numbers that no row moves from fading into ever smaller numbers, with which
# processors are slow. Far below the 1e-8 that a moment is compared with.
_TINY = 1e-18


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
        return 0.5 * (1.0 + math.cos(math.pi * progress))


@dataclass(frozen=True, eq=False)
class State:
    """Where a search stands: all arrays as one vector, and the running moments of its gradient."""

    vector: Array
    mean: Array
    square: Array
    n_steps: int = 0


class Adam:
    """Adam (Kingma and Ba, 2015) with a rate of its own for each array.

    All arrays live in one vector, so that a step is a dozen operations however many arrays there
    are. A step makes a new ``state`` and leaves the old one as it was: to keep a state is to be
    able to go back to it.

    Parameters
    ----------
    arrays : dict of str to array
        Starting values, of any array library; they are copied.
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
        self.schedule = schedule
        self._shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        vector = self._joined(arrays)
        xp = array_namespace(vector)
        scales = {name: xp.full_like(array, rates[name]) for name, array in arrays.items()}
        self.rates = self._joined(scales)
        self.state = State(vector, xp.zeros_like(vector), xp.zeros_like(vector))

    @property
    def arrays(self) -> Arrays:
        """The arrays as they are now, by name."""
        xp = array_namespace(self.state.vector)
        arrays, start = {}, 0
        for name, shape in self._shapes.items():
            stop = start + math.prod(shape)
            arrays[name] = xp.reshape(self.state.vector[start:stop], shape)
            start = stop
        return arrays

    def step(self, gradient: Arrays) -> None:
        """Go one step against a gradient, which has an entry for each array."""
        xp = array_namespace(self.state.vector)
        slope = self._joined(gradient) + _TINY
        n_steps = self.state.n_steps + 1
        mean = self.state.mean + 0.1 * (slope - self.state.mean)
        square = self.state.square + 0.001 * (slope * slope - self.state.square)
        bias = math.sqrt(1 - 0.999**n_steps) / (1 - 0.9**n_steps)
        size = self.schedule.factor(self.state.n_steps) * bias
        vector = self.state.vector - (size * self.rates) * mean / (xp.sqrt(square) + 1e-8)
        self.state = State(vector, mean, square, n_steps)

    def slow_down(self, state: State, factor: float) -> None:
        """Go back to an earlier state, keep the place in the schedule, and multiply the rates."""
        self.state = replace(state, n_steps=self.state.n_steps)
        self.rates = factor * self.rates

    def _joined(self, arrays: Arrays) -> Array:
        first = next(iter(arrays.values()))
        xp = array_namespace(first)
        return xp.concat([xp.reshape(arrays[name], (-1,)) for name in self._shapes])
