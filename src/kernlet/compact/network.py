"""A Gaussian RBF network: losses, parameters and gradient, storage, and batches of rows.

f_c(x) = sum_j weights[c, j] exp(-gamma_j |P x - centers[j]|^2) + intercept[c]

Arrays may be those of numpy or of any library that follows the array API standard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse

from kernlet._typing import Array, Floats, Indices
from kernlet.affine import ColumnRanges, are_far_apart, are_unlike
from kernlet.compact.scoring import Validation
from kernlet.devices import NUMPY, Device, array_namespace, to_numpy
from kernlet.expansion import KernelExpansion
from kernlet.kernels.gram import as_dense, canonical_csr, dense_centers, row_slices
from kernlet.kernels.rbf import augment_centers, augment_rows, gaussian_matmul, row_products
from kernlet.quantization import (
    FORMATS,
    PackedArray,
    QuantizedExpansion,
    as_numbers,
    encode,
    encode_columns,
)
from kernlet.rows.source import RowReader

Arrays = dict[str, Array]

# -- Losses ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossEntropy:
    """-sum_c t_c log p_c with p the softmax of the outputs (with one output, of (0, f)).

    ``smoothing`` is the share of the uniform distribution in the targets t, which add up to 1.
    """

    smoothing: float = 0.1

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = (1 - self.smoothing) * np.eye(n_classes) + self.smoothing / n_classes
        return table if n_classes > 2 else table[:, 1:]

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Values log sum exp(f) - t.f, with gradient p - t."""
        xp = array_namespace(outputs)
        if outputs.shape[-1] == 1:
            # log(1 + exp(f)) and the sigmoid by exp(-|f|), which cannot overflow
            small = xp.exp(-xp.abs(outputs))
            positive = xp.where(outputs > 0, outputs, xp.zeros_like(outputs))
            values = positive + xp.log1p(small) - targets * outputs
            probability = xp.where(outputs > 0, 1 / (1 + small), small / (1 + small))
            return values[..., 0], probability - targets
        logits = outputs - xp.max(outputs, axis=-1, keepdims=True)
        powers = xp.exp(logits)
        sums = xp.sum(powers, axis=-1, keepdims=True)
        values = xp.log(sums[..., 0]) - xp.sum(targets * logits, axis=-1)
        return values, powers / sums - targets


@dataclass(frozen=True)
class SquaredHingeLoss:
    """The sum over outputs of max(0, 1 - t_c f_c)^2 / 2, the targets being signs."""

    def target_table(self, n_classes: int) -> Floats:
        """The targets of each class, of shape (n_classes, n_outputs)."""
        table = 2.0 * np.eye(n_classes) - 1.0
        return table if n_classes > 2 else table[:, 1:]

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs."""
        xp = array_namespace(outputs)
        errors = 1 - targets * outputs
        errors = xp.where(errors > 0, errors, xp.zeros_like(errors))
        return xp.sum(errors * errors, axis=-1) / 2, -targets * errors


@dataclass(frozen=True)
class SquaredError:
    """The sum over outputs of (f_c - t_c)^2 / 2."""

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs."""
        errors = outputs - targets
        return array_namespace(outputs).sum(errors * errors, axis=-1) / 2, errors


@dataclass(frozen=True)
class Huber:
    """The squared error up to ``delta``, linear beyond, in the units of the targets."""

    delta: float = 1.0

    def value_and_grad(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """The loss of each row and its gradient by the outputs."""
        xp = array_namespace(outputs)
        errors = outputs - targets
        grad = xp.clip(errors, -self.delta, self.delta)
        return xp.sum(grad * (errors - grad / 2), axis=-1), grad


#: A loss of outputs f and targets t, both of shape (..., n_rows, n_outputs).
Loss = CrossEntropy | SquaredHingeLoss | SquaredError | Huber


# -- Rounding --------------------------------------------------------------------------------


def quantize(values: Array, log_step: Array, n_levels: int) -> Array:
    """The nearest multiples of a step, of shape (..., 1, 1), from -n_levels to n_levels of them."""
    xp = array_namespace(values)
    step = xp.exp(log_step)
    return xp.clip(xp.round(values / step), -float(n_levels), float(n_levels)) * step


def straight_through_grad(
    grad: Array, values: Array, log_step: Array, n_levels: int
) -> tuple[Array, Array]:
    """Gradients by values and log step, from the gradient by the quantized values.

    Straight-through estimator: d quantize / d value is 1 inside the range and 0 beyond it. With
    learned steps (LSQ), d quantize / d step is round(v / s) - v / s inside, +-n_levels beyond.
    """
    xp = array_namespace(values)
    step = xp.exp(log_step)
    multiples = values / step
    codes = xp.clip(xp.round(multiples), -float(n_levels), float(n_levels))
    inside = xp.astype(xp.abs(multiples) <= n_levels, values.dtype)
    grad_step = xp.sum(grad * (codes - inside * multiples), axis=(-2, -1), keepdims=True)
    return grad * inside, grad_step * step


# -- The network -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RBFNetwork:
    """The parameters of f_c(x) = sum_j weights[c, j] exp(-gamma_j |P x - z_j|^2) + intercept[c].

    ``log_gamma`` has shape (1,) or (n_centers,), ``projection`` (rank, n_features) or is None. All
    may have the same leading dimensions, of several networks that are computed at once.
    """

    centers: Array
    weights: Array
    intercept: Array
    log_gamma: Array
    projection: Array | None = None

    @classmethod
    def from_expansion(
        cls, expansion: KernelExpansion, shift: float = 0.0, scale: float = 1.0
    ) -> RBFNetwork:
        """The network of an rbf expansion, for inputs (x - shift) / scale.

        A quantized expansion carries its own shift and scale.
        """
        coef, intercept = expansion.coef, expansion.intercept
        if isinstance(expansion, QuantizedExpansion):
            assert expansion.input_map is not None
            log_gamma, projection = np.log(expansion.gamma), expansion.input_map.matrix
            return cls(expansion.centers, coef, intercept, log_gamma, projection)
        gamma = expansion.kernel.gamma * scale**2  # type: ignore[attr-defined]
        centers = (dense_centers(expansion.centers) - shift) / scale
        return cls(centers, coef, intercept, np.log(np.array([gamma])))

    def arrays(self) -> Arrays:
        """The parameters by name, without a missing projection."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    def map(self, function: Callable[[Array], Array]) -> RBFNetwork:
        """The network with a function applied to each parameter, such as a move to a device."""
        return RBFNetwork(**{name: function(array) for name, array in self.arrays().items()})

    def outputs(self, X: Array) -> Array:
        """Outputs of shape (..., n_rows, n_outputs)."""
        return self._outputs(gaussian_matmul(*self._augmented(X)))

    def _outputs(self, K: Array) -> Array:
        return K @ self.weights.mT + self.intercept[..., None, :]

    # The exponents of a batch are one matrix product, and so is their gradient:
    #   -gamma_j |u - z_j|^2 = a.c_j with a   = (u, |u|^2, 1)
    #                               and   c_j = (2 gamma_j z_j, -gamma_j, -gamma_j |z_j|^2).
    # With K_ij = exp(a_i.c_j) and E = K * (dL/df @ weights), the gradient by all c_j is E.T @ a,
    # and the chain rule from c_j to centers and widths touches arrays of n_centers rows only.
    # Beside the products a batch is traversed twice: for the exponential and for E.

    def value_and_grad(
        self, loss: Loss, X: Array, targets: Array, row_weights: Array
    ) -> tuple[Array, Arrays]:
        """The weighted mean loss of a batch, and its gradient by each parameter.

        ``row_weights`` have mean 1 over all rows, so that a batch of heavy rows counts for more.
        Time is about 4 n_rows n_centers rank, plus 4 n_rows rank n_features with a projection.
        """
        xp = array_namespace(X)
        rows, centers = self._augmented(X)
        K = gaussian_matmul(rows, centers)
        losses, grad_outputs = loss.value_and_grad(self._outputs(K), targets)
        shares = row_weights / X.shape[-2]
        grad_outputs = grad_outputs * shares[..., None]
        grad = {"weights": grad_outputs.mT @ K, "intercept": xp.sum(grad_outputs, axis=-2)}
        K *= grad_outputs @ self.weights  # now the gradient by the exponents
        grad["centers"], grad["log_gamma"] = self._grad_centers(K.mT @ rows)
        if self.projection is not None:
            grad_rows = K @ centers
            grad_projected = grad_rows[..., :-2] + 2 * grad_rows[..., -2:-1] * rows[..., :-2]
            grad["projection"] = grad_projected.mT @ X
        return xp.sum(shares * losses, axis=-1), grad

    def _augmented(self, X: Array) -> tuple[Array, Array]:
        """The vectors a of rows and c of centers."""
        U = X if self.projection is None else X @ self.projection.mT
        gamma = array_namespace(X).exp(self.log_gamma)
        return augment_rows(U), augment_centers(self.centers, gamma)

    def _grad_centers(self, grad_augmented: Array) -> tuple[Array, Array]:
        """Gradients by centers and log gamma, from the gradient by the augmented centers."""
        xp = array_namespace(grad_augmented)
        Z, gamma = self.centers, xp.exp(self.log_gamma)
        products, norms, squares = (grad_augmented[..., part] for part in (slice(0, -2), -2, -1))
        grad_centers = products - squares[..., None] * Z
        grad_centers *= 2 * gamma[..., None]
        grad_gamma = 2 * row_products(Z, products) - norms
        grad_gamma = grad_gamma - squares * row_products(Z, Z)
        if gamma.shape[-1] == 1:
            grad_gamma = xp.sum(grad_gamma, axis=-1, keepdims=True)
        return grad_centers, gamma * grad_gamma


# -- Storage ---------------------------------------------------------------------------------

#: Formats of centers, coefficients and projection for each value of ``storage``.
STORAGE = {name: (name, name, name) for name in ("float32", "float16", "int8", "int4")}
#: Parameters that are stored as packed tables, in the order of the formats.
PACKED = ("centers", "weights", "projection")
# Formats with fewer levels than int8 are rounded during training: to 127 levels on either side of
# zero, rounding afterwards costs no accuracy.
_LEVELS_ROUNDED_AFTERWARDS = 127
_SHIFT_AND_SCALE_BYTES = 8  # of all inputs together
_LARGEST_LOG_GAMMA = 80.0  # exp(80) is about the largest number of float32


@dataclass(frozen=True)
class StoragePlan:
    """Sizes and formats of the tables of a compact machine.

    ``rank`` is that of the projection, None without one; ``formats`` are those of centers,
    coefficients and projection. An intercept takes 4 bytes, or 8 in regression, where targets may
    lie far from zero; ``scaling_bytes`` are those of shift and scale.
    """

    n_features: int
    n_outputs: int
    n_centers: int
    rank: int | None = None
    formats: tuple[str, str, str] = STORAGE["float32"]
    width: str = "shared"
    intercept_bytes: int = 4
    scaling_bytes: int = _SHIFT_AND_SCALE_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        centers, coef, projection = (FORMATS[name] for name in self.formats)
        rank = self.n_features if self.rank is None else self.rank
        tables = centers.n_bytes(self.n_centers * rank)
        tables += coef.n_bytes(self.n_centers * self.n_outputs)
        if self.rank is not None:
            tables += projection.n_bytes(self.rank * self.n_features)
        widths = 4 * self.n_centers if self.width == "per_center" else 4
        return tables + widths + self.intercept_bytes * self.n_outputs + self.scaling_bytes

    @property
    def levels(self) -> dict[str, int]:
        """The parameters that are rounded during training, with their levels on either side."""
        names = PACKED[: 2 if self.rank is None else 3]
        levels = {name: FORMATS[f].n_levels for name, f in zip(names, self.formats, strict=False)}
        return {name: n for name, n in levels.items() if n and n < _LEVELS_ROUNDED_AFTERWARDS}

    def describe(self) -> str:
        """The plan in one line."""
        centers, coef, projection = self.formats
        input_map = f"projection to {self.rank} ({projection})" if self.rank else "no projection"
        if self.scaling_bytes > _SHIFT_AND_SCALE_BYTES:
            input_map += ", standardised columns"
        return f"{self.n_centers} centers ({centers}), coefficients ({coef}), {input_map}"

    def pack(
        self, arrays: Mapping[str, Array], steps: Mapping[str, float], shift: Any, scale: Any
    ) -> QuantizedExpansion:
        """Store the parameters of a network; ``steps`` are the rounding steps it has learned."""
        arrays = {name: to_numpy(array) for name, array in arrays.items()}
        tables = {
            name: encode(arrays[name], FORMATS[format], steps.get(name))
            for name, format in zip(PACKED, self.formats, strict=True)
            if name in arrays
        }
        log_gamma = np.clip(arrays["log_gamma"], -_LARGEST_LOG_GAMMA, _LARGEST_LOG_GAMMA)
        return QuantizedExpansion(
            np.exp(log_gamma),
            tables["centers"],
            tables["weights"],
            arrays["intercept"].astype(f"float{8 * self.intercept_bytes}"),
            shift,
            scale,
            tables.get("projection"),
        )


# -- Rows ------------------------------------------------------------------------------------

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
