"""Adam on all numbers of a machine, with noisy inputs, rounded tables and a guard."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernlet.kernels.lifted import Array
from kernlet.problems.joint_margin import JointMargin, Machine
from kernlet.problems.rounding import rounded, through_rounding
from kernlet.recorded import Function, recorded
from kernlet.solvers.adam import Adam, Arrays, Schedule, State
from kernlet.solvers.examples import Examples

RATES = {
    "centers": 0.1,
    "weights": 0.5,
    "intercept": 0.5,
    "log_gamma": 0.05,
    "projection": 0.003,
}
_STEP_RATE = 0.02  # of the logarithms of rounding steps
_CHECK_EVERY = 32  # steps between looks at the loss: each look waits for a device
#: Places at which a batch may begin in the list of noise; few, so that it stays near the processor.
SPARE_NOISE = 65_537
_MAX_HALVINGS = 10


@dataclass(frozen=True)
class Recipe:
    """How long and how fast to train.

    Parameters
    ----------
    n_epochs : int
    batch_size : int
    noise : float
        Deviation of the noise on the inputs.
    rates : dict of str to float
        Learning rates of the arrays.
    levels : dict of str to int
        Arrays that are rounded while they are trained, and their multiples of a step on either
        side of 0.
    """

    n_epochs: int
    batch_size: int = 256
    noise: float = 0.1
    rates: dict[str, float] = field(default_factory=lambda: dict(RATES))
    levels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Descent:
    """What a training found.

    Parameters
    ----------
    machine : Machine
        As it is stored: rounded where the recipe says so.
    steps : dict of str to float
        Rounding steps of the arrays.
    losses : tuple of float
        Mean loss of each epoch.
    n_halvings : int
        Times that the rates were halved because the loss was no longer finite.
    """

    machine: Machine
    steps: dict[str, float]
    losses: tuple[float, ...]
    n_halvings: int


def descend(
    problem: JointMargin,
    start: Machine,
    examples: Examples,
    recipe: Recipe,
    random: np.random.RandomState,
    *,
    steps: dict[str, float] | None = None,
    on_epoch: Callable[[int, float, Machine], bool] | None = None,
) -> Descent:
    """Train a machine from where it is.

    Where the loss is no longer finite, the machine goes back to its last good state, the rates
    are halved and a warning says so. Time is n_epochs times about 4 n_rows n_centers n_features;
    memory a few matrices of batch_size x n_centers, and copies of the machine.

    Parameters
    ----------
    problem : JointMargin
    start : Machine
        On the device of the examples.
    examples : Examples
    recipe : Recipe
    random : RandomState
    steps : dict of str to float, default=None
        First rounding steps of the arrays that the recipe rounds.
    on_epoch : callable, default=None
        Told the number of the epoch, its mean loss and the machine; training ends where it
        returns True.

    Returns
    -------
    descent : Descent
    """
    search = _Search(problem, start, examples, recipe, random, steps or {})
    losses: list[float] = []
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for epoch in range(recipe.n_epochs):
            losses.append(search.epoch())
            if search.n_halvings > _MAX_HALVINGS:
                break
            if on_epoch is not None and on_epoch(epoch, losses[-1], search.machine):
                break
        search.finish()
    return Descent(search.machine, search.steps, tuple(losses), search.n_halvings)


class _Search:
    """A training under way."""

    def __init__(
        self,
        problem: JointMargin,
        start: Machine,
        examples: Examples,
        recipe: Recipe,
        random: np.random.RandomState,
        steps: dict[str, float],
    ) -> None:
        self.problem, self.examples, self.recipe, self.random = problem, examples, recipe, random
        self.n_batches = -(-examples.n_rows // recipe.batch_size)
        self.bounds = np.linspace(0, examples.n_rows, self.n_batches + 1).astype(int).tolist()
        arrays, rates = start.arrays(), dict(recipe.rates)
        for name in recipe.levels:
            arrays[_step_of(name)] = examples.device.send(np.log([steps[name]]))
            rates[_step_of(name)] = _STEP_RATE
        self.adam = Adam(arrays, rates, Schedule(recipe.n_epochs * self.n_batches))
        self.state, self.good = self.adam.start, self.adam.start.copy()
        self.n_steps = self.n_halvings = 0
        self.last_batch: Array = examples.as_indices(np.arange(1))
        self._noise = self._make_noise()
        self._step: Function = self._take_step
        if examples.is_held:
            self._step = recorded(self._take_step, examples.device)

    @property
    def machine(self) -> Machine:
        """The machine as it is stored."""
        return self._stored(self.adam.arrays(self.state.copy().vector))

    @property
    def steps(self) -> dict[str, float]:
        """Rounding steps."""
        arrays = self.adam.arrays(self.state.vector)
        return {name: math.exp(float(arrays[_step_of(name)][0])) for name in self.recipe.levels}

    def epoch(self) -> float:
        """Go through all rows once; the mean loss of the batches."""
        order = self.examples.shuffled(self.random)
        sums: list[float] = []
        n_summed = n_window = 0
        total: Array = self.examples.device.send(np.zeros(()))
        for number, (start, stop) in enumerate(pairwise(self.bounds), start=1):
            self.last_batch = order[start:stop]
            is_last = number == self.n_batches or n_window == _CHECK_EVERY - 1
            before = self.state.copy() if is_last else self.state
            *state, total = self._step(*self.state, total, *self._inputs(self.last_batch))
            self.state = State(*state)
            self.n_steps += 1
            n_window += 1
            if is_last:
                loss = float(total)
                self._guard(loss, before)
                if math.isfinite(loss):
                    sums.append(loss)
                    n_summed += n_window
                total, n_window = self.examples.device.send(np.zeros(())), 0
            if self.n_halvings > _MAX_HALVINGS:
                break
        return sum(sums) / n_summed if n_summed else math.nan

    def finish(self) -> None:
        """Take the last step back where it made the loss of the last batch infinite."""
        batch, noise, _ = self._inputs(self.last_batch)
        value, _ = self._value_and_slopes(self.adam.arrays(self.state.vector), batch, noise)
        self._guard(float(value), self.state.copy())

    def _inputs(self, batch: Array) -> tuple[Array, Array, Array]:
        """What changes from step to step: rows, noise and size."""
        device = self.examples.device
        size = self.adam.size(self.n_steps) / 2**self.n_halvings
        n_numbers = batch.shape[0] * self.examples.n_features if self.recipe.noise else 0
        start = self.random.randint(SPARE_NOISE)
        return batch, self._noise[start : start + n_numbers], device.send(np.array(size))

    def _take_step(
        self,
        vector: Array,
        mean: Array,
        square: Array,
        total: Array,
        batch: Array,
        noise: Array,
        size: Array,
    ) -> tuple[Array, ...]:
        """The next state, in place of this one, and the sum of losses with that of the batch."""
        value, slopes = self._value_and_slopes(self.adam.arrays(vector), batch, noise)
        moved = self.adam.moved(State(vector, mean, square), slopes, size)
        return (*moved, total + value)

    def _value_and_slopes(self, arrays: Arrays, batch: Array, noise: Array) -> tuple[Array, Arrays]:
        rows = self.examples.rows(batch)
        if noise.shape[0]:
            rows += self.examples.device.namespace.reshape(noise, rows.shape)
        value, gradient = self.problem.value_and_gradient(
            self._stored(arrays), rows, self.examples.targets(batch), self.examples.weights(batch)
        )
        slopes = gradient.arrays()
        for name, n_levels in self.recipe.levels.items():
            slopes[name], slopes[_step_of(name)] = through_rounding(
                slopes[name], arrays[name], arrays[_step_of(name)], n_levels
            )
        return value, slopes

    def _guard(self, loss: float, before: State) -> None:
        """Keep a state whose loss was finite; go back to the last one kept after other losses."""
        if math.isfinite(loss) and self._is_finite():
            self.good = before
            return
        self.n_halvings += 1
        self.state = self.good.copy()
        warnings.warn(
            f"The loss was no longer finite: the last steps were undone, and the learning rates "
            f"are now 1/{2**self.n_halvings} of what they were.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _is_finite(self) -> bool:
        xp = self.examples.device.namespace
        return bool(xp.all(xp.isfinite(self.state.vector)))

    def _stored(self, arrays: Arrays) -> Machine:
        steps = {_step_of(name) for name in self.recipe.levels}
        stored = {name: array for name, array in arrays.items() if name not in steps}
        for name, n_levels in self.recipe.levels.items():
            stored[name] = rounded(arrays[name], arrays[_step_of(name)], n_levels)
        return Machine(**stored)

    def _make_noise(self) -> Array:
        """One long list of noise, of which each batch takes a piece at random."""
        generator = np.random.default_rng(self.random.randint(2**31 - 1))
        largest = min(self.recipe.batch_size, self.examples.n_rows) * self.examples.n_features
        n_numbers = largest + SPARE_NOISE if self.recipe.noise else 0
        noise = generator.standard_normal(n_numbers, dtype=np.float32)
        return self.examples.device.send(noise * np.float32(self.recipe.noise))


def _step_of(name: str) -> str:
    """What the rounding step of an array is called among the arrays."""
    return f"{name}_log_step"
