"""Arrays in few bits, and the expansion that evaluates exactly what they store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernlet._typing import Floats
from kernlet.affine import AffineMap, CurvedMap, StepMap
from kernlet.expansion import KernelExpansion
from kernlet.kernels.base import Kernel
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF

if TYPE_CHECKING:
    from kernlet.integer.machine import IntegerMachine

Bytes = NDArray[np.uint8]
_STEP_BYTES = 4  # the step of a packed array is a float32
_TRITS = 5  # ternary codes per byte: 3^5 = 243 of 256 values are used
_TRIT_VALUES = 3 ** np.arange(_TRITS)
# Larger numbers of a float16 array are divided by its step; half of what float16 holds, so that
# rounding up cannot overflow.
_LARGEST_FLOAT16 = 2.0**15
_LARGEST_FLOAT32, _LEAST_STEP = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
_SAMPLE = 100_000  # numbers from which the best step of a large array is chosen
#: Features whose number fits in the two bytes of a step.
MOST_STEP_FEATURES = 2**16
_SCALAR_BYTES = 4  # a shift or a scale of all inputs is a float32
# Errors of a shift, in deviations, and of a scale, as a share, that float16 may have. Training uses
# the rounded numbers, so that columns need to be standardised about, not exactly.
_SHIFT_ERROR, _SCALE_ERROR = 0.25, 1e-3
#: The largest step of ``log_weights``: weights are from 1e-30 to 1e30.
LARGEST_LOG_WEIGHT = 69.0


@dataclass(frozen=True)
class Format:
    """How the numbers of an array are stored."""

    name: str
    n_levels: int | None  # codes are integers from -n_levels to n_levels; None: floating point
    bits: float  # per number

    def n_bytes(self, n_numbers: int) -> int:
        """Bytes of an array of this size, with its step."""
        if self.name == "ternary":
            return -(-n_numbers // _TRITS) + _STEP_BYTES
        return math.ceil(n_numbers * self.bits / 8) + (_STEP_BYTES if self.has_step else 0)

    @property
    def has_step(self) -> bool:
        """Whether the stored numbers are multiplied by a step."""
        return self.name != "float32"


FORMATS = {
    format.name: format
    for format in (
        Format("float32", None, 32),
        Format("float16", None, 16),
        Format("int8", 127, 8),
        Format("int6", 31, 6),
        Format("int4", 7, 4),
        Format("ternary", 1, 8 / _TRITS),
    )
}


@dataclass(frozen=True, eq=False)
class PackedArray:
    """An array in few bits: codes times a step.

    Numbers of all formats but float32 are codes times a step, in float32. A code of float16 is a
    float16 number; other codes are integers from -n_levels to n_levels. These are stored as
    code + n_levels, in row-major order, the first one in the lowest bits of the first byte;
    five ternary codes share a byte as digits of a number in base 3, the first one lowest.

    Parameters
    ----------
    format : Format
    shape : tuple of int
    data : ndarray
        Bytes, or numbers of a floating-point format.
    step : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.quantization import FORMATS, encode
    >>> packed = encode(np.array([[0.5, -1.0, 0.1]]), FORMATS["int4"], step=0.25)
    >>> packed.data, packed.nbytes, packed.decoded()
    (array([57,  7], dtype=uint8), 6, array([[ 0.5, -1. ,  0. ]], dtype=float32))
    """

    format: Format
    shape: tuple[int, ...]
    data: Any
    step: float = 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of the step."""
        return int(self.data.nbytes) + (_STEP_BYTES if self.format.has_step else 0)

    def codes(self) -> NDArray[np.int8]:
        """The integers that the step multiplies."""
        if self.format.n_levels is None:
            raise ValueError(f"A {self.format.name} array has no codes.")
        count = math.prod(self.shape)
        unpacked = _unpack(self.data, self.format, count).astype(np.int16)
        return (unpacked - self.format.n_levels).astype(np.int8).reshape(self.shape)

    def decoded(self) -> Floats:
        """The numbers, in float32."""
        is_float = self.format.n_levels is None
        codes = self.data.reshape(self.shape) if is_float else self.codes()
        return codes.astype(np.float32) * np.float32(self.step)


def encode(values: Any, format: Format, step: float | None = None) -> PackedArray:
    """Pack an array; without a step, with the one of least squared error for these values."""
    values = np.asarray(values)
    if not np.isfinite(values).all():
        raise ValueError("A packed array cannot hold NaN or infinity; the training has failed.")
    if step is not None and not step > 0:
        raise ValueError(f"The step of a packed array must be positive, not {step}.")
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST_FLOAT32:
        raise ValueError(f"The machine has numbers of {largest:g}: scale the data.")
    if step is not None:  # 0 in float32 would divide by zero
        step = min(max(step, _LEAST_STEP), _LARGEST_FLOAT32)
    if format.n_levels is None:
        if format.has_step and step is None:
            step = max(1.0, largest / _LARGEST_FLOAT16)
        step = float(np.float32(step or 1.0))
        if largest / step > float(np.finfo(format.name).max):
            raise ValueError(f"The machine has numbers of {largest:g}: scale the data.")
        return PackedArray(format, values.shape, (values / step).astype(format.name), step)
    step = best_step(values, format.n_levels) if step is None else step
    step = float(np.float32(max(step, _LEAST_STEP)))
    codes = np.clip(np.rint(values / np.float32(step)), -format.n_levels, format.n_levels)
    packed = _pack((codes + format.n_levels).astype(np.uint8).ravel(), format)
    return PackedArray(format, values.shape, packed, step)


def encode_columns(
    shift: Floats, scale: Floats, formats: Sequence[Format | None] = (None, None)
) -> tuple[PackedArray, PackedArray]:
    """Shifts and scales of columns in float16 where that is exact enough, else in float32.

    Or in the given ``formats``.
    """
    errors = (_SHIFT_ERROR * scale, _SCALE_ERROR * scale)
    packed = []
    for values, error, format in zip((shift, scale), errors, formats, strict=True):
        # The step is a power of 2, so that numbers which float16 holds exactly stay exact.
        largest = float(np.abs(values).max())
        step = 2.0 ** math.ceil(math.log2(largest / _LARGEST_FLOAT16)) if largest else 1.0
        half = encode(values, FORMATS["float16"], step)
        is_enough = bool((np.abs(half.decoded() - values) <= error).all())
        is_enough = is_enough if format is None else format == half.format
        packed.append(half if is_enough else encode(values, FORMATS["float32"]))
    return packed[0], packed[1]


def best_step(values: Any, n_levels: int) -> float:
    """The step of least squared rounding error, among forty fractions of the largest value."""
    values = np.asarray(values, dtype=np.float32).ravel()
    largest = float(np.abs(values).max(initial=0.0)) / n_levels
    if not largest:
        return 1.0
    sample = values
    if len(values) > _SAMPLE:
        sample = np.random.RandomState(0).choice(values, _SAMPLE, replace=False)
    # A smaller step rounds most numbers better and clips the largest ones. With few levels it pays
    # to clip many; with 127 of them, never more than half of the range.
    steps = largest * np.linspace(1.0, 0.05 if n_levels < 100 else 0.5, 40)
    errors = [
        np.sum((np.clip(np.rint(sample / step), -n_levels, n_levels) * step - sample) ** 2)
        for step in steps
    ]
    return float(steps[int(np.argmin(errors))])


def _pack(codes: Bytes, format: Format) -> Bytes:
    if format.name == "ternary":
        padded = np.zeros(-(-len(codes) // _TRITS) * _TRITS, np.uint8)
        padded[: len(codes)] = codes
        return (padded.reshape(-1, _TRITS) @ _TRIT_VALUES).astype(np.uint8)
    return _pack_bits(codes, int(format.bits))


def _unpack(data: Bytes, format: Format, count: int) -> Bytes:
    if format.name == "ternary":
        digits = data[:, None] // _TRIT_VALUES % 3
        return digits.astype(np.uint8).ravel()[:count]
    return _unpack_bits(data, int(format.bits), count).astype(np.uint8)


def _pack_bits(numbers: Any, width: int) -> Bytes:
    """Numbers from 0 to 2^width - 1, the first one in the lowest bits of the first byte."""
    bits = (numbers[:, None] >> np.arange(width)) & 1
    return np.packbits(bits.astype(np.uint8), bitorder="little")


def _unpack_bits(data: Bytes, width: int, count: int) -> NDArray[np.int64]:
    bits = np.unpackbits(data, count=count * width, bitorder="little").reshape(count, width)
    return bits.astype(np.int64) @ (1 << np.arange(width))


# -- Coefficients of few outputs per center --------------------------------------------------


@dataclass(frozen=True, eq=False)
class SparsePackedArray:
    """Coefficients of which each center has only a few: their numbers, and to which outputs.

    Parameters
    ----------
    values : PackedArray of shape (n_centers, n_entries)
    data : ndarray of uint8
        Numbers of the outputs, in ``index_bits(n_outputs)`` bits each, the first one in the lowest
        bits of the first byte.
    n_outputs : int

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.quantization import FORMATS, encode_sparse
    >>> coef = np.array([[7.0, 0.0], [0.0, -3.0], [0.0, 0.0]])
    >>> packed = encode_sparse(coef, 1, FORMATS["int4"], step=1.0)
    >>> packed.decoded(), packed.nbytes  # 1 byte of codes, 1 of outputs and a step
    (array([[ 7.,  0.],
           [ 0., -3.],
           [ 0.,  0.]], dtype=float32), 6)
    """

    values: PackedArray
    data: Bytes
    n_outputs: int

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and centers."""
        return self.n_outputs, self.values.shape[0]

    @property
    def n_entries(self) -> int:
        """Coefficients of a center."""
        return self.values.shape[1]

    @property
    def format(self) -> Format:
        """The format of the coefficients."""
        return self.values.format

    @property
    def step(self) -> Any:
        """The step of the coefficients."""
        return self.values.step

    @property
    def nbytes(self) -> int:
        """Bytes of coefficients, their step and the numbers of outputs."""
        return self.values.nbytes + int(self.data.nbytes)

    def outputs(self) -> NDArray[np.int64]:
        """The output of each coefficient, of shape (n_centers, n_entries)."""
        count = math.prod(self.values.shape)
        numbers = _unpack_bits(self.data, index_bits(self.n_outputs), count)
        return numbers.reshape(self.values.shape)

    def decoded(self) -> Floats:
        """All coefficients, of shape (n_outputs, n_centers), in float32."""
        dense = np.zeros(self.shape[::-1], dtype=np.float32)
        np.put_along_axis(dense, self.outputs(), self.values.decoded(), axis=1)
        return np.ascontiguousarray(dense.T)


def index_bits(n_outputs: int) -> int:
    """Bits of the number of an output."""
    return max(1, (n_outputs - 1).bit_length())


def encode_sparse(
    coef: Floats, n_entries: int, format: Format, step: float | None = None
) -> SparsePackedArray:
    """Pack the largest coefficients of each center, of shape (n_outputs, n_centers)."""
    coef = np.asarray(coef)
    order = np.argsort(-np.abs(coef.T), axis=1, kind="stable")[:, :n_entries]
    outputs = np.sort(order, axis=1)
    values = encode(np.take_along_axis(coef.T, outputs, axis=1), format, step)
    n_outputs = len(coef)
    return SparsePackedArray(values, _pack_bits(outputs.ravel(), index_bits(n_outputs)), n_outputs)


def sparse_bytes(n_centers: int, n_outputs: int, n_entries: int, format: Format) -> int:
    """Bytes of coefficients of which each center has a few."""
    n_numbers = n_centers * n_entries
    return format.n_bytes(n_numbers) + -(-n_numbers * index_bits(n_outputs) // 8)


# -- Step maps -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PackedSteps:
    """A :class:`kernlet.affine.StepMap` in few bytes.

    Parameters
    ----------
    features : ndarray of uint8 or, of more than 256 features, uint16
    thresholds : ndarray of float16 or float32
        Of the scaled features.
    jumps : PackedArray of shape (n_steps,)
    """

    features: NDArray[Any]
    thresholds: NDArray[Any]
    jumps: PackedArray

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        return int(self.features.nbytes) + int(self.thresholds.nbytes) + self.jumps.nbytes

    def decoded(self) -> StepMap:
        """The map that is evaluated."""
        thresholds = self.thresholds.astype(np.float32)
        return StepMap(self.features.astype(np.intp), thresholds, self.jumps.decoded())


def encode_steps(features: Any, thresholds: Any, jumps: Any, n_features: int) -> PackedSteps:
    """Pack a step map; thresholds stay float16 or become float32, jumps have eight bits."""
    numbers = np.asarray(features).astype(np.uint8 if n_features <= 256 else np.uint16)
    thresholds = np.asarray(thresholds)
    if thresholds.dtype != np.float16:
        thresholds = thresholds.astype(np.float32)
    return PackedSteps(numbers, thresholds, encode(jumps, FORMATS["int8"]))


def steps_bytes(n_steps: int, n_features: int, threshold_bytes: int = 2) -> int:
    """Bytes of a step map; 0 without a step."""
    if not n_steps:
        return 0
    place = (1 if n_features <= 256 else 2) + threshold_bytes
    return n_steps * place + FORMATS["int8"].n_bytes(n_steps)


# -- The expansion ---------------------------------------------------------------------------


def block_means(n_means: int, block: int) -> Floats:
    """The matrix (n_means, n_pixels) that averages blocks of the pixels of a square image."""
    side = math.isqrt(n_means)
    if side * side != n_means:
        raise ValueError(f"{n_means} means of blocks are not those of a square image.")
    rows = np.kron(np.eye(side), np.full((1, block), 1 / block))
    return np.kron(rows, rows).astype(np.float32)


class QuantizedExpansion(KernelExpansion):
    """A :class:`KernelExpansion` stored in packed arrays.

    ``f_c(x) = sum_j coef[c, j] k(P h((x - shift) / scale), centers[j]) + intercept[c]``, where k is
    the Gaussian or the rational quadratic kernel, P a projection, and h an asinh, a step map, both
    or neither. With ``log_weights``, ``k(u, z_j) = exp(-gamma_j sum_c w_jc (u_c - z_jc)^2)`` and
    ``w_jc = exp(log_weights[j, c])``: a Gaussian with a diagonal covariance matrix for each center.

    ``kernel``, ``centers``, ``coef`` and ``input_map`` are the packed numbers decoded to float32:
    what is evaluated is what is stored. ``nbytes`` counts everything stored: packed arrays with
    their steps, intercepts, widths, shifts and scales. A pickle holds these alone.

    Parameters
    ----------
    gamma : float, ndarray of shape (1,) or (n_centers,), or PackedArray of shape (n_centers,)
        One width, or one per center, rounded to float32; or the packed logarithms of the widths of
        the centers.
    centers : PackedArray of shape (n_centers, rank)
        The centers, behind shift, scale, step map and projection.
    coef : PackedArray or SparsePackedArray of shape (n_outputs, n_centers)
        Coefficients of the centers in each output.
    intercept : ndarray of shape (n_outputs,)
        float64 and float16 stay so, anything else is rounded to float32.
    shift, scale : float or PackedArray of shape (n_features,)
        Of all inputs, x -> (x - shift) / scale, rounded to float32; or of each feature.
    projection : PackedArray of shape (rank, n_features), default=None
        The matrix P; None for the identity.
    alpha : float, default=None
        Makes the kernel the rational quadratic one, rounded to float32.
    log_weights : PackedArray of shape (n_centers, rank), default=None
        Ternary: the weights are exp(-step), 1 and exp(step). A step that is a multiple of log(2)
        makes them powers of 2, which integer arithmetic needs.
    steps : PackedSteps, default=None
        Thresholds and jumps of the step map.
    is_asinh : bool, default=False
        Whether asinh is applied to the scaled features.
    block : int, default=1
        For square images: features are means of block x block pixels.
    fill : PackedArray of shape (n_features,), default=None
        What replaces missing features (NaN), such as medians.
    skips_missing : bool, default=False
        Whether missing features are left out of distances, see :class:`KernelExpansion`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet import QuantizedExpansion
    >>> from kernlet.quantization import FORMATS, encode
    >>> centers = encode(np.array([[0.0, 1.0], [2.0, 0.0]]), FORMATS["int4"])
    >>> coef = encode(np.array([[1.0, -1.0]]), FORMATS["int4"])
    >>> f = QuantizedExpansion(np.array([0.5]), centers, coef, np.zeros(1, np.float32))
    >>> f.nbytes  # 2 + 1 bytes of codes, 2 steps, 1 width, 1 intercept, shift and scale
    27
    """

    def __init__(
        self,
        gamma: Any,
        centers: PackedArray,
        coef: PackedArray | SparsePackedArray,
        intercept: Any,
        shift: float | PackedArray = 0.0,
        scale: float | PackedArray = 1.0,
        projection: PackedArray | None = None,
        *,
        alpha: float | None = None,
        log_weights: PackedArray | None = None,
        steps: PackedSteps | None = None,
        is_asinh: bool = False,
        block: int = 1,
        fill: PackedArray | None = None,
        skips_missing: bool = False,
    ) -> None:
        packed: dict[str, Any] = {"centers": centers, "coef": coef, "projection": projection}
        if isinstance(gamma, PackedArray):
            packed["log_gamma"] = gamma
        if log_weights is not None:
            _require_log_weights(log_weights, centers.shape, alpha, skips_missing)
            packed["log_weights"] = log_weights
        widths = _widths(gamma, centers.shape[0])
        values: dict[str, Any] = {"steps": steps, "fill": fill}
        values["alpha"] = None if alpha is None else float(np.float32(alpha))
        values |= {"packed": packed, "gamma": widths, "is_asinh": is_asinh, "block": block}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name, given in (("shift", shift), ("scale", scale)):
            numbers = np.abs(as_numbers(given))
            is_held = (numbers <= _LARGEST_FLOAT32) & ((numbers >= _LEAST_STEP) | (name == "shift"))
            if not np.all(is_held):
                raise ValueError(
                    f"The {name} of the features does not fit in float32: change their unit."
                )
            object.__setattr__(self, name, _as_stored(given))
        intercept = np.asarray(intercept)
        if intercept.dtype not in (np.float64, np.float16):
            intercept = intercept.astype(np.float32)
        kernel = self._stored_kernel()
        input_map = self._stored_map()
        arrays = (centers.decoded(), coef.decoded(), intercept)
        super().__init__(kernel, *arrays, input_map, skips_missing)

    packed: dict[str, Any]
    gamma: Floats
    alpha: float | None
    shift: float | PackedArray
    scale: float | PackedArray
    steps: PackedSteps | None
    is_asinh: bool
    block: int
    fill: PackedArray | None

    def _stored_kernel(self) -> Kernel:
        """The kernel of the stored numbers."""
        gamma = float(self.gamma[0]) if len(self.gamma) == 1 else self.gamma
        if "log_weights" in self.packed:
            return DiagonalRBF(gamma, np.exp(self.packed["log_weights"].decoded()))
        return RBF(gamma) if self.alpha is None else RationalQuadratic(gamma, self.alpha)

    def _stored_map(self) -> AffineMap:
        """The input map of the stored numbers."""
        shift = np.atleast_1d(np.asarray(as_numbers(self.shift), dtype=np.float32))
        scale = 1 / np.atleast_1d(np.asarray(as_numbers(self.scale), dtype=np.float32))
        projection = self.packed["projection"]
        matrix = None if projection is None else projection.decoded()
        is_curved = self.is_asinh or self.steps is not None
        fill = None if self.fill is None else self.fill.decoded()
        if self.block > 1:
            if is_curved or len(shift) + len(scale) > 2:
                raise ValueError("Means of blocks have one shift and one scale, and no curve.")
            width = self.packed["centers"].shape[1] if matrix is None else matrix.shape[1]
            means = block_means(width, self.block)
            matrix = means if matrix is None else matrix @ means
        if not is_curved:
            return AffineMap(shift, scale, matrix, fill=fill)
        steps = None if self.steps is None else self.steps.decoded()
        return CurvedMap(shift, scale, matrix, self.is_asinh, steps, fill=fill)

    @property
    def storage(self) -> dict[str, str]:
        """The format of each packed array."""
        return {name: a.format.name for name, a in self.packed.items() if a is not None}

    @property
    def rank(self) -> int:
        """Numbers per center."""
        return int(self.centers.shape[1])

    @property
    def n_entries(self) -> int | None:
        """Coefficients of a center; None where it has all."""
        coef = self.packed["coef"]
        return coef.n_entries if isinstance(coef, SparsePackedArray) else None

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        packed = sum(array.nbytes for array in self.packed.values() if array is not None)
        widths = 0 if "log_gamma" in self.packed else self.gamma.nbytes
        widths += 0 if self.alpha is None else _SCALAR_BYTES
        steps = 0 if self.steps is None else self.steps.nbytes
        scaling = scaling_bytes(self.shift, self.scale)
        fill = 0 if self.fill is None else self.fill.nbytes
        return packed + widths + self.intercept.nbytes + scaling + steps + fill

    def replaced(self, **changes: Any) -> QuantizedExpansion:
        """The expansion with other arguments of the constructor."""
        return QuantizedExpansion(**(self._arguments() | changes))

    def integer_machine(self, rows: Any, n_sums: int = 1) -> IntegerMachine:
        """The machine in integers alone; ``rows`` of features set the ranges of its inputs.

        The sum of ``n_sums`` scores fits in 32 bits.
        """
        from kernlet.integer.build import Parts, build  # not needed to serve predictions

        packed, coef = self.packed, self.packed["coef"]
        is_sparse, centers = isinstance(coef, SparsePackedArray), packed["centers"]
        kernel, factor = self.kernel.scaled(centers.step)
        projection, log_widths = packed["projection"], packed.get("log_gamma")
        log_weights = packed.get("log_weights")
        parts = Parts(
            n_features=self.n_features,
            kernel=kernel,
            centers=centers.codes().astype(np.int64),
            center_levels=centers.format.n_levels,
            coef=(coef.values.codes() if is_sparse else coef.codes().T).astype(np.int64),
            outputs=coef.outputs() if is_sparse else None,
            coef_step=coef.step * factor,
            intercept=self.intercept,
            shift=np.atleast_1d(as_numbers(self.shift)).astype(np.float64),
            scale=1 / np.atleast_1d(as_numbers(self.scale)).astype(np.float64),
            is_asinh=self.is_asinh,
            steps=None if self.steps is None else self.steps.decoded(),
            projection=None if projection is None else projection.codes(),
            projection_step=1.0 if projection is None else projection.step / centers.step,
            unit=1 / centers.step,
            block=self.block,
            log_widths=None if log_widths is None else (log_widths.codes(), log_widths.step),
            fill=None if self.fill is None else self.fill.decoded().astype(np.float64),
            skips_missing=self.skips_missing,
            log_weights=None if log_weights is None else (log_weights.codes(), log_weights.step),
        )
        return build(parts, np.asarray(rows), n_sums)

    def integer_values(self, X: Any, rows: Any = None) -> NDArray[np.int64]:
        """Scores of the rows of X as code without floating point computes them, to the last bit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        rows : array-like of shape (n_rows, n_features), default=None
            Rows that set the ranges of the 16-bit inputs; those of X by default.

        Returns
        -------
        scores : ndarray of int64 of shape (n_samples, n_outputs)
            In units of ``integer_machine(rows).score_step``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernlet import QuantizedExpansion
        >>> from kernlet.quantization import FORMATS, encode
        >>> centers = encode(np.array([[0.0, 1.0], [2.0, 0.0]]), FORMATS["int4"])
        >>> coef = encode(np.array([[1.0, -1.0]]), FORMATS["int4"])
        >>> f = QuantizedExpansion(np.array([0.5]), centers, coef, np.zeros(1, np.float32))
        >>> X = np.array([[0.0, 1.0], [1.0, 0.5]])
        >>> step = f.integer_machine(X).score_step
        >>> (step * f.integer_values(X)).round(3), f.decision_values(X).round(3)
        (array([[ 0.903],
               [-0.059]]), array([[ 0.903],
               [-0.059]]))
        """
        machine = self.integer_machine(X if rows is None else rows)
        return machine.scores(machine.quantized(X))

    def _arguments(self) -> dict[str, Any]:
        packed = self.packed
        gamma = packed.get("log_gamma", self.gamma)
        tables = {name: packed.get(name) for name in _TABLES}
        names = ("intercept", "shift", "scale", *(name for name in _OPTIONS if name not in _TABLES))
        return {"gamma": gamma} | tables | {name: getattr(self, name) for name in names}

    def __reduce__(self) -> Any:
        given = self._arguments()
        first = [given.pop(name) for name in _FIRST_ARGUMENTS]
        options = {name: v for name, v in given.items() if v != _OPTIONS[name]}
        return _restored, (type(self), *first, *((options,) if options else ()))


_OPTIONS = {
    "alpha": None,
    "log_weights": None,
    "steps": None,
    "is_asinh": False,
    "block": 1,
    "fill": None,
    "skips_missing": False,
}
_TABLES = ("centers", "coef", "projection", "log_weights")
_FIRST_ARGUMENTS = ("gamma", "centers", "coef", "intercept", "shift", "scale", "projection")


def _restored(kind: Any, *arguments: Any) -> QuantizedExpansion:
    """The expansion of a pickle, whose last argument may be a dictionary of options."""
    *first, last = arguments
    return kind(*first, **last) if isinstance(last, dict) else kind(*arguments)


def _widths(gamma: Any, n_centers: int) -> Floats:
    """The widths in float32, checked."""
    packed = gamma.decoded() if isinstance(gamma, PackedArray) else None
    widths: Floats = np.exp(packed) if packed is not None else np.asarray(gamma, dtype=np.float32)
    widths = np.atleast_1d(widths)
    if widths.shape not in {(1,), (n_centers,)} - {(0,)}:
        raise ValueError(
            f"gamma has shape {widths.shape}; give one width, or one for each of the "
            f"{n_centers} centers."
        )
    if not (np.isfinite(widths) & (widths > 0)).all():
        raise ValueError("gamma must be positive and finite.")
    return widths


def _require_log_weights(
    log_weights: PackedArray, shape: tuple[int, ...], alpha: float | None, skips_missing: bool
) -> None:
    """Refuse weights of features that no reader knows."""
    if alpha is not None:
        raise ValueError("log_weights are for the Gaussian kernel: leave alpha out.")
    if skips_missing:
        raise ValueError("log_weights are for rows without missing features.")
    if log_weights.format.name != "ternary":
        raise ValueError(f"log_weights must be ternary, not {log_weights.format.name}.")
    if tuple(log_weights.shape) != tuple(shape):
        raise ValueError(
            f"log_weights have shape {tuple(log_weights.shape)}; the centers have {tuple(shape)}."
        )
    if not 0 < log_weights.step <= LARGEST_LOG_WEIGHT:
        raise ValueError(
            f"The step of log_weights must be positive and at most {LARGEST_LOG_WEIGHT:g}, not "
            f"{log_weights.step:g}."
        )


def as_numbers(value: float | PackedArray) -> Any:
    """A shift or a scale: one number as it is, or those of the features in float32."""
    return value.decoded() if isinstance(value, PackedArray) else value


def _as_stored(value: float | PackedArray) -> float | PackedArray:
    return value if isinstance(value, PackedArray) else float(np.float32(value))


def scaling_bytes(shift: float | PackedArray, scale: float | PackedArray) -> int:
    """Bytes of a shift and a scale, of all inputs or of each feature."""
    return sum(v.nbytes if isinstance(v, PackedArray) else _SCALAR_BYTES for v in (shift, scale))
