"""Training of a Gaussian RBF network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from sklearn.exceptions import ConvergenceWarning

from kernlet._typing import Array, Floats
from kernlet.compact.initialise import decoded_machine
from kernlet.compact.network import Examples, JointMargin, Machine, rounded, through_rounding
from kernlet.compact.plan import Layout
from kernlet.devices import Function, capture_cuda_graph, to_numpy
from kernlet.quantization import FORMATS, QuantizedExpansion, best_step, encode
from kernlet.sampling import derive_seed

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
    >>> from kernlet.compact.train import Adam, Schedule
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
            self._step = capture_cuda_graph(self._take_step, examples.device)

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


#: Rates of the second training, over those of the first.
SECOND_RATE = 0.3
_VISITS = 2_160_000  # rows seen in a training of large data
_LARGE = 50_000  # rows from which batches are twice as large


@dataclass(frozen=True)
class Effort:
    """How long and how fast to train.

    Parameters
    ----------
    n_epochs : int
    batch_size : int
    noise : float
    learning_rate : float
        Multiplies all rates.
    rates : dict of str to float
        Of the arrays.
    """

    n_epochs: int
    batch_size: int
    noise: float = 0.1
    learning_rate: float = 1.0
    rates: dict[str, float] = field(default_factory=lambda: dict(RATES))

    def recipe(self, factor: float = 1.0, share: float = 1.0) -> Recipe:
        """The recipe of a training, with rates times a factor and a share of the epochs."""
        rates = {name: factor * self.learning_rate * rate for name, rate in self.rates.items()}
        return Recipe(max(1, math.ceil(share * self.n_epochs)), self.batch_size, self.noise, rates)


def usual_epochs(n_rows: int) -> int:
    """Epochs for so many rows: 120 for few, ten for many, 2.2 million visits in between."""
    return int(np.clip(_VISITS // n_rows, 10, 120))


def usual_batch(n_rows: int) -> int:
    """Rows of a batch: 256, twice that for many rows, and an eighth of few rows."""
    if n_rows >= _LARGE:
        return 512
    return int(np.clip(n_rows // 8, 16, 256))


@dataclass(frozen=True, eq=False)
class Trained:
    """A stored machine and how it came about.

    Parameters
    ----------
    expansion : QuantizedExpansion
    machine : Machine
        The same numbers, on the device they were trained on.
    losses : tuple of float
        Mean loss of each epoch.
    n_halvings : int
        Times that the rates were halved because the loss was no longer finite.
    """

    expansion: QuantizedExpansion
    machine: Machine
    losses: tuple[float, ...]
    n_halvings: int = 0


OnEpoch = Callable[[int, float, Machine], bool]


def train(
    problem: JointMargin,
    layout: Layout,
    start: Machine,
    examples: Examples,
    effort: Effort,
    random: np.random.RandomState,
    *,
    on_epoch: OnEpoch | None = None,
    pick: Callable[[Machine], Machine] | None = None,
) -> Trained:
    """Train a machine and store it as a layout says.

    Tables of few bits are rounded in a second training, of half as many epochs.

    Parameters
    ----------
    problem : JointMargin
    layout : Layout
    start : Machine
        Of numpy arrays.
    examples : Examples
    effort : Effort
    random : RandomState
    on_epoch : callable, default=None
        Told the number of the epoch, its mean loss and the machine; ends a training where it
        returns True.
    pick : callable, default=None
        Replaces the machine that the first training ended with.

    Returns
    -------
    trained : Trained
    """
    machine = on_device(start, examples, layout.width)
    found = descend(problem, machine, examples, effort.recipe(), random, on_epoch=on_epoch)
    losses, n_halvings = found.losses, found.n_halvings
    if pick is not None:
        found = replace(found, machine=pick(found.machine))
    if layout.levels:
        steps = {
            name: best_step(to_numpy(found.machine.arrays()[name]), n_levels)
            for name, n_levels in layout.levels.items()
        }
        recipe = replace(effort.recipe(SECOND_RATE, share=0.5), levels=layout.levels)
        found = descend(
            problem,
            found.machine,
            examples,
            recipe,
            random,
            steps=steps,
            on_epoch=on_epoch and _later(on_epoch, len(losses)),
        )
        losses += found.losses
        n_halvings += found.n_halvings
    expansion = pack(found.machine, found.steps, layout, examples.shift, examples.scale)
    return Trained(expansion, found.machine, losses, n_halvings)


def on_device(machine: Machine, examples: Examples, width: str) -> Machine:
    """A machine of numpy arrays where the examples are, with as many widths as asked for."""
    arrays = machine.arrays()
    if width == "per_center" and len(arrays["log_gamma"]) == 1:
        arrays["log_gamma"] = np.repeat(arrays["log_gamma"], len(arrays["centers"]))
    return Machine(**{name: examples.device.send(array) for name, array in arrays.items()})


def pack(
    machine: Machine, steps: dict[str, float], layout: Layout, shift: float, scale: float
) -> QuantizedExpansion:
    """The tables of a machine.

    Parameters
    ----------
    machine : Machine
        On any device.
    steps : dict of str to float
        Rounding steps of the arrays that have one already.
    layout : Layout
    shift, scale : float

    Returns
    -------
    expansion : QuantizedExpansion
    """
    arrays = {name: to_numpy(array) for name, array in machine.arrays().items()}
    names = ("centers", "weights", "projection")
    tables = {
        name: encode(arrays[name], FORMATS[format], steps.get(name))
        for name, format in zip(names, layout.formats, strict=True)
        if name in arrays
    }
    intercept = arrays["intercept"].astype(f"float{8 * layout.intercept_bytes}")
    gamma: Floats = np.exp(np.clip(arrays["log_gamma"], -80.0, 80.0))
    return QuantizedExpansion(
        gamma,
        tables["centers"],
        tables["weights"],
        intercept,
        shift,
        scale,
        tables.get("projection"),
    )


def _later(on_epoch: OnEpoch, n_epochs: int) -> OnEpoch:
    """The same, for epochs that come after others."""
    return lambda epoch, loss, machine: on_epoch(n_epochs + epoch, loss, machine)


#: A score of outputs against what they should be, and its standard error.
Judge = Callable[[Floats], tuple[float, float]]
#: A start for a layout, with a source of chance.
MakeStart = Callable[[Layout, np.random.RandomState], Machine]

_SETTLING = 0.25  # of the epochs: the last training, on all rows


@dataclass(frozen=True)
class PathPoint:
    """A size that was tried.

    Parameters
    ----------
    n_centers : int
    nbytes : int
        Everything stored.
    score : float
        On the validation part.
    standard_error : float
        Of the score.
    rank : int or None
        Of the projection.
    storage : tuple of str
        Formats of centers, coefficients and projection.
    n_epochs : int
        Epochs of the trial.
    is_full : bool
        Whether the trial was as long as the training of a machine; short ones only tell what to
        try in full.
    """

    n_centers: int
    nbytes: int
    score: float
    standard_error: float
    rank: int | None
    storage: tuple[str, ...]
    n_epochs: int
    is_full: bool


@dataclass(frozen=True, eq=False)
class Trial:
    """A layout, trained on the rows that are not held out.

    Parameters
    ----------
    layout : Layout
    trained : Trained
    outputs : ndarray of shape (n_held_out, n_outputs)
        Of the rows held out.
    score, standard_error : float
        Of these outputs; not a number where nothing is held out.
    is_full : bool
    """

    layout: Layout
    trained: Trained
    outputs: Floats
    score: float
    standard_error: float
    is_full: bool

    @property
    def point(self) -> PathPoint:
        """The trial as users see it."""
        layout = self.layout
        formats = layout.formats if layout.rank is not None else layout.formats[:2]
        return PathPoint(
            layout.n_centers,
            self.trained.expansion.nbytes,
            self.score,
            self.standard_error,
            layout.rank,
            formats,
            len(self.trained.losses),
            self.is_full,
        )


@dataclass(frozen=True, eq=False)
class Workshop:
    """All that trials share.

    Parameters
    ----------
    problem : JointMargin
    kept, held_out, everything : Examples
        Rows to train on, rows to judge by, and both.
    make_start : callable
    judge : callable
    effort : Effort
    seed : int
    """

    problem: JointMargin
    kept: Examples
    held_out: Examples
    everything: Examples
    make_start: MakeStart
    judge: Judge
    effort: Effort
    seed: int

    def trial(
        self,
        layout: Layout,
        share: float = 1.0,
        on_epoch: OnEpoch | None = None,
        pick: Callable[[Machine], Machine] | None = None,
    ) -> Trial:
        """Train one layout, for a share of the usual epochs."""
        random = np.random.RandomState(derive_seed(self.seed, layout.n_centers, layout.rank or 0))
        effort = replace(self.effort, n_epochs=max(1, round(share * self.effort.n_epochs)))
        start = self.make_start(layout, random)
        layout = replace(layout, n_centers=len(start.centers))
        trained = train(
            self.problem, layout, start, self.kept, effort, random, on_epoch=on_epoch, pick=pick
        )
        return self._judged(layout, trained, share >= 1)

    def settle(self, trial: Trial, on_epoch: OnEpoch | None = None) -> Trained:
        """Go on with a trial on all rows, at small rates and for few epochs, if that helps."""
        random = np.random.RandomState(derive_seed(self.seed, 1))
        recipe = replace(self.effort.recipe(SECOND_RATE, _SETTLING), levels=trial.layout.levels)
        machine = on_device(
            Machine(**{n: to_numpy(a) for n, a in trial.trained.machine.arrays().items()}),
            self.everything,
            trial.layout.width,
        )
        tables = trial.trained.expansion.packed
        steps = {
            name: table.step
            for name, table in zip(
                ("centers", "weights", "projection"), tables.values(), strict=True
            )
            if table is not None
        }
        found = descend(
            self.problem,
            machine,
            self.everything,
            recipe,
            random,
            steps=steps,
            on_epoch=on_epoch,
        )
        losses = trial.trained.losses + found.losses
        if not self._loss(found.machine) < self._loss(machine):
            return replace(trial.trained, losses=losses)
        expansion = pack(
            found.machine, found.steps, trial.layout, self.everything.shift, self.everything.scale
        )
        return Trained(expansion, found.machine, losses, found.n_halvings)

    def outputs(self, machine: Machine, examples: Examples) -> Floats:
        """Outputs of all rows, as numpy's."""
        blocks = [
            to_numpy(self.problem.outputs(machine, examples.rows(rows)))
            for rows in examples.blocks()
        ]
        return np.concatenate([np.empty((0, machine.weights.shape[0]), np.float32), *blocks])

    def _loss(self, machine: Machine) -> float:
        """The sum of the losses of all rows."""
        total = 0.0
        for rows in self.everything.blocks():
            outputs = self.problem.outputs(machine, self.everything.rows(rows))
            losses, _ = self.problem.loss.value_and_pull(outputs, self.everything.targets(rows))
            weights = to_numpy(self.everything.weights(rows)).astype(np.float64)
            total += float(weights @ to_numpy(losses))
        return total

    def score(self, machine: Machine) -> float:
        """The score of a machine on the rows held out."""
        if not self.held_out.n_rows:
            return float("nan")
        return self.judge(self.outputs(machine, self.held_out))[0]

    def _judged(self, layout: Layout, trained: Trained, is_full: bool) -> Trial:
        stored = decoded_machine(trained.expansion)
        machine = on_device(stored, self.held_out, layout.width)
        outputs = self.outputs(machine, self.held_out)
        score, error = self.judge(outputs) if len(outputs) else (float("nan"), float("nan"))
        trained = replace(trained, machine=_on_cpu(trained.machine))
        return Trial(layout, trained, outputs, score, error, is_full)


def _on_cpu(machine: Machine) -> Machine:
    return Machine(**{name: to_numpy(array) for name, array in machine.arrays().items()})
