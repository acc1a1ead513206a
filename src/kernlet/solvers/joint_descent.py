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
_SPARE_NOISE = 1_000_003
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
        self.good: State = self.adam.state
        self.n_halvings = 0
        self.last_batch: Array = examples.as_indices(np.arange(1))
        self._noise = self._make_noise()

    @property
    def machine(self) -> Machine:
        """The machine as it is stored."""
        return self._stored(self.adam.arrays)

    @property
    def steps(self) -> dict[str, float]:
        arrays = self.adam.arrays
        return {name: math.exp(float(arrays[_step_of(name)][0])) for name in self.recipe.levels}

    def epoch(self) -> float:
        """Go through all rows once; the mean loss of the batches."""
        order = self.examples.as_indices(self.random.permutation(self.examples.n_rows))
        window: list[Array] = []
        sums: list[float] = []
        n_summed = 0
        for number, (start, stop) in enumerate(pairwise(self.bounds), start=1):
            batch = order[start:stop]
            value, slopes = self._value_and_slopes(batch)
            window.append(value)
            before, self.last_batch = self.adam.state, batch
            self.adam.step(slopes)
            if len(window) == _CHECK_EVERY or number == self.n_batches:
                total = float(sum(window[1:], window[0]))
                self._guard(total, before)
                if math.isfinite(total):
                    sums.append(total)
                    n_summed += len(window)
                window = []
            if self.n_halvings > _MAX_HALVINGS:
                break
        return sum(sums) / n_summed if n_summed else math.nan

    def finish(self) -> None:
        """Take the last step back where it made the loss of the last batch infinite."""
        value, _ = self._value_and_slopes(self.last_batch)
        self._guard(float(value), self.adam.state)

    def _guard(self, loss: float, before: State) -> None:
        """Keep a state whose loss was finite; go back to the last one kept after other losses."""
        if math.isfinite(loss) and self._is_finite():
            self.good = before
            return
        self.n_halvings += 1
        self.adam.slow_down(self.good, 0.5)
        warnings.warn(
            f"The loss was no longer finite: the last steps were undone, and the learning rates "
            f"are now 1/{2**self.n_halvings} of what they were.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _is_finite(self) -> bool:
        vector = self.adam.state.vector
        xp = self.examples.device.namespace
        return bool(xp.all(xp.isfinite(vector)))

    def _value_and_slopes(self, batch: Array) -> tuple[Array, Arrays]:
        arrays = self.adam.arrays
        value, gradient = self.problem.value_and_gradient(
            self._stored(arrays),
            self._noisy_rows(batch),
            self.examples.targets(batch),
            self.examples.weights(batch),
        )
        slopes = gradient.arrays()
        for name, n_levels in self.recipe.levels.items():
            slopes[name], slopes[_step_of(name)] = through_rounding(
                slopes[name], arrays[name], arrays[_step_of(name)], n_levels
            )
        return value, slopes

    def _stored(self, arrays: Arrays) -> Machine:
        steps = {_step_of(name) for name in self.recipe.levels}
        stored = {name: array for name, array in arrays.items() if name not in steps}
        for name, n_levels in self.recipe.levels.items():
            stored[name] = rounded(arrays[name], arrays[_step_of(name)], n_levels)
        return Machine(**stored)

    def _make_noise(self) -> Array | None:
        """One long list of noise, of which each batch takes a piece at random."""
        if not self.recipe.noise:
            return None
        largest = min(self.recipe.batch_size, self.examples.n_rows) * self.examples.n_features
        generator = np.random.default_rng(self.random.randint(2**31 - 1))
        noise = generator.standard_normal(largest + _SPARE_NOISE, dtype=np.float32)
        return self.examples.device.send(noise * np.float32(self.recipe.noise))

    def _noisy_rows(self, batch: Array) -> Array:
        rows = self.examples.rows(batch)
        if self._noise is not None:
            start = self.random.randint(_SPARE_NOISE)
            piece = self._noise[start : start + math.prod(rows.shape)]
            rows += self.examples.device.namespace.reshape(piece, rows.shape)
        return rows


def _step_of(name: str) -> str:
    """What the rounding step of an array is called among the arrays."""
    return f"{name}_log_step"
