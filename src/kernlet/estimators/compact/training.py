"""From a start to a stored machine: training, rounding, packing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from kernlet.devices import to_numpy
from kernlet.estimators.compact.layout import Layout
from kernlet.kernels.kernel import Floats
from kernlet.problems.joint_margin import JointMargin, Machine
from kernlet.quantized import QuantizedExpansion
from kernlet.solvers.examples import Examples
from kernlet.solvers.joint_descent import RATES, Recipe, descend
from kernlet.tables import FORMATS, best_step, encode

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
