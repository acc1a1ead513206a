"""The numbers of a machine as its C code holds them, and what float arithmetic makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernlet._typing import Floats
from kernlet.affine import AffineMap, CurvedMap, StepMap
from kernlet.expansion import KernelExpansion
from kernlet.export.rounding import about, dense_points
from kernlet.kernels.base import Kernel
from kernlet.kernels.gram import dense_centers
from kernlet.model.model import Model
from kernlet.quantization import (
    FORMATS,
    PackedArray,
    PackedSteps,
    QuantizedExpansion,
    SparsePackedArray,
    block_means,
    encode,
    index_bits,
)

STORAGES = ("auto", "float32", "float16", "int8", "stored")
# A shift, in units of the scale, that is not taken into the centers: of the 24 bits of a float32
# number, the shift would leave them 21 or fewer.
_FAR_FROM_ZERO = 8.0

# The code evaluates, for a row x of features,
#
#     v = h((means(x) - shift) * scale),    means of blocks of pixels, h an asinh and steps,
#     u = projection v, or unit v without a projection,
#     f_c(x) = sum_j coef[j, c] k(u, centers[j]) + intercept[c].
#
# Every packed array is a table of codes times a step. The step of the centers would cost one
# multiplication for every number of every center. It is therefore moved into what is computed
# once: u and the centers are both divided by it, the kernel is replaced by the one in these units,
# and the codes of the centers are used as they are. Kernels of x.z need only the centers divided.
#
# Rounding to float16 or int8 is finest near 0, so the centers are first shifted to the middle of
# their range where the kernel is translation invariant.


@dataclass(frozen=True)
class Integers:
    """A table of integers of a few bits each, the first one in the lowest bits."""

    bits: int
    data: NDArray[Any]  # bytes, or numbers of 16 bits


@dataclass(frozen=True, eq=False)
class Tables:
    """A machine in the units of its code; single numbers are constants there.

    Parameters
    ----------
    kernel : Kernel
    packed : dict of PackedArray
        Tables by name: centers, coef, intercept and, where the machine has them, projection,
        shift, scale, jumps, thresholds, log_gamma, log_weights and other parameters of the kernel.
        The step of the columns of a table is a table too.
    integers : dict of Integers
        The outputs of sparse coefficients, and the features of steps.
    map : AffineMap or None
        What happens to the features before a projection, in float32.
    divides : bool
        Whether features are multiplied by ``factor`` over the table ``scale``, and not by it.
    factor : float
    unit : float
        What they are multiplied by behind an asinh or steps.
    log_unit : float
        What is added to the packed logarithms of gamma.
    block : int
    skips_missing : bool
        Whether features that are NaN are left out of distances.
    """

    kernel: Kernel
    packed: dict[str, PackedArray]
    integers: dict[str, Integers]
    map: AffineMap | None = None
    divides: bool = False
    factor: float = 1.0
    unit: float = 1.0
    log_unit: float = 0.0
    block: int = 1
    skips_missing: bool = False

    @property
    def is_asinh(self) -> bool:
        """Whether the scaled features are replaced by their asinh."""
        return isinstance(self.map, CurvedMap) and self.map.is_asinh

    @property
    def steps(self) -> StepMap | None:
        """The step map, its steps in the order of their features."""
        return self.map.steps if isinstance(self.map, CurvedMap) else None

    @property
    def nbytes(self) -> int:
        """Bytes of all tables, and of the single widths, shifts and scales."""
        sizes = [table.data.nbytes for table in self.packed.values()]
        sizes += [table.data.nbytes for table in self.integers.values()]
        names = () if self.map is None else ("shift", "scale")
        sizes += [4 for name in names if name not in self.packed]
        widths = [getattr(self.kernel, name, None) for name in ("gamma", "alpha")]
        return sum(sizes) + sum(4 for value in widths if value is not None and not np.ndim(value))

    def mapped(self, rows: Floats) -> Floats:
        """Features as the kernel takes them, in float32, operation by operation as in the code."""
        if self.map is not None:
            rows, scale = self.map.filled(rows), self.map.scale
            if self.divides:
                scale = np.float32(self.factor) / _codes(self.packed["scale"])
            rows = (rows - self.map.shift) * scale
        if self.block > 1:
            side = math.isqrt(rows.shape[1])
            shape = (len(rows), side // self.block, self.block, side // self.block, self.block)
            rows = rows.reshape(shape).mean(axis=(2, 4), dtype=np.float32).reshape(len(rows), -1)
        if self.is_asinh:
            rows = np.arcsinh(rows)
        if self.steps is not None:
            rows = self.steps(rows)
        if "projection" in self.packed:
            step = np.float32(self.packed["projection"].step)
            return (step * rows) @ _codes(self.packed["projection"]).T
        return rows * np.float32(self.unit) if self.unit != 1 else rows

    def outputs(self, rows: Floats) -> tuple[Floats, Floats]:
        """Outputs in float32, and the sizes of their terms.

        These are sum_j abs(coef_j k(x, z_j)) + abs(intercept).
        """
        centers, coef = self.packed["centers"].decoded(), self._dense_coef()
        intercept, step = self.packed["intercept"].decoded(), np.float32(self.packed["coef"].step)
        with np.errstate(all="ignore"):
            mapped = self.mapped(rows)
            values = np.stack([self._kernel_values(u, centers) for u in mapped])
            sizes = np.abs(values) @ np.abs(step * coef) + np.abs(intercept)
            return step * (values @ coef) + intercept, sizes  # the step is multiplied at the end

    def _kernel_values(self, u: Floats, centers: Floats) -> Floats:
        """k(u, z) for every center z; with ``skips_missing``, over the features present."""
        is_missing = np.isnan(u)
        if not self.skips_missing or not is_missing.any():
            return _kernel_values(self.kernel, u, centers)
        if is_missing.all():
            return _kernel_values(self.kernel, np.zeros_like(u), centers)
        ratio = np.sqrt(np.float32(len(u)) / np.float32((~is_missing).sum()))
        differences = ratio * (centers - u)[:, ~is_missing]
        return _kernel_values(self.kernel, np.zeros_like(differences[0]), differences)

    def outputs_of_centers(self) -> NDArray[Any] | None:
        """The output of each coefficient, where a center has only some."""
        sparse_coef = self._sparse_coef()
        return None if sparse_coef is None else sparse_coef.outputs()

    def _sparse_coef(self) -> SparsePackedArray | None:
        """The codes of the coefficients, where a center has only some."""
        if "outputs" not in self.integers:
            return None
        codes, n_outputs = replace(self.packed["coef"], step=1.0), self.packed["intercept"].shape[0]
        return SparsePackedArray(codes, self.integers["outputs"].data, n_outputs)

    def _dense_coef(self) -> Floats:
        """Codes of the coefficients, of shape (n_centers, n_outputs)."""
        sparse_coef = self._sparse_coef()
        return _codes(self.packed["coef"]) if sparse_coef is None else sparse_coef.decoded().T


def _codes(array: PackedArray) -> Floats:
    """What a step multiplies, in float32."""
    return replace(array, step=1.0).decoded()


def _kernel_values(kernel: Kernel, u: Floats, centers: Floats) -> Floats:
    """k(u, z) for every center z, in float32, by differences where the code takes them."""
    if kernel.is_translation_invariant:  # k(u, z) = k(0, z - u): the formula sees |z - u|^2 alone
        u, centers = np.zeros_like(u), centers - u
    x_norms, z_norms = (np.square(A).sum(axis=1)[None] for A in (u[None], centers))
    if type(kernel).of_products is Kernel.of_products:
        return kernel.evaluate(u[None], centers, x_norms, z_norms)[0]
    return kernel.of_products((centers @ u)[None], x_norms, z_norms)[0]


def is_packed(expansion: KernelExpansion) -> bool:
    """Whether a machine has packed arrays, and not only float32 numbers."""
    is_special = isinstance(expansion, QuantizedExpansion) and (
        expansion.n_entries is not None or expansion.steps is not None or expansion.block > 1
    )
    return is_special or set(getattr(expansion, "storage", {}).values()) - {"float32"} != set()


def pack(model: Model, storage: str) -> tuple[Model, Tables]:
    """The model after its numbers were rounded, and the tables of these numbers."""
    expansion = model.expansion
    expansion.kernel.to_dict()  # refuses a kernel without a name
    if storage not in STORAGES[1:]:
        raise ValueError(f"storage={storage!r} is not one of {', '.join(STORAGES)}.")
    if not expansion.n_centers:
        raise ValueError("A machine without centers is a constant; there is nothing to export.")
    own = getattr(expansion, "storage", {})
    is_stored = storage == "stored" or set(own.values()) == {storage} != {"float32"}
    map, kernel, packed = _stored(model) if is_stored else _encoded(model, storage)
    coef, integers = packed["coef"].decoded(), {}
    if isinstance(packed["coef"], SparsePackedArray):
        integers["outputs"] = Integers(index_bits(len(coef)), packed["coef"].data)
        packed["coef"] = packed["coef"].values
    else:
        coef = coef.T
    block = _block(model)
    if map is not None:
        matrix = packed["projection"].decoded() if "projection" in packed else None
        if block > 1:
            means = block_means(packed.get("projection", packed["centers"]).shape[1], block)
            matrix = means if matrix is None else matrix @ means
        shift, scale = map.shift.astype(np.float32), map.scale.astype(np.float32)
        fill = None if map.fill is None else map.fill.astype(np.float32)
        map = replace(map, shift=shift, scale=scale, matrix=matrix, fill=fill)
    skips = model.missing == "distance"
    if skips and map is None:  # features are copied, to be counted
        map = AffineMap(np.zeros(1, np.float32), np.ones(1, np.float32))
    centers, intercept = packed["centers"].decoded(), packed["intercept"].decoded()
    rounded = KernelExpansion(kernel, centers, coef, intercept, map, skips)
    tables = Tables(kernel, packed, integers, map, block=block, skips_missing=skips)
    tables = _in_steps_of_the_centers(_with_front(tables, model, is_stored))
    return replace(model, expansion=rounded, scaler=None), _with_more_tables(tables)


def _block(model: Model) -> int:
    """The side of the blocks of pixels; a matrix in front of them has the means in it."""
    has_matrix = model.scaler is not None and model.scaler.matrix is not None
    return 1 if has_matrix else getattr(model.expansion, "block", 1)


def _stored(model: Model) -> tuple[AffineMap | None, Kernel, dict[str, Any]]:
    """Map, kernel and packed arrays of a compact machine, the coefficients by centers."""
    expansion, map = model.expansion, model.input_map
    if not isinstance(expansion, QuantizedExpansion):
        raise ValueError(
            'storage="stored" is for machines that hold packed arrays, of CompactKernelClassifier '
            'and CompactKernelRegressor; give "float32", "float16" or "int8".'
        )
    packed = {name: array for name, array in expansion.packed.items() if array is not None}
    if expansion.n_centers == 1:  # one width is a constant
        packed.pop("log_gamma", None)
    coef = packed["coef"]
    if not isinstance(coef, SparsePackedArray):
        step = coef.step if coef.format.has_step else None
        packed["coef"] = encode(coef.decoded().T, coef.format, step)
    intercept = expansion.intercept
    if intercept.dtype == np.float16:
        packed["intercept"] = PackedArray(FORMATS["float16"], intercept.shape, intercept)
    else:
        packed["intercept"] = encode(intercept, FORMATS["float32"])
    if map is not None and model.scaler is not None and model.scaler.matrix is not None:
        # one matrix for that of the scaler and that of the machine, which is packed
        packed["projection"] = encode(map.matrix, FORMATS["float32"])
    return map, expansion.kernel, packed


def _encoded(model: Model, storage: str) -> tuple[AffineMap | None, Kernel, dict[str, Any]]:
    """Map, kernel and arrays in one format."""
    map, centers, kernel = _frame(model, storage)
    projection = None if map is None else map.matrix
    if _block(model) > 1:  # without the matrix of the means
        own = model.expansion.packed["projection"]  # type: ignore[attr-defined]
        projection = None if own is None else own.decoded()
    arrays = {"centers": centers, "coef": model.expansion.coef.T, "projection": projection}
    format = FORMATS[storage]
    packed = {name: encode(a, format) for name, a in arrays.items() if a is not None}
    packed["intercept"] = encode(model.expansion.intercept, FORMATS["float32"])
    own_tables = getattr(model.expansion, "packed", {})
    if "log_weights" in own_tables:
        packed["log_weights"] = own_tables["log_weights"]
    return map, kernel, packed


def _frame(model: Model, storage: str) -> tuple[AffineMap | None, Floats, Kernel]:
    """Input map, centers and kernel about 0, where the kernel allows it."""
    map, kernel = model.input_map, model.expansion.kernel
    centers = dense_points(dense_centers(model.expansion.centers))
    is_last = map is not None and (map.matrix is not None or isinstance(map, CurvedMap))
    # A fill value comes before the map, and a row without any feature counts as zeros behind it.
    is_last = is_last or model.missing != "error"
    if not kernel.is_translation_invariant or is_last:
        return map, centers, kernel
    if storage == "float32":
        if map is None:
            return map, centers, kernel
        shift, scale = (float(values[0]) for values in (map.shift, map.scale))
        if len(map.scale) == len(map.shift) == 1 and abs(shift * scale) < _FAR_FROM_ZERO:
            # One scale and one shift for all features can be taken into the centers.
            return None, centers / scale + shift, kernel.scaled(scale)[0]
        return *about(map, centers, np.zeros(1)), kernel
    return *about(map, centers, _middle(centers)), kernel


def _middle(centers: Floats) -> Floats:
    """The middle of all numbers, or of each feature where that halves the largest."""
    low, high = centers.min(axis=0), centers.max(axis=0)
    if 2 * (high - low).max() < high.max() - low.min():
        return (low + high) / 2
    return np.array([(low.min() + high.max()) / 2])


def _with_front(tables: Tables, model: Model, is_stored: bool) -> Tables:
    """With the tables of shifts, scales and steps of single features."""
    map, packed = tables.map, dict(tables.packed)
    if map is None:
        return tables
    for name, values in (("shift", map.shift), ("scale", map.scale)):
        if len(values) > 1:
            packed[name] = encode(values, FORMATS["float32"])
    own = model.expansion if is_stored and model.scaler is None else None
    if map.fill is not None:
        packed["fill"] = getattr(own, "fill", None) or encode(map.fill, FORMATS["float32"])
    shift, scale = (getattr(own, name, None) for name in ("shift", "scale"))
    if isinstance(shift, PackedArray):
        packed["shift"] = shift
    # A scale in float16 stays what it is, and features are divided by it.
    divides = isinstance(scale, PackedArray) and scale.format.name == "float16"
    if isinstance(scale, PackedArray) and divides:
        packed["scale"] = scale
    factor = 1 / packed["scale"].step if divides else 1.0
    tables = replace(tables, packed=packed, divides=divides, factor=factor)
    if tables.steps is None:
        return tables
    return _with_steps(tables, getattr(model.expansion, "steps", None))


def _with_steps(tables: Tables, stored: PackedSteps | None) -> Tables:
    """With the tables of a step map in the order of the features, in which the code needs them."""
    steps = tables.steps
    assert isinstance(tables.map, CurvedMap)
    assert steps is not None
    order = np.argsort(steps.features, kind="stable")
    steps = StepMap(steps.features[order], steps.thresholds[order], steps.jumps[order])
    if stored is None:
        thresholds = encode(steps.thresholds, FORMATS["float32"])
        jumps = encode(steps.jumps, FORMATS["float32"])
    else:
        own = stored.thresholds[order]
        thresholds = PackedArray(FORMATS[own.dtype.name], own.shape, own)
        jumps = encode(steps.jumps, stored.jumps.format, stored.jumps.step)
    numbers = steps.features.astype(np.uint16 if stored is None else stored.features.dtype)
    features = Integers(8 * numbers.dtype.itemsize, numbers)
    return replace(
        tables,
        map=replace(tables.map, steps=steps),
        packed=tables.packed | {"thresholds": thresholds, "jumps": jumps},
        integers=tables.integers | {"features": features},
    )


def _in_steps_of_the_centers(tables: Tables) -> Tables:
    """The same function with centers of step 1."""
    packed, map, step = dict(tables.packed), tables.map, tables.packed["centers"].step
    if step == 1.0:
        return tables
    kernel, factor = tables.kernel.scaled(step)
    packed["centers"] = replace(packed["centers"], step=1.0)
    packed["coef"] = _with_step(packed["coef"], packed["coef"].step * factor)
    changed: dict[str, Any] = {}
    if "log_gamma" in packed:
        changed["log_unit"] = 2 * math.log(step)
    if not kernel.is_translation_invariant:
        pass  # x.z needs only the centers divided
    elif "projection" in packed:
        projection = packed["projection"]
        packed["projection"] = _with_step(projection, projection.step / step)
    elif isinstance(map, CurvedMap):
        changed["unit"] = 1 / step
    elif tables.divides:
        changed["factor"] = tables.factor / step
    else:
        map = AffineMap(np.zeros(1, np.float32), np.ones(1)) if map is None else map
        map = replace(map, scale=(map.scale / step).astype(np.float32))
        if "scale" in packed:
            packed["scale"] = encode(map.scale, FORMATS["float32"])
    return replace(tables, kernel=kernel, packed=packed, map=map, **changed)


def _with_step(array: PackedArray, step: float) -> PackedArray:
    """The same codes times another step; float32 stores no step, so its numbers change instead."""
    if array.format.has_step:
        return replace(array, step=step)
    return replace(array, data=array.data * np.float32(step), step=1.0)


def _with_more_tables(tables: Tables) -> Tables:
    """With the parameters of the kernel as tables."""
    packed = dict(tables.packed)
    for name, value in tables.kernel.to_dict().items():
        is_stored = name in packed or f"log_{name}" in packed
        is_table = isinstance(value, np.ndarray) and (np.size(value) > 1 or value.ndim > 1)
        if is_table and not is_stored:
            packed[name] = encode(value, FORMATS["float32"])
    return replace(tables, packed=packed)
