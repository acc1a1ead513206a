"""What a multi-layer perceptron stores, in how many bytes, and how it predicts from that.

Formats, packed tables and input maps are those of the compact kernel machine, and the four bits
without a zero level of BitNetMCU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kernlet.compact.batches import BatchLoader
from kernlet.compact.inputs import (
    Inputs,
    Steps,
    asinh_inputs,
    block_inputs,
    mean_and_deviation,
    tree_steps,
)
from kernlet.compact.network import Arrays, CrossEntropy, SquaredError
from kernlet.devices import Device, array_namespace
from kernlet.quantization import FORMATS, Format, PackedArray, encode, scaling_bytes

#: Four bits without a zero level: -7.5, -6.5, ..., 7.5 steps ("4bitsym" of BitNetMCU).
SYMMETRIC = "symmetric4"
_BIAS_BYTES = 2  # float16
_SHIFT_AND_SCALE_BYTES = 8  # of all inputs together


# -- Plans -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Numbers of features and of classes; no classes in regression."""

    n_features: int
    n_classes: int

    @property
    def n_outputs(self) -> int:
        """One for two classes and for numbers, else one per class."""
        return self.n_classes if self.n_classes > 2 else 1

    @property
    def loss(self) -> CrossEntropy | SquaredError:
        """Of outputs and targets."""
        return CrossEntropy(0.0) if self.n_classes else SquaredError()

    def smoothed(self, targets: Any, smoothing: Any) -> Any:
        """Targets mixed with the uniform distribution."""
        if not self.n_classes:
            return targets
        return (1 - smoothing) * targets + smoothing / self.n_classes


@dataclass(frozen=True)
class Plan:
    """Architecture and storage; what a search of compact machines reads of a plan is here too.

    Parameters
    ----------
    task : Task
    hidden : tuple of int
        Widths of the ReLU layers.
    rank : int or None
        Rank of a linear projection without biases before them.
    formats : tuple of str
        Of the first table and of the others.
    is_asinh, n_steps, block : bool, int, int
        Input map: asinh of columns, steps of a step map, side of averaged blocks of pixels.
    scaling_bytes : int
        Of shift and scale.
    """

    task: Task
    hidden: tuple[int, ...]
    rank: int | None = None
    formats: tuple[str, ...] = ("int4", "int4")
    is_asinh: bool = False
    n_steps: int = 0
    block: int = 1
    scaling_bytes: int = _SHIFT_AND_SCALE_BYTES
    kernel = "mlp"
    width = "shared"
    keeps_all = True
    missing = "error"

    @property
    def kind(self) -> tuple[bool, int, int, bool]:
        """Of the input map."""
        return self.is_asinh, self.n_steps, self.block, False

    @property
    def n_inputs(self) -> int:
        """Columns behind the input map."""
        return self.task.n_features // self.block**2

    @property
    def n_centers(self) -> int:
        """Hidden units."""
        return sum(self.hidden)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes (inputs, outputs) of the tables."""
        projection = (self.rank,) if self.rank else ()
        return list(pairwise((self.n_inputs, *projection, *self.hidden, self.task.n_outputs)))

    @property
    def table_formats(self) -> list[str]:
        """Formats of the tables."""
        return [self.formats[0]] + (len(self.shapes) - 1) * [self.formats[1]]

    @property
    def nbytes(self) -> int:
        """Bytes of tables with their steps, float16 biases, and the input map."""
        tables = sum(
            format_of(name).n_bytes(n * m)
            for name, (n, m) in zip(self.table_formats, self.shapes, strict=True)
        )
        steps = 0
        if self.n_steps:
            steps = (2 + number_type(self.task.n_features).itemsize) * self.n_steps
            steps += FORMATS["int8"].n_bytes(self.n_steps)
        biases = _BIAS_BYTES * (sum(self.hidden) + self.task.n_outputs)
        return tables + biases + self.scaling_bytes + steps

    def describe(self) -> str:
        """The plan in one line."""
        return f"layers of {self.hidden}, rank {self.rank}, {self.formats}, {self.kind}"


def asinh_bytes(n_features: int) -> int:
    """Bytes of the constants of an asinh map; more where float16 is not exact enough for them."""
    return 2 * FORMATS["float16"].n_bytes(n_features)


@dataclass(frozen=True)
class Setting:
    """A plan and how it is trained; the search of compact machines calls this a candidate.

    Parameters
    ----------
    plan : Plan
    noise : float
        Standard deviation of the input noise, relative to that of the inputs.
    smoothing : float
        Share of the uniform distribution in the targets.
    rate : float
        Factor of the usual learning rate.
    """

    plan: Plan
    noise: float = 0.1
    smoothing: float = 0.03
    rate: float = 1.0


def format_of(name: str) -> Format:
    """The format that numbers are packed in."""
    return FORMATS["int4" if name == SYMMETRIC else name]


def number_type(n_features: int) -> Any:
    """The type of stored feature numbers."""
    return np.dtype(np.uint8 if n_features <= 256 else np.uint16)


def inputs_of(plan: Plan, X: Any, targets: Any, train: Any) -> Inputs:
    """The input map of a plan, from the rows to train on."""
    if plan.block > 1:
        inputs = block_inputs(X[train], np.ones(len(train)), plan.block)
    elif plan.is_asinh:
        inputs = asinh_inputs(X[train], X)
    else:
        mean, deviation = mean_and_deviation(X)
        inputs = Inputs(float(np.float32(mean)), float(np.float32(deviation)))
    if not plan.n_steps:
        return inputs
    targets = targets[train] if plan.task.n_classes else np.reshape(targets[train], (-1, 1))
    steps = tree_steps(inputs(X[train]), targets, np.ones(len(train)), plan.n_steps)
    return replace(inputs, steps=steps)


# -- What is stored --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SymmetricTable:
    """A table without a zero level: codes -7 to 8 of four bits, half a step down."""

    packed: PackedArray

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of the step."""
        return self.packed.nbytes

    def decoded(self) -> Any:
        """The numbers, in float32."""
        codes = self.packed.codes().astype(np.float32) - np.float32(0.5)
        return codes * np.float32(self.packed.step)


def pack(values: Any, name: str, step: float) -> PackedArray | SymmetricTable:
    """A table in a format."""
    if name != SYMMETRIC:
        return encode(values, FORMATS[name], step)
    if not np.isfinite(values).all():
        raise ValueError("A packed array cannot hold NaN or infinity; the training has failed.")
    step = float(np.float32(step))
    codes = np.clip(np.rint(values / np.float32(step) - np.float32(0.5)) + 1, -7, 8)
    # As in int4, two codes per byte are stored plus 7, the first one in the lower half; there the
    # 16th value is not used.
    numbers = np.append((codes + 7).astype(np.uint8).ravel(), np.zeros(codes.size % 2, np.uint8))
    data = numbers[::2] | (numbers[1::2] << 4)
    return SymmetricTable(PackedArray(FORMATS["int4"], values.shape, data, step))


@dataclass(frozen=True, eq=False)
class Network:
    """A stored network: tables of weights (inputs, outputs), biases, and the input map.

    The biases of a projection are empty. A step map has features, thresholds and jumps.
    """

    tables: tuple[Any, ...]
    biases: tuple[Any, ...]
    shift: float | PackedArray
    scale: float | PackedArray
    is_asinh: bool = False
    block: int = 1
    features: Any = None
    thresholds: Any = None
    jumps: PackedArray | None = None
    is_regressor: bool = False
    n_centers: None = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        arrays = [*self.tables, *self.biases]
        if self.jumps is not None:
            arrays += [self.features, self.thresholds, self.jumps]
        return sum(array.nbytes for array in arrays) + scaling_bytes(self.shift, self.scale)

    @property
    def inputs(self) -> Inputs:
        """The input map."""
        steps = None
        if self.jumps is not None:
            steps = Steps(self.features.astype(np.intp), self.thresholds)
        return Inputs(self.shift, self.scale, self.is_asinh, steps, self.block)

    def outputs(self, X: Any, chunk: int = 8192) -> Any:
        """Outputs for rows."""
        inputs = self.inputs
        arrays = {f"W{i}": table.decoded() for i, table in enumerate(self.tables)}
        biases = enumerate(self.biases)
        arrays |= {f"b{i}": bias.astype(np.float32)[None] for i, bias in biases if len(bias)}
        if self.jumps is not None:
            arrays["jumps"] = self.jumps.decoded()[None]
            n_inputs = X.shape[1] // self.block**2
            arrays["owners"] = np.eye(n_inputs, dtype=np.float32)[self.features]
        outputs = [np.zeros((0, arrays[f"W{len(self.tables) - 1}"].shape[1]), np.float32)]
        for start in range(0, X.shape[0], chunk):
            outputs.append(forward(arrays, inputs(X[start : start + chunk]))[-1])
        return np.concatenate(outputs)

    def predict(self, X: Any) -> Any:
        """Class codes of rows, or numbers."""
        outputs = self.outputs(X)
        if outputs.shape[1] > 1:
            return outputs.argmax(axis=1)
        return outputs[:, 0] if self.is_regressor else (outputs[:, 0] > 0).astype(np.int64)


def examples_of(
    X: Any,
    targets: Any,
    task: Task,
    inputs: Sequence[Inputs],
    device: Device,
    augment: str | None = None,
) -> BatchLoader:
    """Rows behind each of several input maps, one block of rows after the other.

    Targets of classes are not smoothed. Columns of steps that a map lacks are zero. Images can be
    augmented behind a single map.
    """
    table = CrossEntropy(0.0).target_table(task.n_classes) if task.n_classes else None
    targets = np.asarray(targets) if task.n_classes else np.asarray(targets)[:, None]
    options: dict[str, Any] = {"table": table, "device": device}
    if len(inputs) == 1:
        ones = np.ones(len(X))
        return BatchLoader(X, targets, ones, inputs=inputs[0], augment=augment, **options)
    n_columns = X.shape[1] // inputs[0].block ** 2 + max(of.n_steps for of in inputs)
    rows = np.zeros((len(inputs), len(X), n_columns), np.float32)
    for block, of in zip(rows, inputs, strict=True):
        mapped = of(np.asarray(X))
        block[:, : mapped.shape[1]] = mapped
    everything = np.concatenate(len(inputs) * [targets])
    return BatchLoader(rows.reshape(-1, n_columns), everything, np.ones(len(everything)), **options)


# -- Values -----------------------------------------------------------------------------------


def n_layers(arrays: Arrays) -> int:
    """Number of tables."""
    return sum(name[0] == "W" and name[1:].isdigit() for name in arrays)


def stepped(arrays: Arrays, rows: Any) -> Any:
    """Rows [u | S] with steps: u + (S * jumps) owners, where a step is of the feature it owns."""
    if "jumps" not in arrays:
        return rows
    n = arrays["owners"].shape[-1]
    return rows[..., :n] + (rows[..., n:] * arrays["jumps"]) @ arrays["owners"]


def forward(arrays: Arrays, rows: Any) -> list[Any]:
    """Inputs of each layer, and the outputs; layers with biases except the last have ReLU."""
    n, xp = n_layers(arrays), array_namespace(rows)
    values = [stepped(arrays, rows)]
    zero = xp.zeros_like(rows[..., :1, :1])
    for i in range(n):
        outputs = values[-1] @ arrays[f"W{i}"]
        if f"b{i}" in arrays:
            outputs += arrays[f"b{i}"]
            if i < n - 1:
                outputs = xp.maximum(outputs, zero)
        values.append(outputs)
    return values
