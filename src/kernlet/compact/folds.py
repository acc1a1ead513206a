"""Many small networks trained as one stacked array, in cross-validation or on one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kernlet._typing import Array, Floats, Indices
from kernlet.compact.batches import BatchLoader
from kernlet.compact.initialise import initialise, with_mask
from kernlet.compact.network import KernelNetwork
from kernlet.compact.plan import StoragePlan
from kernlet.compact.train import Trained, train_network
from kernlet.compact.trainer import (
    Candidate,
    Trainer,
    Trial,
    first_levels,
    first_steps,
    quantized_levels,
)
from kernlet.devices import NUMPY, Device, array_namespace, to_numpy
from kernlet.kernels.gram import row_slices
from kernlet.sampling import derive_seed

# How this works
# --------------
# A step of a small network is a few dozen numpy calls on arrays so small that the calls take longer
# than the arithmetic. All networks of a stack, of every candidate and every fold, therefore take
# their steps together: their parameters have the leading dimensions (n_candidates, n_folds), rows
# the leading dimension (n_folds,), and np.matmul multiplies all of them in one call. This is 5 to
# 20 times as fast as one network after the other. A search on one split is a stack of one fold.
#
# Networks of different size go into one stack by padding: a center whose weights are zero, and
# whose weights have the learning rate zero, changes neither outputs nor other gradients. Candidates
# may also differ in noise, label smoothing and the coefficients that a center keeps; those of other
# kernels, inputs, ranks or rounding are other stacks.
#
# Folds of unequal size: each epoch leaves out random rows of the larger folds. Losses are averaged
# over the stack, so that a network that diverges sets back all others; this is rare, and the
# rates of the stack are halved.

#: Kernel values of all networks of a stack in a step: more do not stay in the processor's cache, or
#: take too much memory on a GPU.
_STACK_NUMBERS, _STACK_NUMBERS_ON_DEVICE = 2**18, 2**25
#: Kernel values of a network in a step that may be padding: they take about half as long as the
#: calls of a step of one network.
_PADDED_NUMBERS = 2**14

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


def stacks_of(
    candidates: Sequence[Candidate], n_folds: int, batch_size: int, device: Device = NUMPY
) -> list[list[int]]:
    """Numbers of the candidates that are trained at once: of one shape but for their size."""
    limit = _STACK_NUMBERS if device.is_numpy else _STACK_NUMBERS_ON_DEVICE
    stacks: list[list[int]] = []
    shapes: list[Any] = []
    order = sorted(range(len(candidates)), key=lambda i: -candidates[i].plan.n_centers)
    for number in order:
        plan = candidates[number].plan
        shape = _shape(plan)
        for stack, of in zip(stacks, shapes, strict=True):
            largest = candidates[stack[0]].plan.n_centers
            numbers = (len(stack) + 1) * n_folds * batch_size * largest
            padding = (largest - plan.n_centers) * batch_size
            if of == shape and padding <= _PADDED_NUMBERS and numbers <= limit:
                stack.append(number)
                break
        else:
            stacks.append([number])
            shapes.append(shape)
    return stacks


def _shape(plan: StoragePlan) -> Any:
    """What the plans of a stack have in common."""
    inputs = (plan.is_asinh, plan.n_steps, plan.block, plan.missing)
    return plan.kernel, plan.rank, plan.width, tuple(plan.levels.items()), inputs


class StackedBatches:
    """Batches for a stack of networks: the rows of every fold, with the folds in front.

    Each fold has a loader, whose inputs may depend on its training rows; the target table of the
    first may have the candidates in front.
    """

    def __init__(self, loaders: Sequence[BatchLoader], subsets: Sequence[Indices]) -> None:
        self._loaders, self._subsets, first = loaders, subsets, loaders[0]
        self.device, self.is_cached = first.device, first.is_cached
        self.n_features, self.n_rows = first.n_features, min(map(len, subsets))
        self.n_steps = max(loader.n_steps for loader in loaders)

    def shuffled(self, random: np.random.RandomState) -> Array:
        """Equally many rows of each fold in random order, of shape (n_folds, n_rows)."""
        if len(self._subsets) == 1:
            return self._loaders[0].subset(self._subsets[0]).shuffled(random)[None, :]
        for loader in {id(loader): loader for loader in self._loaders}.values():
            loader.next_epoch(random)
        orders = [random.permutation(subset)[: self.n_rows] for subset in self._subsets]
        return self.as_indices(np.stack(orders))

    def as_indices(self, rows: Indices) -> Array:
        """Row numbers of shape (n_folds, ...) as the methods below take them."""
        return self._loaders[0].as_indices(rows)

    def rows(self, indices: Array) -> Array:
        """Rows [u | S] of shape (n_folds, n_rows, n_inputs + n_steps)."""
        if all(loader is self._loaders[0] for loader in self._loaders):
            return self._shaped(self._loaders[0].rows, indices)
        xp = self.device.namespace
        folds = []
        for fold, loader in enumerate(self._loaders):
            rows = loader.rows(indices[fold, ...])
            missing = self.n_steps - loader.n_steps
            if missing:
                shape, place = (rows.shape[0], missing), self.device.place
                zeros = xp.zeros(shape, dtype=rows.dtype, device=place)
                rows = xp.concat([rows, zeros], axis=-1)
            folds.append(rows)
        return xp.stack(folds)

    def targets(self, indices: Array) -> Array:
        """Targets of shape (n_folds, n_rows, n_outputs), or with the candidates in front."""
        xp = self.device.namespace
        targets = self._loaders[0].targets(array_namespace(indices).reshape(indices, (-1,))).mT
        # Columns stay contiguous where they are: those of the folds one after the other.
        targets = xp.reshape(targets, (*targets.shape[:-1], *indices.shape))
        return xp.moveaxis(targets, -3, -1)

    def weights(self, indices: Array) -> Array:
        """Weights of shape (n_folds, n_rows)."""
        return self._shaped(self._loaders[0].weights, indices)

    def _shaped(self, read: Any, indices: Array) -> Array:
        xp = array_namespace(indices)
        values = read(xp.reshape(indices, (-1,)))
        return array_namespace(values).reshape(values, (*indices.shape, *values.shape[1:]))


def train_stack(
    trainer: Trainer,
    candidates: Sequence[Candidate],
    splits: Sequence[Split],
    numbers: Sequence[int],
    epochs: float,
) -> list[list[Floats]]:
    """Outputs of every candidate for the held-out rows of some of the splits."""
    chosen = [splits[number] for number in numbers]
    trained, batches, _ = _trained_stack(trainer, candidates, chosen, numbers, epochs)
    return _held_out_outputs(trained.network, batches, [held_out for _, held_out in chosen])


def train_trials(
    trainer: Trainer, candidates: Sequence[Candidate], epochs: float = 1.0
) -> list[Trial]:
    """Trials of the candidates of a stack, on the rows of the trainer."""
    split = trainer.training.train, trainer.training.held_out
    trained, _, sizes = _trained_stack(trainer, candidates, [split], [0], epochs)
    trials = []
    for number, candidate in enumerate(candidates):
        network = _unstacked(trained.network, number, int(sizes[number, 0]))
        steps = {name: step[number, 0] for name, step in trained.steps.items()}
        alone = replace(trained, network=network, steps=steps)
        loader = trainer.batches_of(candidate)
        plan = trainer.plan_of(network, candidate.plan, loader)
        trials.append(trainer.trial_of(replace(candidate, plan=plan), alone, loader))
    return trials


def _trained_stack(
    trainer: Trainer,
    candidates: Sequence[Candidate],
    splits: Sequence[Split],
    numbers: Sequence[int],
    epochs: float,
) -> tuple[Trained, StackedBatches, Indices]:
    """The networks of all candidates and splits, their rows, and their numbers of centers."""
    plan, noise = candidates[0].plan, min(candidate.noise for candidate in candidates)
    trainings = [replace(trainer.training, train=train, held_out=out) for train, out in splits]
    trainers = [replace(trainer, training=training) for training in trainings]
    made: dict[StoragePlan, list[KernelNetwork]] = {}
    for candidate in candidates:
        dense = replace(candidate.plan, n_entries=None)
        if dense not in made:
            pairs = zip(trainers, numbers, strict=True)
            made[dense] = [_initial(each, dense, noise, number) for each, number in pairs]
    stack, sizes = _stacked([_masked(made, candidate.plan) for candidate in candidates])
    loaders = _loaders(trainers, candidates)
    subsets = [train for train, _ in splits]
    augmented = {id(loader): loader.augmented() for loader in loaders}
    batches: Any = StackedBatches([augmented[id(loader)] for loader in loaders], subsets)
    noises = np.array([candidate.noise for candidate in candidates])[:, None, None, None]
    config = trainer.config_of(noises, epochs)
    random, loss = np.random.RandomState(derive_seed(trainer.seed, 2)), trainer.training.loss
    stack = stack.map(batches.device.send)
    trained = train_network(stack, loss, batches, config, random, levels=first_levels(plan))
    if plan.levels:
        network, steps = trained.network, first_steps(trained.network, plan)
        config, levels = trainer.quantized_config(config), quantized_levels(plan)
        second = train_network(network, loss, batches, config, random, levels=levels, steps=steps)
        trained = second.after(trained)
    return trained, StackedBatches(loaders, subsets), sizes


def _loaders(trainers: Sequence[Trainer], candidates: Sequence[Candidate]) -> list[BatchLoader]:
    """The loader of each split, the same one where they map rows alike; with all target tables."""
    plan = candidates[0].plan
    loaders = [each.batches.for_plan(plan, each.training.train) for each in trainers]
    tables = [table for table in map(trainers[0].table_of, candidates) if table is not None]
    first = loaders[0].with_table(np.stack(tables)) if tables else loaders[0]
    return [first if loader.inputs is first.inputs else loader for loader in loaders]


def _initial(trainer: Trainer, plan: StoragePlan, noise: float, number: int) -> KernelNetwork:
    """The initial network of a plan in a fold."""
    random = np.random.RandomState(
        derive_seed(trainer.seed, plan.n_centers, plan.rank or 0, number)
    )
    batches = trainer.batches.for_plan(plan, trainer.training.train)
    return initialise(plan, trainer.training, batches, trainer.model, noise, random)


def _masked(made: dict[StoragePlan, list[KernelNetwork]], plan: StoragePlan) -> list[KernelNetwork]:
    """The initial networks of a plan, with the mask that it asks for."""
    networks = made[replace(plan, n_entries=None)]
    if plan.keeps_all:
        return networks
    assert plan.n_entries is not None
    return [with_mask(network, plan.n_entries) for network in networks]


def _stacked(networks: Sequence[Sequence[KernelNetwork]]) -> tuple[KernelNetwork, Indices]:
    """Networks as one, padded with zeros that stay zeros; and their numbers of centers."""
    shape = (len(networks), len(networks[0]))
    sizes = np.array([[len(network.centers) for network in row] for row in networks])
    stacked: dict[str, Floats] = {}
    for place in np.ndindex(shape):
        network = networks[place[0]][place[1]]
        if network.mask is None:
            network = replace(network, mask=np.ones_like(network.weights))
        for field in fields(network):
            array = getattr(network, field.name)
            if array is None or field.name == "skips_missing":
                continue
            if field.name not in stacked:
                stacked[field.name] = np.zeros((*shape, *_largest(networks, field.name)), "f4")
            stacked[field.name][(*place, *map(slice, array.shape))] = array
    return KernelNetwork(**stacked, skips_missing=networks[0][0].skips_missing), sizes


def _largest(networks: Sequence[Sequence[KernelNetwork]], name: str) -> tuple[int, ...]:
    """The largest shape of a parameter; masks have the shape of the weights."""
    name = "weights" if name == "mask" else name
    arrays = [getattr(network, name) for row in networks for network in row]
    return tuple(np.max([array.shape for array in arrays if array is not None], axis=0))


def _unstacked(stack: KernelNetwork, number: int, n_centers: int) -> KernelNetwork:
    """One network of a stack of one fold, without padding."""
    network = stack.map(lambda array: array[number, 0, ...])
    cut = {name: getattr(network, name)[:, :n_centers] for name in ("weights", "mask")}
    cut["centers"] = network.centers[:n_centers, :]
    if network.log_gamma.shape[0] > 1:
        cut["log_gamma"] = network.log_gamma[:n_centers]
    return replace(network, **cut)


def _held_out_outputs(
    stack: KernelNetwork, batches: StackedBatches, held_out: Sequence[Indices]
) -> list[list[Floats]]:
    """Outputs of each network for the held-out rows of its fold, by blocks of rows."""
    longest = max(map(len, held_out))
    rows = np.stack([np.resize(fold, longest) for fold in held_out])
    n_numbers = rows.shape[0] * (
        batches.n_features + stack.weights.shape[0] * stack.weights.shape[-1]
    )
    blocks = [
        to_numpy(stack.outputs(batches.rows(batches.as_indices(rows[:, block]))))
        for block in row_slices(longest, 4 * n_numbers)
    ]
    outputs = np.concatenate(blocks, axis=-2)
    return [[of[: len(fold)] for of, fold in zip(row, held_out, strict=True)] for row in outputs]
