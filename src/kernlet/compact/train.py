"""One stage of training a network of kernels: Adam on mini-batches, with rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kernlet._typing import Array, Floats
from kernlet.compact.batches import BatchLoader
from kernlet.compact.network import Arrays, KernelNetwork, Loss
from kernlet.compact.optimizer import Adam, AdamState, Layout, Rounding, log_step_name
from kernlet.compact.plan import LOG_GAMMA_STEP
from kernlet.devices import Function, capture_cuda_graph, to_numpy
from kernlet.sklearn_base import warn_user

# How this works
# --------------
# All parameters are trained together by Adam. Each has its own learning rate, since Adam's steps
# are about the rate whatever the size of the gradient, and centers (in units of the inputs),
# weights (in units of the outputs) and log gamma differ by orders of magnitude. The rate rises
# linearly over the first 5 % of the steps, while Adam's moments are still noise, and then falls
# along a half cosine to zero. Noise on the inputs and smoothed labels regularise.
#
# Rounding: the forward pass uses the rounded parameters, so that the others adapt to them. Rounding
# has a zero derivative almost everywhere; the straight-through estimator replaces it by 1 inside
# the range, so that small gradients add up in the float32 parameters until a value moves to the
# next level. The step between levels is learned too (LSQ), by its logarithm, which keeps it
# positive; that of log gamma is fixed.
#
# Weights that the mask of the network keeps at zero have the learning rate zero.
#
# Divergence: every 32 steps, and after each epoch, the loss is checked. If it is not finite, the
# parameters return to the last good state and all rates are halved; after ten halvings training
# ends. A check waits for the device, which is why not every step has one.
#
# Sources: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015. Bengio, Leonard
# and Courville, "Estimating or propagating gradients through stochastic neurons", 2013
# (straight-through). Esser et al., "Learned step size quantization", ICLR 2020 (LSQ). Loshchilov
# and Hutter, "SGDR", ICLR 2017 (cosine schedule). Bishop, "Training with noise is equivalent to
# Tikhonov regularization", 1995. Szegedy et al., CVPR 2016 (label smoothing).

#: Learning rates in units of the scaled inputs, of the outputs and of logarithms.
RATES = {
    "centers": 0.1,
    "weights": 0.5,
    "intercept": 0.5,
    "log_gamma": 0.05,
    "projection": 0.012,
    "log_feature_scales": 0.02,
    "jumps": 0.2,
    "log_alpha": 0.03,
}
_LOG_STEP_RATE = 0.02  # of the logarithms of rounding steps
#: Parameters whose rounding step is fixed.
_FIXED_STEPS = {"log_gamma": LOG_GAMMA_STEP}
_STEPS_PER_CHECK = 32
_MAX_HALVINGS = 10
#: Offsets at which the noise of a batch may begin in one long vector of noise. Fresh noise for each
#: batch would take about as long as its matrix products; few offsets keep the vector in the cache.
NOISE_OFFSETS = 65_537
#: Numbers of the rows that are gathered at once, for one or more batches: few calls, in the cache.
GATHERED_NUMBERS, GATHERED_ON_DEVICE = 2**16, 2**21

_ROW_VISITS = 2_160_000  # rows times epochs
_EPOCHS = (10, 120)
_LARGE_BATCH_ROWS = 50_000  # rows at which batches of twice the size still make enough steps


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to train; ``noise`` is the deviation of the noise on the inputs.

    For a stack of networks, noise and rates may be arrays that broadcast with it. With
    ``is_constant``, the rates neither rise nor fall.
    """

    n_epochs: int
    batch_size: int = 256
    noise: Any = 0.1
    learning_rate: float = 1.0
    rates: dict[str, Any] = field(default_factory=RATES.copy)
    is_constant: bool = False

    def scaled(self, learning_rate: float, epochs: float) -> TrainingConfig:
        """The config with a share of the learning rate and of the epochs."""
        n_epochs = max(1, math.ceil(epochs * self.n_epochs))
        return replace(self, n_epochs=n_epochs, learning_rate=learning_rate * self.learning_rate)


def default_epochs(n_rows: int) -> int:
    """Number of epochs: clip(2.16e6 / n_rows, 10, 120)."""
    return int(np.clip(_ROW_VISITS // n_rows, *_EPOCHS))


def default_batch_size(n_rows: int) -> int:
    """Rows per batch: clip(n_rows / 8, 16, 256), and 512 with at least 50,000 rows."""
    if n_rows >= _LARGE_BATCH_ROWS:
        return 512
    return int(np.clip(n_rows // 8, 16, 256))


class StageEnd(NamedTuple):
    """Where a stage ended: Adam's state, whose parameters are not rounded, and its steps so far.

    The ``layout`` says where the arrays are in the vectors of the state.
    """

    state: AdamState
    layout: Layout
    n_steps: int


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, quantized where its stage is; ``steps`` are its rounding steps.

    ``losses`` are the mean losses of the epochs, ``n_halvings`` the times that the rates were
    halved because the loss was not finite. A later stage may continue from ``end``.
    """

    network: KernelNetwork
    steps: dict[str, Any]
    losses: tuple[float, ...]
    n_halvings: int
    end: StageEnd | None = None

    def after(self, first: Trained) -> Trained:
        """The result of this stage after another one."""
        n_halvings = first.n_halvings + self.n_halvings
        return replace(self, losses=first.losses + self.losses, n_halvings=n_halvings)


def train_network(
    network: KernelNetwork,
    loss: Loss,
    batches: BatchLoader,
    config: TrainingConfig,
    random: np.random.RandomState,
    *,
    levels: dict[str, int] | None = None,
    steps: dict[str, Any] | None = None,
    on_epoch: Callable[[float, KernelNetwork], bool] | None = None,
    after: StageEnd | None = None,
) -> Trained:
    """Train a network on the device of the batches, in one stage.

    The parameters in ``levels`` are rounded, from the rounding ``steps`` given for them.
    ``on_epoch`` is called with the mean loss of each epoch and the network; True ends the stage.
    With ``after``, parameters, rounding steps and moments are those with which an earlier stage of
    such a network ended.
    The arrays of the network may have leading dimensions: those of a stack of networks, which are
    trained at once; losses are means over the stack.
    Time is about 4 n_rows n_centers n_features per epoch, memory a few matrices of
    batch_size x n_centers.
    """
    stage = _Stage(network, loss, batches, config, random, levels or {}, steps or {})
    if after is not None:
        stage.continue_from(after)
    losses: list[float] = []
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for _ in range(config.n_epochs):
            losses.append(stage.run_epoch())
            if stage.n_halvings > _MAX_HALVINGS:
                break
            if on_epoch is not None and on_epoch(losses[-1], stage.network):
                break
        stage.check_last_step()
    end = StageEnd(stage.state, stage.adam.layout, stage.n_steps)
    return Trained(stage.network, stage.rounding_steps, tuple(losses), stage.n_halvings, end)


class _Stage:
    """A training stage in progress: the state of Adam and the last good state before it."""

    def __init__(
        self,
        network: KernelNetwork,
        loss: Loss,
        batches: BatchLoader,
        config: TrainingConfig,
        random: np.random.RandomState,
        levels: dict[str, int],
        steps: dict[str, Any],
    ) -> None:
        self.loss, self.batches, self.random, self.levels = loss, batches, random, levels
        self.has_noise = bool(np.any(config.noise))
        n_batches = -(-batches.n_rows // config.batch_size)
        bounds = np.linspace(0, batches.n_rows, n_batches + 1).astype(int).tolist()
        self.slices = [slice(start, stop) for start, stop in pairwise(bounds)]
        arrays = network.arrays()
        self.start = network
        self.stack_shape = tuple(network.centers.shape[:-2])
        rates = {name: config.learning_rate * config.rates[name] for name in arrays}
        if network.mask is not None:
            rates["weights"] = rates["weights"] * network.mask
        for name in levels:
            log_step = np.log(self._shaped_step(name, steps.get(name)))
            arrays[log_step_name(name)] = batches.device.send(log_step)
            rates[log_step_name(name)] = 0.0 if name in _FIXED_STEPS else _LOG_STEP_RATE
        self.rounding = Rounding(arrays, levels) if levels else None
        n_steps = None if config.is_constant else config.n_epochs * n_batches
        self.adam = Adam(arrays, rates, n_steps)
        self.state, self.good = self.adam.start, self.adam.start.copy()
        self.n_steps = self.n_halvings = 0
        self.last_batch: tuple[Array, ...] = ()
        n_rows = min(config.batch_size, batches.n_rows)
        gathered = GATHERED_NUMBERS if batches.device.is_numpy else GATHERED_ON_DEVICE
        self.n_gathered = max(1, gathered // (n_rows * batches.n_features))
        self.noise = self._draw_noise(config.noise, min(batches.n_rows, self.n_gathered * n_rows))
        self._step: Function = capture_cuda_graph(self._take_step, batches.device)

    def continue_from(self, end: StageEnd) -> None:
        """Continue an earlier stage, whose state stays as it is."""
        self.state, self.good, self.n_steps = end.state.copy(), end.state.copy(), end.n_steps

    def _shaped_step(self, name: str, step: Any) -> Floats:
        """The step of a parameter, or those of a stack, so that they broadcast with it."""
        if name in _FIXED_STEPS:
            return np.full((*self.stack_shape, 1), _FIXED_STEPS[name])
        return np.reshape(step, (*self.stack_shape, 1, 1))

    @property
    def network(self) -> KernelNetwork:
        """The network as it is stored: quantized where it will be."""
        return self._quantized(self.adam.arrays(self.state.copy().vector))

    @property
    def rounding_steps(self) -> dict[str, Any]:
        """The learned steps of the parameters that are rounded, or of those of a stack."""
        arrays = self.adam.arrays(self.state.vector)
        names = [name for name in self.levels if name not in _FIXED_STEPS]
        steps = {name: np.exp(to_numpy(arrays[log_step_name(name)]))[..., 0, 0] for name in names}
        return steps if self.stack_shape else {name: float(step) for name, step in steps.items()}

    def run_epoch(self) -> float:
        """Visit all rows once and return the mean loss of the batches."""
        order = self.batches.shuffled(self.random)
        sums: list[float] = []
        n_summed = 0
        for first in range(0, len(self.slices), _STEPS_PER_CHECK):
            window = self.slices[first : first + _STEPS_PER_CHECK]
            total: Array = self.batches.device.send(np.zeros(self.stack_shape))
            for number, batch in enumerate(self._batches_of(order, window), 1):
                self.last_batch = batch
                # A step overwrites the state. The last loss of a window is that before its step,
                # so that the state before it is the one known to be good.
                before = self.state.copy() if number == len(window) else self.state
                *state, total = self._step(*self.state, total, *batch)
                self.state = AdamState(*state)
                self.n_steps += 1
            loss = self._mean(total)
            self._guard(loss, before)
            if math.isfinite(loss):
                sums.append(loss)
                n_summed += len(window)
            if self.n_halvings > _MAX_HALVINGS:
                break
        return sum(sums) / n_summed if n_summed else math.nan

    def check_last_step(self) -> None:
        """Undo the last step, which no loss has checked yet, if the last batch diverges."""
        value, _ = self._value_and_grad(self.adam.arrays(self.state.vector), *self.last_batch[:3])
        self._guard(self._mean(value), self.state.copy())

    def _batches_of(self, order: Array, window: list[slice]) -> Iterator[tuple[Array, ...]]:
        """Rows with noise, targets, weights and step size of each batch of a window."""
        steps = range(self.n_steps, self.n_steps + len(window))
        sizes = [self.adam.step_size(step) / 2**self.n_halvings for step in steps]
        step_sizes = self.batches.device.send(sizes)
        for first in range(0, len(window), self.n_gathered):
            group = window[first : first + self.n_gathered]
            start = group[0].start
            numbers = order[..., start : group[-1].stop]
            rows = self._with_noise(self.batches.rows(numbers))
            weights = self.batches.weights(numbers)
            for number, batch in enumerate(group, first):
                part = slice(batch.start - start, batch.stop - start)
                # Targets have contiguous columns, of this batch only: see `column_major`.
                targets = self.batches.targets(numbers[..., part])
                yield rows[..., part, :], targets, weights[..., part], step_sizes[number]

    def _with_noise(self, rows: Array) -> Array:
        """Noise on the features of rows, not on the indicators of steps behind them."""
        if not self.has_noise:
            return rows
        xp, n_features = self.batches.device.namespace, self.batches.n_features
        start = self.random.randint(NOISE_OFFSETS)
        noise = self.noise[..., start : start + rows.shape[-2] * n_features]
        noise = xp.reshape(noise, (*noise.shape[:-1], rows.shape[-2], n_features))
        if noise.ndim > rows.ndim:  # a stack of networks with noise of several deviations
            shape = (*noise.shape[:-3], *rows.shape)
            rows = xp.asarray(xp.broadcast_to(rows, shape), copy=True)
        rows[..., :n_features] += noise
        return rows

    def _take_step(self, *arrays: Array) -> tuple[Array, ...]:
        """The next state, which overwrites the given one, and the total with this batch's loss."""
        *state, total, rows, targets, weights, step_size = arrays
        parameters = self.adam.arrays(state[0])
        value, grad = self._value_and_grad(parameters, rows, targets, weights)
        return (*self.adam.update(AdamState(*state), grad, step_size), total + value)

    def _value_and_grad(
        self, arrays: Arrays, rows: Array, targets: Array, weights: Array
    ) -> tuple[Array, Arrays]:
        value, grad = self._quantized(arrays).value_and_grad(self.loss, rows, targets, weights)
        return value, grad if self.rounding is None else self.rounding.grad(grad)

    def _guard(self, loss: float, before: AdamState) -> None:
        """Keep a state of finite loss; otherwise return to the last one and halve the rates."""
        xp = self.batches.device.namespace
        if math.isfinite(loss) and bool(xp.all(xp.isfinite(self.state.vector))):
            self.good = before
            return
        self.n_halvings += 1
        self.state = self.good.copy()
        warn_user(
            "The loss is not finite: the last steps were undone, and the learning rates are now "
            f"1/{2**self.n_halvings} of what they were."
        )

    def _quantized(self, arrays: Arrays) -> KernelNetwork:
        if self.rounding is not None:
            arrays = self.rounding.quantized(arrays)
        return self.start.with_arrays(arrays)

    def _draw_noise(self, noise: Any, n_rows: int) -> Array:
        """One long vector of noise, or one for each deviation of a stack."""
        generator = np.random.default_rng(self.random.randint(2**31 - 1))
        n_numbers = n_rows * self.batches.n_features + NOISE_OFFSETS if self.has_noise else 0
        numbers: Floats = generator.standard_normal(n_numbers, dtype=np.float32)
        deviations: Floats = np.asarray(noise, dtype=np.float32)
        if np.ptp(deviations):
            return self.batches.device.send(deviations[..., 0] * numbers)
        return self.batches.device.send(deviations.flat[0] * numbers)

    def _mean(self, losses: Array) -> float:
        """The loss of one network, or the mean over a stack, which is finite if all are."""
        return float(self.batches.device.namespace.mean(losses))
