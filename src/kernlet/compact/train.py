"""Training of a Gaussian RBF network in stages, and its storage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kernlet._typing import Array, Floats, Indices
from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.initialise import InitialModel, initialise
from kernlet.compact.network import Arrays, KernelNetwork, Loss
from kernlet.compact.optimizer import Adam, AdamState, Rounding, log_step_name
from kernlet.compact.plan import PACKED, StoragePlan
from kernlet.devices import Function, capture_cuda_graph, to_numpy
from kernlet.progress import Progress
from kernlet.quantization import QuantizedExpansion, best_step
from kernlet.sampling import derive_seed
from kernlet.sklearn_base import warn_user

# How this works
# --------------
# An RBF network of few centers is not convex in its centers, so that it is trained like a neural
# network: all parameters together (centers, output weights, intercepts, log gamma and, where there
# is one, a projection), by Adam on mini-batches, from a good initial network (initialise.py).
#
# 1. Train in float32, for clip(2.16e6 / n_rows, 10, 120) epochs: small data need many passes, large
#    data reach the same number of steps in few. Each parameter has its own learning rate, since
#    Adam's steps are about the rate whatever the size of the gradient, and centers (in units of
#    the inputs), weights (in units of the outputs) and log gamma differ by orders of magnitude.
#    The rate rises linearly over the first 5 % of the steps, while Adam's moments are still noise,
#    and then falls along a half cosine to zero. Noise on the inputs and smoothed labels regularise.
# 2. Quantisation-aware training, for half as many epochs at 0.3 of the rates, where a table is
#    stored in less than eight bits. The forward pass uses the rounded parameters, so that the
#    others adapt to them. Rounding has a zero derivative almost everywhere; the straight-through
#    estimator replaces it by 1 inside the range, so that small gradients add up in the float32
#    parameters until a value moves to the next level. The step between levels is learned too
#    (LSQ), by its logarithm, which keeps it positive. The first step is the one of least squared
#    rounding error.
# 3. The held-out rows now give the score that sizes are compared by, and the temperature.
# 4. Fine-tune on all rows, for a quarter of the epochs at 0.3 of the rates, rounded as in stage 2.
#    The result is kept only if it lowers the loss over all rows.
#
# Divergence: every 32 steps, and after each epoch, the loss is checked. If it is not finite, the
# parameters return to the last good state and all rates are halved; after ten halvings training
# ends. A check waits for the device, which is why not every step has one.
#
# Everything random comes from one RandomState per trial, seeded by the size of the plan, so that
# trials give the same result in any order and process.
#
# Sources: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015. Bengio, Leonard
# and Courville, "Estimating or propagating gradients through stochastic neurons", 2013
# (straight-through). Esser et al., "Learned step size quantization", ICLR 2020 (LSQ). Loshchilov
# and Hutter, "SGDR", ICLR 2017 (cosine schedule). Bishop, "Training with noise is equivalent to
# Tikhonov regularization", 1995. Szegedy et al., CVPR 2016 (label smoothing).

# -- One stage -------------------------------------------------------------------------------

#: Learning rates in units of the scaled inputs, of the outputs and of log gamma.
RATES = {"centers": 0.1, "weights": 0.5, "intercept": 0.5, "log_gamma": 0.05, "projection": 0.003}
_LOG_STEP_RATE = 0.02  # of the logarithms of rounding steps
_STEPS_PER_CHECK = 32
_MAX_HALVINGS = 10
#: Offsets at which the noise of a batch may begin in one long vector of noise. Fresh noise for each
#: batch would take about as long as its matrix products; few offsets keep the vector in the cache.
NOISE_OFFSETS = 65_537

_ROW_VISITS = 2_160_000  # rows times epochs
_EPOCHS = (10, 120)
_LARGE_BATCH_ROWS = 50_000  # rows at which batches of twice the size still make enough steps


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to train; ``noise`` is the deviation of the noise on the inputs.

    For a stack of networks, noise and rates may be arrays that broadcast with it.
    """

    n_epochs: int
    batch_size: int = 256
    noise: Any = 0.1
    learning_rate: float = 1.0
    rates: dict[str, Any] = field(default_factory=RATES.copy)

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


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, quantized where its stage is; ``steps`` are its rounding steps.

    ``losses`` are the mean losses of the epochs, ``n_halvings`` the times that the rates were
    halved because the loss was not finite.
    """

    network: KernelNetwork
    steps: dict[str, float]
    losses: tuple[float, ...]
    n_halvings: int


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
) -> Trained:
    """Train a network on the device of the batches, in one stage.

    The parameters in ``levels`` are rounded, from the rounding ``steps`` given for them.
    ``on_epoch`` is called with the mean loss of each epoch and the network; True ends the stage.
    The arrays of the network may have leading dimensions: those of a stack of networks, which are
    trained at once and whose losses are added up.
    Time is about 4 n_rows n_centers n_features per epoch, memory a few matrices of
    batch_size x n_centers.
    """
    stage = _Stage(network, loss, batches, config, random, levels or {}, steps or {})
    losses: list[float] = []
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for _ in range(config.n_epochs):
            losses.append(stage.run_epoch())
            if stage.n_halvings > _MAX_HALVINGS:
                break
            if on_epoch is not None and on_epoch(losses[-1], stage.network):
                break
        stage.check_last_step()
    return Trained(stage.network, stage.rounding_steps, tuple(losses), stage.n_halvings)


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
        self.noise_deviation: Array = batches.device.send(config.noise)
        n_batches = -(-batches.n_rows // config.batch_size)
        bounds = np.linspace(0, batches.n_rows, n_batches + 1).astype(int).tolist()
        self.slices = [slice(start, stop) for start, stop in pairwise(bounds)]
        arrays = network.arrays()
        self.stack_shape = tuple(network.centers.shape[:-2])
        rates = {name: config.learning_rate * config.rates[name] for name in arrays}
        for name in levels:
            log_step = np.log(np.reshape(steps[name], (*self.stack_shape, 1, 1)))
            arrays[log_step_name(name)] = batches.device.send(log_step)
            rates[log_step_name(name)] = _LOG_STEP_RATE
        self.rounding = Rounding(arrays, levels) if levels else None
        self.adam = Adam(arrays, rates, config.n_epochs * n_batches)
        self.state, self.good = self.adam.start, self.adam.start.copy()
        self.n_steps = self.n_halvings = 0
        self.last_batch: Array = batches.as_indices(np.arange(1))
        self.noise = self._draw_noise(min(config.batch_size, batches.n_rows))
        self._step: Function = self._take_step
        if batches.is_cached:
            self._step = capture_cuda_graph(self._take_step, batches.device)

    @property
    def network(self) -> KernelNetwork:
        """The network as it is stored: quantized where it will be."""
        return self._quantized(self.adam.arrays(self.state.copy().vector))

    @property
    def rounding_steps(self) -> dict[str, float]:
        """Steps of the parameters that are rounded."""
        arrays = self.adam.arrays(self.state.vector)
        if self.stack_shape:  # a stack is not stored
            return {}
        return {name: math.exp(float(arrays[log_step_name(name)][0, 0])) for name in self.levels}

    def run_epoch(self) -> float:
        """Visit all rows once and return the mean loss of the batches."""
        order = self.batches.shuffled(self.random)
        sums: list[float] = []
        n_summed = 0
        for first in range(0, len(self.slices), _STEPS_PER_CHECK):
            window = self.slices[first : first + _STEPS_PER_CHECK]
            total: Array = self.batches.device.send(np.zeros(self.stack_shape))
            for rows in window:
                self.last_batch = order[..., rows]
                # A step overwrites the state. The last loss of a window is that before its step,
                # so that the state before it is the one known to be good.
                before = self.state.copy() if rows is window[-1] else self.state
                *state, total = self._step(*self.state, total, *self._step_inputs(self.last_batch))
                self.state = AdamState(*state)
                self.n_steps += 1
            loss = self._sum(total)
            self._guard(loss, before)
            if math.isfinite(loss):
                sums.append(loss)
                n_summed += len(window)
            if self.n_halvings > _MAX_HALVINGS:
                break
        return sum(sums) / n_summed if n_summed else math.nan

    def check_last_step(self) -> None:
        """Undo the last step, which no loss has checked yet, if the last batch diverges."""
        batch, noise, _ = self._step_inputs(self.last_batch)
        value, _ = self._value_and_grad(self.adam.arrays(self.state.vector), batch, noise)
        self._guard(self._sum(value), self.state.copy())

    def _step_inputs(self, batch: Array) -> tuple[Array, Array, Array]:
        """What changes from step to step: rows, noise and step size."""
        size = self.adam.step_size(self.n_steps) / 2**self.n_halvings
        n_numbers = batch.shape[-1] * self.batches.n_features if self.has_noise else 0
        start = self.random.randint(NOISE_OFFSETS)
        noise = self.noise[start : start + n_numbers]
        return batch, noise, self.batches.device.send(np.array(size))

    def _take_step(self, *arrays: Array) -> tuple[Array, ...]:
        """The next state, which overwrites the given one, and the total with this batch's loss."""
        *state, total, batch, noise, step_size = arrays
        value, grad = self._value_and_grad(self.adam.arrays(state[0]), batch, noise)
        return (*self.adam.update(AdamState(*state), grad, step_size), total + value)

    def _value_and_grad(self, arrays: Arrays, batch: Array, noise: Array) -> tuple[Array, Arrays]:
        rows = self.batches.rows(batch)
        if noise.shape[0]:
            noise = self.batches.device.namespace.reshape(noise, rows.shape[-2:])
            rows = rows + self.noise_deviation * noise
        targets, weights = self.batches.targets(batch), self.batches.weights(batch)
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
        return KernelNetwork(**arrays)

    def _draw_noise(self, batch_size: int) -> Array:
        generator = np.random.default_rng(self.random.randint(2**31 - 1))
        largest = batch_size * self.batches.n_features
        n_numbers = largest + NOISE_OFFSETS if self.has_noise else 0
        return self.batches.device.send(generator.standard_normal(n_numbers, dtype=np.float32))

    def _sum(self, losses: Array) -> float:
        """The loss of one network, or the sum over a stack, which is finite if all are."""
        return float(self.batches.device.namespace.sum(losses))


# -- All stages ------------------------------------------------------------------------------

#: Learning rate of every stage after the first, over that of the first.
LATER_RATE = 0.3
QUANTIZED_EPOCHS = 0.5  # of those of the first stage
_FINETUNE_EPOCHS = 0.25


class EpochMonitor:
    """Records the epochs of a fit, reports them to callbacks, and decides when to stop."""

    def __init__(self, attributes: Callable[[KernelNetwork], dict[str, Any]]) -> None:
        self.attributes = attributes
        self.history: list[dict[str, float]] = []
        self.was_stopped = False
        self._best: tuple[float, KernelNetwork | None] = (-math.inf, None)
        self._n_worse = 0

    def watch(
        self,
        task: Progress,
        score: Callable[[KernelNetwork], float] | None = None,
        patience: int | None = None,
    ) -> None:
        """Report the epochs that follow to a task, with the validated score where there is one.

        With ``patience``, training stops after that many epochs without a better score.
        """
        self.task, self.score, self.patience = task, score, patience

    def __call__(self, loss: float, network: KernelNetwork) -> bool:
        """Record an epoch; True to stop."""
        score = self.score(network) if self.score is not None else math.nan
        self.history.append({"loss": loss, "score": score})
        stop = self.task.step("epoch", lambda: self.attributes(network))
        self.was_stopped |= stop
        if stop or self.patience is None:
            return stop
        if score > self._best[0]:
            self._best, self._n_worse = (score, network), 0
        else:
            self._n_worse += 1
        return self._n_worse >= self.patience

    def end_stage(self, trained: KernelNetwork) -> KernelNetwork:
        """The network to continue with: the best one with early stopping, which ends here."""
        self.patience = None
        return trained if self._best[1] is None else self._best[1]


@dataclass(frozen=True)
class PathPoint:
    """A size that was tried.

    Parameters
    ----------
    n_centers : int
    nbytes : int
        Everything stored.
    score : float
        Of rows that were not trained on.
    standard_error : float
        Of the score.
    rank : int or None
        Of the projection.
    storage : tuple of str
        Formats of centers, coefficients and projection.
    is_full : bool
        Whether the trial had all epochs (and, in cross-validation, all folds); short ones only
        select what is tried in full.
    noise : float
        Deviation of the noise on the inputs.
    """

    n_centers: int
    nbytes: int
    score: float
    standard_error: float
    rank: int | None
    storage: tuple[str, ...]
    is_full: bool
    noise: float


@dataclass(frozen=True)
class Candidate:
    """What may be chosen: a plan, and the deviation of the noise on the inputs."""

    plan: StoragePlan
    noise: float


@dataclass(frozen=True, eq=False)
class Trial:
    """A trained candidate, with its ``outputs`` for ``rows`` that it was not trained on.

    Outputs are those of the stored ``expansion``; ``network`` has the same parameters on the CPU.
    """

    candidate: Candidate
    network: KernelNetwork
    expansion: QuantizedExpansion
    outputs: Floats
    rows: Indices
    losses: tuple[float, ...]
    n_halvings: int = 0


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains candidates on one training set, from the user's ``model`` where there is one."""

    training: TrainingSet
    batches: BatchLoader
    model: InitialModel | None
    config: TrainingConfig
    seed: int

    def trial(
        self, candidate: Candidate, epochs: float = 1.0, monitor: EpochMonitor | None = None
    ) -> Trial:
        """Train a candidate on the rows that are not held out, for a share of the epochs."""
        plan = candidate.plan
        random = np.random.RandomState(derive_seed(self.seed, plan.n_centers, plan.rank or 0))
        config = self.config_of(candidate.noise, epochs)
        network = initialise(plan, self.training, self.batches, self.model, config.noise, random)
        plan = replace(plan, n_centers=len(network.centers))
        trained = self._train(network, plan, config, random, monitor)
        expansion = self.pack(trained.network, plan, trained.steps)
        stored = KernelNetwork.from_expansion(expansion).map(self.batches.device.send)
        return Trial(
            replace(candidate, plan=plan),
            trained.network.map(to_numpy),
            expansion,
            self._held_out_outputs(stored),
            self.training.held_out,
            trained.losses,
            trained.n_halvings,
        )

    def config_of(self, noise: Any, epochs: float) -> TrainingConfig:
        """How to train with some noise, for a share of the epochs."""
        n_epochs = max(1, round(epochs * self.config.n_epochs))
        return replace(self.config, noise=noise, n_epochs=n_epochs)

    def finetune(self, trial: Trial, monitor: EpochMonitor | None = None) -> Trial:
        """Continue a trial on all rows; its parameters stay where that does not lower the loss."""
        network = trial.network.map(self.batches.device.send)
        packed = trial.expansion.packed
        tables = zip(PACKED, (packed[n] for n in ("centers", "coef", "projection")), strict=True)
        trained = train_network(
            network,
            self.training.loss,
            self.batches,
            self.config_of(trial.candidate.noise, 1.0).scaled(LATER_RATE, _FINETUNE_EPOCHS),
            np.random.RandomState(derive_seed(self.seed, 1)),
            levels=trial.candidate.plan.levels,
            steps={name: table.step for name, table in tables if table is not None},
            on_epoch=monitor,
        )
        trial = replace(trial, losses=trial.losses + trained.losses)
        if not self.total_loss(trained.network) < self.total_loss(network):
            return trial
        expansion = self.pack(trained.network, trial.candidate.plan, trained.steps)
        return replace(trial, network=trained.network.map(to_numpy), expansion=expansion)

    def pack(
        self, network: KernelNetwork, plan: StoragePlan, steps: dict[str, float]
    ) -> QuantizedExpansion:
        """Store a network by a plan."""
        return plan.pack(network.arrays(), steps, self.batches.shift, self.batches.scale)

    def score(self, network: KernelNetwork) -> float:
        """The score of a network on the held-out rows; NaN without any."""
        outputs = self._held_out_outputs(network)
        held_out = self.training.held_out
        return self.training.validation.score(outputs, held_out, with_error=False).value

    def total_loss(self, network: KernelNetwork) -> float:
        """The weighted sum of the losses of all rows."""
        total = 0.0
        for rows in self.batches.blocks():
            outputs = network.outputs(self.batches.rows(rows))
            losses, _ = self.training.loss.value_and_grad(outputs, self.batches.targets(rows))
            weights = to_numpy(self.batches.weights(rows)).astype(np.float64)
            total += float(weights @ to_numpy(losses))
        return total

    def _train(
        self,
        network: KernelNetwork,
        plan: StoragePlan,
        config: TrainingConfig,
        random: np.random.RandomState,
        monitor: EpochMonitor | None,
    ) -> Trained:
        """Stage 1 in float32, and stage 2 with rounding where the plan has few bits."""
        batches, loss = self.batches.subset(self.training.train), self.training.loss
        if plan.width == "per_center" and len(network.log_gamma) == 1:
            widths = np.repeat(network.log_gamma, len(network.centers))
            network = replace(network, log_gamma=widths)
        network = network.map(batches.device.send)
        trained = train_network(network, loss, batches, config, random, on_epoch=monitor)
        if monitor is not None:
            trained = replace(trained, network=monitor.end_stage(trained.network))
        if not plan.levels:
            return trained
        arrays = trained.network.arrays()
        quantized = train_network(
            trained.network,
            loss,
            batches,
            config.scaled(LATER_RATE, QUANTIZED_EPOCHS),
            random,
            levels=plan.levels,
            steps={name: best_step(to_numpy(arrays[name]), n) for name, n in plan.levels.items()},
            on_epoch=monitor,
        )
        return replace(
            quantized,
            losses=trained.losses + quantized.losses,
            n_halvings=trained.n_halvings + quantized.n_halvings,
        )

    def _held_out_outputs(self, network: KernelNetwork) -> Floats:
        held_out = self.batches.subset(self.training.held_out)
        outputs = [to_numpy(network.outputs(held_out.rows(rows))) for rows in held_out.blocks()]
        return np.concatenate([np.empty((0, network.weights.shape[0]), np.float32), *outputs])
