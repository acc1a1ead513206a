"""The rows that a compact machine is trained on: scaled, in batches, on a device."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kernlet._typing import Array, Floats, Indices
from kernlet.affine import ColumnRanges, are_far_apart, are_unlike
from kernlet.compact.network import Loss
from kernlet.compact.scoring import Validation
from kernlet.devices import NUMPY, Device
from kernlet.kernels.gram import as_dense, canonical_csr, row_slices
from kernlet.quantization import PackedArray, as_numbers, encode_columns
from kernlet.rows.source import RowReader

#: Rows that take at most this many bytes in float32 are converted once and cached.
CACHED_BYTES = 2**30
#: Deviations that float32 can hold together with their squares and reciprocals.
FLOAT32_RANGE = (1e-30, 1e30)


class BatchLoader:
    """Rows (x - shift) / scale in float32 on a device, with targets and weights.

    ``shift`` and ``scale`` are numbers, or packed arrays with one number per feature. ``targets``
    are class numbers where ``table`` holds the targets of each class, otherwise the targets
    themselves. Rows beyond ``CACHED_BYTES`` are converted at each use.
    """

    def __init__(
        self,
        X: Any,
        targets: Any,
        weights: Floats,
        *,
        table: Floats | None = None,
        shift: float | PackedArray = 0.0,
        scale: float | PackedArray = 1.0,
        device: Device = NUMPY,
    ) -> None:
        self.shift, self.scale, self.device = shift, scale, device
        self.n_rows, self.n_features = X.shape
        self._table = None if table is None else device.send(table)
        if table is None:
            self._targets = device.send(targets)
        else:
            self._targets = device.send(np.asarray(targets, dtype=np.int64), floats=False)
        self._weights = device.send(weights)
        self._numbers: Indices | None = None  # of a subset
        self._X = X  # as given, or all rows scaled and on the device
        self.is_cached = 4 * self.n_rows * self.n_features <= CACHED_BYTES
        if self.is_cached:
            scaled = np.empty((self.n_rows, self.n_features), np.float32)
            for rows in row_slices(self.n_rows, 8 * self.n_features):
                scaled[rows] = self._scaled(rows)
            self._X = device.send(scaled)

    def subset(self, numbers: Indices) -> BatchLoader:
        """The rows of the given numbers, which share the memory of all."""
        subset = copy(self)
        subset._numbers, subset.n_rows = numbers, len(numbers)
        return subset

    def as_indices(self, rows: Indices) -> Array:
        """Row numbers as the methods below take them: of all rows, on the device if cached."""
        if self._numbers is not None:
            rows = self._numbers[rows]
        return self.device.send(rows, floats=False) if self.is_cached else rows

    def shuffled(self, random: np.random.RandomState) -> Array:
        """All rows in random order; block by block where the rows are read from a source."""
        if isinstance(self._X, RowReader):
            numbers = np.arange(self.n_rows) if self._numbers is None else self._numbers
            return self.as_indices(self._X.shuffled(numbers, random))
        return self.as_indices(random.permutation(self.n_rows))

    def blocks(self) -> Iterator[Array]:
        """All rows, as indices, in blocks of bounded memory."""
        for rows in row_slices(self.n_rows, 4 * self.n_features):
            yield self.as_indices(np.arange(rows.start, rows.stop))

    def rows(self, indices: Any) -> Array:
        """Scaled rows; a copy."""
        if self.is_cached:
            return self._take(self._X, indices)
        return self.device.send(self._scaled(indices))

    def targets(self, indices: Any) -> Array:
        """Targets of shape (n_rows, n_outputs)."""
        targets = self._take(self._targets, indices)
        if self._table is None:
            return targets
        return self.device.namespace.take(self._table, targets, axis=0)

    def weights(self, indices: Any) -> Array:
        """Weights of rows."""
        return self._take(self._weights, indices)

    def _take(self, array: Array, indices: Any) -> Array:
        indices = self.device.send(indices, floats=False)
        return self.device.namespace.take(array, indices, axis=0)

    def _scaled(self, rows: Any) -> Floats:
        dense = as_dense(self._X[rows])
        if dense.dtype == np.float16:
            dense = dense.astype(np.float32)
        # Subtracted in the precision of the data: in float32 a large mean would cancel.
        scaled: Floats = (dense - as_numbers(self.shift)).astype(np.float32, copy=False)
        scaled *= np.asarray(1 / as_numbers(self.scale), dtype=np.float32)
        return scaled


def column_scaling(
    X: Any, ranges: ColumnRanges, weights: Floats, *, always: bool
) -> tuple[PackedArray, PackedArray] | None:
    """Shifts and scales that standardise the columns; None for columns alike, unless always.

    Columns are alike unless their ranges and deviations, or their means, are not.
    """
    have_unlike_ranges = are_unlike(ranges.sizes[ranges.sizes > 0])
    if not always and not have_unlike_ranges and not ranges.may_be_far_apart:
        return None
    shift, scale = ranges.standardising(X, weights)
    scale[scale < FLOAT32_RANGE[0]] = 0.0
    are_alike = not (have_unlike_ranges and are_unlike(scale[scale > 0]))
    if not always and are_alike and not are_far_apart(shift, scale):
        return None
    # A constant column says nothing, and must not: divided by its size, whatever the shift loses
    # to rounding stays small.
    constants = np.maximum(np.abs(shift), scale.max(initial=0.0))
    constants[constants == 0] = 1.0
    return encode_columns(shift, np.where(scale > 0, scale, constants))


def mean_and_deviation(
    X: Any, weights: Floats | None = None, largest: float | None = None
) -> tuple[float, float]:
    """The mean and the standard deviation of all numbers in X; a deviation of 0 becomes 1.

    ``largest`` is the largest absolute number, where it is known.
    """
    X = canonical_csr(X)
    n_rows, n_features = X.shape
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    slices = list(row_slices(n_rows, 8 * n_features))
    # Numbers are divided by the largest, so that their squares neither overflow nor underflow.
    if largest is None:
        largest = max(float(abs(X[rows]).max()) for rows in slices)
    largest = largest or 1.0
    mean = square = 0.0
    for rows in slices:
        sums = np.asarray(X[rows].sum(axis=1, dtype=np.float64)).ravel()
        mean += float(shares[rows] @ (sums / largest)) / n_features
    for rows in slices:
        square += float(shares[rows] @ _squares_about(X[rows], largest, mean)) / n_features
    if square < 1e-24:  # constant up to round-off
        return largest * mean, 1.0
    return largest * mean, largest * float(np.sqrt(square))


def _squares_about(block: Any, unit: float, mean: float) -> Floats:
    """Sums over each row of (x / unit - mean)^2, without cancellation."""
    if not sparse.issparse(block):
        deviations = block / unit - mean
        return np.einsum("ij,ij->i", deviations, deviations)
    # Stored entries about the mean, then n_zeros * mean^2. Expanding the square would be shorter,
    # but the sum of x^2 - 2 mean x + mean^2 cancels where all numbers are nearly equal.
    block = block.tocsr()
    squares = (block.data.astype(np.float64) / unit - mean) ** 2
    n_stored = np.diff(block.indptr)
    of_stored = np.bincount(np.repeat(np.arange(len(n_stored)), n_stored), squares, len(n_stored))
    return of_stored + (block.shape[1] - n_stored) * mean**2


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
