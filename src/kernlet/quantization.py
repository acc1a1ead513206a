"""Arrays in few bits, and the expansion that evaluates exactly what they store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernlet._typing import Floats
from kernlet.affine import AffineMap
from kernlet.expansion import KernelExpansion
from kernlet.kernels.rbf import RBF

Bytes = NDArray[np.uint8]
_STEP_BYTES = 4  # the step of a packed array is a float32
_TRITS = 5  # ternary codes per byte: 3^5 = 243 of 256 values are used
_TRIT_VALUES = 3 ** np.arange(_TRITS)
# Larger numbers of a float16 array are divided by its step; half of what float16 holds, so that
# rounding up cannot overflow.
_LARGEST_FLOAT16 = 2.0**15
_LARGEST_FLOAT32, _LEAST_STEP = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
_SAMPLE = 100_000  # numbers from which the best step of a large array is chosen
_SCALAR_BYTES = 4  # a shift or a scale of all inputs is a float32
# Errors of a shift, in deviations, and of a scale, as a share, that float16 may have. Training uses
# the rounded numbers, so that columns need to be standardised about, not exactly.
_SHIFT_ERROR, _SCALE_ERROR = 0.25, 1e-3


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
    bits = np.unpackbits(codes[:, None], axis=1, count=int(format.bits), bitorder="little")
    return np.packbits(bits, bitorder="little")


def _unpack(data: Bytes, format: Format, count: int) -> Bytes:
    if format.name == "ternary":
        digits = data[:, None] // _TRIT_VALUES % 3
        return digits.astype(np.uint8).ravel()[:count]
    width = int(format.bits)
    bits = np.unpackbits(data, count=count * width, bitorder="little").reshape(count, width)
    return np.packbits(bits, axis=1, bitorder="little")[:, 0]


class QuantizedExpansion(KernelExpansion):
    """A Gaussian :class:`KernelExpansion` stored in packed arrays.

    f_c(x) = sum_j coef[c, j] exp(-gamma_j |P (x - shift) / scale - centers[j]|^2) + intercept[c].

    ``centers``, ``coef`` and ``input_map`` are the packed numbers decoded to float32: what is
    evaluated is what is stored. ``nbytes`` counts everything stored: packed arrays with their
    steps, intercepts, widths, shifts and scales. A pickle holds these alone.

    Parameters
    ----------
    gamma : ndarray of shape (1,) or (n_centers,)
        One width, or one per center; rounded to float32.
    centers : PackedArray of shape (n_centers, rank)
    coef : PackedArray of shape (n_outputs, n_centers)
    intercept : ndarray of shape (n_outputs,)
        float64 stays float64, anything else is rounded to float32.
    shift, scale : float or PackedArray of shape (n_features,)
        Of all inputs, x -> (x - shift) / scale, rounded to float32; or of each feature.
    projection : PackedArray of shape (rank, n_features), default=None

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
        coef: PackedArray,
        intercept: Any,
        shift: float | PackedArray = 0.0,
        scale: float | PackedArray = 1.0,
        projection: PackedArray | None = None,
    ) -> None:
        widths: Floats = np.atleast_1d(np.asarray(gamma, dtype=np.float32))
        if widths.shape not in {(1,), centers.shape[:1]} - {(0,)}:
            raise ValueError(
                f"gamma has shape {widths.shape}; give one width, or one for each of the "
                f"{centers.shape[0]} centers."
            )
        if not (np.isfinite(widths) & (widths > 0)).all():
            raise ValueError("gamma must be positive and finite.")
        kernel = RBF(float(widths[0]) if len(widths) == 1 else widths)
        packed = {"centers": centers, "coef": coef, "projection": projection}
        object.__setattr__(self, "packed", packed)
        object.__setattr__(self, "gamma", widths)
        for name, value in (("shift", shift), ("scale", scale)):
            numbers = np.abs(as_numbers(value))
            is_held = (numbers <= _LARGEST_FLOAT32) & ((numbers >= _LEAST_STEP) | (name == "shift"))
            if not np.all(is_held):
                raise ValueError(
                    f"The {name} of the features does not fit in float32: change their unit."
                )
            object.__setattr__(self, name, _as_stored(value))
        input_map = AffineMap(
            np.atleast_1d(np.asarray(as_numbers(shift), dtype=np.float32)),
            1 / np.atleast_1d(np.asarray(as_numbers(scale), dtype=np.float32)),
            None if projection is None else projection.decoded(),
        )
        intercept = np.asarray(intercept)
        if intercept.dtype != np.float64:
            intercept = intercept.astype(np.float32)
        super().__init__(kernel, centers.decoded(), coef.decoded(), intercept, input_map)

    packed: dict[str, Any]
    gamma: Floats
    shift: float | PackedArray
    scale: float | PackedArray

    @property
    def storage(self) -> dict[str, str]:
        """The format of each packed array."""
        return {name: a.format.name for name, a in self.packed.items() if a is not None}

    @property
    def rank(self) -> int:
        """Numbers per center."""
        return int(self.centers.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored."""
        packed = sum(array.nbytes for array in self.packed.values() if array is not None)
        scaling = scaling_bytes(self.shift, self.scale)
        return packed + self.gamma.nbytes + self.intercept.nbytes + scaling

    def __reduce__(self) -> Any:
        centers, coef, projection = (self.packed[n] for n in ("centers", "coef", "projection"))
        shift, scale = self.shift, self.scale
        return type(self), (self.gamma, centers, coef, self.intercept, shift, scale, projection)


def as_numbers(value: float | PackedArray) -> Any:
    """A shift or a scale: one number as it is, or those of the features in float32."""
    return value.decoded() if isinstance(value, PackedArray) else value


def _as_stored(value: float | PackedArray) -> float | PackedArray:
    return value if isinstance(value, PackedArray) else float(np.float32(value))


def scaling_bytes(shift: float | PackedArray, scale: float | PackedArray) -> int:
    """Bytes of a shift and a scale, of all inputs or of each feature."""
    return sum(v.nbytes if isinstance(v, PackedArray) else _SCALAR_BYTES for v in (shift, scale))
