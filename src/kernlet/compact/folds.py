"""Cross-validation of many small networks, trained as one stacked array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernlet._typing import Array, Floats, Indices
from kernlet.compact.batches import BatchLoader
from kernlet.compact.initialise import initialise
from kernlet.compact.network import KernelNetwork
from kernlet.compact.plan import StoragePlan
from kernlet.compact.train import (
    LATER_RATE,
    QUANTIZED_EPOCHS,
    Candidate,
    Trainer,
    train_network,
)
from kernlet.devices import array_namespace, to_numpy
from kernlet.quantization import best_step
from kernlet.sampling import derive_seed

# How this works
# --------------
# A step of a small network is a few dozen numpy calls on arrays so small that the calls take longer
# than the arithmetic. All networks of a stack, of every candidate and every fold, therefore take
# their steps together: their parameters have the leading dimensions (n_candidates, n_folds), rows
# the leading dimension (n_folds,), and np.matmul multiplies all of them in one call. This is 5 to
# 20 times as fast as one network after the other.
#
# Networks of different size go into one stack by padding: a center whose weights are zero, and
# whose weights have the learning rate zero, changes neither outputs nor other gradients. Candidates
# of other ranks or other rounding are other stacks.
#
# Folds of unequal size: each epoch leaves out random rows of the larger folds. Losses are added up
# over the stack, so that a network that diverges sets back all others; this is rare, and the
# rates of the stack are halved.

#: Kernel values of all networks of a stack in a step: more do not stay in the processor's cache.
_STACK_NUMBERS = 2**17
# Networks of a stack have at least a quarter of its centers, unless it has few: then calls cost
# more than padding.
_LARGEST_PADDING, _FEW_CENTERS = 4, 32

#: Rows to train on and rows to hold out.
Split = tuple[Indices, Indices]


def stratified_folds(groups: Indices, n_folds: int, random: np.random.RandomState) -> list[Split]:
    """Folds of equal size, up to one row, in which the rows of each group are spread evenly.

    The only row of a group is held out in no fold, since it could not be learned from others.
    """
    counts = np.bincount(groups)
    order = random.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    order = order[counts[groups[order]] > 1]
    n_folds = min(n_folds, len(order))
    folds = [np.sort(order[first::n_folds]) for first in range(n_folds)]
    return [(np.setdiff1d(np.arange(len(groups)), fold), fold) for fold in folds]


def stacks_of(candidates: Sequence[Candidate], n_folds: int, batch_size: int) -> list[list[int]]:
    """Numbers of the candidates that are trained at once: of one shape but for their size."""
    stacks: list[list[int]] = []
    shapes: list[Any] = []
    order = sorted(range(len(candidates)), key=lambda i: -candidates[i].plan.n_centers)
    for number in order:
        plan = candidates[number].plan
        shape = (plan.rank, tuple(plan.levels.items()), plan.width)
        for stack, of in zip(stacks, shapes, strict=True):
            largest = candidates[stack[0]].plan.n_centers
            numbers = (len(stack) + 1) * n_folds * batch_size * largest
            is_near = largest <= max(_FEW_CENTERS, _LARGEST_PADDING * plan.n_centers)
            if of == shape and is_near and numbers <= _STACK_NUMBERS:
                stack.append(number)
                break
        else:
            stacks.append([number])
            shapes.append(shape)
    return stacks


class StackedBatches:
    """Batches for a stack of networks: the rows of every fold, with the folds in front."""

    def __init__(self, batches: BatchLoader, subsets: Sequence[Indices]) -> None:
        self._batches, self._subsets = batches, subsets
        self.device, self.is_cached = batches.device, batches.is_cached
        self.n_features, self.n_rows = batches.n_features, min(map(len, subsets))

    def shuffled(self, random: np.random.RandomState) -> Array:
        """Equally many rows of each fold in random order, of shape (n_folds, n_rows)."""
        orders = [random.permutation(subset)[: self.n_rows] for subset in self._subsets]
        return self._batches.as_indices(np.stack(orders))

    def as_indices(self, rows: Indices) -> Array:
        """Row numbers of shape (n_folds, ...) as the methods below take them."""
        return self._batches.as_indices(rows)

    def rows(self, indices: Array) -> Array:
        """Scaled rows of shape (n_folds, n_rows, n_features)."""
        return self._shaped(self._batches.rows, indices)

    def targets(self, indices: Array) -> Array:
        """Targets of shape (n_folds, n_rows, n_outputs)."""
        return self._shaped(self._batches.targets, indices)

    def weights(self, indices: Array) -> Array:
        """Weights of shape (n_folds, n_rows)."""
        return self._shaped(self._batches.weights, indices)

    def _shaped(self, read: Any, indices: Array) -> Array:
        xp = array_namespace(indices)
        values = read(xp.reshape(indices, (-1,)))
        shape = (*indices.shape, *values.shape[1:])
        return array_namespace(values).reshape(values, shape)


def train_stack(
    trainer: Trainer,
    candidates: Sequence[Candidate],
    splits: Sequence[Split],
    numbers: Sequence[int],
    epochs: float,
) -> list[list[Floats]]:
    """Outputs of every candidate for the held-out rows of some of the splits."""
    chosen = [splits[number] for number in numbers]
    noise = min(candidate.noise for candidate in candidates)
    initial = {
        plan: [_initial(trainer, plan, noise, splits[number], number) for number in numbers]
        for plan in {candidate.plan for candidate in candidates}
    }
    stack, is_center = _stacked([initial[candidate.plan] for candidate in candidates])
    batches: Any = StackedBatches(trainer.batches, [train for train, _ in chosen])
    noises = np.array([candidate.noise for candidate in candidates])[:, None, None, None]
    config = trainer.config_of(noises, epochs)
    padded = batches.device.send(config.rates["weights"] * is_center[:, :, None, :])
    config = replace(config, rates={**config.rates, "weights": padded})
    random = np.random.RandomState(derive_seed(trainer.seed, 2))
    loss, levels = trainer.training.loss, candidates[0].plan.levels
    network = train_network(stack.map(batches.device.send), loss, batches, config, random).network
    if levels:
        config = config.scaled(LATER_RATE, QUANTIZED_EPOCHS)
        steps = {name: _best_steps(network.arrays()[name], n) for name, n in levels.items()}
        trained = train_network(network, loss, batches, config, random, levels=levels, steps=steps)
        network = trained.network
    return _held_out_outputs(network, batches, [held_out for _, held_out in chosen])


def _initial(
    trainer: Trainer, plan: StoragePlan, noise: float, split: Split, number: int
) -> KernelNetwork:
    """The initial network of a plan in a fold."""
    training = replace(trainer.training, train=split[0], held_out=split[1])
    seed = derive_seed(trainer.seed, plan.n_centers, plan.rank or 0, number)
    random = np.random.RandomState(seed)
    network = initialise(plan, training, trainer.batches, trainer.model, noise, random)
    if plan.width == "per_center" and len(network.log_gamma) == 1:
        widths = np.repeat(network.log_gamma, len(network.centers))
        network = replace(network, log_gamma=widths)
    return network


def _stacked(networks: Sequence[Sequence[KernelNetwork]]) -> tuple[KernelNetwork, Floats]:
    """Networks as one, padded with zeros; and 1 for each of its centers that is not padding."""
    arrays = [[network.arrays() for network in row] for row in networks]
    shape = (len(arrays), len(arrays[0]))
    stacked = {}
    for name in arrays[0][0]:
        largest = np.max([of[name].shape for row in arrays for of in row], axis=0)
        stacked[name] = np.zeros((*shape, *largest), np.float32)
        for place in np.ndindex(shape):
            array = arrays[place[0]][place[1]][name]
            stacked[name][(*place, *map(slice, array.shape))] = array
    sizes = np.array([[len(of["centers"]) for of in row] for row in arrays])
    is_center = np.arange(stacked["centers"].shape[2]) < sizes[:, :, None]
    return KernelNetwork(**stacked), is_center.astype(np.float32)


def _best_steps(stack: Array, n_levels: int) -> Floats:
    """The best rounding step of each network of a stack."""
    values = to_numpy(stack)
    steps = [best_step(values[place], n_levels) for place in np.ndindex(values.shape[:2])]
    return np.reshape(steps, values.shape[:2])


def _held_out_outputs(
    stack: KernelNetwork, batches: StackedBatches, held_out: Sequence[Indices]
) -> list[list[Floats]]:
    """Outputs of each network for the held-out rows of its fold."""
    longest = max(map(len, held_out))
    rows = np.stack([np.resize(fold, longest) for fold in held_out])
    outputs = to_numpy(stack.outputs(batches.rows(batches.as_indices(rows))))
    return [[of[: len(fold)] for of, fold in zip(row, held_out, strict=True)] for row in outputs]
