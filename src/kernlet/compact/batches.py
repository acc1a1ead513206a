"""The rows that a compact machine is trained on: mapped, in batches, on a device."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernlet._typing import Array, Floats, Indices
from kernlet.compact.images import Augmenter, background, image_side
from kernlet.compact.inputs import (
    Inputs,
    asinh_inputs,
    block_inputs,
    tree_steps,
    without_missing,
)
from kernlet.compact.network import Loss
from kernlet.compact.plan import StoragePlan
from kernlet.compact.scoring import Validation
from kernlet.devices import NUMPY, Device, to_numpy
from kernlet.kernels.gram import as_dense, row_slices
from kernlet.rows.source import RowReader

#: Rows that take at most this many bytes in float32 are converted once and cached.
CACHED_BYTES = 2**30
_SAMPLE_ROWS = 20_000  # from which the constants of inputs come at most
_SAMPLE_NUMBERS = 2**26  # rows times features of that sample
# Groups of rows with one transform each: many for variety, large for speed.
_GROUPS, _ROWS_PER_GROUP = (8, 64), 64


class BatchLoader:
    """Mapped rows in float32 on a device, with targets and weights.

    Rows are [u | S] of the ``inputs``: ``n_features`` numbers and ``n_steps`` indicators, together
    ``n_columns``. ``targets`` are class numbers where ``table`` holds the targets of each class,
    otherwise the targets themselves. Rows beyond ``CACHED_BYTES`` are converted at each use.
    ``augment`` is "shift" or "affine", for rows that are square images. With ``has_missing``, some
    numbers of X are NaN; they are NaN in the mapped rows too, unless the inputs fill them.
    """

    def __init__(
        self,
        X: Any,
        targets: Any,
        weights: Floats,
        *,
        table: Floats | None = None,
        inputs: Inputs | None = None,
        device: Device = NUMPY,
        augment: str | None = None,
        has_missing: bool = False,
    ) -> None:
        self.device, self.augment = device, augment
        self._X_has_missing = has_missing
        if augment is not None:
            image_side(X.shape[1])  # refuses rows that are not square images
        self.n_rows = X.shape[0]
        self._table = None if table is None else device.send(np.transpose(table).copy())
        if table is None:
            self._targets = device.send(targets)
        else:
            self._targets = device.send(np.asarray(targets, dtype=np.int64), floats=False)
        self._weights = device.send(weights)
        self._numbers: Indices | None = None  # of a subset
        self._replay: tuple[int, int] | None = None  # rows of every epoch, and of all
        self._X, self._given_inputs = X, inputs or Inputs()
        self._derived: dict[Any, BatchLoader] = {}  # of other inputs, shared among all of them
        self._set_inputs(self._given_inputs)

    def _set_inputs(self, inputs: Inputs) -> None:
        self.inputs, self.n_steps = inputs, inputs.n_steps
        self.has_missing = self._X_has_missing and inputs.fill is None
        n_rows, n_given = self._X.shape
        self.n_features = n_given // inputs.block**2
        self.n_columns = self.n_features + self.n_steps
        self._cached_bytes = 4 * n_rows * self.n_columns
        self.is_cached = self._cached_bytes <= CACHED_BYTES
        if self.is_cached:
            mapped = np.empty((n_rows, self.n_columns), np.float32)
            for rows in row_slices(n_rows, 8 * n_given):
                mapped[rows] = self._mapped(rows)
            self._rows = self.device.send(mapped)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_derived": {}}

    def __copy__(self) -> BatchLoader:
        loader = object.__new__(type(self))
        vars(loader).update(vars(self))
        return loader

    def subset(self, numbers: Indices) -> BatchLoader:
        """The rows of the given numbers, which share the memory of all."""
        subset = copy(self)
        subset._numbers, subset.n_rows = numbers, len(numbers)
        return subset

    def with_replay(self, n_new: int, n_replayed: int) -> BatchLoader:
        """The loader whose epochs have the first rows, and others drawn at random from the rest."""
        loader = copy(self)
        loader.n_rows = min(self.n_rows, n_new + n_replayed)
        loader._replay = (n_new, self.n_rows)
        return loader

    def for_plan(self, plan: StoragePlan, train: Indices) -> BatchLoader:
        """The loader with the inputs of a plan: its curve, ``block`` and treatment of NaN.

        Their constants come from the rows ``train`` alone, medians from all rows.
        """
        kind = (plan.is_asinh, plan.n_steps, plan.block, plan.missing == "median")
        if kind == self.inputs.kind:
            return self
        depends = plan.is_asinh or plan.n_steps or plan.block > 1
        key = (*kind, hash(train.tobytes()) if depends else 0)
        if key not in self._derived:
            derived = copy(self)
            derived._set_inputs(self._inputs_of(*kind, train))
            kept = [each._cached_bytes for each in self._derived.values() if each.is_cached]
            if sum(kept) + derived._cached_bytes > CACHED_BYTES:
                self._derived.clear()
            self._derived[key] = derived
        loader = copy(self._derived[key])
        loader._numbers, loader.n_rows, loader._table = self._numbers, self.n_rows, self._table
        return loader

    def scaling_bytes_of(self, is_asinh: bool, block: int) -> int:
        """Bytes of shift and scale of such inputs, whatever rows they are made from."""
        if (is_asinh, block) == (self._given_inputs.is_asinh, self._given_inputs.block):
            return self._given_inputs.scaling_bytes
        fill, everything = self._given_inputs.fill, np.arange(self._X.shape[0])
        return self._inputs_of(is_asinh, 0, block, fill is not None, everything).scaling_bytes

    def _inputs_of(
        self, is_asinh: bool, n_steps: int, block: int, has_fill: bool, train: Indices
    ) -> Inputs:
        """Inputs with the constants of a sample of rows."""
        weights = to_numpy(self._weights).astype(np.float64)
        sample = self._sample(train, weights)
        rows, inputs = as_dense(self._X[sample]), self._given_inputs
        fill = inputs.fill if has_fill else None
        if inputs.fill is not fill:
            inputs = replace(inputs, fill=fill)
        if block > 1:
            filled = rows if fill is None else np.where(np.isnan(rows), fill.decoded(), rows)
            inputs = replace(block_inputs(filled, weights[sample], block), fill=fill)
        elif is_asinh:
            everything = self._sample(np.arange(len(weights)), weights)
            inputs = replace(asinh_inputs(rows, as_dense(self._X[everything])), fill=fill)
        if n_steps:
            targets = to_numpy(self._targets)[sample]
            mapped = without_missing(inputs(rows))
            steps = tree_steps(mapped, targets, weights[sample], n_steps)
            inputs = replace(inputs, steps=steps)
        return inputs

    def _sample(self, numbers: Indices, weights: Floats) -> Indices:
        """At most 20,000 of the rows, in bounded memory, without those of no weight."""
        numbers = numbers[weights[numbers] > 0]
        size = min(_SAMPLE_ROWS, max(1, _SAMPLE_NUMBERS // self._X.shape[1]))
        if len(numbers) <= size:
            return np.sort(numbers)
        return np.sort(np.random.RandomState(0).choice(numbers, size, replace=False))

    def augmented(self) -> BatchLoader:
        """The loader of images transformed at random, for training; itself without ``augment``."""
        return self if self.augment is None else AugmentedLoader(self)

    def next_epoch(self, random: np.random.RandomState) -> None:
        """Transform the rows at random, where they are augmented."""

    def with_table(self, table: Floats) -> BatchLoader:
        """The loader with other targets of the classes; tables may be stacked."""
        loader = copy(self)
        loader._table = self.device.send(np.swapaxes(table, -1, -2))
        return loader

    def as_indices(self, rows: Indices) -> Array:
        """Row numbers as the methods below take them: of all rows, on the device if cached."""
        if self._numbers is not None:
            rows = self._numbers[rows]
        return self.device.send(rows, floats=False) if self.is_cached else rows

    def shuffled(self, random: np.random.RandomState) -> Array:
        """All rows in random order, for an epoch; block by block where read from a source."""
        self.next_epoch(random)
        if self._replay is not None:
            n_new, n_all = self._replay
            drawn = n_new + random.permutation(n_all - n_new)[: self.n_rows - n_new]
            return self.as_indices(random.permutation(np.concatenate([np.arange(n_new), drawn])))
        if isinstance(self._X, RowReader) and not self.is_cached:
            numbers = np.arange(self.n_rows) if self._numbers is None else self._numbers
            return self.as_indices(self._X.shuffled(numbers, random))
        return self.as_indices(random.permutation(self.n_rows))

    def blocks(self) -> Iterator[Array]:
        """All rows, as indices, in blocks of bounded memory."""
        for rows in row_slices(self.n_rows, 4 * self._X.shape[1]):
            yield self.as_indices(np.arange(rows.start, rows.stop))

    def rows(self, indices: Any) -> Array:
        """Mapped rows; a copy."""
        if self.is_cached:
            return self._take(self._rows, indices)
        return self.device.send(self._mapped(indices))

    def targets(self, indices: Any) -> Array:
        """Targets of shape (n_rows, n_outputs), or of several tables of shape (..., n_outputs)."""
        targets = self._take(self._targets, indices)
        if self._table is None:
            return targets
        # Columns contiguous like the outputs they are compared with.
        return self.device.namespace.take(self._table, targets, axis=-1).mT

    def weights(self, indices: Any) -> Array:
        """Weights of rows."""
        return self._take(self._weights, indices)

    def _take(self, array: Array, indices: Any) -> Array:
        indices = self.device.send(indices, floats=False)
        return self.device.namespace.take(array, indices, axis=0)

    def _mapped(self, rows: Any) -> Floats:
        return self.inputs(as_dense(self._X[rows]))


class AugmentedLoader(BatchLoader):
    """A loader of square images that are transformed at random, half of them in each epoch.

    Time is about 4 n_rows n_pixels per epoch, memory that of the pixels in float32.
    """

    def __init__(self, loader: BatchLoader) -> None:
        vars(self).update(vars(loader))
        n_rows, n_pixels = self._X.shape
        numbers = np.arange(n_rows) if self._numbers is None else self._numbers
        sample = as_dense(self._X[self._sample(numbers, to_numpy(self._weights))])
        assert self.augment is not None
        side, empty = image_side(n_pixels), background(sample)
        self._augmenter = Augmenter(self.augment, side, empty, self.device)
        self._map = self.inputs.on(self.device)
        self.is_cached = self.is_cached and 4 * n_rows * n_pixels <= CACHED_BYTES
        self._groups: list[Array] = []
        if self.is_cached:
            n_groups = min(n_rows, int(np.clip(n_rows // _ROWS_PER_GROUP, *_GROUPS)))
            for first in range(n_groups):
                rows = as_dense(self._X[np.arange(first, n_rows, n_groups)])
                self._groups.append(self._augmenter.columns(rows))
            self._rows = self.device.namespace.asarray(self._rows, copy=True)

    def augmented(self) -> BatchLoader:
        """Itself."""
        return self

    def next_epoch(self, random: np.random.RandomState) -> None:
        """Transform half of the rows at random."""
        self._augmenter.begin(random.randint(2**31 - 1))
        n_groups = len(self._groups)
        # In place: CUDA graphs read the rows where they were when the graph was captured.
        for first in random.permutation(n_groups)[: -(-n_groups // 2)]:
            self._rows[first::n_groups, ...] = self._map(self._augmenter(self._groups[first]))

    def rows(self, indices: Any) -> Array:
        """Mapped rows as the epoch has them; where not cached, transformed in a few groups."""
        if self.is_cached:
            return super().rows(indices)
        dense, xp = as_dense(self._X[indices]), self.device.namespace
        rows = xp.zeros((len(dense), self.n_columns), dtype=xp.float32, device=self.device.place)
        n_groups = min(*_GROUPS, len(dense))
        for first in range(n_groups):
            columns = self._augmenter.columns(dense[first::n_groups])
            rows[first::n_groups, ...] = self._map(self._augmenter(columns))
        return rows


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What is learned: rows with targets, the loss, the score and the validation split.

    ``targets`` are class numbers where ``target_table`` holds the targets of each class, otherwise
    numbers of shape (n_rows, n_outputs). ``initial_table`` has the outputs that an initial network
    aims at for each class. ``validation`` scores outputs for held-out rows. ``train`` and
    ``held_out`` are row numbers.
    """

    X: Any
    weights: Floats
    targets: Any
    loss: Loss
    validation: Validation
    train: Indices
    held_out: Indices
    target_table: Floats | None = None
    initial_table: Floats | None = None

    @property
    def n_outputs(self) -> int:
        """Outputs of the network."""
        return int((self.targets if self.target_table is None else self.target_table).shape[1])
