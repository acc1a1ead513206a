"""How rows become what a compact network sees: block means, scaling, asinh and steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from kernlet._typing import Array, Floats, Indices
from kernlet.affine import ColumnRanges, are_far_apart, are_unlike
from kernlet.compact.images import block_means
from kernlet.devices import Device
from kernlet.kernels.gram import as_dense, canonical_csr, row_slices
from kernlet.quantization import (
    PackedArray,
    QuantizedExpansion,
    as_numbers,
    encode_columns,
    scaling_bytes,
)

# How this works
# --------------
# Kernels of few centers are smooth and treat all directions alike. Tables are often neither: their
# columns have long tails, and their classes end at thresholds. Two maps in front of the kernel
# help, both with constants from training rows alone:
#
# asinh  u = asinh((x - median) / ((q90 - q10) / 2.56)). For a normal column the divisor is the
#        deviation, since its quantiles lie 1.28 deviations from the mean; tails become logarithms,
#        and numbers near the median stay as they are.
# steps  h_d = u_d + sum_b v_b [u_d > t_b]: a jump at each threshold. The thresholds are the splits
#        of a small decision tree; the jumps v_b are trained with the network, which therefore sees
#        the indicators [u_d > t_b] as columns behind u.
#
# Thresholds are stored in float16, and both training and the stored machine compare float32
# numbers that are computed in the same way, so that they agree on which side a row lies.

#: Deviations that float32 can hold together with their squares and reciprocals.
FLOAT32_RANGE = (1e-30, 1e30)
#: q90 - q10 of a normal distribution, in deviations.
_QUANTILE_RANGE = 2.56
#: asinh of this is 1: the distance between the values of a column that has two of them.
_SINH_1 = math.sinh(1.0)
#: Scales in float16 over the largest of them; smaller ones would be subnormal numbers, or 0.
_LEAST_SCALE = 2.0**-28
# Of columns that have one unit: the share with ranges of about the same size, and the largest range
# of all numbers over that of a column.
_SHARE_ALIKE, _FAR_APART = 0.75, 4.0
_LARGEST_THRESHOLD = float(np.finfo(np.float16).max)


class Steps(NamedTuple):
    """Indicators [u[feature] > threshold]; thresholds in float16, as they are stored."""

    features: Indices
    thresholds: Any


@dataclass(frozen=True, eq=False)
class Inputs:
    """x -> [u | S] in float32, with u = (x - shift) / scale and S the indicators of the steps.

    ``shift`` and ``scale`` are numbers, or packed arrays with one number per feature. With
    ``is_asinh``, u is the asinh of that; with ``block``, x are the means of block x block pixels of
    a square image, which have one shift and one scale. ``fill`` replaces missing numbers (NaN) in
    x; without it they are NaN in u, and exceed no threshold.
    """

    shift: float | PackedArray = 0.0
    scale: float | PackedArray = 1.0
    is_asinh: bool = False
    steps: Steps | None = None
    block: int = 1
    fill: PackedArray | None = None

    def __post_init__(self) -> None:
        # Pooling is folded into the matrix behind shift and scale: nothing may come between.
        is_plain = not (self.is_asinh or self.steps or isinstance(self.shift, PackedArray))
        if self.block > 1 and not is_plain:
            raise ValueError("Block means take one shift and one scale, and no asinh or steps.")

    @classmethod
    def of(cls, expansion: QuantizedExpansion) -> Inputs:
        """The inputs of a compact machine, to train it further."""
        steps: Any = expansion.steps
        if steps is not None:
            thresholds = np.clip(steps.thresholds, -_LARGEST_THRESHOLD, _LARGEST_THRESHOLD)
            steps = Steps(steps.features.astype(np.intp), thresholds.astype(np.float16))
        scaling = (expansion.shift, expansion.scale)
        return cls(*scaling, expansion.is_asinh, steps, expansion.block, expansion.fill)

    @property
    def n_steps(self) -> int:
        """Columns of indicators."""
        return 0 if self.steps is None else len(self.steps.features)

    @property
    def scaling_bytes(self) -> int:
        """Bytes of shift and scale."""
        return scaling_bytes(self.shift, self.scale)

    @property
    def fill_bytes(self) -> int:
        """Bytes of what replaces missing numbers."""
        return 0 if self.fill is None else self.fill.nbytes

    @property
    def kind(self) -> tuple[bool, int, int, bool]:
        """What a plan says of inputs: is_asinh, n_steps, block and whether there is a fill."""
        return (self.is_asinh, self.n_steps, self.block, self.fill is not None)

    def map(self, rows: Floats) -> Floats:
        """U of dense rows; always a copy."""
        if rows.dtype == np.float16:
            rows = rows.astype(np.float32)
        if self.fill is not None:
            rows = np.where(np.isnan(rows), self.fill.decoded().astype(rows.dtype), rows)
        if self.block > 1:
            rows = block_means(rows, self.block)
        # Subtracted in the precision of the data: in float32 a large mean would cancel.
        inputs: Floats = (rows - as_numbers(self.shift)).astype(np.float32, copy=False)
        inputs *= np.asarray(1 / as_numbers(self.scale), dtype=np.float32)
        if self.is_asinh:
            np.arcsinh(inputs, out=inputs)
        return inputs

    def __call__(self, rows: Floats) -> Floats:
        """[u | S] of dense rows; always a copy."""
        inputs = self.map(rows)
        if self.steps is None:
            return inputs
        above = inputs[:, self.steps.features] > self.steps.thresholds.astype(np.float32)
        return np.hstack([inputs, above.astype(np.float32)])

    def on(self, device: Device) -> Callable[[Array], Array]:
        """The same map of float32 rows on a device."""
        if device.is_numpy:
            return self
        xp = device.namespace
        shift = device.send(as_numbers(self.shift))
        factor = device.send(1 / as_numbers(self.scale))
        if self.steps is not None:
            features = device.send(self.steps.features, floats=False)
            thresholds = device.send(self.steps.thresholds)

        def mapped(rows: Array) -> Array:
            rows = block_means(rows, self.block) if self.block > 1 else rows
            inputs = (rows - shift) * factor
            inputs = xp.asinh(inputs) if self.is_asinh else inputs
            if self.steps is None:
                return inputs
            above = xp.take(inputs, features, axis=1) > thresholds
            return xp.concat([inputs, xp.astype(above, xp.float32)], axis=1)

        return mapped


# -- Means and deviations --------------------------------------------------------------------


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
    return encode_columns(shift, _without_zeros(shift, scale))


def have_one_unit(X: Floats, ranges: ColumnRanges) -> bool:
    """Whether most columns, those of two values left out, have ranges of about the same size.

    No column, a constant one for example, may lie far from the others.
    """
    is_binary = ((ranges.low == X) | (ranges.high == X)).all(axis=0)
    sizes = ranges.sizes[~is_binary]
    if not len(sizes) or ranges.high.max() - ranges.low.min() > _FAR_APART * sizes.max():
        return False
    return bool((sizes >= sizes.max() / 2).mean() >= _SHARE_ALIKE)


def _without_zeros(shift: Floats, scale: Floats) -> Floats:
    """Scales that can be divided by, with those of constant columns too."""
    # A constant column says nothing, and must not: divided by its size, whatever the shift loses
    # to rounding stays small.
    constants = np.maximum(np.abs(shift), scale.max(initial=0.0))
    constants[constants == 0] = 1.0
    return np.where(scale > FLOAT32_RANGE[0], scale, constants)


def mean_and_deviation(
    X: Any,
    weights: Floats | None = None,
    largest: float | None = None,
    *,
    has_missing: bool = False,
) -> tuple[float, float]:
    """The mean and the standard deviation of all numbers in X; a deviation of 0 becomes 1.

    ``largest`` is the largest absolute number, where it is known. Where X ``has_missing`` numbers,
    they are left out.
    """
    X = canonical_csr(X)
    n_rows, n_features = X.shape
    shares = np.full(n_rows, 1 / n_rows) if weights is None else weights / weights.sum()
    if has_missing:
        return _mean_and_deviation_of_present(X, shares, largest or 1.0)
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


def _mean_and_deviation_of_present(X: Any, shares: Floats, unit: float) -> tuple[float, float]:
    """The same of the numbers that are not NaN, in units of the largest."""
    slices = list(row_slices(X.shape[0], 8 * X.shape[1]))
    total = mean = square = 0.0
    for rows in slices:
        total += float(shares[rows] @ (~np.isnan(X[rows])).sum(axis=1))
        mean += float(shares[rows] @ np.nansum(X[rows] / unit, axis=1, dtype=np.float64))
    mean /= total
    for rows in slices:
        deviations = np.nan_to_num(X[rows] / unit - mean)
        square += float(shares[rows] @ np.einsum("ij,ij->i", deviations, deviations)) / total
    return unit * mean, unit * float(np.sqrt(square)) if square >= 1e-24 else 1.0


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


# -- Missing numbers -------------------------------------------------------------------------

_MEDIAN_NUMBERS = 2**24  # rows times features from which medians come at most


def column_medians(X: Any, scale: float | PackedArray) -> PackedArray:
    """The median of the numbers present in each column, in float16 where that is exact enough.

    Of more than 16 million numbers, that of evenly spaced rows.
    """
    n_rows, n_features = X.shape
    n_read = min(n_rows, max(1, _MEDIAN_NUMBERS // n_features))
    chosen = slice(None) if n_read == n_rows else np.linspace(0, n_rows - 1, n_read).astype(np.intp)
    medians = present_medians(as_dense(X[chosen]))
    return encode_columns(medians, np.broadcast_to(as_numbers(scale), n_features))[0]


def present_medians(rows: Floats) -> Floats:
    """The median of the numbers of each column that are not NaN; 0 where all are."""
    columns = [column[~np.isnan(column)] for column in rows.T]
    return np.array([float(np.median(c)) if len(c) else 0.0 for c in columns])


def without_missing(rows: Floats) -> Floats:
    """Rows with the medians of their columns in place of NaN."""
    is_missing = np.isnan(rows)
    if not is_missing.any():
        return rows
    return np.where(is_missing, present_medians(rows).astype(rows.dtype), rows)


# -- Constants of the asinh map --------------------------------------------------------------


def asinh_columns(rows: Floats) -> tuple[Floats, Floats]:
    """Median and (q90 - q10) / 2.56 of each column.

    The deviation where that is 0. A column of two values becomes 0 and 1 behind the asinh.
    """
    rows = rows.astype(np.float64, copy=False)
    if np.isnan(rows).any():  # each column without its missing numbers
        columns = [column[~np.isnan(column)] for column in rows.T]
        pairs = [asinh_columns(c[:, None] if len(c) else np.zeros((1, 1))) for c in columns]
        shift, scale = (np.concatenate(values) for values in zip(*pairs, strict=True))
        return shift, scale
    low, high = rows.min(axis=0), rows.max(axis=0)
    q10, shift, q90 = np.quantile(rows, (0.1, 0.5, 0.9), axis=0)
    scale = (q90 - q10) / _QUANTILE_RANGE
    # Divided by the range, whose square may overflow.
    span = np.where(high > low, high - low, 1.0)
    scale = np.where(scale > 0, scale, span * np.std((rows - low) / span, axis=0))
    is_binary = ((rows == low) | (rows == high)).all(axis=0)
    shift = np.where(is_binary, low, shift)
    scale = np.where(is_binary, (high - low) / _SINH_1, scale)
    return shift, _without_zeros(shift, scale)


def asinh_inputs(rows: Floats, all_rows: Floats) -> Inputs:
    """The asinh map of training rows, in the formats that suit all rows.

    The bytes of a machine thus do not depend on which rows were held out.
    """
    formats = [packed.format for packed in encode_columns(*asinh_columns(all_rows))]
    shift, scale = asinh_columns(rows)
    if formats[1].name == "float16":
        scale = np.maximum(scale, _LEAST_SCALE * scale.max())
    return Inputs(*encode_columns(shift, scale, formats), is_asinh=True)


# -- Thresholds ------------------------------------------------------------------------------


def tree_steps(rows: Floats, targets: Any, weights: Floats, n_steps: int) -> Steps:
    """The first distinct splits of a decision tree that is grown best split first.

    ``targets`` are class numbers, or numbers of shape (n_rows, n_outputs). Where the tree has fewer
    splits, the rest are steps that no number exceeds.
    """
    is_classifier = np.ndim(targets) == 1
    kind = DecisionTreeClassifier if is_classifier else DecisionTreeRegressor
    steps: dict[tuple[int, float], None] = {}
    n_leaves = n_steps + 1
    while True:
        tree = kind(max_leaf_nodes=n_leaves, random_state=0).fit(rows, targets, weights).tree_
        # Nodes are numbered in the order of the splits that made them.
        splits = np.flatnonzero(tree.children_left >= 0)
        splits = splits[np.argsort(tree.children_left[splits])]
        for feature, threshold in zip(tree.feature[splits], tree.threshold[splits], strict=True):
            stored = _stored_threshold(rows[:, feature], threshold)
            if abs(stored) < _LARGEST_THRESHOLD:
                steps.setdefault((int(feature), stored))
        if len(steps) >= n_steps or tree.n_leaves < n_leaves:
            break
        n_leaves *= 2  # the same split in two branches is one step
    unused = [(0, _LARGEST_THRESHOLD)] * n_steps
    features, thresholds = zip(*[*steps, *unused][:n_steps], strict=True)
    return Steps(np.array(features, dtype=np.intp), np.array(thresholds, dtype=np.float16))


def _stored_threshold(column: Floats, threshold: float) -> float:
    """A threshold in float16 that leaves each number on its side, where there is one."""
    above = column > threshold
    low, high = column[~above].max(), column[above].min()
    with np.errstate(over="ignore"):
        stored = np.float16(threshold)
    # The nearest float16 to a threshold midway lies in [low, high), if any does, but for ties.
    if stored >= high and np.nextafter(stored, np.float16(-np.inf)) >= low:
        stored = np.nextafter(stored, np.float16(-np.inf))
    return float(stored)


# -- Block means -----------------------------------------------------------------------------


def block_inputs(rows: Floats, weights: Floats, block: int) -> Inputs:
    """Block means, with the mean and the deviation of all of them."""
    means = block_means(rows.astype(np.float64, copy=False), block)
    mean, deviation = mean_and_deviation(means, weights)
    return Inputs(float(np.float32(mean)), float(np.float32(deviation)), block=block)
