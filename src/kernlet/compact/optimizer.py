"""Adam and rounding, for all parameters of a network as one vector."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kernlet._typing import Array
from kernlet.compact.network import Arrays
from kernlet.devices import array_namespace

# How this works
# --------------
# A step of a small network is limited by the number of numpy calls, each of which takes about a
# microsecond, and by memory, not by arithmetic. Adam and the rounding of the parameters therefore
# work on one vector of all arrays: the number of calls does not depend on that of the arrays.
#
# Adam (Kingma and Ba, ICLR 2015). The state holds sum_i 0.9^(t-i) g_i and sum_i 0.999^(t-i) g_i^2,
# that is, the moments of the paper without the factors 0.1 and 0.001, which are in the rates.
#
# Rounding to multiples of a step s, from -n to n of them, learns both the values v and log s
# (LSQ; Esser et al., ICLR 2020). With q = s clip(round(v / s), -n, n) and the straight-through
# estimator, d q / d v is 1 where |v| <= n s and 0 beyond; d q / d log s is q - v inside, q beyond.


class Layout:
    """Where the arrays of each name are in one vector."""

    def __init__(self, arrays: Arrays) -> None:
        self._shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        self._slices, start = {}, 0
        for name, shape in self._shapes.items():
            self._slices[name] = slice(start, start + math.prod(shape))
            start += math.prod(shape)

    def vector(self, arrays: Arrays) -> Array:
        """The vector of arrays; a copy."""
        xp = array_namespace(next(iter(arrays.values())))
        return xp.concat([xp.reshape(arrays[name], (-1,)) for name in self._shapes])

    def arrays(self, vector: Array) -> Arrays:
        """The arrays in a vector, whose memory they share."""
        xp = array_namespace(vector)
        shapes = self._shapes.items()
        return {name: xp.reshape(vector[self._slices[name]], shape) for name, shape in shapes}


# -- Adam ------------------------------------------------------------------------------------

_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8  # those of the paper
# Added to every gradient. Without it the moments of a parameter that no row moves decay into
# subnormal numbers, with which processors are slow. Far below the epsilon they are compared with.
_SUBNORMAL_GUARD = 1e-15
# Of sums instead of means: epsilon and rate of a step mean / (sqrt(square) + epsilon).
_ROOT_EPSILON = _EPSILON / math.sqrt(1 - _SQUARE_DECAY)
_RATE_OF_SUMS = (1 - _MEAN_DECAY) / math.sqrt(1 - _SQUARE_DECAY)

_WARM_UP = 0.05  # share of the steps over which the rates rise


def rate_factor(step: int, n_steps: int | None, warm_up: float = _WARM_UP) -> float:
    """The factor of the learning rates at a step from 0: a linear rise, then a half cosine.

    Without a number of steps it is always 1.
    """
    if n_steps is None:
        return 1.0
    rising = max(1, round(warm_up * n_steps))
    if step < rising:
        return (step + 1) / rising
    progress = (step - rising) / max(1, n_steps - rising)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


class AdamState(NamedTuple):
    """All parameters as one vector, and the decaying sums of its gradient and of its squares."""

    vector: Array
    mean: Array
    square: Array

    def copy(self) -> AdamState:
        """The same numbers in other memory."""
        xp = array_namespace(self.vector)
        return AdamState(*(xp.asarray(array, copy=True) for array in self))


class Adam:
    """Adam with one learning rate per array.

    An update is a dozen operations on one vector of all arrays.
    """

    def __init__(
        self,
        arrays: Arrays,
        rates: dict[str, Any],
        n_steps: int | None,
        warm_up: float = _WARM_UP,
    ) -> None:
        self.n_steps, self.warm_up = n_steps, warm_up
        self.layout = Layout(arrays)
        vector = self.layout.vector(arrays)
        xp = array_namespace(vector)
        scales = {name: xp.zeros_like(array) + rates[name] for name, array in arrays.items()}
        self._rates = _RATE_OF_SUMS * self.layout.vector(scales)
        self.start = AdamState(vector, xp.zeros_like(vector), xp.zeros_like(vector))
        self._last = vector, self.layout.arrays(vector)

    def arrays(self, vector: Array) -> Arrays:
        """The arrays in a vector, by name; they share its memory."""
        if self._last[0] is not vector:  # updates are in place, so that it mostly is the same
            self._last = vector, self.layout.arrays(vector)
        return self._last[1]

    def step_size(self, step: int) -> float:
        """The factor of the rates at a step: the schedule times Adam's bias correction."""
        mean_bias, square_bias = 1 - _MEAN_DECAY ** (step + 1), 1 - _SQUARE_DECAY ** (step + 1)
        factor = rate_factor(step, self.n_steps, self.warm_up)
        return factor * (math.sqrt(square_bias) / mean_bias)

    def update(self, state: AdamState, grad: Arrays, step_size: Array) -> AdamState:
        """The state after a step, which overwrites the given one.

        ``step_size`` may be an array of no dimension, so that the step can be captured in a graph.
        """
        xp = array_namespace(state.vector)
        vector, mean, square = state
        gradient = self.layout.vector(grad)
        gradient += _SUBNORMAL_GUARD
        mean *= _MEAN_DECAY
        mean += gradient
        square *= _SQUARE_DECAY
        gradient *= gradient
        square += gradient
        root = xp.sqrt(square)
        root += _ROOT_EPSILON
        step = step_size * self._rates
        step *= mean
        step /= root
        vector -= step
        return AdamState(vector, mean, square)


# -- Rounding --------------------------------------------------------------------------------


def log_step_name(name: str) -> str:
    """The name of the logarithm of a parameter's rounding step."""
    return f"{name}_log_step"


class Rounding:
    """Rounds the arrays with ``levels``, the number of multiples of a step on either side of 0.

    ``arrays`` also hold the logarithms of the steps, in shapes that broadcast with the arrays.
    """

    def __init__(self, arrays: Arrays, levels: dict[str, int]) -> None:
        self._names = {name: log_step_name(name) for name in levels}
        self._shared = {
            name: tuple(axis for axis, size in enumerate(arrays[log_step].shape) if size == 1)
            for name, log_step in self._names.items()
        }
        counts = {name: 0 * arrays[name] + float(n) for name, n in levels.items()}
        self._layout = Layout(counts)
        self._levels = self._layout.vector(counts)
        self._least = -self._levels
        self._steps = 0 * self._levels
        self._step_of = self._layout.arrays(self._steps)

    def quantized(self, arrays: Arrays) -> Arrays:
        """The arrays, rounded where they are, without the logarithms of the steps."""
        xp = array_namespace(self._steps)
        for name, log_step in self._names.items():
            self._step_of[name][...] = xp.exp(arrays[log_step])
        self._values = self._layout.vector(arrays)
        multiples = self._values / self._steps
        # numpy's clip is ten times as slow with arrays as limits
        clipped = xp.maximum(xp.minimum(multiples, self._levels), self._least)
        self._inside = clipped == multiples
        self._quantized = xp.round(clipped)
        self._quantized *= self._steps
        arrays = {name: arrays[name] for name in arrays.keys() - self._names.values()}
        return arrays | self._layout.arrays(self._quantized)

    def grad(self, grad: Arrays) -> Arrays:
        """Gradients by values and log steps, from those by the last quantized arrays."""
        xp = array_namespace(self._steps)
        gradient = self._layout.vector(grad)
        slopes = gradient * self._quantized
        gradient *= xp.astype(self._inside, gradient.dtype)
        slopes -= gradient * self._values
        grad = grad | self._layout.arrays(gradient)
        for name, slope in self._layout.arrays(slopes).items():
            grad[self._names[name]] = xp.sum(slope, axis=self._shared[name], keepdims=True)
        return grad
