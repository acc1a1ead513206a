"""All stages of training a compact machine, and its storage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.initialise import InitialModel, initialise
from kernlet.compact.network import CrossEntropy, KernelNetwork
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.train import Trained, TrainingConfig, train_network
from kernlet.devices import to_numpy
from kernlet.kernels.gram import as_dense, row_slices
from kernlet.progress import Progress
from kernlet.quantization import QuantizedExpansion, best_step
from kernlet.sampling import derive_seed

# How this works
# --------------
# A network of few centers is not convex in its centers, so that it is trained like a neural
# network: all parameters together (centers, output weights, intercepts, log gamma and, where there
# are any, a projection, log alpha, feature scales and jumps), by Adam on mini-batches (train.py),
# from a good initial network (initialise.py).
#
# 1. Train in float32, for clip(2.16e6 / n_rows, 10, 120) epochs: small data need many passes, large
#    data reach the same number of steps in few.
# 2. Train with rounding where a table is stored in less than eight bits: as long and as fast as in
#    stage 1 for classes; for half as many epochs at 0.3 of the rates for numbers. The first
#    rounding step is the one of least squared error. Widths of single centers are rounded to 1/8 of
#    their logarithm in both stages.
# 3. The held-out rows now give the score that sizes are compared by, and the temperature.
# 4. Fine-tune on all rows, for a quarter of the epochs at 0.3 of the rates, rounded as in stage 2.
#    The result is kept only if it lowers the loss over all rows.
#
# Everything random comes from one RandomState per trial, seeded by the size of the plan, so that
# trials give the same result in any order and process.

#: Learning rate of fine-tuning and of warm starts, over that of the first stage.
LATER_RATE = 0.3
FINETUNE_EPOCHS = 0.25
# Rates and epochs of stage 2, over those of the first: for classes and for numbers.
_QUANTIZED_CLASSES, _QUANTIZED_NUMBERS = (1.0, 1.0), (LATER_RATE, 0.5)
_LOG_GAMMA_LEVELS = 127


class EpochMonitor:
    """Records the epochs of a fit, reports them to callbacks, and decides when to stop.

    ``attributes`` are those of an estimator that predicts with an expansion.
    """

    def __init__(self, attributes: Callable[[QuantizedExpansion], dict[str, Any]]) -> None:
        self.attributes = attributes
        self.history: list[dict[str, float]] = []
        self.was_stopped = False
        self._best: tuple[float, KernelNetwork | None] = (-math.inf, None)
        self._n_worse = 0

    def watch(self, task: Progress, *, scores: bool = True, patience: int | None = None) -> None:
        """Report the epochs that follow to a task, with the validated score if asked for.

        With ``patience``, training stops after that many epochs without a better score.
        """
        self.task, self.scores, self.patience = task, scores, patience

    def bind(
        self,
        pack: Callable[[KernelNetwork], QuantizedExpansion],
        score: Callable[[KernelNetwork], float],
    ) -> None:
        """How the networks that follow are stored and scored."""
        self.pack, self.score = pack, score

    def __call__(self, loss: float, network: KernelNetwork) -> bool:
        """Record an epoch; True to stop."""
        score = self.score(network) if self.scores else math.nan
        self.history.append({"loss": loss, "score": score})
        stop = self.task.step("epoch", lambda: self.attributes(self.pack(network)))
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
class Candidate:
    """What may be chosen: a plan, the deviation of the noise on the inputs, and label smoothing.

    Without ``smoothing``, targets are those of the training set.
    """

    plan: StoragePlan
    noise: float
    smoothing: float | None = None


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
        plan, batches = candidate.plan, self.batches_of(candidate)
        random = np.random.RandomState(derive_seed(self.seed, plan.n_centers, plan.rank or 0))
        network = initialise(plan, self.training, batches, self.model, candidate.noise, random)
        plan = self.plan_of(network, plan, batches)
        if monitor is not None:
            monitor.bind(*self._in_floats(plan, batches))
        config = self.config_of(candidate.noise, epochs)
        trained = self._train(network, plan, batches, config, random, monitor)
        return self.trial_of(replace(candidate, plan=plan), trained, batches)

    def trial_of(self, candidate: Candidate, trained: Trained, batches: BatchLoader) -> Trial:
        """The trial of a network, with the outputs of the stored expansion."""
        expansion = self.pack(trained.network, candidate.plan, trained.steps, batches)
        return Trial(
            candidate,
            trained.network.map(to_numpy),
            expansion,
            self._stored_outputs(expansion, candidate.plan, batches),
            self.training.held_out,
            trained.losses,
            trained.n_halvings,
        )

    def batches_of(self, candidate: Candidate) -> BatchLoader:
        """All rows, mapped by the inputs of a plan, with smoothed targets."""
        batches = self.batches.for_plan(candidate.plan, self.training.train)
        table = self.table_of(candidate)
        return batches if table is None else batches.with_table(table)

    def table_of(self, candidate: Candidate) -> Floats | None:
        """The targets of each class for a candidate."""
        table = self.training.target_table
        if candidate.smoothing is None or table is None:
            return table
        return CrossEntropy(candidate.smoothing).target_table(len(table))

    def plan_of(
        self, network: KernelNetwork, plan: StoragePlan, batches: BatchLoader
    ) -> StoragePlan:
        """The plan of an initial network: of fewer centers or steps, where the rows have fewer."""
        scaling = batches.inputs.scaling_bytes
        n_centers = network.centers.shape[-2]
        return replace(
            plan,
            n_centers=n_centers,
            n_steps=batches.n_steps,
            scaling_bytes=scaling,
            fill_bytes=batches.inputs.fill_bytes,
        )

    def config_of(self, noise: Any, epochs: float) -> TrainingConfig:
        """How to train with some noise, for a share of the epochs."""
        n_epochs = max(1, round(epochs * self.config.n_epochs))
        return replace(self.config, noise=noise, n_epochs=n_epochs)

    def quantized_config(self, config: TrainingConfig) -> TrainingConfig:
        """The config of stage 2."""
        is_classifier = self.training.target_table is not None
        return config.scaled(*(_QUANTIZED_CLASSES if is_classifier else _QUANTIZED_NUMBERS))

    def finetune(self, trial: Trial, monitor: EpochMonitor | None = None) -> Trial:
        """Continue a trial on all rows; its parameters stay where that does not lower the loss."""
        plan, batches = trial.candidate.plan, self.batches_of(trial.candidate)
        network = trial.network.map(self.batches.device.send)
        if monitor is not None:
            monitor.bind(*self._in_floats(plan, batches))
        trained = train_network(
            network,
            self.training.loss,
            batches.augmented(),
            self.config_of(trial.candidate.noise, 1.0).scaled(LATER_RATE, FINETUNE_EPOCHS),
            np.random.RandomState(derive_seed(self.seed, 1)),
            levels=quantized_levels(plan),
            steps={name: trial.expansion.packed[_TABLES[name]].step for name in plan.levels},
            on_epoch=monitor,
        )
        trial = replace(trial, losses=trial.losses + trained.losses)
        if not self.total_loss(trained.network, batches) < self.total_loss(network, batches):
            return trial
        expansion = self.pack(trained.network, plan, trained.steps, batches)
        return replace(trial, network=trained.network.map(to_numpy), expansion=expansion)

    def pack(
        self,
        network: KernelNetwork,
        plan: StoragePlan,
        steps: dict[str, Any],
        batches: BatchLoader,
    ) -> QuantizedExpansion:
        """Store a network by a plan."""
        inputs = batches.inputs
        scaling = (inputs.shift, inputs.scale)
        return plan.pack(network.arrays(), steps, *scaling, inputs.steps, inputs.fill)

    def _in_floats(self, plan: StoragePlan, batches: BatchLoader) -> Any:
        """How networks in the middle of training are stored and scored."""
        plan = replace(plan, formats=STORAGE["float32"])
        held_out, validation = self.training.held_out, self.training.validation

        def score(network: KernelNetwork) -> float:
            outputs = self._held_out_outputs(network, batches)
            return validation.score(outputs, held_out, with_error=False).value

        return (lambda network: self.pack(network, plan, {}, batches)), score

    def total_loss(self, network: KernelNetwork, batches: BatchLoader) -> float:
        """The weighted sum of the losses of all rows."""
        total = 0.0
        for rows in batches.blocks():
            outputs = network.outputs(batches.rows(rows))
            losses, _ = self.training.loss.value_and_grad(outputs, batches.targets(rows))
            weights = to_numpy(batches.weights(rows)).astype(np.float64)
            total += float(weights @ to_numpy(losses))
        return total

    def _train(
        self,
        network: KernelNetwork,
        plan: StoragePlan,
        batches: BatchLoader,
        config: TrainingConfig,
        random: np.random.RandomState,
        monitor: EpochMonitor | None,
    ) -> Trained:
        """Stage 1 in float32, and stage 2 with rounding where the plan has few bits."""
        batches, loss = batches.subset(self.training.train).augmented(), self.training.loss
        network = network.map(batches.device.send)
        levels = first_levels(plan)
        trained = train_network(
            network, loss, batches, config, random, levels=levels, on_epoch=monitor
        )
        if monitor is not None:
            trained = replace(trained, network=monitor.end_stage(trained.network))
        if not plan.levels:
            return trained
        quantized = train_network(
            trained.network,
            loss,
            batches,
            self.quantized_config(config),
            random,
            levels=quantized_levels(plan),
            steps=first_steps(trained.network, plan),
            on_epoch=monitor,
        )
        return quantized.after(trained)

    def _stored_outputs(
        self, expansion: QuantizedExpansion, plan: StoragePlan, batches: BatchLoader
    ) -> Floats:
        """Outputs of the stored machine for the held-out rows."""
        if plan.width != "per_feature":
            network = KernelNetwork.from_expansion(expansion)
            network = replace(network, skips_missing=batches.has_missing)
            network = network.map(batches.device.send)
            return self._held_out_outputs(network, batches)
        # Scales of features are folded into those of the inputs: its rows are not ours.
        X, held_out = self.training.X, self.training.held_out
        blocks = row_slices(len(held_out), 8 * plan.n_features)
        outputs = [expansion.decision_values(as_dense(X[held_out[rows]])) for rows in blocks]
        return np.concatenate([np.empty((0, expansion.n_outputs)), *outputs]).astype(np.float32)

    def _held_out_outputs(self, network: KernelNetwork, batches: BatchLoader) -> Floats:
        held_out = batches.subset(self.training.held_out)
        outputs = [to_numpy(network.outputs(held_out.rows(rows))) for rows in held_out.blocks()]
        return np.concatenate([np.empty((0, network.weights.shape[0]), np.float32), *outputs])


#: Names of the stored tables of parameters.
_TABLES = {"centers": "centers", "weights": "coef", "projection": "projection"}


def first_levels(plan: StoragePlan) -> dict[str, int]:
    """What is rounded from the first stage on: widths of single centers."""
    return {"log_gamma": _LOG_GAMMA_LEVELS} if plan.has_widths else {}


def quantized_levels(plan: StoragePlan) -> dict[str, int]:
    """What is rounded in the second stage."""
    return plan.levels | first_levels(plan)


def first_steps(network: KernelNetwork, plan: StoragePlan) -> dict[str, Any]:
    """The best rounding steps of a network, or of each network of a stack."""
    steps: dict[str, Any] = {}
    for name, n_levels in plan.levels.items():
        tables = to_numpy(network.arrays()[name])
        shape = tables.shape[:-2]
        each = [best_step(tables[place], n_levels) for place in np.ndindex(shape)]
        steps[name] = np.reshape(each, shape)
    return steps
