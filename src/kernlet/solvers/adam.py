"""Adam with warm-up and cosine decay, on named arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from array_api_compat import array_namespace

from kernlet.kernels.lifted import Array

Arrays = dict[str, Array]

# Keeps the moments of numbers that no row moves from fading into ever smaller numbers, with which
# processors are slow. Far below the 1e-8 that a moment is compared with.
_TINY = 1e-15


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


class State(NamedTuple):
    """All arrays as one vector, and the running moments of its gradient."""

    vector: Array
    mean: Array
    square: Array

    def copy(self) -> State:
        """The same numbers in other memory."""
        xp = array_namespace(self.vector)
        return State(*(xp.asarray(array, copy=True) for array in self))


class Adam:
    """Adam (Kingma and Ba, 2015) with a rate of its own for each array.

    All arrays live in one vector, so that a step is a dozen operations however many arrays there
    are; :meth:`State.copy` keeps a state that a step would write over.

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
    >>> adam = Adam({"x": np.array([3.0])}, {"x": 0.3}, Schedule(200))
    >>> state = adam.start
    >>> for step in range(200):
    ...     x = adam.arrays(state.vector)["x"]
    ...     state = adam.moved(state, {"x": 2 * x}, adam.size(step))
    >>> bool(abs(state.vector[0]) < 1e-3)
    True
    """

    def __init__(self, arrays: Arrays, rates: dict[str, float], schedule: Schedule) -> None:
        self.schedule = schedule
        self._shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        vector = self._joined(arrays)
        xp = array_namespace(vector)
        scales = {name: xp.full_like(array, rates[name]) for name, array in arrays.items()}
        self._rates = self._joined(scales)
        self.start = State(vector, xp.zeros_like(vector), xp.zeros_like(vector))

    def arrays(self, vector: Array) -> Arrays:
        """The arrays in a vector, by name."""
        xp = array_namespace(vector)
        arrays, start = {}, 0
        for name, shape in self._shapes.items():
            stop = start + math.prod(shape)
            arrays[name] = xp.reshape(vector[start:stop], shape)
            start = stop
        return arrays

    def size(self, step: int) -> float:
        """What the rates are multiplied by at a step: the schedule, and Adam's own correction."""
        bias = math.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        return self.schedule.factor(step) * bias

    def moved(self, state: State, gradient: Arrays, size: Array) -> State:
        """The state after a step of a size against a gradient, which has an entry for each array.

        The state that is given is written over. A size may be an array of no dimension, so that
        the step can be recorded.
        """
        xp = array_namespace(state.vector)
        vector, mean, square = state
        slope = self._joined(gradient)
        slope += _TINY
        change = slope - mean
        change *= 0.1
        mean += change
        slope *= slope
        slope -= square
        slope *= 0.001
        square += slope
        root = xp.sqrt(square)
        root += 1e-8
        step = size * self._rates
        step *= mean
        step /= root
        vector -= step
        return State(vector, mean, square)

    def _joined(self, arrays: Arrays) -> Array:
        first = next(iter(arrays.values()))
        xp = array_namespace(first)
        return xp.concat([xp.reshape(arrays[name], (-1,)) for name in self._shapes])
