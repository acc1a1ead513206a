"""Compact machines that learn block by block, and follow a stream that drifts."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kernlet._typing import Floats, Indices
from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.initialise import InitialModel, in_shape, initialise
from kernlet.compact.inputs import Inputs, without_missing
from kernlet.compact.network import Arrays, KernelNetwork
from kernlet.compact.plan import StoragePlan
from kernlet.compact.scoring import class_numbers
from kernlet.compact.train import StageEnd, TrainingConfig, default_batch_size, train_network
from kernlet.compact.trainer import LATER_RATE, first_steps, quantized_levels
from kernlet.devices import NUMPY
from kernlet.kernels.gram import as_dense
from kernlet.quantization import QuantizedExpansion, as_numbers
from kernlet.sampling import derive_seed

# How this works
# --------------
# Each block is predicted first, by the machine so far, and then learned: a few epochs of Adam over
# the block and three times as many rows of a memory, at a constant rate, so that the last block
# counts as much as the first one did. Parameters are kept in float32 between the calls, with Adam's
# moments; the stored tables are rounded from them at the end of each call, and so small steps are
# not lost (tables of six bits and fewer are rounded in training too, as in trainer.py).
#
# Memory. Training on the block alone forgets what the last blocks did not show. A new row takes the
# place of a random one in the memory, so that the chance of a row to be there still decays
# exponentially with its age, in rows, and the mean age is the size of the memory (Aggarwal, "On
# biased reservoir sampling in the presence of stream evolution", VLDB 2006). Size is thus the one
# choice between accuracy without drift (large) and speed of adaptation (small).
#
# Abrupt drift. Rows of the memory carry the outputs they had before they were learned. Where the
# newest 200 of them have significantly more errors than the others, the older ones belong to a
# concept that has ended, and are forgotten: on letter with two permutations of the labels, a mean
# accuracy of 73 instead of 70 %. The limit is 8 standard errors, since errors in real streams come
# in bursts: with 4, covertype in its original order lost 1.5 points, with 8 nothing.
#
# Start. The initial network is made from the first block. While fewer than ten rows per center have
# been seen, it is made again whenever there are half as many more, so that a stream of single rows
# ends up with the same number of centers; scaling and steps of the inputs are fixed from then on.
#
# Where a concept ends and most centers are far from all rows that are left, the inputs have moved
# away, and the machine starts again from these rows, with their scaling.
#
# Centers that lie far from all rows of a call have no gradient and stay there for ever. Where there
# are also rows far from all centers, some of these become the place of such centers, with weight 0.
# Rows of the memory keep their centers from being idle, and rows far from all centers have no
# gradient either: where most of a block are so, they get their share of all centers, even before
# enough rows were predicted to notice drift.
#
# Averaging the parameters over steps was tried and left out: over 10 of them it changed the
# accuracy by less than half a point, over 100 it gained 1.5 points on letter without drift and lost
# 10 points on rotating pendigits.

#: Epochs of a call by default, and those of a start over those of other calls.
EPOCHS, _START_EPOCHS = 10, 3
_MEMORY_PER_BLOCK = 3  # rows of the memory per row of a block
BATCH_SIZE = 256  #: rows per batch by default
#: More rows than any block has.
MOST_ROWS = 2**31
_MEMORY_NUMBERS = 2**24  # rows times features in the memory at most
_START_ROWS_PER_CENTER, _START_GROWTH = 10, 1.5
_NEWEST_ROWS = 200  # that are compared with the older ones
_DRIFT_ERRORS = 8.0  # standard errors of the difference
#: Newest rows that score and temperature come from, and how many are enough for them.
VALIDATION_ROWS, LEAST_VALIDATION_ROWS = 500, 30
_NO_OVERLAP = 1e-4  # kernel values below it
_LOOKED_AT_ROWS = 2000  # of a call, for centers far from all of them
_FARTHEST = 1e6  # deviations from the mean to which rows are drawn in, where every kernel is 0


@dataclass(frozen=True, eq=False)
class StreamRows:
    """Rows of a stream with class numbers and weights, numbered by their ``arrivals``.

    ``outputs`` are those before the row was learned; NaN where there was no machine yet.
    """

    X: Floats
    codes: Indices
    weights: Floats
    outputs: Floats
    arrivals: Indices

    def __len__(self) -> int:
        return len(self.codes)

    def subset(self, rows: Any) -> StreamRows:
        """The rows of the given numbers."""
        return StreamRows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, other: StreamRows) -> StreamRows:
        """These rows, then the others."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in vars(self))
        return StreamRows(*(np.concatenate(pair) for pair in pairs))

    def sample(self, n_rows: int, random: np.random.RandomState) -> StreamRows:
        """At most ``n_rows`` of these rows, drawn at random."""
        if len(self) <= n_rows:
            return self
        return self.subset(np.sort(random.choice(len(self), n_rows, replace=False)))

    def with_block(self, block: StreamRows, size: int, random: np.random.RandomState) -> StreamRows:
        """The memory after a block: its rows fill what is free, then replace rows at random."""
        size = min(size, max(1, _MEMORY_NUMBERS // self.X.shape[1]))
        kept = self.sample(size, random)
        n_free = size - len(kept)
        full = kept.joined(block.subset(slice(n_free)))
        rest = block.subset(slice(n_free, None))
        # Of rows for the same place the last one stays, as if they had come one by one.
        places = random.randint(max(1, len(full)), size=len(rest))
        for name, array in vars(full).items():
            array[places] = getattr(rest, name)
        return full

    def newest(self, n_rows: int) -> StreamRows:
        """The newest of the rows that were predicted before they were learned."""
        predicted = self.subset(np.isfinite(self.outputs).all(axis=1))
        return predicted.subset(np.argsort(predicted.arrivals)[-n_rows:])

    def without_old_concept(self, block: StreamRows) -> StreamRows:
        """The memory without its older rows, where the newest show abrupt drift."""
        rows = self.joined(block)
        rows = rows.subset(np.isfinite(rows.outputs).all(axis=1))
        if len(rows) < 2 * _NEWEST_ROWS:
            return self
        errors = class_numbers(rows.outputs) != rows.codes
        first = np.partition(rows.arrivals, -_NEWEST_ROWS)[-_NEWEST_ROWS]
        new, old = errors[rows.arrivals >= first], errors[rows.arrivals < first]
        mean = errors.mean()
        variance = mean * (1 - mean) * (1 / len(new) + 1 / len(old))
        if new.mean() - old.mean() <= _DRIFT_ERRORS * np.sqrt(variance):
            return self
        return self.subset(self.arrivals >= first)


@dataclass(frozen=True, eq=False)
class StreamMachine:
    """A machine in training: the stored ``expansion``, and what the next call continues from.

    ``network`` has its shape, with the parameters before the first call; those after the last one
    are in ``end``.
    """

    plan: StoragePlan
    inputs: Inputs
    network: KernelNetwork
    steps: dict[str, Any]
    expansion: QuantizedExpansion | None = None
    end: StageEnd | None = None
    losses: tuple[float, ...] = ()

    @classmethod
    def initial(
        cls,
        plan: StoragePlan,
        training: TrainingSet,
        batches: BatchLoader,
        model: InitialModel | None,
        noise: float,
        random: np.random.RandomState,
    ) -> StreamMachine:
        """The machine of an initial network: of fewer centers where there are fewer rows."""
        network = initialise(plan, training, batches, model, noise, random).map(NUMPY.send)
        # Later rows may have missing numbers where those of the start have none.
        network = replace(network, skips_missing=plan.missing == "distance")
        plan = replace(
            plan,
            n_centers=len(network.centers),
            n_steps=batches.n_steps,
            scaling_bytes=batches.inputs.scaling_bytes,
            fill_bytes=batches.inputs.fill_bytes,
        )
        return cls(plan, batches.inputs, network, first_steps(network, plan))

    @classmethod
    def of(cls, expansion: QuantizedExpansion, plan: StoragePlan) -> StreamMachine:
        """A machine that was trained before."""
        inputs, network = Inputs.of(expansion), KernelNetwork.from_expansion(expansion)
        network = in_shape(network, plan, inputs, plan.n_inputs).map(NUMPY.send)
        return cls(plan, inputs, network, first_steps(network, plan), expansion)

    def trained(
        self,
        training: TrainingSet,
        batches: BatchLoader,
        config: TrainingConfig,
        random: np.random.RandomState,
    ) -> StreamMachine:
        """The machine after one stage of training, stored."""
        trained = train_network(
            self.network,
            training.loss,
            batches.augmented(),
            config,
            random,
            levels=quantized_levels(self.plan),
            steps=self.steps,
            after=self.end,
        )
        arrays, inputs = trained.network.arrays(), self.inputs
        expansion = self.plan.pack(
            arrays, trained.steps, inputs.shift, inputs.scale, inputs.steps, inputs.fill
        )
        return replace(self, end=trained.end, expansion=expansion, losses=trained.losses)

    def is_far_from(self, X: Floats) -> bool:
        """Whether most centers are far from all rows."""
        if self.end is None:
            return False
        arrays = self.end.layout.arrays(self.end.state.vector)
        K = self._network(arrays).kernel_values(self.inputs(X))
        return float(np.mean(K.max(axis=0) < _NO_OVERLAP)) > 1 / 2

    def _network(self, arrays: Arrays) -> KernelNetwork:
        """The network of the arrays of Adam, among which may be rounding steps."""
        return self.network.with_arrays({name: arrays[name] for name in self.network.arrays()})

    def with_idle_centers_at(
        self, rows: Floats, is_new: Any, random: np.random.RandomState
    ) -> StreamMachine:
        """The machine with centers far from all rows moved to rows that are far from all centers.

        Where most new rows are, they get a share of the other centers too. Weights and moments
        of centers that are moved become 0.
        """
        if self.end is None:
            return self
        state = self.end.state.copy()
        arrays, *moments = (self.end.layout.arrays(vector) for vector in state)
        network = self._network(arrays)
        K = network.kernel_values(rows)
        is_idle, is_alone = (K.max(axis=axis) < _NO_OVERLAP for axis in (0, 1))
        n_moved = int(is_idle.sum())
        if is_alone[is_new].sum() > is_new.sum() / 2:
            n_moved = max(n_moved, int(is_alone.mean() * len(is_idle)))
        n_moved = min(n_moved, int(is_alone.sum()))
        if not n_moved:
            return self
        # Those that are far from all rows first, then those that fewest rows are near.
        idle = np.lexsort((K.sum(axis=0), ~is_idle))[:n_moved]
        alone = random.choice(np.flatnonzero(is_alone), n_moved, replace=False)
        for tables in (arrays, *moments):
            tables["centers"][idle] = 0.0
            tables["weights"][:, idle] = 0.0
        arrays["centers"][idle] = network.positions(without_missing(rows)[alone])
        return replace(self, end=self.end._replace(state=state))


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream between two blocks; each step of a call returns a new value.

    ``n_started`` is the number of rows seen when the initial network was made, 0 where it is to be
    made, and None for a machine that was trained before; ``n_wanted`` are the centers to reach.
    """

    seed: int
    known: StreamMachine | None = None
    kept: StreamRows | None = None
    n_seen: int = 0
    n_calls: int = 0
    n_started: int | None = 0
    n_wanted: int = 0

    @property
    def machine(self) -> StreamMachine:
        """The machine so far."""
        assert self.known is not None
        return self.known

    @property
    def memory(self) -> StreamRows:
        """The rows that are kept."""
        assert self.kept is not None
        return self.kept

    @property
    def random(self) -> np.random.RandomState:
        """The random numbers of the next call."""
        return np.random.RandomState(derive_seed(self.seed, self.n_calls))

    def block(self, X: Any, codes: Indices, weights: Floats, n_outputs: int) -> StreamRows:
        """A block with the outputs of the machine so far."""
        X = as_dense(X)
        outputs: Floats = np.full((len(X), n_outputs), np.nan, dtype=np.float32)
        if self.known is not None:
            assert self.known.expansion is not None
            outputs = self.known.expansion.decision_values(X).astype(np.float32)
            shift, scale = (
                as_numbers(n) for n in (self.known.inputs.shift, self.known.inputs.scale)
            )
            limit = _FARTHEST * scale
            X = np.clip(X, shift - limit, shift + limit).astype(X.dtype, copy=False)
        return StreamRows(X, codes, weights, outputs, self.n_seen + np.arange(len(X)))

    def received(self, block: StreamRows) -> Stream:
        """The stream that has predicted a block, and forgets a concept that the block ends."""
        before = block.subset(slice(0)) if self.kept is None else self.kept
        kept, n_started = before.without_old_concept(block), self.n_started
        if n_started and len(kept) < len(before):
            newest = block.joined(kept).newest(_LOOKED_AT_ROWS)
            n_started = 0 if self.machine.is_far_from(newest.X) else n_started
        return replace(self, kept=kept, n_seen=self.n_seen + len(block), n_started=n_started)

    @property
    def must_start(self) -> bool:
        """Whether the initial network is still to be made, or made again from more rows."""
        if not self.n_started:
            return self.n_started is not None
        is_small = self.n_started < _START_ROWS_PER_CENTER * self.n_wanted
        return is_small and self.n_seen >= _START_GROWTH * self.n_started

    def started(
        self,
        plan: StoragePlan,
        training: TrainingSet,
        batches: BatchLoader,
        model: InitialModel | None,
        config: TrainingConfig,
        random: np.random.RandomState,
    ) -> Stream:
        """The stream with a new initial network, trained with falling rates."""
        batches = batches.for_plan(plan, training.train)
        machine = StreamMachine.initial(plan, training, batches, model, config.noise, random)
        batch_size = min(config.batch_size, default_batch_size(batches.n_rows))
        config = replace(config, n_epochs=_START_EPOCHS * config.n_epochs, batch_size=batch_size)
        machine = machine.trained(training, batches, config, random)
        return replace(self, known=machine, n_started=self.n_seen, n_wanted=plan.n_centers)

    def learned(
        self,
        n_new: int,
        training: TrainingSet,
        batches: BatchLoader,
        config: TrainingConfig,
        random: np.random.RandomState,
    ) -> Stream:
        """The stream after some epochs at a constant rate, fewer for few new rows.

        The new rows come first, those of the memory follow.
        """
        n_replayed = max(_MEMORY_PER_BLOCK * n_new, config.batch_size - n_new)
        batches = batches.with_replay(n_new, n_replayed)
        looked_at = batches.shuffled(random)[:_LOOKED_AT_ROWS]
        rows, is_new = batches.rows(looked_at), looked_at < n_new
        machine = self.machine.with_idle_centers_at(rows, is_new, random)
        rate = LATER_RATE * config.learning_rate
        # As many steps per new row, whether a batch is mostly memory or there is hardly any.
        n_visits = config.n_epochs * (1 + _MEMORY_PER_BLOCK) * n_new
        n_epochs = math.ceil(n_visits / max(batches.n_rows, config.batch_size))
        config = replace(config, n_epochs=n_epochs, learning_rate=rate, is_constant=True)
        return replace(self, known=machine.trained(training, batches, config, random))

    def remembered(self, block: StreamRows, size: int, random: np.random.RandomState) -> Stream:
        """The stream with a block in its memory, after the call."""
        kept = self.memory.with_block(block, size, random)
        return replace(self, kept=kept, n_calls=self.n_calls + 1)
