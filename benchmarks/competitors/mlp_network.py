"""Training of multi-layer perceptrons in stacks, with rounded weights.

Rounding, optimiser, schedules, smoothing, noise and stages are those of the compact kernel machine.
All arrays have two leading dimensions, settings and folds: networks of one depth are trained
together, padded to one width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.competitors.mlp_plan import (
    SYMMETRIC,
    Network,
    Plan,
    Setting,
    Task,
    format_of,
    forward,
    number_type,
    pack,
)
from kernlet.compact.batches import BatchLoader
from kernlet.compact.inputs import Inputs
from kernlet.compact.network import Arrays
from kernlet.compact.optimizer import Adam, AdamState
from kernlet.compact.train import NOISE_OFFSETS, default_batch_size, default_epochs
from kernlet.devices import Device, array_namespace, capture_cuda_graph, device_of, to_numpy
from kernlet.quantization import FORMATS, best_step, encode
from kernlet.sampling import derive_seed

_STEP_RATE = 0.02  # learning rate of the logarithms of rounding steps, as of the kernel machine
#: The learning rate of weights and biases for this number of steps, and its factor for more than
#: one hidden layer; set on held-out training rows of letter, thyroid, satimage, covertype and usps.
_RATE, _RATE_STEPS, _DEEP_RATE = 0.025, 1500, 0.6
_JUMP_RATE = 0.05  # of the jumps of a step map
#: Hidden values of a stack in a step: more do not stay in the processor's cache.
_STACK_NUMBERS = 2**17
_LARGEST_PADDING = 2  # times the units of the narrowest network of a stack


# -- Gradients -------------------------------------------------------------------------------


def gradients_of(arrays: Arrays, rows: Any, targets: Any, loss: Any) -> Arrays:
    """Gradients of the mean loss with respect to weights, biases and jumps."""
    values, xp = forward(arrays, rows), array_namespace(rows)
    grad_outputs = loss.value_and_grad(values[-1], targets)[1] / rows.shape[-2]
    gradients = {}
    for i in reversed(range(len(values) - 1)):
        gradients[f"W{i}"] = values[i].mT @ grad_outputs
        if f"b{i}" in arrays:
            gradients[f"b{i}"] = xp.sum(grad_outputs, axis=-2, keepdims=True)
        if i or "jumps" in arrays:
            grad_outputs = grad_outputs @ arrays[f"W{i}"].mT
        if i and f"b{i - 1}" in arrays:
            grad_outputs *= xp.astype(values[i] > 0, grad_outputs.dtype)
    if "jumps" in arrays:
        indicators = rows[..., arrays["owners"].shape[-1] :]
        grad_steps = indicators * (grad_outputs @ arrays["owners"].mT)
        gradients["jumps"] = xp.sum(grad_steps, axis=-2, keepdims=True)
    return gradients


@dataclass(frozen=True, eq=False)
class Grid:
    """Levels of the tables of a stack: codes are integers, or halves, from -limit to limit."""

    limit: Any
    offset: Any
    is_weight: Any  # 1, and 0 where a narrower network is padded

    def codes(self, multiples: Any) -> Any:
        """The nearest codes."""
        xp = array_namespace(multiples)
        codes = xp.round(multiples - self.offset) + self.offset
        return xp.minimum(xp.maximum(codes, -self.limit), self.limit)

    def rounded(self, values: Any, log_step: Any) -> Any:
        """The nearest levels; padding stays zero."""
        step = array_namespace(values).exp(log_step)
        return self.codes(values / step) * (step * self.is_weight)

    def straight_through(self, grad: Any, values: Any, log_step: Any) -> tuple[Any, Any]:
        """Gradients by values and log step, from the gradient by the rounded values (LSQ)."""
        xp = array_namespace(values)
        step = xp.exp(log_step)
        multiples = values / step
        grad = grad * self.is_weight
        inside = xp.astype(xp.abs(multiples) <= self.limit, values.dtype)
        change = self.codes(multiples) - inside * multiples
        return grad * inside, xp.sum(grad * change, axis=(-2, -1), keepdims=True) * step


# -- Batches ---------------------------------------------------------------------------------


class Batches:
    """Rows of each fold, of shape (n_folds, n_rows, n_columns), for the networks of a stack.

    ``subsets`` are numbers of examples, where fold after fold has all rows. Images may be augmented
    where there is one fold.
    """

    def __init__(self, examples: BatchLoader, subsets: Sequence[Any]) -> None:
        self._examples, self._subsets = examples, subsets
        self.device, self.is_cached = examples.device, examples.is_cached
        self.n_rows = min(map(len, subsets))

    def shuffled(self, random: np.random.RandomState) -> Any:
        """Equally many rows of each fold in random order, of shape (n_folds, n_rows)."""
        if len(self._subsets) == 1:
            return self._examples.subset(self._subsets[0]).shuffled(random)[None, :]
        orders = [random.permutation(subset)[: self.n_rows] for subset in self._subsets]
        return self._examples.as_indices(np.stack(orders))

    def rows(self, indices: Any) -> Any:
        """Mapped rows."""
        return self._shaped(self._examples.rows, indices)

    def targets(self, indices: Any) -> Any:
        """Targets of shape (n_folds, n_rows, n_outputs)."""
        return self._shaped(self._examples.targets, indices)

    def _shaped(self, read: Any, indices: Any) -> Any:
        xp = self.device.namespace
        values = read(xp.reshape(indices, (-1,)))
        return xp.reshape(values, (*indices.shape, values.shape[-1]))


# -- Training --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stack:
    """Networks with their parameters, of shape (n_settings, n_folds, ...), and their grids.

    ``arrays`` has the rounding steps too, once they are rounded. ``owners`` of a step map are
    constant, of shape (n_folds, n_steps, n_inputs).
    """

    settings: Sequence[Setting]
    arrays: Arrays
    grids: dict[str, Grid]
    task: Task
    owners: Any = None

    @property
    def stored(self) -> Arrays:
        """The parameters as they are stored: rounded tables, biases in float16."""
        device = device_of(self.arrays["W0"])
        stored = {"jumps": self.arrays["jumps"], "owners": self.owners} if self.has_steps else {}
        for name, array in self.arrays.items():
            if name in self.grids:
                stored[name] = self.grids[name].rounded(array, self.arrays[f"{name}_log_step"])
            elif name[0] == "b":
                stored[name] = device.send(to_numpy(array).astype(np.float16))
        return stored

    @property
    def has_steps(self) -> bool:
        """Whether a step map is in front."""
        return self.owners is not None

    def pick(self, setting: int) -> Stack:
        """The stack of one setting."""
        arrays = {name: array[setting : setting + 1, ...] for name, array in self.arrays.items()}
        grids = {
            name: Grid(
                *(part[setting : setting + 1, ...] for part in (g.limit, g.offset, g.is_weight))
            )
            for name, g in self.grids.items()
        }
        return replace(self, settings=[self.settings[setting]], arrays=arrays, grids=grids)

    def network(self, inputs: Inputs) -> Network:
        """The first network, packed."""
        arrays = {name: to_numpy(array)[0, 0] for name, array in self.arrays.items()}
        plan = self.settings[0].plan
        tables, biases = [], []
        for i, (n, m) in enumerate(plan.shapes):
            step = float(np.exp(arrays[f"W{i}_log_step"][0, 0]))
            tables.append(pack(arrays[f"W{i}"][:n, :m], plan.table_formats[i], step))
            biases.append(arrays.get(f"b{i}", np.zeros((1, 0)))[0, :m].astype(np.float16))
        steps: dict[str, Any] = {}
        if inputs.steps is not None:
            steps = {
                "features": inputs.steps.features.astype(number_type(self.task.n_features)),
                "thresholds": inputs.steps.thresholds,
                "jumps": encode(arrays["jumps"][0, : inputs.n_steps], FORMATS["int8"]),
            }
        return Network(
            tuple(tables),
            tuple(biases),
            inputs.shift,
            inputs.scale,
            inputs.is_asinh,
            inputs.block,
            **steps,
            is_regressor=not self.task.n_classes,
        )


def stacks_of(
    settings: Sequence[Setting], n_folds: int, batch_size: int, device: Device
) -> list[list[int]]:
    """Numbers of the settings that are trained at once: of one depth and about one size."""
    stacks: list[list[int]] = []
    plans = [setting.plan for setting in settings]
    for number in sorted(range(len(plans)), key=lambda i: -max(plans[i].hidden)):
        of = plans[number]
        for stack in stacks:
            largest = plans[stack[0]]
            numbers = (len(stack) + 1) * n_folds * batch_size * sum(largest.hidden)
            is_near = max(largest.hidden) <= _LARGEST_PADDING * max(of.hidden)
            is_alike = _class_of(largest) == _class_of(of)
            if is_alike and (not device.is_numpy or (numbers <= _STACK_NUMBERS and is_near)):
                stack.append(number)
                break
        else:
            stacks.append([number])
    return stacks


def _class_of(plan: Plan) -> tuple[Any, ...]:
    return (len(plan.hidden), not plan.rank, plan.kind)


def initial_stack(
    settings: Sequence[Setting],
    inputs: Sequence[Inputs],
    folds: Sequence[int],
    seed: int,
    device: Device,
) -> Stack:
    """He initialisation (2015) of the weights, and zero biases; narrow networks are padded."""
    plans = [setting.plan for setting in settings]
    all_shapes = [plan.shapes for plan in plans]
    arrays: dict[str, Any] = {}
    grids = {}
    lead = (len(settings), len(folds))
    for i, shape in enumerate(np.max(all_shapes, axis=0)):
        weights, is_weight = np.zeros((2, *lead, *shape), np.float32)
        for s, plan in enumerate(plans):
            n, m = all_shapes[s][i]
            is_linear = i == len(all_shapes[s]) - 1 or (i == 0 and plan.rank is not None)
            deviation = np.sqrt((1 if is_linear else 2) / n)
            is_weight[s, :, :n, :m] = 1
            for f, fold in enumerate(folds):
                random = np.random.RandomState(derive_seed(seed, i, n, m, fold))
                weights[s, f, :n, :m] = deviation * random.standard_normal((n, m))
        arrays[f"W{i}"] = weights
        grids[f"W{i}"] = _grid([plan.table_formats[i] for plan in plans], is_weight, device)
        if i or not plans[0].rank:
            arrays[f"b{i}"] = np.zeros((*lead, 1, shape[1]), np.float32)
    owners = None
    n_steps = max(of.n_steps for of in inputs)  # a tree may need fewer than a plan has
    if n_steps:
        owners = np.zeros((len(folds), n_steps, all_shapes[0][0][0]), np.float32)
        for of_fold, map_of_fold in zip(owners, inputs, strict=True):
            features = map_of_fold.steps.features if map_of_fold.steps else []
            of_fold[np.arange(len(features)), features] = 1
        arrays["jumps"] = np.zeros((*lead, 1, n_steps), np.float32)
        owners = device.send(owners)
    sent = {name: device.send(array) for name, array in arrays.items()}
    return Stack(settings, sent, grids, plans[0].task, owners)


def _grid(formats: Sequence[str], is_weight: Any, device: Device) -> Grid:
    """The levels of a table whose formats differ between settings."""
    limits = [7.5 if name == SYMMETRIC else format_of(name).n_levels for name in formats]
    offsets = [0.5 if name == SYMMETRIC else 0.0 for name in formats]
    columns = [np.reshape(of, (-1, 1, 1, 1)) for of in (limits, offsets)]
    return Grid(*(device.send(array) for array in (*columns, is_weight)))


def trained(
    settings: Sequence[Setting],
    examples: BatchLoader,
    inputs: Sequence[Inputs],
    subsets: Sequence[Any],
    epochs: float,
    seed: int,
    folds: Sequence[int] = (0,),
) -> Stack:
    """Networks of all settings on the rows of each fold: in float32, then as long rounded.

    ``subsets`` are row numbers of the examples, where fold after fold has all rows.
    """
    batches = Batches(examples.augmented(), subsets)
    n_epochs = max(1, round(epochs * default_epochs(batches.n_rows)))
    random = np.random.RandomState(derive_seed(seed, 2))
    stack = initial_stack(settings, inputs, folds, seed, examples.device)
    stack = _stage(stack, batches, n_epochs, 1.0, random)
    arrays = dict(stack.arrays)
    for name, grid in stack.grids.items():
        limits = to_numpy(grid.limit)[:, 0, 0, 0]
        values = np.nan_to_num(to_numpy(arrays[name]))
        steps = [
            [best_step(of, limit) for of in row] for row, limit in zip(values, limits, strict=True)
        ]
        arrays[f"{name}_log_step"] = examples.device.send(np.log(steps)[..., None, None])
    return _stage(replace(stack, arrays=arrays), batches, n_epochs, 1.0, random)


def total_loss(stack: Stack, examples: BatchLoader) -> float:
    """The loss of all rows, of the first network."""
    total = 0.0
    arrays = {
        name: a[0, ...] if name == "owners" else a[0, 0, ...] for name, a in stack.stored.items()
    }
    for rows in examples.blocks():
        targets = stack.task.smoothed(examples.targets(rows), stack.settings[0].smoothing)
        outputs = forward(arrays, examples.rows(rows))[-1]
        losses = stack.task.loss.value_and_grad(outputs, targets)[0]
        total += float(to_numpy(losses).astype(np.float64).sum())
    return total


def held_out_outputs(
    stack: Stack, examples: BatchLoader, subsets: Sequence[Any]
) -> list[list[Any]]:
    """Outputs of each setting for the rows of each fold."""
    longest = max(map(len, subsets))
    rows = np.stack([np.resize(subset, longest) for subset in subsets])
    batches = Batches(examples, subsets)
    numbers = examples.as_indices(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = to_numpy(forward(stack.stored, batches.rows(numbers))[-1])
    return [[of[: len(fold)] for of, fold in zip(row, subsets, strict=True)] for row in outputs]


def _stage(
    stack: Stack,
    batches: Batches,
    n_epochs: int,
    speed: float,
    random: np.random.RandomState,
) -> Stack:
    """Adam from the given arrays; tables with a step are rounded (straight-through gradients)."""
    device, n_rows, n_features = batches.device, batches.n_rows, stack.arrays["W0"].shape[-2]
    batch_size = default_batch_size(n_rows)
    n_batches = -(-n_rows // batch_size)
    bounds = np.linspace(0, n_rows, n_batches + 1).astype(int).tolist()
    n_all = n_epochs * n_batches
    adam = Adam(stack.arrays, _rates(stack, speed, n_all, device), n_all)
    has_noise = any(of.noise for of in stack.settings)
    n_numbers = has_noise * (min(n_rows, batch_size) * n_features + NOISE_OFFSETS)
    generator = np.random.default_rng(random.randint(2**31 - 1))
    noise = device.send(generator.standard_normal(n_numbers, dtype=np.float32))
    gradient = _gradient_function(stack, batches)

    def step(vector: Any, mean: Any, square: Any, batch: Any, piece: Any, size: Any) -> AdamState:
        gradients = gradient(adam.arrays(vector), batch, piece)
        return adam.update(AdamState(vector, mean, square), gradients, size)

    take = capture_cuda_graph(step, device) if batches.is_cached else step
    state, n_steps = adam.start, 0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for _ in range(n_epochs):
            order = batches.shuffled(random)
            for start, stop in pairwise(bounds):
                first = random.randint(NOISE_OFFSETS)
                piece = noise[first : first + (stop - start) * n_features * has_noise]
                size = device.send(np.array(adam.step_size(n_steps)))
                state = AdamState(*take(*state, order[:, start:stop], piece, size))
                n_steps += 1
    vector = device.namespace.asarray(state.vector, copy=True)
    return replace(stack, arrays=adam.arrays(vector))


def _column(stack: Stack, name: str, device: Device) -> Any:
    """A number of each setting, to broadcast over folds, rows and columns."""
    numbers = [getattr(setting, name) for setting in stack.settings]
    return device.send(np.reshape(numbers, (-1, 1, 1, 1)))


def usual_rate(plan: Plan, n_steps: int) -> float:
    """The learning rate of a stage: less for many steps and for deep networks."""
    rate = _RATE * (_RATE_STEPS / n_steps) ** 0.25
    return rate if len(plan.hidden) == 1 else _DEEP_RATE * rate


def _rates(stack: Stack, speed: float, n_steps: int, device: Device) -> dict[str, Any]:
    usual = [usual_rate(setting.plan, n_steps) for setting in stack.settings]
    rate = speed * _column(stack, "rate", device) * device.send(np.reshape(usual, (-1, 1, 1, 1)))
    rates: dict[str, Any] = {}
    for name in stack.arrays:
        if name.endswith("step"):
            rates[name] = _STEP_RATE
        elif name == "jumps":
            rates[name] = speed * _JUMP_RATE
        else:  # none where networks are padded: Adam would enlarge the smallest gradients
            is_weight = stack.grids[f"W{name[1:]}"].is_weight
            rates[name] = rate * (is_weight if name[0] == "W" else is_weight[..., :1, :])
    return rates


def _gradient_function(stack: Stack, batches: Batches) -> Any:
    """The gradient of the arrays of a stack for rows and a piece of noise."""
    deviation, smoothing = (_column(stack, n, batches.device) for n in ("noise", "smoothing"))
    grids = {n: grid for n, grid in stack.grids.items() if f"{n}_log_step" in stack.arrays}
    constants = {"owners": stack.owners} if stack.has_steps else {}
    n_inputs = stack.arrays["W0"].shape[-2]

    def gradient(arrays: Arrays, batch: Any, noise: Any) -> Arrays:
        rows, xp = batches.rows(batch), batches.device.namespace
        if noise.shape[0]:  # on u, behind the comparison with thresholds
            noise = deviation * xp.reshape(noise, (rows.shape[-2], n_inputs))
            indicators = rows[..., n_inputs:]
            rows = rows[..., :n_inputs] + noise
            if stack.has_steps:
                indicators = xp.broadcast_to(indicators, (*rows.shape[:-1], indicators.shape[-1]))
                rows = xp.concat([rows, indicators], axis=-1)
        targets = stack.task.smoothed(batches.targets(batch), smoothing)
        used = {n: array for n, array in arrays.items() if not n.endswith("step")} | constants
        for name, grid in grids.items():
            used[name] = grid.rounded(arrays[name], arrays[f"{name}_log_step"])
        gradients = gradients_of(used, rows, targets, stack.task.loss)
        for name, grid in grids.items():
            gradients[name], gradients[f"{name}_log_step"] = grid.straight_through(
                gradients[name], arrays[name], arrays[f"{name}_log_step"]
            )
        return gradients

    return gradient
